// Private: the building blocks of every kernel: numbers of each precision, several at a time, and the launch.
//
//     address:   0       16      32      48      64
//                | . . x x|x x x x|x x x x|x x . .|       x: the numbers of a span
//                   head    packs of 16 bytes   rest      head and rest go one by one
//
// Arithmetic whose bits are promised, or must agree between two kernels, is written with __fmul_rn, __fadd_rn and
// __fmaf_rn. The compiler may fuse any other arithmetic.
//
// These files are compiled twice: by nvcc, and by a C++ compiler for the tests. There tests/device/cuda/on_cpu/ acts
// as the GPU and has its own CUDA headers.
#ifndef DEVICE_CUDA_NUMBERS_CUH
#define DEVICE_CUDA_NUMBERS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "device/cuda/launch.h"

// Shared memory of a block: SHARED(float, sums, [32]), and DYNAMIC_SHARED(tiles), whose size is given at launch. The
// tests that act as the GPU bring their own definitions.
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

// Writes to device memory with explicit wide stores. In a loop the compiler may lose the alignment of an address, and
// then writes a pack in four stores.
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

// A word holds two bfloat16 numbers, the first in its low half. Each is the upper half of the float of the same value.
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

// Two fp16 numbers in a word likewise. They are no part of a float's bits, and are converted.
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

// Computes a pack, all N numbers at once: `x = each<N>([&](int i) { return a.at[i] + b.at[i]; })`.
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

// For float, accurate to the last bit or two. If results are rounded to 16 bits, the GPU's own instruction is used (2
// units in the last place of a float near 0, more far from it).
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

// For access to N numbers together: all addresses that are accessed in this way must be multiples of this.
template <int N, class T>
__host__ __device__ inline bool pack_may_begin(const T *address)
{
    return (uintptr_t)address % (N * sizeof(T) < 16 ? N * sizeof(T) : 16) == 0;  // true for NULL
}

// How many numbers come before all addresses may begin a pack; `count` if they never may.
template <int N, class... T>
inline size_t head_of(size_t count, const T *...arrays)
{
    for (size_t head = 0; head < N && head < count; head++)
        if ((... && (!arrays || pack_may_begin<N>((const T *)((uintptr_t)arrays + head * sizeof(T))))))
            return head;
    return count;
}

// The same over the rows of matrices: 0 if every row begins with a pack, else `count`.
template <int N, class... T>
inline size_t head_of_rows(size_t columns, size_t count, const T *...arrays)
{
    return columns % N == 0 && head_of<N>(count, arrays...) == 0 ? 0 : count;
}

// The row of a matrix that number i is in. A GPU has no 64-bit division in hardware, so one is used only if
// necessary.
__device__ inline size_t row_of(size_t i, size_t columns)
{
    return (i | columns) >> 32 ? i / columns : (uint32_t)i / (uint32_t)columns;
}

// --- launches ------------------------------------------------------------------------

// Nothing is launched for zero blocks.
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

// Runs `body.template at<N>(i)` for all i in [0, count). N = PACK where the addresses allow it, and N = 1 elsewhere.
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

// Enough blocks to fill any chip of today several times; the rest is strided over.
constexpr size_t MOST_BLOCKS = 1 << 14;

template <int PACK, class Body>
inline cudaError_t launch_each(const struct cuda_launch *launch, const Body &body, size_t count, size_t head)
{
    const size_t packs = (count - head) / PACK, rest = count - packs * PACK;
    const size_t blocks = blocks_for(packs > rest ? packs : rest, BLOCK);
    return launch_blocks(launch, each_kernel<PACK, Body>, blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, BLOCK, 0, body,
                         count, head);
}

// The same for what begins at `first` and at other arrays, in packs of 16 bytes of it.
template <class T, class Body, class... More>
inline cudaError_t launch_packs(const struct cuda_launch *launch, const Body &body, size_t count, const T *first,
                                const More *...more)
{
    return launch_each<pack_of<T>>(launch, body, count, head_of<pack_of<T>>(count, first, more...));
}

// --- loading -------------------------------------------------------------------------

// Loads the kernels: CUDA loads a kernel when any of its attributes is asked for.
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

// Loads what load_of<T>() of a file does, for each type of numbers.
#define LOAD_OF_ALL first_bad(load_of<float>(), first_bad(load_of<__nv_bfloat16>(), load_of<__half>()))

// --- types ---------------------------------------------------------------------------

// Evaluates `launched`, with `T` the type of the launch's numbers.
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
