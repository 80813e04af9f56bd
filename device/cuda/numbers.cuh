// Private: what every kernel is written with: numbers of each precision, several
// at a time, and the launch.
//
//     address:   0       16      32      48      64
//                | . . x x|x x x x|x x x x|x x . .|       x: the numbers of a span
//                   head    packs of 16 bytes   rest      head and rest go one by one
//
// The arithmetic whose bits are promised, or must agree between two kernels, is
// spelled with __fmul_rn, __fadd_rn and __fmaf_rn: the compiler may fuse any other.
//
// These files are compiled twice: by nvcc, and by a C++ compiler for the tests,
// where tests/device/cuda_on_cpu/ plays the GPU and brings its own CUDA headers.
#ifndef DEVICE_CUDA_NUMBERS_CUH
#define DEVICE_CUDA_NUMBERS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda/launch.h"

// Memory of a block: SHARED(float, sums, [32]), and DYNAMIC_SHARED(tiles), whose
// size the launch says. Whoever plays the GPU brings its own.
#ifndef SHARED
#define SHARED(type, name, dimensions) __shared__ type name dimensions
#define DYNAMIC_SHARED(name)                       \
    extern __shared__ float4 dynamic_shared[];     \
    float *const name = (float *)dynamic_shared
#endif

enum { WARP = 32, BLOCK = 256 };  // threads
constexpr unsigned WHOLE_WARP = 0xffffffffu;  // the mask of shuffles: every lane takes part in all of ours

// --- several numbers ------------------------------------------------------------

template <int N>
struct pack {
    float at[N];
};

template <class T>
constexpr int pack_of = 16 / (int)sizeof(T);  // numbers in 16 bytes

template <int N>
__device__ inline pack<N> load(const float *from)
{
    pack<N> x;
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const float4 four = *(const float4 *)(from + i);
            x.at[i] = four.x, x.at[i + 1] = four.y, x.at[i + 2] = four.z, x.at[i + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            x.at[i] = from[i];
    }
    return x;
}

// To device memory, spelled out: where the compiler follows an address along a loop it
// forgets how it is aligned, and writes a pack in four.
template <int N>
__device__ inline void store(float *to, const pack<N> &x)
{
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4)
            __stcg((float4 *)(to + i), make_float4(x.at[i], x.at[i + 1], x.at[i + 2], x.at[i + 3]));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = x.at[i];
    }
}

// Two bfloat16 are the halves of a word, the first one low; each is the upper half
// of its float.
__device__ inline float low_half(unsigned word)
{
    return __uint_as_float(word << 16);
}

__device__ inline float high_half(unsigned word)
{
    return __uint_as_float(word & 0xffff0000u);
}

__device__ inline unsigned two_halves(float low, float high)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return (unsigned)__bfloat16_as_ushort(both.x) | (unsigned)__bfloat16_as_ushort(both.y) << 16;
}

template <int N>
__device__ inline pack<N> load(const __nv_bfloat16 *from)
{
    pack<N> x;
    if constexpr (N == 8) {
        const uint4 words = *(const uint4 *)from;
        x.at[0] = low_half(words.x), x.at[1] = high_half(words.x), x.at[2] = low_half(words.y);
        x.at[3] = high_half(words.y), x.at[4] = low_half(words.z), x.at[5] = high_half(words.z);
        x.at[6] = low_half(words.w), x.at[7] = high_half(words.w);
    } else if constexpr (N == 4) {
        const uint2 words = *(const uint2 *)from;
        x.at[0] = low_half(words.x), x.at[1] = high_half(words.x);
        x.at[2] = low_half(words.y), x.at[3] = high_half(words.y);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            x.at[i] = __bfloat162float(from[i]);
    }
    return x;
}

template <int N>
__device__ inline void store(__nv_bfloat16 *to, const pack<N> &x)
{
    if constexpr (N == 8) {
        __stcg((uint4 *)to, make_uint4(two_halves(x.at[0], x.at[1]), two_halves(x.at[2], x.at[3]),
                                       two_halves(x.at[4], x.at[5]), two_halves(x.at[6], x.at[7])));
    } else if constexpr (N == 4) {
        __stcg((uint2 *)to, make_uint2(two_halves(x.at[0], x.at[1]), two_halves(x.at[2], x.at[3])));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = __float2bfloat16_rn(x.at[i]);
    }
}

// Two of fp16 likewise, which no float has as they are.
__device__ inline float low_fp16(unsigned word)
{
    return __half2float(__ushort_as_half((unsigned short)(word & 0xffffu)));
}

__device__ inline float high_fp16(unsigned word)
{
    return __half2float(__ushort_as_half((unsigned short)(word >> 16)));
}

__device__ inline unsigned two_fp16(float low, float high)
{
    const __half2 both = __floats2half2_rn(low, high);
    return (unsigned)__half_as_ushort(both.x) | (unsigned)__half_as_ushort(both.y) << 16;
}

template <int N>
__device__ inline pack<N> load(const __half *from)
{
    pack<N> x;
    if constexpr (N == 8) {
        const uint4 words = *(const uint4 *)from;
        x.at[0] = low_fp16(words.x), x.at[1] = high_fp16(words.x), x.at[2] = low_fp16(words.y);
        x.at[3] = high_fp16(words.y), x.at[4] = low_fp16(words.z), x.at[5] = high_fp16(words.z);
        x.at[6] = low_fp16(words.w), x.at[7] = high_fp16(words.w);
    } else if constexpr (N == 4) {
        const uint2 words = *(const uint2 *)from;
        x.at[0] = low_fp16(words.x), x.at[1] = high_fp16(words.x);
        x.at[2] = low_fp16(words.y), x.at[3] = high_fp16(words.y);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            x.at[i] = __half2float(from[i]);
    }
    return x;
}

template <int N>
__device__ inline void store(__half *to, const pack<N> &x)
{
    if constexpr (N == 8) {
        __stcg((uint4 *)to, make_uint4(two_fp16(x.at[0], x.at[1]), two_fp16(x.at[2], x.at[3]),
                                       two_fp16(x.at[4], x.at[5]), two_fp16(x.at[6], x.at[7])));
    } else if constexpr (N == 4) {
        __stcg((uint2 *)to, make_uint2(two_fp16(x.at[0], x.at[1]), two_fp16(x.at[2], x.at[3])));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = __float2half_rn(x.at[i]);
    }
}

// Loops over a pack, all N at once: `x = each<N>([&](int i) { return a.at[i] + b.at[i]; })`.
template <int N, class Number>
__device__ inline pack<N> each(Number number)
{
    pack<N> x;
#pragma unroll
    for (int i = 0; i < N; i++)
        x.at[i] = number(i);
    return x;
}

// --- exponentials ------------------------------------------------------------------

// For float to the last bit or two; what is rounded to 16 bits takes the
// processor's own (2 units in the last place of a float near 0, more far from it).
template <class T>
__device__ inline float exponential(float x)
{
    if constexpr (sizeof(T) == 2)
        return __expf(x);
    else
        return expf(x);
}

template <class T>
__device__ inline float quotient(float a, float b)
{
    if constexpr (sizeof(T) == 2)
        return __fdividef(a, b);
    else
        return a / b;
}

// --- where packs may begin -----------------------------------------------------------

// Of N numbers together: all addresses that are accessed N numbers at a time must
// be multiples of this.
template <int N, class T>
__host__ __device__ inline bool pack_may_begin(const T *at)
{
    return (uintptr_t)at % (N * sizeof(T) < 16 ? N * sizeof(T) : 16) == 0;  // NULL may
}

// How many numbers come before all addresses may begin a pack; `count` if never.
template <int N, class... T>
inline size_t head_of(size_t count, const T *...at)
{
    for (size_t head = 0; head < N && head < count; head++)
        if ((... && (!at || pack_may_begin<N>((const T *)((uintptr_t)at + head * sizeof(T))))))
            return head;
    return count;
}

// The same over the rows of matrices: 0 where every row begins a pack.
template <int N, class... T>
inline size_t head_of_rows(size_t columns, size_t count, const T *...at)
{
    return columns % N == 0 && head_of<N>(count, at...) == 0 ? 0 : count;
}

// Which row of a matrix number i is in; a division of 64 bits, of which the GPU has
// none, only where there must be one.
__device__ inline size_t row_of(size_t i, size_t columns)
{
    return (i | columns) >> 32 ? i / columns : (uint32_t)i / (uint32_t)columns;
}

// --- launches ------------------------------------------------------------------------

// Nothing is launched over nothing.
template <class... Parameters, class... Arguments>
inline cudaError_t launch_blocks(const struct cuda_launch *launch, void (*kernel)(Parameters...), size_t blocks,
                                 unsigned threads, size_t shared_bytes, Arguments... arguments)
{
    if (blocks == 0)
        return cudaSuccess;
    if (blocks > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = launch->stream;
    return cudaLaunchKernelEx(&config, kernel, (Parameters)arguments...);
}

inline size_t blocks_for(size_t items, size_t per_block)
{
    return (items + per_block - 1) / per_block;
}

// Runs `body.template at<N>(i)` for all i in [0, count): N = PACK where the
// addresses allow it, N = 1 elsewhere.
template <int PACK, class Body>
__global__ void __launch_bounds__(BLOCK) each_kernel(const Body body, size_t count, size_t head)
{
    const size_t first = (size_t)blockIdx.x * BLOCK + threadIdx.x, step = (size_t)gridDim.x * BLOCK;
    const size_t packs = (count - head) / PACK, rest = count - packs * PACK;
    for (size_t i = first; i < packs; i += step)
        body.template at<PACK>(head + i * PACK);
    for (size_t i = first; i < rest; i += step)
        body.template at<1>(i < head ? i : i + packs * PACK);
}

// Enough blocks to fill any chip of today several times; what is left is strided over.
constexpr size_t MOST_BLOCKS = 1 << 14;

template <int PACK, class Body>
inline cudaError_t launch_each(const struct cuda_launch *launch, const Body &body, size_t count, size_t head)
{
    const size_t packs = (count - head) / PACK, rest = count - packs * PACK;
    const size_t blocks = blocks_for(packs > rest ? packs : rest, BLOCK);
    return launch_blocks(launch, each_kernel<PACK, Body>, blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, BLOCK, 0, body,
                         count, head);
}

// --- loading -------------------------------------------------------------------------

// Asking for anything of a kernel loads it.
template <class... Kernels>
inline cudaError_t load_kernels(Kernels *...kernels)
{
    cudaError_t status = cudaSuccess;
    cudaFuncAttributes attributes;
    (void)(... && ((status = cudaFuncGetAttributes(&attributes, kernels)) == cudaSuccess));
    return status;
}

inline cudaError_t first_bad(cudaError_t first, cudaError_t second)
{
    return first == cudaSuccess ? second : first;
}

// --- types ---------------------------------------------------------------------------

// Calls `launched`, with `T` the type of the launch's numbers.
#define WITH_NUMBERS(launch, launched)                   \
    do {                                                 \
        if ((launch)->precision == PRECISION_BF16) {     \
            using T = __nv_bfloat16;                     \
            return launched;                             \
        } else if ((launch)->precision == PRECISION_FP16) { \
            using T = __half;                            \
            return launched;                             \
        } else {                                         \
            using T = float;                             \
            return launched;                             \
        }                                                \
    } while (0)

#endif
