// Where a model can be cut: its *places*. A place is a downset of the graph of layers, a set that holds, with a layer,
// all that layer reads from; it is what the first stages of a plan hold together. A stage is what one place has more
// than another, and a plan a row of places from the empty one to the full one.
//
//     a chain a b c         {}  {a}  {ab}  {abc}                   its lattice of four places
//                            0    1     2      3
//
//     a graph     b         {}  {a}  {ab}  {ac}  {abc}  {abcd}     six places; no edge joins b and c, so that
//               a   d        0    1     2     3      4       5     a stage may end with either of them
//                 c
//
// Layers that must stay together (tied ones, no_cut_after, and whatever lies between two of these) are a *block*, which
// is in a place whole or not at all. A model in one given order is the lattice of its beginnings, one place more than
// it has blocks: all that is said of graphs holds for it, and costs nothing more.
//
// The places of a graph can be too many to list. Then a few are there to begin with, and others are added as they are
// asked for.
#ifndef PARTITIONER_CUTS_PLACES_H
#define PARTITIONER_CUTS_PLACES_H

#include "partitioner/downsets.h"

#define NO_PLACE DOWNSETS_NONE

struct places {
    const struct profile *profile;
    uint32_t layers, blocks;
    uint32_t *block_of;     // of each layer
    uint32_t *first_of;     // in one order: how many layers place i has (blocks + 1); else NULL
    bool is_chain;          // one order: place i is blocks 0 to i - 1
    bool is_complete;       // all there are
    uint32_t count, full;   // how many places, and the one of all layers; the empty one is 0
    struct downsets *sets;  // of a graph: of its blocks; NULL in one order
    uint32_t *layer_at;     // of a graph: of block b the layers layers_of[layer_at[b]] to layers_of[layer_at[b + 1]]
    uint32_t *layers_of;
    uint32_t *sizes;        // of a graph: layers of each place
    size_t size_room;
    uint64_t *room;         // of a graph: a row of bits, and a row of what is marked
};

// The places of a model in the profile's own order, cut only in front of layers for which `can_cut` says so (layers + 1
// of them, the ends included).
struct places *places_of_order(const struct profile *profile, const bool *can_cut, struct error *error);

// Those of its graph: all of them if there are at most `most`, else those of the profile's own order. `together`: tied
// layers must be on one stage.
struct places *places_of_graph(const struct profile *profile, bool together, uint32_t most, struct error *error);

void places_free(struct places *places);

// How many layers a place has, and whether it has one of them.
uint32_t places_size(const struct places *places, uint32_t place);
bool places_holds(const struct places *places, uint32_t place, uint32_t layer);

// The layers that `to` has more than `from`, ascending, into room for all of the model's. Returns how many.
uint32_t places_between(const struct places *places, uint32_t from, uint32_t to, uint32_t *layers);

// In a graph: the layers that only one of two places has, in any order, into room for all of the model's. Returns how many.
uint32_t places_apart(const struct places *places, uint32_t a, uint32_t b, uint32_t *layers);

// In a graph: the place with a layer's block more, and all that this needs, within `bound`, which has the layer; or,
// where the place has the layer and `bound` has not, with that block less, and all that needs it. Added if it is not
// there yet; NO_PLACE where it is the bound or there is no room for more.
uint32_t places_move(struct places *places, uint32_t place, uint32_t bound, uint32_t layer);

// The place of the first so many layers of an order, NULL: the profile's own; NO_PLACE where these are none.
uint32_t places_of_first(struct places *places, const uint32_t *order, uint32_t layers);

// --- walking --------------------------------------------------------------------------

// Runs over the known places that have all of one and more, the nearest first. What is pruned is not gone beyond: right
// for a condition that, once it holds, holds further out too.
//
//     place_walk_from(&walk, from);
//     while (place_walk_next(&walk, &to))
//         if (the stage from `from` to `to` takes too long)
//             place_walk_prune(&walk);
struct place_walk {
    const struct places *places;
    uint32_t at;               // in one order: the last one given
    bool is_pruned;
    struct downset_walk walk;  // in a graph
};

bool place_walk_create(struct place_walk *walk, const struct places *places, struct error *error);
void place_walk_clear(struct place_walk *walk);
void place_walk_from(struct place_walk *walk, uint32_t from);
bool place_walk_next(struct place_walk *walk, uint32_t *place);

void place_walk_prune(struct place_walk *walk);

#endif
