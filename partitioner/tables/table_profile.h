// The tables of a profile that has their reads (profiler/table_reads.h), as a tables document would have them.
//
// A profile has one time for all tables of a layer. It becomes a rate in bytes per second that is the same for each of
// them, without a fixed part. docs/formats/tables.md says what that cannot tell.
#ifndef PARTITIONER_TABLES_TABLE_PROFILE_H
#define PARTITIONER_TABLES_TABLE_PROFILE_H

#include "partitioner/tables/table_placement.h"
#include "profiler/profile.h"

struct table_profile_request {
    const struct profile *profile;
    const char *layer;       // only its tables are placed; NULL: those of all layers, which have one width
    uint64_t micro_batches;  // of an iteration
    enum table_optimizer optimizer;  // of what is dense, too
    uint32_t members;        // that share the samples
};

// NULL with an error. table_set_free() frees the result.
struct table_set *table_set_of_profile(const struct table_profile_request *request, struct error *error);

#endif
