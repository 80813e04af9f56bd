#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"
#include "profiler/import.h"
#include "profiler/pipedream_graph.h"

// --- a topological order ---------------------------------------------------------
//
// Nodes stand sorted by number. Of those whose producers are all placed, inputs go
// first, then the lowest number:
//
//     node1 Input      node3 -> node2        order  node1 node3 node2 node4
//     node1 -> node3   node2 -> node4

struct order {
    const struct pipedream_graph *graph;
    uint32_t *first;   // of node i's links; node_count + 1 of them
    uint32_t *waiting; // how many producers of a node are not placed yet
    uint32_t *heap;    // nodes that could be next, the least on top
    size_t heap_count;
    uint32_t *layer_of; // node to layer
    uint32_t *node_of;  // layer to node
    size_t placed;
};

static void order_clear(struct order *order)
{
    free(order->first);
    free(order->waiting);
    free(order->heap);
    free(order->layer_of);
    free(order->node_of);
}

static bool order_create(struct order *order, const struct pipedream_graph *graph)
{
    const size_t nodes = graph->node_count;
    *order = (struct order){ .graph = graph };
    order->first = calloc(nodes + 1, sizeof(uint32_t));
    order->waiting = calloc(nodes, sizeof(uint32_t));
    order->heap = calloc(nodes, sizeof(uint32_t));
    order->layer_of = calloc(nodes, sizeof(uint32_t));
    order->node_of = calloc(nodes, sizeof(uint32_t));
    return order->first && order->waiting && order->heap && order->layer_of && order->node_of;
}

static bool goes_before(const struct pipedream_graph *graph, uint32_t a, uint32_t b)
{
    if (graph->nodes[a].is_input != graph->nodes[b].is_input)
        return graph->nodes[a].is_input;
    return a < b;
}

static void heap_push(struct order *order, uint32_t node)
{
    size_t at = order->heap_count++;
    while (at > 0 && goes_before(order->graph, node, order->heap[(at - 1) / 2])) {
        order->heap[at] = order->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    order->heap[at] = node;
}

static uint32_t heap_pop(struct order *order)
{
    const uint32_t top = order->heap[0], last = order->heap[--order->heap_count];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < order->heap_count) {
        if (child + 1 < order->heap_count && goes_before(order->graph, order->heap[child + 1], order->heap[child]))
            child++;
        if (goes_before(order->graph, last, order->heap[child]))
            break;
        order->heap[at] = order->heap[child];
        at = child;
    }
    order->heap[at] = last;
    return top;
}

static void place_nodes(struct order *order)
{
    const struct pipedream_graph *graph = order->graph;
    for (size_t l = 0; l < graph->link_count; l++) {
        order->first[graph->links[l].from + 1] = (uint32_t)l + 1;
        order->waiting[graph->links[l].to]++;
    }
    for (size_t n = 0; n < graph->node_count; n++)
        if (order->first[n + 1] < order->first[n])
            order->first[n + 1] = order->first[n]; // feeds nobody
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (order->waiting[n] == 0)
            heap_push(order, n);
    while (order->heap_count > 0) {
        const uint32_t node = heap_pop(order);
        order->layer_of[node] = (uint32_t)order->placed;
        order->node_of[order->placed++] = node;
        for (uint32_t l = order->first[node]; l < order->first[node + 1]; l++)
            if (--order->waiting[graph->links[l].to] == 0)
                heap_push(order, graph->links[l].to);
    }
}

// Every node that was not placed waits for another such node, so walking from
// producer to producer must come back to where it has been: that is the cycle.
static bool refuse_cycle(const struct order *order, struct error *error)
{
    const struct pipedream_graph *graph = order->graph;
    uint32_t *producer = order->heap; // the heap is empty by now; a link per waiting node
    uint32_t *seen = order->node_of;
    for (size_t l = graph->link_count; l-- > 0;)
        if (order->waiting[graph->links[l].from] > 0)
            producer[graph->links[l].to] = (uint32_t)l;
    uint32_t node = 0;
    while (order->waiting[node] == 0)
        node++;
    memset(seen, 0, graph->node_count * sizeof seen[0]);
    while (!seen[node]) {
        seen[node] = 1;
        node = graph->links[producer[node]].from;
    }
    const struct pipedream_link *link = &graph->links[producer[node]];
    if (link->from == link->to)
        error_set(error, "%.60s feeds itself", link->from_id);
    else
        error_set(error, "the edge from %.60s to %.60s closes a cycle", link->from_id, link->to_id);
    return pipedream_graph_at(graph, link->line, error);
}

// --- the profile -------------------------------------------------------------------

// "data/vgg16.graph.txt" is vgg16; a plain "vgg16/graph.txt", as PipeDream names
// all of them, is vgg16 too.
static char *model_name(const char *path)
{
    const char *end = path + strlen(path), *begin = strrchr(path, '/');
    begin = begin ? begin + 1 : path;
    if (strcmp(begin, "graph.txt") == 0 && begin > path + 1) {
        end = begin - 1;
        for (begin = end; begin > path && begin[-1] != '/'; begin--)
            ;
    }
    static const char *const suffixes[] = { ".txt", ".graph" };
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(suffixes[i]);
        if ((size_t)(end - begin) > length && strncmp(end - length, suffixes[i], length) == 0)
            end -= length;
    }
    return end > begin ? strndup(begin, (size_t)(end - begin)) : strdup("pipedream");
}

// PipeDream zeroes inputs too: what it measured there is reading the data.
static bool fill_layer(struct profile_layer *layer, const struct pipedream_node *node)
{
    const uint64_t backward_ns = node->is_input ? 0 : node->backward_ns;
    layer->name = strdup(node->id);
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

static int compare_edges(const void *a, const void *b)
{
    const struct edge *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return (left->to > right->to) - (left->to < right->to);
}

static bool is_chain(const struct profile *profile)
{
    for (uint32_t i = 0; i < profile->edge_count; i++)
        if (profile->edges[i].from != i || profile->edges[i].to != i + 1)
            return false;
    return profile->edge_count + 1 == profile->layer_count;
}

static bool fill_edges(struct profile *profile, const struct order *order, struct error *error)
{
    const struct pipedream_graph *graph = order->graph;
    profile->edges = calloc(graph->link_count + 1, sizeof profile->edges[0]);
    if (!profile->edges)
        return error_no_memory(error, "the edges of a profile");
    for (size_t l = 0; l < graph->link_count; l++)
        profile->edges[l] = (struct edge){ order->layer_of[graph->links[l].from], order->layer_of[graph->links[l].to] };
    profile->edge_count = graph->link_count;
    qsort(profile->edges, profile->edge_count, sizeof profile->edges[0], compare_edges);
    profile->is_chain = is_chain(profile);
    if (profile->is_chain)
        profile->edge_count = 0;
    return true;
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

static bool fill_profile(struct profile *profile, const struct order *order, struct error *error)
{
    const struct pipedream_graph *graph = order->graph;
    profile->source.how = PROFILE_IMPORTED;
    for (size_t i = 0; i < profile->layer_count; i++)
        if (!fill_layer(&profile->layers[i], &graph->nodes[order->node_of[i]]))
            return error_no_memory(error, "the layers of a profile");
    const char *what;
    const size_t layer = profile_overflow_at(profile, &what);
    if (layer < profile->layer_count) {
        error_set(error, "the %s up to this node add up to more than a profile can hold", what);
        return pipedream_graph_at(graph, graph->nodes[order->node_of[layer]].line, error);
    }
    for (size_t i = 0; i < profile->layer_count; i++)
        profile->source.sum_ns += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    profile->notes = make_notes(graph, error);
    return profile->notes && fill_edges(profile, order, error) && profile_rehash(profile, error);
}

static struct profile *make_profile(const struct order *order, uint64_t micro_batch, struct error *error)
{
    char *model = model_name(order->graph->name);
    struct profile *profile =
        model ? profile_create(model, "fp32", micro_batch, order->graph->node_count, error) : NULL;
    if (!model)
        error_no_memory(error, "a model's name");
    free(model);
    if (!profile || fill_profile(profile, order, error))
        return profile;
    profile_free(profile);
    return NULL;
}

static struct profile *graph_profile(const struct pipedream_graph *graph, uint64_t micro_batch, struct error *error)
{
    struct order order;
    struct profile *profile = NULL;
    if (!order_create(&order, graph)) {
        error_no_memory(error, "the order of a PipeDream graph");
    } else {
        place_nodes(&order);
        if (order.placed == graph->node_count)
            profile = make_profile(&order, micro_batch, error);
        else
            refuse_cycle(&order, error);
    }
    order_clear(&order);
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
