#include "partitioner/explain/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/cost/variant.h"
#include "partitioner/cost/within.h"
#include "partitioner/evaluate/evaluate.h"
#include "profiler/expert_routing.h"
#include "schedules/generators/generate.h"

const char *const binding_names[] = { "stage", "largest layer", "memory", "link", NULL };

// A constraint with less gain than this does not bind.
#define LEAST_GAIN 0.01

// --- where the time goes -----------------------------------------------------------------

// The fastest of the devices that the plan uses. (A seat is a device of a stage.)
static uint64_t fastest_speed(const struct plan *plan)
{
    uint64_t speed = 1;
    for (size_t s = 0; s < plan->stage_count; s++)
        for (size_t i = 0; i < plan_stage_seats(&plan->stages[s]); i++)
            speed = max_u64(speed, plan->cluster->devices[plan->stages[s].devices[i]].speed_permille);
    return speed;
}

// The time of one layer for one micro-batch at this speed, without recomputation.
static uint64_t layer_ns(const struct profile_layer *layer, uint64_t speed, bool forward_only)
{
    const uint64_t split = add_clamped(layer->backward_input_ns, layer->backward_weight_ns);
    const uint64_t backward = layer->backward_ns < split ? layer->backward_ns : split;
    return stage_scaled_ns(layer->forward_ns, speed) + (forward_only ? 0 : stage_scaled_ns(backward, speed));
}

// Updates `largest` if one of the stage's layers is larger. The layers are those of the stage's variant.
static bool find_layer_of(const struct plan *plan, const struct profile *profile, uint32_t s, uint32_t copies,
                          bool forward_only, struct largest_layer *largest, struct error *error)
{
    const uint64_t speed = fastest_speed(plan);
    struct profile *view = variant_of(profile, plan->stages[s].variant, error);
    for (uint32_t l = plan->stages[s].first; view && l < plan->stages[s].end; l++) {
        const uint64_t each = layer_ns(&view->layers[l], speed, forward_only);
        const uint64_t ns = multiply_clamped(each, plan->micro_batches) / copies;
        if (l > 0 && ns <= largest->ns)
            continue;
        largest->ns = ns;
        largest->stage = s;
        snprintf(largest->name, sizeof largest->name, "%s", view->layers[l].name);
    }
    const bool good = view != NULL;
    variant_free(view);
    return good;
}

// What the busiest expert alone has.
static void find_busiest(const struct explain_request *request, struct uneven_experts *experts)
{
    const struct plan_stage *stage = &request->plan->stages[experts->stage];
    const struct profile_routing *routing = request->profile->routing;
    const struct layer_routing *layer = routing_find(routing, experts->name);
    if (experts->slowest_milli == 0 || !layer)
        return;
    experts->variant = stage->variant;
    experts->number = (uint32_t)(layer - routing->layers);
    experts->count = layer->experts;
    for (uint32_t e = 0; e < layer->experts; e++) {
        const uint64_t milli = multiply_clamped(routing_mean_milli(routing, layer, e), plan_stage_group(stage))
                             / layer->pairs;
        if (milli <= experts->busiest_milli)
            continue;
        experts->busiest_milli = milli;
        experts->busiest = e;
    }
}

static void find_experts(const struct explain_request *request, struct uneven_experts *experts)
{
    const struct plan *plan = request->plan;
    for (uint32_t s = 0; s < plan->stage_count; s++)
        for (uint32_t l = plan->stages[s].first; plan->stages[s].variant && l < plan->stages[s].end; l++) {
            const struct profile_layer *layer = &request->profile->layers[plan->order ? plan->order[l] : l];
            for (size_t v = 0; v < layer->variant_count; v++) {
                const struct profile_variant *variant = &layer->variants[v];
                if (strcmp(variant->layer.name, plan->stages[s].variant) != 0
                    || variant->slowest_milli <= experts->slowest_milli)
                    continue;
                *experts = (struct uneven_experts){ .stage = s, .slowest_milli = variant->slowest_milli,
                                                    .dropped_ppm = variant->dropped_ppm };
                snprintf(experts->name, sizeof experts->name, "%s", layer->name);
            }
        }
    find_busiest(request, experts);
}

static bool find_layer(const struct explain_request *request, struct explanation *explanation, struct error *error)
{
    const struct plan *plan = request->plan;
    struct profile *made;
    const struct profile *profile = plan_ordered(plan, request->profile, &made, error);
    struct generator generator;
    bool good = profile && plan_generator(plan, &generator, error);
    for (uint32_t s = 0; good && s < plan->stage_count; s++)
        good = find_layer_of(plan, profile, s, placement_copies(explanation->balance.placement, s),
                             generator.is_inference, &explanation->layer, error);
    explanation->layer.share = (double)explanation->layer.ns / (double)plan->iteration_ns;
    profile_free(made);
    return good;
}

// The neighbours of the busiest rank's stages.
static bool look_around(const struct explain_request *request, struct explanation *explanation, struct error *error)
{
    const struct balance *balance = &explanation->balance;
    const struct placement *placement = balance->placement;
    const uint32_t first = placement->stage_at[balance->busiest], end = placement->stage_at[balance->busiest + 1];
    explanation->neighbours = calloc((end - first) * MOST_NEIGHBOURS + 1, sizeof explanation->neighbours[0]);
    bool good = explanation->neighbours || error_no_memory(error, "an explanation");
    for (uint32_t i = first; good && i < end; i++) {
        size_t count;
        good = neighbours_of_stage(request->plan, request->profile, placement->held[i],
                                   explanation->neighbours + explanation->neighbour_count, &count, error);
        explanation->neighbour_count += count;
    }
    return good;
}

// --- what binds ----------------------------------------------------------------------------

// How much less time an iteration would take, at most, if a layer could be divided evenly among all ranks. This is
// asked of the layer that is the busiest rank's work. A rank that also has other work can hand that on.
static double gain_of_dividing(const struct explanation *explanation)
{
    const struct balance *balance = &explanation->balance;
    const uint64_t ns = explanation->layer.ns, mean_ns = balance_mean_busy_ns(balance);
    if ((double)ns < 0.9 * (double)balance->of[balance->busiest].busy_ns || ns <= mean_ns)
        return 0;
    return (double)(ns - mean_ns) / (double)explanation->plan->iteration_ns;
}

static bool name_binding(struct explanation *explanation, struct error *error)
{
    const struct balance *balance = &explanation->balance;
    const struct path_link *slowest = explanation->path.slowest;
    struct text name = { 0 };
    if (explanation->binding == BINDING_MEMORY) {
        text_add(&name, "memory, tightest on ");
        balance_name_rank(balance, balance->tightest, &name);
    } else if (explanation->binding == BINDING_LINK && slowest) {
        text_add(&name, "the link from rank %u to %u", slowest->from, slowest->to);
    } else if (explanation->binding == BINDING_LINK) {
        text_add(&name, "the links");
    } else if (explanation->binding == BINDING_LAYER) {
        text_add(&name, "layer %s", explanation->layer.name);
    } else {
        text_add(&name, "the work of ");
        balance_name_rank(balance, balance->busiest, &name);
    }
    const bool good = text_ok(&name, "an explanation", error);
    snprintf(explanation->binding_name, sizeof explanation->binding_name, "%s", good ? name.data : "");
    text_clear(&name);
    return good;
}

// The constraint with the largest gain binds. It leads by what it gains more than the next.
static bool find_binding(struct explanation *explanation, struct error *error)
{
    const double gains[] = {
        [BINDING_STAGE] = LEAST_GAIN,
        [BINDING_LAYER] = gain_of_dividing(explanation),
        [BINDING_MEMORY] = explain_gain(explanation, WHAT_IF_NO_MEMORY_LIMIT),
        [BINDING_LINK] = explain_gain(explanation, WHAT_IF_NO_LINK_COST),
    };
    unsigned most = BINDING_STAGE;
    double next = 0;
    for (unsigned i = BINDING_LAYER; i <= BINDING_LINK; i++)
        if (gains[i] > gains[most])
            most = i;
    for (unsigned i = BINDING_LAYER; i <= BINDING_LINK; i++)
        if (i != most && gains[i] > next)
            next = gains[i];
    explanation->binding = (enum binding)most;
    explanation->lead = gains[most] - next;
    if (most == BINDING_STAGE) {
        const struct balance *balance = &explanation->balance;
        const uint64_t behind = balance_next_busy_ns(balance), busy = balance->of[balance->busiest].busy_ns;
        explanation->lead = behind > 0 ? (double)(busy - behind) / (double)behind : 0;
    }
    return name_binding(explanation, error);
}

// --- the whole -----------------------------------------------------------------------------

static bool plan_unchanged(const struct explain_request *request, struct explanation *explanation, struct plan **best,
                           struct error *error)
{
    struct question question;
    struct what_if unchanged = { .kind = WHAT_IF_NOTHING };
    struct sweep_row *row = &unchanged.row;
    if (!question_of(request->plan, request->profile, &question, error))
        return false;
    question.request.limits.budget = explanation->budget;
    question.request.limits.interrupted = request->interrupted;
    const bool good = what_if_plan(&question.request, &unchanged, error);
    question_clear(&question);
    if (!good)
        return false;
    explanation->is_beaten =
        row->found.outcome == SWEEP_PLANNED && row->found.iteration_ns < request->plan->iteration_ns;
    *best = explanation->is_beaten ? row->plan : plan_copy(request->plan, error);
    if (!explanation->is_beaten) {
        const struct balance *balance = &explanation->balance;
        const struct sweep_row peak = { .found.peak_bytes = balance->of[balance->tightest].peak_bytes,
                                        .found.rank = balance->tightest };
        plan_free(row->plan);
        row->found.outcome = SWEEP_NOT_TRIED;
        what_if_keep(row, request->plan, &peak);
    }
    row->plan = NULL;
    explanation->unchanged = *row;
    const struct certificate *certificate = &request->plan->certificate;
    explanation->bound_ns = row->found.lower_bound_ns;
    if (!certificate->is_claimed)
        explanation->bound_ns = max_u64(explanation->bound_ns, certificate->lower_bound_ns);
    return *best != NULL;
}

static bool find_within(const struct explain_request *request, struct explanation *explanation, struct error *error)
{
    const struct plan_path *path = &explanation->path;
    explanation->within_ns = calloc(path->stage_count + 1, sizeof explanation->within_ns[0]);
    for (uint32_t s = 0; explanation->within_ns && s < path->stage_count; s++)
        explanation->within_ns[s] = path->stages[s].passes * within_ns(request->plan, request->profile, s);
    return explanation->within_ns || error_no_memory(error, "an explanation");
}

static bool fill(const struct explain_request *request, struct explanation *explanation, struct error *error)
{
    struct plan *best = NULL;
    find_experts(request, &explanation->experts);
    const bool good = balance_read(request->plan, &explanation->balance, error)
                   && plan_path_read(request->plan, &explanation->path, error)
                   && find_within(request, explanation, error)
                   && find_layer(request, explanation, error) && look_around(request, explanation, error)
                   && plan_unchanged(request, explanation, &best, error)
                   && explain_changes(request, best, explanation, error);
    plan_free(best);
    if (!good)
        return false;
    if (request->interrupted && *request->interrupted)
        snprintf(explanation->stopped, sizeof explanation->stopped, "interrupted");
    return find_binding(explanation, error);
}

struct explanation *explain_plan(const struct explain_request *request, struct error *error)
{
    if (strcmp(request->plan->certificate.objective, "iteration_ns") != 0) {
        error_set(error,
                  "the plan is one by another objective, %s; explanations are of the simulated iteration: price it so"
                  " first, by weir price",
                  request->plan->certificate.objective);
        return NULL;
    }
    if (!plan_evaluate(request->plan, request->profile, error))
        return NULL;
    struct explanation *explanation = calloc(1, sizeof *explanation);
    if (!explanation)
        return error_null(error_no_memory(error, "an explanation"));
    explanation->plan = request->plan;
    explanation->budget = request->budget ? request->budget : EXPLAIN_DEFAULT_BUDGET;
    if (fill(request, explanation, error))
        return explanation;
    explanation_free(explanation);
    return NULL;
}

void explanation_free(struct explanation *explanation)
{
    if (!explanation)
        return;
    balance_clear(&explanation->balance);
    plan_path_clear(&explanation->path);
    free(explanation->within_ns);
    free(explanation->neighbours);
    free(explanation->changes);
    free(explanation);
}
