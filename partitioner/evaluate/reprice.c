#include "partitioner/evaluate/reprice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/predict.h"
#include "partitioner/search/search_request.h"

// --- pricing --------------------------------------------------------------------------

static void claim_nothing(struct plan *plan, const char *why)
{
    plan->certificate = (struct certificate){ .objective = "iteration_ns", .value_ns = plan->iteration_ns,
                                              .by = BY_ENUMERATION, .gap = plan->iteration_ns > 0 };
    plan->certificate.stop = STOP_OTHER;
    snprintf(plan->certificate.stopped, sizeof plan->certificate.stopped, "%s", why);
}

bool plan_price(struct plan *plan, const struct profile *profile, struct error *error)
{
    if (!plan_predict(plan, profile, error))
        return false;
    claim_nothing(plan, "nothing was searched");
    return true;
}

// The profile's layer at each position of the plan, found by name. `seen` has room for all layers, and is all false.
static bool fill_order(const struct plan *plan, const struct profile *profile, uint32_t *order, bool *seen,
                       struct error *error)
{
    uint32_t position = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        for (uint32_t i = 0; i < stage->end - stage->first; i++, position++) {
            const uint32_t layer = profile_find_layer(profile, stage->layers[i]);
            if (layer == profile->layer_count)
                return error_set(error, "the profile has no layer \"%.60s\", which the plan has on stage %zu",
                                 stage->layers[i], s);
            if (seen[layer])
                return error_set(error, "the plan has layer \"%.60s\" twice", stage->layers[i]);
            seen[layer] = true;
            order[position] = layer;
        }
    }
    for (uint32_t layer = 0; layer < profile->layer_count; layer++)
        if (!seen[layer])
            return error_set(error, "layer \"%.60s\" of the profile is on no stage of the plan",
                             profile->layers[layer].name);
    return true;
}

// Takes the plan's order. Returns the profile in it, as plan_set_order() does.
static const struct profile *give_order(struct plan *to, const struct plan *from, const struct profile *profile,
                                        struct profile **made, struct error *error)
{
    uint32_t *order = calloc(profile->layer_count + 1, sizeof order[0]);
    bool *seen = calloc(profile->layer_count + 1, sizeof seen[0]);
    const bool good = order && seen ? fill_order(from, profile, order, seen, error) : error_no_memory(error, "a plan");
    const struct profile *ordered = good ? plan_set_order(to, profile, order, made, error) : NULL;
    free(seen);
    free(order);
    return ordered;
}

static bool copy_stage(struct plan *to, size_t s, const struct plan *from, const struct profile *profile,
                       struct error *error)
{
    const struct plan_stage *stage = &from->stages[s];
    for (size_t i = 0; i < stage->device_count * plan_stage_group(stage); i++)
        if (stage->devices[i] >= to->cluster->device_count)
            return error_set(error, "its stage %zu is on device %u, but the cluster has %zu devices",
                                  s, stage->devices[i], to->cluster->device_count);
    return plan_set_stage(to, s, profile, (struct segment){ stage->first, stage->end }, stage->devices[0],
                          stage->recompute, stage->recompute_count, error)
        && plan_set_variant(to, s, stage->variant, stage->devices, stage->device_count, plan_stage_group(stage), error);
}

static bool copy_decision(struct plan *to, const struct plan *from, const struct search_request *request,
                          struct error *error)
{
    const struct search_freedom *free = &request->free;
    if (from->ranks != to->ranks && !free->fewer && !free->replicas && !free->variants)
        return error_set(error, "the plan is for %u ranks, not %u", from->ranks, to->ranks);
    to->ranks = from->ranks;
    if (!to->chunks)
        to->chunks = from->chunks;
    struct profile *made = NULL;
    const struct profile *ordered = give_order(to, from, request->profile, &made, error);
    bool good = ordered != NULL;
    for (size_t s = 0; good && s < from->stage_count; s++)
        good = copy_stage(to, s, from, ordered, error);
    profile_free(made);
    return good;
}

bool plan_take_pins(struct plan *plan, const struct search_request *request, struct error *error)
{
    for (size_t i = 0; i < request->pinned.count; i++) {
        const struct search_pin *pin = &request->pinned.at[i];
        uint32_t position = plan->order ? 0 : pin->layer;  // its position in the plan's own order
        while (plan->order && plan->order[position] != pin->layer)
            position++;
        size_t s = 0;
        while (position >= plan->stages[s].end)
            s++;
        if (s != pin->stage)
            return error_set_kind(error, ERROR_ANSWER, "layer \"%.60s\" is on stage %zu, but it is pinned to stage %u",
                                  request->profile->layers[pin->layer].name, s, pin->stage);
        if (!plan_pin_layer(plan, s, position, error))
            return false;
    }
    return true;
}

struct plan *plan_reprice(const struct plan *plan, const struct search_request *request, struct error *error)
{
    if (!search_check(request, error))
        return NULL;
    struct plan *repriced = search_begin_plan(request, plan->stage_count, error);
    if (repriced && copy_decision(repriced, plan, request, error) && plan_price(repriced, request->profile, error)
        && plan_take_pins(repriced, request, error))
        return repriced;
    plan_free(repriced);
    return NULL;
}

static bool same_stage(const struct plan_stage *a, const struct plan_stage *b)
{
    if (a->first != b->first || a->end != b->end || a->device_count != b->device_count
        || a->recompute_count != b->recompute_count || plan_stage_group(a) != plan_stage_group(b)
        || !a->variant != !b->variant || (a->variant && strcmp(a->variant, b->variant) != 0)
        || memcmp(a->devices, b->devices, a->device_count * plan_stage_group(a) * sizeof a->devices[0]) != 0)
        return false;
    for (uint32_t i = 0; i < a->end - a->first; i++)
        if (strcmp(a->layers[i], b->layers[i]) != 0)
            return false;
    for (size_t i = 0; i < a->recompute_count; i++)
        if (a->recompute[i].first != b->recompute[i].first || a->recompute[i].end != b->recompute[i].end)
            return false;
    return true;
}

static bool same_order(const struct schedule *a, const struct schedule *b)
{
    bool same = !a == !b && (!a || (a->ranks == b->ranks && a->micro_batches == b->micro_batches));
    for (uint32_t r = 0; same && a && r < a->ranks; r++)
        same = a->lists[r].count == b->lists[r].count
            && memcmp(a->lists[r].at, b->lists[r].at, a->lists[r].count * sizeof a->lists[r].at[0]) == 0;
    return same;
}

bool plan_same_decision(const struct plan *a, const struct plan *b)
{
    bool same = a->stage_count == b->stage_count && a->ranks == b->ranks && a->chunks == b->chunks
             && strcmp(a->schedule, b->schedule) == 0 && same_order(a->given, b->given);
    for (size_t s = 0; same && s < a->stage_count; s++)
        same = same_stage(&a->stages[s], &b->stages[s]);
    return same;
}

// --- does it fit? ---------------------------------------------------------------------

static void find_host_excess(const struct plan *plan, struct plan_excess *excess)
{
    const struct cluster *cluster = plan->cluster;
    for (size_t machine = 0; machine <= storage_machine(cluster, cluster->device_count - 1); machine++) {
        const uint64_t needs = plan_host_bytes(plan, machine), has = cluster->host_memory_bytes;
        if (needs > has && needs - has > excess->lacks_bytes)
            *excess = (struct plan_excess){ .is_host = true, .machine = machine, .needs_bytes = needs,
                                            .has_bytes = has, .lacks_bytes = needs - has };
    }
}

bool plan_find_excess(const struct plan *plan, const struct cluster *cluster, struct plan_excess *excess,
                      struct error *error)
{
    *excess = (struct plan_excess){ 0 };
    struct placement *placement = plan_placement(plan, error);
    for (uint32_t r = 0; placement && r < placement->ranks; r++) {
        const uint32_t first = placement->stage_at[r], stages = placement->stage_at[r + 1] - first;
        if (stages == 0)
            continue;
        const uint64_t needs = plan_rank_bytes(plan, placement, r);
        const uint32_t device = placement->devices[r];
        const uint64_t has = device < cluster->device_count ? cluster->devices[device].memory_bytes : needs;
        const uint64_t lacks = needs > has ? needs - has : 0;
        if (lacks > excess->lacks_bytes || excess->stages == 0)
            *excess = (struct plan_excess){ .rank = r, .stage = placement->held[first], .stages = stages,
                                            .needs_bytes = needs, .has_bytes = has, .lacks_bytes = lacks };
    }
    if (placement)
        find_host_excess(plan, excess);
    placement_free(placement);
    return placement != NULL;
}

void plan_say_excess(const struct plan *plan, const struct plan_excess *excess, struct text *text)
{
    char needs[NUMBER_SIZE], has[NUMBER_SIZE], lacks[NUMBER_SIZE];
    if (excess->is_host) {
        text_add(text, "the stages of machine %zu leave %s with their host, which has %s: %s (%llu bytes) too little",
                 excess->machine, bytes_format(excess->needs_bytes, needs), bytes_format(excess->has_bytes, has),
                 bytes_format(excess->lacks_bytes, lacks), (unsigned long long)excess->lacks_bytes);
        return;
    }
    if (excess->stages == 1)
        text_add(text, "stage %u needs", excess->stage);
    else
        text_add(text, "rank %u needs for its %u stages", excess->rank, excess->stages);
    text_add(text, " %s, but device %u has %s: %s (%llu bytes) too little", bytes_format(excess->needs_bytes, needs),
             plan->stages[excess->stage].devices[0], bytes_format(excess->has_bytes, has),
             bytes_format(excess->lacks_bytes, lacks), (unsigned long long)excess->lacks_bytes);
}

// --- how good is it? ------------------------------------------------------------------

void plan_certify_by(struct plan *plan, const struct certificate *found, bool fits)
{
    const uint64_t bound = found->lower_bound_ns;
    const bool is_known = fits && bound > 0 && plan->iteration_ns >= bound;
    claim_nothing(plan, fits ? "no bound is known for a plan of this kind" : "the plan does not fit");
    if (!is_known)
        return;
    plan->certificate.by = found->by;
    certificate_bound(&plan->certificate, bound, found->stop, found->stopped);
}
