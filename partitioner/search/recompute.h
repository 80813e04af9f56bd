// Which layers of a stage to recompute: the least time that brings the stage's memory under its device's, found
// exactly.
//
// A walk over the layers (label setting) carries a list of *labels*. Each is a way to have decided the layers so far
// that no other way beats:
//
//     layer       0       1       2       3
//              +-keep--+-keep--+-keep--+-keep--+
//              |               |               |      label: time spent on recomputation,
//              +----[0, 2)-----+----[2, 4)-----+             bytes kept, the largest segment's
//              +-----------[0, 4)--------------+             workspace, how long the input lives
//
// This is not a plain knapsack problem. A segment's own data is a workspace, of which the stage needs only the
// largest, so a label records it. One label beats another only if it is no worse in any of the numbers. In a DAG, a
// tensor that two later layers need is kept once; labels remember which tensors are kept already.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_H
#define PARTITIONER_SEARCH_RECOMPUTE_H

#include "partitioner/search/interval.h"
#include "schedules/slots.h"

enum recompute_wanted {
    RECOMPUTE_LEAST = 0,  // one choice: the least time; among those the fewest layers
    RECOMPUTE_EVERY = 1,  // one choice per time that some feasible way takes
    // If several stages share a device, what one takes is what the others lack. So this is every choice that no other
    // beats in time, bytes and workspace, and in what goes to the host:
    RECOMPUTE_FRONT = 2,
    RECOMPUTE_EVERY_FRONT = RECOMPUTE_EVERY | RECOMPUTE_FRONT,  // the same for each time by itself
};

struct recompute_choice {
    uint64_t forward_ns;  // sum of R of the recomputed layers, on a device as fast as the profile's
    uint64_t bytes;            // of the stage's slab, without the workspace
    uint64_t workspace_bytes;  // of the workspace
    struct stage_away away;    // filled in only if the storage uses the host
    struct segment *segments;
    size_t count;
};

struct recompute_list {
    struct recompute_choice *at;  // ascending in time; empty if nothing fits
    size_t count;
    bool complete;  // false if `most_labels` cut the walk: the choices fit, but others may be missing
    uint64_t least_ns;  // RECOMPUTE_LEAST: no choice takes less; UINT64_MAX: nothing fits
};

// Searches the choices for layers [first, end) with these slots under `capacity_bytes`. `work` is raised by the
// number of labels made. A front that is cut keeps labels all along it, and has no segments of more layers than it
// may have labels. recompute_list_clear() frees the list. False only without memory.
bool recompute_search(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                      uint64_t capacity_bytes, enum recompute_wanted wanted, size_t most_labels, uint64_t *work,
                      struct recompute_list *list, struct error *error);
void recompute_list_clear(struct recompute_list *list);

// The least bytes of a slab in which layers [first, end) fit at all, however long the recomputation takes. It has the
// slots of the input if `input` is set. The arguments `complete` and `work` are as above; if it is not complete, less
// may do. False only without memory.
bool recompute_least_bytes(struct intervals *intervals, uint32_t first, uint32_t end, const struct slots *slots,
                           bool input, uint64_t *bytes, bool *complete, uint64_t *work, struct error *error);

#endif
