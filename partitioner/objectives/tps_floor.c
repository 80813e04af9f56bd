#include "partitioner/objectives/tps_floor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

enum { MOST_PENALTIES = 24 };

// Sums over the least of each layer's ways for a degree, by downset.
struct degree_sums {
    uint64_t *parameters, *saved, *fixed;
    uint64_t *penalized[MOST_PENALTIES];  // of time and the penalty on what is saved
    double *into, *out;  // on a chain: what passes at each cut, ns for both directions; else 0
};

struct tps_floors {
    const struct cut_view *view;
    const struct tps_prices *prices;
    double reduce_ns;    // of a byte of parameters, for each replica but one
    double transfer_ns;  // of a byte, there and back
    double penalties[MOST_PENALTIES];
    size_t penalty_count, degree_count;
    struct degree_sums *sums;
};

// --- penalties ------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

// The time each layer's other ways take for each byte that they save.
static size_t list_ratios(const struct profile *profile, double *ratios)
{
    size_t count = 0;
    for (size_t i = 0; i < profile->layer_count; i++) {
        const struct tps_way own = tps_way_of(&profile->layers[i], 0);
        for (uint32_t v = 1; v <= profile->layers[i].variant_count; v++) {
            const struct tps_way other = tps_way_of(&profile->layers[i], v);
            const double time = (double)other.time_ns - (double)own.time_ns;
            const double bytes = (double)own.in_flight_bytes - (double)other.in_flight_bytes;
            if (time > 0 && bytes > 0)
                ratios[count++] = time / bytes;
        }
    }
    qsort(ratios, count, sizeof ratios[0], compare_doubles);
    return count;
}

static bool choose_penalties(struct tps_floors *floors, struct error *error)
{
    const struct profile *profile = floors->view->request->profile;
    size_t ways = 1;
    for (size_t i = 0; i < profile->layer_count; i++)
        ways += profile->layers[i].variant_count;
    double *ratios = calloc(ways, sizeof ratios[0]);
    if (!ratios)
        return error_no_memory(error, "the floors of stages");
    const size_t count = list_ratios(profile, ratios);
    floors->penalty_count = count < MOST_PENALTIES ? count : MOST_PENALTIES;
    for (size_t p = 0; p < floors->penalty_count; p++)
        floors->penalties[p] = ratios[(2 * p + 1) * count / (2 * floors->penalty_count)];
    free(ratios);
    return true;
}

// --- sums -----------------------------------------------------------------------------------

// What is summed: the least of a layer's ways. Sums stay below 2^53, whatever is cut off.
enum { SUM_PARAMETERS, SUM_SAVED, SUM_FIXED, SUM_PENALIZED };

static double value_of(const struct tps_way *way, unsigned what, double penalty)
{
    switch (what) {
    case SUM_PARAMETERS:
        return (double)way->parameter_bytes;
    case SUM_SAVED:
        return (double)way->in_flight_bytes;
    case SUM_FIXED:
        return (double)way->fixed_bytes;
    default:
        return (double)way->time_ns + penalty * (double)way->in_flight_bytes;
    }
}

static uint64_t *sum_least(const struct tps_floors *floors, uint32_t devices, unsigned what, double penalty,
                           uint64_t *value, struct error *error)
{
    const struct profile *profile = floors->view->request->profile;
    const double most = (double)(JSON_MAX / profile->layer_count);
    for (size_t i = 0; i < profile->layer_count; i++) {
        double least = INFINITY;
        for (uint32_t v = 0; v <= profile->layers[i].variant_count; v++) {
            const struct tps_way way = tps_way_of(&profile->layers[i], v);
            const double own = value_of(&way, what, penalty);
            least = way.devices == devices && own < least ? own : least;
        }
        value[i] = least == INFINITY ? 0 : (uint64_t)(least < most ? least : most);
    }
    return cut_view_sum(floors->view, value, error);
}

static bool fill_degree(const struct tps_floors *floors, struct degree_sums *sums, uint32_t devices, uint64_t *value,
                        struct error *error)
{
    sums->parameters = sum_least(floors, devices, SUM_PARAMETERS, 0, value, error);
    sums->saved = sum_least(floors, devices, SUM_SAVED, 0, value, error);
    sums->fixed = sum_least(floors, devices, SUM_FIXED, 0, value, error);
    bool good = sums->parameters && sums->saved && sums->fixed;
    for (size_t p = 0; good && p < floors->penalty_count; p++) {
        sums->penalized[p] = sum_least(floors, devices, SUM_PENALIZED, floors->penalties[p], value, error);
        good = sums->penalized[p] != NULL;
    }
    return good;
}

// What each layer of a chain takes from the one before and hands to the one behind, at
// least; in other graphs tensors pass by a stage, and a cut does not say whose they are.
static bool fill_moved(const struct tps_floors *floors, struct degree_sums *sums, uint32_t devices, struct error *error)
{
    const struct profile *profile = floors->view->request->profile;
    const uint32_t layers = (uint32_t)profile->layer_count;
    const size_t count = floors->view->downsets->count;
    sums->into = calloc(count, sizeof sums->into[0]);
    sums->out = calloc(count, sizeof sums->out[0]);
    if (!sums->into || !sums->out)
        return error_no_memory(error, "the floors of stages");
    for (uint32_t i = 0; profile->is_chain && i < layers; i++) {
        double into = INFINITY, out = INFINITY;
        for (uint32_t v = 0; v <= profile->layers[i].variant_count; v++) {
            const struct tps_way way = tps_way_of(&profile->layers[i], v);
            if (way.devices != devices)
                continue;
            into = i > 0 ? fmin(into, (double)profile_receive_bytes(profile, way.layer, i - 1)) : 0;
            out = i + 1 < layers ? fmin(out, (double)profile_send_bytes(way.layer, i + 1)) : 0;
        }
        sums->into[i] = into < INFINITY ? floors->transfer_ns * into : 0;
        sums->out[i + 1] = out < INFINITY ? floors->transfer_ns * out : 0;
    }
    return true;
}

struct tps_floors *tps_floors_create(const struct cut_view *view, const struct tps_prices *prices, struct error *error)
{
    struct tps_floors *floors = calloc(1, sizeof *floors);
    uint64_t *value = calloc(view->request->profile->layer_count + 1, sizeof value[0]);
    bool good = floors && value;
    if (good) {
        const double rate = (double)view->machines.bytes_per_second;
        floors->view = view;
        floors->prices = prices;
        floors->transfer_ns = rate > 0 ? 2e9 / rate : 0;
        floors->reduce_ns = rate > 0 ? 4e9 / rate / tps_micro_batches(view->request, &view->machines) : 0;
        const uint32_t *degrees = tps_degrees(prices, &floors->degree_count);
        floors->sums = calloc(floors->degree_count + 1, sizeof floors->sums[0]);
        good = floors->sums && choose_penalties(floors, error);
        for (size_t t = 0; good && t < floors->degree_count; t++)
            good = fill_degree(floors, &floors->sums[t], degrees[t], value, error)
                && fill_moved(floors, &floors->sums[t], degrees[t], error);
    }
    free(value);
    if (good)
        return floors;
    error_no_memory(error, "the floors of stages");
    tps_floors_free(floors);
    return NULL;
}

void tps_floors_free(struct tps_floors *floors)
{
    if (!floors)
        return;
    for (size_t t = 0; floors->sums && t < floors->degree_count; t++) {
        free(floors->sums[t].parameters);
        free(floors->sums[t].saved);
        free(floors->sums[t].fixed);
        free(floors->sums[t].into);
        free(floors->sums[t].out);
        for (size_t p = 0; p < floors->penalty_count; p++)
            free(floors->sums[t].penalized[p]);
    }
    free(floors->sums);
    free(floors);
}

// --- asking ---------------------------------------------------------------------------------

static double between(const uint64_t *sums, const struct tps_stage *stage)
{
    return (double)(sums[stage->outer] - sums[stage->inner]);
}

// The most that any penalty says the ways take, or the first `enough` that is met. By the penalty the sums are concave
// (but for what is cut off), so that half of those left are always the wrong ones.
static double penalized(const struct tps_floors *floors, const struct tps_stage *stage, double lacks, double enough)
{
    uint64_t *const *sums = floors->sums[stage->degree].penalized;
    const double share = lacks / stage->in_flight;
    double most = 0;
    for (size_t first = 0, end = floors->penalty_count; first < end && most < enough;) {
        const size_t at = first + (end - first) / 2;
        const double own = between(sums[at], stage) + floors->penalties[at] * share;
        most = own > most ? own : most;
        if (at == first || own >= enough)
            break;
        const double before = between(sums[at - 1], stage) + floors->penalties[at - 1] * share;
        most = before > most ? before : most;
        if (before > own)
            end = at;
        else
            first = at;
    }
    return most;
}

double tps_floor(const struct tps_floors *floors, const struct tps_stage *stage, double enough)
{
    const struct degree_sums *sums = &floors->sums[stage->degree];
    const double reduced = floors->reduce_ns * (stage->replicas - 1) * between(sums->parameters, stage);
    const double rest = sums->into[stage->inner] + sums->out[stage->outer] + reduced;
    const double exact = 1 - 0x1p-30;  // what is rounded here is less by far
    double time = (double)(tps_time(floors->prices, stage->degree, stage->outer)
                           - tps_time(floors->prices, stage->degree, stage->inner));
    if (stage->in_flight > 0 && (time + rest) / stage->replicas * exact < enough) {
        const double lacks = between(sums->fixed, stage) - (double)floors->view->machines.memory_bytes;
        if (lacks + stage->in_flight * between(sums->saved, stage) > 0)
            return INFINITY;
        const double own = penalized(floors, stage, lacks, enough / exact * stage->replicas - rest);
        time = own > time ? own : time;
    }
    return (time + rest) / stage->replicas * exact;
}

bool tps_can_fit(const struct tps_floors *floors, struct tps_stage stage)
{
    for (stage.degree = 0; stage.degree < floors->degree_count; stage.degree++) {
        const struct degree_sums *sums = &floors->sums[stage.degree];
        if (between(sums->fixed, &stage) + stage.in_flight * between(sums->saved, &stage)
            <= (double)floors->view->machines.memory_bytes)
            return true;
    }
    return false;
}
