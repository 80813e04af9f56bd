// Private: kernels of gradients by rows (row_list.h). Included by cpu_vectors.h.
//
// An update calls the optimizer's own kernel, row by row, so that a row gets the same bits as in the whole matrix.
#ifndef DEVICE_CPU_ROW_LISTS_H
#define DEVICE_CPU_ROW_LISTS_H

#include "device/cpu_optimizer.h"
#include "device/cpu_tables.h"

INLINE bool is_listed(const struct row_list *list, uint32_t count, int32_t row)
{
    const uint32_t place = (uint32_t)list->places[row];
    return place < count && list->numbers[place] == row;
}

// The place of a row, which is at the end of the list if it is new. The room of the list: there is none left.
INLINE uint32_t place_in(const struct row_list *list, uint32_t *count, int32_t row)
{
    if (is_listed(list, *count, row))
        return (uint32_t)list->places[row];
    if (*count < list->room) {
        list->places[row] = (int32_t)*count;
        list->numbers[*count] = row;
        memset(list->sums + *count * list->columns, 0, list->columns * sizeof(float));
        return (*count)++;
    }
    return (uint32_t)list->room;
}

static void cpu_list_rows(struct queue *queue, const struct row_list *list, const struct bags *bags)
{
    struct bags whole = *bags;
    whole.places = NULL;
    if (!bags_are_right(queue, &whole))
        return;
    const size_t all = bags->count > 0 ? (size_t)bags->ends[bags->count - 1] : 0;
    uint32_t count = *list->count;
    for (size_t i = 0; i < all; i++) {
        if (i + BAG_AHEAD < all)
            __builtin_prefetch(&list->places[bags->ids[i + BAG_AHEAD]]);
        if (place_in(list, &count, bags->ids[i]) == list->room) {
            queue_fail(queue, "a list of rows is full");
            break;
        }
    }
    *list->count = count;
}

static void cpu_add_list(struct queue *queue, const struct row_list *list, const struct row_list *other)
{
    const size_t columns = list->columns;
    uint32_t count = *list->count;
    for (uint32_t i = 0; i < *other->count; i++) {
        const uint32_t place = place_in(list, &count, other->numbers[i]);
        const float *from = other->sums + i * columns;
        float *sum = list->sums + place * columns;
        if (place == list->room) {
            queue_fail(queue, "a list of rows is full");
            break;
        }
        FOR_VECTORS (c, left, columns)
            vec_store_first(sum + c, vec_load_first(sum + c, left, 0) + vec_load_first(from + c, left, 0), left);
    }
    *list->count = count;
}

// --- updates -----------------------------------------------------------------------------------------------------

// Rows that lie anywhere in a large matrix are fetched so many rows ahead.
enum { ROWS_AHEAD = 16 };

INLINE size_t rows_in(const struct row_list *list)
{
    return list->numbers ? *list->count : list->rows;
}

INLINE size_t row_number(const struct row_list *list, size_t i)
{
    return list->numbers ? (size_t)list->numbers[i] : i;
}

INLINE void row_prefetch(const float *matrix, size_t first, size_t columns)
{
    for (size_t c = 0; matrix && c < columns; c += BAG_LINE / sizeof(float))
        __builtin_prefetch(matrix + first + c, 1);
}

// The span of row i of the list, of a matrix with `kept` columns of state.
INLINE struct optimizer_span row_span(const struct row_list *list, const struct optimizer_span *span, size_t i,
                                      size_t kept)
{
    const size_t count = rows_in(list), row = row_number(list, i), columns = list->columns;
    if (list->numbers && i + ROWS_AHEAD < count) {
        const size_t later = row_number(list, i + ROWS_AHEAD);
        row_prefetch(floats_of(span->weights), later * columns, columns);
        row_prefetch(span->first, later * kept, kept);
        row_prefetch(span->second, later * kept, kept);
    }
    return (struct optimizer_span){
        .next = (struct values *)(floats(span->next) + row * columns),
        .weights = (const struct values *)(floats_of(span->weights) + row * columns),
        .gradients = list->sums + i * columns,
        .first = span->first ? span->first + row * kept : NULL,
        .second = span->second ? span->second + row * kept : NULL,
        .count = columns,
    };
}

static void cpu_sgd_rows(struct queue *queue, const struct sgd *sgd, const struct row_list *list,
                         const struct optimizer_span *span)
{
    for (size_t i = 0, count = rows_in(list); i < count; i++) {
        const struct optimizer_span row = row_span(list, span, i, list->columns);
        cpu_sgd(queue, sgd, &row);
    }
}

// The sum of the squares of a row, in sums that are added by halves.
INLINE float mean_square(const float *row, size_t columns)
{
    vec vectors[SIXTEEN_VECTORS];
    float sums[SIXTEEN];
    for (size_t v = 0; v < SIXTEEN_VECTORS; v++)
        vectors[v] = vec_all(0);
    for (size_t c = 0; c < columns; c += SIXTEEN)
        for (size_t v = 0; v < SIXTEEN_VECTORS && c + v * LANES < columns; v++) {
            const vec x = vec_load_first(row + c + v * LANES, columns - c - v * LANES, 0);
            vectors[v] += vec_product(x, x);
        }
    memcpy(sums, vectors, sizeof sums);
    for (size_t half = SIXTEEN / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            sums[k] += sums[k + half];
    return sums[0] / (float)columns;
}

static void adagrad_by_row(const struct adagrad *adagrad, float rate, const struct optimizer_span *row)
{
    const float sum = *row->first += mean_square(row->gradients, row->count);
    const vec scale = vec_sqrt(vec_all(sum)) + vec_all(adagrad->epsilon);
    FOR_VECTORS (c, left, row->count) {
        const vec g = vec_load_first(row->gradients + c, left, 0);
        const vec w = vec_load_first(floats_of(row->weights) + c, left, 0);
        vec_store_first(floats(row->next) + c, vec_fma(-rate, g / scale, w), left);
    }
}

static void cpu_adagrad_rows(struct queue *queue, const struct adagrad *adagrad, const struct row_list *list,
                             const struct optimizer_span *span, bool is_by_row)
{
    const float *there = adagrad->rate_at, rate = there ? *there : adagrad->rate;
    for (size_t i = 0, count = rows_in(list); i < count; i++) {
        const struct optimizer_span row = row_span(list, span, i, is_by_row ? 1 : list->columns);
        if (is_by_row)
            adagrad_by_row(adagrad, rate, &row);
        else
            cpu_adagrad(queue, adagrad, &row);
    }
}

static void cpu_adamw_rows(struct queue *queue, const struct adamw *adamw, const struct row_list *list,
                           const struct optimizer_span *span)
{
    const struct adamw_factors factors = adamw_factors(adamw);
    struct adamw with = *adamw;
    with.factors_at = with.factors_at ? with.factors_at : &factors;
    for (size_t i = 0, count = rows_in(list); i < count; i++) {
        const struct optimizer_span row = row_span(list, span, i, list->columns);
        cpu_adamw(queue, &with, &row);
    }
}

static void cpu_move_rows(struct queue *queue, const struct row_list *list, float *matrix, bool swaps)
{
    (void)queue;
    for (size_t i = 0, count = rows_in(list), columns = list->columns; i < count; i++) {
        float *row = matrix + row_number(list, i) * columns, *kept = list->sums + i * columns;
        if (i + ROWS_AHEAD < count)
            row_prefetch(matrix, row_number(list, i + ROWS_AHEAD) * columns, columns);
        FOR_VECTORS (c, left, columns) {
            const vec was = vec_load_first(row + c, left, 0), other = vec_load_first(kept + c, left, 0);
            vec_store_first(kept + c, was, left);
            if (swaps)
                vec_store_first(row + c, other, left);
        }
    }
}

// --- norms --------------------------------------------------------------------------------------------------------

INLINE double squares_of_row(const float *row, size_t columns)
{
    double sums[SIXTEEN] = { 0 };
    for (size_t c = 0; c < columns; c += SIXTEEN)
        for (size_t k = 0; k < SIXTEEN && c + k < columns; k++)
            sums[k] += (double)row[c + k] * (double)row[c + k];
    for (size_t half = SIXTEEN / 2; half > 0; half /= 2)
        for (size_t k = 0; k < half; k++)
            sums[k] += sums[k + half];
    return sums[0];
}

static void cpu_norm_rows(struct queue *queue, float *norm, const struct row_list *list, size_t first)
{
    double total = 0;
    (void)queue;
    for (size_t row = first; row < list->rows; row++)
        if (!list->numbers)
            total += squares_of_row(list->sums + row * list->columns, list->columns);
        else if (is_listed(list, *list->count, (int32_t)row))
            total += squares_of_row(list->sums + (size_t)list->places[row] * list->columns, list->columns);
    *norm = (float)sqrt(total);
}

#endif
