// Whether a pipeline computes what one processor computes: layers trained by the plan's
// pipeline and by the sequential twin, from the same weights on the same batches,
// compared bit for bit.
#ifndef RUNTIME_TWIN_VERIFY_LAYERS_H
#define RUNTIME_TWIN_VERIFY_LAYERS_H

#include "runtime/pipeline.h"
#include "runtime/weir.h"

struct verification {
    bool equal;
    uint32_t steps;              // iterations compared
    uint32_t skipped;            // of them, since gradients in fp16 have overflowed (runtime/loss_scaling.h)
    uint32_t splits;             // parts of each sequence, on both sides
    uint64_t parameter_count;    // compared, with what lies in gaps between tensors
    uint64_t differing;          // parameters whose bits differ, on any copy of their stage
    char layer[64];              // the first layer with one, or empty
    uint32_t copy;               // which copy of it, where there are several
    uint64_t index;              // its first differing parameter,
    float pipeline, sequential;  // and what it is on both sides
    uint32_t losses_differing;   // micro-batches whose losses differ
    double loss;                 // the mean over the micro-batches of the last pass of the schedule
};

struct verify_layers {
    const struct plan *plan;
    // Lowered, of one's own, that has the plan's stages: of the plan only cuts, segments and optimizer are looked at.
    // NULL: the plan's own.
    const struct schedule *schedule;
    // Given twice, since both sides may run at once: for the pipeline, and for the twin.
    const struct weir_layer *ours, *theirs;
    size_t layer_count;
    // Of a plan whose stages are split over groups of devices: the layers of each member, `ours` being those of the first here.
    // `theirs` compute all shards: they have the parameters of a layer's shards one behind the other, or those of
    // a layer that is not split once.
    const struct weir_layer *const *members;
    struct pipeline_shards *shards;  // what makes up a layer, and who is where. NULL: nothing is split
    struct device *device;
    struct session_settings settings;  // of the pipeline; its optimizer is the twin's as well
    uint32_t steps;                    // iterations
};

// False when something could not be run; whether the two agree is in the result.
bool verify_layers(const struct verify_layers *what, struct verification *result, struct error *error);

#endif
