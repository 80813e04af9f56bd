// Layers in plain C, which compute as soon as they are called, on a device that runs ahead of its host. Each call is
// put into the queue with a copy of its pass, and made when its turn comes. If it fails, the queue fails.
#ifndef RUNTIME_STAGES_QUEUED_LAYERS_H
#define RUNTIME_STAGES_QUEUED_LAYERS_H

#include "common/error.h"
#include "common/public/weir_layer.h"

// A copy of the layers, an array of `count`, whose functions queue the calls. The layers are borrowed; free() the
// array. NULL without memory.
struct weir_layer *queued_layers_create(const struct weir_layer *layers, size_t count, struct error *error);

#endif
