#include "device/cuda/cudnn_convolution.h"

static struct cudnn_tensor picture(struct cudnn_graph *graph, enum cudnn_convolution_id id, size_t batch, size_t height,
                                   size_t width, size_t channels)
{
    const int64_t n = (int64_t)batch, h = (int64_t)height, w = (int64_t)width, c = (int64_t)channels;
    const int64_t dims[4] = { n, c, h, w }, strides[4] = { h * w * c, 1, w * c, c };
    return cudnn_real(graph, id, CUDNN_DATA_FLOAT, dims, strides);
}

static struct cudnn_tensor weights(struct cudnn_graph *graph, const struct convolution *shape)
{
    const int64_t k = (int64_t)shape->out, c = (int64_t)(shape->in / shape->groups);
    const int64_t r = (int64_t)shape->window.height, s = (int64_t)shape->window.width;
    const int64_t dims[4] = { k, c, r, s }, strides[4] = { r * s * c, 1, s * c, c };
    return cudnn_real(graph, CONVOLUTION_W, CUDNN_DATA_FLOAT, dims, strides);
}

static uint32_t refused_notes(bool tf32)
{
    const uint32_t always = 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION | 1u << CUDNN_NUMERICAL_NOTE_FFT
        | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4
        | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    const uint32_t rounding = 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    return tf32 ? always : always | rounding;
}

void cudnn_convolution_graph(struct cudnn_graph *graph, enum cudnn_convolution which, const struct convolution *shape,
                             bool tf32)
{
    const struct window *window = &shape->window;
    const struct cudnn_window moves = {
        .strides = { (int64_t)window->stride_height, (int64_t)window->stride_width },
        .padding = { (int64_t)window->padding_height, (int64_t)window->padding_width },
    };
    const struct cudnn_tensor x = picture(graph, CONVOLUTION_X, shape->batch, shape->height, shape->width, shape->in);
    const struct cudnn_tensor w = weights(graph, shape);
    const struct cudnn_tensor y = picture(graph, CONVOLUTION_Y, shape->batch, convolution_height(shape),
                                          convolution_width(shape), shape->out);
    graph->refused_notes = refused_notes(tf32);
    cudnn_convolve(graph, which, &moves, x, w, y);
}
