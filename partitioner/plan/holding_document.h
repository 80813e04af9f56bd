// The holding as a part of documents: "optimizer" and, where it is not plain, "holding".
#ifndef PARTITIONER_PLAN_HOLDING_DOCUMENT_H
#define PARTITIONER_PLAN_HOLDING_DOCUMENT_H

#include "common/json.h"
#include "partitioner/plan/holding.h"

// Whether documents could always say it: one of the first three optimizers, and plain.
bool holding_is_old(const struct holding *holding);

void holding_write(const struct holding *holding, struct json_writer *writer);

// From an object of a document of this version, which can say all since `since`.
void holding_read(struct json *object, unsigned version, unsigned since, struct holding *holding);

#endif
