// Layer norm, with a warp or a block for each row. A row is read from device memory once; if it is read
// again it is still in a cache.
#include "device/cuda/reduce.cuh"

// A row and its parameters; `head` is 0, or `columns` if there are no packs.
template <class T>
struct norm_row {
    const T *in, *gain, *offset;
    size_t columns, head;
};

// Written out, so that the forward and its recomputation agree.
__device__ inline float normed(float x, float mean, float rstd)
{
    return __fmul_rn(__fadd_rn(x, -mean), rstd);
}

template <class T, int GROUP>
__device__ inline void write_norm(const norm_row<T> &norm, T *out, float mean, float rstd)
{
    walk_row<pack_of<T>, GROUP>(norm.columns, norm.head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        const pack<N> x = load<N>(norm.in + i), gain = load<N>(norm.gain + i), offset = load<N>(norm.offset + i);
        store<N>(out + i, each<N>([&](int k) {
                     return __fmaf_rn(normed(x.at[k], mean, rstd), gain.at[k], offset.at[k]);
                 }));
    });
}

// 16 bytes at a time: norm_kernel<T, GROUP>, 5 loads, 1 store
template <class T, int GROUP>
static __global__ void __launch_bounds__(BLOCK) norm_kernel(norm_row<T> norm, size_t rows, T *out, float *mean,
                                                            float *rstd)
{
    const size_t row = row_of_group<GROUP>();
    if (row >= rows)
        return;
    norm.in += row * norm.columns;
    float sum = 0, squares = 0;
    walk_row<pack_of<T>, GROUP>(norm.columns, norm.head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        const pack<N> x = load<N>(norm.in + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            sum += x.at[k];
    });
    const float middle = over_group<GROUP>(sum, added()) / (float)norm.columns;
    walk_row<pack_of<T>, GROUP>(norm.columns, norm.head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        const pack<N> x = load<N>(norm.in + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            squares += (x.at[k] - middle) * (x.at[k] - middle);
    });
    const float scale = 1 / sqrtf(over_group<GROUP>(squares, added()) / (float)norm.columns + 1e-5f);
    if (threadIdx.x % GROUP == 0) {
        mean[row] = middle;
        rstd[row] = scale;
    }
    write_norm<T, GROUP>(norm, out + row * norm.columns, middle, scale);
}

// 16 bytes at a time: norm_again_kernel<T, GROUP>, 3 loads, 1 store
template <class T, int GROUP>
static __global__ void __launch_bounds__(BLOCK) norm_again_kernel(norm_row<T> norm, size_t rows, T *out,
                                                                  const float *mean, const float *rstd)
{
    const size_t row = row_of_group<GROUP>();
    if (row >= rows)
        return;
    norm.in += row * norm.columns;
    write_norm<T, GROUP>(norm, out + row * norm.columns, mean[row], rstd[row]);
}

// With h = the normed input and g = gradient * gain:
// in_gradient = rstd * (g - mean of g - h * mean of (g h)).
// 16 bytes at a time: norm_input_kernel<T, GROUP>, 7 loads, 1 store
template <class T, int GROUP>
static __global__ void __launch_bounds__(BLOCK) norm_input_kernel(norm_row<T> norm, size_t rows, T *in_gradient,
                                                                  const T *out_gradient, const T *add,
                                                                  const float *mean, const float *rstd)
{
    const size_t row = row_of_group<GROUP>();
    if (row >= rows)
        return;
    const size_t start = row * norm.columns;
    const float middle = mean[row], scale = rstd[row];
    norm.in += start;
    out_gradient += start;
    float sum = 0, sum_h = 0;
    walk_row<pack_of<T>, GROUP>(norm.columns, norm.head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        const pack<N> x = load<N>(norm.in + i), y = load<N>(out_gradient + i), gain = load<N>(norm.gain + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float g = y.at[k] * gain.at[k];
            sum += g;
            sum_h += g * normed(x.at[k], middle, scale);
        }
    });
    const float mean_g = over_group<GROUP>(sum, added()) / (float)norm.columns;
    const float mean_gh = over_group<GROUP>(sum_h, added()) / (float)norm.columns;
    walk_row<pack_of<T>, GROUP>(norm.columns, norm.head, [&](auto width, size_t i) {
        constexpr int N = decltype(width)::value;
        const pack<N> x = load<N>(norm.in + i), y = load<N>(out_gradient + i), gain = load<N>(norm.gain + i);
        pack<N> past = {};
        if (add)
            past = load<N>(add + start + i);
        store<N>(in_gradient + start + i, each<N>([&](int k) {
                     const float h = normed(x.at[k], middle, scale);
                     return scale * (y.at[k] * gain.at[k] - mean_g - h * mean_gh) + past.at[k];
                 }));
    });
}

template <class T, class... Matrices>
static norm_row<T> rows_of(const struct layer_norm *norm, const Matrices *...matrices)
{
    const T *in = (const T *)norm->in, *gain = (const T *)norm->gain, *offset = (const T *)norm->offset;
    return { in, gain, offset, norm->columns,
             head_of_rows<pack_of<T>>(norm->columns, norm->columns, in, gain, offset, matrices...) };
}

cudaError_t cuda_layer_norm(const struct cuda_launch *launch, const struct layer_norm *norm, struct values *out,
                            float *mean, float *rstd)
{
    WITH_NUMBERS(launch, launch_rows(launch, norm->rows, norm->columns, norm_kernel<T, WARP>, norm_kernel<T, BLOCK>,
                                     rows_of<T>(norm, (T *)out), norm->rows, (T *)out, mean, rstd));
}

cudaError_t cuda_layer_norm_again(const struct cuda_launch *launch, const struct layer_norm *norm, struct values *out,
                                  const float *mean, const float *rstd)
{
    WITH_NUMBERS(launch, launch_rows(launch, norm->rows, norm->columns, norm_again_kernel<T, WARP>,
                                     norm_again_kernel<T, BLOCK>, rows_of<T>(norm, (T *)out), norm->rows, (T *)out,
                                     mean, rstd));
}

template <class T>
static cudaError_t norm_input(const struct cuda_launch *launch, const struct layer_norm *norm, T *in_gradient,
                              const T *out_gradient, const T *add, const float *mean, const float *rstd)
{
    return launch_rows(launch, norm->rows, norm->columns, norm_input_kernel<T, WARP>, norm_input_kernel<T, BLOCK>,
                       rows_of<T>(norm, in_gradient, out_gradient, add), norm->rows, in_gradient, out_gradient, add,
                       mean, rstd);
}

cudaError_t cuda_layer_norm_backward_input(const struct cuda_launch *launch, const struct layer_norm *norm,
                                           struct values *in_gradient, const struct values *out_gradient,
                                           const struct values *add, const float *mean, const float *rstd)
{
    WITH_NUMBERS(launch,
                 norm_input(launch, norm, (T *)in_gradient, (const T *)out_gradient, (const T *)add, mean, rstd));
}

// --- loading ---------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(norm_kernel<T, WARP>, norm_kernel<T, BLOCK>, norm_again_kernel<T, WARP>,
                        norm_again_kernel<T, BLOCK>, norm_input_kernel<T, WARP>, norm_input_kernel<T, BLOCK>);
}

cudaError_t cuda_load_rows(void)
{
    return LOAD_OF_ALL;
}
