// Kernels of experts (expert_kernels.h). Launches have the shapes of the most slots that there can be; how many there
// are stays on the device, and threads of others end at once.
//
// Routing takes four passes. No sum depends on the order of blocks:
//
//     1. choose    a thread per token: its choices and gates
//     2. rank      a block per expert walks over all pairs in order: the place of each of its own, and the sum of the
//                  expert's probabilities. It leaves the block of a member
//     3. join      one block: from the blocks of all members where each expert ends, shares, losses and statistics
//     4. place     a thread per pair: its slot, and that slot's pair
#include "device/cuda/reduce.cuh"

// --- routing -----------------------------------------------------------------------------------------------

// It takes more registers than each_kernel() leaves it.
static __global__ void __launch_bounds__(BLOCK) choose_kernel(const struct routing routing)
{
    const size_t row = (size_t)blockIdx.x * BLOCK + threadIdx.x, top = routing.router.top;
    if (row >= routing.rows)
        return;
    int32_t *const choices = routing.choices + row * top;
    float *const gates = routing.gates + row * top;
    const struct router_values values = { &routing.router, routing.logits + row * routing.router.experts, routing.bias,
                                          NULL };
    struct router_sums sums = { 0, 1 };
    if (row < routing.counted)
        sums = router_choose(&values, choices, gates);
    routing.log_sums[row] = sums.log_sum;
    if (routing.scores)
        routing.scores[row] = sums.scores;
    for (size_t k = 0; row >= routing.counted && k < top; k++) {
        choices[k] = -1;
        gates[k] = 0;
    }
}

// How many threads in front of this one have a flag, and how many there are in the block.
static __device__ inline uint32_t flags_before(bool flag, uint32_t *all)
{
    SHARED(uint32_t, warps, [BLOCK / WARP]);
    const uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    uint32_t before = 0, total = 0;
    for (uint32_t from = 0; from < WARP; from++) {
        const uint32_t other = __shfl_xor_sync(WHOLE_WARP, (uint32_t)flag, from);
        before += (lane ^ from) < lane ? other : 0;
        total += other;
    }
    if (lane == 0)
        warps[warp] = total;
    __syncthreads();
    *all = 0;
    for (uint32_t w = 0; w < BLOCK / WARP; w++) {
        before += w < warp ? warps[w] : 0;
        *all += warps[w];
    }
    __syncthreads();
    return before;
}

// The first block also adds up the squares of all log_sums.
static __global__ void __launch_bounds__(BLOCK) rank_pairs_kernel(const struct routing routing, void *own)
{
    const struct routing_block block = routing_block_in(own, routing.router.experts, 0);
    const size_t top = routing.router.top, pairs = routing.counted * top;
    const int32_t expert = (int32_t)blockIdx.x;
    uint32_t done = 0, firsts = 0, all;
    double mean = 0, squares = 0;
    for (size_t begin = 0; begin < pairs; begin += BLOCK) {
        const size_t pair = begin + threadIdx.x;
        const bool is_own = pair < pairs && routing.choices[pair] == expert;
        const uint32_t before = flags_before(is_own, &all);
        if (is_own)
            routing.slots[pair] = (int32_t)(done + before);
        done += all;
        flags_before(is_own && pair % top == 0, &all);
        firsts += all;
    }
    for (size_t row = threadIdx.x; row < routing.counted; row += BLOCK)
        mean += (double)router_share(&routing.router, routing.logits[row * routing.router.experts + blockIdx.x],
                                     routing_sums_of(&routing, row));
    mean = over_group<BLOCK>(mean, added());
    for (size_t row = threadIdx.x; blockIdx.x == 0 && row < routing.counted; row += BLOCK)
        squares += (double)routing.log_sums[row] * (double)routing.log_sums[row];
    squares = over_group<BLOCK>(squares, added());
    if (threadIdx.x > 0)
        return;
    block.means[expert] = mean;
    block.counts[expert] = (int32_t)done;
    block.firsts[expert] = (int32_t)firsts;
    if (expert == 0)
        *block.squares = squares;
}

// The counts of one expert, of all members.
struct expert_counts {
    uint32_t pairs, firsts, kept, own;  // own: those of `kept` that are this member's
    double mean;
};
static_assert((int)ROUTER_EXPERTS <= (int)BLOCK, "a thread counts an expert");

static __device__ inline expert_counts count_expert(const struct routing &routing,
                                                    const struct routing_members &members, size_t e)
{
    const size_t experts = routing.router.experts;
    expert_counts all = {};
#pragma unroll 1
    for (size_t m = 0; m < members.members; m++) {
        const struct routing_block block = routing_block_in(members.blocks, experts, m);
        const uint32_t count = (uint32_t)block.counts[e];
        const uint32_t kept = (uint32_t)routing_pairs_kept(&routing, all.pairs, count);
        if (members.kept)
            members.kept[m * experts + e] = (int32_t)kept;
        all.own = m == members.member ? kept : all.own;
        all.kept += kept;
        all.pairs += count;
        all.firsts += (uint32_t)block.firsts[e];
        all.mean += block.means[e];
    }
    return all;
}

// A thread for each expert, then one for all. Rows of copied experts come first.
static __global__ void __launch_bounds__(BLOCK) join_kernel(const struct routing routing,
                                                            const struct routing_members members, float *statistics,
                                                            float *loss)
{
    const size_t experts = routing.router.experts, tokens = routing.counted + routing.elsewhere;
    const bool is_first = routing.router.kind == ROUTER_GSHARD;
    const double choices = (double)tokens * (double)(is_first ? 1 : routing.router.top);
    const double rows = tokens > 0 ? (double)tokens : 1;
    size_t end = 0, taken = 0, taken_end = 0, dropped = 0;
    const bool takes = members.taken != NULL;
    double balance = 0, squares = 0;
    SHARED(expert_counts, counts, [ROUTER_EXPERTS]);
    if (threadIdx.x < experts)
        counts[threadIdx.x] = count_expert(routing, members, threadIdx.x);
    __syncthreads();
    if (threadIdx.x > 0)
        return;
#pragma unroll 1
    for (size_t e = 0; e < experts; e++) {
        const expert_counts &all = counts[e];
        const float share = choices > 0 ? (float)(is_first ? all.firsts : all.pairs) / (float)choices : 0;
        routing.ends[e] = (int32_t)(end += all.own);
        if (takes && routing_has(members.copied, e))
            members.taken[taken++] = (int32_t)(taken_end += all.own);
        routing.shares[e] = share;
        balance += (double)share * all.mean;
        dropped += all.pairs - all.kept;
        if (statistics)
            statistics[e] = (float)all.pairs;
    }
#pragma unroll 1
    for (size_t e = 0; takes && e < experts; e++)
        if (routing_has(members.own, e))
            members.taken[taken++] = (int32_t)(taken_end += counts[e].kept);
    for (size_t m = 0; m < members.members; m++)
        squares += *routing_block_in(members.blocks, experts, m).squares;
    const float even = (float)(balance * (double)experts / rows), z = (float)(squares / rows);
    *loss = __fadd_rn(__fmul_rn(routing.auxiliary, even), __fmul_rn(routing.z, z));
    if (!statistics)
        return;
    statistics[experts] = (float)dropped;
    statistics[experts + 1] = even;
    statistics[experts + 2] = z;
    statistics[experts + 3] = 1;
}

struct place_body {
    struct routing routing;

    template <int>
    __device__ void at(size_t pair) const
    {
        const int32_t expert = routing.choices[pair];
        int32_t slot = -1;
        if (expert >= 0) {
            slot = routing.slots[pair] + (expert > 0 ? routing.ends[expert - 1] : 0);
            slot = slot < routing.ends[expert] ? slot : -1;
        }
        routing.slots[pair] = slot;
        if (slot >= 0)
            routing.pairs[slot] = (int32_t)pair;
    }
};

struct slopes_body {
    struct routing routing;
    const float *gates_gradient;
    float balance, log_sum;

    template <class T>
    __device__ void write(T *out, size_t row) const
    {
        const struct router &router = routing.router;
        const float *logits = routing.logits + row * router.experts;
        const struct router_sums sums = routing_sums_of(&routing, row);
        const router_slopes slopes = { routing.gates + row * router.top, gates_gradient + row * router.top,
                                       routing.shares, balance, log_sum };
        const bool counts = row < routing.counted;
        const float mean = counts ? router_mean_slope(&router, &slopes, logits, sums) : 0;
        for (size_t e = 0; e < router.experts; e++)
            store<1>(out + row * router.experts + e, pack<1>{ {
                counts ? router_slope(&router, &slopes, routing.choices + row * router.top, logits, sums, mean, e)
                       : 0 } });
    }
};

template <class T>
struct route_backward_body {
    slopes_body slopes;
    T *out;

    template <int>
    __device__ void at(size_t row) const
    {
        slopes.write(out, row);
    }
};

struct bias_body {
    float *bias;
    const float *counts;
    size_t experts;
    float speed;

    template <int>
    __device__ void at(size_t i) const
    {
        double sum = 0;
        for (size_t e = 0; e < experts; e++)
            sum += (double)counts[e];
        const double off = sum - (double)counts[i] * (double)experts;
        bias[i] += off > 0 ? speed : off < 0 ? -speed : 0;
    }
};

// --- rows ----------------------------------------------------------------------------------------------------

// 16 bytes at a time: each_kernel<8, permute_body<T>>, 1 load, 1 store
template <class T>
struct permute_body {
    struct routing routing;
    T *out;
    const T *in;
    size_t columns;
    bool is_gated;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t slot = row_of(i, columns), column = i - slot * columns;
        if (slot >= routing_slots(&routing))
            return;
        const uint32_t pair = (uint32_t)routing.pairs[slot], row = pair / (uint32_t)routing.router.top;
        const pack<N> x = load<N>(in + row * columns + column);
        const float gate = is_gated ? routing.gates[pair] : 1;
        store<N>(out + i, each<N>([&](int k) { return __fmul_rn(x.at[k], gate); }));
    }
};

// 16 bytes at a time: each_kernel<8, combine_body<T>>, 2 loads, 1 store
template <class T>
struct combine_body {
    struct routing routing;
    T *out;
    const T *in, *add;
    size_t columns;
    bool is_gated;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t row = row_of(i, columns), column = i - row * columns, top = routing.router.top;
        pack<N> sum = add ? load<N>(add + i) : pack<N>{};
        for (size_t pair = row * top; pair < (row + 1) * top; pair++) {
            const int32_t slot = routing.slots[pair];
            if (slot < 0)
                continue;
            const pack<N> x = load<N>(in + (size_t)slot * columns + column);
            const float gate = is_gated ? routing.gates[pair] : 1;
            sum = each<N>([&](int k) { return __fmaf_rn(x.at[k], gate, sum.at[k]); });
        }
        store<N>(out + i, sum);
    }
};

// A warp per pair.
template <class T>
static __global__ void __launch_bounds__(BLOCK) gate_gradients_kernel(const struct routing routing,
                                                                      float *gates_gradient, const T *out_gradient,
                                                                      const T *in, size_t columns)
{
    const size_t pair = row_of_group<WARP>(), row = pair / routing.router.top;
    if (pair >= routing.rows * routing.router.top)
        return;
    const int32_t slot = routing.slots[pair];
    float sum = 0;
    for (size_t c = threadIdx.x % WARP; slot >= 0 && c < columns; c += WARP)
        sum = __fmaf_rn(load<1>(out_gradient + row * columns + c).at[0],
                        load<1>(in + (size_t)slot * columns + c).at[0], sum);
    sum = over_warp(sum, added());
    if (threadIdx.x % WARP == 0)
        gates_gradient[pair] = sum;
}

// --- products --------------------------------------------------------------------------------------------------
//
// A block has a tile of 64 x 64 of the product of one group, and walks along k in steps of STEP. A thread has 4 x 4
// numbers of it, each of which is added up in the order of k.

enum { TILE = 64, STEP = 16, OWN = 4 };

struct tile {
    int32_t group;         // -1: none
    size_t first, rows;    // the group's rows
    size_t down, across;   // where in the group's product the tile begins
};

// `count` groups of those that have ends, from the first of them on.
struct row_groups {
    const int32_t *ends;
    size_t first, count;

    __device__ size_t begin(size_t group) const
    {
        return first + group > 0 ? (size_t)ends[first + group - 1] : 0;
    }
    __device__ size_t end(size_t group) const
    {
        return (size_t)ends[first + group];
    }
};

// Tile `number` of those of all groups' rows, one group after the other.
static __device__ inline tile tile_of_rows(const row_groups &groups, size_t number, size_t across)
{
    for (size_t group = 0; group < groups.count; group++) {
        const size_t first = groups.begin(group), rows = groups.end(group) - first;
        const size_t tiles = (rows + TILE - 1) / TILE;
        if (number < tiles)
            return { (int32_t)group, first, rows, number * TILE, across * TILE };
        number -= tiles;
    }
    return { -1, 0, 0, 0, 0 };
}

// Fills one step of both sides: a[k][down] and b[k][across]; zeros beyond the matrices.
template <class A, class B>
static __device__ inline void multiply_tile(float sums[OWN][OWN], size_t depth, A a_at, B b_at)
{
    SHARED(float, left, [STEP][TILE]);
    SHARED(float, right, [STEP][TILE]);
    const size_t x = threadIdx.x % (TILE / OWN) * OWN, y = threadIdx.x / (TILE / OWN) * OWN;
    for (size_t begin = 0; begin < depth; begin += STEP) {
        for (size_t i = threadIdx.x; i < STEP * TILE; i += BLOCK) {
            const size_t k = i / TILE, at = i % TILE;
            left[k][at] = begin + k < depth ? a_at(begin + k, at) : 0;
            right[k][at] = begin + k < depth ? b_at(begin + k, at) : 0;
        }
        __syncthreads();
        for (size_t k = 0; k < STEP; k++)
            for (int i = 0; i < OWN; i++)
                for (int j = 0; j < OWN; j++)
                    sums[i][j] = __fmaf_rn(left[k][y + i], right[k][x + j], sums[i][j]);
        __syncthreads();
    }
}

template <class T>
static __device__ inline float one(const T *from, bool is_there)
{
    return is_there ? load<1>(from).at[0] : 0;
}

struct bend {
    float output, slope;
};

// GELU as in cpu_elementwise.h.
static __device__ inline bend gelu_at(float x)
{
    const float a = 1.59576912f, b = 1.59576912f * 0.044715f;
    const float near = x > 30 ? 30 : x < -30 ? -30 : x, square = near * near;
    const float s = 1 / (1 + expf(-near * (a + b * square)));
    return { (x < -30 ? -30 : x) * s, s + near * s * (1 - s) * (a + 3 * b * square) };
}

// c[rows of the group] = a[rows of the group] * op(b[group]) + bias[group], and GELU of that if before_gelu is given.
template <class T>
static __global__ void __launch_bounds__(BLOCK) grouped_rows_kernel(const struct matmul x, const row_groups groups,
                                                                    size_t across)
{
    const tile t = tile_of_rows(groups, blockIdx.x / across, blockIdx.x % across);
    if (t.group < 0)
        return;
    const T *a = (const T *)x.a + t.first * x.k, *b = (const T *)x.b + (size_t)t.group * x.k * x.n;
    const T *bias = x.bias ? (const T *)x.bias + (size_t)t.group * x.n : NULL;
    T *c = (T *)x.c + t.first * x.n, *before = x.before_gelu ? (T *)x.before_gelu + t.first * x.n : NULL;
    float sums[OWN][OWN] = {};
    multiply_tile(sums, x.k, [&](size_t k, size_t i) { return one(a + (t.down + i) * x.k + k, t.down + i < t.rows); },
                  [&](size_t k, size_t j) {
                      return one(x.transpose_b ? b + (t.across + j) * x.k + k : b + k * x.n + t.across + j,
                                 t.across + j < x.n);
                  });
    const size_t left = t.across + threadIdx.x % (TILE / OWN) * OWN, up = t.down + threadIdx.x / (TILE / OWN) * OWN;
    for (size_t i = 0; i < OWN && up + i < t.rows; i++)
        for (size_t j = 0; j < OWN && left + j < x.n; j++) {
            const size_t at = (up + i) * x.n + left + j;
            const float y = sums[i][j] + (bias ? load<1>(bias + left + j).at[0] : 0);
            if (before)
                store<1>(before + at, pack<1>{ { y } });
            store<1>(c + at, pack<1>{ { before ? gelu_at(load<1>(before + at).at[0]).output : y } });
        }
}

// sums[group] += a[rows of the group]^T * b[rows of the group].
template <class T>
static __global__ void __launch_bounds__(BLOCK) grouped_sums_kernel(const struct matmul x, const row_groups groups,
                                                                    size_t down, size_t across)
{
    const size_t group = blockIdx.x / (down * across), number = blockIdx.x % (down * across);
    const size_t first = groups.begin(group), rows = groups.end(group) - first;
    const size_t row = number / across * TILE, column = number % across * TILE;
    if (rows == 0)
        return;
    const T *a = (const T *)x.a + first * x.m, *b = (const T *)x.b + first * x.n;
    float *to = x.sums + group * x.m * x.n;
    float sums[OWN][OWN] = {};
    multiply_tile(sums, rows, [&](size_t k, size_t i) { return one(a + k * x.m + row + i, row + i < x.m); },
                  [&](size_t k, size_t j) { return one(b + k * x.n + column + j, column + j < x.n); });
    const size_t left = column + threadIdx.x % (TILE / OWN) * OWN, up = row + threadIdx.x / (TILE / OWN) * OWN;
    for (size_t i = 0; i < OWN && up + i < x.m; i++)
        for (size_t j = 0; j < OWN && left + j < x.n; j++)
            to[(up + i) * x.n + left + j] += sums[i][j];
}

template <class T>
static cudaError_t grouped_matmul(const struct cuda_launch *launch, const struct matmul *x, const row_groups &groups)
{
    const size_t across = blocks_for(x->n, TILE), down = blocks_for(x->m, TILE);
    if (x->sums)
        return launch_blocks(launch, grouped_sums_kernel<T>, groups.count * down * across, BLOCK, 0, *x, groups, down,
                             across);
    return x->m > 0 ? launch_blocks(launch, grouped_rows_kernel<T>, (down + groups.count) * across, BLOCK, 0, *x,
                                    groups, across)
                    : cudaSuccess;
}

template <class T>
struct grouped_columns_body {
    float *sums;
    const T *in;
    row_groups groups;
    size_t columns;

    template <int>
    __device__ void at(size_t i) const
    {
        const size_t group = row_of(i, columns), column = i - group * columns;
        float sum = 0;
        for (size_t row = groups.begin(group); row < groups.end(group); row++)
            sum = __fadd_rn(sum, load<1>(in + row * columns + column).at[0]);
        sums[i] = __fadd_rn(sums[i], sum);
    }
};

// --- activations -------------------------------------------------------------------------------------------------

static __device__ inline float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

// One number at a time; `used` rows, or all.
template <class T>
struct activate_body {
    struct activation activation;
    T *in_gradient, *out;  // in_gradient NULL: the forward
    const T *out_gradient, *in;

    template <int>
    __device__ void at(size_t i) const
    {
        const size_t row = row_of(i, activation.columns);
        if (activation.used && row >= (size_t)*activation.used)
            return;
        const float g = in_gradient ? load<1>(out_gradient + i).at[0] : 0;
        if (activation.is_swiglu) {
            const size_t left = i + row * activation.columns, right = left + activation.columns;
            const float x = load<1>(in + left).at[0], y = load<1>(in + right).at[0], s = sigmoid(x);
            store<1>(out + i, pack<1>{ { x * s * y } });
            if (in_gradient) {
                store<1>(in_gradient + left, pack<1>{ { g * y * (s + x * s * (1 - s)) } });
                store<1>(in_gradient + right, pack<1>{ { g * x * s } });
            }
            return;
        }
        const bend bend = gelu_at(load<1>(in + i).at[0]);
        store<1>(out + i, pack<1>{ { bend.output } });
        if (in_gradient)
            store<1>(in_gradient + i, pack<1>{ { bend.slope * g } });
    }
};

template <class T>
static cudaError_t activate(const struct cuda_launch *launch, const struct activation *activation, T *in_gradient,
                            T *out, const T *out_gradient, const T *in)
{
    return launch_each<1>(launch, activate_body<T>{ *activation, in_gradient, out, out_gradient, in },
                          activation->rows * activation->columns, 0);
}

cudaError_t cuda_route_own(const struct cuda_launch *launch, const struct routing *routing, void *block)
{
    const cudaError_t status = launch_blocks(launch, choose_kernel, blocks_for(routing->rows, BLOCK), BLOCK, 0,
                                             *routing);
    return status == cudaSuccess
        ? launch_blocks(launch, rank_pairs_kernel, routing->router.experts, BLOCK, 0, *routing, block) : status;
}

cudaError_t cuda_route_all(const struct cuda_launch *launch, const struct routing *routing,
                           const struct routing_members *members, float *statistics, float *loss)
{
    const cudaError_t status = launch_blocks(launch, join_kernel, 1, BLOCK, 0, *routing, *members, statistics, loss);
    return status == cudaSuccess
        ? launch_each<1>(launch, place_body{ *routing }, routing->rows * routing->router.top, 0) : status;
}

cudaError_t cuda_route(const struct cuda_launch *launch, const struct routing *routing, float *statistics, float *loss)
{
    struct routing_members alone = {};
    alone.members = 1;
    alone.blocks = launch->scratch;
    const cudaError_t status = cuda_route_own(launch, routing, alone.blocks);
    return status == cudaSuccess ? cuda_route_all(launch, routing, &alone, statistics, loss) : status;
}

cudaError_t cuda_route_backward(const struct cuda_launch *launch, const struct routing *routing,
                                struct values *logits_gradient, const float *gates_gradient, float weight)
{
    const size_t tokens = routing->counted + routing->elsewhere;
    const float counted = tokens > 0 ? (float)tokens : 1;
    const slopes_body slopes = { *routing, gates_gradient,
                                 weight * routing->auxiliary * (float)routing->router.experts / counted,
                                 weight * routing->z * 2 / counted };
    WITH_NUMBERS(launch, launch_each<1>(launch, route_backward_body<T>{ slopes, (T *)logits_gradient }, routing->rows,
                                        0));
}

cudaError_t cuda_move_bias(const struct cuda_launch *launch, float *bias, const float *counts, size_t experts,
                           float speed)
{
    return launch_each<1>(launch, bias_body{ bias, counts, experts, speed }, experts, 0);
}

template <class T>
static cudaError_t permute(const struct cuda_launch *launch, const struct routing *routing, T *out, const T *in,
                           size_t columns, bool is_gated)
{
    const size_t count = routing->most * columns;
    return launch_each<pack_of<T>>(launch, permute_body<T>{ *routing, out, in, columns, is_gated }, count,
                                   head_of_rows<pack_of<T>>(columns, count, out, in));
}

cudaError_t cuda_permute(const struct cuda_launch *launch, const struct routing *routing, struct values *out,
                         const struct values *in, size_t columns, bool is_gated)
{
    WITH_NUMBERS(launch, permute(launch, routing, (T *)out, (const T *)in, columns, is_gated));
}

template <class T>
static cudaError_t combine(const struct cuda_launch *launch, const struct routing *routing, T *out, const T *in,
                           const T *add, size_t columns, bool is_gated)
{
    const size_t count = routing->rows * columns;
    return launch_each<pack_of<T>>(launch, combine_body<T>{ *routing, out, in, add, columns, is_gated }, count,
                                   head_of_rows<pack_of<T>>(columns, count, out, in, add));
}

cudaError_t cuda_combine(const struct cuda_launch *launch, const struct routing *routing, struct values *out,
                         const struct values *in, const struct values *add, size_t columns, bool is_gated)
{
    WITH_NUMBERS(launch, combine(launch, routing, (T *)out, (const T *)in, (const T *)add, columns, is_gated));
}

cudaError_t cuda_gate_gradients(const struct cuda_launch *launch, const struct routing *routing, float *gates_gradient,
                                const struct values *out_gradient, const struct values *in, size_t columns)
{
    const size_t blocks = blocks_for(routing->rows * routing->router.top, BLOCK / WARP);
    WITH_NUMBERS(launch, launch_blocks(launch, gate_gradients_kernel<T>, blocks, BLOCK, 0, *routing, gates_gradient,
                                       (const T *)out_gradient, (const T *)in, columns));
}

cudaError_t cuda_grouped_matmul(const struct cuda_launch *launch, const struct matmul *matmul, const int32_t *ends,
                                size_t first, size_t groups)
{
    const row_groups all = { ends, first, groups };
    WITH_NUMBERS(launch, grouped_matmul<T>(launch, matmul, all));
}

cudaError_t cuda_grouped_sum_columns(const struct cuda_launch *launch, float *sums, const struct values *in,
                                     const int32_t *ends, size_t first, size_t groups, size_t columns)
{
    const row_groups all = { ends, first, groups };
    WITH_NUMBERS(launch, launch_each<1>(launch, grouped_columns_body<T>{ sums, (const T *)in, all, columns },
                                        groups * columns, 0));
}

cudaError_t cuda_activate(const struct cuda_launch *launch, const struct activation *activation, struct values *out,
                          const struct values *in)
{
    WITH_NUMBERS(launch, activate<T>(launch, activation, NULL, (T *)out, NULL, (const T *)in));
}

cudaError_t cuda_activate_backward(const struct cuda_launch *launch, const struct activation *activation,
                                   struct values *in_gradient, struct values *out, const struct values *out_gradient,
                                   const struct values *in)
{
    WITH_NUMBERS(launch, activate<T>(launch, activation, (T *)in_gradient, (T *)out, (const T *)out_gradient,
                                     (const T *)in));
}

// --- loading -----------------------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(each_kernel<1, route_backward_body<T>>, each_kernel<pack_of<T>, permute_body<T>>,
                        each_kernel<pack_of<T>, combine_body<T>>, gate_gradients_kernel<T>, grouped_rows_kernel<T>,
                        grouped_sums_kernel<T>, each_kernel<1, grouped_columns_body<T>>,
                        each_kernel<1, activate_body<T>>);
}

cudaError_t cuda_load_experts(void)
{
    const cudaError_t status = load_kernels(choose_kernel, rank_pairs_kernel, join_kernel,
                                            each_kernel<1, place_body>, each_kernel<1, bias_body>);
    return first_bad(status, LOAD_OF_ALL);
}
