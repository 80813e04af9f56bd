// What the bounds of arrangements know beforehand.
#ifndef PARTITIONER_ARRANGEMENT_ARRANGEMENT_FLOOR_H
#define PARTITIONER_ARRANGEMENT_ARRANGEMENT_FLOOR_H

#include "partitioner/arrangement/arrangement.h"
#include "partitioner/arrangement/arrangement_memory.h"
#include "partitioner/arrangement/arrangement_sums.h"
#include "partitioner/arrangement/arrangement_totals.h"
#include "schedules/generators/generate.h"

struct arrangement_bounds {
    const struct search_request *request;
    const struct arrangement_names *names;
    const struct generator *generator;
    struct arrangement_async *async;  // where the schedule never flushes
    struct arrangement_memory *memory;  // where not all surely fits
    const struct arrangement_sums *sums;  // instead of that, of groups of downsets
    struct totals of[ARRANGEMENT_MOST_VARIANTS + 1];  // as `names`, then those of the request
    size_t of_count;
    struct totals least;   // of all of them, layer by layer
    struct shares shares;  // of these
    bool *can_cut;         // layers + 1
    uint64_t *way;         // of a message over a cut: [level * (layers + 1) + cut]
    uint64_t *cell[4];     // rows of stages: before, after, the largest, before on the way in
    uint32_t layers;
    bool has_backward;
    bool may_be_empty;     // stages
    bool are_groups;       // the layers are groups of downsets, of which the least and the most are known
    bool is_coarse;        // of all that so many devices reach, only the furthest and the least ways are known
    uint64_t until_ns;     // by the clock: that of all arrangements is then as good as it is; 0: any time
};

// Whether whoever waits for them has waited long enough, or somebody interrupts.
bool arrangement_bounds_are_over(const struct arrangement_bounds *bounds);

// Whether reaching over so many layers and ranks, which takes both and again both, is done coarsely.
static inline bool arrangement_is_coarse(uint32_t layers, uint32_t ranks)
{
    enum { MOST_PLACES = 100000 };
    return (uint64_t)layers * ranks > MOST_PLACES;
}

// Raises *bound_ns, below which nothing is, to what no plan of any arrangement can beat. `reached`, empty, becomes
// stages, with their cuts, that are that quick as far as the bound knows; where its devices are is left open. Raises
// *work by what it took.
bool arrangement_floor(const struct arrangement_bounds *bounds, uint64_t *bound_ns, struct arrangement *reached,
                       uint64_t *work, struct error *error);

#endif
