// What cuBLASLt is told of a product's addresses, by which it chooses an algorithm: played as far as
// device/cuda/cuda_matmul.c calls it, with the GPU.
#include <cublasLt.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "tests/test.h"

// --- what is played ------------------------------------------------------------------------

static struct {
    uint32_t a, b, c, d;     // how the addresses are said to be aligned
    const void *bias;        // that the choice was made with
    const void *given_bias;  // that the product was made with
    unsigned products;
} told;

static unsigned opened;  // of what the library hands out

static void *open_one(void)
{
    opened++;
    return malloc(1);
}

static cublasStatus_t close_one(void *one)
{
    opened--;
    free(one);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = open_one();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return close_one(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    (void)compute, (void)scale;
    *operation = open_one();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    return close_one(operation);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes)
{
    (void)operation;
    if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        memcpy(&told.given_bias, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading)
{
    (void)type, (void)rows, (void)columns, (void)leading;
    *layout = open_one();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return close_one(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *limits)
{
    *limits = open_one();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t limits)
{
    return close_one(limits);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t limits,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                                    size_t bytes)
{
    (void)limits;
    switch ((int)what) {
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        memcpy(&told.a, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        memcpy(&told.b, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        memcpy(&told.c, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        memcpy(&told.d, value, bytes);
        break;
    default:
        break;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t limits, int wanted,
                                              cublasLtMatmulHeuristicResult_t *found, int *count)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)limits;
    assert_int_equal(wanted, 1);
    told.bias = told.given_bias;
    *found = (cublasLtMatmulHeuristicResult_t){ .state = CUBLAS_STATUS_SUCCESS };
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t of_a, const void *b, cublasLtMatrixLayout_t of_b, const void *beta,
                              const void *c, cublasLtMatrixLayout_t of_c, void *d, cublasLtMatrixLayout_t of_d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t bytes, cudaStream_t stream)
{
    (void)handle, (void)operation, (void)alpha, (void)of_a, (void)of_b, (void)beta, (void)of_c, (void)of_d;
    (void)algorithm, (void)workspace, (void)bytes, (void)stream;
    told.products++;
    assert_int_equal((uintptr_t)a % told.a, 0);
    assert_int_equal((uintptr_t)b % told.b, 0);
    assert_int_equal((uintptr_t)c % told.c, 0);
    assert_int_equal((uintptr_t)d % told.d, 0);
    if (told.bias)
        assert_int_equal((uintptr_t)told.given_bias % (uintptr_t)told.bias, 0);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "played";
}

bool cuda_take_workspace(struct device *device, void **memory, uint64_t bytes, struct error *error)
{
    (void)device, (void)bytes, (void)error;
    *memory = NULL;
    return true;
}

void cuda_give_workspace(struct device *device, void *memory, uint64_t bytes)
{
    (void)device, (void)memory, (void)bytes;
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

cudaError_t cuda_end_matmul(const struct cuda_launch *launch, struct values *c, struct values *before_gelu,
                            const struct values *bias, size_t rows, size_t columns, size_t stride)
{
    (void)launch, (void)c, (void)before_gelu, (void)bias, (void)rows, (void)columns, (void)stride;
    return cudaSuccess;
}

// --- tests -----------------------------------------------------------------------------------

static struct aligned_row {
    const char *name;
    enum precision precision;
    size_t at;     // the byte of 256 where every matrix begins
    bool is_sum;
    uint32_t inputs, result;
} aligned_rows[] = {
    { "addresses of fp32 are multiples of 16, as far as they all are", PRECISION_FP32, 16, false, 16, 16 },
    { "of fp32 that begin anywhere, of 4", PRECISION_FP32, 4, false, 4, 4 },
    { "of bf16 that begin anywhere, of 2", PRECISION_BF16, 2, false, 2, 2 },
    { "of fp16 that begin anywhere, of 2", PRECISION_FP16, 2, false, 2, 2 },
    { "of fp16 that is added up, of 2 and of 4", PRECISION_FP16, 4, true, 2, 4 },
    { "of bf16 that is added up, of 2 and of 4", PRECISION_BF16, 4, true, 2, 4 },
    { "of fp16 at multiples of 16, of 16", PRECISION_FP16, 32, false, 16, 16 },
};

static void is_what_cublaslt_is_told(void **state)
{
    const struct aligned_row *row = *state;
    struct cuda_device own = { 0 };
    struct device device = { .precision = row->precision, .own = &own };
    struct cuda_queue own_queue = { 0 };
    struct queue queue = { .device = &device, .own = &own_queue };
    struct error error = { 0 };
    const uintptr_t at = 0x10000 + row->at;
    struct matmul matmul = { .m = 3, .n = 5, .k = 7, .lda = 7, .ldb = 5, .ldc = 5, .a = (const struct values *)at,
                             .b = (const struct values *)(at + 0x100) };
    memset(&told, 0, sizeof told);
    if (row->is_sum) {
        matmul.sums = (float *)(at + 0x200);
    } else {
        matmul.c = (struct values *)(at + 0x200);
        matmul.bias = (const struct values *)(at + 0x300);
    }
    cuda_give_matmul(&queue, &matmul);
    assert_good(queue_report(&queue, &error), error);
    assert_int_equal(told.products, 1);
    assert_int_equal(told.a, row->inputs);
    assert_int_equal(told.b, row->inputs);
    assert_int_equal(told.c, row->result);
    assert_int_equal(told.d, row->result);
    assert_int_equal((uintptr_t)told.bias, row->is_sum ? 0 : row->inputs);
    cublas_free(own_queue.cublas);
    assert_int_equal(opened, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ROW(is_what_cublaslt_is_told, &aligned_rows[0]), TEST_ROW(is_what_cublaslt_is_told, &aligned_rows[1]),
        TEST_ROW(is_what_cublaslt_is_told, &aligned_rows[2]), TEST_ROW(is_what_cublaslt_is_told, &aligned_rows[3]),
        TEST_ROW(is_what_cublaslt_is_told, &aligned_rows[4]), TEST_ROW(is_what_cublaslt_is_told, &aligned_rows[5]),
        TEST_ROW(is_what_cublaslt_is_told, &aligned_rows[6]),
    };
    return cmocka_run_group_tests_name("cuda_matmul", tests, NULL, NULL);
}
