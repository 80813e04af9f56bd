// Whatever the bytes, importing a PipeDream graph ends in a profile or in one
// sentence with the file in front; and the profile can be written and read.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct profile *profile = import_pipedream_text((const char *)data, size, "fuzz.txt", 1, &error);
    if ((profile != NULL) == (error.kind != ERROR_NONE))
        abort();
    if (!profile && error.kind == ERROR_INPUT && strncmp(error.text, "fuzz.txt:", 9) != 0)
        abort();
    if (profile) {
        struct text text = { 0 };
        profile_write(profile, &text);
        struct profile *again = profile_read(text.data, text.length, "again", &error);
        if (!again || strcmp(again->hash, profile->hash) != 0)
            abort();
        profile_free(again);
        text_clear(&text);
    }
    profile_free(profile);
    return 0;
}
