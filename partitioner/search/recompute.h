// Which layers of a stage to recompute: the least time that brings the stage's
// memory under its device's, exactly.
//
// A walk over the layers carries a list of *labels*, one per way to have decided
// the layers so far that no other way beats:
//
//     layer       0       1       2       3
//              +-keep--+-keep--+-keep--+-keep--+
//              |               |               |      label: time spent on recomputation,
//              +----[0, 2)-----+----[2, 4)-----+             bytes kept, the largest segment's
//              +-----------[0, 4)--------------+             workspace, how long the input lives
//
// It is not a plain knapsack: a segment's own data is a workspace, of which the
// stage needs only the largest, so a label carries it along, and one label beats
// another only where it is no worse in any of the numbers. In a DAG a tensor that
// two later layers need is kept once; labels remember which are kept already.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_H
#define PARTITIONER_SEARCH_RECOMPUTE_H

#include "partitioner/search/interval.h"
#include "schedules/slots.h"

enum recompute_wanted {
    RECOMPUTE_LEAST = 0,  // one choice: the least time; among those the fewest layers
    RECOMPUTE_EVERY = 1,  // one choice per time that some feasible way takes
    // Where several stages share a device, what one takes is what the others lack:
    RECOMPUTE_FRONT = 2,  // every choice that no other is better than in time, bytes and workspace, and in what
                          // goes to the host
    RECOMPUTE_EVERY_FRONT = RECOMPUTE_EVERY | RECOMPUTE_FRONT,  // the same for each time by itself
};

struct recompute_choice {
    uint64_t forward_ns;  // sum of R of the recomputed layers, on a device as fast as the profile's
    uint64_t bytes;            // of the stage's slab, without
    uint64_t workspace_bytes;  // the workspace
    struct stage_away away;    // only asked for where a holding uses the host
    struct segment *segments;
    size_t count;
};

struct recompute_list {
    struct recompute_choice *at;  // ascending in time; empty if nothing fits
    size_t count;
    bool complete;  // false when `most_labels` cut the walk: choices fit, but others may be missing
    uint64_t least_ns;  // RECOMPUTE_LEAST: no choice takes less; UINT64_MAX if nothing fits
};

// For layers [first, end) with these slots under `capacity_bytes`. `work` is raised
// by the number of labels made. A front that is cut keeps labels all along it, and has no
// segments of more layers than it may have labels. False only without memory.
bool recompute_search(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                      uint64_t capacity_bytes, enum recompute_wanted wanted, size_t most_labels, uint64_t *work,
                      struct recompute_list *list, struct error *error);
void recompute_list_clear(struct recompute_list *list);

// The least slab in which layers [first, end) fit at all, whatever time that takes;
// `input`: with the slots of its input. `complete` and `work` as above: if not complete,
// less may do.
bool recompute_least_bytes(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                           bool input, uint64_t *bytes, bool *complete, uint64_t *work, struct error *error);

#endif
