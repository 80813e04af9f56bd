#include "partitioner/objectives/bottleneck_plan.h"

#include <stdlib.h>
#include <string.h>

#include "partitioner/cost/predict.h"
#include "partitioner/search/search_request.h"

// --- an answer as a plan ------------------------------------------------------------

bool bottleneck_is_plan(const struct bottleneck_result *result)
{
    for (size_t s = 0; s < result->stage_count; s++)
        if (result->stages[s].on_cpu || result->stages[s].group != 1)
            return false;
    for (size_t i = 0; i < result->layer_count; i++)
        if (result->variant[i])
            return false;
    return true;
}

static uint32_t count_machines(const struct bottleneck_request *request)
{
    return request->machines ? request->machines : (uint32_t)request->cluster->device_count;
}

// The device of replica i of a stage. The servers of a part follow those of the parts before it. On each server the
// replicas of one stage follow those of the stage before.
static uint32_t device_of(const struct bottleneck_result *result, size_t stage, uint32_t replica, uint32_t server)
{
    const struct bottleneck_stage *stages = result->stages, *here = &stages[stage];
    uint32_t first_server = 0, first_device = 0;
    for (size_t s = 0; s < stage; s++) {
        if (stages[s].part != here->part && (s == 0 || stages[s].part != stages[s - 1].part))
            first_server += stages[s].servers;
        if (stages[s].part == here->part)
            first_device += stages[s].replicas / stages[s].servers;
    }
    const uint32_t each = here->replicas / here->servers;
    return (first_server + replica / each) * server + first_device + replica % each;
}

static bool set_stage(struct plan *plan, const struct profile *ordered, const struct bottleneck_request *request,
                      const struct bottleneck_result *result, size_t s, struct error *error)
{
    const struct bottleneck_stage *stage = &result->stages[s];
    const struct cluster *cluster = request->cluster;
    const bool has_servers = cluster->level_count > 1 && count_machines(request) > cluster->levels[0].size;
    uint32_t *devices = calloc(stage->replicas, sizeof devices[0]), taken = 0;
    for (size_t before = 0; before < s; before++)
        taken += result->stages[before].replicas;
    for (uint32_t i = 0; devices && i < stage->replicas; i++)
        devices[i] = has_servers && result->model == BOTTLENECK_PIPEDREAM
                       ? device_of(result, s, i, (uint32_t)cluster->levels[0].size) : taken + i;
    const bool good = (devices || error_no_memory(error, "the devices of a plan"))
                   && plan_set_stage(plan, s, ordered, (struct segment){ stage->first, stage->end }, 0, NULL, 0, error)
                   && plan_set_devices(plan, s, devices, stage->replicas, error);
    free(devices);
    return good;
}

static struct plan *begin_plan(const struct bottleneck_request *request, const struct bottleneck_result *result,
                               const struct storage *storage, struct error *error)
{
    uint32_t most = result->machines_used;
    for (size_t s = 0; s < result->stage_count; s++)
        most = result->stages[s].replicas > most ? result->stages[s].replicas : most;
    struct search_request asked = {
        .profile = request->profile,
        .cluster = request->cluster,
        .schedule = "pipedream",
        .ranks = result->machines_used,
        .chunks = 1,
        .micro_batches = request->micro_batches            ? request->micro_batches
                       : result->model == BOTTLENECK_TPS ? count_machines(request) : most,
        .storage = *storage,
    };
    return search_resolve(&asked, error) ? search_begin_plan(&asked, result->stage_count, error) : NULL;
}

static bool fill(struct plan *plan, const struct bottleneck_request *request, const struct bottleneck_result *result,
                 struct error *error)
{
    struct profile *made;
    const struct profile *ordered = plan_set_order(plan, request->profile, result->order, &made, error);
    bool good = ordered != NULL;
    for (size_t s = 0; good && s < result->stage_count; s++)
        good = set_stage(plan, ordered, request, result, s, error);
    good = good && plan_predict(plan, request->profile, error)
        && bottleneck_certificate(result, &plan->certificate, error);
    profile_free(made);
    return good;
}

struct plan *bottleneck_plan(const struct bottleneck_request *request, const struct bottleneck_result *result,
                             const struct storage *storage, struct error *error)
{
    if (!bottleneck_is_plan(result)) {
        error_set(error, "a plan document knows no stages on processors of the host, in groups of devices, or in other"
                         " ways than measured");
        return NULL;
    }
    struct plan *plan = begin_plan(request, result, storage, error);
    if (plan && fill(plan, request, result, error))
        return plan;
    plan_free(plan);
    return NULL;
}

// --- a plan as an answer ------------------------------------------------------------

// Consecutive stages that begin on the same server form one part.
static void fill_parts(struct bottleneck_result *result, const struct plan *plan, uint32_t server)
{
    for (uint32_t s = 0; s < result->stage_count; s++) {
        struct bottleneck_stage *stage = &result->stages[s];
        const struct plan_stage *from = &plan->stages[s];
        uint32_t servers = 1;
        for (size_t i = 1; i < from->device_count; i++)
            servers += from->devices[i] / server != from->devices[i - 1] / server;
        stage->servers = servers;
        stage->part =
            s > 0 && plan->stages[s - 1].devices[0] / server == from->devices[0] / server ? stage[-1].part : s;
    }
}

// Whether the plan is one of the profile: it has the profile's layers, by their names, as they were measured.
static bool is_of_profile(const struct plan *plan, const struct profile *profile, struct error *error)
{
    const size_t layers = plan->stage_count ? plan->stages[plan->stage_count - 1].end : 0;
    if (layers != profile->layer_count)
        return error_set(error, "the stages hold %zu layers, the profile %zu", layers, profile->layer_count);
    for (size_t s = 0; s < plan->stage_count; s++) {
        if (plan->stages[s].variant)
            return error_set(error, "stages[%zu]: its layers run as variant \"%.60s\"; the models read that from a"
                             " loads document only", s, plan->stages[s].variant);
        for (uint32_t position = plan->stages[s].first; position < plan->stages[s].end; position++) {
            const char *planned = plan->stages[s].layers[position - plan->stages[s].first];
            const char *name = profile->layers[plan->order ? plan->order[position] : position].name;
            if (strcmp(planned, name) != 0)
                return error_set(error, "stages[%zu]: layer %u is \"%.60s\", in the profile \"%.60s\"", s, position,
                                 planned, name);
        }
    }
    return true;
}

struct bottleneck_result *bottleneck_of_plan(const struct bottleneck_request *request, const struct plan *plan,
                                             struct error *error)
{
    struct bottleneck_result *result = is_of_profile(plan, request->profile, error)
                                         ? bottleneck_create(request, plan->stage_count, error) : NULL;
    if (!result)
        return NULL;
    for (size_t s = 0; s < plan->stage_count; s++) {
        result->stages[s].first = plan->stages[s].first;
        result->stages[s].end = plan->stages[s].end;
        result->stages[s].replicas = plan->stages[s].device_count ? (uint32_t)plan->stages[s].device_count : 1;
    }
    if (plan->order)
        memcpy(result->order, plan->order, result->layer_count * sizeof result->order[0]);
    const struct cluster *cluster = request->cluster;
    if (cluster->level_count > 1 && plan->stages[0].device_count > 0)
        fill_parts(result, plan, (uint32_t)cluster->levels[0].size);
    return result;
}

// --- stages without devices ---------------------------------------------------------

// The fewest servers on which so many replicas are alike; 0: there is no such number.
static uint32_t servers_for(uint32_t replicas, uint32_t server, uint32_t servers)
{
    for (uint32_t q = 1; q <= servers; q++)
        if (replicas % q == 0 && replicas / q <= server)
            return q;
    return 0;
}

bool bottleneck_fill_servers(const struct bottleneck_request *request, struct bottleneck_result *result,
                             struct error *error)
{
    const struct cluster *cluster = request->cluster;
    const uint32_t machines = count_machines(request);
    const uint32_t server = cluster->level_count > 1 ? (uint32_t)cluster->levels[0].size : machines;
    if (request->model != BOTTLENECK_PIPEDREAM || machines <= server)
        return true;
    uint32_t left = 0;  // machines of the server of the stage before
    for (uint32_t s = 0; s < result->stage_count; s++) {
        struct bottleneck_stage *stage = &result->stages[s];
        const bool goes_on = stage->replicas <= left;
        stage->servers = goes_on ? 1 : servers_for(stage->replicas, server, machines / server);
        stage->part = goes_on ? stage[-1].part : s;
        if (stage->servers == 0)
            return error_set(error, "stage %u has %u replicas, and the model prices up to %u on one server, or as many"
                             " on each of up to %u servers; a cluster with one rate has no servers", s, stage->replicas,
                             server, machines / server);
        left = goes_on ? left - stage->replicas : stage->servers > 1 ? 0 : server - stage->replicas;
    }
    return true;
}
