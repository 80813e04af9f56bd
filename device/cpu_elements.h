// Private: the elements of values, as kernels load and store them. The including file is compiled for one precision:
//
//     nothing defined    float
//     CPU_BF16           bfloat16
//     CPU_FP16           IEEE's binary16
//
// Loads widen to float, which is exact. Stores round to nearest, ties to even (half.h).
#ifndef DEVICE_CPU_ELEMENTS_H
#define DEVICE_CPU_ELEMENTS_H

#include "device/cpu.h"
#include "device/half.h"
#include "device/vector.h"

#if defined(CPU_BF16) || defined(CPU_FP16)

typedef uint16_t element;
typedef uint16_t short_vec __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef uint16_t short_vec_anywhere __attribute__((vector_size(VECTOR_BYTES / 2), aligned(2), may_alias));

#if defined(CPU_BF16)

INLINE float element_widen(element x)
{
    return half_widen_bf16(x);
}

INLINE element element_round(float x)
{
    return half_round_bf16(x);
}

INLINE vec elements_widen(short_vec x)
{
    return (vec)(__builtin_convertvector(x, uvec) << 16);
}

// The rounded elements, in the lower half of each lane.
INLINE uvec elements_bits(vec x)
{
    const uvec bits = (uvec)x, nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uvec)vec_select(x == x, (vec)nearest, (vec)quiet);
}

INLINE short_vec elements_round(vec x)
{
    return __builtin_convertvector(elements_bits(x), short_vec);
}

#else

INLINE float element_widen(element x)
{
    return half_widen_fp16(x);
}

INLINE element element_round(float x)
{
    return half_round_fp16(x);
}

INLINE vec elements_widen(short_vec x)
{
#if defined(__AVX512F__)
    return (vec)_mm512_cvtph_ps((__m256i)x);
#else
    vec y;
    for (size_t i = 0; i < LANES; i++)
        y[i] = half_widen_fp16(x[i]);
    return y;
#endif
}

INLINE short_vec elements_round(vec x)
{
#if defined(__AVX512F__)
    return (short_vec)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#else
    short_vec y;
    for (size_t i = 0; i < LANES; i++)
        y[i] = half_round_fp16(x[i]);
    return y;
#endif
}

#endif

// Loads the first `count` lanes, at most LANES; the other lanes are `rest`.
INLINE vec load_first(const element *from, size_t count, float rest)
{
    if (count >= LANES)
        return elements_widen(*(const short_vec_anywhere *)from);
#if defined(__AVX512F__)
    const __mmask16 lanes = (__mmask16)((1u << count) - 1);
    const vec x = elements_widen((short_vec)_mm256_maskz_loadu_epi16(lanes, from));
    return (vec)_mm512_mask_mov_ps((__m512)vec_all(rest), lanes, (__m512)x);
#else
    short_vec some = { 0 };
    memcpy(&some, from, count * sizeof(element));
    const vec widened = elements_widen(some);
    vec x = vec_all(rest);
    memcpy(&x, &widened, count * sizeof(float));
    return x;
#endif
}

INLINE void store_first(element *to, vec x, size_t count)
{
    const short_vec rounded = elements_round(x);
    if (count >= LANES)
        *(short_vec_anywhere *)to = rounded;
    else
#if defined(__AVX512F__)
        _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), (__m256i)rounded);
#else
        memcpy(to, &rounded, count * sizeof(element));
#endif
}

#else

typedef float element;

INLINE float element_widen(element x)
{
    return x;
}

INLINE element element_round(float x)
{
    return x;
}

INLINE vec load_first(const element *from, size_t count, float rest)
{
    return vec_load_first(from, count, rest);
}

INLINE void store_first(element *to, vec x, size_t count)
{
    vec_store_first(to, x, count);
}

#endif

static inline element *elements(struct values *values)
{
    return (element *)values;
}

static inline const element *elements_of(const struct values *values)
{
    return (const element *)values;
}

#endif
