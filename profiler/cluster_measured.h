// A cluster made of links that were measured: of each rank with the next.
//
//     left.0 --- left.1 --- right.0 --- right.1
//          inside     between      inside
//
// A level stands for all links like it, and so takes the slowest of them.
#ifndef PROFILER_CLUSTER_MEASURED_H
#define PROFILER_CLUSTER_MEASURED_H

#include "profiler/cluster.h"
#include "profiler/links.h"

struct station {  // of a rank
    char host[64];
    uint64_t memory_bytes;
};

struct links_measured {
    const struct station *stations;   // by rank
    const struct link_cost *to_next;  // by rank; of the last there is none
    size_t ranks;                     // at least two
};

// Devices are named after their machines and all as fast as the profile's. Machines
// with equally many ranks, in a row each, are the groups of level 0; otherwise there is
// one level for all.
struct cluster *cluster_measured(const struct links_measured *links, const char *notes, struct error *error);

// A line for each link, how far it is from a line of bytes, and what the levels take from them.
void links_print(const struct links_measured *links, struct text *text);

#endif
