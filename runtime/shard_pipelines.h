// A plan at work whose stages are split over groups of devices (tensor-parallel groups). As many pipelines run side
// by side as a group has members.
//
//     member 0    stage 0, shard 0 --- stage 1, shard 0 --- ..     a session each, of the same schedule
//                        +                    +                    sums within layers (shard_group.h)
//     member 1    stage 0, shard 1 --- stage 1, shard 1 --- ..
//
// Either all pipelines run on threads of this process, on one device; or each member of each rank has a device. Then
// this process has, of each pipeline, the rank that is at its place in the process group (rank_grid.h).
//
// The output of a stage is whole and the same on all its members. So a member sends its messages to the member with
// the same number, and any member has the losses. If groups differ in size, members follow stages that they do not
// have: they run the stage's part of the schedule without its layers (proxy_stages.h).
#ifndef RUNTIME_SHARD_PIPELINES_H
#define RUNTIME_SHARD_PIPELINES_H

#include "runtime/groups/member_groups.h"
#include "runtime/pipeline.h"
#include "runtime/shards/shard_group.h"

struct shard_pipelines {
    uint32_t count;
    struct pipeline **of;   // by member; NULL if it is in another process
    struct pipeline *first; // the first one in this process
    const struct rank_grid *grid;
    struct member_groups *groups;  // NULL: all members are in this process
    struct shard_group *group;
};

struct shard_request {
    const struct plan *plan;
    const struct weir_layer *const *layers;  // by member; those of members in other processes are not used
    size_t layer_count;
    const struct rank_grid *grid;
    struct device *device;
    uint32_t runs;                   // as for pipeline_create()
    const struct schedule *schedule;  // another schedule, as for pipeline_create_on(); NULL: the plan's
    // Settings as for one pipeline, with those of the first member. The group is that of the grid. `shards` is the
    // group in which the layers add up (run.h).
    const struct session_settings *settings;
};

// Creates the pipelines of this process. All arguments are borrowed. NULL with the reason if something fails.
struct shard_pipelines *shard_pipelines_create(const struct shard_request *request, struct error *error);
// Returns 0, or the bytes of memory that had to stay (session_free()).
uint64_t shard_pipelines_free(struct shard_pipelines *pipelines);

// From now on, reads and writes of the first pipeline are of whole layers (pipeline.h). `shards` says what they are
// made of, and receives the pipelines. Borrowed.
void shard_pipelines_join(struct shard_pipelines *pipelines, struct pipeline_shards *shards);

// Makes a step of all pipelines, as session_step(); and sets the learning rate of all.
bool shard_pipelines_step(struct shard_pipelines *pipelines, struct error *error);
void shard_pipelines_set_rate(struct shard_pipelines *pipelines, float rate);
// The timeline of the first pipeline (run.h).
bool shard_pipelines_timeline(struct shard_pipelines *pipelines, struct timeline *timeline, struct error *error);

#endif
