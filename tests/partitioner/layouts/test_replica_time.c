#include "partitioner/layouts/replica_time.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "tests/test.h"

enum { MOST_STAGES = 6, MOST_RANKS = 12 };

struct drawn {
    struct replica_stage stages[MOST_STAGES];
    uint32_t replicas[MOST_STAGES], count, ranks, micro_batches;
    enum generator_order order;
};

static const char *const names[] = { [ORDER_1F1B] = "1f1b", [ORDER_GPIPE] = "gpipe",
                                     [ORDER_FORWARD_ONLY] = "forward-only", [ORDER_PIPEDREAM] = "pipedream",
                                     [ORDER_2BW] = "pipedream-2bw" };

static struct drawn draw(uint64_t *seed)
{
    struct drawn drawn = { .count = 1 + (uint32_t)random_below(seed, MOST_STAGES),
                           .order = (enum generator_order)(ORDER_1F1B + random_below(seed, 5)) };
    uint32_t most = 1;
    for (uint32_t s = 0; s < drawn.count; s++) {
        const uint32_t left = MOST_RANKS - drawn.ranks - (drawn.count - s) + 1;
        const uint32_t ranks = 1 + (uint32_t)random_below(seed, left < 5 ? left : 5);
        drawn.stages[s] = (struct replica_stage){ .ranks = ranks, .forward_ns = random_below(seed, 50),
                                               .backward_ns = random_below(seed, 90),
                                               .reduce_ns = ranks > 1 ? random_below(seed, 200) : 0,
                                               .busy_ns = random_below(seed, 60), .latency_ns = random_below(seed, 9) };
        if (drawn.order == ORDER_FORWARD_ONLY)
            drawn.stages[s].backward_ns = drawn.stages[s].reduce_ns = 0;
        drawn.replicas[s] = ranks;
        drawn.ranks += ranks;
        most = ranks > most ? ranks : most;
    }
    drawn.micro_batches = most + (uint32_t)random_below(seed, 30);
    return drawn;
}

// Links on which a byte takes a ns, of the latency of the first stage: each stage gets that.
static uint64_t simulate_run(struct drawn *drawn, uint32_t micro_batches)
{
    struct error error = { 0 };
    const struct generate_request request = { .ranks = drawn->ranks, .micro_batches = micro_batches,
                                              .chunks = 1, .replicas = drawn->replicas, .stages = drawn->count };
    struct schedule *order = schedule_generate_as(names[drawn->order], &request, &error);
    assert_good(order, error);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    const struct link link = { .latency_ns = drawn->stages[0].latency_ns, .bytes_per_second = 1000000000 };
    struct network *network = network_uniform(drawn->ranks, link, &error);
    struct simulator *simulator = simulator_create(lowered, network, &error);
    assert_good(simulator, error);
    struct cost_row rows[MOST_STAGES] = { { 0 } };
    for (uint32_t s = 0; s < drawn->count; s++) {
        drawn->stages[s].latency_ns = drawn->stages[0].latency_ns;
        rows[s].forward_ns = drawn->stages[s].forward_ns;
        rows[s].backward_ns = drawn->stages[s].backward_ns;
        rows[s].reduce_ns = drawn->stages[s].reduce_ns;
        rows[s].output_bytes = s + 1 < drawn->count ? drawn->stages[s].busy_ns : 0;
    }
    const uint64_t ns = simulator_iteration_ns(simulator, rows);
    simulator_free(simulator);
    network_free(network);
    schedule_free(lowered);
    schedule_free(order);
    return ns;
}

static uint64_t simulate(struct drawn *drawn)
{
    const uint32_t m = drawn->micro_batches;
    if (drawn->order != ORDER_PIPEDREAM && drawn->order != ORDER_2BW)
        return simulate_run(drawn, m);
    const uint64_t longer = simulate_run(drawn, 3 * m);
    return longer - simulate_run(drawn, 2 * m);
}

static void replicas_take_what_the_simulator_says(void **state)
{
    (void)state;
    uint64_t seed = 11;
    const uint64_t trials = test_trials(2000, 100000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        struct drawn drawn = draw(&seed);
        const uint64_t simulated = simulate(&drawn);
        struct replica_clock *clock = replica_clock_create(drawn.order, drawn.count, drawn.micro_batches, &error);
        assert_good(clock, error);
        const uint64_t told = replica_time(clock, drawn.stages, drawn.count);
        if (told != simulated)
            fail_msg("trial %d (%s, %u stages, %u ranks, %u micro-batches): %d ns, but the simulator says %d",
                     (int)trial, names[drawn.order], drawn.count, drawn.ranks, drawn.micro_batches, (int)told,
                     (int)simulated);
        assert_int_equal(replica_time(clock, drawn.stages, drawn.count), told);
        replica_clock_free(clock);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_take_what_the_simulator_says),
    };
    return cmocka_run_group_tests_name("replica_time", tests, NULL, NULL);
}
