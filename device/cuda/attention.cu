// Causal attention, one head of one sequence at a time, for fp32 and for shapes that cuDNN refuses. No sum has an
// order that could vary: the gradients of the queries and those of the keys and values have a kernel each.
//
//                     keys ->                a block has TILE rows of one head, and walks
//             +----+                         along the tiles that attend to it:
//     queries | \  |                         forward and queries' gradient: a row of tiles,
//        |    +----+----+                      up to the diagonal;
//        v    |    | \  |                    keys' and values' gradient: a column of
//             +----+----+----+                 tiles, from the diagonal down
//             |    |    | \  |
//             +----+----+----+
//
// With a pattern only the tiles that hold a pair of a query and a key that it sees are visited, in all three kernels.
//
// If the queries are a part of the sequence, they are tiled by themselves. Their tiles may thus begin within a tile
// of keys.
//
// Tiles are in shared memory as floats, TILE rows of SIZE columns (heads of other sizes are padded with zeros). The
// BLOCK threads of a block form a grid of 16 by 16 over a tile. Thread (x, y) has the scores of rows y, y + 16, ..
// and columns x, x + 16, .. In an output with SIZE columns it has the rows y, y + 16, .. and columns of its own.
#include "device/cuda/reduce.cuh"

enum { SIDE = 16 };  // threads

// Each row of a tile begins 16 bytes further along the banks, so that reading sixteen rows at the same column causes
// no bank conflict.
template <int SIZE>
constexpr int pitch = SIZE + 4;

// Large heads have smaller tiles: all shared memory of a block stays under 99 KiB, which every GPU has from compute
// capability 8.0 on.
template <int SIZE>
constexpr int tile_rows = SIZE <= 64 ? 64 : SIZE <= 128 ? 32 : 16;

struct head_shape {
    size_t queries, first, keys;  // query 0 is at position `first` of the keys, and the last query is at the last key
    size_t positions;             // of a sequence, keys or not
    int size;
    size_t stride, out_stride;  // numbers from one row to the next: of q, k, v; of out
    bool packed;                // rows begin at multiples of 16 bytes
};

// The beginnings of a block's head and tile. For q, k and v they are among all positions, for everything else among
// the queries'.
struct place {
    size_t qkv, out, log_sums;
    size_t tile;
};

__device__ inline place place_of(const struct attention &shape, const head_shape &rows, size_t tiles)
{
    const size_t which = blockIdx.x / tiles, batch = which / shape.heads, head = which % shape.heads;
    const size_t width = shape.heads * shape.size;
    return { batch * rows.positions * 3 * width + head * shape.size,
             batch * shape.sequence * width + head * shape.size, which * shape.sequence, blockIdx.x % tiles };
}

__host__ __device__ inline size_t tiles_of(size_t sequence, int rows)
{
    return (sequence + rows - 1) / rows;
}

// --- tiles ------------------------------------------------------------------------------

// Loads rows from `first` on of a matrix of `rows` rows to shared memory, times `factor`; zeros past its rows and
// columns.
template <int SIZE, class T>
__device__ inline void load_tile(float *tile, const T *from, size_t stride, size_t first, size_t rows,
                                 const head_shape &head, float factor)
{
    constexpr int TILE = tile_rows<SIZE>;
    if (head.packed) {
        for (int i = threadIdx.x * 4; i < TILE * SIZE; i += BLOCK * 4) {
            const int row = i / SIZE, column = i % SIZE;
            pack<4> x = {};
            if (first + row < rows && column < head.size)
                x = load<4>(from + (first + row) * stride + column);
            *(float4 *)(tile + row * pitch<SIZE> + column) = make_float4(x.at[0] * factor, x.at[1] * factor,
                                                                         x.at[2] * factor, x.at[3] * factor);
        }
    } else {
        for (int i = threadIdx.x; i < TILE * SIZE; i += BLOCK) {
            const int row = i / SIZE, column = i % SIZE;
            float x = 0;
            if (first + row < rows && column < head.size)
                x = load<1>(from + (first + row) * stride + column).at[0];
            tile[row * pitch<SIZE> + column] = x * factor;
        }
    }
}

// The part of a TILE by TILE product that a thread has.
template <int SIZE>
struct scores {
    static constexpr int EACH = tile_rows<SIZE> / SIDE;
    float at[EACH][EACH];
};

// at(row, column) = the product of row `row` of a and row `column` of b.
template <int SIZE>
__device__ inline scores<SIZE> multiply_rows(const float *a, const float *b)
{
    constexpr int EACH = scores<SIZE>::EACH;
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    scores<SIZE> sum = {};
#pragma unroll 1  // 64 products per turn are enough; two turns would cost the registers of a second block
    for (int l = 0; l < SIZE; l += 4) {
        pack<4> right[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++)
            right[j] = load<4>(b + (x + j * SIDE) * pitch<SIZE> + l);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const pack<4> left = load<4>(a + (y + i * SIDE) * pitch<SIZE> + l);
#pragma unroll
            for (int j = 0; j < EACH; j++)
#pragma unroll
                for (int k = 0; k < 4; k++)
                    sum.at[i][j] += left.at[k] * right[j].at[k];
        }
    }
    return sum;
}

template <int SIZE>
__device__ inline void store_scores(float *to, const scores<SIZE> &from)
{
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < scores<SIZE>::EACH; i++)
#pragma unroll
        for (int j = 0; j < scores<SIZE>::EACH; j++)
            to[(y + i * SIDE) * pitch<tile_rows<SIZE>> + x + j * SIDE] = from.at[i][j];
}

// The part of TILE rows of SIZE columns that a thread has: in each of its rows, GROUPS groups of WIDE adjacent
// columns.
template <int SIZE>
struct rows_sum {
    static constexpr int EACH = tile_rows<SIZE> / SIDE, WIDE = SIZE / SIDE < 4 ? SIZE / SIDE : 4;
    static constexpr int GROUPS = SIZE / SIDE / WIDE;
    pack<WIDE> at[EACH][GROUPS];

    __device__ static int column(int group)
    {
        return (group * SIDE + threadIdx.x % SIDE) * WIDE;
    }

    __device__ void scale(int i, float factor)
    {
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
#pragma unroll
            for (int k = 0; k < WIDE; k++)
                at[i][g].at[k] *= factor;
    }

    // Adds `weights` (TILE by TILE) times `rows`.
    __device__ void add(const float *weights, const float *rows)
    {
        constexpr int TILE = tile_rows<SIZE>;
        const int y = threadIdx.x / SIDE;
#pragma unroll 1
        for (int l = 0; l < TILE; l += 4) {
            pack<4> left[EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++)
                left[i] = load<4>(weights + (y + i * SIDE) * pitch<TILE> + l);
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int g = 0; g < GROUPS; g++) {
                    const pack<WIDE> right = load<WIDE>(rows + (l + k) * pitch<SIZE> + column(g));
#pragma unroll
                    for (int i = 0; i < EACH; i++)
#pragma unroll
                        for (int c = 0; c < WIDE; c++)
                            at[i][g].at[c] += left[i].at[k] * right.at[c];
                }
        }
    }

    // Writes or adds to the rows from `first` on of a matrix of `rows` rows.
    template <class T>
    __device__ void write(T *to, size_t stride, size_t first, size_t rows, const head_shape &head, bool adds) const
    {
        const int y = threadIdx.x / SIDE;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const size_t row = first + y + i * SIDE;
            if (row >= rows)
                continue;
#pragma unroll
            for (int g = 0; g < GROUPS; g++) {
                T *const at_row = to + row * stride + column(g);
                if (head.packed && !adds && column(g) < head.size)
                    store<WIDE>(at_row, at[i][g]);
#pragma unroll
                for (int k = 0; k < WIDE; k++)
                    if ((!head.packed || adds) && column(g) + k < head.size)
                        store<1>(at_row + k, pack<1>{ at[i][g].at[k] + (adds ? load<1>(at_row + k).at[0] : 0) });
            }
        }
    }
};

// Reduces over the sixteen threads of a row.
template <class Both>
__device__ inline float over_side(float x, Both both)
{
#pragma unroll
    for (int lanes = SIDE / 2; lanes > 0; lanes /= 2)
        x = both(x, __shfl_xor_sync(WHOLE_WARP, x, lanes));
    return x;
}

// --- which keys are seen --------------------------------------------------------------------

// Each kernel is compiled with and without a pattern, whose rule would cost a plain one registers, and thereby the
// second block of a multiprocessor. `query` and `key` are positions, and those of tiles are where the tiles begin.
struct all_before {
    // The first of the tiles of keys from `tile` on that a query of a tile sees.
    __device__ size_t next_tile(size_t, size_t tile, int) const
    {
        return tile;
    }
    // Whether each query of a tile may see each key of a tile of `rows`.
    __device__ bool sees_all(size_t query, size_t key, int rows) const
    {
        return key + rows <= query;
    }
    __device__ bool sees(size_t query, size_t key) const
    {
        return key <= query;
    }
    // How many of the queries there are up to the last that sees a key of a tile.
    __device__ size_t queries_up_to_last(const head_shape &head, size_t, int) const
    {
        return head.queries;
    }
};

struct by_pattern {
    attention_pattern pattern;

    __device__ size_t next_tile(size_t query, size_t tile, int rows) const
    {
        return attention_run(&pattern, query, tile * rows).begin / rows;
    }
    __device__ bool sees_all(size_t query, size_t key, int rows) const
    {
        return attention_sees_all(&pattern, query, query + rows, key, key + rows);
    }
    __device__ bool sees(size_t query, size_t key) const
    {
        return attention_sees(&pattern, query, key);
    }
    __device__ size_t queries_up_to_last(const head_shape &head, size_t key, int rows) const
    {
        const size_t end = attention_query_end(&pattern, key, key + rows);
        return end >= head.keys ? head.queries : end > head.first ? end - head.first : 0;
    }
};

// --- forward ------------------------------------------------------------------------------

// The rows' largest scores so far, and the sums of exp(score - largest). When a larger score comes, sums and outputs
// are scaled down.
template <int SIZE>
struct running {
    static constexpr int EACH = scores<SIZE>::EACH;
    float shift[EACH], sum[EACH];

    // Turns scores into exp(score - shift).
    __device__ void take(scores<SIZE> &s, rows_sum<SIZE> &out)
    {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float most = s.at[i][0];
#pragma unroll
            for (int j = 1; j < EACH; j++)
                most = largest()(s.at[i][j], most);
            most = largest()(over_side(most, largest()), shift[i]);
            const float shrink = expf(shift[i] - most);
            float added_sum = 0;
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                s.at[i][j] = expf(s.at[i][j] - most);
                added_sum += s.at[i][j];
            }
            sum[i] = sum[i] * shrink + over_side(added_sum, added());
            shift[i] = most;
            out.scale(i, shrink);
        }
    }
};

// Scores of keys that their query does not see, or after the last, become minus infinity.
// `query` and `key` are the positions where the tiles begin.
template <int SIZE, class Sight>
__device__ inline void hide_unseen_keys(scores<SIZE> &s, const Sight &sight, size_t query, size_t key, size_t keys)
{
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < scores<SIZE>::EACH; i++)
#pragma unroll
        for (int j = 0; j < scores<SIZE>::EACH; j++) {
            const size_t column = key + x + j * SIDE;
            if (!sight.sees(query + y + i * SIDE, column) || column >= keys)
                s.at[i][j] = -INFINITY;
        }
}

// The number of tiles of keys up to the last that a tile of queries attends to. Without a pattern it attends to all but
// the last ones as a whole.
__device__ inline size_t tiles_seen(const head_shape &head, size_t query, int rows)
{
    const size_t end = head.first + query + rows;
    return tiles_of(end < head.keys ? end : head.keys, rows);
}

template <int SIZE>
constexpr size_t tile_floats = tile_rows<SIZE> * pitch<SIZE>;
template <int SIZE>
constexpr size_t weight_floats = tile_rows<SIZE> * pitch<tile_rows<SIZE>>;

template <int SIZE, class T, class Sight>
static __global__ void __launch_bounds__(BLOCK, 1) attention_kernel(const struct attention shape, const head_shape head,
                                                                 const Sight sight, T *out, float *log_sums,
                                                                 const T *qkv, float factor)
{
    constexpr int TILE = tile_rows<SIZE>;
    DYNAMIC_SHARED(memory);
    float *const queries = memory, *const keys = queries + tile_floats<SIZE>;
    float *const values = keys + tile_floats<SIZE>, *const weights = values + tile_floats<SIZE>;
    const size_t tiles = tiles_of(head.queries, TILE), width = shape.heads * shape.size;
    const place here = place_of(shape, head, tiles);
    const size_t tile = tiles - 1 - here.tile;  // the longest rows first
    const size_t query = head.first + tile * TILE, seen = tiles_seen(head, tile * TILE, TILE);
    qkv += here.qkv;
    load_tile<SIZE>(queries, qkv + head.first * head.stride, head.stride, tile * TILE, head.queries, head, factor);
    running<SIZE> rows;
#pragma unroll
    for (int i = 0; i < scores<SIZE>::EACH; i++)
        rows.shift[i] = LEAST_FLOAT, rows.sum[i] = 0;
    rows_sum<SIZE> sum = {};
    for (size_t other = sight.next_tile(query, 0, TILE); other < seen;
         other = sight.next_tile(query, other + 1, TILE)) {
        __syncthreads();
        load_tile<SIZE>(keys, qkv + width, head.stride, other * TILE, head.keys, head, 1);
        load_tile<SIZE>(values, qkv + 2 * width, head.stride, other * TILE, head.keys, head, 1);
        __syncthreads();
        scores<SIZE> s = multiply_rows<SIZE>(queries, keys);
        if (!sight.sees_all(query, other * TILE, TILE))
            hide_unseen_keys<SIZE>(s, sight, query, other * TILE, head.keys);
        rows.take(s, sum);
        store_scores<SIZE>(weights, s);
        __syncthreads();
        sum.add(weights, values);
    }
#pragma unroll
    for (int i = 0; i < scores<SIZE>::EACH; i++) {
        const size_t row = tile * TILE + threadIdx.x / SIDE + i * SIDE;
        sum.scale(i, 1 / rows.sum[i]);
        if (threadIdx.x % SIDE == 0 && row < head.queries)
            log_sums[here.log_sums + row] = rows.shift[i] + logf(rows.sum[i]);
    }
    sum.write(out + here.out, head.out_stride, tile * TILE, head.queries, head, false);
}

// --- backward ------------------------------------------------------------------------------

// Here p = exp(score - log_sum), d = the product of a row of the gradient and its row of the output, and
// dp = gradient * value:
//
//     ds = p (dp - d)      queries' gradient = factor * ds keys
//                          keys' gradient    = factor * ds^T queries
//                          values' gradient  = p^T gradient

// d for the rows from `first` on, whose gradient is in shared memory.
template <int SIZE, class T>
__device__ inline void multiply_outputs(float *d, const float *gradients, const T *out, size_t first,
                                        const head_shape &head)
{
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
#pragma unroll
    for (int i = 0; i < scores<SIZE>::EACH; i++) {
        const int row = y + i * SIDE;
        float sum = 0;
        if (first + row < head.queries)
            for (int column = x; column < head.size; column += SIDE)
                sum += gradients[row * pitch<SIZE> + column]
                       * load<1>(out + (first + row) * head.out_stride + column).at[0];
        sum = over_side(sum, added());
        if (x == 0)
            d[row] = sum;
    }
}

// Loads log-sums for the rows from `first` on. Past the last row it stores the value that makes p zero.
template <int SIZE>
__device__ inline void load_log_sums(float *to, const float *log_sums, size_t first, size_t queries)
{
    for (int row = threadIdx.x; row < tile_rows<SIZE>; row += BLOCK)
        to[row] = first + row < queries ? log_sums[first + row] : INFINITY;
}

template <class T>
struct gradients_of {
    T *qkv_gradient;
    const T *out_gradient, *out;
    const float *log_sums;
    const T *qkv;
    float factor;
    bool adds;  // to the gradients of keys and values
};

template <int SIZE, class T, class Sight>
static __global__ void __launch_bounds__(BLOCK, 1) queries_kernel(const struct attention shape, const head_shape head,
                                                               const Sight sight, const gradients_of<T> g)
{
    constexpr int TILE = tile_rows<SIZE>, EACH = scores<SIZE>::EACH;
    SHARED(float, d, [TILE]);
    SHARED(float, log_sums, [TILE]);
    DYNAMIC_SHARED(memory);
    float *const queries = memory, *const gradients = queries + tile_floats<SIZE>;
    float *const keys = gradients + tile_floats<SIZE>, *const values = keys + tile_floats<SIZE>;
    float *const slopes = values + tile_floats<SIZE>;
    const size_t tiles = tiles_of(head.queries, TILE), width = shape.heads * shape.size;
    const place here = place_of(shape, head, tiles);
    const size_t tile = tiles - 1 - here.tile;
    const size_t query = head.first + tile * TILE, seen = tiles_seen(head, tile * TILE, TILE);
    const T *const qkv = g.qkv + here.qkv;
    load_tile<SIZE>(queries, qkv + head.first * head.stride, head.stride, tile * TILE, head.queries, head, g.factor);
    load_tile<SIZE>(gradients, g.out_gradient + here.out, head.out_stride, tile * TILE, head.queries, head, 1);
    load_log_sums<SIZE>(log_sums, g.log_sums + here.log_sums, tile * TILE, head.queries);
    __syncthreads();
    multiply_outputs<SIZE>(d, gradients, g.out + here.out, tile * TILE, head);
    const int y = threadIdx.x / SIDE;
    rows_sum<SIZE> sum = {};
    for (size_t other = sight.next_tile(query, 0, TILE); other < seen;
         other = sight.next_tile(query, other + 1, TILE)) {
        __syncthreads();
        load_tile<SIZE>(keys, qkv + width, head.stride, other * TILE, head.keys, head, 1);
        load_tile<SIZE>(values, qkv + 2 * width, head.stride, other * TILE, head.keys, head, 1);
        __syncthreads();
        scores<SIZE> s = multiply_rows<SIZE>(queries, keys);
        if (!sight.sees_all(query, other * TILE, TILE))
            hide_unseen_keys<SIZE>(s, sight, query, other * TILE, head.keys);
        const scores<SIZE> dp = multiply_rows<SIZE>(gradients, values);
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                s.at[i][j] = expf(s.at[i][j] - log_sums[y + i * SIDE]) * (dp.at[i][j] - d[y + i * SIDE]);
        store_scores<SIZE>(slopes, s);
        __syncthreads();
        sum.add(slopes, keys);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
        sum.scale(i, g.factor);
    sum.write(g.qkv_gradient + here.qkv + head.first * head.stride, head.stride, tile * TILE, head.queries, head,
              false);
}

// Rows are keys here, and columns queries.
template <int SIZE, class T, class Sight>
static __global__ void __launch_bounds__(BLOCK, 1) keys_kernel(const struct attention shape, const head_shape head,
                                                            const Sight sight, const gradients_of<T> g)
{
    constexpr int TILE = tile_rows<SIZE>, EACH = scores<SIZE>::EACH;
    SHARED(float, d, [TILE]);
    SHARED(float, log_sums, [TILE]);
    DYNAMIC_SHARED(memory);
    float *const keys = memory, *const values = keys + tile_floats<SIZE>;
    float *const queries = values + tile_floats<SIZE>, *const gradients = queries + tile_floats<SIZE>;
    float *const weights = gradients + tile_floats<SIZE>;
    const size_t tiles = tiles_of(head.keys, TILE), width = shape.heads * shape.size;
    const place here = place_of(shape, head, tiles);
    const size_t key = here.tile * TILE, reader = key > head.first ? (key - head.first) / TILE * TILE : 0;
    const size_t readers = sight.queries_up_to_last(head, key, TILE);
    const T *const qkv = g.qkv + here.qkv;
    load_tile<SIZE>(keys, qkv + width, head.stride, key, head.keys, head, 1);
    load_tile<SIZE>(values, qkv + 2 * width, head.stride, key, head.keys, head, 1);
    const int x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    rows_sum<SIZE> keys_sum = {}, values_sum = {};
    for (size_t query = reader; query < readers; query += TILE) {
        __syncthreads();
        load_tile<SIZE>(queries, qkv + head.first * head.stride, head.stride, query, head.queries, head, g.factor);
        load_tile<SIZE>(gradients, g.out_gradient + here.out, head.out_stride, query, head.queries, head, 1);
        load_log_sums<SIZE>(log_sums, g.log_sums + here.log_sums, query, head.queries);
        __syncthreads();
        multiply_outputs<SIZE>(d, gradients, g.out + here.out, query, head);
        scores<SIZE> p = multiply_rows<SIZE>(keys, queries);
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const bool seen = sight.sees(head.first + query + x + j * SIDE, key + y + i * SIDE);
                p.at[i][j] = seen ? expf(p.at[i][j] - log_sums[x + j * SIDE]) : 0;
            }
        store_scores<SIZE>(weights, p);
        __syncthreads();
        values_sum.add(weights, gradients);
        const scores<SIZE> dp = multiply_rows<SIZE>(values, gradients);
#pragma unroll
        for (int i = 0; i < EACH; i++)
#pragma unroll
            for (int j = 0; j < EACH; j++)
                p.at[i][j] *= dp.at[i][j] - d[x + j * SIDE];
        __syncthreads();
        store_scores<SIZE>(weights, p);
        __syncthreads();
        keys_sum.add(weights, queries);  // these include the factor
    }
    keys_sum.write(g.qkv_gradient + here.qkv + width, head.stride, key, head.keys, head, g.adds);
    values_sum.write(g.qkv_gradient + here.qkv + 2 * width, head.stride, key, head.keys, head, g.adds);
}

// --- launches ------------------------------------------------------------------------------

// `packed` holds if every row of every matrix, in global memory, can be accessed in packs of four.
template <class T>
static head_shape head_shape_of(const struct attention *a, const T *qkv, const T *out, const T *more, const T *most)
{
    const size_t width = a->heads * a->size;
    return { a->sequence, a->first, a->first + a->sequence, attention_whole(a), (int)a->size, 3 * width, width,
             head_of_rows<4>(a->size, 1, qkv, out, more, most) == 0 };
}

// Launches a block for each tile of `rows` rows of each head.
template <int SIZE, class... Parameters, class... Arguments>
static cudaError_t launch_heads(const struct cuda_launch *launch, const struct attention *a, size_t rows, size_t floats,
                                void (*kernel)(Parameters...), Arguments... arguments)
{
    const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    (int)(floats * sizeof(float)));
    if (status != cudaSuccess)
        return status;
    return launch_blocks(launch, kernel, a->batch * a->heads * tiles_of(rows, tile_rows<SIZE>), BLOCK,
                         floats * sizeof(float), arguments...);
}

template <int SIZE, class T, class Sight>
static cudaError_t attend(const struct cuda_launch *launch, const struct attention *a, const Sight &sight, T *out,
                          float *log_sums, const T *qkv)
{
    const head_shape head = head_shape_of<T>(a, qkv, out, NULL, NULL);
    return launch_heads<SIZE>(launch, a, head.queries, 3 * tile_floats<SIZE> + weight_floats<SIZE>,
                              attention_kernel<SIZE, T, Sight>, *a, head, sight, out, log_sums, qkv,
                              1 / sqrtf((float)a->size));
}

template <int SIZE, class T, class Sight>
static cudaError_t attend_backward(const struct cuda_launch *launch, const struct attention *a, const Sight &sight,
                                   T *qkv_gradient, const T *out_gradient, const T *out, const float *log_sums,
                                   const T *qkv)
{
    constexpr size_t floats = 4 * tile_floats<SIZE> + weight_floats<SIZE>;
    const head_shape head = head_shape_of<T>(a, qkv, out, qkv_gradient, out_gradient);
    const gradients_of<T> g = { qkv_gradient, out_gradient, out, log_sums, qkv, 1 / sqrtf((float)a->size),
                                !attention_is_last(a) };
    const cudaError_t status =
        launch_heads<SIZE>(launch, a, head.queries, floats, queries_kernel<SIZE, T, Sight>, *a, head, sight, g);
    if (status != cudaSuccess)
        return status;
    return launch_heads<SIZE>(launch, a, head.keys, floats, keys_kernel<SIZE, T, Sight>, *a, head, sight, g);
}

// Evaluates `launched` with SIZE the smallest size that holds a head.
#define WITH_SIZE(size, launched)       \
    do {                                \
        if ((size) <= 32) {             \
            constexpr int SIZE = 32;    \
            return launched;            \
        } else if ((size) <= 64) {      \
            constexpr int SIZE = 64;    \
            return launched;            \
        } else if ((size) <= 128) {     \
            constexpr int SIZE = 128;   \
            return launched;            \
        } else if ((size) <= 256) {     \
            constexpr int SIZE = 256;   \
            return launched;            \
        }                               \
        return cudaErrorInvalidValue;   \
    } while (0)

template <class T>
static cudaError_t attend_any(const struct cuda_launch *launch, const struct attention *a, T *out, float *log_sums,
                              const T *qkv)
{
    if (attention_is_plain(a))
        WITH_SIZE(a->size, (attend<SIZE, T>(launch, a, all_before{}, out, log_sums, qkv)));
    WITH_SIZE(a->size, (attend<SIZE, T>(launch, a, by_pattern{ a->pattern }, out, log_sums, qkv)));
}

cudaError_t cuda_attention(const struct cuda_launch *launch, const struct attention *attention, struct values *out,
                           float *log_sums, const struct values *qkv, void *)
{
    WITH_NUMBERS(launch, attend_any(launch, attention, (T *)out, log_sums, (const T *)qkv));
}

template <class T>
static cudaError_t attend_backward_any(const struct cuda_launch *launch, const struct attention *a, T *qkv_gradient,
                                       const T *out_gradient, const T *out, const float *log_sums, const T *qkv)
{
    if (attention_is_plain(a))
        WITH_SIZE(a->size, (attend_backward<SIZE, T>(launch, a, all_before{}, qkv_gradient, out_gradient, out, log_sums,
                                                     qkv)));
    WITH_SIZE(a->size, (attend_backward<SIZE, T>(launch, a, by_pattern{ a->pattern }, qkv_gradient, out_gradient, out,
                                                 log_sums, qkv)));
}

cudaError_t cuda_attention_backward(const struct cuda_launch *launch, const struct attention *attention,
                                    struct values *qkv_gradient, const struct values *out_gradient,
                                    const struct values *out, const float *log_sums, const struct values *qkv, void *)
{
    WITH_NUMBERS(launch, attend_backward_any(launch, attention, (T *)qkv_gradient, (const T *)out_gradient,
                                             (const T *)out, log_sums, (const T *)qkv));
}

// --- loading ---------------------------------------------------------------------------------

template <int SIZE, class T>
static cudaError_t load_sized()
{
    return first_bad(load_kernels(attention_kernel<SIZE, T, all_before>, queries_kernel<SIZE, T, all_before>,
                                  keys_kernel<SIZE, T, all_before>),
                     load_kernels(attention_kernel<SIZE, T, by_pattern>, queries_kernel<SIZE, T, by_pattern>,
                                  keys_kernel<SIZE, T, by_pattern>));
}

template <class T>
static cudaError_t load_of()
{
    return first_bad(first_bad(load_sized<32, T>(), load_sized<64, T>()),
                     first_bad(load_sized<128, T>(), load_sized<256, T>()));
}

cudaError_t cuda_load_attention(void)
{
    return LOAD_OF_ALL;
}
