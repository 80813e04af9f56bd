#include "partitioner/search/interval.h"

#include "tests/partitioner/small.h"

// The plain loops of stage_cost.c are the twin.
static void compare_all_intervals(const struct profile *profile, const struct storage *storage, uint32_t replicas,
                                  uint64_t trial)
{
    struct error error = { 0 };
    struct intervals *intervals = intervals_create(profile, storage, &error);
    assert_good(intervals, error);
    intervals->replicas = replicas;
    for (uint32_t first = 0; first < profile->layer_count; first++) {
        for (uint32_t end = first + 1; end <= profile->layer_count; end++) {
            const struct stage_bytes fast = interval_bytes(intervals, first, end);
            const struct stage_bytes plain = stage_bytes_at(profile, first, end, NULL, 0, storage, replicas);
            const struct cost_row row =
                stage_cost_of(profile, first, end, NULL, 0, &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1000);
            const struct cost_row again = stage_cost_of(profile, first, end, &(struct segment){ first, end }, 1,
                                                        &(struct storage){ .optimizer = OPTIMIZER_SGD }, 1000);
            if (!small_same_bytes(&fast, &plain) || interval_forward_ns(intervals, first, end) != row.forward_ns
                || interval_recompute_ns(intervals, first, end) != again.recompute_ns
                || interval_backward_ns(intervals, first, end) != row.backward_ns)
                fail_msg("trial %d: layers [%u, %u)", (int)trial, first, end);
        }
    }
    intervals_free(intervals);
}

// Up to three layers read what some layer before them has.
static void lend_something(uint64_t *seed, struct profile *profile)
{
    const uint32_t layers = (uint32_t)profile->layer_count;
    profile->tied = calloc(3, sizeof profile->tied[0]);
    assert_non_null(profile->tied);
    for (uint32_t to = layers > 3 ? layers - 3 : 1; to < layers; to++)
        if (random_below(seed, 2))
            profile->tied[profile->tied_count++] = (struct edge){ (uint32_t)random_below(seed, to), to };
    qsort(profile->tied, profile->tied_count, sizeof profile->tied[0], edges_compare);
    if (profile->tied_count)
        small_lend(profile);
}

static void intervals_cost_what_plain_loops_say(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (uint64_t trial = 0; trial < test_trials(150, 1500); trial++) {
        struct profile *profile = small_random_chain(&seed, 1 + random_below(&seed, 12), 1000);
        small_random_tables(seed, profile);
        lend_something(&seed, profile);
        const struct storage storage = {
            .optimizer = (enum optimizer_kind)random_below(&seed, OPTIMIZER_ADAM_ROWS + 1),
            .shard = (enum shard)random_below(&seed, 4),
            .optimizer_on_host = random_below(&seed, 2),
            .activations_on_host = random_below(&seed, 2),
            .window = random_below(&seed, 2) ? 1 + (uint32_t)random_below(&seed, 4) : 0,
            .update_micro_batches = (uint32_t)(trial % 5),
            .in_turn = trial % 3 > 0,
        };
        const uint32_t replicas = 1 + (uint32_t)random_below(&seed, 4);
        compare_all_intervals(profile, &storage, replicas, trial);
        small_random_edges(&seed, profile);
        compare_all_intervals(profile, &storage, replicas, trial);
        profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_cost_what_plain_loops_say),
    };
    return cmocka_run_group_tests_name("interval", tests, NULL, NULL);
}
