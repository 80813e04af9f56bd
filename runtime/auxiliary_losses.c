#include "runtime/auxiliary_losses.h"

#include <stdlib.h>
#include <string.h>

bool auxiliary_losses_open(struct auxiliary_losses *losses, uint32_t count, uint32_t micro_batches, uint32_t splits,
                           struct error *error)
{
    const size_t whole = (size_t)micro_batches * count;
    *losses = (struct auxiliary_losses){ .count = count, .micro_batches = micro_batches, .splits = splits };
    losses->parts = calloc(whole * splits + 1, sizeof *losses->parts);
    losses->whole = calloc(whole + 1, sizeof *losses->whole);
    losses->sums = calloc(micro_batches + 1u, sizeof *losses->sums);
    return (losses->parts && losses->whole && losses->sums) || error_no_memory(error, "the auxiliary losses of layers");
}

void auxiliary_losses_close(struct auxiliary_losses *losses)
{
    free(losses->parts);
    free(losses->whole);
    free(losses->sums);
    *losses = (struct auxiliary_losses){ .count = 0 };
}

static void add_up_parts(struct auxiliary_losses *losses, uint32_t micro_batch)
{
    float *whole = &losses->whole[(size_t)micro_batch * losses->count];
    memcpy(whole, auxiliary_losses_at(losses, micro_batch, 0), losses->count * sizeof *whole);
    for (uint32_t split = 1; split < losses->splits; split++)
        for (uint32_t i = 0; i < losses->count; i++)
            whole[i] += auxiliary_losses_at(losses, micro_batch, split)[i];
}

void auxiliary_losses_add_up(struct auxiliary_losses *losses, const uint32_t *order)
{
    for (uint32_t m = 0; m < losses->micro_batches; m++) {
        const float *whole = &losses->whole[(size_t)m * losses->count];
        add_up_parts(losses, m);
        losses->sums[m] = 0;
        for (uint32_t i = 0; i < losses->count; i++)
            losses->sums[m] += whole[order ? order[i] : i];
    }
}

// Takes the losses of one stage from the ranks that have run its micro-batches.
static void take(struct auxiliary_losses *losses, const struct schedule *schedule, const struct stage *stages,
                 uint32_t s, const float *all)
{
    const struct stage *stage = &stages[s];
    const size_t each = (size_t)losses->micro_batches * losses->splits * losses->count;
    for (uint32_t m = 0; m < losses->micro_batches; m++)
        for (uint32_t split = 0; split < losses->splits; split++) {
            float *to = auxiliary_losses_at(losses, m, split) + stage->first_auxiliary;
            const float *from = all + schedule_rank(schedule, s, m) * each + (to - losses->parts);
            memcpy(to, from, stage->auxiliary_count * sizeof *to);
        }
}

bool auxiliary_losses_share(struct auxiliary_losses *losses, const struct process_group *group,
                            const struct schedule *schedule, const struct stage *stages, struct error *error)
{
    const size_t bytes = (size_t)losses->micro_batches * losses->splits * losses->count * sizeof *losses->parts;
    if (losses->count == 0)
        return true;
    float *all = calloc(schedule->ranks, bytes);
    const bool good = (all || error_no_memory(error, "the auxiliary losses of layers"))
                   && group->all_gather(group->self, losses->parts, bytes, all, error);
    for (uint32_t s = 0; good && s < schedule->stages; s++)
        take(losses, schedule, stages, s, all);
    free(all);
    return good;
}
