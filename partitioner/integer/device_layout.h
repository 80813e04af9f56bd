// Which device does which layers, by an integer program: any layer on any device it can run on, for what dynamic
// programs over cuts cannot say (non-contiguous virtual stages, unlike devices).
//
// The load of a device is the time of its layers, and once for every tensor that it hands to or
// gets from another device what that takes; the largest load is minimised ("max-load": Tarnawski
// et al., "Efficient algorithms for device placement of DNN graph operators", NeurIPS 2020).
// Layers can be held together, and memory is a plain sum.
//
// GLPK is not believed: its layout is valued anew by layout_value(), and `bound_ns` is
// what the duals of the relaxation prove in whole numbers (linear_program.h).
#ifndef PARTITIONER_INTEGER_DEVICE_LAYOUT_H
#define PARTITIONER_INTEGER_DEVICE_LAYOUT_H

#include "partitioner/integer/integer.h"
#include "profiler/profile.h"

#define LAYOUT_NEVER UINT64_MAX     // of a time: the layer cannot run there

struct layout_problem {
    uint32_t layers, devices;
    uint64_t *time_ns;      // [layer * devices + device], below 2^50
    uint64_t *bytes;        // of each layer
    uint64_t *capacity;     // of each device
    uint64_t *transfer_ns;  // of each layer's tensor, to each device that hands it on or gets it
    bool *pays_nothing;     // devices whose transfers cost them nothing
    struct edge *edges;     // who reads whose tensor; from < to
    size_t edge_count;
    struct edge *together;  // pairs of layers on one device
    size_t together_count;
};

// The largest load, by plain loops. LAYOUT_NEVER, with the reason, where the layout breaks a rule.
uint64_t layout_value(const struct layout_problem *problem, const uint32_t *device_of, struct error *error);
// That of one device.
uint64_t layout_load(const struct layout_problem *problem, const uint32_t *device_of, uint32_t device);

struct device_layout {
    enum integer_status status;  // in the solver's words
    uint32_t *device_of;         // of each layer; NULL without an answer
    uint64_t value_ns;           // of it, valued anew
    uint64_t bound_ns;           // what no layout beats: proved by the duals of the relaxation, or 0
    double *memory_price;        // of each device by how much that falls per byte more; NULL where nothing was proved
};

// `start`: a layout to begin with, or NULL; the answer where the solver is stopped before it finds another. False when
// weir-glpk is missing or failed, or its answer is no layout; the error says which.
bool layout_solve(const struct layout_problem *problem, const uint32_t *start, struct integer_limits limits,
                  struct device_layout *layout, struct error *error);
void device_layout_clear(struct device_layout *layout);

#endif
