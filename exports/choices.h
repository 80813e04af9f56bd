// What the profile of a plan was estimated for, choice by choice, and which of it a format tells.
//
// A format says what it tells of a plan by marking it (export_tells()), before it writes; of every other choice there is
// a sentence, so that none is left out in silence. Without an estimate nothing is known of any, and nothing said.
#ifndef EXPORTS_CHOICES_H
#define EXPORTS_CHOICES_H

#include "profiler/estimate/estimated.h"

struct export;

enum choice {
    CHOICE_TENSOR, CHOICE_SEQUENCE_PARALLEL, CHOICE_CONTEXT, CHOICE_EXPERT, CHOICE_DATA, CHOICE_PLACEMENT, CHOICE_SHARD,
    CHOICE_SEQUENCE, CHOICE_MICRO_BATCH, CHOICE_DTYPE, CHOICE_PRODUCTS, CHOICE_ATTENTION, CHOICE_OVERLAP, CHOICE_DISPATCH,
    CHOICE_HIDDEN_EXPERTS, CHOICE_LOSS, CHOICE_NORMS_AGAIN, CHOICE_ACTIVATIONS_AGAIN, CHOICE_LATENT_AGAIN, CHOICE_GRAPHS,
    CHOICE_BLOCKING, CHOICE_COMPILED, CHOICE_GRADIENTS, CHOICE_WITHIN, CHOICE_OPTIMIZER, CHOICE_MODEL, CHOICES
};

void export_tells(struct export *export, enum choice choice);
void export_tells_if(struct export *export, bool does, enum choice choice);

// A sentence for each that is not told.
void export_say_untold(struct export *export);

// --- what formats ask -------------------------------------------------------------------

// Of this degree, 1 where nothing is known; how many devices there are in all.
uint64_t export_tensor(const struct export *export);
uint64_t export_context(const struct export *export);
uint64_t export_expert(const struct export *export);
uint64_t export_data(const struct export *export);  // with the plan's own equal replicas
uint64_t export_devices(const struct export *export);

// Of the devices with the same part of the model, so many hold it once between them.
uint64_t export_within(const struct export *export);

// Sequences in an iteration of all pipelines; 0 where the micro-batch is not known.
uint64_t export_batch(const struct export *export);

#endif
