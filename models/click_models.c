// The models that say how likely a click is, from numbers and from the ids of slots. `tables` are embedding tables, and
// an MLP is linear layers with ReLUs:
//
//     dlrm            numbers - MLP - bottom -.                          (Naumov and others, 2019)
//                                      tables - interaction - MLP - logit
//     dlrm, cross=3   concat(bottom, tables) = x; three times            (DCN v2; Wang and others, 2020)
//                     x = first x * (W V x + b) + x; MLP - logit
//     wide-and-deep   tables of one column, linear(numbers),             (Cheng and others, 2016)
//                     MLP(numbers, tables): their sum is the logit
//     deepfm          the same, and the products of every two vectors    (Guo and others, 2017)
//
// With `exchange`, a layer behind the tables exchanges vectors among devices that have parts of the tables, so that a
// schedule can look them up ahead.
#include <string.h>

#include "models/build.h"

// The output of a layer.
struct node {
    uint32_t layer;
    size_t width;
};

static struct layer *add(struct building *building, const struct layer_kind *kind, const char *name, size_t width)
{
    struct layer *layer = build_layer(building, kind, name);
    const struct model_sizes *sizes = &building->model->sizes;
    layer->shape = (struct layer_shape){ .batch = sizes->micro_batch, .sequence = 1, .in = width, .out = width,
                                         .precision = sizes->precision };
    return layer;
}

// So that tests of a layer's inputs, which count pixels, find one for each sample.
static void read_node(struct building *building, struct layer *layer, struct node from)
{
    layer->shape.picture.height = layer->shape.picture.width = 1;
    build_input(building, layer, from.layer, from.width);
}

static struct node node_of(const struct layer *layer)
{
    return (struct node){ layer->index, layer->shape.out };
}

// --- sources -----------------------------------------------------------------------

static struct node numbers(struct building *building)
{
    return node_of(add(building, &layer_numbers, "numbers", building->model->sizes.clicks.numbers));
}

static struct node tables(struct building *building, const char *name, size_t columns)
{
    const struct click_sizes sizes = building->model->sizes.clicks;
    struct layer *layer = add(building, &layer_tables, name, sizes.slots * columns);
    layer->shape.tables = (struct table_shape){ .slots = sizes.slots, .columns = columns, .most = sizes.ids,
                                                .is_mean = sizes.is_mean, .has_weights = sizes.is_weighted,
                                                .has_exchange = building->model->sizes.has_exchange };
    memcpy(layer->shape.tables.rows, sizes.rows, sizes.slots * sizeof sizes.rows[0]);
    return node_of(layer);
}

// In front of what reads the vectors of a sample, behind all tables.
static struct node exchanged(struct building *building, const char *name, struct node from)
{
    const struct table_shape tables = building->model->layers[from.layer].shape.tables;
    if (!building->model->sizes.has_exchange)
        return from;
    struct layer *layer = add(building, &layer_exchange, name, from.width);
    layer->shape.tables = tables;
    read_node(building, layer, from);
    return node_of(layer);
}

// --- layers ------------------------------------------------------------------------

static struct node project(struct building *building, const char *name, struct node from, size_t width, bool unbiased)
{
    struct layer *layer = add(building, &layer_linear, name, from.width);
    layer->shape.out = width;
    layer->shape.unbiased = unbiased;
    read_node(building, layer, from);
    return node_of(layer);
}

// Linear layers, each with a ReLU behind it.
static struct node perceptron(struct building *building, const char *prefix, struct node node,
                              const size_t widths[CLICK_LAYERS])
{
    char name[LAYER_NAME_SIZE];
    for (size_t i = 0; i < CLICK_LAYERS && widths[i] > 0; i++) {
        node = project(building, build_name(name, "%s.linear%zu", prefix, i + 1), node, widths[i], false);
        struct layer *relu = add(building, &layer_relu, build_name(name, "%s.relu%zu", prefix, i + 1), node.width);
        read_node(building, relu, node);
        node = node_of(relu);
    }
    return node;
}

static struct node join(struct building *building, const char *name, struct node first, struct node second)
{
    struct layer *layer = add(building, &layer_concat, name, first.width + second.width);
    read_node(building, layer, first);
    read_node(building, layer, second);
    return node_of(layer);
}

// `bottom` may be NULL.
static struct node interact(struct building *building, const char *name, const struct node *bottom, struct node vectors)
{
    const struct click_sizes sizes = building->model->sizes.clicks;
    struct layer *layer = add(building, &layer_interaction, name, vectors.width);
    layer->shape.out = interaction_width(sizes.slots, sizes.columns, bottom != NULL);
    layer->shape.tables.columns = sizes.columns;
    if (bottom)
        read_node(building, layer, *bottom);
    read_node(building, layer, vectors);
    return node_of(layer);
}

static struct node cross(struct building *building, struct node first)
{
    const struct click_sizes sizes = building->model->sizes.clicks;
    char name[LAYER_NAME_SIZE];
    struct node node = first;
    for (size_t i = 1; i <= sizes.cross; i++) {
        struct node y = project(building, build_name(name, "cross%zu.v", i), node, sizes.rank, true);
        y = project(building, build_name(name, "cross%zu.w", i), y, first.width, false);
        struct layer *layer = add(building, &layer_cross, build_name(name, "cross%zu", i), first.width);
        read_node(building, layer, first);
        read_node(building, layer, y);
        if (i > 1)
            read_node(building, layer, node);
        node = node_of(layer);
    }
    return node;
}

static void end(struct building *building, struct node logit)
{
    struct layer *layer = add(building, &layer_binary_cross_entropy, "loss", 1);
    layer->shape.out = 0;
    read_node(building, layer, logit);
}

// --- the models ----------------------------------------------------------------------

static void build_dlrm(struct building *building)
{
    const struct click_sizes sizes = building->model->sizes.clicks;
    const struct node looked_up = tables(building, "tables", sizes.columns);
    size_t widths[CLICK_LAYERS] = { 0 }, count = 0;
    struct node bottom = { 0 };
    for (; count + 1 < CLICK_LAYERS && sizes.bottom[count] > 0; count++)
        widths[count] = sizes.bottom[count];
    widths[count] = sizes.columns;
    if (sizes.numbers > 0)
        bottom = perceptron(building, "bottom", numbers(building), widths);
    const struct node vectors = exchanged(building, "exchange", looked_up);
    struct node node = vectors;
    if (sizes.cross == 0)
        node = interact(building, "interaction", sizes.numbers > 0 ? &bottom : NULL, vectors);
    else
        node = cross(building, sizes.numbers > 0 ? join(building, "join", bottom, vectors) : vectors);
    node = perceptron(building, "top", node, sizes.top);
    end(building, project(building, "logit", node, 1, false));
}

static void build_wide_and_deep(struct building *building)
{
    const struct click_sizes sizes = building->model->sizes.clicks;
    const struct node deep_tables = tables(building, "tables", sizes.columns);
    const struct node wide_tables = tables(building, "wide.tables", 1);
    const struct node vectors = exchanged(building, "exchange", deep_tables);
    struct node parts[4], deep = vectors;
    size_t count = 0;
    parts[count++] = exchanged(building, "wide.exchange", wide_tables);
    if (sizes.numbers > 0) {
        const struct node own = numbers(building);
        parts[count++] = project(building, "wide.numbers", own, 1, true);
        deep = join(building, "deep.join", own, vectors);
    }
    if (strcmp(building->model->name, "deepfm") == 0)
        parts[count++] = interact(building, "products", NULL, vectors);
    deep = perceptron(building, "deep", deep, sizes.top);
    parts[count++] = project(building, "deep.logit", deep, 1, false);
    struct layer *logit = add(building, &layer_row_sum, "logit", 1);
    for (size_t i = 0; i < count; i++)
        read_node(building, logit, parts[i]);
    end(building, node_of(logit));
}

void build_click_model(struct building *building)
{
    (strcmp(building->model->name, "dlrm") == 0 ? build_dlrm : build_wide_and_deep)(building);
}
