// The state that the parts of a search among layouts share while it runs.
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
    uint64_t bound_ns;      // no plan of any layout can beat it
    char why_open[80];      // why the search of a layout left something open
    bool is_listed;         // the list of layouts is complete
    uint64_t least_lacking; // of the layouts that do not fit
    uint32_t least_lacking_rank;
    struct layouts nearest; // the layout that lacks this least
    struct error refused;   // the first error of a layout that cannot be searched at all, other than by lack of memory
};

// Whether time or budget is used up, or any plan will do and there is one.
bool layout_search_is_over(struct layout_search *search);

// If there is a deadline: makes a plan at once, of the best layout found, and reserves time to do as much again at
// the end. False with an error.
bool layout_search_early(struct layout_search *search, struct layouts *found, struct error *error);

#endif
