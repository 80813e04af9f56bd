// bfloat16 in the words of CUDA's header of this name.
#ifndef TESTS_CUDA_BF16_H
#define TESTS_CUDA_BF16_H

#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 from)
{
    const uint32_t bits = (uint32_t)from.bits << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// To the nearest, ties to the even one; every NaN becomes 0x7fff, as on the GPU.
static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return { 0x7fff };
    return { (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) };
}

static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return { __float2bfloat16_rn(x), __float2bfloat16_rn(y) };
}

static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x)
{
    return x.bits;
}

#endif
