// Words and positions, and their gradients.
//
// A word's gradient is the sum over the rows with that word. The rows are first sorted by token (sort.cuh), so that
// each word's rows are adjacent, and every sum has a fixed order without atomics: a warp for each run of equal tokens;
// long runs by the whole block.
#include "device/cuda/sort.cuh"

constexpr uint32_t WARPS = BLOCK / WARP;

// --- forward ---------------------------------------------------------------------------

// 16 bytes at a time: each_kernel<8, words_body<T>>, 2 loads, 1 store
template <class T>
struct words_body {
    struct embedding e;
    T *out;
    const T *words, *positions;
    uint32_t *failure;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t row = row_of(i, e.columns), column = i - row * e.columns;
        const size_t position = row - row_of(row, e.sequence) * e.sequence;
        const int32_t token = e.tokens[row];
        if (token < 0 || (size_t)token >= e.vocabulary) {
            *failure = CUDA_FAILURE_TOKEN;
            return;
        }
        const size_t word = (size_t)token - e.first;
        const pack<N> x = word < e.own ? load<N>(words + word * e.columns + column) : pack<N>{};
        const pack<N> y = positions ? load<N>(positions + position * e.columns + column) : pack<N>{};
        store<N>(out + i, each<N>([&](int k) { return x.at[k] + y.at[k]; }));
    }
};

template <class T>
static cudaError_t embed(const struct cuda_launch *launch, const struct embedding *e, T *out, const T *words,
                         const T *positions)
{
    const size_t count = e->rows * e->columns;
    struct embedding whole = *e;
    whole.own = embedding_own(e);
    return launch_each<pack_of<T>>(launch, words_body<T>{ whole, out, words, positions, launch->failure }, count,
                                   head_of_rows<pack_of<T>>(e->columns, count, out, words, positions));
}

cudaError_t cuda_embedding(const struct cuda_launch *launch, const struct embedding *embedding, struct values *out,
                           const struct values *words, const struct values *positions)
{
    WITH_NUMBERS(launch, embed(launch, embedding, (T *)out, (const T *)words, (const T *)positions));
}

// --- the order of the rows --------------------------------------------------------------

// Tokens outside the vocabulary have no gradient, and neither have tokens whose words are not there.
struct word_key {
    const int32_t *tokens;
    uint32_t vocabulary;  // one past 2^31 has no more tokens than that
    uint32_t first, own;  // words that are there
    uint32_t *failure;

    __device__ uint32_t at(uint32_t row) const
    {
        const int32_t token = tokens[row];
        if (token >= 0 && (uint32_t)token < vocabulary)
            return (uint32_t)token - first < own ? (uint32_t)token - first : NO_KEY;
        *failure = CUDA_FAILURE_TOKEN;
        return NO_KEY;
    }
};

// --- sums of runs ---------------------------------------------------------------------------

// Longer runs are shared by the warps of a block.
constexpr uint32_t LONG_RUN = 64;
static_assert(LONG_RUN >= WARPS, "of the runs that begin in a block only the last can be a long one");

template <class T>
struct run_sums {
    const uint32_t *tokens, *rows;  // sorted
    uint32_t count;
    size_t columns;
    const T *gradient;
    float *words;
};

// Adds the rows of [first, end), in order.
template <int PACK, class T>
__device__ inline pack<PACK> sum_run(const run_sums<T> &runs, size_t column, uint32_t first, uint32_t end)
{
    pack<PACK> sum = {};
#pragma unroll 4
    for (uint32_t i = first; i < end; i++) {
        const pack<PACK> x = load<PACK>(runs.gradient + runs.rows[i] * runs.columns + column);
#pragma unroll
        for (int k = 0; k < PACK; k++)
            sum.at[k] += x.at[k];
    }
    return sum;
}

template <int PACK, class T>
__device__ inline void add_to_word(const run_sums<T> &runs, size_t column, uint32_t token, const pack<PACK> &sum)
{
    float *to = runs.words + token * runs.columns + column;
    const pack<PACK> before = load<PACK>(to);
    store<PACK>(to, each<PACK>([&](int k) { return before.at[k] + sum.at[k]; }));
}

// Block (x, y) has the runs that begin at the WARPS places from x on, and PACK columns for each lane of a warp.
template <int PACK, class T>
static __global__ void __launch_bounds__(BLOCK) runs_kernel(const run_sums<T> runs, size_t tiles)
{
    SHARED(uint32_t, ends, [WARPS]);
    SHARED(float, partial, [WARPS][PACK][WARP]);
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const size_t column = (blockIdx.x % tiles * WARP + lane) * PACK;
    const uint32_t start = (uint32_t)(blockIdx.x / tiles) * WARPS;
    const bool inside = column < runs.columns;
    if (lane == 0)
        ends[warp] = end_of_run(runs.tokens, runs.count, start + warp);
    __syncthreads();
    const uint32_t first = start + warp, end = ends[warp];
    if (inside && end > first && end - first <= LONG_RUN)
        add_to_word<PACK>(runs, column, runs.tokens[first], sum_run<PACK>(runs, column, first, end));
    for (unsigned run = 0; run < WARPS; run++) {
        const uint32_t length = ends[run] - (start + run);
        if (length <= LONG_RUN)
            continue;
        const uint32_t each_warp = (length + WARPS - 1) / WARPS;
        const uint32_t from = warp * each_warp < length ? warp * each_warp : length;
        const uint32_t to = from + each_warp < length ? from + each_warp : length;
        pack<PACK> sum = {};
        if (inside)
            sum = sum_run<PACK>(runs, column, start + run + from, start + run + to);
#pragma unroll
        for (int k = 0; k < PACK; k++)
            partial[warp][k][lane] = sum.at[k];
        __syncthreads();
        if (warp == 0 && inside) {
#pragma unroll
            for (unsigned other = 1; other < WARPS; other++)
#pragma unroll
                for (int k = 0; k < PACK; k++)
                    sum.at[k] += partial[other][k][lane];
            add_to_word<PACK>(runs, column, runs.tokens[start + run], sum);
        }
        break;  // this run reaches past the block's places, so there is no other long one
    }
}

// Every position occurs once in each sequence of the batch.
template <class T>
struct positions_body {
    float *positions;
    const T *gradient;
    size_t rows, sequence, columns;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t step = sequence * columns;
        pack<N> sum = {};
#pragma unroll 4
        for (size_t index = i; index < rows * columns; index += step) {
            const pack<N> x = load<N>(gradient + index);
#pragma unroll
            for (int k = 0; k < N; k++)
                sum.at[k] += x.at[k];
        }
        const pack<N> before = load<N>(positions + i);
        store<N>(positions + i, each<N>([&](int k) { return before.at[k] + sum.at[k]; }));
    }
};

template <int PACK, class T>
static cudaError_t add_rows(const struct cuda_launch *launch, const struct embedding *e, float *words,
                            float *positions, const T *gradient)
{
    const size_t tiles = blocks_for(e->columns, WARP * PACK);
    const uint32_t vocabulary = e->vocabulary < NO_KEY ? (uint32_t)e->vocabulary : NO_KEY;
    const uint32_t word_count = embedding_own(e) < NO_KEY ? (uint32_t)embedding_own(e) : NO_KEY;
    for (size_t start = 0; start < e->rows; start += PART) {
        const uint32_t rows = (uint32_t)(e->rows - start < PART ? e->rows - start : PART);
        const sorting sort = sorting_in(launch, rows);
        const word_key key = { e->tokens + start, vocabulary, (uint32_t)e->first, word_count, launch->failure };
        const run_sums<T> runs = { sort.keys, sort.order, rows, e->columns, gradient + start * e->columns, words };
        cudaError_t status = sort_rows(launch, sort, key);
        if (status == cudaSuccess)
            status = launch_blocks(launch, runs_kernel<PACK, T>, blocks_for(rows, WARPS) * tiles, BLOCK, 0, runs,
                                   tiles);
        if (status != cudaSuccess)
            return status;
    }
    const positions_body<T> body = { positions, gradient, e->rows, e->sequence, e->columns };
    const size_t count = (e->rows < e->sequence ? e->rows : e->sequence) * e->columns;
    return launch_each<PACK>(launch, body, count, PACK == 1 ? count : 0);
}

template <class T>
static cudaError_t embed_backward(const struct cuda_launch *launch, const struct embedding *e, float *words,
                                  float *positions, const T *gradient)
{
    // The sums are floats: four fill 16 bytes.
    if (head_of_rows<4>(e->columns, e->columns, words, positions, gradient) == 0)
        return add_rows<4>(launch, e, words, positions, gradient);
    return add_rows<1>(launch, e, words, positions, gradient);
}

cudaError_t cuda_embedding_backward(const struct cuda_launch *launch, const struct embedding *embedding,
                                    float *words_gradient, float *positions_gradient,
                                    const struct values *out_gradient)
{
    WITH_NUMBERS(launch, embed_backward(launch, embedding, words_gradient, positions_gradient,
                                        (const T *)out_gradient));
}

// --- loading ---------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(each_kernel<pack_of<T>, words_body<T>>, runs_kernel<4, T>, runs_kernel<1, T>,
                        each_kernel<4, positions_body<T>>, each_kernel<1, positions_body<T>>);
}

cudaError_t cuda_load_embedding(void)
{
    return first_bad(load_kernels(rank_kernel<word_key>, merge_kernel<word_key>), LOAD_OF_ALL);
}
