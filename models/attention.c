// The first half of a block:
//
//     output = input + dropout(attention(norm(input) QKV + bias) OUT + bias)
//
// QKV and the result of attention are saved. The probabilities are not: they are recomputed from the log of their
// sums. Neither is the normed input, which is recomputed from mean and rstd.
//
// A shard has some of the heads: their columns of Q, of K and of V, and their rows of OUT.
//
// With a pattern a query sees a window of the last tokens, and further ones (device/attention_pattern.h).
//
// If sequences come in parts, these share QKV (the KV cache, and Q) and its gradient. In the backward a part adds
// to the gradients of the keys and values that it attends to. It then takes its own rows, to which no other part adds
// any more.
#include <math.h>

#include "models/half_block.h"

static void attention_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    static const char *const names[] = { "qkv.weight", "qkv.bias", "out.weight", "out.bias" };
    half_tensors(layer, names, tensors, count);
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
        project(pass->base.queue, saved->qkv, normed, weights.at[HALF_FIRST], weights.at[HALF_FIRST_BIAS],
                layer_rows(layer), width, 3 * inner);
        return;
    }
    for (size_t i = 0; i < layer->shape.batch; i++)
        project(pass->base.queue, own_positions(layer, pass->base.shared_by_parts, i),
                values_at(normed, layer->shape.precision, i * rows * width), weights.at[HALF_FIRST],
                weights.at[HALF_FIRST_BIAS], rows, width, 3 * inner);
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

// Workspace of I, including that of attention itself. It has a place for the gradient after dropout, unless that is
// gathered. Shards that share rows have the gradient of all normed rows where attention's workspace was.
struct attention_work {
    struct values *mixed_gradient, *gradient;
    void *mixing;
    uint64_t bytes;
};

static struct attention_work attention_work(const struct layer *layer, const void *workspace)
{
    const uint64_t tensor = layer_rows(layer) * layer->shape.out;
    struct walk walk = { workspace, 0 };
    struct attention_work work = { .mixed_gradient = walk_values(&walk, layer, layer_share(layer, tensor)) };
    work.mixing = walk_bytes(&walk, inner_bytes(layer).backward);
    if (!layer_shares_rows(layer) && layer->shape.dropout > 0)
        work.gradient = walk_values(&walk, layer, tensor);
    work.bytes = layer_shares_rows(layer) ? max_u64(walk.bytes, layer_bytes(layer, tensor)) : walk.bytes;
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
    struct kind_sizes sizes = half_sizes(layer);
    struct walk saved = { 0 };
    attention_saved(layer, &saved);
    sizes.saved_bytes = saved.bytes;
    sizes.shared_by_parts_bytes = layer_bytes(layer, rows * 3 * inner);
    sizes.forward_workspace_bytes = layer_bytes(layer, rows * width) + round_to_256(inner_bytes(layer).forward);
    sizes.input_workspace_bytes = attention_work(layer, NULL).bytes;
    sizes.flops += attention_flops(layer, rows, inner);
    return sizes;
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
    project(queue, branch, saved.mixed, weights.at[HALF_SECOND], NULL, rows, inner, width);
}

static void multiply_back(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t numbers = layer_rows(layer) * layer_share(layer, layer->shape.out);
    const struct attention_saved saved = saved_of(layer, pass);
    const struct half_held held = half_held(layer, pass);
    const struct attention_work work = attention_work(layer, pass->base.workspace);
    half_back_through_second(layer, pass, work.mixed_gradient, work.gradient);
    attend_back(layer, pass, &saved, held.first_gradient, work.mixed_gradient, work.mixing);
    half_back_through_first(layer, pass);
    queue_copy(pass->base.queue, held.between, saved.mixed, numbers * precision_bytes(layer->shape.precision));
}

static size_t head_count(const struct layer *layer)
{
    return layer->shape.heads;
}

const struct layer_kind layer_attention = {
    .name = "attention",
    .shared = "heads",
    .shared_count = head_count,
    .is_attention = true,
    .tensors = attention_tensors,
    .ask = attention_ask,
    .sizes = attention_sizes,
    .forward = { { norm_forward, workspace_gathered }, { multiply, workspace_summed }, { half_end_forward, NULL } },
    .backward_input = { { half_begin_input, half_gathered }, { multiply_back, half_summed },
                        { half_end_input, NULL } },
    .backward_weight = { { half_begin_weight, workspace_gathered }, { half_end_weight, norm_gradients_part },
                         { norm_gradients_end, NULL } },
};
