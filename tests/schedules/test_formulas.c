// The formulas of the papers: for each schedule how long it takes and what each rank
// keeps, as equalities, at many sizes. Times F, I, W are those of one stage (a
// *chunk* where a rank has several), B = I + W; a stage keeps KEPT from F on and
// `held` of it from I to W.
#include "schedules/generate.h"

#include <stdio.h>
#include <string.h>

#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"
#include "tests/test.h"

enum { KEPT = 100 };

struct world {
    uint32_t p, m, v;
    uint64_t f, i, w;
    uint64_t held;
};

static uint64_t full(const struct world *world)
{
    return world->f + world->i + world->w;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

struct law {
    const char *name;
    const char *schedule;
    bool (*holds)(const struct world *world);               // where the formula does
    uint64_t (*bubble)(const struct world *world);          // of the iteration, beyond a rank's work
    uint64_t (*span_bubble)(const struct world *world);     // of the longest rank, from its own start to its own end
    uint64_t (*peak)(const struct world *world, uint32_t rank);  // bytes
    bool is_largest;  // `peak` is that of the hungriest rank
};

// --- where formulas hold --------------------------------------------------------------

static bool always(const struct world *world)
{
    return world->m > 0;
}

static bool fills_ranks(const struct world *world)
{
    return world->m >= world->p;
}

static bool has_whole_rounds(const struct world *world)
{
    return world->m % world->p == 0;
}

static bool is_even_work(const struct world *world)
{
    return world->f == world->i && world->i == world->w;
}

static bool even_whole_rounds(const struct world *world)
{
    return is_even_work(world) && has_whole_rounds(world) && world->held == KEPT;
}

// W fits into the gaps that F and I leave.
static bool h1_holds(const struct world *world)
{
    return world->m >= world->p && world->w <= world->f && world->w <= world->i;
}

// --- bubbles ----------------------------------------------------------------------------

static uint64_t ramp(const struct world *world)  // (p - 1)(F + B), of stages that are v times thinner
{
    return (world->p - 1) * full(world);
}

static uint64_t h1_bubble(const struct world *world)
{
    return (world->p - 1) * (world->f + world->i - world->w);
}

static uint64_t forward_ramp(const struct world *world)
{
    return (world->p - 1) * world->f;
}

// --- peaks --------------------------------------------------------------------------------

static uint64_t keeps_all(const struct world *world, uint32_t rank)
{
    (void)rank;
    return (uint64_t)KEPT * world->m * world->v;
}

static uint64_t keeps_to_the_end(const struct world *world, uint32_t rank)
{
    return (uint64_t)KEPT * least(world->m, world->p - rank);
}

static uint64_t interleaved_peak(const struct world *world, uint32_t rank)
{
    return (uint64_t)KEPT * least(world->m * world->v, 2 * (world->p - 1 - rank) + (world->v - 1) * world->p + 1);
}

static uint64_t h1_peak(const struct world *world, uint32_t rank)
{
    return (world->p - rank) * (uint64_t)KEPT + rank * world->held;
}

static uint64_t all_ranks_keep_p(const struct world *world, uint32_t rank)
{
    (void)rank;
    return (uint64_t)KEPT * world->p * world->v;
}

// The published fit; with an odd p, which it leaves open, ours has three more.
static uint64_t v_half_bubble(const struct world *world)
{
    const uint64_t bubble = world->p % 2 == 0 ? 3 * world->p - 7 : 3 * world->p - 4;
    return bubble * world->f;
}

static uint64_t v_min_bubble(const struct world *world)
{
    return (world->p % 3 == 0 ? 4 * world->p - 7 : 4 * world->p - 5) * world->f;
}

static uint64_t v_half_peak(const struct world *world, uint32_t rank)
{
    (void)rank;
    return (uint64_t)KEPT * 2 * ((world->p + 2) / 2);
}

static uint64_t v_min_peak(const struct world *world, uint32_t rank)
{
    (void)rank;
    return (uint64_t)KEPT * 2 * ((world->p + 4) / 3);
}

static bool v_holds(const struct world *world)
{
    return is_even_work(world) && world->held == KEPT && world->p >= 3 && world->m >= world->p;
}

static bool wave_holds(const struct world *world)
{
    return world->v == 2 && world->m >= world->p && 2 * world->f == world->i + world->w;
}

static bool long_wave_holds(const struct world *world)
{
    return wave_holds(world) && world->m >= 2 * world->p;
}

static uint64_t wave_bubble(const struct world *world)
{
    return 4 * (world->p - 1) * world->f;
}

static struct law laws[] = {
    { .name = "gpipe: bubble (p-1)(F+B), keeps m", .schedule = "gpipe", .holds = always, .bubble = ramp,
      .peak = keeps_all },
    { .name = "1f1b: bubble (p-1)(F+B), keeps min(m, p-r)", .schedule = "1f1b", .holds = always, .bubble = ramp,
      .span_bubble = ramp, .peak = keeps_to_the_end },
    { .name = "pipedream: drains once, keeps min(m, p-r)", .schedule = "pipedream", .holds = always, .bubble = ramp,
      .span_bubble = ramp, .peak = keeps_to_the_end },
    { .name = "pipedream-2bw: drains once, keeps min(m, p-r)", .schedule = "pipedream-2bw", .holds = always,
      .bubble = ramp, .span_bubble = ramp, .peak = keeps_to_the_end },
    { .name = "interleaved: bubble (p-1)(F+B)/v, keeps 2(p-1-r)+(v-1)p+1", .schedule = "interleaved",
      .holds = has_whole_rounds, .bubble = ramp, .span_bubble = ramp, .peak = interleaved_peak },
    { .name = "looped-bfs: bubble (p-1)(F+B)/v, keeps mv", .schedule = "looped-bfs", .holds = fills_ranks,
      .bubble = ramp, .peak = keeps_all },
    { .name = "zb-h1: bubble (p-1)(F+I-W), keeps p-r and holds r", .schedule = "zb-h1", .holds = h1_holds,
      .bubble = h1_bubble, .span_bubble = h1_bubble, .peak = h1_peak },
    { .name = "interleaved-zb: bubble (p-1)F/v, keeps pv on all ranks", .schedule = "interleaved-zb",
      .holds = even_whole_rounds, .bubble = forward_ramp, .peak = all_ranks_keep_p },
    { .name = "v-half: bubble 3p-7, keeps (p+2)/2 on all ranks", .schedule = "v-half", .holds = v_holds,
      .bubble = v_half_bubble, .span_bubble = v_half_bubble, .peak = v_half_peak },
    { .name = "v-min: bubble 4p-5 or 4p-7, keeps (p+4)/3", .schedule = "v-min", .holds = v_holds,
      .bubble = v_min_bubble, .span_bubble = v_min_bubble, .peak = v_min_peak, .is_largest = true },
    { .name = "hanayo: one wave's bubble is 4(p-1)F where B = 2F", .schedule = "hanayo", .holds = wave_holds,
      .bubble = wave_bubble },
    { .name = "hanayo: one wave keeps p on all ranks", .schedule = "hanayo", .holds = long_wave_holds,
      .bubble = wave_bubble, .peak = all_ranks_keep_p },
};
enum { LAWS = sizeof laws / sizeof laws[0] };

static struct schedule *scheduled(const char *name, const struct world *world)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, world->p, world->v, world->m, &error);
    assert_good(schedule, error);
    free(schedule->costs);
    schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    for (uint32_t s = 0; s < schedule->stages; s++) {
        schedule->costs[s] = (struct cost_row){ .forward_ns = world->f, .backward_ns = world->i + world->w,
                                                .backward_input_ns = world->i, .backward_weight_ns = world->w,
                                                .kept_forward_bytes = KEPT, .kept_weight_bytes = world->held };
    }
    return schedule;
}

static struct simulation simulated(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, NULL, NULL, &simulation, NULL, &error), error);
    return simulation;
}

static const char *name_world(const struct law *law, const struct world *world, char buffer[200])
{
    snprintf(buffer, 200, "%s, p=%u m=%u v=%u, F=%u I=%u W=%u held=%u", law->schedule, world->p, world->m, world->v,
             (unsigned)world->f, (unsigned)world->i, (unsigned)world->w, (unsigned)world->held);
    return buffer;
}

static void assert_number(const char *what, uint64_t got, uint64_t want, const struct law *law,
                          const struct world *world)
{
    char where[200];
    if (got != want)
        fail_msg("%s: %s is %llu, not %llu", name_world(law, world, where), what, (unsigned long long)got,
                 (unsigned long long)want);
}

static void assert_law(const struct law *law, const struct world *world)
{
    struct schedule *schedule = scheduled(law->schedule, world);
    struct simulation simulation = simulated(schedule);
    const uint64_t work = (uint64_t)world->m * world->v * full(world);
    if (law->bubble)
        assert_number("the iteration", simulation.iteration_ns, work + law->bubble(world), law, world);
    if (law->span_bubble)
        assert_number("the longest span", simulation.max_span_ns, work + law->span_bubble(world), law, world);
    uint64_t largest = 0;
    for (uint32_t rank = 0; rank < world->p; rank++) {
        const uint64_t peak = simulation.per_rank[rank].live_peak_bytes;
        if (law->peak && !law->is_largest)
            assert_number("a rank's peak", peak, law->peak(world, rank), law, world);
        largest = peak > largest ? peak : largest;
    }
    if (law->peak && law->is_largest)
        assert_number("the largest peak", largest, law->peak(world, 0), law, world);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static bool takes(const struct law *law, const struct world *world)
{
    const struct generate_request request = { .ranks = world->p, .micro_batches = world->m, .chunks = world->v };
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate_as(law->schedule, &request, &error);
    schedule_free(schedule);
    return schedule != NULL;
}

static const uint64_t times[][3] = { { 1, 1, 1 }, { 3, 4, 2 }, { 4, 4, 4 }, { 7, 9, 1 } };

static void law_holds(void **state)
{
    const struct law *law = *state;
    unsigned held_at = 0;
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t m = 1; m <= 3 * p + 1; m++) {
            for (uint32_t v = 1; v <= 4; v++) {
                for (size_t t = 0; t < sizeof times / sizeof times[0]; t++) {
                    const struct world world = { p, m, v, times[t][0], times[t][1], times[t][2], t == 1 ? 60 : KEPT };
                    if (!law->holds(&world) || !takes(law, &world))
                        continue;
                    assert_law(law, &world);
                    held_at++;
                }
            }
        }
    }
    assert_true(held_at > 10);
}

static struct world random_world(uint64_t *seed)
{
    struct world world = { .p = 1 + (uint32_t)random_below(seed, 16), .m = 1 + (uint32_t)random_below(seed, 48),
                           .v = 1 + (uint32_t)random_below(seed, 4), .f = 1 + random_below(seed, 20),
                           .i = 1 + random_below(seed, 20), .w = 1 + random_below(seed, 20),
                           .held = random_below(seed, KEPT + 1) };
    if (random_below(seed, 2)) {
        world.i = world.w = world.f;
        world.held = KEPT;
    }
    if (random_below(seed, 2))
        world.m = (world.m + world.p - 1) / world.p * world.p;
    return world;
}

static void laws_hold_at_any_size(void **state)
{
    (void)state;
    uint64_t seed = 5, tried = 0;
    const uint64_t trials = test_trials(1500, 30000);
    while (tried < trials) {
        const struct law *law = &laws[random_below(&seed, LAWS)];
        const struct world world = random_world(&seed);
        if (!law->holds(&world) || !takes(law, &world))
            continue;
        assert_law(law, &world);
        tried++;
    }
}

// 1F1B's bubble of (p - 1)(F + B), a w-th of it with w waves; more micro-batches than ranks meet at the turns,
// and have more, but never 1F1B's.
static void waves_divide_the_bubble(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 8; p++) {
        for (uint32_t w = 1; w <= 4; w++) {
            for (uint32_t m = p; m <= 4 * p; m += p) {
                const struct world world = { p, m, 2 * w, 1, 1, 1, KEPT };
                struct schedule *schedule = scheduled("hanayo", &world);
                struct simulation simulation = simulated(schedule);
                const uint64_t bubble = simulation.iteration_ns - (uint64_t)m * 2 * w * 3, usual = 2 * w * (p - 1) * 3;
                if (bubble > (m == p ? usual / w : usual))
                    fail_msg("p=%u w=%u m=%u: bubble %u", p, w, m, (unsigned)bubble);
                for (uint32_t rank = 0; rank < p; rank++)
                    assert_true(simulation.per_rank[rank].live_peak_bytes <= KEPT * (2 * w * p + (w == 1 || m == p ? 0 : p)));
                simulation_clear(&simulation);
                schedule_free(schedule);
            }
        }
    }
}

// As many versions of the weights as there are micro-batches in flight; with 2BW two.
static void versions_are_those_of_the_papers(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t m = 1; m <= 4 * p; m++) {
            for (size_t i = 0; i < 2; i++) {
                struct error error = { 0 };
                struct schedule *order = schedule_generate(i ? "pipedream-2bw" : "pipedream", p, 0, m, &error);
                assert_good(order, error);
                struct schedule *lowered = schedule_lower(order, &error);
                assert_good(lowered, error);
                struct slots slots[6];
                assert_good(slots_count(lowered, slots, &error), error);
                for (uint32_t s = 0; s < p; s++)
                    assert_int_equal(slots[s].versions, i ? m > p ? 2 : 1 : least(m, p - s));
                schedule_free(lowered);
                schedule_free(order);
            }
        }
    }
}

int main(void)
{
    enum { OTHERS = 3 };
    struct CMUnitTest tests[OTHERS + LAWS] = {
        cmocka_unit_test(laws_hold_at_any_size),
        cmocka_unit_test(waves_divide_the_bubble),
        cmocka_unit_test(versions_are_those_of_the_papers),
    };
    for (size_t i = 0; i < LAWS; i++)
        tests[OTHERS + i] = (struct CMUnitTest)TEST_ROW(law_holds, &laws[i]);
    return cmocka_run_group_tests_name("formulas", tests, NULL, NULL);
}
