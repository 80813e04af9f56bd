// The second half of a block, four times as wide inside:
//
//     output = input + dropout(gelu(norm(input) UP + bias) DOWN + bias)
//
// The wide tensor before its GELU is saved. The GELU is computed again in the pass that computes its slope.
//
// A shard has some of UP's columns, and equally many of DOWN's rows. A shard that shares rows has the norm and the
// residual of its own rows only, as in attention.
#include <math.h>

#include "models/layer_kind.h"

enum { UP = NORM_TENSORS, UP_BIAS, DOWN, DOWN_BIAS };

static void mlp_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const float end = 0.02f / sqrtf((float)layer->shape.branches);
    norm_tensors(layer, tensors, count);
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
    saved.mean = walk_floats(walk, layer_own_rows(layer));
    saved.rstd = walk_floats(walk, layer_own_rows(layer));
    saved.wide = walk_values(walk, layer, rows * wide);
    return saved;
}

// For W: the inputs and output gradients of the two products. `bent` is the output of the GELU. Shards that share
// rows have gathered the gradient of the second product's output.
struct mlp_held {
    float *mean, *rstd;
    struct values *bent, *wide_gradient, *normed_gradient, *gathered;
};

static struct mlp_held mlp_held(const struct layer *layer, struct walk *walk)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const size_t normed_rows = layer_own_rows(layer);
    struct mlp_held held;
    held.mean = walk_floats(walk, normed_rows);
    held.rstd = walk_floats(walk, normed_rows);
    held.bent = walk_values(walk, layer, rows * wide);
    held.wide_gradient = walk_values(walk, layer, rows * wide);
    held.normed_gradient = walk_values(walk, layer, normed_rows * width);
    held.gathered = layer_shares_rows(layer) ? walk_values(walk, layer, rows * width) : NULL;
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
        .output_bytes = layer_bytes(layer, layer_own_rows(layer) * width),
        .saved_bytes = saved.bytes,
        .input = INPUT_FOR_BOTH,
        .held_bytes = held.bytes,
        .forward_workspace_bytes = tensor + layer_bytes(layer, rows * wide),
        .input_workspace_bytes = layer_shares_rows(layer) || layer->shape.dropout > 0 ? tensor : 0,
        .weight_workspace_bytes = normed_work(layer, NULL).bytes,
        .flops = 4 * rows * width * wide,
    };
}

static struct mlp_saved saved_of(const struct layer *layer, const struct layer_pass *pass)
{
    return mlp_saved(layer, &(struct walk){ pass->base.saved, 0 });
}

static struct mlp_held held_of(const struct layer *layer, const struct layer_pass *pass)
{
    return mlp_held(layer, &(struct walk){ pass->base.held, 0 });
}

static void multiply(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct mlp_saved saved = saved_of(layer, pass);
    struct walk work = { pass->base.workspace, 0 };
    struct values *normed = walk_values(&work, layer, rows * width), *branch = normed;
    struct values *bent = walk_values(&work, layer, rows * wide);

    kernel_matmul(queue, &(struct matmul){
        .m = rows, .n = wide, .k = width, .a = normed, .b = weights.at[UP], .c = bent,
        .bias = weights.at[UP_BIAS], .before_gelu = saved.wide,
    });
    project(queue, branch, bent, weights.at[DOWN], NULL, rows, wide, width);
}

static void end_forward(const struct layer *layer, const struct layer_pass *pass)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    kernel_add_branch(pass->base.queue, pass->base.output, pass->base.input, own_rows_of(layer, pass->base.workspace),
                      weights.at[DOWN_BIAS], layer_own_rows(layer), layer->shape.out, dropout_of(layer, pass));
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
    return layer_shares_rows(layer) ? pass->base.workspace : held_of(layer, pass).normed_gradient;
}

static void multiply_back(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct mlp_saved saved = saved_of(layer, pass);
    const struct mlp_held held = held_of(layer, pass);
    const struct values *gradient
        = layer_shares_rows(layer) ? held.gathered : gradient_behind_dropout(layer, pass, pass->base.workspace);

    project_back(queue, held.wide_gradient, gradient, weights.at[DOWN], rows, wide, width);
    kernel_gelu_backward(queue, held.wide_gradient, held.bent, held.wide_gradient, saved.wide, rows * wide);
    project_back(queue, normed_gradient_of(layer, pass), held.wide_gradient, weights.at[UP], rows, width, wide);
    queue_copy(queue, held.mean, saved.mean, layer_own_rows(layer) * sizeof(float));
    queue_copy(queue, held.rstd, saved.rstd, layer_own_rows(layer) * sizeof(float));
}

static struct shard_part input_summed(const struct layer *layer, const struct layer_pass *pass)
{
    return summed_rows(layer, normed_gradient_of(layer, pass));
}

static void end_input(const struct layer *layer, const struct layer_pass *pass)
{
    const struct layer_norm norm = layer_norm_of(layer, pass);
    const struct mlp_held held = held_of(layer, pass);
    keep_own_rows(layer, pass, held.normed_gradient, normed_gradient_of(layer, pass));
    kernel_layer_norm_backward_input(pass->base.queue, &norm, pass->base.input_gradient, held.normed_gradient,
                                     pass->base.output_gradient, held.mean, held.rstd);
}

static void begin_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct mlp_held held = held_of(layer, pass);
    const struct values *gradient
        = layer_shares_rows(layer) ? held.gathered : gradient_behind_dropout(layer, pass, pass->base.workspace);

    project_weight(queue, gradients.at[DOWN], held.bent, gradient, rows, wide, width);
    kernel_sum_columns(queue, gradients.at[DOWN_BIAS], gradient, rows, width);
    // The normed input overwrites the gradient after dropout, which is no longer needed.
    norm_again(layer, pass, held.mean, held.rstd);
}

static void multiply_weight(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = layer_share(layer, 4 * width);
    const struct gradients gradients = layer_gradients(layer, pass->base.gradients);
    const struct mlp_held held = held_of(layer, pass);
    const struct normed_work work = normed_work(layer, pass->base.workspace);

    project_weight(queue, gradients.at[UP], work.normed, held.wide_gradient, rows, width, wide);
    kernel_sum_columns(queue, gradients.at[UP_BIAS], held.wide_gradient, rows, wide);
    norm_backward_weight(layer, pass, held.normed_gradient, held.mean, held.rstd);
}

static size_t inner_columns(const struct layer *layer)
{
    return 4 * layer->shape.out;
}

const struct layer_kind layer_mlp = {
    .name = "mlp",
    .shared = "inner columns",
    .shared_count = inner_columns,
    .tensors = mlp_tensors,
    .sizes = mlp_sizes,
    .forward = { { norm_forward, workspace_gathered }, { multiply, workspace_summed }, { end_forward, NULL } },
    .backward_input = { { begin_input, input_gathered }, { multiply_back, input_summed }, { end_input, NULL } },
    .backward_weight = { { begin_weight, workspace_gathered }, { multiply_weight, norm_gradients_part },
                         { norm_gradients_end, NULL } },
};
