// The progress of a search that consists of others, for orders or layouts. Each of them reports its own progress. A
// bound that no plan of one can beat may be beaten by a plan of another.
#ifndef PARTITIONER_SEARCH_SEARCH_TELLING_H
#define PARTITIONER_SEARCH_SEARCH_TELLING_H

#include "partitioner/search/search.h"

struct telling {
    const struct search_request *given;
    const uint64_t *bound_ns;  // of the whole, read when progress is reported
    uint64_t best_ns, done, last;
};

// Makes `part`, the request for any of the others, report the progress of the whole. `telling` and `bound_ns` must
// stay where they are.
void telling_begin(struct telling *telling, const struct search_request *given, const uint64_t *bound_ns,
                   struct search_request *part);

// Writes to a buffer of SEARCH_PROGRESS_SIZE, and returns it: "best so far 94.1 ms, none can take less than 93.0 ms,
// 120000 of 2000000 units of work"
enum { SEARCH_PROGRESS_SIZE = 160 };
const char *search_progress_format(const struct search_progress *now, char *buffer);

#endif
