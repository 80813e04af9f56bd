// Kernels of pictures: convolution, pooling, batch norm, and what joins branches. The rules of kernels.h hold here too.
//
// A picture is rows of channels, one row per pixel: tensors are [batch][height][width][channels] (NHWC). A GPU
// needs to be in fp32 for all of these kernels, and refuses them otherwise.
#ifndef DEVICE_PICTURE_KERNELS_H
#define DEVICE_PICTURE_KERNELS_H

#include "device/kernels.h"

// A window that moves over a picture: of a convolution or of pooling. Pixels outside are padding.
struct window {
    size_t height, width;
    size_t stride_height, stride_width;
    size_t padding_height, padding_width;  // on each side
};

// How many places the window has along `size` pixels, if it never begins or ends outside the padding. 0: it has none.
static inline size_t window_places(size_t size, size_t window, size_t stride, size_t padding)
{
    return size + 2 * padding < window ? 0 : (size + 2 * padding - window) / stride + 1;
}

// torch.nn.Conv2d: out[y][x][o] = bias[o] + the sum of in[..][..][i] weights[ky][kx][i][o] over the window at (y, x).
// Weights are [window height][window width][in / groups][out] (HWIO). With groups, the channels of the output are in as
// many equal parts, each of which reads the same part of the channels of the input.
struct convolution {
    size_t batch, height, width, in;  // of the input; `in` is its channels
    size_t out;                       // channels of the output
    size_t groups;                    // at least 1; divides `in` and `out`
    struct window window;
};
static inline size_t convolution_height(const struct convolution *c)
{
    return window_places(c->height, c->window.height, c->window.stride_height, c->window.padding_height);
}
static inline size_t convolution_width(const struct convolution *c)
{
    return window_places(c->width, c->window.width, c->window.stride_width, c->window.padding_width);
}
// The workspace that the three kernels below need on a device. The answer does not change later. False if the device
// cannot tell, or cannot run it.
struct convolution_bytes {
    uint64_t forward, input, weight;
};
bool convolution_bytes(struct device *device, const struct convolution *convolution, struct convolution_bytes *bytes,
                       struct error *error);
// `bias` may be NULL.
void kernel_convolution(struct queue *queue, const struct convolution *convolution, struct values *out,
                        const struct values *in, const struct values *weights, const struct values *bias,
                        void *workspace);
void kernel_convolution_input(struct queue *queue, const struct convolution *convolution, struct values *in_gradient,
                              const struct values *out_gradient, const struct values *weights, void *workspace);
// *Added to* weights_gradient. (The gradient of the bias is kernel_sum_columns().)
void kernel_convolution_weight(struct queue *queue, const struct convolution *convolution, float *weights_gradient,
                               const struct values *out_gradient, const struct values *in, void *workspace);

// torch.nn.MaxPool2d and AvgPool2d. Padding never is the largest. An average counts it as zeros
// (count_include_pad=True). Of equal numbers the first wins, in the order of the window's rows.
struct pooling {
    size_t batch, height, width, channels;  // of the input
    struct window window;  // at most 255 pixels for a maximum
};
static inline size_t pooling_height(const struct pooling *p)
{
    return window_places(p->height, p->window.height, p->window.stride_height, p->window.padding_height);
}
static inline size_t pooling_width(const struct pooling *p)
{
    return window_places(p->width, p->window.width, p->window.stride_width, p->window.padding_width);
}
// `won`, one byte per number of the output, is which pixel of the window was the largest. The backward needs no more.
void kernel_max_pool(struct queue *queue, const struct pooling *pooling, struct values *out, uint8_t *won,
                     const struct values *in);
void kernel_max_pool_backward(struct queue *queue, const struct pooling *pooling, struct values *in_gradient,
                              const struct values *out_gradient, const uint8_t *won);
void kernel_average_pool(struct queue *queue, const struct pooling *pooling, struct values *out,
                         const struct values *in);
void kernel_average_pool_backward(struct queue *queue, const struct pooling *pooling, struct values *in_gradient,
                                  const struct values *out_gradient);

// torch.nn.BatchNorm2d over `rows` pixels: out = (in - mean) * rstd * gain + offset, with mean and rstd =
// 1 / sqrt(variance + 1e-5) of the channel. These run over the first `counted` rows, which are those of pictures that
// count. The rows behind them give zeros, as output and as gradient. With a ReLU, and with a summand `add`:
//
//     out = relu(that + add)
//
// Sums over rows are made in double, in the order of the rows, whatever the instruction set.
struct batch_norm {
    const struct values *in;
    const struct values *gain, *offset;
    size_t rows, counted, channels;
    bool has_relu;
    const struct values *add;  // as large as `in`, or NULL
};
// Bytes of `passed`, which numbers of the output the ReLU has let pass: a bit each, every row from a new byte on. The
// lowest bit of a byte is the first.
static inline uint64_t batch_norm_passed_bytes(size_t rows, size_t channels)
{
    return (uint64_t)rows * ((channels + 7) / 8);
}
// What a micro-batch shows, for the running statistics: its mean and its sum of squared differences from it, one number
// per channel each, and then how many rows were counted.
static inline size_t batch_norm_statistics(size_t channels)
{
    return 2 * channels + 1;
}
// `passed` is written if there is a ReLU. `statistics` may be NULL.
void kernel_batch_norm(struct queue *queue, const struct batch_norm *norm, struct values *out, float *mean,
                       float *rstd, uint8_t *passed, float *statistics);
// The gradients of the input, and of `add` if that is asked for (add_gradient is not NULL). `sums` gets what W adds to
// the gradients of the parameters: the sums of the output's gradient times the normed input (for the gain), and of the
// output's gradient (for the offset), `channels` floats each. norm->offset and norm->add are not read. `passed` is NULL
// without a ReLU. If in_gradient is NULL, only the sums are made.
void kernel_batch_norm_backward(struct queue *queue, const struct batch_norm *norm, struct values *in_gradient,
                                struct values *add_gradient, float *sums, const struct values *out_gradient,
                                const float *mean, const float *rstd, const uint8_t *passed);
// In an evaluation: with the running mean and variance (`channels` floats each) in place of the batch's own. All rows
// are computed.
void kernel_batch_norm_running(struct queue *queue, const struct batch_norm *norm, struct values *out,
                               const float *mean, const float *variance);
// The running statistics take in an update, micro-batch after micro-batch. `sums` are doubles: mean and sum of squared
// differences per channel, then the count. The first kernel merges the statistics of one more micro-batch into them
// (Chan, Golub and LeVeque, 1979), or begins with it if `is_first`. The second one ends the update: the running mean
// and the running variance, which is unbiased, move by `momentum` towards those of the sums. If only one row was
// counted there is no unbiased variance, and the running one stays.
static inline size_t batch_norm_sums(size_t channels)
{
    return 2 * channels + 1;
}
void kernel_batch_norm_merge(struct queue *queue, double *sums, const float *statistics, size_t channels,
                             bool is_first);
void kernel_batch_norm_fold(struct queue *queue, float *mean, float *variance, const double *sums, size_t channels,
                            float momentum);

// Copies a matrix whose rows are a part of longer ones: concatenation along the channels, and its backward.
void kernel_copy_columns(struct queue *queue, struct values *out, const struct values *in, size_t rows,
                         size_t columns, size_t out_stride, size_t in_stride);

// Each pixel becomes `factor` by `factor` equal ones (nearest neighbour), and the backward adds their gradients up.
struct upsampling {
    size_t batch, height, width, channels;  // of the input
    size_t factor;
};
void kernel_upsample(struct queue *queue, const struct upsampling *upsampling, struct values *out,
                     const struct values *in);
void kernel_upsample_backward(struct queue *queue, const struct upsampling *upsampling, struct values *in_gradient,
                              const struct values *out_gradient);

#endif
