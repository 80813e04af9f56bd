// What must hold of an import of planner inputs, whatever the bytes: it ends in a profile and its
// machine, or in one sentence with the file in front; and both can be written and read.
#ifndef TESTS_FUZZ_FUZZ_IMPORTED_H
#define TESTS_FUZZ_FUZZ_IMPORTED_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/import.h"

static inline void check_profile(const struct profile *profile)
{
    struct error error = { 0 };
    struct text text = { 0 };
    profile_write(profile, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    if (!again || strcmp(again->hash, profile->hash) != 0)
        abort();
    profile_free(again);
    text_clear(&text);
}

static inline void check_cluster(const struct cluster *cluster)
{
    struct error error = { 0 };
    struct text text = { 0 };
    cluster_write(cluster, &text);
    struct cluster *again = cluster_read(text.data, text.length, "again", &error);
    if (!again || again->device_count != cluster->device_count)
        abort();
    cluster_free(again);
    text_clear(&text);
}

typedef struct profile *import_text(const char *text, size_t length, const char *name, uint64_t micro_batch,
                                    struct cluster **cluster, struct error *error);

static inline int check_import(import_text *import, const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct cluster *cluster = NULL;
    struct profile *profile = import((const char *)data, size, "fuzz.json", 1, &cluster, &error);
    if ((profile != NULL) == (error.kind != ERROR_NONE) || (profile != NULL) != (cluster != NULL))
        abort();
    if (!profile && error.kind == ERROR_INPUT && strncmp(error.text, "fuzz.json:", 10) != 0)
        abort();
    if (profile) {
        check_profile(profile);
        check_cluster(cluster);
    }
    profile_free(profile);
    cluster_free(cluster);
    return 0;
}

#endif
