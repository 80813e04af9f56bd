// The second half of a block, four times as wide inside:
//
//     output = input + dropout(gelu(norm(input) UP + bias) DOWN + bias)
//
// Kept is the wide tensor before its GELU, which is made again in the same pass that
// gives its slope.
//
// A shard has some of UP's columns, and as many of DOWN's rows.
#include <math.h>

#include "models/layer_kind.h"

enum { GAIN, OFFSET, UP, UP_BIAS, DOWN, DOWN_BIAS };

static void mlp_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const float end = 0.02f / sqrtf((float)layer->shape.branches);
    tensor_add(tensors, count, (struct tensor){ .name = "norm.gain", .rows = 1, .columns = width, .start = START_ONE });
    tensor_add(tensors, count, (struct tensor){ .name = "norm.offset", .rows = 1, .columns = width });
    tensor_add(tensors, count, (struct tensor){ .name = "up.weight", .rows = width, .columns = wide,
                                                .split = SPLIT_COLUMNS, .parts = 1,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = "up.bias", .rows = 1, .columns = wide,
                                                .split = SPLIT_COLUMNS, .parts = 1 });
    tensor_add(tensors, count, (struct tensor){ .name = "down.weight", .rows = wide, .columns = width,
                                                .split = SPLIT_ROWS,
                                                .start = START_NORMAL, .deviation = end, .decays = true });
    tensor_add(tensors, count, (struct tensor){ .name = "down.bias", .rows = 1, .columns = width });
}

struct mlp_saved {
    float *mean, *rstd;
    struct values *wide;
};

static struct mlp_saved mlp_saved(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), wide = layer_share(layer, 4 * layer->shape.out);
    struct mlp_saved saved;
    saved.mean = walk_floats(walk, rows);
    saved.rstd = walk_floats(walk, rows);
    saved.wide = walk_values(walk, layer, rows * wide);
    return saved;
}

// For W: of the two products, their inputs and gradients.
struct mlp_held {
    float *mean, *rstd;
    struct values *bent, *wide_gradient, *normed_gradient;
};

static struct mlp_held mlp_held(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    struct mlp_held held;
    held.mean = walk_floats(walk, rows);
    held.rstd = walk_floats(walk, rows);
    held.bent = walk_values(walk, layer, rows * wide);
    held.wide_gradient = walk_values(walk, layer, rows * wide);
    held.normed_gradient = walk_values(walk, layer, rows * width);
    return held;
}

static struct kind_sizes mlp_sizes(const struct layer *layer)
{
    const uint64_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const uint64_t tensor = layer_bytes(layer, rows * width);
    struct walk saved = { 0 }, held = { 0 };
    mlp_saved(layer, &saved);
    mlp_held(layer, &held);
    return (struct kind_sizes){
        .output_bytes = tensor,
        .saved_bytes = saved.bytes,
        .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes,
        .forward_workspace_bytes = tensor + layer_bytes(layer, rows * wide),
        .input_workspace_bytes = layer->shape.dropout > 0 ? tensor : 0,
        .weight_workspace_bytes = tensor,
        .flops = 4 * rows * width * wide,
    };
}

static struct layer_norm mlp_norm(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    return (struct layer_norm){
        .in = pass->input, .gain = weights.at[GAIN], .offset = weights.at[OFFSET],
        .rows = layer_rows(layer), .columns = layer->shape.out,
    };
}

static struct shard_part mlp_forward_part(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_sum_part(layer, pass->workspace);
}

static void mlp_forward(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    const struct layer_norm norm = mlp_norm(layer, pass);
    const struct mlp_saved saved = mlp_saved(layer, &(struct walk){ pass->saved, 0 });
    struct walk work = { pass->workspace, 0 };
    struct values *normed = walk_values(&work, layer, rows * width), *branch = normed;
    struct values *bent = walk_values(&work, layer, rows * wide);

    kernel_layer_norm(queue, &norm, normed, saved.mean, saved.rstd);
    kernel_matmul(queue, &(struct matmul){
        .m = rows, .n = wide, .k = width, .a = normed, .b = weights.at[UP], .c = bent,
        .bias = weights.at[UP_BIAS], .before_gelu = saved.wide,
    });
    project(queue, branch, bent, weights.at[DOWN], NULL, rows, wide, width);
}

static void mlp_forward_end(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    kernel_add_branch(pass->queue, pass->output, pass->input, pass->workspace, weights.at[DOWN_BIAS],
                      layer_rows(layer), layer->shape.out, layer_dropout(layer, pass));
}

static struct shard_part mlp_input_part(const struct layer *layer, const struct layer_pass *pass)
{
    return layer_sum_part(layer, mlp_held(layer, &(struct walk){ pass->held, 0 }).normed_gradient);
}

static void mlp_backward_input(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const struct parameters weights = layer_parameters(layer, pass->parameters);
    const struct mlp_saved saved = mlp_saved(layer, &(struct walk){ pass->saved, 0 });
    const struct mlp_held held = mlp_held(layer, &(struct walk){ pass->held, 0 });
    const struct values *gradient = gradient_behind_dropout(layer, pass, pass->workspace);

    project_back(queue, held.wide_gradient, gradient, weights.at[DOWN], rows, wide, width);
    kernel_gelu_backward(queue, held.wide_gradient, held.bent, held.wide_gradient, saved.wide, rows * wide);
    project_back(queue, held.normed_gradient, held.wide_gradient, weights.at[UP], rows, width, wide);
    queue_copy(queue, held.mean, saved.mean, rows * sizeof(float));
    queue_copy(queue, held.rstd, saved.rstd, rows * sizeof(float));
}

static void mlp_backward_input_end(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = mlp_norm(layer, pass);
    const struct mlp_held held = mlp_held(layer, &(struct walk){ pass->held, 0 });
    kernel_layer_norm_backward_input(pass->queue, &norm, pass->input_gradient, held.normed_gradient,
                                     pass->output_gradient, held.mean, held.rstd);
}

static void mlp_backward_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const struct gradients gradients = layer_gradients(layer, pass->gradients);
    const struct layer_norm norm = mlp_norm(layer, pass);
    const struct mlp_held held = mlp_held(layer, &(struct walk){ pass->held, 0 });
    const struct values *gradient = gradient_behind_dropout(layer, pass, pass->workspace);

    project_weight(queue, gradients.at[DOWN], held.bent, gradient, rows, wide, width);
    kernel_sum_columns(queue, gradients.at[DOWN_BIAS], gradient, rows, width);
    struct values *normed = pass->workspace;  // the gradient behind the dropout is not needed any more
    kernel_layer_norm_again(queue, &norm, normed, held.mean, held.rstd);
    project_weight(queue, gradients.at[UP], normed, held.wide_gradient, rows, width, wide);
    kernel_sum_columns(queue, gradients.at[UP_BIAS], held.wide_gradient, rows, wide);
    kernel_layer_norm_backward_weight(queue, &norm, gradients.at[GAIN], gradients.at[OFFSET], held.normed_gradient,
                                      held.mean, held.rstd);
}

const struct layer_kind layer_mlp = {
    .name = "mlp",
    .tensors = mlp_tensors,
    .sizes = mlp_sizes,
    .forward = mlp_forward,
    .forward_part = mlp_forward_part,
    .forward_end = mlp_forward_end,
    .backward_input = mlp_backward_input,
    .input_part = mlp_input_part,
    .backward_input_end = mlp_backward_input_end,
    .backward_weight = mlp_backward_weight,
};
