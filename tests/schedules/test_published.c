// Numbers that were published, or that a reader can check: what the formulas of test_formulas.c say of single
// cases, and what no formula says.
#include "schedules/generators/generate.h"

#include "common/random.h"
#include "schedules/check.h"
#include "schedules/lower.h"
#include "schedules/slots.h"
#include "tests/schedules/even_world.h"

// Of the least loaded rank: (PP/2 - 1)(F&B + B - 3W) for PP stages, and PP + 1 micro-batches of a stage on every
// rank; with as few micro-batches as there may be, and with more.
static void assert_two_streams(bool is_v, uint32_t stages, uint64_t together, uint32_t more)
{
    const uint32_t ranks = is_v ? stages / 2 : stages;
    const struct world world = { .p = ranks, .m = 2 * ranks + more, .v = is_v ? 2 : 1, .f = 2, .i = 2, .w = 2,
                                 .held = KEPT, .together = together };
    struct schedule *schedule = scheduled(is_v ? "dualpipev" : "dualpipe", &world);
    struct simulation simulation = simulated(schedule);
    uint64_t least_busy = UINT64_MAX;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        if (simulation.per_rank[rank].busy_ns < least_busy)
            least_busy = simulation.per_rank[rank].busy_ns;
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, (stages + 1) * KEPT);
    }
    assert_int_equal(simulation.iteration_ns - least_busy, (stages / 2 - 1) * (together + 4 - 6));
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static void two_streams_cost_what_the_formula_says(void **state)
{
    (void)state;
    for (uint32_t stages = 4; stages <= 32; stages *= 2) {
        for (uint64_t together = 4; together <= 6; together++) {
            for (uint32_t more = 0; more <= 4; more += 2) {
                assert_two_streams(false, stages, together, more);
                assert_two_streams(true, stages, together, more);
            }
        }
    }
}

// PyTorch's file for four ranks and ten micro-batches, timed.
static void dualpipev_takes_66_59_52(void **state)
{
    (void)state;
    for (uint64_t together = 4; together <= 6; together++) {
        const struct world world = { .p = 4, .m = 10, .v = 2, .f = 2, .i = 2, .w = 2, .held = KEPT,
                                     .together = together };
        struct schedule *schedule = scheduled("dualpipev", &world);
        struct simulation simulation = simulated(schedule);
        assert_int_equal(simulation.iteration_ns, 2 * (52 + 7 * (together - 4)));
        for (uint32_t rank = 0; rank < 4; rank++)
            assert_int_equal(simulation.per_rank[rank].live_peak_bytes, 9 * KEPT);
        simulation_clear(&simulation);
        schedule_free(schedule);
    }
}

// A reader's numbers: p = 4, m = 8, F, I, W = 3, 4, 2, keeping 100 and 60.
static struct known_row {
    const char *name;
    const char *schedule;
    uint32_t v;
    uint64_t span_bubble;
    uint64_t peaks[4];
} known_rows[] = {
    { "1f1b: 27, and 400 300 200 100", "1f1b", 1, 27, { 400, 300, 200, 100 } },
    { "zb-h1: 15, and 400 360 320 280", "zb-h1", 1, 15, { 400, 360, 320, 280 } },
    { "zb-h2: 9, and 700 620 540 460", "zb-h2", 1, 9, { 700, 620, 540, 460 } },
    { "interleaved, v=2: 27 of halved stages, and 1100 900 700 500", "interleaved", 2, 27, { 1100, 900, 700, 500 } },
};

static void known_numbers_come_out(void **state)
{
    const struct known_row *row = *state;
    const struct world world = { .p = 4, .m = 8, .v = row->v, .f = 3, .i = 4, .w = 2, .held = 60 };
    struct schedule *schedule = scheduled(row->schedule, &world);
    struct simulation simulation = simulated(schedule);
    assert_int_equal(simulation.max_span_ns - 8 * row->v * 9, row->span_bubble);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, row->peaks[rank]);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

// The zero-bubble authors' table: microseconds of F, B, W and a hop, and what the schedules cost.
static struct published_row {
    const char *name;
    uint32_t p, m;
    uint64_t f, b, w, c;
    uint64_t costs[3];  // 1F1B, ZB-H1, ZB-H2
} published_rows[] = {
    { "published: 1.5B, p=8, m=24", 8, 24, 18522, 18086, 9337, 601, { 1456749, 1310405, 1236632 } },
    { "published: 1.5B, p=8, m=32", 8, 32, 18513, 18086, 9331, 626, { 1833838, 1678164, 1604083 } },
    { "published: 1.5B, p=8, m=64", 8, 64, 18546, 18097, 9321, 762, { 3357932, 3154286, 3078371 } },
    { "published: 14.6B, p=16, m=48", 16, 48, 11347, 11248, 8132, 377, { 1980287, 1714461, 1581171 } },
    { "published: 14.6B, p=16, m=64", 16, 64, 11307, 11254, 8101, 379, { 2478390, 2202008, 2069123 } },
    { "published: 14.6B, p=16, m=128", 16, 128, 11325, 11308, 8109, 378, { 4497410, 4175516, 4042541 } },
};

static void published_costs_are_exact(void **state)
{
    const struct published_row *row = *state;
    static const char *const names[] = { "1f1b", "zb-h1", "zb-h2" };
    for (size_t i = 0; i < 3; i++) {
        const struct world world = { .p = row->p, .m = row->m, .v = 1, .f = row->f, .i = row->b, .w = row->w };
        struct schedule *schedule = scheduled(names[i], &world);
        struct error error = { 0 };
        struct network *network = network_uniform(row->p, (struct link){ row->c, 0 }, &error);
        assert_good(network, error);
        struct simulation simulation;
        assert_good(schedule_simulate(schedule, NULL, network, &simulation, NULL, &error), error);
        assert_int_equal(simulation.max_span_ns, row->costs[i]);
        simulation_clear(&simulation);
        network_free(network);
        schedule_free(schedule);
    }
}

// Paced by its slowest stage once it has been filled; nothing stays for a backward.
static void inference_is_as_fast_as_its_forwards(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t m = 1; m <= 9; m++) {
            const struct world world = { .p = p, .m = m, .v = 1, .f = 3, .i = 5, .w = 7 };
            struct schedule *schedule = scheduled("forward-only", &world);
            struct simulation simulation = simulated(schedule);
            assert_int_equal(simulation.iteration_ns, (m + p - 1) * 3);
            for (uint32_t rank = 0; rank < p; rank++) {
                assert_int_equal(simulation.per_rank[rank].busy_ns, m * 3);
                assert_int_equal(simulation.per_rank[rank].live_peak_bytes, KEPT);
            }
            simulation_clear(&simulation);
            schedule_free(schedule);
        }
    }
}

// What `more` micro-batches add to a run of many, with replicas that each take as much longer.
static uint64_t added_by(const char *name, const uint32_t *replicas, uint32_t stages, uint32_t more)
{
    uint64_t iteration[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct generate_request request = { .micro_batches = 60 + i * more, .replicas = replicas, .stages = stages };
        for (uint32_t s = 0; s < stages; s++)
            request.ranks += replicas[s];
        if (request.ranks == stages)
            request.replicas = NULL;
        struct error error = { 0 };
        struct schedule *schedule = schedule_generate_as(name, &request, &error);
        assert_good(schedule, error);
        schedule->costs = calloc(stages, sizeof *schedule->costs);
        for (uint32_t s = 0; s < stages; s++)
            schedule->costs[s] = (struct cost_row){ .forward_ns = replicas[s], .backward_ns = 2 * replicas[s] };
        struct simulation simulation = simulated(schedule);
        iteration[i] = simulation.iteration_ns;
        simulation_clear(&simulation);
        schedule_free(schedule);
    }
    return iteration[1] - iteration[0];
}

// Without a flush a micro-batch takes what its slowest stage does. (Replicas wait for each other at each REDUCE; in
// these cases there is time for that.)
static void asynchronous_runs_have_no_bubble_in_the_long_run(void **state)
{
    (void)state;
    static const uint32_t replicas[][4] = { { 1, 1, 1, 1 }, { 2, 1 }, { 3, 1 }, { 2, 2 } };
    assert_int_equal(added_by("pipedream", replicas[0], 4, 60), 3 * 60);
    assert_int_equal(added_by("pipedream-2bw", replicas[0], 4, 60), 3 * 60);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(added_by("pipedream", replicas[i], 2, 60), 3 * 60);
}

// How often a micro-batch crosses a boundary between ranks on its way forward, and as often on its way back; and
// how many stages' weights a rank holds. p = 4, m = 8.
static struct traffic_row {
    const char *name;
    const char *schedule;
    uint32_t v, k;
    uint32_t messages, weights;
} traffic_rows[] = {
    { "gpipe: a hop for each boundary", "gpipe", 1, 0, 3, 1 },
    { "1f1b: a hop for each boundary", "1f1b", 1, 0, 3, 1 },
    { "zb-h2: a hop for each boundary", "zb-h2", 1, 0, 3, 1 },
    { "interleaved: v times around the ranks", "interleaved", 3, 0, 11, 3 },
    { "looped-bfs: v times around the ranks", "looped-bfs", 2, 0, 7, 2 },
    { "interleaved-zb: v times around the ranks", "interleaved-zb", 2, 0, 7, 2 },
    { "zb-v: there and back, no message at the turn", "zb-v", 2, 0, 6, 2 },
    { "v-half: there and back", "v-half", 2, 0, 6, 2 },
    { "v-min: there and back", "v-min", 2, 0, 6, 2 },
    { "dualpipev: there and back", "dualpipev", 2, 0, 6, 2 },
    { "dualpipe: a hop for each boundary, two copies", "dualpipe", 1, 0, 3, 2 },
    { "chimera: a hop for each boundary, two copies", "chimera", 1, 0, 3, 2 },
    { "hanayo: 2w times through the ranks, without a copy", "hanayo", 6, 0, 18, 6 },
    { "seq1f1b: k smaller messages for each boundary", "seq1f1b", 1, 5, 15, 1 },
};

static void messages_and_weights_are_those_of_the_table(void **state)
{
    const struct traffic_row *row = *state;
    const struct world world = { .p = 4, .m = 8, .v = row->v, .k = row->k, .f = 1, .i = 1, .w = 1 };
    struct schedule *schedule = scheduled(row->schedule, &world);
    for (uint32_t s = 0; s < schedule->stages; s++)
        schedule->costs[s] = (struct cost_row){ .forward_ns = 5, .backward_ns = 5, .backward_input_ns = 5,
                                                .backward_weight_ns = 5, .fixed_bytes = 1000 };
    struct error error = { 0 };
    struct schedule *lowered = schedule_lower(schedule, &error);
    assert_good(lowered, error);
    uint32_t forward = 0, back = 0;
    for (uint32_t rank = 0; rank < 4; rank++) {
        for (size_t i = 0; i < lowered->lists[rank].count; i++) {
            forward += lowered->lists[rank].at[i].kind == ACTION_SEND_F;
            back += lowered->lists[rank].at[i].kind == ACTION_SEND_B;
        }
    }
    assert_int_equal(forward, 8 * row->messages);
    assert_int_equal(back, 8 * row->messages);
    struct simulation simulation = simulated(schedule);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, 1000 * row->weights);
    simulation_clear(&simulation);
    schedule_free(lowered);
    schedule_free(schedule);
}

// As many versions of the weights as there are micro-batches in flight; with vertical sync as many as there are on the
// first stage; with 2BW two.
static void versions_are_those_of_the_papers(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 6; p++) {
        for (uint32_t m = 1; m <= 4 * p; m++) {
            static const char *const names[] = { "pipedream", "pipedream-2bw", "vertical" };
            for (size_t i = 0; i < 3; i++) {
                struct error error = { 0 };
                struct schedule *order = schedule_generate(names[i], p, 0, m, &error);
                assert_good(order, error);
                struct schedule *lowered = schedule_lower(order, &error);
                assert_good(lowered, error);
                struct slots slots[6];
                assert_good(slots_count(lowered, slots, &error), error);
                order->costs = calloc(p, sizeof *order->costs);
                for (uint32_t s = 0; s < p; s++)
                    order->costs[s] = (struct cost_row){ .forward_ns = 1, .backward_ns = 2, .version_bytes = 7 };
                struct simulation simulation = simulated(order);
                for (uint32_t s = 0; s < p; s++) {
                    const uint32_t versions[] = { least(m, p - s), m > p ? 2 : 1, least(m, p) };
                    assert_int_equal(slots[s].versions, versions[i]);
                    assert_int_equal(simulation.per_rank[s].live_peak_bytes, (versions[i] - 1) * 7);
                }
                simulation_clear(&simulation);
                schedule_free(lowered);
                schedule_free(order);
            }
        }
    }
}

// Each backward brings its gradient to the update of its batch; the batches are the same on all stages.
static void assert_updated_in_batches(const struct schedule *order, uint32_t batch)
{
    const uint32_t m = order->micro_batches;
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        const struct action_list *list = &order->lists[rank];
        uint32_t updates = 0;
        for (size_t i = 0; i < list->count; i++) {
            if (list->at[i].kind == ACTION_B)
                assert_int_equal(list->at[i].micro_batch / batch, updates);
            updates += list->at[i].kind == ACTION_STEP;
        }
        assert_int_equal(updates, (m + batch - 1) / batch);
    }
}

// 2BW with 1F1B-RR's order: a batch is what a stage has in flight, its ranks and those behind it in whole turns.
static void two_versions_are_enough_for_replicas(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (uint32_t trial = 0; trial < 400; trial++) {
        uint32_t replicas[4], ranks = 0, batch = 0;
        const uint32_t stages = 1 + (uint32_t)random_below(&seed, 4);
        for (uint32_t s = stages; s-- > 0;) {
            ranks += replicas[s] = 1 + (uint32_t)random_below(&seed, 4);
            const uint32_t in_flight = (ranks + replicas[s] - 1) / replicas[s] * replicas[s];
            batch = in_flight > batch ? in_flight : batch;
        }
        const struct generate_request request = { .ranks = ranks, .replicas = replicas, .stages = stages,
                                                  .micro_batches = 4 + (uint32_t)random_below(&seed, 40) };
        struct error error = { 0 };
        struct schedule *order = schedule_generate_as("pipedream-2bw", &request, &error);
        assert_good(order, error);
        assert_updated_in_batches(order, batch);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        struct check_result result;
        assert_good(schedule_check(lowered, 0, &result, &error), error);
        assert_true(result.ok);
        check_result_clear(&result);
        struct slots slots[4];
        assert_good(slots_count(lowered, slots, &error), error);
        for (uint32_t s = 0; s < stages; s++)
            assert_true(slots[s].versions <= 2);
        schedule_free(lowered);
        schedule_free(order);
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
                const struct world world = { .p = p, .m = m, .v = 2 * w, .f = 1, .i = 1, .w = 1, .held = KEPT };
                struct schedule *schedule = scheduled("hanayo", &world);
                struct simulation simulation = simulated(schedule);
                const uint64_t bubble = simulation.iteration_ns - (uint64_t)m * 2 * w * 3, usual = 2 * w * (p - 1) * 3;
                if (bubble > (m == p ? usual / w : usual))
                    fail_msg("p=%u w=%u m=%u: bubble %u", p, w, m, (unsigned)bubble);
                const uint64_t most = 2 * w * p + (w == 1 || m == p ? 0 : p);
                for (uint32_t rank = 0; rank < p; rank++)
                    assert_true(simulation.per_rank[rank].live_peak_bytes <= KEPT * most);
                simulation_clear(&simulation);
                schedule_free(schedule);
            }
        }
    }
}

int main(void)
{
    enum {
        KNOWN = sizeof known_rows / sizeof known_rows[0],
        PUBLISHED = sizeof published_rows / sizeof published_rows[0],
        TRAFFIC = sizeof traffic_rows / sizeof traffic_rows[0],
        OTHERS = 7,
    };
    struct CMUnitTest tests[OTHERS + KNOWN + PUBLISHED + TRAFFIC] = {
        cmocka_unit_test(waves_divide_the_bubble),
        cmocka_unit_test(two_streams_cost_what_the_formula_says),
        cmocka_unit_test(dualpipev_takes_66_59_52),
        cmocka_unit_test(inference_is_as_fast_as_its_forwards),
        cmocka_unit_test(asynchronous_runs_have_no_bubble_in_the_long_run),
        cmocka_unit_test(versions_are_those_of_the_papers),
        cmocka_unit_test(two_versions_are_enough_for_replicas),
    };
    struct CMUnitTest *next = &tests[OTHERS];
    for (size_t i = 0; i < KNOWN; i++)
        *next++ = (struct CMUnitTest)TEST_ROW(known_numbers_come_out, &known_rows[i]);
    for (size_t i = 0; i < PUBLISHED; i++)
        *next++ = (struct CMUnitTest)TEST_ROW(published_costs_are_exact, &published_rows[i]);
    for (size_t i = 0; i < TRAFFIC; i++)
        *next++ = (struct CMUnitTest)TEST_ROW(messages_and_weights_are_those_of_the_table, &traffic_rows[i]);
    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
