// The walk behind recompute.h: over the layers of an interval, position by position, with
// the ways to have decided what is before it that no other one beats.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_WALK_H
#define PARTITIONER_SEARCH_RECOMPUTE_WALK_H

#include "partitioner/search/recompute.h"
#include "partitioner/search/recompute_prices.h"

// What of a stage is kept for each micro-batch, in classes with slots of their own (schedules/slots.h). Where sequences
// go through in parts a slot is for a part, and a class is rounded up once, as a whole (stage_bytes_of_split), so that
// what one more tensor takes depends on the others:
//
//     three tensors of 256 in two parts     all together     768 / 2 = 384  ->  512
//                                           each by itself   128  ->  256, three times
enum recompute_class { CLASS_KEPT, CLASS_THROUGH, CLASS_HELD, CLASS_AGAIN, CLASSES };

// One way to have decided the layers before a position.
struct recompute_label {
    uint64_t time;       // F of what is recomputed
    uint64_t least;      // what any completion of it takes at least
    uint64_t bytes;      // kept, times slots
    uint64_t moved;      // kept, to the host and back; 0 where nothing goes there
    uint64_t transient;  // the largest workspace so far; from the start that without segments
    uint64_t kept_set;   // which tensors with several readers are kept already, by their bits
    uint32_t from;       // the position before
    uint32_t parent;     // which of its labels
    uint32_t layers;     // recomputed so far; 0 where only bytes matter
    uint8_t life;        // of the input, enum input_life
    bool is_segment;     // whether [from, position) is one
    uint64_t whole[CLASSES];  // of splits: by class, not split; 0 at the end, where only bytes count
};

// In front of a layer, or behind the last: the labels there, and which bits are alive.
struct recompute_position {
    struct recompute_label *at;
    size_t count, capacity;
    uint64_t live;
    uint8_t bit;  // of the layer's tensor, if it has several readers inside, or NO_BIT
};

// What of a stage no choice changes.
struct recompute_stage {
    uint64_t fixed;          // bytes
    uint64_t input_cost[3];  // of the input's slots, by life
    uint64_t transient;      // without segments
    bool gathers;            // a segment's weights count among its data (stage_cost.c)
};

// The labels that a narrow walk keeps at a position.
#define NARROW 32

struct recompute_walk {
    struct intervals *intervals;
    uint32_t first, end;
    const struct slots *slots;  // on the device
    enum recompute_wanted wanted;
    size_t most_labels;
    size_t spread_part;      // 4: of labels that are cut a quarter is chosen by bytes, not by what it promises
    struct recompute_stage stage;
    uint64_t budget;         // bytes for what the choice decides
    uint64_t most_time;      // no label above it matters
    bool takes_no_time;      // only bytes matter
    bool complete;
    uint64_t lost;           // the least time of what was cut
    uint64_t made;
    struct recompute_position *positions;  // first to end, at [position - first]
    // Of the quickest way alone, where layers are many: prices, and for each position and bit what the readers from
    // there on are taken to pay for a tensor.
    struct recompute_prices *prices;
    uint64_t *parts;
};

// Fills in the positions of a walk whose other members above them are set. False only
// without memory; cleared by recompute_walk_clear() either way.
bool recompute_walk(struct recompute_walk *walk);
void recompute_walk_clear(struct recompute_walk *walk);

#endif
