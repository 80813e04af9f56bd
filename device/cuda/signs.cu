// Numbers as signs and their mean size, in the form in which replicas send them with 1-bit Adam. The arithmetic is
// explicit, so that a number gets the same bits in a pack as alone.
#include "device/cuda/reduce.cuh"

enum { SIGN_PACK = 4 };

struct add_where_body {
    float *sums;
    const float *in, *where;
    float factor;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> sum = load<N>(sums + i), x = load<N>(in + i), counts = load<N>(where + i);
        store<N>(sums + i, each<N>([&](int k) {
            return counts.at[k] > 0 ? __fmaf_rn(factor, x.at[k], sum.at[k]) : sum.at[k];
        }));
    }
};

cudaError_t cuda_add_where(const struct cuda_launch *launch, float *sums, const float *in, float factor,
                           const float *where, size_t count)
{
    return launch_each<SIGN_PACK>(launch, add_where_body{ sums, in, where, factor }, count,
                                  head_of<SIGN_PACK>(count, sums, in, where));
}

struct either {
    __device__ unsigned operator()(unsigned a, unsigned b) const
    {
        return a | b;
    }
};

enum { SIGN_EACH = SIGN_BLOCK / BLOCK };  // numbers per thread

// A block of threads takes a block of numbers, and a warp a word of signs.
static __global__ void __launch_bounds__(BLOCK) take_signs_kernel(struct sign_block *blocks, float *numbers,
                                                                  const float *where, size_t count)
{
    const size_t from = (size_t)blockIdx.x * SIGN_BLOCK, rest = count - from;
    struct sign_block *block = &blocks[blockIdx.x];
    double sum = 0, have = 0;
#pragma unroll
    for (int k = 0; k < SIGN_EACH; k++) {
        const size_t i = (size_t)k * BLOCK + threadIdx.x;
        const bool counts = i < rest && where[from + i] > 0;
        sum += counts ? fabs((double)numbers[from + i]) : 0;
        have += counts;
    }
    sum = over_group<BLOCK>(sum, added());
    have = over_group<BLOCK>(have, added());
    const float size = have > 0 ? (float)(sum / have) : 0;
#pragma unroll
    for (int k = 0; k < SIGN_EACH; k++) {
        const size_t i = (size_t)k * BLOCK + threadIdx.x;
        const float x = i < rest ? numbers[from + i] : 0;
        const unsigned word = over_warp(x < 0 ? 1u << threadIdx.x % WARP : 0, either());
        if (threadIdx.x % WARP == 0)
            block->negative[i / WARP] = word;
        if (i < rest && where[from + i] > 0)
            numbers[from + i] = __fadd_rn(x, x < 0 ? size : -size);
    }
    if (threadIdx.x == 0)
        block->size = size;
}

cudaError_t cuda_take_signs(const struct cuda_launch *launch, struct sign_block *blocks, float *numbers,
                            const float *where, size_t count)
{
    return launch_blocks(launch, take_signs_kernel, blocks_for(count, SIGN_BLOCK), BLOCK, 0, blocks, numbers, where,
                         count);
}

struct add_signs_body {
    float *sums;
    const struct sign_block *blocks;
    const float *where;
    float factor;

    __device__ float said(size_t i) const
    {
        const struct sign_block &block = blocks[i / SIGN_BLOCK];
        const float size = __fmul_rn(factor, block.size);
        return block.negative[i % SIGN_BLOCK / 32] >> i % 32 & 1 ? -size : size;
    }

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> sum = load<N>(sums + i), counts = load<N>(where + i);
        store<N>(sums + i, each<N>([&](int k) {
            return counts.at[k] > 0 ? __fadd_rn(sum.at[k], said(i + (size_t)k)) : sum.at[k];
        }));
    }
};

cudaError_t cuda_add_signs(const struct cuda_launch *launch, float *sums, const struct sign_block *blocks, float factor,
                           const float *where, size_t count)
{
    return launch_each<SIGN_PACK>(launch, add_signs_body{ sums, blocks, where, factor }, count,
                                  head_of<SIGN_PACK>(count, sums, where));
}

// --- loading -------------------------------------------------------------------------------

cudaError_t cuda_load_signs(void)
{
    return load_kernels(take_signs_kernel, each_kernel<SIGN_PACK, add_where_body>,
                        each_kernel<SIGN_PACK, add_signs_body>);
}
