// The kernels: what a device can compute.
//
// Every function takes the queue first and device addresses after it: outputs before inputs, sizes last. It gives the
// work to the queue and returns at once. Errors go to the queue (device.h). Matrices are row-major and tightly packed
// (`columns` numbers per row) unless a leading dimension says otherwise.
//
// `struct values` are numbers in the device's precision (device.h): float, bfloat16 or fp16. Activations, their
// gradients and the weights that layers read are values. Sums over rows or micro-batches are float on every device:
// gradients of parameters, means, logs of sums, losses, optimizer state. A kernel computes in float and rounds once,
// to nearest even, when it writes values.
//
// Outputs are overwritten, whatever they held, unless a sentence says *added to*. Gradients of parameters are added
// to, since they are sums over micro-batches. An output may be one of the inputs of the same shape, but may not
// overlap an input in any other way.
//
// The same call on the same device type always gives the same bits. NaN stays NaN.
#ifndef DEVICE_KERNELS_H
#define DEVICE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/attention_pattern.h"
#include "device/device.h"

// Numbers in a device's precision. values_at() is the address of number i. Only kernels look inside.
struct values;
static inline struct values *values_at(const struct values *values, enum precision precision, size_t i)
{
    return (struct values *)((uintptr_t)values + i * precision_bytes(precision));
}

// c = op(a) * op(b), where op(a) is m by k, op(b) is k by n, and c is m by n; op transposes if asked. A leading
// dimension of 0 means tightly packed. The result goes either to `c`, which is overwritten, or to `sums`, floats that
// the product is *added to* (the gradient of a matrix).
//
// Two operations (epilogues) can be done on c before it is written:
//
//     c = op(a) op(b)          + bias of the column, if it is not NULL
//     before_gelu = that, and c = GELU of it, if before_gelu is not NULL
struct matmul {
    bool transpose_a, transpose_b;
    size_t m, n, k;
    const struct values *a, *b;
    struct values *c;
    float *sums;
    size_t lda, ldb, ldc;
    const struct values *bias;   // n numbers; only with c
    struct values *before_gelu;  // m by n, laid out as c; only with c
};
void kernel_matmul(struct queue *queue, const struct matmul *matmul);

// --- element by element --------------------------------------------------------

void kernel_fill(struct queue *queue, struct values *out, float value, size_t count);

// Nearly normal random numbers with standard deviation `deviation`. Each is the sum of twelve uniform ones, and so
// within six deviations. They begin at number `first` of a sequence: number i depends on `key` and i alone, and has
// the same bits on every machine.
void kernel_fill_normal(struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                        size_t count);

void kernel_add(struct queue *queue, struct values *out, const struct values *a, const struct values *b,
                size_t count);

// These two work on floats, whatever the precision: gradients of parameters.
void kernel_scale(struct queue *queue, float *out, const float *in, float factor, size_t count);
void kernel_add_floats(struct queue *queue, float *out, const float *a, const float *b, size_t count);

// `widen` converts 16-bit values to floats, which is exact; `narrow` rounds floats to 16-bit values, nearest even.
void kernel_widen(struct queue *queue, float *out, const struct values *in, size_t count);
void kernel_narrow(struct queue *queue, struct values *out, const float *in, size_t count);

// Which elements are dropped is a hash of the key and the element's index. The backward therefore drops the same ones
// without a stored mask, wherever it runs. Elements that stay are divided by 1 - probability. At most 2^32 elements.
struct dropout {
    float probability;  // 0: nothing is dropped
    uint32_t first;     // index of the first element here in the tensor that the mask covers
    uint64_t key;
    const void *key_at;  // in a recording: where on the device the key is stored; NULL: `key` is used
};
uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t micro_batch, uint32_t layer);

// Its own backward: call it with the gradient.
void kernel_dropout(struct queue *queue, struct values *out, const struct values *in, size_t count,
                    struct dropout dropout);

// `passed`, one byte per element, is all that the backward needs.
void kernel_relu(struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count);
void kernel_relu_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                          const uint8_t *passed, size_t count);

// --- rows and columns ------------------------------------------------------------

// The end of a residual branch: out = trunk + dropout(branch + bias); `bias` may be NULL.
void kernel_add_branch(struct queue *queue, struct values *out, const struct values *trunk,
                       const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                       struct dropout dropout);

// The backward of a bias: the sum of each column is added to `sums`.
void kernel_sum_columns(struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns);

// GELU in its tanh approximation.
void kernel_gelu(struct queue *queue, struct values *out, const struct values *in, size_t count);
// If `out` is not NULL, the forward's output is also written there again. One pass thus gives the next matrix product
// both tensors that it needs.
void kernel_gelu_backward(struct queue *queue, struct values *in_gradient, struct values *out,
                          const struct values *out_gradient, const struct values *in, size_t count);

// out = (in - mean) * rstd * gain + offset. mean and rstd = 1 / sqrt(variance + 1e-5) are those of the row. They are
// kept for the backward, one number per row each.
struct layer_norm {
    const struct values *in;
    const struct values *gain, *offset;
    size_t rows, columns;
};
void kernel_layer_norm(struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean,
                       float *rstd);
// Computes the same output again from the kept mean and rstd.
void kernel_layer_norm_again(struct queue *queue, const struct layer_norm *norm, struct values *out,
                             const float *mean, const float *rstd);
// The gradient of `in`, plus `add` if that is not NULL (the gradient that a residual connection passes around the
// norm).
void kernel_layer_norm_backward_input(struct queue *queue, const struct layer_norm *norm, struct values *in_gradient,
                                      const struct values *out_gradient, const struct values *add, const float *mean,
                                      const float *rstd);
// Gradients of gain and offset; added to both.
void kernel_layer_norm_backward_weight(struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                       float *offset_gradient, const struct values *out_gradient, const float *mean,
                                       const float *rstd);

// --- words, attention, loss --------------------------------------------------------

// out[row] = words[tokens[row]] + positions[row % sequence]. If `positions` is NULL, none are added. A token outside
// the vocabulary fails the queue.
//
// If the vocabulary is split, only words [first, first + own) are there. For a token of another part the word counts
// as zeros, and no word gets a gradient.
struct embedding {
    const int32_t *tokens;  // one per row
    size_t rows, sequence, columns, vocabulary;
    size_t first, own;  // own 0: all words are there
};
static inline size_t embedding_own(const struct embedding *embedding)
{
    return embedding->own > 0 ? embedding->own : embedding->vocabulary;
}
void kernel_embedding(struct queue *queue, const struct embedding *embedding, struct values *out,
                      const struct values *words, const struct values *positions);
// Gradients of words and positions; added to both.
void kernel_embedding_backward(struct queue *queue, const struct embedding *embedding, float *words_gradient,
                               float *positions_gradient, const struct values *out_gradient);

// Causal multi-head attention. qkv is [batch][whole][3][heads][size], out is [batch][sequence][heads][size]:
//
//     out_i = sum over the j that i sees of exp(q_i k_j / sqrt(size) - log_sum_i) v_j
//
// Without a pattern these are all j <= i. With one the time is in proportion to what is seen (attention_pattern.h).
//
// log_sums is [batch][heads][sequence]. The backward recomputes the probabilities from it, so that memory stays
// linear in the sequence (docs/decisions/030-attention-keeps-no-probabilities.md).
//
// The queries are those at positions `first` to `first` + `sequence` of `whole`, or those at all positions. If they
// are a part, the backward sets the gradients of these queries. It adds to the gradients of the keys and values that
// they attend to. The last part is the exception: its backward comes first, and sets the gradients of keys and values
// of all positions.
struct attention {
    size_t batch, sequence, heads, size;
    size_t first, whole;  // 0: `sequence` is the whole
    struct attention_pattern pattern;
};
static inline size_t attention_whole(const struct attention *attention)
{
    return attention->whole > 0 ? attention->whole : attention->sequence;
}
static inline bool attention_is_part(const struct attention *attention)
{
    return attention_whole(attention) > attention->sequence;
}
static inline bool attention_is_last(const struct attention *attention)
{
    return attention->first + attention->sequence == attention_whole(attention);
}
// Whether queries see all keys up to their own.
static inline bool attention_is_plain(const struct attention *attention)
{
    return attention->pattern.window == 0 || attention->pattern.window >= attention->first + attention->sequence;
}
// The workspace of our own kernels, in either direction.
uint64_t attention_workspace_bytes(const struct attention *attention);
// The workspace that the two kernels below need on a device, which may leave attention to a library. The answer does
// not change later. A caller that did not ask may pass too small a workspace, which fails the queue. False if the
// device cannot tell.
struct attention_bytes {
    uint64_t forward, backward;
};
bool attention_bytes(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                     struct error *error);
void kernel_attention(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                      const struct values *qkv, void *workspace);
void kernel_attention_backward(struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                               const struct values *out_gradient, const struct values *out, const float *log_sums,
                               const struct values *qkv, void *workspace);

// sum = scale * the sum over rows of (log_sums[row] - logits[row][target]), where log_sums[row] = log of the sum of
// exp(logits[row][..]). The caller's scale is one over the true number of samples, so loss and gradients are divided
// once.
//
// A target outside the row fails the queue, except NO_TARGET. A row with NO_TARGET has no part in the sum, and its
// gradient is zeros, whatever its logits are. If rows are padded (`stride`), the padding of the logits is ignored,
// and that of the gradient is set to zeros so that a matrix product may run over it.
enum { NO_TARGET = -1 };
struct cross_entropy {
    const struct values *logits;
    const int32_t *targets;  // one per row
    size_t rows, columns;
    size_t stride;  // numbers from one row to the next, of the gradient too; 0: tightly packed
    float scale;
    // If these are a part of the columns: the first of them, and the number of all. whole 0: these are all.
    size_t first, whole;
    // Label smoothing, from 0 to below 1. The target's part of the loss is (1 - smoothing), and all columns share the
    // rest evenly: smoothing / columns * the sum over columns of (log_sums[row] - logits[row][column]). A part of the
    // columns takes none.
    float smoothing;
};
static inline size_t cross_entropy_whole(const struct cross_entropy *loss)
{
    return loss->whole > 0 ? loss->whole : loss->columns;
}
void kernel_cross_entropy(struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums);
// Forward and backward of whole rows in one kernel, which reads and writes each row once. It writes the sum as above,
// the loss of each row to `losses` (without the scale; 0 if there is no target), and the gradient times
// `gradient_scale`.
void kernel_cross_entropy_both(struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                               struct values *logits_gradient, float gradient_scale);
// The backward. For a part of the columns it writes the gradient of that part's own logits; log_sums are those of
// whole rows.
void kernel_cross_entropy_backward(struct queue *queue, const struct cross_entropy *loss,
                                   struct values *logits_gradient, const float *log_sums);

// The forward if the columns are split in parts. The first kernel is for one part. It writes the log_sums of the part's
// own logits, and the target's logit, or 0 if another part has the target. The second kernel joins all parts. Its
// `parts` is [count + 1][rows]: the log_sums of each part, then the targets' logits.
//
//     log_sums[row] = largest + log of (exp(part 0 - largest) + exp(part 1 - largest) + ..)
//     sum           = scale * the sum over rows of (log_sums[row] - the target's logit)
void kernel_cross_entropy_part(struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                               float *target_logits);
struct cross_entropy_parts {
    const float *parts;
    size_t count, rows;
    float scale;
    const int32_t *targets;  // a row with NO_TARGET adds nothing
};
void kernel_cross_entropy_join(struct queue *queue, const struct cross_entropy_parts *parts, float *sum,
                               float *log_sums);

// --- optimizers --------------------------------------------------------------------

// The data of an update. `weights` and `next` may be one buffer or two: the update of version t writes
// version t + 1 to wherever that is stored. Elements are independent, so any division into spans gives the same bits.
struct optimizer_span {
    struct values *next;
    const struct values *weights;
    // For 16-bit weights: the weights in full precision, read and written; `next` is rounded from them. Otherwise NULL.
    float *master;
    const float *gradients;
    float *first;   // moment of AdamW; momentum of SGD, NULL without momentum. Zero before the first update
    float *second;  // moment, of AdamW only
    size_t count;
};

struct adamw {
    float rate, beta1, beta2, epsilon, decay;  // decoupled weight decay: the W in AdamW
    bool is_coupled;                           // Adam: the gradient includes the decay, decay * weight
    bool is_lazy;    // torch.optim.SparseAdam: `epsilon` is added to the root before that is corrected
    uint64_t update;                           // from 1; both moments are corrected for their start at zero
    // Both moments stay as they are, the second since this update. 0: neither is frozen.
    uint64_t frozen;
    // In a recording: where on the device adamw_factors() are stored, or NULL.
    const void *factors_at;
};
// The factors that follow from rate, decay and update; the moments are of gradient + coupled * weight:
//
//     next = shrink * weight - step * first / (second_factor * root of second + epsilon)
struct adamw_factors {
    float shrink, step, second_factor, coupled;
};
struct adamw_factors adamw_factors(const struct adamw *adamw);
void kernel_adamw(struct queue *queue, const struct adamw *adamw, const struct optimizer_span *span);

struct sgd {
    float rate, momentum, decay;
    bool is_nesterov;
    const void *rate_at;  // in a recording: where on the device the rate is stored, or NULL
};
// first = momentum * first + (gradient + decay * weight); next = weight - rate * first. With Nesterov, one step
// ahead: next = weight - rate * (momentum * first + (gradient + decay * weight)). Without momentum `first` may be
// NULL, which stands for zeros. `gradients` may be NULL likewise: the weights then only decay.
void kernel_sgd(struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span);

// Adagrad (Duchi et al. 2011, as in torch.optim): with g = gradient + decay * weight, first = first + g * g; next =
// weight - rate * g / (root of first + epsilon).
struct adagrad {
    float rate, epsilon, decay;
    const void *rate_at;  // as in struct sgd
};
void kernel_adagrad(struct queue *queue, const struct adagrad *adagrad, const struct optimizer_span *span);

// LARS and LAMB take a whole tensor, or a part of one, as the span. The length of each step depends on norms over the
// whole span. Squares are added up in double. The order of addition depends only on their number, and on a GPU also
// on the first one's distance from a multiple of 16 bytes. The span is as above, with `first` and, for LAMB,
// `second`.
//
// LARS: first = momentum * first + rate * ratio * (gradient + decay * weight); next = weight - first. Here ratio =
// trust * |weights| / (|gradients| + decay * |weights|), and 1 if trust or either norm is 0.
struct lars {
    float rate, momentum, decay, trust;
    const void *rate_at;  // as in struct sgd
};
void kernel_lars(struct queue *queue, const struct lars *lars, const struct optimizer_span *span);

// LAMB: next = weight - rate * ratio * step, with step = corrected first / (root of corrected second + epsilon) +
// decay * weight. Here ratio = |weights| / |steps|, and 1 if `trusts` is false or either norm is 0.
struct lamb {
    float rate, beta1, beta2, epsilon, decay;
    bool trusts;
    uint64_t update;         // as in struct adamw
    const void *factors_at;  // likewise
};
struct lamb_factors {
    float rate, first, second;
};
struct lamb_factors lamb_factors(const struct lamb *lamb);
void kernel_lamb(struct queue *queue, const struct lamb *lamb, const struct optimizer_span *span);

// Adafactor without a first moment, like torch.optim.Adafactor, for weights in fp32. For a matrix, by rows and
// columns:
//
//     row     = (1 - beta) * row + beta * mean of the row's squared gradients, beta = update^-0.8; column likewise
//     second  = row column / mean of all rows
//     step    = gradient / root of second, scaled down so that its root mean square is at most 1
//     next    = (1 - rate * decay) * weight - min(rate, update^-0.5) * max(root mean square of weights, 0.001) * step
//
// For a vector, `row` has one float per number and is itself `second`; `column` is NULL.
struct adafactor {
    float rate, decay;
    uint64_t update;         // from 1
    const void *factors_at;  // as in struct adamw
};
struct adafactor_factors {
    float rate, beta, shrink;
};
#define ADAFACTOR_LEAST_WEIGHT 1e-3f           // lower limit of the weights' root mean square
#define ADAFACTOR_LEAST_SECOND 1.1920929e-7f   // lower limit of the mean of rows; its square is that of `second`
struct factored_span {
    struct values *next;
    const struct values *weights;
    const float *gradients;
    size_t rows, columns;
    float *row, *column;
};
struct adafactor_factors adafactor_factors(const struct adafactor *adafactor);
void kernel_adafactor(struct queue *queue, const struct adafactor *adafactor, const struct factored_span *span);

// Adam or AdamW with moments of one byte each, for weights in fp32. A byte is a dynamic code (Dettmers 2016,
// 1511.04561) of the moment divided by its block's scale. The scale is the largest moment in a block of
// EIGHT_BIT_BLOCK. Updates use the moments in full precision, before they are rounded to codes.
enum { EIGHT_BIT_BLOCK = 2048 };
struct eight_bit_span {
    struct values *next;
    const struct values *weights;
    const float *gradients;
    size_t count;
    uint8_t *first, *second;              // `count` each
    float *first_scales, *second_scales;  // one for each block
};
// The value that a code stands for. Codes ascend, from 0 to 1; those of a first moment (signed) from -1 to 1. There
// are seven decades. The codes of a decade divide it evenly, and each decade has twice as many as the one below.
float eight_bit_value(unsigned code, bool is_signed);
void kernel_adam8bit(struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span);

// Numbers in the compressed form in which replicas send them with 1-bit Adam (Tang et al. 2021, 2102.02888). There is
// one sign per number, and one mean size per SIGN_BLOCK consecutive numbers. With that size the signs are as near to
// the numbers as they can be. Numbers whose `where` is 0 are left out: nothing is added to them, no mean includes
// them, and they keep their values. Everything is in fp32.
enum { SIGN_BLOCK = 1024 };
struct sign_block {
    float size;
    uint32_t negative[SIGN_BLOCK / 32];  // the lowest bit is the first of 32
};
static inline size_t sign_block_count(size_t numbers)
{
    return (numbers + SIGN_BLOCK - 1) / SIGN_BLOCK;
}
// sums[i] += factor * in[i].
void kernel_add_where(struct queue *queue, float *sums, const float *in, float factor, const float *where,
                      size_t count);
// Compresses the numbers to signs and subtracts from them what the signs stand for. The rest (the compression error)
// stays in `numbers`.
void kernel_take_signs(struct queue *queue, struct sign_block *blocks, float *numbers, const float *where,
                       size_t count);
// sums[i] += factor * the number that the signs stand for.
void kernel_add_signs(struct queue *queue, float *sums, const struct sign_block *blocks, float factor,
                      const float *where, size_t count);

// above / below, or 1 if `above` or `norm` is 0 or NaN.
float trust_ratio(double above, double below, double norm);

// The root of the sum of all squares, which are added up in double.
void kernel_norm(struct queue *queue, float *norm, const float *in, size_t count);

// Clips gradients by a global norm: the root of the sum of the squares of `norms`, added in double, first to last. If
// the global norm is above `limit`, or NaN, gradients[i] *= limit / norm.
struct clip {
    const float *norms;  // on the device
    size_t norm_count;
    float limit;
};
void kernel_clip(struct queue *queue, const struct clip *clip, float *gradients, size_t count);
// For norms in host memory: the global norm, and the factor that gradients are multiplied by.
double clip_norm(const float *norms, size_t count);
float clip_factor(const struct clip *clip);

#endif
