// Matrix products in bf16 by oneDNN's primitives, on processors with AMX. Inputs are bf16 and sums are float.
//
// AMX multiplies tiles of bf16. For the products of gpt-nano and gpt-10m it is 4 to 5 times as fast as sgemm, with
// matrices in plain order. Without AMX the instructions of avx512_bf16 reach half of sgemm's speed there, so sgemm
// computes these products (cpu_half.c).
//
// A primitive is made when a device is first asked for a product of its shape. That takes about a millisecond. It
// stays until the device is closed. Its scratchpad, of 0.4 MB at most for these models, is memory of the call.
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/number.h"
#include "device/cpu.h"
#include "device/cpu_onednn.h"

struct product_shape {
    size_t m, n, k, lda, ldb, ldc;
    bool transpose_a, transpose_b, has_bias, adds;
};

struct cpu_product {
    struct cpu_product *next;
    struct product_shape shape;
    dnnl_engine_t engine;
    dnnl_primitive_t primitive;  // NULL: oneDNN has none that uses AMX
    uint64_t scratchpad_bytes;
};

bool cpu_has_amx(void)
{
#if defined(__x86_64__)
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
#else
    return false;
#endif
}

// --- shapes ----------------------------------------------------------------------------------

static struct product_shape shape_of(const struct matmul *x)
{
    return (struct product_shape){
        .m = x->m, .n = x->n, .k = x->k, .lda = x->lda, .ldb = x->ldb, .ldc = x->ldc,
        .transpose_a = x->transpose_a, .transpose_b = x->transpose_b,
        .has_bias = x->bias != NULL, .adds = x->sums != NULL,
    };
}

static bool is_same(const struct product_shape *x, const struct product_shape *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->lda == y->lda && x->ldb == y->ldb && x->ldc == y->ldc
        && x->transpose_a == y->transpose_a && x->transpose_b == y->transpose_b && x->has_bias == y->has_bias
        && x->adds == y->adds;
}

static const struct cpu_product *find(const struct cpu *cpu, const struct product_shape *shape)
{
    const struct cpu_product *product = atomic_load_explicit(&cpu->products, memory_order_acquire);
    while (product && !is_same(&product->shape, shape))
        product = product->next;
    return product;
}

// --- primitives ------------------------------------------------------------------------------

static dnnl_status_t describe_matrix(dnnl_memory_desc_t *matrix, size_t rows, size_t columns, size_t stride,
                                     bool is_transposed, dnnl_data_type_t type)
{
    const dnnl_dims_t sizes = { (dnnl_dim_t)rows, (dnnl_dim_t)columns };
    const dnnl_dims_t plain = { (dnnl_dim_t)stride, 1 }, transposed = { 1, (dnnl_dim_t)stride };
    return onednn_matrix(matrix, sizes, is_transposed ? transposed : plain, type);
}

static dnnl_status_t describe(struct onednn_product *tensors, const struct product_shape *x)
{
    dnnl_status_t status = describe_matrix(&tensors->left, x->m, x->k, x->lda, x->transpose_a, dnnl_bf16);
    if (status == dnnl_success)
        status = describe_matrix(&tensors->right, x->k, x->n, x->ldb, x->transpose_b, dnnl_bf16);
    if (status == dnnl_success)
        status = describe_matrix(&tensors->bias, 1, x->n, x->n, false, dnnl_bf16);
    if (status == dnnl_success)
        status = describe_matrix(&tensors->out, x->m, x->n, x->ldc, false, x->adds ? dnnl_f32 : dnnl_bf16);
    tensors->has_bias = x->has_bias;
    return status;
}

// The scratchpad is the caller's. Gradients are added to what is there.
static dnnl_status_t set_attributes(dnnl_primitive_attr_t attributes, bool adds)
{
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status != dnnl_success || !adds)
        return status;
    status = dnnl_post_ops_create(&after);
    if (status == dnnl_success)
        status = onednn_add_result(after);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attributes, after);
    if (after)
        dnnl_post_ops_destroy(after);
    return status;
}

// oneDNN's other ways to compute such a product are slower than sgemm.
static bool uses_amx(const_dnnl_primitive_desc_t described)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(described, dnnl_query_impl_info_str, 0, &name) == dnnl_success
        && strstr(name, "amx");
}

static dnnl_status_t make(struct cpu_product *product)
{
    struct onednn_product tensors = { .has_bias = false };
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t described = NULL;
    dnnl_status_t status = dnnl_engine_create(&product->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = describe(&tensors, &product->shape);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&attributes);
    if (status == dnnl_success)
        status = set_attributes(attributes, product->shape.adds);
    if (status == dnnl_success)
        status = onednn_describe_product(&described, &tensors, attributes, product->engine);
    if (status == dnnl_success && uses_amx(described))
        status = onednn_make_primitive(&product->primitive, status, described);
    else if (described)
        dnnl_primitive_desc_destroy(described);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    onednn_product_clear(&tensors);
    if (product->primitive)
        product->scratchpad_bytes = onednn_scratchpad_bytes(product->primitive);
    return status == dnnl_unimplemented ? dnnl_success : status;
}

static void product_free(struct cpu_product *product)
{
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    if (product->engine)
        dnnl_engine_destroy(product->engine);
    free(product);
}

void cpu_forget_products(struct cpu *cpu)
{
    struct cpu_product *product = atomic_load_explicit(&cpu->products, memory_order_acquire);
    while (product) {
        struct cpu_product *next = product->next;
        product_free(product);
        product = next;
    }
}

static void check(struct queue *queue, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        queue_fail(queue, "oneDNN had no memory for a matrix product in bf16");
    else if (status != dnnl_success)
        queue_fail(queue, "oneDNN refused a matrix product in bf16");
}

// Two threads that ask at the same time may each add one. Later calls find either.
static const struct cpu_product *add(struct queue *queue, const struct product_shape *shape)
{
    struct cpu *cpu = queue->device->own;
    struct cpu_product *product = calloc(1, sizeof *product);
    if (!product) {
        queue_fail(queue, "there is no memory for a matrix product in bf16");
        return NULL;
    }
    product->shape = *shape;
    const dnnl_status_t status = make(product);
    check(queue, status);
    if (status != dnnl_success) {
        product_free(product);
        return NULL;
    }
    product->next = atomic_load_explicit(&cpu->products, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&cpu->products, &product->next, product))
        ;
    return product;
}

// --- calls -----------------------------------------------------------------------------------

// The product goes to `before_gelu` if that is given, since GELU follows.
static dnnl_status_t multiply(const struct cpu_product *product, const struct matmul *x, const void *scratchpad)
{
    const void *out = x->sums ? (const void *)x->sums : x->before_gelu ? x->before_gelu : x->c;
    const struct onednn_bound bounds[] = { { DNNL_ARG_SRC, x->a },
                                           { DNNL_ARG_WEIGHTS, x->b },
                                           { DNNL_ARG_DST, out },
                                           { DNNL_ARG_SCRATCHPAD, scratchpad },
                                           { DNNL_ARG_BIAS, x->bias } };
    return onednn_run(product->engine, product->primitive, bounds, x->bias ? 5 : 4);
}

static void apply_gelu(struct queue *queue, const struct matmul *x)
{
    const struct kernel_functions *kernels = ((const struct cpu *)queue->device->own)->kernels;
    const bool is_packed = x->ldc == x->n;
    const size_t rows = is_packed ? 1 : x->m, columns = is_packed ? x->m * x->n : x->n;
    for (size_t row = 0; row < rows; row++)
        kernels->gelu(queue, values_at(x->c, PRECISION_BF16, row * x->ldc),
                      values_at(x->before_gelu, PRECISION_BF16, row * x->ldc), columns);
}

static void run_product(struct queue *queue, const struct cpu_product *product, const struct matmul *x)
{
    enum { ALIGNMENT = 256 };
    void *scratchpad = large_aligned_alloc(ALIGNMENT, round_to_256(product->scratchpad_bytes + 1));
    if (!scratchpad) {
        queue_fail(queue, "there is no memory for a matrix product in bf16");
        return;
    }
    check(queue, multiply(product, x, scratchpad));
    free(scratchpad);
    if (x->before_gelu && queue_is_well(queue))
        apply_gelu(queue, x);
}

bool cpu_bf16_product(struct queue *queue, const struct matmul *matmul)
{
    const struct cpu *cpu = queue->device->own;
    if (!cpu->has_amx || matmul->m == 0 || matmul->n == 0 || matmul->k == 0)
        return false;
    const struct product_shape shape = shape_of(matmul);
    const int threads = cpu_begin_alone();
    const struct cpu_product *product = find(cpu, &shape);
    if (!product)
        product = add(queue, &shape);
    if (product && product->primitive)
        run_product(queue, product, matmul);
    cpu_end_alone(threads);
    return !product || product->primitive;
}
