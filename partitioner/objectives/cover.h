// Stages for a graph, over all its downsets, so that the largest load is least.
//
//     {}            outer          all          best[outer][later]: the least largest load of
//      |--- stage ---|--- later ---|            stages for all that is not in `outer`, on
//    inner    replicas  machines                `later` machines in all
//
// A dynamic program from the end: what a stage costs may depend on how many machines
// come after it, since so many micro-batches it has in flight. States that cannot be
// part of a better plan are left out, and of stages those that cannot be:
//
//     * what is not yet on a stage, spread evenly over the machines left, takes as long
//       as the best plan known
//     * a stage's floor (below) is as large; those that hold still more are not looked at
//
// Before the whole, the same is asked with a limit little above what even spreading
// takes, and again with larger ones: a search below a limit is quick, and its answer,
// where it has one, is the best there is. The answer is exhaustive either way.
#ifndef PARTITIONER_OBJECTIVES_COVER_H
#define PARTITIONER_OBJECTIVES_COVER_H

#include "partitioner/objectives/downsets.h"

struct cover_problem {
    const struct downsets *downsets;
    const uint64_t *work;   // of each downset: a stage's load is at least the difference, over its replicas ...
    uint32_t share;         // ... and over this: machines that are one here; 1 where machines are machines
    uint32_t machines;
    uint32_t most_replicas; // of a stage
    bool may_use_fewer;
    // Fills loads[1] to loads[most], the load of the stage `outer` less `inner` on so many machines, INFINITY where
    // that is not allowed; with `refine`, what it is at least. Returns a floor: no stage that ends in `outer` and holds
    // more than this one, on however many machines, loads less. Where the floor is not below `below` the loads need not
    // be filled in.
    double (*loads)(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads);
    // The load itself where it depends on the machines that come later, given loads[replicas]; what is not below
    // `below` need not be exact. Asked only where it decides. NULL where it does not depend on them.
    double (*refine)(void *self, uint32_t inner, uint32_t outer, uint32_t replicas, uint32_t later, double load,
                     double below);
    void *self;
    double below;           // only plans whose load is below are wanted; INFINITY for any
    uint64_t budget;        // units of work, a few ns each: pairs of downsets, and more for many machines; 0: no end
    bool (*must_end)(void *self, double value, double lower_bound);  // asked now and then, with what is known; or NULL
};

struct cover_stage {
    uint32_t downset;  // with what the stages up to this one hold
    uint32_t replicas;
};

struct cover {
    struct cover_stage *stages;  // NULL where nothing is below what was asked
    size_t stage_count;
    double value;        // INFINITY where there is none
    double lower_bound;  // nothing allowed is below
    bool is_complete;    // nothing cut it short: value is the least, or nothing is below what was asked
};

// False only for a machine's trouble, or a table too large for this many machines.
bool cover_search(const struct cover_problem *problem, struct cover *cover, struct error *error);
void cover_clear(struct cover *cover);

#endif
