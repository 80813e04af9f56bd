// The first half of a block:
//
//     output = input + dropout(attention(norm(input) QKV + bias) OUT + bias)
//
// Kept are QKV and the result of attention, but neither the probabilities (made
// again from the log of their sums) nor the normed input (from mean and rstd).
//
// A shard has some of the heads: their columns of Q, of K and of V, and their rows of OUT.
//
// Where sequences come in parts, QKV is carried from part to part, and so is its gradient:
// backward, a part adds to those of the keys and values that it has seen, and takes its own
// rows, to which nobody adds any more.
#include <math.h>

#include "models/layer_kind.h"

enum { GAIN, OFFSET, QKV, QKV_BIAS, OUT, OUT_BIAS };

static void attention_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.out, inner = layer_share(layer, width);
    const float end = 0.02f / sqrtf((float)layer->shape.branches);
    tensor_add(tensors, count, (struct tensor){ .name = "norm.gain", .rows = 1, .columns = width, .start = START_ONE });
    tensor_add(tensors, count, (struct tensor){ .name = "norm.offset", .rows = 1, .columns = width });
    tensor_add(tensors, count, (struct tensor){ .name = "qkv.weight", .rows = width, .columns = 3 * inner,
                                                .split = SPLIT_COLUMNS, .parts = 3,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = "qkv.bias", .rows = 1, .columns = 3 * inner,
                                                .split = SPLIT_COLUMNS, .parts = 3 });
    tensor_add(tensors, count, (struct tensor){ .name = "out.weight", .rows = inner, .columns = width,
                                                .split = SPLIT_ROWS,
                                                .start = START_NORMAL, .deviation = end, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = "out.bias", .rows = 1, .columns = width });
}

static struct attention attention_of(const struct layer *layer)
{
    const struct layer_shape *shape = &layer->shape;
    return (struct attention){
        .batch = shape->batch, .sequence = shape->sequence, .heads = layer_share(layer, shape->heads),
        .size = shape->out / shape->heads, .first = shape->first, .whole = shape->whole,
    };
}

static bool attention_ask(struct layer *layer, struct device *device, struct error *error)
{
    const struct attention attention = attention_of(layer);
    return layer->has_asked = attention_bytes(device, &attention, &layer->attention, error);
}

// The workspace of attention itself.
static struct attention_bytes inner_bytes(const struct layer *layer)
{
    const struct attention attention = attention_of(layer);
    const uint64_t own = attention_workspace_bytes(&attention);
    return layer->has_asked ? layer->attention : (struct attention_bytes){ own, own };
}

struct attention_saved {
    float *mean, *rstd, *log_sums;
    struct values *qkv, *mixed;
};

static struct attention_saved attention_saved(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), inner = layer_share(layer, layer->shape.out);
    struct attention_saved saved;
    saved.mean = walk_floats(walk, rows);
    saved.rstd = walk_floats(walk, rows);
    saved.qkv = layer_is_part(layer) ? NULL : walk_values(walk, layer, rows * 3 * inner);
    saved.mixed = walk_values(walk, layer, rows * inner);
    saved.log_sums = walk_floats(walk, rows * layer_share(layer, layer->shape.heads));
    return saved;
}

static struct attention_saved saved_of(const struct layer *layer, const struct layer_pass *pass)
{
    struct attention_saved saved = attention_saved(layer, &(struct walk){ pass->saved, 0 });
    if (layer_is_part(layer))
        saved.qkv = pass->carried;
    return saved;
}

// A part's rows of a sequence, in what is carried of all.
static struct values *own_rows(const struct layer *layer, const void *carried, size_t sequence)
{
    const size_t row = sequence * layer->shape.whole + layer->shape.first;
    return values_at(carried, layer->shape.precision, row * 3 * layer_share(layer, layer->shape.out));
}

// QKV, sequence by sequence where it is carried.
static void project_in(const struct layer *layer, const struct layer_pass *pass, const struct attention_saved *saved,
                       const struct values *normed)
{
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    const size_t width = layer->shape.out, inner = layer_share(layer, width), rows = layer->shape.sequence;
    if (!layer_is_part(layer)) {
        project(pass->queue, saved->qkv, normed, weights.at[QKV], weights.at[QKV_BIAS], layer_rows(layer), width,
                3 * inner);
        return;
    }
    for (size_t i = 0; i < layer->shape.batch; i++)
        project(pass->queue, own_rows(layer, pass->carried, i),
                values_at(normed, layer->shape.precision, i * rows * width), weights.at[QKV], weights.at[QKV_BIAS], rows,
                width, 3 * inner);
}

// Through attention itself, to the gradient of this pass's QKV.
static void attend_back(const struct layer *layer, const struct layer_pass *pass, const struct attention_saved *saved,
                        struct values *qkv_gradient, const struct values *mixed_gradient, void *mixing)
{
    const struct attention attention = attention_of(layer);
    const size_t numbers = layer->shape.sequence * 3 * layer_share(layer, layer->shape.out);
    struct values *all = layer_is_part(layer) ? pass->carried_gradient : qkv_gradient;
    kernel_attention_backward(pass->queue, &attention, all, mixed_gradient, saved->mixed, saved->log_sums, saved->qkv,
                              mixing);
    for (size_t i = 0; layer_is_part(layer) && i < layer->shape.batch; i++)
        queue_copy(pass->queue, values_at(qkv_gradient, layer->shape.precision, i * numbers), own_rows(layer, all, i),
                   numbers * precision_bytes(layer->shape.precision));
}

// For W: of the two products in and out of attention, their inputs and gradients.
struct attention_held {
    float *mean, *rstd;
    struct values *mixed, *qkv_gradient, *normed_gradient;
};

static struct attention_held attention_held(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    struct attention_held held;
    held.mean = walk_floats(walk, rows);
    held.rstd = walk_floats(walk, rows);
    held.mixed = walk_values(walk, layer, rows * inner);
    held.qkv_gradient = walk_values(walk, layer, rows * 3 * inner);
    held.normed_gradient = walk_values(walk, layer, rows * width);
    return held;
}

static struct kind_sizes attention_sizes(const struct layer *layer)
{
    const uint64_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const uint64_t tensor = layer_bytes(layer, rows * width);
    const struct attention_bytes mixing = inner_bytes(layer);
    struct walk saved = { 0 }, held = { 0 };
    attention_saved(layer, &saved);
    attention_held(layer, &held);
    return (struct kind_sizes){
        .output_bytes = tensor,
        .saved_bytes = saved.bytes,
        .carried_bytes = layer_bytes(layer, rows * 3 * inner),
        .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes,
        .forward_workspace_bytes = tensor + round_to_256(mixing.forward),
        .input_workspace_bytes = layer_bytes(layer, rows * inner) + round_to_256(mixing.backward)
                                 + (layer->shape.dropout > 0 ? tensor : 0),
        .weight_workspace_bytes = tensor,
        .flops = 8 * rows * width * inner + 2 * rows * layer_positions(layer) * inner,
    };
}

static struct layer_norm attention_norm(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    return (struct layer_norm){
        .in = pass->input, .gain = weights.at[GAIN], .offset = weights.at[OFFSET],
        .rows = layer_rows(layer), .columns = layer->shape.out,
    };
}

static struct shard_part attention_forward_part(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_sum_part(layer, pass->workspace);
}

static void attention_forward(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    const struct layer_norm norm = attention_norm(layer, pass);
    const struct attention attention = attention_of(layer);
    const struct attention_saved saved = saved_of(layer, pass);
    struct walk work = { pass->workspace, 0 };
    struct values *normed = walk_values(&work, layer, rows * width), *branch = normed;
    void *mixing = walk_bytes(&work, inner_bytes(layer).forward);

    kernel_layer_norm(queue, &norm, normed, saved.mean, saved.rstd);
    project_in(layer, pass, &saved, normed);
    kernel_attention(queue, &attention, saved.mixed, saved.log_sums, saved.qkv, mixing);
    project(queue, branch, saved.mixed, weights.at[OUT], NULL, rows, inner, width);
}

static void attention_forward_end(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    kernel_add_branch(pass->queue, pass->output, pass->input, pass->workspace, weights.at[OUT_BIAS],
                      layer_rows(layer), layer->shape.out, layer_dropout(layer, pass));
}

static struct shard_part attention_input_part(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_sum_part(layer, attention_held(layer, &(struct walk){ pass->held, 0 }).normed_gradient);
}

static void attention_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    const struct attention_saved saved = saved_of(layer, pass);
    const struct attention_held held = attention_held(layer, &(struct walk){ pass->held, 0 });
    struct walk work = { pass->workspace, 0 };
    struct values *mixed_gradient = walk_values(&work, layer, rows * inner);
    void *mixing = walk_bytes(&work, inner_bytes(layer).backward);
    struct values *place = layer->shape.dropout > 0 ? walk_values(&work, layer, rows * width) : NULL;
    const struct values *gradient = gradient_behind_dropout(layer, pass, place);

    project_back(queue, mixed_gradient, gradient, weights.at[OUT], rows, inner, width);
    attend_back(layer, pass, &saved, held.qkv_gradient, mixed_gradient, mixing);
    project_back(queue, held.normed_gradient, held.qkv_gradient, weights.at[QKV], rows, width, 3 * inner);
    queue_copy(queue, held.mean, saved.mean, rows * sizeof(float));
    queue_copy(queue, held.rstd, saved.rstd, rows * sizeof(float));
    queue_copy(queue, held.mixed, saved.mixed, rows * inner * precision_bytes(layer->shape.precision));
}

static void attention_backward_input_end(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = attention_norm(layer, pass);
    const struct attention_held held = attention_held(layer, &(struct walk){ pass->held, 0 });
    kernel_layer_norm_backward_input(pass->queue, &norm, pass->input_gradient, held.normed_gradient,
                                     pass->output_gradient, held.mean, held.rstd);
}

static void attention_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const struct gradients gradients = layer_gradients(layer, pass->gradients);
    const struct layer_norm norm = attention_norm(layer, pass);
    const struct attention_held held = attention_held(layer, &(struct walk){ pass->held, 0 });
    const struct values *gradient = gradient_behind_dropout(layer, pass, pass->workspace);

    project_weight(queue, gradients.at[OUT], held.mixed, gradient, rows, inner, width);
    kernel_sum_columns(queue, gradients.at[OUT_BIAS], gradient, rows, width);
    struct values *normed = pass->workspace;  // the gradient behind the dropout is not needed any more
    kernel_layer_norm_again(queue, &norm, normed, held.mean, held.rstd);
    project_weight(queue, gradients.at[QKV], normed, held.qkv_gradient, rows, width, 3 * inner);
    kernel_sum_columns(queue, gradients.at[QKV_BIAS], held.qkv_gradient, rows, 3 * inner);
    kernel_layer_norm_backward_weight(queue, &norm, gradients.at[GAIN], gradients.at[OFFSET], held.normed_gradient,
                                      held.mean, held.rstd);
}

const struct layer_kind layer_attention = {
    .name = "attention",
    .tensors = attention_tensors,
    .ask = attention_ask,
    .sizes = attention_sizes,
    .forward = attention_forward,
    .forward_part = attention_forward_part,
    .forward_end = attention_forward_end,
    .backward_input = attention_backward_input,
    .input_part = attention_input_part,
    .backward_input_end = attention_backward_input_end,
    .backward_weight = attention_backward_weight,
};
