// Parts of a search: fixed shares of its work, and of its time where there is a deadline.
#include "partitioner/cuts/search_context.h"

#include "common/clock.h"
#include "tests/test.h"

#define HOUR_NS ((uint64_t)3600 * 1000000000)

static void a_part_is_a_share_of_the_work_that_is_left(void **state)
{
    (void)state;
    struct search_context context = { .work = 200, .budget = 1000 };
    const struct search_part part = context_part(&context, 1, 4), half = part_split(&context, &part, 1, 2);
    assert_int_equal(part.until_work, 400);
    assert_int_equal(half.until_work, 300);
    assert_int_equal(part_room(&context, &part), 200);
    assert_true(part_done(&context, &part) == 0);
    context.work = 300;
    assert_true(part_done(&context, &part) == 0.5);
    assert_false(part_is_over(&context, &part));
    assert_true(part_is_over(&context, &half));
    context.work = 2000;
    assert_true(part_is_over(&context, &part));
    assert_true(part_done(&context, &part) == 1);
    assert_int_equal(part_room(&context, &part), 0);
}

// However large the budget is: what follows a part has its time, too.
static void a_part_is_a_share_of_the_time_until_the_deadline(void **state)
{
    (void)state;
    const uint64_t deadline_ns = clock_now_ns() + HOUR_NS;
    struct search_context context = { .budget = UINT64_MAX, .deadline_ns = deadline_ns };
    const struct search_part part = context_part(&context, 1, 4), third = part_split(&context, &part, 1, 3);
    assert_int_equal(part.until_ns, part.ns + (deadline_ns - part.ns) / 4);
    assert_int_equal(third.until_ns, third.ns + (part.until_ns - third.ns) / 3);
    assert_in_range(part_room(&context, &part), 1, HOUR_NS / 4 / 1000);
    assert_false(part_is_over(&context, &part));

    const uint64_t now = clock_now_ns();
    const struct search_part gone = { 0, UINT64_MAX, now - HOUR_NS, now - 1 };
    assert_true(part_is_over(&context, &gone));
    assert_false(context_is_ended(&context));
    assert_true(part_done(&context, &gone) == 1);
    assert_int_equal(part_room(&context, &gone), 0);
    const struct search_part halfway = { 0, UINT64_MAX, now - HOUR_NS, now + HOUR_NS };
    assert_true(part_done(&context, &halfway) >= 0.5 && part_done(&context, &halfway) < 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_is_a_share_of_the_work_that_is_left),
        cmocka_unit_test(a_part_is_a_share_of_the_time_until_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
