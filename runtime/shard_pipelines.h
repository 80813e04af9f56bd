// A plan whose stages are split over groups of devices, put to work: as many pipelines side by side as a group has
// members, on the threads of this process.
//
//     member 0    stage 0, shard 0 --- stage 1, shard 0 --- ..     a session each, of the same schedule
//                        +                    +                    sums within layers (shard_meeting.h)
//     member 1    stage 0, shard 1 --- stage 1, shard 1 --- ..
//
// What a stage hands on is whole and alike on all its members, so that messages go from a member to the one of the same
// number, and losses are those of any. Where groups are of unlike size, members follow stages they do not have
// (followers.h).
#ifndef RUNTIME_SHARD_PIPELINES_H
#define RUNTIME_SHARD_PIPELINES_H

#include "runtime/pipeline.h"
#include "runtime/shard_meeting.h"

// How many members the largest group of a plan's stages has: 1 where none is split.
uint32_t plan_members(const struct plan *plan);

struct shard_pipelines {
    uint32_t count;
    struct pipeline **of;  // by member
    struct shard_meeting *meeting;
};

// Layers are given by member. Settings as for one pipeline, of the first member; they have the meeting that the layers
// add up in (run.h). All is borrowed.
struct shard_pipelines *shard_pipelines_create(const struct plan *plan, const struct weir_layer *const *layers,
                                               uint32_t members, size_t layer_count, struct device *device,
                                               uint32_t runs, const struct session_settings *settings,
                                               struct error *error);
void shard_pipelines_free(struct shard_pipelines *pipelines);

// What is read of the first pipeline and written to it is of whole layers from now on (pipeline.h); `shards` says what
// they are made of, and the pipelines are put in here. Borrowed.
void shard_pipelines_join(struct shard_pipelines *pipelines, struct pipeline_shards *shards);

// A step of all; and what it was of all, as of one session.
bool shard_pipelines_step(struct shard_pipelines *pipelines, struct error *error);
void shard_pipelines_set_rate(struct shard_pipelines *pipelines, float rate);

#endif
