// What the routers of a training run choose, micro-batch by micro-batch: the counts of its last updates, for its trace
// and the next plan (docs/formats/trace.md).
//
// A forward of experts leaves its counts in a slot, and the fold behind an update gets all of them (weir_layer.h). A
// fold also has the device copy them here. The last passes are kept, in a ring:
//
//     pass 7    counts of micro-batches 0 1 2 3  --+
//     pass 8    counts of micro-batches 0 1 2 3  --+-> KEPT_BATCHES or one pass, whichever is more
//
// Several copies of a layer fold the same. The first of them that does is the one that is listened to.
#ifndef TRAINER_ROUTING_RECORD_H
#define TRAINER_ROUTING_RECORD_H

#include "common/public/weir_layer.h"
#include "models/shards.h"
#include "profiler/expert_routing.h"
#include "runtime/pipeline.h"
#include "runtime/shards/shard_group.h"

enum { KEPT_BATCHES = 256 };

struct routing_record;

// For passes of so many micro-batches. NULL with an error if memory runs out. Borrows the model.
struct routing_record *routing_record_create(const struct model *model, uint32_t micro_batches, struct error *error);
void routing_record_free(struct routing_record *record);

// Called by folds: of a layer of experts, or of any other, which does nothing. The record may be NULL.
void routing_record_fold(struct routing_record *record, const struct layer *layer, const struct weir_fold *fold);

// Keeps the counts of the pass that has ended; and the time of its exchanges, of a layer of experts or any other.
void routing_record_keep(struct routing_record *record);
void routing_record_time(struct routing_record *record, uint32_t layer, struct exchange_time exchanges);

// What is kept of full micro-batches, for the profile or a trace: NULL if there is nothing. All ranks of a run call it,
// since those that have a layer tell the others. False with an error.
struct routing_reading {
    const struct pipeline *pipeline;
    struct sharding sharding;   // of the plan's stages, whose places tell which member has which expert
    uint64_t end_step;          // that was made last
    uint64_t steps;             // of a pass
};
bool routing_record_read(struct routing_record *record, const struct routing_reading *reading,
                         struct profile_routing **routing, struct error *error);

#endif
