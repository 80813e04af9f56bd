// Private: kernels that sum along rows or columns. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_ROWS_H
#define DEVICE_CPU_ROWS_H

#include "device/cpu_elementwise.h"

// --- exponentials -----------------------------------------------------------------

INLINE float row_largest(const element *in, size_t count)
{
    vec largest = vec_all(-INFINITY);
    FOR_VECTORS (i, left, count)
        largest = vec_max(largest, load_first(in + i, left, -INFINITY));
    return vec_largest(largest);
}

// The sum of exp(in - shift).
INLINE float row_exp_sum(const element *in, size_t count, float shift)
{
    vec sum = vec_all(0);
    FOR_VECTORS (i, left, count)
        sum += vec_exp(load_first(in + i, left, -INFINITY) - shift);
    return vec_sum(sum);
}

// out = (exp(in - shift) - less) * factor.
INLINE void row_exp(element *out, const element *in, size_t count, float shift, float less, float factor)
{
    FOR_VECTORS (i, left, count)
        store_first(out + i, (vec_exp(load_first(in + i, left, -INFINITY) - shift) - less) * factor, left);
}

// --- layer norm -----------------------------------------------------------------

INLINE float row_sum(const element *in, size_t count)
{
    vec sum = vec_all(0);
    FOR_VECTORS (i, left, count)
        sum += load_first(in + i, left, 0);
    return vec_sum(sum);
}

INLINE float row_squares_about(const element *in, size_t count, float mean)
{
    vec sum = vec_all(0);
    FOR_VECTORS (i, left, count) {
        const vec x = load_first(in + i, left, mean) - mean;
        sum += x * x;
    }
    return vec_sum(sum);
}

INLINE void row_norm(const struct layer_norm *norm, element *out, const element *in, float mean, float rstd)
{
    const element *gains = elements_of(norm->gain), *offsets = elements_of(norm->offset);
    FOR_VECTORS (i, left, norm->columns) {
        const vec x = (load_first(in + i, left, 0) - mean) * rstd;
        const vec gain = load_first(gains + i, left, 0), offset = load_first(offsets + i, left, 0);
        store_first(out + i, x * gain + offset, left);
    }
}

static void cpu_layer_norm(struct queue *queue, const struct layer_norm *norm, struct values *out, float *mean,
                           float *rstd)
{
    (void)queue;
    const size_t columns = norm->columns;
    for (size_t row = 0; row < norm->rows; row++) {
        const element *in = elements_of(norm->in) + row * columns;
        mean[row] = row_sum(in, columns) / (float)columns;
        rstd[row] = 1 / sqrtf(row_squares_about(in, columns, mean[row]) / (float)columns + 1e-5f);
        row_norm(norm, elements(out) + row * columns, in, mean[row], rstd[row]);
    }
}

static void cpu_layer_norm_again(struct queue *queue, const struct layer_norm *norm, struct values *out,
                                 const float *mean, const float *rstd)
{
    (void)queue;
    for (size_t row = 0; row < norm->rows; row++)
        row_norm(norm, elements(out) + row * norm->columns, elements_of(norm->in) + row * norm->columns, mean[row],
                 rstd[row]);
}

// With h = the normed input and g = gradient * gain:
// in_gradient = rstd * (g - mean of g - h * mean of (g h)).
INLINE void row_norm_backward(const struct layer_norm *norm, element *in_gradient, const element *gradient,
                              const element *add, const element *in, float mean, float rstd)
{
    const element *gain = elements_of(norm->gain);
    vec sum = vec_all(0), sum_h = vec_all(0);
    FOR_VECTORS (i, left, norm->columns) {
        const vec g = load_first(gradient + i, left, 0) * load_first(gain + i, left, 0);
        sum += g;
        sum_h += g * ((load_first(in + i, left, mean) - mean) * rstd);
    }
    const float mean_g = vec_sum(sum) / (float)norm->columns, mean_gh = vec_sum(sum_h) / (float)norm->columns;
    FOR_VECTORS (i, left, norm->columns) {
        const vec g = load_first(gradient + i, left, 0) * load_first(gain + i, left, 0);
        const vec h = (load_first(in + i, left, mean) - mean) * rstd;
        const vec x = rstd * (g - mean_g - h * mean_gh);
        store_first(in_gradient + i, add ? x + load_first(add + i, left, 0) : x, left);
    }
}

static void cpu_layer_norm_backward_input(struct queue *queue, const struct layer_norm *norm,
                                          struct values *in_gradient, const struct values *out_gradient,
                                          const struct values *add, const float *mean, const float *rstd)
{
    (void)queue;
    for (size_t row = 0; row < norm->rows; row++) {
        const size_t first = row * norm->columns;
        row_norm_backward(norm, elements(in_gradient) + first, elements_of(out_gradient) + first,
                          add ? elements_of(add) + first : NULL, elements_of(norm->in) + first, mean[row], rstd[row]);
    }
}

// --- columns: a few vectors of them at a time, all rows of those ------------------------

enum { COLUMN_VECTORS = 4 };

// Adds to both gradients, for `vectors` whole vectors of columns or for one vector with `left` lanes.
INLINE void norm_columns(const struct layer_norm *norm, float *gain_gradient, float *offset_gradient,
                         const element *gradient, const element *in, const float *mean, const float *rstd,
                         const size_t vectors, size_t left)
{
    vec gain[COLUMN_VECTORS] = { { 0 } }, offset[COLUMN_VECTORS] = { { 0 } };
    for (size_t row = 0; row < norm->rows; row++)
        for (size_t v = 0; v < vectors; v++) {
            const size_t index = row * norm->columns + v * LANES;
            const vec g = load_first(gradient + index, left, 0);
            const vec h = (load_first(in + index, left, 0) - mean[row]) * rstd[row];
            offset[v] += g;
            gain[v] += g * h;
        }
    for (size_t v = 0; v < vectors; v++) {
        float *to = gain_gradient + v * LANES;
        vec_store_first(to, vec_load_first(to, left, 0) + gain[v], left);
        to = offset_gradient + v * LANES;
        vec_store_first(to, vec_load_first(to, left, 0) + offset[v], left);
    }
}

static void cpu_layer_norm_backward_weight(struct queue *queue, const struct layer_norm *norm, float *gain_gradient,
                                           float *offset_gradient, const struct values *out_gradient,
                                           const float *mean, const float *rstd)
{
    const element *gradient = elements_of(out_gradient), *in = elements_of(norm->in);
    size_t i = 0;
    (void)queue;
    for (; i + COLUMN_VECTORS * LANES <= norm->columns; i += COLUMN_VECTORS * LANES)
        norm_columns(norm, gain_gradient + i, offset_gradient + i, gradient + i, in + i, mean, rstd, COLUMN_VECTORS,
                     LANES);
    for (; i < norm->columns; i += LANES)
        norm_columns(norm, gain_gradient + i, offset_gradient + i, gradient + i, in + i, mean, rstd, 1,
                     norm->columns - i);
}

INLINE void sum_some_columns(float *sums, const element *in, size_t rows, size_t columns, const size_t vectors,
                             size_t left)
{
    vec sum[COLUMN_VECTORS] = { { 0 } };
    for (size_t row = 0; row < rows; row++)
        for (size_t v = 0; v < vectors; v++)
            sum[v] += load_first(in + row * columns + v * LANES, left, 0);
    for (size_t v = 0; v < vectors; v++)
        vec_store_first(sums + v * LANES, vec_load_first(sums + v * LANES, left, 0) + sum[v], left);
}

static void cpu_sum_columns(struct queue *queue, float *sums, const struct values *in, size_t rows, size_t columns)
{
    const element *from = elements_of(in);
    size_t i = 0;
    (void)queue;
    for (; i + COLUMN_VECTORS * LANES <= columns; i += COLUMN_VECTORS * LANES)
        sum_some_columns(sums + i, from + i, rows, columns, COLUMN_VECTORS, LANES);
    for (; i < columns; i += LANES)
        sum_some_columns(sums + i, from + i, rows, columns, 1, columns - i);
}

// --- words and loss -----------------------------------------------------------------

static bool tokens_are_in(struct queue *queue, const int32_t *tokens, size_t rows, size_t vocabulary,
                          const char *otherwise)
{
    for (size_t row = 0; row < rows; row++)
        if (tokens[row] < 0 || (size_t)tokens[row] >= vocabulary) {
            queue_fail(queue, otherwise);
            return false;
        }
    return true;
}

// The index of a row's word among those that are there, or NO_WORD.
#define NO_WORD SIZE_MAX
static size_t own_word(const struct embedding *e, size_t row)
{
    const size_t word = (size_t)e->tokens[row] - e->first;
    return word < embedding_own(e) ? word : NO_WORD;
}

static void cpu_embedding(struct queue *queue, const struct embedding *embedding, struct values *out,
                          const struct values *words, const struct values *positions)
{
    const struct embedding *e = embedding;
    const size_t bytes = e->columns * sizeof(element);
    if (!tokens_are_in(queue, e->tokens, e->rows, e->vocabulary, "a token is outside the vocabulary"))
        return;
    for (size_t row = 0; row < e->rows; row++) {
        const size_t word_index = own_word(e, row);
        element *to = elements(out) + row * e->columns;
        const element *word = word_index == NO_WORD ? NULL : elements_of(words) + word_index * e->columns;
        const element *position = positions ? elements_of(positions) + row % e->sequence * e->columns : NULL;
        if (word && position)
            add_elements(to, word, position, e->columns);
        else if (word || position)
            memcpy(to, word ? word : position, bytes);
        else
            memset(to, 0, bytes);
    }
}

INLINE void add_row(float *sums, const element *in, size_t count)
{
    FOR_VECTORS (i, left, count)
        vec_store_first(sums + i, vec_load_first(sums + i, left, 0) + load_first(in + i, left, 0), left);
}

static void cpu_embedding_backward(struct queue *queue, const struct embedding *embedding, float *words_gradient,
                                   float *positions_gradient, const struct values *out_gradient)
{
    const struct embedding *e = embedding;
    if (!tokens_are_in(queue, e->tokens, e->rows, e->vocabulary, "a token is outside the vocabulary"))
        return;
    for (size_t row = 0; row < e->rows; row++) {
        const element *gradient = elements_of(out_gradient) + row * e->columns;
        float *word = words_gradient + own_word(e, row) * e->columns;
        float *position = positions_gradient + row % e->sequence * e->columns;
        if (own_word(e, row) != NO_WORD)
            add_row(word, gradient, e->columns);
        add_row(position, gradient, e->columns);
    }
}

static bool targets_are_in(struct queue *queue, const struct cross_entropy *loss)
{
    for (size_t row = 0; row < loss->rows; row++)
        if (loss->targets[row] != NO_TARGET
            && !tokens_are_in(queue, &loss->targets[row], 1, cross_entropy_whole(loss),
                              "a target is outside the vocabulary"))
            return false;
    return true;
}

// A row's target as an index into its columns. It is past them if another part has the target, or if there is none.
static size_t own_target(const struct cross_entropy *loss, size_t row)
{
    return (size_t)loss->targets[row] - loss->first;
}

static float log_sum_of(const element *logits, size_t columns)
{
    const float largest = row_largest(logits, columns);
    return largest + logf(row_exp_sum(logits, columns, largest));
}

// The loss of a row with a target.
static double loss_of_row(const struct cross_entropy *loss, size_t row, float log_sum)
{
    const element *logits = elements_of(loss->logits) + row * loss->stride;
    const double of_target = (double)log_sum - (double)element_widen(logits[loss->targets[row]]);
    const double share = (double)loss->smoothing;
    if (share <= 0)
        return of_target;
    const double mean = (double)row_sum(logits, loss->columns) / (double)loss->columns;
    return (1 - share) * of_target + share * ((double)log_sum - mean);
}

static void cpu_cross_entropy(struct queue *queue, const struct cross_entropy *loss, float *sum, float *log_sums)
{
    if (!targets_are_in(queue, loss))
        return;
    double total = 0;
    for (size_t row = 0; row < loss->rows; row++) {
        const element *logits = elements_of(loss->logits) + row * loss->stride;
        log_sums[row] = log_sum_of(logits, loss->columns);
        if (loss->targets[row] != NO_TARGET)
            total += loss_of_row(loss, row, log_sums[row]);
    }
    *sum = (float)(total * (double)loss->scale);
}

static void cpu_cross_entropy_part(struct queue *queue, const struct cross_entropy *loss, float *log_sums,
                                   float *target_logits)
{
    if (!targets_are_in(queue, loss))
        return;
    for (size_t row = 0; row < loss->rows; row++) {
        const element *logits = elements_of(loss->logits) + row * loss->stride;
        const size_t target = own_target(loss, row);
        log_sums[row] = log_sum_of(logits, loss->columns);
        target_logits[row] = target < loss->columns ? element_widen(logits[target]) : 0;
    }
}

static void cpu_cross_entropy_join(struct queue *queue, const struct cross_entropy_parts *parts, float *sum,
                                   float *log_sums)
{
    (void)queue;
    const size_t rows = parts->rows;
    double total = 0;
    for (size_t row = 0; row < rows; row++) {
        float largest = parts->parts[row], exps = 0;
        for (size_t i = 1; i < parts->count; i++)
            largest = fmaxf(largest, parts->parts[i * rows + row]);
        for (size_t i = 0; i < parts->count; i++)
            exps += expf(parts->parts[i * rows + row] - largest);
        log_sums[row] = largest + logf(exps);
        if (parts->targets[row] != NO_TARGET)
            total += (double)log_sums[row] - (double)parts->parts[parts->count * rows + row];
    }
    *sum = (float)(total * (double)parts->scale);
}

// gradient = scale * (exp(logits - log_sum) - (1 - smoothing at the target) - smoothing / columns). Padding, and rows
// without a target, get zeros.
static void put_gradient(const struct cross_entropy *loss, size_t row, float log_sum, float scale, element *gradient)
{
    const size_t target = own_target(loss, row);
    if (loss->targets[row] == NO_TARGET) {
        memset(gradient, 0, loss->stride * sizeof(element));
        return;
    }
    const element *logits = elements_of(loss->logits) + row * loss->stride;
    const float share = loss->smoothing / (float)loss->columns;
    const bool is_own = target < loss->columns;
    const vec at_target = is_own ? vec_exp(vec_all(element_widen(logits[target]) - log_sum)) : vec_all(0);
    row_exp(gradient, logits, loss->columns, log_sum, share, scale);
    if (is_own)
        gradient[target] = element_round((at_target[0] - (1 - loss->smoothing) - share) * scale);
    memset(gradient + loss->columns, 0, (loss->stride - loss->columns) * sizeof(element));
}

static void cpu_cross_entropy_backward(struct queue *queue, const struct cross_entropy *loss,
                                       struct values *logits_gradient, const float *log_sums)
{
    if (!targets_are_in(queue, loss))
        return;
    for (size_t row = 0; row < loss->rows; row++)
        put_gradient(loss, row, log_sums[row], loss->scale, elements(logits_gradient) + row * loss->stride);
}

static void cpu_cross_entropy_both(struct queue *queue, const struct cross_entropy *loss, float *sum, float *losses,
                                   struct values *logits_gradient, float gradient_scale)
{
    if (!targets_are_in(queue, loss))
        return;
    double total = 0;
    for (size_t row = 0; row < loss->rows; row++) {
        const element *logits = elements_of(loss->logits) + row * loss->stride;
        const float log_sum = log_sum_of(logits, loss->columns);
        const double row_loss = loss->targets[row] != NO_TARGET ? loss_of_row(loss, row, log_sum) : 0;
        losses[row] = (float)row_loss;
        total += row_loss;
        put_gradient(loss, row, log_sum, gradient_scale, elements(logits_gradient) + row * loss->stride);
    }
    *sum = (float)(total * (double)loss->scale);
}

#endif
