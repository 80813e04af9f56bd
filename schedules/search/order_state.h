// An order that is half made, and what it can still become.
//
// The moves made so far are at their times; everything else is yet to be chosen.
// order_state_bound() says what no completion beats: each micro-batch goes its way
// through what is known, F of i + k not before I of i has ended where a rank has room for k;
// each rank does all that is left as it becomes possible, and the way from its last I to
// the end of the ranks before comes on top.
#ifndef SCHEDULES_ORDER_STATE_H
#define SCHEDULES_ORDER_STATE_H

#include "schedules/search/order_problem.h"

struct order_state {
    struct order_clock clock;
    uint64_t *used_bytes;   // per rank
    uint64_t *held;         // per rank: a bit for each chunk whose F is put off until another F was done
    order_move *order;      // clock.at says how far each rank is
    // For bounds:
    uint64_t *f_end, *i_end;  // [stage * micro_batches + i]: at the earliest
    int64_t *tail_ns;         // per rank: from the end of its last I to the objective of whoever is last
    uint32_t *most;           // per stage: micro-batches that its rank has room for
};

bool order_state_create(struct order_state *state, const struct order_problem *problem, struct error *error);
void order_state_clear(struct order_state *state);
void order_state_reset(struct order_state *state);

// When the rank's next move of this chunk and kind starts; NEVER_NS if what it needs has not been chosen, it is
// put off, or there is no room.
uint64_t order_state_start(const struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind);

// Makes a move that has a start; returns what it takes to undo it.
struct order_undo {
    uint64_t free_ns, held;
};
struct order_undo order_state_make(struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind);
void order_state_undo(struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind,
                      struct order_undo was);

// What no completion beats. `*sum_ns` (or NULL): the same for each rank on its own, added up.
uint64_t order_state_bound(struct order_state *state, uint64_t *sum_ns);

// --- what can be done next ---------------------------------------------------------

struct order_option {
    uint32_t rank, chunk;
    enum move_kind kind;
    uint64_t start_ns, end_ns, bound_ns, sum_ns;
};
enum { MOST_OPTIONS = 3 * MOST_CHUNKS };

// One rank chooses: the one that could be the first to end a move. What it could begin before that end, that move
// first. In an order in which it begins something later there is a hole into which that move fits, so
// nothing is lost (Giffler and Thompson, 1960), unless that move is an F that takes the room of another stage's F:
// order_state_may_hold(). 0 when nothing can be done.
uint32_t order_state_options(const struct order_state *state, struct order_option options[MOST_OPTIONS]);

// Whether it may matter to put this option off until its rank has done another F.
bool order_state_may_hold(const struct order_state *state, const struct order_option *option);

// Fills bound_ns and sum_ns of each, and sorts: the most promising first; equals stay in their order.
void order_state_weigh(struct order_state *state, struct order_option *options, uint32_t count);

bool order_state_is_complete(const struct order_state *state);

// A copy of what has been done, in `order_state_size()` bytes of the caller's.
size_t order_state_size(const struct order_problem *problem);
void order_state_save(const struct order_state *state, void *copy);
void order_state_load(struct order_state *state, const void *copy);

#endif
