// Whether a pipeline computes what one processor computes. Layers are trained by the plan's pipeline and by the
// sequential twin, from the same weights on the same batches, and compared bit for bit.
#ifndef RUNTIME_TWIN_VERIFY_LAYERS_H
#define RUNTIME_TWIN_VERIFY_LAYERS_H

#include "runtime/pipeline.h"
#include "common/public/weir_layer.h"

struct verification {
    bool equal;
    uint32_t steps;              // iterations compared
    // steps without update, since gradients in fp16 overflowed (runtime/updates/loss_scaling.h)
    uint32_t skipped;
    uint32_t splits;             // parts of each sequence, on both sides
    uint64_t parameter_count;    // compared parameters, including gaps between tensors
    uint64_t differing;          // parameters whose bits differ, on any copy of their stage
    char layer[64];              // the first layer with a difference, or empty
    uint32_t copy;               // which copy of that layer, if there are several
    uint64_t index;              // its first parameter that differs
    float pipeline, sequential;  // the values of that parameter
    uint64_t states_differing;   // numbers of states without a gradient whose bits differ, on any copy
    char state_layer[64];        // the first layer with such a difference, or empty
    uint32_t losses_differing;   // micro-batches whose losses differ
    uint32_t auxiliary_differing;  // auxiliary losses of layers and micro-batches that differ
    char auxiliary_layer[64];    // the first layer with such a difference, or empty
    double loss;                 // the mean over the micro-batches of the last pass of the schedule
};

struct verify_layers {
    const struct plan *plan;
    // Another schedule, lowered, with the plan's stages. Only cuts, segments and optimizer of the plan are then used.
    // NULL: the plan's own schedule.
    const struct schedule *schedule;
    // The layers for the pipeline and for the twin. They are separate, since both may run at once.
    const struct weir_layer *ours, *theirs;
    size_t layer_count;
    // The layers of each member, if stages are split over groups of devices. Then `ours` are those of the first member
    // in this process. The twin's layers (`theirs`) compute all shards of a layer, and have the parameters of its
    // shards one behind the other. A layer that is not split has its parameters once.
    const struct weir_layer *const *members;
    struct pipeline_shards *shards;  // how shards make up a layer, and which process has which. NULL: no layer is split
    // Called before each step of the pipeline; NULL: nothing has to be done
    bool (*before_step)(void *self, struct pipeline *pipeline, struct error *error);
    void *self;
    struct device *device;
    struct session_settings settings;  // of the pipeline; the twin has the same optimizer
    uint32_t steps;                    // iterations
};

// False, with the reason, if one of the two could not be run. Whether they agree is in the result.
bool verify_layers(const struct verify_layers *what, struct verification *result, struct error *error);

#endif
