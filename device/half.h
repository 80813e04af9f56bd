// Conversion of 16-bit numbers, of either kind, to and from floats. A number that cannot be represented is rounded to
// the nearest, ties to even. A number beyond the largest becomes infinite.
//
//                sign  exponent  rest     largest      least      a step at 1
//     bf16         1       8       7      3.39e38     9.2e-41        2^-7       the upper half of a float
//     fp16         1       5      10        65504     6.0e-8         2^-10      IEEE's binary16
//
// Below 2^-14 the steps of fp16 are 2^-24 throughout.
#ifndef DEVICE_HALF_H
#define DEVICE_HALF_H

#include <string.h>

#include "device/device.h"

static inline float half_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t half_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_widen_fp16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, rest = half & 0x3ff;
    if (exponent == 0) {
        const float size = (float)rest * 0x1p-24f;
        return sign ? -size : size;
    }
    return half_float_of_bits(sign | (exponent == 0x1f ? 0xff : exponent + 127 - 15) << 23 | rest << 13);
}

static inline uint16_t half_round_fp16(float x)
{
    const uint32_t bits = half_bits_of_float(x), size = bits & 0x7fffffff;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (size > 0x7f800000)  // a NaN stays one even if only its low bits say so
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x477ff000)  // 65520, half a step beyond the largest
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000)  // 2^-14: a float from 0.5 on has steps of 2^-24 as well, and adding rounds to them
        return (uint16_t)(sign | (half_bits_of_float(half_float_of_bits(size) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | (size - ((127 - 15) << 23) + 0xfff + (size >> 13 & 1)) >> 13);
}

static inline float half_widen_bf16(uint16_t half)
{
    return half_float_of_bits((uint32_t)half << 16);
}

static inline uint16_t half_round_bf16(float x)
{
    const uint32_t bits = half_bits_of_float(x);
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float half_widen(enum precision precision, uint16_t half)
{
    return precision == PRECISION_FP16 ? half_widen_fp16(half) : half_widen_bf16(half);
}

static inline uint16_t half_round(enum precision precision, float x)
{
    return precision == PRECISION_FP16 ? half_round_fp16(x) : half_round_bf16(x);
}

// Number i of an array of the given precision in host memory.
static inline float number_of(const void *numbers, enum precision precision, size_t i)
{
    float x;
    uint16_t half;
    if (precision == PRECISION_FP32) {
        memcpy(&x, (const char *)numbers + i * sizeof x, sizeof x);
        return x;
    }
    memcpy(&half, (const char *)numbers + i * sizeof half, sizeof half);
    return half_widen(precision, half);
}

#endif
