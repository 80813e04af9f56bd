// Which experts the tokens of a text choose: the routers of a model, run on the first micro-batches of a training.
#ifndef TRAINER_MODEL_ROUTING_H
#define TRAINER_MODEL_ROUTING_H

#include "device/device.h"
#include "profiler/expert_routing.h"
#include "trainer/data/text_data.h"
#include "trainer/kept_model.h"

// What is counted. All of it is borrowed.
struct model_routing_request {
    const struct model *model;
    struct device *device;
    const struct text_data *text;
    const struct kept_model *kept;  // the weights; NULL: the model's first ones, by the seed
    uint64_t seed, batches;         // micro-batch b is that of step b
};

// Whether the model has experts and the text is of its vocabulary. False with `error`.
bool model_routing_fits(const struct text_data *text, const struct model *model, struct error *error);

// Runs the forwards one after the other, without updates and without dropout. NULL with an error. Freed by
// routing_free().
struct profile_routing *model_routing_count(const struct model_routing_request *request, struct error *error);

#endif
