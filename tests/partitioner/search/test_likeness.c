// Layers that are said to be alike have the same bytes, the same ways to recompute, found with the same work, and the
// same lower bounds.

#include "partitioner/search/likeness.h"

#include "partitioner/search/recompute_answers.h"
#include "partitioner/search/recompute_bound.h"
#include "tests/partitioner/small.h"

enum { MOST_LAYERS = 30, TRIALS = 60 };

static struct small_layer random_layer(uint64_t *seed)
{
    return (struct small_layer){
        .forward = 1 + random_below(seed, 50), .backward = 1 + random_below(seed, 90),
        .parameters = random_below(seed, 8), .output = 1 + random_below(seed, 4), .saved = random_below(seed, 9),
        .input_kept = (enum input_kept)random_below(seed, 3), .held = random_below(seed, 3),
        .workspace = random_below(seed, 4), .backward_workspace = random_below(seed, 6),
    };
}

// A first layer, blocks of up to three layers, and a last one. In some models a layer of each block also reads what the
// block before it read. In some, one layer in the middle is another one, and in some, two layers are tied.
static struct profile *random_blocks(uint64_t *seed, uint32_t *odd)
{
    struct error error = { 0 };
    struct small_layer rows[MOST_LAYERS], block[3] = { random_layer(seed), random_layer(seed), random_layer(seed) };
    const uint32_t period = 1 + (uint32_t)random_below(seed, 3), blocks = 4 + (uint32_t)random_below(seed, 5);
    const uint32_t count = 2 + period * blocks;
    rows[0] = random_layer(seed);
    rows[count - 1] = random_layer(seed);
    for (uint32_t l = 1; l + 1 < count; l++)
        rows[l] = block[(l - 1) % period];
    *odd = random_below(seed, 2) ? 1 + (uint32_t)random_below(seed, count - 2) : count;
    if (*odd < count)
        rows[*odd].saved++;
    struct profile *profile = small_chain(rows, count);
    struct edge edges[2 * MOST_LAYERS];
    size_t edge_count = 0;
    const bool skips = random_below(seed, 2);
    for (uint32_t l = 0; l + 1 < count; l++) {
        edges[edge_count++] = (struct edge){ l, l + 1 };
        if (skips && l % period == 0 && l + period + 1 < count)
            edges[edge_count++] = (struct edge){ l, l + period + 1 };
    }
    if (skips)
        small_set_edges(profile, edges, edge_count);
    if (random_below(seed, 4) == 0) {
        profile->tied = calloc(1, sizeof profile->tied[0]);
        assert_non_null(profile->tied);
        profile->tied[profile->tied_count++] = (struct edge){ period, count - 2 };
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static void assert_same_choice(const struct recompute_choice *a, const struct recompute_choice *b, uint32_t shift)
{
    assert_true(a->forward_ns == b->forward_ns && a->bytes == b->bytes && a->workspace_bytes == b->workspace_bytes);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        assert_true(a->segments[i].first + shift == b->segments[i].first
                    && a->segments[i].end + shift == b->segments[i].end);
}

static void assert_same_ways(struct intervals *intervals, uint32_t like, uint32_t first, uint32_t end,
                             enum recompute_wanted wanted, const struct slots *slots, uint64_t capacity)
{
    struct error error = { 0 };
    struct recompute_list a, b;
    uint64_t work_a = 0, work_b = 0;
    assert_good(recompute_search(intervals, like, like + end - first, slots, capacity, wanted, 6, &work_a, &a, &error),
                error);
    assert_good(recompute_search(intervals, first, end, slots, capacity, wanted, 6, &work_b, &b, &error), error);
    assert_true(a.count == b.count && a.complete == b.complete && a.least_ns == b.least_ns && work_a == work_b);
    for (size_t i = 0; i < a.count; i++)
        assert_same_choice(&a.at[i], &b.at[i], first - like);
    recompute_list_clear(&a);
    recompute_list_clear(&b);
}

static void assert_alike(struct intervals *intervals, uint32_t like, uint32_t first, uint32_t end)
{
    const struct slots slots = { .input = { 1, 2, 2 }, .kept = 2, .kept_through = 3, .held = 1, .output = 1,
                                 .versions = 1 };
    struct error error = { 0 };
    const struct stage_bytes a = interval_bytes(intervals, like, like + end - first);
    const struct stage_bytes b = interval_bytes(intervals, first, end);
    const uint64_t most = stage_memory_of(&a, &slots).peak_bytes;
    assert_memory_equal(&a, &b, sizeof a);
    assert_same_ways(intervals, like, first, end, RECOMPUTE_LEAST, &slots, most - most / 4);
    assert_same_ways(intervals, like, first, end, RECOMPUTE_FRONT, &slots, most);
    uint64_t bytes[2], work[2] = { 0 };
    bool complete[2];
    for (uint32_t i = 0; i < 2; i++)
        assert_good(recompute_least_bytes(intervals, i ? first : like, i ? end : like + end - first, &slots, true,
                                          &bytes[i], &complete[i], &work[i], &error), error);
    assert_true(bytes[0] == bytes[1] && complete[0] == complete[1] && work[0] == work[1]);
}

static void what_is_alike_is_the_same_by_itself(void **state)
{
    (void)state;
    uint64_t seed = 41, found = 0, asked = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct error error = { 0 };
        uint32_t odd;
        struct profile *profile = random_blocks(&seed, &odd);
        const struct storage storage = { .optimizer = OPTIMIZER_ADAMW };
        struct intervals *intervals = intervals_create(profile, &storage, &error);
        assert_good(intervals, error);
        for (uint32_t first = 0; first < intervals->layers; first++)
            for (uint32_t end = first + 1; end <= intervals->layers; end++, asked++) {
                const uint32_t like = likeness_first(intervals, first, end);
                assert_true(like <= first && (like == first || end < intervals->layers));
                assert_true(like == first || odd < first || odd >= end);
                if (like == first)
                    continue;
                found++;
                assert_alike(intervals, like, first, end);
            }
        intervals_free(intervals);
        profile_free(profile);
    }
    assert_true(found > asked / 8);
}

// Every block after the first is like the first, and the ends are like nothing.
static void blocks_are_like_the_first(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct small_layer a = { 4, 8, 3, 1, 5, INPUT_KEPT_WEIGHT, 1, 1, 2 };
    const struct small_layer b = { 2, 5, 2, 1, 3, INPUT_KEPT_BOTH, 0, 2, 1 };
    const struct small_layer rows[] = { { 1, 1, 9, 1, 1, INPUT_KEPT_NONE, 0, 0, 0 }, a, b, a, b, a, b, a, b,
                                        { 9, 9, 9, 1, 1, INPUT_KEPT_NONE, 0, 0, 0 } };
    struct profile *profile = small_chain(rows, 10);
    struct intervals *intervals = intervals_create(profile, &(struct storage){ .optimizer = OPTIMIZER_SGD }, &error);
    assert_good(intervals, error);
    assert_int_equal(likeness_first(intervals, 7, 9), 1);
    assert_int_equal(likeness_first(intervals, 6, 8), 2);
    assert_int_equal(likeness_first(intervals, 3, 9), 1);
    assert_int_equal(likeness_first(intervals, 1, 3), 1);
    assert_int_equal(likeness_first(intervals, 0, 3), 0);
    assert_int_equal(likeness_first(intervals, 7, 10), 7);
    intervals_free(intervals);
    profile_free(profile);
}

// Each question once by itself, and once with answers, some of which are those of layers that are alike.
static void answers_are_given_for_all_that_is_alike(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct small_layer rows[60] = { { 1, 1, 9, 1, 1, INPUT_KEPT_NONE, 0, 0, 0 } };
    for (uint32_t l = 1; l < 60; l++)
        rows[l] = (struct small_layer){ 7 + l % 2, 15, 2 + l % 2, 1, 4 + l % 2, INPUT_KEPT_WEIGHT, 1, 1, 2 };
    struct profile *profile = small_chain(rows, 60);
    struct intervals *intervals = intervals_create(profile, &(struct storage){ .optimizer = OPTIMIZER_ADAMW }, &error);
    struct recompute_answers *answers = recompute_answers_create(&error);
    assert_good(intervals && answers, error);
    for (uint32_t first = 1; first + 40 < 60; first++) {
        const struct recompute_question question = { .first = first, .end = first + 40,
                                                     .slots = { .input = { 1, 4, 4 }, .kept = 4, .kept_through = 4,
                                                                .versions = 1 } };
        uint64_t bytes, twin, work = 0, twin_work = 0;
        bool complete, twin_complete;
        assert_good(recompute_answers_least(answers, intervals, NULL, &question, &bytes, &complete, &work, &error),
                    error);
        assert_good(recompute_least_bytes(intervals, first, first + 40, &question.slots, true, &twin, &twin_complete,
                                          &twin_work, &error), error);
        assert_true(bytes == twin && complete == twin_complete && work == twin_work && work > 1000);
    }
    assert_int_equal(recompute_answers_count(answers), 2);  // from an odd layer, and from an even one
    recompute_answers_free(answers);
    intervals_free(intervals);
    profile_free(profile);
}

// Lower bounds of recomputation, with likeness and without it, asked for in any order.
static void bounds_are_those_of_layers_by_themselves(void **state)
{
    (void)state;
    const struct slots slots[] = {
        { .input = { 1, 3, 3 }, .kept = 3, .kept_through = 3, .output = 1, .versions = 1 },
        { .input = { 1, 1, 2 }, .kept = 1, .kept_through = 2, .held = 1, .output = 1, .versions = 1 },
    };
    uint64_t seed = 43, positive = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct error error = { 0 };
        uint32_t odd;
        struct profile *profile = random_blocks(&seed, &odd);
        const struct storage storage = { .optimizer = OPTIMIZER_ADAMW };
        struct intervals *intervals = intervals_create(profile, &storage, &error);
        struct intervals *twin = intervals_create(profile, &storage, &error);
        assert_good(intervals && twin, error);
        // As if it was asked, and nothing is alike.
        twin->unlike = arrays_add(&twin->arrays, twin->layers + (size_t)1, sizeof twin->unlike[0]);
        assert_non_null(twin->unlike);
        const struct stage_bytes all = interval_bytes(intervals, 0, intervals->layers);
        const uint64_t most = stage_memory_of(&all, &slots[0]).peak_bytes;
        const uint64_t capacities[] = { most / 2, most / 3 };
        struct recompute_bounds *bounds = recompute_bounds_create(intervals, slots, capacities, 2, &error);
        struct recompute_bounds *twins = recompute_bounds_create(twin, slots, capacities, 2, &error);
        assert_good(bounds && twins, error);
        for (int i = 0; i < 400; i++) {
            const uint32_t first = (uint32_t)random_below(&seed, intervals->layers);
            const uint32_t end = first + 1 + (uint32_t)random_below(&seed, intervals->layers - first);
            const uint32_t stage = (uint32_t)random_below(&seed, 2);
            const uint64_t bound = recompute_bound(bounds, stage, first, end);
            assert_int_equal(bound, recompute_bound(twins, stage, first, end));
            positive += bound > 0 && bound < UINT64_MAX;
        }
        recompute_bounds_free(bounds);
        recompute_bounds_free(twins);
        intervals_free(intervals);
        intervals_free(twin);
        profile_free(profile);
    }
    assert_true(positive > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_alike_is_the_same_by_itself),
        cmocka_unit_test(blocks_are_like_the_first),
        cmocka_unit_test(answers_are_given_for_all_that_is_alike),
        cmocka_unit_test(bounds_are_those_of_layers_by_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
