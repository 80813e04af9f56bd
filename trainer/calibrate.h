// Measures the speed of a device's kernels, as the document "weir.device". With it `weir estimate` says what a model
// would cost on this very device, without measuring the model's layers.
#ifndef TRAINER_CALIBRATE_H
#define TRAINER_CALIBRATE_H

#include "device/device.h"
#include "profiler/estimate/rated_device.h"

// Measures matrix products, attention and passes over memory, in the sizes that are usual for layers. Takes seconds.
// It runs on the calling thread if the device is synchronous (does not run ahead of its host).
// The result has a single type of products, whose `dtype` is the device's precision. Links are assumed to be as fast
// as a copy within the device's memory; `weir profile --links` measures real ones. False with `error` if the device
// or memory fails.
bool calibrate_device(struct device *device, struct rated_device *rated, struct error *error);

#endif
