#include <stdio.h>
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/coupled.h"
#include "partitioner/predict.h"
#include "partitioner/search_problem.h"

static struct certificate certify(const struct coupled *coupled, const struct coupled_state *best, uint64_t bound)
{
    const uint64_t value = best->value_ns;
    bound = bound < value ? bound : value;
    struct certificate certificate = { .objective = "iteration_ns", .value_ns = value, .lower_bound_ns = bound,
                                       .proved = bound == value, .by = BY_ENUMERATION };
    certificate.gap = value > 0 ? (double)(value - bound) / (double)value : 0;
    if (!certificate.proved)
        snprintf(certificate.stopped, sizeof certificate.stopped, "%s",
                 coupled->stopped[0] ? coupled->stopped : "there are too many cuts to try them all");
    return certificate;
}

// The devices of all copies, in their order.
static bool set_devices(const struct coupled *coupled, struct plan *plan, uint32_t s, struct error *error)
{
    const struct placement *placement = coupled->placement;
    uint32_t *devices = calloc(coupled->seat_at[coupled->ranks] + 1, sizeof devices[0]), count = 0;
    if (!devices)
        return error_no_memory(error, "a stage of a plan");
    for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++) {
        const uint32_t rank = placement_rank(placement, s, copy);
        for (uint32_t seat = coupled->seat_at[rank]; seat < coupled->seat_at[rank + 1]; seat++)
            devices[count++] = coupled->seats[seat];
    }
    const bool good = plan_set_devices(plan, s, devices, count, error);
    free(devices);
    return good;
}

static bool set_stage(struct coupled *coupled, const struct coupled_state *best, struct plan *plan, uint32_t s,
                      struct error *error)
{
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
    return plan_set_stage(plan, s, coupled->request->profile, layers, 0, choice->segments, choice->count, error)
        && set_devices(coupled, plan, s, error);
}

static struct plan *make_plan(struct coupled *coupled, const struct coupled_state *best, uint64_t bound,
                              struct error *error)
{
    struct plan *plan = search_begin_plan(coupled->request, coupled->stages, error);
    bool good = plan != NULL;
    for (uint32_t s = 0; good && s < coupled->stages; s++)
        good = set_stage(coupled, best, plan, s, error);
    if (good && plan_predict(plan, coupled->request->profile, error)) {
        plan->certificate = certify(coupled, best, bound);
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
    if (best->lacks_bytes[worst] == 0) {
        char host[NUMBER_SIZE], all[NUMBER_SIZE];
        error_set_kind(error, ERROR_ANSWER, "%s: in the one that lacks least, the hosts have %s each, and one lacks %s for"
                       " what its devices leave there; what would help: more memory there, less on the host",
                       certain ? "no plan fits, all were tried" : "no plan that fits was found",
                       bytes_format(coupled->request->cluster->host_memory_bytes, all),
                       bytes_format(best->host_lacks, host));
        return;
    }
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
                   coupled->request->cluster->devices[coupled->seats[coupled->seat_at[worst]]].name, coupled->stopped[0] ? "; the search ended early: " : "",
                   coupled->stopped);
    text_clear(&stages);
}

// What is known once all decisions were tried.
static uint64_t none_below(const struct coupled *coupled, const struct coupled_state *best)
{
    const uint64_t value = best->most_lacking == 0 ? best->value_ns : UINT64_MAX;
    const uint64_t below = coupled->request->below_ns;
    return below && below < value ? below : value;
}

static struct plan *run(struct coupled *coupled, struct coupled_state *best, struct error *error)
{
    uint64_t bound;
    bool proved = false;
    const bool is_brief = coupled->request->below_ns && coupled_is_small(coupled);
    if (!coupled_bound(coupled, &bound, error) || !coupled_start(coupled, best, error)
        || (!is_brief && !coupled_improve(coupled, best, coupled->budget / 2, error)))
        return NULL;
    if (best->most_lacking > 0 || best->value_ns > bound) {
        if (!coupled_prove(coupled, best, &proved, error))
            return NULL;
    }
    bound = proved ? none_below(coupled, best) : bound;
    if (coupled->request->least_ns)
        *coupled->request->least_ns = bound;
    if (best->most_lacking == 0)
        return make_plan(coupled, best, bound, error);
    explain(coupled, best, proved, error);
    return NULL;
}

struct plan *coupled_search(const struct search_request *request, struct error *error)
{
    struct coupled *coupled = coupled_create(request, error);
    struct coupled_state best = { 0 };
    struct plan *plan = coupled && coupled_state_create(&best, coupled, error) ? run(coupled, &best, error) : NULL;
    if (coupled && request->work)
        *request->work += coupled->work;
    coupled_state_clear(&best);
    coupled_free(coupled);
    return plan;
}
