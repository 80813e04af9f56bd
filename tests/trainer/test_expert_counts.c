// The table of experts; that a run reads its own is in tests/cli/experts.sh.
#include "trainer/expert_counts.h"

#include <stdlib.h>

#include "tests/test.h"

static void a_line_for_each_layer_says_how_far_from_even_its_experts_are(void **state)
{
    (void)state;
    struct expert_counts all[] = {
        { .layer = "block1.experts", .experts = 4, .counts = (float[]){ 10, 20, 30, 20 }, .dropped = 0.125,
          .auxiliary = 1.0625, .z = 2.5 },
        { .layer = "block3.experts", .experts = 2, .counts = (float[]){ 0, 0 } },
    };
    struct text text = { 0 };
    expert_counts_print(all, 2, &text);
    assert_string_equal(text.data,
                        "  experts in the last update         fullest      emptiest   dropped   balance         z\n"
                        "  block1.experts                1.50 of even  0.50 of even    12.5 %     1.062     2.500\n"
                        "  block3.experts                0.00 of even  0.00 of even     0.0 %     0.000     0.000\n");
    text_clear(&text);
}

static void a_model_without_experts_has_no_table(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct model *model = model_create("gpt-nano", &(struct model_sizes){ 0 }, &error);
    struct expert_counts *all = NULL;
    struct text text = { 0 };
    size_t count = 1;
    assert_good(model && expert_counts_read(NULL, model, &all, &count, &error), error);
    assert_int_equal(count, 0);
    expert_counts_print(all, count, &text);
    assert_null(text.data);
    expert_counts_free(all, count);
    model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_for_each_layer_says_how_far_from_even_its_experts_are),
        cmocka_unit_test(a_model_without_experts_has_no_table),
    };
    return cmocka_run_group_tests_name("expert_counts", tests, NULL, NULL);
}
