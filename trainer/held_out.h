// The loss on held-out text, which is never trained on. Only forwards are computed.
//
// There are two ways, and both give the same bits. After a run, `held_out` uses the sequential twin, with weights
// that are put into it. During a run, `held_watch` uses the weights that a pipeline has between two passes, and works
// in memory for its largest layer.
#ifndef TRAINER_HELD_OUT_H
#define TRAINER_HELD_OUT_H

#include "runtime/forward_losses.h"
#include "runtime/twin/twin.h"
#include "trainer/model_layers.h"

struct held_out {
    struct model_layers *layers;
    struct twin *twin;
    const struct model *model;
    const struct text_data *text;
};

// Borrows all its arguments. The weights are the model's initial ones (from the seed) until others are put into the
// twin.
bool held_out_open(struct held_out *held, const struct model *model, struct device *device,
                   const struct text_data *text, uint64_t seed, struct error *error);
void held_out_close(struct held_out *held);

// Computes the loss in bits per token. It is infinite or NaN if the model's loss is.
bool held_out_bits(const struct held_out *held, double *bits, struct error *error);

// The same for a pipeline's weights. All ranks of the process group call these functions together; `group` is NULL
// without one.
struct held_watch {
    struct model_layers *layers;
    struct forward *forward;
    float *losses;
    const struct model *model;
    const struct text_data *text;
};

struct held_watch_request {
    const struct model *model;
    const struct text_data *text;
    const struct pipeline *pipeline;
    const struct process_group *group;
    struct device *device;
    uint64_t seed;
};

bool held_watch_open(struct held_watch *watch, const struct held_watch_request *request, struct error *error);
void held_watch_close(struct held_watch *watch);
bool held_watch_bits(const struct held_watch *watch, double *bits, struct error *error);

#endif
