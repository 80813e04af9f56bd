// Attention by cuDNN: what a device tells who asks for its workspace, what cuDNN is then given, and which shapes and
// versions it is not asked for. GPU and cuDNN are played, as far as device/cuda/cuda_attention.c calls them.
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cudnn_attention.h"
#include "tests/test.h"

static const struct attention shape = { .batch = 2, .sequence = 128, .heads = 3, .size = 64 };
static const uint64_t row_sum_bytes = 2 * 128 * 3 * sizeof(float);

// --- what is played ------------------------------------------------------------------------

static struct played {
    int64_t plan_bytes;          // of the next plan
    cudnnStatus_t status;        // of making it
    _Atomic enum precision precision;  // that it was made for
    size_t version;
    atomic_uint plans;           // so far: two threads make them
    unsigned runs;
    unsigned own_runs;           // of our own kernels
    void *workspace, *row_sums;  // that the last run was given
    float masked;
} cudnn;

size_t cudnnGetVersion(void)
{
    return cudnn.version;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    static int opened;
    *handle = (cudnnHandle_t)(void *)&opened;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    (void)handle;
    return CUDNN_STATUS_SUCCESS;
}

void cudnn_attention_forward(struct cudnn_graph *graph, const struct attention *attention, enum precision precision)
{
    (void)graph, (void)attention;
    cudnn.precision = precision;
}

void cudnn_attention_backward(struct cudnn_graph *graph, const struct attention *attention, enum precision precision)
{
    (void)graph, (void)attention;
    cudnn.precision = precision;
}

cudnnStatus_t cudnn_plan_make(struct cudnn_plan *plan, struct cudnn_graph *graph, cudnnHandle_t handle,
                              cudnnBackendDescriptor_t chip, struct error *error)
{
    (void)graph, (void)handle, (void)chip;
    *plan = (struct cudnn_plan){ .workspace_bytes = cudnn.plan_bytes };
    cudnn.plans++;
    if (cudnn.status != CUDNN_STATUS_SUCCESS)
        error_set_kind(error, ERROR_MACHINE, "cuDNN will not");
    return cudnn.status;
}

void cudnn_plan_clear(struct cudnn_plan *plan)
{
    *plan = (struct cudnn_plan){ 0 };
}

cudnnStatus_t cudnn_plan_run(const struct cudnn_plan *plan, cudnnHandle_t handle, const int64_t *ids, void **addresses,
                             size_t count, void *workspace)
{
    (void)plan, (void)handle;
    cudnn.runs++;
    cudnn.workspace = workspace;
    cudnn.row_sums = NULL;
    for (size_t i = 0; i < count; i++)
        if (ids[i] == ATTENTION_ROW_SUMS)
            cudnn.row_sums = addresses[i];
        else if (ids[i] == ATTENTION_MASKED)
            cudnn.masked = *(const float *)addresses[i];
    return CUDNN_STATUS_SUCCESS;
}

bool cuda_enter(const struct device *device)
{
    (void)device;
    return true;
}

const struct cuda_launch *cuda_launch_of(struct queue *queue)
{
    return &cuda_queue_of(queue)->launch;
}

bool cuda_check(struct queue *queue, cudaError_t status, const char *what)
{
    (void)queue, (void)status, (void)what;
    return true;
}

cudaError_t cuda_attention(const struct cuda_launch *launch, const struct attention *attention, struct values *out,
                           float *log_sums, const struct values *qkv, void *workspace)
{
    (void)launch, (void)attention, (void)out, (void)log_sums, (void)qkv, (void)workspace;
    cudnn.own_runs++;
    return cudaSuccess;
}

cudaError_t cuda_attention_backward(const struct cuda_launch *launch, const struct attention *attention,
                                    struct values *qkv_gradient, const struct values *out_gradient,
                                    const struct values *out, const float *log_sums, const struct values *qkv,
                                    void *workspace)
{
    (void)launch, (void)attention, (void)qkv_gradient, (void)out_gradient, (void)out, (void)log_sums, (void)qkv;
    (void)workspace;
    cudnn.own_runs++;
    return cudaSuccess;
}

// --- a device and a queue --------------------------------------------------------------------

struct bench {
    struct cuda_device own;
    struct device device;
    struct cuda_queue own_queue;
    struct queue queue;
    char *memory, *workspace;
};

static const struct device_functions functions = { .attention_bytes = cuda_attention_bytes };

static void set_up(struct bench *bench)
{
    cudnn = (struct played){ .version = 91900 };
    *bench = (struct bench){
        .device = { .functions = &functions, .precision = PRECISION_BF16 },
    };
    bench->device.own = &bench->own;
    bench->queue.device = &bench->device;
    bench->queue.own = &bench->own_queue;
    bench->memory = aligned_alloc(256, 1 << 20);
    assert_non_null(bench->memory);
    bench->workspace = bench->memory + (1 << 19);
}

static void clear(struct bench *bench)
{
    cuda_forget_attention(&bench->own);
    free(bench->memory);
}

static struct attention_bytes ask_of(struct bench *bench, const struct attention *of)
{
    struct error error = { 0 };
    struct attention_bytes bytes;
    assert_good(attention_bytes(&bench->device, of, &bytes, &error), error);
    return bytes;
}

static struct attention_bytes ask(struct bench *bench)
{
    return ask_of(bench, &shape);
}

static void attend_to(struct bench *bench, const struct attention *to, bool is_backward)
{
    struct values *values = (struct values *)bench->memory;
    float *log_sums = (float *)bench->memory;
    if (is_backward)
        cuda_give_attention_backward(&bench->queue, to, values, values, values, log_sums, values, bench->workspace);
    else
        cuda_give_attention(&bench->queue, to, values, log_sums, values, bench->workspace);
}

static void attend(struct bench *bench, bool is_backward)
{
    attend_to(bench, &shape, is_backward);
}

// --- tests -----------------------------------------------------------------------------------

static void a_device_tells_what_cudnns_plans_take(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench);
    cudnn.plan_bytes = 1000;
    const struct attention_bytes bytes = ask(&bench), again = ask(&bench);
    assert_int_equal(bytes.forward, 1000);
    assert_int_equal(bytes.backward, 1024 + row_sum_bytes);
    assert_memory_equal(&bytes, &again, sizeof bytes);
    assert_int_equal(cudnn.plans, 2);  // once in each direction
    clear(&bench);
}

static void cudnn_works_where_its_caller_says(void **state)
{
    (void)state;
    struct bench bench;
    struct error error = { 0 };
    set_up(&bench);
    cudnn.plan_bytes = 1000;
    ask(&bench);
    attend(&bench, false);
    assert_ptr_equal(cudnn.workspace, bench.workspace);
    assert_null(cudnn.row_sums);
    attend(&bench, true);
    assert_ptr_equal(cudnn.workspace, bench.workspace);
    assert_ptr_equal(cudnn.row_sums, bench.workspace + 1024);
    attend(&bench, true);
    assert_int_equal(cudnn.runs, 3);
    assert_int_equal(cudnn.own_runs, 0);
    assert_int_equal(cudnn.plans, 2);  // the queue makes none
    assert_good(queue_report(&bench.queue, &error), error);
    assert_int_equal(bench.device.memory.workspace_bytes, 0);
    clear(&bench);
}

static void what_cudnn_attends_to_has_the_device_s_precision(void **state)
{
    (void)state;
    static const enum precision precisions[] = { PRECISION_BF16, PRECISION_FP16 };
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        set_up(&bench);
        bench.device.precision = precisions[i];
        ask(&bench);
        assert_int_equal(cudnn.precision, precisions[i]);
        attend(&bench, false);
        attend(&bench, true);
        assert_int_equal(cudnn.precision, precisions[i]);
        assert_int_equal(cudnn.runs, 2);
        clear(&bench);
    }
}

static void who_has_not_asked_fails(void **state)
{
    (void)state;
    struct bench bench;
    struct error error = { 0 };
    set_up(&bench);
    attend(&bench, true);
    assert_int_equal(cudnn.plans, 0);
    assert_int_equal(cudnn.runs, 0);
    assert_int_equal(cudnn.own_runs, 0);
    assert_false(queue_report(&bench.queue, &error));
    assert_error(error, "attention by cuDNN works in a workspace, and its caller has not asked how large a one");
    clear(&bench);
}

static void who_asks_again_is_told_by_the_same_plans(void **state)
{
    (void)state;
    struct bench bench, other;
    struct error error = { 0 };
    set_up(&bench);
    set_up(&other);
    cudnn.plan_bytes = 1000;
    ask(&bench);
    ask(&bench);
    cudnn.plan_bytes = 2000;
    assert_int_equal(ask(&other).forward, 1000);  // another device of the GPU
    assert_int_equal(cudnn.plans, 2);
    clear(&bench);
    attend(&other, false);
    attend(&other, true);
    assert_int_equal(cudnn.runs, 2);
    assert_good(queue_report(&other.queue, &error), error);
    clear(&other);
}

static void where_cudnn_has_no_plan_our_own_kernels_attend(void **state)
{
    (void)state;
    struct bench bench;
    struct error error = { 0 };
    set_up(&bench);
    cudnn.status = CUDNN_STATUS_NOT_SUPPORTED;
    const struct attention_bytes bytes = ask(&bench);
    assert_int_equal(bytes.forward, attention_workspace_bytes(&shape));
    assert_int_equal(bytes.backward, attention_workspace_bytes(&shape));
    attend(&bench, false);
    attend(&bench, true);
    assert_int_equal(cudnn.runs, 0);
    assert_int_equal(cudnn.own_runs, 2);
    assert_good(queue_report(&bench.queue, &error), error);
    clear(&bench);
}

static void what_is_wrong_with_cudnn_is_told_who_asks(void **state)
{
    (void)state;
    struct bench bench;
    struct error error = { 0 };
    struct attention_bytes bytes;
    set_up(&bench);
    cudnn.status = CUDNN_STATUS_INTERNAL_ERROR;
    assert_false(attention_bytes(&bench.device, &shape, &bytes, &error));
    assert_error(error, "cuDNN will not");
    assert_int_equal(error.kind, ERROR_MACHINE);
    cudnn.status = CUDNN_STATUS_SUCCESS;  // which is asked again
    assert_good(attention_bytes(&bench.device, &shape, &bytes, &error), error);
    assert_int_equal(cudnn.plans, 4);
    clear(&bench);
}

// --- shapes and versions that cuDNN is not asked for ------------------------------------------

// Whether cuDNN attends in each direction; otherwise our own kernels do.
static struct asked_row {
    const char *name;
    size_t version;
    struct attention shape;
    bool forward, backward;
} asked_rows[] = {
    { "a sequence of one position is never cuDNN's", 91900, { 2, 1, 3, 64, 0, 0, { 0 } }, false, false },
    { "one of two is", 91900, { 2, 2, 3, 64, 0, 0, { 0 } }, true, true },
    { "with a window nothing is", 91900, { 2, 128, 3, 64, 0, 0, { .window = 127 } }, false, false },
    { "with one as long as the sequence all is", 91900, { 2, 128, 3, 64, 0, 0, { .window = 128 } }, true, true },
    { "of a part of a sequence nothing is", 91900, { 2, 64, 3, 64, 64, 128, { 0 } }, false, false },
    { "heads that it cannot read are not", 91900, { 2, 128, 3, 20, 0, 0, { 0 } }, false, false },
    { "before 9.16 a backward has full tiles", 91501, { 2, 100, 3, 64, 0, 0, { 0 } }, true, false },
    { "which it has at a multiple of 128", 91501, { 2, 256, 3, 64, 0, 0, { 0 } }, true, true },
    { "from 9.16 on it need not", 91600, { 2, 100, 3, 64, 0, 0, { 0 } }, true, true },
};

static void cudnn_is_asked_for(void **state)
{
    const struct asked_row *row = *state;
    struct bench bench;
    struct error error = { 0 };
    set_up(&bench);
    cudnn.version = row->version;
    cudnn.plan_bytes = 1000;
    const struct attention_bytes bytes = ask_of(&bench, &row->shape);
    const uint64_t own = attention_workspace_bytes(&row->shape);
    assert_int_equal(bytes.forward == own, !row->forward);
    assert_int_equal(bytes.backward == own, !row->backward);
    attend_to(&bench, &row->shape, false);
    attend_to(&bench, &row->shape, true);
    assert_int_equal(cudnn.runs, (unsigned)row->forward + (unsigned)row->backward);
    assert_int_equal(cudnn.own_runs, 2 - cudnn.runs);
    assert_good(queue_report(&bench.queue, &error), error);
    clear(&bench);
}

static void a_version_whose_gradients_are_wrong_is_refused(void **state)
{
    (void)state;
    struct bench bench;
    struct error error = { 0 };
    struct attention_bytes bytes;
    set_up(&bench);
    cudnn.version = 91001;
    assert_false(attention_bytes(&bench.device, &shape, &bytes, &error));
    assert_error(error, "cuDNN 9.10.1, which is installed here, has a backward of attention that is known to be wrong:"
                        " install cuDNN 9.16 or later (pip's nvidia-cudnn-cu13 is one)");
    assert_int_equal(error.kind, ERROR_MACHINE);
    cudnn.version = 91000;
    assert_false(attention_bytes(&bench.device, &shape, &bytes, &error));
    assert_int_equal(cudnn.plans, 0);
    bench.device.precision = PRECISION_FP32;  // which takes none of it
    assert_good(attention_bytes(&bench.device, &shape, &bytes, &error), error);
    bench.device.precision = PRECISION_BF16;
    cudnn.version = 91002;
    assert_good(attention_bytes(&bench.device, &shape, &bytes, &error), error);
    cudnn.version = 90900;
    assert_good(attention_bytes(&bench.device, &shape, &bytes, &error), error);
    clear(&bench);
}

static void what_looks_ahead_is_masked_as_the_version_wants(void **state)
{
    (void)state;
    struct bench bench;
    set_up(&bench);
    ask(&bench);
    for (int is_backward = 0; is_backward < 2; is_backward++) {
        cudnn.version = 91002;
        attend(&bench, is_backward);
        assert_true(cudnn.masked == -INFINITY);
        cudnn.version = 90900;
        attend(&bench, is_backward);
        assert_true(cudnn.masked == -FLT_MAX);
    }
    assert_int_equal(cudnn.runs, 4);
    clear(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_tells_what_cudnns_plans_take),
        cmocka_unit_test(cudnn_works_where_its_caller_says),
        cmocka_unit_test(what_cudnn_attends_to_has_the_device_s_precision),
        cmocka_unit_test(who_has_not_asked_fails),
        cmocka_unit_test(who_asks_again_is_told_by_the_same_plans),
        cmocka_unit_test(where_cudnn_has_no_plan_our_own_kernels_attend),
        cmocka_unit_test(what_is_wrong_with_cudnn_is_told_who_asks),
        TEST_ROW(cudnn_is_asked_for, &asked_rows[0]),
        TEST_ROW(cudnn_is_asked_for, &asked_rows[1]),
        TEST_ROW(cudnn_is_asked_for, &asked_rows[2]),
        TEST_ROW(cudnn_is_asked_for, &asked_rows[3]),
        TEST_ROW(cudnn_is_asked_for, &asked_rows[4]),
        TEST_ROW(cudnn_is_asked_for, &asked_rows[5]),
        TEST_ROW(cudnn_is_asked_for, &asked_rows[6]),
        cmocka_unit_test(a_version_whose_gradients_are_wrong_is_refused),
        cmocka_unit_test(what_looks_ahead_is_masked_as_the_version_wants),
    };
    return cmocka_run_group_tests_name("cuda_workspace", tests, NULL, NULL);
}
