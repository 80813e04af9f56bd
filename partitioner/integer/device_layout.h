// Which device does which layers, by an integer program: for what dynamic programs over
// cuts cannot say.
//
//     ordered      devices in their order, each with layers that read only from it and those before it:
//                  the stages of a pipeline, in any order of a DAG
//     scattered    any layer on any device it can run on: non-contiguous virtual stages, unlike devices
//
// The load of a device is the time of its layers, and once for every tensor that it hands to or
// gets from another device what that takes; the largest load is minimised ("max-load": Tarnawski
// et al., "Efficient algorithms for device placement of DNN graph operators", NeurIPS 2020).
// Layers can be pinned to devices or held together, and memory is a plain sum.
//
// Ordered layouts are written with variables y(v, d) = 1 where layer v is on device d or
// before it (y(v, d) <= y(u, d) along each edge u -> v), which GLPK proves in seconds where
// one variable per layer and device takes minutes.
//
// GLPK is not believed: its layout is valued anew by layout_value(), and `bound_ns` is
// what the duals of the relaxation prove in whole numbers (linear_program.h).
#ifndef PARTITIONER_INTEGER_DEVICE_LAYOUT_H
#define PARTITIONER_INTEGER_DEVICE_LAYOUT_H

#include "partitioner/integer/integer.h"
#include "profiler/profile.h"

#define LAYOUT_NEVER UINT64_MAX     // of a time: the layer cannot run there
#define LAYOUT_ANYWHERE UINT32_MAX  // of a pin

struct layout_problem {
    uint32_t layers, devices;
    const uint64_t *time_ns;      // [layer * devices + device], below 2^50
    const uint64_t *bytes;        // of each layer; NULL: nobody asks
    const uint64_t *capacity;     // of each device, where bytes are asked for
    const struct edge *edges;     // who reads whose tensor; from < to
    size_t edge_count;
    const uint64_t *transfer_ns;  // of each layer's tensor, to each device that hands it on or gets it; NULL: free
    const bool *pays_nothing;     // devices whose transfers cost them nothing; NULL: none
    const struct edge *together;  // pairs of layers on one device
    size_t together_count;
    const uint32_t *pins;         // the device of each layer, or LAYOUT_ANYWHERE; NULL: none is pinned
    bool ordered;
};

// The largest load, by plain loops. LAYOUT_NEVER, with the reason, where the layout breaks a rule.
uint64_t layout_value(const struct layout_problem *problem, const uint32_t *device_of, struct error *error);
// That of one device.
uint64_t layout_load(const struct layout_problem *problem, const uint32_t *device_of, uint32_t device);

struct device_layout {
    enum integer_status status;  // in the solver's words
    uint32_t *device_of;         // of each layer; NULL without an answer
    uint64_t value_ns;           // of it, valued anew
    double claimed_ns;           // what the solver said of it
    uint64_t bound_ns;           // what no layout beats: proved by the duals of the relaxation, or 0
    // What these duals say of each device: by how much that bound falls per ns less of its load, and per
    // byte more of its memory. Loads sum to 1 at most. NULL where nothing was proved.
    double *load_price, *memory_price;
};

// `start`: a layout to begin with, or NULL; the answer where the solver is stopped before it finds another. False when weir-glpk is missing or failed, or
// its answer is no layout; the error says which.
bool layout_solve(const struct layout_problem *problem, const uint32_t *start, struct integer_limits limits,
                  struct device_layout *layout, struct error *error);
void device_layout_clear(struct device_layout *layout);

#endif
