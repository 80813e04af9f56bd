// What a program leaves: a file that is written whole or not at all.
//
//     plan.json         a new file, as the umask has it, or in the place of the old one with the same permissions
//     link              the file that it points to; refused where that is not there
//     /dev/null, pipe   written to
//     -, /dev/stdout, /dev/fd/3    written to as they stand open
//
// A file is made aside in the target's folder, synced, and renamed: a reader never sees half of it, and whatever
// goes wrong, a full disk or a signal, the old file is untouched and nothing is left beside it. (A program that is
// killed, or ended by a signal to another thread, while a file has its name aside leaves `.weir-` and 16 digits. Only
// where a file system has no files without a name does that take longer than a rename.)
#ifndef COMMON_OUTPUT_H
#define COMMON_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

bool output_save(const char *path, const char *bytes, size_t length, struct error *error);

// The same of bytes that lie in several places, one part after the other.
struct output_part {
    const void *at;
    size_t length;
};
bool output_save_parts(const char *path, const struct output_part *parts, size_t count, struct error *error);

// The same in a folder of the program's own, for a name that nobody has chosen: whatever has it is replaced, and a link
// is not followed.
bool output_replace(const char *path, const struct output_part *parts, size_t count, struct error *error);

#endif
