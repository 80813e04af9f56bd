// A search among arrangements, while it runs: what its parts share.
#ifndef PARTITIONER_LAYOUTS_ARRANGEMENT_SEARCH_H
#define PARTITIONER_LAYOUTS_ARRANGEMENT_SEARCH_H

#include "partitioner/layouts/arrangement.h"

struct choosing {
    const struct search_request *request;
    const struct arrangement_names *names;
    struct arrangement_bounds *bounds;
    struct plan *best;
    uint64_t best_ns;       // UINT64_MAX: none yet
    uint64_t bound_ns;      // what no plan of any arrangement can beat
    uint64_t work, budget, deadline_ns;
    const char *stopped;    // why it ended early, or NULL
    char why_open[80];      // why the search of one left something open
    bool is_listed;         // all arrangements were looked at
    uint64_t least_lacking; // of those that do not fit
    uint32_t least_lacking_rank;
    struct arrangements nearest;  // the one that does
    struct error refused;   // the first that was no request to search, not for memory
};

bool choosing_must_stop(struct choosing *choosing);

// Whether one more is to be searched after so many: before there is any plan a few are, though the search has ended.
bool choosing_may_try(struct choosing *choosing, size_t tried);

// Searches the plans of one arrangement; keeps the best plan of all, and what is now known of it.
bool choosing_search(struct choosing *choosing, struct arrangement *arrangement, uint64_t budget, struct error *error);

// Where there are too many to list them: good ones, of which those that were searched are left in `tried`.
bool choosing_many(struct choosing *choosing, struct arrangements *tried, struct error *error);

#endif
