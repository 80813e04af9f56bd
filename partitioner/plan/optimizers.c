#include "partitioner/plan/optimizers.h"

#include <stddef.h>

#define OPTIMIZER_ROW(kind, name, ...) [OPTIMIZER_##kind] = { __VA_ARGS__ },
const struct optimizer_row optimizer_rows[] = { OPTIMIZERS(OPTIMIZER_ROW) };

#define OPTIMIZER_NAME(kind, name, ...) [OPTIMIZER_##kind] = name,
const char *const optimizer_names[] = { OPTIMIZERS(OPTIMIZER_NAME) NULL };
