// The kernels of "cpu:bf16" and "cpu:fp16": slow reference kernels for 16-bit numbers (half.h). Each widens its
// inputs to floats, calls the plain kernel, and rounds that one's output to nearest even.
//
//     16 bits   a ----> float ---> kernel ---> float ----> out   16 bits
//                exact                          one rounding
//
// Floats that a kernel reads or adds to are given to the plain kernel as they are.
#include <stdlib.h>
#include <string.h>

#include "device/cpu.h"
#include "device/half.h"

static const struct kernel_functions *plain(const struct queue *queue)
{
    return ((const struct cpu *)queue->device->own)->float_kernels;
}

static void widen(const struct queue *queue, float *out, const struct values *in, size_t count)
{
    const uint16_t *from = (const uint16_t *)in;
    if (queue->device->precision == PRECISION_FP16)
        for (size_t i = 0; i < count; i++)
            out[i] = half_widen_fp16(from[i]);
    else
        for (size_t i = 0; i < count; i++)
            out[i] = half_widen_bf16(from[i]);
}

static void narrow(const struct queue *queue, struct values *out, const float *in, size_t count)
{
    uint16_t *to = (uint16_t *)out;
    if (queue->device->precision == PRECISION_FP16)
        for (size_t i = 0; i < count; i++)
            to[i] = half_round_fp16(in[i]);
    else
        for (size_t i = 0; i < count; i++)
            to[i] = half_round_bf16(in[i]);
}

// --- a call ------------------------------------------------------------------------

// The floats that stand for a kernel's values while it is called. Memory is allocated and freed with each call, since
// these are reference kernels and need not be fast.
struct call {
    struct queue *queue;
    struct {
        float *floats;
        struct values *out;  // where they go; NULL for an input
        size_t rows, columns, stride;
    } piece[8];
    size_t count;
};

static float *add_piece(struct call *call, struct values *out, size_t rows, size_t columns, size_t stride)
{
    float *floats = malloc(rows * columns * sizeof(float) + 1);
    if (!floats) {
        queue_fail(call->queue, "there is no memory for the floats of a kernel of 16-bit numbers");
        return NULL;
    }
    call->piece[call->count].floats = floats;
    call->piece[call->count].out = out;
    call->piece[call->count].rows = rows;
    call->piece[call->count].columns = columns;
    call->piece[call->count++].stride = stride;
    return floats;
}

static const struct values *input(struct call *call, const struct values *in, size_t count)
{
    float *floats = in ? add_piece(call, NULL, 1, count, count) : NULL;
    if (floats)
        widen(call->queue, floats, in, count);
    return (const struct values *)floats;
}

static struct values *output_rows(struct call *call, struct values *out, size_t rows, size_t columns, size_t stride)
{
    return out ? (struct values *)add_piece(call, out, rows, columns, stride) : NULL;
}

static struct values *output(struct call *call, struct values *out, size_t count)
{
    return output_rows(call, out, 1, count, count);
}

// For an output of which the kernel changes only some numbers: the floats begin with what is already there.
static struct values *added_to(struct call *call, struct values *out, size_t count)
{
    float *floats = add_piece(call, out, 1, count, count);
    if (floats)
        widen(call->queue, floats, out, count);
    return (struct values *)floats;
}

// Calls the plain kernel if there was memory for everything, and rounds its outputs unless it failed.
#define CALL(call, kernel, ...)                                            \
    do {                                                                   \
        if (queue_is_well((call)->queue))                                  \
            plain((call)->queue)->kernel((call)->queue, __VA_ARGS__);      \
        call_end(call);                                                    \
    } while (0)

static void call_end(struct call *call)
{
    const bool good = queue_is_well(call->queue);
    const enum precision precision = call->queue->device->precision;
    for (size_t i = 0; i < call->count; i++) {
        for (size_t row = 0; good && call->piece[i].out && row < call->piece[i].rows; row++)
            narrow(call->queue, values_at(call->piece[i].out, precision, row * call->piece[i].stride),
                   call->piece[i].floats + row * call->piece[i].columns, call->piece[i].columns);
        free(call->piece[i].floats);
    }
}

// --- products, and element by element ------------------------------------------------

// How many numbers a matrix spans if its rows are `stride` apart.
static size_t reach(size_t rows, size_t columns, size_t stride)
{
    return rows > 0 ? (rows - 1) * stride + columns : 0;
}

static void halves_matmul(struct queue *queue, const struct matmul *matmul)
{
    if (cpu_bf16_product(queue, matmul))
        return;
    struct call call = { .queue = queue };
    struct matmul x = *matmul;
    x.a = input(&call, x.a, x.transpose_a ? reach(x.k, x.m, x.lda) : reach(x.m, x.k, x.lda));
    x.b = input(&call, x.b, x.transpose_b ? reach(x.n, x.k, x.ldb) : reach(x.k, x.n, x.ldb));
    x.bias = input(&call, x.bias, x.n);
    x.c = output_rows(&call, x.c, x.m, x.n, x.ldc);
    x.before_gelu = output_rows(&call, x.before_gelu, x.m, x.n, x.ldc);
    if (!x.sums)
        x.ldc = x.n;
    CALL(&call, matmul, &x);
}

static void halves_fill(struct queue *queue, struct values *out, float value, size_t count)
{
    struct call call = { .queue = queue };
    struct values *to = output(&call, out, count);
    CALL(&call, fill, to, value, count);
}

static void halves_fill_normal(struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                               size_t count)
{
    struct call call = { .queue = queue };
    struct values *to = output(&call, out, count);
    CALL(&call, fill_normal, to, deviation, key, first, count);
}

static void halves_add(struct queue *queue, struct values *out, const struct values *a, const struct values *b,
                       size_t count)
{
    struct call call = { .queue = queue };
    const struct values *left = input(&call, a, count), *right = input(&call, b, count);
    struct values *to = output(&call, out, count);
    CALL(&call, add, to, left, right, count);
}

static void halves_scale(struct queue *queue, float *out, const float *in, float factor, size_t count)
{
    plain(queue)->scale(queue, out, in, factor, count);
}

static void halves_add_floats(struct queue *queue, float *out, const float *a, const float *b, size_t count)
{
    plain(queue)->add_floats(queue, out, a, b, count);
}

static void halves_widen(struct queue *queue, float *out, const struct values *in, size_t count)
{
    widen(queue, out, in, count);
}

static void halves_narrow(struct queue *queue, struct values *out, const float *in, size_t count)
{
    narrow(queue, out, in, count);
}

static void halves_dropout(struct queue *queue, struct values *out, const struct values *in, size_t count,
                           struct dropout dropout)
{
    struct call call = { .queue = queue };
    const struct values *from = input(&call, in, count);
    struct values *to = output(&call, out, count);
    CALL(&call, dropout, to, from, count, dropout);
}

static void halves_relu(struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count)
{
    struct call call = { .queue = queue };
    const struct values *from = input(&call, in, count);
    struct values *to = output(&call, out, count);
    CALL(&call, relu, to, passed, from, count);
}

static void halves_relu_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                                 const uint8_t *passed, size_t count)
{
    struct call call = { .queue = queue };
    const struct values *from = input(&call, out_gradient, count);
    struct values *to = output(&call, in_gradient, count);
    CALL(&call, relu_backward, to, from, passed, count);
}

static void halves_gelu(struct queue *queue, struct values *out, const struct values *in, size_t count)
{
    struct call call = { .queue = queue };
    const struct values *from = input(&call, in, count);
    struct values *to = output(&call, out, count);
    CALL(&call, gelu, to, from, count);
}

static void halves_gelu_backward(struct queue *queue, struct values *in_gradient, struct values *out,
                                 const struct values *out_gradient, const struct values *in, size_t count)
{
    struct call call = { .queue = queue };
    const struct values *gradient = input(&call, out_gradient, count), *from = input(&call, in, count);
    struct values *to = output(&call, in_gradient, count), *again = output(&call, out, count);
    CALL(&call, gelu_backward, to, again, gradient, from, count);
}

// --- rows and columns ------------------------------------------------------------------

static void halves_add_branch(struct queue *queue, struct values *out, const struct values *trunk,
                              const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                              struct dropout dropout)
{
    struct call call = { .queue = queue };
    const struct values *along = input(&call, trunk, rows * columns), *from = input(&call, branch, rows * columns);
    const struct values *biases = input(&call, bias, columns);
    struct values *to = output(&call, out, rows * columns);
    CALL(&call, add_branch, to, along, from, biases, rows, columns, dropout);
}

static void halves_sum_columns(struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns)
{
    struct call call = { .queue = queue };
    const struct values *from = input(&call, in, rows * columns);
    CALL(&call, sum_columns, sums, from, rows, columns);
}

static void halves_softmax(struct queue *queue, struct values *out, const struct values *in, size_t rows,
                           size_t columns)
{
    struct call call = { .queue = queue };
    const struct values *from = input(&call, in, rows * columns);
    struct values *to = output(&call, out, rows * columns);
    CALL(&call, softmax, to, from, rows, columns);
}

static struct layer_norm norm_of(struct call *call, const struct layer_norm *norm)
{
    struct layer_norm widened = *norm;
    widened.in = input(call, norm->in, norm->rows * norm->columns);
    widened.gain = input(call, norm->gain, norm->columns);
    widened.offset = input(call, norm->offset, norm->columns);
    return widened;
}

static void halves_layer_norm(struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean,
                              float *rstd)
{
    struct call call = { .queue = queue };
    const struct layer_norm widened = norm_of(&call, norm);
    struct values *to = output(&call, out, norm->rows * norm->columns);
    CALL(&call, layer_norm, &widened, to, mean, rstd);
}

static void halves_layer_norm_again(struct queue *queue, const struct layer_norm *norm, struct values *out,
                                    const float *mean, const float *rstd)
{
    struct call call = { .queue = queue };
    const struct layer_norm widened = norm_of(&call, norm);
    struct values *to = output(&call, out, norm->rows * norm->columns);
    CALL(&call, layer_norm_again, &widened, to, mean, rstd);
}

static void halves_layer_norm_backward_input(struct queue *queue, const struct layer_norm *norm,
                                             struct values *in_gradient, const struct values *out_gradient,
                                             const struct values *add, const float *mean, const float *rstd)
{
    struct call call = { .queue = queue };
    const size_t count = norm->rows * norm->columns;
    const struct layer_norm widened = norm_of(&call, norm);
    const struct values *gradient = input(&call, out_gradient, count), *past = input(&call, add, count);
    struct values *to = output(&call, in_gradient, count);
    CALL(&call, layer_norm_backward_input, &widened, to, gradient, past, mean, rstd);
}

static void halves_layer_norm_backward_weight(struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                              float *offset_gradient, const struct values *out_gradient,
                                              const float *mean, const float *rstd)
{
    struct call call = { .queue = queue };
    const struct layer_norm widened = norm_of(&call, norm);
    const struct values *gradient = input(&call, out_gradient, norm->rows * norm->columns);
    CALL(&call, layer_norm_backward_weight, &widened, gain_gradient, offset_gradient, gradient, mean, rstd);
}

// --- words, attention, loss --------------------------------------------------------------

static void halves_embedding(struct queue *queue, const struct embedding *embedding, struct values *out,
                             const struct values *words, const struct values *positions)
{
    struct call call = { .queue = queue };
    const struct values *all = input(&call, words, embedding_own(embedding) * embedding->columns);
    const struct values *places
        = positions ? input(&call, positions, embedding->sequence * embedding->columns) : NULL;
    struct values *to = output(&call, out, embedding->rows * embedding->columns);
    CALL(&call, embedding, embedding, to, all, places);
}

static void halves_embedding_backward(struct queue *queue, const struct embedding *embedding, float *words_gradient,
                                      float *positions_gradient, const struct values *out_gradient)
{
    struct call call = { .queue = queue };
    const struct values *gradient = input(&call, out_gradient, embedding->rows * embedding->columns);
    CALL(&call, embedding_backward, embedding, words_gradient, positions_gradient, gradient);
}

static size_t attention_count(const struct attention *attention)
{
    return attention->batch * attention->sequence * attention->heads * attention->size;
}

// The number of keys, or of values: one for each query of all positions.
static size_t attention_whole_count(const struct attention *attention)
{
    return attention->batch * attention_whole(attention) * attention->heads * attention->size;
}

static void halves_attention(struct queue *queue, const struct attention *attention, struct values *out,
                             float *log_sums, const struct values *qkv, void *workspace)
{
    struct call call = { .queue = queue };
    const struct values *from = input(&call, qkv, 3 * attention_whole_count(attention));
    struct values *to = output(&call, out, attention_count(attention));
    CALL(&call, attention, attention, to, log_sums, from, workspace);
}

static void halves_attention_backward(struct queue *queue, const struct attention *attention,
                                      struct values *qkv_gradient, const struct values *out_gradient,
                                      const struct values *out, const float *log_sums, const struct values *qkv,
                                      void *workspace)
{
    struct call call = { .queue = queue };
    const size_t count = attention_count(attention);
    const struct values *gradient = input(&call, out_gradient, count), *mixed = input(&call, out, count);
    const size_t whole = 3 * attention_whole_count(attention);
    const struct values *from = input(&call, qkv, whole);
    struct values *to = attention_is_part(attention) ? added_to(&call, qkv_gradient, whole)
                                                     : output(&call, qkv_gradient, whole);
    CALL(&call, attention_backward, attention, to, gradient, mixed, log_sums, from, workspace);
}

static struct cross_entropy loss_of(struct call *call, const struct cross_entropy *loss)
{
    struct cross_entropy widened = *loss;
    widened.logits = input(call, loss->logits, reach(loss->rows, loss->columns, loss->stride));
    return widened;
}

static void halves_cross_entropy(struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums)
{
    struct call call = { .queue = queue };
    const struct cross_entropy widened = loss_of(&call, loss);
    CALL(&call, cross_entropy, &widened, sum, log_sums);
}

static void halves_cross_entropy_both(struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                                      struct values *logits_gradient, float gradient_scale)
{
    struct call call = { .queue = queue };
    const struct cross_entropy widened = loss_of(&call, loss);
    struct values *to = output(&call, logits_gradient, loss->rows * loss->stride);
    CALL(&call, cross_entropy_both, &widened, sum, losses, to, gradient_scale);
}

static void halves_cross_entropy_part(struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                                    float *target_logits)
{
    struct call call = { .queue = queue };
    const struct cross_entropy widened = loss_of(&call, loss);
    CALL(&call, cross_entropy_part, &widened, log_sums, target_logits);
}

static void halves_cross_entropy_join(struct queue *queue, const struct cross_entropy_parts *parts, float *sum,
                                    float *log_sums)
{
    struct call call = { .queue = queue };
    CALL(&call, cross_entropy_join, parts, sum, log_sums);
}

static void halves_cross_entropy_backward(struct queue *queue, const struct cross_entropy *loss,
                                          struct values *logits_gradient, const float *log_sums)
{
    struct call call = { .queue = queue };
    const struct cross_entropy widened = loss_of(&call, loss);
    struct values *to = output(&call, logits_gradient, loss->rows * loss->stride);
    CALL(&call, cross_entropy_backward, &widened, to, log_sums);
}

// --- optimizers: of the master copy, in place ----------------------------------------------

static struct optimizer_span span_of_master(const struct optimizer_span *span)
{
    struct optimizer_span master = *span;
    master.next = (struct values *)span->master;
    master.weights = master.next;
    master.master = NULL;
    return master;
}

#define HALVES_UPDATING(kernel, ...)                                                            \
    static void halves_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S)) \
    {                                                                                           \
        const struct optimizer_span master = span_of_master(span);                              \
        plain(queue)->kernel(queue, kernel, &master);                                           \
        narrow(queue, span->next, span->master, span->count);                                   \
    }
KERNELS_UPDATING(HALVES_UPDATING)

static void halves_norm(struct queue *queue, float *norm, const float *in, size_t count)
{
    plain(queue)->norm(queue, norm, in, count);
}

static void halves_clip(struct queue *queue, const struct clip *clip, float *gradients, size_t count)
{
    plain(queue)->clip(queue, clip, gradients, count);
}

#define HALVES(kernel, ...) .kernel = halves_##kernel,
const struct kernel_functions cpu_half_kernels = { KERNELS_IN_ALL(HALVES) };
