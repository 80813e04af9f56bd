#include "tests/device/cuda/cuda_rig.h"

static void check_transpose(struct cuda_rig *rig, uint64_t trial)
{
    (void)trial;
    const size_t rows = some_size(rig, 100), columns = some_size(rig, 100);
    float *before, *out = out_floats(rig, rows * columns), *sums = some_sums(rig, rows * columns, &before);
    const float *in = some_floats(rig, rows * columns, 1);
    must_launch(cuda_transpose(&rig->launch, out, in, rows, columns));
    must_launch(cuda_add_transposed(&rig->launch, sums, in, rows, columns));
    for (size_t row = 0; row < rows; row++)
        for (size_t column = 0; column < columns; column++) {
            const size_t i = column * rows + row;
            const float x = in[row * columns + column];
            must_equal((double)out[i], (double)x, "the transpose", i);
            must_equal((double)sums[i], (double)(before[i] + x), "the sums", i);
        }
}

static void transposes_of_any_size_have_rows_for_columns(void **state)
{
    (void)state;
    cuda_rig_try(check_transpose, test_trials(30, 400));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes_of_any_size_have_rows_for_columns),
    };
    return cmocka_run_group_tests_name("cuda_transpose", tests, NULL, NULL);
}
