#include "partitioner/cost/window_cost.h"

#include <string.h>

#include "partitioner/cost/stage_cost.h"
#include "tests/partitioner/small.h"

// A byte takes 1 ns, and between replicas 100 ns more; layers have 256, 512 and 1024 bytes of weights.
static struct cost_row row_of(const struct small_layer *layers, size_t count, struct storage storage)
{
    const struct stage_place place = { .speed_permille = 1000, .replicas = storage.shard == SHARD_NONE ? 1 : 3,
                                       .host_bytes_per_second = 1000000000, .link = { 100, 1000000000 } };
    struct profile *profile = small_chain(layers, count);
    const struct cost_row row = stage_cost_at(profile, 0, (uint32_t)count, NULL, 0, &storage, &place);
    profile_free(profile);
    return row;
}

static void layers_come_while_others_compute(void **state)
{
    (void)state;
    const struct small_layer layers[] = { { .forward = 600, .backward = 1200, .parameters = 1 },
                                          { .forward = 300, .backward = 3000, .parameters = 2 },
                                          { .forward = 50, .backward = 4000, .parameters = 4 } };
    const struct cost_row in_turn = row_of(layers, 3, (struct storage){ .optimizer_on_host = true, .window = 1 });
    assert_int_equal(in_turn.forward_ns, 950 + 1792);
    assert_int_equal(in_turn.backward_ns, 8200 + 3 * 1792);
    const struct cost_row beside = row_of(layers, 3, (struct storage){ .optimizer_on_host = true, .window = 2 });
    // 256 | 600 beside 512 | 300 beside 1024 | 50
    assert_int_equal(beside.forward_ns, 256 + 600 + 1024 + 50);
    // 2 x 1024 | 4000 beside 2 x 512 | 3000 beside 1024 and 2 x 256 | 1200 beside 512 | 256
    assert_int_equal(beside.backward_ns, 2048 + 4000 + 3000 + 1200 + 256);
    const struct cost_row all = row_of(layers, 3, (struct storage){ .optimizer_on_host = true, .window = 3 });
    assert_int_equal(all.forward_ns, 950);
}

// Nanosecond by nanosecond: two lanes, each of which does what is next on it when that may begin.
static uint64_t slow_time(const uint64_t *comes, const uint64_t *computes, const uint64_t *goes, size_t count)
{
    enum { MOST = 8 };
    uint64_t came[MOST], computed[MOST], went[MOST];
    memset(came, 0xff, sizeof came);
    memset(computed, 0xff, sizeof computed);
    memset(went, 0xff, sizeof went);
    size_t come = 0, compute = 0, go = 0;
    uint64_t lane_free = 0, free = 0;
    for (uint64_t t = 0;; t++) {
        for (bool any = true; any;) {
            any = false;
            // In the order of the lane: two come, then by turns one goes back and the next but one comes.
            const bool is_going = come > go + 1;
            if (lane_free <= t && is_going && go < count && computed[go] <= t) {
                went[go] = lane_free = t + goes[go];
                go++;
                any = true;
            } else if (lane_free <= t && !is_going && come < count && (come < 2 || computed[come - 2] <= t)
                       && (come == 0 || came[come - 1] <= t)) {
                came[come] = lane_free = t + comes[come];
                come++;
                any = true;
            } else if (lane_free <= t && come == count && go < count && computed[go] <= t) {
                went[go] = lane_free = t + goes[go];
                go++;
                any = true;
            }
            if (free <= t && compute < count && came[compute] <= t) {
                computed[compute] = free = t + computes[compute];
                compute++;
                any = true;
            }
        }
        if (compute == count && go == count)
            return lane_free > free ? lane_free : free;
    }
}

static void a_window_takes_what_two_lanes_take(void **state)
{
    (void)state;
    const struct storage holdings[] = { { .optimizer_on_host = true, .window = 2 },
                                        { .shard = SHARD_GRADIENTS, .window = 2 },
                                        { .shard = SHARD_WEIGHTS, .window = 2 } };
    for (uint64_t trial = 0; trial < test_trials(300, 5000); trial++) {
        const struct storage storage = holdings[trial % 3];
        const bool gathers = storage.shard != SHARD_GRADIENTS, is_host = storage.shard == SHARD_NONE;
        uint64_t seed = trial, comes[3][6], computes[3][6], goes[3][6];
        const size_t count = 3 + random_below(&seed, 4);
        struct small_layer layers[6] = { { 0 } };
        for (size_t l = 0; l < count; l++) {
            layers[l] = (struct small_layer){ .forward = random_below(&seed, 900),
                                              .backward = 2 * random_below(&seed, 900),
                                              .parameters = random_below(&seed, 4) };
            const uint64_t latency = !is_host && layers[l].parameters > 0 ? 100 : 0;
            const uint64_t way = 256 * layers[l].parameters + latency;
            const size_t back = count - 1 - l;
            comes[0][l] = comes[2][back] = gathers ? way : 0;
            comes[1][back] = is_host ? 2 * way : comes[2][back];
            goes[0][l] = goes[2][back] = 0;
            goes[1][back] = way;
            computes[0][l] = layers[l].forward;
            computes[1][back] = layers[l].backward;
            computes[2][back] = layers[l].backward / 2;
        }
        const struct cost_row row = row_of(layers, count, storage);
        const unsigned long long found[] = { row.forward_ns, row.backward_ns, row.backward_input_ns };
        for (int action = 0; action < 3; action++) {
            const unsigned long long want = slow_time(comes[action], computes[action], goes[action], count);
            if (found[action] != want)
                fail_msg("trial %d, action %d: %llu ns, and two lanes take %llu", (int)trial, action, found[action],
                         want);
        }
    }
}

static void what_is_tied_branched_or_run_again_is_priced_in_turn(void **state)
{
    (void)state;
    const struct small_layer layers[] = { { .forward = 9, .parameters = 1 }, { .parameters = 2 }, { .parameters = 4 } };
    const struct storage storage = { .optimizer_on_host = true, .window = 2 };
    struct profile *profile = small_chain(layers, 3);
    struct cost_row row = { 0 };
    assert_true(window_overlaps(&storage, profile, &row));
    row.recompute_ns = 1;
    assert_false(window_overlaps(&storage, profile, &row));
    row.recompute_ns = 0;
    profile->is_chain = false;
    assert_false(window_overlaps(&storage, profile, &row));
    profile->is_chain = true;
    profile->tied_count = 1;
    assert_false(window_overlaps(&storage, profile, &row));
    profile->tied_count = 0;
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_come_while_others_compute),
        cmocka_unit_test(a_window_takes_what_two_lanes_take),
        cmocka_unit_test(what_is_tied_branched_or_run_again_is_priced_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
