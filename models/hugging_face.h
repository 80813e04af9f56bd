// A GPT as the library transformers has it (GPT2LMHeadModel): what it calls the tensors, and how it is told their sizes.
// Both lay them out alike, matrices as [inputs, outputs], so that names are all there is to change.
#ifndef MODELS_HUGGING_FACE_H
#define MODELS_HUGGING_FACE_H

#include "common/text.h"
#include "models/model.h"

// Whether transformers has such a model: a GPT whose head has the embedding's words.
bool hugging_face_has(const struct model *model);

enum { HUGGING_FACE_NAME = 64 };

// Of a tensor of such a model: "transformer.h.3.attn.c_attn.weight".
void hugging_face_name(const struct layer *layer, const struct tensor *tensor, char name[HUGGING_FACE_NAME]);

// config.json of the model, in the precision of its weights.
void hugging_face_config(const struct model *model, struct text *text);

#endif
