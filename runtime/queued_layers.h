// Layers in plain C, which compute as soon as they are called, for a device that runs ahead of its host: each call is
// given to the queue, with a copy of its pass, and made when its turn comes. What goes wrong fails the queue.
#ifndef RUNTIME_QUEUED_LAYERS_H
#define RUNTIME_QUEUED_LAYERS_H

#include "common/error.h"
#include "runtime/weir.h"

// The same layers, in an array of `count`, that queue their calls. The layers are borrowed; free() the array. NULL
// without memory.
struct weir_layer *queued_layers_create(const struct weir_layer *layers, size_t count, struct error *error);

#endif
