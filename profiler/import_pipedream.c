#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"
#include "profiler/import.h"
#include "profiler/import_parts.h"
#include "profiler/pipedream_graph.h"

// Which node becomes which layer, and along which links.
struct layout {
    const struct pipedream_graph *graph;
    struct import_link *links;  // the graph's links, one for one, until they are placed
    bool *early;                // inputs come first
    struct import_order order;
};

static bool make_layout(struct layout *layout, const struct pipedream_graph *graph, struct error *error)
{
    *layout = (struct layout){ .graph = graph, .links = calloc(graph->link_count + 1, sizeof layout->links[0]),
                               .early = calloc(graph->node_count, sizeof layout->early[0]) };
    if (!layout->links || !layout->early)
        return error_no_memory(error, "the order of a PipeDream graph");
    for (size_t n = 0; n < graph->node_count; n++)
        layout->early[n] = graph->nodes[n].is_input;
    for (size_t l = 0; l < graph->link_count; l++)
        layout->links[l] = graph->links[l].link;
    return import_order_find(&layout->order, graph->node_count, layout->links, graph->link_count, layout->early, error);
}

static void clear_layout(struct layout *layout)
{
    import_order_clear(&layout->order);
    free(layout->links);
    free(layout->early);
}

static bool refuse_cycle(const struct layout *layout, struct error *error)
{
    const struct pipedream_link *link = &layout->graph->links[layout->order.cycle];
    if (link->link.from == link->link.to)
        error_set(error, "%.60s feeds itself", link->from_id);
    else
        error_set(error, "the edge from %.60s to %.60s closes a cycle", link->from_id, link->to_id);
    return pipedream_graph_at(layout->graph, link->link.place, error);
}

// --- the profile -------------------------------------------------------------------

// "data/vgg16.graph.txt" is vgg16. So is "vgg16/graph.txt", since PipeDream gives all of them this name.
static char *model_name(const char *path)
{
    static const char *const endings[] = { ".txt", ".graph", NULL };
    static const char plain[] = "/graph.txt";
    const size_t length = strlen(path), end = sizeof plain - 1;
    if (length <= end || strcmp(path + length - end, plain) != 0)
        return import_model_name(path, endings, "pipedream");
    char *folder = strndup(path, length - end);
    char *name = folder ? import_model_name(folder, endings, "pipedream") : NULL;
    free(folder);
    return name;
}

// "node5 -- Conv2d(3, 64)" becomes node5.Conv2d, since plans call layers by name and know no kinds. Characters that
// do not belong in a name become "_".
static char *layer_name(const struct pipedream_node *node)
{
    enum { MOST_KIND = 40 };
    struct text name = { 0 };
    struct error ignored = { 0 };
    size_t length = strlen(node->kind);
    while (length > 0 && node->kind[length - 1] == ' ')
        length--;
    text_add(&name, "%s%s", node->id, length > 0 ? "." : "");
    for (size_t i = 0; i < length && i < MOST_KIND; i++)
        text_add(&name, "%c", isalnum((unsigned char)node->kind[i]) || node->kind[i] == '-' ? node->kind[i] : '_');
    return text_take(&name, &ignored);
}

// Times of inputs are set to zero, as in PipeDream: they are those of reading the data.
static bool fill_layer(struct profile_layer *layer, const struct pipedream_node *node)
{
    const uint64_t backward_ns = node->is_input ? 0 : node->backward_ns;
    layer->name = layer_name(node);
    layer->kind = strdup(node->kind);
    layer->forward_ns = node->is_input ? 0 : node->forward_ns;
    layer->backward_input_ns = backward_ns / 2;
    layer->backward_weight_ns = backward_ns - backward_ns / 2;
    layer->backward_ns = backward_ns;
    layer->parameter_bytes = node->parameter_bytes;
    layer->output_bytes = node->output_bytes;
    layer->saved_bytes = node->output_bytes;
    return layer->name && layer->kind;
}

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static char *make_notes(const struct pipedream_graph *graph, struct error *error)
{
    struct text notes = { 0 };
    size_t inputs = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        inputs += graph->nodes[n].is_input;
    text_add(
        &notes,
        "A PipeDream graph of %zu node%s and %zu edge%s. Its backward is taken as half I and half W, what is saved as "
        "the output, and its mini-batch as one micro-batch",
        graph->node_count, plural(graph->node_count), graph->link_count, plural(graph->link_count));
    if (inputs > 0)
        text_add(&notes, "; %zu Input node%s at no cost", inputs, plural(inputs));
    if (graph->stage_ids > 0)
        text_add(&notes, "; %zu stage_id left out", graph->stage_ids);
    if (graph->unknown > 0)
        text_add(&notes, "; %zu unknown field%s left out", graph->unknown, plural(graph->unknown));
    text_add(&notes, ".");
    return text_take(&notes, error);
}

// Names that include kinds could coincide ("a" of kind "b.c", "a.b" of kind "c"). In that case kinds are left out.
static bool name_layers(struct profile *profile, const struct layout *layout, struct error *error)
{
    struct error alike = { 0 };
    if (import_check_names(profile, layout->graph->name, &alike) || alike.kind == ERROR_MACHINE)
        return alike.kind == ERROR_NONE || error_no_memory(error, "the names of a profile");
    for (size_t i = 0; i < profile->layer_count; i++) {
        free(profile->layers[i].name);
        profile->layers[i].name = strdup(layout->graph->nodes[layout->order.node_of[i]].id);
        if (!profile->layers[i].name)
            return error_no_memory(error, "the names of a profile");
    }
    return true;
}

static bool fill_profile(struct profile *profile, struct layout *layout, struct error *error)
{
    const struct pipedream_graph *graph = layout->graph;
    const struct import_order *order = &layout->order;
    for (size_t i = 0; i < profile->layer_count; i++)
        if (!fill_layer(&profile->layers[i], &graph->nodes[order->node_of[i]]))
            return error_no_memory(error, "the layers of a profile");
    if (!name_layers(profile, layout, error))
        return false;
    const char *what;
    const size_t layer = profile_overflow_at(profile, &what);
    if (layer < profile->layer_count) {
        error_set(error, "the %s up to this node add up to more than a profile can hold", what);
        return pipedream_graph_at(graph, graph->nodes[order->node_of[layer]].line, error);
    }
    for (size_t i = 0; i < profile->layer_count; i++)
        profile->source.sum_ns += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    profile->notes = make_notes(graph, error);
    import_links_place(layout->links, graph->link_count, order);
    return profile->notes && import_set_edges(profile, layout->links, graph->link_count, error)
        && profile_rehash(profile, error);
}

static struct profile *make_profile(struct layout *layout, uint64_t micro_batch, struct error *error)
{
    char *model = model_name(layout->graph->name);
    struct profile *profile = import_begin(model, micro_batch, layout->graph->node_count, error);
    if (!profile || fill_profile(profile, layout, error))
        return profile;
    profile_free(profile);
    return NULL;
}

static struct profile *graph_profile(const struct pipedream_graph *graph, uint64_t micro_batch, struct error *error)
{
    struct layout layout;
    struct profile *profile = NULL;
    if (make_layout(&layout, graph, error)) {
        if (layout.order.placed == graph->node_count)
            profile = make_profile(&layout, micro_batch, error);
        else
            refuse_cycle(&layout, error);
    }
    clear_layout(&layout);
    return profile;
}

struct profile *import_pipedream_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                      struct error *error)
{
    struct pipedream_graph graph;
    struct profile *profile = NULL;
    if (pipedream_graph_read(&graph, text, length, name, error))
        profile = graph_profile(&graph, micro_batch, error);
    pipedream_graph_clear(&graph);
    return profile;
}

struct profile *import_pipedream(const char *path, uint64_t micro_batch, struct error *error)
{
    size_t length;
    char *text = text_load(path, &length, error);
    if (!text)
        return NULL;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    struct profile *profile = import_pipedream_text(text, length, name, micro_batch, error);
    free(text);
    return profile;
}
