// Turns graphs of dnn-partitioning (dnn_graph.h) into profiles. Each forward node is a layer, its backward nodes'
// times are its backward, and CPUs are a variant. The time of a transfer becomes bytes at 1 GB/s: a nanosecond is a
// byte (docs/formats/dnn-partitioning.md).
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "profiler/dnn_graph.h"
#include "profiler/import.h"

enum { BYTES_PER_SECOND = 1000000000 };

// --- the profile ------------------------------------------------------------------------------

static char *layer_name(const struct dnn_node *node)
{
    struct text text = { 0 };
    struct error error = { 0 };
    if (node->name && *node->name)
        text_add(&text, "%s", node->name);
    else
        text_add(&text, "node%llu", (unsigned long long)node->id);
    return text_take(&text, &error);
}

static void add_times(struct profile_layer *layer, const struct dnn_node *node, uint64_t ns)
{
    if (node->is_backward)
        layer->backward_ns = add_clamped(layer->backward_ns, ns);
    else
        layer->forward_ns = ns;
    layer->backward_input_ns = layer->backward_ns / 2;
    layer->backward_weight_ns = layer->backward_ns - layer->backward_ns / 2;
    layer->parameter_bytes = add_clamped(layer->parameter_bytes, node->size_bytes);
}

static bool make_layer(struct profile_layer *layer, const struct dnn_node *node)
{
    layer->name = layer_name(node);
    layer->kind = strdup("");
    layer->variants = calloc(1, sizeof layer->variants[0]);
    if (!layer->name || !layer->kind || !layer->variants)
        return false;
    layer->output_bytes = node->send_ns;
    layer->variant_count = 1;
    layer->variants[0] = (struct profile_variant){ .layer.name = strdup("cpu"), .layer.output_bytes = node->send_ns,
                                                   .devices = 1 };
    return layer->variants[0].layer.name != NULL;
}

static bool fill_layers(struct profile *profile, const struct dnn_graph *graph, const struct import_order *order,
                        struct error *error)
{
    uint32_t *layer_of = calloc(graph->node_count, sizeof layer_of[0]);
    bool good = layer_of != NULL;
    for (uint32_t i = 0; good && i < graph->forward_count; i++) {
        layer_of[graph->layer_node[i]] = order->layer_of[i];
        good = make_layer(&profile->layers[order->layer_of[i]], &graph->nodes[graph->layer_node[i]]);
    }
    for (uint32_t i = 0; good && i < graph->node_count; i++) {
        const struct dnn_node *node = &graph->nodes[i];
        struct profile_layer *layer = &profile->layers[layer_of[node->forward]];
        add_times(layer, node, node->accelerator_ns);
        add_times(&layer->variants[0].layer, node, node->cpu_ns);
    }
    free(layer_of);
    return good || error_no_memory(error, "the layers of a profile");
}

static bool fill_tied(struct profile *profile, const struct dnn_graph *graph, const struct import_order *order,
                      struct error *error)
{
    profile->tied = calloc(graph->tied_count + 1, sizeof profile->tied[0]);
    if (!profile->tied)
        return error_no_memory(error, "the tied layers of a profile");
    for (size_t i = 0; i < graph->tied_count; i++) {
        const uint32_t a = order->layer_of[graph->tied[i].from], b = order->layer_of[graph->tied[i].to];
        profile->tied[profile->tied_count++] = a < b ? (struct edge){ a, b } : (struct edge){ b, a };
    }
    qsort(profile->tied, profile->tied_count, sizeof profile->tied[0], edges_compare);
    return true;
}

static char *make_notes(const struct dnn_graph *graph, struct error *error)
{
    struct text notes = { 0 };
    text_add(&notes, "An input of dnn-partitioning with ");
    text_add_count(&notes, graph->read_count, "node", "nodes");
    text_add(&notes, ", %zu of them backward. ", graph->read_backward);
    if (graph->read_count != graph->node_count)
        text_add(&notes, "Nodes of one colour are one layer, and the backward nodes of no layer's colour are of the"
                         " layer that they feed. ");
    if (graph->unlike_count > 0) {
        text_add_count(&notes, graph->unlike_count, "edge costs", "edges cost");
        text_add(&notes, " otherwise than what a layer hands on does, forward and back. ");
    }
    text_add(&notes, "Transfers are times there: at 1 GB/s a byte is a ns. ");
    text_add(&notes, "Its machine: %llu accelerators of %llu bytes, %llu CPUs", (unsigned long long)graph->accelerators,
             (unsigned long long)graph->memory_bytes, (unsigned long long)graph->cpus);
    if (graph->unknown > 0) {
        text_add(&notes, "; ");
        text_add_count(&notes, graph->unknown, "unknown field", "unknown fields");
        text_add(&notes, " left out");
    }
    text_add(&notes, ".");
    return text_take(&notes, error);
}

static bool fill_profile(struct profile *profile, struct dnn_graph *graph, const struct import_order *order,
                         struct error *error)
{
    import_links_place(graph->links, graph->link_count, order);
    profile->notes = make_notes(graph, error);
    return profile->notes && fill_layers(profile, graph, order, error) && fill_tied(profile, graph, order, error)
        && import_set_edges(profile, graph->links, graph->link_count, error)
        && import_finish(profile, graph->document, error);
}

static struct profile *make_profile(struct dnn_graph *graph, uint64_t micro_batch, const struct import_order *order,
                                    struct error *error)
{
    static const char *const endings[] = { ".json", NULL };
    char *model = import_model_name(graph->document, endings, "dnn-partitioning");
    struct profile *profile = import_begin(model, micro_batch, graph->forward_count, error);
    if (!profile || fill_profile(profile, graph, order, error))
        return profile;
    profile_free(profile);
    return NULL;
}

static struct profile *graph_profile(struct dnn_graph *graph, uint64_t micro_batch, struct error *error)
{
    struct import_order order;
    struct profile *profile = NULL;
    if (import_order_find(&order, graph->forward_count, graph->links, graph->link_count, NULL, error)) {
        if (order.placed == graph->forward_count) {
            profile = make_profile(graph, micro_batch, &order, error);
        } else {
            const struct import_link *link = &graph->links[order.cycle];
            dnn_graph_refuse_edge(graph, link->place, error, "the edge from %llu to %llu closes a cycle",
                                  graph->nodes[graph->layer_node[link->from]].id,
                                  graph->nodes[graph->layer_node[link->to]].id);
        }
    }
    import_order_clear(&order);
    return profile;
}

// --- the machine --------------------------------------------------------------------------------

// The accelerators, then the CPUs, whose memory is not limited.
static struct cluster *graph_cluster(const struct dnn_graph *graph, struct error *error)
{
    const size_t count = graph->accelerators + graph->cpus;
    if (count == 0)
        return error_null(error_named(error, "%s: maxFPGAs: there is neither an accelerator nor a CPU",
                                      graph->document));
    struct cluster *cluster = cluster_uniform(count, graph->memory_bytes, 0, BYTES_PER_SECOND, error);
    for (size_t i = graph->accelerators; cluster && i < count; i++) {
        struct text name = { 0 };
        text_add(&name, "cpu%zu", i - graph->accelerators);
        free(cluster->devices[i].name);
        cluster->devices[i].name = text_take(&name, error);
        cluster->devices[i].memory_bytes = JSON_MAX;
        if (!cluster->devices[i].name) {
            cluster_free(cluster);
            return NULL;
        }
    }
    return cluster;
}

// --- the importer -----------------------------------------------------------------------------

// Takes ownership of the document.
static struct profile *import(struct json_document *json, const char *name, uint64_t micro_batch,
                              struct cluster **cluster, struct error *error)
{
    if (!json)
        return NULL;
    struct dnn_graph graph;
    struct profile *profile =
        dnn_graph_read(&graph, json, name, error) ? graph_profile(&graph, micro_batch, error) : NULL;
    if (profile && cluster) {
        *cluster = graph_cluster(&graph, error);
        if (!*cluster) {
            profile_free(profile);
            profile = NULL;
        }
    }
    dnn_graph_clear(&graph);
    return profile;
}

struct profile *import_dnn_partitioning_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                             struct cluster **cluster, struct error *error)
{
    return import(json_parse(text, length, name, error), name, micro_batch, cluster, error);
}

struct profile *import_dnn_partitioning(const char *path, uint64_t micro_batch, struct cluster **cluster,
                                        struct error *error)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    return import(json_load(path, error), name, micro_batch, cluster, error);
}
