#include "models/layer_kind.h"

struct values *own_rows_of(const struct layer *layer, const void *numbers)
{
    return values_at(numbers, layer->shape.precision, layer_first_row(layer) * layer->shape.in);
}

struct shard_part gathered_rows(const struct layer *layer, void *numbers)
{
    if (!layer_shares_rows(layer))
        return (struct shard_part){ 0 };
    return (struct shard_part){ .numbers = numbers, .count = layer_rows(layer) * layer->shape.in,
                                .exchange = SHARD_ALL_GATHER };
}

struct shard_part summed_rows(const struct layer *layer, void *numbers)
{
    return (struct shard_part){ .numbers = numbers, .count = layer_rows(layer) * layer->shape.in,
                                .exchange = layer_shares_rows(layer) ? SHARD_REDUCE_SCATTER : SHARD_ALL_REDUCE };
}

struct shard_part workspace_gathered(const struct layer *layer, const struct layer_pass *pass)
{
    return gathered_rows(layer, pass->base.workspace);
}

struct shard_part workspace_summed(const struct layer *layer, const struct layer_pass *pass)
{
    return summed_rows(layer, pass->base.workspace);
}

void keep_own_rows(const struct layer *layer, const struct layer_pass *pass, struct values *kept,
                   const struct values *all)
{
    const size_t count = layer_own_rows(layer) * layer->shape.in;
    if (layer_shares_rows(layer))
        queue_copy(pass->base.queue, kept, own_rows_of(layer, all), count * precision_bytes(layer->shape.precision));
}

// The row of the whole micro-batch with which a member's own rows begin.
static size_t first_own_row(const struct layer *layer)
{
    return layer_samples(layer).first * layer->shape.sequence;
}

struct dropout dropout_of(const struct layer *layer, const struct layer_pass *pass)
{
    const uint32_t parts = layer_is_part(layer) ? pass->base.splits : 1;
    const uint32_t part = pass->base.micro_batch * parts + pass->base.split;
    return (struct dropout){
        .probability = pass->training ? layer->shape.dropout : 0,
        .first = (uint32_t)((layer_first_row(layer) + first_own_row(layer)) * layer->shape.out),
        .key = dropout_key(pass->seed, pass->base.step, part, layer->index),
    };
}

const struct values *gradient_behind_dropout(const struct layer *layer, const struct layer_pass *pass,
                                             struct values *place)
{
    const struct dropout dropout = dropout_of(layer, pass);
    if (dropout.probability <= 0)
        return pass->base.output_gradient;
    kernel_dropout(pass->base.queue, place, pass->base.output_gradient, layer_own_rows(layer) * layer->shape.out,
                   dropout);
    return place;
}

void own_gradient_behind_dropout(const struct layer *layer, const struct layer_pass *pass, struct values *all)
{
    struct values *rows = own_rows_of(layer, all);
    const size_t count = layer_own_rows(layer) * layer->shape.out;
    if (gradient_behind_dropout(layer, pass, rows) != rows)
        queue_copy(pass->base.queue, rows, pass->base.output_gradient, count * precision_bytes(layer->shape.precision));
}

struct normed_work normed_work(const struct layer *layer, const void *workspace)
{
    struct walk walk = { workspace, 0 };
    struct normed_work work = { .normed = walk_values(&walk, layer, layer_rows(layer) * layer->shape.in) };
    work.sums = layer_shares_rows(layer) ? walk_floats(&walk, 2 * layer->shape.in) : NULL;
    work.bytes = walk.bytes;
    return work;
}

struct norm_gradients norm_gradients_begin(const struct layer *layer, const struct layer_pass *pass,
                                           struct norm_gradients gradients, float *sums)
{
    if (!layer_shares_rows(layer))
        return gradients;
    queue_zero(pass->base.queue, sums, 2 * layer->shape.in * sizeof *sums);
    return (struct norm_gradients){ sums, sums + layer->shape.in };
}

struct shard_part norm_gradients_part(const struct layer *layer, const struct layer_pass *pass)
{
    if (!layer_shares_rows(layer))
        return (struct shard_part){ 0 };
    float *sums = normed_work(layer, pass->base.workspace).sums;
    return (struct shard_part){ .numbers = sums, .count = 2 * layer->shape.in, .are_floats = true };
}

void norm_gradients_end(const struct layer *layer, const struct layer_pass *pass, struct norm_gradients gradients)
{
    const float *sums = normed_work(layer, pass->base.workspace).sums;
    const size_t width = layer->shape.in;
    if (!layer_shares_rows(layer))
        return;
    kernel_add_floats(pass->base.queue, gradients.gain, gradients.gain, sums, width);
    kernel_add_floats(pass->base.queue, gradients.offset, gradients.offset, sums + width, width);
}

void project(struct queue *queue, struct values *out, const struct values *in, const struct values *weight,
             const struct values *bias, size_t rows, size_t in_width, size_t out_width)
{
    kernel_matmul(queue, &(struct matmul){
        .m = rows, .n = out_width, .k = in_width, .a = in, .b = weight, .c = out, .bias = bias,
    });
}

void project_back(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                  const struct values *weight, size_t rows, size_t in_width, size_t out_width)
{
    kernel_matmul(queue, &(struct matmul){
        .m = rows, .n = in_width, .k = out_width, .transpose_b = true,
        .a = out_gradient, .b = weight, .c = in_gradient,
    });
}

void project_weight(struct queue *queue, float *weight_gradient, const struct values *in,
                    const struct values *out_gradient, size_t rows, size_t in_width, size_t out_width)
{
    kernel_matmul(queue, &(struct matmul){
        .m = in_width, .n = out_width, .k = rows, .transpose_a = true,
        .a = in, .b = out_gradient, .sums = weight_gradient,
    });
}
