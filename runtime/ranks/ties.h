// Sums the gradients of tied parameters: layers that share weights, and that a plan puts on several stages
// (docs/memory.md). Each of those stages has a copy of the weights, initialized with the same bits. Before the update
// the gradients of all copies are added up. So all stages make the same update, and the copies stay bitwise equal.
//
//     stage 0, rank 0   | embedding ...            |     g0 \.
//     stage 3, rank 3   | ... head | its embedding |     g3 --> g0 + g3, on both
//
// Gradients are added in the order of the stages. If a stage is on several ranks, its REDUCE has already made their
// gradients equal. The first of these ranks contributes them, and the others only receive the sum.
//
// A rank does this after its whole list, together with its last STEPs. By then all its backwards have run and their
// messages are sent, so no rank waits for anything else from it. Every rank takes the ties in the order of their
// keys. So two ranks cannot wait for each other in two different ties, whatever the schedule.
#ifndef RUNTIME_RANKS_TIES_H
#define RUNTIME_RANKS_TIES_H

#include "partitioner/plan/placement.h"
#include "runtime/stages/stage.h"
#include "runtime/updates/optimizer.h"

struct tie {
    uint32_t key;
    uint32_t *stages;    // ascending
    uint32_t stage_count;
    // The first rank of each stage, which contributes gradients, then the others. Empty if `is_local`: every rank
    // that has one of the stages has all of them, and adds up by itself.
    uint32_t *ranks;
    uint32_t rank_count, adders;
    bool is_local;
};

struct ties {
    struct tie *at;  // in order of their keys
    uint32_t count;
    bool have_norms;  // the last tie is that of all stages, for norms
};

// If the norm of all gradients is measured (clipping.h), all ranks add up norms in one more tie, after the others. With
// `scales`, the loss is scaled, which needs them, too.
//
// Fails if a rank holds some of the stages of a tie but not all, or if the schedule has no flush at which the gradients
// could be added up.
bool ties_open(struct ties *ties, const struct stage *stages, const struct schedule *schedule,
               const struct placement *placement, const struct optimizer *optimizer, bool scales, struct error *error);
void ties_close(struct ties *ties);

// Whether a stage takes part in a tie, or in any of them.
bool tie_has(const struct tie *tie, uint32_t stage);
bool ties_have(const struct ties *ties, uint32_t stage);

// The range of the stage's weights that the tie shares.
struct shared tie_range(const struct tie *tie, const struct stage *stage);

#endif
