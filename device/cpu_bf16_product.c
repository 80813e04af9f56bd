// Matrix products in bf16 by oneDNN's primitives, on processors with AMX or avx512_bf16. Inputs are bf16 and sums are
// float.
//
// AMX multiplies tiles of bf16. For the products of gpt-nano and gpt-10m it is 4 to 5 times as fast as sgemm, with
// matrices in plain order. With weights in oneDNN's own order F and I would take 10 to 20 % less, which is about 5 %
// of a step. But each version of the weights would then need two more copies.
//
// The instructions of avx512_bf16 multiply vectors. On AMD's processors (Zen 4 and later) they are 1.9 to 2.7 times as
// fast as sgemm. On an Intel Xeon they reach half of its speed, so sgemm computes these products there (cpu_half.c).
//
// A primitive is made when a device is first asked for a product of its shape. That takes a few milliseconds. It stays
// until the device is closed. Its scratchpad, of 0.4 MB at most for these models and 0.9 MB for gpt2, is memory of the
// call. With gaps between the rows of a matrix oneDNN 2.6 does not use AMX, so such matrices are copied there:
//
//     memory of a call    | scratchpad | a without gaps | b | c |
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/large.h"
#include "common/number.h"
#include "device/cpu.h"
#include "device/cpu_onednn.h"

struct product_shape {
    size_t m, n, k;
    bool transpose_a, transpose_b, has_bias, adds;
};

struct cpu_product {
    struct cpu_product *next;
    struct product_shape shape;
    dnnl_engine_t engine;
    dnnl_primitive_t primitive;  // NULL: oneDNN has none that uses AMX
    uint64_t scratchpad_bytes;
};

// --- shapes ----------------------------------------------------------------------------------

static struct product_shape shape_of(const struct matmul *x)
{
    return (struct product_shape){
        .m = x->m, .n = x->n, .k = x->k, .transpose_a = x->transpose_a, .transpose_b = x->transpose_b,
        .has_bias = x->bias != NULL, .adds = x->sums != NULL,
    };
}

static bool is_same(const struct product_shape *x, const struct product_shape *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->transpose_a == y->transpose_a
        && x->transpose_b == y->transpose_b && x->has_bias == y->has_bias && x->adds == y->adds;
}

static const struct cpu_product *find(const struct cpu *cpu, const struct product_shape *shape)
{
    const struct cpu_product *product = atomic_load_explicit(&cpu->products, memory_order_acquire);
    while (product && !is_same(&product->shape, shape))
        product = product->next;
    return product;
}

// --- primitives ------------------------------------------------------------------------------

static dnnl_status_t describe_matrix(dnnl_memory_desc_t *matrix, size_t rows, size_t columns, bool is_transposed,
                                     dnnl_data_type_t type)
{
    const dnnl_dims_t sizes = { (dnnl_dim_t)rows, (dnnl_dim_t)columns };
    const dnnl_dims_t plain = { (dnnl_dim_t)columns, 1 }, transposed = { 1, (dnnl_dim_t)rows };
    return onednn_matrix(matrix, sizes, is_transposed ? transposed : plain, type);
}

static dnnl_status_t describe(struct onednn_product *tensors, const struct product_shape *x)
{
    dnnl_status_t status = describe_matrix(&tensors->left, x->m, x->k, x->transpose_a, dnnl_bf16);
    if (status == dnnl_success)
        status = describe_matrix(&tensors->right, x->k, x->n, x->transpose_b, dnnl_bf16);
    if (status == dnnl_success)
        status = describe_matrix(&tensors->bias, 1, x->n, false, dnnl_bf16);
    if (status == dnnl_success)
        status = describe_matrix(&tensors->out, x->m, x->n, false, x->adds ? dnnl_f32 : dnnl_bf16);
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

// oneDNN's other ways to compute such a product are slower than sgemm. The one by vectors is called
// brg:avx512_core_bf16 by oneDNN 2.6, brg_matmul:avx512_core_bf16 by 3.7, and brg_matmul:avx10_1_512 on processors with
// avx512_fp16.
static bool uses(const_dnnl_primitive_desc_t described, enum bf16_by by)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(described, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
        return false;
    return by == BF16_BY_AMX ? strstr(name, "amx") != NULL : strncmp(name, "brg", 3) == 0 && strstr(name, "512");
}

static dnnl_status_t make(struct cpu_product *product, enum bf16_by by)
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
    if (status == dnnl_success && uses(described, by))
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

static void product_clear(struct cpu_product *product)
{
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    if (product->engine)
        dnnl_engine_destroy(product->engine);
}

static void product_free(struct cpu_product *product)
{
    product_clear(product);
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

// oneDNN has one cache of primitives for the process, so one is made at a time.
static dnnl_status_t make_alone(struct cpu_product *product, enum bf16_by by)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const dnnl_status_t status = make(product, by);
    pthread_mutex_unlock(&lock);
    return status;
}

static enum bf16_by quickest_unit(void)
{
#if defined(__x86_64__)
    const dnnl_cpu_isa_t has = dnnl_get_effective_cpu_isa();
    if ((has & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx)
        return BF16_BY_AMX;
    if ((has & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16 && __builtin_cpu_is("amd"))
        return BF16_BY_VECTORS;
#endif
    return BF16_BY_FP32;
}

// A product of gpt-10m shows whether oneDNN uses the unit, so that no device names one that it does not compute with.
enum bf16_by cpu_bf16_by(void)
{
    const enum bf16_by by = quickest_unit();
    struct cpu_product trial = { .shape = { .m = 256, .n = 384, .k = 384 } };
    if (by == BF16_BY_FP32)
        return by;
    const int threads = cpu_begin_alone();
    const bool is_used = make_alone(&trial, by) == dnnl_success && trial.primitive;
    cpu_end_alone(threads);
    product_clear(&trial);
    return is_used ? by : BF16_BY_FP32;
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
    const dnnl_status_t status = make_alone(product, cpu->bf16_by);
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

// --- matrices with gaps ------------------------------------------------------------------------

struct rows {
    size_t count, columns, stride;
};

static struct rows rows_of_a(const struct matmul *x)
{
    return (struct rows){ x->transpose_a ? x->k : x->m, x->transpose_a ? x->m : x->k, x->lda };
}

static struct rows rows_of_b(const struct matmul *x)
{
    return (struct rows){ x->transpose_b ? x->n : x->k, x->transpose_b ? x->k : x->n, x->ldb };
}

static struct rows rows_of_c(const struct matmul *x)
{
    return (struct rows){ x->m, x->n, x->ldc };
}

static bool has_gaps(struct rows rows)
{
    return rows.count > 1 && rows.stride != rows.columns;
}

// Bytes of the matrix without gaps, or 0 if it has none.
static uint64_t packed_bytes(struct rows rows)
{
    return has_gaps(rows) ? round_to_256(rows.count * rows.columns * sizeof(uint16_t)) : 0;
}

static void copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, struct rows rows)
{
    for (size_t row = 0; row < rows.count; row++)
        memcpy((uint16_t *)to + row * to_stride, (const uint16_t *)from + row * from_stride,
               rows.columns * sizeof(uint16_t));
}

// The matrix without gaps: itself, or a copy in `memory`.
static const void *packed(void *memory, const struct values *in, struct rows rows)
{
    if (!has_gaps(rows))
        return in;
    copy_rows(memory, rows.columns, in, rows.stride, rows);
    return memory;
}

// --- calls -----------------------------------------------------------------------------------

// The product goes to `before_gelu` if that is given, since GELU follows.
static dnnl_status_t multiply(const struct cpu_product *product, const struct matmul *x, char *memory)
{
    const struct rows a = rows_of_a(x), b = rows_of_b(x), c = rows_of_c(x);
    char *a_copy = memory + round_to_256(product->scratchpad_bytes), *b_copy = a_copy + packed_bytes(a);
    char *c_copy = b_copy + packed_bytes(b);
    struct values *values = x->before_gelu ? x->before_gelu : x->c;
    const void *out = x->sums ? (void *)x->sums : has_gaps(c) ? (void *)c_copy : (void *)values;
    const struct onednn_bound bounds[] = { { DNNL_ARG_SRC, packed(a_copy, x->a, a) },
                                           { DNNL_ARG_WEIGHTS, packed(b_copy, x->b, b) },
                                           { DNNL_ARG_DST, out },
                                           { DNNL_ARG_SCRATCHPAD, memory },
                                           { DNNL_ARG_BIAS, x->bias } };
    const dnnl_status_t status = onednn_run(product->engine, product->primitive, bounds, x->bias ? 5 : 4);
    if (status == dnnl_success && has_gaps(c))
        copy_rows(values, c.stride, c_copy, c.columns, c);
    return status;
}

static void apply_gelu(struct queue *queue, const struct matmul *x)
{
    const struct kernel_functions *kernels = ((const struct cpu *)queue->device->own)->kernels;
    const bool is_one = !has_gaps(rows_of_c(x));
    const size_t rows = is_one ? 1 : x->m, columns = is_one ? x->m * x->n : x->n;
    for (size_t row = 0; row < rows; row++)
        kernels->gelu(queue, values_at(x->c, PRECISION_BF16, row * x->ldc),
                      values_at(x->before_gelu, PRECISION_BF16, row * x->ldc), columns);
}

static void run_product(struct queue *queue, const struct cpu_product *product, const struct matmul *x)
{
    enum { ALIGNMENT = 256 };
    const uint64_t bytes = round_to_256(product->scratchpad_bytes) + packed_bytes(rows_of_a(x))
                         + packed_bytes(rows_of_b(x)) + packed_bytes(rows_of_c(x));
    char *memory = large_aligned_alloc(ALIGNMENT, bytes + ALIGNMENT);
    if (!memory) {
        queue_fail(queue, "there is no memory for a matrix product in bf16");
        return;
    }
    check(queue, multiply(product, x, memory));
    free(memory);
    if (x->before_gelu && queue_is_well(queue))
        apply_gelu(queue, x);
}

// Whether oneDNN may be asked. Sums with gaps are left to sgemm.
static bool is_possible(const struct cpu *cpu, const struct matmul *x)
{
    return cpu->bf16_by != BF16_BY_FP32 && x->m > 0 && x->n > 0 && x->k > 0 && !(x->sums && has_gaps(rows_of_c(x)));
}

bool cpu_bf16_product(struct queue *queue, const struct matmul *matmul)
{
    if (!is_possible(queue->device->own, matmul))
        return false;
    const struct product_shape shape = shape_of(matmul);
    const int threads = cpu_begin_alone();
    const struct cpu_product *product = find(queue->device->own, &shape);
    if (!product)
        product = add(queue, &shape);
    if (product && product->primitive)
        run_product(queue, product, matmul);
    cpu_end_alone(threads);
    return !product || product->primitive;
}
