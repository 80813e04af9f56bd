#include "profiler/report.h"

#include <string.h>

#include "tests/document.h"
#include "tests/test.h"

static struct profile *example(void)
{
    struct error error = { 0 };
    char *text = test_document("docs/formats/profile.md");
    struct profile *profile = profile_read(text, strlen(text), "p", &error);
    assert_good(profile, error);
    free(text);
    return profile;
}

static const char table[] =
    "tiny, micro-batch 4, fp32, measured on cpu: a laptop by thread_cpu, 20 samples\n"
    "\n"
    "layer               F       p95         I       p95         W       p95         B    params    output     saved\n"
    "embedding     2.00 us         -      0 ns         -   3.00 us         -   3.00 us  64.0 KiB  16.0 KiB       0 B\n"
    "block0.mlp    15.0 us   15.9 us   16.0 us   17.0 us   14.0 us   14.7 us   29.0 us   128 KiB  16.0 KiB  64.3 KiB\n"
    "block0.norm   1.00 us         -   1.50 us         -    500 ns         -   2.00 us     512 B  16.0 KiB     256 B\n"
    "head          13.0 us         -   14.0 us         -   12.0 us         -   26.0 us  64.0 KiB       0 B  64.0 KiB\n"
    "total         31.0 us         -   31.5 us         -   29.5 us         -   60.0 us   257 KiB  48.0 KiB   129 KiB\n"
    "\n"
    "The layers add up to 91.0 us; the whole model takes 93.5 us (2.7 % more).\n";

static void the_table_has_a_row_per_layer_and_a_total(void **state)
{
    (void)state;
    struct profile *profile = example();
    struct text text = { 0 };
    profile_print(profile, &text);
    assert_string_equal(text.data, table);
    text_clear(&text);
    profile_free(profile);
}

static void a_sum_that_does_not_hold_is_said(void **state)
{
    (void)state;
    struct profile *profile = example();
    profile->source.whole_ns = 80000;
    struct text text = { 0 };
    profile_print(profile, &text);
    assert_non_null(strstr(text.data,
                           "the whole model takes 80.0 us (13.8 % less).\nMore than 10 % apart: this profile is "
                           "untrusted. Measure it again on an idle machine.\n"));
    text_clear(&text);
    profile_free(profile);
}

static void a_whole_that_was_not_timed_is_said(void **state)
{
    (void)state;
    struct profile *profile = example();
    profile->source.whole_ns = 0;
    profile->source.backward_split_measured = false;
    struct text text = { 0 };
    profile_print(profile, &text);
    assert_non_null(strstr(text.data, "20 samples, I and W assumed\n"));
    assert_non_null(
        strstr(text.data, "The whole model was not timed, so nothing vouches for the sum of its layers.\n"));
    text_clear(&text);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_a_row_per_layer_and_a_total),
        cmocka_unit_test(a_sum_that_does_not_hold_is_said),
        cmocka_unit_test(a_whole_that_was_not_timed_is_said),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
