// A cluster made of measured links, each between a rank and the next.
//
//     left.0 --- left.1 --- right.0 --- right.1
//          inside     between      inside
//
// A level stands for all links of its kind, so it takes the slowest of them.
#ifndef PROFILER_CLUSTER_MEASURED_H
#define PROFILER_CLUSTER_MEASURED_H

#include "profiler/cluster.h"
#include "profiler/links.h"

struct station {  // the machine of a rank
    char host[64];
    uint64_t memory_bytes;
};

struct links_measured {
    const struct station *stations;   // by rank
    const struct link_cost *to_next;  // by rank; the last rank has none
    size_t ranks;                     // at least two
};

// Devices are named after their machines, and are all as fast as the profile's. If all machines have the same number
// of ranks, and those of each machine are consecutive, the machines are the groups of level 0. Otherwise there is one
// level for all. The caller frees the cluster; NULL with an error.
struct cluster *cluster_measured(const struct links_measured *links, const char *notes, struct error *error);

// Prints a line for each link, how far its times are from a latency-bandwidth line, and what the levels take from
// them.
void links_print(const struct links_measured *links, struct text *text);

#endif
