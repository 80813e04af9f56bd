#include "partitioner/search/stage_table.h"

#include "common/random.h"
#include "partitioner/search/node_heap.h"
#include "tests/test.h"

// --- the table --------------------------------------------------------------------------

enum { STAGES = 4, ENDS = 24 };

static void a_table_gives_back_what_was_added_and_nothing_else(void **state)
{
    (void)state;
    static int items[STAGES][ENDS][ENDS];
    static bool is_in[STAGES][ENDS][ENDS];
    struct stage_table table = { 0 };
    uint64_t seed = 1;
    size_t count = 0;
    for (int turn = 0; turn < 4000; turn++) {
        const uint32_t s = (uint32_t)random_below(&seed, STAGES), a = (uint32_t)random_below(&seed, ENDS),
                       b = (uint32_t)random_below(&seed, ENDS);
        if (stage_table_get(&table, s, a, b) != (is_in[s][a][b] ? &items[s][a][b] : NULL))
            fail_msg("turn %d: stage %u, %u to %u", turn, s, a, b);
        if (is_in[s][a][b])
            continue;
        assert_true(stage_table_add(&table, s, a, b, &items[s][a][b]));
        is_in[s][a][b] = true;
        count++;
    }
    assert_int_equal(table.count, count);
    size_t at = 0, met = 0;
    for (int *item; (item = stage_table_next(&table, &at)); met++)
        assert_int_equal((*item)++, 0);  // once
    assert_int_equal(met, count);
    stage_table_clear(&table);
    assert_null(stage_table_get(&table, 0, 0, 0));
}

// --- the heap ---------------------------------------------------------------------------

static bool has_less(const void *of, uint32_t a, uint32_t b)
{
    const uint32_t *worth = of;
    return worth[a] != worth[b] ? worth[a] < worth[b] : a < b;
}

static void nodes_leave_a_heap_in_their_order(void **state)
{
    (void)state;
    enum { MOST = 40 };
    const uint64_t trials = test_trials(500, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        uint32_t worth[MOST], room[MOST];
        bool is_in[MOST] = { false };
        struct node_heap heap = { .nodes = room };
        for (uint32_t node = 0; node < MOST; node++)
            worth[node] = (uint32_t)random_below(&seed, 20);
        for (uint32_t next = 0; next < MOST || heap.count > 0;) {
            if (next < MOST && (heap.count == 0 || random_below(&seed, 3) > 0)) {
                is_in[next] = true;
                node_heap_push(&heap, next++, has_less, worth);
                continue;
            }
            const uint32_t first = node_heap_pop(&heap, has_less, worth);
            for (uint32_t other = 0; other < MOST; other++)
                if (!is_in[first] || (is_in[other] && has_less(worth, other, first)))
                    fail_msg("trial %llu: node %u before %u", (unsigned long long)trial, first, other);
            is_in[first] = false;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_gives_back_what_was_added_and_nothing_else),
        cmocka_unit_test(nodes_leave_a_heap_in_their_order),
    };
    return cmocka_run_group_tests_name("stage table", tests, NULL, NULL);
}
