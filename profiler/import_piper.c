// The input format of msr-fiddle/piper (docs/formats/piper.md). Nodes have ways to run (TMPCs), by the number of
// devices that they are split over. Edges are in bytes.
//
//     TMPCs { "1": [vanilla, activation recomp], "2": [vanilla, activation recomp] }
//              the layer   a variant               two variants of 2 devices
//
// A way's memory is A for each micro-batch in flight plus B. B contains 2 w for its weights and their gradients. A
// becomes saved_bytes, and B - 2 w becomes workspace. Each edge has its own bytes, to which a way adds those that it
// synchronises: `receives` and `sends`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/ascending.h"
#include "common/number.h"
#include "profiler/import.h"
#include "profiler/import_parts.h"

static const double second = 1e9;  // in ns

struct graph {
    const char *document;
    struct json_document *json;
    uint64_t devices, memory_bytes, bytes_per_second, micro_batches;
    struct import_id *ids;  // by id; a node's number in this file is its index here
    size_t node_count;
    struct import_link *links;     // by (from, to)
    struct import_link *incoming;  // the same by (to, from), with their ends swapped
    size_t link_count;
    struct import_order order;
    size_t unknown;
};

static void clear_graph(struct graph *graph)
{
    json_free(graph->json);
    import_order_clear(&graph->order);
    free(graph->ids);
    free(graph->links);
    free(graph->incoming);
}

// --- which nodes, and which edges -------------------------------------------------------

static bool read_ids(struct graph *graph, struct json *root, struct error *error)
{
    struct json list = json_array(root, "nodes"), item;
    graph->node_count = json_count(&list);
    if (graph->node_count == 0 || graph->node_count > PROFILE_MOST_LAYERS)
        json_refuse(&list, "holds %zu nodes (1 to %d)", graph->node_count, PROFILE_MOST_LAYERS);
    graph->ids = calloc(graph->node_count + 1, sizeof graph->ids[0]);
    if (!graph->ids)
        return error_no_memory(error, "the nodes of a graph");
    for (uint32_t i = 0; json_next(&list, &item); i++) {
        json_item_object(&item);
        graph->ids[i] = (struct import_id){ json_u64(&item, "id", 0, JSON_MAX), i };
    }
    return json_ok(graph->json, error) && import_ids_sort(graph->ids, graph->node_count, graph->document, error);
}

static bool refuse_link(const struct graph *graph, const struct import_link *link, const char *what,
                        struct error *error)
{
    return error_set(error, "%s: edges[%zu]: the edge from %llu to %llu %s", graph->document, link->place,
                     (unsigned long long)graph->ids[link->from].id, (unsigned long long)graph->ids[link->to].id, what);
}

static bool read_links(struct graph *graph, struct json *root, struct error *error)
{
    struct json list = json_array(root, "edges"), item;
    const size_t count = json_count(&list);
    graph->links = calloc(count + 1, sizeof graph->links[0]);
    graph->incoming = calloc(count + 1, sizeof graph->incoming[0]);
    if (!graph->links || !graph->incoming)
        return error_no_memory(error, "the edges of a graph");
    while (json_next(&list, &item)) {
        json_item_object(&item);
        graph->links[graph->link_count] = (struct import_link){
            .from = import_end(graph->ids, graph->node_count, &item, "sourceId"),
            .to = import_end(graph->ids, graph->node_count, &item, "destId"),
            .place = graph->link_count, .bytes = import_number(&item, "communicationCost", 1) };
        graph->link_count++;
        graph->unknown += json_unasked(&item);
    }
    if (!json_ok(graph->json, error))
        return false;
    qsort(graph->links, graph->link_count, sizeof graph->links[0], import_compare_links);
    for (size_t l = 1; l < graph->link_count; l++)
        if (graph->links[l - 1].from == graph->links[l].from && graph->links[l - 1].to == graph->links[l].to)
            return refuse_link(graph, &graph->links[l], "is there twice", error);
    return true;
}

// From here on, edges are between layers.
static bool order_nodes(struct graph *graph, struct error *error)
{
    if (!import_order_find(&graph->order, graph->node_count, graph->links, graph->link_count, NULL, error))
        return false;
    if (graph->order.placed < graph->node_count)
        return refuse_link(graph, &graph->links[graph->order.cycle], "closes a cycle", error);
    import_links_place(graph->links, graph->link_count, &graph->order);
    for (size_t l = 0; l < graph->link_count; l++) {
        graph->incoming[l] = graph->links[l];
        graph->incoming[l].from = graph->links[l].to;
        graph->incoming[l].to = graph->links[l].from;
    }
    qsort(graph->incoming, graph->link_count, sizeof graph->incoming[0], import_compare_links);
    return true;
}

// The sorted links that leave a layer (or enter it, for `incoming`): the first, and one past the last.
static const struct import_link *links_of(const struct import_link *links, size_t count, uint32_t layer,
                                          const struct import_link **end)
{
    size_t least = 0, most = count;
    while (least < most) {
        const size_t middle = (least + most) / 2;
        if (links[middle].from < layer)
            least = middle + 1;
        else
            most = middle;
    }
    for (*end = links + least; *end < links + count && (*end)->from == layer;)
        ++*end;
    return links + least;
}

// --- a way to run a layer -------------------------------------------------------------------

static struct profile_transfer *read_synchronised(struct graph *graph, struct json *way, const char *key,
                                                  const struct import_link *links, const struct import_link *end)
{
    struct json bytes = json_object(way, key);
    struct profile_transfer *transfers = calloc((size_t)(end - links) + 1, sizeof transfers[0]);
    for (size_t l = 0; transfers && links + l < end; l++) {
        char id[24];
        snprintf(id, sizeof id, "%llu",
                 (unsigned long long)graph->ids[graph->order.node_of[links[l].to]].id);
        transfers[l] = (struct profile_transfer){ links[l].to, links[l].bytes + import_number(&bytes, id, 1) };
        if (transfers[l].bytes > JSON_MAX)
            json_refuse_key(&bytes, id, "is, with its edge, more than a profile can hold");
    }
    if (json_unasked(&bytes) > 0)
        json_refuse(&bytes, "names a node that no edge comes from or goes to");
    return transfers;
}

// Keeps only those that are not the producer's output anyway.
static size_t keep_unusual(struct profile_transfer *transfers, size_t count, const struct profile *profile,
                           const uint32_t *producer)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (transfers[i].bytes != profile->layers[producer ? *producer : transfers[i].layer].output_bytes)
            transfers[kept++] = transfers[i];
    return kept;
}

static bool read_transfers(struct graph *graph, struct json *item, const struct profile *profile, uint32_t layer,
                           struct profile_layer *way)
{
    const struct import_link *end, *links = links_of(graph->incoming, graph->link_count, layer, &end);
    way->receives = read_synchronised(graph, item, "syncTimeFw", links, end);
    if (way->receives)
        way->receive_count = keep_unusual(way->receives, (size_t)(end - links), profile, NULL);
    links = links_of(graph->links, graph->link_count, layer, &end);
    way->sends = read_synchronised(graph, item, "syncTimeBw", links, end);
    if (way->sends)
        way->send_count = keep_unusual(way->sends, (size_t)(end - links), profile, &layer);
    return way->receives && way->sends;
}

static bool read_way(struct graph *graph, struct json *item, const struct profile *profile, uint32_t layer,
                     struct profile_variant *variant)
{
    struct profile_layer *way = &variant->layer;
    json_item_object(item);
    const char *id = json_string(item, "id");
    if (*id == '\0')
        json_refuse_key(item, "id", "is empty");
    way->name = strdup(id);
    way->backward_ns = import_number(item, "timePerSample", second);  // the whole time, until it is split
    way->parameter_bytes = import_number(item, "parameterSize", 1);
    way->output_bytes = profile->layers[layer].output_bytes;
    way->saved_bytes = import_number(item, "memoryUsageA", 1);
    const uint64_t besides = import_number(item, "memoryUsageB", 1);
    if (besides < 2 * way->parameter_bytes)
        json_refuse_key(item, "memoryUsageB", "does not hold the weights and their gradients, twice the parameterSize");
    else
        way->backward_workspace_bytes = besides - 2 * way->parameter_bytes;
    const bool good = way->name && read_transfers(graph, item, profile, layer, way);
    graph->unknown += json_unasked(item);
    return good;
}

// Forward is a third of the time of the quickest way on as many devices. What a way takes beyond that quickest time
// is recomputation, which Weir counts as part of the backward.
static void split_times(struct profile_variant *ways, size_t count)
{
    uint64_t quickest = UINT64_MAX;
    for (size_t i = 0; i < count; i++)
        quickest = ways[i].layer.backward_ns < quickest ? ways[i].layer.backward_ns : quickest;
    for (size_t i = 0; i < count; i++) {
        struct profile_layer *way = &ways[i].layer;
        way->forward_ns = quickest / 3;
        way->backward_ns -= quickest / 3;
        way->backward_input_ns = way->backward_ns / 2;
        way->backward_weight_ns = way->backward_ns - way->backward_ns / 2;
    }
}

static uint32_t read_degree(const struct json *ways)
{
    uint64_t devices;
    struct error error = { 0 };
    if (count_parse(ways->key, "devices", 1, PROFILE_MOST_DEVICES, &devices, &error) && *ways->key != '0')
        return (uint32_t)devices;
    json_refuse(ways, "is not a number of devices (1 to %d)", PROFILE_MOST_DEVICES);
    return 1;
}

// Reads the ways on this number of devices into `ways`. Returns how many there are.
static size_t read_degree_ways(struct graph *graph, struct json *list, const struct profile *profile, uint32_t layer,
                               struct profile_variant *ways, bool *no_memory)
{
    const uint32_t devices = read_degree(list);
    struct json item;
    size_t count = 0;
    json_item_array(list);
    while (json_next(list, &item)) {
        ways[count].devices = devices;
        *no_memory |= !read_way(graph, &item, profile, layer, &ways[count]);
        for (size_t i = 0; i < count && ways[count].layer.name; i++)
            if (ways[i].layer.name && strcmp(ways[i].layer.name, ways[count].layer.name) == 0)
                json_refuse_key(&item, "id", "stands twice in this list");
        count++;
    }
    split_times(ways, count);
    return count;
}

// --- layers ---------------------------------------------------------------------------------------

// Names a way such as "recomp on 2 devices"; on one device it is just "recomp".
static bool name_way(struct profile_variant *way)
{
    if (way->devices == 1)
        return true;
    struct text name = { 0 };
    struct error error = { 0 };
    text_add(&name, "%s on %u devices", way->layer.name, way->devices);
    free(way->layer.name);
    way->layer.name = text_take(&name, &error);
    return way->layer.name != NULL;
}

// The first way on one device becomes the layer itself; the others become its variants.
static bool settle_ways(struct profile_layer *layer, size_t count, struct json *tmpcs)
{
    struct profile_variant *ways = layer->variants;
    size_t base = 0;
    while (base < count && ways[base].devices != 1)
        base++;
    if (base == count) {
        json_refuse_key(tmpcs, "1", "holds no way to run the node on one device");
        return true;
    }
    struct profile_layer settled = ways[base].layer;
    memmove(&ways[base], &ways[base + 1], (count - base - 1) * sizeof ways[0]);
    free(settled.name);
    settled.name = NULL;
    settled.kind = layer->kind;
    settled.variants = ways;
    settled.variant_count = count - 1;
    *layer = settled;
    bool good = true;
    for (size_t i = 0; i < layer->variant_count; i++)
        good = name_way(&ways[i]) && good;
    return good;
}

static size_t count_ways(struct json tmpcs)
{
    struct json list;
    size_t count = 0;
    while (json_next_key(&tmpcs, &list))
        count += json_count(&list);
    return count;
}

static bool read_layer(struct graph *graph, struct json *item, struct profile *profile, uint32_t index)
{
    struct profile_layer *layer = &profile->layers[index];
    struct json tmpcs = json_object(item, "TMPCs"), list;
    layer->kind = strdup(json_has(item, "name") ? json_string(item, "name") : "");
    layer->variants = calloc(count_ways(tmpcs) + 1, sizeof layer->variants[0]);
    bool no_memory = !layer->kind || !layer->variants;
    while (!no_memory && json_next_key(&tmpcs, &list))
        layer->variant_count += read_degree_ways(graph, &list, profile, index, layer->variants + layer->variant_count,
                                                 &no_memory);
    graph->unknown += json_unasked(item);
    return !no_memory && settle_ways(layer, layer->variant_count, &tmpcs);
}

// A layer's output is the largest of its edges.
static void fill_outputs(struct profile *profile, const struct graph *graph)
{
    for (size_t l = 0; l < graph->link_count; l++) {
        struct profile_layer *from = &profile->layers[graph->links[l].from];
        from->output_bytes = graph->links[l].bytes > from->output_bytes ? graph->links[l].bytes : from->output_bytes;
    }
}

static bool read_layers(struct graph *graph, struct json *root, struct profile *profile, struct error *error)
{
    struct json list = json_array(root, "nodes"), item;
    uint32_t *layer_at = calloc(graph->node_count, sizeof layer_at[0]);  // by index in the document's list
    bool good = layer_at != NULL;
    for (uint32_t n = 0; good && n < graph->node_count; n++)
        layer_at[graph->ids[n].place] = graph->order.layer_of[n];
    for (uint32_t i = 0; good && json_next(&list, &item); i++)
        good = read_layer(graph, &item, profile, layer_at[i]);
    free(layer_at);
    return (good || error_no_memory(error, "the layers of a profile")) && json_ok(graph->json, error);
}

// Plans call layers by name, and Piper's names are often kinds. In that case the node's number is added.
static bool name_layers(struct profile *profile, const struct graph *graph, struct error *error)
{
    bool unique = true;
    const char **names = calloc(profile->layer_count, sizeof names[0]);
    if (!names)
        return error_no_memory(error, "the names of a profile");
    for (size_t i = 0; i < profile->layer_count; i++)
        names[i] = profile->layers[i].kind;
    qsort(names, profile->layer_count, sizeof names[0], ascending_texts);
    for (size_t i = 0; i < profile->layer_count; i++)
        unique = unique && *names[i] && (i == 0 || strcmp(names[i - 1], names[i]) != 0);
    free(names);
    for (size_t i = 0; i < profile->layer_count; i++) {
        struct text name = { 0 };
        struct profile_layer *layer = &profile->layers[i];
        text_add(&name, "%s", *layer->kind ? layer->kind : "node");
        if (!unique)
            text_add(&name, ".%llu", (unsigned long long)graph->ids[graph->order.node_of[i]].id);
        layer->name = text_take(&name, error);
        if (!layer->name)
            return false;
    }
    return true;
}

// --- the profile ------------------------------------------------------------------------------------

static char *make_notes(const struct graph *graph, struct error *error)
{
    struct text notes = { 0 };
    text_add(&notes, "An input of Piper with ");
    text_add_count(&notes, graph->node_count, "node", "nodes");
    text_add(&notes, " and ");
    text_add_count(&notes, graph->link_count, "edge", "edges");
    text_add(&notes, ". Forward is taken as a third of the quickest way's time. It means %llu devices of %llu bytes at "
             "%llu bytes per second and %llu micro-batches", (unsigned long long)graph->devices,
             (unsigned long long)graph->memory_bytes, (unsigned long long)graph->bytes_per_second,
             (unsigned long long)graph->micro_batches);
    if (graph->unknown > 0) {
        text_add(&notes, "; ");
        text_add_count(&notes, graph->unknown, "unknown field", "unknown fields");
        text_add(&notes, " left out");
    }
    text_add(&notes, ".");
    return text_take(&notes, error);
}

static bool fill_profile(struct profile *profile, struct graph *graph, struct json *root, struct error *error)
{
    fill_outputs(profile, graph);
    if (!read_layers(graph, root, profile, error) || !name_layers(profile, graph, error))
        return false;
    graph->unknown += json_unasked(root);
    profile->notes = make_notes(graph, error);
    return profile->notes && import_set_edges(profile, graph->links, graph->link_count, error)
        && import_finish(profile, graph->document, error);
}

static struct profile *make_profile(struct graph *graph, uint64_t micro_batch, struct json *root, struct error *error)
{
    static const char *const endings[] = { ".json", NULL };
    char *model = import_model_name(graph->document, endings, "piper");
    struct profile *profile = import_begin(model, micro_batch, graph->node_count, error);
    if (!profile || fill_profile(profile, graph, root, error))
        return profile;
    profile_free(profile);
    return NULL;
}

static struct profile *read_graph(struct graph *graph, uint64_t micro_batch, struct error *error)
{
    struct json root = json_root(graph->json);
    graph->devices = json_u64(&root, "maxDevices", 1, PROFILE_MOST_DEVICES);
    graph->memory_bytes = import_number(&root, "maxMemoryPerDevice", 1);
    graph->bytes_per_second = import_number(&root, "bandwidth", 1);
    graph->micro_batches = json_u64(&root, "mbsInBatch", 1, JSON_MAX);
    if (graph->memory_bytes == 0)
        json_refuse_key(&root, "maxMemoryPerDevice", "is less than a byte");
    if (graph->bytes_per_second == 0)
        json_refuse_key(&root, "bandwidth", "is less than a byte per second");
    if (!read_ids(graph, &root, error) || !read_links(graph, &root, error) || !order_nodes(graph, error))
        return NULL;
    return make_profile(graph, micro_batch, &root, error);
}

// Takes ownership of the document.
static struct profile *import(struct json_document *json, const char *name, uint64_t micro_batch,
                              struct cluster **cluster, struct error *error)
{
    if (!json)
        return NULL;
    struct graph graph = { .document = name, .json = json };
    struct profile *profile = read_graph(&graph, micro_batch, error);
    if (profile && cluster) {
        *cluster = cluster_uniform(graph.devices, graph.memory_bytes, 0, graph.bytes_per_second, error);
        if (!*cluster) {
            profile_free(profile);
            profile = NULL;
        }
    }
    clear_graph(&graph);
    return profile;
}

struct profile *import_piper_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                  struct cluster **cluster, struct error *error)
{
    return import(json_parse(text, length, name, error), name, micro_batch, cluster, error);
}

struct profile *import_piper(const char *path, uint64_t micro_batch, struct cluster **cluster, struct error *error)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    return import(json_load(path, error), name, micro_batch, cluster, error);
}
