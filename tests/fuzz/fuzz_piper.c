// Inputs of Piper, of any bytes.
#include "tests/fuzz/fuzz_imported.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return check_import(import_piper_text, data, size);
}
