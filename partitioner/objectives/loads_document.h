// A model's answer as a document of its own (docs/formats/loads.md). It can say what a plan cannot: stages on the
// host's processors, layers that run in several ways beside each other, and groups of devices.
#ifndef PARTITIONER_OBJECTIVES_LOADS_DOCUMENT_H
#define PARTITIONER_OBJECTIVES_LOADS_DOCUMENT_H

#include "partitioner/objectives/bottleneck.h"

void loads_write(const struct bottleneck_request *request, const struct bottleneck_result *result, struct text *text);

// The stages of a loads document, of a plan, or of a plan made by hand (handmade.h), to be priced by
// bottleneck_value(). Layers are found by name. If the request says no micro-batches, it takes those of the
// document. Freed by bottleneck_free().
struct bottleneck_result *loads_load(struct bottleneck_request *request, const char *path, struct error *error);
struct bottleneck_result *loads_read(struct bottleneck_request *request, const char *text, size_t length,
                                     const char *name, struct error *error);

#endif
