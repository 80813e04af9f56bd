// Private to the cpu maker: what it needs of oneDNN's C API of primitives, which is another one in 2.x (Debian 12) and
// in 3.x (Debian 13). In 2.x a tensor's layout is a struct, and an operation is described apart from its primitive. In
// 3.x a layout is a handle, and both are described at once.
#ifndef DEVICE_CPU_ONEDNN_H
#define DEVICE_CPU_ONEDNN_H

#include <stdbool.h>
#include <stdint.h>

#include <oneapi/dnnl/dnnl.h>

// The tensors of a convolution. `any_weights` leaves the order of the weights to oneDNN. Gradients of weights are
// floats.
struct onednn_tensors {
    dnnl_memory_desc_t in, weights, any_weights, gradients, any_gradients, bias, out;
};

// Strides and paddings of a window, and the steps between its pixels.
struct onednn_window {
    dnnl_dims_t strides, dilations, padding;
};

enum onednn_pass { ONEDNN_FORWARD, ONEDNN_INPUT, ONEDNN_WEIGHT, ONEDNN_PASSES };

// The tensors of a matrix product: out = left right + bias. They may be transposed, or have gaps between their rows.
struct onednn_product {
    dnnl_memory_desc_t left, right, bias, out;
    bool has_bias;
};

#if DNNL_VERSION_MAJOR < 3

typedef const dnnl_memory_desc_t *onednn_layout;

static inline onednn_layout onednn_layout_of(const dnnl_memory_desc_t *tensor)
{
    return tensor;
}

static inline dnnl_status_t onednn_tensor(dnnl_memory_desc_t *tensor, int dims, const dnnl_dims_t sizes,
                                          dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(tensor, dims, sizes, type, tag);
}

static inline void onednn_tensors_clear(struct onednn_tensors *tensors)
{
    (void)tensors;
}

// Only a forward has a bias, and only the other passes have a hint, the description of their forward.
static inline dnnl_status_t onednn_describe(dnnl_primitive_desc_t *described, enum onednn_pass pass,
                                            const struct onednn_tensors *x, const dnnl_memory_desc_t *weights,
                                            const struct onednn_window *window, const_dnnl_primitive_attr_t attributes,
                                            dnnl_engine_t engine, const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t operation;
    const dnnl_status_t status
        = pass == ONEDNN_FORWARD
            ? dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct, &x->in,
                                                 weights, &x->bias, &x->out, window->strides, window->padding,
                                                 window->padding)
        : pass == ONEDNN_INPUT
            ? dnnl_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &x->in, weights, &x->out,
                                                       window->strides, window->padding, window->padding)
            : dnnl_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct, &x->in, weights, NULL,
                                                          &x->out, window->strides, window->padding, window->padding);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(described, &operation, attributes, engine, hint);
}

static inline dnnl_status_t onednn_add_result(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1);
}

static inline dnnl_status_t onednn_matrix(dnnl_memory_desc_t *matrix, const dnnl_dims_t sizes,
                                          const dnnl_dims_t strides, dnnl_data_type_t type)
{
    return dnnl_memory_desc_init_by_strides(matrix, 2, sizes, type, strides);
}

static inline void onednn_product_clear(struct onednn_product *product)
{
    (void)product;
}

static inline dnnl_status_t onednn_describe_product(dnnl_primitive_desc_t *described, const struct onednn_product *x,
                                                    const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine)
{
    dnnl_matmul_desc_t operation;
    const dnnl_status_t status
        = dnnl_matmul_desc_init(&operation, &x->left, &x->right, x->has_bias ? &x->bias : NULL, &x->out);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(described, &operation, attributes, engine, NULL);
}

#else

typedef const_dnnl_memory_desc_t onednn_layout;

static inline onednn_layout onednn_layout_of(const dnnl_memory_desc_t *tensor)
{
    return *tensor;
}

static inline dnnl_status_t onednn_tensor(dnnl_memory_desc_t *tensor, int dims, const dnnl_dims_t sizes,
                                          dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(tensor, dims, sizes, type, tag);
}

static inline void onednn_tensors_clear(struct onednn_tensors *tensors)
{
    dnnl_memory_desc_t *const all[] = { &tensors->in, &tensors->weights, &tensors->any_weights, &tensors->gradients,
                                        &tensors->any_gradients, &tensors->bias, &tensors->out };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (*all[i])
            dnnl_memory_desc_destroy(*all[i]);
}

// Only a forward has a bias, and only the other passes have a hint, the description of their forward.
static inline dnnl_status_t onednn_describe(dnnl_primitive_desc_t *described, enum onednn_pass pass,
                                            const struct onednn_tensors *x, const dnnl_memory_desc_t *weights,
                                            const struct onednn_window *window, const_dnnl_primitive_attr_t attributes,
                                            dnnl_engine_t engine, const_dnnl_primitive_desc_t hint)
{
    switch (pass) {
    case ONEDNN_FORWARD:
        return dnnl_convolution_forward_primitive_desc_create(
            described, engine, dnnl_forward_training, dnnl_convolution_direct, x->in, *weights, x->bias, x->out,
            window->strides, window->dilations, window->padding, window->padding, attributes);
    case ONEDNN_INPUT:
        return dnnl_convolution_backward_data_primitive_desc_create(
            described, engine, dnnl_convolution_direct, x->in, *weights, x->out, window->strides, window->dilations,
            window->padding, window->padding, hint, attributes);
    default:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            described, engine, dnnl_convolution_direct, x->in, *weights, NULL, x->out, window->strides,
            window->dilations, window->padding, window->padding, hint, attributes);
    }
}

static inline dnnl_status_t onednn_add_result(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t onednn_matrix(dnnl_memory_desc_t *matrix, const dnnl_dims_t sizes,
                                          const dnnl_dims_t strides, dnnl_data_type_t type)
{
    return dnnl_memory_desc_create_with_strides(matrix, 2, sizes, type, strides);
}

static inline void onednn_product_clear(struct onednn_product *product)
{
    dnnl_memory_desc_t *const all[] = { &product->left, &product->right, &product->bias, &product->out };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (*all[i])
            dnnl_memory_desc_destroy(*all[i]);
}

static inline dnnl_status_t onednn_describe_product(dnnl_primitive_desc_t *described, const struct onednn_product *x,
                                                    const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine)
{
    return dnnl_matmul_primitive_desc_create(described, engine, x->left, x->right, x->has_bias ? x->bias : NULL, x->out,
                                             attributes);
}

#endif

// --- the same in both ------------------------------------------------------------------------

// Makes the primitive, unless the status is an error, and frees its description.
dnnl_status_t onednn_make_primitive(dnnl_primitive_t *primitive, dnnl_status_t status, dnnl_primitive_desc_t described);

// How a primitive wants an argument (DNNL_ARG_SRC, ...) to be laid out. NULL if that cannot be known.
onednn_layout onednn_layout_wanted(dnnl_primitive_t primitive, int argument);

// Bytes of the scratchpad that the caller of a primitive gives it.
uint64_t onednn_scratchpad_bytes(dnnl_primitive_t primitive);

// An argument of a primitive, and its address.
struct onednn_bound {
    int argument;
    const void *address;
};

// Runs a primitive with its arguments, at most five.
dnnl_status_t onednn_run(dnnl_engine_t engine, dnnl_primitive_t primitive, const struct onednn_bound *bounds,
                         size_t count);

#endif
