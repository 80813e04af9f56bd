#include <stdio.h>

#include "common/number.h"
#include "partitioner/coupled.h"
#include "partitioner/predict.h"
#include "partitioner/search_problem.h"

static struct certificate certify(const struct coupled *coupled, const struct coupled_state *best, uint64_t bound,
                                  bool proved)
{
    const uint64_t value = best->value_ns;
    bound = proved || bound > value ? value : bound;
    struct certificate certificate = { .objective = "iteration_ns", .value_ns = value, .lower_bound_ns = bound,
                                       .proved = bound == value, .by = BY_ENUMERATION };
    certificate.gap = value > 0 ? (double)(value - bound) / (double)value : 0;
    if (!certificate.proved)
        snprintf(certificate.stopped, sizeof certificate.stopped, "%s",
                 coupled->stopped[0] ? coupled->stopped : "there are too many cuts to try them all");
    return certificate;
}

static bool set_stage(struct coupled *coupled, const struct coupled_state *best, struct plan *plan, uint32_t s,
                      struct error *error)
{
    const struct placement *placement = coupled->placement;
    const struct segment layers = { best->decision.cuts[s], best->decision.cuts[s + 1] };
    static const struct recompute_choice nothing;
    const struct recompute_choice *choice = &nothing;
    if (best->choice[s] != NOT_RECOMPUTED) {
        struct coupled_table *table = best->is_whole ? &coupled->whole : &coupled->narrow;
        const struct coupled_stage *of = coupled_front(coupled, table, s, layers.first, layers.end, error);
        if (!of)
            return false;
        choice = &of->front.at[best->choice[s]];
    }
    // Rank r is device r, so the ranks of the copies are their devices.
    return plan_set_stage(plan, s, coupled->request->profile, layers, 0, choice->segments, choice->count, error)
        && plan_set_devices(plan, s, &placement->copies[placement->copy_at[s]], placement_copies(placement, s), error);
}

static struct plan *make_plan(struct coupled *coupled, const struct coupled_state *best, uint64_t bound, bool proved,
                              struct error *error)
{
    struct plan *plan = search_begin_plan(coupled->request, coupled->stages, error);
    bool good = plan != NULL;
    for (uint32_t s = 0; good && s < coupled->stages; s++)
        good = set_stage(coupled, best, plan, s, error);
    if (good && plan_predict(plan, coupled->request->profile, error)) {
        plan->certificate = certify(coupled, best, bound, proved);
        return plan;
    }
    plan_free(plan);
    return NULL;
}

static void explain(const struct coupled *coupled, const struct coupled_state *best, bool certain, struct error *error)
{
    const struct placement *placement = coupled->placement;
    uint32_t worst = 0;
    for (uint32_t r = 0; r < coupled->ranks; r++)
        if (best->lacks_bytes[r] > best->lacks_bytes[worst])
            worst = r;
    if (coupled->request->shortage)
        *coupled->request->shortage = (struct search_shortage){ true, worst, best->lacks_bytes[worst] };
    struct text stages = { 0 };
    for (uint32_t at = placement->stage_at[worst]; at < placement->stage_at[worst + 1]; at++)
        text_add(&stages, "%s%u", at > placement->stage_at[worst] ? ", " : "", placement->held[at]);
    char lacks[NUMBER_SIZE], has[NUMBER_SIZE];
    error_set_kind(error, ERROR_ANSWER,
                   "%s: in the one that lacks least, rank %u (stages %.60s of %s) lacks %s of"
                   " memory with recomputation, of the %s of %.40s; what would help: more memory there, more ranks,"
                   " smaller micro-batches, a schedule that keeps fewer of them%s%s",
                   certain ? "no plan fits, all were tried" : "no plan that fits was found", worst,
                   stages.failed ? "" : stages.data, coupled->generator->name,
                   bytes_format(best->lacks_bytes[worst], lacks), bytes_format(coupled->capacity[worst], has),
                   coupled->request->cluster->devices[worst].name, coupled->stopped[0] ? "; the search ended early: " : "",
                   coupled->stopped);
    text_clear(&stages);
}

static struct plan *run(struct coupled *coupled, struct coupled_state *best, struct error *error)
{
    uint64_t bound;
    bool proved = false;
    if (!coupled_bound(coupled, &bound, error) || !coupled_start(coupled, best, error)
        || !coupled_improve(coupled, best, coupled->budget / 2, error))
        return NULL;
    if (best->most_lacking > 0 || best->value_ns > bound) {
        if (!coupled_prove(coupled, best, &proved, error))
            return NULL;
    }
    if (best->most_lacking == 0)
        return make_plan(coupled, best, bound, proved, error);
    explain(coupled, best, proved, error);
    return NULL;
}

struct plan *coupled_search(const struct search_request *request, struct error *error)
{
    struct coupled *coupled = coupled_create(request, error);
    struct coupled_state best = { 0 };
    struct plan *plan = coupled && coupled_state_create(&best, coupled, error) ? run(coupled, &best, error) : NULL;
    coupled_state_clear(&best);
    coupled_free(coupled);
    return plan;
}
