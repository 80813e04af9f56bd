// The kernels of "cpu:queued": each takes a copy of its arguments, structs included,
// and calls the kernel of the plain maker with them when its turn comes.
#include "device/cpu_queued.h"

static const struct kernel_functions *at_once(const struct queue *queue)
{
    return ((const struct cpu *)queue->device->own)->kernels;
}

// Of each kernel: what is kept of its arguments, how they are taken, and how they are
// given to the kernel itself.
#define LIST(...) __VA_ARGS__
#define QUEUED(kernel, parameters, kept, taken, given)                                \
    struct kept_for_##kernel {                                                        \
        kept                                                                          \
    };                                                                                \
    static void do_##kernel(struct queue *queue, const void *arguments)               \
    {                                                                                 \
        const struct kept_for_##kernel *x = arguments;                                \
        at_once(queue)->kernel given;                                                 \
    }                                                                                 \
    static void give_##kernel parameters                                              \
    {                                                                                 \
        const struct kept_for_##kernel x = { taken };                                 \
        cpu_queued_call(queue, do_##kernel, &x, sizeof x);                            \
    }

QUEUED(matmul, (struct queue *queue, const struct matmul *matmul),
       struct matmul matmul;,
       LIST(*matmul),
       (queue, &x->matmul))
QUEUED(fill, (struct queue *queue, struct values *out, float value, size_t count),
       struct values *out; float value; size_t count;,
       LIST(out, value, count),
       (queue, x->out, x->value, x->count))
QUEUED(fill_normal, (struct queue *queue, struct values *out, float deviation, uint64_t key, size_t count),
       struct values *out; float deviation; uint64_t key; size_t count;,
       LIST(out, deviation, key, count),
       (queue, x->out, x->deviation, x->key, x->count))
QUEUED(add, (struct queue *queue, struct values *out, const struct values *a, const struct values *b, size_t count),
       struct values *out; const struct values *a; const struct values *b; size_t count;,
       LIST(out, a, b, count),
       (queue, x->out, x->a, x->b, x->count))
QUEUED(scale, (struct queue *queue, float *out, const float *in, float factor, size_t count),
       float *out; const float *in; float factor; size_t count;,
       LIST(out, in, factor, count),
       (queue, x->out, x->in, x->factor, x->count))
QUEUED(add_floats, (struct queue *queue, float *out, const float *a, const float *b, size_t count),
       float *out; const float *a; const float *b; size_t count;,
       LIST(out, a, b, count),
       (queue, x->out, x->a, x->b, x->count))
QUEUED(widen, (struct queue *queue, float *out, const struct values *in, size_t count),
       float *out; const struct values *in; size_t count;,
       LIST(out, in, count),
       (queue, x->out, x->in, x->count))
QUEUED(narrow, (struct queue *queue, struct values *out, const float *in, size_t count),
       struct values *out; const float *in; size_t count;,
       LIST(out, in, count),
       (queue, x->out, x->in, x->count))
QUEUED(dropout, (struct queue *queue, struct values *out, const struct values *in, size_t count,
                 struct dropout dropout),
       struct values *out; const struct values *in; size_t count; struct dropout dropout;,
       LIST(out, in, count, dropout),
       (queue, x->out, x->in, x->count, x->dropout))
QUEUED(relu, (struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count),
       struct values *out; uint8_t *passed; const struct values *in; size_t count;,
       LIST(out, passed, in, count),
       (queue, x->out, x->passed, x->in, x->count))
QUEUED(relu_backward, (struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                       const uint8_t *passed, size_t count),
       struct values *in_gradient; const struct values *out_gradient; const uint8_t *passed; size_t count;,
       LIST(in_gradient, out_gradient, passed, count),
       (queue, x->in_gradient, x->out_gradient, x->passed, x->count))
QUEUED(add_branch, (struct queue *queue, struct values *out, const struct values *trunk, const struct values *branch,
                    const struct values *bias, size_t rows, size_t columns, struct dropout dropout),
       struct values *out; const struct values *trunk; const struct values *branch; const struct values *bias;
       size_t rows; size_t columns; struct dropout dropout;,
       LIST(out, trunk, branch, bias, rows, columns, dropout),
       (queue, x->out, x->trunk, x->branch, x->bias, x->rows, x->columns, x->dropout))
QUEUED(sum_columns, (struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns),
       float *sums; const struct values *in; size_t rows; size_t columns;,
       LIST(sums, in, rows, columns),
       (queue, x->sums, x->in, x->rows, x->columns))
QUEUED(gelu, (struct queue *queue, struct values *out, const struct values *in, size_t count),
       struct values *out; const struct values *in; size_t count;,
       LIST(out, in, count),
       (queue, x->out, x->in, x->count))
QUEUED(gelu_backward, (struct queue *queue, struct values *in_gradient, struct values *out,
                       const struct values *out_gradient, const struct values *in, size_t count),
       struct values *in_gradient; struct values *out; const struct values *out_gradient; const struct values *in;
       size_t count;,
       LIST(in_gradient, out, out_gradient, in, count),
       (queue, x->in_gradient, x->out, x->out_gradient, x->in, x->count))
QUEUED(softmax, (struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns),
       struct values *out; const struct values *in; size_t rows; size_t columns;,
       LIST(out, in, rows, columns),
       (queue, x->out, x->in, x->rows, x->columns))
QUEUED(layer_norm, (struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean, float *rstd),
       struct layer_norm norm; struct values *out; float *mean; float *rstd;,
       LIST(*norm, out, mean, rstd),
       (queue, &x->norm, x->out, x->mean, x->rstd))
QUEUED(layer_norm_again, (struct queue *queue, const struct layer_norm *norm, struct values *out, const float *mean,
                          const float *rstd),
       struct layer_norm norm; struct values *out; const float *mean; const float *rstd;,
       LIST(*norm, out, mean, rstd),
       (queue, &x->norm, x->out, x->mean, x->rstd))
QUEUED(layer_norm_backward_input, (struct queue *queue, const struct layer_norm *norm, struct values *in_gradient,
                                   const struct values *out_gradient, const struct values *add, const float *mean,
                                   const float *rstd),
       struct layer_norm norm; struct values *in_gradient; const struct values *out_gradient; const struct values *add;
       const float *mean; const float *rstd;,
       LIST(*norm, in_gradient, out_gradient, add, mean, rstd),
       (queue, &x->norm, x->in_gradient, x->out_gradient, x->add, x->mean, x->rstd))
QUEUED(layer_norm_backward_weight, (struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                    float *offset_gradient, const struct values *out_gradient, const float *mean,
                                    const float *rstd),
       struct layer_norm norm; float *gain_gradient; float *offset_gradient; const struct values *out_gradient;
       const float *mean; const float *rstd;,
       LIST(*norm, gain_gradient, offset_gradient, out_gradient, mean, rstd),
       (queue, &x->norm, x->gain_gradient, x->offset_gradient, x->out_gradient, x->mean, x->rstd))
QUEUED(embedding, (struct queue *queue, const struct embedding *embedding, struct values *out,
                   const struct values *words, const struct values *positions),
       struct embedding embedding; struct values *out; const struct values *words; const struct values *positions;,
       LIST(*embedding, out, words, positions),
       (queue, &x->embedding, x->out, x->words, x->positions))
QUEUED(embedding_backward, (struct queue *queue, const struct embedding *embedding, float *words_gradient,
                            float *positions_gradient, const struct values *out_gradient),
       struct embedding embedding; float *words_gradient; float *positions_gradient; const struct values *out_gradient;,
       LIST(*embedding, words_gradient, positions_gradient, out_gradient),
       (queue, &x->embedding, x->words_gradient, x->positions_gradient, x->out_gradient))
QUEUED(attention, (struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                   const struct values *qkv, void *workspace),
       struct attention attention; struct values *out; float *log_sums; const struct values *qkv; void *workspace;,
       LIST(*attention, out, log_sums, qkv, workspace),
       (queue, &x->attention, x->out, x->log_sums, x->qkv, x->workspace))
QUEUED(attention_backward, (struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                            const struct values *out_gradient, const struct values *out, const float *log_sums,
                            const struct values *qkv, void *workspace),
       struct attention attention; struct values *qkv_gradient; const struct values *out_gradient;
       const struct values *out; const float *log_sums; const struct values *qkv; void *workspace;,
       LIST(*attention, qkv_gradient, out_gradient, out, log_sums, qkv, workspace),
       (queue, &x->attention, x->qkv_gradient, x->out_gradient, x->out, x->log_sums, x->qkv, x->workspace))
QUEUED(cross_entropy, (struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums),
       struct cross_entropy loss; float *sum; float *log_sums;,
       LIST(*loss, sum, log_sums),
       (queue, &x->loss, x->sum, x->log_sums))
QUEUED(cross_entropy_backward, (struct queue *queue, const struct cross_entropy *loss, struct values *logits_gradient,
                                const float *log_sums),
       struct cross_entropy loss; struct values *logits_gradient; const float *log_sums;,
       LIST(*loss, logits_gradient, log_sums),
       (queue, &x->loss, x->logits_gradient, x->log_sums))
QUEUED(adamw, (struct queue *queue, const struct adamw *adamw, const struct optimizer_span *span),
       struct adamw adamw; struct optimizer_span span;,
       LIST(*adamw, *span),
       (queue, &x->adamw, &x->span))
QUEUED(sgd, (struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span),
       struct sgd sgd; struct optimizer_span span;,
       LIST(*sgd, *span),
       (queue, &x->sgd, &x->span))
QUEUED(sum_of_squares, (struct queue *queue, double *sum, const float *in, size_t count),
       double *sum; const float *in; size_t count;,
       LIST(sum, in, count),
       (queue, x->sum, x->in, x->count))

const struct kernel_functions cpu_queued_kernels = {
    .matmul = give_matmul,
    .fill = give_fill,
    .fill_normal = give_fill_normal,
    .add = give_add,
    .scale = give_scale,
    .add_floats = give_add_floats,
    .widen = give_widen,
    .narrow = give_narrow,
    .dropout = give_dropout,
    .relu = give_relu,
    .relu_backward = give_relu_backward,
    .add_branch = give_add_branch,
    .sum_columns = give_sum_columns,
    .gelu = give_gelu,
    .gelu_backward = give_gelu_backward,
    .softmax = give_softmax,
    .layer_norm = give_layer_norm,
    .layer_norm_again = give_layer_norm_again,
    .layer_norm_backward_input = give_layer_norm_backward_input,
    .layer_norm_backward_weight = give_layer_norm_backward_weight,
    .embedding = give_embedding,
    .embedding_backward = give_embedding_backward,
    .attention = give_attention,
    .attention_backward = give_attention_backward,
    .cross_entropy = give_cross_entropy,
    .cross_entropy_backward = give_cross_entropy_backward,
    .adamw = give_adamw,
    .sgd = give_sgd,
    .sum_of_squares = give_sum_of_squares,
};
