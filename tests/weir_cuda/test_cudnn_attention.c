// What cuDNN says of attention's graphs where there is no GPU: it can be told of a chip
// instead, and then goes all the way but the loading of its kernels into a driver. For
// that there must be a driver; the toolkit's stub, which answers every call with an error, will do.
#include "device/cuda/cudnn_attention.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "tests/test.h"
#include "tests/weir_cuda/described_chip.h"

static const struct attention of_gpt2 = { .batch = 8, .sequence = 1024, .heads = 12, .size = 64 };

static void operations_of_a_forward_are_sound(void **state)
{
    (void)state;
    struct cudnn_graph graph = { 0 };
    struct error error = { 0 };
    cudnn_attention_forward(&graph, &of_gpt2, PRECISION_BF16);
    assert_good(cudnn_graph_is_good(&graph, &error), error);
    assert_int_equal(graph.operation_count, 14);
    cudnn_graph_clear(&graph);
}

static void operations_of_a_backward_are_sound(void **state)
{
    (void)state;
    struct cudnn_graph graph = { 0 };
    struct error error = { 0 };
    cudnn_attention_backward(&graph, &of_gpt2, PRECISION_FP16);
    assert_good(cudnn_graph_is_good(&graph, &error), error);
    assert_int_equal(graph.operation_count, 21);
    cudnn_graph_clear(&graph);
}

static void the_first_trouble_of_a_graph_stays(void **state)
{
    (void)state;
    static const int64_t no_dims[4] = { 0, -1, 1, 1 }, dims[4] = { 1, 1, 1, 1 };
    struct cudnn_graph graph = { 0 };
    struct error error = { 0 };
    cudnn_between(&graph, CUDNN_DATA_FLOAT, no_dims);
    const struct cudnn_tensor after = cudnn_between(&graph, CUDNN_DATA_FLOAT, dims);
    assert_null(after.descriptor);
    cudnn_multiply(&graph, after, after, after);
    assert_int_equal(graph.operation_count, 0);
    assert_false(cudnn_graph_is_good(&graph, &error));
    assert_memory_equal(error.text, "cuDNN refused a tensor: CUDNN_STATUS_BAD_PARAM", 46);
    assert_int_equal(error.kind, ERROR_MACHINE);
    cudnn_graph_clear(&graph);
    assert_int_equal(graph.made_count, 0);
}

// --- plans for a chip that is described ------------------------------------------------------

static struct shape_row {
    const char *name;
    enum precision precision;
    struct attention shape;
    bool has_forward, has_backward;
} shape_rows[] = {
    { "cuDNN has plans for GPT-2", PRECISION_BF16, { 8, 1024, 12, 64, 0, 0, { 0 } }, true, true },
    { "cuDNN has plans for GPT-2 in fp16", PRECISION_FP16, { 8, 1024, 12, 64, 0, 0, { 0 } }, true, true },
    { "cuDNN has plans for a small and odd shape", PRECISION_BF16, { 1, 7, 3, 8, 0, 0, { 0 } }, true, true },
    { "cuDNN has no plans for heads of 20", PRECISION_BF16, { 2, 64, 2, 20, 0, 0, { 0 } }, false, false },
    { "cuDNN has none for them in fp16", PRECISION_FP16, { 2, 64, 2, 20, 0, 0, { 0 } }, false, false },
    { "cuDNN has no backward for heads of more than 256", PRECISION_BF16, { 2, 64, 2, 264, 0, 0, { 0 } }, true, false },
};

static void draw_graph(struct cudnn_graph *graph, const struct attention *shape, enum precision precision,
                       bool is_backward)
{
    (is_backward ? cudnn_attention_backward : cudnn_attention_forward)(graph, shape, precision);
}

static void check_plan(const struct shape_row *row, bool is_backward, cudnnBackendDescriptor_t chip)
{
    const bool expected = is_backward ? row->has_backward : row->has_forward;
    struct cudnn_graph graph = { 0 };
    struct cudnn_plan plan;
    struct error error = { 0 };
    draw_graph(&graph, &row->shape, row->precision, is_backward);
    const cudnnStatus_t status = cudnn_plan_make(&plan, &graph, NULL, chip, &error);
    cudnn_plan_clear(&plan);
    cudnn_graph_clear(&graph);
    // Of a plan that it has, cuDNN only misses the driver.
    const bool has = status == CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
    if (has != expected || (!has && !cudnn_has_none(status)))
        fail_msg("%s: status %d: %s", is_backward ? "backward" : "forward", status, error.text);
}

static void cudnn_has_plans_for(void **state)
{
    const struct shape_row *row = *state;
    if (!has_driver())
        TEST_SKIP("there is neither a driver nor the toolkit's stub of one");
    cudnnBackendDescriptor_t chip = describe_chip();
    if (!chip)
        TEST_SKIP("this cuDNN cannot be told of a chip in this way");
    check_plan(row, false, chip);
    check_plan(row, true, chip);
    cudnnBackendDestroyDescriptor(chip);
}

// --- the workspace of a plan -------------------------------------------------------------------

static cudnnBackendDescriptor_t made(cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    assert_int_equal(cudnnBackendCreateDescriptor(type, &descriptor), CUDNN_STATUS_SUCCESS);
    return descriptor;
}

static void set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *values)
{
    assert_int_equal(cudnnBackendSetAttribute(descriptor, name, type, count, values), CUDNN_STATUS_SUCCESS);
}

// Of cuDNN's first suggestion, which says it ahead of the plan.
static int64_t suggested_workspace(const struct attention *shape, enum precision precision, bool is_backward,
                                   cudnnBackendDescriptor_t chip)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    struct cudnn_graph graph = { 0 };
    int64_t count = 0, bytes = -1;
    draw_graph(&graph, shape, precision, is_backward);
    cudnnBackendDescriptor_t whole = made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnnBackendDescriptor_t heuristic = made(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendDescriptor_t first = made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set(whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)graph.operation_count,
        graph.operations);
    assert_int_equal(cudnnBackendFinalize(whole), CUDNN_STATUS_SUCCESS);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &whole);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &chip);
    assert_int_equal(cudnnBackendFinalize(heuristic), CUDNN_STATUS_SUCCESS);
    cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                             &first);
    cudnnBackendGetAttribute(first, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
    cudnnBackendDestroyDescriptor(first);
    cudnnBackendDestroyDescriptor(heuristic);
    cudnnBackendDestroyDescriptor(whole);
    cudnn_graph_clear(&graph);
    return bytes;
}

// Why attention's workspace is among a plan's bytes: 403 MB for 16 sequences of GPT-2.
static void a_backward_keeps_dp_in_its_workspace(void **state)
{
    (void)state;
    const struct attention shape = { .batch = 16, .sequence = 1024, .heads = 12, .size = 64 };
    if (cudnnGetVersion() / 100 != 919)
        TEST_SKIP("this is of cuDNN 9.19");
    cudnnBackendDescriptor_t chip = has_driver() ? describe_chip() : NULL;
    if (!chip)
        TEST_SKIP("this cuDNN cannot be told of a chip here");
    for (enum precision precision = PRECISION_BF16; precision <= PRECISION_FP16; precision++) {
        assert_int_equal(suggested_workspace(&shape, precision, false, chip), 256);
        assert_int_equal(suggested_workspace(&shape, precision, true, chip), 2 * 16 * 12 * 1024 * 1024 + 256);
    }
    cudnnBackendDestroyDescriptor(chip);
}

// --- what a device tells of its workspace ----------------------------------------------------

static struct own_row {
    const char *name;
    enum precision precision;
    struct attention shape;
} own_rows[] = {
    { "attention of floats takes what our own kernels take", PRECISION_FP32, { 8, 1024, 12, 64, 0, 0, { 0 } } },
    { "attention of heads that cuDNN cannot read, too", PRECISION_BF16, { 2, 64, 2, 20, 0, 0, { 0 } } },
    { "in fp16, too", PRECISION_FP16, { 2, 64, 2, 20, 0, 0, { 0 } } },
    { "attention of one position, too", PRECISION_FP16, { 8, 1, 12, 64, 0, 0, { 0 } } },
};

static struct cuda_device opened_as_far(struct device *device, enum precision precision)
{
    *device = (struct device){ .name = "cuda", .functions = &cuda_functions, .precision = precision };
    return (struct cuda_device){ 0 };
}

static void our_own_kernels_need_no_cudnn(void **state)
{
    const struct own_row *row = *state;
    struct device device;
    struct cuda_device own = opened_as_far(&device, row->precision);
    struct attention_bytes bytes;
    struct error error = { 0 };
    device.own = &own;
    assert_good(attention_bytes(&device, &row->shape, &bytes, &error), error);
    assert_int_equal(bytes.forward, attention_workspace_bytes(&row->shape));
    assert_int_equal(bytes.backward, attention_workspace_bytes(&row->shape));
    assert_null(own.answers);
}

static void without_a_gpu_cudnn_tells_nothing(void **state)
{
    (void)state;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver != 0)
        TEST_SKIP("there is a driver here");
    struct device device;
    struct cuda_device own = opened_as_far(&device, PRECISION_FP16);
    struct attention_bytes bytes;
    struct error error = { 0 };
    device.own = &own;
    assert_false(attention_bytes(&device, &of_gpt2, &bytes, &error));
    assert_memory_equal(error.text, "opening cuDNN failed: ", 22);
    assert_int_equal(error.kind, ERROR_MACHINE);
    assert_null(own.answers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_a_forward_are_sound),
        cmocka_unit_test(operations_of_a_backward_are_sound),
        cmocka_unit_test(the_first_trouble_of_a_graph_stays),
        TEST_ROW(cudnn_has_plans_for, &shape_rows[0]),
        TEST_ROW(cudnn_has_plans_for, &shape_rows[1]),
        TEST_ROW(cudnn_has_plans_for, &shape_rows[2]),
        TEST_ROW(cudnn_has_plans_for, &shape_rows[3]),
        TEST_ROW(cudnn_has_plans_for, &shape_rows[4]),
        TEST_ROW(cudnn_has_plans_for, &shape_rows[5]),
        cmocka_unit_test(a_backward_keeps_dp_in_its_workspace),
        TEST_ROW(our_own_kernels_need_no_cudnn, &own_rows[0]),
        TEST_ROW(our_own_kernels_need_no_cudnn, &own_rows[1]),
        TEST_ROW(our_own_kernels_need_no_cudnn, &own_rows[2]),
        TEST_ROW(our_own_kernels_need_no_cudnn, &own_rows[3]),
        cmocka_unit_test(without_a_gpu_cudnn_tells_nothing),
    };
    return cmocka_run_group_tests_name("cudnn_attention", tests, NULL, NULL);
}
