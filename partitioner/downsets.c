// Level by level: the downsets of size k + 1 are those of size k with one more node,
// each met once per node that can be taken from it, and told apart by a hash table that
// holds one level only.
//
// For the level in hand and the next a second row of bits says which nodes may be added,
// so that a step costs the node's consumers and not the whole graph.
#include "partitioner/downsets.h"

#include <stdlib.h>
#include <string.h>

#include "common/random.h"

// The graph by node: who reads it, and which nodes it reads as a row of bits.
struct graph {
    size_t node_count, words;
    uint32_t *reader_at;
    uint32_t *readers;
    uint64_t *reads;
    uint64_t *key;  // of each node: a set's hash is the exclusive or of its nodes' keys
};

static void graph_clear(struct graph *graph)
{
    free(graph->reader_at);
    free(graph->readers);
    free(graph->reads);
    free(graph->key);
}

static bool graph_create(struct graph *graph, const struct downset_graph *from, struct error *error)
{
    const size_t nodes = from->node_count, words = (nodes + 63) / 64;
    *graph = (struct graph){ .node_count = nodes, .words = words };
    if (nodes * words * 8 > DOWNSETS_MOST_BYTES)
        return error_set(error, "%zu layers are too many for a table of the places to cut them", nodes);
    graph->reader_at = calloc(nodes + 2, sizeof graph->reader_at[0]);
    graph->readers = calloc(from->edge_count + 1, sizeof graph->readers[0]);
    graph->reads = calloc(nodes * words + 1, sizeof graph->reads[0]);
    graph->key = calloc(nodes + 1, sizeof graph->key[0]);
    if (!graph->reader_at || !graph->readers || !graph->reads || !graph->key)
        return error_no_memory(error, "a graph of layers");
    // Counted two places up, so that filling leaves each list's beginning in its own place.
    for (size_t e = 0; e < from->edge_count; e++)
        graph->reader_at[from->edges[e].from + 2]++;
    for (size_t n = 2; n <= nodes; n++)
        graph->reader_at[n] += graph->reader_at[n - 1];
    for (size_t e = 0; e < from->edge_count; e++) {
        const struct edge edge = from->edges[e];
        graph->readers[graph->reader_at[edge.from + 1]++] = edge.to;
        graph->reads[edge.to * words + edge.from / 64] |= (uint64_t)1 << (edge.from % 64);
    }
    uint64_t seed = 1;
    for (size_t n = 0; n < nodes; n++)
        graph->key[n] = random_next(&seed);
    return true;
}

static bool is_within(const uint64_t *inner, const uint64_t *outer, size_t words)
{
    for (size_t w = 0; w < words; w++)
        if (inner[w] & ~outer[w])
            return false;
    return true;
}

// --- building ------------------------------------------------------------------

struct builder {
    struct graph graph;
    struct downsets *downsets;
    size_t most, room;            // downsets allowed, and those there is room for
    size_t link_count, link_room;
    uint64_t *ready[2];           // rows of nodes that may be added: of this level and of the next
    size_t ready_room[2];
    uint64_t *hash;               // of each downset
    uint32_t *table;              // of the next level: numbers of downsets + 1, by hash
    size_t table_size;
    size_t level_at;              // where the next level begins
    uint64_t *scratch;            // a set that may be new
};

static bool grow(void *array, size_t count, size_t size, struct error *error)
{
    void **at = array;
    void *larger = realloc(*at, count * size);
    if (!larger)
        return error_no_memory(error, "the downsets of a graph");
    *at = larger;
    return true;
}

static bool refuse_count(const struct builder *builder, struct error *error)
{
    return error_set(error,
                     "the graph can be cut in more than %zu ways, which are not all tried: too many layers lie beside "
                     "each other",
                     builder->most);
}

static bool has_room(struct builder *builder, struct error *error)
{
    struct downsets *downsets = builder->downsets;
    if (downsets->count == builder->most)
        return refuse_count(builder, error);
    if (downsets->count < builder->room)
        return true;
    const size_t room = 2 * builder->room + 64;
    if (room * (downsets->words * 8 + 48) > DOWNSETS_MOST_BYTES)
        return error_set(error, "the %zu ways to cut the graph that were met take more than 1 GiB",
                         downsets->count);
    if (!grow(&downsets->sets, room * downsets->words + 1, sizeof downsets->sets[0], error)
        || !grow(&downsets->size, room, sizeof downsets->size[0], error)
        || !grow(&downsets->above_at, room + 1, sizeof downsets->above_at[0], error)
        || !grow(&builder->hash, room, sizeof builder->hash[0], error))
        return false;
    builder->room = room;
    return true;
}

// The table is of the next level; it doubles while it is more than half full.
static bool table_grow(struct builder *builder, struct error *error)
{
    const size_t size = builder->table_size ? 2 * builder->table_size : 64;
    uint32_t *table = calloc(size, sizeof table[0]);
    if (!table)
        return error_no_memory(error, "the downsets of a graph");
    for (size_t d = builder->level_at; d < builder->downsets->count; d++) {
        size_t at = builder->hash[d] & (size - 1);
        while (table[at])
            at = (at + 1) & (size - 1);
        table[at] = (uint32_t)d + 1;
    }
    free(builder->table);
    builder->table = table;
    builder->table_size = size;
    return true;
}

// Where `set` stands in the table, or the empty place where it would.
static size_t table_find(const struct builder *builder, const uint64_t *set, uint64_t hash)
{
    const size_t mask = builder->table_size - 1, bytes = builder->downsets->words * sizeof set[0];
    size_t at = hash & mask;
    while (builder->table[at]) {
        const size_t d = builder->table[at] - 1;
        if (builder->hash[d] == hash && memcmp(downsets_set(builder->downsets, d), set, bytes) == 0)
            break;
        at = (at + 1) & mask;
    }
    return at;
}

// The nodes that may be added to `now` = `before` and `node`: those of before, less the
// node, and its readers that read nothing else.
static bool fill_ready(struct builder *builder, const uint64_t *before, size_t node, size_t now, struct error *error)
{
    const struct graph *graph = &builder->graph;
    const size_t words = graph->words, row = now - builder->level_at;
    if (row >= builder->ready_room[1]) {
        builder->ready_room[1] = 2 * builder->ready_room[1] + 16;
        if (!grow(&builder->ready[1], builder->ready_room[1] * words + 1, sizeof(uint64_t), error))
            return false;
    }
    uint64_t *ready = builder->ready[1] + row * words;
    memcpy(ready, before, words * sizeof ready[0]);
    ready[node / 64] &= ~((uint64_t)1 << (node % 64));
    const uint64_t *set = downsets_set(builder->downsets, now);
    for (uint32_t at = graph->reader_at[node]; at < graph->reader_at[node + 1]; at++) {
        const uint32_t reader = graph->readers[at];
        if (is_within(graph->reads + reader * words, set, words))
            ready[reader / 64] |= (uint64_t)1 << (reader % 64);
    }
    return true;
}

static bool add_link(struct builder *builder, uint32_t downset, uint32_t node, struct error *error)
{
    if (builder->link_count == builder->link_room) {
        builder->link_room = 2 * builder->link_room + 64;
        if (!grow(&builder->downsets->above, builder->link_room, sizeof(struct downset_link), error))
            return false;
    }
    builder->downsets->above[builder->link_count++] = (struct downset_link){ downset, node };
    return true;
}

static bool add_downset(struct builder *builder, size_t place, uint64_t hash, const uint64_t *ready, size_t node,
                        struct error *error)
{
    struct downsets *downsets = builder->downsets;
    if (!has_room(builder, error))
        return false;
    const size_t now = downsets->count++, words = downsets->words;
    memcpy(downsets->sets + now * words, builder->scratch, words * sizeof downsets->sets[0]);
    downsets->size[now] = downsets->size[builder->level_at - 1] + 1;
    builder->hash[now] = hash;
    builder->table[place] = (uint32_t)now + 1;
    return fill_ready(builder, ready, node, now, error);
}

// Downset `from` and one node more: found, or made.
static bool add_node(struct builder *builder, size_t from, const uint64_t *ready, size_t node, struct error *error)
{
    struct downsets *downsets = builder->downsets;
    if (2 * (downsets->count - builder->level_at + 1) > builder->table_size && !table_grow(builder, error))
        return false;
    memcpy(builder->scratch, downsets_set(downsets, from), downsets->words * sizeof(uint64_t));
    builder->scratch[node / 64] |= (uint64_t)1 << (node % 64);
    const uint64_t hash = builder->hash[from] ^ builder->graph.key[node];
    const size_t place = table_find(builder, builder->scratch, hash);
    if (!builder->table[place] && !add_downset(builder, place, hash, ready, node, error))
        return false;
    return add_link(builder, builder->table[place] - 1, (uint32_t)node, error);
}

// All downsets with one node more than those in [first, end), which are all of a size.
static bool add_level(struct builder *builder, size_t first, size_t end, struct error *error)
{
    struct downsets *downsets = builder->downsets;
    const size_t words = downsets->words;
    builder->level_at = end;
    if (builder->table)
        memset(builder->table, 0, builder->table_size * sizeof builder->table[0]);
    for (size_t d = first; d < end; d++) {
        const uint64_t *ready = builder->ready[0] + (d - first) * words;
        downsets->above_at[d] = (uint32_t)builder->link_count;
        for (size_t w = 0; w < words; w++)
            for (uint64_t rest = ready[w]; rest; rest &= rest - 1)
                if (!add_node(builder, d, ready, 64 * w + (size_t)__builtin_ctzll(rest), error))
                    return false;
    }
    uint64_t *swap = builder->ready[0];
    builder->ready[0] = builder->ready[1];
    builder->ready[1] = swap;
    const size_t room = builder->ready_room[0];
    builder->ready_room[0] = builder->ready_room[1];
    builder->ready_room[1] = room;
    return true;
}

// The empty set, to which every node may be added that reads nothing.
static bool add_first(struct builder *builder, struct error *error)
{
    const struct graph *graph = &builder->graph;
    const size_t words = graph->words;
    builder->scratch = calloc(words + 1, sizeof builder->scratch[0]);
    builder->ready[0] = calloc(words + 1, sizeof builder->ready[0][0]);
    builder->ready_room[0] = 1;
    if (!builder->scratch || !builder->ready[0])
        return error_no_memory(error, "the downsets of a graph");
    if (!has_room(builder, error))
        return false;
    memset(builder->downsets->sets, 0, words * sizeof(uint64_t));
    builder->downsets->size[0] = 0;
    builder->hash[0] = 0;
    builder->downsets->count = 1;
    for (size_t n = 0; n < graph->node_count; n++)
        if (is_within(graph->reads + n * words, builder->downsets->sets, words))
            builder->ready[0][n / 64] |= (uint64_t)1 << (n % 64);
    return true;
}

// The links downwards are those upwards, by their other end.
static bool fill_below(struct downsets *downsets, struct error *error)
{
    const size_t count = downsets->count, links = downsets->above_at[count];
    downsets->below_at = calloc(count + 2, sizeof downsets->below_at[0]);
    downsets->below = calloc(links + 1, sizeof downsets->below[0]);
    if (!downsets->below_at || !downsets->below)
        return error_no_memory(error, "the downsets of a graph");
    for (size_t at = 0; at < links; at++)
        downsets->below_at[downsets->above[at].downset + 2]++;
    for (size_t d = 2; d <= count; d++)
        downsets->below_at[d] += downsets->below_at[d - 1];
    for (uint32_t d = 0; d < count; d++)
        for (uint32_t at = downsets->above_at[d]; at < downsets->above_at[d + 1]; at++) {
            const struct downset_link link = downsets->above[at];
            downsets->below[downsets->below_at[link.downset + 1]++] = (struct downset_link){ d, link.node };
        }
    return true;
}

static bool build(struct builder *builder, struct error *error)
{
    struct downsets *downsets = builder->downsets;
    if (!add_first(builder, error))
        return false;
    for (size_t first = 0; first < downsets->count;) {
        const size_t end = downsets->count;
        if (!add_level(builder, first, end, error))
            return false;
        first = end;
    }
    downsets->above_at[downsets->count] = (uint32_t)builder->link_count;
    if (downsets->size[downsets->count - 1] != downsets->node_count)
        return error_set(error, "the edges of the graph go round in a circle");
    return fill_below(downsets, error);
}

static void builder_clear(struct builder *builder)
{
    graph_clear(&builder->graph);
    free(builder->ready[0]);
    free(builder->ready[1]);
    free(builder->hash);
    free(builder->table);
    free(builder->scratch);
}

struct downsets *downsets_create(const struct downset_graph *graph, size_t most, struct error *error)
{
    struct builder builder = { .most = most ? most : DOWNSETS_USUAL_MOST };
    builder.downsets = calloc(1, sizeof *builder.downsets);
    if (!builder.downsets) {
        error_no_memory(error, "the downsets of a graph");
        return NULL;
    }
    builder.downsets->node_count = graph->node_count;
    builder.downsets->words = (graph->node_count + 63) / 64;
    const bool good = graph_create(&builder.graph, graph, error) && build(&builder, error);
    builder_clear(&builder);
    if (good)
        return builder.downsets;
    downsets_free(builder.downsets);
    return NULL;
}

struct downsets *downsets_of_order(const uint32_t *order, size_t node_count, struct error *error)
{
    struct edge *edges = calloc(node_count + 1, sizeof edges[0]);
    if (!edges) {
        error_no_memory(error, "the downsets of an order");
        return NULL;
    }
    for (size_t i = 1; i < node_count; i++)
        edges[i - 1] = (struct edge){ order[i - 1], order[i] };
    const struct downset_graph chain = { node_count, edges, node_count ? node_count - 1 : 0 };
    struct downsets *downsets = downsets_create(&chain, 0, error);
    free(edges);
    return downsets;
}

void downsets_free(struct downsets *downsets)
{
    if (!downsets)
        return;
    free(downsets->sets);
    free(downsets->size);
    free(downsets->above_at);
    free(downsets->above);
    free(downsets->below_at);
    free(downsets->below);
    free(downsets);
}

// --- asking --------------------------------------------------------------------

struct edge *downsets_edges(const struct profile *profile, size_t *edge_count, struct error *error)
{
    *edge_count = profile->is_chain ? (profile->layer_count ? profile->layer_count - 1 : 0) : profile->edge_count;
    struct edge *edges = calloc(*edge_count + 1, sizeof edges[0]);
    if (!edges) {
        error_no_memory(error, "the edges of a graph");
        return NULL;
    }
    for (uint32_t i = 0; i < *edge_count; i++)
        edges[i] = profile->is_chain ? (struct edge){ i, i + 1 } : profile->edges[i];
    return edges;
}

uint64_t *downsets_sum(const struct downsets *downsets, const uint64_t *value, struct error *error)
{
    uint64_t *sum = calloc(downsets->count, sizeof sum[0]);
    if (!sum) {
        error_no_memory(error, "the sums of a graph's downsets");
        return NULL;
    }
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

// The first one given is the start itself, which `head` passes over.
static void walk_begin(struct downset_walk *walk, uint32_t from, const uint32_t *at, const struct downset_link *links)
{
    walk->walks++;
    walk->at = at;
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
        for (uint32_t at = walk->at[last]; at < walk->at[last + 1]; at++) {
            const uint32_t met = walk->links[at].downset;
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
