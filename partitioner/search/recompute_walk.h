// The walk behind recompute.h, by label setting: over the layers of an interval, position by position. At each
// position it has the ways to have decided what is before it that no other way beats.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_WALK_H
#define PARTITIONER_SEARCH_RECOMPUTE_WALK_H

#include "partitioner/search/recompute.h"
#include "partitioner/search/recompute_prices.h"

// The tensors that a stage keeps for each micro-batch, in classes with slots of their own (schedules/slots.h). If
// sequences pass through in parts, a slot is for a part, and a class is rounded up once, as a whole
// (stage_bytes_of_split). What one more tensor takes then depends on the others:
//
//     three tensors of 256 in two parts     all together     768 / 2 = 384  ->  512
//                                           each by itself   128  ->  256, three times
enum recompute_class { CLASS_KEPT, CLASS_THROUGH, CLASS_HELD, CLASS_AGAIN, CLASSES };

// One way to have decided the layers before a position.
struct recompute_label {
    uint64_t time;       // F of what is recomputed
    uint64_t least;      // any completion of it takes at least this
    uint64_t bytes;      // kept, times slots
    uint64_t moved;      // kept, and moved to the host and back; 0 if nothing goes there
    uint64_t transient;  // the largest workspace so far; at the start, that without segments
    uint64_t kept_set;   // a bit for each tensor with several readers: whether it is kept already
    uint32_t from;       // the previous position
    uint32_t parent;     // which of the labels there it extends
    uint32_t layers;     // recomputed so far; 0 if only bytes matter
    uint8_t life;        // of the input, enum input_life
    bool is_segment;     // [from, position) is a segment, which is recomputed
    uint64_t whole[CLASSES];  // with splits: bytes by class, not split; 0 at the end, where only bytes count
};

// A position in front of a layer, or behind the last: the labels there, and which bits are alive.
struct recompute_position {
    struct recompute_label *at;
    size_t count, capacity;
    uint64_t live;
    uint8_t bit;  // of the layer's tensor, if it has several readers inside, or NO_BIT
};

// The numbers of a stage that no choice changes.
struct recompute_stage {
    uint64_t fixed;          // bytes
    uint64_t input_cost[3];  // of the input's slots, by life
    uint64_t transient;      // without segments
    bool gathers;            // a segment's weights count as its data (stage_cost.c)
};

// How many labels a narrow walk keeps at a position.
#define NARROW 32

struct recompute_walk {
    struct intervals *intervals;
    uint32_t first, end;
    const struct slots *slots;  // on the device
    enum recompute_wanted wanted;
    size_t most_labels;
    size_t spread_part;      // 4: of labels that are cut, a quarter is chosen by bytes, not by what it promises
    struct recompute_stage stage;
    uint64_t budget;         // bytes for what is decided
    uint64_t most_time;      // no label that takes more matters
    bool takes_no_time;      // only bytes matter
    bool complete;
    uint64_t lost;           // the least time of what was cut
    uint64_t made;
    struct recompute_position *positions;  // first to end, at [position - first]
    // Only for the quickest way, if there are many layers: prices, and for each position and bit what the readers
    // from there on pay for a tensor.
    struct recompute_prices *prices;
    uint64_t *parts;
};

// Fills in the positions of a walk, whose members above them must be set. False only without memory.
// recompute_walk_clear() frees them either way.
bool recompute_walk(struct recompute_walk *walk);
void recompute_walk_clear(struct recompute_walk *walk);

#endif
