// The first half of a block:
//
//     output = input + dropout(attention(norm(input) QKV + bias) OUT + bias)
//
// QKV and the result of attention are saved. The probabilities are not: they are recomputed from the log of their
// sums. Neither is the normed input, which is recomputed from mean and rstd.
//
// A shard has some of the heads: their columns of Q, of K and of V, and their rows of OUT. A shard that shares rows
// has the norm and the residual of its own rows only. The input of a product is gathered, and its output summed and
// scattered.
//
// With a pattern a query sees a window of the last tokens, and further ones (device/attention_pattern.h).
//
// If sequences come in parts, these share QKV (the KV cache, and Q) and its gradient. In the backward a part adds
// to the gradients of the keys and values that it attends to. It then takes its own rows, to which no other part adds
// any more.
#include <math.h>

#include "models/layer_kind.h"

enum { QKV = NORM_TENSORS, QKV_BIAS, OUT, OUT_BIAS };

static void attention_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.out, inner = layer_share(layer, width);
    const float end = 0.02f / sqrtf((float)layer->shape.branches);
    norm_tensors(layer, tensors, count);
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
        .pattern = shape->pattern,
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
    const uint64_t bytes = attention_workspace_bytes(&attention);
    return layer->has_asked ? layer->attention : (struct attention_bytes){ bytes, bytes };
}

struct attention_saved {
    float *mean, *rstd, *log_sums;
    struct values *qkv, *mixed;
};

static struct attention_saved attention_saved(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), inner = layer_share(layer, layer->shape.out);
    struct attention_saved saved;
    saved.mean = walk_floats(walk, layer_own_rows(layer));
    saved.rstd = walk_floats(walk, layer_own_rows(layer));
    saved.qkv = layer_is_part(layer) ? NULL : walk_values(walk, layer, rows * 3 * inner);
    saved.mixed = walk_values(walk, layer, rows * inner);
    saved.log_sums = walk_floats(walk, rows * layer_share(layer, layer->shape.heads));
    return saved;
}

static struct attention_saved saved_of(const struct layer *layer, const struct layer_pass *pass)
{
    struct attention_saved saved = attention_saved(layer, &(struct walk){ pass->base.saved, 0 });
    if (layer_is_part(layer))
        saved.qkv = pass->base.shared_by_parts;
    return saved;
}

// The positions of a part in one sequence of the QKV that parts share.
static struct values *own_positions(const struct layer *layer, const void *kv_cache, size_t sequence)
{
    const size_t row = sequence * layer->shape.whole + layer->shape.first;
    return values_at(kv_cache, layer->shape.precision, row * 3 * layer_share(layer, layer->shape.out));
}

// Computes QKV, sequence by sequence if parts share it.
static void project_in(const struct layer *layer, const struct layer_pass *pass, const struct attention_saved *saved,
                       const struct values *normed)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const size_t width = layer->shape.out, inner = layer_share(layer, width), rows = layer->shape.sequence;
    if (!layer_is_part(layer)) {
        project(pass->base.queue, saved->qkv, normed, weights.at[QKV], weights.at[QKV_BIAS], layer_rows(layer), width,
                3 * inner);
        return;
    }
    for (size_t i = 0; i < layer->shape.batch; i++)
        project(pass->base.queue, own_positions(layer, pass->base.shared_by_parts, i),
                values_at(normed, layer->shape.precision, i * rows * width), weights.at[QKV], weights.at[QKV_BIAS],
                rows, width, 3 * inner);
}

// The backward through attention itself, to the gradient of this pass's QKV.
static void attend_back(const struct layer *layer, const struct layer_pass *pass, const struct attention_saved *saved,
                        struct values *qkv_gradient, const struct values *mixed_gradient, void *mixing)
{
    const struct attention attention = attention_of(layer);
    const size_t numbers = layer->shape.sequence * 3 * layer_share(layer, layer->shape.out);
    struct values *all = layer_is_part(layer) ? pass->base.shared_by_parts_gradient : qkv_gradient;
    kernel_attention_backward(pass->base.queue, &attention, all, mixed_gradient, saved->mixed, saved->log_sums,
                              saved->qkv, mixing);
    for (size_t i = 0; layer_is_part(layer) && i < layer->shape.batch; i++)
        queue_copy(pass->base.queue, values_at(qkv_gradient, layer->shape.precision, i * numbers),
                   own_positions(layer, all, i),
                   numbers * precision_bytes(layer->shape.precision));
}

// For W: the inputs and output gradients of the two products, before and after attention. Shards that share rows have
// gathered the gradient of the second product's output.
struct attention_held {
    float *mean, *rstd;
    struct values *mixed, *qkv_gradient, *normed_gradient, *gathered;
};

static struct attention_held attention_held(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const size_t normed_rows = layer_own_rows(layer);
    struct attention_held held;
    held.mean = walk_floats(walk, normed_rows);
    held.rstd = walk_floats(walk, normed_rows);
    held.mixed = walk_values(walk, layer, rows * inner);
    held.qkv_gradient = walk_values(walk, layer, rows * 3 * inner);
    held.normed_gradient = walk_values(walk, layer, normed_rows * width);
    held.gathered = layer_shares_rows(layer) ? walk_values(walk, layer, rows * width) : NULL;
    return held;
}

// Workspace of I, including that of attention itself. It has a place for the gradient after dropout, unless that is
// gathered.
struct attention_work {
    struct values *mixed_gradient, *gradient;
    void *mixing;
    struct values *normed_gradient;  // of all rows, where attention's workspace was; for shards that share rows
    uint64_t bytes;
};

static struct attention_work attention_work(const struct layer *layer, const void *workspace)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out;
    struct walk walk = { workspace, 0 }, after = { workspace, 0 };
    struct attention_work work = { .mixed_gradient = walk_values(&walk, layer, rows * layer_share(layer, width)) };
    work.mixing = walk_bytes(&walk, inner_bytes(layer).backward);
    if (layer_shares_rows(layer))
        work.normed_gradient = walk_values(&after, layer, rows * width);
    else if (layer->shape.dropout > 0)
        work.gradient = walk_values(&walk, layer, rows * width);
    work.bytes = max_u64(walk.bytes, after.bytes);
    return work;
}

// Pairs of a query and a key, all heads together as wide as `inner`: 4 operations for each pair and number. Without a
// pattern they are taken to be half of all, in every part of a sequence.
static uint64_t attention_flops(const struct layer *layer, uint64_t rows, uint64_t inner)
{
    const struct attention attention = attention_of(layer);
    if (attention_is_plain(&attention))
        return 2 * rows * layer_positions(layer) * inner;
    const size_t end = attention.first + attention.sequence;
    const uint64_t pairs = attention_pairs(&attention.pattern, end)
                         - attention_pairs(&attention.pattern, attention.first);
    return 4 * attention.batch * pairs * inner;
}

static struct kind_sizes attention_sizes(const struct layer *layer)
{
    const uint64_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const uint64_t tensor = layer_bytes(layer, rows * width);
    struct walk saved = { 0 }, held = { 0 };
    attention_saved(layer, &saved);
    attention_held(layer, &held);
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_own_rows(layer) * width),
        .saved_bytes = saved.bytes,
        .shared_by_parts_bytes = layer_bytes(layer, rows * 3 * inner),
        .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes,
        .forward_workspace_bytes = tensor + round_to_256(inner_bytes(layer).forward),
        .input_workspace_bytes = attention_work(layer, NULL).bytes,
        .weight_workspace_bytes = normed_work(layer, NULL).bytes,
        .flops = 8 * rows * width * inner + attention_flops(layer, rows, inner),
    };
}

static void multiply(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct attention attention = attention_of(layer);
    const struct attention_saved saved = saved_of(layer, pass);
    struct walk work = { pass->base.workspace, 0 };
    struct values *normed = walk_values(&work, layer, rows * width), *branch = normed;
    void *mixing = walk_bytes(&work, inner_bytes(layer).forward);

    project_in(layer, pass, &saved, normed);
    kernel_attention(queue, &attention, saved.mixed, saved.log_sums, saved.qkv, mixing);
    project(queue, branch, saved.mixed, weights.at[OUT], NULL, rows, inner, width);
}

static void end_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    kernel_add_branch(pass->base.queue, pass->base.output, pass->base.input, own_rows_of(layer, pass->base.workspace),
                      weights.at[OUT_BIAS], layer_own_rows(layer), layer->shape.out, dropout_of(layer, pass));
}

static struct attention_held held_of(const struct layer *layer, const struct layer_pass *pass)
{
    return attention_held(layer, &(struct walk){ pass->base.held, 0 });
}

static void begin_input(const struct layer *layer, const struct layer_pass *pass)
{
    if (layer_shares_rows(layer))
        own_gradient_behind_dropout(layer, pass, held_of(layer, pass).gathered);
}

static struct shard_part input_gathered(const struct layer *layer, const struct layer_pass *pass)
{
    return gathered_rows(layer, held_of(layer, pass).gathered);
}

// The place for the gradient of the normed input, of all rows.
static struct values *normed_gradient_of(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_shares_rows(layer) ? attention_work(layer, pass->base.workspace).normed_gradient
                                    : held_of(layer, pass).normed_gradient;
}

static void multiply_back(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct attention_saved saved = saved_of(layer, pass);
    const struct attention_held held = held_of(layer, pass);
    const struct attention_work work = attention_work(layer, pass->base.workspace);
    const struct values *gradient
        = layer_shares_rows(layer) ? held.gathered : gradient_behind_dropout(layer, pass, work.gradient);

    project_back(queue, work.mixed_gradient, gradient, weights.at[OUT], rows, inner, width);
    attend_back(layer, pass, &saved, held.qkv_gradient, work.mixed_gradient, work.mixing);
    project_back(queue, normed_gradient_of(layer, pass), held.qkv_gradient, weights.at[QKV], rows, width, 3 * inner);
    queue_copy(queue, held.mean, saved.mean, layer_own_rows(layer) * sizeof(float));
    queue_copy(queue, held.rstd, saved.rstd, layer_own_rows(layer) * sizeof(float));
    queue_copy(queue, held.mixed, saved.mixed, rows * inner * precision_bytes(layer->shape.precision));
}

static struct shard_part input_summed(const struct layer *layer, const struct layer_pass *pass)
{
    return summed_rows(layer, normed_gradient_of(layer, pass));
}

static void end_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = layer_norm_of(layer, pass);
    const struct attention_held held = held_of(layer, pass);
    keep_own_rows(layer, pass, held.normed_gradient, normed_gradient_of(layer, pass));
    kernel_layer_norm_backward_input(pass->base.queue, &norm, pass->base.input_gradient, held.normed_gradient,
                                     pass->base.output_gradient, held.mean, held.rstd);
}

static void begin_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct attention_held held = held_of(layer, pass);
    const struct values *gradient
        = layer_shares_rows(layer) ? held.gathered : gradient_behind_dropout(layer, pass, pass->base.workspace);

    project_weight(queue, gradients.at[OUT], held.mixed, gradient, rows, inner, width);
    kernel_sum_columns(queue, gradients.at[OUT_BIAS], gradient, rows, width);
    // The normed input overwrites the gradient after dropout, which is no longer needed.
    norm_again(layer, pass, held.mean, held.rstd);
}

static void multiply_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer_share(layer, width);
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct attention_held held = held_of(layer, pass);
    const struct normed_work work = normed_work(layer, pass->base.workspace);

    project_weight(queue, gradients.at[QKV], work.normed, held.qkv_gradient, rows, width, 3 * inner);
    kernel_sum_columns(queue, gradients.at[QKV_BIAS], held.qkv_gradient, rows, 3 * inner);
    norm_backward_weight(layer, pass, held.normed_gradient, held.mean, held.rstd);
}

static size_t head_count(const struct layer *layer)
{
    return layer->shape.heads;
}

const struct layer_kind layer_attention = {
    .name = "attention",
    .shared = "heads",
    .shared_count = head_count,
    .tensors = attention_tensors,
    .ask = attention_ask,
    .sizes = attention_sizes,
    .forward = { { norm_forward, workspace_gathered }, { multiply, workspace_summed }, { end_forward, NULL } },
    .backward_input = { { begin_input, input_gathered }, { multiply_back, input_summed }, { end_input, NULL } },
    .backward_weight = { { begin_weight, workspace_gathered }, { multiply_weight, norm_gradients_part },
                         { norm_gradients_end, NULL } },
};
