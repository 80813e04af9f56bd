// Convolutions: matrix products if the window is one pixel, and otherwise oneDNN's primitives.
//
// Primitives are made when a device is asked for their workspace, since making one takes up to 13 ms, and stay until
// the device is closed. Queues find them there and make none.
//
// For a window of one pixel products need no workspace, and add gradients of weights in place. They were held against
// primitives for 17 layers of ResNet-50 and MobileNetV2, with 1, 4 and 16 pictures. They had 0.85 to 1.6 times the
// speed in F, 0.84 to 1.77 times in I, and 0.71 to 1.47 times in W. In W the lower half had many pixels, and more
// channels in than out. There, products in pieces of 1 MiB have 0.97 to 1.39 times the speed of a primitive.
#include <string.h>

#include "device/convolution_product.h"
#include "device/cpu_convolution_passes.h"

// --- what a device tells -----------------------------------------------------------------

static struct cpu_convolution *find(const struct cpu *cpu, const struct convolution *shape)
{
    struct cpu_convolution *convolution = atomic_load_explicit(&cpu->convolutions, memory_order_acquire);
    while (convolution && memcmp(&convolution->shape, shape, sizeof *shape) != 0)
        convolution = convolution->next;
    return convolution;
}

// Two threads that ask at the same time may each add a convolution. Queues then find either one.
static void keep(struct cpu *cpu, struct cpu_convolution *convolution)
{
    convolution->next = atomic_load_explicit(&cpu->convolutions, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&cpu->convolutions, &convolution->next, convolution))
        ;
}

bool cpu_convolution_bytes(struct device *device, const struct convolution *shape, struct convolution_bytes *bytes,
                           struct error *error)
{
    struct cpu *cpu = device->own;
    if (convolution_is_product(shape))
        return true;
    struct cpu_convolution *convolution = find(cpu, shape);
    if (!convolution) {
        convolution = cpu_convolution_create(shape, cpu->bf16_by != BF16_BY_FP32, error);
        if (!convolution)
            return false;
        keep(cpu, convolution);
    }
    *bytes = (struct convolution_bytes){ .forward = convolution->passes[ONEDNN_FORWARD].bytes,
                                         .input = convolution->passes[ONEDNN_INPUT].bytes,
                                         .weight = convolution->passes[ONEDNN_WEIGHT].bytes };
    return true;
}

bool cpu_convolution_is_bf16(const struct cpu *cpu, const struct convolution *shape)
{
    if (convolution_is_product(shape))
        return cpu->bf16_by != BF16_BY_FP32;
    const struct cpu_convolution *convolution = find(cpu, shape);
    return convolution && convolution->is_bf16;
}

void cpu_forget_convolutions(struct cpu *cpu)
{
    struct cpu_convolution *convolution = atomic_load_explicit(&cpu->convolutions, memory_order_acquire);
    while (convolution) {
        struct cpu_convolution *next = convolution->next;
        cpu_convolution_free(convolution);
        convolution = next;
    }
}

// --- primitives ----------------------------------------------------------------------------

static dnnl_status_t reorder(dnnl_engine_t engine, dnnl_primitive_t primitive, const void *from, void *to)
{
    const struct onednn_bound bounds[] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
    return onednn_run(engine, primitive, bounds, 2);
}

// The convolution that the queue's device was asked about. Fails the queue if it was not.
static const struct cpu_convolution *asked_for(struct queue *queue, const struct convolution *shape)
{
    const struct cpu_convolution *convolution = find(queue->device->own, shape);
    if (!convolution)
        queue_fail(queue, "a convolution works in a workspace, and its caller has not asked how large a one");
    return convolution;
}

static void *scratchpad(const struct convolution_pass *pass, void *workspace)
{
    return (char *)workspace + pass->reordered_bytes;
}

static void check(struct queue *queue, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        queue_fail(queue, "oneDNN had no memory for a convolution");
    else if (status != dnnl_success)
        queue_fail(queue, "oneDNN refused a convolution");
}

// The forward, or the gradients of its input. The weights are first reordered if need be.
static void run_with_weights(struct queue *queue, const struct cpu_convolution *convolution, enum onednn_pass which,
                             const struct onednn_bound *bounds, size_t count, const struct values *weights,
                             void *workspace)
{
    const struct convolution_pass *pass = &convolution->passes[which];
    struct onednn_bound all[5] = { { DNNL_ARG_WEIGHTS, pass->reorder ? workspace : (const void *)weights },
                            { DNNL_ARG_SCRATCHPAD, scratchpad(pass, workspace) } };
    memcpy(all + 2, bounds, count * sizeof *bounds);
    const int threads = cpu_begin_alone();
    dnnl_status_t status = dnnl_success;
    if (pass->reorder)
        status = reorder(convolution->engine, pass->reorder, weights, workspace);
    if (status == dnnl_success)
        status = onednn_run(convolution->engine, pass->primitive, all, count + 2);
    cpu_end_alone(threads);
    check(queue, status);
}

// oneDNN's gradients overwrite, and so come into the workspace. Their reorder adds them to ours.
static void run_for_weights(struct queue *queue, const struct cpu_convolution *convolution, float *weights_gradient,
                            const struct values *out_gradient, const struct values *in, void *workspace)
{
    const struct convolution_pass *pass = &convolution->passes[ONEDNN_WEIGHT];
    const struct onednn_bound bounds[] = { { DNNL_ARG_SRC, in },
                                    { DNNL_ARG_DIFF_DST, out_gradient },
                                    { DNNL_ARG_DIFF_WEIGHTS, workspace },
                                    { DNNL_ARG_SCRATCHPAD, scratchpad(pass, workspace) } };
    const int threads = cpu_begin_alone();
    dnnl_status_t status = onednn_run(convolution->engine, pass->primitive, bounds, sizeof bounds / sizeof bounds[0]);
    if (status == dnnl_success)
        status = reorder(convolution->engine, pass->reorder, workspace, weights_gradient);
    cpu_end_alone(threads);
    check(queue, status);
}

// --- products ------------------------------------------------------------------------------

// The numbers are bf16 if the device has a unit for them, and otherwise floats, also in 16 bits (cpu_half.c).
static void multiply(struct queue *queue, const struct matmul *product)
{
    const struct cpu *cpu = queue->device->own;
    (cpu->bf16_by == BF16_BY_FP32 ? cpu->float_kernels : cpu->kernels)->matmul(queue, product);
}

// Adds the product of some pixels after the other, as many as are at home in a core's second cache.
static void add_products(struct queue *queue, const struct convolution *shape, float *weights_gradient,
                         const struct values *out_gradient, const struct values *in)
{
    enum { CACHED_BYTES = 1 << 20, LEAST_PIXELS = 64 };
    const bool is_bf16 = ((const struct cpu *)queue->device->own)->bf16_by != BF16_BY_FP32;
    const enum precision precision = is_bf16 ? PRECISION_BF16 : PRECISION_FP32;
    const size_t pixels = convolution_pixels(shape), number = precision_bytes(precision);
    const size_t fit = CACHED_BYTES / number / (shape->in + shape->out);
    const size_t most = fit > LEAST_PIXELS ? fit : LEAST_PIXELS;
    struct matmul product = convolution_product_weight(shape, weights_gradient, out_gradient, in);
    for (size_t first = 0; first < pixels; first += most) {
        product.k = pixels - first < most ? pixels - first : most;
        product.a = values_at(in, precision, first * shape->in);
        product.b = values_at(out_gradient, precision, first * shape->out);
        multiply(queue, &product);
    }
}

// --- kernels -------------------------------------------------------------------------------

void cpu_convolution(struct queue *queue, const struct convolution *shape, struct values *out, const struct values *in,
                     const struct values *weights, const struct values *bias, void *workspace)
{
    if (!convolution_may_run(queue, shape))
        return;
    if (convolution_is_product(shape)) {
        const struct matmul product = convolution_product(shape, out, in, weights, bias);
        multiply(queue, &product);
        return;
    }
    const struct cpu_convolution *convolution = asked_for(queue, shape);
    if (!convolution)
        return;
    const struct onednn_bound bounds[] = { { DNNL_ARG_SRC, in },
                                    { DNNL_ARG_BIAS, bias ? (const void *)bias : convolution->zeros },
                                    { DNNL_ARG_DST, out } };
    run_with_weights(queue, convolution, ONEDNN_FORWARD, bounds, 3, weights, workspace);
}

void cpu_convolution_input(struct queue *queue, const struct convolution *shape, struct values *in_gradient,
                           const struct values *out_gradient, const struct values *weights, void *workspace)
{
    if (!convolution_may_run(queue, shape))
        return;
    if (convolution_is_product(shape)) {
        const struct matmul product = convolution_product_input(shape, in_gradient, out_gradient, weights);
        multiply(queue, &product);
        return;
    }
    const struct cpu_convolution *convolution = asked_for(queue, shape);
    if (!convolution)
        return;
    const struct onednn_bound bounds[] = { { DNNL_ARG_DIFF_DST, out_gradient }, { DNNL_ARG_DIFF_SRC, in_gradient } };
    run_with_weights(queue, convolution, ONEDNN_INPUT, bounds, 2, weights, workspace);
}

void cpu_convolution_weight(struct queue *queue, const struct convolution *shape, float *weights_gradient,
                            const struct values *out_gradient, const struct values *in, void *workspace)
{
    if (!convolution_may_run(queue, shape))
        return;
    if (convolution_is_product(shape)) {
        add_products(queue, shape, weights_gradient, out_gradient, in);
        return;
    }
    const struct cpu_convolution *convolution = asked_for(queue, shape);
    if (convolution)
        run_for_weights(queue, convolution, weights_gradient, out_gradient, in, workspace);
}
