#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "models/layer_kind.h"

enum { WORDS_MULTIPLE = 128 };  // a padded model has a multiple of so many words

static const struct model_kind kinds[] = {
    { "gpt-nano", "a GPT over bytes that a laptop trains in minutes",
      { .micro_batch = 4, .sequence = 128, .width = 128, .blocks = 4, .heads = 4, .tying = TYING_UNTIED }, 256 },
    { "gpt-10m", "a GPT over bytes of ten million parameters",
      { .micro_batch = 2, .sequence = 128, .width = 384, .blocks = 6, .heads = 6, .tying = TYING_UNTIED }, 256 },
    { "gpt2", "GPT-2 of 124 million parameters",
      { .micro_batch = 1, .sequence = 1024, .width = 768, .blocks = 12, .heads = 12, .tying = TYING_TIED }, 50257 },
    { "mlp", "linear layers and ReLUs, each byte by itself",
      { .micro_batch = 4, .sequence = 64, .width = 128, .blocks = 3, .heads = 1, .tying = TYING_UNTIED }, 256 },
    { "mlp-unet", "the same down and up again, with a skip from each block down to its block up",
      { .micro_batch = 4, .sequence = 64, .width = 128, .blocks = 3, .heads = 1, .tying = TYING_UNTIED }, 256 },
};

const struct model_kind *model_kinds(size_t *count)
{
    *count = sizeof kinds / sizeof kinds[0];
    return kinds;
}

static const struct model_kind *kind_find(const char *name, struct error *error)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
        alike_try(&alike, name, kinds[i].name);
    }
    error_set(error, "there is no model %s%s (the models are: gpt-nano, gpt-10m, gpt2, mlp, mlp-unet)", name,
              alike_said(&alike, said));
    return NULL;
}

static size_t chosen(size_t asked, size_t usual)
{
    return asked ? asked : usual;
}

static bool size_is_good(const char *what, size_t size, size_t most, struct error *error)
{
    return size <= most || error_set(error, "a model of %s %zu is past the largest, %zu", what, size, most);
}

static bool sizes_choose(const struct model_kind *kind, const struct model_sizes *asked, struct model_sizes *sizes,
                         struct error *error)
{
    *sizes = (struct model_sizes){
        .micro_batch = chosen(asked->micro_batch, kind->sizes.micro_batch),
        .sequence = chosen(asked->sequence, kind->sizes.sequence),
        .width = chosen(asked->width, kind->sizes.width),
        .blocks = chosen(asked->blocks, kind->sizes.blocks),
        .heads = chosen(asked->heads, kind->sizes.heads),
        .dropout = asked->dropout,
        .precision = asked->precision,
        .tying = asked->tying != TYING_OWN ? asked->tying : kind->sizes.tying,
        .padded = asked->padded,
    };
    if (!size_is_good("micro-batch", sizes->micro_batch, 1024, error)
        || !size_is_good("sequence", sizes->sequence, 8192, error)
        || !size_is_good("width", sizes->width, 16384, error)
        || !size_is_good("blocks", sizes->blocks, 1024, error))
        return false;
    if (sizes->width % sizes->heads != 0)
        return error_set(error, "a width of %zu cannot be shared by %zu heads", sizes->width, sizes->heads);
    if (!(sizes->dropout >= 0 && sizes->dropout < 1))
        return error_set(error, "a dropout of %g is not in [0, 1)", (double)sizes->dropout);
    // Dropout and random numbers count elements in 32 bits. The widest tensor has 3 or 4 times the width.
    if (sizes->micro_batch * sizes->sequence > UINT32_MAX / 4 / sizes->width)
        return error_set(error, "a micro-batch of %zu sequences of %zu is too large for a width of %zu",
                         sizes->micro_batch, sizes->sequence, sizes->width);
    return true;
}

// Adds a layer; `block` < 0: outside the blocks.
static void layer_add(struct model *model, const struct layer_kind *kind, const char *name, long block)
{
    struct layer *layer = &model->layers[model->layer_count];
    const struct model_sizes *sizes = &model->sizes;
    *layer = (struct layer){
        .kind = kind,
        .index = (uint32_t)model->layer_count,
        .shape = {
            .batch = sizes->micro_batch, .sequence = sizes->sequence, .in = sizes->width, .out = sizes->width,
            .heads = sizes->heads, .vocabulary = model->vocabulary, .padding = model->padding,
            .branches = 2 * sizes->blocks, .dropout = sizes->dropout, .precision = sizes->precision,
        },
    };
    if (block < 0)
        snprintf(layer->name, sizeof layer->name, "%s", name);
    else
        snprintf(layer->name, sizeof layer->name, "block%ld.%s", block, name);
    model->layer_count++;
}

// Adds the way up behind the way down, which has two layers per block. Each block adds the input of the block that it
// mirrors.
static void add_way_up(struct model *model)
{
    const long blocks = (long)model->sizes.blocks;
    for (long block = blocks; block < 2 * blocks; block++) {
        layer_add(model, &layer_linear, "linear", block);
        layer_add(model, &layer_relu, "relu", block);
        layer_add(model, &layer_sum, "sum", block);
        struct layer *sum = &model->layers[model->layer_count - 1];
        sum->has_skip = true;
        sum->skip = (uint32_t)(2 * (2 * blocks - 1 - block));
    }
}

struct model *model_create(const char *name, const struct model_sizes *sizes, struct error *error)
{
    struct model_sizes all;
    const struct model_kind *kind = kind_find(name, error);
    if (!kind || !sizes_choose(kind, sizes, &all, error))
        return NULL;
    const bool is_unet = strcmp(kind->name, "mlp-unet") == 0, plain = is_unet || strcmp(kind->name, "mlp") == 0;
    const size_t layers = (is_unet ? 5 : 2) * all.blocks + 2;
    struct model *model = calloc(1, sizeof *model + layers * sizeof(struct layer));
    if (!model) {
        error_no_memory(error, "a model");
        return NULL;
    }
    model->name = kind->name;
    model->sizes = all;
    model->vocabulary = kind->vocabulary;
    model->padding = all.padded ? (WORDS_MULTIPLE - kind->vocabulary % WORDS_MULTIPLE) % WORDS_MULTIPLE : 0;
    model->tied = all.tying == TYING_TIED;
    layer_add(model, &layer_embedding, "embedding", -1);
    for (long block = 0; block < (long)all.blocks; block++) {
        layer_add(model, plain ? &layer_linear : &layer_attention, plain ? "linear" : "attention", block);
        layer_add(model, plain ? &layer_relu : &layer_mlp, plain ? "relu" : "mlp", block);
    }
    if (is_unet)
        add_way_up(model);
    layer_add(model, &layer_head, "head", -1);
    model->layers[model->layer_count - 1].shape.tied = model->tied;
    return model;
}

void model_free(struct model *model)
{
    free(model);
}

uint64_t model_parameter_count(const struct model *model)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        sum += layer_parameter_count(&model->layers[i]);
    return sum;
}

uint64_t model_parameter_bytes(const struct model *model)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        sum += layer_sizes(&model->layers[i]).parameter_bytes;
    return sum;
}

uint64_t model_gradient_bytes(const struct model *model)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        sum += layer_sizes(&model->layers[i]).gradient_bytes;
    return sum;
}

uint64_t model_flops(const struct model *model)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        sum += layer_sizes(&model->layers[i]).flops;
    return sum;
}

size_t model_tokens(const struct model *model)
{
    return model->sizes.micro_batch * model->sizes.sequence;
}
