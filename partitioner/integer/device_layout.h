// Which device computes which layers, by an integer program. Any layer can be on any device that can run it. This is
// for what dynamic programs over cuts cannot express: non-contiguous virtual stages, and devices of different kinds.
//
// The load of a device is the time of its layers and of its transfers: every tensor that it hands to or gets from
// another device counts once. The largest load is minimised ("max-load": Tarnawski et al., "Efficient algorithms for
// device placement of DNN graph operators", NeurIPS 2020). Layers can be held together, and memory is a plain sum.
//
// GLPK is not trusted. Its layout is valued anew by layout_value(), and `bound_ns` is what the duals of the
// relaxation prove in whole numbers (linear_program.h).
#ifndef PARTITIONER_INTEGER_DEVICE_LAYOUT_H
#define PARTITIONER_INTEGER_DEVICE_LAYOUT_H

#include "partitioner/integer/integer.h"
#include "profiler/profile.h"

#define LAYOUT_NEVER UINT64_MAX     // as a time: the layer cannot run there

struct layout_problem {
    uint32_t layers, devices;
    uint64_t *time_ns;      // [layer * devices + device], below 2^50
    uint64_t *bytes;        // of each layer
    uint64_t *capacity;     // of each device
    uint64_t *transfer_ns;  // of each layer's tensor, for each device that hands it on or gets it
    bool *pays_nothing;     // by device: its transfers cost it nothing
    struct edge *edges;     // from a layer to one that reads its tensor; from < to
    size_t edge_count;
    struct edge *together;  // pairs of layers that must be on one device
    size_t together_count;
};

// The largest load in ns, by plain loops. LAYOUT_NEVER, with the reason as error, if the layout breaks a rule.
uint64_t layout_value(const struct layout_problem *problem, const uint32_t *device_of, struct error *error);
// The load of one device in ns.
uint64_t layout_load(const struct layout_problem *problem, const uint32_t *device_of, uint32_t device);

struct device_layout {
    enum integer_status status;  // as the solver says
    uint32_t *device_of;         // of each layer; NULL without an answer
    uint64_t value_ns;           // of this layout, valued anew
    uint64_t bound_ns;           // no layout is below: proved by the duals of the relaxation, or 0
    double *memory_price;  // for each device: by how much the bound falls per byte more; NULL if nothing was proved
};

// `start`: a layout to begin with, or NULL. It is the answer if the solver is stopped before it finds another. False
// if weir-glpk is missing or failed, or its answer is not a layout; the error says which.
bool layout_solve(const struct layout_problem *problem, const uint32_t *start, struct integer_limits limits,
                  struct device_layout *layout, struct error *error);
void device_layout_clear(struct device_layout *layout);

#endif
