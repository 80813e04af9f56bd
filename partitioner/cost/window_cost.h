// What actions take longer where a stage's weights, or its gradients alone, come to its device layer by layer, and go
// back: from and to the host, or the replicas that have shares of them (holding_moves_layers()).
//
// In turn, with room for one layer: whatever moves is added. Beside what is computed, with room for two or more: while
// a layer computes (C), the gradients of the one before it in the action go back, and what the next one needs comes
// (from the host with its gradients so far, which shares have where they are added):
//
//     F, in order            come  |  longer of C, next comes  |  longer of C, next comes  |  C
//     B, I, W, from the last come  |  longer of C, before goes back and next comes  |  ..  |  goes back
//
// That is what a run does (runtime/chain_ahead.c) of a chain of layers none of which is tied or run again; of all others
// what is in turn is more than it takes.
#ifndef PARTITIONER_COST_WINDOW_COST_H
#define PARTITIONER_COST_WINDOW_COST_H

#include "partitioner/cost/holding_cost.h"

// Whether it is priced as beside, of a stage whose own times are in the row.
bool window_is_beside(const struct holding *holding, const struct profile *profile, const struct cost_row *row);

// Adds to F, B, I and W what such states take in turn; or the layers [first, end) beside.
void window_add_in_turn(const struct holding *holding, const struct stage_place *place,
                        const struct stage_states *states, struct cost_row *row);
void window_add_beside(const struct holding *holding, const struct stage_place *place, const struct profile *profile,
                       uint32_t first, uint32_t end, struct cost_row *row);

#endif
