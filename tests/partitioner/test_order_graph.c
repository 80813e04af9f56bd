// Blocks and downsets of graphs, against orders of the layers and plain sets.
#include "partitioner/orders/order_graph.h"

#include "common/number.h"
#include "partitioner/orders/order_linear.h"
#include "partitioner/stage_cost.h"
#include "profiler/profile_reorder.h"
#include "tests/partitioner/small_dag.h"

static struct order_graph *graph_of(const struct profile *profile, bool reduce)
{
    struct error error = { 0 };
    bool too_many;
    const struct order_graph_request request = { .profile = profile, .reduce = reduce };
    struct order_graph *graph = order_graph_create(&request, &too_many, &error);
    assert_good(graph, error);
    return graph;
}

static struct profile *random_profile(uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t layers = 2 + (uint32_t)random_below(seed, 9);
    struct profile *profile = small_random_dag(seed, layers, 4, 1000);
    profile->tied = calloc(2, sizeof profile->tied[0]);
    profile->no_cut_after = calloc(1, sizeof profile->no_cut_after[0]);
    for (uint64_t i = random_below(seed, 3); i > 0; i--) {
        const uint32_t from = (uint32_t)random_below(seed, layers - 1);
        profile->tied[profile->tied_count++] =
            (struct edge){ from, from + 1 + (uint32_t)random_below(seed, layers - from - 1) };
    }
    if (random_below(seed, 3) == 0)
        profile->no_cut_after[profile->no_cut_count++] = (uint32_t)random_below(seed, layers);
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static bool is_parted(const struct edge *pairs, size_t count, uint32_t set)
{
    for (size_t i = 0; i < count; i++)
        if ((set >> pairs[i].from & 1) != (set >> pairs[i].to & 1))
            return true;
    return false;
}

// A set of layers that a plan's first stages may hold.
static bool may_be_cut(const struct profile *profile, uint32_t set)
{
    for (size_t e = 0; e < profile->edge_count; e++)
        if ((set >> profile->edges[e].to & 1) && !(set >> profile->edges[e].from & 1))
            return false;
    for (size_t i = 0; i < profile->no_cut_count; i++) {
        const struct edge pair = { profile->no_cut_after[i], profile->no_cut_after[i] + 1 };
        if (pair.to < profile->layer_count && is_parted(&pair, 1, set))
            return false;
    }
    return !is_parted(profile->tied, profile->tied_count, set);
}

static uint32_t set_of(const struct order_graph *graph, uint32_t downset)
{
    uint32_t layers[SMALL_DAG_MOST], set = 0;
    for (uint32_t i = order_graph_layers(graph, 0, downset, layers); i-- > 0;)
        set |= 1u << layers[i];
    return set;
}

static void downsets_are_all_sets_that_may_be_cut_off(void **state)
{
    (void)state;
    uint64_t seed = 61;
    for (uint64_t trial = 0; trial < test_trials(300, 5000); trial++) {
        struct profile *profile = random_profile(&seed);
        struct order_graph *graph = graph_of(profile, false);
        size_t count = 0;
        for (uint32_t set = 0; set < 1u << profile->layer_count; set++)
            count += may_be_cut(profile, set);
        if (count != graph->downset_count)
            fail_msg("trial %d: %d downsets, but %d sets", (int)trial, (int)graph->downset_count, (int)count);
        for (uint32_t d = 0; d < count; d++)
            if (!may_be_cut(profile, set_of(graph, d)))
                fail_msg("trial %d: downset %d may not be cut off", (int)trial, (int)d);
        order_graph_free(graph);
        profile_free(profile);
    }
}

static void sums_and_messages_are_those_of_an_order(void **state)
{
    (void)state;
    uint64_t seed = 62;
    for (uint64_t trial = 0; trial < test_trials(200, 3000); trial++) {
        struct error error = { 0 };
        struct profile *profile = random_profile(&seed);
        struct order_graph *graph = graph_of(profile, false);
        for (uint32_t d = 0; d < graph->downset_count; d++) {
            uint32_t order[SMALL_DAG_MOST];
            const uint32_t end = order_graph_layers(graph, 0, d, order);
            order_graph_layers(graph, d, (uint32_t)graph->downset_count - 1, order + end);
            struct profile *ordered = profile_reorder(profile, order, &error);
            assert_good(ordered, error);
            uint64_t forward = 0;
            for (uint32_t l = 0; l < end; l++)
                forward += ordered->layers[l].forward_ns;
            if (graph->cut[d] != stage_cut_bytes(ordered, end) || graph->sums[SUM_FORWARD][d] != forward)
                fail_msg("trial %d: downset %d takes something else", (int)trial, (int)d);
            profile_free(ordered);
        }
        order_graph_free(graph);
        profile_free(profile);
    }
}

// Whatever two downsets are in two groups, the groups say no more than they.
static void groups_promise_no_more_than_their_downsets(void **state)
{
    (void)state;
    uint64_t seed = 63;
    for (uint64_t trial = 0; trial < test_trials(200, 3000); trial++) {
        struct error error = { 0 };
        struct profile *profile = random_profile(&seed);
        struct order_graph *graph = graph_of(profile, false), *coarse = graph_of(profile, false);
        assert_good(order_graph_coarsen(coarse, 3 + (uint32_t)random_below(&seed, 6), &error), error);
        for (uint32_t d = 0; d < graph->downset_count; d++) {
            bool found = false;
            for (uint32_t group = 0; group < coarse->downset_count && !found; group++) {
                found = coarse->cut[group] <= graph->cut[d];
                for (enum order_sum sum = 0; sum < ORDER_SUMS; sum++)
                    found &= coarse->sums[sum][group] <= graph->sums[sum][d]
                          && graph->sums[sum][d] <= coarse->most[sum][group];
            }
            if (!found)
                fail_msg("trial %d: no group holds downset %d", (int)trial, (int)d);
        }
        order_graph_free(graph);
        order_graph_free(coarse);
        profile_free(profile);
    }
}

static void linear_orders_are_orders(void **state)
{
    (void)state;
    uint64_t seed = 64;
    for (uint64_t trial = 0; trial < test_trials(300, 5000); trial++) {
        struct error error = { 0 };
        struct profile *profile = random_profile(&seed);
        for (enum order_kind kind = 0; kind < ORDER_KINDS; kind++) {
            uint32_t order[SMALL_DAG_MOST];
            assert_good(order_linear(profile, kind, order, &error), error);
            assert_good(profile_order_check(profile, order, &error), error);
        }
        profile_free(profile);
    }
}

// Two long branches: one after the other, not layer by layer in turns.
static void branches_are_followed_to_their_ends(void **state)
{
    (void)state;
    static const struct small_layer row = { 1000, 2000, 1, 1, 1, INPUT_KEPT_BOTH, 1, 1, 1 };
    static const struct edge edges[] = { { 0, 1 }, { 0, 2 }, { 1, 3 }, { 2, 4 }, { 3, 5 }, { 4, 5 } };
    static const uint32_t followed[] = { 0, 1, 3, 2, 4, 5 };
    const struct small_layer rows[] = { row, row, row, row, row, row };
    struct error error = { 0 };
    struct profile *profile = small_chain(rows, 6);
    small_set_edges(profile, edges, 6);
    uint32_t order[6];
    assert_good(order_linear(profile, ORDER_DEPTH_FIRST, order, &error), error);
    assert_memory_equal(order, followed, sizeof followed);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(downsets_are_all_sets_that_may_be_cut_off),
        cmocka_unit_test(sums_and_messages_are_those_of_an_order),
        cmocka_unit_test(groups_promise_no_more_than_their_downsets),
        cmocka_unit_test(linear_orders_are_orders),
        cmocka_unit_test(branches_are_followed_to_their_ends),
    };
    return cmocka_run_group_tests_name("order_graph", tests, NULL, NULL);
}
