// Whatever the bytes, reading a checkpoint's manifest ends in one, which is written as it was read, or in one sentence.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/checkpoint/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct manifest *manifest = manifest_read((const char *)data, size, "fuzz", &error);
    check((manifest != NULL) == (error.kind == ERROR_NONE));
    if (manifest) {
        struct text text = { 0 };
        manifest_write(manifest, &text);
        struct manifest *again = manifest_read(text.data, text.length, "again", &error);
        check(again != NULL);
        manifest_free(again);
        text_clear(&text);
    }
    manifest_free(manifest);
    return 0;
}
