// A batch norm, alone, with a ReLU, or with the sum of a second input and a ReLU:
//
//     output = relu(norm(input) gain + offset + second input)
//
// Mean and variance are those of the micro-batch: of its pictures that count, all others give zeros. I makes the sums
// that W adds. An evaluation computes with the running mean and variance, which are this layer's state without a
// gradient. They take in the micro-batches of an update, weighted by their number of pictures.
#include "models/layer_kind.h"

enum { GAIN, OFFSET };
static const float running_momentum = 0.1f;  // as in PyTorch

static void batch_norm_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t channels = layer->shape.out;
    tensor_add(tensors, count, (struct tensor){ .name = "gain", .rows = 1, .columns = channels, .start = START_ONE });
    tensor_add(tensors, count, (struct tensor){ .name = "offset", .rows = 1, .columns = channels });
}

struct saved {
    float *mean, *rstd;
    uint8_t *passed;
};

static struct saved batch_norm_saved(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), channels = layer->shape.out;
    struct saved saved = { .mean = walk_floats(walk, channels) };
    saved.rstd = walk_floats(walk, channels);
    if (layer->shape.picture.has_relu)
        saved.passed = walk_bytes(walk, batch_norm_passed_bytes(rows, channels));
    return saved;
}

// The sums behind the running numbers are of the update that is being folded.
struct running {
    float *mean, *variance;
    double *sums;
};

static struct running batch_norm_running(const struct layer *layer, struct walk *walk)
{
    struct running running = { .mean = walk_floats(walk, layer->shape.out) };
    running.variance = walk_floats(walk, layer->shape.out);
    running.sums = walk_bytes(walk, batch_norm_sums(layer->shape.out) * sizeof(double));
    return running;
}

static struct kind_sizes batch_norm_sizes(const struct layer *layer)
{
    const size_t channels = layer->shape.out;
    struct walk saved = { 0 }, state = { 0 };
    batch_norm_saved(layer, &saved);
    batch_norm_running(layer, &state);
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_elements(layer)),
        .saved_bytes = saved.bytes,
        .input = INPUT_FOR_BOTH,
        .held_bytes = round_to_256(2 * channels * sizeof(float)),
        .state_bytes = state.bytes,
        .statistics_bytes = round_to_256(batch_norm_statistics(channels) * sizeof(float)),
    };
}

static struct batch_norm norm_of(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const size_t rows = layer_rows(layer), pixels = layer->shape.sequence;
    const uint64_t samples = pass->base.samples > 0 ? pass->base.samples : layer->shape.batch;
    return (struct batch_norm){
        .in = pass->base.input, .gain = weights.at[GAIN], .offset = weights.at[OFFSET], .rows = rows,
        .counted = samples < layer->shape.batch ? samples * pixels : rows, .channels = layer->shape.out,
        .has_relu = layer->shape.picture.has_relu, .add = layer->input_count > 1 ? pass->base.inputs[1] : NULL,
    };
}

static void batch_norm_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct batch_norm norm = norm_of(layer, pass);
    const struct saved saved = batch_norm_saved(layer, &(struct walk){ pass->base.saved, 0 });
    const struct running running = batch_norm_running(layer, &(struct walk){ pass->base.state, 0 });
    if (pass->training)
        kernel_batch_norm(pass->base.queue, &norm, pass->base.output, saved.mean, saved.rstd, saved.passed,
                          pass->base.statistics);
    else
        kernel_batch_norm_running(pass->base.queue, &norm, pass->base.output, running.mean, running.variance);
}

static void batch_norm_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct batch_norm norm = norm_of(layer, pass);
    const struct saved saved = batch_norm_saved(layer, &(struct walk){ pass->base.saved, 0 });
    const bool has_second = layer->input_count > 1;
    kernel_batch_norm_backward(pass->base.queue, &norm, pass->base.input_gradient,
                               has_second ? pass->base.input_gradients[1] : NULL, pass->base.held,
                               pass->base.output_gradient, saved.mean, saved.rstd, saved.passed);
}

static void batch_norm_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const float *sums = pass->base.held;
    const size_t channels = layer->shape.out;
    kernel_add_floats(pass->base.queue, gradients.at[GAIN], gradients.at[GAIN], sums, channels);
    kernel_add_floats(pass->base.queue, gradients.at[OFFSET], gradients.at[OFFSET], sums + channels, channels);
}

// --- state ---------------------------------------------------------------------------

static void batch_norm_initialize_state(const struct layer *layer, struct queue *queue, void *state)
{
    const struct running running = batch_norm_running(layer, &(struct walk){ state, 0 });
    queue_zero(queue, state, batch_norm_sizes(layer).state_bytes);
    kernel_fill(queue, (struct values *)running.variance, 1, layer->shape.out);
}

static void batch_norm_fold(const struct layer *layer, const struct weir_fold *fold)
{
    const struct running running = batch_norm_running(layer, &(struct walk){ fold->state, 0 });
    for (uint32_t i = 0; i < fold->count; i++)
        kernel_batch_norm_merge(fold->queue, running.sums, fold->statistics[i], layer->shape.out, i == 0);
    kernel_batch_norm_fold(fold->queue, running.mean, running.variance, running.sums, layer->shape.out,
                           running_momentum);
}

static size_t batch_norm_states(const struct layer *layer, struct weir_tensor *states)
{
    const uint64_t bytes = round_to_256(layer->shape.out * sizeof(float));
    states[0] = (struct weir_tensor){ .name = "running_mean", .columns = layer->shape.out };
    states[1] = (struct weir_tensor){ .name = "running_variance", .columns = layer->shape.out, .first_byte = bytes };
    return 2;
}

const struct layer_kind layer_batch_norm = {
    .name = "batch-norm",
    .tensors = batch_norm_tensors,
    .sizes = batch_norm_sizes,
    .forward = { { batch_norm_forward, NULL } },
    .backward_input = { { batch_norm_backward_input, NULL } },
    .backward_weight = { { batch_norm_backward_weight, NULL } },
    .initialize_state = batch_norm_initialize_state,
    .fold = batch_norm_fold,
    .states = batch_norm_states,
};
