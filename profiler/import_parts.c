#include "profiler/import_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/ascending.h"

char *import_model_name(const char *path, const char *const *endings, const char *otherwise)
{
    const char *slash = strrchr(path, '/'), *begin = slash ? slash + 1 : path;
    size_t length = strlen(begin);
    for (size_t i = 0; endings[i]; i++) {
        const size_t ending = strlen(endings[i]);
        if (length > ending && memcmp(begin + length - ending, endings[i], ending) == 0)
            length -= ending;
    }
    return length > 0 ? strndup(begin, length) : strdup(otherwise);
}

struct profile *import_begin(char *model, uint64_t micro_batch, size_t layers, struct error *error)
{
    struct profile *profile = model ? profile_create(model, "fp32", micro_batch, layers, error) : NULL;
    if (!model)
        error_no_memory(error, "a model's name");
    if (profile)
        profile->source.how = PROFILE_IMPORTED;
    free(model);
    return profile;
}

// --- nodes and links --------------------------------------------------------------------

static int compare_ids(const void *a, const void *b)
{
    const struct import_id *left = a, *right = b;
    if (left->id != right->id)
        return left->id < right->id ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

bool import_ids_sort(struct import_id *ids, size_t count, const char *document, struct error *error)
{
    qsort(ids, count, sizeof ids[0], compare_ids);
    for (size_t i = 1; i < count; i++)
        if (ids[i - 1].id == ids[i].id)
            return error_set(error, "%s: nodes[%u].id: is %llu, as nodes[%u] is already", document, ids[i].place,
                             (unsigned long long)ids[i].id, ids[i - 1].place);
    return true;
}

uint32_t import_end(const struct import_id *ids, size_t count, struct json *object, const char *key)
{
    const uint64_t id = json_u64(object, key, 0, JSON_MAX);
    size_t least = 0, end = count;
    while (least < end) {
        const size_t middle = (least + end) / 2;
        if (ids[middle].id == id)
            return (uint32_t)middle;
        if (ids[middle].id < id)
            least = middle + 1;
        else
            end = middle;
    }
    json_refuse_key(object, key, "no node has the id %llu", (unsigned long long)id);
    return 0;
}

int import_compare_links(const void *a, const void *b)
{
    const struct import_link *left = a, *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    if (left->to != right->to)
        return left->to < right->to ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

const struct import_link *import_links_find(const struct import_link *links, size_t count, uint32_t from, uint32_t to)
{
    size_t least = 0, end = count;
    while (least < end) {
        const size_t middle = (least + end) / 2;
        if (links[middle].from < from || (links[middle].from == from && links[middle].to < to))
            least = middle + 1;
        else
            end = middle;
    }
    return least < count && links[least].from == from && links[least].to == to ? &links[least] : NULL;
}

// --- a topological order ------------------------------------------------------------------

struct search {
    const struct import_link *links;
    const bool *early;
    size_t node_count, link_count;
    uint32_t *first;    // index of the first of node i's links; node_count + 1 entries
    uint32_t *waiting;  // how many of a node's producers have not been placed yet
    uint32_t *heap;     // nodes that could be next, the least on top
    size_t heap_count;
    struct import_order *order;
};

void import_order_clear(struct import_order *order)
{
    free(order->layer_of);
    free(order->node_of);
    *order = (struct import_order){ .layer_of = NULL };
}

static bool goes_before(const struct search *search, uint32_t a, uint32_t b)
{
    if (search->early && search->early[a] != search->early[b])
        return search->early[a];
    return a < b;
}

static void heap_push(struct search *search, uint32_t node)
{
    size_t hole = search->heap_count++;
    while (hole > 0 && goes_before(search, node, search->heap[(hole - 1) / 2])) {
        search->heap[hole] = search->heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    search->heap[hole] = node;
}

static uint32_t heap_pop(struct search *search)
{
    const uint32_t top = search->heap[0], last = search->heap[--search->heap_count];
    size_t hole = 0, child;
    while ((child = 2 * hole + 1) < search->heap_count) {
        if (child + 1 < search->heap_count && goes_before(search, search->heap[child + 1], search->heap[child]))
            child++;
        if (goes_before(search, last, search->heap[child]))
            break;
        search->heap[hole] = search->heap[child];
        hole = child;
    }
    search->heap[hole] = last;
    return top;
}

static void place_nodes(struct search *search)
{
    for (size_t l = 0; l < search->link_count; l++) {
        search->first[search->links[l].from + 1] = (uint32_t)l + 1;
        search->waiting[search->links[l].to]++;
    }
    for (size_t n = 0; n < search->node_count; n++)
        if (search->first[n + 1] < search->first[n])
            search->first[n + 1] = search->first[n];  // feeds no other node
    for (uint32_t n = 0; n < search->node_count; n++)
        if (search->waiting[n] == 0)
            heap_push(search, n);
    struct import_order *order = search->order;
    while (search->heap_count > 0) {
        const uint32_t node = heap_pop(search);
        order->layer_of[node] = (uint32_t)order->placed;
        order->node_of[order->placed++] = node;
        for (uint32_t l = search->first[node]; l < search->first[node + 1]; l++)
            if (--search->waiting[search->links[l].to] == 0)
                heap_push(search, search->links[l].to);
    }
}

// Every node that was not placed waits for another such node. Walking from producer to producer must therefore return
// to a node seen before: that is the cycle.
static void find_cycle(struct search *search)
{
    uint32_t *producer = search->heap;  // the heap is empty by now; a link per waiting node
    uint32_t *seen = search->order->node_of;
    for (size_t l = search->link_count; l-- > 0;)
        if (search->waiting[search->links[l].from] > 0)
            producer[search->links[l].to] = (uint32_t)l;
    uint32_t node = 0;
    while (search->waiting[node] == 0)
        node++;
    memset(seen, 0, search->node_count * sizeof seen[0]);
    while (!seen[node]) {
        seen[node] = 1;
        node = search->links[producer[node]].from;
    }
    search->order->cycle = producer[node];
}

bool import_order_find(struct import_order *order, size_t node_count, const struct import_link *links,
                       size_t link_count, const bool *early, struct error *error)
{
    *order = (struct import_order){ .layer_of = calloc(node_count + 1, sizeof(uint32_t)),
                                    .node_of = calloc(node_count + 1, sizeof(uint32_t)) };
    struct search search = { .links = links, .early = early, .node_count = node_count, .link_count = link_count,
                             .first = calloc(node_count + 1, sizeof(uint32_t)),
                             .waiting = calloc(node_count + 1, sizeof(uint32_t)),
                             .heap = calloc(node_count + 1, sizeof(uint32_t)), .order = order };
    const bool good = order->layer_of && order->node_of && search.first && search.waiting && search.heap;
    if (good)
        place_nodes(&search);
    if (good && order->placed < node_count)
        find_cycle(&search);
    free(search.first);
    free(search.waiting);
    free(search.heap);
    return good || error_no_memory(error, "the order of a graph's nodes");
}

// --- the profile's edges --------------------------------------------------------------------

void import_links_place(struct import_link *links, size_t count, const struct import_order *order)
{
    for (size_t l = 0; l < count; l++) {
        links[l].from = order->layer_of[links[l].from];
        links[l].to = order->layer_of[links[l].to];
    }
    qsort(links, count, sizeof links[0], import_compare_links);
}

bool import_set_edges(struct profile *profile, const struct import_link *links, size_t count, struct error *error)
{
    profile->edges = calloc(count + 1, sizeof profile->edges[0]);
    if (!profile->edges)
        return error_no_memory(error, "the edges of a profile");
    profile->is_chain = count + 1 == profile->layer_count;
    for (size_t l = 0; l < count; l++) {
        profile->edges[l] = (struct edge){ links[l].from, links[l].to };
        profile->is_chain = profile->is_chain && links[l].from == l && links[l].to == l + 1;
    }
    profile->edge_count = profile->is_chain ? 0 : count;
    return true;
}

bool import_check_names(const struct profile *profile, const char *document, struct error *error)
{
    const char **names = calloc(profile->layer_count, sizeof names[0]);
    bool good = names != NULL || error_no_memory(error, "the names of a profile");
    for (size_t i = 0; good && i < profile->layer_count; i++)
        names[i] = profile->layers[i].name;
    if (good)
        qsort(names, profile->layer_count, sizeof names[0], ascending_texts);
    for (size_t i = 1; good && i < profile->layer_count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            good = error_set(error, "%s: nodes: two are called \"%.60s\"", document, names[i]);
    free(names);
    return good;
}

// profile_overflow_at() adds up the layers, but not their variants.
static size_t overflowing_way(const struct profile *profile)
{
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        for (size_t v = 0; v < layer->variant_count; v++)
            if (layer->variants[v].layer.backward_ns > JSON_MAX)
                return i;
    }
    return profile->layer_count;
}

bool import_finish(struct profile *profile, const char *document, struct error *error)
{
    const char *what;
    size_t layer = profile_overflow_at(profile, &what);
    if (layer == profile->layer_count) {
        layer = overflowing_way(profile);
        what = "times";
    }
    if (layer < profile->layer_count)
        return error_set(error, "%s: nodes: the %s up to \"%.60s\" add up to more than a profile can hold", document,
                         what, profile->layers[layer].name);
    if (!import_check_names(profile, document, error))
        return false;
    for (size_t i = 0; i < profile->layer_count; i++)
        profile->source.sum_ns += profile->layers[i].forward_ns + profile->layers[i].backward_ns;
    return profile_rehash(profile, error);
}

// --- numbers ----------------------------------------------------------------------------------

uint64_t import_number(struct json *object, const char *key, double scale)
{
    const double value = json_fraction(object, key);
    if (value < 0)
        json_refuse_key(object, key, "is %.6g; it cannot be negative", value);
    else if (value * scale > (double)JSON_MAX)
        json_refuse_key(object, key, "is %.6g: more than a profile can hold", value);
    else
        return (uint64_t)llround(value * scale);
    return 0;
}
