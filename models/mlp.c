// The second half of a block, four times as wide inside:
//
//     output = input + dropout(gelu(norm(input) UP + bias) DOWN + bias)
//
// The wide tensor before its GELU is saved. The GELU is computed again in the pass that computes its slope.
//
// A shard has some of UP's columns, and equally many of DOWN's rows.
#include "models/half_block.h"

static void mlp_tensors(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    static const char *const names[] = { "up.weight", "up.bias", "down.weight", "down.bias" };
    half_tensors(layer, names, tensors, count);
}

static size_t wide_numbers(const struct layer *layer)
{
    return layer_rows(layer) * half_widths(layer).first;
}

// The tensor before its GELU, behind mean and rstd.
static struct values *wide_in(const struct layer *layer, struct walk *walk)
{
    walk_floats(walk, layer_own_rows(layer));
    walk_floats(walk, layer_own_rows(layer));
    return walk_values(walk, layer, wide_numbers(layer));
}

static struct values *wide_of(const struct layer *layer, const struct layer_pass *pass)
{
    return wide_in(layer, &(struct walk){ pass->base.saved, 0 });
}

static struct kind_sizes mlp_sizes(const struct layer *layer)
{
    const uint64_t tensor = layer_bytes(layer, layer_elements(layer));
    struct kind_sizes sizes = half_sizes(layer);
    struct walk saved = { 0 };
    wide_in(layer, &saved);
    sizes.saved_bytes = saved.bytes;
    sizes.forward_workspace_bytes = tensor + layer_bytes(layer, wide_numbers(layer));
    sizes.input_workspace_bytes = layer_shares_rows(layer) || layer->shape.dropout > 0 ? tensor : 0;
    return sizes;
}

static void multiply(const struct layer *layer, const struct layer_pass *pass)
{
    struct queue *queue = pass->base.queue;
    const size_t rows = layer_rows(layer), width = layer->shape.out, wide = half_widths(layer).first;
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    struct walk work = { pass->base.workspace, 0 };
    struct values *normed = walk_values(&work, layer, rows * width), *branch = normed;
    struct values *bent = walk_values(&work, layer, rows * wide);

    kernel_matmul(queue, &(struct matmul){
        .m = rows, .n = wide, .k = width, .a = normed, .b = weights.at[HALF_FIRST], .c = bent,
        .bias = weights.at[HALF_FIRST_BIAS], .before_gelu = wide_of(layer, pass),
    });
    project(queue, branch, bent, weights.at[HALF_SECOND], NULL, rows, wide, width);
}

static void multiply_back(const struct layer *layer, const struct layer_pass *pass)
{
    const struct half_held held = half_held(layer, pass);
    half_back_through_second(layer, pass, held.first_gradient, pass->base.workspace);
    kernel_gelu_backward(pass->base.queue, held.first_gradient, held.between, held.first_gradient,
                         wide_of(layer, pass), wide_numbers(layer));
    half_back_through_first(layer, pass);
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
    .forward = { { norm_forward, workspace_gathered }, { multiply, workspace_summed }, { half_end_forward, NULL } },
    .backward_input = { { half_begin_input, half_gathered }, { multiply_back, half_summed },
                        { half_end_input, NULL } },
    .backward_weight = { { half_begin_weight, workspace_gathered }, { half_end_weight, norm_gradients_part },
                         { norm_gradients_end, NULL } },
};
