// A model can be cut at its *places*. A place is a downset of the graph of layers: a set that contains, with each
// layer, all layers it reads from. It is what the first stages of a plan hold together. A stage is the difference of
// two places, and a plan is a row of places from the empty one to the full one.
//
//     a chain a b c         {}  {a}  {ab}  {abc}                   its lattice of four places
//                            0    1     2      3
//
//     a graph     b         {}  {a}  {ab}  {ac}  {abc}  {abcd}     six places; no edge joins b and c, so that
//               a   d        0    1     2     3      4       5     a stage may end with either of them
//                 c
//
// Layers that must stay together (tied ones, no_cut_after, and whatever lies between two of these) are a *block*. A
// place contains a block whole or not at all. In one given order, the places are the prefixes of the model: one more
// than it has blocks. Everything that is said of graphs holds for an order too, and costs nothing more.
//
// A graph can have too many places to list. Then a few are listed to begin with, and others are added when they are
// needed.
#ifndef PARTITIONER_CUTS_PLACES_H
#define PARTITIONER_CUTS_PLACES_H

#include "partitioner/search/downsets.h"

#define NO_PLACE DOWNSETS_NONE

struct places {
    const struct profile *profile;
    uint32_t layers, blocks;
    uint32_t *block_of;     // of each layer
    uint32_t *first_of;     // in one order: the number of layers of place i (blocks + 1 entries); else NULL
    bool is_chain;          // one order: place i is blocks 0 to i - 1
    bool is_complete;       // all places are listed
    uint32_t count, full;   // the number of places, and the place of all layers; the empty place is 0
    struct downsets *sets;  // of a graph: the downsets of its blocks; NULL in one order
    uint32_t *layer_at;     // of a graph: the layers of block b: layers_of[layer_at[b]] to layers_of[layer_at[b + 1]]
    uint32_t *layers_of;
    uint32_t *sizes;        // of a graph: the number of layers of each place
    size_t size_room;
    uint64_t *room;         // of a graph: scratch, a row of bits and a row of marks
};

// The places of a model in the profile's own order, cut only in front of layers for which `can_cut` is true. It has
// layers + 1 entries, the ends included. NULL with an error.
struct places *places_of_order(const struct profile *profile, const bool *can_cut, struct error *error);

// The places of the model's graph: all of them if there are at most `most`, else those of the profile's own order.
// `together`: tied layers must be on one stage. NULL with an error.
struct places *places_of_graph(const struct profile *profile, bool together, uint32_t most, struct error *error);

void places_free(struct places *places);

// The number of layers of a place, and whether it contains a layer.
uint32_t places_size(const struct places *places, uint32_t place);
bool places_holds(const struct places *places, uint32_t place, uint32_t layer);

// Writes the layers that are in `to` but not in `from`, ascending. `layers` has room for all layers of the model.
// Returns how many.
uint32_t places_between(const struct places *places, uint32_t from, uint32_t to, uint32_t *layers);

// In a graph: writes the layers that only one of two places contains, in any order. `layers` has room for all layers
// of the model. Returns how many.
uint32_t places_apart(const struct places *places, uint32_t a, uint32_t b, uint32_t *layers);

// In a graph: moves a place by a layer's block. If the place lacks the layer, the block is added with all that it
// needs; `bound` contains the layer, and the result stays within it. If the place has the layer, and `bound` has not,
// the block is removed with all that needs it. The resulting place is added to the list if it is new. NO_PLACE: it is
// `bound` itself, or there is no room for more.
uint32_t places_move(struct places *places, uint32_t place, uint32_t bound, uint32_t layer);

// The place of the first `layers` layers of an order (NULL: the profile's own). NO_PLACE: these are no place.
uint32_t places_of_first(struct places *places, const uint32_t *order, uint32_t layers);

// --- walking --------------------------------------------------------------------------

// Iterates over the known places that contain all of one place and more, the nearest first. The walk does not go
// beyond a pruned place. This is right for a condition that, once it holds, also holds further out.
//
//     place_walk_from(&walk, from);
//     while (place_walk_next(&walk, &to))
//         if (the stage from `from` to `to` takes too long)
//             place_walk_prune(&walk);
struct place_walk {
    const struct places *places;
    uint32_t at;               // in one order: the last place returned
    bool is_pruned;
    struct downset_walk walk;  // in a graph
};

bool place_walk_create(struct place_walk *walk, const struct places *places, struct error *error);
void place_walk_clear(struct place_walk *walk);
void place_walk_from(struct place_walk *walk, uint32_t from);
bool place_walk_next(struct place_walk *walk, uint32_t *place);

void place_walk_prune(struct place_walk *walk);

#endif
