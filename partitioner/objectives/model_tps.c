// The search of Piper's model (tps.h), from the last stage to the first, since what a stage
// holds depends on the replicas behind it:
//
//     {}         inner              outer           all
//      |            |---- a stage ----|-- k, s ------|      reached[inner][k + t d][s + d]
//
// A run says whether there is a plan whose stages all load less than a limit: which states
// can be reached, with stages for all that is not in `outer` on k machines with s replicas
// in all. A state with more of both than another is not continued, nor is what the
// machines left cannot do below the limit. Limits rise until there is a plan; then the
// distance between it and what none is below is halved; in the end nothing is found below
// the plan itself, which proves it. What a run has reached is an end of every plan below
// lower limits too; joined to what the layers in front take at least, it says where no such
// plan is cut, and the runs that follow leave that out:
//
//     {}   |-- at least so many machines --| cut |-- at least as many as the run took --|   all
//
// Which ways a stage's layers run is a knapsack where memory is short. A run takes its
// linear relaxation, so that it misses no plan; the stages of the plan it finds are then
// priced exactly, and it is run again, until a plan holds at its exact price.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/objectives/tps_floor.h"

// Below this share of a plan's load the distance to what none is below is not halved: there are few plans between.
#define NEAR 0x1p-9

// How a state was reached.
struct next {
    uint32_t outer, degree;
    uint32_t replicas;  // 0: it was not
};

struct live {  // a state worth continuing
    uint32_t machines, replicas;
};

struct path {  // a whole plan, its stages from the first on
    struct tps_stage *stages;
    size_t count;
    double load;
};

struct search {
    struct cut_view view;
    struct tps_prices *prices;
    struct tps_floors *floors;
    uint32_t machines, most_replicas, micro_batches;
    const uint32_t *degrees;
    size_t degree_count;
    size_t width;        // of a row: replicas + 1
    size_t states;       // of a downset
    bool is_plain;       // every replica is one machine: as many of these as of those
    struct next *next;
    uint32_t *fewest;    // of each downset: machines with which it was reached
    uint32_t *needs;     // of each downset: machines that it takes at least (close_cuts)
    bool *is_open;       // of each downset: a plan below the last limit that was met may be cut there
    struct live *live;
    size_t live_count;
    uint32_t *divisors;  // of the micro-batches, rising: the replicas there may be
    size_t divisor_count;
    uint32_t *largest;   // of 0 to `machines` machines, as many as a stage can be on
    struct downset_walk walk;
    double limit;
    double bound;        // no plan that was looked at is below
    struct path found, taken;  // the run's, and the best at exact prices
    bool is_ended, gave_up;
};

static void search_clear(struct search *search)
{
    tps_floors_free(search->floors);
    tps_prices_free(search->prices);
    cut_view_clear(&search->view);
    downset_walk_clear(&search->walk);
    free(search->next);
    free(search->fewest);
    free(search->needs);
    free(search->is_open);
    free(search->live);
    free(search->divisors);
    free(search->largest);
    free(search->found.stages);
    free(search->taken.stages);
}

// The numbers of machines that stages can have, and for the others the next smaller one.
static void list_sizes(struct search *search)
{
    for (size_t t = 0; t < search->degree_count; t++)
        for (size_t i = 0; i < search->divisor_count; i++)
            if (search->degrees[t] * (uint64_t)search->divisors[i] <= search->machines)
                search->largest[search->degrees[t] * search->divisors[i]] = search->degrees[t] * search->divisors[i];
    for (uint32_t k = 1; k <= search->machines; k++)
        if (search->largest[k] == 0)
            search->largest[k] = search->largest[k - 1];
}

static bool fill_table(struct search *search, struct error *error)
{
    const size_t count = search->view.downsets->count;
    search->width = (size_t)search->most_replicas + 1;
    search->is_plain = search->degree_count == 1 && search->degrees[0] == 1;
    search->states = search->is_plain ? search->width : search->width * (search->machines + 1);
    if (search->states > CUT_MOST_BYTES / sizeof search->next[0] / count)
        return error_set(error,
                         "%zu ways to cut the graph for each of %u machines and %u replicas take more than 1 GiB",
                         count, search->machines, search->most_replicas);
    search->next = malloc(count * search->states * sizeof search->next[0]);
    search->fewest = calloc(count, sizeof search->fewest[0]);
    search->needs = calloc(count, sizeof search->needs[0]);
    search->is_open = calloc(count, sizeof search->is_open[0]);
    search->live = calloc(search->states, sizeof search->live[0]);
    search->divisors = calloc(search->width, sizeof search->divisors[0]);
    search->largest = calloc((size_t)search->machines + 1, sizeof search->largest[0]);
    search->found.stages = calloc(search->machines, sizeof search->found.stages[0]);
    search->taken.stages = calloc(search->machines, sizeof search->taken.stages[0]);
    search->taken.load = INFINITY;
    if (!search->next || !search->fewest || !search->needs || !search->is_open || !search->live || !search->divisors
        || !search->largest || !search->found.stages || !search->taken.stages)
        return error_no_memory(error, "a table of stages");
    memcpy(search->is_open, search->view.may_cut, count * sizeof search->is_open[0]);
    for (uint32_t d = 1; d <= (search->view.request->is_straight ? 1 : search->most_replicas); d++)
        if (search->micro_batches % d == 0)
            search->divisors[search->divisor_count++] = d;
    list_sizes(search);
    return downset_walk_create(&search->walk, search->view.downsets, error);
}

static bool search_create(struct search *search, const struct bottleneck_request *request, struct error *error)
{
    if (!cut_view_create(&search->view, request, NULL, error))
        return false;
    search->machines = search->view.machines.accelerators;
    search->micro_batches = tps_micro_batches(request, &search->view.machines);
    search->most_replicas = search->machines < search->micro_batches ? search->machines : search->micro_batches;
    if (search->machines == 0)
        return error_set(error, "tps plans for accelerators, of which the cluster has none");
    search->prices = tps_prices_create(&search->view, error);
    if (!search->prices)
        return false;
    search->degrees = tps_degrees(search->prices, &search->degree_count);
    search->floors = tps_floors_create(&search->view, search->prices, error);
    return search->floors && fill_table(search, error);
}

// --- one run below a limit ---------------------------------------------------------------

static double work_between(const struct search *search, uint32_t inner, uint32_t outer)
{
    return (double)(tps_work(search->prices, outer) - tps_work(search->prices, inner));
}

// Where the state of k machines and s replicas stands.
static struct next *state_of(const struct search *search, uint32_t downset, uint32_t k, uint32_t s)
{
    return &search->next[downset * search->states + (search->is_plain ? s : k * search->width + s)];
}

// Those states of a downset that no other is as good as in both. What comes later holds nothing of the whole.
static void list_live(struct search *search, uint32_t downset)
{
    uint32_t fewest = search->most_replicas + 1;
    search->live_count = 0;
    if (downset + 1 == search->view.downsets->count)
        search->live[search->live_count++] = (struct live){ 0, 0 };
    for (uint32_t k = 1; k <= search->machines; k++)
        for (uint32_t s = search->is_plain ? k : 1; s < fewest && s <= k; s++)
            if (state_of(search, downset, k, s)->replicas > 0) {
                search->live[search->live_count++] = (struct live){ k, s };
                fewest = s;
            }
}

// What is in `inner` needs machines of its own, and those that are left must do it.
static bool is_hopeful(const struct search *search, uint32_t inner, uint32_t machines)
{
    const uint32_t left = search->machines - machines;
    return inner == 0 || (left > 0 && (double)tps_work(search->prices, inner) < search->limit * left * (1 + 0x1p-40));
}

// The state that the stage leads to, unless it is known to be reached, or of no use.
static struct next *state_ahead(const struct search *search, const struct tps_stage *stage, const struct live *live)
{
    const uint32_t k = live->machines + search->degrees[stage->degree] * stage->replicas;
    const uint32_t s = live->replicas + stage->replicas;
    if (k > search->machines || s > search->most_replicas)
        return NULL;
    if (search->is_plain && k >= search->fewest[stage->inner])
        return NULL;
    struct next *next = state_of(search, stage->inner, k, s);
    return next->replicas == 0 && is_hopeful(search, stage->inner, k) ? next : NULL;
}

// Whether the stage loads less than the limit with so many in flight: as its floor says, or else its price.
static bool is_below(struct search *search, struct tps_stage *stage, uint32_t in_flight, bool *is, struct error *error)
{
    struct tps_price price = { 0 };
    *is = false;
    stage->in_flight = in_flight;
    if (!(tps_floor(search->floors, stage, search->limit) < search->limit))
        return true;
    if (!tps_price(search->prices, stage, &price, error))
        return false;
    *is = price.load < search->limit;
    return true;
}

// More in flight take no less: what was found for some holds for fewer, or for more.
static bool try_replicas(struct search *search, struct tps_stage *stage, struct error *error)
{
    const uint32_t d = stage->replicas;
    uint32_t most = UINT32_MAX, asked = 0;
    for (size_t l = 0; l < search->live_count; l++) {
        const struct live *live = &search->live[l];
        const uint32_t in_flight = (live->replicas + 2 * d - 1) / d;
        struct next *next = in_flight < most ? state_ahead(search, stage, live) : NULL;
        bool is = in_flight <= asked;
        if (!next)
            continue;
        if (!is && !is_below(search, stage, in_flight, &is, error))
            return false;
        if (is) {
            asked = in_flight;
            *next = (struct next){ stage->outer, stage->degree, d };
            const uint32_t k = live->machines + search->degrees[stage->degree] * d;
            if (k < search->fewest[stage->inner])
                search->fewest[stage->inner] = k;
        } else {
            most = in_flight;
        }
    }
    return true;
}

static bool try_stage(struct search *search, uint32_t inner, uint32_t outer, struct error *error)
{
    struct tps_stage stage = { .inner = inner, .outer = outer };
    for (stage.degree = 0; stage.degree < search->degree_count; stage.degree++) {
        const uint32_t devices = search->degrees[stage.degree];
        const double time = (double)(tps_time(search->prices, stage.degree, outer)
                                     - tps_time(search->prices, stage.degree, inner));
        if (tps_lacking(search->prices, stage.degree, outer) != tps_lacking(search->prices, stage.degree, inner))
            continue;
        uint32_t most = search->machines;  // where a replica is one machine, only fewer than are known are of use
        if (search->is_plain && search->fewest[inner] <= most)
            most = search->fewest[inner] - 1;
        most = most > search->live[0].machines ? (most - search->live[0].machines) / devices : 0;
        for (size_t i = 0; i < search->divisor_count && search->divisors[i] <= most; i++) {
            stage.replicas = search->divisors[i];
            if (time < search->limit * stage.replicas && !try_replicas(search, &stage, error))
                return false;
        }
    }
    return true;
}

// Whether a stage on so many machines, or fewer, might do what is between the two below the limit.
static bool is_enough(const struct search *search, uint32_t inner, uint32_t outer, uint32_t machines)
{
    return work_between(search, inner, outer) < search->limit * search->largest[machines] * (1 + 0x1p-40);
}

// Whether the stage might lead to a state with fewer machines than are known, with `least` behind it. Only where a
// replica is one machine is that all there is to say of a state.
static bool is_useful(const struct search *search, uint32_t inner, uint32_t outer, uint32_t least)
{
    const uint32_t known = search->fewest[inner];
    return !search->is_plain || known > search->machines
        || (known > least + 1 && is_enough(search, inner, outer, known - 1 - least));
}

static bool try_stages(struct search *search, uint32_t outer, struct error *error)
{
    const uint32_t least = search->live[0].machines;
    uint32_t inner;
    downset_walk_down(&search->walk, outer);
    while (downset_walk_next(&search->walk, &inner)) {
        const struct tps_stage stage = { .inner = inner, .outer = outer, .in_flight = least > 0 ? 2 : 1 };
        if (!is_enough(search, inner, outer, search->machines - least))
            downset_walk_prune(&search->walk);
        else if (!search->is_open[inner] || !is_useful(search, inner, outer, least)
                 || !is_hopeful(search, inner, least + 1))
            continue;
        else if (!tps_can_fit(search->floors, stage))
            downset_walk_prune(&search->walk);
        else if (!try_stage(search, inner, outer, error))
            return false;
    }
    return true;
}

// What even spreading takes, of the layers' machine time.
static double least_load(const struct search *search)
{
    return (double)tps_work(search->prices, (uint32_t)search->view.downsets->count - 1) / search->machines
         * (1 - 0x1p-40);
}

// Over one order, or with choices that were not decided, only even spreading is certain.
static double certain_bound(const struct search *search)
{
    return search->view.has_all_downsets && !search->gave_up ? search->bound : least_load(search);
}

static bool run(struct search *search, double limit, struct error *error)
{
    const size_t count = search->view.downsets->count;
    search->limit = limit;
    memset(search->next, 0, count * search->states * sizeof search->next[0]);
    for (size_t d = 0; d < count; d++)
        search->fewest[d] = UINT32_MAX;
    for (uint32_t outer = (uint32_t)count; outer-- > 1 && !search->is_ended;) {
        list_live(search, outer);
        if (search->live_count > 0 && !try_stages(search, outer, error))
            return false;
        search->is_ended = bottleneck_must_end(search->view.request, search->taken.load, certain_bound(search));
    }
    return true;
}

// --- cuts that are left ------------------------------------------------------------------

// What the stages behind a downset have at least, as the last run says: machines, and replicas in all.
static struct live behind(const struct search *search, uint32_t outer)
{
    if (outer + 1 == search->view.downsets->count)
        return (struct live){ 0, 0 };
    return (struct live){ search->fewest[outer], search->is_plain ? search->fewest[outer] : 1 };
}

// Notes on how few machines the stage may end a plan of what is in `outer`, if there are such and the rest fits too.
static void need_stage(struct search *search, uint32_t inner, uint32_t outer)
{
    struct tps_stage stage = { .inner = inner, .outer = outer };
    const struct live live = behind(search, outer);
    uint32_t most = search->machines - live.machines - search->needs[inner];  // machines of the stage
    if (search->needs[outer] <= search->needs[inner] + most)
        most = search->needs[outer] - search->needs[inner] - 1;
    for (stage.degree = 0; stage.degree < search->degree_count; stage.degree++) {
        const uint32_t devices = search->degrees[stage.degree];
        if (tps_lacking(search->prices, stage.degree, outer) != tps_lacking(search->prices, stage.degree, inner))
            continue;
        const double time = (double)(tps_time(search->prices, stage.degree, outer)
                                     - tps_time(search->prices, stage.degree, inner));
        for (size_t i = 0; i < search->divisor_count && search->divisors[i] * devices <= most; i++) {
            stage.replicas = search->divisors[i];
            stage.in_flight = (live.replicas + 2 * stage.replicas - 1) / stage.replicas;
            if (!(time < search->limit * stage.replicas)
                || !(tps_floor(search->floors, &stage, search->limit) < search->limit))
                continue;
            most = devices * stage.replicas - 1;
            search->needs[outer] = search->needs[inner] + most + 1;
        }
    }
}

// Whether a stage between the two is of interest: the run reached `outer` on few enough machines, and it might take
// fewer in front of it than are known.
static bool is_joined(const struct search *search, uint32_t inner, uint32_t outer)
{
    if (outer + 1 == search->view.downsets->count)
        return search->needs[inner] < search->machines;
    return search->is_open[outer] && search->fewest[outer] < search->machines - search->needs[inner]
        && search->needs[inner] + 1 < search->needs[outer];
}

// After a run that found a plan: closes the cuts that no plan below its limit has.
static void close_cuts(struct search *search)
{
    const uint32_t count = (uint32_t)search->view.downsets->count;
    uint32_t outer;
    for (uint32_t d = 0; d < count; d++)
        search->needs[d] = d > 0 ? UINT32_MAX : 0;
    for (uint32_t inner = 0; inner + 1 < count; inner++) {
        if (search->fewest[inner] > search->machines || search->needs[inner] > search->machines - search->fewest[inner])
            search->is_open[inner] = false;
        if (!search->is_open[inner])
            continue;
        downset_walk_up(&search->walk, inner);
        while (downset_walk_next(&search->walk, &outer)) {
            const struct tps_stage stage = { .inner = inner, .outer = outer, .in_flight = 1 };
            if (!is_enough(search, inner, outer, search->machines - search->needs[inner]))
                downset_walk_prune(&search->walk);
            else if (!is_joined(search, inner, outer))
                continue;
            else if (!tps_can_fit(search->floors, stage))
                downset_walk_prune(&search->walk);
            else
                need_stage(search, inner, outer);
        }
    }
}

// The run's plan on the fewest machines.
static bool find_path(struct search *search)
{
    const uint32_t all = (uint32_t)search->view.downsets->count - 1;
    search->found.count = 0;
    list_live(search, 0);
    if (search->live_count == 0)
        return false;
    uint32_t k = search->live[0].machines, s = search->live[0].replicas;
    for (uint32_t inner = 0; inner != all;) {
        const struct next next = *state_of(search, inner, k, s);
        search->found.stages[search->found.count++] = (struct tps_stage){
            inner, next.outer, next.degree, next.replicas, (s + next.replicas - 1) / next.replicas };
        k -= next.replicas * search->degrees[next.degree];
        s -= next.replicas;
        inner = next.outer;
    }
    return true;
}

// Prices the path's stages exactly and takes it if it is the best so far.
static bool settle_path(struct search *search, struct error *error)
{
    double load = 0;
    for (size_t i = 0; i < search->found.count; i++) {
        struct tps_price price;
        if (!tps_price(search->prices, &search->found.stages[i], &price, error))
            return false;
        if (!price.is_exact
            && !tps_price_exactly(search->prices, &search->found.stages[i], &price, NULL, error))
            return false;
        search->gave_up |= !price.is_exact;
        load = price.load > load ? price.load : load;
    }
    if (load < search->taken.load) {
        search->taken.load = load;
        search->taken.count = search->found.count;
        memcpy(search->taken.stages, search->found.stages, search->found.count * sizeof search->found.stages[0]);
    }
    return true;
}

// Whether there is a plan below the limit: it is taken, or the bound becomes the limit.
static bool decide(struct search *search, double limit, struct error *error)
{
    for (;;) {
        if (!run(search, limit, error))
            return false;
        if (search->is_ended)
            return true;
        if (!find_path(search)) {
            search->bound = limit;
            return true;
        }
        if (!settle_path(search, error))
            return false;
        if (search->taken.load < limit) {
            close_cuts(search);
            return true;
        }
    }
}

// --- the answer ---------------------------------------------------------------------------

static bool fill_stages(struct search *search, struct bottleneck_result *result, uint32_t *stage_of,
                        struct error *error)
{
    for (uint32_t s = 0; s < result->stage_count; s++) {
        const struct tps_stage *stage = &search->taken.stages[s];
        struct tps_price price;
        result->stages[s].replicas = stage->replicas;
        result->stages[s].group = search->degrees[stage->degree];
        for (uint32_t i = 0; i < result->layer_count; i++)
            if (cut_view_holds(&search->view, stage->outer, i) && !cut_view_holds(&search->view, stage->inner, i))
                stage_of[i] = s;
        if (!tps_price_exactly(search->prices, stage, &price, result->variant, error))
            return false;
    }
    bottleneck_place(result, stage_of);
    return true;
}

static struct bottleneck_result *answer(struct search *search, double bound, struct error *error)
{
    const struct bottleneck_request *request = search->view.request;
    struct bottleneck_result *result = bottleneck_create(request, search->taken.count, error);
    uint32_t *stage_of = calloc(request->profile->layer_count + 1, sizeof stage_of[0]);
    if (result)
        result->variant = calloc(request->profile->layer_count + 1, sizeof result->variant[0]);
    bool good = result && ((stage_of && result->variant) || error_no_memory(error, "the stages of a plan"));
    good = good && fill_stages(search, result, stage_of, error) && tps_value(request, result, error);
    free(stage_of);
    if (!good) {
        bottleneck_free(result);
        return NULL;
    }
    result->downset_count = search->view.downsets->count;
    result->proved = search->view.has_all_downsets && !search->is_ended && !search->gave_up;
    result->lower_bound_ns = result->proved || bound > result->value_ns ? result->value_ns : bound;
    if (search->is_ended)
        snprintf(result->stopped, sizeof result->stopped, "%s", bottleneck_why_ended(request));
    else if (search->gave_up)
        snprintf(result->stopped, sizeof result->stopped, "a stage's layers have too many ways to run");
    else if (!result->proved)
        snprintf(result->stopped, sizeof result->stopped, "too many ways to cut the graph; its own order was cut");
    return result;
}

// The fewest bytes of a device of any group that runs the layer, with one micro-batch in flight.
static uint64_t fewest_bytes(const struct search *search, const struct profile_layer *layer)
{
    uint64_t fewest = UINT64_MAX;
    for (uint32_t v = 0; v <= layer->variant_count; v++) {
        const struct tps_way way = tps_way_of(layer, v);
        const uint64_t bytes = way.in_flight_bytes + way.fixed_bytes;
        if (way.devices <= search->machines && bytes < fewest)
            fewest = bytes;
    }
    return fewest;
}

static bool refuse(const struct search *search, double bound, struct error *error)
{
    const struct profile *profile = search->view.request->profile;
    const uint64_t memory = search->view.machines.memory_bytes;
    char holds[NUMBER_SIZE], has[NUMBER_SIZE];
    if (search->is_ended) {
        bottleneck_end_without(search->view.request, bound, error);
        return false;
    }
    for (size_t i = 0; i < profile->layer_count; i++) {
        const uint64_t bytes = fewest_bytes(search, &profile->layers[i]);
        if (bytes > memory)
            return error_set_kind(error, ERROR_ANSWER, "layer \"%s\" alone holds %s; a machine has %s",
                                  profile->layers[i].name, bytes_format(bytes, holds), bytes_format(memory, has));
    }
    return error_set_kind(error, ERROR_ANSWER,
                          "no stages for %u machines of %s fit, in whatever way the layers run",
                          search->machines, bytes_format(memory, has));
}

// Limits that rise until there is a plan. Without one at last, nothing is below infinity.
static bool find_any(struct search *search, struct error *error)
{
    const double whole = search->bound;
    double slack = 0x1p-9;
    while (search->taken.load == INFINITY && search->bound < INFINITY && !search->is_ended) {
        if (!decide(search, whole > 0 && slack < 64 ? whole * (1 + slack) : INFINITY, error))
            return false;
        slack *= slack < 0x1p-5 ? 4 : 1.5;
    }
    return true;
}

// Halves the distance, and asks in between whether anything is below the plan itself.
static bool find_best(struct search *search, struct error *error)
{
    for (bool halve = true; search->bound < search->taken.load && !search->is_ended; halve = !halve) {
        const double load = search->taken.load, left = load - search->bound;
        if (left > NEAR * load)
            halve = true;
        if (!decide(search, halve ? search->bound + left / 2 : load, error))
            return false;
    }
    return true;
}

static struct bottleneck_result *plan(struct search *search, struct error *error)
{
    search->bound = least_load(search);
    if (!find_any(search, error) || !find_best(search, error))
        return NULL;
    if (search->taken.load < INFINITY)
        return answer(search, certain_bound(search), error);
    refuse(search, search->bound, error);
    return NULL;
}

struct bottleneck_result *tps_search(const struct bottleneck_request *request, struct error *error)
{
    struct search search = { 0 };
    struct bottleneck_result *result = search_create(&search, request, error) ? plan(&search, error) : NULL;
    search_clear(&search);
    return result;
}
