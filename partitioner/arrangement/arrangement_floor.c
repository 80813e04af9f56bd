// What no plan of any arrangement can beat: the least T for which devices are enough for
// stages that all have every path of theirs within T.
//
// A stage of layers [first, end) on r ranks, each with `own` micro-batches and a of them
// in flight, is between two parts of the model of which, whatever they are cut into,
// is known what one micro-batch takes in them, on the way over the cuts, and for what they
// run again at least:
//
//     in F --> | stage | --> out (F and B)        round = F + way + out + way + B
//     in B <-- |       | <--
//
//     in F + own (F + B) + end                                     its work
//     in F + round + (own - a) F + (own - 1) B + end               once around, and work behind it; or before it,
//     in F + round + (own - 1) F + (own - a) B + end
//     in F + k round + (own - 1 - (k - 1) a) (F + B) + end         the first and the last around, others; work between
//
// where end is in B, or the time in which copies add up their gradients, and B has what must be run again at least so
// that a micro-batches fit (arrangement_memory.h). Paths only get
// shorter when a stage gives up layers at either end, when there are more ranks behind
// it, and when less is known of the ways. So of all that stages on so many devices can
// cover, from the front or from the back, only what reaches furthest with the least
// ways matters:
//
//     reach[u]     layers covered by stages on at most u devices, and their ways: over the
//                  cuts, and what they run again
//
// What reaches from one side says what a stage of the other side finds behind it.
#include "partitioner/arrangement/arrangement_reach.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/holding_cost.h"

typedef unsigned __int128 wide;

// On a device of that speed, rounded down.
static uint64_t below(uint64_t speed, uint64_t ns)
{
    return speed == 1000 ? ns : (uint64_t)((wide)ns * 1000 / speed);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// --- paths ------------------------------------------------------------------------------

// Some two of them are as far apart as so many devices must be.
uint64_t floor_reduce(const struct floor *floor, uint32_t copies, uint64_t weights)
{
    const struct search_request *request = floor->bounds->request;
    uint64_t span = 1;
    uint64_t least = floor->bounds->has_backward ? UINT64_MAX : 0;
    for (size_t i = 0; i < request->cluster->level_count; i++) {
        const struct cluster_level *level = &request->cluster->levels[i];
        span = multiply_clamped(span, level->size);
        const struct link link = { level->latency_ns, level->bytes_per_second };
        const uint64_t ns = holding_reduce_ns(&request->holding, copies, weights, link);
        least = copies <= span && ns < least ? ns : least;
    }
    return least == UINT64_MAX ? 0 : least;
}

static struct counts counts_of(uint64_t own, uint64_t ahead)
{
    const uint64_t trips = (own - 1) / ahead + 1;
    return (struct counts){ own, ahead, trips, own - 1 - (trips - 1) * ahead };
}

struct counts floor_counts(const struct floor *floor, uint32_t ranks, uint32_t left)
{
    const uint32_t own = (floor->bounds->request->micro_batches + ranks - 1) / ranks, most = (left + ranks - 1) / ranks;
    return counts_of(own, most < own && !floor->is_gpipe ? most : own);
}

static uint64_t around(const struct counts *counts, uint64_t round, uint64_t f, uint64_t b)
{
    const uint64_t last = counts->own - 1, free = counts->own - counts->ahead;
    const uint64_t once = round + last * larger(f, b) + free * smaller(f, b);
    if (free == 0)
        return once;
    const uint64_t twice = 2 * round + (free - 1) * (f + b);
    return larger(larger(once, twice), counts->trips * round + counts->rest * (f + b));
}

uint64_t floor_around(uint64_t round, uint64_t own, uint64_t ahead, uint64_t f, uint64_t b)
{
    const struct counts counts = counts_of(own, ahead);
    return around(&counts, round, f, b);
}

static uint64_t must_run_again(const struct floor *floor, const struct place *place)
{
    const uint64_t ahead = place->counts.ahead;
    return floor->sums ? arrangement_sums_least(floor->sums, place->first, place->end, place->ranks, ahead,
                                                floor->capacity)
                       : arrangement_memory_least(floor->memory, place->first, place->end, place->ranks, ahead,
                                                  floor->capacity);
}

// What is in front of groups of downsets is the most there can be, which goes off the stage itself; and what is behind
// them likewise. All are in a path at least once, so that what they have together counts, and a stage that is shorter
// at either end has no longer path.
uint64_t floor_path(const struct floor *floor, const struct totals *of, struct place *place)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const uint32_t first = place->first, end = place->end;
    const uint64_t again = must_run_again(floor, place);
    if (again == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t speed = place->speed > 0 ? place->speed : floor->speed;
    const uint64_t f = below(speed, totals_between(of->forward, of->most_forward, first, end));
    const uint64_t backward = totals_between(of->backward, of->most_backward, first, end);
    const uint64_t b = below(speed, backward + again);
    const uint64_t in_front = smaller(floor->most_forward[first], floor->forward[end]);
    uint64_t inner = place->counts.own * (f + b);
    if (!bounds->has_backward)
        return in_front + place->in_ways.all + inner;
    place->again = again > 0 ? b - below(speed, backward) : 0;
    const uint64_t round = f + b + place->out_ways + floor_behind(floor, first, end);
    inner = larger(inner, around(&place->counts, round, f, b));
    const uint64_t before = in_front + place->in_ways.in + inner;
    const uint64_t way_out = place->in_ways.all - place->in_ways.in;
    const uint64_t back = smaller(floor->most_backward[first], floor->backward[end])
                        + larger(way_out + larger(place->late_in, place->late_out), place->tail);
    const uint64_t until = floor->limit_ns > before ? floor->limit_ns - before : 0;
    if (place->ranks == 1 || back > until)
        return before + back;
    const uint64_t weights = totals_between(of->weights, of->most_weights, first, end);
    return before + larger(back, place->late_in + floor_reduce(floor, place->ranks, weights));
}

uint64_t floor_again(const struct floor *floor, uint64_t again)
{
    enum { PARTS = 12000 };
    const uint64_t step = floor->limit_ns / PARTS + 1;
    return again / step * step;
}

struct ways floor_way(const struct floor *floor, uint32_t cut)
{
    return (struct ways){ floor->way[cut], floor->way[cut] / 2 };
}

struct ways ways_and(struct ways ways, uint64_t all, uint64_t in)
{
    return (struct ways){ ways.all + all, ways.in + in };
}

// --- what can be reached ------------------------------------------------------------------

// Of the first so many: what covers as much as others is also as quickly there as any of them.
static void lower_in(struct reach *reach, size_t count, uint64_t in)
{
    for (size_t i = count; i > 0 && reach->at[i - 1].ways.in > in; i--)
        reach->at[i - 1].ways.in = in;
}

// The first of those that cover so many.
static size_t first_of(const struct reach *reach, uint32_t layers)
{
    size_t low = 0, high = reach->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (reach->at[middle].layers < layers)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Whether what is known covers as much with as little; it then stands for this, too.
static bool stands_for(struct reach *reach, uint32_t layers, struct ways ways)
{
    const size_t at = first_of(reach, layers);
    if (at == reach->count || reach->at[at].ways.all > ways.all)
        return false;
    lower_in(reach, at + 1, ways.in);
    return true;
}

void floor_note(struct floor *floor, struct reach *reach, struct reached now)
{
    if (floor->bounds->is_coarse && reach->count == 1) {
        struct reached *all = &reach->at[0];
        all->layers = now.layers > all->layers ? now.layers : all->layers;
        all->ways = (struct ways){ smaller(now.ways.all, all->ways.all), smaller(now.ways.in, all->ways.in) };
        return;
    }
    if (stands_for(reach, now.layers, now.ways))
        return;
    size_t at = first_of(reach, now.layers), from;
    for (from = at; from > 0 && reach->at[from - 1].ways.all >= now.ways.all; from--)
        continue;
    if (from < reach->count)
        now.ways.in = smaller(now.ways.in, reach->at[from].ways.in);
    lower_in(reach, from, now.ways.in);
    const size_t end = at < reach->count && reach->at[at].layers == now.layers ? at + 1 : at;
    if (from == end && reach->count == reach->capacity) {
        const size_t capacity = reach->capacity ? 2 * reach->capacity : 8;
        struct reached *room = realloc(reach->at, capacity * sizeof room[0]);
        floor->failed |= !room;
        if (!room)
            return;
        reach->at = room;
        reach->capacity = capacity;
    }
    memmove(&reach->at[from + 1], &reach->at[end], (reach->count - end) * sizeof now);
    reach->count += 1 + from - end;
    reach->at[from] = now;
}

uint32_t reach_most(const struct reach *reach)
{
    return reach->count > 0 ? reach->at[reach->count - 1].layers : 0;
}

struct ways reach_least(const struct reach *reach, uint32_t layers)
{
    const size_t at = first_of(reach, layers);
    return at < reach->count ? reach->at[at].ways : (struct ways){ UINT64_MAX, UINT64_MAX };
}

uint64_t reach_least_ways(const struct reach *reach, uint32_t layers)
{
    return reach_least(reach, layers).all;
}

// A step of one side: from what is covered on so many devices, a stage of a variant on so many ranks.
struct step {
    bool from_back;
    uint32_t used, ranks, group;
    uint32_t hint;  // how far one rank less came
    const struct totals *of;
    struct reached from;
    struct counts counts;
    uint64_t again;
};

static struct place place_of(const struct floor *floor, const struct step *step, uint32_t covered)
{
    const uint32_t layers = floor->bounds->layers;
    struct place place = { .ranks = step->ranks, .counts = step->counts };
    if (step->from_back) {
        place.first = layers - covered;
        place.end = layers - step->from.layers;
        place.out_ways = step->from.ways.all;
    } else {
        place.first = step->from.layers;
        place.end = covered;
        place.in_ways = step->from.ways;
    }
    return place;
}

// Whether the stage stays within the limit if the ways over its far cut, and all behind that, are as known. Leaves what
// it must run again in the step.
static bool is_within(struct floor *floor, struct step *step, uint32_t covered, struct ways far_ways)
{
    struct place place = place_of(floor, step, covered);
    if (step->from_back)
        place.in_ways = far_ways;
    else
        place.out_ways = far_ways.all;
    floor->work++;
    const bool within = floor_path(floor, step->of, &place) <= floor->limit_ns;
    step->again = place.again;
    return within;
}

// What is known of the far side's ways; UINT64_MAX: the devices left are not enough for it.
static struct ways far_ways_of(const struct floor *floor, const struct step *step, uint32_t covered)
{
    const uint32_t layers = floor->bounds->layers, left = floor->bounds->request->ranks - step->used;
    const struct ways own = floor_way(floor, step->from_back ? layers - covered : covered);
    const struct reach *far = step->from_back ? floor->front : floor->back;
    if (step->from_back ? !floor->knows_front : !floor->knows_back)
        return own;
    const struct ways least = reach_least(&far[left - step->ranks * step->group], layers - covered);
    return (struct ways){ larger(own.all, least.all), larger(own.in, least.in) };
}

// The most layers that the step can cover whatever the ways: from where one rank less came on, in strides that grow.
static uint32_t furthest(struct floor *floor, struct step *step)
{
    uint32_t low = step->from.layers, high = floor->bounds->layers + 1, at = step->hint;
    for (uint32_t stride = 1; high - low > 1; stride *= 2) {
        if (at <= low || at >= high)
            at = low + (high - low) / 2;
        if (is_within(floor, step, at, (struct ways){ 0 })) {
            low = at;
            at += stride;
        } else {
            high = at;
            at = at > stride ? at - stride : 0;
        }
    }
    return low;
}

// `left`: ranks of it and all behind it.
static void take_step(struct floor *floor, struct reach *side, struct step *step, uint32_t left)
{
    const uint32_t layers = floor->bounds->layers;
    struct reach *to = &side[step->used + step->ranks * step->group];
    uint64_t least = UINT64_MAX;
    step->counts = floor_counts(floor, step->ranks, left);
    step->hint = furthest(floor, step);
    for (uint32_t covered = step->hint; covered > step->from.layers; covered--) {
        const uint32_t cut = step->from_back ? layers - covered : covered;
        const struct ways over = ways_and(step->from.ways, floor->way[cut], floor->way[cut] / 2);
        if (!floor->bounds->can_cut[cut] || over.all >= least)
            continue;
        if (stands_for(to, covered, over))
            continue;
        const struct ways far = far_ways_of(floor, step, covered);
        if (far.all == UINT64_MAX || !is_within(floor, step, covered, far))
            continue;
        const struct ways ways = ways_and(over, floor_again(floor, step->again), 0);
        if (ways.all >= least)
            continue;
        least = ways.all;
        floor_note(floor, to, (struct reached){ covered, ways });
    }
}

bool floor_needs_ranks(const struct floor *floor, uint32_t ranks, uint32_t left)
{
    if (ranks == 1)
        return true;
    const struct counts now = floor_counts(floor, ranks, left), fewer = floor_counts(floor, ranks - 1, left);
    const bool is_shared = floor->bounds->request->holding.shard != SHARD_NONE;
    return now.own < fewer.own || ((floor->memory || floor->sums) && (now.ahead < fewer.ahead || is_shared));
}

static void step_from(struct floor *floor, struct reach *side, bool from_back, uint32_t used)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    struct step step = { .from_back = from_back, .used = used };
    for (size_t i = 0; i < side[used].count; i++) {
        step.from = side[used].at[i];
        for (size_t v = 0; v < bounds->names->count; v++) {
            step.of = &bounds->of[v];
            step.group = bounds->names->devices[v];
            for (step.ranks = 1; step.ranks <= floor->most_ranks; step.ranks++) {
                if (used + (uint64_t)step.ranks * step.group > bounds->request->ranks)
                    break;
                const uint32_t behind = bounds->request->ranks - used - step.ranks * step.group;
                const uint32_t left = step.ranks + (from_back ? used : behind);
                if (floor_needs_ranks(floor, step.ranks, left))
                    take_step(floor, side, &step, left);
            }
        }
    }
}

// Whether stages within the limit can cover all layers, seen from one side.
static bool covers(struct floor *floor, bool from_back)
{
    struct reach *side = from_back ? floor->back : floor->front;
    const uint32_t most = floor->bounds->request->ranks;
    for (uint32_t used = 0; used <= most; used++)
        side[used].count = 0;
    floor_note(floor, &side[0], (struct reached){ 0 });
    for (uint32_t used = 0; used <= most; used++) {
        for (size_t i = 0; used > 0 && i < side[used - 1].count; i++)
            floor_note(floor, &side[used], side[used - 1].at[i]);
        step_from(floor, side, from_back, used);
    }
    *(from_back ? &floor->knows_back : &floor->knows_front) = true;
    return reach_least_ways(&side[most], floor->bounds->layers) < UINT64_MAX;
}

bool floor_is_possible(struct floor *floor, uint64_t limit_ns)
{
    floor->limit_ns = limit_ns;
    floor->knows_back = floor->knows_front = false;
    return floor->forward[floor->bounds->layers] + floor->backward[floor->bounds->layers] <= limit_ns
        && covers(floor, true) && covers(floor, false)
        && (floor->bounds->is_coarse || covers(floor, true));
}

// --- the bound ------------------------------------------------------------------------------

bool floor_is_over(const struct floor *floor)
{
    return floor->failed || arrangement_bounds_are_over(floor->bounds);
}

// Pairs say it more precisely.
enum { ROUGHLY = 1 << 6, PRECISELY = 1 << 12 };

// The largest limit, to one part in so many, that is known to be too low; nothing is below `low`.
static uint64_t least_possible(struct floor *floor, uint64_t low, uint64_t parts)
{
    uint64_t step = low / 8 + 1, high = low + step;
    while (!floor_is_over(floor) && !floor_is_possible(floor, high) && high < UINT64_MAX / 4) {
        low = high;
        step *= 2;
        high += step;
    }
    while (!floor_is_over(floor) && high - low > low / parts + 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (floor_is_possible(floor, middle))
            high = middle;
        else
            low = middle;
    }
    return low;
}

// The same for stages and their neighbours. What both sides are within a limit that is a little higher, they are at
// most within this one.
static bool is_possible_in_pairs(struct floor *floor, uint64_t limit_ns)
{
    enum { PART = 128 };
    if (limit_ns > floor->sides_ns || limit_ns < floor->sides_ns - floor->sides_ns / PART) {
        floor->sides_ns = 0;
        if (!floor_is_possible(floor, limit_ns))
            return false;
        floor->sides_ns = limit_ns;
    }
    floor->limit_ns = limit_ns;
    return floor_pairs_cover(floor);
}

// Up to a ceiling one part in so many higher, in steps that halve what is open.
static uint64_t least_possible_in_pairs(struct floor *floor, uint64_t low, uint64_t part, int steps)
{
    uint64_t high = low + low / part;
    for (int i = 0; i < steps && high - low > 1 && !floor_is_over(floor) && floor->work < floor->most_work; i++) {
        const uint64_t middle = low + (high - low) / 2;
        if (is_possible_in_pairs(floor, middle))
            high = middle;
        else
            low = middle;
    }
    return low;
}

// Coarsely at first, and then raises the ceiling as long as little is possible close below it. A higher limit takes
// longer to look at, which matters where they all do.
static uint64_t raise_in_pairs(struct floor *floor, uint64_t low)
{
    enum { FIRST_PART = 16, FIRST_STEPS = 7, PART = 64, STEPS = 6, MOST_LIKE = 128 };
    enum { COARSE_PART = 72, COARSE_STEPS = 6, COARSE_LIKE = 16, COARSE_WORK = 50000000 };
    floor->most_work = floor->bounds->is_coarse ? floor->work + COARSE_WORK : UINT64_MAX;
    floor->most_like = floor->bounds->is_coarse ? COARSE_LIKE : 1;
    if (floor->bounds->is_coarse)
        return least_possible_in_pairs(floor, low, COARSE_PART, COARSE_STEPS);
    low = least_possible_in_pairs(floor, low, FIRST_PART, FIRST_STEPS);
    floor->most_like = MOST_LIKE;
    for (uint64_t before = 0; !floor_is_over(floor) && low - before > before / PART * 3 / 4;) {
        before = low;
        low = least_possible_in_pairs(floor, low, PART, STEPS);
    }
    return low;
}

static void see_cluster(struct floor *floor)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const struct cluster *cluster = bounds->request->cluster;
    const size_t row = (size_t)bounds->layers + 1;
    for (size_t i = 0; i < cluster->device_count; i++) {
        floor->speed = larger(floor->speed, cluster->devices[i].speed_permille);
        floor->capacity = larger(floor->capacity, cluster->devices[i].memory_bytes);
    }
    for (uint32_t l = 0; l < row; l++) {
        floor->forward[l] = below(floor->speed, bounds->least.forward[l]);
        floor->backward[l] = below(floor->speed, bounds->least.backward[l]);
        floor->most_forward[l] = below(floor->speed, bounds->least.most_forward[l]);
        floor->most_backward[l] = below(floor->speed, bounds->least.most_backward[l]);
        floor->way[l] = cluster->level_count == 0 ? 0 : UINT64_MAX;
        for (size_t level = 0; level < cluster->level_count; level++) {
            const uint64_t way = bounds->way[level * row + l];
            floor->way[l] = way < floor->way[l] ? way : floor->way[l];
        }
        floor->way[l] *= bounds->has_backward ? 2 : 1;
    }
}

// Where all ranks are used, and each is a device, a stage knows how many are behind it. Where nothing fits, memory makes
// no difference.
static void see_memory(struct floor *floor)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    if ((bounds->memory || bounds->sums) && bounds->names->count == 1 && !bounds->request->free.fewer
        && bounds->has_backward) {
        floor->memory = bounds->memory;
        floor->sums = bounds->sums;
        if (floor_is_possible(floor, UINT64_MAX / 8))
            return;
        floor->memory = NULL;
        floor->sums = NULL;
    }
}

static void clear(struct floor *floor)
{
    for (uint32_t used = 0; used <= floor->bounds->request->ranks; used++) {
        if (floor->front)
            free(floor->front[used].at);
        if (floor->back)
            free(floor->back[used].at);
        if (floor->behind)
            free(floor->behind[used].at);
    }
    free(floor->kept);
    free(floor->front);
    free(floor->back);
    free(floor->behind);
    free(floor->forward);
    free(floor->backward);
    free(floor->most_forward);
    free(floor->most_backward);
    free(floor->way);
}

// The stages that were kept, without those that are empty, whose ranks go to the next one.
static bool read_stages(const struct floor *floor, struct arrangement *to)
{
    const uint32_t count = floor->kept_count, most = floor->bounds->request->ranks;
    to->replicas = calloc((size_t)count + 1, sizeof to->replicas[0]);
    to->variants = calloc((size_t)count + 1, sizeof to->variants[0]);
    to->cuts = calloc((size_t)count + 1, sizeof to->cuts[0]);
    to->devices = calloc((size_t)most + 1, sizeof to->devices[0]);
    if (!to->replicas || !to->variants || !to->cuts || !to->devices)
        return false;
    uint32_t spare = 0;
    for (uint32_t i = count; i-- > 0;) {
        const uint32_t first = floor->kept[i].first, end = i > 0 ? floor->kept[i - 1].first : floor->bounds->layers;
        spare += floor->kept[i].ranks;
        if (end == first)
            continue;
        to->replicas[to->stages++] = spare;
        to->cuts[to->stages] = end;
        spare = 0;
    }
    if (to->stages > 0)
        to->replicas[to->stages - 1] += spare;
    to->ranks = to->device_count = most;
    return true;
}

bool arrangement_floor(const struct arrangement_bounds *bounds, uint64_t *bound_ns, struct arrangement *reached,
                       uint64_t *work, struct error *error)
{
    const struct search_request *request = bounds->request;
    const size_t row = (size_t)bounds->layers + 1;
    const bool only_one = !request->free.replicas && !request->replicas;
    struct floor floor = { .bounds = bounds, .is_gpipe = strcmp(request->schedule, "gpipe") == 0,
                           .most_ranks = only_one                              ? 1
                                       : request->ranks < request->micro_batches ? request->ranks
                                                                                 : request->micro_batches };
    floor.forward = calloc(row, sizeof floor.forward[0]);
    floor.backward = calloc(row, sizeof floor.backward[0]);
    floor.most_forward = calloc(row, sizeof floor.most_forward[0]);
    floor.most_backward = calloc(row, sizeof floor.most_backward[0]);
    floor.way = calloc(row, sizeof floor.way[0]);
    floor.front = calloc((size_t)request->ranks + 1, sizeof floor.front[0]);
    floor.back = calloc((size_t)request->ranks + 1, sizeof floor.back[0]);
    floor.behind = calloc((size_t)request->ranks + 1, sizeof floor.behind[0]);
    floor.kept = calloc((size_t)request->ranks + 1, sizeof floor.kept[0]);
    floor.failed = !floor.kept || !floor.forward || !floor.backward || !floor.most_forward || !floor.most_backward
                || !floor.way || !floor.front || !floor.back || !floor.behind;
    if (!floor.failed) {
        see_cluster(&floor);
        see_memory(&floor);
        const bool knows_pairs = floor_knows_pairs(&floor);
        *bound_ns = least_possible(&floor, *bound_ns, knows_pairs && !bounds->is_coarse ? ROUGHLY : PRECISELY);
        if (knows_pairs)
            *bound_ns = raise_in_pairs(&floor, *bound_ns);
        *bound_ns = floor_raise_by_classes(&floor, *bound_ns);
        floor.failed = floor.failed || (floor.kept_count > 0 && !read_stages(&floor, reached));
    }
    *work += floor.work / 20;
    const bool failed = floor.failed;
    clear(&floor);
    return !failed || error_no_memory(error, "the bounds of a plan");
}
