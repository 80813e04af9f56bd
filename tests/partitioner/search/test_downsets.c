// The downsets of a graph against all its sets of nodes, tried one by one.

#include "partitioner/search/downsets.h"
#include "profiler/import.h"
#include "tests/test.h"

#include <stdio.h>
#include <unistd.h>

#define FOLDER "../shared/data/partition/pipedream/"

// Each pair of nodes in a random order of them has an edge with the same chance.
static bool is_within(const struct downsets *downsets, size_t inner, size_t outer)
{
    return downsets_within(downsets_set(downsets, inner), downsets_set(downsets, outer), downsets->words);
}

static size_t random_edges(uint64_t *seed, size_t nodes, uint64_t chance, struct edge *edges)
{
    uint32_t order[16];
    size_t count = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t j = (uint32_t)random_below(seed, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (size_t i = 0; i < nodes; i++)
        for (size_t j = i + 1; j < nodes; j++)
            if (random_below(seed, 100) < chance)
                edges[count++] = (struct edge){ order[i], order[j] };
    return count;
}

static bool is_downset(uint64_t set, const struct edge *edges, size_t count)
{
    for (size_t e = 0; e < count; e++)
        if ((set >> edges[e].to & 1) && !(set >> edges[e].from & 1))
            return false;
    return true;
}

static void check_links(const struct downsets *downsets, uint64_t trial)
{
    for (size_t d = 0; d < downsets->count; d++)
        for (uint32_t at = downsets->above_at[d]; at < downsets->above_at[d + 1]; at++) {
            const struct downset_link link = downsets->above[at];
            if (downsets->sets[link.downset] != (downsets->sets[d] | (uint64_t)1 << link.node)
                || downsets_holds(downsets, d, link.node))
                fail_msg("trial %llu: a link upwards is wrong", (unsigned long long)trial);
        }
    for (size_t d = 0; d < downsets->count; d++)
        for (uint32_t at = downsets->below_at[d]; at < downsets->below_at[d + 1]; at++) {
            const struct downset_link link = downsets->below[at];
            if (downsets->sets[d] != (downsets->sets[link.downset] | (uint64_t)1 << link.node))
                fail_msg("trial %llu: a link downwards is wrong", (unsigned long long)trial);
        }
    assert_int_equal(downsets->above_at[downsets->count], downsets->below_at[downsets->count]);
}

static void all_downsets_of_random_graphs_are_found(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(400, 4000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        const size_t nodes = random_below(&seed, 12);
        struct edge edges[128];
        const size_t count = random_edges(&seed, nodes, 5 + random_below(&seed, 60), edges);
        const struct downset_graph graph = { nodes, edges, count };
        struct error error = { 0 };
        struct downsets *downsets = downsets_create(&graph, 0, &error);
        assert_good(downsets, error);
        size_t expected = 0;
        for (uint64_t set = 0; set < (uint64_t)1 << nodes; set++)
            expected += is_downset(set, edges, count);
        if (downsets->count != expected)
            fail_msg("trial %llu: %zu downsets, not %zu", (unsigned long long)trial, downsets->count, expected);
        for (size_t d = 0; nodes > 0 && d < downsets->count; d++) {
            if (!is_downset(downsets->sets[d], edges, count)
                || (size_t)__builtin_popcountll(downsets->sets[d]) != downsets->size[d])
                fail_msg("trial %llu: number %zu is no downset", (unsigned long long)trial, d);
            assert_true(d == 0 || downsets->size[d - 1] <= downsets->size[d]);
            for (size_t before = 0; before < d; before++)
                assert_true(downsets->sets[before] != downsets->sets[d]);
        }
        if (nodes > 0)
            check_links(downsets, trial);
        downsets_free(downsets);
    }
}

// Every pair from above and from below, once each, the nearest in size first.
static void walks_meet_every_pair_once(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 100; trial++) {
        uint64_t seed = trial;
        struct edge edges[128];
        const size_t nodes = 1 + random_below(&seed, 9);
        const struct downset_graph graph = { nodes, edges, random_edges(&seed, nodes, 30, edges) };
        struct error error = { 0 };
        struct downsets *downsets = downsets_create(&graph, 0, &error);
        assert_good(downsets, error);
        struct downset_walk walk;
        assert_good(downset_walk_create(&walk, downsets, &error), error);
        size_t within = 0, down = 0, up = 0;
        for (uint32_t outer = 0; outer < downsets->count; outer++) {
            for (size_t inner = 0; inner < outer; inner++)
                within += is_within(downsets, inner, outer);
            uint32_t inner, last = downsets->size[outer];
            downset_walk_down(&walk, outer);
            for (; downset_walk_next(&walk, &inner); down++, last = downsets->size[inner])
                assert_true(inner != outer && is_within(downsets, inner, outer) && downsets->size[inner] <= last);
            downset_walk_up(&walk, outer);
            for (; downset_walk_next(&walk, &inner); up++)
                assert_true(inner != outer && is_within(downsets, outer, inner));
        }
        if (within != down || within != up)
            fail_msg("trial %llu: %zu pairs, %zu down, %zu up", (unsigned long long)trial, within, down, up);
        downset_walk_clear(&walk);
        downsets_free(downsets);
    }
}

static void a_pruned_walk_goes_no_further(void **state)
{
    (void)state;
    const uint32_t order[] = { 2, 0, 1, 3 };
    struct error error = { 0 };
    struct downsets *downsets = downsets_of_order(&(struct downset_graph){ .node_count = 4 }, order, &error);
    assert_good(downsets, error);
    assert_int_equal(downsets->count, 5);
    assert_int_equal(downsets->sets[1], 4);
    assert_int_equal(downsets->sets[2], 5);
    struct downset_walk walk;
    assert_good(downset_walk_create(&walk, downsets, &error), error);
    uint32_t met;
    downset_walk_down(&walk, 4);
    assert_true(downset_walk_next(&walk, &met));
    assert_int_equal(met, 3);
    downset_walk_prune(&walk);
    assert_false(downset_walk_next(&walk, &met));
    downset_walk_clear(&walk);
    downsets_free(downsets);
}

// a (0) feeds b (2) and c (3), both feed d (1).
static const struct edge diamond[] = { { 0, 2 }, { 0, 3 }, { 2, 1 }, { 3, 1 } };

static void sums_are_those_of_the_diamond(void **state)
{
    (void)state;
    const struct downset_graph graph = { 4, diamond, 4 };
    const uint64_t value[] = { 1, 1000, 10, 100 };
    struct error error = { 0 };
    struct downsets *downsets = downsets_create(&graph, 6, &error);
    assert_good(downsets, error);
    uint64_t *sum = downsets_sum(downsets, value, &error);
    assert_good(sum, error);
    const uint64_t expected[] = { 0, 1, 11, 101, 111, 1111 };
    assert_int_equal(downsets->count, 6);
    assert_memory_equal(sum, expected, sizeof expected);
    free(sum);
    downsets_free(downsets);
}

static void too_many_are_refused(void **state)
{
    (void)state;
    const struct downset_graph graph = { 4, diamond, 4 };
    struct error error = { 0 };
    assert_null(downsets_create(&graph, 5, &error));
    assert_error(error, "the graph can be cut in more than 5 ways, which are not all tried: too many layers lie beside "
                        "each other");
    const struct downset_graph beside = { 64, NULL, 0 };
    error = (struct error){ 0 };
    assert_null(downsets_create(&beside, 100000, &error));
    assert_error(error, "the graph can be cut in more than 100000 ways, which are not all tried: too many layers lie "
                        "beside each other");
}

static void a_circle_is_refused(void **state)
{
    (void)state;
    const struct edge edges[] = { { 0, 1 }, { 1, 2 }, { 2, 1 } };
    const struct downset_graph graph = { 3, edges, 3 };
    struct error error = { 0 };
    assert_null(downsets_create(&graph, 0, &error));
    assert_error(error, "the edges of the graph go round in a circle");
}

static void real_graphs_have_the_known_numbers(void **state)
{
    (void)state;
    if (access(FOLDER, R_OK) != 0)
        TEST_SKIP("the real profiles are not here (" FOLDER ")");
    static const struct {
        const char *name;
        size_t count;
    } cases[] = { { "alexnet", 24 }, { "vgg16", 42 }, { "resnet50", 242 }, { "gnmt", 7874 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[200];
        snprintf(path, sizeof path, FOLDER "%s.graph.txt", cases[i].name);
        struct error error = { 0 };
        struct profile *profile = import_pipedream(path, 1, &error);
        assert_good(profile, error);
        struct downset_graph graph = { .node_count = profile->layer_count };
        struct edge *edges = downsets_edges(profile, NULL, &graph.edge_count, &error);
        graph.edges = edges;
        struct downsets *downsets = edges ? downsets_create(&graph, 0, &error) : NULL;
        assert_good(downsets, error);
        assert_int_equal(downsets->count, cases[i].count);
        downsets_free(downsets);
        free(edges);
        profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_downsets_of_random_graphs_are_found),
        cmocka_unit_test(walks_meet_every_pair_once),
        cmocka_unit_test(a_pruned_walk_goes_no_further),
        cmocka_unit_test(sums_are_those_of_the_diamond),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(a_circle_is_refused),
        cmocka_unit_test(real_graphs_have_the_known_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
