// The options that say which devices hold which stage, or leave that to the search: --replicas, --devices, --fewer,
// --variants. An argp child of the arguments of plan_request.h.
#ifndef CLI_ARRANGEMENT_OPTIONS_H
#define CLI_ARRANGEMENT_OPTIONS_H

#include "cli/options.h"
#include "partitioner/search/search.h"

enum { ARRANGEMENT_MOST_STAGES = 4096 };

struct arrangement_options {
    const char *replicas, *devices, *variants;  // as given, or NULL
    bool fewer;
    // Parsed from these.
    uint32_t replicas_of[ARRANGEMENT_MOST_STAGES], devices_of[ARRANGEMENT_MOST_STAGES];
    const char *variant_of[ARRANGEMENT_MOST_STAGES];
    size_t replica_count, device_count, variant_count;
    char variant_names[1024];
};

extern const struct argp arrangement_argp;

// Adds the options to a request, which then borrows them. The request's profile and cluster must be loaded, and its
// `ranks` be those of --ranks, or 0 without that option. In that case the ranks follow from these options, or else
// are all devices. False with `error` if options contradict each other or the cluster.
bool arrangement_options_apply(const struct arrangement_options *given, struct search_request *request,
                               struct error *error);

#endif
