#include "partitioner/plan/plan_path.h"

#include "partitioner/plan_search.h"
#include "tests/partitioner/instance.h"

static uint64_t iteration_with(struct plan *plan, uint32_t stage, uint64_t more_ns)
{
    struct error error = { 0 };
    struct network *network = plan_network(plan, &error);
    const uint32_t micro_batches = plan->weights == WEIGHTS_FLUSH ? plan->micro_batches : 3 * plan->micro_batches;
    struct schedule *lowered = plan_schedule(plan, micro_batches, true, &error);
    struct simulation run = { 0 };
    assert_good(network && lowered, error);
    lowered->costs[stage].forward_ns += more_ns;
    lowered->costs[stage].backward_ns += more_ns;
    assert_good(schedule_simulate(lowered, NULL, network, &run, NULL, &error), error);
    const uint64_t ns = run.iteration_ns;
    simulation_clear(&run);
    schedule_free(lowered);
    network_free(network);
    return ns;
}

// The chain accounts for every moment, and where its actions take 1 ns more each, so much
// longer is the run at least, unless it waits for links, which it may then do less.
static void a_path_is_as_long_as_its_run(void **state)
{
    (void)state;
    uint64_t seed = 71, links = 0, recomputing = 0;
    for (uint64_t trial = 0; trial < test_trials(400, 5000); trial++) {
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, 4);
        struct instance instance = instance_create(&seed, ranks + (uint32_t)random_below(&seed, 5), ranks, true);
        struct error error = { 0 };
        struct plan *plan = plan_search(&instance.request, &(struct error){ 0 });
        struct plan_path path;
        if (plan) {
            assert_good(plan_path_read(plan, &path, &error), error);
            uint64_t sum = path.waiting_ns + path.exchanging_ns, recompute = 0;
            for (size_t s = 0; s < path.stage_count; s++) {
                sum += path.stages[s].compute_ns + path.stages[s].recompute_ns;
                recompute += path.stages[s].recompute_ns;
            }
            for (size_t i = 0; i < path.link_count; i++) {
                sum += path.links[i].ns;
                assert_true(i == 0 || path.links[i - 1].from < path.links[i].from
                            || (path.links[i - 1].from == path.links[i].from
                                && path.links[i - 1].to < path.links[i].to));
            }
            if (sum != path.run_ns || path.run_ns != iteration_with(plan, 0, 0))
                fail_msg("trial %d: parts of %d in a path of %d", (int)trial, (int)sum, (int)path.run_ns);
            for (uint32_t s = 0; path.waiting_ns == 0 && s < path.stage_count; s++) {
                const uint64_t longer = iteration_with(plan, s, 1) - path.run_ns;
                if (longer < path.stages[s].actions)
                    fail_msg("trial %d: %d actions of stage %d take 1 ns more, the run %d", (int)trial,
                             (int)path.stages[s].actions, (int)s, (int)longer);
            }
            links += path.link_count;
            recomputing += recompute > 0;
            plan_path_clear(&path);
        }
        plan_free(plan);
        instance_clear(&instance);
    }
    assert_true(links > 100 && recomputing > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_as_long_as_its_run),
    };
    return cmocka_run_group_tests_name("plan_path", tests, NULL, NULL);
}
