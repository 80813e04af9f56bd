// Output files of a program: a file is written completely or not at all.
//
//     plan.json         a new file, as the umask has it, or in the place of the old one with the same permissions
//     link              the file that it points to; refused where that is not there
//     /dev/null, pipe   written to
//     -, /dev/stdout, /dev/fd/3    written to as they stand open
//
// A file is made under a temporary name in the target's folder, synced, and renamed. A reader never sees a part of
// it. If anything goes wrong, such as a full disk or a signal, the old file is unchanged and nothing is left beside
// it.
//
// There is one exception. A program may be killed, or ended by a signal to another thread, while the new file has
// its temporary name. It then leaves a file with the name `.weir-` and 16 digits. This period is longer than a
// rename only if the file system has no files without a name.
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

bool output_save(const char *path, const char *bytes, size_t length, struct error *error);

// The same for bytes in several places, one part after the other.
struct output_part {
    const void *at;
    size_t length;
};
bool output_save_parts(const char *path, const struct output_part *parts, size_t count, struct error *error);

// The same in a folder of the program's own, for a name that no user has chosen. Anything with that name is
// replaced, and a link is not followed.
bool output_replace(const char *path, const struct output_part *parts, size_t count, struct error *error);

#endif
