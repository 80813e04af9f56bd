// All downsets of a graph of layers: the sets of layers that contain, with a layer, all layers it reads from. What
// the first stages of a plan hold together is always a downset, so plans are the paths through the picture of a
// graph's downsets:
//
//          b                     {}    0
//        /   \                   {a}    1
//      a       d      has     {ab} {ac}  2 3      six of them; stages are the differences of
//        \   /                  {abc}   4         two, such as {a b} \ {} = a b
//          c                    {abcd}  5
//
// Downsets are numbered by size, and those of one size in the order in which they were met. The graph alone decides
// that order: the same graph gives the same numbers. Number 0 is the empty set, the last one the set of all layers. A
// chain of n layers has n + 1 downsets. k branches of n layers beside each other have (n + 1)^k, which is why there
// is a limit.
//
// A set is a row of bits, one per node, 64 to a word. The lines of the picture are stored too: from each downset to
// those with one node more (above) and with one node less (below). Nothing here grows with the number of pairs of
// downsets, of which there are millions: downset_walk iterates over them.
//
// If there are too many, the downsets of one order can be listed, and others can be added to them as they are met.
// Lines then join only those of the order.
#ifndef PARTITIONER_SEARCH_DOWNSETS_H
#define PARTITIONER_SEARCH_DOWNSETS_H

#include "common/error.h"
#include "profiler/profile.h"

// The number of downsets beyond which downsets_create() gives up, unless told another number, and the bytes it may
// take: several seconds' work.
#define DOWNSETS_USUAL_MOST 1000000
#define DOWNSETS_MOST_BYTES ((uint64_t)1 << 30)

// A graph of nodes, in any order. Its edges may be in any order too, and may repeat.
struct downset_graph {
    size_t node_count;
    const struct edge *edges;
    size_t edge_count;
};

struct downset_link {
    uint32_t downset;  // the other end
    uint32_t node;     // the one node in which they differ
};

struct downsets {
    size_t node_count, words;  // words of a row of bits
    size_t count;
    uint64_t *sets;               // count rows
    uint32_t *size;               // nodes in each
    uint32_t *above_at;           // the links upwards of downset i: above[above_at[i]] to above[above_at[i + 1]]
    struct downset_link *above;   // by node
    uint32_t *below_at;           // the links downwards, likewise
    struct downset_link *below;   // by node
    uint64_t *reads;              // of each node, a row of bits: the nodes it reads
    uint32_t *reader_at;          // the readers of node n: readers[reader_at[n]] to readers[reader_at[n + 1]]
    uint32_t *readers;
    struct downset_store *store;  // finds sets, and adds them
};

// All downsets of a graph, at most `most` of them (0: DOWNSETS_USUAL_MOST). NULL with an error if there are more, if
// they take too many bytes, or if the graph has a cycle. Time and memory grow with the number of downsets times the
// words of a set.
struct downsets *downsets_create(const struct downset_graph *graph, size_t most, struct error *error);

// Only the downsets of one order of the nodes: its prefixes, nodes + 1 of them. A plan that is found over them has
// stages that are intervals of that order. The order is not checked. `order` NULL: that of the nodes' numbers. NULL
// with an error.
struct downsets *downsets_of_order(const struct downset_graph *graph, const uint32_t *order, struct error *error);

void downsets_free(struct downsets *downsets);

// The number of a set, which is added if it is new. DOWNSETS_NONE with an error if there is no room for more.
#define DOWNSETS_NONE UINT32_MAX
uint32_t downsets_add(struct downsets *downsets, const uint64_t *set, struct error *error);

// The edges between the nodes of a profile, in the profile's order, so that they may repeat. Those of a chain are
// written out. `node_of` is the node of each layer; NULL: each layer is one. The caller frees the edges by free().
// NULL with an error.
#define DOWNSETS_LEFT_OUT UINT32_MAX  // in `node_of`: the layer is in no node
struct edge *downsets_edges(const struct profile *profile, const uint32_t *node_of, size_t *edge_count,
                            struct error *error);

static inline const uint64_t *downsets_set(const struct downsets *downsets, size_t downset)
{
    return downsets->sets + downset * downsets->words;
}

static inline bool downsets_holds(const struct downsets *downsets, size_t downset, size_t node)
{
    return downsets_set(downsets, downset)[node / 64] >> (node % 64) & 1;
}

// Whether a node reads another.
static inline bool downsets_reads(const struct downsets *downsets, size_t node, size_t other)
{
    return downsets->reads[node * downsets->words + other / 64] >> (other % 64) & 1;
}

// Whether all bits of one row are in the other.
static inline bool downsets_within(const uint64_t *inner, const uint64_t *outer, size_t words)
{
    for (size_t w = 0; w < words; w++)
        if (inner[w] & ~outer[w])
            return false;
    return true;
}

// For each downset the sum of `value` over its nodes, in one pass. The caller frees it by free(). NULL with an error.
uint64_t *downsets_sum(const struct downsets *downsets, const uint64_t *value, struct error *error);

// --- pairs ---------------------------------------------------------------------

// Iterates over the downsets within one downset, itself left out, or over those that contain it, the nearest in size
// first. The walk does not go beyond a downset that the caller prunes. This is right for a condition that, once it
// holds, also holds further out.
//
//     downset_walk_down(&walk, outer);
//     while (downset_walk_next(&walk, &inner))
//         if (work[outer] - work[inner] > limit)
//             downset_walk_prune(&walk);    // larger stages are larger still
struct downset_walk {
    const struct downsets *downsets;
    const uint32_t *at;
    const struct downset_link *links;
    uint32_t *queue;        // downsets to return, and those already returned
    uint32_t *seen;         // of each downset: the number of the walk that met it
    uint32_t walks;
    size_t head, tail;
    bool expand;            // whether to go beyond the last one returned
};

bool downset_walk_create(struct downset_walk *walk, const struct downsets *downsets, struct error *error);
void downset_walk_clear(struct downset_walk *walk);
void downset_walk_down(struct downset_walk *walk, uint32_t from);
void downset_walk_up(struct downset_walk *walk, uint32_t from);
bool downset_walk_next(struct downset_walk *walk, uint32_t *downset);

static inline void downset_walk_prune(struct downset_walk *walk)
{
    walk->expand = false;
}

#endif
