// Numbers of 16 bits, IEEE's, in the words of CUDA's header of this name.
#ifndef TESTS_CUDA_FP16_H
#define TESTS_CUDA_FP16_H

#include "device/half.h"

struct __half {
    uint16_t bits;
};

struct __half2 {
    __half x, y;
};

static inline float __half2float(__half from)
{
    return half_widen_fp16(from.bits);
}

// To the nearest, ties to the even one; every NaN becomes 0x7fff, as on the GPU.
static inline __half __float2half_rn(float x)
{
    if (x != x)
        return { 0x7fff };
    return { half_round_fp16(x) };
}

static inline __half2 __floats2half2_rn(float x, float y)
{
    return { __float2half_rn(x), __float2half_rn(y) };
}

static inline unsigned short __half_as_ushort(__half x)
{
    return x.bits;
}

static inline __half __ushort_as_half(unsigned short bits)
{
    return { bits };
}

#endif
