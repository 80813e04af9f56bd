// The models that read pictures and say what is on them: the convolutional family. Layers, windows and widths are those
// of torchvision; oracles are the published profiles of PipeDream.
#include <string.h>

#include "models/build.h"

// The output of a layer.
struct node {
    uint32_t layer;
    size_t height, width, channels;
};

// --- layers ------------------------------------------------------------------------

static struct node node_of(const struct layer *layer, size_t height, size_t width)
{
    return (struct node){ layer->index, height, width, layer->shape.out };
}

static size_t pixels_of(struct node node)
{
    return node.height * node.width;
}

// Adds a layer that reads one node, and hands on as many pixels and channels.
static struct layer *add(struct building *building, const struct layer_kind *kind, const char *name, struct node from)
{
    struct layer *layer = build_layer(building, kind, name);
    const struct model_sizes *sizes = &building->model->sizes;
    layer->shape = (struct layer_shape){
        .batch = sizes->micro_batch, .sequence = pixels_of(from), .in = from.channels, .out = from.channels,
        .precision = sizes->precision, .picture = { .height = from.height, .width = from.width, .groups = 1 },
    };
    build_input(building, layer, from.layer, from.channels);
    return layer;
}

// Gives a layer a window, and so another number of pixels.
static struct node slide(struct building *building, struct layer *layer, struct window window)
{
    struct picture_shape *picture = &layer->shape.picture;
    const size_t height = window_places(picture->height, window.height, window.stride_height, window.padding_height);
    const size_t width = window_places(picture->width, window.width, window.stride_width, window.padding_width);
    picture->window = window;
    layer->shape.sequence = height * width;
    if (layer->shape.sequence == 0 && !building->has_failed) {
        building->has_failed = true;
        error_set(building->error, "pictures of %zu pixels are too small: layer %s has a window of %zu by %zu and gets"
                  " %zu by %zu pixels", building->model->sizes.pixels, layer->name, window.height, window.width,
                  picture->height, picture->width);
    }
    return node_of(layer, height, width);
}

static struct window square(size_t size, size_t stride, size_t padding)
{
    return (struct window){ size, size, stride, stride, padding, padding };
}

static struct node convolve(struct building *building, const char *name, struct node from, size_t channels,
                            struct window window, bool has_bias)
{
    struct layer *layer = add(building, &layer_convolution, name, from);
    layer->shape.out = channels;
    layer->shape.picture.has_bias = has_bias;
    return slide(building, layer, window);
}

static struct node rectify(struct building *building, const char *name, struct node from)
{
    return node_of(add(building, &layer_relu, name, from), from.height, from.width);
}

static struct node pool(struct building *building, const struct layer_kind *kind, const char *name, struct node from,
                        struct window window)
{
    return slide(building, add(building, kind, name, from), window);
}

static struct node drop(struct building *building, const char *name, struct node from, float usual)
{
    const struct model_sizes *sizes = &building->model->sizes;
    const float dropout = sizes->has_dropout ? sizes->dropout : usual;
    struct layer *layer = add(building, &layer_dropout, name, from);
    layer->shape.dropout = dropout;
    return node_of(layer, from.height, from.width);
}

// All numbers of a picture, as one row.
static struct node flat(struct node from)
{
    return (struct node){ from.layer, 1, 1, pixels_of(from) * from.channels };
}

static struct node project(struct building *building, const char *name, struct node from, size_t width)
{
    struct layer *layer = add(building, &layer_linear, name, flat(from));
    layer->shape.out = width;
    return node_of(layer, 1, 1);
}

static struct node join(struct building *building, const char *name, const struct node *nodes, size_t count)
{
    struct layer *layer = add(building, &layer_concat, name, nodes[0]);
    for (size_t i = 1; i < count; i++) {
        build_input(building, layer, nodes[i].layer, nodes[i].channels);
        layer->shape.in = layer->shape.out += nodes[i].channels;
    }
    return node_of(layer, nodes[0].height, nodes[0].width);
}

// What comes behind the norm. `add` may be NULL.
struct behind {
    bool has_relu;
    const struct node *add;
};

// A batch norm with what is behind it: one layer, or, if the model is not fused, up to three.
static struct node normalize(struct building *building, const char *name, struct node from, struct behind behind)
{
    const bool is_fused = !building->model->sizes.unfused;
    char longer[LAYER_NAME_SIZE];
    struct layer *layer = add(building, &layer_batch_norm, name, from);
    layer->shape.picture.has_relu = is_fused && behind.has_relu;
    if (is_fused && behind.add)
        build_input(building, layer, behind.add->layer, behind.add->channels);
    struct node node = node_of(layer, from.height, from.width);
    if (!is_fused && behind.add) {
        struct layer *sum = add(building, &layer_sum, build_name(longer, "%s.sum", name), node);
        build_input(building, sum, behind.add->layer, behind.add->channels);
        node = node_of(sum, from.height, from.width);
    }
    return is_fused || !behind.has_relu ? node : rectify(building, build_name(longer, "%s.relu", name), node);
}

static struct node begin(struct building *building)
{
    struct layer *layer = build_layer(building, &layer_picture, "picture");
    const struct model_sizes *sizes = &building->model->sizes;
    layer->shape = (struct layer_shape){
        .batch = sizes->micro_batch, .sequence = sizes->pixels * sizes->pixels, .in = sizes->channels,
        .out = sizes->channels, .precision = sizes->precision,
        .picture = { .height = sizes->pixels, .width = sizes->pixels, .groups = 1 },
    };
    return node_of(layer, sizes->pixels, sizes->pixels);
}

// `auxiliary`, which may be NULL, are further scores, whose loss counts less.
static void end(struct building *building, struct node scores, const struct node *auxiliary)
{
    struct layer *layer = add(building, &layer_cross_entropy, "loss", scores);
    layer->shape.picture.smoothing = building->model->sizes.smoothing;
    layer->shape.out = 0;
    if (auxiliary)
        build_input(building, layer, auxiliary->layer, auxiliary->channels);
}

// --- AlexNet and VGG -----------------------------------------------------------------

// Two wide layers with dropout, and the scores.
static void classify_widely(struct building *building, struct node node, bool drops_first)
{
    char name[LAYER_NAME_SIZE];
    for (int i = 6; i <= 7; i++) {
        if (drops_first)
            node = drop(building, build_name(name, "dropout%d", i), flat(node), 0.5f);
        node = project(building, build_name(name, "linear%d", i), node, 4096);
        node = rectify(building, build_name(name, "relu%d", i), node);
        if (!drops_first)
            node = drop(building, build_name(name, "dropout%d", i), node, 0.5f);
    }
    end(building, project(building, "scores", node, building->model->sizes.classes), NULL);
}

static void build_alexnet(struct building *building)
{
    static const struct {
        size_t channels;
        struct window window;
        bool has_pool;
    } rows[] = {
        { 64, { 11, 11, 4, 4, 2, 2 }, true }, { 192, { 5, 5, 1, 1, 2, 2 }, true },
        { 384, { 3, 3, 1, 1, 1, 1 }, false }, { 256, { 3, 3, 1, 1, 1, 1 }, false },
        { 256, { 3, 3, 1, 1, 1, 1 }, true },
    };
    char name[LAYER_NAME_SIZE];
    struct node node = begin(building);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        node = convolve(building, build_name(name, "conv%zu", i + 1), node, rows[i].channels, rows[i].window, true);
        node = rectify(building, build_name(name, "relu%zu", i + 1), node);
        if (rows[i].has_pool)
            node = pool(building, &layer_max_pool, build_name(name, "pool%zu", i + 1), node, square(3, 2, 0));
    }
    classify_widely(building, node, true);
}

static void build_vgg16(struct building *building)
{
    static const size_t channels[] = { 64, 128, 256, 512, 512 }, lengths[] = { 2, 2, 3, 3, 3 };
    char name[LAYER_NAME_SIZE];
    struct node node = begin(building);
    for (size_t block = 0; block < 5; block++) {
        for (size_t i = 0; i < lengths[block]; i++) {
            node = convolve(building, build_name(name, "conv%zu_%zu", block + 1, i + 1), node, channels[block],
                            square(3, 1, 1), true);
            node = rectify(building, build_name(name, "relu%zu_%zu", block + 1, i + 1), node);
        }
        node = pool(building, &layer_max_pool, build_name(name, "pool%zu", block + 1), node, square(2, 2, 0));
    }
    classify_widely(building, node, false);
}

// --- ResNet --------------------------------------------------------------------------

// Two convolutions, or three with a narrow one of 3 by 3 in the middle (bottleneck), whose stride is the block's.
static struct node residual_block(struct building *building, const char *block, struct node from, size_t width,
                                  size_t stride, bool is_bottleneck)
{
    char name[LAYER_NAME_SIZE];
    const size_t out = is_bottleneck ? 4 * width : width, last = is_bottleneck ? 3 : 2;
    const size_t strided = is_bottleneck ? 2 : 1;
    struct node node = from, around = from;
    if (stride > 1 || from.channels != out) {
        around = convolve(building, build_name(name, "%s.around", block), from, out, square(1, stride, 0), false);
        around = normalize(building, build_name(name, "%s.around.norm", block), around, (struct behind){ false, NULL });
    }
    for (size_t i = 1; i <= last; i++) {
        const bool is_small = is_bottleneck && i != 2;
        const struct window window = square(is_small ? 1 : 3, i == strided ? stride : 1, is_small ? 0 : 1);
        node = convolve(building, build_name(name, "%s.conv%zu", block, i), node, i == last ? out : width, window,
                        false);
        node = normalize(building, build_name(name, "%s.norm%zu", block, i), node,
                         (struct behind){ true, i == last ? &around : NULL });
    }
    return node;
}

static struct node average_all(struct building *building, struct node from)
{
    return pool(building, &layer_average_pool, "average", from,
                (struct window){ from.height, from.width, 1, 1, 0, 0 });
}

static void build_resnet(struct building *building, const size_t lengths[4], bool is_bottleneck)
{
    char block[LAYER_NAME_SIZE];
    const enum stem stem = building->model->sizes.stem;
    const size_t width = building->model->sizes.width;
    const struct window window = stem == STEM_LARGE ? square(7, 2, 3) : square(3, stem == STEM_SMALL_HALVING ? 2 : 1, 1);
    struct node node = convolve(building, "conv1", begin(building), width, window, false);
    node = normalize(building, "norm1", node, (struct behind){ true, NULL });
    if (stem == STEM_LARGE)
        node = pool(building, &layer_max_pool, "pool1", node, square(3, 2, 1));
    for (size_t stage = 0; stage < 4; stage++)
        for (size_t i = 0; i < lengths[stage]; i++)
            node = residual_block(building, build_name(block, "block%zu.%zu", stage + 1, i), node, width << stage,
                                  stage > 0 && i == 0 ? 2 : 1, is_bottleneck);
    end(building, project(building, "scores", average_all(building, node), building->model->sizes.classes), NULL);
}

// --- Inception v3 ----------------------------------------------------------------------

// A convolution without a bias, and a batch norm with a ReLU.
static struct node unit(struct building *building, const char *prefix, const char *what, struct node from,
                        size_t channels, struct window window)
{
    char name[LAYER_NAME_SIZE];
    const struct node node = convolve(building, build_name(name, "%s.%s", prefix, what), from, channels, window, false);
    return normalize(building, build_name(name, "%s.%s.norm", prefix, what), node, (struct behind){ true, NULL });
}

static struct window wide(size_t size)
{
    return (struct window){ 1, size, 1, 1, 0, size / 2 };
}

static struct window high(size_t size)
{
    return (struct window){ size, 1, 1, 1, size / 2, 0 };
}

static struct node pool_named(struct building *building, const struct layer_kind *kind, const char *prefix,
                              struct node from, struct window window)
{
    char name[LAYER_NAME_SIZE];
    return pool(building, kind, build_name(name, "%s.pool", prefix), from, window);
}

static struct node join_named(struct building *building, const char *prefix, const struct node *nodes, size_t count)
{
    char name[LAYER_NAME_SIZE];
    return join(building, build_name(name, "%s.join", prefix), nodes, count);
}

static struct node inception_a(struct building *b, const char *prefix, struct node from, size_t pooled)
{
    struct node nodes[4];
    nodes[0] = unit(b, prefix, "1x1", from, 64, square(1, 1, 0));
    nodes[1] = unit(b, prefix, "5x5a", from, 48, square(1, 1, 0));
    nodes[1] = unit(b, prefix, "5x5b", nodes[1], 64, square(5, 1, 2));
    nodes[2] = unit(b, prefix, "3x3a", from, 64, square(1, 1, 0));
    nodes[2] = unit(b, prefix, "3x3b", nodes[2], 96, square(3, 1, 1));
    nodes[2] = unit(b, prefix, "3x3c", nodes[2], 96, square(3, 1, 1));
    nodes[3] = pool_named(b, &layer_average_pool, prefix, from, square(3, 1, 1));
    nodes[3] = unit(b, prefix, "pooled", nodes[3], pooled, square(1, 1, 0));
    return join_named(b, prefix, nodes, 4);
}

static struct node inception_b(struct building *b, const char *prefix, struct node from)
{
    struct node nodes[3];
    nodes[0] = unit(b, prefix, "3x3", from, 384, square(3, 2, 0));
    nodes[1] = unit(b, prefix, "3x3a", from, 64, square(1, 1, 0));
    nodes[1] = unit(b, prefix, "3x3b", nodes[1], 96, square(3, 1, 1));
    nodes[1] = unit(b, prefix, "3x3c", nodes[1], 96, square(3, 2, 0));
    nodes[2] = pool_named(b, &layer_max_pool, prefix, from, square(3, 2, 0));
    return join_named(b, prefix, nodes, 3);
}

static struct node inception_c(struct building *b, const char *prefix, struct node from, size_t narrow)
{
    struct node nodes[4];
    nodes[0] = unit(b, prefix, "1x1", from, 192, square(1, 1, 0));
    nodes[1] = unit(b, prefix, "7x7a", from, narrow, square(1, 1, 0));
    nodes[1] = unit(b, prefix, "7x7b", nodes[1], narrow, wide(7));
    nodes[1] = unit(b, prefix, "7x7c", nodes[1], 192, high(7));
    nodes[2] = unit(b, prefix, "7x7d", from, narrow, square(1, 1, 0));
    nodes[2] = unit(b, prefix, "7x7e", nodes[2], narrow, high(7));
    nodes[2] = unit(b, prefix, "7x7f", nodes[2], narrow, wide(7));
    nodes[2] = unit(b, prefix, "7x7g", nodes[2], narrow, high(7));
    nodes[2] = unit(b, prefix, "7x7h", nodes[2], 192, wide(7));
    nodes[3] = pool_named(b, &layer_average_pool, prefix, from, square(3, 1, 1));
    nodes[3] = unit(b, prefix, "pooled", nodes[3], 192, square(1, 1, 0));
    return join_named(b, prefix, nodes, 4);
}

static struct node inception_d(struct building *b, const char *prefix, struct node from)
{
    struct node nodes[3];
    nodes[0] = unit(b, prefix, "3x3a", from, 192, square(1, 1, 0));
    nodes[0] = unit(b, prefix, "3x3b", nodes[0], 320, square(3, 2, 0));
    nodes[1] = unit(b, prefix, "7x7a", from, 192, square(1, 1, 0));
    nodes[1] = unit(b, prefix, "7x7b", nodes[1], 192, wide(7));
    nodes[1] = unit(b, prefix, "7x7c", nodes[1], 192, high(7));
    nodes[1] = unit(b, prefix, "7x7d", nodes[1], 192, square(3, 2, 0));
    nodes[2] = pool_named(b, &layer_max_pool, prefix, from, square(3, 2, 0));
    return join_named(b, prefix, nodes, 3);
}

// Two convolutions of one input, side by side.
static struct node fan(struct building *b, const char *prefix, const char *what, struct node from)
{
    char name[LAYER_NAME_SIZE];
    struct node nodes[2];
    nodes[0] = unit(b, prefix, build_name(name, "%s.wide", what), from, 384, wide(3));
    nodes[1] = unit(b, prefix, build_name(name, "%s.high", what), from, 384, high(3));
    return join(b, build_name(name, "%s.%s.join", prefix, what), nodes, 2);
}

static struct node inception_e(struct building *b, const char *prefix, struct node from)
{
    struct node nodes[4];
    nodes[0] = unit(b, prefix, "1x1", from, 320, square(1, 1, 0));
    nodes[1] = fan(b, prefix, "3x3", unit(b, prefix, "3x3", from, 384, square(1, 1, 0)));
    nodes[2] = unit(b, prefix, "3x3d", from, 448, square(1, 1, 0));
    nodes[2] = fan(b, prefix, "3x3e", unit(b, prefix, "3x3e", nodes[2], 384, square(3, 1, 1)));
    nodes[3] = pool_named(b, &layer_average_pool, prefix, from, square(3, 1, 1));
    nodes[3] = unit(b, prefix, "pooled", nodes[3], 192, square(1, 1, 0));
    return join_named(b, prefix, nodes, 4);
}

// The second classifier, behind the layers of 17 by 17 pixels.
static struct node inception_auxiliary(struct building *b, struct node from)
{
    struct node node = pool_named(b, &layer_average_pool, "auxiliary", from, square(5, 3, 0));
    node = unit(b, "auxiliary", "1x1", node, 128, square(1, 1, 0));
    node = unit(b, "auxiliary", "5x5", node, 768, square(5, 1, 0));
    return project(b, "auxiliary.scores", node, b->model->sizes.classes);
}

static void build_inception_v3(struct building *b)
{
    struct node node = unit(b, "stem", "1", begin(b), 32, square(3, 2, 0));
    node = unit(b, "stem", "2", node, 32, square(3, 1, 0));
    node = unit(b, "stem", "3", node, 64, square(3, 1, 1));
    node = pool(b, &layer_max_pool, "stem.pool3", node, square(3, 2, 0));
    node = unit(b, "stem", "4", node, 80, square(1, 1, 0));
    node = unit(b, "stem", "5", node, 192, square(3, 1, 0));
    node = pool(b, &layer_max_pool, "stem.pool5", node, square(3, 2, 0));
    node = inception_a(b, "a1", node, 32);
    node = inception_a(b, "a2", node, 64);
    node = inception_a(b, "a3", node, 64);
    node = inception_b(b, "b", node);
    node = inception_c(b, "c1", node, 128);
    node = inception_c(b, "c2", node, 160);
    node = inception_c(b, "c3", node, 160);
    node = inception_c(b, "c4", node, 192);
    const struct node auxiliary = inception_auxiliary(b, node);
    node = inception_d(b, "d", node);
    node = inception_e(b, "e1", node);
    node = inception_e(b, "e2", node);
    node = drop(b, "dropout", average_all(b, node), 0.5f);
    end(b, project(b, "scores", node, b->model->sizes.classes), &auxiliary);
}

// --- U-Net -----------------------------------------------------------------------------

// A class for each pixel. What the way down had at each depth comes to the way up again, beside what comes from below.
static void build_unet(struct building *b)
{
    enum { MOST_DEPTH = 8 };
    char name[LAYER_NAME_SIZE];
    struct node skips[MOST_DEPTH], node = begin(b);
    const size_t depth = b->model->sizes.blocks, width = b->model->sizes.width;
    if (depth > MOST_DEPTH || node.height % ((size_t)1 << depth) != 0) {
        b->has_failed = true;
        error_set(b->error, "%zu pixels cannot be halved %zu times, once per block: take a multiple of %zu, or fewer"
                  " blocks (at most %d)", node.height, depth, (size_t)1 << (depth < MOST_DEPTH ? depth : MOST_DEPTH),
                  MOST_DEPTH);
        return;
    }
    for (size_t d = 0; d < depth; d++) {
        skips[d] = unit(b, build_name(name, "down%zu", d), "a", node, width << d, square(3, 1, 1));
        skips[d] = unit(b, name, "b", skips[d], width << d, square(3, 1, 1));
        node = pool_named(b, &layer_max_pool, name, skips[d], square(2, 2, 0));
    }
    node = unit(b, "bottom", "a", node, width << depth, square(3, 1, 1));
    node = unit(b, "bottom", "b", node, width << depth, square(3, 1, 1));
    for (size_t d = depth; d-- > 0;) {
        struct layer *up = add(b, &layer_upsample, build_name(name, "up%zu.larger", d), node);
        up->shape.picture.factor = 2;
        up->shape.sequence *= 4;
        const struct node larger = unit(b, build_name(name, "up%zu", d), "narrow",
                                        node_of(up, 2 * node.height, 2 * node.width), width << d, square(3, 1, 1));
        node = join_named(b, name, (struct node[]){ skips[d], larger }, 2);
        node = unit(b, name, "a", node, width << d, square(3, 1, 1));
        node = unit(b, name, "b", node, width << d, square(3, 1, 1));
    }
    end(b, convolve(b, "scores", node, b->model->sizes.classes, square(1, 1, 0), true), NULL);
}

// --- models for small pictures -----------------------------------------------------------

static void build_fashion_mlp(struct building *building)
{
    struct node node = project(building, "linear1", begin(building), 256);
    node = rectify(building, "relu1", node);
    node = project(building, "linear2", node, 128);
    node = rectify(building, "relu2", node);
    end(building, project(building, "scores", node, building->model->sizes.classes), NULL);
}

static void build_fashion_cnn(struct building *building)
{
    char name[LAYER_NAME_SIZE];
    struct node node = begin(building);
    for (size_t i = 1; i <= 2; i++) {
        node = convolve(building, build_name(name, "conv%zu", i), node, 16 * i, square(3, 1, 1), true);
        node = rectify(building, build_name(name, "relu%zu", i), node);
        node = pool(building, &layer_max_pool, build_name(name, "pool%zu", i), node, square(2, 2, 0));
    }
    node = rectify(building, "relu3", project(building, "linear3", node, 128));
    end(building, project(building, "scores", node, building->model->sizes.classes), NULL);
}

// --- by name -------------------------------------------------------------------------------

void build_picture_model(struct building *building)
{
    static const struct {
        const char *name;
        size_t lengths[4];
        bool is_bottleneck;
    } resnets[] = {
        { "resnet18", { 2, 2, 2, 2 }, false }, { "resnet34", { 3, 4, 6, 3 }, false },
        { "resnet50", { 3, 4, 6, 3 }, true },  { "resnet101", { 3, 4, 23, 3 }, true },
        { "resnet152", { 3, 8, 36, 3 }, true },
    };
    static const struct {
        const char *name;
        void (*build)(struct building *building);
    } others[] = {
        { "alexnet", build_alexnet },           { "vgg16", build_vgg16 },
        { "inception_v3", build_inception_v3 }, { "unet", build_unet },
        { "fashion-mlp", build_fashion_mlp },   { "fashion-cnn", build_fashion_cnn },
    };
    for (size_t i = 0; i < sizeof resnets / sizeof resnets[0]; i++)
        if (strcmp(building->model->name, resnets[i].name) == 0)
            build_resnet(building, resnets[i].lengths, resnets[i].is_bottleneck);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(building->model->name, others[i].name) == 0)
            others[i].build(building);
}
