// Ranks that differ in anything learn before they begin which one does, in what, and how.
#include "runtime/groups/agreement.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/groups/thread_group.h"
#include "tests/test.h"

enum { RANKS = 3, THINGS = 2, NUMBERS = 2, ERROR_SIZE = sizeof ((struct error *)0)->text };

struct rank {
    struct process_group group;
    struct agreed agreed[THINGS];
    uint64_t numbers[NUMBERS];
    bool good;
    struct error error;
};

static void *agree(void *self)
{
    struct rank *rank = self;
    rank->good = ranks_agree(&rank->group, rank->agreed, THINGS, &rank->error);
    return NULL;
}

// Where one rank has another value of one thing; NULL: all are alike. The sentence of all ranks, or "".
static void agree_all(uint32_t who, uint32_t thing, const char *value, char sentence[ERROR_SIZE])
{
    struct error error = { 0 };
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    struct thread_group *group = thread_group_create(RANKS, 0, &error);
    assert_good(group, error);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r] = (struct rank){ .group = thread_group_member(group, r),
                                  .agreed = { { "--rate", "0.003" }, { "--data", "12 tokens" } } };
        if (value && r == who)
            snprintf(ranks[r].agreed[thing].value, AGREED_SIZE, "%s", value);
        assert_int_equal(pthread_create(&threads[r], NULL, agree, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(ranks[r].good, !value);
        assert_string_equal(ranks[r].error.text, ranks[0].error.text);
        assert_int_equal(ranks[r].error.kind, value ? ERROR_INPUT : ERROR_NONE);
    }
    snprintf(sentence, ERROR_SIZE, "%s", ranks[0].error.text);
    thread_group_free(group);
}

static void ranks_that_are_alike_agree(void **state)
{
    (void)state;
    char sentence[ERROR_SIZE];
    agree_all(0, 0, NULL, sentence);
    assert_string_equal(sentence, "");
}

static void what_differs_is_named_on_all_ranks(void **state)
{
    (void)state;
    char sentence[ERROR_SIZE], longest[AGREED_SIZE];
    agree_all(2, 0, "0.01", sentence);
    assert_string_equal(sentence, "rank 2 has another --rate than rank 0, 0.01 instead of 0.003: give all ranks the same");
    agree_all(1, 1, "", sentence);
    assert_string_equal(sentence, "rank 1 has another --data than rank 0,  instead of 12 tokens: give all ranks the same");
    agree_all(0, 1, "13 tokens", sentence);
    assert_string_equal(sentence, "rank 1 has another --data than rank 0, 12 tokens instead of 13 tokens: give all ranks "
                                  "the same");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    agree_all(1, 1, longest, sentence);
    assert_non_null(strstr(sentence, longest));
}

static void *find_most(void *self)
{
    struct rank *rank = self;
    rank->good = ranks_most(&rank->group, rank->numbers, NUMBERS, &rank->error);
    return NULL;
}

static void all_ranks_have_the_largest_number_of_any(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rank ranks[RANKS] = { { .numbers = { 0, 5 } }, { .numbers = { 1, 7 } }, { .numbers = { 0, UINT32_MAX } } };
    pthread_t threads[RANKS];
    struct thread_group *group = thread_group_create(RANKS, 0, &error);
    assert_good(group, error);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r].group = thread_group_member(group, r);
        assert_int_equal(pthread_create(&threads[r], NULL, find_most, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_good(ranks[r].good, ranks[r].error);
        assert_int_equal(ranks[r].numbers[0], 1);
        assert_int_equal(ranks[r].numbers[1], UINT32_MAX);
    }
    thread_group_free(group);
    uint64_t alone = 3;
    assert_good(ranks_most(NULL, &alone, 1, &error), error);
    assert_int_equal(alone, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_that_are_alike_agree),
        cmocka_unit_test(what_differs_is_named_on_all_ranks),
        cmocka_unit_test(all_ranks_have_the_largest_number_of_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
