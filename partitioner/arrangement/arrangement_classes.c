// What no plan of any arrangement can beat where devices are of unlike speeds: as
// arrangement_floor.c, but it is known how many of the slow ones were taken, too.
//
//     taken      fast 0   1   2   3        a stage of r ranks goes from one place of this table to another:
//     slow 0     [ ]  [ ]  .. [ ]              r to the right, at the speed of the fast ones
//          1     [ ]  [ ]  .. [ ]              or some down and the rest to the right, at that of the slow ones
//          2     [ ]  [ ]  .. [ ]
//
// So a stage of both wastes the quick ones. Of each place it is known what can be covered
// in front of it and behind it, and what a micro-batch takes there beyond the same layers
// on fast devices: that counts as a way. Devices of more than two speeds are two classes,
// each as fast as its fastest. Devices that are not chosen stand in one row, where the
// seats of a stage say its speed.
#include <stdlib.h>
#include <string.h>

#include "partitioner/arrangement/arrangement_reach.h"

typedef unsigned __int128 wide;

// Of a place, so many are told apart; and there are so many places, of which all pairs are looked at.
enum { MOST_LIKE = 64, MOST_LIKE_AT_FIRST = 4, MOST_PLACES = 2500 };

struct classes {
    struct floor *floor;
    const uint64_t *seats;      // the speeds of the ranks' devices; NULL: these are chosen
    uint32_t count[2];          // devices of each class, the faster first; of seats that are given all, and none
    uint64_t speed[2];
    uint32_t ranks;             // devices to take
    struct reach *front, *back; // of each place
    struct reach *kept;         // both, of a higher limit
    size_t most_like;           // of a place, so many are told apart
};

// A stage, with the places in front of it and behind it.
struct move {
    uint32_t from, to;
    uint32_t ranks;  // as of a struct place
    struct counts counts;
    uint64_t speed;
    const struct totals *of;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t place_at(const struct classes *classes, uint32_t fast, uint32_t slow)
{
    return fast * (classes->count[1] + 1) + slow;
}

static uint32_t count_places(const struct classes *classes)
{
    return (classes->count[0] + 1) * (classes->count[1] + 1);
}

static uint32_t fast_of(const struct classes *classes, uint32_t place)
{
    return place / (classes->count[1] + 1);
}

static uint32_t slow_of(const struct classes *classes, uint32_t place)
{
    return place % (classes->count[1] + 1);
}

static uint32_t taken_of(const struct classes *classes, uint32_t place)
{
    return fast_of(classes, place) + slow_of(classes, place);
}

// --- a stage ----------------------------------------------------------------------------

// What so much takes on such a device beyond what it takes on the fastest.
static uint64_t slower_by(const struct classes *classes, uint64_t speed, uint64_t ns)
{
    const uint64_t fastest = classes->floor->speed;
    return speed >= fastest ? 0 : (uint64_t)((wide)ns * 1000 * (fastest - speed) / speed / fastest);
}

// A stage behind, or in front of, what is covered.
struct reaching {
    struct classes *classes;
    const struct totals *of;
    struct place place;
    bool from_back;
};

static struct reaching begin_at(struct classes *classes, const struct move *move, bool from_back,
                                const struct reached *from)
{
    const uint32_t layers = classes->floor->bounds->layers;
    struct reaching now = { .classes = classes, .of = move->of, .from_back = from_back };
    now.place = (struct place){ .ranks = move->ranks, .counts = move->counts, .speed = move->speed };
    *(from_back ? &now.place.end : &now.place.first) = from_back ? layers - from->layers : from->layers;
    if (from_back)
        now.place.out_ways = from->ways.all;
    else
        now.place.in_ways = from->ways;
    return now;
}

// Its far cut.
static uint32_t far_cut(struct reaching *now, uint32_t covered)
{
    if (!now->from_back)
        return now->place.end = covered;
    return now->place.first = now->classes->floor->bounds->layers - covered;
}

// Whether it stays within the limit if all beyond it has these ways.
static bool is_within(struct reaching *now, uint32_t covered, struct ways far_ways)
{
    struct floor *floor = now->classes->floor;
    far_cut(now, covered);
    if (now->from_back)
        now->place.in_ways = far_ways;
    else
        now->place.out_ways = far_ways.all;
    floor->work++;
    return floor_path(floor, now->of, &now->place) <= floor->limit_ns;
}

// The most layers that it can cover whatever the ways, if `low` is within the limit.
static uint32_t furthest(struct reaching *now, uint32_t low)
{
    uint32_t high = now->classes->floor->bounds->layers + 1, at = low + 1;
    for (uint32_t stride = 1; high - low > 1; stride *= 2) {
        if (at <= low || at >= high)
            at = low + (high - low) / 2;
        if (is_within(now, at, (struct ways){ 0 })) {
            low = at;
            at += stride;
        } else {
            high = at;
        }
    }
    return low;
}

// With that cut, and what is slower there.
static struct ways ways_over(const struct reaching *now, uint64_t speed, uint32_t cut, struct ways from)
{
    const struct classes *classes = now->classes;
    const struct totals *least = &classes->floor->bounds->least;
    const uint32_t first = now->place.first, end = now->place.end;
    const uint64_t f = totals_between(least->forward, least->most_forward, first, end);
    const uint64_t b = totals_between(least->backward, least->most_backward, first, end);
    const struct ways way = floor_way(classes->floor, cut);
    return ways_and(from, way.all + slower_by(classes, speed, f + b), way.in + slower_by(classes, speed, f));
}

// Where too many are known of a place, one stands for the two that are most alike.
static void blend(const struct classes *classes, struct reach *reach)
{
    const struct floor *floor = classes->floor;
    uint64_t least = UINT64_MAX;
    size_t at = 0;
    if (reach->count <= classes->most_like)
        return;
    for (size_t i = 0; i + 1 < reach->count; i++) {
        const struct reached *a = &reach->at[i], *b = &reach->at[i + 1];
        const uint64_t apart = b->ways.all - a->ways.all + floor->backward[b->layers] - floor->backward[a->layers];
        at = apart < least ? i : at;
        least = apart < least ? apart : least;
    }
    reach->at[at].layers = reach->at[at + 1].layers;
    memmove(&reach->at[at + 1], &reach->at[at + 2], (reach->count - at - 2) * sizeof reach->at[0]);
    reach->count--;
}

// All that the stage can cover behind, or in front of, what is covered.
static void cover(struct classes *classes, const struct move *move, bool from_back, struct reached from)
{
    struct floor *floor = classes->floor;
    const uint32_t layers = floor->bounds->layers;
    const struct reach *far = from_back ? &classes->front[move->from] : &classes->back[move->to];
    struct reach *to = from_back ? &classes->back[move->from] : &classes->front[move->to];
    uint64_t least = UINT64_MAX;
    if (far->count == 0)
        return;
    struct reaching now = begin_at(classes, move, from_back, &from);
    const uint32_t low = (uint32_t)larger(from.layers + 1, layers - reach_most(far));
    if (low > layers || !is_within(&now, low, (struct ways){ 0 }))
        return;
    for (uint32_t covered = furthest(&now, low); covered >= low; covered--) {
        const uint32_t cut = far_cut(&now, covered);
        if (!floor->bounds->can_cut[cut])
            continue;
        const struct ways over = ways_over(&now, move->speed, cut, from.ways);
        const struct ways beyond = reach_least(far, layers - covered), own = floor_way(floor, cut);
        const struct ways far_ways = { larger(own.all, beyond.all), larger(own.in, beyond.in) };
        if (over.all >= least || !is_within(&now, covered, far_ways))
            continue;
        const struct ways ways = ways_and(over, floor_again(floor, now.place.again), 0);
        if (ways.all >= least)
            continue;
        least = ways.all;
        floor_note(floor, to, (struct reached){ covered, ways });
        blend(classes, to);
    }
}

// --- all places ---------------------------------------------------------------------------

static void take_move(struct classes *classes, const struct move *move, bool from_back)
{
    const struct reach *from = from_back ? &classes->back[move->to] : &classes->front[move->from];
    for (size_t i = 0; i < from->count; i++)
        cover(classes, move, from_back, from->at[i]);
}

static uint64_t slowest_seat(const struct classes *classes, uint32_t seat, uint32_t count)
{
    uint64_t speed = classes->seats[seat];
    for (uint32_t i = seat + 1; i < seat + count; i++)
        speed = classes->seats[i] < speed ? classes->seats[i] : speed;
    return speed;
}

// Stages of so many ranks, of `group` devices each, that begin at a place.
static void take_ranks(struct classes *classes, struct move *move, uint32_t group, bool from_back)
{
    const uint32_t fast = fast_of(classes, move->from), slow = slow_of(classes, move->from);
    const uint32_t devices = move->ranks * group, fast_left = classes->count[0] - fast;
    const uint32_t most_slow = smaller(devices, classes->count[1] - slow);
    move->counts = floor_counts(classes->floor, move->ranks, classes->ranks - fast - slow - devices + move->ranks);
    for (uint32_t n = devices > fast_left ? devices - fast_left : 0; n <= most_slow; n++) {
        move->to = place_at(classes, fast + devices - n, slow + n);
        move->speed = classes->seats ? slowest_seat(classes, fast, devices) : classes->speed[n > 0];
        take_move(classes, move, from_back);
    }
}

// What is covered with fewer devices is covered with more.
static void take_none(struct classes *classes, uint32_t place, uint32_t other, bool from_back)
{
    const struct reach *from = from_back ? &classes->back[other] : &classes->front[place];
    for (size_t i = 0; i < from->count; i++)
        floor_note(classes->floor, from_back ? &classes->back[place] : &classes->front[other], from->at[i]);
}

static void take_place(struct classes *classes, uint32_t place, bool from_back)
{
    const struct arrangement_bounds *bounds = classes->floor->bounds;
    const uint32_t fast = fast_of(classes, place), slow = slow_of(classes, place);
    const uint32_t left = classes->ranks - smaller(classes->ranks, fast + slow);
    struct move move = { .from = place };
    if (left > 0 && fast < classes->count[0])
        take_none(classes, place, place_at(classes, fast + 1, slow), from_back);
    if (left > 0 && slow < classes->count[1])
        take_none(classes, place, place_at(classes, fast, slow + 1), from_back);
    for (size_t v = 0; v < bounds->names->count; v++) {
        const uint32_t group = bounds->names->devices[v];
        move.of = &bounds->of[v];
        for (move.ranks = 1; move.ranks <= classes->floor->most_ranks && move.ranks * group <= left; move.ranks++)
            if (floor_needs_ranks(classes->floor, move.ranks, left - move.ranks * group + move.ranks))
                take_ranks(classes, &move, group, from_back);
    }
}

// Whether stages within the limit can cover all layers, seen from one side.
static bool covers(struct classes *classes, bool from_back)
{
    const uint32_t count = count_places(classes);
    struct reach *side = from_back ? classes->back : classes->front;
    for (uint32_t i = 0; i < count; i++) {
        side[i].count = 0;
        if (from_back ? taken_of(classes, i) == classes->ranks : i == 0)
            floor_note(classes->floor, &side[i], (struct reached){ 0 });
    }
    for (uint32_t i = 0; i < count; i++)
        take_place(classes, from_back ? count - 1 - i : i, from_back);
    for (uint32_t i = 0; i < count; i++)
        if ((from_back ? i == 0 : taken_of(classes, i) == classes->ranks)
            && reach_least_ways(&side[i], classes->floor->bounds->layers) < UINT64_MAX)
            return true;
    return false;
}

static size_t count_reached(const struct classes *classes)
{
    size_t count = 0;
    for (uint32_t i = 0; i < count_places(classes); i++)
        count += classes->front[i].count + classes->back[i].count;
    return count;
}

// What is known of a higher limit says what a stage finds on its other side at least, and so for each side in turn, as
// long as that leaves much less.
static bool is_possible_from(struct classes *classes, size_t most_like)
{
    enum { MOST_PASSES = 6 };
    classes->most_like = most_like;
    for (int pass = 0; pass < MOST_PASSES; pass++) {
        const size_t before = count_reached(classes);
        if (!covers(classes, true) || !covers(classes, false))
            return false;
        if (count_reached(classes) > before - before / 10)
            return true;
    }
    return true;
}

static void copy_reach(struct floor *floor, struct reach *to, const struct reach *from)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++)
        floor_note(floor, to, from->at[i]);
}

// Of one limit, for a lower one.
static void keep_sides(struct classes *classes)
{
    const uint32_t count = count_places(classes);
    for (uint32_t i = 0; i < count; i++) {
        copy_reach(classes->floor, &classes->kept[i], &classes->front[i]);
        copy_reach(classes->floor, &classes->kept[count + i], &classes->back[i]);
    }
}

static void take_kept_sides(struct classes *classes)
{
    const uint32_t count = count_places(classes);
    for (uint32_t i = 0; i < count; i++) {
        copy_reach(classes->floor, &classes->front[i], &classes->kept[i]);
        copy_reach(classes->floor, &classes->back[i], &classes->kept[count + i]);
    }
}

// As if all devices were as fast as the fastest.
static bool take_plain_sides(struct classes *classes, uint64_t limit_ns)
{
    struct floor *floor = classes->floor;
    if (!floor_is_possible(floor, limit_ns))
        return false;
    for (uint32_t i = 0; i < count_places(classes); i++) {
        const uint32_t taken = taken_of(classes, i);
        classes->front[i].count = classes->back[i].count = 0;
        if (taken <= classes->ranks) {
            copy_reach(floor, &classes->front[i], &floor->front[taken]);
            copy_reach(floor, &classes->back[i], &floor->back[classes->ranks - taken]);
        }
    }
    return true;
}

// From nothing, or from what is kept.
static bool is_possible(struct classes *classes, uint64_t limit_ns, size_t most_like)
{
    return take_plain_sides(classes, limit_ns) && is_possible_from(classes, MOST_LIKE_AT_FIRST)
        && (most_like == MOST_LIKE_AT_FIRST || is_possible_from(classes, most_like));
}

static bool is_still_possible(struct classes *classes, uint64_t limit_ns)
{
    take_kept_sides(classes);
    classes->floor->limit_ns = limit_ns;
    return is_possible_from(classes, MOST_LIKE);
}

// --- the whole ----------------------------------------------------------------------------

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a > b ? -1 : a < b;
}

// Two classes, such that they are together as slow as can be.
static void part(struct classes *classes, const uint64_t *speeds, uint32_t count)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t fast = 1; fast <= count; fast++) {
        const uint64_t both = fast * speeds[0] + (fast < count ? (count - fast) * speeds[fast] : 0);
        if (both >= least)
            continue;
        least = both;
        classes->count[0] = smaller(fast, classes->ranks);
        classes->count[1] = smaller(count - fast, classes->ranks);
        classes->speed[0] = speeds[0];
        classes->speed[1] = fast < count ? speeds[fast] : speeds[0];
    }
}

// Fills in `speeds`: of the ranks' devices as they are given, or of all there are, the fastest first. Whether some are
// slow.
static bool see_speeds(struct classes *classes, uint64_t *speeds)
{
    const struct search_request *request = classes->floor->bounds->request;
    const struct cluster *cluster = request->cluster;
    const bool is_given = !request->free.devices;
    const uint32_t count = is_given ? request->ranks : (uint32_t)cluster->device_count;
    bool is_unlike = false;
    for (uint32_t i = 0; i < count; i++) {
        speeds[i] = cluster->devices[is_given && request->devices ? request->devices[i] : i].speed_permille;
        is_unlike |= speeds[i] < classes->floor->speed;
    }
    classes->ranks = request->ranks;
    classes->seats = is_given ? speeds : NULL;
    classes->count[0] = count;
    if (!is_given) {
        qsort(speeds, count, sizeof speeds[0], compare);
        part(classes, speeds, count);
    }
    return is_unlike;
}

// In steps up, of one part of so much, as long as nothing is possible. Leaves the first that is not too low in *high.
static uint64_t step_up(struct classes *classes, uint64_t low, uint64_t part, size_t most_like, uint64_t *high)
{
    struct floor *floor = classes->floor;
    for (*high = low + low / part + 1; !floor_is_over(floor) && *high < UINT64_MAX / 4; *high += *high / part + 1) {
        if (is_possible(classes, *high, most_like))
            break;
        low = *high;
    }
    return low;
}

// In large steps where little is told apart, then in small ones, and then by halves.
static uint64_t least_possible(struct classes *classes, uint64_t low)
{
    enum { LARGE_PART = 16, SMALL_PART = 64, PRECISION = 1 << 11 };
    const struct floor *floor = classes->floor;
    uint64_t high;
    low = step_up(classes, low, LARGE_PART, MOST_LIKE_AT_FIRST, &high);
    low = step_up(classes, low, SMALL_PART, MOST_LIKE, &high);
    keep_sides(classes);
    while (!floor_is_over(floor) && high - low > low / PRECISION + 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (is_still_possible(classes, middle)) {
            keep_sides(classes);
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
}

static void clear(struct reach *sides, uint32_t count)
{
    for (uint32_t i = 0; sides && i < count; i++)
        free(sides[i].at);
    free(sides);
}

static uint64_t raise_within(struct classes *classes, uint64_t low_ns)
{
    struct floor *floor = classes->floor;
    const uint32_t count = count_places(classes);
    classes->front = calloc(count, sizeof classes->front[0]);
    classes->back = calloc(count, sizeof classes->back[0]);
    classes->kept = calloc((size_t)2 * count, sizeof classes->kept[0]);
    floor->failed |= !classes->front || !classes->back || !classes->kept;
    if (!floor->failed) {
        low_ns = least_possible(classes, low_ns);
    }
    clear(classes->front, count);
    clear(classes->back, count);
    clear(classes->kept, 2 * count);
    return low_ns;
}

uint64_t floor_raise_by_classes(struct floor *floor, uint64_t low_ns)
{
    const struct search_request *request = floor->bounds->request;
    struct classes classes = { .floor = floor };
    uint64_t *speeds = calloc(request->cluster->device_count + request->ranks, sizeof speeds[0]);
    floor->failed |= !speeds;
    if (speeds && see_speeds(&classes, speeds) && count_places(&classes) <= MOST_PLACES)
        low_ns = raise_within(&classes, low_ns);
    free(speeds);
    return low_ns;
}
