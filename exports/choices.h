// What the profile of a plan was estimated for, choice by choice, and which choices a format expresses.
//
// Before a format writes, it marks the choices that it expresses (export_tells()). For every other choice there is a
// sentence, so that none is left out in silence. If the profile was not estimated, no choice is known and nothing is
// said.
#ifndef EXPORTS_CHOICES_H
#define EXPORTS_CHOICES_H

#include "profiler/estimate/estimated.h"

struct export;

enum choice {
    CHOICE_TENSOR, CHOICE_SEQUENCE_PARALLEL, CHOICE_CONTEXT, CHOICE_EXPERT, CHOICE_DATA, CHOICE_PLACEMENT, CHOICE_SHARD,
    CHOICE_SEQUENCE, CHOICE_MICRO_BATCH, CHOICE_DTYPE, CHOICE_PRODUCTS, CHOICE_ATTENTION, CHOICE_OVERLAP,
    CHOICE_DISPATCH, CHOICE_HIDDEN_EXPERTS, CHOICE_LOSS, CHOICE_NORMS_AGAIN, CHOICE_ACTIVATIONS_AGAIN,
    CHOICE_LATENT_AGAIN, CHOICE_NARROW_EXPERTS, CHOICE_NARROW_ACTIVATIONS, CHOICE_NARROW_ATTENTION, CHOICE_GRAPHS,
    CHOICE_BLOCKING, CHOICE_COMPILED, CHOICE_GRADIENTS, CHOICE_WITHIN, CHOICE_OPTIMIZER, CHOICE_MODEL, CHOICES
};

void export_tells(struct export *export, enum choice choice);
void export_tells_if(struct export *export, bool does, enum choice choice);

// Says a sentence for each choice that is not expressed.
void export_say_omitted(struct export *export);

// --- for formats --------------------------------------------------------------------------

// The degree of each kind of parallelism, 1 if nothing is known; and the number of devices in all.
uint64_t export_tensor(const struct export *export);
uint64_t export_context(const struct export *export);
uint64_t export_expert(const struct export *export);
bool export_scales_blocks(const struct export *export);  // the device multiplies numbers scaled by blocks of 32 (mxfp8)
uint64_t export_data(const struct export *export);  // including the plan's own equal replicas
uint64_t export_devices(const struct export *export);

// Among the devices with the same part of the model, the number that hold it once between them (sharded).
uint64_t export_within(const struct export *export);

// Sequences in an iteration of all pipelines; 0 if the micro-batch is not known.
uint64_t export_batch(const struct export *export);

#endif
