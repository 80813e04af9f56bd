// Measures layers where they will run: gives each the memory it asks for on a
// device, and lets profiler/measure.h time it.
#ifndef RUNTIME_MEASURE_CHAIN_H
#define RUNTIME_MEASURE_CHAIN_H

#include "device/device.h"
#include "profiler/measure.h"
#include "runtime/weir.h"

// A chain of layers on a device. What they are told of a pass: step 0, and a
// micro-batch that goes up with every forward of the first layer.
struct measured_chain;

struct measured_chain *measured_chain_create(const struct weir_layer *layers, size_t layer_count,
                                             struct device *device, struct error *error);
void measured_chain_free(struct measured_chain *chain);

// What measure_layers() asks for; borrowed from the chain. The sizes it tells are
// what the device counted when the layer's memory was allocated.
const struct measured *measured_chain_callbacks(const struct measured_chain *chain);

#endif
