// Numbers as a GPU keeps them, read and written one by one.
#ifndef TESTS_PLAYED_NUMBERS_H
#define TESTS_PLAYED_NUMBERS_H

#include <library_types.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "device/half.h"

static inline size_t played_size(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static inline enum precision played_precision(cudaDataType_t type)
{
    return type == CUDA_R_16BF ? PRECISION_BF16 : type == CUDA_R_16F ? PRECISION_FP16 : PRECISION_FP32;
}

static inline float played_read(const void *numbers, size_t i, cudaDataType_t type)
{
    if (type == CUDA_R_32F)
        return ((const float *)numbers)[i];
    return half_widen(played_precision(type), ((const uint16_t *)numbers)[i]);
}

static inline void played_write(void *numbers, size_t i, cudaDataType_t type, float x)
{
    if (type == CUDA_R_32F)
        ((float *)numbers)[i] = x;
    else
        ((uint16_t *)numbers)[i] = half_round(played_precision(type), x);
}

static inline float played_round(cudaDataType_t type, float x)
{
    return type == CUDA_R_32F ? x : half_widen(played_precision(type), half_round(played_precision(type), x));
}

// As matrix units read a float: 10 bits of the fraction are left.
static inline float played_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
        bits = (bits + 0xfff + (bits >> 13 & 1)) & ~(uint32_t)0x1fff;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
