#include "common/path.h"

#include <stdio.h>
#include <string.h>

bool path_join(const char *folder, const char *name, char path[PATH_MAX], struct error *error)
{
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX
        || error_named(error, "%.200s: the path is too long", folder);
}

bool path_ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path), tail = strlen(end);
    return length >= tail && strcmp(path + length - tail, end) == 0;
}
