// The forward of every kind of layer of pictures and of clicks in double, by loops one can check by eye.
//
// slow_picture_forward() gives one number: the loss of a cross-entropy, of the others the sum of output * weighting.
#ifndef TESTS_MODELS_SLOW_PICTURES_H
#define TESTS_MODELS_SLOW_PICTURES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/layer.h"

struct slow_picture {
    const struct layer *layer;
    double *inputs[LAYER_INPUTS], *tensors[LAYER_TENSORS];
    const int32_t *targets;
    double loss_scale;
    const double *kept;       // per output number: 0 where dropped, else 1 / (1 - p)
    const double *weighting;  // per output number
    size_t counted;           // pictures that count
    struct id_lists ids;      // of tables
    const float *numbers;
    double *output;           // written
};

// The input's number of channel c at a pixel, which may be outside.
static inline double slow_pixel(const struct slow_picture *slow, size_t n, long y, long x, size_t c)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const long height = (long)shape->picture.height, width = (long)shape->picture.width;
    if (y < 0 || y >= height || x < 0 || x >= width)
        return 0;
    return slow->inputs[0][((n * (size_t)height + (size_t)y) * (size_t)width + (size_t)x) * shape->in + c];
}

static inline bool slow_is_outside(const struct layer_shape *shape, long y, long x)
{
    return y < 0 || y >= (long)shape->picture.height || x < 0 || x >= (long)shape->picture.width;
}

static inline double slow_convolved(const struct slow_picture *slow, size_t n, long y, long x, size_t o)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const struct window *window = &shape->picture.window;
    const size_t in = shape->in / shape->picture.groups, group = o / (shape->out / shape->picture.groups);
    double sum = shape->picture.has_bias ? slow->tensors[1][o] : 0;
    for (size_t ky = 0; ky < window->height; ky++)
        for (size_t kx = 0; kx < window->width; kx++)
            for (size_t i = 0; i < in; i++)
                sum += slow_pixel(slow, n, y + (long)ky, x + (long)kx, group * in + i)
                     * slow->tensors[0][((ky * window->width + kx) * in + i) * shape->out + o];
    return sum;
}

static inline double slow_pooled(const struct slow_picture *slow, size_t n, long y, long x, size_t c)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const struct window *window = &shape->picture.window;
    const bool is_max = slow->layer->kind == &layer_max_pool;
    double sum = 0, most = -INFINITY;
    for (size_t ky = 0; ky < window->height; ky++)
        for (size_t kx = 0; kx < window->width; kx++) {
            const long row = y + (long)ky, column = x + (long)kx;
            const double pixel = slow_pixel(slow, n, row, column, c);
            sum += pixel;
            if (!slow_is_outside(shape, row, column))
                most = fmax(most, pixel);
        }
    return is_max ? most : sum / (double)(window->height * window->width);
}

// Convolution and pooling: a number for every place of the window and every channel.
static inline void slow_slide(const struct slow_picture *slow,
                              double (*number)(const struct slow_picture *, size_t, long, long, size_t))
{
    const struct layer_shape *shape = &slow->layer->shape;
    const struct picture_shape *picture = &shape->picture;
    const struct window *window = &picture->window;
    const size_t columns = window_places(picture->width, window->width, window->stride_width, window->padding_width);
    for (size_t i = 0; i < shape->batch * shape->sequence * shape->out; i++) {
        const size_t c = i % shape->out, place = i / shape->out % shape->sequence, n = i / shape->out / shape->sequence;
        const long y = (long)(place / columns * window->stride_height) - (long)window->padding_height;
        const long x = (long)(place % columns * window->stride_width) - (long)window->padding_width;
        slow->output[i] = number(slow, n, y, x, c);
    }
}

static inline void slow_batch_norm(const struct slow_picture *slow)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t rows = slow->counted * shape->sequence, channels = shape->out;
    memset(slow->output, 0, shape->batch * shape->sequence * channels * sizeof(double));
    for (size_t c = 0; c < channels; c++) {
        double mean = 0, variance = 0;
        for (size_t r = 0; r < rows; r++)
            mean += slow->inputs[0][r * channels + c] / (double)rows;
        for (size_t r = 0; r < rows; r++)
            variance += pow(slow->inputs[0][r * channels + c] - mean, 2) / (double)rows;
        for (size_t r = 0; r < rows; r++) {
            const size_t i = r * channels + c;
            double y = (slow->inputs[0][i] - mean) / sqrt(variance + 1e-5) * slow->tensors[0][c] + slow->tensors[1][c];
            y += slow->layer->input_count > 1 ? slow->inputs[1][i] : 0;
            slow->output[i] = shape->picture.has_relu && y < 0 ? 0 : y;
        }
    }
}

static inline void slow_concat(const struct slow_picture *slow)
{
    const struct layer_shape *shape = &slow->layer->shape;
    size_t first = 0;
    for (uint32_t i = 0; i < slow->layer->input_count; first += slow->layer->input_widths[i++])
        for (size_t r = 0; r < shape->batch * shape->sequence; r++)
            for (size_t c = 0; c < slow->layer->input_widths[i]; c++)
                slow->output[r * shape->out + first + c] = slow->inputs[i][r * slow->layer->input_widths[i] + c];
}

static inline void slow_upsample(const struct slow_picture *slow)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t factor = shape->picture.factor, columns = factor * shape->picture.width;
    for (size_t i = 0; i < shape->batch * shape->sequence * shape->out; i++) {
        const size_t place = i / shape->out % shape->sequence, n = i / shape->out / shape->sequence;
        slow->output[i] = slow_pixel(slow, n, (long)(place / columns / factor), (long)(place % columns / factor),
                                     i % shape->out);
    }
}

// The second classifier counts 0.4 times.
static inline double slow_cross_entropy(const struct slow_picture *slow)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const double smoothing = (double)shape->picture.smoothing;
    double loss = 0;
    for (uint32_t k = 0; k < slow->layer->input_count; k++)
        for (size_t r = 0; r < shape->batch * shape->sequence; r++) {
            const double *scores = slow->inputs[k] + r * shape->in;
            double sum = 0, all = 0;
            for (size_t i = 0; i < shape->in; i++)
                sum += exp(scores[i]);
            for (size_t i = 0; i < shape->in; i++)
                all += log(sum) - scores[i];
            if (slow->targets[r] != NO_TARGET)
                loss += (k > 0 ? 0.4 : 1) * ((1 - smoothing) * (log(sum) - scores[slow->targets[r]])
                                             + smoothing * all / (double)shape->in);
        }
    return loss * slow->loss_scale;
}

static inline double slow_bce(const struct slow_picture *slow)
{
    double loss = 0;
    for (size_t r = 0; r < slow->layer->shape.batch; r++) {
        const double yes = 1 / (1 + exp(-slow->inputs[0][r]));
        if (slow->targets[r] != NO_TARGET)
            loss -= slow->loss_scale * log(slow->targets[r] == 1 ? yes : 1 - yes);
    }
    return loss;
}

// The table that a row of all tables is in, and its number there.
static inline double slow_number_of(const struct slow_picture *slow, size_t row, size_t column)
{
    const struct table_shape *tables = &slow->layer->shape.tables;
    size_t slot = 0;
    for (; row >= tables->rows[slot]; row -= tables->rows[slot++])
        ;
    return slow->tensors[slot][row * tables->columns + column];
}

static inline void slow_tables(const struct slow_picture *slow)
{
    const struct layer_shape *shape = &slow->layer->shape;
    const size_t columns = shape->tables.columns;
    for (size_t i = 0; i < shape->batch * shape->out; i++) {
        const size_t bag = i / columns, first = bag > 0 ? (size_t)slow->ids.ends[bag - 1] : 0;
        const size_t end = (size_t)slow->ids.ends[bag];
        slow->output[i] = 0;
        for (size_t k = first; k < end; k++)
            slow->output[i] += slow_number_of(slow, (size_t)slow->ids.rows[k], i % columns)
                             * (slow->ids.weights ? (double)slow->ids.weights[k] : 1)
                             / (shape->tables.is_mean ? (double)(end - first) : 1);
    }
}

static inline double slow_vector(const struct slow_picture *slow, size_t row, size_t i, size_t c)
{
    const size_t last = slow->layer->input_count - 1, columns = slow->layer->shape.tables.columns;
    if (last > 0 && i == 0)
        return slow->inputs[0][row * columns + c];
    return slow->inputs[last][row * slow->layer->input_widths[last] + (i - last) * columns + c];
}

static inline void slow_interaction(const struct slow_picture *slow)
{
    const struct layer *layer = slow->layer;
    const size_t last = layer->input_count - 1, columns = layer->shape.tables.columns;
    double *next = slow->output;
    for (size_t row = 0; row < layer->shape.batch * layer->shape.sequence; row++) {
        for (size_t c = 0; last > 0 && c < columns; c++)
            *next++ = slow_vector(slow, row, 0, c);
        for (size_t i = 1; i < layer->input_widths[last] / columns + last; i++)
            for (size_t j = 0; j < i; j++, next++) {
                *next = 0;
                for (size_t c = 0; c < columns; c++)
                    *next += slow_vector(slow, row, i, c) * slow_vector(slow, row, j, c);
            }
    }
}

static inline void slow_linear_rows(const struct slow_picture *slow)
{
    const struct layer_shape *shape = &slow->layer->shape;
    for (size_t i = 0; i < shape->batch * shape->sequence * shape->out; i++) {
        slow->output[i] = shape->unbiased ? 0 : slow->tensors[1][i % shape->out];
        for (size_t k = 0; k < shape->in; k++)
            slow->output[i] += slow->inputs[0][i / shape->out * shape->in + k]
                             * slow->tensors[0][k * shape->out + i % shape->out];
    }
}

static inline void slow_row_sum(const struct slow_picture *slow)
{
    const struct layer *layer = slow->layer;
    for (size_t row = 0; row < layer->shape.batch * layer->shape.sequence; row++) {
        slow->output[row] = 0;
        for (uint32_t k = 0; k < layer->input_count; k++)
            for (size_t c = 0; c < layer->input_widths[k]; c++)
                slow->output[row] += slow->inputs[k][row * layer->input_widths[k] + c];
    }
}

static inline double slow_crossed(const struct slow_picture *slow, size_t i)
{
    return slow->inputs[0][i] * slow->inputs[1][i] + slow->inputs[slow->layer->input_count > 2 ? 2 : 0][i];
}

static inline double slow_picture_forward(const struct slow_picture *slow)
{
    const struct layer *layer = slow->layer;
    const size_t count = layer->shape.batch * layer->shape.sequence * layer->shape.out;
    double sum = 0;
    if (layer->kind == &layer_cross_entropy)
        return slow_cross_entropy(slow);
    if (layer->kind == &layer_binary_cross_entropy)
        return slow_bce(slow);
    if (layer->kind == &layer_tables)
        slow_tables(slow);
    else if (layer->kind == &layer_interaction)
        slow_interaction(slow);
    else if (layer->kind == &layer_linear)
        slow_linear_rows(slow);
    else if (layer->kind == &layer_row_sum)
        slow_row_sum(slow);
    for (size_t i = 0; layer->kind == &layer_cross && i < count; i++)
        slow->output[i] = slow_crossed(slow, i);
    for (size_t i = 0; layer->kind == &layer_exchange && i < count; i++)
        slow->output[i] = slow->inputs[0][i];
    for (size_t i = 0; layer->kind == &layer_numbers && i < count; i++)
        slow->output[i] = log(fmax((double)slow->numbers[i], 0) + 1);
    if (layer->kind == &layer_convolution)
        slow_slide(slow, slow_convolved);
    else if (layer->kind == &layer_max_pool || layer->kind == &layer_average_pool)
        slow_slide(slow, slow_pooled);
    else if (layer->kind == &layer_batch_norm)
        slow_batch_norm(slow);
    else if (layer->kind == &layer_concat)
        slow_concat(slow);
    else if (layer->kind == &layer_upsample)
        slow_upsample(slow);
    for (size_t i = 0; layer->kind == &layer_dropout && i < count; i++)
        slow->output[i] = slow->inputs[0][i] * slow->kept[i];
    for (size_t i = 0; i < count; i++)
        sum += slow->output[i] * slow->weighting[i];
    return sum;
}

#endif
