// A GPU played by the CPU, in the words of CUDA's header of this name, so that the
// tests compile the kernels of device/cuda/ as they stand.
//
//     blocks     one after another
//     threads    fibers of a block; each runs until it must wait for others, at a
//                barrier or a shuffle
//     shared     NaN before each block; the sanitizer knows its ends
//
// A thread that reads what another wrote, with nothing between that makes it wait,
// finds it there or not by the order in which they run: the tests run every kernel
// in several orders (gpu_on_cpu.h) and require the same bits. A block whose threads
// wait at different lines, or whose warp lost a lane before a shuffle, fails the
// launch. Packs at addresses that a GPU would refuse are the sanitizer's to find.
#ifndef TESTS_CUDA_RUNTIME_H
#define TESTS_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda_runtime_api.h"
#include "gpu_on_cpu.h"

#define __global__
#define __host__
#define __device__
#define __launch_bounds__(...)
#define __forceinline__ inline

// --- vectors, with a GPU's alignment ------------------------------------------------

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};

static inline float4 make_float4(float x, float y, float z, float w)
{
    return { x, y, z, w };
}

static inline float2 make_float2(float x, float y)
{
    return { x, y };
}

static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return { x, y, z, w };
}

static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return { x, y };
}

// Past the first cache, of which there is none here.
template <class X>
static inline void __stcg(X *to, X x)
{
    *to = x;
}

// --- who a thread is, and waiting for others ---------------------------------------------

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1) : x(across), y(down), z(deep)
    {
    }
};

extern struct dim3 threadIdx, blockIdx, blockDim, gridDim;

static inline void __syncthreads(int line = __builtin_LINE())
{
    gpu_wait_for_block(line);
}

static inline void __syncwarp(unsigned = 0xffffffffu, int line = __builtin_LINE())
{
    gpu_exchange(0, threadIdx.x % 32, line);
}

template <class X>
static inline X shuffle_on_cpu(unsigned mask, X x, unsigned from, int line)
{
    static_assert(sizeof(X) <= sizeof(uint64_t), "a shuffle passes a number");
    if (mask != 0xffffffffu)
        gpu_fail("a shuffle without the whole warp");
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    bits = gpu_exchange(bits, from, line);
    memcpy(&x, &bits, sizeof x);
    return x;
}

template <class X>
static inline X __shfl_xor_sync(unsigned mask, X x, int lanes, int line = __builtin_LINE())
{
    return shuffle_on_cpu(mask, x, (threadIdx.x % 32) ^ (unsigned)lanes, line);
}

template <class X>
static inline X __shfl_sync(unsigned mask, X x, int from, int line = __builtin_LINE())
{
    return shuffle_on_cpu(mask, x, (unsigned)from % 32, line);
}

// --- arithmetic ----------------------------------------------------------------------------

static inline float __fadd_rn(float a, float b)
{
    return a + b;
}

static inline float __fmul_rn(float a, float b)
{
    return a * b;
}

static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

// Threads take turns, and none is interrupted.
static inline unsigned atomicAdd(unsigned *sum, unsigned more)
{
    const unsigned before = *sum;
    *sum = before + more;
    return before;
}

static inline float __fdividef(float a, float b)
{
    return a / b;
}

#define __expf expf  // glibc has the name for something of its own

static inline float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// --- shared memory, launches -------------------------------------------------------------------

#define SHARED(type, name, dimensions)  \
    static type name dimensions;        \
    gpu_shared(&name, sizeof name)
#define DYNAMIC_SHARED(name) float *const name = (float *)gpu_dynamic_shared()

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

// The arguments are copied, as CUDA copies them: a launch may run long after its caller has returned.
template <class... Parameters>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...), Parameters... arguments)
{
    const auto call = [=] { kernel(arguments...); };
    static_assert(__is_trivially_copyable(decltype(call)), "a kernel's arguments are copied byte by byte");
    const gpu_grid grid = { config->gridDim.x, config->blockDim.x, config->dynamicSmemBytes, (const void *)kernel,
                            [](const void *of) { (*(decltype(call) *)of)(); } };
    return (cudaError_t)gpu_launch(&grid, &call, sizeof call, config->stream);
}

struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};

template <class Kernel>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, Kernel *kernel)
{
    return (cudaError_t)gpu_load((const void *)kernel);
}

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

template <class Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel *kernel, cudaFuncAttribute, int bytes)
{
    return (cudaError_t)gpu_allow_shared((const void *)kernel, (size_t)bytes);
}

#endif
