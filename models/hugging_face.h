// A GPT in the form of the library transformers (GPT2LMHeadModel): its names of the tensors, and its config.json.
// Both libraries store tensors alike, matrices as [inputs, outputs], so only names have to be changed.
#ifndef MODELS_HUGGING_FACE_H
#define MODELS_HUGGING_FACE_H

#include "common/text.h"
#include "models/model.h"

// Whether transformers has such a model: a GPT whose head is tied to the embedding. Its attention has no pattern, since
// the config.json of a GPT-2 could not tell it.
bool hugging_face_has(const struct model *model);

enum { HUGGING_FACE_NAME = 64 };

// The name of a tensor of such a model: "transformer.h.3.attn.c_attn.weight".
void hugging_face_name(const struct layer *layer, const struct tensor *tensor, char name[HUGGING_FACE_NAME]);

// Writes the model's config.json, with the precision of its weights.
void hugging_face_config(const struct model *model, struct text *text);

#endif
