// Whatever the bytes, reading the header of a safetensors file ends in tensors that lie one behind the other in the
// data, or in one sentence.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void look_at(const struct safe_header *header, uint64_t data_bytes)
{
    uint64_t end = 0, bytes;
    for (size_t i = 0; i < header->count; i++) {
        const struct safe_tensor *tensor = &header->tensors[i];
        check(tensor->first == end && tensor->end >= end && tensor->dimensions <= SAFE_DIMENSIONS);
        check(safe_tensor_bytes(tensor, &bytes) && bytes == tensor->end - tensor->first
              && strlen(tensor->name) < SIZE_MAX);
        end = tensor->end;
    }
    check(end == data_bytes);
    for (size_t i = 0; i < header->note_count; i++)
        check(safe_header_note(header, header->notes[i].key) != NULL);
}

// The first byte says how many bytes of data there are, in fours.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct safe_header header;
    if (size == 0)
        return 0;
    const uint64_t data_bytes = 4 * (uint64_t)data[0];
    const bool good = safe_header_read((const char *)data + 1, size - 1, data_bytes, "fuzz", &header, &error);
    check(good == (error.kind == ERROR_NONE));
    if (good)
        look_at(&header, data_bytes);
    safe_header_clear(&header);
    return 0;
}
