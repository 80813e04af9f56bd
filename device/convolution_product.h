// Private: a convolution whose window is one pixel is a matrix product, with a row per pixel. Its gradients are, too.
#ifndef DEVICE_CONVOLUTION_PRODUCT_H
#define DEVICE_CONVOLUTION_PRODUCT_H

#include <string.h>

#include "device/picture_kernels.h"

static inline bool convolution_is_product(const struct convolution *shape)
{
    static const struct window pixel = { .height = 1, .width = 1, .stride_height = 1, .stride_width = 1 };
    return memcmp(&shape->window, &pixel, sizeof pixel) == 0 && shape->groups == 1;
}

static inline size_t convolution_pixels(const struct convolution *shape)  // of the output of a batch
{
    return shape->batch * convolution_height(shape) * convolution_width(shape);
}

static inline struct matmul convolution_product(const struct convolution *shape, struct values *out,
                                                const struct values *in, const struct values *weights,
                                                const struct values *bias)
{
    return (struct matmul){ .m = convolution_pixels(shape), .n = shape->out, .k = shape->in, .a = in, .b = weights,
                            .c = out, .lda = shape->in, .ldb = shape->out, .ldc = shape->out, .bias = bias };
}

static inline struct matmul convolution_product_input(const struct convolution *shape, struct values *in_gradient,
                                                      const struct values *out_gradient, const struct values *weights)
{
    return (struct matmul){ .transpose_b = true, .m = convolution_pixels(shape), .n = shape->in, .k = shape->out,
                            .a = out_gradient, .b = weights, .c = in_gradient, .lda = shape->out, .ldb = shape->out,
                            .ldc = shape->in };
}

static inline struct matmul convolution_product_weight(const struct convolution *shape, float *weights_gradient,
                                                       const struct values *out_gradient, const struct values *in)
{
    return (struct matmul){ .transpose_a = true, .m = shape->in, .n = shape->out, .k = convolution_pixels(shape),
                            .a = in, .b = out_gradient, .sums = weights_gradient, .lda = shape->in,
                            .ldb = shape->out, .ldc = shape->out };
}

#endif
