#include <stdio.h>
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/coupled/coupled.h"
#include "partitioner/predict.h"
#include "partitioner/search/infeasible.h"
#include "partitioner/search/search_request.h"

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
    const uint32_t copies = placement_copies(placement, s);
    const char *variant = coupled->request->variants ? coupled->request->variants[s] : NULL;
    const bool good = plan_set_variant(plan, s, variant, devices, copies, count / copies, error);
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
        struct stage_table *table = best->is_whole ? &coupled->whole : &coupled->narrow;
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

// "stage 1, node7 to node9; stage 6, node20" of the stages of a rank.
static void add_stages(const struct coupled *coupled, const struct coupled_state *best, uint32_t rank,
                       struct text *text)
{
    const struct placement *placement = coupled->placement;
    const struct profile_layer *layers = coupled->request->profile->layers;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++) {
        const uint32_t s = placement->held[at], first = best->decision.cuts[s], end = best->decision.cuts[s + 1];
        text_add(text, "%sstage %u, %.30s", at > placement->stage_at[rank] ? "; " : "", s, layers[first].name);
        if (end - first > 1)
            text_add(text, " to %.30s", layers[end - 1].name);
    }
}

// What the hosts lack, where all devices have enough.
static bool explain_host(const struct coupled *coupled, const struct coupled_state *best, bool certain,
                         struct error *error)
{
    char host[NUMBER_SIZE], all[NUMBER_SIZE];
    error_set_kind(error, ERROR_ANSWER, "%s: in the one that lacks least, the hosts have %s each, and one lacks %s for"
                   " what its devices leave there; what would help: more memory there, less on the host%s%s",
                   certain ? "no plan fits, all were tried" : "no plan that fits was found",
                   bytes_format(coupled->request->cluster->host_memory_bytes, all),
                   bytes_format(best->host_lacks, host),
                   coupled->stopped[0] && !certain ? "; the search ended early: " : "", certain ? "" : coupled->stopped);
    return certain;
}

// What is lacking in the decision that lacks least. True if it is certain that none fits.
static bool explain(const struct coupled *coupled, const struct coupled_state *best, bool certain, struct error *error)
{
    const struct search_request *request = coupled->request;
    struct lone_layer layer;
    struct text stages = { 0 }, alone = { 0 };
    char lacks[NUMBER_SIZE], has[NUMBER_SIZE];
    uint32_t worst = 0;
    for (uint32_t r = 0; r < coupled->ranks; r++)
        if (best->lacks_bytes[r] > best->lacks_bytes[worst])
            worst = r;
    if (request->shortage)
        *request->shortage = (struct search_shortage){ true, worst, best->lacks_bytes[worst] };
    if (best->lacks_bytes[worst] == 0)
        return explain_host(coupled, best, certain, error);
    if (!lone_layer_find(request, &layer, error))
        return false;
    add_stages(coupled, best, worst, &stages);
    infeasible_add_layer(request, &layer, &alone);
    error_set_kind(error, ERROR_ANSWER,
                   "%s: in the one that lacks least, rank %u (%.150s) lacks %s of memory with recomputation, of the %s"
                   " of %.40s%s%s%s",
                   certain ? "no plan fits, all were tried"
                   : layer.lacks_bytes > 0 ? "no plan fits" : "no plan that fits was found",
                   worst, stages.data && !stages.failed ? stages.data : "",
                   bytes_format(best->lacks_bytes[worst], lacks), bytes_format(coupled->capacity[worst], has),
                   request->cluster->devices[coupled->seats[coupled->seat_at[worst]]].name,
                   alone.data && !alone.failed ? alone.data : "",
                   coupled->stopped[0] && !certain && layer.lacks_bytes == 0 ? "; the search ended early: " : "",
                   certain || layer.lacks_bytes > 0 ? "" : coupled->stopped);
    text_clear(&stages);
    text_clear(&alone);
    return certain || layer.lacks_bytes > 0;
}

// What is known once all decisions were tried.
static uint64_t none_below(const struct coupled *coupled, const struct coupled_state *best)
{
    const uint64_t value = best->most_lacking == 0 ? best->value_ns : UINT64_MAX;
    const uint64_t below = coupled->request->below_ns;
    return below && below < value ? below : value;
}

// Tries all decisions where that is quickly done; where something was in the way, such as
// a front too long to list, looks for good ones after all.
static bool prove_first(struct coupled *coupled, struct coupled_state *best, bool *proved, struct error *error)
{
    struct coupled_state begun = { 0 };
    bool good = coupled_state_create(&begun, coupled, error);
    if (good) {
        coupled_state_copy(&begun, best, coupled);
        good = coupled_prove(coupled, best, proved, error);
    }
    if (good && !*proved) {
        good = coupled_improve(coupled, &begun, coupled->budget / 2, error);
        if (good && coupled_is_better(&begun, best))
            coupled_state_copy(best, &begun, coupled);
    }
    coupled_state_clear(&begun);
    return good;
}

static struct plan *run(struct coupled *coupled, struct coupled_state *best, struct error *error)
{
    uint64_t bound;
    bool proved = false;
    const bool is_brief = coupled->request->below_ns && coupled_is_small(coupled);
    if (!coupled_bound(coupled, &bound, error) || !coupled_start(coupled, best, error))
        return NULL;
    if (is_brief ? !prove_first(coupled, best, &proved, error)
                 : !coupled_improve(coupled, best, coupled->budget / 2, error))
        return NULL;
    const bool is_enough = coupled->request->any && best->most_lacking == 0;
    if (!is_brief && !is_enough && (best->most_lacking > 0 || best->value_ns > bound)
        && !coupled_prove(coupled, best, &proved, error))
        return NULL;
    bound = proved ? none_below(coupled, best) : bound;
    if (coupled->request->least_ns)
        *coupled->request->least_ns = bound;
    if (best->most_lacking == 0)
        return make_plan(coupled, best, bound, error);
    // Where only quicker plans matter, others were left out, and one of them may fit.
    const uint64_t below = coupled->request->below_ns;
    if (explain(coupled, best, proved && (!below || below == UINT64_MAX), error) && coupled->request->least_ns)
        *coupled->request->least_ns = UINT64_MAX;
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
