// Profiles a built-in model on a device.
#ifndef TRAINER_MEASURE_MODEL_H
#define TRAINER_MEASURE_MODEL_H

#include "device/device.h"
#include "models/model.h"
#include "profiler/measure.h"

// Runs the layers of the model that `spec` names (trainer/model_spec.h) on random bytes, on the calling thread with
// the `cpu` maker. All memory is released at the end.
// The profile has the spec as its name, so that a plan made from it says which model to build. If `measurement` is
// not NULL, it receives what the profile leaves out (freed by measurement_free()). Returns NULL with `error` on
// failure.
struct profile *measure_model(const char *spec, struct device *device, const struct measure_options *options,
                              struct measurement **measurement, struct error *error);

// The same for a model that was built in another way; `spec` is the profile's name.
struct profile *measure_made_model(const char *spec, const struct model *model, struct device *device,
                                   const struct measure_options *options, struct measurement **measurement,
                                   struct error *error);

#endif
