// What no plan of any arrangement can beat where the schedule never flushes: crew_bound.h
// with stages that are not known. A dynamic program over layers and ranks, from the last
// stage up, keeps the least of the largest path of a stage:
//
//     worths[l][w]    layers from l on, on exactly w ranks
//
// A stage of it is known but for where the path comes from, the last stage of the run of
// 2m. That is tried: each number of ranks of stage 0, and each other stage that may be it,
// by its ranks and those behind it; then all plans that have such a stage are looked at.
//
// Where that takes too many steps, all begin with the latest micro-batch that it can be, in
// front of a stage or behind it, the lesser of both; or only the work is averaged over the
// ranks: r ranks that have n / r rounds of F and B left do at least n of each.
//
// Where devices are in groups, a cut may be between two of them, on a link that others
// share: then what the shorter run may wait for there goes off the path (crew_bound.h).
// Where devices are not chosen the seats of a stage say which of its micro-batches go so:
//
//     node 0       | node 1                    of five copies, two with node 0 in front of them
//     [ 0   1   2  |  3   4 ] 5 ...            and three with node 1 behind them
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/arrangement/arrangement_async.h"
#include "partitioner/arrangement/arrangement_async_floor.h"
#include "partitioner/holding_cost.h"

typedef unsigned __int128 wide;

enum { MOST_STEPS = 1000000000 };

// Where paths come from: the micro-batch that they meet first, from a stage in front and
// from one behind.
struct origin {
    uint64_t forward, backward;
    uint32_t copies, ranks;  // of that stage, and from it on; 0: not known, then the micro-batches are the latest
    bool is_first;           // it is stage 0
    uint32_t first_copies;   // of stage 0; 0: any
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// --- a stage ----------------------------------------------------------------------------

static uint64_t reduce_of(const struct async_floor *floor, uint32_t copies, uint32_t first, uint32_t end)
{
    const struct search_request *request = floor->bounds->request;
    const struct totals *least_of = &floor->bounds->least;
    const uint64_t weights = totals_between(least_of->weights, least_of->most_weights, first, end);
    if (request->cluster->level_count == 0)
        return 0;
    uint64_t least = UINT64_MAX, span = 1;
    for (size_t i = 0; i < request->cluster->level_count; i++) {
        const struct cluster_level *level = &request->cluster->levels[i];
        span = multiply_clamped(span, level->size);
        const struct link link = { level->latency_ns, level->bytes_per_second };
        const uint64_t ns = holding_reduce_ns(&request->holding, copies, weights, link);
        least = copies <= span && ns < least ? ns : least;
    }
    return least == UINT64_MAX ? 0 : async_floor_within(floor, least);
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

// What a stage may have left, of which the lesser counts; and of how many micro-batches messages go to another node
// over the cut in front and the cut behind: of late ones, and of those that are carried back.
struct rests {
    struct crew_rest of[2];
    uint32_t count;
    uint64_t late_in, late_out, carried_in, carried_out;
};

static struct rests rests_of(const struct async_floor *floor, const struct origin *origin, const struct crew_run *run)
{
    const struct crew_rest down = rest_of(origin, run, true), up = rest_of(origin, run, false);
    if (origin->copies > 0)
        return (struct rests){ .of = { comes_back(floor, origin, run) ? up : down }, .count = 1 };
    return (struct rests){ .of = { down, up }, .count = origin->is_first ? 1 : 2 };
}

// What is the same for all ends of a stage.
struct start {
    const struct origin *origin;
    const struct rests *rests;
    uint32_t first, copies;
    bool is_last;  // paths come from it, and it is not stage 0
};

static struct crew_place place_of(const struct async_floor *floor, const struct start *start, uint32_t end)
{
    const uint32_t layers = floor->layers, first = start->first;
    const uint64_t in_way = first > 0 ? floor->way[first] : 0, out_way = end < layers ? floor->way[end] : 0;
    return (struct crew_place){
        .forward_ns = totals_between(floor->forward, floor->most_forward, first, end),
        .backward_ns = totals_between(floor->backward, floor->most_backward, first, end),
        .reduce_ns = reduce_of(floor, start->copies, first, end),
        .before_ns = floor->backward[first] + in_way + (start->origin->is_first ? floor->forward[first] + in_way : 0),
        .after_ns = totals_between(floor->forward, floor->most_forward, end, layers)
                  + totals_between(floor->backward, floor->most_backward, end, layers) + 2 * out_way,
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
    const uint64_t f = totals_between(floor->forward, floor->most_forward, start->first, end);
    const uint64_t b = totals_between(floor->backward, floor->most_backward, start->first, end);
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < start->rests->count; i++) {
        const struct crew_rest *rest = &start->rests->of[i];
        const uint64_t work = rest->forwards * f + rest->backwards * b;
        least = work < least ? work : least;
    }
    return least;
}

// --- all stages ---------------------------------------------------------------------------

static struct crew_worths *worths_at(const struct async_floor *floor, uint32_t layer, uint32_t ranks)
{
    return &floor->worths[(size_t)layer * (floor->ranks + 1) + ranks];
}

static struct rests *rests_at(const struct async_floor *floor, uint32_t ranks, uint32_t copies)
{
    return &floor->rests[(size_t)ranks * (floor->ranks + 1) + copies];
}

// What late messages over the cuts of a stage may make the path of the shorter run longer.
static uint64_t late_of(const struct async_floor *floor, const struct start *start, uint32_t end)
{
    const uint64_t in = multiply_clamped(2 * start->rests->late_in, floor->shared[start->first]);
    return add_clamped(in, multiply_clamped(2 * start->rests->late_out, floor->shared[end]));
}

// The links that all go back over share them, none of them quicker.
static uint64_t carried_of(const struct async_floor *floor, const struct start *start, uint32_t end)
{
    const uint64_t links = floor->shared_links / 2;
    const uint64_t in = multiply_clamped(start->rests->carried_in, floor->least_shared[start->first]);
    const uint64_t out = multiply_clamped(start->rests->carried_out, floor->least_shared[end]);
    return links == 0 ? 0 : add_clamped(in, out) / links;
}

// Whether the run of 2m can end with this stage: adding up takes it longer than B still takes on the way to stage 0.
static bool can_be_last(const struct async_floor *floor, const struct start *start, uint32_t end)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const struct cluster *cluster = bounds->request->cluster;
    const struct holding *holding = &bounds->request->holding;
    if (bounds->names->count > 1 || !holding_is_plain(holding))
        return true;
    const uint64_t weights = bounds->least.most_weights[end] - bounds->least.weights[start->first];  // at most
    uint64_t most = 0;
    for (size_t i = 0; i < cluster->level_count; i++) {
        const struct link link = { cluster->levels[i].latency_ns, cluster->levels[i].bytes_per_second };
        most = larger(most, holding_reduce_ns(holding, start->copies, weights, link));
    }
    return most > floor->backward[start->first] + floor->way[start->first];
}

// A stage up to `end` in front of all that is known behind it. False where it has more work than the limit, and so
// have longer ones.
static bool take_end(const struct async_floor *floor, const struct start *start, uint32_t ranks, uint32_t end,
                     uint64_t limit_ns)
{
    const struct crew_worths *behind = worths_at(floor, end, ranks - start->copies);
    struct crew_worths *to = worths_at(floor, start->first, ranks);
    const uint64_t late = late_of(floor, start, end);
    uint64_t path = UINT64_MAX;
    for (uint32_t i = 0; i < behind->count; i++) {
        const uint64_t late_so_far = add_clamped(behind->at[i].late, late);
        if (behind->at[i].most >= limit_ns || crew_worths_beat(to, behind->at[i].most, late_so_far))
            continue;
        if (path == UINT64_MAX && work_of(floor, start, end) >= limit_ns)
            return false;
        if (path == UINT64_MAX && start->is_last && !can_be_last(floor, start, end))
            break;
        if (path == UINT64_MAX)
            path = larger(path_of(floor, start, end), carried_of(floor, start, end));
        if (path < limit_ns)
            crew_worths_note(to, larger(behind->at[i].most, path), late_so_far);
    }
    return true;
}

// Whether plans with this stage can have the one where paths come from.
static bool has_origin(const struct async_floor *floor, const struct origin *origin, uint32_t ranks, uint32_t copies)
{
    if (origin->first_copies > 0 && ranks == floor->ranks && copies != origin->first_copies)
        return false;
    if (origin->copies == 0 || ranks < origin->ranks)
        return true;
    return ranks == origin->ranks ? copies == origin->copies : ranks - copies >= origin->ranks;
}

// How many of the micro-batches [from, to) are dealt to the copies below `some` of so many.
static uint64_t dealt_below(uint64_t from, uint64_t to, uint32_t copies, uint32_t some)
{
    const uint64_t before = from / copies * some + smaller(from % copies, some);
    return to / copies * some + smaller(to % copies, some) - before;
}

// From which micro-batch on all are carried back over a cut, in front of where paths come from or behind it.
static uint64_t carried_from(const struct origin *origin, bool is_in_front)
{
    return is_in_front && origin->copies > 0 ? origin->backward : origin->forward;
}

// Fills in what goes to another node: of a micro-batch whose seat is not in that of the first seat behind the stage, or
// not in that of its own first one. (If both is so of neighbours, it counts twice.)
static void see_seats(const struct async_floor *floor, const struct origin *origin, uint32_t ranks, uint32_t copies,
                      struct rests *rests)
{
    const uint64_t m = floor->bounds->request->micro_batches, first_late = 2 * m - floor->late;
    const uint32_t seat = floor->ranks - ranks, behind = seat + copies;
    if (floor->shared_links == 0)
        return;
    if (!floor->node) {
        rests->late_out = floor->late;
        return;
    }
    uint32_t own = 0, others = 0;
    while (own < copies && floor->node[seat + own] == floor->node[seat])
        own++;
    while (behind < floor->ranks && others < copies && floor->node[seat + others] != floor->node[behind])
        others++;
    rests->late_in = seat > 0 ? floor->late - dealt_below(first_late, 2 * m, copies, own) : 0;
    rests->late_out = dealt_below(first_late, 2 * m, copies, others);
    const uint64_t in = smaller(carried_from(origin, ranks >= origin->ranks), 3 * m);
    const uint64_t out = smaller(carried_from(origin, ranks > origin->ranks), 3 * m);
    rests->carried_in = seat > 0 ? 3 * m - in - dealt_below(in, 3 * m, copies, own) : 0;
    rests->carried_out = dealt_below(out, 3 * m, copies, others);
}

static void begin_from(struct async_floor *floor, const struct origin *origin)
{
    const size_t cells = ((size_t)floor->layers + 1) * (floor->ranks + 1);
    for (size_t i = 0; i < cells; i++)
        floor->worths[i].count = 0;
    crew_worths_note(worths_at(floor, floor->layers, 0), 0, 0);
    for (uint32_t w = 1; w <= floor->ranks; w++) {
        for (uint32_t copies = 1; copies <= w && copies <= floor->most; copies++) {
            const struct crew_run run = { floor->bounds->request->micro_batches, copies, w };
            struct rests *rests = rests_at(floor, w, copies);
            *rests = rests_of(floor, origin, &run);
            see_seats(floor, origin, w, copies, rests);
        }
    }
}

// Of one stage's first layer, and so many ranks from it on. Only below the limit is it told; where links are not
// shared nothing goes off a path, and what is above the best is not looked at.
static void fill_place(struct async_floor *floor, const struct origin *origin, uint32_t first, uint32_t ranks,
                       uint64_t limit_ns)
{
    const struct crew_worths *to = worths_at(floor, first, ranks);
    for (uint32_t copies = 1; copies <= ranks && copies <= floor->most; copies++) {
        const bool is_last = origin->copies > 0 && !origin->is_first && ranks == origin->ranks;
        const struct start start = { origin, rests_at(floor, ranks, copies), first, copies, is_last };
        if (!has_origin(floor, origin, ranks, copies))
            continue;
        for (uint32_t end = first + !floor->bounds->may_be_empty; end <= floor->layers; end++) {
            const bool is_limited = floor->shared_links == 0 && to->count > 0 && to->at[0].most < limit_ns;
            if (floor->bounds->can_cut[end]
                && !take_end(floor, &start, ranks, end, is_limited ? to->at[0].most : limit_ns))
                break;
        }
    }
}

// Once it is, what was being filled says nothing.
static bool is_over(struct async_floor *floor)
{
    floor->is_over = floor->is_over || arrangement_bounds_are_over(floor->bounds);
    return floor->is_over;
}

// Of all plans whose paths come from there.
static void fill_worths(struct async_floor *floor, const struct origin *origin, uint64_t limit_ns)
{
    begin_from(floor, origin);
    for (uint32_t l = floor->layers + floor->bounds->may_be_empty; l-- > 0 && !is_over(floor);)
        for (uint32_t w = 1; w <= floor->ranks && floor->bounds->can_cut[l]; w++)
            fill_place(floor, origin, l, w, floor->shared_links > 0 ? UINT64_MAX : limit_ns);
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

// Of how many micro-batches of the shorter run messages may be late: with as many copies of stage 0 as paths come from,
// or any number in front of these.
static void count_late(struct async_floor *floor, const struct origin *origin)
{
    floor->late = 0;
    for (uint32_t copies = 1; copies <= floor->most; copies++) {
        const struct crew_run first = { floor->bounds->request->micro_batches, copies, floor->ranks };
        if ((origin->first_copies == 0 || origin->first_copies == copies)
            && (origin->is_first || copies + origin->ranks <= floor->ranks))
            floor->late = larger(floor->late, crew_late(&first));
    }
}

// The least of all plans whose paths come from there, if below `least`.
static uint64_t least_from(struct async_floor *floor, const struct origin *origin, uint64_t least)
{
    count_late(floor, origin);
    fill_worths(floor, origin, least);
    for (uint32_t w = least_ranks(floor); w <= floor->ranks; w++) {
        const uint64_t worth = crew_worths_least(worths_at(floor, 0, w));
        least = worth < least ? worth : least;
    }
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

// Behind stage 0; where links are shared and that is not enough, it is asked for each number of its copies.
static uint64_t least_from_stage(struct async_floor *floor, const struct origin *origin, uint64_t least)
{
    const uint64_t of_any = least_from(floor, origin, least);
    uint64_t of_each = least;
    for (uint32_t copies = 1; of_any < least && copies + origin->ranks <= floor->ranks; copies++) {
        struct origin known = *origin;
        known.first_copies = copies;
        of_each = floor->shared_links > 0 ? least_from(floor, &known, of_each) : of_any;
    }
    return of_each;
}

static uint64_t from_known(struct async_floor *floor)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t copies = 1; copies <= floor->most; copies++) {
        struct origin origin = known_origin(floor, copies, floor->ranks);
        origin.is_first = true;
        origin.first_copies = copies;
        least = least_from(floor, &origin, least);
    }
    for (uint32_t ranks = 1; ranks < floor->ranks && !floor->is_over; ranks++) {
        for (uint32_t copies = least_copies(floor); copies <= ranks && copies <= floor->most; copies++) {
            const struct origin origin = known_origin(floor, copies, ranks);
            least = least_from_stage(floor, &origin, least);
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

// The work of all that is left, wherever paths come from; 0 where links are shared, for nothing is known of the cuts,
// and so of what goes off it.
static uint64_t average(const struct async_floor *floor)
{
    if (floor->shared_links > 0)
        return 0;
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

// Of ranks that are groups of devices less is known.
static bool is_known(const struct arrangement_bounds *bounds)
{
    for (size_t i = 0; i < bounds->names->count; i++)
        if (bounds->names->devices[i] > 1)
            return false;
    return bounds->generator->takes_replicas;
}

static void raise_to(const struct async_floor *floor, uint64_t least, uint64_t *bound_ns)
{
    if (!floor->is_over && least != UINT64_MAX)
        *bound_ns = larger(*bound_ns, least);
}

static bool raise_bound(struct async_floor *floor, uint64_t *bound_ns)
{
    const wide once = (wide)floor->layers * floor->layers / 2 * floor->ranks * floor->most / 2;
    const wide steps = floor->shared_links > 0 ? once * CREW_MOST_WORTHS : once;
    *bound_ns = average(floor);
    if (2 * steps > MOST_STEPS)
        return true;
    const size_t row = (size_t)floor->ranks + 1;
    floor->worths = calloc(((size_t)floor->layers + 1) * row, sizeof floor->worths[0]);
    floor->rests = calloc(row * row, sizeof floor->rests[0]);
    if (!floor->worths || !floor->rests)
        return false;
    const bool knows = !floor->bounds->request->free.fewer && steps * floor->ranks * floor->most / 2 <= MOST_STEPS;
    const bool may_end = floor->bounds->until_ns > 0;  // then what is quickly known comes first
    if (!knows || may_end)
        raise_to(floor, from_latest(floor), bound_ns);
    if (knows && !floor->is_over)
        raise_to(floor, from_known(floor), bound_ns);
    return true;
}

bool arrangement_async_floor(const struct arrangement_bounds *bounds, uint64_t *bound_ns, struct error *error)
{
    struct async_floor floor;
    *bound_ns = 0;
    if (!is_known(bounds))
        return true;
    if (!async_floor_open(&floor, bounds, error))
        return false;
    const bool good = raise_bound(&floor, bound_ns);
    async_floor_close(&floor);
    return good || error_no_memory(error, "the bounds of a plan");
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
    if (good && is_known(bounds) && (good = async_floor_open(&floor, bounds, error))) {
        *bound_ns = average(&floor);
        async_floor_close(&floor);
    }
    arrangement_bounds_free(bounds);
    return good;
}
