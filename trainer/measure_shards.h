// Profiles layers that are split over several devices (tensor parallel, models/shards.h) on one of these devices, as
// variants that a plan can choose.
#ifndef TRAINER_MEASURE_SHARDS_H
#define TRAINER_MEASURE_SHARDS_H

#include "device/device.h"
#include "models/shards.h"
#include "profiler/cluster.h"
#include "profiler/measure.h"
#include "trainer/data/sample_data.h"

// Adds variants to a profile. The profile must be of the model that `spec` names, measured on this device with the
// same options. Each layer that can be split gets a variant such as "tensor2" (on 2 devices), with the numbers of one
// shard. Its communication_ns is the time of one all-reduce over the shards, found by `cluster`:
//
//     on a cluster   each device receives the others' parts over the innermost link, one after the other
//     NULL           the measured time in which this device adds and copies its share of all parts
//
// If the shards can share the rows of all layers, each layer also gets a variant such as "tensor2sp" (sequence
// parallel). Its all-reduces become a reduce-scatter and an all-gather, which together move as many bytes. What W
// gathers and adds up over the shards in addition is in the variant's backward_weight_ns.
//
// False with `error` if a measurement fails or the model has no layer that can be split like this.
bool measure_shards(struct profile *profile, const char *spec, struct device *device, uint32_t shards,
                    const struct cluster *cluster, const struct measure_options *options, struct error *error);

// The same for devices that each have whole layers, for their share of the samples (own rows). Each layer gets a
// variant such as "rows2", with the numbers of the largest share and no communication. Its update_ns is the time in
// which the devices add up the layer's gradients. False also if the model cannot be run so. The layers run on `data`,
// as the profile's did (measure_model.h).
//
// With `places`, tables are split over the members as these words say (models/table_places.h), and are part of the
// variant's name: "rows2:columns". Its times are those of the member that looks up most, and its communication_ns that
// of one exchange of vectors.
bool measure_own_rows(struct profile *profile, const char *spec, struct device *device, uint32_t members,
                      const char *places, const struct cluster *cluster, const struct sample_data *data,
                      const struct measure_options *options, struct error *error);

// The same for tables in the host's memory, of which the device has room for some rows: those that an iteration reads.
// Layers of tables get a variant such as "host50000" on one device.
bool measure_room(struct profile *profile, const char *spec, struct device *device, size_t room,
                  const struct sample_data *data, const struct measure_options *options, struct error *error);

// How the layers of a variant with this name are split. The result has 0 shards if the name is not of the form above.
struct sharding variant_sharding(const char *variant);

#endif
