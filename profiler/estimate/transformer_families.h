// The families of Hugging Face's models: what the config.json of each says, and what it leaves unsaid. For transformer.c.
#ifndef PROFILER_ESTIMATE_TRANSFORMER_FAMILIES_H
#define PROFILER_ESTIMATE_TRANSFORMER_FAMILIES_H

#include "common/json.h"
#include "profiler/estimate/transformer.h"

// Into a zeroed one; refuses, as the reader of the document does, what is missing and a family that is not known.
void transformer_read_family(struct json *root, struct transformer *model);

#endif
