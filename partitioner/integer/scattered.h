// dnn-partitioning's model without contiguity: any layer on any device, so that a device
// may do several pieces of the model ("virtual stages"), and devices need not be alike.
//
//     contiguous    a a b b c c            the busiest stage decides
//     scattered     a b a c b a            more even, and more transfers
//
// No dynamic program knows this: it is an integer program (device_layout.h), which GLPK
// begins with the best contiguous plan. Its answer is valued anew, and what is unbeatable is
// what duals prove; there is no proof by exhaustion.
#ifndef PARTITIONER_INTEGER_SCATTERED_H
#define PARTITIONER_INTEGER_SCATTERED_H

#include "partitioner/integer/device_layout.h"
#include "partitioner/objectives/bottleneck.h"

struct scattered {
    struct device_layout layout;     // accelerators in the cluster's order, then CPUs
    uint32_t devices, accelerators;
    uint64_t *load_ns;        // of each device
    uint64_t contiguous_ns;   // the best plan of contiguous stages; 0 where that was not searched for
    bool is_contiguous_best;  // whether that one is proved
};

// `request` is one of max-load; its speeds may differ, its links are of one rate.
bool scattered_search(const struct bottleneck_request *request, struct integer_limits limits,
                      struct scattered *scattered, struct error *error);
void scattered_clear(struct scattered *scattered);
void scattered_print(const struct bottleneck_request *request, const struct scattered *scattered, struct text *text);

#endif
