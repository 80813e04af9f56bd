// A search among more arrangements than can be listed, while it runs: what its two
// parts share, the seeds (arrangement_seeds.c) and the moves (arrangement_many.c).
#ifndef PARTITIONER_LAYOUTS_ARRANGEMENT_MANY_H
#define PARTITIONER_LAYOUTS_ARRANGEMENT_MANY_H

#include "partitioner/layouts/arrangement_search.h"
#include "partitioner/search/interval.h"

struct many {
    struct choosing *choosing;
    const struct search_request *request;
    struct arrangements *tried;
    struct arrangements seeds;
    struct intervals *of[ARRANGEMENT_MOST_VARIANTS + 1];  // of each variant
    struct profile *views[ARRANGEMENT_MOST_VARIANTS + 1];
    bool *can_cut;
    bool takes_replicas, flushes, is_gpipe;
    uint32_t layers, devices;
    uint64_t memory, speed;   // of a device; of unlike ones the least memory and the average speed
    uint64_t timed_ns;        // of the best crewing (crewing.h); 0: there is none
    size_t best;              // of those that were tried; SIZE_MAX: none has a plan
    uint64_t *fill;           // [devices used * (layers + 1) + layer]
    uint32_t *from;           // first layer of the last stage; as fill
    uint32_t *ranks;          // and its ranks
    uint8_t *variant;
};

// Whether it is one of these.
bool many_knows(const struct arrangements *among, const struct arrangement *arrangement);

// What is known of an arrangement before it is searched, where that is quickly worked out.
bool many_look_at(const struct many *many, struct arrangement *arrangement, struct error *error);

// What copies that stand beside each other take to add up their gradients.
uint64_t many_reduce_ns(const struct many *many, uint64_t weights, uint32_t copies);

// Adds to the seeds: stages of as many ranks each; or, which takes longer, all there are.
bool many_make_even_seeds(struct many *many, struct error *error);
bool many_make_seeds(struct many *many, struct error *error);

#endif
