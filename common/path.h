// Paths of files.
#ifndef COMMON_PATH_H
#define COMMON_PATH_H

#include <limits.h>
#include <stdbool.h>

#include "common/error.h"

// Writes FOLDER/NAME to `path`. Returns false, with the error set, if that is too long.
bool path_join(const char *folder, const char *name, char path[PATH_MAX], struct error *error);

// Whether a path has this ending: "a.json" and ".json".
bool path_ends_with(const char *path, const char *end);

#endif
