// What may be chosen, or is given, of which devices hold which stage: --replicas, --devices,
// --fewer, --variants. A child of the arguments of plan_request.h.
#ifndef CLI_ARRANGEMENT_OPTIONS_H
#define CLI_ARRANGEMENT_OPTIONS_H

#include "cli/options.h"
#include "partitioner/search/search.h"

enum { ARRANGEMENT_MOST_STAGES = 4096 };

struct arrangement_options {
    const char *replicas, *devices, *variants;  // as given, or NULL
    bool fewer;
    // Read from these.
    uint32_t replicas_of[ARRANGEMENT_MOST_STAGES], devices_of[ARRANGEMENT_MOST_STAGES];
    const char *variant_of[ARRANGEMENT_MOST_STAGES];
    size_t replica_count, device_count, variant_count;
    char variant_names[1024];
};

extern const struct argp arrangement_argp;

// Adds them, which it then borrows, to a request whose profile and cluster are loaded and whose `ranks` are those of
// --ranks, or 0 where that was not given: they then follow from these options, else are all devices.
bool arrangement_options_apply(const struct arrangement_options *given, struct search_request *request,
                               struct error *error);

#endif
