#include "runtime/shares.h"

#include "tests/test.h"

static const struct exempt undecayed[] = { { 0, 3 }, { 4, 12 }, { 30, 33 } };
static const struct stage stage = { .shard = SHARD_OPTIMIZER, .exempt = undecayed, .exempt_count = 3 };

// 33 elements, of which each of three replicas has 11.
static void a_share_knows_what_of_it_does_not_decay(void **state)
{
    (void)state;
    static const struct exempt expected[3][2] = { { { 0, 3 }, { 4, 11 } }, { { 0, 1 } }, { { 8, 11 } } };
    static const size_t counts[3] = { 2, 1, 1 };
    for (uint32_t copy = 0; copy < 3; copy++) {
        struct error error = { 0 };
        struct share share;
        assert_good(share_open(&share, &stage, 33, copy, 3, &error), error);
        assert_true(share.first == 11 * copy && share.count == 11);
        assert_int_equal(share.exempt_count, counts[copy]);
        assert_memory_equal(share.exempt, expected[copy], counts[copy] * sizeof share.exempt[0]);
        share_close(&share);
    }
}

static void shares_are_all_there_is_and_begin_where_others_end(void **state)
{
    (void)state;
    for (uint64_t count = 0; count < 20; count++) {
        for (uint32_t copies = 2; copies < 7; copies++) {
            uint64_t end = 0;
            for (uint32_t copy = 0; copy < copies; copy++) {
                struct error error = { 0 };
                struct share share;
                assert_good(share_open(&share, &stage, count, copy, copies, &error), error);
                assert_int_equal(share.first, end);
                assert_true(share.count <= count / copies + 1);
                end += share.count;
                share_close(&share);
            }
            assert_int_equal(end, count);
        }
    }
}

static void who_shares_nothing_has_all(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct share share;
    const struct stage plain = { .exempt = undecayed, .exempt_count = 3 };
    assert_good(share_open(&share, &plain, 33, 1, 3, &error), error);
    assert_true(share.first == 0 && share.count == 33 && share.copies == 1);
    const struct optimizer_buffers whole = { .count = 33, .exempt = undecayed, .exempt_count = 3 };
    const struct optimizer_buffers own = share_buffers(&share, PRECISION_FP32, whole);
    assert_true(own.exempt == undecayed && own.exempt_count == 3 && own.count == 33);
    share_close(&share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_share_knows_what_of_it_does_not_decay),
        cmocka_unit_test(shares_are_all_there_is_and_begin_where_others_end),
        cmocka_unit_test(who_shares_nothing_has_all),
    };
    return cmocka_run_group_tests_name("shares", tests, NULL, NULL);
}
