#include "partitioner/cost/priced.h"

#include "schedules/generators/generate.h"
#include "tests/partitioner/evaluate/planned.h"

static struct priced unpriced(void)
{
    struct error error = { 0 };
    struct priced priced = { .schedule = schedule_generate("1f1b", 2, 1, 3, &error) };
    assert_good(priced.schedule, error);
    return priced;
}

static uint64_t time_of(const struct priced *priced)
{
    struct error error = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(priced->schedule, NULL, priced->network, &simulation, NULL, &error), error);
    const uint64_t iteration_ns = simulation.iteration_ns;
    simulation_clear(&simulation);
    return iteration_ns;
}

// 1F1B of two ranks takes (m + p - 1) (F + B) and, along its longest chain, 2 (p - 1) messages more.
static void costs_bring_the_latency_of_messages(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct priced priced = unpriced();
    struct costs costs;
    assert_good(costs_parse("10us,10us,10us,1us", NULL, &costs, &error) && costs_spread(&costs, 2, &error), error);
    assert_good(priced_set(&priced, &(struct pricing){ .costs = &costs }, &error), error);
    assert_null(costs.rows);
    assert_int_equal(time_of(&priced), 4 * 30000 + 2 * 2 * 1000);
    priced_clear(&priced);
    assert_null(priced.network);
}

static void a_clusters_links_take_its_place(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct priced priced = unpriced();
    struct costs costs;
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 5000, 1000000000, &error);
    assert_good(costs_parse("10us,10us,10us,1us", NULL, &costs, &error) && costs_spread(&costs, 2, &error), error);
    assert_good(priced_set(&priced, &(struct pricing){ .costs = &costs, .cluster = cluster }, &error), error);
    assert_int_equal(priced.network->links[0].latency_ns, 5000);
    cluster_free(cluster);
    priced_clear(&priced);

    priced = unpriced();
    cluster = cluster_uniform(1, 1 << 20, 5000, 1000000000, &error);
    assert_false(priced_set(&priced, &(struct pricing){ .cluster = cluster }, &error));
    assert_error(error, "the cluster has 1 devices, and the schedule 2 ranks");
    cluster_free(cluster);
    priced_clear(&priced);
}

static void bytes_that_are_kept_need_no_costs(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct priced priced = unpriced();
    const struct pricing kept = { .kept = { .has_forward = true, .forward_bytes = 100 } };
    assert_good(priced_set(&priced, &(struct pricing){ .costs = NULL }, &error), error);
    assert_null(priced.schedule->costs);
    assert_false(priced_limit_memory(&priced, 1000, &error));
    assert_error(error, "memory: says nothing of a schedule without costs");
    error = (struct error){ 0 };
    assert_good(priced_set(&priced, &kept, &error), error);
    assert_int_equal(priced.schedule->costs[1].kept_forward_bytes, 100);
    assert_int_equal(time_of(&priced), 0);
    assert_good(priced_limit_memory(&priced, 1000, &error), error);
    assert_int_equal(priced.capacity_bytes[1], 1000);
    priced_clear(&priced);
}

// What one says of bytes takes the place of what is there; what one does not say stays.
static void only_what_is_given_is_replaced(void **state)
{
    (void)state;
    struct cost_row rows[2] = { { .kept_forward_bytes = 1, .kept_weight_bytes = 2 },
                                { .kept_forward_bytes = 3, .kept_weight_bytes = 4 } };
    costs_keep(rows, 2, &(struct kept_bytes){ .has_weight = true, .weight_bytes = 0 });
    assert_int_equal(rows[0].kept_forward_bytes, 1);
    assert_int_equal(rows[0].kept_weight_bytes, 0);
    assert_int_equal(rows[1].kept_forward_bytes, 3);
    assert_int_equal(rows[1].kept_weight_bytes, 0);
}

static void a_plan_takes_what_it_says(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct given given = plan_of("1f1b");
    for (int lowered = 0; lowered < 2; lowered++) {
        struct priced priced;
        assert_good(priced_of_plan(given.plan, lowered, &priced, &error), error);
        assert_int_equal(time_of(&priced), given.plan->iteration_ns);
        assert_int_equal(priced.schedule->lowered, lowered);
        assert_int_equal(priced.steady_ns, 0);
        assert_int_equal(priced.capacity_bytes[1], 1 << 20);
        priced_clear(&priced);
    }
    clear(&given);
}

static void an_asynchronous_plan_has_a_steady_iteration(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct given given = plan_of("pipedream");
    struct priced priced;
    assert_good(priced_of_plan(given.plan, true, &priced, &error), error);
    assert_int_equal(priced.steady_ns, given.plan->iteration_ns);
    priced_clear(&priced);
    clear(&given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_bring_the_latency_of_messages),
        cmocka_unit_test(a_clusters_links_take_its_place),
        cmocka_unit_test(bytes_that_are_kept_need_no_costs),
        cmocka_unit_test(only_what_is_given_is_replaced),
        cmocka_unit_test(a_plan_takes_what_it_says),
        cmocka_unit_test(an_asynchronous_plan_has_a_steady_iteration),
    };
    return cmocka_run_group_tests_name("priced", tests, NULL, NULL);
}
