// A layer that fits nowhere, whatever shares its stage and whatever is recomputed: then
// no cut helps, and nobody needs to try any.
#ifndef PARTITIONER_CUTS_LONE_LAYER_H
#define PARTITIONER_CUTS_LONE_LAYER_H

#include "partitioner/cuts/cut_problem.h"

struct lone_layer {
    uint32_t layer;
    uint64_t needs_bytes;   // at least, where it lacks least: its states, what is kept of it, its workspace; without
    uint64_t has_bytes;     // messages; and what the device there has
    uint64_t lacks_bytes;   // 0: every layer fits somewhere
};

// The layer that lacks most.
bool lone_layer_find(const struct cut_problem *problem, struct lone_layer *found, struct error *error);

// "; no cut helps: layer fc6 alone needs at least 1.53 GiB, and its device has 1.00 GiB", or nothing.
void lone_layer_say(const struct cut_problem *problem, const struct lone_layer *layer, struct text *text);

#endif
