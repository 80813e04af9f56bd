// How far a search is that is made of others, of orders or layouts: each of them
// tells of itself, and what no plan of one can beat another may.
#ifndef PARTITIONER_SEARCH_SEARCH_TELLING_H
#define PARTITIONER_SEARCH_SEARCH_TELLING_H

#include "partitioner/search/search.h"

struct telling {
    const struct search_request *given;
    const uint64_t *bound_ns;  // of the whole, as it stands when it is told
    uint64_t best_ns, done, last;
};

// Has `part`, the request for any of the others, tell of the whole. `telling` and `bound_ns` stay where they are.
void telling_begin(struct telling *telling, const struct search_request *given, const uint64_t *bound_ns,
                   struct search_request *part);

// "best so far 94.1 ms, none can take less than 93.0 ms, 120000 of 2000000 units of work"
enum { SEARCH_PROGRESS_SIZE = 160 };
const char *search_progress_format(const struct search_progress *now, char *buffer);

#endif
