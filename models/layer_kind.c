#include "models/layer_kind.h"

struct kind_sizes plain_sizes(const struct layer *layer)
{
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_elements(layer)),
        .input = INPUT_NEVER,
    };
}

struct kind_sizes marked_sizes(const struct layer *layer)
{
    struct kind_sizes sizes = plain_sizes(layer);
    sizes.saved_bytes = round_to_256(layer_elements(layer));
    return sizes;
}

void do_nothing(const struct layer *layer, const struct layer_pass *pass)
{
    (void)layer;
    (void)pass;
}

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

void norm_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.in;
    tensor_add(tensors, count, (struct tensor){ .name = "norm.gain", .rows = 1, .columns = width, .start = START_ONE });
    tensor_add(tensors, count, (struct tensor){ .name = "norm.offset", .rows = 1, .columns = width });
}

struct layer_norm layer_norm_of(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    return (struct layer_norm){
        .in = pass->base.input, .gain = weights.at[NORM_GAIN], .offset = weights.at[NORM_OFFSET],
        .rows = layer_own_rows(layer), .columns = layer->shape.in,
    };
}

void norm_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = layer_norm_of(layer, pass);
    struct walk saved = { pass->base.saved, 0 };
    float *mean = walk_floats(&saved, norm.rows), *rstd = walk_floats(&saved, norm.rows);
    kernel_layer_norm(pass->base.queue, &norm, own_rows_of(layer, pass->base.workspace), mean, rstd);
}

void norm_again(const struct layer *layer, const struct layer_pass *pass, const float *mean, const float *rstd)
{
    const struct layer_norm norm = layer_norm_of(layer, pass);
    kernel_layer_norm_again(pass->base.queue, &norm, own_rows_of(layer, pass->base.workspace), mean, rstd);
}

void norm_backward_weight(const struct layer *layer, const struct layer_pass *pass,
                          const struct values *normed_gradient, const float *mean, const float *rstd)
{
    const struct layer_norm norm = layer_norm_of(layer, pass);
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    float *sums = normed_work(layer, pass->base.workspace).sums;
    float *gain = gradients.at[NORM_GAIN], *offset = gradients.at[NORM_OFFSET];
    if (sums) {
        queue_zero(pass->base.queue, sums, 2 * norm.columns * sizeof *sums);
        gain = sums;
        offset = sums + norm.columns;
    }
    kernel_layer_norm_backward_weight(pass->base.queue, &norm, gain, offset, normed_gradient, mean, rstd);
}

struct shard_part norm_gradients_part(const struct layer *layer, const struct layer_pass *pass)
{
    if (!layer_shares_rows(layer))
        return (struct shard_part){ 0 };
    float *sums = normed_work(layer, pass->base.workspace).sums;
    return (struct shard_part){ .numbers = sums, .count = 2 * layer->shape.in, .are_floats = true };
}

void norm_gradients_end(const struct layer *layer, const struct layer_pass *pass)
{
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const float *sums = normed_work(layer, pass->base.workspace).sums;
    const size_t width = layer->shape.in;
    if (!layer_shares_rows(layer))
        return;
    kernel_add_floats(pass->base.queue, gradients.at[NORM_GAIN], gradients.at[NORM_GAIN], sums, width);
    kernel_add_floats(pass->base.queue, gradients.at[NORM_OFFSET], gradients.at[NORM_OFFSET], sums + width, width);
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
