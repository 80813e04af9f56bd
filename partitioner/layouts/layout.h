// Layouts: which devices hold which stage. A search that may choose among them (`free` of its request) chooses
//
//     replicas    the ranks of each stage, and so how many stages there are
//     devices     which device of the cluster each rank is
//     fewer       how many of the devices are used
//     variants    which variant each stage takes, and so how many devices its ranks are
//
//     a cluster of 4, one device slower       stage 0       stage 1
//     a layout                                ranks 0 1     rank 2         replicas 2, 1; device 3 is not used
//                                             devices 0 1   device 2
//
// Devices that are alike in speed, memory and links are interchangeable. Among layouts that differ only by such
// devices, one is considered. Good layouts are found by annealing, together with their cuts. Each has a lower bound:
// the least, over its cuts, of paths that every plan of it has.
//
// If there are few layouts, all are listed, and searched in the order of their bounds (cut_search() with the layout
// given). The search ends when no layout is left whose bound is below the best plan. If there are many, the bound is
// that of all layouts at once, by the work.
//
//     layout_search.c  the whole, and what is claimed
//     layout_list.c    all layouts, if they are few
//     layout_bound.c   lower bounds: of one layout, by single stages; of all, by the work
//     layout_memory.c  what a stage must recompute at least
//     layout_moves.c   good layouts, by annealing
//     layout_model.c   the time of these, and their cuts, quickly
//     replica_time.c   how long stages with several ranks take
#ifndef PARTITIONER_LAYOUTS_LAYOUT_H
#define PARTITIONER_LAYOUTS_LAYOUT_H

#include "partitioner/search/search.h"

enum { LAYOUT_MOST_VARIANTS = 16 };

struct layout {
    uint32_t ranks, stages, device_count;
    uint32_t spare_count;   // the last entries of `devices`, which its ranks do not use
    uint32_t *replicas;     // of each stage; NULL: the schedule says which ranks hold it
    const char **variants;  // of each stage, NULL for none; the profile owns the names
    uint32_t *devices;      // of each rank's group, one after the other
    uint32_t *cuts;         // to begin with: stage s is layers [cuts[s], cuts[s + 1]); NULL: any
    uint64_t estimate_ns;   // about the time of its best plan
    uint64_t bound_ns;      // no plan of it can beat this
};

struct layouts {
    struct layout *at;
    size_t count, capacity;
    bool complete;  // all layouts that there are, not only some
};

// The search for plan_search(), which calls it if something may be chosen. The plan is not yet evaluated anew. NULL
// with an error.
struct plan *layout_search(const struct search_request *request, struct error *error);

// Whether the same devices hold the same stages, regardless of the cuts.
bool layout_is_same(const struct layout *a, const struct layout *b);

// Whether the first and the last stage may have their variants (variants_tie()).
bool layout_ties_hold(const struct layout *layout, const struct profile *profile);

// Adds a copy of a layout. False without memory.
bool layout_add(struct layouts *layouts, const struct layout *layout, struct error *error);
void layout_clear(struct layout *layout);  // frees all but the struct itself
void layouts_clear(struct layouts *layouts);

// The request for the plans of one layout, which it borrows.
struct search_request layout_request(const struct search_request *request, const struct layout *layout);

// The choices for a stage's variant: the names of variants, the first of which is none.
struct layout_names {
    const char *names[LAYOUT_MOST_VARIANTS + 1];
    uint32_t devices[LAYOUT_MOST_VARIANTS + 1];
    size_t count;
};
bool layout_names_read(const struct search_request *request, struct layout_names *names, struct error *error);

// Lists all layouts. It stops after `most`, and the list is then not complete. False with an error.
bool layouts_list(const struct search_request *request, const struct layout_names *names, size_t most,
                  struct layouts *layouts, struct error *error);

// --- bounds -------------------------------------------------------------------------

struct layout_bounds;
struct layout_bounds *layout_bounds_create(const struct search_request *request,
                                           const struct layout_names *names, struct error *error);
void layout_bounds_free(struct layout_bounds *bounds);

// Fills in estimate_ns and bound_ns. False without memory.
bool layout_bound(struct layout_bounds *bounds, struct layout *layout, struct error *error);

// A bound that no plan of any layout can beat: all work, evenly on all devices. 0 if nothing is known.
uint64_t layout_bound_of_all(const struct layout_bounds *bounds);

#endif
