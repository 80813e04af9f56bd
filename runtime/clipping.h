// Clipping by the global norm: the gradients of all layers, on whatever stages, are scaled down together where the norm
// of all of them is above a limit (Pascanu et al. 2013; torch.nn.utils.clip_grad_norm_).
//
//     stage 0   | norm of layer 0 | norm of layer 1 |     0 |     0 |
//     stage 1   |               0 |               0 |  of 2 |  of 3 |   added up over all ranks: every rank has all
//
// A norm for each layer, and the norm of these in the order of the layers: so the bits are the same wherever a plan cuts.
// Each rank measures the layers of which it has the first copy; of tied parameters the layer that owns them counts.
// The floats lie beside the slab: as many as the model has layers.
//
// Where layers are split over members (shard_pipelines.h) each layer has a norm for each member: of the first, of all
// that it has of the layer; of the others, of what they alone have. Those of all members are added up as well.
//
// By the same norms all ranks see whether gradients that were scaled have overflowed anywhere (loss_scaling.h); they
// are measured then also where nothing is clipped.
#ifndef RUNTIME_CLIPPING_H
#define RUNTIME_CLIPPING_H

#include "runtime/stage.h"
#include "runtime/transport.h"

// A layer that is split: how many members have a shard of it, and elements [first, end) of each that are the member's
// alone. One that is not has one member.
struct split_layer {
    uint32_t members;
    uint64_t first, end;
};

struct split_norms {
    uint32_t members;  // of the largest group
    const struct split_layer *layers;  // as stages hold them
    uint32_t layer_count;
    // Adds up the norms of the members of a rank, on the queue.
    void (*add)(void *self, uint32_t rank, uint32_t member, struct queue *queue, float *norms, size_t count);
    void *self;
};

// Of a layer's gradients, beginning with those of its first member: those that a member measures. None: count 0.
struct norm_range {
    uint64_t first, count;
};
struct norm_range split_measured(const struct split_norms *split, uint32_t layer, uint32_t member, uint64_t count);

struct clipping {
    struct device *device;
    float limit;    // 0: nothing is clipped
    bool measures;  // whether there are norms
    float *norms, *host;  // by layer: on the device, and what was downloaded of them
    uint32_t layers, members, member;
    const struct split_norms *split;
    struct event *measured;  // when this rank's norms are there
};

// Of a pipeline with these stages; and, where layers are split, of a member. `split` may be NULL, and is borrowed.
// `judges`: norms are wanted whatever the limit.
bool clipping_open(struct clipping *clipping, struct device *device, const struct stage *stages, uint32_t stage_count,
                   float limit, bool judges, const struct split_norms *split, uint32_t member,
                   struct error *error);
void clipping_close(struct clipping *clipping);

// In order: none are known; those of a stage's own layers; what all ranks add up, as group `group`; what the members of
// a rank do; and then, of the sum, this is how gradients are clipped.
void clipping_begin(const struct clipping *clipping, struct queue *queue);
void clipping_measure(const struct clipping *clipping, struct queue *queue, const struct stage *stage,
                      const float *gradients);
void clipping_measure_part(const struct clipping *clipping, struct queue *queue, const struct stage_part *part,
                           const float *gradients);  // of one layer, whose gradients these are
struct reduction clipping_sum(const struct clipping *clipping, uint32_t group);
void clipping_add_members(const struct clipping *clipping, struct queue *queue, uint32_t rank);
void clipping_clip(const struct clipping *clipping, struct queue *queue, float *gradients, uint64_t count);

// Has the norms downloaded; once the queue is done, clipping_norm() is the norm before anything was clipped.
void clipping_download(const struct clipping *clipping, struct queue *queue);
double clipping_norm(const struct clipping *clipping);

#endif
