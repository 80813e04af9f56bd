// What a copy of an expert on all members costs (expert_placement.h), in pairs of a token and an expert.
//
// Gradients of a copy are added up over the members at each update, as those of dense layers are. On a cluster's links
// that takes a time, in which a device does some pairs: the layer's F and B over the pairs of a micro-batch. A copy
// also takes memory on each member. So it has to gain a twentieth of an even share at least, and without links only
// that.
#ifndef PARTITIONER_EXPERTS_COPY_PRICE_H
#define PARTITIONER_EXPERTS_COPY_PRICE_H

#include "profiler/cluster.h"
#include "profiler/expert_routing.h"
#include "profiler/profile.h"

// The cluster may be NULL: its links are not known. An update has so many micro-batches, at least one.
struct copy_pricing {
    const struct profile *profile;  // with a routing
    const struct cluster *cluster;
    uint32_t members;
    uint64_t micro_batches;
};

// The price over all micro-batches of the routing, of each copy of an expert of this layer.
uint64_t copy_price(const struct copy_pricing *pricing, const struct layer_routing *layer);

#endif
