// What no plan of any arrangement can beat where the schedule never flushes: crew_bound.h
// with stages that are not known. A dynamic program over layers and ranks, from the last
// stage up, keeps the least of the largest path of a stage:
//
//     largest[l][w]    layers from l on, on exactly w ranks
//
// A stage of it is known but for where the path comes from, the last stage of the run of
// 2m. That is tried: each number of ranks of stage 0, and each other stage that may be it,
// by its ranks and those behind it; then all plans that have such a stage are looked at.
//
// Where that takes too many steps, all begin with the latest micro-batch that it can be, in
// front of a stage or behind it, the lesser of both; or only the work is averaged over the
// ranks: r ranks that have n / r rounds of F and B left do at least n of each.
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/arrangement/arrangement_async.h"
#include "partitioner/arrangement/arrangement_floor.h"
#include "partitioner/coupled/crew_bound.h"
#include "partitioner/holding_cost.h"

typedef unsigned __int128 wide;

enum { MOST_STEPS = 1000000000 };

// Where paths come from: the micro-batch that they meet first, from a stage in front and
// from one behind.
struct origin {
    uint64_t forward, backward;
    uint32_t copies, ranks;  // of that stage, and from it on; 0: not known, then the micro-batches are the latest
    bool is_first;           // it is stage 0
};

struct rests;
struct async_floor {
    const struct arrangement_bounds *bounds;
    uint32_t layers, ranks, most;  // most: ranks of a stage
    uint64_t *forward, *backward;  // running totals of the least variants on the fastest device; layers + 1
    uint64_t *way;                 // over a cut; layers + 1
    uint64_t *largest;             // [layer * (ranks + 1) + ranks]
    struct rests *rests;           // of a stage: [ranks from it on * (ranks + 1) + ranks of its own]
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t within(const struct async_floor *floor, uint64_t ns)
{
    return crew_within(ns, floor->bounds->request->micro_batches, floor->layers + 1);
}

// --- a stage ----------------------------------------------------------------------------

static uint64_t reduce_of(const struct async_floor *floor, uint32_t copies, uint32_t first, uint32_t end)
{
    const struct search_request *request = floor->bounds->request;
    const uint64_t *weights = floor->bounds->least.weights;
    const struct cluster_level *level = &request->cluster->levels[0];
    const uint64_t bytes = holding_reduced_bytes(&request->holding, copies, weights[end] - weights[first]);
    if (copies < 2 || bytes == 0 || request->cluster->level_count == 0)
        return 0;
    return within(floor, transfer_ns(multiply_clamped(copies - 1, bytes), level->bytes_per_second, level->latency_ns));
}

// Of a latest micro-batch the rank that has least left counts: the last of the stage.
static struct crew_rest rest_of(const struct origin *origin, const struct crew_run *run, bool is_forward)
{
    const uint64_t i = is_forward ? origin->forward : origin->backward;
    return crew_rest_from(run, origin->copies > 0 ? i : i + (run->copies - 1 - i % run->copies), is_forward);
}

// Whether the stage where paths come from is this one and has no forward left, or is behind it.
static bool comes_back(const struct async_floor *floor, const struct origin *origin, const struct crew_run *run)
{
    const uint64_t all = 3 * (uint64_t)floor->bounds->request->micro_batches;
    return run->ranks > origin->ranks || (run->ranks == origin->ranks && origin->forward >= all);
}

// What a stage may have left, of which the lesser counts.
struct rests {
    struct crew_rest of[2];
    uint32_t count;
};

static struct rests rests_of(const struct async_floor *floor, const struct origin *origin, const struct crew_run *run)
{
    const struct crew_rest down = rest_of(origin, run, true), up = rest_of(origin, run, false);
    if (origin->copies > 0)
        return (struct rests){ { comes_back(floor, origin, run) ? up : down }, 1 };
    return (struct rests){ { down, up }, origin->is_first ? 1 : 2 };
}

// What is the same for all ends of a stage.
struct start {
    const struct origin *origin;
    const struct rests *rests;
    uint32_t first, copies;
};

static struct crew_place place_of(const struct async_floor *floor, const struct start *start, uint32_t end)
{
    const uint32_t layers = floor->layers, first = start->first;
    const uint64_t in_way = first > 0 ? floor->way[first] : 0, out_way = end < layers ? floor->way[end] : 0;
    return (struct crew_place){
        .forward_ns = floor->forward[end] - floor->forward[first],
        .backward_ns = floor->backward[end] - floor->backward[first],
        .reduce_ns = reduce_of(floor, start->copies, first, end),
        .before_ns = floor->backward[first] + in_way + (start->origin->is_first ? floor->forward[first] + in_way : 0),
        .after_ns = floor->forward[layers] - floor->forward[end] + floor->backward[layers] - floor->backward[end]
                  + 2 * out_way,
    };
}

static uint64_t path_of(const struct async_floor *floor, const struct start *start, uint32_t end)
{
    const struct crew_place place = place_of(floor, start, end);
    const uint64_t path = crew_path(&start->rests->of[0], &place);
    const uint64_t other = start->rests->count > 1 ? crew_path(&start->rests->of[1], &place) : path;
    return other < path ? other : path;
}

// Its work alone, which only grows with more layers.
static uint64_t work_of(const struct async_floor *floor, const struct start *start, uint32_t end)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < start->rests->count; i++) {
        const struct crew_rest *rest = &start->rests->of[i];
        const uint64_t work = rest->forwards * (floor->forward[end] - floor->forward[start->first])
                            + rest->backwards * (floor->backward[end] - floor->backward[start->first]);
        least = work < least ? work : least;
    }
    return least;
}

// --- all stages ---------------------------------------------------------------------------

static uint64_t *largest_at(const struct async_floor *floor, uint32_t layer, uint32_t ranks)
{
    return &floor->largest[(size_t)layer * (floor->ranks + 1) + ranks];
}

static struct rests *rests_at(const struct async_floor *floor, uint32_t ranks, uint32_t copies)
{
    return &floor->rests[(size_t)ranks * (floor->ranks + 1) + copies];
}

// The least for layers from the stage's first on whose first stage has so many of the ranks, if below `best`.
static uint64_t least_with(const struct async_floor *floor, const struct start *start, uint32_t ranks, uint64_t best)
{
    for (uint32_t end = start->first + 1; end <= floor->layers; end++) {
        const uint64_t behind = *largest_at(floor, end, ranks - start->copies);
        if (!floor->bounds->can_cut[end] || behind >= best)
            continue;
        if (work_of(floor, start, end) >= best)
            break;
        const uint64_t most = larger(behind, path_of(floor, start, end));
        best = most < best ? most : best;
    }
    return best;
}

// Whether plans with this stage can have the one where paths come from.
static bool has_origin(const struct origin *origin, uint32_t ranks, uint32_t copies)
{
    if (origin->copies == 0 || ranks < origin->ranks)
        return true;
    return ranks == origin->ranks ? copies == origin->copies : ranks - copies >= origin->ranks;
}

static void begin_from(struct async_floor *floor, const struct origin *origin)
{
    for (uint32_t l = 0; l <= floor->layers; l++)
        for (uint32_t w = 0; w <= floor->ranks; w++)
            *largest_at(floor, l, w) = UINT64_MAX;
    *largest_at(floor, floor->layers, 0) = 0;
    for (uint32_t w = 1; w <= floor->ranks; w++) {
        for (uint32_t copies = 1; copies <= w && copies <= floor->most; copies++) {
            const struct crew_run run = { floor->bounds->request->micro_batches, copies, w };
            *rests_at(floor, w, copies) = rests_of(floor, origin, &run);
        }
    }
}

// Of all plans whose paths come from there; only below `limit_ns` is it told.
static void fill_largest(struct async_floor *floor, const struct origin *origin, uint64_t limit_ns)
{
    begin_from(floor, origin);
    for (uint32_t l = floor->layers; l-- > 0;) {
        for (uint32_t w = 1; w <= floor->ranks && floor->bounds->can_cut[l]; w++) {
            uint64_t best = limit_ns;
            for (uint32_t copies = 1; copies <= w && copies <= floor->most; copies++) {
                const struct start start = { origin, rests_at(floor, w, copies), l, copies };
                if (has_origin(origin, w, copies))
                    best = least_with(floor, &start, w, best);
            }
            *largest_at(floor, l, w) = best;
        }
    }
}

// --- where paths come from ------------------------------------------------------------------

// The latest origin over stages of `from` to `to` ranks with up to `ranks` from theirs on.
static struct origin latest_origin(const struct async_floor *floor, uint32_t from, uint32_t to, uint32_t ranks)
{
    struct origin origin = { 0 };
    for (uint32_t copies = from; copies <= to; copies++) {
        const struct crew_run run = { floor->bounds->request->micro_batches, copies, ranks };
        origin.forward = larger(origin.forward, crew_next_forward(&run));
        origin.backward = larger(origin.backward, crew_next_backward(&run));
    }
    return origin;
}

// Whether only `ranks` ranks are looked at, and not fewer, too.
static uint32_t least_ranks(const struct async_floor *floor)
{
    return floor->bounds->request->free.fewer ? 1 : floor->ranks;
}

// The least of all plans whose paths come from there, if below `least`.
static uint64_t least_from(struct async_floor *floor, const struct origin *origin, uint64_t least)
{
    fill_largest(floor, origin, least);
    for (uint32_t w = least_ranks(floor); w <= floor->ranks; w++)
        least = *largest_at(floor, 0, w) < least ? *largest_at(floor, 0, w) : least;
    return least;
}

static struct origin known_origin(const struct async_floor *floor, uint32_t copies, uint32_t ranks)
{
    struct origin origin = latest_origin(floor, copies, copies, ranks);
    origin.copies = copies;
    origin.ranks = ranks;
    return origin;
}

// Of a stage other than the first one, all that can be the last of a run.
static uint32_t least_copies(const struct async_floor *floor)
{
    return holding_is_plain(&floor->bounds->request->holding) ? 2 : 1;
}

static uint64_t from_known(struct async_floor *floor)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t copies = 1; copies <= floor->most; copies++) {
        struct origin origin = known_origin(floor, copies, floor->ranks);
        origin.is_first = true;
        least = least_from(floor, &origin, least);
    }
    for (uint32_t ranks = 1; ranks < floor->ranks; ranks++) {
        for (uint32_t copies = least_copies(floor); copies <= ranks && copies <= floor->most; copies++) {
            const struct origin origin = known_origin(floor, copies, ranks);
            least = least_from(floor, &origin, least);
        }
    }
    return least;
}

static uint64_t from_latest(struct async_floor *floor)
{
    struct origin origin = latest_origin(floor, 1, floor->most, floor->ranks);
    origin.is_first = true;
    const uint64_t first = least_from(floor, &origin, UINT64_MAX);
    if (floor->ranks < 2 || floor->most < least_copies(floor))
        return first;
    const uint32_t most = floor->most < floor->ranks ? floor->most : floor->ranks - 1;
    origin = latest_origin(floor, least_copies(floor), most, floor->ranks - 1);
    return least_from(floor, &origin, first);
}

// The work of all that is left, wherever paths come from.
static uint64_t average(const struct async_floor *floor)
{
    const uint64_t run = 3 * (uint64_t)floor->bounds->request->micro_batches;
    const struct origin origin = latest_origin(floor, 1, floor->most, floor->ranks);
    const uint64_t down = run > origin.forward ? run - origin.forward : 0;
    const uint64_t up = run > origin.backward ? run - origin.backward : 0;
    // From behind, as many forwards less as are ahead: no more than ranks and a round.
    const uint64_t backwards = down < up ? down : up, ahead = 2 * (uint64_t)floor->ranks;
    const uint64_t forwards = down < up - (up < ahead ? up : ahead) ? down : up - (up < ahead ? up : ahead);
    const wide work = (wide)floor->forward[floor->layers] * forwards + (wide)floor->backward[floor->layers] * backwards;
    return (uint64_t)(work / floor->ranks);
}

// --- the whole --------------------------------------------------------------------------------

// On the fastest device, rounded down.
static void see_cluster(struct async_floor *floor)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const struct cluster *cluster = bounds->request->cluster;
    uint64_t speed = 1;
    for (size_t i = 0; i < cluster->device_count; i++)
        speed = larger(speed, cluster->devices[i].speed_permille);
    for (uint32_t l = 0; l <= floor->layers; l++) {
        floor->forward[l] = within(floor, (uint64_t)((wide)bounds->least.forward[l] * 1000 / speed));
        floor->backward[l] = within(floor, (uint64_t)((wide)bounds->least.backward[l] * 1000 / speed));
        floor->way[l] = cluster->level_count == 0 ? 0 : within(floor, bounds->way[l]);
    }
}

// Links of one level are nobody's but two devices'; of groups of devices less is known.
static bool is_known(const struct arrangement_bounds *bounds)
{
    for (size_t i = 0; i < bounds->names->count; i++)
        if (bounds->names->devices[i] > 1)
            return false;
    return bounds->request->cluster->level_count <= 1 && bounds->generator->takes_replicas;
}

static void raise_bound(struct async_floor *floor, uint64_t *bound_ns)
{
    const wide once = (wide)floor->layers * floor->layers / 2 * floor->ranks * floor->most / 2;
    *bound_ns = average(floor);
    if (2 * once > MOST_STEPS)
        return;
    const bool knows = !floor->bounds->request->free.fewer && once * floor->ranks * floor->most / 2 <= MOST_STEPS;
    const uint64_t least = knows ? from_known(floor) : from_latest(floor);
    *bound_ns = least == UINT64_MAX ? *bound_ns : larger(*bound_ns, least);
}

static void floor_close(struct async_floor *floor)
{
    free(floor->forward);
    free(floor->backward);
    free(floor->way);
    free(floor->largest);
    free(floor->rests);
}

static bool floor_open(struct async_floor *floor, const struct arrangement_bounds *bounds, struct error *error)
{
    const struct search_request *request = bounds->request;
    *floor = (struct async_floor){ .bounds = bounds, .layers = bounds->layers, .ranks = request->ranks };
    floor->most = !request->free.replicas && !request->replicas ? 1
                : request->ranks < request->micro_batches       ? request->ranks
                                                                : request->micro_batches;
    floor->forward = calloc((size_t)floor->layers + 1, sizeof floor->forward[0]);
    floor->backward = calloc((size_t)floor->layers + 1, sizeof floor->backward[0]);
    floor->way = calloc((size_t)floor->layers + 1, sizeof floor->way[0]);
    floor->largest = calloc(((size_t)floor->layers + 1) * ((size_t)floor->ranks + 1), sizeof floor->largest[0]);
    floor->rests = calloc(((size_t)floor->ranks + 1) * ((size_t)floor->ranks + 1), sizeof floor->rests[0]);
    if (floor->forward && floor->backward && floor->way && floor->largest && floor->rests) {
        see_cluster(floor);
        return true;
    }
    floor_close(floor);
    return error_no_memory(error, "the bounds of a plan");
}

bool arrangement_async_floor(const struct arrangement_bounds *bounds, uint64_t *bound_ns, struct error *error)
{
    struct async_floor floor;
    *bound_ns = 0;
    if (!is_known(bounds))
        return true;
    if (!floor_open(&floor, bounds, error))
        return false;
    raise_bound(&floor, bound_ns);
    floor_close(&floor);
    return true;
}

bool arrangement_async_average(const struct search_request *request, uint64_t *bound_ns, struct error *error)
{
    struct arrangement_names names;
    struct async_floor floor;
    *bound_ns = 0;
    if (!arrangement_names_read(request, &names, error))
        return false;
    struct arrangement_bounds *bounds = arrangement_bounds_create(request, &names, error);
    bool good = bounds != NULL;
    if (good && is_known(bounds) && (good = floor_open(&floor, bounds, error))) {
        *bound_ns = average(&floor);
        floor_close(&floor);
    }
    arrangement_bounds_free(bounds);
    return good;
}
