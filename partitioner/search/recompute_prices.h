// What recomputation takes at least, from prices on memory: bytes may be bought at so many
// ns each instead of being bounded, and then the cheapest way to run an interval is a
// shortest path from layer to layer.
//
//     layer     0       1       2       3
//           +-keep--+-keep--+-keep--+-keep--+      price x (what it saves, and what its backward reads)
//           +--------[0, 3)---------+              F of its layers + price x what it reads of before it
//                   +--------[1, 4)---------+
//
//     F of what is recomputed  >=  the cheapest way - price x what there is to spend
//
// for every price; the best of several is taken. The same once per limit on the data of
// a segment, which is its workspace: a way whose largest segment is between two limits keeps to the upper
// one, and has so much less than the lower one for all else.
//
// A tensor with several readers is kept once, whichever of them needs it: each pays its
// part. A segment longer than RECOMPUTE_SEGMENT may go on as another that reads nothing. Both only
// make it cheaper.
#ifndef PARTITIONER_SEARCH_RECOMPUTE_PRICES_H
#define PARTITIONER_SEARCH_RECOMPUTE_PRICES_H

#include "partitioner/search/interval.h"

struct recompute_prices;

// How sharply: more prices and limits take as much more time.
enum recompute_sharpness { RECOMPUTE_QUICK, RECOMPUTE_SHARP };

// For what is inside layers [first, end) of a stage; `capacity_bytes` is about what it has. NULL without an
// error where times or sizes are too large, or all nothing. Freed by free().
struct recompute_prices *recompute_prices_create(struct intervals *intervals, uint32_t first, uint32_t end,
                                                 uint64_t capacity_bytes, enum recompute_sharpness sharpness,
                                                 struct error *error);

// From here on only ways for which an interval's input need not be kept: all that reads it is kept, and does without.
void recompute_prices_leave_input(struct recompute_prices *prices);

// Makes ready to ask for intervals that begin at `first` and end at most at `until`.
void recompute_prices_from(struct recompute_prices *prices, uint32_t first, uint32_t until);

// Of layers [first, end) with so many bytes in a slot, where intervals from the first of all layers were made ready: from
// what ways to `end` and to `first` differ by, without limits, so somewhat less than recompute_prices_least() says, but at
// once. The bytes are also for what is read of before `first`.
uint64_t recompute_prices_between(const struct recompute_prices *prices, uint32_t first, uint32_t end, uint64_t bytes);

// Makes ready to ask for what is left of all layers from a position on, which may read what is before it.
void recompute_prices_rest(struct recompute_prices *prices);

// The most layers of a segment that is looked at at once; longer ones go on.
#define RECOMPUTE_SEGMENT 24

// What a tensor is taken to cost one of its readers: bytes in one slot.
uint64_t recompute_prices_part(const struct recompute_prices *prices, uint32_t layer);

// Of an interval that ends at `position`, or of the rest from there on, the least F that must be recomputed, on
// the profile's device, if what it keeps may take `room` bytes in so many slots, together with a workspace that
// is at least `transient`; `paid` bytes of one slot are kept already. UINT64_MAX if that is too little.
uint64_t recompute_prices_least(const struct recompute_prices *prices, uint32_t position, uint32_t slots, uint64_t room,
                                uint64_t transient, uint64_t paid);

#endif
