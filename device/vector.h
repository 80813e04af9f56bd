// Private: float vectors as wide as the instruction set that this file is compiled for.
//
// A `vec` holds LANES floats, an `ivec` as many 32-bit integers. Arithmetic is written with plain operators (a vector
// extension of gcc and clang); this file adds what those lack. A comparison gives all ones or all zeros per lane.
// Every operation rounds as IEEE says, so that a loop's result depends on its order only. NaN passes through all of
// them.
#ifndef DEVICE_VECTOR_H
#define DEVICE_VECTOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES ((size_t)VECTOR_BYTES / 4)
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define HAS_FMA
#endif
#define INLINE static inline __attribute__((always_inline, unused))

typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t uvec __attribute__((vector_size(VECTOR_BYTES)));
typedef float vec_anywhere __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));

// Half as many lanes, each twice as wide: for sums in double.
typedef float half_vec_anywhere __attribute__((vector_size(VECTOR_BYTES / 2), aligned(4), may_alias));
typedef double dvec __attribute__((vector_size(VECTOR_BYTES)));

INLINE vec vec_all(float x)
{
    return x - (vec){ 0 };
}

INLINE vec vec_load(const float *from)
{
    return *(const vec_anywhere *)from;
}

INLINE void vec_store(float *to, vec x)
{
    *(vec_anywhere *)to = x;
}

// Loads the first `count` lanes, at most LANES; the other lanes are `rest`.
INLINE vec vec_load_first(const float *from, size_t count, float rest)
{
    if (count >= LANES)
        return vec_load(from);
#if defined(__AVX512F__)
    return (vec)_mm512_mask_loadu_ps((__m512)vec_all(rest), (__mmask16)((1u << count) - 1), from);
#else
    vec x = vec_all(rest);
    memcpy(&x, from, count * sizeof(float));
    return x;
#endif
}

INLINE void vec_store_first(float *to, vec x, size_t count)
{
    if (count >= LANES)
        vec_store(to, x);
    else
#if defined(__AVX512F__)
        _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)x);
#else
        memcpy(to, &x, count * sizeof(float));
#endif
}

INLINE vec vec_select(ivec where, vec a, vec b)
{
    return (vec)((where & (ivec)a) | (~where & (ivec)b));
}

// The larger or smaller one; `b` if either is a NaN.
INLINE vec vec_max(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return vec_select(a > b, a, b);
#endif
}

INLINE vec vec_min(vec a, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return vec_select(a < b, a, b);
#endif
}

INLINE vec vec_sqrt(vec x)
{
#if defined(__AVX512F__)
    return (vec)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vec)_mm256_sqrt_ps((__m256)x);
#elif defined(__SSE2__)
    return (vec)_mm_sqrt_ps((__m128)x);
#else
    for (size_t i = 0; i < LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
#endif
}

// a * x + b, rounded once; rounded twice if the processor has no FMA. Written out if the bits must equal those of
// another kernel: in x * y + z * w the compiler would choose which product it rounds.
INLINE float float_fma(float a, float x, float b)
{
#if defined(HAS_FMA)
    return fmaf(a, x, b);
#else
    return a * x + b;
#endif
}

INLINE vec vec_fma(float a, vec x, vec b)
{
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)vec_all(a), (__m512)x, (__m512)b);
#elif defined(__AVX2__) && defined(HAS_FMA)
    return (vec)_mm256_fmadd_ps((__m256)vec_all(a), (__m256)x, (__m256)b);
#elif defined(HAS_FMA)
    for (size_t i = 0; i < LANES; i++)
        x[i] = fmaf(a, x[i], b[i]);
    return x;
#else
    return a * x + b;
#endif
}

// a * b, which no compiler fuses with an addition behind it. So all instruction sets round alike.
INLINE vec vec_product(vec a, vec b)
{
    vec product = a * b;
#if defined(__x86_64__)
    __asm__("" : "+v"(product));
#elif defined(__aarch64__)
    __asm__("" : "+w"(product));
#else
    volatile vec rounded = product;
    product = rounded;
#endif
    return product;
}

// To the nearest integer; |x| < 2^31.
INLINE ivec vec_nearest(vec x)
{
#if defined(__AVX512F__)
    return (ivec)_mm512_cvtps_epi32((__m512)x);
#elif defined(__AVX2__)
    return (ivec)_mm256_cvtps_epi32((__m256)x);
#elif defined(__SSE2__)
    return (ivec)_mm_cvtps_epi32((__m128)x);
#else
    ivec n;
    for (size_t i = 0; i < LANES; i++)
        n[i] = x[i] == x[i] ? (int32_t)lrintf(x[i]) : 0;
    return n;
#endif
}

INLINE vec vec_of_integers(ivec n)
{
    return __builtin_convertvector(n, vec);
}

// The same lanes in double.
struct wide_vec {
    dvec low, high;
};

INLINE struct wide_vec vec_widen(vec x)
{
#if defined(__AVX512F__)
    return (struct wide_vec){ (dvec)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)),
                              (dvec)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)) };
#elif defined(__AVX2__)
    return (struct wide_vec){ (dvec)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)),
                              (dvec)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)) };
#elif defined(__SSE2__)
    return (struct wide_vec){ (dvec)_mm_cvtps_pd((__m128)x),
                              (dvec)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x)) };
#else
    float lane[LANES];
    vec_store(lane, x);
    return (struct wide_vec){ __builtin_convertvector(*(const half_vec_anywhere *)lane, dvec),
                              __builtin_convertvector(*(const half_vec_anywhere *)(lane + LANES / 2), dvec) };
#endif
}

INLINE vec vec_narrow(struct wide_vec x)
{
    float lane[LANES];
    for (size_t i = 0; i < LANES / 2; i++) {
        lane[i] = (float)x.low[i];
        lane[i + LANES / 2] = (float)x.high[i];
    }
    return vec_load(lane);
}

// 0, 1, 2, ..
INLINE uvec vec_count_up(void)
{
    uvec x;
    for (uint32_t i = 0; i < LANES; i++)
        x[i] = i;
    return x;
}

// A bit for each lane, the lowest for the first: whether the lane's is set. And x where the bits are, 0 elsewhere.
INLINE uint32_t vec_bits(ivec where)
{
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)where);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)where);
#elif defined(__SSE2__)
    return (uint32_t)_mm_movemask_ps((__m128)where);
#else
    uint32_t bits = 0;
    for (size_t i = 0; i < LANES; i++)
        bits |= (uint32_t)(where[i] != 0) << i;
    return bits;
#endif
}

INLINE vec vec_where_bits(uint32_t bits, vec x)
{
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
#else
    const uvec bit = ((vec_count_up() & 0u) + 1u) << vec_count_up();
    return (vec)((ivec)((bit & bits) != 0) & (ivec)x);
#endif
}

#if defined(__AVX2__)
typedef uint64_t lane_bytes;  // a byte for each lane, unless there are masks for that
#else
typedef uint32_t lane_bytes;
#endif

// Integers from 0 to 255, of which `count` lanes at most are in memory, as a byte each. Other lanes are loaded as 0.
INLINE ivec vec_load_bytes(const uint8_t *from, size_t count)
{
#if defined(__AVX512F__)
    const __mmask16 lanes = (__mmask16)(count >= LANES ? 0xffff : (1u << count) - 1);
    return (ivec)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, from));
#else
    lane_bytes bytes = 0;
    if (count >= LANES)
        memcpy(&bytes, from, LANES);
    else
        memcpy(&bytes, from, count);
#if defined(__AVX2__)
    return (ivec)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)bytes));
#elif defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128(), words = _mm_unpacklo_epi8(_mm_cvtsi32_si128((int32_t)bytes), zero);
    return (ivec)_mm_unpacklo_epi16(words, zero);
#else
    ivec x;
    for (size_t i = 0; i < LANES; i++)
        x[i] = ((const uint8_t *)&bytes)[i];
    return x;
#endif
#endif
}

INLINE void vec_store_bytes(uint8_t *to, ivec x, size_t count)
{
#if defined(__AVX512F__)
    const __mmask16 lanes = (__mmask16)(count >= LANES ? 0xffff : (1u << count) - 1);
    _mm_mask_storeu_epi8(to, lanes, _mm512_cvtepi32_epi8((__m512i)x));
#else
#if defined(__AVX2__)
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
    const lane_bytes bytes = (lane_bytes)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));
#elif defined(__SSE2__)
    const __m128i words = _mm_packs_epi32((__m128i)x, (__m128i)x);
    const lane_bytes bytes = (lane_bytes)_mm_cvtsi128_si32(_mm_packus_epi16(words, words));
#else
    uint8_t bytes[LANES];
    for (size_t i = 0; i < LANES; i++)
        bytes[i] = (uint8_t)x[i];
#endif
    if (count >= LANES)
        memcpy(to, &bytes, LANES);
    else
        memcpy(to, &bytes, count);
#endif
}

// Halves are added to halves, so the order is fixed.
INLINE float vec_sum(vec x)
{
    float lane[LANES];
    memcpy(lane, &x, sizeof lane);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

INLINE float vec_largest(vec x)
{
    float lane[LANES];
    memcpy(lane, &x, sizeof lane);
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
    return lane[0];
}

// e^x within 2 units in the last place. With x = n ln 2 + r and |r| <= ln 2 / 2, its series to r^7 gives e^r (the next
// term is below 6e-9). The factor 2^n is applied in two parts, so that neither end of the range overflows on the way.
// Past the clamp e^x is infinite, or 0.
INLINE vec vec_exp(vec x)
{
    x = vec_min(vec_all(89.0f), vec_max(vec_all(-104.0f), x));
    const ivec n = vec_nearest(x * 1.44269504f);
    const vec whole = vec_of_integers(n);
    // ln 2 in two parts, the first with so few bits that its product with n is exact.
    const vec r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    vec y = r * 1.98412698e-4f + 1.38888889e-3f;
    y = y * r + 8.33333333e-3f;
    y = y * r + 4.16666667e-2f;
    y = y * r + 1.66666667e-1f;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
#if defined(__AVX512F__)
    return (vec)_mm512_scalef_ps((__m512)y, (__m512)whole);
#else
    const ivec low = n >> 1, high = n - low;
    return y * (vec)((low + 127) << 23) * (vec)((high + 127) << 23);
#endif
}

#endif
