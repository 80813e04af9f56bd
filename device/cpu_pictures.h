// Private: kernels of pictures (picture_kernels.h) without convolution. Included by cpu_vectors.h and
// cpu_half_vectors.h.
//
// The channels of a pixel are in vectors, the last of which may have fewer than LANES of them.
#ifndef DEVICE_CPU_PICTURES_H
#define DEVICE_CPU_PICTURES_H

#include "device/cpu_elementwise.h"
#include "device/picture_kernels.h"

// --- batch norm --------------------------------------------------------------------------------------------------
//
// Sums over rows are made for up to BLOCK_CHANNELS channels. Their rows are read in tiles, strip after strip, with the
// sums of a strip in registers:
//
//             channels of a block ->
//     rows    | strip 0     | strip 1     | 2  |
//      |      | . . . . . . | . . . . . . | .. |    a tile: SUM_ROWS rows, which the cache holds
//      v      +-------------+-------------+----+
//             | . . . . . . | . . . . . . | .. |    the next
//
// A channel's numbers are added in the order of the rows. What is added is exact in double, as the product of two
// floats is, so that all instruction sets round alike.

enum { BLOCK_CHANNELS = 512, STRIP_VECTORS = 4, SUM_ROWS = 32 };

// The channels of a block, from `first` on.
struct channel_block {
    size_t rows, stride;  // numbers from one row to the next
    size_t first, count;
};

INLINE size_t block_count(size_t channels, size_t first)
{
    return channels - first < BLOCK_CHANNELS ? channels - first : BLOCK_CHANNELS;
}

#define FOR_BLOCKS(block, norm, row_count)                                                                        \
    for (struct channel_block block = { (row_count), (norm)->channels, 0, block_count((norm)->channels, 0) };     \
         block.count > 0;                                                                                         \
         block.first += block.count, block.count = block_count((norm)->channels, block.first))

// The sums of a block, and what they are made of.
struct block_sums {
    struct wide_vec sums[BLOCK_CHANNELS / LANES], sums_h[BLOCK_CHANNELS / LANES];
};

enum summed {
    NUMBERS,    // sums: of the input
    SQUARES,    // sums: of the squares of the input less its mean
    GRADIENTS,  // sums: of the output's gradient; sums_h: of its products with the normed input
};

struct summands {
    const element *in;
    const float *mean, *rstd;
    const element *gradient;
    const uint8_t *passed;  // what the ReLU has let pass of the gradient, or NULL
};

INLINE struct wide_vec wide_add(struct wide_vec a, struct wide_vec b)
{
    return (struct wide_vec){ a.low + b.low, a.high + b.high };
}

INLINE struct wide_vec wide_product(vec a, vec b)
{
    const struct wide_vec x = vec_widen(a), y = vec_widen(b);
    return (struct wide_vec){ x.low * y.low, x.high * y.high };
}

// The mean over rows, 0 over none.
INLINE vec wide_mean(struct wide_vec sum, size_t rows)
{
    const double count = rows > 0 ? (double)rows : 1;
    return vec_narrow((struct wide_vec){ sum.low / count, sum.high / count });
}

INLINE vec wide_rstd(struct wide_vec squares, size_t rows)
{
    const double count = rows > 0 ? (double)rows : 1;
    vec rstd;
    for (size_t i = 0; i < LANES / 2; i++) {
        rstd[i] = (float)(1 / sqrt(squares.low[i] / count + 1e-5));
        rstd[i + LANES / 2] = (float)(1 / sqrt(squares.high[i] / count + 1e-5));
    }
    return rstd;
}

// The bits of a row's channels, from channel c on, which is a multiple of LANES. A byte that two vectors share is begun
// by the first of them. Bits behind the last channel are 0, as a 0 does not pass.
INLINE void passed_store(uint8_t *row, size_t c, size_t left, uint32_t bits)
{
    if (c % 8 != 0)
        row[c / 8] |= (uint8_t)(bits << 4);
    else
        row[c / 8] = (uint8_t)bits;
    if (LANES > 8 && left > 8)
        row[c / 8 + 1] = (uint8_t)(bits >> 8);
}

INLINE uint32_t passed_load(const uint8_t *row, size_t c, size_t left)
{
    const uint32_t bits = (uint32_t)row[c / 8] >> c % 8;
    return LANES > 8 && left > 8 ? bits | (uint32_t)row[c / 8 + 1] << 8 : bits;
}

// The output's gradient, where the ReLU let numbers pass.
INLINE vec passed_gradient(const struct summands *s, size_t row, size_t stride, size_t c, size_t left)
{
    const vec g = load_first(s->gradient + row * stride + c, left, 0);
    return s->passed ? vec_where_bits(passed_load(s->passed + row * ((stride + 7) / 8), c, left), g) : g;
}

// Rows [row, end) of a strip, from channel `c` on, whose last vector has `left` channels.
INLINE void sum_strip(const struct summands *s, struct wide_vec *sums, struct wide_vec *sums_h, size_t row, size_t end,
                      size_t stride, size_t c, const size_t vectors, size_t left, const enum summed what)
{
    struct wide_vec sum[STRIP_VECTORS], sum_h[STRIP_VECTORS];
    vec mean[STRIP_VECTORS], rstd[STRIP_VECTORS];
    for (size_t v = 0; v < vectors; v++) {
        const size_t lanes = v + 1 < vectors ? LANES : left;
        sum[v] = sums[v];
        if (what != NUMBERS)
            mean[v] = vec_load_first(s->mean + c + v * LANES, lanes, 0);
        if (what == GRADIENTS) {
            sum_h[v] = sums_h[v];
            rstd[v] = vec_load_first(s->rstd + c + v * LANES, lanes, 0);
        }
    }
    for (; row < end; row++)
        for (size_t v = 0; v < vectors; v++) {
            const size_t lanes = v + 1 < vectors ? LANES : left;
            const vec x = load_first(s->in + row * stride + c + v * LANES, lanes, 0);
            if (what == NUMBERS) {
                sum[v] = wide_add(sum[v], vec_widen(x));
            } else if (what == SQUARES) {
                sum[v] = wide_add(sum[v], wide_product(x - mean[v], x - mean[v]));
            } else {
                const vec g = passed_gradient(s, row, stride, c + v * LANES, lanes);
                sum[v] = wide_add(sum[v], vec_widen(g));
                sum_h[v] = wide_add(sum_h[v], wide_product(g, (x - mean[v]) * rstd[v]));
            }
        }
    for (size_t v = 0; v < vectors; v++) {
        sums[v] = sum[v];
        if (what == GRADIENTS)
            sums_h[v] = sum_h[v];
    }
}

INLINE void sum_tile(const struct channel_block *block, const struct summands *s, struct block_sums *to, size_t row,
                     size_t end, const enum summed what)
{
    size_t c = 0;
    for (; c + STRIP_VECTORS * LANES <= block->count; c += STRIP_VECTORS * LANES)
        sum_strip(s, to->sums + c / LANES, to->sums_h + c / LANES, row, end, block->stride, block->first + c,
                  STRIP_VECTORS, LANES, what);
    FOR_VECTORS (i, left, block->count - c)
        sum_strip(s, to->sums + (c + i) / LANES, to->sums_h + (c + i) / LANES, row, end, block->stride,
                  block->first + c + i, 1, left, what);
}

INLINE void sum_block(const struct channel_block *block, const struct summands *s, struct block_sums *to,
                      const enum summed what)
{
    FOR_VECTORS (c, left, block->count)
        to->sums[c / LANES] = to->sums_h[c / LANES] = (struct wide_vec){ { 0 }, { 0 } };
    for (size_t row = 0; row < block->rows; row += SUM_ROWS)
        sum_tile(block, s, to, row, row + SUM_ROWS < block->rows ? row + SUM_ROWS : block->rows, what);
}

// out = (in - mean) * rstd * gain + offset, and what follows, over the rows of a block. `passed` may be NULL.
INLINE void norm_block(const struct channel_block *block, const struct batch_norm *norm, element *out,
                       const float *mean, const float *rstd, uint8_t *passed)
{
    const element *gains = elements_of(norm->gain) + block->first;
    const element *offsets = elements_of(norm->offset) + block->first;
    for (size_t row = 0; row < block->rows; row++)
        FOR_VECTORS (c, left, block->count) {
            const size_t index = row * block->stride + block->first + c;
            const vec x = load_first(elements_of(norm->in) + index, left, 0) - vec_load_first(mean + c, left, 0);
            const vec gain = load_first(gains + c, left, 0), offset = load_first(offsets + c, left, 0);
            vec y = x * vec_load_first(rstd + c, left, 0) * gain + offset;
            if (norm->add)
                y += load_first(elements_of(norm->add) + index, left, 0);
            if (norm->has_relu) {
                const ivec falls = y <= 0;
                if (passed)  // a NaN passes
                    passed_store(passed + row * ((block->stride + 7) / 8), block->first + c, left, vec_bits(~falls));
                y = vec_select(falls, vec_all(0), y);
            }
            store_first(out + index, y, left);
        }
}

// Zeros in the rows behind those that count.
static void clear_rest(element *out, const struct batch_norm *norm)
{
    if (out && norm->rows > norm->counted)
        memset(out + norm->counted * norm->channels, 0,
               (norm->rows - norm->counted) * norm->channels * sizeof *out);
}

// The mean first, then the squares about it.
INLINE void block_moments(const struct channel_block *block, const struct summands *s, float *mean, float *rstd,
                          float *squares)
{
    struct block_sums made;
    sum_block(block, s, &made, NUMBERS);
    FOR_VECTORS (c, left, block->count)
        vec_store_first(mean + c, wide_mean(made.sums[c / LANES], block->rows), left);
    sum_block(block, s, &made, SQUARES);
    FOR_VECTORS (c, left, block->count) {
        vec_store_first(rstd + c, wide_rstd(made.sums[c / LANES], block->rows), left);
        if (squares)
            vec_store_first(squares + c, vec_narrow(made.sums[c / LANES]), left);
    }
}

static void cpu_batch_norm(struct queue *queue, const struct batch_norm *norm, struct values *out, float *mean,
                           float *rstd, uint8_t *passed, float *statistics)
{
    const struct summands s = { .in = elements_of(norm->in), .mean = mean };
    const size_t channels = norm->channels, row_bytes = (channels + 7) / 8;
    uint8_t *const bits = norm->has_relu ? passed : NULL;
    (void)queue;
    FOR_BLOCKS (block, norm, norm->counted) {
        float *squares = statistics ? statistics + channels + block.first : NULL;
        block_moments(&block, &s, mean + block.first, rstd + block.first, squares);
        norm_block(&block, norm, elements(out), mean + block.first, rstd + block.first, bits);
    }
    clear_rest(elements(out), norm);
    if (bits && norm->rows > norm->counted)
        memset(bits + norm->counted * row_bytes, 0, (norm->rows - norm->counted) * row_bytes);
    if (statistics) {
        memcpy(statistics, mean, channels * sizeof *mean);
        statistics[2 * channels] = (float)norm->counted;
    }
}

static void cpu_batch_norm_running(struct queue *queue, const struct batch_norm *norm, struct values *out,
                                   const float *mean, const float *variance)
{
    float rstd[BLOCK_CHANNELS];
    (void)queue;
    FOR_BLOCKS (block, norm, norm->rows) {
        FOR_VECTORS (c, left, block.count) {
            const vec spread = vec_load_first(variance + block.first + c, left, 0);
            vec_store_first(rstd + c, wide_rstd(vec_widen(spread), 1), left);
        }
        norm_block(&block, norm, elements(out), mean + block.first, rstd, NULL);
    }
}

// --- its backward ------------------------------------------------------------------------------------------------

// With h = the normed input and g = the gradient: in_gradient = gain * rstd * (g - mean of g - h * mean of (g h)).
INLINE void gradient_block(const struct channel_block *block, const struct summands *s, const struct block_sums *made,
                           const element *gains, element *in_gradient, element *add_gradient)
{
    vec mean_g[BLOCK_CHANNELS / LANES], mean_gh[BLOCK_CHANNELS / LANES];
    FOR_VECTORS (c, left, block->count) {
        mean_g[c / LANES] = wide_mean(made->sums[c / LANES], block->rows);
        mean_gh[c / LANES] = wide_mean(made->sums_h[c / LANES], block->rows);
    }
    for (size_t row = 0; row < block->rows; row++)
        FOR_VECTORS (c, left, block->count) {
            const size_t channel = block->first + c, index = row * block->stride + channel;
            const vec g = passed_gradient(s, row, block->stride, channel, left);
            const vec rstd = vec_load_first(s->rstd + channel, left, 0);
            const vec h = (load_first(s->in + index, left, 0) - vec_load_first(s->mean + channel, left, 0)) * rstd;
            const vec scale = load_first(gains + channel, left, 0) * rstd;
            if (add_gradient)
                store_first(add_gradient + index, g, left);
            store_first(in_gradient + index, scale * (g - mean_g[c / LANES] - h * mean_gh[c / LANES]), left);
        }
}

static void cpu_batch_norm_backward(struct queue *queue, const struct batch_norm *norm, struct values *in_gradient,
                                    struct values *add_gradient, float *sums, const struct values *out_gradient,
                                    const float *mean, const float *rstd, const uint8_t *passed)
{
    const struct summands s = { elements_of(norm->in), mean, rstd, elements_of(out_gradient), passed };
    struct block_sums made;
    (void)queue;
    FOR_BLOCKS (block, norm, norm->counted) {
        sum_block(&block, &s, &made, GRADIENTS);
        if (in_gradient)
            gradient_block(&block, &s, &made, elements_of(norm->gain), elements(in_gradient), elements(add_gradient));
        FOR_VECTORS (c, left, block.count) {
            vec_store_first(sums + block.first + c, vec_narrow(made.sums_h[c / LANES]), left);
            vec_store_first(sums + norm->channels + block.first + c, vec_narrow(made.sums[c / LANES]), left);
        }
    }
    if (in_gradient) {
        clear_rest(elements(in_gradient), norm);
        clear_rest(elements(add_gradient), norm);
    }
}

// --- its statistics ------------------------------------------------------------------------------------------------

// fma() is written out, so that all instruction sets round alike.
static void cpu_batch_norm_merge(struct queue *queue, double *sums, const float *statistics, size_t channels,
                                 bool is_first)
{
    const double before = is_first ? 0 : sums[2 * channels], more = (double)statistics[2 * channels];
    const double count = before + more, share = count > 0 ? more / count : 0;
    (void)queue;
    for (size_t c = 0; c < channels; c++) {
        const double mean = is_first ? 0 : sums[c], squares = is_first ? 0 : sums[channels + c];
        const double step = (double)statistics[c] - mean;
        sums[c] = is_first ? (double)statistics[c] : fma(step, share, mean);
        sums[channels + c] = fma(step * step, before * share, squares + (double)statistics[channels + c]);
    }
    sums[2 * channels] = count;
}

static void cpu_batch_norm_fold(struct queue *queue, float *mean, float *variance, const double *sums,
                                size_t channels, float momentum)
{
    const double count = sums[2 * channels];
    (void)queue;
    for (size_t c = 0; c < channels; c++) {
        if (count > 0)
            mean[c] = (float)fma((double)momentum, sums[c] - (double)mean[c], (double)mean[c]);
        if (count > 1)
            variance[c] = (float)fma((double)momentum, sums[channels + c] / (count - 1) - (double)variance[c],
                                     (double)variance[c]);
    }
}

// --- pooling -----------------------------------------------------------------------------------------------------
//
// Forward, a number of the output is made of those that its window covers. Backward, a number of the input's gradient
// is made of the windows that cover it, in their order: every number is written once.

struct range {
    size_t first, end;
};

// The pixels along one side that the window covers at a place.
INLINE struct range covered_pixels(size_t place, size_t size, size_t window, size_t stride, size_t padding)
{
    const size_t start = place * stride, end = start + window - padding;
    return (struct range){ start > padding ? start - padding : 0, end < size ? end : size };
}

// The places along one side at which the window covers a pixel.
INLINE struct range covering_places(size_t pixel, size_t places, size_t window, size_t stride, size_t padding)
{
    const size_t past = pixel + padding, end = past / stride + 1;
    return (struct range){ past < window ? 0 : (past - window) / stride + 1, end < places ? end : places };
}

// Number c of a pixel, in a tensor of pictures.
INLINE size_t number_at(size_t picture, size_t y, size_t x, size_t height, size_t width, size_t channels)
{
    return ((picture * height + y) * width + x) * channels;
}

// The part of a window that is in the picture. Its first pixel has the number `index` in the whole window. From the end
// of a row to the next, this number grows by `next_row` more.
struct window_part {
    const element *in;
    size_t height, width, channels, row_stride;
    int32_t index, next_row;
};

// The first of the largest numbers, or the first NaN.
INLINE void largest_in_window(const struct window_part *part, element *out, uint8_t *won)
{
    FOR_VECTORS (c, left, part->channels) {
        vec most = load_first(part->in + c, left, 0);
        int32_t index = part->index;
        ivec winner = (ivec)(vec_count_up() & 0u) + index;
        for (size_t y = 0; y < part->height; y++, index += part->next_row)
            for (size_t x = 0; x < part->width; x++, index++) {
                const vec number = load_first(part->in + y * part->row_stride + x * part->channels + c, left, 0);
                const ivec wins = ~(number <= most) & (most == most);
                most = vec_select(wins, number, most);
                winner = (wins & index) | (~wins & winner);
            }
        store_first(out + c, most, left);
        vec_store_bytes(won + c, winner, left);
    }
}

INLINE void sum_of_window(const struct window_part *part, element *out, float factor)
{
    FOR_VECTORS (c, left, part->channels) {
        vec sum = vec_all(0);
        for (size_t y = 0; y < part->height; y++)
            for (size_t x = 0; x < part->width; x++)
                sum += load_first(part->in + y * part->row_stride + x * part->channels + c, left, 0);
        store_first(out + c, sum * factor, left);
    }
}

// The maximum if `won` is not NULL, else the average.
INLINE void pool(const struct pooling *p, element *out, uint8_t *won, const element *in)
{
    const struct window w = p->window;
    const size_t height = pooling_height(p), width = pooling_width(p);
    const float factor = 1 / ((float)w.height * (float)w.width);
    for (size_t row = 0; row < p->batch * height; row++) {
        const size_t picture = row / height, y = row % height;
        const struct range down = covered_pixels(y, p->height, w.height, w.stride_height, w.padding_height);
        for (size_t x = 0; x < width; x++) {
            const struct range across = covered_pixels(x, p->width, w.width, w.stride_width, w.padding_width);
            const size_t above = down.first + w.padding_height - y * w.stride_height;
            const size_t before = across.first + w.padding_width - x * w.stride_width;
            const size_t to = (row * width + x) * p->channels;
            const struct window_part part = {
                .in = in + number_at(picture, down.first, across.first, p->height, p->width, p->channels),
                .height = down.end - down.first, .width = across.end - across.first, .channels = p->channels,
                .row_stride = p->width * p->channels, .index = (int32_t)(above * w.width + before),
                .next_row = (int32_t)(w.width - (across.end - across.first)),
            };
            if (won)
                largest_in_window(&part, out + to, won + to);
            else
                sum_of_window(&part, out + to, factor);
        }
    }
}

static void cpu_max_pool(struct queue *queue, const struct pooling *pooling, struct values *out, uint8_t *won,
                         const struct values *in)
{
    (void)queue;
    pool(pooling, elements(out), won, elements_of(in));
}

static void cpu_average_pool(struct queue *queue, const struct pooling *pooling, struct values *out,
                             const struct values *in)
{
    (void)queue;
    pool(pooling, elements(out), NULL, elements_of(in));
}

// The places at which the window covers a pixel: `height` rows of `width` of them, from `first` on. At the first place
// the pixel has the number `index` in the window. It falls by `stride` from each place to the next in a row, and by
// `next_row` more from a row to the next.
struct covering {
    size_t height, width, channels, row_stride;
    const element *first;
    const uint8_t *won;  // NULL: of an average
    int32_t index, stride, next_row;
};

// A pixel's gradient: the sum of those of the places, or of those that it has won.
INLINE void gradient_of_pixel(const struct covering *covering, element *in_gradient, float factor)
{
    FOR_VECTORS (c, left, covering->channels) {
        vec sum = vec_all(0);
        int32_t index = covering->index;
        for (size_t y = 0; y < covering->height; y++, index -= covering->next_row) {
            size_t from = y * covering->row_stride + c;
            for (size_t x = 0; x < covering->width; x++, from += covering->channels, index -= covering->stride) {
                const vec g = load_first(covering->first + from, left, 0);
                if (covering->won)
                    sum += (vec)((ivec)g & (vec_load_bytes(covering->won + from, left) == index));
                else
                    sum += g;
            }
        }
        store_first(in_gradient + c, covering->won ? sum : sum * factor, left);
    }
}

INLINE void pool_backward(const struct pooling *p, element *in_gradient, const element *out_gradient,
                          const uint8_t *won)
{
    const struct window w = p->window;
    const size_t height = pooling_height(p), width = pooling_width(p);
    const float factor = 1 / ((float)w.height * (float)w.width);
    for (size_t row = 0; row < p->batch * p->height; row++) {
        const size_t picture = row / p->height, y = row % p->height;
        const struct range down = covering_places(y, height, w.height, w.stride_height, w.padding_height);
        for (size_t x = 0; x < p->width; x++) {
            const struct range across = covering_places(x, width, w.width, w.stride_width, w.padding_width);
            const size_t wide = across.end > across.first ? across.end - across.first : 0;
            const size_t below = y + w.padding_height - down.first * w.stride_height;
            const size_t right = x + w.padding_width - across.first * w.stride_width;
            const size_t first = number_at(picture, down.first, across.first, height, width, p->channels);
            const struct covering covering = {
                .height = down.end > down.first ? down.end - down.first : 0, .width = wide, .channels = p->channels,
                .row_stride = width * p->channels, .first = out_gradient + first, .won = won ? won + first : NULL,
                .index = (int32_t)(below * w.width + right), .stride = (int32_t)w.stride_width,
                .next_row = (int32_t)(w.stride_height * w.width) - (int32_t)(wide * w.stride_width),
            };
            gradient_of_pixel(&covering, in_gradient + (row * p->width + x) * p->channels, factor);
        }
    }
}

static void cpu_max_pool_backward(struct queue *queue, const struct pooling *pooling, struct values *in_gradient,
                                  const struct values *out_gradient, const uint8_t *won)
{
    (void)queue;
    pool_backward(pooling, elements(in_gradient), elements_of(out_gradient), won);
}

static void cpu_average_pool_backward(struct queue *queue, const struct pooling *pooling, struct values *in_gradient,
                                      const struct values *out_gradient)
{
    (void)queue;
    pool_backward(pooling, elements(in_gradient), elements_of(out_gradient), NULL);
}

// --- joining and widening branches ---------------------------------------------------------------------------------

INLINE void copy_row(element *out, const element *in, size_t count)
{
    FOR_VECTORS (i, left, count)
        store_first(out + i, load_first(in + i, left, 0), left);
}

static void cpu_copy_columns(struct queue *queue, struct values *out, const struct values *in, size_t rows,
                             size_t columns, size_t out_stride, size_t in_stride)
{
    (void)queue;
    for (size_t row = 0; row < rows; row++)
        copy_row(elements(out) + row * out_stride, elements_of(in) + row * in_stride, columns);
}

static void cpu_upsample(struct queue *queue, const struct upsampling *upsampling, struct values *out,
                         const struct values *in)
{
    const struct upsampling *u = upsampling;
    const size_t width = u->width * u->factor, rows = u->batch * u->height * u->factor;
    (void)queue;
    for (size_t row = 0; row < rows; row++)
        for (size_t x = 0; x < width; x++)
            copy_row(elements(out) + (row * width + x) * u->channels,
                     elements_of(in) + (row / u->factor * u->width + x / u->factor) * u->channels, u->channels);
}

static void cpu_upsample_backward(struct queue *queue, const struct upsampling *upsampling,
                                  struct values *in_gradient, const struct values *out_gradient)
{
    const struct upsampling *u = upsampling;
    const size_t rows = u->batch * u->height, row_stride = u->width * u->factor * u->channels;
    (void)queue;
    for (size_t row = 0; row < rows; row++)
        for (size_t x = 0; x < u->width; x++) {
            const struct window_part part = {
                .in = elements_of(out_gradient) + row * u->factor * row_stride + x * u->factor * u->channels,
                .height = u->factor, .width = u->factor, .channels = u->channels, .row_stride = row_stride,
            };
            sum_of_window(&part, elements(in_gradient) + (row * u->width + x) * u->channels, 1);
        }
}

#endif
