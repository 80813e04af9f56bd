// The search of Piper's model (tps.h), from the last stage to the first, since what a stage
// holds depends on the replicas behind it:
//
//     {}         inner              outer           all
//      |            |---- a stage ----|-- k, s ------|      best[inner][k + t d][s + d]
//
// best[outer][k][s] is the least largest load of stages for all that is not in `outer`, on
// k machines with s replicas in all. States that some other one is no worse than in
// machines, replicas and load are not continued; nor what the machines left cannot do
// below the limit, which begins near the least that even spreading takes and grows.
//
// Which ways a stage's layers run is a knapsack where memory is short. A run takes its
// linear relaxation, so that the plan it finds is no worse than any; its stages are then
// priced exactly, and it is run again, until a plan holds at its exact price.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/bottleneck/tps_floor.h"

// How a state is continued best.
struct next {
    uint32_t outer, replicas, degree;
};

struct live {  // a state worth continuing
    uint32_t machines, replicas;
    double load;
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
    double *best;
    struct next *next;
    struct live *live;
    size_t live_count;
    double *row;         // the least load so far, by replicas
    double *price_at;    // of the stage in hand, by micro-batches in flight; NAN: not asked
    double *floor_at;    // the same of its floor
    uint32_t *divisors;  // of the micro-batches, rising: the replicas there may be
    size_t divisor_count;
    struct downset_walk walk;
    double limit;
    struct path found, taken;  // the run's, and the best at exact prices
    bool is_settled;     // nothing is below what was taken
    bool interrupted, gave_up;
};

static void search_clear(struct search *search)
{
    tps_floors_free(search->floors);
    tps_prices_free(search->prices);
    cut_view_clear(&search->view);
    downset_walk_clear(&search->walk);
    free(search->best);
    free(search->next);
    free(search->live);
    free(search->row);
    free(search->price_at);
    free(search->floor_at);
    free(search->divisors);
    free(search->found.stages);
    free(search->taken.stages);
}

static bool fill_table(struct search *search, struct error *error)
{
    const size_t count = search->view.downsets->count;
    search->width = (size_t)search->most_replicas + 1;
    search->is_plain = search->degree_count == 1 && search->degrees[0] == 1;
    search->states = search->is_plain ? search->width : search->width * (search->machines + 1);
    if (search->states > CUT_MOST_BYTES / (sizeof search->best[0] + sizeof search->next[0]) / count)
        return error_set(error,
                         "%zu ways to cut the graph for each of %u machines and %u replicas take more than 1 GiB",
                         count, search->machines, search->most_replicas);
    search->best = malloc(count * search->states * sizeof search->best[0]);
    search->next = malloc(count * search->states * sizeof search->next[0]);
    search->live = calloc(search->states, sizeof search->live[0]);
    search->row = calloc(search->width, sizeof search->row[0]);
    search->price_at = calloc(search->width + 1, sizeof search->price_at[0]);
    search->floor_at = calloc(search->width + 1, sizeof search->floor_at[0]);
    search->divisors = calloc(search->width, sizeof search->divisors[0]);
    search->found.stages = calloc(search->machines, sizeof search->found.stages[0]);
    search->taken.stages = calloc(search->machines, sizeof search->taken.stages[0]);
    search->taken.load = INFINITY;
    if (!search->best || !search->next || !search->live || !search->row || !search->price_at || !search->floor_at
        || !search->divisors || !search->found.stages
        || !search->taken.stages)
        return error_no_memory(error, "a table of stages");
    for (uint32_t d = 1; d <= (search->view.request->is_straight ? 1 : search->most_replicas); d++)
        if (search->micro_batches % d == 0)
            search->divisors[search->divisor_count++] = d;
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
static size_t state_of(const struct search *search, uint32_t k, uint32_t s)
{
    return search->is_plain ? s : k * search->width + s;
}

static void list_plain(struct search *search, const double *best)
{
    double least = search->limit;
    for (uint32_t s = 0; s <= search->most_replicas; s++)
        if (best[s] < least) {
            least = best[s];
            search->live[search->live_count++] = (struct live){ s, s, best[s] };
        }
}

// Those states of a downset that no other is as good as in everything.
static void list_live(struct search *search, uint32_t downset)
{
    const double *best = search->best + downset * search->states;
    search->live_count = 0;
    if (search->is_plain) {
        list_plain(search, best);
        return;
    }
    for (size_t s = 0; s < search->width; s++)
        search->row[s] = search->limit;
    for (uint32_t k = 0; k <= search->machines; k++) {
        double least = search->limit;
        for (uint32_t s = 0; s <= search->most_replicas; s++) {
            const double load = best[k * search->width + s];
            least = search->row[s] < least ? search->row[s] : least;
            if (load < least)
                search->live[search->live_count++] = (struct live){ k, s, load };
            least = load < least ? load : least;
            search->row[s] = least;
        }
    }
}

// The price with so many in flight, asked once for each.
static bool price_stage(struct search *search, struct tps_stage *stage, uint32_t in_flight, struct tps_price *quickest,
                        double *load, struct error *error)
{
    if (in_flight <= quickest->until && quickest->until > 0) {
        *load = quickest->load;
        return true;
    }
    if (isnan(search->price_at[in_flight])) {
        struct tps_price price;
        stage->in_flight = in_flight;
        if (!tps_price(search->prices, stage, &price, error))
            return false;
        search->price_at[in_flight] = price.load;
    }
    *load = search->price_at[in_flight];
    return true;
}

// What is in `inner` needs machines of its own, and those that are left must do it.
static bool is_hopeful(const struct search *search, uint32_t inner, uint32_t machines)
{
    const uint32_t left = search->machines - machines;
    return inner == 0 || (left > 0 && (double)tps_work(search->prices, inner) < search->limit * left * (1 + 0x1p-40));
}

// A state that the stage leads to, if it could be better than what is known there.
static double *state_ahead(const struct search *search, const struct tps_stage *stage, const struct live *live)
{
    const uint32_t k = live->machines + search->degrees[stage->degree] * stage->replicas;
    const uint32_t s = live->replicas + stage->replicas;
    if (k > search->machines || s > search->most_replicas || !is_hopeful(search, stage->inner, k))
        return NULL;
    double *best = &search->best[stage->inner * search->states + state_of(search, k, s)];
    return live->load < *best && live->load < search->limit ? best : NULL;
}

// Whether the stage could be below both limits with so many in flight, as far as its floor says.
static bool is_worth_asking(struct search *search, struct tps_stage *stage, uint32_t in_flight, double below)
{
    if (isnan(search->floor_at[in_flight])) {
        stage->in_flight = in_flight;
        search->floor_at[in_flight] = tps_floor(search->floors, stage);
    }
    return search->floor_at[in_flight] < below && search->floor_at[in_flight] < search->limit;
}

static bool try_replicas(struct search *search, struct tps_stage *stage, struct error *error)
{
    const uint32_t d = stage->replicas;
    struct tps_price quickest = { 0 };
    bool is_priced = false;
    stage->in_flight = 0;  // the quickest ways, whether they fit or not
    const double floor = tps_floor(search->floors, stage);
    if (!(floor < search->limit))
        return true;
    for (uint32_t y = 0; y <= search->most_replicas / d + 1; y++)
        search->price_at[y] = search->floor_at[y] = NAN;
    for (size_t l = 0; l < search->live_count; l++) {
        const struct live *live = &search->live[l];
        const uint32_t in_flight = (live->replicas + 2 * d - 1) / d;
        double *best = state_ahead(search, stage, live), load;
        if (!best || !(floor < *best) || !is_worth_asking(search, stage, in_flight, *best))
            continue;
        stage->in_flight = 0;
        if (!is_priced && !tps_price(search->prices, stage, &quickest, error))
            return false;
        is_priced = true;
        if (!(quickest.load < *best))
            continue;
        if (!price_stage(search, stage, in_flight, &quickest, &load, error))
            return false;
        const double value = live->load > load ? live->load : load;
        if (!(value < *best) || !(value < search->limit))
            continue;
        *best = value;
        search->next[best - search->best] = (struct next){ stage->outer, d, stage->degree };
        if (stage->inner == 0)
            search->limit = value;
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
        const uint32_t least = search->live[0].machines;
        if (tps_lacking(search->prices, stage.degree, outer) != tps_lacking(search->prices, stage.degree, inner))
            continue;
        const uint32_t most = (search->machines - least) / devices;
        for (size_t i = 0; i < search->divisor_count && search->divisors[i] <= most; i++) {
            stage.replicas = search->divisors[i];
            if (time < search->limit * stage.replicas && !try_replicas(search, &stage, error))
                return false;
        }
    }
    return true;
}

static bool try_stages(struct search *search, uint32_t outer, struct error *error)
{
    const uint32_t least = search->live[0].machines;
    uint32_t most = search->machines - least, inner;
    if (search->view.request->is_straight && search->degrees[search->degree_count - 1] < most)
        most = search->degrees[search->degree_count - 1];
    downset_walk_down(&search->walk, outer);
    while (downset_walk_next(&search->walk, &inner)) {
        if (!(work_between(search, inner, outer) < search->limit * most * (1 + 0x1p-40)))
            downset_walk_prune(&search->walk);
        else if (search->view.may_cut[inner] && is_hopeful(search, inner, least + 1)
                 && !try_stage(search, inner, outer, error))
            return false;
    }
    return true;
}

static bool run(struct search *search, double limit, struct error *error)
{
    const size_t count = search->view.downsets->count;
    const volatile sig_atomic_t *interrupted = search->view.request->interrupted;
    search->limit = limit;
    for (size_t i = 0; i < count * search->states; i++)
        search->best[i] = INFINITY;
    search->best[(count - 1) * search->states] = 0;
    for (uint32_t outer = (uint32_t)count; outer-- > 1 && !search->interrupted;) {
        list_live(search, outer);
        if (search->live_count > 0 && !try_stages(search, outer, error))
            return false;
        search->interrupted = interrupted && *interrupted;
    }
    return true;
}

// The path of the run's least load, of equal ones on the fewest machines and replicas.
static bool find_path(struct search *search)
{
    double least = INFINITY;
    uint32_t k = 0, s = 0;
    for (uint32_t i = 0; i <= search->machines; i++)
        for (uint32_t j = 0; j <= search->most_replicas; j++)
            if ((!search->is_plain || i == j) && search->best[state_of(search, i, j)] < least) {
                least = search->best[state_of(search, i, j)];
                k = i;
                s = j;
            }
    search->found.load = least;
    search->found.count = 0;
    if (least == INFINITY)
        return false;
    const uint32_t all = (uint32_t)search->view.downsets->count - 1;
    for (uint32_t inner = 0; inner != all;) {
        const struct next next = search->next[inner * search->states + state_of(search, k, s)];
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

// Runs below the limit until the best plan there is taken, or nothing is left below it.
// `bound` becomes what no plan is below.
static bool settle(struct search *search, double limit, double *bound, struct error *error)
{
    for (;;) {
        if (!run(search, limit, error))
            return false;
        const bool found = find_path(search);
        if (search->interrupted)
            return true;
        *bound = found ? search->found.load : limit;
        if (!found)
            return true;
        if (!settle_path(search, error))
            return false;
        search->is_settled = search->taken.load <= search->found.load;
        if (search->is_settled)
            return true;
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
    result->proved = search->view.has_all_downsets && !search->interrupted && !search->gave_up;
    result->lower_bound_ns = result->proved || bound > result->value_ns ? result->value_ns : bound;
    if (search->interrupted)
        snprintf(result->stopped, sizeof result->stopped, "interrupted");
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

static bool refuse(const struct search *search, struct error *error)
{
    const struct profile *profile = search->view.request->profile;
    const unsigned long long memory = search->view.machines.memory_bytes;
    if (search->interrupted)
        return error_set_kind(error, ERROR_ANSWER, "interrupted before any plan was found");
    for (size_t i = 0; i < profile->layer_count; i++) {
        const uint64_t bytes = fewest_bytes(search, &profile->layers[i]);
        if (bytes > memory)
            return error_set_kind(error, ERROR_ANSWER, "layer \"%s\" alone holds %llu bytes; a machine has %llu",
                                  profile->layers[i].name, (unsigned long long)bytes, memory);
    }
    return error_set_kind(error, ERROR_ANSWER,
                          "no stages for %u machines of %llu bytes fit, in whatever way the layers run",
                          search->machines, memory);
}

// What even spreading takes, of the layers' machine time.
static double least_load(const struct search *search)
{
    return (double)tps_work(search->prices, (uint32_t)search->view.downsets->count - 1) / search->machines
         * (1 - 0x1p-40);
}

static struct bottleneck_result *plan(struct search *search, struct error *error)
{
    const double whole = least_load(search);
    double bound = whole, slack = 0x1p-9;
    for (bool is_last = false; !is_last && !search->is_settled && !search->interrupted; slack *= 4) {
        is_last = !(whole > 0) || slack > 64;
        if (!settle(search, is_last ? INFINITY : whole * (1 + slack), &bound, error))
            return NULL;
    }
    // Over one order only even spreading is certain.
    if (search->taken.load < INFINITY)
        return answer(search, search->view.has_all_downsets ? bound : whole, error);
    refuse(search, error);
    return NULL;
}

struct bottleneck_result *tps_search(const struct bottleneck_request *request, struct error *error)
{
    struct search search = { 0 };
    struct bottleneck_result *result = search_create(&search, request, error) ? plan(&search, error) : NULL;
    search_clear(&search);
    return result;
}
