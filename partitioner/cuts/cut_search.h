// The search for cuts: where to cut a model into stages, and what to recompute. An iteration of the schedule shall
// take the least simulated time, and every stage must fit on its device. Plans come first, bounds second (README.md).
// A result of false or NULL comes with an error.
#ifndef PARTITIONER_CUTS_CUT_SEARCH_H
#define PARTITIONER_CUTS_CUT_SEARCH_H

#include "partitioner/cuts/cut_state.h"

// The best plan for the stages, ranks and devices of the request, with its certificate, in the profile's own order of
// layers or in all orders. The caller frees it. NULL with the reason (ERROR_ANSWER: nothing fits, or nothing was
// found).
struct plan *cut_search(const struct search_request *request, enum cut_orders orders, struct error *error);

// --- its parts ------------------------------------------------------------------------------

// Makes a complete decision to begin with. If none is found to fit, it is the one that lacks the least memory.
bool cut_start(struct cut_problem *problem, struct cut_state *best, struct error *error);

// For the cuts of a decision that fits, looks for the quickest recomputation of each stage. It is used only if every
// rank has one stage.
bool cut_sharpen(struct cut_problem *problem, struct cut_state *best, struct error *error);

// Finds cuts with which every stage fits, if every rank has one stage and the layers have one order. *found: whether
// there are any.
bool cut_reach(struct cut_problem *problem, const struct search_part *part, uint32_t *cuts, bool *found,
               struct error *error);

// Finds the cuts that lack the least memory, if every rank has one stage and the layers have one order. Improves
// `best` within a part of the search. *certain: no cuts lack less.
bool cut_find_least_lacking(struct cut_problem *problem, struct cut_state *best, const struct search_part *part,
                            bool *certain, struct error *error);

// Improves a complete decision by moves (local search), within a part of the search.
bool cut_improve(struct cut_problem *problem, struct cut_state *best, struct search_part part, struct error *error);

// A lower bound that no plan can beat.
bool cut_root_bound(const struct cut_problem *problem, uint64_t *bound_ns, struct error *error);

// Branch and bound within a part of the search. Improves `best`, and raises *bound_ns to a bound that no plan below
// `below_ns` can beat. NO_TIME: there is no such plan that is better than `best`.
bool cut_branch_and_bound(struct cut_problem *problem, struct cut_state *best, uint64_t below_ns,
                          const struct search_part *part,
                          uint64_t *bound_ns, struct error *error);

// Sets the error that says why nothing fits (ERROR_ANSWER); *certain: it is proved that nothing can fit. If this
// finds a plan after all, it is *best, and there is no error.
bool cut_explain_shortage(struct cut_problem *problem, struct cut_state *best, bool all_tried, bool *certain,
                          struct error *error);

#endif
