// What stages can reach, when each is also held against the one before it. Where all ranks
// are used it is known how many are behind a stage, and so how far ahead it is: paths that
// loop in two neighbours are known, too (arrangement_loops.c). First the same is asked from
// the back, coarsely (arrangement_behind.c), so as to go on only from what can come through.
//
// After the last B some stage in front may still add up gradients; how long that takes
// beyond the way in front of it is carried along. And of r_t ranks that have the most
// micro-batches the last gets its first one when n = r_t - 1 (or fewer) others have come,
// of which a stage u in front of it does n / r_u, rounded down, one after the other; so
// with the last B of the first. For some n the longest of these, (n / r_u) B_u, is carried
// along, too; for the stage just in front it is looked at for any n. (There no more often
// than t has micro-batches: then a longer s is still no worse than a longer t.)
//
// A path may also turn at a stage far from where it goes around. The top stage is the first
// that is ahead of less micro-batches than there are devices: mostly the second one. To the
// end and back to a stage behind it, around there as often as leaves enough, on to the top
// stage, and from there once more to the end and back: what that is from the top stage on is
// carried along, too, unless devices are very many.
//
// A state is how many devices are used, and by how many of them the last stage. Of those
// with the same, one is better where the last stage begins later, it ends later, and all
// ways, what it must run again, that tail, what others wait for and what is from the top
// stage on are less. A stage may be empty, so that what is better can stand for what it is
// better than.
#include "partitioner/arrangement/arrangement_reach.h"

#include <stdlib.h>
#include <string.h>

enum { LATES = 2 };

// The last stage is layers [first, end); all ways up to `end`. And the state it came from: how many
// ranks the stage before has, and which of the states with so many.
struct paired {
    uint32_t first, end;
    struct ways ways;
    uint64_t again;  // that it must run
    uint64_t tail, late[LATES];
    uint64_t from_top;  // from the top stage on, with the ways up to `end`; 0: there is none yet
    uint32_t from_ranks, from;
};

struct pairs {
    struct paired *at;
    size_t count, capacity;
};

struct walk {
    struct floor *floor;
    const struct totals *of;
    uint32_t devices, layers;
    uint32_t *lengths;          // layers of the last stage of so many ranks that was looked for
    uint32_t *earliest;         // of stages from the back (floor_behind_covers())
    uint32_t betweens[LATES];   // numbers of micro-batches in between
    uint64_t late_step;         // that is told apart, for each micro-batch in between
    uint64_t *least_way;        // over a cut up to this one; layers + 1
    struct pairs *pairs;        // [used * (devices + 1) + ranks of the last stage]
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool is_as_good(const struct paired *a, const struct paired *b)
{
    for (int i = 0; i < LATES; i++)
        if (a->late[i] > b->late[i])
            return false;
    return a->end >= b->end && a->first >= b->first && a->ways.all <= b->ways.all && a->again <= b->again
        && a->tail <= b->tail && a->from_top <= b->from_top;
}

// One that is as good as both.
static void blend(struct paired *all, const struct paired *now)
{
    all->first = now->first > all->first ? now->first : all->first;
    all->end = now->end > all->end ? now->end : all->end;
    all->ways.all = smaller(all->ways.all, now->ways.all);
    all->ways.in = smaller(all->ways.in, now->ways.in);
    all->again = smaller(all->again, now->again);
    all->tail = smaller(all->tail, now->tail);
    all->from_top = smaller(all->from_top, now->from_top);
    for (int i = 0; i < LATES; i++)
        all->late[i] = smaller(all->late[i], now->late[i]);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static uint64_t distance_of(const struct walk *walk, const struct paired *a, const struct paired *b)
{
    const uint64_t *backward = walk->floor->backward;
    uint64_t sum = distance(backward[a->end], backward[b->end]) + distance(backward[a->first], backward[b->first])
                 + distance(a->tail, b->tail) + distance(a->ways.all, b->ways.all) + distance(a->again, b->again)
                 + distance(a->from_top, b->from_top);
    for (int i = 0; i < LATES; i++)
        sum += distance(a->late[i], b->late[i]);
    return sum;
}

// The one that it is most like.
static struct paired *nearest_of(const struct walk *walk, struct pairs *pairs, const struct paired *now)
{
    struct paired *nearest = &pairs->at[0];
    for (size_t i = 1; i < pairs->count; i++)
        if (distance_of(walk, &pairs->at[i], now) < distance_of(walk, nearest, now))
            nearest = &pairs->at[i];
    return nearest;
}

// Where too many are alike, one stands for two of them.
static void note(struct walk *walk, struct pairs *pairs, struct paired now)
{
    size_t kept = 0;
    for (size_t i = 0; i < pairs->count; i++)
        if (is_as_good(&pairs->at[i], &now)) {
            pairs->at[i].ways.in = smaller(pairs->at[i].ways.in, now.ways.in);
            return;
        }
    for (size_t i = 0; i < pairs->count; i++) {
        if (is_as_good(&now, &pairs->at[i]))
            now.ways.in = smaller(now.ways.in, pairs->at[i].ways.in);
        else
            pairs->at[kept++] = pairs->at[i];
    }
    pairs->count = kept;
    if (pairs->count == walk->floor->most_like) {
        blend(nearest_of(walk, pairs, &now), &now);
        return;
    }
    if (pairs->count == pairs->capacity) {
        const size_t capacity = pairs->capacity ? 2 * pairs->capacity : 4;
        struct paired *room = realloc(pairs->at, capacity * sizeof room[0]);
        walk->floor->failed |= !room;
        if (!room)
            return;
        pairs->at = room;
        pairs->capacity = capacity;
    }
    pairs->at[pairs->count++] = now;
}

// A stage behind another one.
struct link_of {
    struct paired before;
    uint32_t used, ranks_before;  // with those before
    uint32_t ranks;
    struct counts counts;
    bool knows_loops;
    struct loops_of loops;
    uint64_t out_ways;
    uint64_t again;               // that it must run
    uint64_t late_in, late_out;
    uint32_t from;                // the place of `before` among its like
};

static uint64_t stage_path(const struct walk *walk, struct link_of *link, uint32_t end)
{
    const struct floor *floor = walk->floor;
    struct place place = { .first = link->before.end, .end = end, .ranks = link->ranks, .counts = link->counts,
                                 .in_ways = link->before.ways, .out_ways = link->out_ways,
                                 .late_in = link->late_in, .late_out = link->late_out, .tail = link->before.tail };
    const uint64_t path = floor_path(floor, walk->of, &place);
    link->again = place.again;
    return path;
}

// With all ways up to the stage, or the tail instead of the way out.
static uint64_t ways_before(const struct paired *before)
{
    return larger(before->ways.all, before->tail + before->ways.in);
}

// The path from the top stage, around in this one.
static uint64_t path_from_top(const struct walk *walk, const struct link_of *link, uint32_t end)
{
    const struct floor *floor = walk->floor;
    const struct paired *before = &link->before;
    const uint64_t own = floor_round(floor, before->end, end) + link->again, behind = link->again + link->out_ways;
    const uint64_t times = (floor->bounds->request->micro_batches - walk->devices) / link->ranks;
    return floor_round(floor, 0, walk->layers) + ways_before(before) + before->from_top + 2 * behind + times * own;
}

static bool is_within(const struct walk *walk, struct link_of *link, uint32_t end)
{
    const struct paired *before = &link->before;
    walk->floor->work++;
    if (stage_path(walk, link, end) > walk->floor->limit_ns)
        return false;
    if (link->ranks_before == 0)
        return true;
    if (before->from_top > 0 && path_from_top(walk, link, end) > walk->floor->limit_ns)
        return false;
    if (!link->knows_loops)
        link->loops = loops_find(walk->floor, link->ranks_before, link->ranks, walk->devices - link->used, false);
    link->knows_loops = true;
    const uint64_t between = walk->least_way[before->end], behind = link->again + link->out_ways;
    const struct loop_ways ways = { .all = ways_before(before) + behind,
                                    .behind = before->again + between + behind,
                                    .between = between, .front_again = before->again, .back_again = link->again };
    return loops_path(walk->floor, &link->loops, before->first, before->end, end, ways) <= walk->floor->limit_ns;
}

// The furthest end from one on that is within the limit: from where the last one of so many ranks came on, in strides
// that grow.
static uint32_t furthest(const struct walk *walk, struct link_of *link, uint32_t low)
{
    uint32_t high = walk->layers + 1, at = link->before.end + walk->lengths[link->ranks];
    for (uint32_t stride = 1; high - low > 1; stride *= 2) {
        if (at <= low || at >= high)
            at = low + (high - low) / 2;
        if (is_within(walk, link, at)) {
            low = at;
            at += stride;
        } else {
            high = at;
            at = at > stride ? at - stride : 0;
        }
    }
    walk->lengths[link->ranks] = low - link->before.end;
    return low;
}

// How long the stage adds up gradients after all in front of it could be done: rounded down, so that few such numbers
// have to be told apart.
static uint64_t tail_of(const struct walk *walk, const struct link_of *link, uint32_t end)
{
    enum { PARTS = 200 };
    const uint32_t first = link->before.end;
    const uint64_t before = walk->floor->backward[first], step = walk->floor->limit_ns / PARTS + 1;
    if (link->ranks == 1)
        return 0;
    const uint64_t weights = totals_between(walk->of->weights, walk->of->most_weights, first, end);
    const uint64_t reduce = floor_reduce(walk->floor, link->ranks, weights);
    return reduce > before ? (reduce - before) / step * step : 0;
}

static uint32_t between_of(const struct walk *walk, uint32_t ranks)
{
    const uint32_t m = walk->floor->bounds->request->micro_batches;
    return (m % ranks ? m % ranks : ranks) - 1;
}

// How long the stage keeps a later one waiting, for each n.
static uint64_t own_lateness(const struct walk *walk, const struct link_of *link, uint32_t end, int i)
{
    return walk->betweens[i] / link->ranks * floor_backward(walk->floor, link->before.end, end);
}

// Whether for some n what it, and those before it, leave others to wait for is less: the least so far are whole steps.
static bool is_less_late(const struct walk *walk, const struct link_of *link, uint32_t end, const uint64_t *least)
{
    for (int i = 0; i < LATES; i++)
        if (link->before.late[i] < least[i] && own_lateness(walk, link, end, i) < least[i])
            return true;
    return false;
}

static void see_lateness(const struct walk *walk, const struct link_of *link, uint32_t end, uint64_t *late)
{
    for (int i = 0; i < LATES; i++) {
        const uint64_t step = walk->betweens[i] * walk->late_step;
        late[i] = larger(link->before.late[i], own_lateness(walk, link, end, i) / step * step);
    }
}

// From the top stage on, which may be this one: rounded down, so that few such numbers have to be told apart.
static uint64_t from_top_of(const struct walk *walk, const struct link_of *link, uint64_t ways)
{
    enum { PARTS = 4000 };
    const struct floor *floor = walk->floor;
    const uint32_t left = walk->devices - link->used, ahead = (left + link->ranks - 1) / link->ranks * link->ranks;
    const uint64_t round = floor_round(floor, link->before.end, walk->layers), step = floor->limit_ns / PARTS + 1;
    if (floor->is_gpipe || floor->bounds->is_coarse || walk->devices > floor->bounds->request->micro_batches)
        return 0;
    if (link->before.from_top > 0)
        return link->before.from_top + ways;
    return ahead < walk->devices ? round / step * step + ways : 0;
}

// Stages that reach further than the one before did. Shorter ones are of use where the ways, the tail, or what others
// wait for are less.
static void take_step(struct walk *walk, struct link_of *link, uint32_t beyond)
{
    const struct floor *floor = walk->floor;
    const uint32_t left = walk->devices - link->used - link->ranks;
    struct pairs *to = &walk->pairs[(link->used + link->ranks) * (walk->devices + 1) + link->ranks];
    struct paired now = { .first = link->before.end, .from_ranks = link->ranks_before, .from = link->from };
    uint64_t least = UINT64_MAX, least_again = UINT64_MAX, least_tail = UINT64_MAX, least_late[LATES];
    memset(least_late, 0xff, sizeof least_late);
    link->out_ways = 0;
    if (beyond >= walk->layers || !is_within(walk, link, beyond + 1))
        return;
    for (uint32_t end = furthest(walk, link, beyond + 1); end > beyond; end--) {
        now.ways = ways_and(link->before.ways, floor->way[end], floor->way[end] / 2);
        if (!floor->bounds->can_cut[end])
            continue;
        const bool is_less = is_less_late(walk, link, end, least_late) || least_again > 0;
        if (now.ways.all >= least && !is_less && least_tail == link->before.tail)
            continue;
        now.tail = larger(link->before.tail, tail_of(walk, link, end));
        if (now.ways.all >= least && !is_less && now.tail >= least_tail)
            continue;
        link->out_ways = reach_least_ways(&floor->behind[left], walk->layers - end);
        if (link->out_ways == UINT64_MAX)
            return;  // nor from an earlier end
        if (!is_within(walk, link, end))
            continue;
        see_lateness(walk, link, end, now.late);
        now.again = floor_again(floor, link->again);
        now.ways.all += now.again;
        now.from_top = from_top_of(walk, link, floor->way[end] + now.again);
        least = smaller(least, now.ways.all);
        least_again = smaller(least_again, now.again);
        least_tail = smaller(least_tail, now.tail);
        for (int i = 0; i < LATES; i++)
            least_late[i] = smaller(least_late[i], now.late[i]);
        now.end = end;
        note(walk, to, now);
    }
}

// What the stage waits for because those before do others first.
static void wait_for(const struct walk *walk, struct link_of *link)
{
    const struct paired *before = &link->before;
    const uint32_t between = between_of(walk, link->ranks);
    link->late_out = 0;
    for (int i = 0; i < LATES; i++)
        if (walk->betweens[i] <= between)
            link->late_out = larger(link->late_out, before->late[i]);
    link->late_in = link->late_out / 1000 * walk->floor->bounds->shares.of_backward;
    if (link->ranks_before == 0)
        return;
    const struct floor *floor = walk->floor;
    const uint64_t turns = between / link->ranks_before, most = link->counts.own - 1;
    const uint64_t often = turns < most ? turns : most;
    link->late_in = larger(link->late_in, often * floor_forward(floor, before->first, before->end));
    const uint64_t backward = floor_backward(floor, before->first, before->end) + before->again;
    link->late_out = larger(link->late_out, often * backward);
}

// A stage behind the one before, and an empty one.
static void step_behind(struct walk *walk, struct link_of *link, const struct paired *before)
{
    link->before = *before;
    wait_for(walk, link);
    take_step(walk, link, before->end);
    const uint32_t used = link->used + link->ranks;
    if (reach_least_ways(&walk->floor->behind[walk->devices - used], walk->layers - before->end) == UINT64_MAX)
        return;
    struct paired empty = *before;
    empty.first = before->end;
    empty.again = 0;
    empty.from_ranks = link->ranks_before;
    empty.from = link->from;
    note(walk, &walk->pairs[used * (walk->devices + 1) + link->ranks], empty);
}

static void step_from(struct walk *walk, uint32_t used, uint32_t ranks_before)
{
    const struct pairs *pairs = &walk->pairs[used * (walk->devices + 1) + ranks_before];
    const uint32_t left = walk->devices - used, *earliest = &walk->earliest[left * (walk->devices + 1)];
    uint32_t furthest_end = 0;
    for (size_t i = 0; i < pairs->count; i++)
        furthest_end = pairs->at[i].end > furthest_end ? pairs->at[i].end : furthest_end;
    struct link_of link = { .used = used, .ranks_before = ranks_before };
    const uint32_t most = pairs->count == 0 ? 0 : left < walk->floor->most_ranks ? left : walk->floor->most_ranks;
    for (link.ranks = 1; link.ranks <= most; link.ranks++) {
        if (furthest_end < earliest[link.ranks])
            continue;
        link.knows_loops = false;
        link.counts = floor_counts(walk->floor, link.ranks, left);
        for (link.from = 0; link.from < pairs->count; link.from++) {
            if (pairs->at[link.from].end < earliest[link.ranks])
                continue;
            step_behind(walk, &link, &pairs->at[link.from]);
        }
    }
}

// Keeps the stages that lead to this state of all devices.
static void keep(const struct walk *walk, uint32_t ranks, uint32_t at)
{
    struct floor *floor = walk->floor;
    uint32_t used = walk->devices, end = walk->layers;
    for (floor->kept_count = 0; used > 0;) {
        const struct paired *now = &walk->pairs[used * (walk->devices + 1) + ranks].at[at];
        const uint32_t first = now->first < end ? now->first : end;
        floor->kept[floor->kept_count++] = (struct kept){ first, ranks };
        end = first;
        used -= ranks;
        ranks = now->from_ranks;
        at = now->from;
    }
}

// Up to where ranks are about as many as stages: less than that, and half of it.
static void choose_betweens(struct walk *walk)
{
    uint32_t ranks = 4;
    while (4 * ranks * ranks <= walk->devices)
        ranks *= 2;
    walk->betweens[0] = ranks / 2 - 1;
    walk->betweens[1] = ranks - 1;
}

// The least ways, and steps of lateness: 24 of what a stage that does its part is busy for.
static void see_layers(struct walk *walk)
{
    const struct floor *floor = walk->floor;
    uint64_t least = UINT64_MAX;
    for (uint32_t l = 1; l < walk->layers; l++) {
        least = floor->bounds->can_cut[l] && floor->way[l] < least ? floor->way[l] : least;
        walk->least_way[l] = least == UINT64_MAX ? 0 : least;
    }
    walk->late_step = floor->backward[walk->layers] / walk->devices / 24 + 1;
}

bool floor_knows_pairs(const struct floor *floor)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    return bounds->names->count == 1 && !bounds->request->free.fewer && bounds->has_backward && !bounds->are_groups;
}

// Whether the stages that are reached cover all layers, and which.
static bool read_pairs(const struct walk *walk)
{
    const uint32_t devices = walk->devices;
    for (uint32_t ranks = devices; ranks > 0; ranks--) {
        const struct pairs *pairs = &walk->pairs[devices * ((size_t)devices + 1) + ranks];
        for (size_t i = 0; i < pairs->count; i++) {
            if (pairs->at[i].end == walk->layers) {
                keep(walk, ranks, (uint32_t)i);
                return true;
            }
        }
    }
    return false;
}

// What takes too long to be refused passes for possible.
static bool reaches_all(struct walk *walk)
{
    enum { MOST_WORK = 12000000 };
    const uint64_t since = walk->floor->work;
    see_layers(walk);
    choose_betweens(walk);
    note(walk, &walk->pairs[0], (struct paired){ 0 });
    for (uint32_t used = 0; used < walk->devices; used++) {
        for (uint32_t ranks = 0; ranks <= used; ranks++)
            step_from(walk, used, ranks);
        if (walk->floor->work - since > MOST_WORK)
            return true;
    }
    return read_pairs(walk);
}

static void clear(struct walk *walk)
{
    const size_t row = (size_t)walk->devices + 1;
    for (size_t i = 0; walk->pairs && i < row * row; i++)
        free(walk->pairs[i].at);
    free(walk->pairs);
    free(walk->least_way);
    free(walk->earliest);
    free(walk->lengths);
}

bool floor_pairs_cover(struct floor *floor)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const size_t row = (size_t)bounds->request->ranks + 1;
    struct walk walk = { .floor = floor, .of = &bounds->of[0], .devices = bounds->request->ranks,
                         .layers = bounds->layers };
    walk.pairs = calloc(row * row, sizeof walk.pairs[0]);
    walk.least_way = calloc((size_t)walk.layers + 1, sizeof walk.least_way[0]);
    walk.earliest = calloc(row * row, sizeof walk.earliest[0]);
    walk.lengths = calloc(row, sizeof walk.lengths[0]);
    floor->failed |= !walk.pairs || !walk.least_way || !walk.earliest || !walk.lengths;
    const bool covers = !floor->failed && floor_behind_covers(floor, walk.earliest) && reaches_all(&walk);
    clear(&walk);
    return covers;
}
