// Names of files.
#ifndef COMMON_PATH_H
#define COMMON_PATH_H

#include <limits.h>
#include <stdbool.h>

#include "common/error.h"

// FOLDER/NAME.
bool path_join(const char *folder, const char *name, char path[PATH_MAX], struct error *error);

// Whether it ends so: "a.json" with ".json".
bool path_ends_with(const char *path, const char *end);

#endif
