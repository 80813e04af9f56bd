// A model by name, with any of its sizes chosen: "gpt-nano", or "gpt-nano,width=64,blocks=2,micro_batch=8". Profiles
// and plans name their model like this, so that a run of the plan builds exactly the same model.
#ifndef TRAINER_MODEL_SPEC_H
#define TRAINER_MODEL_SPEC_H

#include "models/model.h"
#include "partitioner/plan/plan.h"

// Builds the model that a spec names. Its sizes are
//
//     micro_batch, sequence, width, blocks, heads   whole numbers
//     window, global                                whole numbers: which tokens a token of a GPT sees
//     stride                                        likewise, as 64/8
//     experts, top, router, capacity, aux, z, ..    of a GPT with experts (docs/experts.md)
//     dropout                                       a fraction below 1
//     tied, untied                                  whether the head's words are the embedding's (tied parameters)
//     padded                                        room for a multiple of 128 words
//
// `precision` is that of the device it will run on. Returns NULL with `error` if the spec is wrong. Freed by
// model_free().
struct model *model_from_spec(const char *spec, enum precision precision, struct error *error);

// The spec of a model that was named on a command line, where an option may ask for padding. Freed by free(); NULL
// with `error` if there is no memory.
char *model_spec_named(const char *name, bool padded, struct error *error);

// The precision in which a plan's model computes on these devices (their names; NULL: the usual ones). The plan's
// optimizer decides whether that is a 16-bit type; if it is, the devices decide between bf16 and fp16.
enum precision plan_precision(const struct plan *plan, const char *devices);

#endif
