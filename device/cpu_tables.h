// Private: kernels of tables (table_kernels.h). Included by cpu_vectors.h.
//
// No instruction set gives other bits than another: products are rounded before they are added, and no number is the
// sum of lanes whose count is the instruction set's own.
#ifndef DEVICE_CPU_TABLES_H
#define DEVICE_CPU_TABLES_H

#include "device/cpu_elementwise.h"
#include "device/table_kernels.h"

// --- bags ------------------------------------------------------------------------------------------------------------

// Rows lie anywhere in a large matrix, so that they are fetched some ids ahead. A block is how many bags are read
// together.
enum { BAG_AHEAD = 32, BAG_BLOCK = 32, BAG_LINE = 64, BAG_VECTORS = 4, NO_PLACE = -1 };

// The place of the row of an id that is right.
INLINE int64_t bag_place(const struct bags *bags, int32_t id)
{
    return !bags->places ? (int64_t)(uint32_t)id : bags->places[id] >= 0 ? bags->places[id] : NO_PLACE;
}

INLINE void bag_prefetch(const struct bags *bags, const float *matrix, size_t position, size_t end)
{
    const int64_t place = position < end ? bag_place(bags, bags->ids[position]) : NO_PLACE;
    const char *row = (const char *)(matrix + (size_t)(place < 0 ? 0 : place) * bags->columns);
    for (size_t at = 0; place >= 0 && at < bags->columns * sizeof(float); at += BAG_LINE)
        __builtin_prefetch(row + at);
}

INLINE size_t ids_of_bags(const struct bags *bags)
{
    return bags->count > 0 ? (size_t)bags->ends[bags->count - 1] : 0;
}

// No loop here has a way out in between, so that it checks several ends or ids at once.
static bool bags_are_right(struct queue *queue, const struct bags *bags)
{
    const int32_t *ends = bags->ends, *ids = bags->ids;
    const size_t all = ids_of_bags(bags);
    int32_t falls = bags->count > 0 && ends[0] < 0;
    for (size_t b = 1; b < bags->count; b++)
        falls |= ends[b] < ends[b - 1];
    if (falls || all > bags->most) {
        queue_fail(queue, "the ends of bags do not ascend, or are past the room for ids");
        return false;
    }
    uint32_t largest = 0;  // a negative id is larger than any other
    for (size_t i = 0; i < all; i++)
        largest = (uint32_t)ids[i] > largest ? (uint32_t)ids[i] : largest;
    if (all > 0 && largest >= bags->rows)
        queue_fail(queue, "an id is outside of the rows of its table");
    return all == 0 || largest < bags->rows;
}

// What each of a bag's ids counts for.
INLINE float bag_share(const struct bags *bags, size_t first, size_t end)
{
    return bags->is_mean && end > first ? 1.0f / (float)(end - first) : 1.0f;
}

// Columns from `c` on of the vectors of some bags. `left` are those of the last vector.
INLINE void look_up_columns(const struct bags bags, float *out, const float *matrix, size_t from, size_t to, size_t c,
                            const size_t vectors, size_t left)
{
    const size_t all = ids_of_bags(&bags);
    size_t first = from > 0 ? (size_t)bags.ends[from - 1] : 0;
    for (size_t b = from; b < to; b++) {
        const size_t end = (size_t)bags.ends[b];
        vec sum[BAG_VECTORS];
        for (size_t v = 0; v < vectors; v++)
            sum[v] = vec_all(0);
        for (size_t i = first; i < end; i++) {
            const int64_t place = bag_place(&bags, bags.ids[i]);
            if (c == 0)
                bag_prefetch(&bags, matrix, i + BAG_AHEAD, all);
            if (place < 0)
                continue;
            const float *row = matrix + (size_t)place * bags.columns + c;
            for (size_t v = 0; v < vectors; v++) {
                const vec x = vec_load_first(row + v * LANES, v + 1 < vectors ? LANES : left, 0);
                sum[v] += bags.weights ? vec_product(x, vec_all(bags.weights[i])) : x;
            }
        }
        for (size_t v = 0; bags.is_mean && v < vectors; v++)
            sum[v] *= bag_share(&bags, first, end);
        for (size_t v = 0; v < vectors; v++)
            vec_store_first(out + b * bags.columns + c + v * LANES, sum[v], v + 1 < vectors ? LANES : left);
        first = end;
    }
}

// The processor looks some 256 instructions ahead, and waits there for the addresses of rows, which lie on many pages.
// So a lookup takes as long as its loop has instructions. Each loop is of vectors of one width, and a block of bags
// goes through it before the next columns. The bags are a copy, so that storing vectors changes nothing of them.
INLINE void look_up(const struct bags bags, float *out, const float *matrix)
{
    for (size_t from = 0; from < bags.count; from += BAG_BLOCK) {
        const size_t to = min_u64(from + BAG_BLOCK, bags.count);
        size_t c = 0;
        for (; c + BAG_VECTORS * LANES <= bags.columns; c += BAG_VECTORS * LANES)
            look_up_columns(bags, out, matrix, from, to, c, BAG_VECTORS, LANES);
        for (; c + 2 * LANES <= bags.columns; c += 2 * LANES)
            look_up_columns(bags, out, matrix, from, to, c, 2, LANES);
        for (; c < bags.columns; c += LANES)
            look_up_columns(bags, out, matrix, from, to, c, 1, bags.columns - c);
    }
}

// Most bags are sums without weights: a loop that knows so is shorter.
static void cpu_bag(struct queue *queue, const struct bags *bags, struct values *out, const struct values *matrix)
{
    struct bags plain = *bags;
    plain.weights = NULL;
    plain.places = NULL;
    plain.is_mean = false;
    if (!bags_are_right(queue, bags))
        return;
    if (bags->weights || bags->places || bags->is_mean)
        look_up(*bags, floats(out), floats_of(matrix));
    else
        look_up(plain, floats(out), floats_of(matrix));
}

static void cpu_bag_backward(struct queue *queue, const struct bags *bags, float *matrix_gradient,
                             const struct values *out_gradient)
{
    if (!bags_are_right(queue, bags))
        return;
    const size_t all = ids_of_bags(bags);
    size_t first = 0;
    for (size_t b = 0; b < bags->count; b++) {
        const size_t end = (size_t)bags->ends[b];
        const float *gradient = floats_of(out_gradient) + b * bags->columns, share = bag_share(bags, first, end);
        for (size_t i = first; i < end; i++) {
            const int64_t place = bag_place(bags, bags->ids[i]);
            const float factor = bags->weights ? share * bags->weights[i] : share;
            float *row = matrix_gradient + (size_t)(place < 0 ? 0 : place) * bags->columns;
            bag_prefetch(bags, matrix_gradient, i + BAG_AHEAD, all);
            FOR_VECTORS (c, left, place < 0 ? 0 : bags->columns) {
                const vec product = vec_product(vec_load_first(gradient + c, left, 0), vec_all(factor));
                vec_store_first(row + c, vec_load_first(row + c, left, 0) + product, left);
            }
        }
        first = end;
    }
}

// --- interaction -----------------------------------------------------------------------------------------------------
//
// The products of a row with SIXTEEN others are made together, column by column. The others are turned first:
//
//     row i     | t0 t1 t2 ..             turned    t0 of rows j .. j+15
//                  |  |                             t1 of rows j .. j+15
//                  v  v                             ..
//     products  |i j| i j+1| .. |i j+15|  += t0 * the first line, += t1 * the second, ..

enum { SIXTEEN = 16, TURNED = 128 };
#define SIXTEEN_VECTORS (SIXTEEN / LANES)

INLINE const float *interaction_row(const struct interaction *x, size_t sample, size_t row)
{
    const bool has_bottom = x->bottom != NULL;
    if (has_bottom && row == 0)
        return floats_of(x->bottom) + sample * x->columns;
    return floats_of(x->vectors) + (sample * x->count + row - has_bottom) * x->columns;
}

// Products of row i with those from `first` on, `count` of them, over `depth` columns that are turned; added to `out`.
INLINE void interact(float *out, const float *row, const float *turned, size_t depth, size_t count)
{
    vec sum[SIXTEEN_VECTORS];
    for (size_t v = 0; v < SIXTEEN_VECTORS; v++)
        sum[v] = count > v * LANES ? vec_load_first(out + v * LANES, count - v * LANES, 0) : vec_all(0);
    for (size_t c = 0; c < depth; c++)
        for (size_t v = 0; v < SIXTEEN_VECTORS; v++)
            sum[v] += vec_product(vec_all(row[c]), vec_load(turned + c * SIXTEEN + v * LANES));
    for (size_t v = 0; v < SIXTEEN_VECTORS && count > v * LANES; v++)
        vec_store_first(out + v * LANES, sum[v], count - v * LANES);
}

static void interact_sample(const struct interaction *x, size_t sample, float *pairs)
{
    const size_t rows = interaction_rows(x->count, x->bottom != NULL);
    float turned[TURNED * SIXTEEN];
    memset(pairs, 0, rows * (rows - 1) / 2 * sizeof(float));
    for (size_t first = 0; first < rows; first += SIXTEEN)
        for (size_t c = 0; c < x->columns; c += TURNED) {
            const size_t depth = x->columns - c < TURNED ? x->columns - c : TURNED;
            for (size_t k = 0; k < SIXTEEN; k++) {
                const float *row = interaction_row(x, sample, first + k < rows ? first + k : first);
                for (size_t d = 0; d < depth; d++)
                    turned[d * SIXTEEN + k] = row[c + d];
            }
            for (size_t i = first + 1; i < rows; i++)
                interact(pairs + i * (i - 1) / 2 + first, interaction_row(x, sample, i) + c, turned, depth,
                         i - first < SIXTEEN ? i - first : SIXTEEN);
        }
}

static void cpu_interaction(struct queue *queue, const struct interaction *interaction, struct values *out)
{
    const struct interaction *x = interaction;
    const size_t copied = x->bottom ? x->columns : 0;
    const size_t width = interaction_width(x->count, x->columns, x->bottom != NULL);
    (void)queue;
    for (size_t sample = 0; sample < x->samples; sample++) {
        float *to = floats(out) + sample * width;
        if (x->bottom)
            memcpy(to, interaction_row(x, sample, 0), copied * sizeof(float));
        interact_sample(x, sample, to + copied);
    }
}

INLINE size_t pair_of(size_t i, size_t j)
{
    return i > j ? i * (i - 1) / 2 + j : j * (j - 1) / 2 + i;
}

// The gradient of row i, at `vectors` vectors of columns from c on. Their sums do not wait for each other.
enum { PAIR_VECTORS = 32 / LANES };
INLINE void add_pairs(const struct interaction *x, size_t sample, size_t i, size_t rows, const float *pairs,
                      const float *begin, float *to, size_t c, const size_t vectors, size_t left)
{
    vec sums[PAIR_VECTORS];
    for (size_t v = 0; v < vectors; v++)
        sums[v] = begin ? vec_load_first(begin + c + v * LANES, left, 0) : vec_all(0);
    for (size_t j = 0; j < rows; j++) {
        if (j == i)
            continue;
        const vec pair = vec_all(pairs[pair_of(i, j)]);
        const float *row = interaction_row(x, sample, j) + c;
        for (size_t v = 0; v < vectors; v++)
            sums[v] += vec_product(pair, vec_load_first(row + v * LANES, left, 0));
    }
    for (size_t v = 0; v < vectors; v++)
        vec_store_first(to + c + v * LANES, sums[v], left);
}

static void cpu_interaction_backward(struct queue *queue, const struct interaction *interaction,
                                     struct values *bottom_gradient, struct values *vectors_gradient,
                                     const struct values *out_gradient)
{
    const struct interaction *x = interaction;
    const bool has_bottom = x->bottom != NULL;
    const size_t rows = interaction_rows(x->count, has_bottom), copied = has_bottom ? x->columns : 0;
    const size_t width = interaction_width(x->count, x->columns, has_bottom);
    (void)queue;
    for (size_t sample = 0; sample < x->samples; sample++) {
        const float *gradient = floats_of(out_gradient) + sample * width, *pairs = gradient + copied;
        for (size_t i = 0; i < rows; i++) {
            const bool is_bottom = has_bottom && i == 0;
            float *to = is_bottom ? floats(bottom_gradient) + sample * x->columns
                                  : floats(vectors_gradient) + (sample * x->count + i - has_bottom) * x->columns;
            const float *begin = is_bottom ? gradient : NULL;
            size_t c = 0;
            for (; c + PAIR_VECTORS * LANES <= x->columns; c += PAIR_VECTORS * LANES)
                add_pairs(x, sample, i, rows, pairs, begin, to, c, PAIR_VECTORS, LANES);
            for (; c < x->columns; c += LANES)
                add_pairs(x, sample, i, rows, pairs, begin, to, c, 1, min_u64(x->columns - c, LANES));
        }
    }
}

// --- crosses, sums and logarithms ------------------------------------------------------------------------------------

static void cpu_cross(struct queue *queue, struct values *out, const struct values *first, const struct values *y,
                      const struct values *add, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count) {
        const vec product = vec_product(vec_load_first(floats_of(first) + i, left, 0),
                                        vec_load_first(floats_of(y) + i, left, 0));
        vec_store_first(floats(out) + i, product + vec_load_first(floats_of(add) + i, left, 0), left);
    }
}

static void cpu_cross_backward(struct queue *queue, struct values *first_gradient, struct values *y_gradient,
                               struct values *add_gradient, const struct values *out_gradient,
                               const struct values *first, const struct values *y, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count) {
        const vec g = vec_load_first(floats_of(out_gradient) + i, left, 0);
        const vec slope = vec_product(g, vec_load_first(floats_of(y) + i, left, 0));
        vec_store_first(floats(y_gradient) + i, vec_product(g, vec_load_first(floats_of(first) + i, left, 0)), left);
        vec_store_first(floats(first_gradient) + i, add_gradient ? slope : slope + g, left);
        if (add_gradient)
            vec_store_first(floats(add_gradient) + i, g, left);
    }
}

// Number i of a row goes to sum i % SIXTEEN, and those are added by halves.
static void cpu_sum_rows(struct queue *queue, struct values *out, const struct values *in, size_t rows, size_t columns,
                         bool is_first)
{
    (void)queue;
    for (size_t row = 0; row < rows; row++) {
        const float *from = floats_of(in) + row * columns;
        float sums[SIXTEEN] = { 0 };
        for (size_t c = 0; c < columns; c += SIXTEEN)
            for (size_t k = 0; k < SIXTEEN && c + k < columns; k++)
                sums[k] += from[c + k];
        for (size_t half = SIXTEEN / 2; half > 0; half /= 2)
            for (size_t k = 0; k < half; k++)
                sums[k] += sums[k + half];
        floats(out)[row] = is_first ? sums[0] : floats(out)[row] + sums[0];
    }
}

static void cpu_sum_rows_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                                  size_t rows, size_t columns)
{
    for (size_t row = 0; row < rows; row++)
        cpu_fill(queue, (struct values *)(floats(in_gradient) + row * columns), floats_of(out_gradient)[row], columns);
}

static void cpu_log_counts(struct queue *queue, struct values *out, const struct values *in, size_t count)
{
    (void)queue;
    for (size_t i = 0; i < count; i++)
        floats(out)[i] = floats_of(in)[i] <= 0 ? 0 : log1pf(floats_of(in)[i]);  // a NaN passes
}

// --- the loss --------------------------------------------------------------------------------------------------------

static bool targets_are_binary(struct queue *queue, const int32_t *targets, size_t rows)
{
    for (size_t row = 0; row < rows; row++)
        if (targets[row] != NO_TARGET && targets[row] != 0 && targets[row] != 1) {
            queue_fail(queue, "a target of a yes or no is neither 0 nor 1");
            return false;
        }
    return true;
}

// With x the logit of a no, or that of a yes with another sign: loss = log(1 + exp(x)), whose slope is
// 1 / (1 + exp(-x)).
static void cpu_binary_cross_entropy(struct queue *queue, const struct binary_cross_entropy *loss, float *sum,
                                     float *losses, struct values *logits_gradient)
{
    if (!targets_are_binary(queue, loss->targets, loss->rows))
        return;
    double total = 0;
    for (size_t row = 0; row < loss->rows; row++) {
        const float logit = floats_of(loss->logits)[row], x = loss->targets[row] == 1 ? -logit : logit;
        const bool counts = loss->targets[row] != NO_TARGET;
        const float slope = 1 / (1 + expf(-x));
        losses[row] = counts ? (x <= 0 ? 0 : x) + log1pf(expf(-fabsf(x))) : 0;
        if (logits_gradient)
            floats(logits_gradient)[row] = !counts ? 0 : (loss->targets[row] == 1 ? -slope : slope) * loss->scale;
        total += (double)losses[row];
    }
    *sum = (float)(total * (double)loss->scale);
}

#endif
