// Why a plan is not faster, and what would make it so.
//
// Everything is computed: where the time of an iteration goes is read off the simulated
// run, small steps away from the plan are priced as the plan was (neighbours.h), and what
// a change of the request would gain is found by planning it anew (what_if.h):
//
//     no memory limit            31 % faster       memory binds, by 25 % before the next
//     2 times the rate           6.1 % faster
//     1.20 GiB more on device1   12 % faster       the least of the steps in sight that gains
//
// What binds is what gains most when it is taken away altogether: the limits of memory,
// the cost of links, or, where the busiest rank's work is one layer, that it cannot be
// divided. Where none of them gains 1 %, it is the work of the busiest rank.
#ifndef PARTITIONER_EXPLAIN_EXPLAIN_H
#define PARTITIONER_EXPLAIN_EXPLAIN_H

#include "partitioner/explain/neighbours.h"
#include "partitioner/explain/what_if.h"
#include "partitioner/plan/balance.h"
#include "partitioner/plan/plan_path.h"

// Units of work for each of some forty plans.
#define EXPLAIN_DEFAULT_BUDGET 500000

struct explain_request {
    const struct plan *plan;
    const struct profile *profile;  // that the plan was made of
    uint64_t budget;                // units of work per plan; 0: EXPLAIN_DEFAULT_BUDGET
    const volatile sig_atomic_t *interrupted;  // or NULL
    // Called before each plan; or NULL.
    void (*progress)(void *self, size_t done);
    void *self;
};

enum binding { BINDING_STAGE, BINDING_LAYER, BINDING_MEMORY, BINDING_LINK };
extern const char *const binding_names[];  // "stage", "largest layer", "memory", "link", NULL

// A layer that no cut divides.
struct largest_layer {
    char name[64];
    uint32_t stage;
    uint64_t ns;     // of the ranks that hold it, in an iteration, at least: nothing is recomputed
    double share;    // of the iteration
};

struct explanation {
    const struct plan *plan;    // the request's
    uint64_t budget;
    struct sweep_row unchanged; // its request planned anew; the better of both is what changes are held against
    bool is_beaten;             // whether planning it anew found a better one
    uint64_t bound_ns;          // what no plan of its request can beat, by a search: not what its file claims; 0: not known
    enum binding binding;
    char binding_name[80];      // "stage 3", "layer fc6", "memory of device1"
    double lead;                // stage: more work than on the next rank; else more gain than the next constraint
    struct balance balance;
    struct plan_path path;
    struct largest_layer layer;
    struct neighbour *neighbours;  // of the busiest rank's stages
    size_t neighbour_count;
    struct what_if *changes;       // by gain; what cannot be is left out
    size_t change_count;
    char stopped[80];              // why it ended early, or empty
};

// NULL where the plan is not what its profile says (ERROR_ANSWER), or for a machine's trouble.
struct explanation *explain_plan(const struct explain_request *request, struct error *error);
void explanation_free(struct explanation *explanation);

// The document (docs/formats/explanation.md), and what a person reads.
void explanation_write(const struct explanation *explanation, struct text *text);
void explanation_print(const struct explanation *explanation, struct text *text);

// --- among its parts ---------------------------------------------------------------

// Plans all that can be changed into explanation->changes; `best` is the better of the
// plan and what planning it anew found (explain_changes.c).
bool explain_changes(const struct explain_request *request, const struct plan *best, struct explanation *explanation,
                     struct error *error);

// The change of that kind that gains most, or NULL.
const struct what_if *explain_find(const struct explanation *explanation, enum what_if_kind kind);
double explain_gain(const struct explanation *explanation, enum what_if_kind kind);  // its gain; 0 if there is none

#endif
