// Clipping by the global norm. If the norm of all gradients, of all layers on all stages, is above a limit, they are
// all scaled down together (Pascanu et al. 2013; torch.nn.utils.clip_grad_norm_).
//
//     stage 0   | norm of layer 0 | norm of layer 1 |     0 |     0 |
//     stage 1   |               0 |               0 |  of 2 |  of 3 |   summed over all ranks: every rank has all norms
//
// There is a norm for each layer, and then the norm of these in the order of the layers. So the bits are the same
// wherever a plan cuts. Each rank measures the layers of which it has the first copy; tied parameters count in the
// layer that owns them, and frozen layers not at all. The floats are outside the slab: one for each layer of the model.
//
// The norm of a layer of tables is that of its rows, in the order of their numbers. It has the same bits whether the
// gradient is a list of rows or as large as the tables.
//
// If layers are split over the members of a tensor-parallel group (shard_pipelines.h), each layer has a norm for each
// member. The first member measures everything it has of the layer, the others only what they alone have. The norms
// of all members are added up as well.
//
// With loss scaling (loss_scaling.h), the same norms tell all ranks whether gradients have overflowed anywhere. They
// are then measured even if nothing is clipped, and also if the norm is asked for as a result. Gradients then stay
// as they are, to the bit.
#ifndef RUNTIME_UPDATES_CLIPPING_H
#define RUNTIME_UPDATES_CLIPPING_H

#include "runtime/stages/stage.h"
#include "runtime/transport/transport.h"

// A layer that is split: how many members have a shard of it, and the elements [first, end) of each shard that the
// member alone has. A layer that is not split has one member.
struct split_layer {
    uint32_t members;
    uint64_t first, end;
    // Members own rows: gradients of what all of them have are added up at each update. What they have alone, if
    // anything, comes last.
    bool adds_up;
    bool sets_alike;  // all members set the statistics and the auxiliary loss of the whole micro-batch
};

struct split_norms {
    uint32_t members;  // of the largest group
    const struct split_layer *layers;  // by layer, as stages number them
    uint32_t layer_count;
    bool adds_up;  // whether gradients of some layer are added up
    // Adds up norms, or gradients, of the members of a rank, on the queue.
    void (*add)(void *self, uint32_t rank, uint32_t member, struct queue *queue, float *numbers, size_t count);
    void *self;
};

// The part of a layer's gradients, on a member, that the member measures, counted from the first of them; count 0:
// none.
struct norm_range {
    uint64_t first, count;
};
struct norm_range split_measured(const struct split_norms *split, uint32_t layer, uint32_t member, uint64_t count);
// How many of a layer's `count` gradients, from the first on, members add up.
uint64_t split_added(const struct split_norms *split, uint32_t layer, uint64_t count);

struct clipping {
    struct device *device;
    float limit;    // 0: nothing is clipped
    bool measures;  // whether there are norms
    float *norms, *host;  // by layer, then member: on the device, and as downloaded
    uint32_t layers, members, member;
    const struct split_norms *split;
    struct event *measured;  // when this rank's norms are there
};

// For a pipeline with these stages, and, if layers are split, for one member. `split` may be NULL, and is borrowed.
// With `measures`, norms are measured whatever the limit.
bool clipping_open(struct clipping *clipping, struct device *device, const struct stage *stages, uint32_t stage_count,
                   float limit, bool measures, const struct split_norms *split, uint32_t member,
                   struct error *error);
void clipping_close(struct clipping *clipping);

// To be called in this order. The norms are zeroed, and those of a stage's own layers measured. All ranks then make the
// reduction that clipping_sum() returns, as group `group`. The norms of a rank's members are added up, and then
// gradients are clipped by the result.
void clipping_begin(const struct clipping *clipping, struct queue *queue);
void clipping_measure(const struct clipping *clipping, struct queue *queue, const struct stage *stage,
                      const float *gradients);
void clipping_measure_part(const struct clipping *clipping, struct queue *queue, const struct stage_part *part,
                           const float *gradients);  // of one layer, with its gradients, which are no list of rows
struct reduction clipping_sum(const struct clipping *clipping, uint32_t group);
void clipping_add_members(const struct clipping *clipping, struct queue *queue, uint32_t rank);
void clipping_clip(const struct clipping *clipping, struct queue *queue, float *gradients, uint64_t count);

// Starts a download of the norms. Once the queue is done, clipping_norm() is the norm before clipping.
void clipping_download(const struct clipping *clipping, struct queue *queue);
double clipping_norm(const struct clipping *clipping);

#endif
