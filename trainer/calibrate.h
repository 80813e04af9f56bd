// What a device's kernels get, as the document "weir.device": so that `weir estimate` can say what a model would cost on
// this very device, without measuring its layers.
#ifndef TRAINER_CALIBRATE_H
#define TRAINER_CALIBRATE_H

#include "device/device.h"
#include "profiler/estimate/rated_device.h"

// Measures products, attention and passes over memory of the usual sizes of layers, on the calling thread where the
// device does not run ahead; takes seconds. `dtype` of the device's precision stands for the only type of products.
// Links are taken to be as fast as a copy within the device's memory: `weir profile --links` measures them.
bool calibrate_device(struct device *device, struct rated_device *rated, struct error *error);

#endif
