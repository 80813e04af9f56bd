#include "models/half_block.h"

#include <math.h>

struct half_widths half_widths(const struct layer *layer)
{
    const size_t width = layer->shape.out;
    if (layer->kind->is_attention)
        return (struct half_widths){ 3 * layer_share(layer, width), layer_share(layer, width) };
    return (struct half_widths){ layer_share(layer, 4 * width), layer_share(layer, 4 * width) };
}

void half_tensors(const struct layer *layer, const char *const names[4], struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.out;
    const struct half_widths widths = half_widths(layer);
    const size_t parts = widths.first / widths.second;
    const float end = 0.02f / sqrtf((float)layer->shape.branches);
    norm_tensors(layer, tensors, count);
    tensor_add(tensors, count, (struct tensor){ .name = names[0], .rows = width, .columns = widths.first,
                                                .split = SPLIT_COLUMNS, .parts = parts,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = names[1], .rows = 1, .columns = widths.first,
                                                .split = SPLIT_COLUMNS, .parts = parts });
    tensor_add(tensors, count, (struct tensor){ .name = names[2], .rows = widths.second, .columns = width,
                                                .split = SPLIT_ROWS,
                                                .start = START_NORMAL, .deviation = end, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = names[3], .rows = 1, .columns = width });
}

static struct half_held held_in(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), own_rows = layer_own_rows(layer), width = layer->shape.out;
    const struct half_widths widths = half_widths(layer);
    struct half_held held;
    held.mean = walk_floats(walk, own_rows);
    held.rstd = walk_floats(walk, own_rows);
    held.between = walk_values(walk, layer, rows * widths.second);
    held.first_gradient = walk_values(walk, layer, rows * widths.first);
    held.normed_gradient = walk_values(walk, layer, own_rows * width);
    held.gathered = layer_shares_rows(layer) ? walk_values(walk, layer, rows * width) : NULL;
    return held;
}

struct half_held half_held(const struct layer *layer, const struct layer_pass *pass)
{
    return held_in(layer, &(struct walk){ pass->base.held, 0 });
}

struct kind_sizes half_sizes(const struct layer *layer)
{
    const struct half_widths widths = half_widths(layer);
    const uint64_t width = layer->shape.out;
    struct walk held = { 0 };
    held_in(layer, &held);
    return (struct kind_sizes){
        .output_bytes = layer_bytes(layer, layer_own_rows(layer) * width),
        .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes,
        .weight_workspace_bytes = normed_work(layer, NULL).bytes,
        .flops = 2 * layer_rows(layer) * width * (widths.first + widths.second),
    };
}

void half_end_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    kernel_add_branch(pass->base.queue, pass->base.output, pass->base.input, own_rows_of(layer, pass->base.workspace),
                      weights.at[HALF_SECOND_BIAS], layer_own_rows(layer), layer->shape.out, dropout_of(layer, pass));
}

// --- backward ----------------------------------------------------------------------

void half_begin_input(const struct layer *layer, const struct layer_pass *pass)
{
    if (layer_shares_rows(layer))
        own_gradient_behind_dropout(layer, pass, half_held(layer, pass).gathered);
}

struct shard_part half_gathered(const struct layer *layer, const struct layer_pass *pass)
{
    return gathered_rows(layer, half_held(layer, pass).gathered);
}

// The gradient of the second product's output, of all rows.
static const struct values *second_gradient(const struct layer *layer, const struct layer_pass *pass,
                                            struct values *place)
{
    return layer_shares_rows(layer) ? half_held(layer, pass).gathered : gradient_behind_dropout(layer, pass, place);
}

// The place for the gradient of the normed input, of all rows.
static struct values *normed_gradient_of(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_shares_rows(layer) ? pass->base.workspace : half_held(layer, pass).normed_gradient;
}

void half_back_through_second(const struct layer *layer, const struct layer_pass *pass, struct values *between_gradient,
                              struct values *place)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    project_back(pass->base.queue, between_gradient, second_gradient(layer, pass, place), weights.at[HALF_SECOND],
                 layer_rows(layer), half_widths(layer).second, layer->shape.out);
}

void half_back_through_first(const struct layer *layer, const struct layer_pass *pass)
{
    const uint64_t bytes = layer_own_rows(layer) * sizeof(float);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct half_held held = half_held(layer, pass);
    struct walk saved = { pass->base.saved, 0 };
    project_back(pass->base.queue, normed_gradient_of(layer, pass), held.first_gradient, weights.at[HALF_FIRST],
                 layer_rows(layer), layer->shape.out, half_widths(layer).first);
    queue_copy(pass->base.queue, held.mean, walk_bytes(&saved, bytes), bytes);
    queue_copy(pass->base.queue, held.rstd, walk_bytes(&saved, bytes), bytes);
}

struct shard_part half_summed(const struct layer *layer, const struct layer_pass *pass)
{
    return summed_rows(layer, normed_gradient_of(layer, pass));
}

void half_end_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = layer_norm_of(layer, pass);
    const struct half_held held = half_held(layer, pass);
    keep_own_rows(layer, pass, held.normed_gradient, normed_gradient_of(layer, pass));
    kernel_layer_norm_backward_input(pass->base.queue, &norm, pass->base.input_gradient, held.normed_gradient,
                                     pass->base.output_gradient, held.mean, held.rstd);
}

void half_begin_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out;
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct half_held held = half_held(layer, pass);
    const struct values *gradient = second_gradient(layer, pass, pass->base.workspace);
    project_weight(pass->base.queue, gradients.at[HALF_SECOND], held.between, gradient, rows,
                   half_widths(layer).second, width);
    kernel_sum_columns(pass->base.queue, gradients.at[HALF_SECOND_BIAS], gradient, rows, width);
    // The normed input overwrites the gradient after dropout, which is no longer needed.
    norm_again(layer, pass, held.mean, held.rstd);
}

void half_end_weight(const struct layer *layer, const struct layer_pass *pass)
{
    const size_t rows = layer_rows(layer), first = half_widths(layer).first;
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct half_held held = half_held(layer, pass);
    const struct values *normed = normed_work(layer, pass->base.workspace).normed;
    project_weight(pass->base.queue, gradients.at[HALF_FIRST], normed, held.first_gradient, rows, layer->shape.out,
                   first);
    kernel_sum_columns(pass->base.queue, gradients.at[HALF_FIRST_BIAS], held.first_gradient, rows, first);
    norm_backward_weight(layer, pass, held.normed_gradient, held.mean, held.rstd);
}
