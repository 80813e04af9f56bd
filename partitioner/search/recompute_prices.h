// A Lagrangian bound of the time of recomputation, from prices on memory. Bytes can be bought at so many ns each
// instead of being limited. The cheapest way to run an interval is then a shortest path from layer to layer.
//
//     layer     0       1       2       3
//           +-keep--+-keep--+-keep--+-keep--+      price x (what it saves, and what its backward reads)
//           +--------[0, 3)---------+              F of its layers + price x what it reads of before it
//                   +--------[1, 4)---------+
//
//     F of what is recomputed  >=  the cheapest way - price x what there is to spend
//
// This holds for every price, and the best of several is taken. The same is done once per limit on the data of a
// segment, which is its workspace. A way whose largest segment is between two limits keeps to the upper one, and for
// everything else it has less, by as much as the lower one.
//
// A tensor with several readers is kept once, whichever of them needs it: each pays its part. A segment longer than
// RECOMPUTE_SEGMENT may go on as another one that reads nothing. Both only make the way cheaper.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_PRICES_H
#define PARTITIONER_SEARCH_RECOMPUTE_PRICES_H

#include "partitioner/search/interval.h"

struct recompute_prices;

// How sharp the bound is. More prices and limits take as much more time.
enum recompute_sharpness { RECOMPUTE_QUICK, RECOMPUTE_SHARP };

// Prices for what is inside layers [first, end) of a stage; `capacity_bytes` is about what it has. The caller frees
// them by free(). NULL without an error if times or sizes are too large, or all nothing; NULL with an error without
// memory.
struct recompute_prices *recompute_prices_create(struct intervals *intervals, uint32_t first, uint32_t end,
                                                 uint64_t capacity_bytes, enum recompute_sharpness sharpness,
                                                 struct error *error);

// From here on, only ways count for which an interval's input need not be kept. Every layer that reads it is kept,
// and does without it.
void recompute_prices_leave_input(struct recompute_prices *prices);

// Prepares for questions about intervals that begin at `first` and end at most at `until`.
void recompute_prices_from(struct recompute_prices *prices, uint32_t first, uint32_t until);

// A bound for layers [first, end) with `bytes` in a slot, after preparing for intervals from the first of all layers.
// It comes from how ways to `end` and ways to `first` differ, without limits. It is somewhat lower than
// recompute_prices_least(), but available at once. The bytes also pay for what is read from before `first`.
uint64_t recompute_prices_between(const struct recompute_prices *prices, uint32_t first, uint32_t end, uint64_t bytes);

// Prepares for questions about the rest of all layers from a position on, which may read what is before it.
void recompute_prices_rest(struct recompute_prices *prices);

// The most layers of a segment that is considered at once; longer ones go on.
#define RECOMPUTE_SEGMENT 24

// The part of a tensor that one of its readers pays for: bytes in one slot.
uint64_t recompute_prices_part(const struct recompute_prices *prices, uint32_t layer);

// The least F that must be recomputed, ns on the profile's device, in an interval that ends at `position`, or in the
// rest from there on. What it keeps may take `room` bytes in `slots` slots, together with a workspace of at least
// `transient`. `paid` bytes of one slot are kept already. UINT64_MAX if that is too little.
uint64_t recompute_prices_least(const struct recompute_prices *prices, uint32_t position, uint32_t slots, uint64_t room,
                                uint64_t transient, uint64_t paid);

#endif
