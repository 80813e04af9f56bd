// The models that read bytes, or tokens, and predict the next one: GPTs, and MLPs.
#include <stdio.h>
#include <string.h>

#include "models/build.h"

// Adds a layer; `block` < 0: outside the blocks.
static struct layer *add(struct building *building, const struct layer_kind *kind, const char *name, long block)
{
    char in_block[LAYER_NAME_SIZE];
    snprintf(in_block, sizeof in_block, "block%ld.%s", block, name);
    struct layer *layer = build_layer(building, kind, block < 0 ? name : in_block);
    const struct model *model = building->model;
    const struct model_sizes *sizes = &model->sizes;
    layer->shape = (struct layer_shape){
        .batch = sizes->micro_batch, .sequence = sizes->sequence, .in = sizes->width, .out = sizes->width,
        .heads = sizes->heads, .pattern = sizes->pattern, .vocabulary = model->vocabulary, .padding = model->padding,
        .branches = 2 * sizes->blocks, .dropout = sizes->dropout, .precision = sizes->precision,
    };
    if (layer->index > 0)
        build_input(building, layer, layer->index - 1, sizes->width);
    return layer;
}

// By default a token has the operations of a dense MLP: its experts together are as wide inside. SwiGLU has three
// products for two, and is two thirds as wide, up to a multiple of 16.
static size_t inner_width(const struct model_sizes *sizes)
{
    const struct expert_sizes *experts = &sizes->experts;
    const size_t wide = 4 * sizes->width / experts->top;
    if (experts->inner > 0)
        return experts->inner;
    return experts->is_swiglu ? (2 * wide / 3 + 15) / 16 * 16 : wide > 0 ? wide : 1;
}

static void add_experts(struct building *building, long block)
{
    const struct model_sizes *sizes = &building->model->sizes;
    const struct expert_sizes *experts = &sizes->experts;
    const size_t inner = inner_width(sizes);
    const struct expert_shape shape = {
        .number = (size_t)block / 2,
        .router = { experts->router, experts->experts, experts->top, experts->groups, experts->best_groups,
                    experts->scale },
        .inner = inner, .shared = experts->shared * inner, .is_swiglu = experts->is_swiglu,
        .capacity = experts->capacity, .auxiliary = experts->auxiliary, .z = experts->z, .speed = experts->speed,
        .is_cut = sizes->has_exchange,
    };
    if (!sizes->has_exchange) {
        add(building, &layer_experts, "experts", block)->shape.experts = shape;
        return;
    }
    add(building, &layer_router, "router", block)->shape.experts = shape;
    add(building, &layer_products, "experts", block)->shape.experts = shape;
    add(building, &layer_combine, "combine", block)->shape.experts = shape;
}

// Adds the way up behind the way down, which has two layers per block. Each block adds the input of the block that it
// mirrors.
static void add_way_up(struct building *building)
{
    const long blocks = (long)building->model->sizes.blocks;
    for (long block = blocks; block < 2 * blocks; block++) {
        add(building, &layer_linear, "linear", block);
        add(building, &layer_relu, "relu", block);
        struct layer *sum = add(building, &layer_sum, "sum", block);
        build_input(building, sum, (uint32_t)(2 * (2 * blocks - 1 - block)), building->model->sizes.width);
    }
}

void build_text_model(struct building *building)
{
    const struct model *model = building->model;  // which moves as it grows
    const bool is_unet = strcmp(model->name, "mlp-unet") == 0, plain = is_unet || strcmp(model->name, "mlp") == 0;
    const bool is_tied = model->tied, has_experts = model->sizes.experts.experts > 0;
    const long blocks = (long)model->sizes.blocks;
    add(building, &layer_embedding, "embedding", -1);
    for (long block = 0; block < blocks; block++) {
        add(building, plain ? &layer_linear : &layer_attention, plain ? "linear" : "attention", block);
        if (has_experts && block % 2 == 1)
            add_experts(building, block);
        else
            add(building, plain ? &layer_relu : &layer_mlp, plain ? "relu" : "mlp", block);
    }
    if (is_unet)
        add_way_up(building);
    add(building, &layer_head, "head", -1)->shape.tied = is_tied;
}
