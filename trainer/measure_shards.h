// Layers that are split over several devices (models/shards.h), profiled on one of them: variants for plans.
#ifndef TRAINER_MEASURE_SHARDS_H
#define TRAINER_MEASURE_SHARDS_H

#include "device/device.h"
#include "profiler/cluster.h"
#include "profiler/measure.h"

// Adds to the profile of the model that a spec names, measured on the device with the same options, a variant of each
// layer that can be split: "tensor2" on 2 devices, with the numbers of a shard. Its communication_ns, of one sum over
// the shards, is
//
//     on a cluster   each device gets the others' parts over the innermost link, one after the other
//     NULL           what adding and copying its share of all parts takes a device here
bool measure_shards(struct profile *profile, const char *spec, struct device *device, uint32_t shards,
                    const struct cluster *cluster, const struct measure_options *options, struct error *error);

// Whether a variant's name is of layers split like this, and over how many.
uint32_t tensor_shards(const char *variant);

#endif
