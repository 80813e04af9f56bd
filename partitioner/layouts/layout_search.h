// A search among layouts, while it runs: what its parts share.
#ifndef PARTITIONER_LAYOUTS_LAYOUT_SEARCH_H
#define PARTITIONER_LAYOUTS_LAYOUT_SEARCH_H

#include "partitioner/cuts/search_context.h"
#include "partitioner/layouts/layout.h"

struct layout_search {
    const struct search_request *request;
    const struct layout_names *names;
    struct layout_bounds *bounds;
    struct search_context context;
    struct plan *best;
    uint64_t best_ns;       // UINT64_MAX: none yet
    uint64_t bound_ns;      // what no plan of any layout can beat
    char why_open[80];      // why the search of one left something open
    bool is_listed;         // all layouts were looked at
    uint64_t least_lacking; // of those that do not fit
    uint32_t least_lacking_rank;
    struct layouts nearest; // the one that does
    struct error refused;   // the first that was no request to search, not for memory
};

// Whether time or budget is used up, or any plan will do and there is one.
bool layout_search_is_over(struct layout_search *search);

// Where there is a deadline: a plan at once, of the best layout of these; and time to do as much again at the end.
bool layout_search_early(struct layout_search *search, struct layouts *found, struct error *error);

#endif
