#include "models/expert_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/expert_rules.h"

// --- tensors -----------------------------------------------------------------------

bool experts_have_biases(const struct layer *layer)
{
    return !layer->shape.experts.is_swiglu;
}

size_t experts_mlp_tensors(const struct layer *layer)
{
    return experts_have_biases(layer) ? 4 : 2;
}

static struct mlp_tensors mlp_tensors_from(const struct layer *layer, size_t first)
{
    return experts_have_biases(layer) ? (struct mlp_tensors){ first, first + 1, first + 2, first + 3 }
                                      : (struct mlp_tensors){ .up = first, .down = first + 1 };
}

// The first expert of a shard, which has all rows in the order of all experts.
static size_t first_own(const struct layer *layer)
{
    return layer->shape.shards > 1 ? layer->shape.shard * layer_own_experts(layer) : 0;
}

// Experts whose tensors are together: those that are copied, or a member's own.
struct expert_group {
    struct mlp_tensors tensors;
    size_t first, count;  // among all experts that the member computes
};
enum { EXPERT_GROUPS = 2 };

static size_t expert_groups(const struct layer *layer, size_t first, struct expert_group groups[EXPERT_GROUPS])
{
    const size_t copies = layer_copied_experts(layer), own = layer_own_experts(layer) - copies;
    const size_t before = first_own(layer);
    size_t count = 0;
    if (copies > 0)
        groups[count++] = (struct expert_group){ mlp_tensors_from(layer, first), 0, copies };
    if (own > 0)
        groups[count] = (struct expert_group){ mlp_tensors_from(layer, first + count * experts_mlp_tensors(layer)),
                                               copies + before, own };
    return count + (own > 0);
}

size_t experts_up_width(const struct layer *layer, size_t inner)
{
    return layer->shape.experts.is_swiglu ? 2 * inner : inner;
}

static void add_mlp(const struct layer *layer, const char *const names[4], size_t experts, size_t inner,
                    struct tensor *tensors, size_t *count)
{
    const size_t width = layer->shape.out, wide = experts_up_width(layer, inner);
    const float end = 0.02f / sqrtf((float)layer->shape.branches);
    if (experts == 0 || inner == 0)
        return;
    tensor_add(tensors, count, (struct tensor){ .name = names[0], .rows = experts * width, .columns = wide,
                                                .start = START_NORMAL, .deviation = 0.02f, .decays = true });
    if (experts_have_biases(layer))
        tensor_add(tensors, count, (struct tensor){ .name = names[1], .rows = experts, .columns = wide });
    tensor_add(tensors, count, (struct tensor){ .name = names[2], .rows = experts * inner, .columns = width,
                                                .start = START_NORMAL, .deviation = end, .decays = true });
    if (experts_have_biases(layer))
        tensor_add(tensors, count, (struct tensor){ .name = names[3], .rows = experts, .columns = width });
}

void experts_add_router(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    norm_tensors(layer, tensors, count);
    router_tensor(layer, tensors, count);
}

void experts_add_shared(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    static const char *const names[] = { "shared.up.weight", "shared.up.bias", "shared.down.weight",
                                         "shared.down.bias" };
    add_mlp(layer, names, 1, layer->shape.experts.shared, tensors, count);
}

void experts_add_own(const struct layer *layer, struct tensor *tensors, size_t *count)
{
    static const char *const own[] = { "up.weight", "up.bias", "down.weight", "down.bias" };
    static const char *const copied[] = { "copied.up.weight", "copied.up.bias", "copied.down.weight",
                                          "copied.down.bias" };
    const size_t copies = layer_copied_experts(layer), inner = layer->shape.experts.inner;
    add_mlp(layer, copied, copies, inner, tensors, count);
    add_mlp(layer, own, layer_own_experts(layer) - copies, inner, tensors, count);
}

void experts_number(const struct layer *layer, struct tensor *tensors, size_t count, size_t copied, size_t first)
{
    const size_t each = experts_mlp_tensors(layer), own = copied + (layer_copied_experts(layer) > 0 ? each : 0);
    for (size_t i = 0; i < count; i++) {
        const size_t behind = i < copied ? 0 : i < own ? i - copied : i - own;
        tensors[i].number = i < first ? i : i < copied ? i + each : first + behind;
        tensors[i].split = i < copied ? SPLIT_NONE : i < own ? SPLIT_COPIES : SPLIT_EXPERTS;
    }
}

// --- sizes -------------------------------------------------------------------------

static uint64_t matrices_of(const struct layer *layer, size_t inner)
{
    return (uint64_t)expert_matrices((double)layer->shape.out, (double)inner, layer->shape.experts.is_swiglu);
}

uint64_t experts_flops_beside(const struct layer *layer)
{
    const struct expert_shape *shape = &layer->shape.experts;
    const uint64_t rows = layer_rows(layer);
    return 2 * rows * layer->shape.out * shape->router.experts + 2 * rows * matrices_of(layer, shape->shared);
}

uint64_t experts_flops(const struct layer *layer)
{
    return layer_share(layer, 2 * router_taken(layer) * matrices_of(layer, layer->shape.experts.inner));
}

// The activation of the rows of the experts, which end where they say.
static struct activation activation_of(const struct layer *layer, const int32_t *taken)
{
    const struct expert_shape *shape = &layer->shape.experts;
    return (struct activation){ shape->is_swiglu, router_taken(layer), shape->inner,
                                taken + first_own(layer) + layer_own_experts(layer) - 1 };
}

static struct activation shared_activation(const struct layer *layer)
{
    const struct expert_shape *shape = &layer->shape.experts;
    return (struct activation){ shape->is_swiglu, layer_rows(layer), shape->shared, NULL };
}

// --- the experts' products -----------------------------------------------------------

static size_t matrix_of(const struct mlp_tensors *tensors, enum expert_product product)
{
    return product == EXPERTS_UP ? tensors->up : tensors->down;
}

static size_t bias_of(const struct mlp_tensors *tensors, enum expert_product product)
{
    return product == EXPERTS_UP ? tensors->up_bias : tensors->down_bias;
}

// The rows of the experts through one product, whose `m`, matrices and biases are set here.
static void multiply_groups(const struct layer *layer, const struct layer_pass *pass, size_t first,
                            const int32_t *taken, enum expert_product product, struct matmul rows)
{
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    struct expert_group groups[EXPERT_GROUPS];
    const size_t count = expert_groups(layer, first, groups);
    rows.m = router_taken(layer);
    for (size_t g = 0; g < count; g++) {
        const struct mlp_tensors *tensors = &groups[g].tensors;
        rows.b = weights.at[matrix_of(tensors, product)];
        rows.bias = experts_have_biases(layer) && !rows.transpose_b ? weights.at[bias_of(tensors, product)] : NULL;
        kernel_grouped_matmul(pass->base.queue, &rows, taken, groups[g].first, groups[g].count);
    }
}

void experts_multiply(const struct layer *layer, const struct layer_pass *pass, const struct expert_products *products)
{
    const size_t width = layer->shape.out, inner = layer->shape.experts.inner;
    const struct activation activation = activation_of(layer, products->taken);
    struct matmul up = { .n = experts_up_width(layer, inner), .k = width, .a = products->received,
                         .c = products->wide };
    if (experts_have_biases(layer))
        up.c = products->bent, up.before_gelu = products->wide;
    multiply_groups(layer, pass, products->first, products->taken, EXPERTS_UP, up);
    if (!experts_have_biases(layer))
        kernel_activate(pass->base.queue, &activation, products->bent, products->wide);
    multiply_groups(layer, pass, products->first, products->taken, EXPERTS_DOWN, (struct matmul){
        .n = width, .k = inner, .a = products->bent, .c = products->given,
    });
}

void experts_multiply_back(const struct layer *layer, const struct layer_pass *pass,
                           const struct expert_products_back *products)
{
    const size_t width = layer->shape.out, inner = layer->shape.experts.inner;
    const struct activation activation = activation_of(layer, products->taken);
    multiply_groups(layer, pass, products->first, products->taken, EXPERTS_DOWN, (struct matmul){
        .transpose_b = true, .n = inner, .k = width, .a = products->received_gradient, .c = products->bent,
    });
    kernel_activate_backward(pass->base.queue, &activation, products->wide_gradient, products->bent, products->bent,
                             products->wide);
    multiply_groups(layer, pass, products->first, products->taken, EXPERTS_UP, (struct matmul){
        .transpose_b = true, .n = width, .k = experts_up_width(layer, inner), .a = products->wide_gradient,
        .c = products->given,
    });
}

void experts_add_gradients(const struct layer *layer, const struct layer_pass *pass, size_t first, const int32_t *taken,
                           enum expert_product product, const struct values *in, const struct values *out_gradient)
{
    const size_t width = layer->shape.out, inner = layer->shape.experts.inner;
    const size_t in_width = product == EXPERTS_UP ? width : inner;
    const size_t out_width = product == EXPERTS_UP ? experts_up_width(layer, inner) : width;
    const struct gradients to = layer_gradients(layer, pass->base.gradients);
    struct expert_group groups[EXPERT_GROUPS];
    const size_t count = expert_groups(layer, first, groups);
    for (size_t g = 0; g < count; g++) {
        const struct mlp_tensors *tensors = &groups[g].tensors;
        kernel_grouped_matmul(pass->base.queue, &(struct matmul){
            .m = in_width, .n = out_width, .k = router_taken(layer), .transpose_a = true, .a = in, .b = out_gradient,
            .sums = to.at[matrix_of(tensors, product)],
        }, taken, groups[g].first, groups[g].count);
        if (experts_have_biases(layer))
            kernel_grouped_sum_columns(pass->base.queue, to.at[bias_of(tensors, product)], out_gradient, taken,
                                       groups[g].first, groups[g].count, out_width);
    }
}

// --- the shared expert -----------------------------------------------------------------

void experts_share(const struct layer *layer, const struct layer_pass *pass, const struct shared_expert *shared,
                   struct values *out, const struct values *normed)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer->shape.experts.shared;
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct mlp_tensors own = mlp_tensors_from(layer, shared->first);
    const struct activation activation = shared_activation(layer);
    if (inner == 0)
        return;
    project(pass->base.queue, shared->wide, normed, weights.at[own.up],
            experts_have_biases(layer) ? weights.at[own.up_bias] : NULL, rows, width, experts_up_width(layer, inner));
    kernel_activate(pass->base.queue, &activation, shared->bent, shared->wide);
    project(pass->base.queue, out, shared->bent, weights.at[own.down],
            experts_have_biases(layer) ? weights.at[own.down_bias] : NULL, rows, inner, width);
}

void experts_share_back(const struct layer *layer, const struct layer_pass *pass, const struct shared_expert *shared,
                        const struct values *out_gradient)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer->shape.experts.shared;
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    const struct activation activation = shared_activation(layer);
    if (inner == 0)
        return;
    project_back(pass->base.queue, shared->kept_bent, out_gradient,
                 weights.at[mlp_tensors_from(layer, shared->first).down], rows, inner, width);
    kernel_activate_backward(pass->base.queue, &activation, shared->gradient, shared->kept_bent,
                             shared->kept_bent, shared->wide);
}

void experts_share_back_end(const struct layer *layer, const struct layer_pass *pass,
                            const struct shared_expert *shared, struct values *normed_gradient, struct values *place)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer->shape.experts.shared;
    const struct parameters weights = layer_parameters(layer, pass->base.parameters);
    if (inner == 0)
        return;
    project_back(pass->base.queue, place, shared->gradient, weights.at[mlp_tensors_from(layer, shared->first).up], rows,
                 width, experts_up_width(layer, inner));
    kernel_add(pass->base.queue, normed_gradient, normed_gradient, place, rows * width);
}

void experts_share_gradients(const struct layer *layer, const struct layer_pass *pass, size_t first,
                             enum expert_product product, const struct values *in, const struct values *out_gradient)
{
    const size_t rows = layer_rows(layer), width = layer->shape.out, inner = layer->shape.experts.shared;
    const size_t in_width = product == EXPERTS_UP ? width : inner;
    const size_t out_width = product == EXPERTS_UP ? experts_up_width(layer, inner) : width;
    const struct gradients to = layer_gradients(layer, pass->base.gradients);
    const struct mlp_tensors own = mlp_tensors_from(layer, first);
    if (inner == 0)
        return;
    project_weight(pass->base.queue, to.at[matrix_of(&own, product)], in, out_gradient, rows, in_width, out_width);
    if (experts_have_biases(layer))
        kernel_sum_columns(pass->base.queue, to.at[bias_of(&own, product)], out_gradient, rows, out_width);
}

// --- exchanges ---------------------------------------------------------------------------

uint64_t experts_blocks_bytes(const struct layer *layer)
{
    return layer->shape.members * routing_block_bytes(layer->shape.experts.router.experts);
}

struct shard_part experts_gathered_counts(const struct layer *layer, void *blocks)
{
    if (!layer->shape.experts.have_places)
        return (struct shard_part){ 0 };
    return (struct shard_part){ .numbers = blocks, .are_floats = true,
                                .count = experts_blocks_bytes(layer) / sizeof(float), .exchange = SHARD_ALL_GATHER };
}

struct routing_members experts_members(const struct layer *layer, void *blocks, int32_t *counts, int32_t *taken)
{
    struct routing_members members = {
        .members = (uint32_t)layer->shape.members, .member = (uint32_t)layer->shape.member, .blocks = blocks,
        .kept = counts, .taken = taken,
    };
    for (size_t i = 0; i < layer_own_experts(layer); i++) {
        const size_t expert = layer_own_expert(layer, i);
        uint64_t *bits = i < layer_copied_experts(layer) ? members.copied : members.own;
        bits[expert / 64] |= (uint64_t)1 << expert % 64;
    }
    return members;
}

struct shard_part experts_rows(const struct layer *layer, const struct layer_pass *pass, const struct expert_rows *rows)
{
    const struct expert_shape *shape = &layer->shape.experts;
    if (!shape->have_places)
        return (struct shard_part){ 0 };
    return (struct shard_part){
        .numbers = rows->from, .count = layer->shape.out, .exchange = SHARD_ROWS, .received = rows->to,
        .rows = { .kept = rows->counts, .owners = shape->owners, .is_back = rows->is_back,
                  .experts = (uint32_t)shape->router.experts, .members = (uint32_t)layer->shape.members,
                  .room = router_taken(layer), .member = (uint32_t)layer->shape.member, .ends = rows->taken,
                  .lacked = pass->lacked_rows },
    };
}

// --- names ---------------------------------------------------------------------------------

void layer_experts_name(const struct layer *layer, char name[LAYER_NAME_SIZE])
{
    const char *dot = strrchr(layer->name, '.');
    if (layer->shape.experts.is_cut && dot)
        snprintf(name, LAYER_NAME_SIZE, "%.*s.experts", (int)(dot - layer->name), layer->name);
    else
        snprintf(name, LAYER_NAME_SIZE, "%s", layer->name);
}
