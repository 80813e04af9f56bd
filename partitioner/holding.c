#include "partitioner/holding.h"

#include <stddef.h>

const char *const optimizer_names[] = { "sgd", "momentum", "adamw", NULL };
