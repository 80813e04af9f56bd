// A cluster in one line, for users without a file of it:
//
//     2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us
//     groups, outermost    memory  links, innermost
//     first                of each first: within a node, between nodes
//
// There are as many links as groups; a single device needs none. A last part "host 512GiB 25GB/s" is optional. Spaces
// may be left out or added.
#ifndef PROFILER_CLUSTER_SYNOPSIS_H
#define PROFILER_CLUSTER_SYNOPSIS_H

#include "profiler/cluster.h"

// Whether this is a synopsis rather than a path.
bool cluster_is_synopsis(const char *text);
struct cluster *cluster_from_synopsis(const char *text, struct error *error);

#endif
