#include "partitioner/objectives/bottleneck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"

const char *const bottleneck_names[] = { "pipedream", "max-load", "tps", NULL };
const char *const bottleneck_objectives[] = { "pipedream_ns", "max_load_ns", "tps_ns", NULL };

struct bottleneck_result *bottleneck_create(const struct bottleneck_request *request, size_t stage_count,
                                            struct error *error)
{
    struct bottleneck_result *result = calloc(1, sizeof *result);
    if (!result) {
        error_no_memory(error, "a plan");
        return NULL;
    }
    result->model = request->model;
    result->layer_count = request->profile->layer_count;
    result->stage_count = stage_count;
    result->by = BY_ENUMERATION;
    result->order = calloc(result->layer_count + 1, sizeof result->order[0]);
    result->stages = calloc(stage_count + 1, sizeof result->stages[0]);
    if (!result->order || !result->stages) {
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
    uint32_t at = 0;
    for (uint32_t s = 0; s < result->stage_count; s++) {
        result->stages[s].first = at;
        for (uint32_t i = 0; i < result->layer_count; i++)
            if (stage_of[i] == s)
                result->order[at++] = i;
        result->stages[s].end = at;
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

struct model {
    struct bottleneck_result *(*search)(const struct bottleneck_request *request, struct error *error);
    bool (*value)(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error);
};

static const struct model models[BOTTLENECK_MODELS] = {
    [BOTTLENECK_PIPEDREAM] = { pipedream_search, pipedream_value },
    [BOTTLENECK_MAX_LOAD] = { max_load_search, max_load_value },
    [BOTTLENECK_TPS] = { tps_search, tps_value },
};

struct bottleneck_result *bottleneck_search(const struct bottleneck_request *request, struct error *error)
{
    return models[request->model].search(request, error);
}

bool bottleneck_value(const struct bottleneck_request *request, struct bottleneck_result *plan, struct error *error)
{
    return models[request->model].value(request, plan, error);
}

// --- how good is a plan that was given? --------------------------------------------

// Loads are sums in doubles, of which the last digits depend on the order of adding.
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

// --- an end before the end ---------------------------------------------------------

static bool is_interrupted(const struct bottleneck_request *request)
{
    return request->interrupted && *request->interrupted;
}

bool bottleneck_must_end(const struct bottleneck_request *request, double best_ns, double bound_ns)
{
    if (request->progress)
        request->progress(request->self, best_ns, bound_ns);
    return is_interrupted(request) || (request->until_ns > 0 && clock_now_ns() >= request->until_ns);
}

const char *bottleneck_why_ended(const struct bottleneck_request *request)
{
    return is_interrupted(request) ? "interrupted" : "the deadline has passed";
}

void bottleneck_end_without(const struct bottleneck_request *request, double bound_ns, struct error *error)
{
    error_set_kind(error, ERROR_ANSWER, "%s before any plan was found; %.9g s is a bound of all",
                   bottleneck_why_ended(request), bound_ns * 1e-9);
}

// --- the table -------------------------------------------------------------------

static const char *layer_name(const struct bottleneck_request *request, const struct bottleneck_result *result,
                              uint32_t at)
{
    return request->profile->layers[result->order[at]].name;
}

// As the plan runs it, and what that way is called; NULL: as it was measured.
static const struct profile_layer *layer_way(const struct bottleneck_request *request,
                                             const struct bottleneck_result *result, uint32_t at, const char **name)
{
    const struct profile_layer *layer = &request->profile->layers[result->order[at]];
    const uint32_t variant = result->variant ? result->variant[result->order[at]] : 0;
    const struct profile_layer *way = variant ? &layer->variants[variant - 1].layer : layer;
    *name = variant ? way->name : NULL;
    return way;
}

// "3 activation recomp, 2 as measured": of a stage whose layers are not all as measured.
static void print_ways(const struct bottleneck_request *request, const struct bottleneck_result *result, size_t s,
                       struct text *text)
{
    const struct bottleneck_stage *stage = &result->stages[s];
    const char *name, *other;
    const char *between = ": ";
    uint32_t measured = 0;
    for (uint32_t at = stage->first; at < stage->end; at++) {
        layer_way(request, result, at, &name);
        measured += name == NULL;
        uint32_t count = 0, earlier = 0;
        for (uint32_t i = stage->first; name && i < stage->end; i++) {
            layer_way(request, result, i, &other);
            const bool is_same = other && strcmp(name, other) == 0;
            count += is_same;
            earlier += is_same && i < at;
        }
        if (!name || earlier > 0)
            continue;
        text_add(text, "%s%u %s", between, count, name);
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
    for (uint32_t at = stage->first; at < stage->end; at++) {
        const struct profile_layer *way = layer_way(request, result, at, &name);
        work += way->forward_ns + way->backward_ns;
    }
    char time[NUMBER_SIZE], load[NUMBER_SIZE];
    text_add(text, "%5zu  %6u  %8u  %10s  %10s", s, stage->end - stage->first, stage->replicas, time_format(work, time),
             time_format((uint64_t)(stage->load_ns + 0.5), load));
    if (stage->end > stage->first)
        text_add(text, "  %s to %s", layer_name(request, result, stage->first),
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
    text_add(text, "%s by model %s, ", request->profile->model, bottleneck_names[result->model]);
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
