// How much longer actions take if a stage's weights, or its gradients alone, come to its device layer by layer and
// go back. They come from the host, or from the replicas that have shares of them (storage_moves_layers()).
//
// *In turn*: with room for one layer, all that moves is added to the action. *Beside*: with room for two layers or
// more, moves go on beside what is computed. While a layer computes (C), the gradients of the layer before it in the
// action go back, and what the next layer needs comes. (From the host its gradients so far come too; with shares,
// these stay where they are added.)
//
//     F, in order            come  |  longer of C, next comes  |  longer of C, next comes  |  C
//     B, I, W, from the last come  |  longer of C, before goes back and next comes  |  ..  |  goes back
//
// A run does this (runtime/stages/chain_ahead.c) for a chain of layers none of which is tied or run again. For all
// other layers the price in turn is more than they take.
#ifndef PARTITIONER_COST_WINDOW_COST_H
#define PARTITIONER_COST_WINDOW_COST_H

#include "partitioner/cost/storage_cost.h"

// Whether such moves overlap with computation, for a stage whose own times are in `row`.
bool window_overlaps(const struct storage *storage, const struct profile *profile, const struct cost_row *row);

// Adds to F, B, I and W what such states take: in turn; or, for the layers [first, end), overlapping.
void window_add_in_turn(const struct storage *storage, const struct stage_place *place,
                        const struct stage_states *states, struct cost_row *row);
void window_add_overlapping(const struct storage *storage, const struct stage_place *place,
                            const struct profile *profile, uint32_t first, uint32_t end, struct cost_row *row);

#endif
