// A decision, and all that follows from it: where to cut, what each rank recomputes, what that lacks and how long an
// iteration takes.
#ifndef PARTITIONER_CUTS_CUT_STATE_H
#define PARTITIONER_CUTS_CUT_STATE_H

#include "partitioner/cuts/stage_price.h"

#define NOT_RECOMPUTED SIZE_MAX

// What a stage recomputes.
struct stage_decision {
    size_t choice;          // of its stage_price; NOT_RECOMPUTED
    uint64_t recompute_ns;  // on the profile's device
    struct stage_away away;
};

struct cut_state {
    uint32_t *cuts;             // decided: stage s lies between places cuts[s] and cuts[s + 1]; stages + 1
    struct stage_decision *of;  // what follows, per stage
    bool is_exact;              // these are of the table `exact`
    uint64_t *lacks_bytes;      // per rank
    uint64_t host_lacks;        // the most of any machine's host
    uint64_t most_lacking;      // of a rank, or a host
    uint64_t all_lacking;       // of all of them
    uint64_t value_ns;          // where nothing is lacking; NO_TIME: at least the limit that was given
};

// Without cuts yet: such a state lacks more than any other.
bool cut_state_create(struct cut_state *state, const struct cut_problem *problem, struct error *error);
void cut_state_clear(struct cut_state *state);
void cut_state_copy(struct cut_state *to, const struct cut_state *from, const struct cut_problem *problem);

static inline bool cut_state_has_cuts(const struct cut_state *state, const struct cut_problem *problem)
{
    return state->cuts[problem->stages] != 0;
}

// Of two, the one that lacks less is better, then the quicker one.
bool cut_state_is_better(const struct cut_state *a, const struct cut_state *b);

// Fills in all that follows from a decision; of the ranks only those that hold stages [from, to) choose anew what to
// recompute. Time is only worked out exactly where it is below `limit_ns`.
bool cut_state_complete(struct cut_problem *problem, struct cut_state *state, uint32_t from, uint32_t to,
                        uint64_t limit_ns, struct error *error);

// Whether the stages of a rank fit with nothing recomputed; then that is what they do.
bool cut_state_keep(struct cut_problem *problem, struct cut_state *state, struct stage_table *table, uint32_t rank,
                    bool *fits, struct error *error);

// What a rank recomputes: the least time in which its stages fit together, or what lacks least (rank_choice.c).
bool cut_state_choose(struct cut_problem *problem, struct cut_state *state, uint32_t rank, struct error *error);

// What the machines' hosts lack: the most of any.
uint64_t cut_state_host_lacks(const struct cut_problem *problem, const struct cut_state *state);

// The simulated time of the state's cuts with its recomputation; NO_TIME if it is at least `limit_ns`.
uint64_t cut_state_time(struct cut_problem *problem, const struct cut_state *state, uint64_t limit_ns);

// Whether the cuts of `a` stand further in front, at the first stage where they differ: which of two that take as long.
bool cut_state_is_before(const struct cut_state *a, const struct cut_state *b, uint32_t stages);

#endif
