#include "profiler/dnn_classes.h"

#include <stdlib.h>

#include "common/number.h"

enum { NOBODY = UINT32_MAX };

struct colour {
    uint64_t colour;
    uint32_t node;  // the first forward node, which has the lowest id
};

struct classes {
    struct dnn_graph *graph;
    struct colour *colours;  // those with forward nodes, sorted
    size_t colour_count;
    uint32_t *of;            // node to class
    uint32_t *first;         // class to its first forward node
    uint64_t *longest_ns;    // time of the forward node after which the class is named
    uint32_t count;
};

static int compare_colours(const void *a, const void *b)
{
    const struct colour *left = a, *right = b;
    if (left->colour != right->colour)
        return left->colour < right->colour ? -1 : 1;
    return (left->node > right->node) - (left->node < right->node);
}

static int compare_colour_alone(const void *a, const void *b)
{
    const struct colour *left = a, *right = b;
    return (left->colour > right->colour) - (left->colour < right->colour);
}

static bool find_colours(struct classes *classes, struct dnn_graph *graph)
{
    *classes = (struct classes){ .graph = graph, .colours = calloc(graph->node_count, sizeof classes->colours[0]),
                                 .of = calloc(graph->node_count, sizeof classes->of[0]),
                                 .first = calloc(graph->node_count, sizeof classes->first[0]),
                                 .longest_ns = calloc(graph->node_count, sizeof classes->longest_ns[0]) };
    if (!classes->colours || !classes->of || !classes->first || !classes->longest_ns)
        return false;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].has_colour && !graph->nodes[n].is_backward)
            classes->colours[classes->colour_count++] = (struct colour){ graph->nodes[n].colour, n };
    qsort(classes->colours, classes->colour_count, sizeof classes->colours[0], compare_colours);
    return true;
}

static void clear(struct classes *classes)
{
    free(classes->colours);
    free(classes->of);
    free(classes->first);
    free(classes->longest_ns);
}

// How many forward nodes have the colour, and the first of them.
static size_t count_forward(const struct classes *classes, uint64_t colour, uint32_t *first)
{
    const struct colour key = { .colour = colour };
    const struct colour *found = bsearch(&key, classes->colours, classes->colour_count, sizeof key,
                                         compare_colour_alone);
    size_t count = 0;
    if (!found)
        return 0;
    while (found > classes->colours && found[-1].colour == colour)
        found--;
    *first = found->node;
    for (; found < classes->colours + classes->colour_count && found->colour == colour; found++)
        count++;
    return count;
}

bool dnn_has_classes(const struct dnn_graph *graph)
{
    struct classes classes;
    bool found = false;
    uint32_t first;
    if (find_colours(&classes, (struct dnn_graph *)(uintptr_t)graph))
        for (size_t n = 0; n < graph->node_count && !found; n++)
            found = graph->nodes[n].is_backward
                 && (!graph->nodes[n].has_colour || count_forward(&classes, graph->nodes[n].colour, &first) != 1);
    clear(&classes);
    return found;
}

// --- which node is of which class ------------------------------------------------------------

// Puts a backward node without a class into that of the backward node that it feeds (or, with `backwards`, that feeds
// it).
static bool place_by_links(struct classes *classes, bool backwards)
{
    const struct dnn_graph *graph = classes->graph;
    bool has_placed = false;
    for (size_t l = 0; l < graph->link_count; l++) {
        const struct import_link *link = &graph->links[l];
        const uint32_t node = backwards ? link->to : link->from, other = backwards ? link->from : link->to;
        if (classes->of[node] != NOBODY || classes->of[other] == NOBODY || !graph->nodes[other].is_backward)
            continue;
        classes->of[node] = classes->of[other];
        has_placed = true;
    }
    return has_placed;
}

static bool find_classes(struct classes *classes, struct error *error)
{
    const struct dnn_graph *graph = classes->graph;
    uint32_t first = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct dnn_node *node = &graph->nodes[n];
        const bool is_of_colour = node->has_colour && count_forward(classes, node->colour, &first) > 0;
        classes->of[n] = NOBODY;
        if (!node->is_backward && (!is_of_colour || first == n)) {
            classes->first[classes->count] = n;
            classes->of[n] = classes->count++;
        } else if (!node->is_backward) {
            classes->of[n] = classes->of[first];
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].is_backward && graph->nodes[n].has_colour
            && count_forward(classes, graph->nodes[n].colour, &first) > 0)
            classes->of[n] = classes->of[first];
    while (place_by_links(classes, false) || place_by_links(classes, true))
        continue;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (classes->of[n] == NOBODY) {
            error_set(error, "node %llu is a backward node whose colour has no forward node, and no edge leads to one"
                      " that has", (unsigned long long)graph->nodes[n].id);
            return error_at(error, "%s: nodes[%u]", graph->document, graph->ids[n].place);
        }
    return true;
}

// --- the graph of classes ----------------------------------------------------------------------

// Node 2 c is the forward node of class c, and node 2 c + 1 its backward node. A class without backward nodes gets
// one that takes no time.
static void join_nodes(const struct classes *classes, struct dnn_node *nodes, struct import_id *ids)
{
    const struct dnn_graph *graph = classes->graph;
    uint64_t *longest_ns = classes->longest_ns;
    for (uint32_t c = 0; c < classes->count; c++) {
        const uint32_t first = classes->first[c];
        nodes[2 * c] = (struct dnn_node){ .id = graph->nodes[first].id, .forward = 2 * c };
        nodes[2 * c + 1] = (struct dnn_node){ .id = graph->nodes[first].id, .is_backward = true, .forward = 2 * c };
        ids[2 * c] = ids[2 * c + 1] = graph->ids[first];
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct dnn_node *node = &graph->nodes[n];
        const uint32_t class = classes->of[n];
        struct dnn_node *to = &nodes[2 * class + node->is_backward];
        to->accelerator_ns = add_clamped(to->accelerator_ns, node->accelerator_ns);
        to->cpu_ns = add_clamped(to->cpu_ns, node->cpu_ns);
        to->size_bytes = add_clamped(to->size_bytes, node->size_bytes);
        if (node->is_backward || node->accelerator_ns < longest_ns[class])
            continue;
        longest_ns[class] = node->accelerator_ns;
        to->name = node->name;
    }
}

// Links between nodes of different classes, sorted. Here `bytes` is their sender.
static size_t list_links(const struct classes *classes, struct import_link *links)
{
    const struct dnn_graph *graph = classes->graph;
    size_t count = 0;
    for (size_t l = 0; l < graph->link_count; l++) {
        const struct import_link *link = &graph->links[l];
        const uint32_t from = classes->of[link->from], to = classes->of[link->to];
        const bool is_back = graph->nodes[link->from].is_backward;
        if (from != to && is_back == graph->nodes[link->to].is_backward)
            links[count++] = (struct import_link){ 2 * from + is_back, 2 * to + is_back, link->place, link->from };
    }
    qsort(links, count, sizeof links[0], import_compare_links);
    return count;
}

// If a backward node reads another layer's forward node, this is that layer's tensor, which already arrives along an
// edge.
static bool check_crossing(const struct classes *classes, const struct import_link *links, size_t count,
                           struct error *error)
{
    const struct dnn_graph *graph = classes->graph;
    for (size_t l = 0; l < graph->link_count; l++) {
        const struct import_link *link = &graph->links[l];
        const struct dnn_node *from = &graph->nodes[link->from], *to = &graph->nodes[link->to];
        const uint32_t a = classes->of[link->from], b = classes->of[link->to];
        if (from->is_backward && !to->is_backward)
            return dnn_graph_refuse_edge(graph, link->place, error,
                                         "the edge goes from backward node %llu to forward node %llu", from->id,
                                         to->id);
        if (!from->is_backward && to->is_backward && a != b && !import_links_find(links, count, 2 * a, 2 * b))
            return dnn_graph_refuse_edge(graph, link->place, error,
                                         "nothing goes forward from node %llu to the layer of backward node %llu",
                                         from->id, to->id);
    }
    return true;
}

// Makes one link of all links between nodes of two classes. It has the sum of what its senders send, each counted
// once. A class sends all that leaves it. `sent` has room for all nodes: 1 + the joined link along which each was
// last counted.
static size_t join_links(const struct classes *classes, struct import_link *links, size_t count, struct dnn_node *nodes,
                         size_t *sent)
{
    size_t joined = 0;
    for (size_t l = 0; l < count; l++) {
        const struct import_link link = links[l];
        const uint64_t ns = classes->graph->nodes[link.bytes].send_ns;
        if (joined == 0 || links[joined - 1].from != link.from || links[joined - 1].to != link.to)
            links[joined++] = (struct import_link){ link.from, link.to, link.place, 0 };
        if (sent[link.bytes] == 0)
            nodes[link.from].send_ns = add_clamped(nodes[link.from].send_ns, ns);
        if (sent[link.bytes] != joined)
            links[joined - 1].bytes = add_clamped(links[joined - 1].bytes, ns);
        sent[link.bytes] = joined;
    }
    return joined;
}

// In a profile, everything that a layer passes on crosses a cut with each of its edges, and crosses it back as a
// gradient.
static void count_unlike(struct dnn_graph *graph, const struct dnn_node *nodes)
{
    for (size_t l = 0; l < graph->link_count; l++) {
        const struct import_link *link = &graph->links[l];
        const struct import_link *back =
            import_links_find(graph->backward, graph->backward_count, link->to + 1, link->from + 1);
        graph->unlike_count += link->bytes != nodes[link->from].send_ns || (back ? back->bytes : 0) != link->bytes;
    }
    for (size_t l = 0; l < graph->backward_count; l++) {
        const struct import_link *link = &graph->backward[l];
        graph->unlike_count +=
            link->bytes > 0 && !import_links_find(graph->links, graph->link_count, link->to - 1, link->from - 1);
    }
}

static bool join(struct classes *classes, struct dnn_node *nodes, struct import_id *ids, struct import_link *links,
                 size_t *sent, struct error *error)
{
    struct dnn_graph *graph = classes->graph;
    size_t count = list_links(classes, links);
    if (!check_crossing(classes, links, count, error))
        return false;
    join_nodes(classes, nodes, ids);
    count = join_links(classes, links, count, nodes, sent);
    graph->link_count = graph->backward_count = 0;
    for (size_t l = 0; l < count; l++)
        *(nodes[links[l].from].is_backward ? &graph->backward[graph->backward_count++]
                                           : &graph->links[graph->link_count++]) = links[l];
    count_unlike(graph, nodes);
    free(graph->nodes);
    free(graph->ids);
    graph->nodes = nodes;
    graph->ids = ids;
    graph->node_count = 2 * (size_t)classes->count;
    graph->forward_count = classes->count;
    return true;
}

bool dnn_join_classes(struct dnn_graph *graph, struct error *error)
{
    struct classes classes;
    bool good = find_colours(&classes, graph) || error_no_memory(error, "the colours of a graph");
    good = good && find_classes(&classes, error);
    struct dnn_node *nodes = calloc(2 * (size_t)classes.count + 1, sizeof nodes[0]);
    struct import_id *ids = calloc(2 * (size_t)classes.count + 1, sizeof ids[0]);
    struct import_link *links = calloc(graph->link_count + 1, sizeof links[0]);
    size_t *sent = calloc(graph->node_count + 1, sizeof sent[0]);
    good = good && ((nodes && ids && links && sent) || error_no_memory(error, "the layers of a graph"));
    good = good && join(&classes, nodes, ids, links, sent, error);
    if (!good) {
        free(nodes);
        free(ids);
    }
    free(links);
    free(sent);
    clear(&classes);
    return good;
}

bool dnn_graph_refuse_edge(const struct dnn_graph *graph, size_t place, struct error *error, const char *format,
                           uint64_t from, uint64_t to)
{
    error_set(error, format, (unsigned long long)from, (unsigned long long)to);
    return error_at(error, "%s: edges[%zu]", graph->document, place);
}
