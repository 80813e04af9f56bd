// Integer programs, solved by GLPK in a process of its own.
//
// GLPK ends its process on errors, can run out of memory, and has been seen to call a wrong answer optimal. In a
// program of its own (weir-glpk) the first two are harmless. Against the third, callers must evaluate the answer
// anew and never take its bound for a proof.
//
// A model is text in CPLEX LP form; an answer is the values of its variables by name. The objective should be scaled
// so that differences that matter are well above 1e-6 of its value, since answers come with six decimals.
// linear_program.h writes such models.
#ifndef PARTITIONER_INTEGER_INTEGER_H
#define PARTITIONER_INTEGER_INTEGER_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/text.h"

enum integer_status {
    INTEGER_OPTIMAL,     // according to the solver
    INTEGER_FEASIBLE,    // a limit or a signal ended the search; this is the best found
    INTEGER_INFEASIBLE,  // there is no answer, according to the solver
    INTEGER_STOPPED,     // as feasible, but before there was any answer
};
extern const char *const integer_status_names[];  // "optimal", "feasible", "infeasible", "stopped", NULL

struct integer_value {
    char name[64];
    double value;
};

struct integer_answer {
    enum integer_status status;
    double value;  // of the objective; 0 without an answer
    double bound;  // the bound that the solver claims; 0 without one
    struct integer_value *values;  // the variables that are not zero, in the model's order
    size_t value_count;
    struct integer_value *duals;   // of a relaxation: the rows whose dual is not zero
    size_t dual_count;
};

struct integer_question {
    const struct text *model;
    const struct text *start;  // a known answer to begin with, `name value` on each line; or NULL
    bool relaxed;              // without integrality, and with duals
};

struct integer_limits {
    uint64_t seconds;
    uint64_t memory_bytes;
    const volatile sig_atomic_t *interrupted;  // the solver is told to end once this is not 0; or NULL
    uint64_t until_ns;                         // or when clock_now_ns() has passed this; 0: never
};

// False if weir-glpk is missing (the error says how to get it), ended badly, or could not read the model. It is
// searched for in $WEIR_LIBEXEC, then in ../libexec beside the running program or the library. Clear the answer with
// integer_answer_clear().
bool integer_solve(const struct integer_question *question, struct integer_limits limits,
                   struct integer_answer *answer, struct error *error);
void integer_answer_clear(struct integer_answer *answer);

#endif
