#include "device/cpu_convolution_passes.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "device/convolution_product.h"

struct making {
    const struct convolution *shape;
    dnnl_data_type_t type;
    dnnl_engine_t engine;
    struct onednn_tensors tensors;
    struct onednn_window window;
    dnnl_primitive_attr_t attributes;  // the scratchpad is the caller's
    dnnl_primitive_attr_t adding;      // of a reorder that adds its result to what is there, in our order
    dnnl_primitive_desc_t forward;     // the hint of the two backward passes
};

static dnnl_status_t describe_tensors(struct making *making)
{
    const struct convolution *x = making->shape;
    const dnnl_dim_t groups = (dnnl_dim_t)x->groups, in = (dnnl_dim_t)x->in, out = (dnnl_dim_t)x->out;
    const dnnl_dim_t height = (dnnl_dim_t)x->window.height, width = (dnnl_dim_t)x->window.width;
    const dnnl_dims_t ins = { (dnnl_dim_t)x->batch, in, (dnnl_dim_t)x->height, (dnnl_dim_t)x->width };
    const dnnl_dims_t outs = { (dnnl_dim_t)x->batch, out, (dnnl_dim_t)convolution_height(x),
                               (dnnl_dim_t)convolution_width(x) };
    const dnnl_dims_t grouped = { groups, out / groups, in / groups, height, width };
    const dnnl_dims_t plain = { out, in, height, width };
    const dnnl_dims_t bias = { out };
    const bool has_groups = groups > 1;
    const int dims = has_groups ? 5 : 4;
    struct onednn_tensors *tensors = &making->tensors;
    const dnnl_data_type_t type = making->type;
    const int64_t *const sizes = has_groups ? grouped : plain;
    const dnnl_format_tag_t ours = has_groups ? dnnl_hwigo : dnnl_hwio;
    dnnl_status_t status = onednn_tensor(&tensors->in, 4, ins, type, dnnl_nhwc);
    if (status == dnnl_success)
        status = onednn_tensor(&tensors->out, 4, outs, type, dnnl_nhwc);
    if (status == dnnl_success)
        status = onednn_tensor(&tensors->bias, 1, bias, type, dnnl_x);
    if (status == dnnl_success)
        status = onednn_tensor(&tensors->weights, dims, sizes, type, ours);
    if (status == dnnl_success)
        status = onednn_tensor(&tensors->any_weights, dims, sizes, type, dnnl_format_tag_any);
    if (status == dnnl_success)
        status = onednn_tensor(&tensors->gradients, dims, sizes, dnnl_f32, ours);
    if (status == dnnl_success)
        status = onednn_tensor(&tensors->any_gradients, dims, sizes, dnnl_f32, dnnl_format_tag_any);
    return status;
}

static void describe_window(struct making *making)
{
    const struct window *window = &making->shape->window;
    making->window = (struct onednn_window){
        .strides = { (dnnl_dim_t)window->stride_height, (dnnl_dim_t)window->stride_width },
        .padding = { (dnnl_dim_t)window->padding_height, (dnnl_dim_t)window->padding_width },
    };
}

static dnnl_status_t describe_attributes(struct making *making)
{
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&making->attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(making->attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&making->adding);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&after);
    if (status == dnnl_success)
        status = onednn_add_result(after);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(making->adding, after);
    if (after)
        dnnl_post_ops_destroy(after);
    return status;
}

// Weights whose order is another one than ours are reordered. Gradients are always reordered, since that adds them.
static dnnl_status_t make_reorder(struct convolution_pass *pass, const struct making *making, bool is_gradient)
{
    const onednn_layout ours = onednn_layout_of(is_gradient ? &making->tensors.gradients : &making->tensors.weights);
    const onednn_layout theirs
        = onednn_layout_wanted(pass->primitive, is_gradient ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS);
    dnnl_primitive_desc_t described = NULL;
    if (!theirs)
        return dnnl_invalid_arguments;
    if (!is_gradient && dnnl_memory_desc_equal(ours, theirs))
        return dnnl_success;
    const dnnl_status_t status
        = is_gradient ? dnnl_reorder_primitive_desc_create(&described, theirs, making->engine, ours, making->engine,
                                                           making->adding)
                      : dnnl_reorder_primitive_desc_create(&described, ours, making->engine, theirs, making->engine,
                                                           NULL);
    pass->reordered_bytes = round_to_256(dnnl_memory_desc_get_size(theirs));
    return onednn_make_primitive(&pass->reorder, status, described);
}

// Whether our order of the weights is the faster one.
static bool keeps_order(const struct convolution *shape, enum onednn_pass which)
{
    enum { FEW_PIXELS = 64 };
    return which != ONEDNN_WEIGHT && shape->groups == 1 && convolution_pixels(shape) <= FEW_PIXELS;
}

// Whether oneDNN would compute it in plain loops.
static bool is_slow(const_dnnl_primitive_desc_t described)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(described, dnnl_query_impl_info_str, 0, &name) != dnnl_success
        || strstr(name, "ref");
}

static dnnl_status_t make_pass(struct convolution_pass *pass, const struct making *making, enum onednn_pass which)
{
    const struct onednn_tensors *tensors = &making->tensors;
    const dnnl_memory_desc_t *weights = which == ONEDNN_WEIGHT ? &tensors->any_gradients
                                      : keeps_order(making->shape, which) ? &tensors->weights : &tensors->any_weights;
    dnnl_primitive_desc_t described = NULL;
    dnnl_status_t status = onednn_describe(&described, which, &making->tensors, weights, &making->window,
                                           making->attributes, making->engine,
                                           which == ONEDNN_FORWARD ? NULL : making->forward);
    if (status == dnnl_success && making->type != dnnl_f32 && is_slow(described)) {
        dnnl_primitive_desc_destroy(described);
        return dnnl_unimplemented;
    }
    status = onednn_make_primitive(&pass->primitive, status, described);
    if (status == dnnl_success)
        status = make_reorder(pass, making, which == ONEDNN_WEIGHT);
    if (status == dnnl_success)
        pass->bytes = pass->reordered_bytes + onednn_scratchpad_bytes(pass->primitive);
    return status;
}

static dnnl_status_t make_passes(struct cpu_convolution *convolution, struct making *making)
{
    dnnl_status_t status = describe_tensors(making);
    describe_window(making);
    if (status == dnnl_success)
        status = describe_attributes(making);
    if (status == dnnl_success)
        status = onednn_describe(&making->forward, ONEDNN_FORWARD, &making->tensors, &making->tensors.any_weights,
                                 &making->window, making->attributes, making->engine, NULL);
    for (int i = 0; status == dnnl_success && i < ONEDNN_PASSES; i++)
        status = make_pass(&convolution->passes[i], making, (enum onednn_pass)i);
    onednn_tensors_clear(&making->tensors);
    if (making->attributes)
        dnnl_primitive_attr_destroy(making->attributes);
    if (making->adding)
        dnnl_primitive_attr_destroy(making->adding);
    if (making->forward)
        dnnl_primitive_desc_destroy(making->forward);
    return status;
}

static void clear_passes(struct cpu_convolution *convolution)
{
    for (size_t i = 0; i < ONEDNN_PASSES; i++) {
        if (convolution->passes[i].primitive)
            dnnl_primitive_destroy(convolution->passes[i].primitive);
        if (convolution->passes[i].reorder)
            dnnl_primitive_destroy(convolution->passes[i].reorder);
        convolution->passes[i] = (struct convolution_pass){ 0 };
    }
}

void cpu_convolution_free(struct cpu_convolution *convolution)
{
    clear_passes(convolution);
    if (convolution->engine)
        dnnl_engine_destroy(convolution->engine);
    free(convolution->zeros);
    free(convolution);
}

// Passes of bf16 stay if there are all of them.
static dnnl_status_t make_passes_of(struct cpu_convolution *convolution, dnnl_data_type_t type)
{
    struct making making = { .shape = &convolution->shape, .type = type, .engine = convolution->engine };
    const dnnl_status_t status = make_passes(convolution, &making);
    convolution->is_bf16 = type == dnnl_bf16;
    if (status != dnnl_success)
        clear_passes(convolution);
    return status;
}

struct cpu_convolution *cpu_convolution_create(const struct convolution *shape, bool in_bf16, struct error *error)
{
    struct cpu_convolution *convolution = calloc(1, sizeof *convolution);
    if (!convolution || !(convolution->zeros = calloc(shape->out, sizeof(float)))) {
        free(convolution);
        return error_null(error_no_memory(error, "a convolution"));
    }
    convolution->shape = *shape;
    const int threads = cpu_begin_alone();
    dnnl_status_t status = dnnl_engine_create(&convolution->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = make_passes_of(convolution, in_bf16 ? dnnl_bf16 : dnnl_f32);
    if (status == dnnl_unimplemented && in_bf16)
        status = make_passes_of(convolution, dnnl_f32);
    cpu_end_alone(threads);
    if (status == dnnl_success)
        return convolution;
    cpu_convolution_free(convolution);
    error_set_kind(error, ERROR_MACHINE, status == dnnl_out_of_memory ? "oneDNN had no memory for a convolution"
                                                                       : "oneDNN refused a convolution");
    return NULL;
}
