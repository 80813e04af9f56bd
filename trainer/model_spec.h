// A model by name, with any of its sizes chosen: "gpt-nano", or
// "gpt-nano,width=64,blocks=2,micro_batch=8". What a profile and a plan call
// their model, so that whoever runs the plan builds the very same one.
#ifndef TRAINER_MODEL_SPEC_H
#define TRAINER_MODEL_SPEC_H

#include "models/model.h"
#include "partitioner/plan/plan.h"

// Sizes: micro_batch, sequence, width, blocks, heads (whole numbers) and dropout
// (a fraction below 1); "tied" or "untied": whether the head's words are the
// embedding's; and "padded": room for a multiple of 128 words. The precision is that of
// the device that it is to run on. NULL with what is wrong; freed by model_free().
struct model *model_from_spec(const char *spec, enum precision precision, struct error *error);

// The spec of a model that was named on a command line, where an option may ask for it
// to be padded; freed by free().
char *model_spec_named(const char *name, bool padded, struct error *error);

// What the model of a plan computes in on the devices that are named (NULL: the usual): the plan's optimizer says whether
// in 16 bits, and the devices whether those are fp16, and not bf16.
enum precision plan_precision(const struct plan *plan, const char *devices);

#endif
