#include "profiler/block_names.h"

#include "tests/test.h"

static void a_block_is_told_by_the_first_number(void **state)
{
    (void)state;
    struct block_name block;
    assert_true(block_name_read("model.layers.12.mlp", &block));
    assert_int_equal(block.number, 12);
    assert_int_equal(block.before, 13);
    assert_true(block_name_read("block3.attention", &block));
    assert_int_equal(block.number, 3);
    assert_true(block_name_is_same("block3.attention", &block, "block3.mlp"));
    assert_false(block_name_is_same("block3.attention", &block, "block30.mlp"));
    assert_false(block_name_is_same("block3.attention", &block, "chunk3.mlp"));
    assert_false(block_name_is_same("block3.attention", &block, "head"));
    assert_false(block_name_read("head", &block));
    assert_false(block_name_read("x1y", &block));
    assert_false(block_name_read("layer1234567", &block));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_block_is_told_by_the_first_number) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
