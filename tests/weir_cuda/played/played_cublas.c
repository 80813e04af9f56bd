// cuBLASLt: every product is done by oneDNN, in floats, on copies that are packed. What is said of addresses, leading
// dimensions and workspaces is held against what is given.
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu.h"
#include "tests/weir_cuda/played/played.h"
#include "tests/weir_cuda/played/played_numbers.h"

struct description {
    cublasComputeType_t compute;
    cublasOperation_t first, second;
    cublasLtEpilogue_t end;
    const void *bias;
    void *aux;
    int64_t aux_leading;
    int32_t multiprocessors;
};

struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t leading;
};

struct preference {
    uint64_t workspace;
    uint32_t schemes, alignment[4];  // of A, B, C and D
};

// What stands in an algorithm, which nobody else can read.
struct chosen {
    uint32_t is_ours, alignment[4];
    uint64_t workspace;
};
enum { OURS = 0x77656972 };
_Static_assert(sizeof(struct chosen) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm holds what was chosen");

struct product {
    struct description how;
    struct layout a, b, d;
    const void *A, *B, *C;
    void *D, *workspace;
    float alpha, beta;
    uint64_t workspace_bytes;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    PLAYED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
    played_must_not_capture(__func__);
    *handle = calloc(1, 8);
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_INTERNAL_ERROR";
}

// --- what a product is described by -------------------------------------------------------

static void *made(const void *like, size_t bytes)
{
    void *copy = malloc(bytes);
    return copy ? memcpy(copy, like, bytes) : NULL;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *how, cublasComputeType_t compute, cudaDataType_t scale)
{
    PLAYED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
    if (scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const struct description description = { .compute = compute, .end = CUBLASLT_EPILOGUE_DEFAULT };
    *how = made(&description, sizeof description);
    return *how ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t how)
{
    free(how);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t how, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes)
{
    PLAYED_CALL(CUBLAS_STATUS_INTERNAL_ERROR);
    struct description *own = (struct description *)how;
    const struct {
        cublasLtMatmulDescAttributes_t what;
        void *to;
        size_t bytes;
    } known[] = {
        { CUBLASLT_MATMUL_DESC_TRANSA, &own->first, sizeof own->first },
        { CUBLASLT_MATMUL_DESC_TRANSB, &own->second, sizeof own->second },
        { CUBLASLT_MATMUL_DESC_EPILOGUE, &own->end, sizeof own->end },
        { CUBLASLT_MATMUL_DESC_BIAS_POINTER, &own->bias, sizeof own->bias },
        { CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &own->aux, sizeof own->aux },
        { CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &own->aux_leading, sizeof own->aux_leading },
        { CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &own->multiprocessors, sizeof own->multiprocessors },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].what == what) {
            if (bytes != known[i].bytes)
                played_complain("cuBLASLt: attribute %d of %zu bytes, not of %zu", (int)what, bytes, known[i].bytes);
            memcpy(known[i].to, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    played_complain("cuBLASLt: attribute %d of a product is not played", (int)what);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matrix, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading)
{
    PLAYED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
    if (leading < (int64_t)rows)
        played_complain("cuBLASLt: columns of %llu numbers begin %lld apart", (unsigned long long)rows, (long long)leading);
    const struct layout layout = { type, rows, columns, leading };
    *matrix = made(&layout, sizeof layout);
    return *matrix ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix)
{
    free(matrix);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    PLAYED_CALL(CUBLAS_STATUS_ALLOC_FAILED);
    const struct preference usual = { .alignment = { 256, 256, 256, 256 } };
    *preference = made(&usual, sizeof usual);
    return *preference ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                                    size_t bytes)
{
    PLAYED_CALL(CUBLAS_STATUS_INTERNAL_ERROR);
    struct preference *own = (struct preference *)preference;
    switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: memcpy(&own->workspace, value, bytes); break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: memcpy(&own->schemes, value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: memcpy(&own->alignment[0], value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: memcpy(&own->alignment[1], value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: memcpy(&own->alignment[2], value, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: memcpy(&own->alignment[3], value, bytes); break;
    default: played_complain("cuBLASLt: preference %d is not played", (int)what);
    }
    return CUBLAS_STATUS_SUCCESS;
}

static bool keeps_aux(cublasLtEpilogue_t end)
{
    return end == CUBLASLT_EPILOGUE_GELU_AUX || end == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

static bool has_bias(cublasLtEpilogue_t end)
{
    return end == CUBLASLT_EPILOGUE_BIAS || end == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int asked, cublasLtMatmulHeuristicResult_t *results, int *count)
{
    (void)handle, (void)a, (void)b, (void)c;
    PLAYED_CALL(CUBLAS_STATUS_INTERNAL_ERROR);
    played_must_not_capture(__func__);
    const struct description *own = (const struct description *)how;
    const struct preference *limits = (const struct preference *)preference;
    const struct layout *result = (const struct layout *)d;
    *count = 0;
    if (limits->schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE)
        played_complain("cuBLASLt may add up in the result, in any order");
    if (keeps_aux(own->end)
        && (own->aux_leading % 8 != 0 || (uintptr_t)own->aux % 16 != 0 || result->type == CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (asked < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct chosen chosen = { .is_ours = OURS, .workspace = limits->workspace };
    memcpy(chosen.alignment, limits->alignment, sizeof chosen.alignment);
    memset(results, 0, sizeof *results);
    memcpy(&results->algo, &chosen, sizeof chosen);
    results->workspaceSize = chosen.workspace;
    results->state = CUBLAS_STATUS_SUCCESS;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

// --- the product ---------------------------------------------------------------------------------

static void must_be_inside(const void *memory, const struct layout *of, const char *what)
{
    if (of->columns > 0)
        played_must_be_inside(memory, (((of->columns - 1) * (uint64_t)of->leading) + of->rows) * played_size(of->type), what);
}

static void look(const struct product *product, const struct chosen *chosen)
{
    const void *const addresses[] = { product->A, product->B, product->C, product->D };
    if (chosen->is_ours != OURS)
        played_complain("cuBLASLt: an algorithm that no heuristic gave");
    for (size_t i = 0; i < 4; i++)
        if ((uintptr_t)addresses[i] % chosen->alignment[i] != 0)
            played_complain("cuBLASLt: address %c is no multiple of %u, as was said", "ABCD"[i], chosen->alignment[i]);
    if (product->workspace_bytes < chosen->workspace || (uintptr_t)product->workspace % 256 != 0)
        played_complain("cuBLASLt: a workspace of %llu bytes, and %llu were wanted",
                        (unsigned long long)product->workspace_bytes, (unsigned long long)chosen->workspace);
    const bool ta = product->how.first == CUBLAS_OP_T, tb = product->how.second == CUBLAS_OP_T;
    const uint64_t k = ta ? product->a.rows : product->a.columns;
    if ((ta ? product->a.columns : product->a.rows) != product->d.rows
        || (tb ? product->b.rows : product->b.columns) != product->d.columns
        || (tb ? product->b.columns : product->b.rows) != k)
        played_complain("cuBLASLt: a product of shapes that do not fit");
    must_be_inside(product->A, &product->a, "the first factor");
    must_be_inside(product->B, &product->b, "the second factor");
    must_be_inside(product->D, &product->d, "a product");
    if (has_bias(product->how.end))
        played_must_be_inside(product->how.bias, product->d.rows * played_size(product->d.type), "a bias");
    if (keeps_aux(product->how.end))
        must_be_inside(product->how.aux, &(struct layout){ product->d.type, product->d.rows, product->d.columns,
                                                           product->how.aux_leading }, "what goes into a GELU");
    played_must_be_inside(product->workspace, product->workspace_bytes, "a workspace");
}

// op(matrix)^T, in rows of `columns` numbers that lie one behind the other.
static float *packed(const void *memory, const struct layout *of, bool is_transposed, bool tf32, uint64_t rows,
                     uint64_t columns)
{
    const uint64_t leading = (uint64_t)of->leading;
    float *all = malloc((rows * columns + 1) * sizeof *all);
    if (!all)
        played_complain("no memory for a product");
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++) {
            const float x = played_read(memory, is_transposed ? c * leading + r : r * leading + c, of->type);
            all[r * columns + c] = tf32 ? played_tf32(x) : x;
        }
    return all;
}

static float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static void end_product(const struct product *product, const float *sums, uint64_t m, uint64_t n)
{
    const struct description *how = &product->how;
    const cudaDataType_t type = product->d.type;
    for (uint64_t j = 0; j < n; j++)
        for (uint64_t i = 0; i < m; i++) {
            const size_t at = j * (uint64_t)product->d.leading + i;
            float y = product->alpha * sums[j * m + i];
            if (product->beta != 0)
                y += product->beta * played_read(product->C, at, type);
            if (has_bias(how->end))
                y += played_read(how->bias, i, type);
            if (keeps_aux(how->end)) {
                played_write(how->aux, j * (uint64_t)how->aux_leading + i, type, y);
                y = gelu(y);
            }
            played_write(product->D, at, type, y);
        }
}

// Somebody else's numbers in the workspace would be lost now.
static void scribble(const struct product *product)
{
    enum { SCRIBBLED = 4096 };
    memset(product->workspace, 0xff, SCRIBBLED);
    memset((char *)product->workspace + product->workspace_bytes - SCRIBBLED, 0xff, SCRIBBLED);
}

// D = op(A) op(B) by columns is D^T = op(B)^T op(A)^T by rows.
static void multiply(void *arguments)
{
    const struct product *product = arguments;
    const bool tf32 = product->how.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    const bool ta = product->how.first == CUBLAS_OP_T, tb = product->how.second == CUBLAS_OP_T;
    const uint64_t m = product->d.rows, n = product->d.columns, k = ta ? product->a.rows : product->a.columns;
    float *a = packed(product->A, &product->a, ta, tf32, k, m), *b = packed(product->B, &product->b, tb, tf32, n, k);
    float *sums = calloc(m * n + 1, sizeof *sums);
    struct queue queue = { .state = QUEUE_WELL };
    const struct matmul rows = { .m = n, .n = m, .k = k, .a = (struct values *)b, .lda = k, .b = (struct values *)a,
                                 .ldb = m, .c = (struct values *)sums, .ldc = m };
    if (!sums)
        played_complain("no memory for a product");
    scribble(product);
    if (k > 0)
        cpu_product(&queue, &rows);
    if (!queue_is_well(&queue))
        played_complain("%s", queue.error.text);
    end_product(product, sums, m, n);
    free(a);
    free(b);
    free(sums);
    played_counts.products++;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    (void)handle, (void)c;
    PLAYED_CALL(CUBLAS_STATUS_EXECUTION_FAILED);
    const struct product product = {
        .how = *(const struct description *)how, .a = *(const struct layout *)a, .b = *(const struct layout *)b,
        .d = *(const struct layout *)d, .A = A, .B = B, .C = C, .D = D, .workspace = workspace,
        .alpha = *(const float *)alpha, .beta = *(const float *)beta, .workspace_bytes = workspace_bytes,
    };
    struct chosen chosen;
    memcpy(&chosen, algorithm, sizeof chosen);
    look(&product, &chosen);
    const cudaError_t status = played_append(stream, "a matrix product", multiply, NULL, &product, sizeof product);
    return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
