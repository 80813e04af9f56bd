// A second opinion on the search's bounds, by another formulation and another solver.
//
// For small cases GLPK (integer.h) minimises the following over all cuts without recomputation, whether or not they
// fit into memory,
//
//     max over stages s of (rounds of the stages before s + m (F_s + B_s))
//
// in the stage-ordered form: y(l, s) = 1 if layer l is in stage s or before it. Everything is linear in y,
//
//     y(l, s) <= y(l - 1, s)        a stage ends once
//     y(l, s - 1) <= y(l, s)        and after the one before
//     y(l, s) - y(l, s - 1)         l is in stage s
//     y(l, s) - y(l + 1, s)         stage s ends after l, and a message passes there
//
// and dynamic programming here minimises the same. Both answers are cuts, and both are valued by the same plain
// loop, so that a wrong answer of either one shows. Neither is a proof: `proved` comes from the search alone.
#ifndef PARTITIONER_INTEGER_SECOND_OPINION_H
#define PARTITIONER_INTEGER_SECOND_OPINION_H

#include "partitioner/integer/integer.h"
#include "partitioner/search/search.h"

struct second_opinion {
    uint64_t ours_ns;    // the least by our own dynamic programming
    uint64_t solver_ns;  // of the solver's cuts, valued anew; 0 if it gave none
    enum integer_status status;
    bool agrees;         // whether the two are the same, apart from rounding
    uint64_t relaxed_ns;  // what the duals of the relaxation prove by themselves, in whole numbers (linear_program.h)
    double *prices;       // of each stage, its row's dual: by how much the bound falls if that stage's time falls by 1
    uint32_t stages;
};

// `plan`: the solver begins with its cuts; or NULL. False if the case is too large, weir-glpk is missing or failed,
// or its answer is not a way to cut the model; the error says which.
bool second_opinion_ask(const struct search_request *request, const struct plan *plan, struct integer_limits limits,
                        struct second_opinion *opinion, struct error *error);

void second_opinion_clear(struct second_opinion *opinion);

// The limits that it gets: a minute and 4 GiB.
struct integer_limits second_opinion_limits(const volatile sig_atomic_t *interrupted);

// Prints the result in sentences for people to read.
void second_opinion_print(const struct second_opinion *opinion, struct text *text);

#endif
