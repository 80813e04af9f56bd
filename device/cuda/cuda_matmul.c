// Matrix products by cuBLASLt.
//
// A product gives the same bits from run to run, and in whichever queue it is. There are three reasons:
//
// * The algorithm is the heuristic's first choice for the shape. The heuristic sees the shape, the alignment (16 bytes
//   or less, not where memory happens to be) and a workspace of one size. It is asked once per queue and shape.
// * If several blocks sum over parts of k, these sums meet in the workspace, as floats, in a fixed order. Schemes that
//   add in the result, or in its type, are excluded.
// * The workspace is the queue's, so no two products share it.
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "device/column_major.h"
#include "device/cuda/cuda.h"

enum { WORKSPACE_BYTES = 32 << 20 };  // NVIDIA's advice for Hopper

struct prepared {
    struct column_major asked;    // the key for look-ups
    struct column_major product;  // what cuBLASLt is given
    bool ends_separately;  // bias and GELU by a kernel of our own, since cuBLASLt refused them
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulAlgo_t algorithm;
};

struct cublas {
    struct device *device;
    cublasLtHandle_t handle;
    cudaDataType_t values;
    cublasComputeType_t compute;
    int32_t multiprocessors;  // the device's for_products
    void *workspace;
    struct prepared *prepared;
    size_t count, capacity;
};

// --- opening and closing -----------------------------------------------------------------

static bool good(cublasStatus_t status, const char *what, struct error *error)
{
    return status == CUBLAS_STATUS_SUCCESS
        || error_set_kind(error, ERROR_MACHINE, "%s failed: %s", what, cublasLtGetStatusString(status));
}

struct cublas *cublas_create(struct device *device, struct error *error)
{
    struct cublas *cublas = calloc(1, sizeof *cublas);
    if (!cublas)
        return error_null(error_no_memory(error, "a queue"));
    const bool tf32 = cuda_device_of(device)->tf32;
    cublas->device = device;
    static const cudaDataType_t types[] = { [PRECISION_FP32] = CUDA_R_32F, [PRECISION_BF16] = CUDA_R_16BF,
                                            [PRECISION_FP16] = CUDA_R_16F };
    cublas->values = types[device->precision];
    cublas->multiprocessors = cuda_device_of(device)->for_products;
    cublas->compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    if (good(cublasLtCreate(&cublas->handle), "opening cuBLASLt", error)
        && cuda_take_workspace(device, &cublas->workspace, WORKSPACE_BYTES, error))
        return cublas;
    cublas_free(cublas);
    return NULL;
}

// Also for a product whose preparation failed half-way: fields that are NULL were not made.
static void prepared_clear(struct prepared *prepared)
{
    if (prepared->operation)
        cublasLtMatmulDescDestroy(prepared->operation);
    cublasLtMatrixLayout_t layouts[] = { prepared->first, prepared->second, prepared->result };
    for (size_t i = 0; i < 3; i++)
        if (layouts[i])
            cublasLtMatrixLayoutDestroy(layouts[i]);
    *prepared = (struct prepared){ 0 };
}

void cublas_free(struct cublas *cublas)
{
    if (!cublas)
        return;
    for (size_t i = 0; i < cublas->count; i++)
        prepared_clear(&cublas->prepared[i]);
    free(cublas->prepared);
    cuda_give_workspace(cublas->device, cublas->workspace, WORKSPACE_BYTES);
    if (cublas->handle)
        cublasLtDestroy(cublas->handle);
    free(cublas);
}

// --- preparing a product -------------------------------------------------------------------

static cublasStatus_t make_layout(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                  const struct column_matrix *matrix)
{
    return cublasLtMatrixLayoutCreate(layout, type, matrix->rows, matrix->columns, matrix->leading);
}

static cublasStatus_t set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t what, const void *value,
                          size_t bytes)
{
    return cublasLtMatmulDescSetAttribute(operation, what, value, bytes);
}

static cublasLtEpilogue_t end_of(const struct column_major *product)
{
    if (product->has_gelu)
        return product->has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    return product->has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cublasStatus_t set_addresses(const struct prepared *prepared, const void *bias, const void *before_gelu)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (prepared->product.has_bias)
        status = set(prepared->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (status == CUBLAS_STATUS_SUCCESS && prepared->product.has_gelu)
        status = set(prepared->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &before_gelu, sizeof before_gelu);
    return status;
}

// The number that every address is a multiple of. Most addresses have a larger alignment, but with this one the same
// algorithm serves all products of a shape.
static uint32_t alignment_of(const struct column_major *product, uint32_t number_bytes)
{
    return product->is_aligned ? 16 : number_bytes;
}

static uint32_t value_bytes(const struct cublas *cublas)
{
    return (uint32_t)precision_bytes(cublas->device->precision);
}

static cublasStatus_t describe(const struct cublas *cublas, struct prepared *prepared)
{
    const struct column_major *product = &prepared->product;
    const cublasOperation_t first = product->transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = product->transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t end = end_of(product);
    // The heuristic takes the alignment of the bias and of the GELU's input from their addresses.
    const void *any = (const void *)(uintptr_t)alignment_of(product, value_bytes(cublas));
    cublasStatus_t status = cublasLtMatmulDescCreate(&prepared->operation, cublas->compute, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(prepared->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(prepared->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set(prepared->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end);
    if (status == CUBLAS_STATUS_SUCCESS && cublas->multiprocessors > 0)
        status = set(prepared->operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &cublas->multiprocessors,
                     sizeof cublas->multiprocessors);
    if (status == CUBLAS_STATUS_SUCCESS && product->has_gelu)
        status = set(prepared->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &product->result.leading,
                     sizeof product->result.leading);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_addresses(prepared, any, any);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&prepared->first, cublas->values, &product->first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&prepared->second, cublas->values, &product->second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&prepared->result, product->adds ? CUDA_R_32F : cublas->values, &product->result);
    return status;
}

static cublasStatus_t set_limits(const struct cublas *cublas, const struct column_major *product,
                                 cublasLtMatmulPreference_t limits)
{
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t inputs = alignment_of(product, value_bytes(cublas));
    const uint32_t result = alignment_of(product, product->adds ? sizeof(float) : value_bytes(cublas));
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t bytes;
    } all[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &inputs, sizeof inputs },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &inputs, sizeof inputs },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &result, sizeof result },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &result, sizeof result },
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; status == CUBLAS_STATUS_SUCCESS && i < sizeof all / sizeof all[0]; i++)
        status = cublasLtMatmulPreferenceSetAttribute(limits, all[i].what, all[i].value, all[i].bytes);
    return status;
}

static cublasStatus_t choose(const struct cublas *cublas, struct prepared *prepared)
{
    cublasLtMatmulPreference_t limits;
    cublasLtMatmulHeuristicResult_t found = { 0 };
    int count = 0;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&limits);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    status = set_limits(cublas, &prepared->product, limits);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(cublas->handle, prepared->operation, prepared->first, prepared->second,
                                                prepared->result, prepared->result, limits, 1, &found, &count);
    cublasLtMatmulPreferenceDestroy(limits);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = count > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED;
    prepared->algorithm = found.algo;
    return status;
}

// For floats and for fp16, which has three bits more than bfloat16, GELU is always our own: the accuracy of
// cuBLASLt's GELU compared with tanh is not documented.
static bool can_end(const struct cublas *cublas, const struct column_major *product)
{
    return column_major_can_end(product) && (!product->has_gelu || cublas->values == CUDA_R_16BF);
}

// Whether cuBLASLt always answers a product of this kind like this. Any other status is an error, such as a lack of
// memory. Continuing in another way would then give other bits on one queue alone.
static bool is_refused(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE
        || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

// Tries the whole product in one, and without its epilogue if that is refused.
static cublasStatus_t prepare(const struct cublas *cublas, const struct column_major *product,
                              struct prepared *prepared)
{
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    *prepared = (struct prepared){ .asked = *product, .product = *product };
    if (can_end(cublas, product))
        status = describe(cublas, prepared);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = choose(cublas, prepared);
    if (!is_refused(status) || (!product->has_bias && !product->has_gelu))
        return status;
    prepared_clear(prepared);
    *prepared =
        (struct prepared){ .asked = *product, .product = column_major_plain(*product), .ends_separately = true };
    status = describe(cublas, prepared);
    return status == CUBLAS_STATUS_SUCCESS ? choose(cublas, prepared) : status;
}

// --- multiplying -----------------------------------------------------------------------------

static bool check(struct queue *queue, cublasStatus_t status, const struct matmul *matmul)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return true;
    char sentence[200];
    snprintf(sentence, sizeof sentence, "a matrix product of %zu x %zu x %zu by cuBLASLt failed: %s", matmul->m,
             matmul->k, matmul->n, cublasLtGetStatusString(status));
    queue_fail(queue, sentence);
    return false;
}

// Shapes are few, and all occur in the first iteration.
static const struct prepared *find(struct queue *queue, struct cublas *cublas, const struct column_major *product,
                                   const struct matmul *matmul)
{
    for (size_t i = 0; i < cublas->count; i++)
        if (memcmp(&cublas->prepared[i].asked, product, sizeof *product) == 0)
            return &cublas->prepared[i];
    if (!array_reserve(&cublas->prepared, &cublas->capacity, cublas->count + 1, sizeof cublas->prepared[0])) {
        queue_fail(queue, "no memory for a matrix product");
        return NULL;
    }
    struct prepared *prepared = &cublas->prepared[cublas->count];
    const cublasStatus_t status = prepare(cublas, product, prepared);
    if (!check(queue, status, matmul)) {
        prepared_clear(prepared);
        return NULL;
    }
    cublas->count++;
    return prepared;
}

// The queue's handles. NULL after failing the queue.
static struct cublas *handles_of(struct queue *queue)
{
    struct cuda_queue *cuda = cuda_queue_of(queue);
    struct error error = { 0 };
    if (!cuda->cublas && !(cuda->cublas = cublas_create(queue->device, &error)))
        queue_fail(queue, error.text);
    return cuda->cublas;
}

void cuda_give_matmul(struct queue *queue, const struct matmul *matmul)
{
    if (matmul->m == 0 || matmul->n == 0)
        return;
    const struct cuda_launch *launch = cuda_launch_of(queue);
    struct cublas *cublas = handles_of(queue);
    const struct column_major product = column_major_of(matmul);
    const struct prepared *prepared = cublas ? find(queue, cublas, &product, matmul) : NULL;
    if (!prepared)
        return;
    const float one = 1, beta = product.adds ? 1 : 0;
    void *result = product.adds ? (void *)matmul->sums : (void *)matmul->c;
    cublasStatus_t status = set_addresses(prepared, matmul->bias, matmul->before_gelu);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmul(cublas->handle, prepared->operation, &one, matmul->b, prepared->first, matmul->a,
                                prepared->second, &beta, result, prepared->result, result, prepared->result,
                                &prepared->algorithm, cublas->workspace, WORKSPACE_BYTES, launch->stream);
    if (check(queue, status, matmul) && prepared->ends_separately)
        cuda_check(queue, cuda_end_matmul(launch, matmul->c, matmul->before_gelu, matmul->bias, matmul->m, matmul->n,
                                          matmul->ldc),
                   "the end of a matrix product");
}
