// Private: sums and maxima over groups of threads, and walks along a row.
//
// A group is a warp or a whole block of BLOCK threads, and has one row. Every sum is a tree that depends only on the
// group's size, so its bits repeat.
#ifndef DEVICE_CUDA_REDUCE_CUH
#define DEVICE_CUDA_REDUCE_CUH

#include "device/cuda/numbers.cuh"

// Rows up to this many columns go to a warp, longer ones to a block. A row that is read again should still be in the
// L1 cache, beside the rows of the other groups.
enum { WARP_COLUMNS = 2048 };

struct largest {
    template <class X>
    __device__ X operator()(X a, X b) const
    {
        return a > b ? a : b;  // b if a is a NaN: callers that need to keep NaN also compute a sum
    }
};

struct added {
    template <class X>
    __device__ X operator()(X a, X b) const
    {
        return a + b;
    }
};

// All lanes get the same result: a and b swap sides between two lanes, and `both` is symmetric.
template <class Both, class X>
__device__ inline X over_warp(X x, Both both)
{
#pragma unroll
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2)
        x = both(x, __shfl_xor_sync(WHOLE_WARP, x, lanes));
    return x;
}

template <int GROUP, class Both, class X>
__device__ inline X over_group(X x, Both both)
{
    x = over_warp(x, both);
    if constexpr (GROUP > WARP) {
        SHARED(X, warps, [GROUP / WARP]);
        if (threadIdx.x % WARP == 0)
            warps[threadIdx.x / WARP] = x;
        __syncthreads();
        x = warps[0];
#pragma unroll
        for (int warp = 1; warp < GROUP / WARP; warp++)
            x = both(x, warps[warp]);
        __syncthreads();  // the next call writes there
    }
    return x;
}

// The first step of a sum over numbers, such as the losses of rows: what each block has summed.
template <class T>
__global__ void __launch_bounds__(BLOCK) losses_kernel(double *sums, const T *losses, size_t rows)
{
    double total = 0;
    for (size_t row = (size_t)blockIdx.x * BLOCK + threadIdx.x; row < rows; row += (size_t)gridDim.x * BLOCK)
        total += (double)losses[row];
    total = over_group<BLOCK>(total, added());
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}

// The last step of a sum over everything: one block adds what each block has summed, in order.
template <class To>
__global__ void __launch_bounds__(BLOCK) sums_kernel(To *sum, const double *sums, size_t count, double scale)
{
    double total = 0;
    for (size_t i = threadIdx.x; i < count; i += BLOCK)
        total += sums[i];
    total = over_group<BLOCK>(total, added());
    if (threadIdx.x == 0)
        *sum = (To)(total * scale);
}

// The number of blocks that sum. It depends on the count alone, and is enough to keep any chip busy.
inline size_t blocks_of_sum(size_t count, size_t per_block)
{
    const size_t blocks = blocks_for(count, per_block), most = 2048;
    return blocks < most ? blocks : most;
}

// --- rows -----------------------------------------------------------------------------

template <int N>
struct width {
    static constexpr int value = N;
};

// Calls body(width<N>(), i) for this thread's numbers i .. i + N - 1. N = PACK from `head` on while PACK are left,
// and N = 1 elsewhere.
template <int PACK, int GROUP, class Body>
__device__ inline void walk_row(size_t columns, size_t head, Body body)
{
    const size_t lane = threadIdx.x % GROUP, packs = (columns - head) / PACK, rest = columns - packs * PACK;
    for (size_t i = lane; i < packs; i += GROUP)
        body(width<PACK>(), head + i * PACK);
    for (size_t i = lane; i < rest; i += GROUP)
        body(width<1>(), i < head ? i : i + packs * PACK);
}

// For rows that begin anywhere: how many numbers come before a row's first pack. The function begin_alike() says
// whether that number is the same in both rows.
template <int PACK, class T>
__device__ inline size_t head_in_row(size_t columns, const T *row)
{
    const size_t past = (uintptr_t)row / sizeof(T) % PACK, head = (PACK - past) % PACK;
    return head < columns ? head : columns;
}

template <class T>
inline bool begin_alike(const T *a, const T *b)
{
    return (uintptr_t)a % 16 == (uintptr_t)b % 16;
}

template <int GROUP>
__device__ inline size_t row_of_group()
{
    return (size_t)blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP;
}

template <class... Parameters, class... Arguments>
inline cudaError_t launch_rows(const struct cuda_launch *launch, size_t rows, size_t columns,
                               void (*by_warp)(Parameters...), void (*by_block)(Parameters...), Arguments... arguments)
{
    if (columns <= WARP_COLUMNS)
        return launch_blocks(launch, by_warp, blocks_for(rows, BLOCK / WARP), BLOCK, 0, arguments...);
    return launch_blocks(launch, by_block, rows, BLOCK, 0, arguments...);
}

// The largest number of a row and the sum of exp(x - largest), in one pass over the row. When a larger number comes,
// the sum so far is scaled down.
struct log_sum {
    float shift, sum;

    template <class T, int N>
    __device__ void add(const pack<N> &x)
    {
        float most = shift;
#pragma unroll
        for (int k = 0; k < N; k++)
            most = largest()(x.at[k], most);
        if (most > shift) {
            sum *= exponential<T>(shift - most);
            shift = most;
        }
#pragma unroll
        for (int k = 0; k < N; k++)
            sum += exponential<T>(x.at[k] - shift);
    }

    template <class T, int GROUP>
    __device__ void finish()
    {
        const float most = over_group<GROUP>(shift, largest());
        sum = over_group<GROUP>(sum * exponential<T>(shift - most), added());
        shift = most;
    }
};

// Below every float except minus infinity, for which exp(x - shift) is then 0 and not NaN.
constexpr float LEAST_FLOAT = -3.402823466e38f;

#endif
