// The table of kernels: each gives its launch.h namesake to the queue's stream.
#include "device/cuda/cuda.h"

// What CUDA says of a launch goes to the queue; NAME is what the user reads in front of it.
#define GIVE(queue, NAME, kernel, ...) cuda_check((queue), (kernel)(cuda_launch_of(queue), __VA_ARGS__), NAME)

// The same for those that add up between two passes.
#define GIVE_SUMMING(queue, NAME, kernel, ...)                                 \
    do {                                                                       \
        const struct cuda_launch *launch = cuda_summing_launch_of(queue);      \
        if (launch)                                                            \
            cuda_check((queue), (kernel)(launch, __VA_ARGS__), NAME);          \
    } while (0)

static void give_fill(struct queue *queue, struct values *out, float value, size_t count)
{
    GIVE(queue, "filling memory", cuda_fill, out, value, count);
}

static void give_fill_normal(struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                             size_t count)
{
    GIVE(queue, "drawing random numbers", cuda_fill_normal, out, deviation, key, first, count);
}

static void give_add(struct queue *queue, struct values *out, const struct values *a, const struct values *b,
                     size_t count)
{
    GIVE(queue, "an addition", cuda_add, out, a, b, count);
}

static void give_scale(struct queue *queue, float *out, const float *in, float factor, size_t count)
{
    GIVE(queue, "a scaling", cuda_scale, out, in, factor, count);
}

static void give_add_floats(struct queue *queue, float *out, const float *a, const float *b, size_t count)
{
    GIVE(queue, "an addition", cuda_add_floats, out, a, b, count);
}

static void give_widen(struct queue *queue, float *out, const struct values *in, size_t count)
{
    GIVE(queue, "widening numbers", cuda_widen, out, in, count);
}

static void give_narrow(struct queue *queue, struct values *out, const float *in, size_t count)
{
    GIVE(queue, "narrowing numbers", cuda_narrow, out, in, count);
}

static void give_dropout(struct queue *queue, struct values *out, const struct values *in, size_t count,
                         struct dropout dropout)
{
    GIVE(queue, "a dropout", cuda_dropout, out, in, count, dropout);
}

static void give_relu(struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count)
{
    GIVE(queue, "a ReLU", cuda_relu, out, passed, in, count);
}

static void give_relu_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                               const uint8_t *passed, size_t count)
{
    GIVE(queue, "the backward of a ReLU", cuda_relu_backward, in_gradient, out_gradient, passed, count);
}

static void give_add_branch(struct queue *queue, struct values *out, const struct values *trunk,
                            const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                            struct dropout dropout)
{
    GIVE(queue, "the end of a branch", cuda_add_branch, out, trunk, branch, bias, rows, columns, dropout);
}

static void give_sum_columns(struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns)
{
    GIVE_SUMMING(queue, "a sum of columns", cuda_sum_columns, sums, in, rows, columns);
}

static void give_gelu(struct queue *queue, struct values *out, const struct values *in, size_t count)
{
    GIVE(queue, "a GELU", cuda_gelu, out, in, count);
}

static void give_gelu_backward(struct queue *queue, struct values *in_gradient, struct values *out,
                               const struct values *out_gradient, const struct values *in, size_t count)
{
    GIVE(queue, "the backward of a GELU", cuda_gelu_backward, in_gradient, out, out_gradient, in, count);
}

static void give_softmax(struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns)
{
    GIVE(queue, "a softmax", cuda_softmax, out, in, rows, columns);
}

static void give_layer_norm(struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean,
                            float *rstd)
{
    GIVE(queue, "a layer norm", cuda_layer_norm, norm, out, mean, rstd);
}

static void give_layer_norm_again(struct queue *queue, const struct layer_norm *norm, struct values *out,
                                  const float *mean, const float *rstd)
{
    GIVE(queue, "a layer norm", cuda_layer_norm_again, norm, out, mean, rstd);
}

static void give_layer_norm_backward_input(struct queue *queue, const struct layer_norm *norm,
                                           struct values *in_gradient, const struct values *out_gradient,
                                           const struct values *add, const float *mean, const float *rstd)
{
    GIVE(queue, "the backward of a layer norm", cuda_layer_norm_backward_input, norm, in_gradient, out_gradient, add,
         mean, rstd);
}

static void give_layer_norm_backward_weight(struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                            float *offset_gradient, const struct values *out_gradient,
                                            const float *mean, const float *rstd)
{
    GIVE_SUMMING(queue, "the backward of a layer norm", cuda_layer_norm_backward_weight, norm, gain_gradient,
                 offset_gradient, out_gradient, mean, rstd);
}

static void give_embedding(struct queue *queue, const struct embedding *embedding, struct values *out,
                           const struct values *words, const struct values *positions)
{
    GIVE(queue, "an embedding", cuda_embedding, embedding, out, words, positions);
}

static void give_embedding_backward(struct queue *queue, const struct embedding *embedding, float *words_gradient,
                                    float *positions_gradient, const struct values *out_gradient)
{
    GIVE_SUMMING(queue, "the backward of an embedding", cuda_embedding_backward, embedding, words_gradient,
                 positions_gradient, out_gradient);
}

static void give_cross_entropy(struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums)
{
    GIVE_SUMMING(queue, "a cross entropy", cuda_cross_entropy, loss, sum, log_sums);
}

static void give_cross_entropy_both(struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                                    struct values *logits_gradient, float gradient_scale)
{
    GIVE_SUMMING(queue, "a cross entropy and its backward", cuda_cross_entropy_both, loss, sum, losses, logits_gradient,
                 gradient_scale);
}

static void give_cross_entropy_part(struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                                    float *target_logits)
{
    GIVE(queue, "a part of a cross entropy", cuda_cross_entropy_part, loss, log_sums, target_logits);
}

static void give_cross_entropy_join(struct queue *queue, const struct cross_entropy_parts *parts, float *sum,
                                    float *log_sums)
{
    GIVE_SUMMING(queue, "a cross entropy", cuda_cross_entropy_join, parts, sum, log_sums);
}

static void give_cross_entropy_backward(struct queue *queue, const struct cross_entropy *loss,
                                        struct values *logits_gradient, const float *log_sums)
{
    GIVE(queue, "the backward of a cross entropy", cuda_cross_entropy_backward, loss, logits_gradient, log_sums);
}

static void give_adamw(struct queue *queue, const struct adamw *adamw, const struct optimizer_span *span)
{
    GIVE(queue, "an update by AdamW", cuda_adamw, adamw, span);
}

static void give_sgd(struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span)
{
    GIVE(queue, "an update by SGD", cuda_sgd, sgd, span);
}

static void give_lars(struct queue *queue, const struct lars *lars, const struct optimizer_span *span)
{
    GIVE_SUMMING(queue, "an update by LARS", cuda_lars, lars, span);
}

static void give_lamb(struct queue *queue, const struct lamb *lamb, const struct optimizer_span *span)
{
    GIVE_SUMMING(queue, "an update by LAMB", cuda_lamb, lamb, span);
}

static void give_adafactor(struct queue *queue, const struct adafactor *adafactor, const struct factored_span *span)
{
    GIVE_SUMMING(queue, "an update by Adafactor", cuda_adafactor, adafactor, span);
}

static void give_adam8bit(struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span)
{
    GIVE(queue, "an update by Adam in 8 bits", cuda_adam8bit, adamw, span);
}

static void give_add_where(struct queue *queue, float *sums, const float *in, float factor, const float *where,
                           size_t count)
{
    GIVE(queue, "adding up momentum", cuda_add_where, sums, in, factor, where, count);
}

static void give_take_signs(struct queue *queue, struct sign_block *blocks, float *numbers, const float *where,
                            size_t count)
{
    GIVE(queue, "taking signs", cuda_take_signs, blocks, numbers, where, count);
}

static void give_add_signs(struct queue *queue, float *sums, const struct sign_block *blocks, float factor,
                           const float *where, size_t count)
{
    GIVE(queue, "adding signs", cuda_add_signs, sums, blocks, factor, where, count);
}

static void give_norm(struct queue *queue, float *norm, const float *in, size_t count)
{
    GIVE_SUMMING(queue, "a norm", cuda_norm, norm, in, count);
}

static void give_clip(struct queue *queue, const struct clip *clip, float *gradients, size_t count)
{
    GIVE_SUMMING(queue, "clipping", cuda_clip, clip, gradients, count);
}

const struct kernel_functions cuda_kernels = {
    .matmul = cuda_matmul,
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
    .attention = cuda_attend,
    .attention_backward = cuda_attend_backward,
    .cross_entropy = give_cross_entropy,
    .cross_entropy_both = give_cross_entropy_both,
    .cross_entropy_part = give_cross_entropy_part,
    .cross_entropy_join = give_cross_entropy_join,
    .cross_entropy_backward = give_cross_entropy_backward,
    .adamw = give_adamw,
    .sgd = give_sgd,
    .lars = give_lars,
    .lamb = give_lamb,
    .adafactor = give_adafactor,
    .adam8bit = give_adam8bit,
    .add_where = give_add_where,
    .take_signs = give_take_signs,
    .add_signs = give_add_signs,
    .norm = give_norm,
    .clip = give_clip,
};
