#include "models/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "common/text.h"
#include "models/build.h"

enum { WORDS_MULTIPLE = 128 };  // a padded model has a multiple of so many words
enum { USUAL_RANK = 64 };       // of crosses
static const float USUAL_SPEED = 0.001f;  // of the bias of a router, as DeepSeek-V3 has it

#define EIGHT_EXPERTS \
    { .experts = 8, .top = 2, .router = ROUTER_MIXTRAL, .capacity = 1.25, .auxiliary = 0.01f, .z = 0.001f }
#define IMAGES(batch, side) .micro_batch = (batch), .pixels = (side), .channels = 3, .classes = 1000

static const struct model_kind kinds[] = {
    { "gpt-nano", "a GPT over bytes that a laptop trains in minutes",
      { .micro_batch = 4, .sequence = 128, .width = 128, .blocks = 4, .heads = 4, .tying = TYING_UNTIED }, 256 },
    { "gpt-10m", "a GPT over bytes of ten million parameters",
      { .micro_batch = 2, .sequence = 128, .width = 384, .blocks = 6, .heads = 6, .tying = TYING_UNTIED }, 256 },
    { "gpt2", "GPT-2 of 124 million parameters",
      { .micro_batch = 1, .sequence = 1024, .width = 768, .blocks = 12, .heads = 12, .tying = TYING_TIED }, 50257 },
    { "gpt-moe-nano", "gpt-nano whose every second MLP is eight experts",
      { .micro_batch = 4, .sequence = 128, .width = 128, .blocks = 4, .heads = 4, .tying = TYING_UNTIED,
        .experts = EIGHT_EXPERTS }, 256 },
    { "gpt-moe-10m", "gpt-10m whose every second MLP is eight experts",
      { .micro_batch = 2, .sequence = 128, .width = 384, .blocks = 6, .heads = 6, .tying = TYING_UNTIED,
        .experts = EIGHT_EXPERTS }, 256 },
    { "mlp", "linear layers and ReLUs, each byte by itself",
      { .micro_batch = 4, .sequence = 64, .width = 128, .blocks = 3, .heads = 1, .tying = TYING_UNTIED }, 256 },
    { "mlp-unet", "the same down and up again, with a skip from each block down to its block up",
      { .micro_batch = 4, .sequence = 64, .width = 128, .blocks = 3, .heads = 1, .tying = TYING_UNTIED }, 256 },
    { "fashion-mlp", "three linear layers that tell clothes apart in a minute",
      { .micro_batch = 64, .pixels = 28, .channels = 1, .classes = 10 }, 0 },
    { "fashion-cnn", "two convolutions and two linear layers for small pictures",
      { .micro_batch = 64, .pixels = 28, .channels = 1, .classes = 10 }, 0 },
    { "alexnet", "AlexNet", { IMAGES(16, 224) }, 0 },
    { "vgg16", "VGG with 13 convolutions", { IMAGES(4, 224) }, 0 },
    { "resnet18", "ResNet of 18 layers", { IMAGES(8, 224), .stem = STEM_LARGE, .width = 64 }, 0 },
    { "resnet34", "ResNet of 34 layers", { IMAGES(8, 224), .stem = STEM_LARGE, .width = 64 }, 0 },
    { "resnet50", "ResNet of 50 layers, with bottlenecks", { IMAGES(4, 224), .stem = STEM_LARGE, .width = 64 }, 0 },
    { "resnet101", "the same of 101 layers", { IMAGES(4, 224), .stem = STEM_LARGE, .width = 64 }, 0 },
    { "resnet152", "the same of 152 layers", { IMAGES(4, 224), .stem = STEM_LARGE, .width = 64 }, 0 },
    { "inception_v3", "Inception v3 with its second classifier", { IMAGES(4, 299) }, 0 },
    { "unet", "U-Net: a class for each pixel, and a skip from each block down to its block up",
      { .micro_batch = 2, .pixels = 192, .channels = 3, .classes = 2, .width = 64, .blocks = 4 }, 0 },
    { "dlrm", "DLRM: tables, an MLP of numbers, and the products of every two vectors",
      { .micro_batch = 64, .clicks = { .numbers = 13, .slots = 26, .columns = 16, .ids = 1, .bottom = { 64, 32 },
                                       .top = { 128, 64 }, .rows = { 1000 }, .row_count = 1 } }, 0 },
    { "wide-and-deep", "Wide & Deep: a sum over ids and numbers beside an MLP of tables and numbers",
      { .micro_batch = 64, .clicks = { .numbers = 13, .slots = 26, .columns = 16, .ids = 1, .top = { 128, 64 },
                                       .rows = { 1000 }, .row_count = 1 } }, 0 },
    { "deepfm", "DeepFM: the same with the products of every two vectors",
      { .micro_batch = 64, .clicks = { .numbers = 13, .slots = 26, .columns = 16, .ids = 1, .top = { 128, 64 },
                                       .rows = { 1000 }, .row_count = 1 } }, 0 },
};

const char *router_name(enum router_kind kind)
{
    static const char *const names[] = { [ROUTER_SWITCH] = "switch", [ROUTER_GSHARD] = "gshard",
                                         [ROUTER_MIXTRAL] = "mixtral", [ROUTER_DEEPSEEK] = "deepseek" };
    return names[kind];
}

const struct model_kind *model_kinds(size_t *count)
{
    *count = sizeof kinds / sizeof kinds[0];
    return kinds;
}

static const struct model_kind *kind_find(const char *name, struct error *error)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    struct text names = { 0 };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            text_clear(&names);
            return &kinds[i];
        }
        alike_try(&alike, name, kinds[i].name);
        text_add(&names, "%s%s", i > 0 ? ", " : "", kinds[i].name);
    }
    error_set(error, "there is no model %s%s (the models are: %s)", name, alike_said(&alike, said),
              names.data ? names.data : "");
    text_clear(&names);
    return NULL;
}

// --- sizes -------------------------------------------------------------------------------

static size_t chosen(size_t asked, size_t usual)
{
    return asked ? asked : usual;
}

static bool size_is_good(const char *what, size_t size, size_t most, struct error *error)
{
    return size <= most || error_set(error, "a model of %s %zu is past the largest, %zu", what, size, most);
}

// Whether each size that is asked for is one that the model has.
static bool sizes_exist(const struct model_kind *kind, const struct model_sizes *asked, struct error *error)
{
    const enum model_family family = model_kind_family(kind);
    const bool is_text = family == FAMILY_TEXT, is_pictures = family == FAMILY_PICTURES;
    const bool is_clicks = family == FAMILY_CLICKS;
    const bool is_dlrm = strcmp(kind->name, "dlrm") == 0;
    const bool is_gpt = is_text && strncmp(kind->name, "mlp", 3) != 0;
    const bool has_experts = kind->sizes.experts.experts > 0;
    const struct click_sizes *clicks = &asked->clicks;
    const struct expert_sizes *experts = &asked->experts;
    const struct {
        const char *name;
        bool is_asked, exists;
    } rows[] = {
        { "sequence", asked->sequence > 0, is_text },
        { "width", asked->width > 0, kind->sizes.width > 0 },
        { "blocks", asked->blocks > 0, kind->sizes.blocks > 0 },
        { "heads", asked->heads > 0, is_text },
        { "window", asked->pattern.window > 0, is_gpt },
        { "global", asked->pattern.global > 0, is_gpt },
        { "stride", asked->pattern.stride > 0, is_gpt },
        { "experts", experts->experts > 0, has_experts },
        { "inner", experts->inner > 0, has_experts },
        { "shared", experts->shared > 0, has_experts },
        { "router", experts->has_router, has_experts },
        { "capacity", experts->has_capacity, has_experts },
        { "aux", experts->has_auxiliary, has_experts },
        { "z", experts->has_z, has_experts },
        { "swiglu", experts->is_swiglu, has_experts },
        { "groups", experts->groups > 0, has_experts },
        { "scale", experts->scale > 0, has_experts },
        { "speed", experts->speed > 0, has_experts },
        { "tied, untied", asked->tying != TYING_OWN, is_text },
        { "padded", asked->padded, is_text },
        { "dropout", asked->dropout > 0 || asked->has_dropout, is_text || strcmp(kind->name, "alexnet") == 0
                                             || strcmp(kind->name, "vgg16") == 0
                                             || strcmp(kind->name, "inception_v3") == 0 },
        { "pixels", asked->pixels > 0, is_pictures },
        { "channels", asked->channels > 0, is_pictures },
        { "classes", asked->classes > 0, is_pictures },
        { "smoothing", asked->smoothing > 0, is_pictures },
        { "stem", asked->stem != STEM_OWN, kind->sizes.stem != STEM_OWN },
        { "fused", asked->unfused, is_pictures },
        { "numbers", clicks->has_numbers, is_clicks },
        { "slots", clicks->slots > 0, is_clicks },
        { "rows", clicks->row_count > 0, is_clicks },
        { "columns", clicks->columns > 0, is_clicks },
        { "ids", clicks->ids > 0, is_clicks },
        { "bottom", clicks->bottom[0] > 0, is_dlrm },
        { "top", clicks->top[0] > 0 || experts->top > 0, is_clicks || has_experts },
        { "cross", clicks->cross > 0, is_dlrm },
        { "rank", clicks->rank > 0, is_dlrm },
        { "mean, weighted", clicks->is_mean || clicks->is_weighted, is_clicks },
        { "exchange", asked->has_exchange, is_clicks || has_experts },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].is_asked && !rows[i].exists)
            return error_set(error, "%s is no size of the model %s", rows[i].name, kind->name);
    return true;
}

static bool pattern_fits(const struct attention_pattern *pattern, struct error *error)
{
    if (pattern->window == 0 && (pattern->global > 0 || pattern->stride > 0))
        return error_set(error, "%s are seen beyond a window, and there is none: give one, as window=128",
                         pattern->global > 0 ? "global tokens" : "strides");
    return pattern->stride == 0 || (pattern->block > 0 && pattern->block < pattern->stride)
        || error_set(error, "%zu tokens cannot be the last of %zu: give fewer, as stride=%zu/1", pattern->block,
                     pattern->stride, pattern->stride);
}

// A switch takes one expert, and others what the model has, unless it is asked for.
static void expert_sizes_choose(const struct expert_sizes *usual, const struct expert_sizes *asked,
                                struct expert_sizes *to)
{
    *to = *asked;
    to->experts = chosen(asked->experts, usual->experts);
    to->router = asked->has_router ? asked->router : usual->router;
    to->top = chosen(asked->top, to->router == ROUTER_SWITCH ? 1 : usual->top);
    to->capacity = asked->has_capacity ? asked->capacity : usual->capacity;
    to->auxiliary = asked->has_auxiliary ? asked->auxiliary : usual->auxiliary;
    to->z = asked->has_z ? asked->z : usual->z;
    to->has_router = to->has_capacity = to->has_auxiliary = to->has_z = true;
    if (to->router != ROUTER_DEEPSEEK)
        return;
    to->groups = chosen(asked->groups, 1);
    to->best_groups = chosen(asked->best_groups, 1);
    to->scale = asked->scale > 0 ? asked->scale : 1;
    to->speed = asked->speed > 0 ? asked->speed : USUAL_SPEED;
}

static bool deepseek_fits(const struct expert_sizes *asked, const struct expert_sizes *sizes, struct error *error)
{
    const bool is_asked = asked->groups > 0 || asked->scale > 0 || asked->speed > 0;
    if (sizes->router != ROUTER_DEEPSEEK)
        return !is_asked || error_set(error, "%s is a size of the router deepseek: name it, as router=deepseek",
                                      asked->groups > 0 ? "groups" : asked->scale > 0 ? "scale" : "speed");
    if (sizes->groups > ROUTER_GROUPS || sizes->experts % sizes->groups != 0)
        return error_set(error, "%zu experts are no equal groups, %zu of them: give a divisor up to %d, as groups=4/2",
                         sizes->experts, sizes->groups, ROUTER_GROUPS);
    if (sizes->best_groups > sizes->groups
        || sizes->best_groups * (sizes->experts / sizes->groups) < sizes->top)
        return error_set(error, "the best %zu of %zu groups do not have %zu experts to take: take more groups",
                         sizes->best_groups, sizes->groups, sizes->top);
    return true;
}

static bool expert_sizes_fit(const struct model_sizes *all, const struct expert_sizes *sizes, struct error *error)
{
    if (sizes->experts == 0)
        return true;
    if (all->clicks.top[1] > 0)
        return error_set(error, "a token takes one number of experts, not %zu and %zu: give top=%zu",
                         all->clicks.top[0], all->clicks.top[1], all->clicks.top[0]);
    if (sizes->experts > ROUTER_EXPERTS)
        return error_set(error, "a model of experts %zu is past the largest, %d", sizes->experts, ROUTER_EXPERTS);
    if (sizes->top > ROUTER_TOP || sizes->top > sizes->experts)
        return error_set(error, "a token cannot take %zu of %zu experts: give top=%d or fewer", sizes->top,
                         sizes->experts, sizes->experts < ROUTER_TOP ? (int)sizes->experts : ROUTER_TOP);
    if (sizes->router == ROUTER_SWITCH && sizes->top != 1)
        return error_set(error, "the router switch takes one expert, not %zu: leave out top, or name another router",
                         sizes->top);
    if (sizes->router == ROUTER_GSHARD && sizes->top != 2)
        return error_set(error, "the router gshard takes two experts, not %zu: leave out top, or name another router",
                         sizes->top);
    return deepseek_fits(&all->experts, sizes, error)
        && size_is_good("inner", sizes->inner, 65536, error) && size_is_good("shared", sizes->shared, 64, error);
}

static bool text_sizes_fit(const struct model_sizes *sizes, struct error *error)
{
    if (sizes->width % sizes->heads != 0)
        return error_set(error, "a width of %zu cannot be shared by %zu heads", sizes->width, sizes->heads);
    // Dropout and random numbers count elements in 32 bits. The widest tensor has 3 or 4 times the width.
    if (sizes->micro_batch * sizes->sequence > UINT32_MAX / 4 / sizes->width)
        return error_set(error, "a micro-batch of %zu sequences of %zu is too large for a width of %zu",
                         sizes->micro_batch, sizes->sequence, sizes->width);
    return pattern_fits(&sizes->pattern, error);
}

static bool picture_sizes_fit(const struct model_sizes *sizes, struct error *error)
{
    if (!size_is_good("pixels", sizes->pixels, 1024, error) || !size_is_good("channels", sizes->channels, 64, error)
        || !size_is_good("classes", sizes->classes, 100000, error))
        return false;
    if (sizes->classes < 2)
        return error_set(error, "a model that tells %zu class apart has nothing to learn: name 2 or more",
                         sizes->classes);
    if (!(sizes->smoothing >= 0 && sizes->smoothing < 1))
        return error_set(error, "a smoothing of %g is not in [0, 1)", (double)sizes->smoothing);
    return true;
}

static void click_sizes_choose(const struct click_sizes *usual, const struct click_sizes *asked, struct click_sizes *to)
{
    *to = *asked;
    to->numbers = asked->has_numbers ? asked->numbers : usual->numbers;
    to->has_numbers = true;
    to->slots = chosen(asked->slots, asked->row_count > 1 ? asked->row_count : usual->slots);
    to->columns = chosen(asked->columns, usual->columns);
    to->ids = chosen(asked->ids, usual->ids);
    to->rank = asked->cross > 0 ? chosen(asked->rank, USUAL_RANK) : 0;
    if (asked->bottom[0] == 0 && to->numbers > 0)
        memcpy(to->bottom, usual->bottom, sizeof to->bottom);
    if (asked->top[0] == 0)
        memcpy(to->top, usual->top, sizeof to->top);
    const struct click_sizes *rows = asked->row_count > 0 ? asked : usual;
    for (size_t slot = 0; slot < LAYER_TABLES && rows->row_count == 1; slot++)
        to->rows[slot] = slot < to->slots ? rows->rows[0] : 0;
    to->row_count = rows->row_count == 1 ? to->slots : rows->row_count;
}

// Whether sizes that are asked for have something that they are the sizes of.
static bool click_sizes_apply(const struct click_sizes *asked, const struct click_sizes *sizes, struct error *error)
{
    if (asked->bottom[0] > 0 && sizes->numbers == 0)
        return error_set(error, "bottom is the MLP of the numbers, and there are none");
    return asked->rank == 0 || asked->cross > 0
        || error_set(error, "rank is a size of crosses, and there are none: give their number, as cross=3");
}

static bool click_sizes_fit(const struct model_kind *kind, const struct model_sizes *sizes, struct error *error)
{
    const struct click_sizes *clicks = &sizes->clicks;
    const unsigned long long most_ids = (unsigned long long)sizes->micro_batch * clicks->slots * clicks->ids;
    const size_t vectors = clicks->slots + (clicks->numbers > 0 && strcmp(kind->name, "dlrm") == 0);
    uint64_t rows = 0;
    if (!size_is_good("slots", clicks->slots, LAYER_TABLES, error)
        || !size_is_good("numbers", clicks->numbers, 65536, error)
        || !size_is_good("columns", clicks->columns, 4096, error) || !size_is_good("ids", clicks->ids, 65536, error)
        || !size_is_good("cross", clicks->cross, 64, error) || !size_is_good("rank", clicks->rank, 65536, error))
        return false;
    for (size_t i = 0; i < CLICK_LAYERS; i++)
        if (!size_is_good("bottom", clicks->bottom[i], 65536, error)
            || !size_is_good("top", clicks->top[i], 65536, error))
            return false;
    if (clicks->row_count != clicks->slots)
        return error_set(error, "rows are given for %zu tables, and there are %zu slots: give one number, or one for"
                         " each slot", clicks->row_count, clicks->slots);
    for (size_t slot = 0; slot < clicks->slots; slot++)
        rows += clicks->rows[slot];
    if (rows > INT32_MAX)
        return error_set(error, "tables of %llu rows are past the largest, %d together", (unsigned long long)rows,
                         INT32_MAX);
    if (most_ids > INT32_MAX)
        return error_set(error, "a micro-batch of %llu ids is past the largest, %d", most_ids, INT32_MAX);
    if (vectors < 2 && clicks->cross == 0 && strcmp(kind->name, "wide-and-deep") != 0)
        return error_set(error, "%s multiplies every two vectors, and there is one: give it more slots", kind->name);
    return sizes->precision == PRECISION_FP32
        || error_set(error, "%s is computed in fp32 only: name devices without bf16 and fp16", kind->name);
}

static bool sizes_choose(const struct model_kind *kind, const struct model_sizes *asked, struct model_sizes *sizes,
                         struct error *error)
{
    const enum model_family family = model_kind_family(kind);
    const struct model_sizes *usual = &kind->sizes;
    *sizes = *asked;
    sizes->micro_batch = chosen(asked->micro_batch, usual->micro_batch);
    sizes->sequence = chosen(asked->sequence, usual->sequence);
    sizes->width = chosen(asked->width, usual->width);
    sizes->blocks = chosen(asked->blocks, usual->blocks);
    sizes->heads = chosen(asked->heads, usual->heads);
    sizes->pixels = chosen(asked->pixels, usual->pixels);
    sizes->channels = chosen(asked->channels, usual->channels);
    sizes->classes = chosen(asked->classes, usual->classes);
    sizes->stem = asked->stem != STEM_OWN ? asked->stem : usual->stem;
    sizes->tying = asked->tying != TYING_OWN ? asked->tying : usual->tying;
    sizes->clicks = (struct click_sizes){ 0 };
    sizes->experts = (struct expert_sizes){ 0 };
    if (family == FAMILY_CLICKS)
        click_sizes_choose(&usual->clicks, &asked->clicks, &sizes->clicks);
    if (usual->experts.experts > 0)
        expert_sizes_choose(&usual->experts, &asked->experts, &sizes->experts);
    if (!sizes_exist(kind, asked, error)
        || !size_is_good("micro-batch", sizes->micro_batch, family == FAMILY_CLICKS ? 65536 : 1024, error)
        || !size_is_good("sequence", sizes->sequence, 8192, error)
        || !size_is_good("width", sizes->width, 16384, error)
        || !size_is_good("blocks", sizes->blocks, 1024, error))
        return false;
    if (!(sizes->dropout >= 0 && sizes->dropout < 1))
        return error_set(error, "a dropout of %g is not in [0, 1)", (double)sizes->dropout);
    if (family == FAMILY_TEXT)
        return text_sizes_fit(sizes, error) && expert_sizes_fit(asked, &sizes->experts, error);
    sizes->sequence = strcmp(kind->name, "unet") == 0 ? sizes->pixels * sizes->pixels : 1;
    if (family == FAMILY_CLICKS)
        return click_sizes_apply(&asked->clicks, &sizes->clicks, error) && click_sizes_fit(kind, sizes, error);
    return picture_sizes_fit(sizes, error);
}

// --- building ----------------------------------------------------------------------------

static bool fits_32_bits(const struct model *model, struct error *error)
{
    for (size_t i = 0; i < model->layer_count; i++)
        if (layer_sizes(&model->layers[i]).output_bytes / sizeof(float) > UINT32_MAX)
            return error_set(error, "a micro-batch of %zu is too large: layer %s hands on more than 2^32 numbers",
                             model->sizes.micro_batch, model->layers[i].name);
    return true;
}

struct model *model_create(const char *name, const struct model_sizes *sizes, struct error *error)
{
    struct model_sizes all;
    const struct model_kind *kind = kind_find(name, error);
    if (!kind || !sizes_choose(kind, sizes, &all, error))
        return NULL;
    static void (*const build[])(struct building *building) = {
        [FAMILY_TEXT] = build_text_model, [FAMILY_PICTURES] = build_picture_model, [FAMILY_CLICKS] = build_click_model,
    };
    struct building building = { .model = calloc(1, sizeof *building.model), .error = error };
    if (!building.model)
        return error_null(error_no_memory(error, "a model"));
    struct model *model = building.model;
    model->name = kind->name;
    model->family = model_kind_family(kind);
    model->sizes = all;
    model->vocabulary = kind->vocabulary;
    model->padding = all.padded ? (WORDS_MULTIPLE - kind->vocabulary % WORDS_MULTIPLE) % WORDS_MULTIPLE : 0;
    model->tied = all.tying == TYING_TIED;
    build[model->family](&building);
    if (building.has_failed || !fits_32_bits(building.model, error)) {
        model_free(building.model);
        return NULL;
    }
    return building.model;
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

uint64_t model_flops(const struct model *model)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        sum += layer_sizes(&model->layers[i]).flops;
    return sum;
}

static size_t click_fields(const struct click_sizes *sizes, struct model_field fields[MODEL_FIELDS])
{
    size_t count = 0;
    if (sizes->numbers > 0)
        fields[count++] = (struct model_field){ "numbers", "f32", { sizes->numbers }, 0 };
    fields[count++] = (struct model_field){ "ids", "u32", { sizes->slots, sizes->ids }, 0 };
    fields[count++] = (struct model_field){ "label", "u8", { 0 }, 2 };
    return count;
}

size_t model_fields(const struct model *model, struct model_field fields[MODEL_FIELDS])
{
    const struct model_sizes *sizes = &model->sizes;
    if (model->family == FAMILY_TEXT) {
        fields[0] = (struct model_field){ "tokens", model->vocabulary > 256 ? "u16" : "u8", { sizes->sequence }, 0 };
        fields[1] = (struct model_field){ "targets", fields[0].type, { sizes->sequence }, model->vocabulary };
        return 2;
    }
    if (model->family == FAMILY_CLICKS)
        return click_fields(&sizes->clicks, fields);
    fields[0] = (struct model_field){ "pixels", "u8", { sizes->pixels, sizes->pixels, sizes->channels }, 0 };
    fields[1] = (struct model_field){ "label", "u8", { 0 }, sizes->classes };
    if (sizes->sequence > 1)
        fields[1] = (struct model_field){ "labels", "u8", { sizes->pixels, sizes->pixels }, sizes->classes };
    if (sizes->classes > 256)
        fields[1].type = "u16";
    return 2;
}

static bool pictures_are_alike(const struct picture_shape *a, const struct picture_shape *b)
{
    return a->height == b->height && a->width == b->width && memcmp(&a->window, &b->window, sizeof a->window) == 0
        && a->groups == b->groups && a->factor == b->factor && a->has_bias == b->has_bias
        && a->has_relu == b->has_relu;
}

// What only training has may differ: the coefficients of losses, and the speed of a bias.
static bool experts_are_alike(const struct expert_shape *a, const struct expert_shape *b)
{
    return a->router.kind == b->router.kind && a->router.experts == b->router.experts && a->router.top == b->router.top
        && a->router.groups == b->router.groups && a->router.best_groups == b->router.best_groups
        && a->router.scale == b->router.scale && a->inner == b->inner && a->shared == b->shared
        && a->is_swiglu == b->is_swiglu && a->capacity == b->capacity;
}

static bool layers_are_alike(const struct layer *a, const struct layer *b)
{
    if (a->kind != b->kind || a->input_count != b->input_count)
        return false;
    for (uint32_t i = 0; i < a->input_count; i++)
        if (a->inputs[i] != b->inputs[i] || a->input_widths[i] != b->input_widths[i])
            return false;
    return a->shape.in == b->shape.in && a->shape.out == b->shape.out && a->shape.vocabulary == b->shape.vocabulary
        && a->shape.tied == b->shape.tied
        && (a->kind != &layer_attention
            || (a->shape.heads == b->shape.heads
                && memcmp(&a->shape.pattern, &b->shape.pattern, sizeof a->shape.pattern) == 0))
        && experts_are_alike(&a->shape.experts, &b->shape.experts)
        && pictures_are_alike(&a->shape.picture, &b->shape.picture);
}

const struct layer *model_differs(const struct model *a, const struct model *b)
{
    for (size_t l = 0; l < a->layer_count; l++)
        if (l >= b->layer_count || !layers_are_alike(&a->layers[l], &b->layers[l]))
            return &a->layers[l];
    return a->layer_count == b->layer_count ? NULL : &a->layers[a->layer_count - 1];
}
