#include "schedules/search/order_bound.h"

#include "schedules/search/order_tree.h"
#include "tests/schedules/random_stages.h"
#include "tests/test.h"

// Larger than what trying every order reaches: the tree, told of no bound, against the bound. That the tree is right is
// for test_order_search.c, where its smaller answers are held against every order there is.

// The least time of all orders, or 0 if they are too many.
static uint64_t least_time(const struct order_problem *problem, struct error *error)
{
    struct order_tree tree;
    assert_good(order_tree_create(&tree, problem, error), *error);
    tree.best_ns = NEVER_NS;
    tree.bound_ns = 0;
    tree.most_nodes = 20000;
    const uint64_t time = order_tree_search(&tree) ? tree.best_ns : 0;
    order_tree_clear(&tree);
    return time;
}

static bool try_one(const struct order_request *request, uint64_t trial)
{
    struct error error = { 0 };
    struct order_problem problem;
    uint64_t bound;
    assert_good(order_problem_create(&problem, request, &error), error);
    assert_good(order_bound(&problem, &bound, &error), error);
    const uint64_t least = least_time(&problem, &error);
    order_problem_clear(&problem);
    if (least > 0 && least < bound)
        fail_msg("trial %llu: an order takes %llu, and the bound is %llu", (unsigned long long)trial,
                 (unsigned long long)least, (unsigned long long)bound);
    return least > 0;
}

static void no_order_beats_the_bound(void **state)
{
    (void)state;
    uint64_t seed = 3, ended = 0;
    const uint64_t trials = test_trials(2000, 30000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct cost_row costs[8];
        const uint32_t v = 1 + trial % 2;
        const uint32_t p = (uint32_t)(v == 1 ? 2 + random_below(&seed, 4) : 1 + random_below(&seed, 3));
        (trial % 3 ? random_stages : random_growing_stages)(costs, p * v, 1, 20, &seed);
        const struct order_request request = {
            .ranks = p, .micro_batches = 1 + (uint32_t)random_below(&seed, v == 1 ? 10 : 5), .chunks = v,
            .placement = trial % 4 == 3 ? PLACEMENT_ONE_WAY : v == 2 ? PLACEMENT_V : PLACEMENT_ONE_WAY,
            .costs = costs, .latency_ns = random_below(&seed, 8),
            .memory_bytes = 100 * (v + (trial % 3 == 0)) + random_below(&seed, 500),
            .objective = (enum order_objective)random_below(&seed, 2),
        };
        ended += try_one(&request, trial);
    }
    assert_true(ended > trials / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_order_beats_the_bound) };
    return cmocka_run_group_tests_name("order_bound", tests, NULL, NULL);
}
