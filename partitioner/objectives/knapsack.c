#include "partitioner/objectives/knapsack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/arrays.h"
#include "common/number.h"

enum { MOST_ENTRIES = 1 << 21 };

// The bound is a difference of rounded sums.
#define ROUNDED_DOWN (1 - 0x1p-40)

// A choice for the items so far that is undominated by bytes and cost.
struct entry {
    uint64_t bytes;
    double cost;
    double excess;     // above the least, at the price of a byte
    uint32_t parent;
    uint32_t option;
};

// For an item's options, with their bytes at the bound's price.
struct option_prices {
    double least, decisive;  // the least, and how far the second best is above it
};

struct knapsack_room {
    size_t entries;        // what the list has room for
    uint32_t *order;       // of the items
    uint32_t *greedy;      // the option of each item in a choice that fits
    struct option_prices *prices;  // of each item
    uint64_t *rest_bytes;  // the least that the items from here on take, in order
    uint32_t *list_at;     // where each item's list of entries begins
    struct entry *list;
    double price;          // of a byte
    double bound;
    double greedy_cost;
    struct arrays arrays;
};

bool knapsack_create(struct knapsack *knapsack, size_t most_items)
{
    struct knapsack_room *room = calloc(1, sizeof *room);
    *knapsack = (struct knapsack){ .room = room };
    if (!room)
        return false;
    room->order = arrays_add(&room->arrays, most_items, sizeof room->order[0]);
    room->greedy = arrays_add(&room->arrays, most_items, sizeof room->greedy[0]);
    room->prices = arrays_add(&room->arrays, most_items, sizeof room->prices[0]);
    room->rest_bytes = arrays_add(&room->arrays, most_items + 1, sizeof room->rest_bytes[0]);
    room->list_at = arrays_add(&room->arrays, most_items + 2, sizeof room->list_at[0]);
    if (!room->arrays.failed)
        return true;
    knapsack_clear(knapsack);
    return false;
}

void knapsack_clear(struct knapsack *knapsack)
{
    struct knapsack_room *room = knapsack->room;
    if (!room)
        return;
    arrays_clear(&room->arrays);
    free(room->list);
    free(room);
    knapsack->room = NULL;
}

// --- from below -----------------------------------------------------------------------------

// The totals of a choice of all items.
struct total {
    uint64_t bytes;
    double cost;
};

static double priced(double price, const struct knapsack_option *option)
{
    return option->cost + price * (double)option->bytes;
}

// Whether an option is better than another if a byte has this price. If two are equal, the one with fewer bytes is
// better.
static bool is_better(const struct knapsack_option *a, const struct knapsack_option *b, double price)
{
    if (price == INFINITY)
        return a->bytes != b->bytes ? a->bytes < b->bytes : a->cost < b->cost;
    const double first = priced(price, a), second = priced(price, b);
    return first != second ? first < second : a->bytes < b->bytes;
}

// Gives every item its best option at the price.
static struct total choose_at(struct knapsack *knapsack, double price)
{
    struct total total = { 0, 0 };
    for (size_t i = 0; i < knapsack->item_count; i++) {
        const struct knapsack_option *options = knapsack->options + knapsack->first[i], *best = options;
        for (const struct knapsack_option *o = options + 1; o < knapsack->options + knapsack->first[i + 1]; o++)
            best = is_better(o, best, price) ? o : best;
        knapsack->room->greedy[i] = (uint32_t)(best - options);
        total.bytes = add_clamped(total.bytes, best->bytes);
        total.cost += best->cost;
    }
    return total;
}

// The bytes that the choice leaves free go to the items, one by one.
static void fill_up(struct knapsack *knapsack, struct total total)
{
    struct knapsack_room *room = knapsack->room;
    for (size_t i = 0; i < knapsack->item_count; i++) {
        const struct knapsack_option *options = knapsack->options + knapsack->first[i];
        const uint64_t others = total.bytes - options[room->greedy[i]].bytes;
        for (uint32_t o = 0; o < knapsack->first[i + 1] - knapsack->first[i]; o++) {
            const struct knapsack_option *held = &options[room->greedy[i]];
            if (!(options[o].cost < held->cost) || add_clamped(others, options[o].bytes) > knapsack->capacity_bytes)
                continue;
            total.cost -= held->cost - options[o].cost;
            total.bytes = others + options[o].bytes;
            room->greedy[i] = o;
        }
    }
    room->greedy_cost = total.cost;
}

// Finds the price of a byte at which a choice that fits and one that does not are both best. It takes the price from
// the line between two such choices, until no choice is below the line. False if nothing fits.
//
//     cost  fits
//              .
//                 x      a choice below the line takes the place of one of the two
//                       over
//     --------------|------------ bytes
static bool relax(struct knapsack *knapsack)
{
    struct knapsack_room *room = knapsack->room;
    struct total over = choose_at(knapsack, 0);
    double fits_at = INFINITY;
    room->price = 0;
    room->bound = room->greedy_cost = over.cost;
    if (over.bytes <= knapsack->capacity_bytes)
        return true;
    struct total fits = choose_at(knapsack, INFINITY), next = fits;
    if (fits.bytes > knapsack->capacity_bytes)
        return false;
    for (;;) {
        room->price = (fits.cost - over.cost) / (double)(over.bytes - fits.bytes);
        next = choose_at(knapsack, room->price);
        const bool is_over = next.bytes > knapsack->capacity_bytes;
        // Costs are rounded, so that a choice may seem to be below the line although it is not between the two.
        if ((is_over ? next.bytes >= over.bytes : next.bytes <= fits.bytes) || !(room->price > 0))
            break;
        if (is_over) {
            over = next;
        } else {
            fits = next;
            fits_at = room->price;
        }
    }
    const double spare = (double)knapsack->capacity_bytes - (double)next.bytes;
    room->bound = (next.cost - room->price * spare) * ROUNDED_DOWN;
    fill_up(knapsack, choose_at(knapsack, fits_at));
    return true;
}

// --- exactly --------------------------------------------------------------------------------

// Sorts items by how their choice matters. Those that nearly decide themselves come first, while the list is short.
static void sort_items(struct knapsack *knapsack)
{
    struct knapsack_room *room = knapsack->room;
    const uint32_t items = (uint32_t)knapsack->item_count;
    for (uint32_t i = 0; i < items; i++) {
        double least = INFINITY, second = INFINITY;
        for (uint32_t o = knapsack->first[i]; o < knapsack->first[i + 1]; o++) {
            const double price = priced(room->price, &knapsack->options[o]);
            if (price < least) {
                second = least;
                least = price;
            } else if (price < second) {
                second = price;
            }
        }
        room->prices[i] = (struct option_prices){ least, second - least };
        uint32_t place = i;
        for (; place > 0 && room->prices[i].decisive > room->prices[room->order[place - 1]].decisive; place--)
            room->order[place] = room->order[place - 1];
        room->order[place] = i;
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

// Makes the list after the k-th item from the one before it: every entry with every option, without those that
// cannot fit, cannot be below `best`, or are dominated.
static enum knapsack_answer extend(struct knapsack *knapsack, size_t k, double best)
{
    struct knapsack_room *room = knapsack->room;
    const uint32_t item = room->order[k], begin = room->list_at[k], end = room->list_at[k + 1];
    size_t made = end;
    for (uint32_t e = begin; e < end; e++)
        for (uint32_t o = knapsack->first[item]; o < knapsack->first[item + 1]; o++) {
            if (!array_reserve(&room->list, &room->entries, made + 1, sizeof room->list[0]))
                return KNAPSACK_NO_MEMORY;
            const struct knapsack_option *option = &knapsack->options[o];
            const struct entry *from = &room->list[e];
            const struct entry entry = { from->bytes + option->bytes, from->cost + option->cost,
                                         from->excess + (priced(room->price, option) - room->prices[item].least), e,
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
    if (!array_reserve(&room->list, &room->entries, 1, sizeof room->list[0]))
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
    // The last entry has the most bytes and the least cost. If there is none, the choice already known is best, or
    // nothing is below.
    uint32_t entry = room->list_at[items + 1] - 1;
    if (room->list_at[items + 1] == room->list_at[items] || !(room->list[entry].cost < *cost))
        return KNAPSACK_EXACT;
    *cost = room->list[entry].cost;
    for (size_t k = items; k-- > 0; entry = room->list[entry].parent)
        if (chosen)
            chosen[room->order[k]] = room->list[entry].option;
    return KNAPSACK_EXACT;
}

enum knapsack_answer knapsack_solve(struct knapsack *knapsack, double below, double *least, double *most,
                                    uint32_t *chosen)
{
    if (!relax(knapsack))
        return KNAPSACK_NONE;
    const struct knapsack_room *room = knapsack->room;
    *least = room->bound;
    *most = room->greedy_cost;
    if (chosen)
        memcpy(chosen, room->greedy, knapsack->item_count * sizeof chosen[0]);
    if (room->price == 0 || (!chosen && (!(*least < below) || *most < below)))
        return KNAPSACK_EXACT;
    const enum knapsack_answer answer = search_lists(knapsack, below, most, chosen);
    if (answer == KNAPSACK_EXACT)
        *least = fmin(*most, below);
    return answer;
}
