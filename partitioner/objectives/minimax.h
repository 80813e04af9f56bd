// Stages for a graph, over all its downsets, so that the largest load is least.
//
//     {}           outer                       all       a state of `inner`: stages for all that is not in it,
//      |--- stage ---|--- stages behind it ---|          with the steps and the cost that they take together
//    inner    in one of the ways
//
// A dynamic program from the last stage to the first, since what a stage loads may depend
// on what comes behind it. A way to run a stage says how many steps it takes, of which a
// downset has a state each (replicas, or processors of the host), and what it costs
// (machines), of which a state keeps the least. Left out are states and stages that no
// plan below the limit has:
//
//     * what is in front of them is more than the machines left can do below the limit
//     * a stage's floor is not below it; those that hold still more are not looked at
//     * another state takes no more of both
//
// The limit begins little above what even spreading takes and rises until there is a plan:
// a search below a limit is quick, and where it finds nothing the limit is a bound. Where
// nothing has a cost, states keep the least largest load, so that the first plan is the
// best. Else the distance between plan and bound is halved until nothing is below the plan.
#ifndef PARTITIONER_OBJECTIVES_MINIMAX_H
#define PARTITIONER_OBJECTIVES_MINIMAX_H

#include "partitioner/downsets.h"

struct minimax_way {
    uint32_t steps, cost;
};

// The ways there are, and what a plan may take of both.
struct minimax_ways {
    const struct minimax_way *list;
    size_t count;
    uint32_t most_steps, most_cost;  // a cost of 0: nothing has one
    bool takes_all_steps;            // else a plan may take fewer
    double step_speed, cost_speed;   // the work that a step, and a unit of cost, do at most in a ns
};

struct minimax_problem {
    const struct downsets *downsets;
    const uint64_t *work;  // of each downset: a stage loads at least its work over the speed of its way
    struct minimax_ways ways;
    // Fills in what the stage `outer` less `inner` loads at least in each way of up to `most` steps; INFINITY where
    // that is not allowed. Returns a floor: no stage that ends in `outer` and holds more than this one loads less, in
    // whatever way. Where the floor is not below `below` the loads need not be filled in.
    double (*loads)(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads);
    // The load itself with so many steps behind the stage, given loads[way]: whether that is below `below` is what
    // counts, and more than the load may be said where it is. Asked only where it decides; NULL: it is as above.
    double (*refine)(void *self, uint32_t inner, uint32_t outer, size_t way, uint32_t later, double load, double below);
    void *self;          // of these two
    bool (*must_end)(void *ended_self, double value, double lower_bound);  // asked now and then, with what is known
    void *ended_self;
    double below;        // only plans whose load is below are wanted; INFINITY for any
    double lower_bound;  // no plan is below; 0: what even spreading takes
    uint64_t budget;     // units of work, a few ns each: pairs of downsets, and more for many machines; 0: no end
};

struct minimax_stage {
    uint32_t downset;  // with what the stages up to this one hold
    uint32_t way;
    uint32_t later;    // steps of all stages behind it
};

struct minimax {
    struct minimax_stage *stages;  // NULL where nothing is below what was asked
    size_t stage_count;
    double value;        // INFINITY where there is none
    double lower_bound;  // nothing allowed is below
    bool is_complete;    // nothing cut it short: value is the least, or nothing is below what was asked
};

// What no plan is below for what even spreading takes, and as the problem says.
double minimax_least(const struct minimax_problem *problem);

// False only for a machine's trouble, or a table too large for this many machines.
bool minimax_search(const struct minimax_problem *problem, struct minimax *minimax, struct error *error);
void minimax_clear(struct minimax *minimax);

#endif
