// What stages can reach from the back, when each is also held against the one behind it
// (arrangement_pairs.c does so from the front, and says more). Of all that on so many
// devices begin with a stage of so many ranks, one stands for all: which begins as early,
// whose first stage ends as early and whose ways are as little as any of them.
#include "partitioner/arrangement/arrangement_reach.h"

#include <stdlib.h>

// From layer `first` on; all ways from there on.
struct behind {
    bool is_there;
    uint32_t first, end;
    uint64_t ways;
};

struct back {
    struct floor *floor;
    const struct totals *of;
    uint32_t devices, layers;
    uint64_t *least_way;  // over a cut from this one on; layers + 1
    uint32_t *hints;      // where a stage of one rank less began, by the ranks behind it
    struct behind *at;    // [devices from there on * (devices + 1) + ranks of the first stage]
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void note(struct behind *all, struct behind now)
{
    if (all->is_there) {
        now.first = all->first < now.first ? all->first : now.first;
        now.end = all->end < now.end ? all->end : now.end;
        now.ways = all->ways < now.ways ? all->ways : now.ways;
    }
    *all = now;
}

// A stage of so many ranks in front of one with `left` devices from it on.
struct link_of {
    struct behind behind;
    uint32_t ranks, left, ranks_behind;
    const struct reach *front;  // of the devices in front of it
    struct counts counts;
    bool knows_loops;
    struct loops_of loops;
    uint64_t again;             // that it must run
};

static bool is_within(const struct back *back, struct link_of *link, uint32_t first, struct ways in_ways)
{
    struct floor *floor = back->floor;
    const uint32_t middle = link->behind.first;
    const uint64_t out_ways = link->behind.ways;
    struct place place = { .first = first, .end = middle, .ranks = link->ranks, .counts = link->counts,
                                 .in_ways = in_ways, .out_ways = out_ways };
    floor->work++;
    if (floor_path(floor, back->of, &place) > floor->limit_ns)
        return false;
    link->again = place.again;
    if (link->ranks_behind == 0)
        return true;
    if (!link->knows_loops)
        link->loops = loops_find(floor, link->ranks, link->ranks_behind, link->left, true);
    link->knows_loops = true;
    const struct loop_ways ways = { .all = in_ways.all + place.again + out_ways, .behind = place.again + out_ways,
                                    .between = back->least_way[middle], .front_again = place.again };
    return loops_path(floor, &link->loops, first, middle, link->behind.end, ways) <= floor->limit_ns;
}

// The earliest layer within the limit, whatever the ways, up to one that is: from where one rank less came on, in
// strides that grow.
static uint32_t earliest_of(const struct back *back, struct link_of *link, uint32_t high, uint32_t hint)
{
    uint32_t low = 0, at = hint;  // [low, high) is open
    for (uint32_t stride = 1; low < high; stride *= 2) {
        if (at < low || at >= high)
            at = low + (high - low) / 2;
        if (is_within(back, link, at, (struct ways){ 0 })) {
            high = at;
            at = at > stride ? at - stride : 0;
        } else {
            low = at + 1;
            at += stride;
        }
    }
    return high;
}

// The latest layer that it may begin with: what is in front of it must reach there.
static uint32_t latest_of(const struct link_of *link)
{
    const uint32_t begin = reach_most(link->front), end = link->behind.first;
    return begin < end ? begin : end > 0 ? end - 1 : 0;
}

static bool may_have(const struct back *back, struct link_of *link)
{
    return reach_most(link->front) >= link->behind.first || is_within(back, link, latest_of(link), (struct ways){ 0 });
}

// Stages of so many ranks, or none of them. Later ones are of use where the ways are less.
static void take_step(struct back *back, struct link_of *link, uint32_t *hint)
{
    const struct floor *floor = back->floor;
    const uint32_t end = link->behind.first, latest = latest_of(link);
    struct behind *to = &back->at[(link->left + link->ranks) * (back->devices + 1) + link->ranks];
    uint64_t least = UINT64_MAX;
    if (reach_most(link->front) >= end)
        note(to, (struct behind){ true, end, end, link->behind.ways });
    if (end == 0 || !is_within(back, link, latest, (struct ways){ 0 }))
        return;
    *hint = earliest_of(back, link, latest, *hint);
    for (uint32_t first = *hint; first <= latest; first++) {
        if ((first > 0 && !floor->bounds->can_cut[first]) || floor->way[first] >= least)
            continue;
        if (!is_within(back, link, first, reach_least(link->front, first)))
            continue;
        least = smaller(least, floor->way[first] + link->again);
        note(to, (struct behind){ true, first, end, link->behind.ways + floor->way[first] + link->again });
    }
}

// In front of whatever has so many devices. What one that stands for all of that cannot have in front of it, none can.
static void step_from(struct back *back, uint32_t left)
{
    struct floor *floor = back->floor;
    const struct behind *at = &back->at[left * (back->devices + 1)];
    struct link_of link = { .left = left };
    struct behind all = { false, 0, 0, 0 };
    for (uint32_t ranks = 0; ranks <= left; ranks++) {
        if (at[ranks].is_there)
            note(&all, at[ranks]);
        back->hints[ranks] = at[ranks].first;
    }
    for (link.ranks = 1; all.is_there && link.ranks <= floor->most_ranks; link.ranks++) {
        if (left + link.ranks > back->devices)
            break;
        link.front = &floor->front[back->devices - left - link.ranks];
        link.counts = floor_counts(floor, link.ranks, left + link.ranks);
        link.behind = all;
        link.ranks_behind = 0;
        if (!may_have(back, &link))
            continue;
        for (link.ranks_behind = 0; link.ranks_behind <= left; link.ranks_behind++) {
            link.behind = at[link.ranks_behind];
            link.knows_loops = false;
            if (link.behind.is_there)
                take_step(back, &link, &back->hints[link.ranks_behind]);
        }
    }
}

static void see_ways(struct back *back)
{
    const struct floor *floor = back->floor;
    uint64_t least = UINT64_MAX;
    for (uint32_t l = back->layers; l-- > 1;) {
        least = floor->bounds->can_cut[l] && floor->way[l] < least ? floor->way[l] : least;
        back->least_way[l] = least == UINT64_MAX ? 0 : least;
    }
}

// What both say: of so many layers, where the one or the other says more.
static void join(struct floor *floor, const struct reach *back, const struct reach *pairs, struct reach *to)
{
    struct reach both = { .capacity = back->count + pairs->count + 1 };
    both.at = calloc(both.capacity, sizeof both.at[0]);
    floor->failed |= !both.at;
    for (size_t i = 0, j = 0; both.at && i < back->count && j < pairs->count;) {
        const struct reached *a = &back->at[i], *b = &pairs->at[j];
        const struct reached now = { a->layers < b->layers ? a->layers : b->layers,
                                     { a->ways.all > b->ways.all ? a->ways.all : b->ways.all, 0 } };
        both.at[both.count++] = now;
        i += a->layers == now.layers;
        j += b->layers == now.layers;
    }
    free(to->at);
    *to = both;
}

// What it says of all devices from there on, whatever the first stage is.
static void tell(const struct back *back, uint32_t *earliest)
{
    struct floor *floor = back->floor;
    const size_t row = (size_t)back->devices + 1;
    struct reach pairs = { .count = 0 };
    for (uint32_t left = 0; left <= back->devices; left++) {
        pairs.count = 0;
        for (uint32_t ranks = 0; ranks <= back->devices; ranks++) {
            const struct behind *at = &back->at[left * row + ranks];
            earliest[left * row + ranks] = at->is_there ? at->first : UINT32_MAX;
            if (at->is_there)
                floor_note(floor, &pairs, (struct reached){ back->layers - at->first, { at->ways, 0 } });
        }
        join(floor, &floor->back[left], &pairs, &floor->behind[left]);
    }
    free(pairs.at);
}

bool floor_behind_covers(struct floor *floor, uint32_t *earliest)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const size_t row = (size_t)bounds->request->ranks + 1;
    struct back back = { .floor = floor, .of = &bounds->of[0], .devices = bounds->request->ranks,
                         .layers = bounds->layers };
    back.at = calloc(row * row, sizeof back.at[0]);
    back.least_way = calloc((size_t)back.layers + 1, sizeof back.least_way[0]);
    back.hints = calloc(row, sizeof back.hints[0]);
    floor->failed |= !back.at || !back.least_way || !back.hints;
    if (!floor->failed) {
        see_ways(&back);
        note(&back.at[0], (struct behind){ true, back.layers, back.layers, 0 });
        for (uint32_t left = 0; left < back.devices; left++)
            step_from(&back, left);
        tell(&back, earliest);
    }
    free(back.at);
    free(back.least_way);
    free(back.hints);
    return !floor->failed && reach_least_ways(&floor->behind[back.devices], back.layers) < UINT64_MAX;
}
