#ifndef RUNTIME_STAGES_SOUND_LAYERS_H
#define RUNTIME_STAGES_SOUND_LAYERS_H

#include "common/error.h"
#include "common/public/weir_layer.h"

// Whether the layers make sense, before anything is made of them. The error names the first layer and field that does
// not make sense.
bool layers_are_sound(const struct weir_layer *layers, size_t count, struct error *error);

#endif
