#include "schedules/folds.h"

#include <stdlib.h>

// How far a stage on one rank has come.
struct progress {
    uint32_t updates;
    bool was_reduced;  // since the last of these
};

static void advance(const struct folds *folds, struct progress *progress, struct action action)
{
    const size_t first = (size_t)action.stage * folds->schedule->micro_batches;
    switch (action.kind) {
    case ACTION_B:
    case ACTION_W:
        folds->update_of[first + action.micro_batch] = progress->updates + progress->was_reduced;
        break;
    case ACTION_REDUCE:
        progress->was_reduced = true;
        break;
    case ACTION_STEP:
        *progress = (struct progress){ .updates = progress->updates + 1 };
        break;
    default:
        break;
    }
}

// What no STEP follows is in no update.
static void leave_out(const struct folds *folds, uint32_t rank, const struct progress *progress)
{
    const struct schedule *schedule = folds->schedule;
    for (uint32_t s = 0; s < schedule->stages; s++)
        for (uint32_t m = 0; m < schedule->micro_batches; m++) {
            uint32_t *update = &folds->update_of[(size_t)s * schedule->micro_batches + m];
            if (schedule_rank(schedule, s, m) == rank && *update >= progress[s].updates)
                *update = NO_UPDATE;
        }
}

bool folds_open(struct folds *folds, const struct schedule *schedule, struct error *error)
{
    const size_t units = (size_t)schedule->stages * schedule->micro_batches;
    struct progress *progress = calloc(schedule->stages + 1u, sizeof *progress);
    *folds = (struct folds){ schedule, calloc(units + 1, sizeof *folds->update_of) };
    if (!progress || !folds->update_of) {
        free(progress);
        folds_close(folds);
        return error_no_memory(error, "the updates of a schedule");
    }
    for (size_t i = 0; i < units; i++)
        folds->update_of[i] = NO_UPDATE;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (uint32_t s = 0; s < schedule->stages; s++)
            progress[s] = (struct progress){ 0 };
        for (size_t i = 0; i < list->count; i++)
            advance(folds, &progress[list->at[i].stage], list->at[i]);
        leave_out(folds, rank, progress);
    }
    free(progress);
    return true;
}

void folds_close(struct folds *folds)
{
    free(folds->update_of);
    *folds = (struct folds){ 0 };
}
