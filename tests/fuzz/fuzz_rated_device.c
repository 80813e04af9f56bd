// Whatever the bytes, a device's document ends in a device or in one sentence; what was read is written and read again
// alike.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/estimate/rated_device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct rated_device device, again;
    const bool good = rated_device_read((const char *)data, size, "fuzz", &device, &error);
    if (good != (error.kind == ERROR_NONE))
        abort();
    if (!good)
        return 0;
    struct text once = { 0 }, twice = { 0 };
    rated_device_write(&device, &once);
    if (!rated_device_read(once.data, once.length, "again", &again, &error))
        abort();
    rated_device_write(&again, &twice);
    if (strcmp(once.data, twice.data) != 0)
        abort();
    text_clear(&once);
    text_clear(&twice);
    return 0;
}
