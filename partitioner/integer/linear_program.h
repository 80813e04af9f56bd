// Integer programs in whole numbers, written for weir-glpk (integer.h), and what their duals prove.
//
//     minimise  sum of cost[j] x[j]      0 <= x[j] <= upper[j]
//     rows      sum of factor x  >=, <= or =  bound
//
// A solver computes in floating point and can be wrong. Its duals, good or bad, are numbers with which the rows can
// be added up. For multipliers u, with u >= 0 for rows >= and u <= 0 for rows <=,
//
//     sum of cost x  >=  sum of u bound + sum over j of min over x[j] of (cost[j] - sum of u factor) x[j]
//
// for every x that the rows admit. linear_proved_bound() rounds the duals to integers and adds up the right side in
// 128-bit integers. This is a bound for which no solver has to be trusted (Neumaier and Shcherbina, "Safe bounds in
// linear and mixed-integer programming", 2004).
#ifndef PARTITIONER_INTEGER_LINEAR_PROGRAM_H
#define PARTITIONER_INTEGER_LINEAR_PROGRAM_H

#include "partitioner/integer/integer.h"

enum linear_sense { LINEAR_AT_LEAST, LINEAR_AT_MOST, LINEAR_EQUAL };

struct linear_term {
    uint32_t column;
    int64_t factor;  // within 2^53 of 0, like all numbers here
};

struct linear_column {
    int64_t cost;
    int64_t upper;
    bool is_integer;
    double unit;  // the solver counts in these; for what is large and not integer, such as times, a millionth of it
};

struct linear_row {
    size_t first, end;  // its terms
    enum linear_sense sense;
    int64_t bound;
};

struct linear_model {
    struct linear_column *columns;
    size_t column_count, column_room;
    struct linear_row *rows;
    size_t row_count, row_room;
    struct linear_term *terms;
    size_t term_count, term_room;
    bool failed;  // memory ran out; solving says so
};

// Returns the number of the new column.
uint32_t linear_add_column(struct linear_model *model, struct linear_column column);
// Terms that follow belong to the row begun last. Two terms with the same column add up.
void linear_begin_row(struct linear_model *model, enum linear_sense sense, int64_t bound);
void linear_add_term(struct linear_model *model, uint32_t column, int64_t factor);
// The same for a column that has no term in the row yet, which is not looked for: for rows with thousands of terms.
void linear_append_term(struct linear_model *model, uint32_t column, int64_t factor);
void linear_clear(struct linear_model *model);

struct linear_solution {
    enum integer_status status;
    double claimed;    // the least value, according to the solver
    double bound;      // the bound that the solver claims
    double *values;    // of each column; NULL without an answer
    double relaxed;    // the least value if all columns were divisible, according to the solver
    double *duals;     // of each row, in that relaxation; NULL if it was not solved
};

// Solves the relaxation first, then the program itself. `start`: a known answer to begin with, a value for each
// column; or NULL. Clear the solution with linear_solution_clear().
bool linear_solve(const struct linear_model *model, const double *start, struct integer_limits limits,
                  struct linear_solution *solution, struct error *error);
// The relaxation alone: its values and its duals.
bool linear_relax(const struct linear_model *model, struct integer_limits limits, struct linear_solution *solution,
                  struct error *error);
void linear_solution_clear(struct linear_solution *solution);

// The bound that these duals prove: no answer costs less. It is rounded up, since the cost of an answer is whole if
// every column that is not an integer by itself is one at its least. If they prove nothing, this is 0.
int64_t linear_proved_bound(const struct linear_model *model, const double *duals);

#endif
