// The words of --tables, and of --experts, for the placement that is least for what a profile's data read, or for what
// its tokens chose: `weir place` within `weir profile`.
#ifndef CLI_LEAST_PLACES_H
#define CLI_LEAST_PLACES_H

#include "profiler/cluster.h"
#include "profiler/profile.h"

struct least_request {
    const struct profile *profile;  // with reads
    const struct cluster *cluster;
    uint32_t members;        // as many as the cluster has devices
    uint64_t micro_batches;  // of an iteration
    int optimizer;           // of least_optimizers()
};

const char *const *least_optimizers(void);  // "sgd", .., NULL

// The placement is found without GLPK, so that it is there at once: weir place says how far from the least it can be.
// The result has a word for each table (models/table_places.h). NULL with an error. free() the result.
char *least_places(const struct least_request *request, struct error *error);

// The same for the experts of a profile with a routing, on a cluster that may be NULL. An update has so many
// micro-batches; 0: not said, so one. The result has a word for each layer (models/expert_places.h).
char *least_expert_places(const struct profile *profile, uint32_t members, const struct cluster *cluster,
                          uint64_t micro_batches, struct error *error);

#endif
