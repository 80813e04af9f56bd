// Sums of columns: gradients of biases and of a norm's gain and offset.
//
//            columns ->
//     rows   +--------+--------+---     each block has a tile: 32 threads across, PACK
//      |     | b 0,0  | b 1,0  |        columns each, and 8 down, whose sums are added
//      v     +--------+--------+---     in order; several tiles down a column leave their
//            | b 0,1  | b 1,1  |        sums in the scratch, and a second kernel adds
//            +--------+--------+---     those in order
//
// Every input is read once. The number of tiles depends on the shape alone.
#include "device/cuda/reduce.cuh"

enum { ACROSS = WARP, DOWN = BLOCK / WARP, LEAST_ROWS = 64, MOST_TILES_DOWN = 256 };

// The quantity to sum, N columns of one row at a time.
// 16 bytes at a time: columns_kernel<8, gradient_sum<T>>, 1 load, 0 stores
template <class T>
struct gradient_sum {
    const T *in;
    static constexpr int SUMS = 1;

    template <int N>
    __device__ void add(pack<N> (&sums)[SUMS], size_t, size_t index) const
    {
        const pack<N> x = load<N>(in + index);
#pragma unroll
        for (int k = 0; k < N; k++)
            sums[0].at[k] += x.at[k];
    }
};

// 16 bytes at a time: columns_kernel<8, norm_sum<T>>, 2 loads, 0 stores
template <class T>
struct norm_sum {
    const T *in, *gradient;
    const float *mean, *rstd;
    static constexpr int SUMS = 2;  // the gain's and the offset's

    template <int N>
    __device__ void add(pack<N> (&sums)[SUMS], size_t row, size_t index) const
    {
        const pack<N> x = load<N>(in + index), g = load<N>(gradient + index);
        const float middle = mean[row], scale = rstd[row];
#pragma unroll
        for (int k = 0; k < N; k++) {
            sums[0].at[k] += g.at[k] * ((x.at[k] - middle) * scale);
            sums[1].at[k] += g.at[k];
        }
    }
};

struct column_tiles {
    size_t rows, columns;
    size_t across, rows_each;
    // Sums of the first kind come before those of the second. They go to the scratch, with a row for each tile down. If
    // the scratch is NULL, they are added to `sums` and, from `split` on, to `more_sums`.
    float *scratch, *sums, *more_sums;
    size_t split;

    __device__ void put(size_t tile, size_t i, size_t count, float total) const
    {
        if (scratch)
            scratch[tile * count + i] = total;
        else if (i < split)
            sums[i] += total;
        else
            more_sums[i - split] += total;
    }
};

template <int PACK, class Sum>
static __global__ void __launch_bounds__(BLOCK) columns_kernel(const Sum sum, const column_tiles tiles)
{
    constexpr int SUMS = Sum::SUMS;
    // A warp reads all k of a few lanes, each from a bank of its own.
    constexpr int PITCH = PACK > 1 ? ACROSS + ACROSS / PACK : ACROSS;
    SHARED(float, partial, [DOWN][SUMS][PACK][PITCH]);
    const unsigned x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
    const size_t tile = blockIdx.x / tiles.across, first = blockIdx.x % tiles.across * ACROSS * PACK;
    const size_t column = first + x * PACK, start = tile * tiles.rows_each;
    const size_t end = start + tiles.rows_each < tiles.rows ? start + tiles.rows_each : tiles.rows;
    pack<PACK> sums[SUMS] = {};
    if (column < tiles.columns) {
#pragma unroll 4
        for (size_t row = start + y; row < end; row += DOWN)
            sum.template add<PACK>(sums, row, row * tiles.columns + column);
    }
#pragma unroll
    for (int s = 0; s < SUMS; s++)
#pragma unroll
        for (int k = 0; k < PACK; k++)
            partial[y][s][k][x] = sums[s].at[k];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < SUMS * PACK * ACROSS; i += BLOCK) {
        const unsigned s = i / (PACK * ACROSS), lane = i / PACK % ACROSS, k = i % PACK;
        float total = partial[0][s][k][lane];
#pragma unroll
        for (int down = 1; down < DOWN; down++)
            total += partial[down][s][k][lane];
        if (first + lane * PACK + k < tiles.columns)
            tiles.put(tile, s * tiles.columns + first + lane * PACK + k, SUMS * tiles.columns, total);
    }
}

template <int PACK, class Sum>
static cudaError_t sum_columns_by(const struct cuda_launch *launch, const Sum &sum, column_tiles tiles)
{
    if (tiles.rows == 0 || tiles.columns == 0)
        return cudaSuccess;
    const size_t sums = Sum::SUMS * tiles.columns, fit = CUDA_SCRATCH_BYTES / sizeof(float) / sums;
    const size_t most = min_u64(min_u64(blocks_for(tiles.rows, LEAST_ROWS), MOST_TILES_DOWN), fit);
    tiles.rows_each = most > 1 ? blocks_for(tiles.rows, most) : tiles.rows;
    tiles.across = blocks_for(tiles.columns, ACROSS * PACK);
    tiles.split = tiles.columns;
    const size_t down = blocks_for(tiles.rows, tiles.rows_each);
    tiles.scratch = down > 1 ? (float *)launch->scratch : NULL;
    const cudaError_t status = launch_blocks(launch, columns_kernel<PACK, Sum>, tiles.across * down, BLOCK, 0, sum,
                                             tiles);
    if (status != cudaSuccess || down == 1)
        return status;
    const gradient_sum<float> partial = { tiles.scratch };
    tiles.rows = tiles.rows_each = down;
    tiles.columns = sums;
    tiles.across = blocks_for(sums, ACROSS);
    tiles.scratch = NULL;
    return launch_blocks(launch, columns_kernel<1, gradient_sum<float>>, tiles.across, BLOCK, 0, partial, tiles);
}

template <class T>
static cudaError_t sum_columns(const struct cuda_launch *launch, float *sums, const T *in, size_t rows, size_t columns)
{
    column_tiles tiles = {};
    tiles.rows = rows, tiles.columns = columns, tiles.sums = sums;
    const gradient_sum<T> sum = { in };
    if (head_of_rows<pack_of<T>>(columns, columns, in) == 0)
        return sum_columns_by<pack_of<T>>(launch, sum, tiles);
    return sum_columns_by<1>(launch, sum, tiles);
}

cudaError_t cuda_sum_columns(const struct cuda_launch *launch, float *sums, const struct values *in, size_t rows,
                             size_t columns)
{
    WITH_NUMBERS(launch, sum_columns(launch, sums, (const T *)in, rows, columns));
}

template <class T>
static cudaError_t norm_weight(const struct cuda_launch *launch, const struct layer_norm *norm, float *gain_gradient,
                               float *offset_gradient, const T *out_gradient, const float *mean, const float *rstd)
{
    column_tiles tiles = {};
    tiles.rows = norm->rows, tiles.columns = norm->columns;
    tiles.sums = gain_gradient, tiles.more_sums = offset_gradient;
    const norm_sum<T> sum = { (const T *)norm->in, out_gradient, mean, rstd };
    if (head_of_rows<pack_of<T>>(norm->columns, norm->columns, sum.in, out_gradient) == 0)
        return sum_columns_by<pack_of<T>>(launch, sum, tiles);
    return sum_columns_by<1>(launch, sum, tiles);
}

cudaError_t cuda_layer_norm_backward_weight(const struct cuda_launch *launch, const struct layer_norm *norm,
                                            float *gain_gradient, float *offset_gradient,
                                            const struct values *out_gradient, const float *mean, const float *rstd)
{
    WITH_NUMBERS(launch, norm_weight(launch, norm, gain_gradient, offset_gradient, (const T *)out_gradient, mean,
                                     rstd));
}

// --- loading ---------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(columns_kernel<pack_of<T>, gradient_sum<T>>, columns_kernel<1, gradient_sum<T>>,
                        columns_kernel<pack_of<T>, norm_sum<T>>, columns_kernel<1, norm_sum<T>>);
}

cudaError_t cuda_load_columns(void)
{
    return LOAD_OF_ALL;
}
