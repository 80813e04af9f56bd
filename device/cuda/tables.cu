// Kernels of tables (table_kernels.h), in floats. All but logarithms and losses have the bits of the CPU: a thread adds
// up the numbers of its own columns, in the stated order, and every product is rounded before it is added.
//
// The gradient of a row is the sum over the ids that name it. The ids are first sorted by row (sort.cuh). A warp then
// has a row, and adds its ids' gradients one by one to what is there, without atomics.
#include "device/cuda/sort.cuh"

enum { PACK = pack_of<float>, SIXTEEN = 16 };
constexpr uint32_t WARPS = BLOCK / WARP;

// sum + a * b, rounded twice.
template <int N>
__device__ inline void add_product(pack<N> &sum, const pack<N> &a, float b)
{
#pragma unroll
    for (int k = 0; k < N; k++)
        sum.at[k] = __fadd_rn(sum.at[k], __fmul_rn(a.at[k], b));
}

// --- bags ------------------------------------------------------------------------------------------

struct bag_range {
    uint32_t first, end;
};

// The ids of a bag; none if its ends are wrong.
__device__ inline bag_range range_of(const struct bags &bags, size_t bag, uint32_t *failure)
{
    const int32_t first = bag > 0 ? bags.ends[bag - 1] : 0, end = bags.ends[bag];
    if (first >= 0 && end >= first && (size_t)end <= bags.most)
        return { (uint32_t)first, (uint32_t)end };
    *failure = CUDA_FAILURE_BAG;
    return { 0, 0 };
}

// The place of an id's row in the matrix; NO_KEY if it has none.
__device__ inline uint32_t place_of(const struct bags &bags, uint32_t position, uint32_t *failure)
{
    const int32_t id = bags.ids[position];
    if (id >= 0 && (size_t)id < bags.rows)
        return !bags.places ? (uint32_t)id : bags.places[id] >= 0 ? (uint32_t)bags.places[id] : NO_KEY;
    *failure = CUDA_FAILURE_ID;
    return NO_KEY;
}

__device__ inline float share_of(const struct bags &bags, const bag_range &range)
{
    return bags.is_mean && range.end > range.first ? 1.0f / (float)(range.end - range.first) : 1.0f;
}

struct bag_body {
    struct bags bags;
    float *out;
    const float *matrix;
    uint32_t *failure;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t bag = row_of(i, bags.columns), column = i - bag * bags.columns;
        const bag_range range = range_of(bags, bag, failure);
        const float share = share_of(bags, range);
        pack<N> sum = {};
        for (uint32_t position = range.first; position < range.end; position++) {
            const uint32_t place = place_of(bags, position, failure);
            if (place != NO_KEY)
                add_product(sum, load<N>(matrix + place * bags.columns + column),
                            bags.weights ? bags.weights[position] : 1.0f);
        }
        store<N>(out + i, each<N>([&](int k) { return bags.is_mean ? __fmul_rn(sum.at[k], share) : sum.at[k]; }));
    }
};

cudaError_t cuda_bag(const struct cuda_launch *launch, const struct bags *bags, struct values *out,
                     const struct values *matrix)
{
    const size_t count = bags->count * bags->columns;
    const bag_body body = { *bags, (float *)out, (const float *)matrix, launch->failure };
    return launch_each<PACK>(launch, body, count, head_of_rows<PACK>(bags->columns, count, body.out, body.matrix));
}

// The bag of each id from `start` on; NO_KEY behind the last bag.
struct owners_body {
    struct bags bags;
    uint32_t *owners;
    uint32_t start;

    template <int>
    __device__ void at(size_t i) const
    {
        const int32_t position = (int32_t)(start + i);
        size_t low = 0, high = bags.count;  // how many bags end before it
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (bags.ends[middle] <= position)
                low = middle + 1;
            else
                high = middle;
        }
        owners[i] = low < bags.count ? (uint32_t)low : NO_KEY;
    }
};

struct place_key {
    struct bags bags;
    const uint32_t *owners;
    uint32_t start;
    uint32_t *failure;

    __device__ uint32_t at(uint32_t row) const
    {
        return owners[row] == NO_KEY ? NO_KEY : place_of(bags, start + row, failure);
    }
};

struct row_sums {
    struct bags bags;
    const uint32_t *keys, *order, *owners;  // sorted keys and ids; bags of ids as they came
    uint32_t count, start;
    const float *gradient;
    float *matrix;
    uint32_t *failure;
};

// Block (x, y) has the runs that begin at the WARPS places from x on, and N columns for each lane of a warp.
template <int N>
static __global__ void __launch_bounds__(BLOCK) row_sums_kernel(const row_sums sums, size_t tiles)
{
    const struct bags &bags = sums.bags;
    const size_t column = (blockIdx.x % tiles * WARP + threadIdx.x % WARP) * N;
    const uint32_t first = (uint32_t)(blockIdx.x / tiles) * WARPS + threadIdx.x / WARP;
    const uint32_t end = end_of_run(sums.keys, sums.count, first);
    if (column >= bags.columns || end <= first)
        return;
    float *const to = sums.matrix + sums.keys[first] * bags.columns + column;
    pack<N> sum = load<N>(to);
#pragma unroll 4
    for (uint32_t i = first; i < end; i++) {
        const uint32_t id = sums.order[i], owner = sums.owners[id];
        const float share = share_of(bags, range_of(bags, owner, sums.failure));
        add_product(sum, load<N>(sums.gradient + owner * bags.columns + column),
                    bags.weights ? __fmul_rn(share, bags.weights[sums.start + id]) : share);
    }
    store<N>(to, sum);
}

template <int N>
static cudaError_t add_rows(const struct cuda_launch *launch, const struct bags *bags, float *matrix,
                            const float *gradient)
{
    uint32_t *const owners = (uint32_t *)launch->scratch + SORT_BYTES / sizeof(uint32_t);
    static_assert(SORT_BYTES + PART * sizeof *owners <= CUDA_SCRATCH_BYTES, "the bags of a part fit, too");
    const size_t tiles = blocks_for(bags->columns, WARP * N);
    cudaError_t status = cudaSuccess;
    for (size_t start = 0; status == cudaSuccess && start < bags->most; start += PART) {
        const uint32_t count = (uint32_t)(bags->most - start < PART ? bags->most - start : PART);
        const sorting sort = sorting_in(launch, count);
        const row_sums sums = { *bags, sort.keys, sort.order, owners, count, (uint32_t)start, gradient, matrix,
                                launch->failure };
        status = launch_each<1>(launch, owners_body{ *bags, owners, (uint32_t)start }, count, 0);
        if (status == cudaSuccess)
            status = sort_rows(launch, sort, place_key{ *bags, owners, (uint32_t)start, launch->failure });
        if (status == cudaSuccess)
            status = launch_blocks(launch, row_sums_kernel<N>, blocks_for(count, WARPS) * tiles, BLOCK, 0, sums, tiles);
    }
    return status;
}

cudaError_t cuda_bag_backward(const struct cuda_launch *launch, const struct bags *bags, float *matrix_gradient,
                              const struct values *out_gradient)
{
    const float *gradient = (const float *)out_gradient;
    if (bags->count == 0)
        return cudaSuccess;
    if (head_of_rows<PACK>(bags->columns, bags->columns, matrix_gradient, gradient) == 0)
        return add_rows<PACK>(launch, bags, matrix_gradient, gradient);
    return add_rows<1>(launch, bags, matrix_gradient, gradient);
}

// --- lists of rows ---------------------------------------------------------------------------------

// Rows of ids from `start` on; NO_KEY behind the last bag.
struct row_key {
    struct bags bags;
    uint32_t start;
    uint32_t *failure;

    __device__ uint32_t at(uint32_t i) const
    {
        const bag_range last = range_of(bags, bags.count - 1, failure);
        return start + i < last.end ? place_of(bags, start + i, failure) : NO_KEY;
    }
};

struct listing {
    struct row_list list;
    const uint32_t *keys;      // rows, those of one number behind each other
    uint32_t count, start;     // how many there are at most, and in front of them
    const uint32_t *counted;   // how many there are from the start on; NULL: all
    uint32_t *found;           // by chunk of keys: how many rows are new
    uint32_t *failure;

    // Whether the key at `i` is the first of its row.
    __device__ bool is_first(uint32_t i) const
    {
        return i < count && !(counted && start + i >= *counted) && keys[i] != NO_KEY
            && (i == 0 || keys[i - 1] != keys[i]);
    }

    // Whether it is, besides, not in the list yet.
    __device__ bool is_new(uint32_t i) const
    {
        if (!is_first(i))
            return false;
        const uint32_t place = (uint32_t)list.places[keys[i]];
        return place >= *list.count || (uint32_t)list.numbers[place] != keys[i];
    }
};

static __global__ void __launch_bounds__(BLOCK) count_new_kernel(const listing x)
{
    const uint32_t mine = x.is_new(blockIdx.x * BLOCK + threadIdx.x) ? 1 : 0;
    const uint32_t all = over_group<BLOCK>(mine, added());
    if (threadIdx.x == 0)
        x.found[blockIdx.x] = all;
}

// New rows go behind those of earlier chunks, in the order of the keys.
static __global__ void __launch_bounds__(BLOCK) place_new_kernel(const listing x)
{
    SHARED(uint32_t, news, [BLOCK]);
    const uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
    const bool is_new = x.is_new(i);
    uint32_t before = 0;
    for (uint32_t chunk = threadIdx.x; chunk < blockIdx.x; chunk += BLOCK)
        before += x.found[chunk];
    before = over_group<BLOCK>(before, added());
    news[threadIdx.x] = is_new ? 1 : 0;
    __syncthreads();
    for (uint32_t thread = 0; thread < threadIdx.x; thread++)
        before += news[thread];
    const uint32_t place = *x.list.count + before;
    if (is_new && place >= x.list.room)
        *x.failure = CUDA_FAILURE_LIST;
    if (is_new && place < x.list.room)
        x.list.numbers[place] = (int32_t)x.keys[i];
    if (is_new)
        x.list.places[x.keys[i]] = place < x.list.room ? (int32_t)place : -1;
}

// A place behind the old count is that of a new row.
struct new_sums_body {
    listing x;

    template <int>
    __device__ void at(size_t i) const
    {
        const size_t key = row_of(i, x.list.columns), column = i - key * x.list.columns;
        const int32_t place = x.is_first((uint32_t)key) ? x.list.places[x.keys[key]] : -1;
        if (place >= 0 && (uint32_t)place >= *x.list.count)
            x.list.sums[place * x.list.columns + column] = 0;
    }
};

static __global__ void __launch_bounds__(BLOCK) add_found_kernel(const listing x, uint32_t chunks)
{
    uint32_t found = 0;
    for (uint32_t chunk = threadIdx.x; chunk < chunks; chunk += BLOCK)
        found += x.found[chunk];
    found = over_group<BLOCK>(found, added());
    const size_t all = (size_t)*x.list.count + found;
    __syncthreads();
    if (threadIdx.x == 0)
        *x.list.count = (uint32_t)(all < x.list.room ? all : x.list.room);
}

static uint32_t *found_in(const struct cuda_launch *launch)
{
    static_assert(SORT_BYTES + PART / BLOCK * sizeof(uint32_t) <= CUDA_SCRATCH_BYTES, "the chunks of a part fit, too");
    return (uint32_t *)launch->scratch + SORT_BYTES / sizeof(uint32_t);
}

static cudaError_t add_to_list(const struct cuda_launch *launch, const listing &x)
{
    const size_t chunks = blocks_for(x.count, BLOCK);
    cudaError_t status = launch_blocks(launch, count_new_kernel, chunks, BLOCK, 0, x);
    if (status == cudaSuccess)
        status = launch_blocks(launch, place_new_kernel, chunks, BLOCK, 0, x);
    if (status == cudaSuccess)
        status = launch_each<1>(launch, new_sums_body{ x }, x.count * x.list.columns, 0);
    return status == cudaSuccess ? launch_blocks(launch, add_found_kernel, 1, BLOCK, 0, x, (uint32_t)chunks) : status;
}

cudaError_t cuda_list_rows(const struct cuda_launch *launch, const struct row_list *list, const struct bags *bags)
{
    struct bags by_row = *bags;
    by_row.places = NULL;
    cudaError_t status = cudaSuccess;
    for (size_t start = 0; status == cudaSuccess && bags->count > 0 && start < bags->most; start += PART) {
        const uint32_t count = (uint32_t)(bags->most - start < PART ? bags->most - start : PART);
        const sorting sort = sorting_in(launch, count);
        status = sort_rows(launch, sort, row_key{ by_row, (uint32_t)start, launch->failure });
        if (status == cudaSuccess)
            status = add_to_list(launch, { *list, sort.keys, count, 0, NULL, found_in(launch), launch->failure });
    }
    return status;
}

// A row of another list, to the place that it has by now.
struct add_list_body {
    listing x;
    const float *sums;  // of the first key

    template <int>
    __device__ void at(size_t i) const
    {
        const size_t key = row_of(i, x.list.columns), column = i - key * x.list.columns;
        const int32_t place = x.is_first((uint32_t)key) ? x.list.places[x.keys[key]] : -1;
        if (place >= 0)
            x.list.sums[place * x.list.columns + column] += sums[i];
    }
};

// Each row is once in the other list, so its numbers need no sorting.
cudaError_t cuda_add_list(const struct cuda_launch *launch, const struct row_list *list, const struct row_list *other)
{
    cudaError_t status = cudaSuccess;
    for (size_t start = 0; status == cudaSuccess && start < other->room; start += PART) {
        const uint32_t count = (uint32_t)(other->room - start < PART ? other->room - start : PART);
        const listing x = { *list, (const uint32_t *)other->numbers + start, count, (uint32_t)start, other->count,
                            found_in(launch), launch->failure };
        status = add_to_list(launch, x);
        if (status == cudaSuccess)
            status = launch_each<1>(launch, add_list_body{ x, other->sums + start * list->columns },
                                    count * list->columns, 0);
    }
    return status;
}

// --- interaction -----------------------------------------------------------------------------------

// Row `row` of T of a sample.
__device__ inline const float *row_at(const struct interaction &x, size_t sample, size_t row)
{
    const float *bottom = (const float *)x.bottom, *vectors = (const float *)x.vectors;
    if (bottom && row == 0)
        return bottom + sample * x.columns;
    return vectors + (sample * x.count + row - (bottom ? 1 : 0)) * x.columns;
}

// The row of a pair: the last one whose first pair is not behind it.
__device__ inline size_t row_of_pair(size_t pair)
{
    size_t row = (size_t)((1 + sqrtf(1 + 8 * (float)pair)) / 2);
    while (row * (row - 1) / 2 > pair)
        row--;
    while ((row + 1) * row / 2 <= pair)
        row++;
    return row;
}

struct interaction_body {
    struct interaction x;
    float *out;
    size_t width, copied;

    template <int>
    __device__ void at(size_t i) const
    {
        const size_t sample = row_of(i, width), place = i - sample * width;
        if (place < copied) {
            out[i] = row_at(x, sample, 0)[place];
            return;
        }
        const size_t pair = place - copied, row = row_of_pair(pair), column = pair - row * (row - 1) / 2;
        const float *a = row_at(x, sample, row), *b = row_at(x, sample, column);
        float sum = 0;
#pragma unroll 4
        for (size_t c = 0; c < x.columns; c++)
            sum = __fadd_rn(sum, __fmul_rn(a[c], b[c]));
        out[i] = sum;
    }
};

cudaError_t cuda_interaction(const struct cuda_launch *launch, const struct interaction *interaction,
                             struct values *out)
{
    const struct interaction *x = interaction;
    const size_t width = interaction_width(x->count, x->columns, x->bottom != NULL);
    const interaction_body body = { *x, (float *)out, width, x->bottom ? x->columns : 0 };
    return launch_each<1>(launch, body, x->samples * width, 0);
}

// A thread has columns of a row of T.
struct interaction_backward_body {
    struct interaction x;
    float *bottom, *vectors;
    const float *gradient;
    size_t rows, width, copied;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t line = row_of(i, x.columns), column = i - line * x.columns;
        const size_t sample = row_of(line, rows), row = line - sample * rows;
        const float *from = gradient + sample * width, *pairs = from + copied;
        const bool is_bottom = copied > 0 && row == 0;
        pack<N> sum = {};
        if (is_bottom)
            sum = each<N>([&](int k) { return from[column + k]; });
        for (size_t other = 0; other < rows; other++) {
            const size_t high = row > other ? row : other, low = row > other ? other : row;
            if (other != row)
                add_product(sum, load<N>(row_at(x, sample, other) + column), pairs[high * (high - 1) / 2 + low]);
        }
        float *const to = is_bottom ? bottom + sample * x.columns
                                    : vectors + (sample * x.count + row - (copied > 0)) * x.columns;
        store<N>(to + column, sum);
    }
};

cudaError_t cuda_interaction_backward(const struct cuda_launch *launch, const struct interaction *interaction,
                                      struct values *bottom_gradient, struct values *vectors_gradient,
                                      const struct values *out_gradient)
{
    const struct interaction *x = interaction;
    const size_t rows = interaction_rows(x->count, x->bottom != NULL), count = x->samples * rows * x->columns;
    const interaction_backward_body body = {
        *x, (float *)bottom_gradient, (float *)vectors_gradient, (const float *)out_gradient, rows,
        interaction_width(x->count, x->columns, x->bottom != NULL), x->bottom ? x->columns : 0,
    };
    return launch_each<PACK>(launch, body, count,
                             head_of_rows<PACK>(x->columns, count, body.bottom, body.vectors, (const float *)x->bottom,
                                                (const float *)x->vectors));
}

// --- crosses, sums and logarithms --------------------------------------------------------------------

struct cross_body {
    float *out;
    const float *first, *y, *add;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> a = load<N>(first + i), b = load<N>(y + i), c = load<N>(add + i);
        store<N>(out + i, each<N>([&](int k) { return __fadd_rn(__fmul_rn(a.at[k], b.at[k]), c.at[k]); }));
    }
};

cudaError_t cuda_cross(const struct cuda_launch *launch, struct values *out, const struct values *first,
                       const struct values *y, const struct values *add, size_t count)
{
    const cross_body body = { (float *)out, (const float *)first, (const float *)y, (const float *)add };
    return launch_packs(launch, body, count, body.out, body.first, body.y, body.add);
}

struct cross_backward_body {
    float *first_gradient, *y_gradient, *add_gradient;
    const float *gradient, *first, *y;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> g = load<N>(gradient + i), a = load<N>(first + i), b = load<N>(y + i);
        store<N>(y_gradient + i, each<N>([&](int k) { return __fmul_rn(g.at[k], a.at[k]); }));
        store<N>(first_gradient + i, each<N>([&](int k) {
            const float slope = __fmul_rn(g.at[k], b.at[k]);
            return add_gradient ? slope : __fadd_rn(slope, g.at[k]);
        }));
        if (add_gradient)
            store<N>(add_gradient + i, g);
    }
};

cudaError_t cuda_cross_backward(const struct cuda_launch *launch, struct values *first_gradient,
                                struct values *y_gradient, struct values *add_gradient,
                                const struct values *out_gradient, const struct values *first, const struct values *y,
                                size_t count)
{
    const cross_backward_body body = { (float *)first_gradient, (float *)y_gradient, (float *)add_gradient,
                                       (const float *)out_gradient, (const float *)first, (const float *)y };
    return launch_packs(launch, body, count, body.first_gradient, body.y_gradient, body.add_gradient, body.gradient,
                        body.first, body.y);
}

// Sixteen lanes have a row. Number i goes to lane i % SIXTEEN, and the lanes are added by halves.
static __global__ void __launch_bounds__(BLOCK) sum_rows_kernel(float *out, const float *in, size_t rows,
                                                                size_t columns, bool is_first)
{
    const size_t row = (size_t)blockIdx.x * (BLOCK / SIXTEEN) + threadIdx.x / SIXTEEN;
    float sum = 0;
    for (size_t c = threadIdx.x % SIXTEEN; row < rows && c < columns; c += SIXTEEN)
        sum += in[row * columns + c];
#pragma unroll
    for (int half = SIXTEEN / 2; half > 0; half /= 2)
        sum += __shfl_xor_sync(WHOLE_WARP, sum, half);
    if (row < rows && threadIdx.x % SIXTEEN == 0)
        out[row] = is_first ? sum : out[row] + sum;
}

cudaError_t cuda_sum_rows(const struct cuda_launch *launch, struct values *out, const struct values *in, size_t rows,
                          size_t columns, bool is_first)
{
    return launch_blocks(launch, sum_rows_kernel, blocks_for(rows, BLOCK / SIXTEEN), BLOCK, 0, (float *)out,
                         (const float *)in, rows, columns, is_first);
}

struct spread_body {
    float *in_gradient;
    const float *out_gradient;
    size_t columns;

    template <int>
    __device__ void at(size_t i) const
    {
        in_gradient[i] = out_gradient[row_of(i, columns)];
    }
};

cudaError_t cuda_sum_rows_backward(const struct cuda_launch *launch, struct values *in_gradient,
                                   const struct values *out_gradient, size_t rows, size_t columns)
{
    return launch_each<1>(launch, spread_body{ (float *)in_gradient, (const float *)out_gradient, columns },
                          rows * columns, 0);
}

struct log_counts_body {
    float *out;
    const float *in;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(in + i);
        store<N>(out + i, each<N>([&](int k) { return x.at[k] <= 0 ? 0 : log1pf(x.at[k]); }));  // a NaN passes
    }
};

cudaError_t cuda_log_counts(const struct cuda_launch *launch, struct values *out, const struct values *in, size_t count)
{
    const log_counts_body body = { (float *)out, (const float *)in };
    return launch_packs(launch, body, count, body.out, body.in);
}

// --- the loss ----------------------------------------------------------------------------------------

__device__ inline bool is_binary(int32_t target, uint32_t *failure)
{
    if (target != NO_TARGET && target != 0 && target != 1)
        *failure = CUDA_FAILURE_ANSWER;
    return target == 0 || target == 1;
}

// With x the logit of a no, or that of a yes with another sign: loss = log(1 + exp(x)), whose slope is
// 1 / (1 + exp(-x)).
struct answer_body {
    const float *logits;
    const int32_t *targets;
    float *losses, *gradient;
    float scale;
    uint32_t *failure;

    template <int>
    __device__ void at(size_t row) const
    {
        const bool counts = is_binary(targets[row], failure), is_yes = targets[row] == 1;
        const float x = is_yes ? -logits[row] : logits[row], slope = 1 / (1 + expf(-x));
        losses[row] = counts ? (x <= 0 ? 0 : x) + log1pf(expf(-fabsf(x))) : 0;
        if (gradient)
            gradient[row] = !counts ? 0 : (is_yes ? -slope : slope) * scale;
    }
};

cudaError_t cuda_binary_cross_entropy(const struct cuda_launch *launch, const struct binary_cross_entropy *loss,
                                      float *sum, float *losses, struct values *logits_gradient)
{
    const size_t blocks = blocks_of_sum(loss->rows, BLOCK);
    double *const sums = (double *)launch->scratch;
    const answer_body body = { (const float *)loss->logits, loss->targets, losses, (float *)logits_gradient,
                               loss->scale, launch->failure };
    cudaError_t status = launch_each<1>(launch, body, loss->rows, 0);
    if (status == cudaSuccess)
        status = launch_blocks(launch, losses_kernel<float>, blocks, BLOCK, 0, sums, losses, loss->rows);
    if (status == cudaSuccess)
        status = launch_blocks(launch, sums_kernel<float>, 1, BLOCK, 0, sum, sums, blocks, (double)loss->scale);
    return status;
}

// --- loading -----------------------------------------------------------------------------------------

static cudaError_t load_of_rows()
{
    return load_kernels(each_kernel<PACK, bag_body>, each_kernel<1, owners_body>, rank_kernel<place_key>,
                        merge_kernel<place_key>, row_sums_kernel<PACK>, row_sums_kernel<1>);
}

static cudaError_t load_of_lists()
{
    return load_kernels(rank_kernel<row_key>, merge_kernel<row_key>, count_new_kernel, place_new_kernel,
                        each_kernel<1, new_sums_body>, add_found_kernel,
                        each_kernel<1, add_list_body>);
}

cudaError_t cuda_load_tables(void)
{
    return first_bad(first_bad(load_of_rows(), load_of_lists()),
                     load_kernels(each_kernel<1, interaction_body>, each_kernel<PACK, interaction_backward_body>,
                                  each_kernel<PACK, cross_body>, each_kernel<PACK, cross_backward_body>,
                                  sum_rows_kernel, each_kernel<1, spread_body>, each_kernel<PACK, log_counts_body>,
                                  each_kernel<1, answer_body>, losses_kernel<float>, sums_kernel<float>));
}
