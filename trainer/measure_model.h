// Profiles a built-in model on a device.
#ifndef TRAINER_MEASURE_MODEL_H
#define TRAINER_MEASURE_MODEL_H

#include "device/device.h"
#include "models/model.h"
#include "profiler/measure.h"
#include "trainer/data/sample_data.h"
#include "trainer/data/text_data.h"
#include "trainer/kept_model.h"

// Runs the layers of the model that `spec` names (trainer/model_spec.h) on random data, on the calling thread with
// the `cpu` maker. All memory is released at the end.
// The profile has the spec as its name, so that a plan made from it says which model to build. If `measurement` is
// not NULL, it receives what the profile leaves out (freed by measurement_free()). Returns NULL with `error` on
// failure.
struct profile *measure_model(const char *spec, struct device *device, const struct measure_options *options,
                              struct measurement **measurement, struct error *error);

// The same for a model that was built in another way; `spec` is the profile's name. The layers run on the samples of
// `data`, which fit the model, in the order of a training with seed MEASURE_SEED; NULL: on random data.
enum { MEASURE_SEED = 1 };
struct profile *measure_made_model(const char *spec, const struct model *model, struct device *device,
                                   const struct sample_data *data, const struct measure_options *options,
                                   struct measurement **measurement, struct error *error);

// The same, and the profile has the reads of so many micro-batches (model_reads.h).
struct profile *measure_reads(const char *spec, struct device *device, const struct sample_data *data,
                              uint64_t batches, const struct measure_options *options,
                              struct measurement **measurement, struct error *error);

// The profile of measure_model(), with the routing of so many micro-batches of a text (model_routing.h). The weights
// are those of `kept`, of the same spec; NULL: the first ones.
struct profile *measure_routing(const char *spec, struct device *device, const struct text_data *text,
                                const struct kept_model *kept, uint64_t batches, const struct measure_options *options,
                                struct measurement **measurement, struct error *error);

#endif
