// Plans that are one small step away from a plan: a stage gives its first or last layer to the stage beside it, or
// recomputes less. Each is priced as the plan itself was, with the quickest recomputation that fits. The result says
// why it is not the plan:
//
//     stage        2              3 (busiest)
//     layers    .. l7 | l8 l9 l10 l11 ..
//                     `--> l8 to stage 2: 12 % slower, or lacks 300 MiB there
#ifndef PARTITIONER_EXPLAIN_NEIGHBOURS_H
#define PARTITIONER_EXPLAIN_NEIGHBOURS_H

#include "partitioner/plan/plan.h"

enum neighbour_kind { NEIGHBOUR_GIVES_BACK, NEIGHBOUR_GIVES_ON, NEIGHBOUR_SPARES };
enum neighbour_outcome {
    NEIGHBOUR_FASTER,
    NEIGHBOUR_NO_FASTER,
    NEIGHBOUR_NO_ROOM,
    NEIGHBOUR_NO_CUT,      // the model cannot be cut there
    NEIGHBOUR_ONLY_LAYER,  // the stage would be left with nothing
    NEIGHBOUR_PINNED,      // the user has pinned the layer there
};
extern const char *const neighbour_kind_names[];     // "gives back", "gives on", "spares", NULL
// "faster", "no faster", "no room", "no cut", "only layer", "pinned", NULL
extern const char *const neighbour_outcome_names[];

struct neighbour {
    enum neighbour_kind kind;
    enum neighbour_outcome outcome;
    uint32_t stage;         // which gives a layer away, or recomputes less
    char layer[64];         // its name; empty for NEIGHBOUR_SPARES
    // NEIGHBOUR_NO_ROOM: of the way that lacks least among those that are faster, or else among all
    uint64_t iteration_ns;
    uint32_t rank;          // NEIGHBOUR_NO_ROOM: the rank that lacks most
    uint64_t lacks_bytes;   // what that rank lacks
};

// Writes the neighbours of one stage into `found`, at most three, and their number into `count`. False only for a
// failure of the machine.
enum { MOST_NEIGHBOURS = 3 };
bool neighbours_of_stage(const struct plan *plan, const struct profile *profile, uint32_t stage,
                         struct neighbour found[MOST_NEIGHBOURS], size_t *count, struct error *error);

#endif
