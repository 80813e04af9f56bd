// What a layer keeps of each micro-batch from its F until its backward is one area of memory. What it consists of is
// said here, for all that allocate it or hand it to the layer. Plans have it from partitioner/cost/layer_memory.h.
#ifndef RUNTIME_STAGES_LAYER_KEPT_H
#define RUNTIME_STAGES_LAYER_KEPT_H

#include "common/public/weir_layer.h"
#include "profiler/profile.h"

static inline uint64_t layer_kept_bytes(const struct weir_layer *layer)
{
    return layer->saved_bytes;
}

// Gives the layer its area.
static inline void layer_kept_give(const struct weir_layer *layer, void *area, struct weir_pass *pass)
{
    (void)layer;
    pass->saved = area;
}

// Notes what the area consists of. It takes this many bytes.
static inline void layer_kept_note(const struct weir_layer *layer, uint64_t bytes, struct profile_layer *to)
{
    (void)layer;
    to->saved_bytes = bytes;
}

#endif
