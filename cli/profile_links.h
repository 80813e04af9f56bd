// Implements `weir profile --links`: measures the links between ranks, as a cluster.
#ifndef CLI_PROFILE_LINKS_H
#define CLI_PROFILE_LINKS_H

#include "cli/options.h"
#include "profiler/measure.h"

struct links_given {
    const char *device;  // as in ranks.h
    const struct shared_options *shared;
    const struct measure_options *how;
    bool verbose;  // as in ranks.h
};

// Measures and prints; returns the exit code.
int profile_links(const struct links_given *given);

#endif
