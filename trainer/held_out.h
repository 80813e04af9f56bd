// The loss on held-out text, which nothing is trained on: forward only.
//
// By the twin, with weights that are put there, once a run is over; or by the weights that a pipeline has between two
// passes, in the memory for its largest layer. Both give the same bits.
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

// All borrowed. Its weights are what the model begins with (the seed's) until others are put into the twin.
bool held_out_open(struct held_out *held, const struct model *model, struct device *device,
                   const struct text_data *text, uint64_t seed, struct error *error);
void held_out_close(struct held_out *held);

// Bits per token; infinite or no number where the loss is.
bool held_out_bits(const struct held_out *held, double *bits, struct error *error);

// The same of a pipeline's weights, by all ranks of its group (NULL: there is none) together.
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
