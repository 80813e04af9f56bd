// The model of dnn-partitioning without contiguity: any layer can be on any device. A device may then do several
// pieces of the model ("virtual stages"), and devices need not be alike.
//
//     contiguous    a a b b c c            the busiest stage decides
//     scattered     a b a c b a            more even, and more transfers
//
// No dynamic program can express this. It is an integer program (device_layout.h), which GLPK begins with the best
// contiguous plan. Its answer is valued anew, and the bound is what duals prove; there is no proof by exhaustion.
#ifndef PARTITIONER_INTEGER_SCATTERED_H
#define PARTITIONER_INTEGER_SCATTERED_H

#include "partitioner/integer/device_layout.h"
#include "partitioner/objectives/bottleneck.h"

struct scattered {
    struct device_layout layout;     // accelerators in the cluster's order, then CPUs
    uint32_t devices, accelerators;
    uint64_t *load_ns;        // of each device
    uint64_t contiguous_ns;   // the best plan of contiguous stages; 0 if it was not searched for
    bool is_contiguous_best;  // whether that plan is proved
};

// `request` is one of max-load; its devices may differ in speed, and its links have one rate. Clear the answer with
// scattered_clear().
bool scattered_search(const struct bottleneck_request *request, struct integer_limits limits,
                      struct scattered *scattered, struct error *error);
void scattered_clear(struct scattered *scattered);
void scattered_print(const struct bottleneck_request *request, const struct scattered *scattered, struct text *text);

#endif
