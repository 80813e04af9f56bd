// The search for cuts: where to cut a model into stages and what to recompute, so that an iteration of the schedule takes
// the least simulated time and every stage fits on its device. Plans first, bounds second (README.md).
#ifndef PARTITIONER_CUTS_CUT_SEARCH_H
#define PARTITIONER_CUTS_CUT_SEARCH_H

#include "partitioner/cuts/cut_state.h"

// The best plan for the stages, ranks and devices of the request, with its certificate, in the profile's own order or in
// all of them; NULL with the reason (ERROR_ANSWER: nothing fits, or nothing was found).
struct plan *cut_search(const struct search_request *request, enum cut_orders orders, struct error *error);

// --- its parts ------------------------------------------------------------------------------

// A decision to begin with, complete; what lacks least where none is found to fit.
bool cut_start(struct cut_problem *problem, struct cut_state *best, struct error *error);

// Of what stages recompute, the quickest that can be found for the cuts of a decision that fits, where ranks have one
// stage.
bool cut_sharpen(struct cut_problem *problem, struct cut_state *best, struct error *error);

// Cuts of which every stage fits, where ranks have one stage and the layers one order; *found: whether there are some.
bool cut_reach(struct cut_problem *problem, const struct search_part *part, uint32_t *cuts, bool *found,
               struct error *error);

// The cuts that lack least, where ranks have one stage and the layers one order: betters `best` in a part of the
// search. *certain: nothing lacks less.
bool cut_find_least_lacking(struct cut_problem *problem, struct cut_state *best, const struct search_part *part, bool *certain,
                            struct error *error);

// Betters a complete decision by moves, in a part of the search.
bool cut_improve(struct cut_problem *problem, struct cut_state *best, struct search_part part, struct error *error);

// What no plan can beat.
bool cut_root_bound(const struct cut_problem *problem, uint64_t *bound_ns, struct error *error);

// Branch and bound in a part of the search: betters `best`, and raises *bound_ns to what no plan below
// `below_ns` can beat; NO_TIME where there is none below the best.
bool cut_branch_and_bound(struct cut_problem *problem, struct cut_state *best, uint64_t below_ns,
                          const struct search_part *part,
                          uint64_t *bound_ns, struct error *error);

// Why nothing fits, as an error (ERROR_ANSWER); *certain where nothing can. Where it finds a plan after all, that is
// *best and there is no error.
bool cut_explain_shortage(struct cut_problem *problem, struct cut_state *best, bool all_tried, bool *certain,
                          struct error *error);

#endif
