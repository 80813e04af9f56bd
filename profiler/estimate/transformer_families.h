// The families of Hugging Face's models: what the config.json of each states, and what it leaves out. For
// transformer.c.
#ifndef PROFILER_ESTIMATE_TRANSFORMER_FAMILIES_H
#define PROFILER_ESTIMATE_TRANSFORMER_FAMILIES_H

#include "common/json.h"
#include "profiler/estimate/transformer.h"

// Reads the family into a zeroed model. A missing field or an unknown family is an error of the document, like other
// errors of its reader. Adds to `notes`, unless it is NULL, what transformer_load_noting() says.
void transformer_read_family(struct json *root, struct transformer *model, struct text *notes);

#endif
