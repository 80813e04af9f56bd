// A plan whose stages are split over groups of devices, put to work: as many pipelines side by side as a group has
// members.
//
//     member 0    stage 0, shard 0 --- stage 1, shard 0 --- ..     a session each, of the same schedule
//                        +                    +                    sums within layers (shard_meeting.h)
//     member 1    stage 0, shard 1 --- stage 1, shard 1 --- ..
//
// All are on the threads of this process and on one device; or, with a device for each member of each rank (seats.h),
// this process has of each the rank that is at its place.
//
// What a stage hands on is whole and alike on all its members, so that messages go from a member to the one of the same
// number, and losses are those of any. Where groups are of unlike size, members follow stages they do not have
// (followers.h).
#ifndef RUNTIME_SHARD_PIPELINES_H
#define RUNTIME_SHARD_PIPELINES_H

#include "runtime/member_groups.h"
#include "runtime/pipeline.h"
#include "runtime/shard_meeting.h"

struct shard_pipelines {
    uint32_t count;
    struct pipeline **of;   // by member; NULL of those elsewhere
    struct pipeline *first; // of those here
    const struct seats *seats;
    struct member_groups *groups;  // NULL: all are here
    struct shard_meeting *meeting;
};

struct shard_request {
    const struct plan *plan;
    const struct weir_layer *const *layers;  // by member; those of members elsewhere are not looked at
    size_t layer_count;
    const struct seats *seats;
    struct device *device;
    uint32_t runs;                   // as of one pipeline
    const struct schedule *schedule;  // of one's own, as of pipeline_create_on(); NULL: the plan's
    // As for one pipeline, of the first member, but for the group, which is that of the seats; they have the meeting
    // that the layers add up in (run.h).
    const struct session_settings *settings;
};

// All is borrowed.
struct shard_pipelines *shard_pipelines_create(const struct shard_request *request, struct error *error);
uint64_t shard_pipelines_free(struct shard_pipelines *pipelines);

// What is read of the first pipeline and written to it is of whole layers from now on (pipeline.h); `shards` says what
// they are made of, and the pipelines are put in here. Borrowed.
void shard_pipelines_join(struct shard_pipelines *pipelines, struct pipeline_shards *shards);

// A step of all; and what it was of all, as of one session.
bool shard_pipelines_step(struct shard_pipelines *pipelines, struct error *error);
void shard_pipelines_set_rate(struct shard_pipelines *pipelines, float rate);
// When everything happened in the first (run.h).
bool shard_pipelines_timeline(struct shard_pipelines *pipelines, struct timeline *timeline, struct error *error);

#endif
