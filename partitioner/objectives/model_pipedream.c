// The search of PipeDream's model (pipedream_view.h): over all downsets by cover.h, the
// stages of a second level of links by pipedream_server.c. Its arithmetic is that of
// doubles, whose sums of two products are good to fifteen digits; the value of the plan
// that it finds is then that of pipedream_value(), whose numbers are whole.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "partitioner/objectives/pipedream_view.h"

// What parts take on a server may take so many steps, about ten seconds: a stage for each
// pair of downsets, and each split of a server's machines.
#define MOST_SERVER_STEPS 1e10

// Units of work: some ten seconds.
#define USUAL_BUDGET 400000000

struct planner {
    struct pipedream_view view;
    struct pipedream_server *server;  // NULL with one level
};

// Compute and all-reduce grow with a stage. Over r machines their sum rises to a maximum
// before r = 2 and then falls, so that of all replicas one machine or all have the least.
static double price(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads)
{
    const struct planner *planner = self;
    const struct pipedream_view *view = &planner->view;
    const size_t level = view->level_count - 1;
    const uint32_t machines = view->request->is_straight ? 1 : view->levels[level].machines;
    const double work = (double)(view->work[outer] - view->work[inner]);
    const double alone = planner->server ? work / view->levels[0].machines : work;
    const double together = alone * view->rates[level].share[machines]
                          + (double)(view->parameters[outer] - view->parameters[inner])
                                * view->rates[level].first_reduce[machines];
    const double floor = alone < together ? alone : together;
    if (!(floor < below))
        return floor;
    const double time = planner->server ? pipedream_server_load(planner->server, inner, outer, below) : work;
    pipedream_loads(view, level, inner == 0, inner, outer, most, time, loads);
    return floor;
}

static double heed_memory(void *self, uint32_t inner, uint32_t outer, uint32_t replicas, uint32_t later, double load,
                          double below)
{
    (void)below;
    const struct planner *planner = self;
    return pipedream_fits(&planner->view, inner, outer, replicas, later) ? load : INFINITY;
}

// What is known of one order alone bounds nothing.
static bool must_end(void *self, double value, double lower_bound)
{
    const struct planner *planner = self;
    return bottleneck_must_end(planner->view.request, value, planner->view.is_whole ? lower_bound : 0);
}

static bool cover(struct planner *planner, double below, struct cover *cover, struct error *error)
{
    const struct pipedream_view *view = &planner->view;
    const uint32_t machines = view->levels[view->level_count - 1].machines;
    const struct cover_problem problem = {
        .downsets = view->downsets,
        .work = view->work,
        .share = planner->server ? view->levels[0].machines : 1,
        .machines = machines,
        .most_replicas = view->request->is_straight ? 1 : machines,
        .may_use_fewer = view->request->may_use_fewer,
        .loads = price,
        .refine = view->request->heed_memory ? heed_memory : NULL,
        .self = planner,
        .below = below,
        .budget = view->request->budget ? view->request->budget : USUAL_BUDGET,
        .must_end = must_end,
    };
    return cover_search(&problem, cover, error);
}

// --- the answer ------------------------------------------------------------------

// The plan's stages as ends of downsets, in order: those of each part on its servers.
struct part_stage {
    uint32_t downset, replicas, part, servers;
};

static size_t list_stages(struct planner *planner, const struct cover *cover, struct part_stage *stages,
                          struct cover_stage *part)
{
    size_t count = 0;
    uint32_t inner = 0;
    for (uint32_t p = 0; p < cover->stage_count; p++) {
        const struct cover_stage whole = cover->stages[p];
        size_t parts = 1;
        if (planner->server)
            parts = pipedream_server_stages(planner->server, inner, whole.downset, cover->value + DBL_MIN, part);
        for (size_t i = 0; planner->server && i < parts; i++)
            stages[count++] =
                (struct part_stage){ part[i].downset, part[i].replicas * whole.replicas, p, whole.replicas };
        if (!planner->server)
            stages[count++] = (struct part_stage){ whole.downset, whole.replicas, p, 1 };
        inner = whole.downset;
    }
    return count;
}

// The stage of each layer. What PipeDream leaves out stays with the layers it feeds, or
// else with those it reads.
static bool place_layers(const struct planner *planner, const struct part_stage *stages, size_t count,
                         uint32_t *stage_of, struct error *error)
{
    const struct pipedream_view *view = &planner->view;
    const struct profile *profile = view->request->profile;
    size_t edge_count;
    struct edge *edges = downsets_edges(profile, &edge_count, error);
    if (!edges)
        return false;
    for (uint32_t i = 0; i < profile->layer_count; i++) {
        stage_of[i] = 0;
        while (view->node_of[i] != PIPEDREAM_LEFT_OUT && stage_of[i] + 1 < count
               && !downsets_holds(view->downsets, stages[stage_of[i]].downset, view->node_of[i]))
            stage_of[i]++;
    }
    for (size_t e = 0; e < edge_count; e++)
        if (view->node_of[edges[e].to] == PIPEDREAM_LEFT_OUT && stage_of[edges[e].from] > stage_of[edges[e].to])
            stage_of[edges[e].to] = stage_of[edges[e].from];
    free(edges);
    return true;
}

static struct bottleneck_result *make_result(const struct planner *planner, const struct part_stage *stages,
                                             size_t count, struct error *error)
{
    const struct bottleneck_request *request = planner->view.request;
    struct bottleneck_result *result = bottleneck_create(request, count, error);
    uint32_t *stage_of = calloc(request->profile->layer_count + 1, sizeof stage_of[0]);
    bool good = result && (stage_of || error_no_memory(error, "the stages of a plan"));
    good = good && place_layers(planner, stages, count, stage_of, error);
    for (size_t s = 0; good && s < count; s++) {
        result->stages[s].replicas = stages[s].replicas;
        result->stages[s].part = stages[s].part;
        result->stages[s].servers = stages[s].servers;
    }
    if (good)
        bottleneck_place(result, stage_of);
    free(stage_of);
    if (good && pipedream_value(request, result, error))
        return result;
    bottleneck_free(result);
    return NULL;
}

static struct bottleneck_result *make_plan(struct planner *planner, const struct cover *cover, struct error *error)
{
    const struct pipedream_view *view = &planner->view;
    const size_t machines = (size_t)view->levels[0].machines * view->levels[1].machines;
    struct part_stage *stages = calloc(machines, sizeof stages[0]);
    struct cover_stage *part = calloc(view->levels[0].machines, sizeof part[0]);
    struct bottleneck_result *result = NULL;
    if (stages && part)
        result = make_result(planner, stages, list_stages(planner, cover, stages, part), error);
    else
        error_no_memory(error, "the stages of a plan");
    free(stages);
    free(part);
    return result;
}

// --- the whole -------------------------------------------------------------------

// What is known after a search over one order, and then over all downsets.
struct knowledge {
    struct bottleneck_result *result;  // the best plan, or NULL
    double value;                      // as the search has it
    double lower_bound;
    size_t downset_count;              // 0: they are too many
    bool is_exhausted;                 // over all downsets
    bool is_stopped, is_ended;         // before the end; by the user or the clock
};

static bool learn(struct planner *planner, struct knowledge *known, struct error *error)
{
    struct cover found;
    if (!cover(planner, known->value, &found, error))
        return false;
    bool good = true;
    if (found.stages) {
        bottleneck_free(known->result);
        known->result = make_plan(planner, &found, error);
        known->value = found.value;
        good = known->result != NULL;
    }
    if (planner->view.is_whole) {
        known->downset_count = planner->view.downsets->count;
        known->is_exhausted = found.is_complete;
        known->lower_bound = found.lower_bound;
    }
    known->is_stopped = !found.is_complete;
    known->is_ended |= known->is_stopped && must_end(planner, known->value, known->lower_bound);
    cover_clear(&found);
    return good;
}

static double server_steps(const struct pipedream_view *view)
{
    const double downsets = (double)view->downsets->count, machines = view->levels[0].machines;
    return downsets * downsets * machines * machines / 4;
}

static bool search_over(const struct bottleneck_request *request, bool of_order, struct knowledge *known,
                        struct error *error)
{
    struct planner planner = { .server = NULL };
    if (!pipedream_view_create(&planner.view, request, of_order, error))
        return false;
    const struct pipedream_view *view = &planner.view;
    bool good = true;
    if (of_order)
        known->lower_bound =
            (double)view->work[view->downsets->count - 1] / view->levels[0].machines / view->levels[1].machines;
    const bool has_servers = view->level_count == 2;
    const bool is_small = view->downsets && (!has_servers || server_steps(view) < MOST_SERVER_STEPS);
    if (of_order && !is_small)
        good = error_set(error, "servers of %u machines are too large to be planned for %zu layers",
                         view->levels[0].machines, view->graph.node_count);
    if (good && is_small && has_servers)
        good = (planner.server = pipedream_server_create(view, error)) != NULL;
    if (good && is_small)
        good = learn(&planner, known, error);
    pipedream_server_free(planner.server);
    pipedream_view_clear(&planner.view);
    return good;
}

static void refuse(const struct bottleneck_request *request, const struct knowledge *known, struct error *error)
{
    const size_t machines = request->machines ? request->machines : request->cluster->device_count;
    const char *fewer = request->may_use_fewer ? "" : "; fewer were not asked for";
    if (known->is_ended)
        bottleneck_end_without(request, known->lower_bound, error);
    else if (known->is_stopped)
        error_set_kind(error, ERROR_ANSWER, "the search was ended before any plan was found");
    else if (request->heed_memory)
        error_set_kind(error, ERROR_ANSWER, "no stages on %zu machines pass PipeDream's memory check%s", machines,
                       fewer);
    else
        error_set_kind(error, ERROR_ANSWER, "the %zu layers cannot be put on all of %zu machines%s",
                       request->profile->layer_count, machines, fewer);
}

static void certify(const struct bottleneck_request *request, struct knowledge *known)
{
    struct bottleneck_result *result = known->result;
    result->downset_count = known->downset_count;
    result->proved = known->is_exhausted;
    result->lower_bound_ns = known->is_exhausted ? result->value_ns : known->lower_bound;
    if (known->is_ended)
        snprintf(result->stopped, sizeof result->stopped, "%s", bottleneck_why_ended(request));
    else if (known->downset_count == 0)
        snprintf(result->stopped, sizeof result->stopped, "too many ways to cut the graph: only its own order was cut");
    else if (!known->is_exhausted)
        snprintf(result->stopped, sizeof result->stopped, "the budget was spent");
}

// The profile's own order first: what it gives, all others must be below.
struct bottleneck_result *pipedream_search(const struct bottleneck_request *request, struct error *error)
{
    struct knowledge known = { .value = INFINITY };
    if (search_over(request, true, &known, error)
        && (known.downset_count > 0 || known.is_ended || search_over(request, false, &known, error))) {
        if (known.result)
            certify(request, &known);
        else
            refuse(request, &known, error);
        return known.result;
    }
    bottleneck_free(known.result);
    return NULL;
}
