// What a device can compute.
//
// Every function takes the queue first and device addresses after it, gives the
// work to the queue and returns at once: outputs before inputs, sizes last.
// Matrices are row-major and tightly packed (`columns` numbers a row) unless a
// leading dimension says otherwise.
//
// `struct values` are numbers in the device's precision (device.h): float, bfloat16 or
// fp16. Activations, their gradients and the weights that layers read are. What
// adds up over rows or micro-batches is float on every device: gradients of
// parameters, means, logs of sums, losses, what optimizers keep. A kernel computes in
// float and rounds once, to nearest even, where it writes values. Outputs are overwritten,
// whatever they held, except where a sentence says *added to*: gradients of
// parameters are, since they are sums over micro-batches. An output may be one of
// the inputs of the same shape, but may not overlap one otherwise.
//
// The same call on the same device type gives the same bits, always. NaN stays NaN.
#ifndef DEVICE_KERNELS_H
#define DEVICE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

// The numbers of a device's precision; where number i is, is values_at(). Only
// kernels look inside.
struct values;
static inline struct values *values_at(const struct values *values, enum precision precision, size_t i)
{
    return (struct values *)((uintptr_t)values + i * precision_bytes(precision));
}

// c = op(a) * op(b), where op(a) is m by k, op(b) is k by n, c is m by n, and op
// transposes where asked. A leading dimension of 0 stands for tightly packed.
// Either `c` is given, and overwritten, or `sums`, floats that the product is
// *added to* (the gradient of a matrix).
//
// What is done to c before it is written, the ends that matrix products have:
//
//     c = op(a) op(b)          + bias of the column, where it is not NULL
//     before_gelu = that, and c = GELU of it, where before_gelu is not NULL
struct matmul {
    bool transpose_a, transpose_b;
    size_t m, n, k;
    const struct values *a, *b;
    struct values *c;
    float *sums;
    size_t lda, ldb, ldc;
    const struct values *bias;   // n of them; only with c
    struct values *before_gelu;  // m by n, as c; only with c
};
void kernel_matmul(struct queue *queue, const struct matmul *matmul);

// --- element by element --------------------------------------------------------

void kernel_fill(struct queue *queue, struct values *out, float value, size_t count);

// Nearly normal random numbers (the sum of twelve uniform ones, so within six
// deviations), from number `first` on: number i depends on `key` and i alone, and has
// the same bits on every machine.
void kernel_fill_normal(struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                        size_t count);

void kernel_add(struct queue *queue, struct values *out, const struct values *a, const struct values *b,
                size_t count);

// Of floats, whatever the precision: gradients of parameters.
void kernel_scale(struct queue *queue, float *out, const float *in, float factor, size_t count);
void kernel_add_floats(struct queue *queue, float *out, const float *a, const float *b, size_t count);

// From one to the other: exact, and rounded to nearest even.
void kernel_widen(struct queue *queue, float *out, const struct values *in, size_t count);
void kernel_narrow(struct queue *queue, struct values *out, const float *in, size_t count);

// Which elements are dropped is a hash of the key and the element's index, so that
// a backward finds the same ones without anything being kept, wherever it runs.
// Those that stay are divided by 1 - probability. At most 2^32 elements.
struct dropout {
    float probability;  // 0: nothing is dropped
    uint32_t first;     // the index of the first element here, in the whole that the mask is of
    uint64_t key;
    const void *key_at;  // of a recording: where on the device the key stands; NULL: `key` is it
};
uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t micro_batch, uint32_t layer);

// Its own backward: called with the gradient.
void kernel_dropout(struct queue *queue, struct values *out, const struct values *in, size_t count,
                    struct dropout dropout);

// `passed`, a byte each, is what the backward needs.
void kernel_relu(struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count);
void kernel_relu_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                          const uint8_t *passed, size_t count);

// --- rows and columns ------------------------------------------------------------

// The end of a residual branch: out = trunk + dropout(branch + bias).
void kernel_add_branch(struct queue *queue, struct values *out, const struct values *trunk,
                       const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                       struct dropout dropout);

// The backward of a bias: the sum of each column is added to `sums`.
void kernel_sum_columns(struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns);

// GELU by the hyperbolic tangent.
void kernel_gelu(struct queue *queue, struct values *out, const struct values *in, size_t count);
// Also writes the forward's output again where `out` is not NULL: one pass gives
// the next matrix product both it needs.
void kernel_gelu_backward(struct queue *queue, struct values *in_gradient, struct values *out,
                          const struct values *out_gradient, const struct values *in, size_t count);

void kernel_softmax(struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns);

// out = (in - mean) * rstd * gain + offset, where mean and rstd = 1 / sqrt(variance
// + 1e-5) are of the row and are kept (one number per row each).
struct layer_norm {
    const struct values *in;
    const struct values *gain, *offset;
    size_t rows, columns;
};
void kernel_layer_norm(struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean,
                       float *rstd);
// The same output from what was kept.
void kernel_layer_norm_again(struct queue *queue, const struct layer_norm *norm, struct values *out,
                             const float *mean, const float *rstd);
// The gradient of `in`, plus `add` (the gradient past the norm, of a residual) where that is not NULL.
void kernel_layer_norm_backward_input(struct queue *queue, const struct layer_norm *norm, struct values *in_gradient,
                                      const struct values *out_gradient, const struct values *add, const float *mean,
                                      const float *rstd);
// Added to both gradients.
void kernel_layer_norm_backward_weight(struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                       float *offset_gradient, const struct values *out_gradient, const float *mean,
                                       const float *rstd);

// --- words, attention, loss --------------------------------------------------------

// out[row] = words[tokens[row]] + positions[row % sequence]; `positions` may be NULL: none are added. A token outside the
// vocabulary fails the queue.
//
// Of a vocabulary that is split, words [first, first + own) are there: of others the row is 0, and no word has a
// gradient.
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
// Added to both gradients.
void kernel_embedding_backward(struct queue *queue, const struct embedding *embedding, float *words_gradient,
                               float *positions_gradient, const struct values *out_gradient);

// Causal multi-head attention. qkv is [batch][whole][3][heads][size], out is
// [batch][sequence][heads][size]:
//
//     out_i = sum over j <= i of exp(q_i k_j / sqrt(size) - log_sum_i) v_j
//
// log_sums is [batch][heads][sequence]; from them the backward makes the
// probabilities again, so that what is kept stays linear in the sequence
// (docs/decisions/030-attention-keeps-no-probabilities.md).
//
// The queries are those at positions `first` to `first` + `sequence` of `whole`, or at all there are. Where they are a
// part, the backward sets their own gradients, and those of the keys and values that they see it adds to what is there;
// only the last part, whose backward comes first, sets these, of all positions.
struct attention {
    size_t batch, sequence, heads, size;
    size_t first, whole;  // 0: `sequence` is the whole
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
// The workspace that kernels of our own take, in either direction.
uint64_t attention_workspace_bytes(const struct attention *attention);
// The workspace that the two below take on a device, which may leave attention to a library. Its answer stays the
// same. Who has not asked may lend too little, which fails the queue. False where the device cannot tell.
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

// sum = scale * the sum over rows of (log_sums[row] - logits[row][target]), where
// log_sums[row] = log of the sum of exp(logits[row][..]). The caller's scale is one
// over the true number of samples, so loss and gradients are divided once. A
// target outside the row fails the queue, but for NO_TARGET: such a row has no part in
// the sum, and its gradient is zeros, whatever its logits are. Numbers between the rows have no
// part in this, and between those of the gradient are zeros, so that a product may run over them.
enum { NO_TARGET = -1 };
struct cross_entropy {
    const struct values *logits;
    const int32_t *targets;  // one per row
    size_t rows, columns;
    size_t stride;  // from one row to the next, of the gradient too; 0: tightly packed
    float scale;
    size_t first, whole;  // of a part of the columns: where it begins, in rows of how many; whole 0: these are all
};
static inline size_t cross_entropy_whole(const struct cross_entropy *loss)
{
    return loss->whole > 0 ? loss->whole : loss->columns;
}
void kernel_cross_entropy(struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums);
// Forward and backward of whole rows in one, which reads and writes each row once: the sum as above, the loss of each
// row in `losses` (without the scale; 0 where there is no target), and the gradient, by `gradient_scale`.
void kernel_cross_entropy_both(struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                               struct values *logits_gradient, float gradient_scale);
// Of a part of the columns, the gradient of its own logits; log_sums are of whole rows.
void kernel_cross_entropy_backward(struct queue *queue, const struct cross_entropy *loss,
                                   struct values *logits_gradient, const float *log_sums);

// Forward in parts of the columns. Of one: log_sums of its own logits, and the target's logit, 0 where another part has
// it. Of all, where `parts` are the log_sums of each part and then the targets' logits, `rows` of each:
//
//     log_sums[row] = largest + log of (exp(part 0 - largest) + exp(part 1 - largest) + ..)
//     sum           = scale * the sum over rows of (log_sums[row] - the target's logit)
void kernel_cross_entropy_part(struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                               float *target_logits);
struct cross_entropy_parts {
    const float *parts;
    size_t count, rows;
    float scale;
    const int32_t *targets;  // of NO_TARGET nothing is added
};
void kernel_cross_entropy_join(struct queue *queue, const struct cross_entropy_parts *parts, float *sum,
                               float *log_sums);

// --- optimizers --------------------------------------------------------------------

// What an update reads and writes. `weights` and `next` may be one buffer or two:
// the update of version t writes version t + 1 wherever that is to live. Elements
// are independent, so any cut into spans gives the same bits.
struct optimizer_span {
    struct values *next;
    const struct values *weights;
    float *master;  // of 16 bits: the weights in full, read and written; `next` is rounded from it. Otherwise NULL
    const float *gradients;
    float *first;   // moment: of AdamW; the momentum of SGD, NULL without. Zero before the first update
    float *second;  // moment, of AdamW only
    size_t count;
};

struct adamw {
    float rate, beta1, beta2, epsilon, decay;  // decay apart from the gradient, as the W says
    bool is_coupled;                           // Adam: decay as a part of the gradient, decay * weight
    uint64_t update;                           // from 1; both moments are corrected for their start at zero
    uint64_t frozen;                           // the moments stay as they are, the second since this update; 0: neither
    const void *factors_at;                    // of a recording: where on the device adamw_factors() stand, or NULL
};
// What rate, decay and update come to; the moments are of gradient + coupled * weight:
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
    const void *rate_at;  // of a recording: where on the device the rate stands, or NULL
};
// first = momentum * first + (gradient + decay * weight); next = weight - rate * first, or by
// Nesterov weight - rate * (momentum * first + (gradient + decay * weight)), a step ahead.
// Without momentum `first` may be NULL: a buffer of zeroes that stays away. So may `gradients`: weights only decay.
void kernel_sgd(struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span);

// Of a whole tensor, or a part of one: how far each step goes is a matter of the norms of all of it, whose squares are
// added up in double, in an order that only their number, and on a GPU how far the first is from a multiple of 16
// bytes, decides. The span is as above, with `first` and, of lamb, `second`.
//
// LARS: first = momentum * first + rate * ratio * (gradient + decay * weight); next = weight - first, where
// ratio = trust * |weights| / (|gradients| + decay * |weights|), and 1 where trust or either norm is 0.
struct lars {
    float rate, momentum, decay, trust;
    const void *rate_at;  // as of struct sgd
};
void kernel_lars(struct queue *queue, const struct lars *lars, const struct optimizer_span *span);

// LAMB: next = weight - rate * ratio * step, step = corrected first / (root of corrected second + epsilon)
// + decay * weight, where ratio = |weights| / |steps|, and 1 where that is not to be trusted or either norm is 0.
struct lamb {
    float rate, beta1, beta2, epsilon, decay;
    bool trusts;
    uint64_t update;         // as of struct adamw
    const void *factors_at;  // likewise
};
struct lamb_factors {
    float rate, first, second;
};
struct lamb_factors lamb_factors(const struct lamb *lamb);
void kernel_lamb(struct queue *queue, const struct lamb *lamb, const struct optimizer_span *span);

// Adafactor without a first moment, as torch.optim.Adafactor has it, of weights in fp32. Of a matrix, by rows,
//
//     row     = (1 - beta) * row + beta * mean of the row's squared gradients, beta = update^-0.8; column likewise
//     second  = row column / mean of all rows
//     step    = gradient / root of second, scaled down so that its root mean square is at most 1
//     next    = (1 - rate * decay) * weight - min(rate, update^-0.5) * max(root mean square of weights, 0.001) * step
//
// Of a vector `row` has a float for each number and is `second`; `column` is NULL.
struct adafactor {
    float rate, decay;
    uint64_t update;         // from 1
    const void *factors_at;  // as of struct adamw
};
struct adafactor_factors {
    float rate, beta, shrink;
};
#define ADAFACTOR_LEAST_WEIGHT 1e-3f           // root mean square that weights have at least
#define ADAFACTOR_LEAST_SECOND 1.1920929e-7f   // which `second` is not below the square of, nor the mean of rows it
struct factored_span {
    struct values *next;
    const struct values *weights;
    const float *gradients;
    size_t rows, columns;
    float *row, *column;
};
struct adafactor_factors adafactor_factors(const struct adafactor *adafactor);
void kernel_adafactor(struct queue *queue, const struct adafactor *adafactor, const struct factored_span *span);

// Adam or AdamW whose moments are a byte each, of weights in fp32: a dynamic code (Dettmers 2016, 1511.04561) of the
// moment by the largest of its block of EIGHT_BIT_BLOCK, which is its scale. Updates are by the moments in full.
enum { EIGHT_BIT_BLOCK = 2048 };
struct eight_bit_span {
    struct values *next;
    const struct values *weights;
    const float *gradients;
    size_t count;
    uint8_t *first, *second;              // `count` each
    float *first_scales, *second_scales;  // one for each block
};
// What a code stands for, from 0 (of a first moment from -1) to 1: codes ascend. Those of a decade divide it evenly,
// twice as many as those of the one below; there are seven.
float eight_bit_value(unsigned code, bool is_signed);
void kernel_adam8bit(struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span);

// Numbers as replicas send them by 1-bit Adam (Tang et al. 2021, 2102.02888): a sign each, and of every SIGN_BLOCK in a
// row the mean size, of which signs are as near to the numbers as can be. Those whose `where` is 0 are not among them:
// nothing is added to them, they are in no mean, and stay. All is in fp32.
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
void kernel_add_where(struct queue *queue, float *sums, const float *in, float factor, const float *where, size_t count);
// Takes from the numbers what their signs say; what is left stays with them.
void kernel_take_signs(struct queue *queue, struct sign_block *blocks, float *numbers, const float *where,
                       size_t count);
// sums[i] += factor * what the signs say.
void kernel_add_signs(struct queue *queue, float *sums, const struct sign_block *blocks, float factor,
                      const float *where, size_t count);

// above / below, or 1 where `above` or `norm` is 0 or no number.
float trust_ratio(double above, double below, double norm);

// The root of the sum of all squares, which are added up in double.
void kernel_norm(struct queue *queue, float *norm, const float *in, size_t count);

// Clips gradients by a global norm: the norm of all that `norms` are the norms of (the root of the sum of their squares,
// in double, first to last). Where that is above `limit`, or NaN, gradients[i] *= limit / norm.
struct clip {
    const float *norms;  // on the device
    size_t norm_count;
    float limit;
};
void kernel_clip(struct queue *queue, const struct clip *clip, float *gradients, size_t count);
// The norm, and what gradients are multiplied by: of norms in host memory.
double clip_norm(const float *norms, size_t count);
float clip_factor(const struct clip *clip);

#endif
