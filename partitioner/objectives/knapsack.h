// Chooses one option for each item, so that the bytes fit and the cost is least (a multiple-choice knapsack).
//
//     item 0    (cost 10, 900 bytes)  (cost 14, 50 bytes)        recompute or keep
//     item 1    (cost  3, 100 bytes)  (cost  4, 80 bytes) ...    one of several ways to run
//
// The bound lets one item take a mix of two options (the linear relaxation). The exact answer carries a list of
// undominated pairs (bytes, cost) through the items. A pair is dropped if it is too expensive by the bound's price
// for a byte, so the list stays short if the bound is near.
#ifndef PARTITIONER_OBJECTIVES_KNAPSACK_H
#define PARTITIONER_OBJECTIVES_KNAPSACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct knapsack_option {
    double cost;
    uint64_t bytes;
};

// Options of item i are options[first[i]] to options[first[i + 1]]; each item has at least one. The first four
// fields are set anew for each question.
struct knapsack {
    const struct knapsack_option *options;
    const uint32_t *first;
    size_t item_count;
    uint64_t capacity_bytes;
    struct knapsack_room *room;
};

// Makes room for questions of up to `most_items` items. False without memory.
bool knapsack_create(struct knapsack *knapsack, size_t most_items);
void knapsack_clear(struct knapsack *knapsack);

// KNAPSACK_NONE: no choice fits; KNAPSACK_BOUND: the list would have become too long.
enum knapsack_answer { KNAPSACK_NO_MEMORY, KNAPSACK_NONE, KNAPSACK_BOUND, KNAPSACK_EXACT };

// Finds on which side of `below` the least cost lies. No choice that fits costs less than *least, and some choice
// that fits costs *most. Both are below, or both are not, except for KNAPSACK_BOUND. If they are below, `chosen`
// (NULL: not wanted) gets the option of each item, an index within the item's, of the cheapest choice. If nothing
// fits, what was asked for stays as it was.
enum knapsack_answer knapsack_solve(struct knapsack *knapsack, double below, double *least, double *most,
                                    uint32_t *chosen);

#endif
