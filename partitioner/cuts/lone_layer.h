// A layer that fits nowhere, whatever shares its stage and whatever is recomputed. If there is one, no cut helps, and
// none has to be tried.
#ifndef PARTITIONER_CUTS_LONE_LAYER_H
#define PARTITIONER_CUTS_LONE_LAYER_H

#include "partitioner/cuts/cut_problem.h"

struct lone_layer {
    uint32_t layer;
    // On the stage where it lacks least, it needs at least this: its states, what is kept of it and its workspace.
    // Messages are not included.
    uint64_t needs_bytes;
    uint64_t has_bytes;     // memory of that stage's device
    uint64_t lacks_bytes;   // 0: every layer fits somewhere
};

// Finds the layer that lacks most. False with an error.
bool lone_layer_find(const struct cut_problem *problem, struct lone_layer *found, struct error *error);

// Adds to a text: "; no cut helps: layer fc6 alone needs at least 1.53 GiB, and its device has 1.00 GiB", or nothing.
void lone_layer_say(const struct cut_problem *problem, const struct lone_layer *layer, struct text *text);

#endif
