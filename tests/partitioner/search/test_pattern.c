#include "partitioner/search/pattern.h"

#include "common/number.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "tests/test.h"

enum { MOST_RANKS = 6 };

// A pipeline with random costs and links of their own, as the simulator sees it and
// as a pattern does.
struct pipe {
    const char *name;
    uint32_t ranks, micro_batches;
    struct cost_row rows[MOST_RANKS];
    struct network *network;
    struct schedule *order;
    struct pattern pattern;
    struct pattern_stage stages[MOST_RANKS];
    struct pattern_room *room;
};

static const char *const names[] = { "gpipe", "1f1b", "pipedream" };

static void set_up(struct pipe *pipe, uint64_t *seed)
{
    struct error error = { 0 };
    pipe->name = names[random_below(seed, 3)];
    pipe->ranks = 1 + (uint32_t)random_below(seed, MOST_RANKS);
    pipe->micro_batches = 1 + (uint32_t)random_below(seed, 12);
    pipe->order = schedule_generate(pipe->name, pipe->ranks, 1, pipe->micro_batches, &error);
    pipe->network = network_uniform(pipe->ranks, (struct link){ 0 }, &error);
    assert_good(pipe->order && pipe->network, error);
    assert_good(pattern_read(pipe->order, &pipe->pattern, &error), error);
    assert_true(pipe->pattern.is_known);
    pipe->room = pattern_room_create(pipe->ranks, pipe->micro_batches, &error);
    assert_good(pipe->room, error);
    const uint64_t slow = random_below(seed, 3) == 0 ? 300 : 10;
    for (uint32_t s = 0; s < pipe->ranks; s++)
        pipe->rows[s] = (struct cost_row){ .forward_ns = random_below(seed, 100), .backward_ns = random_below(seed, 200),
                                           .recompute_ns = random_below(seed, 50), .output_bytes = random_below(seed, 50) };
    for (uint32_t s = 0; s < pipe->ranks; s++) {
        const struct cost_row *row = &pipe->rows[s];
        struct link links[2];
        for (int i = 0; i < 2; i++) {
            links[i] = (struct link){ random_below(seed, slow), 100000000 * (1 + random_below(seed, 20)) };
            const uint32_t from = i == 0 ? s : s + 1, to = i == 0 ? s + 1 : s;
            if (s + 1 < pipe->ranks)
                pipe->network->links[pipe->network->link_of[from * pipe->ranks + to]] = links[i];
        }
        pipe->stages[s] = (struct pattern_stage){
            row->forward_ns, row->backward_ns + row->recompute_ns,
            transfer_ns(row->output_bytes, links[0].bytes_per_second, 0), links[0].latency_ns,
            transfer_ns(row->output_bytes, links[1].bytes_per_second, 0), links[1].latency_ns };
    }
    struct pattern_stage *last = &pipe->stages[pipe->ranks - 1];
    *last = (struct pattern_stage){ .forward_ns = last->forward_ns, .backward_ns = last->backward_ns };
}

static void tear_down(struct pipe *pipe)
{
    schedule_free(pipe->order);
    network_free(pipe->network);
    pattern_clear(&pipe->pattern);
    free(pipe->room);
}

static uint64_t simulated(struct pipe *pipe)
{
    struct error error = { 0 };
    struct simulation simulation = { 0 };
    struct schedule *lowered = schedule_lower(pipe->order, &error);
    assert_good(lowered, error);
    assert_good(schedule_simulate(lowered, pipe->rows, pipe->network, &simulation, NULL, &error), error);
    const uint64_t time = simulation.iteration_ns;
    simulation_clear(&simulation);
    schedule_free(lowered);
    return time;
}

static void the_time_of_a_pattern_is_the_simulated_one(void **state)
{
    (void)state;
    uint64_t seed = 6;
    for (uint64_t trial = 0; trial < test_trials(1000, 10000); trial++) {
        struct pipe pipe;
        set_up(&pipe, &seed);
        const uint64_t time = pattern_time(&pipe.pattern, pipe.room, pipe.stages, pipe.ranks, NULL);
        if (time != simulated(&pipe))
            fail_msg("trial %d: %s with %u ranks, %u micro-batches: %d, not %d", (int)trial, pipe.name, pipe.ranks,
                     pipe.micro_batches, (int)time, (int)simulated(&pipe));
        tear_down(&pipe);
    }
}

static uint64_t sum_rounds(const struct pipe *pipe, uint32_t first, uint32_t end)
{
    uint64_t sum = 0;
    for (uint32_t s = first; s < end; s++)
        sum += pattern_round_ns(&pipe->stages[s]);
    return sum;
}

// Of all stages those before s are known, and of the others how slow the slowest is.
static uint64_t bound_of_first(const struct pipe *pipe, const struct pattern *pattern, uint32_t s)
{
    if (s == 0)
        return 0;
    const struct pattern_stage *last = &pipe->stages[s - 1];
    struct pattern_rest rest = { .way_ns = pattern_round_ns(last) - last->forward_ns - last->backward_ns };
    rest.round_ns = sum_rounds(pipe, s, pipe->ranks) + rest.way_ns;
    for (uint32_t t = s; t < pipe->ranks; t++)
        rest.serve_ns = max_u64(rest.serve_ns, pipe->stages[t].forward_ns + pipe->stages[t].backward_ns);
    return pattern_time(pattern, pipe->room, pipe->stages, s, &rest);
}

// Of one stage all is known, and of the others the way through them.
static uint64_t bound_of_stage(const struct pipe *pipe, const struct pattern *pattern, uint32_t s)
{
    const struct pattern_stage *stage = &pipe->stages[s];
    const uint64_t behind = sum_rounds(pipe, s, pipe->ranks) - stage->forward_ns - stage->backward_ns;
    return pattern_stage_bound(pattern, s, stage, sum_rounds(pipe, 0, s), behind);
}

static void no_bound_is_above_the_time(void **state)
{
    (void)state;
    uint64_t seed = 7, tight = 0;
    for (uint64_t trial = 0; trial < test_trials(2000, 20000); trial++) {
        struct pipe pipe;
        set_up(&pipe, &seed);
        const uint64_t time = simulated(&pipe);
        uint64_t best = 0;
        for (uint32_t s = 0; s < pipe.ranks; s++) {
            const uint64_t bound = bound_of_stage(&pipe, &pipe.pattern, s);
            const uint64_t partial = bound_of_first(&pipe, &pipe.pattern, s);
            best = max_u64(best, bound);
            if (bound > time || partial > time)
                fail_msg("trial %d: %s: stage %u: bounds %d and %d, but the time is %d", (int)trial, pipe.name, s,
                         (int)bound, (int)partial, (int)time);
        }
        tight += best == time;
        tear_down(&pipe);
    }
    assert_true(tight > test_trials(2000, 20000) / 4);  // and they are of use
}

// --- asynchronous runs --------------------------------------------------------------

static uint64_t simulated_for(struct pipe *pipe, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *own = pipe->order;
    pipe->order = schedule_generate("pipedream", pipe->ranks, 1, micro_batches, &error);
    assert_good(pipe->order, error);
    const uint64_t time = simulated(pipe);
    schedule_free(pipe->order);
    pipe->order = own;
    return time;
}

static uint64_t best_open_bound(const struct pipe *pipe, const struct pattern *pattern)
{
    uint64_t best = pattern_time(pattern, pipe->room, pipe->stages, pipe->ranks, NULL);
    for (uint32_t s = 0; s < pipe->ranks; s++)
        best = max_u64(best, max_u64(bound_of_stage(pipe, pattern, s), bound_of_first(pipe, pattern, s)));
    return best;
}

// T(3m) - T(2m), which the search plans for, against the beginning of m micro-batches.
static void a_run_that_goes_on_takes_no_longer_than_what_m_more_take(void **state)
{
    (void)state;
    uint64_t seed = 8, close = 0, bounded = 0;
    const uint64_t trials = test_trials(3000, 30000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct pipe pipe;
        set_up(&pipe, &seed);
        const uint32_t m = pipe.micro_batches + (trial % 3 == 0 ? 12 : 0);
        struct error error = { 0 };
        struct schedule *order = schedule_generate("pipedream", pipe.ranks, 1, m, &error);
        struct pattern pattern = { 0 };
        assert_good(order && pattern_read(order, &pattern, &error), error);
        free(pipe.room);
        pipe.room = pattern_room_create(pipe.ranks, m, &error);
        assert_good(pipe.room, error);
        if (pattern_continue(&pattern) && m >= pipe.ranks) {
            const uint64_t more = simulated_for(&pipe, 3 * m) - simulated_for(&pipe, 2 * m);
            const uint64_t bound = best_open_bound(&pipe, &pattern);
            if (bound > more)
                fail_msg("trial %d: %u ranks, %u micro-batches: bound %d, but %d", (int)trial, pipe.ranks, m,
                         (int)bound, (int)more);
            close += bound >= more - more / 10;
            bounded++;
        }
        pattern_clear(&pattern);
        schedule_free(order);
        tear_down(&pipe);
    }
    print_message("# %d runs, %d bounds within a tenth\n", (int)bounded, (int)close);
    assert_true(bounded > trials / 3 && close > bounded / 2);
}

static void another_order_has_no_pattern(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 2, 1, 4, &error);
    assert_good(order, error);
    struct action *list = order->lists[0].at;
    const struct action other = list[2];
    list[2] = list[3];  // B0 and F2 change places
    list[3] = other;
    struct pattern pattern;
    assert_good(pattern_read(order, &pattern, &error), error);
    assert_false(pattern.is_known);
    pattern_clear(&pattern);
    schedule_free(order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_of_a_pattern_is_the_simulated_one),
        cmocka_unit_test(no_bound_is_above_the_time),
        cmocka_unit_test(a_run_that_goes_on_takes_no_longer_than_what_m_more_take),
        cmocka_unit_test(another_order_has_no_pattern),
    };
    return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
