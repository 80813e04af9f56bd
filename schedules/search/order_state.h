// A partial order, and a bound on what it can become.
//
// The moves made so far have their times; all others are yet to be chosen. order_state_bound() is a lower bound on
// all completions. Each micro-batch follows its way through what is known. If a rank has room for k micro-batches, F
// of i + k does not begin before I of i has ended. Each rank does all its remaining moves as they become possible.
// The time from its last I to the end of the ranks before it is added.
#ifndef SCHEDULES_ORDER_STATE_H
#define SCHEDULES_ORDER_STATE_H

#include "schedules/search/order_problem.h"

struct order_state {
    struct order_clock clock;
    uint64_t *used_bytes;   // per rank
    uint64_t *held;         // per rank: a bit for each chunk whose F is put off until another F has been done
    order_move *order;      // clock.at is the position of each rank
    // For bounds:
    uint64_t *f_end, *i_end;  // [stage * micro_batches + i]: the earliest possible end
    int64_t *tail_ns;         // per rank: from the end of its last I to the objective of the rank that ends last
    uint32_t *most;           // per stage: the micro-batches for which its rank has room
    struct arrays arrays;     // all of these
};

bool order_state_create(struct order_state *state, const struct order_problem *problem, struct error *error);
void order_state_clear(struct order_state *state);
void order_state_reset(struct order_state *state);

// When the rank's next move of this chunk and kind starts. NEVER_NS if its input has not been chosen yet, if it is
// put off, or if there is no room.
uint64_t order_state_start(const struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind);

// Makes a move that has a start; returns what is needed to undo it.
struct order_undo {
    uint64_t free_ns, held;
};
struct order_undo order_state_make(struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind);
void order_state_undo(struct order_state *state, uint32_t rank, uint32_t chunk, enum move_kind kind,
                      struct order_undo was);

// A lower bound on all completions. If `sum_ns` is not NULL, it receives the sum of the bounds of the single ranks.
uint64_t order_state_bound(struct order_state *state, uint64_t *sum_ns);

// --- the next moves --------------------------------------------------------------------

struct order_option {
    uint32_t rank, chunk;
    enum move_kind kind;
    uint64_t start_ns, end_ns, bound_ns, sum_ns;
};
enum { MOST_OPTIONS = 3 * MOST_CHUNKS };

// One rank chooses: the one that could be the first to end a move. Its options are the moves that it could begin
// before that end, that move first. If an order begins something later, that move fits into the gap before, so
// nothing is lost (Giffler and Thompson, 1960). The exception is an F that takes the room of another stage's F:
// order_state_may_hold(). Returns the number of options, 0 if nothing can be done.
uint32_t order_state_options(const struct order_state *state, struct order_option options[MOST_OPTIONS]);

// Whether it may matter to put this option off until its rank has done another F.
bool order_state_may_hold(const struct order_state *state, const struct order_option *option);

// Fills bound_ns and sum_ns of each option, and sorts: the most promising first; equal ones keep their order.
void order_state_weigh(struct order_state *state, struct order_option *options, uint32_t count);

bool order_state_is_complete(const struct order_state *state);

// A copy of what has been done, in `order_state_size()` bytes of the caller.
size_t order_state_size(const struct order_problem *problem);
void order_state_save(const struct order_state *state, void *copy);
void order_state_load(struct order_state *state, const void *copy);

#endif
