// What the parts of Megatron-LM's arguments have in common. megatron.c has the pipeline, megatron_how.c how layers
// are computed and sharded, and megatron_model.c the model.
#ifndef EXPORTS_MEGATRON_H
#define EXPORTS_MEGATRON_H

#include "exports/words.h"

// Whether whole layers are recomputed, which excludes the recomputation of parts of layers.
static inline bool megatron_runs_layers_again(const struct export *export)
{
    return export->again.kind == AGAIN_FIRST || export->again.kind == AGAIN_GROUPS;
}

// Writes an argument, and one with a number.
static inline void put(struct export *export, const char *argument)
{
    text_add(export->text, "    %s\n", argument);
}

static inline void put_number(struct export *export, const char *argument, uint64_t number)
{
    text_add(export->text, "    %s %llu\n", argument, (unsigned long long)number);
}

// megatron_tells() marks what is expressed, and says what is expressed only approximately. megatron_say_model() says
// which parts of the model cannot be expressed.
void megatron_tells(struct export *export);
void megatron_say_model(struct export *export);

// Writes, in front of the array of arguments, what the environment has to be.
void megatron_write_environment(struct export *export);

// Write arguments for how layers are computed, and for the model. Both write nothing if nothing is known.
void megatron_write_how(struct export *export);
void megatron_write_model(struct export *export);

#endif
