// Measures layers on the device where they will run: gives each the memory that it states, and lets
// profiler/measure.h time it.
#ifndef RUNTIME_STAGES_MEASURE_CHAIN_H
#define RUNTIME_STAGES_MEASURE_CHAIN_H

#include "device/device.h"
#include "profiler/measure.h"
#include "common/public/weir_layer.h"

// A chain of layers on a device. In their passes the micro-batch is 0, of updates of one micro-batch, as any plan has
// it. The step grows with every forward of the first layer, so that data vary.
struct measured_chain;

struct measured_chain *measured_chain_create(const struct weir_layer *layers, size_t layer_count,
                                             struct device *device, struct error *error);
void measured_chain_free(struct measured_chain *chain);

// The callbacks for measure_layers(), borrowed from the chain. The sizes that they report are what the device counted
// when the layer's memory was allocated.
const struct measured *measured_chain_callbacks(const struct measured_chain *chain);

#endif
