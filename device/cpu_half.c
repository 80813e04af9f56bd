// A product or a convolution that no unit for bf16 computes is one of floats: its inputs are widened, and its outputs
// rounded once.
//
//     16 bits   a ----> float ---> sgemm ---> float ----> c   16 bits
//                exact                         one rounding
//
// Updates are those of the master copy, in place. The weights in 16 bits are rounded from it.
#include "device/cpu_half.h"

#include <stdlib.h>

static const struct cpu *cpu_of(const struct queue *queue)
{
    return queue->device->own;
}

// --- products ------------------------------------------------------------------------

// The floats of an operation. Memory is allocated and freed with each.
static float *allocate(struct queue *queue, size_t count)
{
    float *floats = malloc(count * sizeof(float) + 1);
    if (!floats)
        queue_fail(queue, "there is no memory for the floats of an operation in 16 bits");
    return floats;
}

static float *widened(struct queue *queue, const struct values *in, size_t count)
{
    float *floats = in ? allocate(queue, count) : NULL;
    if (floats)
        cpu_of(queue)->kernels->widen(queue, floats, in, count);
    return floats;
}

// How many numbers a matrix spans if its rows are `stride` apart.
static size_t reach(size_t rows, size_t columns, size_t stride)
{
    return rows > 0 ? (rows - 1) * stride + columns : 0;
}

static void round_matrix(struct queue *queue, const struct matmul *x, struct values *to, const float *from)
{
    for (size_t row = 0; to && row < x->m; row++)
        cpu_of(queue)->kernels->narrow(queue, values_at(to, queue->device->precision, row * x->ldc), from + row * x->n,
                                       x->n);
}

static void multiply_floats(struct queue *queue, const struct matmul *matmul)
{
    struct matmul x = *matmul;
    float *a = widened(queue, x.a, x.transpose_a ? reach(x.k, x.m, x.lda) : reach(x.m, x.k, x.lda));
    float *b = widened(queue, x.b, x.transpose_b ? reach(x.n, x.k, x.ldb) : reach(x.k, x.n, x.ldb));
    float *bias = widened(queue, x.bias, x.n);
    float *c = x.c ? allocate(queue, x.m * x.n) : NULL, *before = x.before_gelu ? allocate(queue, x.m * x.n) : NULL;
    x.a = (const struct values *)a, x.b = (const struct values *)b, x.bias = (const struct values *)bias;
    x.c = (struct values *)c, x.before_gelu = (struct values *)before;
    if (!x.sums)
        x.ldc = x.n;
    if (queue_is_well(queue))
        cpu_of(queue)->float_kernels->matmul(queue, &x);
    if (queue_is_well(queue)) {
        round_matrix(queue, matmul, matmul->c, c);
        round_matrix(queue, matmul, matmul->before_gelu, before);
    }
    free(a);
    free(b);
    free(bias);
    free(c);
    free(before);
}

void cpu_half_matmul(struct queue *queue, const struct matmul *matmul)
{
    if (!cpu_bf16_product(queue, matmul))
        multiply_floats(queue, matmul);
}

// --- convolutions ----------------------------------------------------------------------

static size_t numbers_in(const struct convolution *x)
{
    return x->batch * x->height * x->width * x->in;
}

static size_t numbers_out(const struct convolution *x)
{
    return x->batch * convolution_height(x) * convolution_width(x) * x->out;
}

static size_t numbers_of_weights(const struct convolution *x)
{
    return x->window.height * x->window.width * (x->in / x->groups) * x->out;
}

// Rounds what was computed, unless there was no memory for it.
static void round_floats(struct queue *queue, struct values *to, const float *from, size_t count)
{
    if (queue_is_well(queue))
        cpu_of(queue)->kernels->narrow(queue, to, from, count);
}

void cpu_half_convolution(struct queue *queue, const struct convolution *convolution, struct values *out,
                          const struct values *in, const struct values *weights, const struct values *bias,
                          void *workspace)
{
    if (cpu_convolution_is_bf16(cpu_of(queue), convolution)) {
        cpu_convolution(queue, convolution, out, in, weights, bias, workspace);
        return;
    }
    float *wide_in = widened(queue, in, numbers_in(convolution)), *wide_bias = widened(queue, bias, convolution->out);
    float *wide_weights = widened(queue, weights, numbers_of_weights(convolution));
    float *wide_out = allocate(queue, numbers_out(convolution));
    if (queue_is_well(queue))
        cpu_convolution(queue, convolution, (struct values *)wide_out, (const struct values *)wide_in,
                        (const struct values *)wide_weights, (const struct values *)wide_bias, workspace);
    round_floats(queue, out, wide_out, numbers_out(convolution));
    free(wide_in);
    free(wide_bias);
    free(wide_weights);
    free(wide_out);
}

void cpu_half_convolution_input(struct queue *queue, const struct convolution *convolution, struct values *in_gradient,
                                const struct values *out_gradient, const struct values *weights, void *workspace)
{
    if (cpu_convolution_is_bf16(cpu_of(queue), convolution)) {
        cpu_convolution_input(queue, convolution, in_gradient, out_gradient, weights, workspace);
        return;
    }
    float *wide_out = widened(queue, out_gradient, numbers_out(convolution));
    float *wide_weights = widened(queue, weights, numbers_of_weights(convolution));
    float *wide_in = allocate(queue, numbers_in(convolution));
    if (queue_is_well(queue))
        cpu_convolution_input(queue, convolution, (struct values *)wide_in, (const struct values *)wide_out,
                              (const struct values *)wide_weights, workspace);
    round_floats(queue, in_gradient, wide_in, numbers_in(convolution));
    free(wide_out);
    free(wide_weights);
    free(wide_in);
}

void cpu_half_convolution_weight(struct queue *queue, const struct convolution *convolution, float *weights_gradient,
                                 const struct values *out_gradient, const struct values *in, void *workspace)
{
    if (cpu_convolution_is_bf16(cpu_of(queue), convolution)) {
        cpu_convolution_weight(queue, convolution, weights_gradient, out_gradient, in, workspace);
        return;
    }
    float *wide_out = widened(queue, out_gradient, numbers_out(convolution));
    float *wide_in = widened(queue, in, numbers_in(convolution));
    if (queue_is_well(queue))
        cpu_convolution_weight(queue, convolution, weights_gradient, (const struct values *)wide_out,
                               (const struct values *)wide_in, workspace);
    free(wide_out);
    free(wide_in);
}

// --- gradients and updates -------------------------------------------------------------

void cpu_half_norm(struct queue *queue, float *norm, const float *in, size_t count)
{
    cpu_of(queue)->float_kernels->norm(queue, norm, in, count);
}

void cpu_half_clip(struct queue *queue, const struct clip *clip, float *gradients, size_t count)
{
    cpu_of(queue)->float_kernels->clip(queue, clip, gradients, count);
}

static struct optimizer_span span_of_master(const struct optimizer_span *span)
{
    struct optimizer_span master = *span;
    master.next = (struct values *)span->master;
    master.weights = master.next;
    master.master = NULL;
    return master;
}

#define HALF_UPDATING(kernel, ...)                                                                  \
    void cpu_half_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))       \
    {                                                                                               \
        const struct optimizer_span master = span_of_master(span);                                  \
        cpu_of(queue)->float_kernels->kernel(queue, kernel, &master);                               \
        cpu_of(queue)->kernels->narrow(queue, span->next, span->master, span->count);               \
    }
KERNELS_UPDATING(HALF_UPDATING)
