// A row of a sweep: its search request, and its outcome.
#include <stdio.h>
#include <string.h>

#include "partitioner/plan_search.h"
#include "partitioner/sweep/sweep.h"

struct search_request sweep_search_of(const struct sweep_request *request, const struct sweep_row *row)
{
    struct storage storage = request->storage;
    storage.tied_apart &= storage_can_tie_apart(request->profile, storage.optimizer, row->weights == WEIGHTS_FLUSH);
    return (struct search_request){
        .profile = request->profile,
        .cluster = request->cluster,
        .schedule = row->schedule,
        .ranks = row->ranks,
        .chunks = row->chunks,
        .micro_batches = row->micro_batches,
        .storage = storage,
        .limits.budget = request->budget ? request->budget : SWEEP_DEFAULT_BUDGET,
        .limits.interrupted = request->interrupted,
        .wanted.own_order = true,
    };
}

bool sweep_is_order(const struct sweep_row *row)
{
    return strcmp(row->schedule, SWEEP_ORDER_NAME) == 0;
}

void sweep_note_time(struct sweep_row *row, uint64_t iteration_ns, double bubble)
{
    row->found.iteration_ns = iteration_ns;
    row->found.micro_batch_ns = iteration_ns / row->micro_batches + (iteration_ns % row->micro_batches > 0);
    row->found.bubble = bubble;
}

static bool note_plan(struct sweep_row *row, struct error *error)
{
    const struct plan *plan = row->plan;
    row->found.outcome = SWEEP_PLANNED;
    row->chunks = plan->chunks;
    sweep_note_time(row, plan->iteration_ns, plan->bubble.makespan);
    row->found.lower_bound_ns = plan->certificate.lower_bound_ns;
    row->found.proved = plan->certificate.proved;
    row->found.peak_bytes = plan_peak_bytes(plan, &row->found.rank, error);
    return error->kind == ERROR_NONE;
}

bool sweep_note_none(struct sweep_row *row, const struct search_shortage *shortage, const struct error *why,
                     struct error *error)
{
    static const enum sweep_outcome outcomes[] = { [LACK_REFUSED] = SWEEP_REFUSED, [LACK_PROVED] = SWEEP_DOES_NOT_FIT,
                                                   [LACK_OPEN] = SWEEP_NONE_FOUND };
    if (why->kind == ERROR_MACHINE) {
        error_hand_on(error, why);
        return error_at(error, "%s with %u micro-batches on %u ranks", row->schedule, row->micro_batches, row->ranks);
    }
    row->found.outcome = outcomes[shortage->lack];
    row->found.rank = shortage->rank;
    row->found.lacks_bytes = shortage->lacks_bytes;
    if (shortage->lacks_bytes == 0)
        snprintf(row->reason, sizeof row->reason, "%.*s", (int)sizeof row->reason - 1, why->text);
    return true;
}

static bool note(const struct search_request *search, struct plan *plan, const struct search_shortage *shortage,
                 const struct error *why, struct sweep_row *row, struct error *error)
{
    row->plan = plan;
    if (plan)
        return note_plan(row, error);
    return (why->kind != ERROR_MACHINE && search->limits.interrupted && *search->limits.interrupted)
        || sweep_note_none(row, shortage, why, error);
}

bool sweep_plan_row(const struct search_request *given, struct sweep_row *row, struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage = { 0 };
    struct search_request search = *given;
    search.found.shortage = &shortage;
    struct plan *plan = plan_search(&search, &why);
    return note(&search, plan, &shortage, &why, row, error);
}

bool sweep_widen_row(const struct search_request *given, struct sweep_row *row, struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage = { .is_known = row->found.lacks_bytes > 0, .rank = row->found.rank,
                                        .lacks_bytes = row->found.lacks_bytes };
    struct search_request search = *given;
    search.found.shortage = &shortage;
    struct plan *plan = plan_search_wider(&search, row->plan, &why);
    return note(&search, plan, &shortage, &why, row, error);
}
