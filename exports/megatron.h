// What the parts of Megatron-LM's arguments have in common: megatron.c has the pipeline, megatron_how.c how layers are
// computed and shared, megatron_model.c the model.
#ifndef EXPORTS_MEGATRON_H
#define EXPORTS_MEGATRON_H

#include "exports/words.h"

// Whether whole layers run again, which excludes parts of layers.
static inline bool megatron_runs_layers_again(const struct export *export)
{
    return export->again.kind == AGAIN_FIRST || export->again.kind == AGAIN_GROUPS;
}

// Marks what is told, and says what is told only nearly. The model's parts that cannot be told are said by the second.
void megatron_tells(struct export *export);
void megatron_say_model(struct export *export);

// In front of the array of arguments: what the environment has to be.
void megatron_write_environment(struct export *export);

// Both write nothing where nothing is known.
void megatron_write_how(struct export *export);
void megatron_write_model(struct export *export);

#endif
