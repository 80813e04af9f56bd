// Layouts: which devices hold which stage. A search that may choose among them
// (`free` of its request) chooses
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
// Devices that are alike in speed, memory and links are interchangeable: of layouts
// that differ only by them one is looked at. Good ones are found by annealing, with their
// cuts. Each has a bound, the least over its cuts of paths that every plan of it has; where
// there are few, all are listed, and searched (plan_search() with the layout given) in the
// order of their bounds until none is left whose bound is below the best plan. Where there
// are many, the bound is that of all layouts at once, by the work.
//
//     layout_search.c  the whole, and what is claimed
//     layout_list.c    all layouts, where they are few
//     layout_bound.c   what no plan of one can beat, by single stages; of all, by the work
//     layout_memory.c  what a stage must run again at least
//     layout_moves.c   good ones, by annealing
//     layout_model.c   what these take, and their cuts, quickly
//     replica_time.c   how long stages of several ranks take
#ifndef PARTITIONER_LAYOUTS_LAYOUT_H
#define PARTITIONER_LAYOUTS_LAYOUT_H

#include "partitioner/search/search.h"

enum { LAYOUT_MOST_VARIANTS = 16 };

struct layout {
    uint32_t ranks, stages, device_count;
    uint32_t spare_count;   // devices behind those of its ranks that it does not use
    uint32_t *replicas;     // of each stage; NULL: the schedule says which ranks hold it
    const char **variants;  // of each stage, NULL for none; their names are the profile's
    uint32_t *devices;      // of each rank's group, one after the other
    uint32_t *cuts;         // to begin with: stage s is layers [cuts[s], cuts[s + 1]); NULL: any
    uint64_t estimate_ns;   // about what its best plan takes
    uint64_t bound_ns;      // what no plan of it can beat
};

struct layouts {
    struct layout *at;
    size_t count, capacity;
    bool complete;  // all there are, and not only some
};

// As plan_search(), which calls it: a search that chooses. What it finds is not evaluated anew yet.
struct plan *layout_search(const struct search_request *request, struct error *error);

// Whether the same devices hold the same stages; wherever these are cut.
bool layout_is_same(const struct layout *a, const struct layout *b);

// Whether its first and last stage may have their variants (variants_tie()).
bool layout_ties_hold(const struct layout *layout, const struct profile *profile);

// Adds a copy.
bool layout_add(struct layouts *layouts, const struct layout *layout, struct error *error);
void layout_clear(struct layout *layout);  // all but itself
void layouts_clear(struct layouts *layouts);

// The request for the plans of one.
struct search_request layout_request(const struct search_request *request, const struct layout *layout);

// What a choice is made from: the names of variants, the first of them none.
struct layout_names {
    const char *names[LAYOUT_MOST_VARIANTS + 1];
    uint32_t devices[LAYOUT_MOST_VARIANTS + 1];
    size_t count;
};
bool layout_names_read(const struct search_request *request, struct layout_names *names, struct error *error);

// Lists all layouts, or stops after `most` and is then not complete.
bool layouts_list(const struct search_request *request, const struct layout_names *names, size_t most,
                  struct layouts *layouts, struct error *error);

// --- bounds -------------------------------------------------------------------------

struct layout_bounds;
struct layout_bounds *layout_bounds_create(const struct search_request *request,
                                           const struct layout_names *names, struct error *error);
void layout_bounds_free(struct layout_bounds *bounds);

// Fills in estimate_ns and bound_ns.
bool layout_bound(struct layout_bounds *bounds, struct layout *layout, struct error *error);

// What no plan of any layout can beat: all work, on all devices evenly. 0 where nothing is known.
uint64_t layout_bound_of_all(const struct layout_bounds *bounds);

#endif
