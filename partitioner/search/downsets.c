// Downsets are listed from the empty set on. Those with one node more than the current one are found in a hash table,
// or made. A node that may be added to a downset may still be added after another such node was. The readers of the
// node just added join these, if they read nothing else. A step therefore costs the node's readers and not the whole
// graph.
#include "partitioner/search/downsets.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/arrays.h"

// The data that finds sets and adds them.
struct downset_store {
    size_t most, room;             // downsets allowed, and those there is room for
    size_t link_count, link_room;
    struct downset_link *made_of;  // of each downset but the first: the one from which it was first met
    uint32_t *table;               // numbers of downsets + 1, by hash
    size_t table_size;
    uint64_t *set, *ready;         // a row that may be new, and a row of nodes that may be added
    struct arrays arrays;          // arrays that do not grow
};

static void put(uint64_t *row, size_t node)
{
    row[node / 64] |= (uint64_t)1 << (node % 64);
}

// --- the graph -------------------------------------------------------------------

static bool fill_graph(struct downsets *downsets, const struct downset_graph *graph, struct error *error)
{
    const size_t nodes = graph->node_count, words = downsets->words;
    if (nodes * words * 8 > DOWNSETS_MOST_BYTES)
        return error_set(error, "%zu layers are too many for a table of the places to cut them", nodes);
    struct arrays *arrays = &downsets->store->arrays;
    downsets->reader_at = arrays_add(arrays, nodes + 2, sizeof downsets->reader_at[0]);
    downsets->readers = arrays_add(arrays, graph->edge_count, sizeof downsets->readers[0]);
    downsets->reads = arrays_add(arrays, nodes * words, sizeof downsets->reads[0]);
    downsets->store->set = arrays_add(arrays, words, sizeof downsets->store->set[0]);
    downsets->store->ready = arrays_add(arrays, words, sizeof downsets->store->ready[0]);
    if (arrays->failed)
        return error_no_memory(error, "a graph of layers");
    // Counted two entries up, so that filling leaves each list's beginning in its own entry.
    for (size_t e = 0; e < graph->edge_count; e++)
        downsets->reader_at[graph->edges[e].from + 2]++;
    for (size_t n = 2; n <= nodes; n++)
        downsets->reader_at[n] += downsets->reader_at[n - 1];
    for (size_t e = 0; e < graph->edge_count; e++) {
        const struct edge edge = graph->edges[e];
        downsets->readers[downsets->reader_at[edge.from + 1]++] = edge.to;
        put(downsets->reads + edge.to * words, edge.from);
    }
    return true;
}

// --- finding and adding ------------------------------------------------------------

static size_t hash_of(const uint64_t *set, size_t words)
{
    uint64_t hash = 0;
    for (size_t w = 0; w < words; w++) {
        hash = (hash ^ set[w]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return (size_t)hash;
}

// The entry of a set in the table, or the empty entry where it would be.
static size_t table_find(const struct downsets *downsets, const uint64_t *set)
{
    const struct downset_store *store = downsets->store;
    const size_t mask = store->table_size - 1, words = downsets->words;
    size_t slot = hash_of(set, words) & mask;
    while (store->table[slot]
           && memcmp(downsets_set(downsets, store->table[slot] - 1), set, words * sizeof set[0]) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

static bool table_grow(struct downsets *downsets, struct error *error)
{
    struct downset_store *store = downsets->store;
    const size_t size = store->table_size ? 2 * store->table_size : 64;
    uint32_t *table = calloc(size, sizeof table[0]);
    if (!table)
        return error_no_memory(error, "the downsets of a graph");
    free(store->table);
    store->table = table;
    store->table_size = size;
    for (size_t d = 0; d < downsets->count; d++)
        table[table_find(downsets, downsets_set(downsets, d))] = (uint32_t)d + 1;
    return true;
}

static bool grow(void *array, size_t count, size_t size, struct error *error)
{
    void **pointer = array;
    void *larger = realloc(*pointer, count * size);
    if (!larger)
        return error_no_memory(error, "the downsets of a graph");
    *pointer = larger;
    return true;
}

static bool has_room(struct downsets *downsets, struct error *error)
{
    struct downset_store *store = downsets->store;
    const size_t room = 2 * store->room + 64;
    if (downsets->count == store->most)
        return error_set(error,
                         "the graph can be cut in more than %zu ways, which are not all tried: too many layers lie "
                         "beside each other",
                         store->most);
    if (downsets->count < store->room)
        return true;
    if (room * (downsets->words * 8 + 48) > DOWNSETS_MOST_BYTES)
        return error_set(error, "the %zu ways to cut the graph that were met take more than 1 GiB", downsets->count);
    if (!grow(&downsets->sets, room * downsets->words + 1, sizeof downsets->sets[0], error)
        || !grow(&downsets->size, room, sizeof downsets->size[0], error)
        || !grow(&downsets->above_at, room + 1, sizeof downsets->above_at[0], error)
        || !grow(&store->made_of, room, sizeof store->made_of[0], error))
        return false;
    store->room = room;
    return true;
}

uint32_t downsets_add(struct downsets *downsets, const uint64_t *set, struct error *error)
{
    struct downset_store *store = downsets->store;
    if (2 * (downsets->count + 1) > store->table_size && !table_grow(downsets, error))
        return DOWNSETS_NONE;
    const size_t place = table_find(downsets, set), now = downsets->count;
    if (store->table[place])
        return store->table[place] - 1;
    if (!has_room(downsets, error))
        return DOWNSETS_NONE;
    memcpy(downsets->sets + now * downsets->words, set, downsets->words * sizeof set[0]);
    downsets->size[now] = 0;
    for (size_t w = 0; w < downsets->words; w++)
        downsets->size[now] += (uint32_t)__builtin_popcountll(set[w]);
    store->table[place] = (uint32_t)++downsets->count;
    downsets->above_at[downsets->count] = (uint32_t)store->link_count;  // no links upwards, unless they are found later
    return (uint32_t)now;
}

// --- listing ---------------------------------------------------------------------

// Finds or makes downset `from` with one node more, and adds the link to it.
static bool add_node(struct downsets *downsets, uint32_t from, uint32_t node, struct error *error)
{
    struct downset_store *store = downsets->store;
    const size_t known = downsets->count;
    memcpy(store->set, downsets_set(downsets, from), downsets->words * sizeof store->set[0]);
    put(store->set, node);
    const uint32_t to = downsets_add(downsets, store->set, error);
    if (to == DOWNSETS_NONE)
        return false;
    if (to == known)
        store->made_of[to] = (struct downset_link){ from, node };
    if (!array_reserve(&downsets->above, &store->link_room, store->link_count + 1, sizeof downsets->above[0]))
        return error_no_memory(error, "the downsets of a graph");
    downsets->above[store->link_count++] = (struct downset_link){ to, node };
    return true;
}

static bool is_ready(const struct downsets *downsets, uint32_t downset, size_t node)
{
    return downsets_within(downsets->reads + node * downsets->words, downsets_set(downsets, downset), downsets->words);
}

// The nodes that may be added to a downset, as a row of bits.
static void fill_ready(struct downsets *downsets, uint32_t downset)
{
    uint64_t *ready = downsets->store->ready;
    memset(ready, 0, downsets->words * sizeof ready[0]);
    for (size_t n = 0; downset == 0 && n < downsets->node_count; n++)
        if (is_ready(downsets, 0, n))
            put(ready, n);
    if (downset == 0)
        return;
    const struct downset_link before = downsets->store->made_of[downset];
    for (uint32_t i = downsets->above_at[before.downset]; i < downsets->above_at[before.downset + 1]; i++)
        put(ready, downsets->above[i].node);
    ready[before.node / 64] &= ~((uint64_t)1 << (before.node % 64));
    for (uint32_t i = downsets->reader_at[before.node]; i < downsets->reader_at[before.node + 1]; i++)
        if (is_ready(downsets, downset, downsets->readers[i]))
            put(ready, downsets->readers[i]);
}

static bool list_all(struct downsets *downsets, struct error *error)
{
    const uint64_t *ready = downsets->store->ready;
    for (uint32_t d = 0; d < downsets->count; d++) {
        downsets->above_at[d] = (uint32_t)downsets->store->link_count;
        fill_ready(downsets, d);
        for (size_t w = 0; w < downsets->words; w++)
            for (uint64_t rest = ready[w]; rest; rest &= rest - 1)
                if (!add_node(downsets, d, (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(rest), error))
                    return false;
    }
    if (downsets->size[downsets->count - 1] != downsets->node_count)
        return error_set(error, "the edges of the graph go round in a circle");
    return true;
}

static bool list_order(struct downsets *downsets, const uint32_t *order, struct error *error)
{
    downsets->above_at[0] = 0;
    for (uint32_t i = 0; i < downsets->node_count; i++) {
        if (!add_node(downsets, i, order ? order[i] : i, error))
            return false;
        downsets->above_at[i + 1] = i + 1;
    }
    return true;
}

// The links downwards are the links upwards, by their other end.
static bool fill_below(struct downsets *downsets, struct error *error)
{
    const size_t count = downsets->count, links = downsets->store->link_count;
    downsets->above_at[count] = (uint32_t)links;
    downsets->below_at = arrays_add(&downsets->store->arrays, count + 2, sizeof downsets->below_at[0]);
    downsets->below = arrays_add(&downsets->store->arrays, links, sizeof downsets->below[0]);
    if (downsets->store->arrays.failed)
        return error_no_memory(error, "the downsets of a graph");
    for (size_t i = 0; i < links; i++)
        downsets->below_at[downsets->above[i].downset + 2]++;
    for (size_t d = 2; d <= count; d++)
        downsets->below_at[d] += downsets->below_at[d - 1];
    for (uint32_t d = 0; d < count; d++)
        for (uint32_t i = downsets->above_at[d]; i < downsets->above_at[d + 1]; i++) {
            const struct downset_link link = downsets->above[i];
            downsets->below[downsets->below_at[link.downset + 1]++] = (struct downset_link){ d, link.node };
        }
    return true;
}

// --- making ----------------------------------------------------------------------

// Makes the graph, and the empty set.
static struct downsets *create(const struct downset_graph *graph, size_t most, struct error *error)
{
    struct downsets *downsets = calloc(1, sizeof *downsets);
    struct downset_store *store = calloc(1, sizeof *store);
    if (!downsets || !store) {
        free(downsets);
        free(store);
        return error_null(error_no_memory(error, "the downsets of a graph"));
    }
    store->most = most;
    *downsets = (struct downsets){ .node_count = graph->node_count, .words = (graph->node_count + 63) / 64,
                                   .store = store };
    if (fill_graph(downsets, graph, error) && downsets_add(downsets, store->set, error) == 0)
        return downsets;
    downsets_free(downsets);
    return NULL;
}

struct downsets *downsets_create(const struct downset_graph *graph, size_t most, struct error *error)
{
    struct downsets *downsets = create(graph, most ? most : DOWNSETS_USUAL_MOST, error);
    if (downsets && list_all(downsets, error) && fill_below(downsets, error))
        return downsets;
    downsets_free(downsets);
    return NULL;
}

struct downsets *downsets_of_order(const struct downset_graph *graph, const uint32_t *order, struct error *error)
{
    struct downsets *downsets = create(graph, SIZE_MAX, error);
    if (downsets && list_order(downsets, order, error) && fill_below(downsets, error))
        return downsets;
    downsets_free(downsets);
    return NULL;
}

void downsets_free(struct downsets *downsets)
{
    if (!downsets)
        return;
    arrays_clear(&downsets->store->arrays);
    free(downsets->sets);
    free(downsets->size);
    free(downsets->above_at);
    free(downsets->above);
    free(downsets->store->made_of);
    free(downsets->store->table);
    free(downsets->store);
    free(downsets);
}

// --- asking --------------------------------------------------------------------

struct edge *downsets_edges(const struct profile *profile, const uint32_t *node_of, size_t *edge_count,
                            struct error *error)
{
    const size_t all = profile_edge_count(profile);
    struct edge *edges = calloc(all + 1, sizeof edges[0]);
    *edge_count = 0;
    if (!edges)
        return error_null(error_no_memory(error, "the edges of a graph"));
    for (uint32_t i = 0; i < all; i++) {
        const struct edge layers = profile_edge(profile, i);
        const struct edge nodes = node_of ? (struct edge){ node_of[layers.from], node_of[layers.to] } : layers;
        if (nodes.from != nodes.to && nodes.from != DOWNSETS_LEFT_OUT && nodes.to != DOWNSETS_LEFT_OUT)
            edges[(*edge_count)++] = nodes;
    }
    return edges;
}

uint64_t *downsets_sum(const struct downsets *downsets, const uint64_t *value, struct error *error)
{
    uint64_t *sum = calloc(downsets->count, sizeof sum[0]);
    if (!sum)
        return error_null(error_no_memory(error, "the sums of a graph's downsets"));
    for (size_t d = 1; d < downsets->count; d++) {
        const struct downset_link link = downsets->below[downsets->below_at[d]];
        sum[d] = sum[link.downset] + value[link.node];
    }
    return sum;
}

// --- pairs ---------------------------------------------------------------------

bool downset_walk_create(struct downset_walk *walk, const struct downsets *downsets, struct error *error)
{
    *walk = (struct downset_walk){ .downsets = downsets };
    walk->queue = calloc(downsets->count, sizeof walk->queue[0]);
    walk->seen = calloc(downsets->count, sizeof walk->seen[0]);
    if (walk->queue && walk->seen)
        return true;
    downset_walk_clear(walk);
    return error_no_memory(error, "the pairs of a graph's downsets");
}

void downset_walk_clear(struct downset_walk *walk)
{
    free(walk->queue);
    free(walk->seen);
    *walk = (struct downset_walk){ .queue = NULL };
}

// The first downset in the queue is the start itself, which `head` skips.
static void walk_begin(struct downset_walk *walk, uint32_t from, const uint32_t *starts,
                       const struct downset_link *links)
{
    walk->walks++;
    walk->at = starts;
    walk->links = links;
    walk->queue[0] = from;
    walk->seen[from] = walk->walks;
    walk->head = walk->tail = 1;
    walk->expand = true;
}

void downset_walk_down(struct downset_walk *walk, uint32_t from)
{
    walk_begin(walk, from, walk->downsets->below_at, walk->downsets->below);
}

void downset_walk_up(struct downset_walk *walk, uint32_t from)
{
    walk_begin(walk, from, walk->downsets->above_at, walk->downsets->above);
}

bool downset_walk_next(struct downset_walk *walk, uint32_t *downset)
{
    if (walk->expand) {
        const uint32_t last = walk->queue[walk->head - 1];
        for (uint32_t i = walk->at[last]; i < walk->at[last + 1]; i++) {
            const uint32_t met = walk->links[i].downset;
            if (walk->seen[met] != walk->walks) {
                walk->seen[met] = walk->walks;
                walk->queue[walk->tail++] = met;
            }
        }
    }
    if (walk->head == walk->tail)
        return false;
    walk->expand = true;
    *downset = walk->queue[walk->head++];
    return true;
}
