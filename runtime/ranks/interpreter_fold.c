// State without a gradient: behind an update and its all-gather, each copy of a stage folds the statistics of all
// micro-batches that it takes in. At REDUCE the copies have brought them together (interpreter_reduce.c).
#include <stdlib.h>

#include "runtime/ranks/interpreting.h"

bool has_statistics(const struct local *local)
{
    return local->memory->rows[SLAB_STATISTICS].bytes > 0 && local->memory->rows[SLAB_STATISTICS].count > 0;
}

// Whether a micro-batch is of the stage's next update, and ran on this copy.
static bool is_of(const struct interpreter *interpreter, const struct local *local, uint32_t copy, uint32_t micro_batch)
{
    const struct interpreter_needs *needs = &interpreter->needs;
    return folds_takes(needs->folds, local->stage, local->updates, micro_batch)
        && schedule_rank(needs->schedule, local->stage, micro_batch)
               == placement_rank(needs->weight_plan->placement, local->stage, copy);
}

static struct action forward_of(const struct local *local, uint32_t micro_batch)
{
    return (struct action){ .stage = (uint16_t)local->stage, .kind = ACTION_F, .micro_batch = micro_batch };
}

void lay_statistics_together(struct interpreter *interpreter, const struct local *local, uint64_t *edges)
{
    const struct slab_row *room = &local->memory->rows[SLAB_GATHERED_STATISTICS];
    uint32_t place = 0;
    for (uint32_t copy = 0; copy < local->copies; copy++) {
        edges[copy] = place * room->bytes / sizeof(float);
        for (uint32_t m = 0; m < interpreter->needs.schedule->micro_batches; m++) {
            if (!is_of(interpreter, local, copy, m))
                continue;
            if (copy == local->copy)
                queue_copy(interpreter->needs.queue, row_at(room, place),
                           flights_at(&interpreter->flights, forward_of(local, m), SLAB_STATISTICS),
                           room->bytes);
            place++;
        }
        edges[copy + 1] = place * room->bytes / sizeof(float);
    }
}

// Where the statistics of an update's micro-batches are, ascending by micro-batch.
static void find_statistics(const struct interpreter *interpreter, const struct local *local, const void **statistics,
                            uint32_t *micro_batches, uint32_t *count)
{
    uint32_t place = 0;
    *count = 0;
    for (uint32_t m = 0; m < interpreter->needs.schedule->micro_batches; m++)
        if (folds_takes(interpreter->needs.folds, local->stage, local->updates, m))
            micro_batches[(*count)++] = m;
    for (uint32_t copy = 0; copy < local->copies; copy++)
        for (uint32_t i = 0; i < *count; i++)
            if (is_of(interpreter, local, copy, micro_batches[i]))
                statistics[i] = local->copies > 1
                                    ? row_at(&local->memory->rows[SLAB_GATHERED_STATISTICS], place++)
                                    : flights_at(&interpreter->flights, forward_of(local, micro_batches[i]),
                                                 SLAB_STATISTICS);
}

static void give_back(const struct interpreter *interpreter, const struct local *local)
{
    for (uint32_t m = 0; m < interpreter->needs.schedule->micro_batches; m++)
        if (is_of(interpreter, local, local->copy, m))
            flights_give(&interpreter->flights, forward_of(local, m), SLAB_STATISTICS, NULL);
}

bool fold_statistics(struct interpreter *interpreter, struct local *local, struct error *error)
{
    const uint32_t most = interpreter->needs.schedule->micro_batches;
    struct weir_fold fold = { .queue = interpreter->needs.queue, .state = local->memory->state,
                              .parameters = row_at(&local->memory->weights, local->ring.newest) };
    if (fold.state) {
        const void **statistics = calloc(most + 1u, sizeof *statistics);
        uint32_t *micro_batches = calloc(most + 1u, sizeof *micro_batches);
        bool good = (statistics && micro_batches) || error_no_memory(error, "the statistics of an update");
        if (good) {
            find_statistics(interpreter, local, statistics, micro_batches, &fold.count);
            fold.statistics = statistics;
            fold.micro_batches = micro_batches;
            const bool is_left = interpreter->skips && interpreter->needs.optimizer->halts;
            good = fold.count == 0 || is_left || local->does->functions->fold(local->does->self, &fold, error);
            give_back(interpreter, local);
        }
        free(statistics);
        free(micro_batches);
        if (!good)
            return error_at(error, "rank %u", interpreter->needs.rank);
    }
    local->updates++;
    return true;
}
