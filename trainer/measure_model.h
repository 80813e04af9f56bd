// A built-in model, profiled on a device.
#ifndef TRAINER_MEASURE_MODEL_H
#define TRAINER_MEASURE_MODEL_H

#include "device/device.h"
#include "models/model.h"
#include "profiler/measure.h"

// Runs the layers of the model that a spec names (trainer/model_spec.h) on random
// bytes, on the calling thread with the `cpu` maker; all memory is released at the
// end. The profile is called like the spec, so that a plan made of it says which
// model to build. Where `measurement` is not NULL it gets what the profile leaves
// out (freed by measurement_free()).
struct profile *measure_model(const char *spec, struct device *device, const struct measure_options *options,
                              struct measurement **measurement, struct error *error);

// The same of a model that was made otherwise.
struct profile *measure_made_model(const char *spec, const struct model *model, struct device *device,
                                   const struct measure_options *options, struct measurement **measurement,
                                   struct error *error);

#endif
