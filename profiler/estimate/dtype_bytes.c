#include <string.h>

#include "profiler/profile.h"

uint32_t profile_dtype_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {
        { "fp64", 8 }, { "float64", 8 }, { "fp32", 4 },    { "float32", 4 },  { "tf32", 4 }, { "fp16", 2 },
        { "bf16", 2 }, { "float16", 2 }, { "bfloat16", 2 }, { "half", 2 },    { "fp8", 1 },
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, dtype) == 0)
            return types[i].bytes;
    return 0;
}
