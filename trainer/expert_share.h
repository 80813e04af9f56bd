// How uneven the tokens of real micro-batches make a placement of experts (models/expert_places.h).
#ifndef TRAINER_EXPERT_SHARE_H
#define TRAINER_EXPERT_SHARE_H

#include "models/layer.h"
#include "profiler/expert_routing.h"

struct expert_share {
    double slowest;   // rows that the slowest member takes, in the mean of all micro-batches, over the even share
    double sent;      // likewise without those of copied experts, which are not sent
    double products;  // the share of the layer's operations that experts do for these rows
    double dropped;   // of all choices of tokens
};

// The layer is that of a member, with places. Without a routing that has counted it (NULL) all experts are chosen
// alike. Then the slowest member is the one with most experts, and nothing is dropped.
struct expert_share expert_share_of(const struct layer *shard, const struct profile_routing *routing);

// How much longer than with all experts chosen alike a member's products take.
double expert_stretch(const struct layer *shard, const struct profile_routing *routing);

#endif
