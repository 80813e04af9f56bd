// The ways in which layers run, and what stages of them load at least (tps.h).
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/objectives/tps.h"

// --- ways and degrees -------------------------------------------------------------------

static struct tps_way way_of(const struct profile_layer *layer, uint32_t variant)
{
    const struct profile_layer *way = variant ? &layer->variants[variant - 1].layer : layer;
    const uint64_t workspace =
        way->workspace_bytes > way->backward_workspace_bytes ? way->workspace_bytes : way->backward_workspace_bytes;
    return (struct tps_way){
        .layer = way,
        .variant = variant,
        .devices = variant ? layer->variants[variant - 1].devices : 1,
        .time_ns = add_clamped(add_clamped(way->forward_ns, way->backward_ns),
                               variant ? layer->variants[variant - 1].communication_ns : 0),
        .parameter_bytes = way->parameter_bytes,
        .in_flight_bytes = way->saved_bytes,
        .fixed_bytes = 2 * way->parameter_bytes + workspace,
    };
}

static void add_degree(struct tps_ways *ways, uint32_t devices)
{
    size_t place = 0;
    while (place < ways->degree_count && ways->degrees[place] < devices)
        place++;
    if (place < ways->degree_count && ways->degrees[place] == devices)
        return;
    memmove(ways->degrees + place + 1, ways->degrees + place, (ways->degree_count - place) * sizeof ways->degrees[0]);
    ways->degrees[place] = devices;
    ways->degree_count++;
}

bool tps_ways_create(struct tps_ways *ways, const struct profile *profile, const struct bottleneck_result *given,
                     uint32_t machines, struct arrays *arrays, struct error *error)
{
    size_t count = 0;
    for (size_t i = 0; i < profile->layer_count; i++)
        count += 1 + profile->layers[i].variant_count;
    *ways = (struct tps_ways){ .machines = machines, .ways = arrays_add(arrays, count, sizeof ways->ways[0]),
                               .way_at = arrays_add(arrays, profile->layer_count + 1, sizeof ways->way_at[0]),
                               .degrees = arrays_add(arrays, count + 1, sizeof ways->degrees[0]) };
    if (arrays->failed)
        return error_no_memory(error, "the ways to run layers");
    uint32_t next = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        const uint32_t chosen = given ? given->variant[i] : 0;
        if (chosen > layer->variant_count)
            return error_set(error, "layer \"%s\" has %zu variants, not %u", layer->name, layer->variant_count, chosen);
        if (chosen > 0 && layer->variants[chosen - 1].shares_output)
            return error_set(error,
                             "layer \"%s\": of its variant \"%.60s\" each device has a share of the output, which this"
                             " objective does not know", layer->name, layer->variants[chosen - 1].layer.name);
        ways->way_at[i] = next;
        for (uint32_t v = given ? chosen : 0; v <= (given ? chosen : layer->variant_count); v++) {
            if (v > 0 && layer->variants[v - 1].shares_output)
                continue;
            ways->ways[next] = way_of(layer, v);
            if (ways->ways[next].devices <= machines)
                add_degree(ways, ways->ways[next].devices);
            next++;
        }
    }
    ways->way_at[profile->layer_count] = next;
    return true;
}

// --- penalties ------------------------------------------------------------------------------

// Chooses penalties between the least and the largest ratio of the time that a layer's other ways take more to the
// bytes that they save. At these ratios some layer changes its way. Each penalty is a constant factor times the one
// before.
static void choose_penalties(struct tps_floors *floors, const struct tps_ways *ways, size_t layers)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < layers; i++)
        for (uint32_t w = ways->way_at[i] + 1; w < ways->way_at[i + 1]; w++) {
            const struct tps_way *usual = &ways->ways[ways->way_at[i]], *other = &ways->ways[w];
            const double time = (double)other->time_ns - (double)usual->time_ns;
            const double bytes = (double)usual->in_flight_bytes - (double)other->in_flight_bytes;
            if (!(time > 0 && bytes > 0))
                continue;
            least = fmin(least, time / bytes);
            most = fmax(most, time / bytes);
        }
    floors->penalty_count = most > 0 ? TPS_MOST_PENALTIES : 0;
    for (size_t p = 0; p < floors->penalty_count; p++)
        floors->penalties[p] = least * pow(most / least, (double)p / (TPS_MOST_PENALTIES - 1));
}

// --- sums -----------------------------------------------------------------------------------

static double value_of(const struct tps_way *way, size_t what, const double *penalties)
{
    const double values[] = { [TPS_TIME] = (double)way->time_ns, [TPS_PARAMETERS] = (double)way->parameter_bytes,
                              [TPS_SAVED] = (double)way->in_flight_bytes, [TPS_FIXED] = (double)way->fixed_bytes,
                              [TPS_LACKING] = 0, [TPS_WORK] = (double)way->time_ns * way->devices };
    return what < TPS_PENALIZED ? values[what] : values[TPS_TIME] + penalties[what - TPS_PENALIZED] * values[TPS_SAVED];
}

// Sums the least over the ways for this many devices, or, with `devices` 0, over all ways that the machines are
// enough for. Sums stay below 2^53; larger values are cut off.
static uint64_t *sum_least(const struct tps_floors *floors, struct graph_view *view, const struct tps_ways *ways,
                           uint32_t devices, size_t what)
{
    const size_t layers = view->request->profile->layer_count;
    const double most = (double)(JSON_MAX / layers);
    uint64_t *value = arrays_add(&view->arrays, layers, sizeof value[0]);
    for (size_t i = 0; value && i < layers; i++) {
        double least = INFINITY;
        for (uint32_t w = ways->way_at[i]; w < ways->way_at[i + 1]; w++)
            if (devices ? ways->ways[w].devices == devices : ways->ways[w].devices <= ways->machines)
                least = fmin(least, value_of(&ways->ways[w], what, floors->penalties));
        value[i] = least == INFINITY ? what == TPS_LACKING : (uint64_t)fmin(least, most);
    }
    return value ? graph_view_sum(view, value) : NULL;
}

void tps_floors_create(struct tps_floors *floors, struct graph_view *view, const struct tps_ways *ways,
                       const struct machines *machines, uint32_t micro_batches)
{
    const double rate = (double)machines->bytes_per_second;
    *floors = (struct tps_floors){ .reduce_ns = rate > 0 ? 4e9 / rate / micro_batches : 0,
                                   .memory_bytes = machines->memory_bytes,
                                   .sums = arrays_add(&view->arrays, ways->degree_count, sizeof floors->sums[0]) };
    choose_penalties(floors, ways, view->request->profile->layer_count);
    floors->work = sum_least(floors, view, ways, 0, TPS_WORK);
    for (size_t t = 0; floors->sums && t < ways->degree_count; t++)
        for (size_t what = 0; what < TPS_PENALIZED + floors->penalty_count; what++)
            floors->sums[t].of[what] = sum_least(floors, view, ways, ways->degrees[t], what);
}

// --- asking ---------------------------------------------------------------------------------

static double between(const uint64_t *sums, const struct tps_stage *stage)
{
    return (double)(sums[stage->outer] - sums[stage->inner]);
}

// The most that any penalty says the ways take, or the first value that reaches `enough`.
static double penalized(const struct tps_floors *floors, const struct tps_stage *stage, double lacks, double enough)
{
    uint64_t *const *sums = floors->sums[stage->degree].of + TPS_PENALIZED;
    const double share = lacks / stage->in_flight;
    double most = 0;
    for (size_t p = 0; p < floors->penalty_count && most < enough; p++)
        most = fmax(most, between(sums[p], stage) + floors->penalties[p] * share);
    return most;
}

double tps_floor(const struct tps_floors *floors, const struct tps_stage *stage, double enough)
{
    const struct tps_sums *sums = &floors->sums[stage->degree];
    const double reduced = floors->reduce_ns * (stage->replicas - 1) * between(sums->of[TPS_PARAMETERS], stage);
    const double exact = 1 - 0x1p-30;  // rounding here is far less than this
    double time = between(sums->of[TPS_TIME], stage);
    if ((time + reduced) / stage->replicas * exact < enough) {
        const double lacks = between(sums->of[TPS_FIXED], stage) - (double)floors->memory_bytes;
        if (lacks + stage->in_flight * between(sums->of[TPS_SAVED], stage) > 0)
            return INFINITY;
        const double bound = penalized(floors, stage, lacks, enough / exact * stage->replicas - reduced);
        time = bound > time ? bound : time;
    }
    return (time + reduced) / stage->replicas * exact;
}
