// What is remembered of a stage is what was set, for all stages that are alike, until it is forgotten.

#include "partitioner/cuts/stage_memo.h"

#include "tests/test.h"

enum { STAGES = 5, PLACES = 9 };

static uint32_t alike[STAGES] = { 0, 1, 0, 1, 4 };

struct known {
    bool is_known;
    uint64_t number;
};

static void numbers_are_those_that_were_set(void **state)
{
    (void)state;
    struct places places = { .count = PLACES };
    const struct cut_problem problem = { .stages = STAGES, .places = &places, .alike = alike };
    const uint64_t numbers[] = { 0, 1, 77, UINT64_MAX - 2, UINT64_MAX };
    struct known known[STAGES][PLACES][PLACES] = { 0 };
    struct error error = { 0 };
    struct stage_memo *memo = stage_memo_create(&problem, &error);
    assert_good(memo, error);
    uint64_t seed = 5, found = 0;
    for (int i = 0; i < 20000; i++) {
        const uint32_t stage = (uint32_t)random_below(&seed, STAGES), from = (uint32_t)random_below(&seed, PLACES);
        const uint32_t to = (uint32_t)random_below(&seed, PLACES);
        struct known *entry = &known[alike[stage]][from][to];
        uint64_t number = 0;
        assert_true(stage_memo_get(memo, stage, from, to, &number) == entry->is_known);
        assert_true(!entry->is_known || number == entry->number);
        found += entry->is_known;
        if (random_below(&seed, 3) == 0) {
            stage_memo_set(memo, stage, from, to, UINT64_MAX - 1);
            entry->is_known = false;
        } else {
            *entry = (struct known){ true, numbers[random_below(&seed, 5)] };
            stage_memo_set(memo, stage, from, to, entry->number);
        }
    }
    assert_true(found > 5000);
    stage_memo_free(memo);
    stage_memo_free(NULL);
}

// Beyond the limit nothing is remembered, and nothing is wrong.
static void there_is_a_limit(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    struct places places = { .count = MANY };
    uint32_t one = 0;
    const struct cut_problem problem = { .stages = 1, .places = &places, .alike = &one };
    struct error error = { 0 };
    struct stage_memo *memo = stage_memo_create(&problem, &error);
    assert_good(memo, error);
    uint32_t rows = 0;
    uint64_t number;
    for (uint32_t from = 0; from < MANY; from++) {
        stage_memo_set(memo, 0, from, MANY - 1, from);
        if (!stage_memo_get(memo, 0, from, MANY - 1, &number))
            continue;
        assert_int_equal(number, from);
        rows++;
    }
    assert_int_equal(rows, (1 << 20) / MANY);
    stage_memo_free(memo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_that_were_set),
        cmocka_unit_test(there_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
