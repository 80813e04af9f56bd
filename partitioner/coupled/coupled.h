// The search for schedules of any order: several stages on a rank, two copies of a
// stage, backwards in two parts. What search_nodes.c knows of orders with one stage
// per rank does not hold here, since the stages of a rank share its memory and its
// time:
//
//     zb-v, p = 2      rank 0 holds stages 0 and 3     C_0 >= bytes(0) + bytes(3) + the larger workspace
//                      rank 1 holds stages 1 and 2     C_1 >= bytes(1) + bytes(2) + the larger workspace
//
// How often a rank does what, how many micro-batches it keeps, and where its stages
// are is read from the schedule's own actions.
//
//     coupled.c         the problem, and what a decision takes
//     coupled_seats.c   which devices it is for, and what its layers take there
//     coupled_ranks.c   what each rank recomputes so that its stages fit together
//     coupled_bound.c   what no decision can beat
//     coupled_start.c   balanced stages: a dynamic program, round by round
//     coupled_moves.c   small moves, by simulated time
//     coupled_proof.c   all decisions, where there are few
//     coupled_search.c  the whole, and the plan that comes of it
#ifndef PARTITIONER_COUPLED_COUPLED_H
#define PARTITIONER_COUPLED_COUPLED_H

#include "partitioner/placement.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search.h"
#include "partitioner/search/stage_table.h"

// How often a rank does the actions of one of its stages.
struct coupled_work {
    uint32_t stage;
    uint32_t forwards, backwards, inputs, weights;  // F, B, I, W of whole micro-batches
};

// What layers [first, end) take as a stage.
struct coupled_stage {
    uint32_t stage, first, end;
    uint64_t bytes, workspace_bytes;  // of the slab with nothing recomputed
    struct stage_away away;           // likewise
    struct recompute_list front;      // ways to recompute, worked out when first asked for
    bool has_front, fits;             // not fits: no way fits on the device by itself
};

// A decision: cuts, and what each rank spares. What it takes follows from these.
#define SPARES_NONE UINT32_MAX
#define NOT_RECOMPUTED SIZE_MAX
struct coupled_decision {
    uint32_t *cuts;    // stage s is layers [cuts[s], cuts[s + 1]); stages + 1
    uint32_t *spared;  // per rank, which of its stages (by its place among them) is recomputed last
};

// A decision with all that follows from it. Of two, the one that lacks less is better,
// then the quicker one.
struct coupled_state {
    struct coupled_decision decision;
    uint64_t *recompute_ns;  // per stage, on the profile's device
    struct stage_away *away;  // per stage
    size_t *choice;          // per stage, into its front; NOT_RECOMPUTED
    bool is_whole;           // into a front of the table `whole`
    uint64_t *lacks_bytes;   // per rank
    uint64_t host_lacks;     // the most of any machine's host
    uint64_t most_lacking;   // of a rank, or a host
    uint64_t value_ns;       // only where nothing is lacking
};

struct coupled {
    const struct search_request *request;
    const struct generator *generator;
    struct schedule *order;        // of as many micro-batches as are asked for
    struct placement *placement;
    uint32_t layers, stages, ranks;
    bool flushes;
    bool links_unshared;           // each link carries the messages of one channel
    bool is_monotone;              // a longer duration never makes a shorter iteration
    struct profile **views;        // of each stage: the profile, with the numbers of its variant
    struct intervals **intervals;  // of each stage; those of the same variant share them
    uint64_t *least[4];            // running totals of F, B, I, W, of each layer the least of all stages' variants
    struct slots *slots;           // of each stage
    struct network *own_network;
    const struct network *network;
    bool *can_cut;                 // in front of layer l; layers + 1
    struct coupled_work *work_of;  // of rank r: from placement->stage_at[r], as placement->held
    uint32_t *leader;              // of each rank: the first that holds the same stages, which chooses for all of them
    uint32_t *seat_at, *seats;     // devices of rank r: seats[seat_at[r]] to seats[seat_at[r + 1]]
    struct stage_place *places;    // of each stage
    uint64_t *speed, *capacity;    // of a stage's slowest device; of each rank, the least of those it leads
    struct simulator *simulators[2];  // of an iteration; asynchronous: of 3m and of 2m micro-batches
    uint64_t actions;              // that these simulate together
    struct cost_row *rows;
    struct simulator *bound_simulator;  // of an iteration in which nothing waits for links; NULL: asynchronous
    struct stage_table narrow, whole;  // fronts for searching, and for proving
    uint64_t work, budget, deadline_ns;
    uint64_t next_progress;  // the work at which the request is told of it
    char stopped[80];
};

// The whole search: as plan_search(), which calls it where pattern.h does not know the
// schedule's order.
struct plan *coupled_search(const struct search_request *request, struct error *error);

struct coupled *coupled_create(const struct search_request *request, struct error *error);
void coupled_free(struct coupled *coupled);

// Fills in the stages' views and intervals; the ranks' devices, and the links between them (coupled_seats.c).
bool coupled_view(struct coupled *coupled, struct error *error);
bool coupled_sit(struct coupled *coupled, struct error *error);
void coupled_leave(struct coupled *coupled);  // frees what these filled in

// Whether the budget is used up, the deadline has passed or somebody interrupts.
bool coupled_must_stop(struct coupled *coupled);

bool coupled_state_create(struct coupled_state *state, const struct coupled *coupled, struct error *error);
void coupled_state_clear(struct coupled_state *state);
void coupled_state_copy(struct coupled_state *to, const struct coupled_state *from, const struct coupled *coupled);
bool coupled_is_better(const struct coupled_state *a, const struct coupled_state *b);

// What rank r does of its stage `at` (a place in placement->held) in an iteration.
uint64_t coupled_busy_ns(const struct coupled *coupled, uint32_t at, uint32_t first, uint32_t end,
                         uint64_t recompute_ns);

// What these layers take as a stage. NULL without memory.
struct coupled_stage *coupled_stage_of(struct coupled *coupled, struct stage_table *table, uint32_t stage,
                                       uint32_t first, uint32_t end, struct error *error);

// The same with its front: a narrow one, or, of the table `whole`, every choice there
// is, and, where a longer stage can make a shorter iteration, for every time.
struct coupled_stage *coupled_front(struct coupled *coupled, struct stage_table *table, uint32_t stage,
                                    uint32_t first, uint32_t end, struct error *error);

// Fills in what a rank recomputes: the least time in which its stages fit together,
// or lack least.
bool coupled_choose(struct coupled *coupled, struct coupled_state *state, uint32_t rank, struct error *error);

// Fills in all that follows from a decision; of the ranks only those that hold stages
// [from, to) are chosen for anew.
bool coupled_complete(struct coupled *coupled, struct coupled_state *state, uint32_t from, uint32_t to,
                      struct error *error);

// What the machines' hosts lack for the state: the most of any.
uint64_t coupled_host_lacks(const struct coupled *coupled, const struct coupled_state *state);

// The simulated time of the cuts with the recomputation of the state.
uint64_t coupled_time(struct coupled *coupled, const struct coupled_state *state);

// The row of a stage; all its numbers are at least those of a part of its layers.
struct cost_row coupled_row(const struct coupled *coupled, uint32_t stage, uint32_t first, uint32_t end,
                            uint64_t recompute_ns);

// What no decision can beat, whatever the order of the layers: the work of all ranks, the
// fill and the drain. 0 where nothing is known.
bool coupled_work_bound(const struct coupled *coupled, uint64_t *bound, struct error *error);

// What no decision can beat; 0 where nothing is known.
bool coupled_bound(const struct coupled *coupled, uint64_t *bound, struct error *error);

// A decision to begin with, complete.
bool coupled_start(struct coupled *coupled, struct coupled_state *best, struct error *error);

// Betters a complete decision by small moves, using up to so much work.
bool coupled_improve(struct coupled *coupled, struct coupled_state *best, uint64_t work, struct error *error);

// Whether trying all decisions takes less than looking for good ones.
bool coupled_is_small(const struct coupled *coupled);

// Tries all decisions that could be better, where they are few; *proved if none is left.
bool coupled_prove(struct coupled *coupled, struct coupled_state *best, bool *proved, struct error *error);

#endif
