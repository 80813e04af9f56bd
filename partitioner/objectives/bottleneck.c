#include "partitioner/objectives/bottleneck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/number.h"
#include "common/shown.h"
#include "partitioner/objectives/objective.h"

const char *const bottleneck_objectives[] = { "pipedream_ns", "max_load_ns", "tps_ns", NULL };

struct bottleneck_result *bottleneck_create(const struct bottleneck_request *request, size_t stage_count,
                                            struct error *error)
{
    struct bottleneck_result *result = calloc(1, sizeof *result);
    if (!result)
        return error_null(error_no_memory(error, "a plan"));
    result->model = request->model;
    result->layer_count = request->profile->layer_count;
    result->stage_count = stage_count;
    result->by = BY_ENUMERATION;
    result->order = calloc(result->layer_count + 1, sizeof result->order[0]);
    result->variant = calloc(result->layer_count + 1, sizeof result->variant[0]);
    result->stages = calloc(stage_count + 1, sizeof result->stages[0]);
    if (!result->order || !result->variant || !result->stages) {
        error_no_memory(error, "a plan");
        bottleneck_free(result);
        return NULL;
    }
    for (uint32_t i = 0; i < result->layer_count; i++)
        result->order[i] = i;
    for (uint32_t s = 0; s < stage_count; s++)
        result->stages[s] = (struct bottleneck_stage){ .replicas = 1, .group = 1, .part = s, .servers = 1 };
    return result;
}

void bottleneck_place(struct bottleneck_result *result, const uint32_t *stage_of)
{
    uint32_t position = 0;
    for (uint32_t s = 0; s < result->stage_count; s++) {
        result->stages[s].first = position;
        for (uint32_t i = 0; i < result->layer_count; i++)
            if (stage_of[i] == s)
                result->order[position++] = i;
        result->stages[s].end = position;
    }
}

void bottleneck_free(struct bottleneck_result *result)
{
    if (!result)
        return;
    free(result->order);
    free(result->variant);
    free(result->stages);
    free(result);
}

// --- the models ------------------------------------------------------------------

static const struct objective *const models[BOTTLENECK_MODELS] = {
    [BOTTLENECK_PIPEDREAM] = &pipedream_objective,
    [BOTTLENECK_MAX_LOAD] = &max_load_objective,
    [BOTTLENECK_TPS] = &tps_objective,
};

// A model's view of a graph, and its prices.
struct pricing {
    const struct objective *objective;
    struct graph_view view;
    void *prices;
};

static void pricing_close(struct pricing *pricing)
{
    if (pricing->prices && pricing->objective->clear)
        pricing->objective->clear(pricing->prices);
    graph_view_clear(&pricing->view);
}

// Over all downsets, over those of the profile's own order, or over those of a given plan's.
static bool pricing_open(struct pricing *pricing, const struct bottleneck_request *request, bool of_order,
                         const struct bottleneck_result *given, struct error *error)
{
    const struct objective *objective = models[request->model];
    uint32_t *node_of = NULL;
    *pricing = (struct pricing){ .objective = objective };
    const bool has_view =
        (!objective->nodes || objective->nodes(request, given != NULL, &node_of, error))
        && graph_view_create(&pricing->view, request, node_of, of_order, given ? given->order : NULL, error);
    free(node_of);
    if (!has_view)
        return false;
    pricing->prices = arrays_add(&pricing->view.arrays, 1, objective->bytes);
    if (pricing->prices && objective->fill(pricing->prices, &pricing->view, given, error))
        return true;
    pricing_close(pricing);
    return error_no_memory(error, "the prices of stages");
}

// --- searching -------------------------------------------------------------------

// What is known after a search over the profile's own order, and then over all downsets.
struct knowledge {
    const struct bottleneck_request *request;
    struct bottleneck_result *result;  // the best plan, or NULL
    double value;                      // as the search computes it
    double lower_bound;
    size_t downset_count;              // 0: there are too many
    bool is_whole;                     // these downsets are all there are
    bool is_exhausted;                 // over all downsets
    bool is_stopped, is_ended;         // before the end; by the user or the clock
    const char *doubt;
    struct error refusal;              // why there is no plan
};

static bool is_interrupted(const struct bottleneck_request *request)
{
    return request->interrupted && *request->interrupted;
}

static const char *why_ended(const struct bottleneck_request *request)
{
    return is_interrupted(request) ? "interrupted" : "the deadline has passed";
}

// Reports how far the search is. Returns whether the user or the clock ends it. A bound for one order alone is not a
// bound for all plans.
static bool must_end(void *self, double value, double lower_bound)
{
    const struct knowledge *known = self;
    const struct bottleneck_request *request = known->request;
    if (request->listener.hear)
        request->listener.hear(request->listener.self, value, known->is_whole ? lower_bound : known->lower_bound);
    return is_interrupted(request) || (request->until_ns > 0 && clock_now_ns() >= request->until_ns);
}

// A layer that a model leaves out stays with the layers that it feeds, or else with those that it reads.
static bool place_layers(struct graph_view *view, const struct found_stage *stages, struct bottleneck_result *result,
                         struct error *error)
{
    const struct profile *profile = view->request->profile;
    size_t edge_count;
    const struct edge *edges = arrays_keep(&view->arrays, downsets_edges(profile, NULL, &edge_count, error));
    uint32_t *stage_of = arrays_add(&view->arrays, profile->layer_count, sizeof stage_of[0]);
    if (view->arrays.failed)
        return error_no_memory(error, "the stages of a plan");
    for (uint32_t i = 0; i < profile->layer_count; i++)
        while (view->node_of[i] != DOWNSETS_LEFT_OUT && stage_of[i] + 1 < result->stage_count
               && !graph_view_holds(view, stages[stage_of[i]].downset, i))
            stage_of[i]++;
    for (size_t e = 0; e < edge_count; e++)
        if (view->node_of[edges[e].to] == DOWNSETS_LEFT_OUT && stage_of[edges[e].from] > stage_of[edges[e].to])
            stage_of[edges[e].to] = stage_of[edges[e].from];
    for (size_t s = 0; s < result->stage_count; s++)
        result->stages[s] = stages[s].stage;
    bottleneck_place(result, stage_of);
    return true;
}

static struct bottleneck_result *make_result(struct pricing *pricing, const struct minimax *found, struct error *error)
{
    const struct objective *objective = pricing->objective;
    struct graph_view *view = &pricing->view;
    struct found_stage *stages = arrays_add(&view->arrays, view->graph.node_count, sizeof stages[0]);
    if (!stages)
        return error_null(error_no_memory(error, "the stages of a plan"));
    struct bottleneck_result *result =
        bottleneck_create(view->request, objective->stages(pricing->prices, found, stages), error);
    if (result && place_layers(view, stages, result, error)
        && (!objective->choose || objective->choose(pricing->prices, stages, result, error))
        && bottleneck_value(view->request, result, error))
        return result;
    bottleneck_free(result);
    return NULL;
}

static bool learn(struct knowledge *known, struct pricing *pricing, struct error *error)
{
    const struct objective *objective = pricing->objective;
    const struct graph_view *view = &pricing->view;
    void *prices = pricing->prices;
    struct minimax found;
    struct minimax_problem problem = { .downsets = view->downsets,
                                       .must_end = must_end, .self = prices, .ended_self = known,
                                       .below = known->value, .budget = known->request->budget };
    objective->ask(prices, &problem);
    known->is_whole = view->is_whole;
    known->lower_bound = fmax(known->lower_bound, minimax_least(&problem));
    if (!minimax_search(&problem, &found, error))
        return false;
    bool good = true;
    if (found.stages) {
        bottleneck_free(known->result);
        known->result = make_result(pricing, &found, error);
        known->value = found.value;
        good = known->result != NULL;
    } else if (!known->result) {
        objective->refuse(prices, &known->refusal);
    }
    known->doubt = objective->doubt ? objective->doubt(prices) : NULL;
    known->is_stopped = !found.is_complete;
    known->is_ended |= known->is_stopped && must_end(known, known->value, known->lower_bound);
    if (view->is_whole) {
        known->downset_count = view->downsets->count;
        known->is_exhausted = found.is_complete && !known->doubt;
        known->lower_bound = known->doubt ? known->lower_bound : found.lower_bound;
    }
    minimax_clear(&found);
    return good;
}

// If there are too many downsets, or too many to be priced, only those of the order are searched.
static bool search_over(struct knowledge *known, bool of_order, struct error *error)
{
    struct pricing pricing;
    bool good = pricing_open(&pricing, known->request, of_order, NULL, error);
    if (good) {
        good = learn(known, &pricing, error);
        pricing_close(&pricing);
    }
    if (!good && !of_order && error->kind != ERROR_MACHINE) {
        *error = (struct error){ 0 };
        good = true;
    }
    return good;
}

static void certify(struct knowledge *known)
{
    struct bottleneck_result *result = known->result;
    result->downset_count = known->downset_count;
    result->proved = known->is_exhausted;
    result->lower_bound_ns = known->is_exhausted ? result->value_ns : fmin(known->lower_bound, result->value_ns);
    const char *why = known->is_ended           ? why_ended(known->request)
                    : known->doubt              ? known->doubt
                    : known->downset_count == 0 ? "too many ways to cut the graph; its own order was cut"
                    : !known->is_exhausted      ? "the budget was spent" : "";
    snprintf(result->stopped, sizeof result->stopped, "%s", why);
}

// Searches the profile's own order first: all other plans must be below what it gives.
struct bottleneck_result *bottleneck_search(const struct bottleneck_request *request, struct error *error)
{
    struct knowledge known = { .request = request, .value = INFINITY };
    const bool good = search_over(&known, true, error)
                   && (known.downset_count > 0 || known.is_ended || search_over(&known, false, error));
    if (good && known.result)
        certify(&known);
    else if (good && known.is_ended)
        error_set_kind(error, ERROR_ANSWER, "%s before any plan was found; %.9g s is a bound of all",
                       why_ended(request), known.lower_bound * 1e-9);
    else if (good && known.is_stopped)
        error_set_kind(error, ERROR_ANSWER, "the search was ended before any plan was found");
    else if (good)
        *error = known.refusal;
    error->is_late |= good && !known.result && known.is_ended && !is_interrupted(request);
    if (good)
        return known.result;
    bottleneck_free(known.result);
    return NULL;
}

// --- a given plan ----------------------------------------------------------------

// How many nodes the stages up to each one hold. In the plan's own order these are the numbers of its downsets.
static void count_ends(const struct graph_view *view, const struct bottleneck_result *plan, uint32_t *ends)
{
    ends[0] = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        ends[s + 1] = ends[s];
        for (uint32_t position = plan->stages[s].first; position < plan->stages[s].end; position++)
            ends[s + 1] += view->node_of[plan->order[position]] != DOWNSETS_LEFT_OUT;
    }
}

bool bottleneck_value(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error)
{
    struct pricing pricing;
    if (!graph_view_check(request->profile, plan, request->model != BOTTLENECK_PIPEDREAM, error)
        || !pricing_open(&pricing, request, true, plan, error))
        return false;
    uint32_t *ends = arrays_add(&pricing.view.arrays, plan->stage_count + 1, sizeof ends[0]);
    if (ends)
        count_ends(&pricing.view, plan, ends);
    const bool good = ends ? pricing.objective->value(pricing.prices, plan, ends, error)
                           : error_no_memory(error, "the price of a plan");
    plan->value_ns = plan->machines_used = 0;
    for (size_t s = 0; good && s < plan->stage_count; s++) {
        plan->value_ns = fmax(plan->value_ns, plan->stages[s].load_ns);
        plan->machines_used += plan->stages[s].replicas * plan->stages[s].group;
    }
    pricing_close(&pricing);
    return good;
}

// --- how good is a plan that was given? --------------------------------------------

// Loads are sums in doubles, whose last digits depend on the order of adding.
static bool is_below(double value, double other)
{
    return value < other - other * 1e-12;
}

void bottleneck_certify_by(struct bottleneck_result *plan, const struct bottleneck_result *best)
{
    const bool has_bound = best && !is_below(plan->value_ns, best->lower_bound_ns);
    plan->lower_bound_ns = has_bound ? fmin(best->lower_bound_ns, plan->value_ns) : 0;
    plan->proved = has_bound && best->proved && !is_below(best->value_ns, plan->value_ns);
    plan->by = best ? best->by : BY_ENUMERATION;
    const char *why = has_bound && plan->proved ? "" : has_bound ? best->stopped
                    : best ? "no bound is known for a plan of this kind" : "no plan was found to compare it with";
    snprintf(plan->stopped, sizeof plan->stopped, "%s", why);
}

// The value is rounded to the nearest ns, the bound down.
bool bottleneck_certificate(const struct bottleneck_result *result, struct certificate *certificate,
                            struct error *error)
{
    if (!(result->value_ns < (double)JSON_MAX))
        return error_set(error, "the largest load is more than 2^53 - 1 ns");
    const uint64_t value = (uint64_t)(result->value_ns + 0.5), bound = (uint64_t)floor(result->lower_bound_ns);
    *certificate = (struct certificate){ .value_ns = value,
                                         .lower_bound_ns = result->proved || bound > value ? value : bound,
                                         .proved = result->proved,
                                         .by = result->by };
    if (value > 0)
        certificate->gap = (double)(value - certificate->lower_bound_ns) / (double)value;
    snprintf(certificate->objective, sizeof certificate->objective, "%s", bottleneck_objectives[result->model]);
    if (!result->proved)
        snprintf(certificate->stopped, sizeof certificate->stopped, "%s", result->stopped);
    return true;
}

// --- the table -------------------------------------------------------------------

static const char *layer_name(const struct bottleneck_request *request, const struct bottleneck_result *result,
                              uint32_t position)
{
    return request->profile->layers[result->order[position]].name;
}

// The layer as the plan runs it, and the name of that way (NULL: as it was measured).
static const struct profile_layer *layer_way(const struct bottleneck_request *request,
                                             const struct bottleneck_result *result, uint32_t position,
                                             const char **name)
{
    const struct profile_layer *layer = &request->profile->layers[result->order[position]];
    const uint32_t variant = result->variant[result->order[position]];
    const struct profile_layer *way = variant ? &layer->variants[variant - 1].layer : layer;
    *name = variant ? way->name : NULL;
    return way;
}

// "3 activation recomp, 2 as measured": for a stage whose layers do not all run as measured.
static void print_ways(const struct bottleneck_request *request, const struct bottleneck_result *result, size_t s,
                       struct text *text)
{
    const struct bottleneck_stage *stage = &result->stages[s];
    const char *name, *other;
    const char *between = ": ";
    uint32_t measured = 0;
    for (uint32_t position = stage->first; position < stage->end; position++) {
        layer_way(request, result, position, &name);
        measured += name == NULL;
        uint32_t count = 0, earlier = 0;
        for (uint32_t i = stage->first; name && i < stage->end; i++) {
            layer_way(request, result, i, &other);
            const bool is_same = other && strcmp(name, other) == 0;
            count += is_same;
            earlier += is_same && i < position;
        }
        if (!name || earlier > 0)
            continue;
        shown_add(text, "%s%u %s", between, count, name);
        between = ", ";
    }
    if (measured > 0 && measured < stage->end - stage->first)
        text_add(text, ", %u as measured", measured);
}

static void print_stage(const struct bottleneck_request *request, const struct bottleneck_result *result, size_t s,
                        struct text *text)
{
    const struct bottleneck_stage *stage = &result->stages[s];
    const char *name;
    uint64_t work = 0;
    for (uint32_t position = stage->first; position < stage->end; position++) {
        const struct profile_layer *way = layer_way(request, result, position, &name);
        work += way->forward_ns + way->backward_ns;
    }
    char time[NUMBER_SIZE], load[NUMBER_SIZE];
    text_add(text, "%5zu  %6u  %8u  %10s  %10s", s, stage->end - stage->first, stage->replicas, time_format(work, time),
             time_format((uint64_t)(stage->load_ns + 0.5), load));
    if (stage->end > stage->first)
        shown_add(text, "  %s to %s", layer_name(request, result, stage->first),
                  layer_name(request, result, stage->end - 1));
    if (stage->on_cpu)
        text_add(text, ", on a CPU");
    else if (stage->group > 1)
        text_add(text, ", on %u devices each", stage->group);
    if (!stage->on_cpu)
        print_ways(request, result, s, text);
    text_add(text, "\n");
}

static void print_stages(const struct bottleneck_request *request, const struct bottleneck_result *result,
                         struct text *text)
{
    shown_add(text, "%s by model %s, ", request->profile->model, bottleneck_names[result->model]);
    text_add_count(text, result->machines_used, "machine", "machines");
    text_add(text, "\n\nstage  layers  replicas     compute        load\n");
    for (size_t s = 0; s < result->stage_count; s++)
        print_stage(request, result, s, text);
    text_add(text, "\nlargest load %.15g s", result->value_ns * 1e-9);
}

static void print_proof(const struct bottleneck_result *result, struct text *text)
{
    if (result->proved && result->downset_count > 0)
        text_add(text, "proved least, of all %zu ways to cut the graph\n", result->downset_count);
    else if (result->proved)
        text_add(text, "proved least\n");
    else
        text_add(text, "at most %.3g %% from the least, %.15g s is a bound%s%s\n",
                 100 * (result->value_ns - result->lower_bound_ns) / result->value_ns, result->lower_bound_ns * 1e-9,
                 result->stopped[0] ? "; " : "", result->stopped);
}

void bottleneck_print(const struct bottleneck_request *request, const struct bottleneck_result *result,
                      struct text *text)
{
    print_stages(request, result, text);
    text_add(text, ": ");
    print_proof(result, text);
}

void bottleneck_print_given(const struct bottleneck_request *request, const struct bottleneck_result *plan,
                            const struct bottleneck_result *best, struct text *text)
{
    print_stages(request, plan, text);
    if (!best) {
        text_add(text, "; no plan was found to compare it with\n");
        return;
    }
    text_add(text, ", %.3g %% %s the plan found, %.15g s, ", 100 * fabs(plan->value_ns / best->value_ns - 1),
             plan->value_ns < best->value_ns ? "below" : "above", best->value_ns * 1e-9);
    print_proof(best, text);
}
