// What a split of a sequence costs: its share of the whole micro-batch's times and bytes.
//
//     10 ns in 3 splits     3  3  4        part j is floor((j + 1) x / k) - floor(j x / k), and the parts
//                                          add up to the whole
//
// Times and bytes per micro-batch are divided. The costs of the stage itself (step, reduction, weights) are not.
#ifndef SCHEDULES_COST_PART_H
#define SCHEDULES_COST_PART_H

#include "schedules/schedule.h"

static inline uint64_t cost_part(uint64_t whole, uint32_t split, uint32_t splits)
{
    const uint64_t each = whole / splits, rest = whole % splits;
    return each + (split + 1) * rest / splits - split * rest / splits;
}

static inline struct cost_row cost_row_part(const struct cost_row *row, uint32_t split, uint32_t splits)
{
    struct cost_row part = *row;
    uint64_t *const shared[] = {
        &part.forward_ns,         &part.backward_ns,  &part.backward_input_ns, &part.backward_weight_ns,
        &part.recompute_ns,       &part.overlapped_ns, &part.output_bytes,      &part.kept_forward_bytes,
        &part.kept_weight_bytes,  &part.again_bytes,  &part.transient_bytes,   &part.move_ns,
        &part.moved_bytes,        &part.exchange_ns,
    };
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        *shared[i] = cost_part(*shared[i], split, splits);
    return part;
}

#endif
