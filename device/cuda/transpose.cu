// Transposes of matrices of floats: cuDNN wants the weights of a convolution in another order than ours.
//
//     in     rows x columns          a block has a tile of 32 x 32, which is read along the rows of `in` and written
//     out    columns x rows          along those of `out`
#include "device/cuda/reduce.cuh"

enum { TILE = WARP, TILE_DOWN = BLOCK / WARP };

// Adds to `out`, or overwrites it.
template <bool ADDS>
static __global__ void __launch_bounds__(BLOCK) transpose_kernel(float *out, const float *in, size_t rows,
                                                                 size_t columns, size_t across)
{
    SHARED(float, tile, [TILE][TILE + 1]);  // a pitch by which a column's numbers are in different banks
    const size_t row = blockIdx.x / across * TILE, column = blockIdx.x % across * TILE;
    const unsigned x = threadIdx.x % TILE;
    for (unsigned y = threadIdx.x / TILE; y < TILE; y += TILE_DOWN)
        if (row + y < rows && column + x < columns)
            tile[y][x] = in[(row + y) * columns + column + x];
    __syncthreads();
    for (unsigned y = threadIdx.x / TILE; y < TILE; y += TILE_DOWN)
        if (column + y < columns && row + x < rows) {
            float *to = &out[(column + y) * rows + row + x];
            *to = ADDS ? *to + tile[x][y] : tile[x][y];
        }
}

template <bool ADDS>
static cudaError_t transpose(const struct cuda_launch *launch, float *out, const float *in, size_t rows, size_t columns)
{
    const size_t across = blocks_for(columns, TILE);
    return launch_blocks(launch, transpose_kernel<ADDS>, across * blocks_for(rows, TILE), BLOCK, 0, out, in, rows,
                         columns, across);
}

cudaError_t cuda_transpose(const struct cuda_launch *launch, float *out, const float *in, size_t rows, size_t columns)
{
    return transpose<false>(launch, out, in, rows, columns);
}

cudaError_t cuda_add_transposed(const struct cuda_launch *launch, float *sums, const float *in, size_t rows,
                                size_t columns)
{
    return transpose<true>(launch, sums, in, rows, columns);
}

// --- loading -------------------------------------------------------------------------------

cudaError_t cuda_load_transpose(void)
{
    return load_kernels(transpose_kernel<false>, transpose_kernel<true>);
}
