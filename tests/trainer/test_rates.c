#include "trainer/rates.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"

// The formulas in double; PyTorch's LinearLR into CosineAnnealingLR or another LinearLR have the same.
static double slow_rate(double highest, double last, double warm, enum rate_form form, double step, double steps)
{
    if (step < warm)
        return highest * (step + 1) / warm;
    const double done = (step - warm) / (steps - warm > 1 ? steps - warm : 1);
    if (form == RATE_CONSTANT)
        return highest;
    return form == RATE_LINEAR ? highest + (last - highest) * done
                               : last + (highest - last) * (1 + cos(done * acos(-1))) / 2;
}

static void rates_follow_their_formulas(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        double highest, last, warm;
        enum rate_form form;
    } rows[] = {
        { "0.003", 0.003, 0.0003, 10, RATE_COSINE },
        { "0.003,cosine,to:0", 0.003, 0, 10, RATE_COSINE },
        { "0.5,linear,warm-up:0", 0.5, 0.05, 0, RATE_LINEAR },
        { "1e-3,linear,to:0.0002,warm-up:33", 0.001, 0.0002, 33, RATE_LINEAR },
        { "2,warm-up:1,constant", 2, 2, 1, RATE_CONSTANT },
        { "2,warm-up:1000", 2, 0.2, 1000, RATE_COSINE },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct rates rates, again;
        char words[RATES_SIZE];
        assert_good(rates_parse(rows[i].words, &rates, &error), error);
        rates_format(&rates, words);
        assert_good(rates_parse(words, &again, &error), error);
        for (uint32_t step = 0; step < 100; step++) {
            const double want = slow_rate(rows[i].highest, rows[i].last, rows[i].warm, rows[i].form, step, 100);
            if (fabs((double)rates_at(&rates, step, 100) - want) > 1e-6 * rows[i].highest)
                fail_msg("%s, step %u: %g, not %g", rows[i].words, step, (double)rates_at(&rates, step, 100), want);
            assert_true(fabsf(rates_at(&again, step, 100) - rates_at(&rates, step, 100)) <= 1e-6f * rates.highest);
        }
    }
}

static void rates_grow_with_the_batch(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct rates rates;
    assert_good(rates_parse("0.1,per:256,to:0.01", &rates, &error), error);
    const struct rates larger = rates_for_batch(&rates, 1024), smaller = rates_for_batch(&rates, 64);
    assert_true(larger.highest == 0.4f && smaller.highest == 0.025f && larger.per == 0);
    assert_true(fabsf(rates_at(&larger, 100, 100) / rates_at(&smaller, 100, 100) - 16) < 1e-4f);
    assert_good(rates_parse("0.1", &rates, &error), error);
    assert_true(rates_for_batch(&rates, 1024).highest == 0.1f);
}

static void words_are_the_shortest_that_mean_it(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "0.0030", "0.003" }, { "3e-3,cosine", "0.003" }, { "1,to:0.5,linear", "1,linear,to:0.5" },
        { "1,constant,to:0.5", "1,constant" }, { "0.1,warm-up:007", "0.1,warm-up:7" },
        { "0.1,per:256,linear", "0.1,linear,per:256" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct rates rates;
        char words[RATES_SIZE];
        assert_good(rates_parse(rows[i][0], &rates, &error), error);
        rates_format(&rates, words);
        assert_string_equal(words, rows[i][1]);
    }
}

static void what_is_no_rate_is_refused(void **state)
{
    (void)state;
    static const char too_high[] = "is no learning rate, which is at most 100", too_low[] = "which is above 0",
                      none[] = "does not begin with a learning rate", wrong[] = "behind a rate come",
                      too_long[] = "at most 60 are read";
    static const struct {
        const char *words, *sentence;
    } rows[] = {
        { "", none }, { "nan", none }, { "x", none }, { "1 ,linear", none }, { "0", too_low }, { "-1", too_low },
        { "1e-60", too_low }, { "101", too_high }, { "999", too_high }, { "1e30", too_high }, { "1,", wrong },
        { "1,,linear", wrong }, { "1,steep", wrong }, { "1,to:2", wrong }, { "1,warm-up:", wrong },
        { "1,warm-up:-3", wrong }, { "1,warm-up:1.5", wrong }, { "1,to:", wrong },
        { "0.0000000000000000000000000000000000000000000000000000000000001", too_long },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct rates rates;
        assert_false(rates_parse(rows[i].words, &rates, &error));
        assert_int_equal(error.kind, ERROR_INPUT);
        if (!strstr(error.text, rows[i].sentence))
            fail_msg("\"%s\": %s", rows[i].words, error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_their_formulas),
        cmocka_unit_test(words_are_the_shortest_that_mean_it),
        cmocka_unit_test(rates_grow_with_the_batch),
        cmocka_unit_test(what_is_no_rate_is_refused),
    };
    return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
