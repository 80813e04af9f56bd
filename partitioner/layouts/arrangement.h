// Arrangements: which devices hold which stage. A search that may choose among them
// (`free` of its request) chooses
//
//     replicas    the ranks of each stage, and so how many stages there are
//     devices     which device of the cluster each rank is
//     fewer       how many of the devices are used
//     variants    which variant each stage takes, and so how many devices its ranks are
//
//     a cluster of 4, one device slower       stage 0       stage 1
//     an arrangement                          ranks 0 1     rank 2         replicas 2, 1; device 3 is not used
//                                             devices 0 1   device 2
//
// Devices that are alike in speed, memory and links are interchangeable: of arrangements
// that differ only by them one is looked at. Each has a bound, the least over its cuts of
// paths that every plan of it has; where there are few, all are listed, and searched
// (plan_search() with the arrangement given) in the order of their bounds until none is
// left whose bound is below the best plan. Where there are many, they are made by a
// dynamic program over cuts and numbers of ranks, and bettered by small moves; then the
// bound is that of all arrangements at once.
//
//     arrangement.c         the whole, and what is claimed
//     arrangement_list.c    all arrangements, where they are few
//     arrangement_bound.c   what no plan of one can beat, by single stages; of all, by the work
//     arrangement_async.c   the same where the schedule never flushes
//     arrangement_many.c    good ones, where they are many
//     arrangement_seeds.c   which to begin with there
//     crewing.c             and with which cuts, by moves: from these (crewing_parts.c), and
//     crewing_reach.c       from stages that keep their paths short
//     crew_time.c           how long stages of several ranks take, quickly
//     crew_bound.c          and at least, where the schedule never flushes
#ifndef PARTITIONER_LAYOUTS_ARRANGEMENT_H
#define PARTITIONER_LAYOUTS_ARRANGEMENT_H

#include "partitioner/search/search.h"

enum { ARRANGEMENT_MOST_VARIANTS = 16 };

struct arrangement {
    uint32_t ranks, stages, device_count;
    uint32_t *replicas;     // of each stage; NULL: the schedule says which ranks hold it
    const char **variants;  // of each stage, NULL for none; their names are the profile's
    uint32_t *devices;      // of each rank's group, one after the other
    uint32_t *cuts;         // to begin with: stage s is layers [cuts[s], cuts[s + 1]); NULL: any
    uint64_t estimate_ns;   // about what its best plan takes
    uint64_t bound_ns;      // what no plan of it can beat
    unsigned visits;        // how often it was searched
    bool is_closed;         // no more will come of it
};

struct arrangements {
    struct arrangement *at;
    size_t count, capacity;
    bool complete;  // all there are, and not only some
};

// As plan_search(), which calls it: a search that chooses. What it finds is not evaluated anew yet.
struct plan *arrangement_search(const struct search_request *request, struct error *error);

// Adds a copy.
bool arrangement_add(struct arrangements *arrangements, const struct arrangement *arrangement, struct error *error);
void arrangement_clear(struct arrangement *arrangement);  // all but itself
void arrangements_clear(struct arrangements *arrangements);

// The request for the plans of one.
struct search_request arrangement_request(const struct search_request *request, const struct arrangement *arrangement);

// What a choice is made from: the names of variants, the first of them none.
struct arrangement_names {
    const char *names[ARRANGEMENT_MOST_VARIANTS + 1];
    uint32_t devices[ARRANGEMENT_MOST_VARIANTS + 1];
    size_t count;
};
bool arrangement_names_read(const struct search_request *request, struct arrangement_names *names, struct error *error);

// Lists all arrangements, or stops after `most` and is then not complete.
bool arrangements_list(const struct search_request *request, const struct arrangement_names *names, size_t most,
                       struct arrangements *arrangements, struct error *error);

// --- bounds -------------------------------------------------------------------------

struct arrangement_bounds;
struct arrangement_bounds *arrangement_bounds_create(const struct search_request *request,
                                                     const struct arrangement_names *names, struct error *error);
void arrangement_bounds_free(struct arrangement_bounds *bounds);

// Fills in estimate_ns and bound_ns.
bool arrangement_bound(struct arrangement_bounds *bounds, struct arrangement *arrangement, struct error *error);

// What no plan of any arrangement can beat: all work, on all devices evenly. 0 where nothing is known.
uint64_t arrangement_bound_of_all(const struct arrangement_bounds *bounds);

#endif
