// A row of a sweep: what is asked for it, and what came of it.
#include <stdio.h>

#include "partitioner/sweep/sweep.h"

struct search_request sweep_search_of(const struct sweep_request *request, const struct sweep_row *row)
{
    return (struct search_request){
        .profile = request->profile,
        .cluster = request->cluster,
        .schedule = row->schedule,
        .ranks = row->ranks,
        .chunks = row->chunks,
        .micro_batches = row->micro_batches,
        .holding = request->holding,
        .limits.budget = request->budget ? request->budget : SWEEP_DEFAULT_BUDGET,
        .limits.interrupted = request->interrupted,
    };
}

static bool note_plan(struct sweep_row *row, struct error *error)
{
    const struct plan *plan = row->plan;
    struct placement *placement = plan_placement(plan, error);
    if (!placement)
        return false;
    row->outcome = SWEEP_PLANNED;
    row->chunks = plan->chunks;
    row->iteration_ns = plan->iteration_ns;
    row->micro_batch_ns = plan->iteration_ns / row->micro_batches + (plan->iteration_ns % row->micro_batches > 0);
    row->lower_bound_ns = plan->certificate.lower_bound_ns;
    row->proved = plan->certificate.proved;
    row->bubble = plan->bubble.makespan;
    for (uint32_t r = 0; r < plan->ranks; r++) {
        const uint64_t bytes = plan_rank_bytes(plan, placement, r);
        if (bytes > row->peak_bytes) {
            row->peak_bytes = bytes;
            row->rank = r;
        }
    }
    placement_free(placement);
    return true;
}

bool sweep_plan_row(const struct search_request *given, sweep_planner *planner, struct sweep_row *row,
                    struct error *error)
{
    struct error why = { 0 };
    struct search_shortage shortage = { 0 };
    struct search_request search = *given;
    search.found.shortage = &shortage;
    row->plan = planner(&search, &why);
    if (row->plan)
        return note_plan(row, error);
    if (why.kind == ERROR_MACHINE) {
        error_set_kind(error, why.kind, "%s", why.text);
        return error_at(error, "%s with %u micro-batches on %u ranks", row->schedule, row->micro_batches, row->ranks);
    }
    if (search.limits.interrupted && *search.limits.interrupted)
        return true;
    row->outcome = shortage.is_known ? SWEEP_DOES_NOT_FIT : SWEEP_REFUSED;
    row->rank = shortage.rank;
    row->lacks_bytes = shortage.lacks_bytes;
    if (row->outcome == SWEEP_REFUSED)
        snprintf(row->reason, sizeof row->reason, "%.*s", (int)sizeof row->reason - 1, why.text);
    return true;
}
