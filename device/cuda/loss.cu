// Cross-entropy, with a block or a warp for each row of logits. Forward, the row is read once (and the target's logit
// once more). Backward, or if both are done together, it is read once and written once.
#include "device/cuda/reduce.cuh"

// Targets in rows of `whole` columns; this part has the columns from `first` on.
struct aims {
    const int32_t *targets;
    size_t first, whole;
};

// The target of a row, as an index into this part's columns. It is past them if another part has the target, or if
// there is none. For an invalid target it is 0, a place in the row that may be read.
__device__ inline size_t target_of(const aims &aims, size_t row, uint32_t *failure)
{
    const int32_t target = aims.targets[row];
    if (target == NO_TARGET)
        return aims.whole;
    if (target >= 0 && (size_t)target < aims.whole)
        return (size_t)target - aims.first;
    *failure = CUDA_FAILURE_TARGET;
    return 0;
}

inline aims aims_of(const struct cross_entropy *loss)
{
    return { loss->targets, loss->first, cross_entropy_whole(loss) };
}

// Label smoothing: what the target has of a row's loss, and what all columns have together and each.
struct smoothing {
    float of_target, of_all, of_each;

    // Of a row with this log sum.
    __device__ double loss(float log_sum, float at_target, float mean) const
    {
        const double share = (double)of_all;
        return (1 - share) * ((double)log_sum - (double)at_target) + share * ((double)log_sum - (double)mean);
    }
};

inline smoothing smoothing_of(const struct cross_entropy *loss)
{
    return { 1 - loss->smoothing, loss->smoothing, loss->smoothing / (float)loss->columns };
}

// 16 bytes at a time: log_sums_kernel<T, GROUP>, 1 load, 0 stores
template <class T, int GROUP>
static __global__ void __launch_bounds__(BLOCK) log_sums_kernel(float *log_sums, const T *logits, size_t rows,
                                                                size_t columns, size_t stride)
{
    const size_t row = row_of_group<GROUP>();
    if (row >= rows)
        return;
    logits += row * stride;
    log_sum total = { LEAST_FLOAT, 0 };
    walk_row<pack_of<T>, GROUP>(columns, head_in_row<pack_of<T>>(columns, logits), [&](auto width, size_t i) {
        total.add<T>(load<decltype(width)::value>(logits + i));
    });
    total.finish<T, GROUP>();
    if (threadIdx.x % GROUP == 0)
        log_sums[row] = total.shift + logf(total.sum);
}

template <class T>
static __global__ void __launch_bounds__(BLOCK) loss_kernel(double *sums, const float *log_sums, const T *logits,
                                                            const aims aims, size_t rows, size_t stride,
                                                            uint32_t *failure)
{
    double total = 0;
    for (size_t row = (size_t)blockIdx.x * BLOCK + threadIdx.x; row < rows; row += (size_t)gridDim.x * BLOCK) {
        const size_t target = target_of(aims, row, failure);
        if (aims.targets[row] != NO_TARGET)
            total += (double)log_sums[row] - (double)load<1>(logits + row * stride + target).at[0];
    }
    total = over_group<BLOCK>(total, added());
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}

// The same with label smoothing: a warp has a row, and adds up its logits.
template <class T>
static __global__ void __launch_bounds__(BLOCK) smoothed_loss_kernel(double *sums, const float *log_sums,
                                                                     const T *logits, const aims aims, size_t rows,
                                                                     size_t columns, size_t stride,
                                                                     const smoothing smoothing, uint32_t *failure)
{
    double total = 0;
    for (size_t row = row_of_group<WARP>(); row < rows; row += (size_t)gridDim.x * (BLOCK / WARP)) {
        const size_t target = target_of(aims, row, failure);
        const T *const from = logits + row * stride;
        if (aims.targets[row] == NO_TARGET)
            continue;
        float sum = 0;
        walk_row<pack_of<T>, WARP>(columns, head_in_row<pack_of<T>>(columns, from), [&](auto width, size_t i) {
            const auto x = load<decltype(width)::value>(from + i);
            for (const float number : x.at)
                sum += number;
        });
        sum = over_warp(sum, added());
        if (threadIdx.x % WARP == 0)
            total += smoothing.loss(log_sums[row], load<1>(from + target).at[0], sum / (float)columns);
    }
    total = over_group<BLOCK>(total, added());
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}

template <class T>
static cudaError_t log_sums_of(const struct cuda_launch *launch, const struct cross_entropy *loss, float *log_sums)
{
    return launch_rows(launch, loss->rows, loss->columns, log_sums_kernel<T, WARP>, log_sums_kernel<T, BLOCK>, log_sums,
                       (const T *)loss->logits, loss->rows, loss->columns, loss->stride);
}

template <class T>
static cudaError_t cross_entropy(const struct cuda_launch *launch, const struct cross_entropy *loss, float *sum,
                                 float *log_sums)
{
    const T *logits = (const T *)loss->logits;
    const size_t blocks = blocks_of_sum(loss->rows, loss->smoothing > 0 ? BLOCK / WARP : BLOCK);
    double *const sums = (double *)launch->scratch;
    cudaError_t status = log_sums_of<T>(launch, loss, log_sums);
    if (status == cudaSuccess && loss->smoothing > 0)
        status = launch_blocks(launch, smoothed_loss_kernel<T>, blocks, BLOCK, 0, sums, log_sums, logits, aims_of(loss),
                               loss->rows, loss->columns, loss->stride, smoothing_of(loss), launch->failure);
    else if (status == cudaSuccess)
        status = launch_blocks(launch, loss_kernel<T>, blocks, BLOCK, 0, sums, log_sums, logits, aims_of(loss),
                               loss->rows, loss->stride, launch->failure);
    if (status == cudaSuccess)
        status = launch_blocks(launch, sums_kernel<float>, 1, BLOCK, 0, sum, sums, blocks, (double)loss->scale);
    return status;
}

cudaError_t cuda_cross_entropy(const struct cuda_launch *launch, const struct cross_entropy *loss, float *sum,
                               float *log_sums)
{
    WITH_NUMBERS(launch, cross_entropy<T>(launch, loss, sum, log_sums));
}

// --- in parts of the columns ------------------------------------------------------------------

template <class T>
static __global__ void __launch_bounds__(BLOCK) targets_kernel(float *target_logits, const T *logits, const aims aims,
                                                               size_t rows, size_t columns, size_t stride,
                                                               uint32_t *failure)
{
    const size_t row = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    if (row >= rows)
        return;
    const size_t target = target_of(aims, row, failure);
    target_logits[row] = target < columns ? load<1>(logits + row * stride + target).at[0] : 0;
}

template <class T>
static cudaError_t cross_entropy_part(const struct cuda_launch *launch, const struct cross_entropy *loss,
                                      float *log_sums, float *target_logits)
{
    const cudaError_t status = log_sums_of<T>(launch, loss, log_sums);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(launch, targets_kernel<T>, blocks_for(loss->rows, BLOCK), BLOCK, 0, target_logits,
                         (const T *)loss->logits, aims_of(loss), loss->rows, loss->columns, loss->stride,
                         launch->failure);
}

cudaError_t cuda_cross_entropy_part(const struct cuda_launch *launch, const struct cross_entropy *loss,
                                    float *log_sums, float *target_logits)
{
    WITH_NUMBERS(launch, cross_entropy_part<T>(launch, loss, log_sums, target_logits));
}

static __global__ void __launch_bounds__(BLOCK) join_kernel(double *sums, float *log_sums,
                                                            const struct cross_entropy_parts parts)
{
    const size_t rows = parts.rows;
    double total = 0;
    for (size_t row = (size_t)blockIdx.x * BLOCK + threadIdx.x; row < rows; row += (size_t)gridDim.x * BLOCK) {
        float most = parts.parts[row], exps = 0;
        for (size_t i = 1; i < parts.count; i++)
            most = largest()(parts.parts[i * rows + row], most);
        for (size_t i = 0; i < parts.count; i++)
            exps += expf(parts.parts[i * rows + row] - most);
        log_sums[row] = most + logf(exps);
        if (parts.targets[row] != NO_TARGET)
            total += (double)log_sums[row] - (double)parts.parts[parts.count * rows + row];
    }
    total = over_group<BLOCK>(total, added());
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}

cudaError_t cuda_cross_entropy_join(const struct cuda_launch *launch, const struct cross_entropy_parts *parts,
                                    float *sum, float *log_sums)
{
    const size_t blocks = blocks_of_sum(parts->rows, BLOCK);
    double *const sums = (double *)launch->scratch;
    const cudaError_t status = launch_blocks(launch, join_kernel, blocks, BLOCK, 0, sums, log_sums, *parts);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(launch, sums_kernel<float>, 1, BLOCK, 0, sum, sums, blocks, (double)parts->scale);
}

// --- backward ---------------------------------------------------------------------------------

// gradient = scale * (exp(logit - log_sum) - (1 at the target)), and 0 in a row without one; `target` is relative to
// x.at[0]. With label smoothing, the 1 is what the target and each column have of it.
template <class T, int N>
__device__ inline pack<N> gradient_of(const pack<N> &x, float log_sum, size_t target, bool counts,
                                      const smoothing &smoothing, float scale)
{
    const int one = target < N ? (int)target : N;
    return each<N>([&](int k) {
        const float share = exponential<T>(x.at[k] - log_sum);
        return !counts ? 0 : ((k == one ? share - smoothing.of_target : share) - smoothing.of_each) * scale;
    });
}

// Writes zeros to padding between rows. The gradient may overwrite the logits.
// 16 bytes at a time: loss_backward_kernel<T, GROUP>, 1 load, 1 store
template <class T, int GROUP>
static __global__ void __launch_bounds__(BLOCK) loss_backward_kernel(T *gradient, const T *logits,
                                                                     const float *log_sums, const aims aims,
                                                                     size_t rows, size_t columns, size_t stride,
                                                                     const smoothing smoothing, float scale, bool alike,
                                                                     uint32_t *failure)
{
    const size_t row = row_of_group<GROUP>();
    if (row >= rows)
        return;
    const size_t target = target_of(aims, row, failure);
    const bool counts = aims.targets[row] != NO_TARGET;
    const float log_sum = log_sums[row];
    logits += row * stride;
    gradient += row * stride;
    const size_t head = alike ? head_in_row<pack_of<T>>(columns, logits) : columns;
    walk_row<pack_of<T>, GROUP>(columns, head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        store<N>(gradient + i, gradient_of<T>(load<N>(logits + i), log_sum, target - i, counts, smoothing, scale));
    });
    for (size_t i = columns + threadIdx.x % GROUP; i < stride; i += GROUP)
        store<1>(gradient + i, pack<1>{});
}

template <class T>
static cudaError_t cross_entropy_backward(const struct cuda_launch *launch, const struct cross_entropy *loss,
                                          T *gradient, const float *log_sums)
{
    const T *logits = (const T *)loss->logits;
    return launch_rows(launch, loss->rows, loss->columns, loss_backward_kernel<T, WARP>,
                       loss_backward_kernel<T, BLOCK>, gradient, logits, log_sums, aims_of(loss), loss->rows,
                       loss->columns, loss->stride, smoothing_of(loss), loss->scale, begin_alike(gradient, logits),
                       launch->failure);
}

cudaError_t cuda_cross_entropy_backward(const struct cuda_launch *launch, const struct cross_entropy *loss,
                                        struct values *logits_gradient, const float *log_sums)
{
    WITH_NUMBERS(launch, cross_entropy_backward(launch, loss, (T *)logits_gradient, log_sums));
}

// --- both in one ------------------------------------------------------------------------------

// Large, so that few long rows are in progress at a time and the L2 cache holds them all.
enum { LONG_ROW = 1024 };

template <int GROUP>
constexpr int block_of = GROUP > BLOCK ? GROUP : BLOCK;

// Between its two passes a row is kept unchanged in shared memory, if a block of this chip has room for it (KEEPS).
// Each thread reads back only what it has written. Otherwise the row is read again, from the L2 cache. The sums are
// the same.
//
//     logits     | head | pack | pack | .. | rest      head < a pack; all of the row if it has no packs
//     kept       | head  .    | pack | pack | .. | rest
template <class T, int GROUP, bool KEEPS>
static __global__ void __launch_bounds__(block_of<GROUP>) loss_both_kernel(T *gradient, float *losses, const T *logits,
                                                                           const aims aims, size_t rows, size_t columns,
                                                                           size_t stride, const smoothing smoothing,
                                                                           float scale, bool alike, uint32_t *failure)
{
    constexpr int PACK = pack_of<T>;
    DYNAMIC_SHARED(memory);
    const size_t row = GROUP > BLOCK ? blockIdx.x : row_of_group<GROUP>();
    if (row >= rows)
        return;
    const size_t target = target_of(aims, row, failure);
    const bool counts = aims.targets[row] != NO_TARGET;
    logits += row * stride;
    gradient += row * stride;
    const size_t head = alike ? head_in_row<PACK>(columns, logits) : columns;
    T *const kept = KEEPS ? (T *)memory + (head < columns ? PACK - head : 0) : NULL;
    const float at_target = counts ? load<1>(logits + target).at[0] : 0;
    log_sum total = { LEAST_FLOAT, 0 };
    float logit_sum = 0;  // with label smoothing only
    walk_row<PACK, GROUP>(columns, head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        if constexpr (KEEPS && N > 1)
            *(uint4 *)(kept + i) = *(const uint4 *)(logits + i);
        else if constexpr (KEEPS)
            kept[i] = logits[i];
        const pack<N> x = load<N>(logits + i);
        total.add<T>(x);
        if (smoothing.of_all > 0) {
#pragma unroll
            for (int k = 0; k < N; k++)
                logit_sum += x.at[k];
        }
    });
    __syncwarp();  // all lanes have read the target's logit, which is overwritten below
    total.finish<T, GROUP>();
    const float log_sum = total.shift + logf(total.sum);
    if (smoothing.of_all > 0)
        logit_sum = over_group<GROUP>(logit_sum, added());
    if (threadIdx.x % GROUP == 0) {
        const float smoothed = (float)smoothing.loss(log_sum, at_target, logit_sum / (float)columns);
        losses[row] = !counts ? 0 : smoothing.of_all > 0 ? smoothed : log_sum - at_target;
    }
    walk_row<PACK, GROUP>(columns, head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        const pack<N> x = load<N>(KEEPS ? kept + i : logits + i);
        store<N>(gradient + i, gradient_of<T>(x, log_sum, target - i, counts, smoothing, scale));
    });
    for (size_t i = columns + threadIdx.x % GROUP; i < stride; i += GROUP)
        store<1>(gradient + i, pack<1>{});
}

// A kernel's own static shared memory is small beside what is left here.
template <class T>
static size_t kept_bytes(const struct cuda_launch *launch, size_t columns)
{
    const size_t bytes = (columns + pack_of<T>) * sizeof(T), others = 1024;
    return bytes + others <= launch->shared_bytes ? bytes : 0;
}

template <class T>
static cudaError_t both_of_rows(const struct cuda_launch *launch, const struct cross_entropy *loss, float *losses,
                                T *gradient, float scale)
{
    const T *logits = (const T *)loss->logits;
    const size_t bytes = kept_bytes<T>(launch, loss->columns);
    const auto launch_by = [&](auto kernel, size_t blocks, unsigned threads, size_t shared_bytes) {
        return launch_blocks(launch, kernel, blocks, threads, shared_bytes, gradient, losses, logits, aims_of(loss),
                             loss->rows, loss->columns, loss->stride, smoothing_of(loss), scale,
                             begin_alike(gradient, logits), launch->failure);
    };
    if (loss->columns <= WARP_COLUMNS)
        return launch_by(loss_both_kernel<T, WARP, false>, blocks_for(loss->rows, BLOCK / WARP), BLOCK, 0);
    if (bytes == 0)
        return launch_by(loss_both_kernel<T, LONG_ROW, false>, loss->rows, LONG_ROW, 0);
    const auto keeping = loss_both_kernel<T, LONG_ROW, true>;
    const cudaError_t status = cudaFuncSetAttribute(keeping, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return status == cudaSuccess ? launch_by(keeping, loss->rows, LONG_ROW, bytes) : status;
}

template <class T>
static cudaError_t cross_entropy_both(const struct cuda_launch *launch, const struct cross_entropy *loss, float *sum,
                                      float *losses, T *gradient, float scale)
{
    const size_t blocks = blocks_of_sum(loss->rows, BLOCK);
    double *const sums = (double *)launch->scratch;
    cudaError_t status = both_of_rows(launch, loss, losses, gradient, scale);
    if (status == cudaSuccess)
        status = launch_blocks(launch, losses_kernel<float>, blocks, BLOCK, 0, sums, losses, loss->rows);
    if (status == cudaSuccess)
        status = launch_blocks(launch, sums_kernel<float>, 1, BLOCK, 0, sum, sums, blocks, (double)loss->scale);
    return status;
}

cudaError_t cuda_cross_entropy_both(const struct cuda_launch *launch, const struct cross_entropy *loss, float *sum,
                                    float *losses, struct values *logits_gradient, float gradient_scale)
{
    WITH_NUMBERS(launch, cross_entropy_both(launch, loss, sum, losses, (T *)logits_gradient, gradient_scale));
}

// --- loading ---------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(log_sums_kernel<T, WARP>, log_sums_kernel<T, BLOCK>, loss_kernel<T>, smoothed_loss_kernel<T>,
                        targets_kernel<T>, loss_backward_kernel<T, WARP>, loss_backward_kernel<T, BLOCK>,
                        loss_both_kernel<T, WARP, false>, loss_both_kernel<T, LONG_ROW, false>,
                        loss_both_kernel<T, LONG_ROW, true>);
}

cudaError_t cuda_load_loss(void)
{
    return first_bad(load_kernels(sums_kernel<float>, losses_kernel<float>, join_kernel), LOAD_OF_ALL);
}
