// Explains why a plan is not faster, and what would make it faster.
//
// Everything is computed. The simulated run says where the time of an iteration goes. Small steps away from
// the plan are priced as the plan was (neighbours.h). What a change of the request would gain is found by planning it
// anew (what_if.h):
//
//     no memory limit            31 % faster       memory binds, 25 % ahead of the next constraint
//     2 times the rate           6.1 % faster
//     1.20 GiB more on device1   12 % faster       the least of the steps in sight that gains
//
// The binding constraint is the one whose complete removal gains most. It is the memory limits, the cost of links, or
// the fact that a layer cannot be divided, if one layer is the busiest rank's work. If none of them gains 1 %, it is
// the work of the busiest rank.
#ifndef PARTITIONER_EXPLAIN_EXPLAIN_H
#define PARTITIONER_EXPLAIN_EXPLAIN_H

#include "partitioner/explain/neighbours.h"
#include "partitioner/explain/what_if.h"
#include "partitioner/plan/balance.h"
#include "partitioner/plan/plan_path.h"

// Units of work for each of about forty plans.
#define EXPLAIN_DEFAULT_BUDGET 500000

struct explain_request {
    const struct plan *plan;
    const struct profile *profile;  // the profile that the plan was made of
    uint64_t budget;                // units of work per plan; 0: EXPLAIN_DEFAULT_BUDGET
    const volatile sig_atomic_t *interrupted;  // or NULL
    // Called before each plan; may be NULL.
    void (*progress)(void *self, size_t done);
    void *self;
};

enum binding { BINDING_STAGE, BINDING_LAYER, BINDING_MEMORY, BINDING_LINK };
extern const char *const binding_names[];  // "stage", "largest layer", "memory", "link", NULL

// A layer that no cut divides.
struct largest_layer {
    char name[64];
    uint32_t stage;
    uint64_t ns;     // lower bound for the ranks that hold it, in an iteration, without recomputation
    double share;    // of the iteration time
};

// The layer of experts over the devices of a group whose slowest device is busiest (profile.h). slowest_milli 0: none.
struct uneven_experts {
    char name[64];
    uint32_t stage;
    uint64_t slowest_milli, dropped_ppm;
    const char *variant;      // of the stage; borrowed from the plan
    uint32_t number, count;   // of the layer among those of experts, and how many it has. count 0: it was not counted
    // By the profile's routing: the expert with the most pairs, and these in thousandths of a device's even share
    uint32_t busiest;
    uint64_t busiest_milli;
};

struct explanation {
    const struct plan *plan;    // borrowed from the request
    uint64_t budget;
    // The plan's request planned anew; changes are compared with the better of this row and the plan
    struct sweep_row unchanged;
    bool is_beaten;             // planning the request anew found a better plan
    // Lower bound of all plans of the request, by a search, not by what the plan's file claims; 0: not known
    uint64_t bound_ns;
    enum binding binding;
    char binding_name[80];      // "stage 3", "layer fc6", "memory of device1"
    // BINDING_STAGE: more work than the next rank has; else more gain than the next constraint
    double lead;
    struct balance balance;
    struct plan_path path;
    uint64_t *within_ns;        // per stage: what its devices exchange within its actions on that path
    struct largest_layer layer;
    struct uneven_experts experts;
    struct neighbour *neighbours;  // of the busiest rank's stages
    size_t neighbour_count;
    struct what_if *changes;       // by gain; impossible changes are left out
    size_t change_count;
    char stopped[80];              // why it ended early, or empty
};

// Explains a plan. NULL if the plan is not what its profile says (ERROR_ANSWER), or if the machine fails. The plan
// must outlive the explanation, which explanation_free() frees.
struct explanation *explain_plan(const struct explain_request *request, struct error *error);
void explanation_free(struct explanation *explanation);

// Writes the document (docs/formats/explanation.md), and text for people.
void explanation_write(const struct explanation *explanation, struct text *text);
void explanation_print(const struct explanation *explanation, struct text *text);

// --- among its parts ---------------------------------------------------------------

// Makes a plan for each possible change of the request, into explanation->changes. The better of two plans is `best`:
// the one to explain, or the one that a new search found (explain_changes.c).
bool explain_changes(const struct explain_request *request, const struct plan *best, struct explanation *explanation,
                     struct error *error);

// The change of this kind that gains most, or NULL.
const struct what_if *explain_find(const struct explanation *explanation, enum what_if_kind kind);
double explain_gain(const struct explanation *explanation, enum what_if_kind kind);  // its gain; 0 if there is none

#endif
