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

#endif
