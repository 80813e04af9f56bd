// Layers that are split over several devices (models/shards.h), profiled on one of them: variants for plans.
#ifndef TRAINER_MEASURE_SHARDS_H
#define TRAINER_MEASURE_SHARDS_H

#include "device/device.h"
#include "models/shards.h"
#include "profiler/cluster.h"
#include "profiler/measure.h"

// Adds to the profile of the model that a spec names, measured on the device with the same options, a variant of each
// layer that can be split: "tensor2" on 2 devices, with the numbers of a shard. Its communication_ns, of one sum over
// the shards, is
//
//     on a cluster   each device gets the others' parts over the innermost link, one after the other
//     NULL           what adding and copying its share of all parts takes a device here
//
// Where shards can share the rows of all layers, a variant "tensor2sp" of each, too (sequence parallel). Its sums are
// scattered and what goes into products is gathered, which together is as many bytes; what W gathers and adds up over the
// shards besides is in its backward_weight_ns.
bool measure_shards(struct profile *profile, const char *spec, struct device *device, uint32_t shards,
                    const struct cluster *cluster, const struct measure_options *options, struct error *error);

// How the layers of a variant of this name are split: over none, where they are not like this.
struct sharding tensor_sharding(const char *variant);

#endif
