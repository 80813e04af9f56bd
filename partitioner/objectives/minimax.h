// Cuts a graph into stages, over all its downsets, so that the largest load is least.
//
//     {}           outer                       all       a state of `inner`: stages for all that is not in it,
//      |--- stage ---|--- stages behind it ---|          with the steps and the cost that they take together
//    inner    in one of the ways
//
// A dynamic program from the last stage to the first, since the load of a stage may depend on what comes after it. A
// way to run a stage says how many steps it takes (replicas, or processors of the host), and what it costs
// (machines). A downset has a state for each number of steps, and a state keeps the least cost. States and stages
// that no plan below the limit has are left out:
//
//     * the work in front of them is more than the machines left can do below the limit
//     * a stage's floor is not below the limit; stages that hold still more are not looked at
//     * another state takes no more of both
//
// The limit begins little above what an even spread of the work takes, and rises until there is a plan. A search
// below a limit is quick, and if it finds nothing the limit is a lower bound. If nothing has a cost, states keep the
// least largest load, so that the first plan is the best. Else the distance between plan and bound is halved until
// nothing is below the plan.
#ifndef PARTITIONER_OBJECTIVES_MINIMAX_H
#define PARTITIONER_OBJECTIVES_MINIMAX_H

#include "partitioner/search/downsets.h"

struct minimax_way {
    uint32_t steps, cost;
};

// The ways there are, and how much a plan may take of both.
struct minimax_ways {
    const struct minimax_way *list;
    size_t count;
    uint32_t most_steps, most_cost;  // a cost of 0: nothing has a cost
    bool takes_all_steps;            // else a plan may take fewer
    double step_speed, cost_speed;   // the most work that a step, and a unit of cost, do in a ns
};

struct minimax_problem {
    const struct downsets *downsets;
    const uint64_t *work;  // of each downset: a stage loads at least its work over the speed of its way
    struct minimax_ways ways;
    // Fills in the least load of the stage `outer` less `inner` in each way of up to `most` steps; INFINITY if the
    // way is not allowed. Returns a floor: no stage that ends in `outer` and holds more than this one loads less, in
    // any way. If the floor is not below `below`, the loads need not be filled in.
    double (*loads)(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads);
    // The load itself with `later` steps behind the stage, given loads[way]. It only matters whether this is below
    // `below`; if it is, more than the load may be returned. Called only if it decides; NULL: the load is
    // loads[way].
    double (*refine)(void *self, uint32_t inner, uint32_t outer, size_t way, uint32_t later, double load, double below);
    void *self;          // for these two functions
    bool (*must_end)(void *ended_self, double value, double lower_bound);  // called now and then, with what is known
    void *ended_self;
    double below;        // only plans whose load is below this are wanted; INFINITY for any
    double lower_bound;  // no plan is below; 0: what an even spread takes
    uint64_t budget;     // units of work, a few ns each: pairs of downsets, and more for many machines; 0: no limit
};

struct minimax_stage {
    uint32_t downset;  // what the stages up to this one hold
    uint32_t way;
    uint32_t later;    // steps of all stages behind it
};

struct minimax {
    struct minimax_stage *stages;  // NULL if nothing is below what was asked
    size_t stage_count;
    double value;        // INFINITY if there is none
    double lower_bound;  // nothing allowed is below
    bool is_complete;    // nothing cut the search short: value is the least, or nothing is below what was asked
};

// A load that no plan is below: what an even spread takes, or the problem's lower_bound if that is larger.
double minimax_least(const struct minimax_problem *problem);

// False only if there are no layers, if the machine fails, or if the table is too large for this many machines.
bool minimax_search(const struct minimax_problem *problem, struct minimax *minimax, struct error *error);
void minimax_clear(struct minimax *minimax);

#endif
