#include "device/kernels.h"

#include <assert.h>
#include <math.h>

#include "common/number.h"
#include "common/random.h"
#include "device/cpu.h"
#include "device/recording.h"

// Where a queue's kernels go: to its device, or past what is being recorded.
static const struct kernel_functions *kernels_of(const struct queue *queue)
{
    return queue->recorded ? &recorded_kernels : queue->device->kernels;
}

// Gives a kernel to the queue's device, unless something went wrong before.
#define LAUNCH(queue, kernel, ...)                             \
    do {                                                       \
        if (queue_is_well(queue))                              \
            kernels_of(queue)->kernel((queue), __VA_ARGS__);   \
    } while (0)

void kernel_matmul(struct queue *queue, const struct matmul *matmul)
{
    struct matmul packed = *matmul;
    assert((matmul->c != NULL) != (matmul->sums != NULL));
    assert(matmul->c || (!matmul->bias && !matmul->before_gelu));
    if (packed.lda == 0)
        packed.lda = packed.transpose_a ? packed.m : packed.k;
    if (packed.ldb == 0)
        packed.ldb = packed.transpose_b ? packed.k : packed.n;
    if (packed.ldc == 0)
        packed.ldc = packed.n;
    LAUNCH(queue, matmul, &packed);
}

void kernel_fill(struct queue *queue, struct values *out, float value, size_t count)
{
    LAUNCH(queue, fill, out, value, count);
}

void kernel_fill_normal(struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                        size_t count)
{
    LAUNCH(queue, fill_normal, out, deviation, key, first, count);
}

void kernel_add(struct queue *queue, struct values *out, const struct values *a, const struct values *b,
                size_t count)
{
    LAUNCH(queue, add, out, a, b, count);
}

void kernel_scale(struct queue *queue, float *out, const float *in, float factor, size_t count)
{
    LAUNCH(queue, scale, out, in, factor, count);
}

void kernel_add_floats(struct queue *queue, float *out, const float *a, const float *b, size_t count)
{
    LAUNCH(queue, add_floats, out, a, b, count);
}

void kernel_widen(struct queue *queue, float *out, const struct values *in, size_t count)
{
    LAUNCH(queue, widen, out, in, count);
}

void kernel_narrow(struct queue *queue, struct values *out, const float *in, size_t count)
{
    LAUNCH(queue, narrow, out, in, count);
}

uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t micro_batch, uint32_t layer)
{
    uint64_t key = seed;
    key = random_next(&key) ^ step;
    key = random_next(&key) ^ ((uint64_t)micro_batch << 32 | layer);
    return random_next(&key);
}

void kernel_dropout(struct queue *queue, struct values *out, const struct values *in, size_t count,
                    struct dropout dropout)
{
    assert(dropout.probability >= 0 && dropout.probability < 1 && dropout.first + count <= (size_t)UINT32_MAX);
    LAUNCH(queue, dropout, out, in, count, dropout);
}

void kernel_relu(struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count)
{
    LAUNCH(queue, relu, out, passed, in, count);
}

void kernel_relu_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                          const uint8_t *passed, size_t count)
{
    LAUNCH(queue, relu_backward, in_gradient, out_gradient, passed, count);
}

void kernel_add_branch(struct queue *queue, struct values *out, const struct values *trunk,
                       const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                       struct dropout dropout)
{
    assert(dropout.probability >= 0 && dropout.probability < 1
           && dropout.first + rows * columns <= (size_t)UINT32_MAX);
    LAUNCH(queue, add_branch, out, trunk, branch, bias, rows, columns, dropout);
}

void kernel_sum_columns(struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns)
{
    LAUNCH(queue, sum_columns, sums, in, rows, columns);
}

void kernel_gelu(struct queue *queue, struct values *out, const struct values *in, size_t count)
{
    LAUNCH(queue, gelu, out, in, count);
}

void kernel_gelu_backward(struct queue *queue, struct values *in_gradient, struct values *out,
                          const struct values *out_gradient, const struct values *in, size_t count)
{
    LAUNCH(queue, gelu_backward, in_gradient, out, out_gradient, in, count);
}

void kernel_softmax(struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns)
{
    LAUNCH(queue, softmax, out, in, rows, columns);
}

void kernel_layer_norm(struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean,
                       float *rstd)
{
    LAUNCH(queue, layer_norm, norm, out, mean, rstd);
}

void kernel_layer_norm_again(struct queue *queue, const struct layer_norm *norm, struct values *out,
                             const float *mean, const float *rstd)
{
    LAUNCH(queue, layer_norm_again, norm, out, mean, rstd);
}

void kernel_layer_norm_backward_input(struct queue *queue, const struct layer_norm *norm, struct values *in_gradient,
                                      const struct values *out_gradient, const struct values *add, const float *mean,
                                      const float *rstd)
{
    LAUNCH(queue, layer_norm_backward_input, norm, in_gradient, out_gradient, add, mean, rstd);
}

void kernel_layer_norm_backward_weight(struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                       float *offset_gradient, const struct values *out_gradient, const float *mean,
                                       const float *rstd)
{
    LAUNCH(queue, layer_norm_backward_weight, norm, gain_gradient, offset_gradient, out_gradient, mean, rstd);
}

void kernel_embedding(struct queue *queue, const struct embedding *embedding, struct values *out,
                      const struct values *words, const struct values *positions)
{
    LAUNCH(queue, embedding, embedding, out, words, positions);
}

void kernel_embedding_backward(struct queue *queue, const struct embedding *embedding, float *words_gradient,
                               float *positions_gradient, const struct values *out_gradient)
{
    LAUNCH(queue, embedding_backward, embedding, words_gradient, positions_gradient, out_gradient);
}

// The cpu maker takes, for one head at a time, K and V transposed and two blocks
// of ATTENTION_ROWS rows of scores.
uint64_t attention_workspace_bytes(const struct attention *attention)
{
    const uint64_t across = attention_row_floats(attention_whole(attention));
    return round_to_256((2 * attention->size + 2 * ATTENTION_ROWS) * across * sizeof(float));
}

bool attention_bytes(struct device *device, const struct attention *attention, struct attention_bytes *bytes,
                     struct error *error)
{
    const uint64_t own = attention_workspace_bytes(attention);
    *bytes = (struct attention_bytes){ own, own };
    return !device->functions->attention_bytes || device->functions->attention_bytes(device, attention, bytes, error);
}

void kernel_attention(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                      const struct values *qkv, void *workspace)
{
    LAUNCH(queue, attention, attention, out, log_sums, qkv, workspace);
}

void kernel_attention_backward(struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                               const struct values *out_gradient, const struct values *out, const float *log_sums,
                               const struct values *qkv, void *workspace)
{
    LAUNCH(queue, attention_backward, attention, qkv_gradient, out_gradient, out, log_sums, qkv, workspace);
}

static struct cross_entropy with_stride(const struct cross_entropy *loss)
{
    struct cross_entropy whole = *loss;
    assert(loss->stride == 0 || loss->stride >= loss->columns);
    if (whole.stride == 0)
        whole.stride = whole.columns;
    return whole;
}

void kernel_cross_entropy(struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums)
{
    const struct cross_entropy whole = with_stride(loss);
    LAUNCH(queue, cross_entropy, &whole, sum, log_sums);
}

void kernel_cross_entropy_both(struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                               struct values *logits_gradient, float gradient_scale)
{
    const struct cross_entropy whole = with_stride(loss);
    assert(cross_entropy_whole(loss) == loss->columns);
    LAUNCH(queue, cross_entropy_both, &whole, sum, losses, logits_gradient, gradient_scale);
}

void kernel_cross_entropy_part(struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                               float *target_logits)
{
    const struct cross_entropy whole = with_stride(loss);
    LAUNCH(queue, cross_entropy_part, &whole, log_sums, target_logits);
}

void kernel_cross_entropy_join(struct queue *queue, const struct cross_entropy_parts *parts, float *sum,
                               float *log_sums)
{
    LAUNCH(queue, cross_entropy_join, parts, sum, log_sums);
}

void kernel_cross_entropy_backward(struct queue *queue, const struct cross_entropy *loss,
                                   struct values *logits_gradient, const float *log_sums)
{
    const struct cross_entropy whole = with_stride(loss);
    LAUNCH(queue, cross_entropy_backward, &whole, logits_gradient, log_sums);
}

struct adamw_factors adamw_factors(const struct adamw *adamw)
{
    const double update = (double)adamw->update, seen = adamw->frozen > 0 ? (double)adamw->frozen : update;
    return (struct adamw_factors){
        .shrink = adamw->is_coupled ? 1 : 1 - adamw->rate * adamw->decay,
        .step = (float)((double)adamw->rate / (1 - pow((double)adamw->beta1, update))),
        .second_factor = (float)(1 / sqrt(1 - pow((double)adamw->beta2, seen))),
        .coupled = adamw->is_coupled ? adamw->decay : 0,
    };
}

void kernel_adamw(struct queue *queue, const struct adamw *adamw, const struct optimizer_span *span)
{
    assert(adamw->update > 0);
    assert((span->master != NULL) == (queue->device->precision != PRECISION_FP32));
    LAUNCH(queue, adamw, adamw, span);
}

void kernel_sgd(struct queue *queue, const struct sgd *sgd, const struct optimizer_span *span)
{
    assert((span->master != NULL) == (queue->device->precision != PRECISION_FP32));
    LAUNCH(queue, sgd, sgd, span);
}

void kernel_lars(struct queue *queue, const struct lars *lars, const struct optimizer_span *span)
{
    assert((span->master != NULL) == (queue->device->precision != PRECISION_FP32));
    LAUNCH(queue, lars, lars, span);
}

struct lamb_factors lamb_factors(const struct lamb *lamb)
{
    const double update = (double)lamb->update;
    return (struct lamb_factors){
        .rate = lamb->rate,
        .first = (float)(1 / (1 - pow((double)lamb->beta1, update))),
        .second = (float)(1 / sqrt(1 - pow((double)lamb->beta2, update))),
    };
}

void kernel_lamb(struct queue *queue, const struct lamb *lamb, const struct optimizer_span *span)
{
    assert(lamb->update > 0);
    assert((span->master != NULL) == (queue->device->precision != PRECISION_FP32));
    LAUNCH(queue, lamb, lamb, span);
}

struct adafactor_factors adafactor_factors(const struct adafactor *adafactor)
{
    const double update = (double)adafactor->update, rate = (double)adafactor->rate;
    return (struct adafactor_factors){
        .rate = (float)fmin(rate, 1 / sqrt(update)),
        .beta = (float)pow(update, -0.8),
        .shrink = 1 - adafactor->rate * adafactor->decay,
    };
}

void kernel_adafactor(struct queue *queue, const struct adafactor *adafactor, const struct factored_span *span)
{
    assert(adafactor->update > 0 && queue->device->precision == PRECISION_FP32);
    assert(span->column || span->rows == 1);
    LAUNCH(queue, adafactor, adafactor, span);
}

// Of `steps` codes in a decade the first is at 2^decade - 1 of the positive ones, where decade 0 has one.
static float positive_value(unsigned code, unsigned first_steps)
{
    static const float decades[] = { 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1 };
    unsigned decade = 0, steps = first_steps;
    for (; decade < 7 && code >= steps; decade++, steps *= 2)
        code -= steps;
    return decade == 7 ? 1.0f : decades[decade] * (0.1f + 0.9f * ((float)code + 0.5f) / (float)steps);
}

float eight_bit_value(unsigned code, bool is_signed)
{
    if (!is_signed)
        return code == 0 ? 0.0f : positive_value(code - 1, 2);
    if (code == 127)
        return 0.0f;
    return code > 127 ? positive_value(code - 128, 1) : -positive_value(126 - code, 1);
}

void kernel_adam8bit(struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span)
{
    assert(adamw->update > 0 && queue->device->precision == PRECISION_FP32);
    LAUNCH(queue, adam8bit, adamw, span);
}

void kernel_add_where(struct queue *queue, float *sums, const float *in, float factor, const float *where, size_t count)
{
    assert(queue->device->precision == PRECISION_FP32);
    LAUNCH(queue, add_where, sums, in, factor, where, count);
}

void kernel_take_signs(struct queue *queue, struct sign_block *blocks, float *numbers, const float *where, size_t count)
{
    assert(queue->device->precision == PRECISION_FP32);
    LAUNCH(queue, take_signs, blocks, numbers, where, count);
}

void kernel_add_signs(struct queue *queue, float *sums, const struct sign_block *blocks, float factor,
                      const float *where, size_t count)
{
    assert(queue->device->precision == PRECISION_FP32);
    LAUNCH(queue, add_signs, sums, blocks, factor, where, count);
}

float trust_ratio(double above, double below, double norm)
{
    return above > 0 && norm > 0 ? (float)(above / below) : 1.0f;
}

void kernel_norm(struct queue *queue, float *norm, const float *in, size_t count)
{
    LAUNCH(queue, norm, norm, in, count);
}

double clip_norm(const float *norms, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)norms[i] * (double)norms[i];
    return sqrt(sum);
}

float clip_factor(const struct clip *clip)
{
    const double norm = clip_norm(clip->norms, clip->norm_count);
    return norm <= (double)clip->limit ? 1.0f : (float)((double)clip->limit / norm);
}

void kernel_clip(struct queue *queue, const struct clip *clip, float *gradients, size_t count)
{
    LAUNCH(queue, clip, clip, gradients, count);
}
