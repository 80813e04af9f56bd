// Updates over flat spans, and sums of squares. A span may begin at any number: its packs begin where all its
// addresses allow it. The arithmetic is explicit, so that a number gets the same bits in a pack as alone. It also
// gets the bits of a processor (vec_fma()), which updates what is in the host's memory.
#include "device/cuda/spans.cuh"

// A body updates weight i by the gradient at `place`, which is i unless gradients are a list of rows.
#define AT_ITS_PLACE                      \
    template <int N>                      \
    __device__ void at(size_t i) const    \
    {                                     \
        at<N>(i, i);                      \
    }

template <class T, class Body>
static cudaError_t update(const struct cuda_launch *launch, const Body &body, const struct optimizer_span *span)
{
    return launch_each<UPDATE_PACK>(launch, body, span->count, head_of_span<T>(span));
}

// 16 bytes at a time: each_kernel<4, adamw_body<T>>, 4 loads, 3 stores
template <class T>
struct adamw_body {
    weights<T> weight;
    const float *gradients;
    float *first, *second;
    float beta1, rest1, beta2, rest2, epsilon;
    struct adamw_factors given;
    const struct adamw_factors *there;  // NULL: `given` is used

    AT_ITS_PLACE
    template <int N>
    __device__ void at(size_t i, size_t place) const
    {
        pack<N> g = load<N>(gradients + place);
        pack<N> m = load<N>(first + i), v = load<N>(second + i), w = weight.template read<N>(i);
        const struct adamw_factors factors = there ? *there : given;
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (factors.coupled != 0)
                g.at[k] = __fmaf_rn(factors.coupled, w.at[k], g.at[k]);
            m.at[k] = __fmaf_rn(beta1, m.at[k], __fmul_rn(rest1, g.at[k]));
            v.at[k] = __fmaf_rn(beta2, v.at[k], __fmul_rn(__fmul_rn(rest2, g.at[k]), g.at[k]));
            const float scale = __fmaf_rn(sqrtf(v.at[k]), factors.second_factor, epsilon);
            w.at[k] = __fmaf_rn(factors.shrink, w.at[k], -(__fmul_rn(factors.step, m.at[k]) / scale));
        }
        store<N>(first + i, m);
        store<N>(second + i, v);
        weight.template write<N>(i, w);
    }
};

template <class T>
static adamw_body<T> adamw_of(const struct adamw *adamw, const struct optimizer_span *span)
{
    adamw_body<T> body;
    body.weight = weights_of<T>(span);
    body.gradients = span->gradients, body.first = span->first, body.second = span->second;
    body.beta1 = adamw->frozen > 0 ? 1 : adamw->beta1, body.rest1 = 1 - body.beta1;
    body.beta2 = adamw->frozen > 0 ? 1 : adamw->beta2, body.rest2 = 1 - body.beta2;
    body.epsilon = adamw->epsilon;
    body.given = adamw_factors(adamw);
    body.there = (const struct adamw_factors *)adamw->factors_at;
    return body;
}

cudaError_t cuda_adamw(const struct cuda_launch *launch, const struct adamw *adamw, const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, update<T>(launch, adamw_of<T>(adamw, span), span));
}

// 16 bytes at a time: each_kernel<4, sgd_body<T>>, 3 loads, 2 stores
template <class T>
struct sgd_body {
    weights<T> weight;
    const float *gradients;
    float *first;  // NULL: no momentum
    float rate, momentum, decay, ahead;  // ahead: the momentum with Nesterov, or 0
    const float *rate_at;  // NULL: `rate` is used

    AT_ITS_PLACE
    template <int N>
    __device__ void at(size_t i, size_t place) const
    {
        pack<N> g = {}, m, w = weight.template read<N>(i), before = {};
        if (gradients)
            g = load<N>(gradients + place);
        if (first)
            before = load<N>(first + i);
        const float now = rate_at ? *rate_at : rate;
#pragma unroll
        for (int k = 0; k < N; k++) {
            g.at[k] = __fmaf_rn(decay, w.at[k], g.at[k]);
            m.at[k] = __fmaf_rn(momentum, before.at[k], g.at[k]);
            w.at[k] = __fmaf_rn(-now, ahead != 0 ? __fmaf_rn(ahead, m.at[k], g.at[k]) : m.at[k], w.at[k]);
        }
        if (first)
            store<N>(first + i, m);
        weight.template write<N>(i, w);
    }
};

template <class T>
static sgd_body<T> sgd_of(const struct sgd *sgd, const struct optimizer_span *span)
{
    const float momentum = span->first ? sgd->momentum : 0;
    return { weights_of<T>(span), span->gradients, span->first, sgd->rate, momentum, sgd->decay,
             sgd->is_nesterov ? momentum : 0, (const float *)sgd->rate_at };
}

cudaError_t cuda_sgd(const struct cuda_launch *launch, const struct sgd *sgd, const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, update<T>(launch, sgd_of<T>(sgd, span), span));
}

// 16 bytes at a time: each_kernel<4, adagrad_body<T>>, 3 loads, 2 stores
template <class T>
struct adagrad_body {
    weights<T> weight;
    const float *gradients;
    float *first;
    float rate, epsilon, decay;
    const float *rate_at;  // NULL: `rate` is used

    AT_ITS_PLACE
    template <int N>
    __device__ void at(size_t i, size_t place) const
    {
        pack<N> g = load<N>(gradients + place), sum = load<N>(first + i), w = weight.template read<N>(i);
        const float now = rate_at ? *rate_at : rate;
#pragma unroll
        for (int k = 0; k < N; k++) {
            g.at[k] = __fmaf_rn(decay, w.at[k], g.at[k]);
            sum.at[k] = __fadd_rn(sum.at[k], __fmul_rn(g.at[k], g.at[k]));
            w.at[k] = __fmaf_rn(-now, g.at[k] / __fadd_rn(sqrtf(sum.at[k]), epsilon), w.at[k]);
        }
        store<N>(first + i, sum);
        weight.template write<N>(i, w);
    }
};

template <class T>
static adagrad_body<T> adagrad_of(const struct adagrad *adagrad, const struct optimizer_span *span)
{
    return { weights_of<T>(span), span->gradients, span->first, adagrad->rate, adagrad->epsilon, adagrad->decay,
             (const float *)adagrad->rate_at };
}

cudaError_t cuda_adagrad(const struct cuda_launch *launch, const struct adagrad *adagrad,
                         const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, update<T>(launch, adagrad_of<T>(adagrad, span), span));
}

// --- rows --------------------------------------------------------------------------------

__device__ inline size_t rows_in(const struct row_list &list)
{
    return list.numbers ? *list.count : list.rows;
}

__device__ inline size_t row_number(const struct row_list &list, size_t place)
{
    return list.numbers ? (size_t)list.numbers[place] : place;
}

// 16 bytes at a time: each_kernel<4, rows_body<sgd_body<float>>>, 3 loads, 1 store
template <class Body>
struct rows_body {
    Body body;
    struct row_list list;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t place = row_of(i, list.columns), column = i - place * list.columns;
        if (place < rows_in(list))
            body.template at<N>(row_number(list, place) * list.columns + column, i);
    }
};

template <class Body>
static cudaError_t update_rows(const struct cuda_launch *launch, Body body, const struct row_list *list,
                               const struct optimizer_span *span)
{
    const size_t count = list->room * list->columns;
    body.gradients = list->sums;
    return launch_each<UPDATE_PACK>(launch, rows_body<Body>{ body, *list }, count,
                                    head_of_rows<UPDATE_PACK>(list->columns, count, (float *)span->next,
                                                              (const float *)span->weights, list->sums, span->first,
                                                              span->second));
}

cudaError_t cuda_sgd_rows(const struct cuda_launch *launch, const struct sgd *sgd, const struct row_list *list,
                          const struct optimizer_span *span)
{
    return update_rows(launch, sgd_of<float>(sgd, span), list, span);
}

cudaError_t cuda_adamw_rows(const struct cuda_launch *launch, const struct adamw *adamw, const struct row_list *list,
                            const struct optimizer_span *span)
{
    return update_rows(launch, adamw_of<float>(adamw, span), list, span);
}

// 16 bytes at a time: each_kernel<4, rows_body<move_body>>, 2 loads, 2 stores
struct move_body {
    float *matrix, *gradients;
    bool swaps;

    template <int N>
    __device__ void at(size_t i, size_t place) const
    {
        const pack<N> was = load<N>(matrix + i), other = load<N>(gradients + place);
        store<N>(gradients + place, was);
        if (swaps)
            store<N>(matrix + i, other);
    }
};

cudaError_t cuda_move_rows(const struct cuda_launch *launch, const struct row_list *list, float *matrix, bool swaps)
{
    struct optimizer_span span = {};
    span.next = (struct values *)matrix;
    return update_rows(launch, move_body{ matrix, NULL, swaps }, list, &span);
}

// A row has SIXTEEN lanes, which have its columns in turn.
enum { SIXTEEN = 16 };

template <class X>
__device__ inline X over_sixteen(X x)
{
#pragma unroll
    for (int lanes = SIXTEEN / 2; lanes > 0; lanes /= 2)
        x += __shfl_xor_sync(WHOLE_WARP, x, lanes);
    return x;
}

struct by_row {
    struct row_list list;
    float *next;
    const float *weights;
    float *sums;  // of each row of the matrix
    float rate, epsilon;
    const float *rate_at;
};

static __global__ void __launch_bounds__(BLOCK) adagrad_by_row_kernel(const by_row x)
{
    const size_t place = (size_t)blockIdx.x * (BLOCK / SIXTEEN) + threadIdx.x / SIXTEEN, columns = x.list.columns;
    const size_t lane = threadIdx.x % SIXTEEN;
    const bool is_there = place < rows_in(x.list);
    const size_t row = is_there ? row_number(x.list, place) : 0;
    const float *const gradient = x.list.sums + place * columns, now = x.rate_at ? *x.rate_at : x.rate;
    const float before = is_there ? x.sums[row] : 0;
    float squares = 0;
    for (size_t c = lane; is_there && c < columns; c += SIXTEEN)
        squares = __fadd_rn(squares, __fmul_rn(gradient[c], gradient[c]));
    squares = over_sixteen(squares);  // behind which every lane has read what was before
    const float sum = __fadd_rn(before, squares / (float)columns);
    const float scale = __fadd_rn(sqrtf(sum), x.epsilon);
    for (size_t c = lane; is_there && c < columns; c += SIXTEEN)
        x.next[row * columns + c] = __fmaf_rn(-now, gradient[c] / scale, x.weights[row * columns + c]);
    if (is_there && lane == 0)
        x.sums[row] = sum;
}

cudaError_t cuda_adagrad_rows(const struct cuda_launch *launch, const struct adagrad *adagrad,
                              const struct row_list *list, const struct optimizer_span *span, bool is_by_row)
{
    const by_row x = { *list, (float *)span->next, (const float *)span->weights, span->first, adagrad->rate,
                       adagrad->epsilon, (const float *)adagrad->rate_at };
    if (!is_by_row)
        return update_rows(launch, adagrad_of<float>(adagrad, span), list, span);
    return launch_blocks(launch, adagrad_by_row_kernel, blocks_for(list->room, BLOCK / SIXTEEN), BLOCK, 0, x);
}

// --- norms -----------------------------------------------------------------------------

// Each block sums its share of the squares, in double; one block adds those sums.
// 16 bytes at a time: squares_kernel, 1 load, 0 stores
static __global__ void __launch_bounds__(BLOCK) squares_kernel(double *sums, const float *in, size_t count,
                                                               size_t head)
{
    const size_t first = (size_t)blockIdx.x * BLOCK + threadIdx.x, step = (size_t)gridDim.x * BLOCK;
    const size_t packs = (count - head) / 4, rest = count - packs * 4;
    double sum = 0;
#pragma unroll 4
    for (size_t i = first; i < packs; i += step) {
        const pack<4> x = load<4>(in + head + i * 4);
        sum += square(x.at[0]) + square(x.at[1]) + (square(x.at[2]) + square(x.at[3]));
    }
    for (size_t i = first; i < rest; i += step)
        sum += square(in[i < head ? i : i + packs * 4]);
    sum = over_group<BLOCK>(sum, added());
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(BLOCK) root_kernel(float *norm, const double *sums, size_t count)
{
    double total = 0;
    for (size_t i = threadIdx.x; i < count; i += BLOCK)
        total += sums[i];
    total = over_group<BLOCK>(total, added());
    if (threadIdx.x == 0)
        *norm = (float)sqrt(total);
}

cudaError_t cuda_norm(const struct cuda_launch *launch, float *norm, const float *in, size_t count)
{
    const size_t blocks = blocks_of_sum(count, 16 * BLOCK);
    double *const sums = (double *)launch->scratch;
    const cudaError_t status = launch_blocks(launch, squares_kernel, blocks, BLOCK, 0, sums, in, count,
                                             head_of<4>(count, in));
    if (status != cudaSuccess)
        return status;
    return launch_blocks(launch, root_kernel, 1, BLOCK, 0, norm, sums, blocks);
}

// Each block has consecutive rows of the matrix, and each SIXTEEN lanes of it every sixteenth of these.
static __global__ void __launch_bounds__(BLOCK) squares_of_rows_kernel(double *sums, const struct row_list list,
                                                                       size_t before, size_t rows_each)
{
    const size_t lane = threadIdx.x % SIXTEEN, first = before + blockIdx.x * rows_each;
    double total = 0;
    for (size_t i = 0; i < rows_each; i += BLOCK / SIXTEEN) {
        const size_t row = first + i + threadIdx.x / SIXTEEN;
        const bool is_mine = row < list.rows && i + threadIdx.x / SIXTEEN < rows_each;
        const size_t place = !is_mine ? 0 : list.places ? (size_t)(uint32_t)list.places[row] : row;
        const bool is_there = is_mine && place < rows_in(list) && row_number(list, place) == row;
        double squares = 0;
        for (size_t c = lane; is_there && c < list.columns; c += SIXTEEN)
            squares += square(list.sums[place * list.columns + c]);
        squares = over_sixteen(squares);
        total += lane == 0 ? squares : 0;
    }
    total = over_group<BLOCK>(total, added());
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}

cudaError_t cuda_norm_rows(const struct cuda_launch *launch, float *norm, const struct row_list *list, size_t first)
{
    const size_t rows = list->rows > first ? list->rows - first : 0;
    const size_t blocks = blocks_of_sum(rows, BLOCK), each = blocks ? blocks_for(rows, blocks) : 0;
    double *const sums = (double *)launch->scratch;
    const cudaError_t status = launch_blocks(launch, squares_of_rows_kernel, blocks, BLOCK, 0, sums, *list, first, each);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(launch, root_kernel, 1, BLOCK, 0, norm, sums, blocks);
}

// One thread adds the norms, in their order: there is one for each layer.
static __global__ void clip_factor_kernel(float *factor, struct clip clip)
{
    double sum = 0;
    if (threadIdx.x > 0)
        return;
    for (size_t i = 0; i < clip.norm_count; i++)
        sum += square(clip.norms[i]);
    const double norm = sqrt(sum);
    *factor = norm <= (double)clip.limit ? 1.0f : (float)((double)clip.limit / norm);
}

// 16 bytes at a time: each_kernel<4, clip_body>, 1 load, 1 store
struct clip_body {
    float *gradients;
    const float *factor;

    template <int N>
    __device__ void at(size_t i) const
    {
        pack<N> x = load<N>(gradients + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            x.at[k] *= *factor;
        store<N>(gradients + i, x);
    }
};

cudaError_t cuda_clip(const struct cuda_launch *launch, const struct clip *clip, float *gradients, size_t count)
{
    float *const factor = (float *)launch->scratch;
    const cudaError_t status = launch_blocks(launch, clip_factor_kernel, 1, WARP, 0, factor, *clip);
    if (status != cudaSuccess)
        return status;
    return launch_each<UPDATE_PACK>(launch, clip_body{ gradients, factor }, count,
                                    head_of<UPDATE_PACK>(count, gradients));
}

// --- loading ---------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(each_kernel<UPDATE_PACK, adamw_body<T>>, each_kernel<UPDATE_PACK, sgd_body<T>>,
                        each_kernel<UPDATE_PACK, adagrad_body<T>>);
}

cudaError_t cuda_load_optimizer(void)
{
    return first_bad(load_kernels(squares_kernel, squares_of_rows_kernel, root_kernel, clip_factor_kernel,
                                  adagrad_by_row_kernel, each_kernel<UPDATE_PACK, clip_body>,
                                  each_kernel<UPDATE_PACK, rows_body<sgd_body<float>>>,
                                  each_kernel<UPDATE_PACK, rows_body<adagrad_body<float>>>,
                                  each_kernel<UPDATE_PACK, rows_body<adamw_body<float>>>,
                                  each_kernel<UPDATE_PACK, rows_body<move_body>>),
                     LOAD_OF_ALL);
}
