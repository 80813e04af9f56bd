#include "partitioner/objectives/knapsack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"

enum { MOST_ENTRIES = 1 << 21 };

// From one option of an item to its next larger one on the lower convex hull.
struct step {
    uint32_t item;
    uint32_t from, to;  // options of the item
    uint32_t place;     // as listed: an item's steps follow one another
    uint64_t bytes;     // more
    double saved;       // less cost
    double ratio;       // saved per byte
};

// A choice for the items so far: undominated by bytes and cost.
struct entry {
    uint64_t bytes;
    double cost;
    double excess;     // over the least, by the price of a byte
    uint32_t parent;
    uint32_t option;
};

struct knapsack_room {
    size_t entries;        // what the list has room for
    struct step *steps;
    size_t step_count;
    uint32_t *order;       // of an item's options, then of the items
    uint32_t *greedy;      // the option of each item
    double *least_price;   // of each item, with its bytes at the price
    double *decisive;      // of each item: how much the second best is over the least
    uint64_t *rest_bytes;  // the least the items from here on take, in order
    uint32_t *list_at;     // where each item's list of entries begins
    struct entry *list;
    double price;          // of a byte
    double bound;
    double greedy_cost;
};

bool knapsack_create(struct knapsack *knapsack, size_t most_items, size_t most_options)
{
    struct knapsack_room *room = calloc(1, sizeof *room);
    *knapsack = (struct knapsack){ .room = room };
    if (!room)
        return false;
    room->steps = calloc(most_options + 1, sizeof room->steps[0]);
    room->order = calloc(most_options + most_items + 1, sizeof room->order[0]);
    room->greedy = calloc(most_items + 1, sizeof room->greedy[0]);
    room->least_price = calloc(most_items + 1, sizeof room->least_price[0]);
    room->decisive = calloc(most_items + 1, sizeof room->decisive[0]);
    room->rest_bytes = calloc(most_items + 2, sizeof room->rest_bytes[0]);
    room->list_at = calloc(most_items + 3, sizeof room->list_at[0]);
    if (room->steps && room->order && room->greedy && room->least_price && room->decisive && room->rest_bytes
        && room->list_at)
        return true;
    knapsack_clear(knapsack);
    return false;
}

void knapsack_clear(struct knapsack *knapsack)
{
    struct knapsack_room *room = knapsack->room;
    if (!room)
        return;
    free(room->steps);
    free(room->order);
    free(room->greedy);
    free(room->least_price);
    free(room->decisive);
    free(room->rest_bytes);
    free(room->list_at);
    free(room->list);
    free(room);
    knapsack->room = NULL;
}

// --- the linear relaxation ---------------------------------------------------------------

static bool is_before(const struct knapsack_option *a, const struct knapsack_option *b)
{
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->cost < b->cost;
}

// The steps of an item's hull, from its fewest bytes on; returns that first option.
//
//     cost  x                  each step saves less per byte than the one before
//              x     (x)       options above the hull, or that cost more, are no steps
//                  x
//     ------------------ bytes
static uint32_t list_steps(const struct knapsack *knapsack, uint32_t item)
{
    struct knapsack_room *room = knapsack->room;
    const struct knapsack_option *options = knapsack->options + knapsack->first[item];
    const uint32_t count = knapsack->first[item + 1] - knapsack->first[item];
    uint32_t *order = room->order, kept = 0;
    for (uint32_t o = 0; o < count; o++) {
        uint32_t at = o;
        for (; at > 0 && is_before(&options[o], &options[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = o;
    }
    for (uint32_t o = 0; o < count; o++) {
        const struct knapsack_option *next = &options[order[o]];
        if (kept > 0 && next->cost >= options[order[kept - 1]].cost)
            continue;
        for (; kept > 1; kept--) {
            const struct knapsack_option *a = &options[order[kept - 2]], *b = &options[order[kept - 1]];
            if ((a->cost - b->cost) * (double)(next->bytes - b->bytes)
                > (b->cost - next->cost) * (double)(b->bytes - a->bytes))
                break;
        }
        order[kept++] = order[o];
    }
    for (uint32_t k = 1; k < kept; k++) {
        const struct knapsack_option *a = &options[order[k - 1]], *b = &options[order[k]];
        const uint64_t bytes = b->bytes - a->bytes;
        const double saved = a->cost - b->cost;
        room->steps[room->step_count] = (struct step){ item, order[k - 1], order[k], (uint32_t)room->step_count,
                                                       bytes, saved, saved / (double)bytes };
        room->step_count++;
    }
    return order[0];
}

// What saves most per byte first; of equal ones as they were listed, which is an item's own order.
static bool is_sooner(const struct step *a, const struct step *b)
{
    return a->ratio != b->ratio ? a->ratio > b->ratio : a->place < b->place;
}

// Puts the steps of [first, end) that are sooner than the middle one in front of it; where that stands then.
static size_t part_steps(struct step *steps, size_t first, size_t end)
{
    const struct step middle = steps[first + (end - first) / 2];
    steps[first + (end - first) / 2] = steps[end - 1];
    size_t at = first;
    for (size_t s = first; s + 1 < end; s++) {
        if (!is_sooner(&steps[s], &middle))
            continue;
        const struct step sooner = steps[s];
        steps[s] = steps[at];
        steps[at++] = sooner;
    }
    steps[end - 1] = steps[at];
    steps[at] = middle;
    return at;
}

// Of an item's steps the last one counts, in whatever order they are taken.
static void take_step(const struct knapsack *knapsack, const struct step *step, uint64_t *left)
{
    struct knapsack_room *room = knapsack->room;
    const struct knapsack_option *options = knapsack->options + knapsack->first[step->item];
    *left -= step->bytes;
    room->greedy_cost -= step->saved;
    if (options[step->to].cost < options[room->greedy[step->item]].cost)
        room->greedy[step->item] = step->to;
}

// Takes the steps that save most per byte, as many as fit one after the other: which these are can be told by halves,
// without sorting them all. The next is taken in part, for the bound; whole smaller ones behind it still go into the
// choice that fits.
static void take_steps(struct knapsack *knapsack, uint64_t bytes, double cost)
{
    struct knapsack_room *room = knapsack->room;
    struct step *steps = room->steps;
    uint64_t left = knapsack->capacity_bytes - bytes;
    size_t first = 0, end = room->step_count;
    room->greedy_cost = cost;
    room->price = 0;
    while (first < end && room->price == 0) {
        const size_t middle = part_steps(steps, first, end);
        uint64_t sum = 0;
        for (size_t s = first; s < middle; s++)
            sum = add_clamped(sum, steps[s].bytes);
        if (sum > left) {
            end = middle;
            continue;
        }
        for (; first < middle; first++)
            take_step(knapsack, &steps[first], &left);
        if (steps[middle].bytes > left)
            room->price = steps[middle].ratio;
        else
            take_step(knapsack, &steps[first++], &left);
    }
    room->bound = room->greedy_cost - room->price * (double)left;
    for (; first < room->step_count; first++)
        if (steps[first].bytes <= left && room->greedy[steps[first].item] == steps[first].from)
            take_step(knapsack, &steps[first], &left);
}

// Every item in its option of fewest bytes, and the steps from there. False where that does not fit.
static bool begin_small(struct knapsack *knapsack, uint64_t *bytes, double *cost)
{
    struct knapsack_room *room = knapsack->room;
    *bytes = room->step_count = 0;
    *cost = 0;
    for (uint32_t i = 0; i < knapsack->item_count; i++) {
        room->greedy[i] = list_steps(knapsack, i);
        const struct knapsack_option *option = &knapsack->options[knapsack->first[i] + room->greedy[i]];
        *bytes = add_clamped(*bytes, option->bytes);
        *cost += option->cost;
    }
    return *bytes <= knapsack->capacity_bytes;
}

// Every item in its cheapest option, of equal ones that of fewest bytes. False where that does not fit.
static bool take_cheapest(struct knapsack *knapsack)
{
    struct knapsack_room *room = knapsack->room;
    uint64_t bytes = 0;
    room->bound = room->price = 0;
    for (size_t i = 0; i < knapsack->item_count; i++) {
        const struct knapsack_option *options = knapsack->options + knapsack->first[i], *best = options;
        for (const struct knapsack_option *o = options; o < knapsack->options + knapsack->first[i + 1]; o++)
            if (o->cost < best->cost || (o->cost == best->cost && o->bytes < best->bytes))
                best = o;
        room->greedy[i] = (uint32_t)(best - options);
        room->bound += best->cost;
        bytes = add_clamped(bytes, best->bytes);
    }
    room->greedy_cost = room->bound;
    return bytes <= knapsack->capacity_bytes;
}

// False where nothing fits.
static bool relax(struct knapsack *knapsack)
{
    uint64_t bytes;
    double cost;
    if (take_cheapest(knapsack))
        return true;
    if (!begin_small(knapsack, &bytes, &cost))
        return false;
    take_steps(knapsack, bytes, cost);
    return true;
}

enum knapsack_answer knapsack_bound(struct knapsack *knapsack, double *least, double *most)
{
    if (!relax(knapsack))
        return KNAPSACK_NONE;
    *least = knapsack->room->bound;
    *most = knapsack->room->greedy_cost;
    return knapsack->room->price > 0 ? KNAPSACK_BOUND : KNAPSACK_EXACT;
}

// --- exactly --------------------------------------------------------------------------------

static double priced(const struct knapsack_room *room, const struct knapsack_option *option)
{
    return option->cost + room->price * (double)option->bytes;
}

// Items in the order in which their choice matters: those that nearly decide themselves
// first, while the list is short.
static void sort_items(struct knapsack *knapsack)
{
    struct knapsack_room *room = knapsack->room;
    const uint32_t items = (uint32_t)knapsack->item_count;
    for (uint32_t i = 0; i < items; i++) {
        double least = INFINITY, second = INFINITY;
        for (uint32_t o = knapsack->first[i]; o < knapsack->first[i + 1]; o++) {
            const double price = priced(room, &knapsack->options[o]);
            if (price < least) {
                second = least;
                least = price;
            } else if (price < second) {
                second = price;
            }
        }
        room->least_price[i] = least;
        room->decisive[i] = second - least;
        uint32_t at = i;
        for (; at > 0 && room->decisive[i] > room->decisive[room->order[at - 1]]; at--)
            room->order[at] = room->order[at - 1];
        room->order[at] = i;
    }
    room->rest_bytes[items] = 0;
    for (uint32_t k = items; k-- > 0;) {
        uint64_t least = UINT64_MAX;
        const uint32_t i = room->order[k];
        for (uint32_t o = knapsack->first[i]; o < knapsack->first[i + 1]; o++)
            least = knapsack->options[o].bytes < least ? knapsack->options[o].bytes : least;
        room->rest_bytes[k] = add_clamped(room->rest_bytes[k + 1], least);
    }
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    if (left->bytes != right->bytes)
        return left->bytes < right->bytes ? -1 : 1;
    if (left->cost != right->cost)
        return left->cost < right->cost ? -1 : 1;
    if (left->parent != right->parent)
        return left->parent < right->parent ? -1 : 1;
    return (left->option > right->option) - (left->option < right->option);
}

static bool has_entries(struct knapsack_room *room, size_t count)
{
    if (count < room->entries)
        return true;
    const size_t larger = 2 * count + 1024;
    struct entry *list = realloc(room->list, larger * sizeof list[0]);
    if (!list)
        return false;
    room->list = list;
    room->entries = larger;
    return true;
}

// The list behind the k-th item from the one before it: every entry with every option,
// less what cannot fit, cannot be below `best`, or is dominated.
static enum knapsack_answer extend(struct knapsack *knapsack, size_t k, double best)
{
    struct knapsack_room *room = knapsack->room;
    const uint32_t item = room->order[k], begin = room->list_at[k], end = room->list_at[k + 1];
    size_t made = end;
    for (uint32_t e = begin; e < end; e++)
        for (uint32_t o = knapsack->first[item]; o < knapsack->first[item + 1]; o++) {
            if (!has_entries(room, made))
                return KNAPSACK_NO_MEMORY;
            const struct knapsack_option *option = &knapsack->options[o];
            const struct entry *from = &room->list[e];
            const struct entry entry = { from->bytes + option->bytes, from->cost + option->cost,
                                         from->excess + (priced(room, option) - room->least_price[item]), e,
                                         o - knapsack->first[item] };
            if (add_clamped(entry.bytes, room->rest_bytes[k + 1]) <= knapsack->capacity_bytes
                && option->bytes <= knapsack->capacity_bytes && room->bound + entry.excess < best)
                room->list[made++] = entry;
        }
    qsort(room->list + end, made - end, sizeof room->list[0], compare_entries);
    size_t kept = end;
    for (size_t e = end; e < made; e++)
        if (kept == end || room->list[e].cost < room->list[kept - 1].cost)
            room->list[kept++] = room->list[e];
    room->list_at[k + 2] = (uint32_t)kept;
    return kept > MOST_ENTRIES ? KNAPSACK_BOUND : KNAPSACK_EXACT;
}

static enum knapsack_answer search_lists(struct knapsack *knapsack, double below, double *cost, uint32_t *chosen)
{
    struct knapsack_room *room = knapsack->room;
    const size_t items = knapsack->item_count;
    if (!has_entries(room, 1))
        return KNAPSACK_NO_MEMORY;
    sort_items(knapsack);
    room->list[0] = (struct entry){ 0 };
    room->list_at[0] = 0;
    room->list_at[1] = 1;
    for (size_t k = 0; k < items; k++) {
        const enum knapsack_answer answer = extend(knapsack, k, fmin(*cost, below));
        if (answer != KNAPSACK_EXACT)
            return answer;
    }
    // The last entry has most bytes and the least cost; without one what is known is best, or nothing is below.
    uint32_t at = room->list_at[items + 1] - 1;
    if (room->list_at[items + 1] == room->list_at[items] || !(room->list[at].cost < *cost))
        return KNAPSACK_EXACT;
    *cost = room->list[at].cost;
    for (size_t k = items; k-- > 0; at = room->list[at].parent)
        if (chosen)
            chosen[room->order[k]] = room->list[at].option;
    return KNAPSACK_EXACT;
}

enum knapsack_answer knapsack_solve(struct knapsack *knapsack, double below, double *cost, uint32_t *chosen)
{
    if (!relax(knapsack))
        return KNAPSACK_NONE;
    const struct knapsack_room *room = knapsack->room;
    *cost = room->greedy_cost;
    if (chosen)
        memcpy(chosen, room->greedy, knapsack->item_count * sizeof chosen[0]);
    return room->price > 0 ? search_lists(knapsack, below, cost, chosen) : KNAPSACK_EXACT;
}
