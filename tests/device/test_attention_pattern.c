#include "device/attention_pattern.h"

#include "tests/device/slow_pattern.h"
#include "tests/test.h"

enum { MOST_KEYS = 48 };

static void say(const struct attention_pattern *p, uint64_t trial)
{
    print_error("case %d: window %zu, global %zu, stride %zu, block %zu\n", (int)trial, p->window, p->global,
                p->stride, p->block);
}

#define MUST(truth)                  \
    do {                             \
        if (!(truth)) {              \
            say(&p, trial);          \
            assert_true(truth);      \
        }                            \
    } while (0)

static void pairs_are_seen_by_the_rule(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (uint64_t trial = 0; trial < test_trials(200, 5000); trial++) {
        const struct attention_pattern p = slow_pattern(&seed, 60);
        uint64_t pairs = 0;
        for (size_t query = 0; query < MOST_KEYS; query++) {
            MUST(attention_pairs(&p, query) == pairs);
            for (size_t key = 0; key < MOST_KEYS; key++) {
                MUST(attention_sees(&p, query, key) == slow_sees(&p, query, key));
                pairs += slow_sees(&p, query, key);
            }
        }
        MUST(attention_pairs(&p, MOST_KEYS) == pairs);
    }
}

// Runs hold each key that a query from `query` on sees, and only those; but past the last query they hold all.
static void runs_hold_what_is_seen(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (uint64_t trial = 0; trial < test_trials(200, 5000); trial++) {
        const struct attention_pattern p = slow_pattern(&seed, 60);
        for (size_t query = 0; query < MOST_KEYS; query++) {
            bool is_held[2 * MOST_KEYS] = { false };
            for (struct attention_run run = { 0, 0 }; run.end < 2 * MOST_KEYS;) {
                const size_t from = run.end;
                run = attention_run(&p, query, from);
                MUST(run.begin >= from && run.end > run.begin);
                for (size_t key = run.begin; key < run.end && key < 2 * MOST_KEYS; key++)
                    is_held[key] = true;
            }
            for (size_t key = 0; key < 2 * MOST_KEYS; key++) {
                bool is_seen = false;
                for (size_t later = query; later <= query + key; later++)
                    is_seen = is_seen || slow_sees(&p, later, key);
                MUST(is_held[key] == is_seen);
            }
        }
    }
}

static void tiles_seen_as_a_whole_are(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (uint64_t trial = 0; trial < test_trials(20000, 400000); trial++) {
        const struct attention_pattern p = slow_pattern(&seed, 60);
        const size_t query = random_below(&seed, MOST_KEYS), key = random_below(&seed, MOST_KEYS);
        const size_t query_end = query + 1 + random_below(&seed, 9), key_end = key + 1 + random_below(&seed, 9);
        bool all = true, in_window = true;
        size_t end = 0;
        for (size_t i = query; i < query_end; i++)
            for (size_t j = key; j < key_end; j++) {
                all = all && slow_sees(&p, i, j);
                in_window = in_window && j <= i && (p.window == 0 || i - j < p.window);
            }
        MUST(!attention_sees_all(&p, query, query_end, key, key_end) || all);
        MUST(!in_window || attention_sees_all(&p, query, query_end, key, key_end));
        for (size_t i = 0; i < 3 * MOST_KEYS; i++)
            for (size_t j = key; j < key_end; j++)
                end = slow_sees(&p, i, j) ? i + 1 : end;
        const size_t told = attention_query_end(&p, key, key_end);
        MUST(end == 3 * MOST_KEYS ? told >= end : told == end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_seen_by_the_rule),
        cmocka_unit_test(runs_hold_what_is_seen),
        cmocka_unit_test(tiles_seen_as_a_whole_are),
    };
    return cmocka_run_group_tests_name("attention_pattern", tests, NULL, NULL);
}
