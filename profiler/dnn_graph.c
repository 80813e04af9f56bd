#include "profiler/dnn_graph.h"

#include <stdlib.h>

#include "profiler/dnn_classes.h"

static const double ms = 1e6;  // in ns
enum { MOST_DEVICES = 10000 };

void dnn_graph_clear(struct dnn_graph *graph)
{
    json_free(graph->json);
    free(graph->ids);
    free(graph->nodes);
    free(graph->links);
    free(graph->backward);
    free(graph->layer_node);
    free(graph->tied);
}

// --- reading ------------------------------------------------------------------------------

static struct dnn_node read_node(struct dnn_graph *graph, struct json *item)
{
    json_item_object(item);
    struct dnn_node node = {
        .id = json_u64(item, "id", 0, JSON_MAX),
        .name = json_has(item, "name") ? json_string(item, "name") : NULL,
        .is_backward = json_flag(item, "isBackwardNode"),
        .has_colour = json_has(item, "colorClass"),
        .accelerator_ns = import_number(item, "fpgaLatency", ms),
        .cpu_ns = import_number(item, "cpuLatency", ms),
        .size_bytes = json_has(item, "size") ? import_number(item, "size", 1) : 0,
    };
    if (node.has_colour)
        node.colour = json_u64(item, "colorClass", 0, JSON_MAX);
    if (!json_flag(item, "supportedOnFpga"))
        json_refuse_key(item, "supportedOnFpga", "is 0; Weir has no place for a layer that only a CPU can run");
    graph->unknown += json_unasked(item);
    return node;
}

static bool read_nodes(struct dnn_graph *graph, struct json *root, struct error *error)
{
    struct json list = json_array(root, "nodes"), item;
    const size_t count = json_count(&list);
    if (count == 0 || count > PROFILE_MOST_LAYERS)
        json_refuse(&list, "holds %zu nodes (1 to %d)", count, PROFILE_MOST_LAYERS);
    struct dnn_node *read = calloc(count + 1, sizeof read[0]);
    graph->ids = calloc(count + 1, sizeof graph->ids[0]);
    graph->nodes = calloc(count + 1, sizeof graph->nodes[0]);
    bool good = read && graph->ids && graph->nodes;
    for (uint32_t i = 0; good && json_next(&list, &item); i++) {
        read[i] = read_node(graph, &item);
        graph->ids[i] = (struct import_id){ read[i].id, i };
    }
    if (!good)
        error_no_memory(error, "the nodes of a graph");
    good = good && json_ok(graph->json, error) && import_ids_sort(graph->ids, count, graph->document, error);
    for (uint32_t i = 0; good && i < count; i++)
        graph->nodes[i] = read[graph->ids[i].place];
    graph->node_count = graph->read_count = count;
    for (uint32_t i = 0; good && i < count; i++)
        graph->read_backward += graph->nodes[i].is_backward;
    free(read);
    return good;
}

// All edges that leave a node carry the same tensor, so they cost the same.
static struct import_link read_edge(struct dnn_graph *graph, struct json *item, size_t place)
{
    json_item_object(item);
    const struct import_link link = { .from = import_end(graph->ids, graph->node_count, item, "sourceId"),
                                      .to = import_end(graph->ids, graph->node_count, item, "destId"),
                                      .place = place, .bytes = import_number(item, "cost", ms) };
    struct dnn_node *from = &graph->nodes[link.from];
    if (from->sender && from->send_ns != link.bytes)
        json_refuse_key(item, "cost", "is not that of edges[%zu], which leaves node %llu too", from->sender - 1,
                        (unsigned long long)from->id);
    from->sender = from->sender ? from->sender : place + 1;
    from->send_ns = link.bytes;
    json_has(item, "size");  // the bytes that take this time, if the file states them
    graph->unknown += json_unasked(item);
    return link;
}

static bool check_links(const struct dnn_graph *graph, const struct import_link *links, size_t count,
                        struct error *error)
{
    for (size_t l = 0; l < count; l++) {
        const uint64_t from = graph->nodes[links[l].from].id, to = graph->nodes[links[l].to].id;
        if (from == to)
            return dnn_graph_refuse_edge(graph, links[l].place, error, "node %llu feeds itself", from, to);
        if (l > 0 && links[l - 1].from == links[l].from && links[l - 1].to == links[l].to)
            return dnn_graph_refuse_edge(graph, links[l].place, error, "the edge from %llu to %llu is there twice",
                                         from, to);
    }
    return true;
}

static bool read_edges(struct dnn_graph *graph, struct json *root, struct error *error)
{
    struct json list = json_array(root, "edges"), item;
    const size_t count = json_count(&list);
    graph->links = calloc(count + 1, sizeof graph->links[0]);
    graph->backward = calloc(count + 1, sizeof graph->backward[0]);
    if (!graph->links || !graph->backward)
        return error_no_memory(error, "the edges of a graph");
    while (json_next(&list, &item)) {
        graph->links[graph->link_count] = read_edge(graph, &item, graph->link_count);
        graph->link_count++;
    }
    if (!json_ok(graph->json, error))
        return false;
    qsort(graph->links, graph->link_count, sizeof graph->links[0], import_compare_links);
    return check_links(graph, graph->links, graph->link_count, error);
}

static bool read_document(struct dnn_graph *graph, struct error *error)
{
    struct json root = json_root(graph->json);
    graph->memory_bytes = import_number(&root, "maxSizePerFPGA", 1);
    if (graph->memory_bytes == 0)
        json_refuse_key(&root, "maxSizePerFPGA", "is less than a byte");
    graph->accelerators = json_u64(&root, "maxFPGAs", 0, MOST_DEVICES);
    graph->cpus = json_u64(&root, "maxCPUs", 0, MOST_DEVICES);
    if (!read_nodes(graph, &root, error) || !read_edges(graph, &root, error))
        return false;
    graph->unknown += json_unasked(&root);
    return true;
}

// --- colour classes -------------------------------------------------------------------------

struct coloured {
    uint64_t colour;
    bool is_backward;
    uint32_t node;
};

static int compare_coloured(const void *a, const void *b)
{
    const struct coloured *left = a, *right = b;
    if (left->colour != right->colour)
        return left->colour < right->colour ? -1 : 1;
    if (left->is_backward != right->is_backward)
        return left->is_backward ? 1 : -1;
    return (left->node > right->node) - (left->node < right->node);
}

// The forward nodes of a colour come before the backward ones.
static bool match_colour(struct dnn_graph *graph, const struct coloured *first, size_t count, struct error *error)
{
    size_t forward = 0;
    while (forward < count && !first[forward].is_backward)
        forward++;
    if (forward < count && forward != 1) {
        error_set(error, "node %llu is a backward node, and its colour %llu has %zu forward nodes, not one",
                  (unsigned long long)graph->nodes[first[forward].node].id, (unsigned long long)first->colour, forward);
        return error_at(error, "%s: nodes[%u]", graph->document, graph->ids[first[forward].node].place);
    }
    for (size_t i = forward; i < count; i++)
        graph->nodes[first[i].node].forward = first->node;
    return true;
}

// `coloured` has room for all nodes. Returns how many have a colour.
static size_t sort_colours(const struct dnn_graph *graph, struct coloured *coloured)
{
    size_t count = 0;
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].has_colour)
            coloured[count++] = (struct coloured){ graph->nodes[i].colour, graph->nodes[i].is_backward, i };
    qsort(coloured, count, sizeof coloured[0], compare_coloured);
    return count;
}

static bool match_colours(struct dnn_graph *graph, const struct coloured *coloured, size_t count, struct error *error)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct dnn_node *node = &graph->nodes[i];
        node->forward = i;
        graph->forward_count += !node->is_backward;
        if (!node->is_backward || node->has_colour)
            continue;
        error_set(error, "node %llu is a backward node without a colorClass to say whose",
                  (unsigned long long)node->id);
        return error_at(error, "%s: nodes[%u]", graph->document, graph->ids[i].place);
    }
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && coloured[end].colour == coloured[first].colour;)
            end++;
        if (!match_colour(graph, &coloured[first], end - first, error))
            return false;
    }
    if (graph->forward_count > 0)
        return true;
    error_set(error, "every node is a backward node");
    return error_at(error, "%s: nodes", graph->document);
}

// --- edges between layers ---------------------------------------------------------------------

// The forward edge between these two nodes, or NULL.
static const struct import_link *find_link(const struct dnn_graph *graph, uint32_t from, uint32_t to)
{
    return import_links_find(graph->links, graph->link_count, from, to);
}

// Separates forward edges from backward ones. An edge from a forward to a backward node adds nothing if it stays in
// its layer or goes along a forward edge.
static bool split_links(struct dnn_graph *graph, struct error *error)
{
    const size_t count = graph->link_count;
    size_t kept = 0, crossing = 0;
    struct import_link *links = graph->links, *others = graph->backward;
    for (size_t l = 0; l < count; l++) {
        const struct dnn_node *from = &graph->nodes[links[l].from], *to = &graph->nodes[links[l].to];
        if (from->is_backward && !to->is_backward)
            return dnn_graph_refuse_edge(graph, links[l].place, error,
                               "the edge goes from backward node %llu to forward node %llu", from->id, to->id);
        if (to->is_backward)
            others[crossing++] = links[l];
        else
            links[kept++] = links[l];
    }
    graph->link_count = kept;
    for (size_t l = 0; l < crossing; l++) {
        const struct dnn_node *from = &graph->nodes[others[l].from], *to = &graph->nodes[others[l].to];
        if (from->is_backward)
            others[graph->backward_count++] = others[l];
        else if (to->forward != others[l].from && !find_link(graph, others[l].from, to->forward))
            return dnn_graph_refuse_edge(graph, others[l].place, error,
                               "nothing goes forward from node %llu to the layer of backward node %llu", from->id,
                               to->id);
    }
    return true;
}

// How often a forward node is read, and how often it reads; and which forward edges have a twin.
struct twins {
    uint32_t *readers, *read;
    bool *has_twin;
};

// In a profile, tensors cross a cut forward and their gradients cross it back at the same cost. So each backward edge
// must cost the same as a forward edge between the same layers. That edge goes from a to b, as in the published
// inputs. If neither node has another edge, it may also go from b to a.
static const struct import_link *find_twin(const struct dnn_graph *graph, const struct import_link *link,
                                          const struct twins *twins)
{
    const struct dnn_node *from = &graph->nodes[link->from], *to = &graph->nodes[link->to];
    const uint32_t a = from->forward, b = to->forward;
    const struct import_link *along = find_link(graph, a, b), *against = find_link(graph, b, a);
    if (along && graph->nodes[a].send_ns == from->send_ns)
        return along;
    if (against && graph->nodes[b].send_ns == from->send_ns && twins->readers[b] == 1
        && twins->read[a] == 1)
        return against;
    return NULL;
}

static bool match_links(const struct dnn_graph *graph, const struct twins *twins, struct error *error)
{
    for (size_t l = 0; l < graph->link_count; l++) {
        twins->readers[graph->links[l].from]++;
        twins->read[graph->links[l].to]++;
    }
    for (size_t l = 0; l < graph->backward_count; l++) {
        const struct import_link *link = &graph->backward[l];
        const struct dnn_node *from = &graph->nodes[link->from], *to = &graph->nodes[link->to];
        if (from->forward == to->forward)
            continue;
        const struct import_link *twin = find_twin(graph, link, twins);
        if (!twin || twins->has_twin[twin - graph->links])
            return dnn_graph_refuse_edge(graph, link->place, error,
                               "the backward edge from %llu to %llu has no forward edge of its own and of its cost",
                               from->id, to->id);
        twins->has_twin[twin - graph->links] = true;
    }
    for (size_t l = 0; graph->node_count > graph->forward_count && l < graph->link_count; l++)
        if (!twins->has_twin[l])
            return dnn_graph_refuse_edge(graph, graph->links[l].place, error,
                               "the edge from %llu to %llu has no backward edge beside it",
                               graph->nodes[graph->links[l].from].id, graph->nodes[graph->links[l].to].id);
    return true;
}

static bool check_backward(const struct dnn_graph *graph, struct error *error)
{
    const struct twins twins = { .readers = calloc(graph->node_count, sizeof(uint32_t)),
                                 .read = calloc(graph->node_count, sizeof(uint32_t)),
                                 .has_twin = calloc(graph->link_count + 1, sizeof(bool)) };
    bool good = twins.readers && twins.read && twins.has_twin;
    good = good ? match_links(graph, &twins, error) : error_no_memory(error, "the edges of a graph");
    free(twins.readers);
    free(twins.read);
    free(twins.has_twin);
    return good;
}

// Layers of one colour are on one device, like tied layers.
static bool list_tied(struct dnn_graph *graph, const struct coloured *coloured, size_t count, const uint32_t *number)
{
    graph->tied = calloc(count + 1, sizeof graph->tied[0]);
    for (size_t i = 1; graph->tied && i < count; i++)
        if (coloured[i - 1].colour == coloured[i].colour && !coloured[i].is_backward)
            graph->tied[graph->tied_count++] =
                (struct edge){ number[coloured[i - 1].node], number[coloured[i].node] };
    return graph->tied != NULL;
}

// Replaces nodes by forward nodes, numbered by their index among these.
static bool keep_forward(struct dnn_graph *graph, const struct coloured *coloured, size_t colours, struct error *error)
{
    uint32_t *number = calloc(graph->node_count, sizeof number[0]), count = 0;
    graph->layer_node = calloc(graph->forward_count, sizeof graph->layer_node[0]);
    for (uint32_t i = 0; number && graph->layer_node && i < graph->node_count; i++) {
        number[i] = count;
        if (!graph->nodes[i].is_backward)
            graph->layer_node[count++] = i;
    }
    const bool good = number && graph->layer_node && list_tied(graph, coloured, colours, number);
    for (size_t l = 0; good && l < graph->link_count; l++) {
        graph->links[l].from = number[graph->links[l].from];
        graph->links[l].to = number[graph->links[l].to];
    }
    free(number);
    return good || error_no_memory(error, "the layers of a graph");
}

bool dnn_graph_read(struct dnn_graph *graph, struct json_document *json, const char *name, struct error *error)
{
    *graph = (struct dnn_graph){ .document = name, .json = json };
    if (!read_document(graph, error))
        return false;
    if (graph->read_backward < graph->read_count && dnn_has_classes(graph))
        return dnn_join_classes(graph, error) && keep_forward(graph, NULL, 0, error);
    struct coloured *coloured = calloc(graph->node_count, sizeof coloured[0]);
    if (!coloured)
        return error_no_memory(error, "the colours of a graph");
    const size_t count = sort_colours(graph, coloured);
    const bool good = match_colours(graph, coloured, count, error) && split_links(graph, error)
                   && check_backward(graph, error) && keep_forward(graph, coloured, count, error);
    free(coloured);
    return good;
}
