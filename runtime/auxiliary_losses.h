// The auxiliary losses of a pass: of every layer that has one (weir_layer.h), of each micro-batch, and of each part of
// its sequences. Layers are numbered in the order in which the stages hold them.
//
//     forwards set        parts    micro-batch 0: part 0: a b c   part 1: a b c   micro-batch 1: ...
//     added up by part    whole    micro-batch 0: a b c   micro-batch 1: a b c
//     and by layer        sums     micro-batch 0   micro-batch 1
#ifndef RUNTIME_AUXILIARY_LOSSES_H
#define RUNTIME_AUXILIARY_LOSSES_H

#include "runtime/groups/process_group.h"
#include "runtime/stages/stage.h"
#include "schedules/schedule.h"

struct auxiliary_losses {
    uint32_t count;  // layers that have one
    uint32_t micro_batches, splits;
    float *parts, *whole, *sums;
};

// Everything starts as zero. False without memory.
bool auxiliary_losses_open(struct auxiliary_losses *losses, uint32_t count, uint32_t micro_batches, uint32_t splits,
                           struct error *error);
void auxiliary_losses_close(struct auxiliary_losses *losses);

// The place for the first layer's loss of one part. Those of the others follow.
static inline float *auxiliary_losses_at(const struct auxiliary_losses *losses, uint32_t micro_batch, uint32_t split)
{
    return &losses->parts[((size_t)micro_batch * losses->splits + split) * losses->count];
}

// Adds them up: first the parts, in their order, and then the layers. These come in the given order, which has `count`
// of their numbers, so that sums have the same bits however a plan orders layers. NULL: by their numbers.
void auxiliary_losses_add_up(struct auxiliary_losses *losses, const uint32_t *order);

// In a process group every rank has set those of its own stages. Now all ranks get all of them.
bool auxiliary_losses_share(struct auxiliary_losses *losses, const struct process_group *group,
                            const struct schedule *schedule, const struct stage *stages, struct error *error);

#endif
