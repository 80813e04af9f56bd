// A decision and everything that follows from it: where to cut, what each rank recomputes, how much memory that
// lacks, and how long an iteration takes.
#ifndef PARTITIONER_CUTS_CUT_STATE_H
#define PARTITIONER_CUTS_CUT_STATE_H

#include "partitioner/cuts/stage_price.h"

#define NOT_RECOMPUTED SIZE_MAX

// The recomputation of a stage.
struct stage_decision {
    size_t choice;          // index into the choices of its stage_price; or NOT_RECOMPUTED
    uint64_t recompute_ns;  // on the profile's device
    struct stage_away away;
};

struct cut_state {
    uint32_t *cuts;             // decided: stage s lies between places cuts[s] and cuts[s + 1]; stages + 1 of them
    struct stage_decision *of;  // follows, for each stage
    bool is_exact;              // the choices are those of the table `exact`
    uint64_t *lacks_bytes;      // of each rank
    uint64_t host_lacks;        // the most of any machine's host
    uint64_t most_lacking;      // of any rank or host
    uint64_t all_lacking;       // the sum over all ranks and hosts
    uint64_t value_ns;          // if nothing is lacking; NO_TIME: at least the limit that was given
};

// Creates a state without cuts, which lacks more than any other. cut_state_clear() frees what it holds.
bool cut_state_create(struct cut_state *state, const struct cut_problem *problem, struct error *error);
void cut_state_clear(struct cut_state *state);
void cut_state_copy(struct cut_state *to, const struct cut_state *from, const struct cut_problem *problem);
void cut_state_copy_all_but_cuts(struct cut_state *to, const struct cut_state *from, const struct cut_problem *problem);

static inline bool cut_state_has_cuts(const struct cut_state *state, const struct cut_problem *problem)
{
    return state->cuts[problem->stages] != 0;
}

// Whether `a` is better: it lacks less (`most_lacking`, then `all_lacking`), or neither lacks anything and `a` is
// quicker.
bool cut_state_is_better(const struct cut_state *a, const struct cut_state *b);

// Fills in everything that follows from a decision. Only ranks that hold any of the stages [from, to) choose anew
// what to recompute. The time is worked out exactly only if it is below `limit_ns`.
bool cut_state_complete(struct cut_problem *problem, struct cut_state *state, uint32_t from, uint32_t to,
                        uint64_t limit_ns, struct error *error);

// *fits: whether the stages of a rank fit with nothing recomputed. If so, they recompute nothing.
bool cut_state_keep(struct cut_problem *problem, struct cut_state *state, struct stage_table *table, uint32_t rank,
                    bool *fits, struct error *error);

// Chooses what a rank recomputes: the least time in which its stages fit together, or what lacks least
// (rank_choice.c).
bool cut_state_choose(struct cut_problem *problem, struct cut_state *state, uint32_t rank, struct error *error);

// How many bytes the hosts of the machines lack: the most of any host.
uint64_t cut_state_host_lacks(const struct cut_problem *problem, const struct cut_state *state);

// The simulated time of the state's cuts with its recomputation; NO_TIME if it is at least `limit_ns`.
uint64_t cut_state_time(struct cut_problem *problem, const struct cut_state *state, uint64_t limit_ns);

// Whether the cuts of `a` are further in front at the first stage where they differ. It decides between two plans
// that take equally long.
bool cut_state_is_before(const struct cut_state *a, const struct cut_state *b, uint32_t stages);

#endif
