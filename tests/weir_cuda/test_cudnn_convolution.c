// What cuDNN says of convolutions where there is no GPU (described_chip.h).
#include "device/cuda/cudnn_convolution.h"

#include "tests/test.h"
#include "tests/weir_cuda/described_chip.h"

static const struct convolution of_resnet = { 4, 56, 56, 64, 64, 1, { 3, 3, 1, 1, 1, 1 } };

static void operations_of_a_convolution_are_sound(void **state)
{
    (void)state;
    for (int i = 0; i < CUDNN_CONVOLUTIONS; i++) {
        struct cudnn_graph graph = { 0 };
        struct error error = { 0 };
        cudnn_convolution_graph(&graph, (enum cudnn_convolution)i, &of_resnet, false);
        assert_good(cudnn_graph_is_good(&graph, &error), error);
        assert_int_equal(graph.operation_count, 1);
        cudnn_graph_clear(&graph);
    }
}

static struct shape_row {
    const char *name;
    struct convolution shape;
} shape_rows[] = {
    { "cuDNN has plans in fp32 for ResNet", { 4, 56, 56, 64, 64, 1, { 3, 3, 1, 1, 1, 1 } } },
    { "for its first layer", { 2, 224, 224, 3, 64, 1, { 7, 7, 2, 2, 3, 3 } } },
    { "for its shortcuts", { 4, 56, 56, 256, 512, 1, { 1, 1, 2, 2, 0, 0 } } },
    { "for AlexNet", { 2, 224, 224, 3, 64, 1, { 11, 11, 4, 4, 2, 2 } } },
    { "for a channel in each group", { 2, 12, 12, 96, 96, 96, { 3, 3, 1, 1, 1, 1 } } },
    { "for groups", { 2, 14, 14, 64, 96, 4, { 3, 3, 1, 1, 1, 1 } } },
    { "for odd channels and windows", { 5, 9, 17, 5, 7, 1, { 1, 7, 1, 2, 0, 3 } } },
};

static void check_plan(const struct convolution *shape, enum cudnn_convolution which, bool tf32,
                       cudnnBackendDescriptor_t chip)
{
    struct cudnn_graph graph = { 0 };
    struct cudnn_plan plan;
    struct error error = { 0 };
    cudnn_convolution_graph(&graph, which, shape, tf32);
    const cudnnStatus_t status = cudnn_plan_make(&plan, &graph, NULL, chip, &error);
    cudnn_plan_clear(&plan);
    cudnn_graph_clear(&graph);
    // If it has a plan, cuDNN only misses the driver.
    if (status != CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER)
        fail_msg("convolution %d: status %d: %s", (int)which, (int)status, error.text);
}

static void cudnn_has_plans(void **state)
{
    const struct shape_row *row = *state;
    if (!has_driver())
        TEST_SKIP("there is neither a driver nor the toolkit's stub of one");
    cudnnBackendDescriptor_t chip = describe_chip();
    if (!chip)
        TEST_SKIP("this cuDNN cannot be told of a chip in this way");
    for (int i = 0; i < CUDNN_CONVOLUTIONS; i++)
        for (int tf32 = 0; tf32 < 2; tf32++)
            check_plan(&row->shape, (enum cudnn_convolution)i, tf32, chip);
    cudnnBackendDestroyDescriptor(chip);
}

int main(void)
{
    struct CMUnitTest tests[sizeof shape_rows / sizeof shape_rows[0] + 1]
        = { cmocka_unit_test(operations_of_a_convolution_are_sound) };
    for (size_t i = 0; i < sizeof shape_rows / sizeof shape_rows[0]; i++)
        tests[i + 1] = (struct CMUnitTest)TEST_ROW(cudnn_has_plans, &shape_rows[i]);
    return cmocka_run_group_tests_name("cudnn_convolution", tests, NULL, NULL);
}
