// Who adds up the gradients of weights that several stages share: tied layers that a plan
// lets be apart (docs/memory.md). Each of those stages has a copy of the weights, begun
// with the same bits; before the update the gradients of all of them are added up, so
// that all make the same update and the copies stay alike to the last bit.
//
//     stage 0, rank 0   | embedding ...            |     g0 \.
//     stage 3, rank 3   | ... head | its embedding |     g3 --> g0 + g3, on both
//
// The order of addition is that of the stages. Where a stage is on several ranks its
// REDUCE has made their gradients one and the same: the first of the ranks brings them,
// and the others only get the sum.
//
// It happens when a rank is done with its whole list, and its last STEPs with it: all
// backwards have been made and sent then, nobody waits for anything else of a rank that
// waits here, and every rank takes the ties in the order of their keys. So no two ranks
// can wait for each other in two of them, whatever the schedule.
#ifndef RUNTIME_TIES_H
#define RUNTIME_TIES_H

#include "partitioner/plan/placement.h"
#include "runtime/stage.h"

struct tie {
    uint32_t key;
    uint32_t *stages;    // ascending
    uint32_t stage_count;
    // The first rank of each stage, which brings gradients, then the others; none where `is_local`: every rank that has
    // one of the stages has all of them, and adds up by itself.
    uint32_t *ranks;
    uint32_t rank_count, adders;
    bool is_local;
};

struct ties {
    struct tie *at;  // in order of their keys
    uint32_t count;
    bool have_norms;  // the last is that of all stages
};

// Where gradients are clipped, or their loss is scaled (clipping.h), all ranks add up norms in one tie more, behind the
// others.
// Refuses ranks that hold some of the stages of a tie, but not all, and a schedule without
// a flush, at which they could be added up.
bool ties_open(struct ties *ties, const struct stage *stages, const struct schedule *schedule,
               const struct placement *placement, bool clips, bool scales, struct error *error);
void ties_close(struct ties *ties);

// Whether a stage takes part in a tie, or in any.
bool tie_has(const struct tie *tie, uint32_t stage);
bool ties_have(const struct ties *ties, uint32_t stage);

// Where the stage has the weights of a tie.
struct shared tie_range(const struct tie *tie, const struct stage *stage);

#endif
