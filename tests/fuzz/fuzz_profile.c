// Whatever the bytes, reading a profile ends in a profile or one sentence; and a
// profile that was read is written, read again and has the same hash.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/lint.h"
#include "profiler/profile.h"
#include "profiler/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_profile(const struct profile *profile)
{
    struct error error = { 0 };
    struct text text = { 0 }, words = { 0 };
    profile_write(profile, &text);
    struct profile *again = profile_read(text.data, text.length, "again", &error);
    if (!again || strcmp(again->hash, profile->hash) != 0)
        abort();
    profile_lint(profile, "fuzz", &words);
    profile_print(profile, &words);
    text_clear(&words);
    text_clear(&text);
    profile_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct profile *profile = profile_read((const char *)data, size, "fuzz", &error);
    if ((profile != NULL) == (error.kind != ERROR_NONE))
        abort();
    if (profile)
        try_profile(profile);
    profile_free(profile);
    return 0;
}
