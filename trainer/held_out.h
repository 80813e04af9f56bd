// The loss on held-out text, which nothing is trained on: forward only, by the twin, with weights that are put there.
#ifndef TRAINER_HELD_OUT_H
#define TRAINER_HELD_OUT_H

#include "trainer/model_layers.h"
#include "runtime/twin/twin.h"

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

#endif
