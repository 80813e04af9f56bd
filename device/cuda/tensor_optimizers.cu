// Optimizers that treat a whole tensor at a time. Sums over the tensor are made as for a norm: each block adds its
// share, in double, and one block adds those sums.
#include "device/cuda/spans.cuh"

// `body` gives two packs at each place, whose squares are summed separately.
template <int PACK, class Body>
static __global__ void __launch_bounds__(BLOCK) two_squares_kernel(double *sums, const Body body, size_t count,
                                                                   size_t head)
{
    const size_t first = (size_t)blockIdx.x * BLOCK + threadIdx.x, step = (size_t)gridDim.x * BLOCK;
    const size_t packs = (count - head) / PACK, rest = count - packs * PACK;
    double one = 0, other = 0;
    for (size_t i = first; i < packs; i += step) {
        pack<PACK> a, b;
        body.template at<PACK>(head + i * PACK, a, b);
#pragma unroll
        for (int k = 0; k < PACK; k++) {
            one += square(a.at[k]);
            other += square(b.at[k]);
        }
    }
    for (size_t i = first; i < rest; i += step) {
        pack<1> a, b;
        body.template at<1>(i < head ? i : i + packs * PACK, a, b);
        one += square(a.at[0]);
        other += square(b.at[0]);
    }
    one = over_group<BLOCK>(one, added());
    other = over_group<BLOCK>(other, added());
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = one;
        sums[gridDim.x + blockIdx.x] = other;
    }
}

// trust * |weights| / (|steps| + decay * |weights|), with the exceptions of trust_ratio().
static __global__ void __launch_bounds__(BLOCK) ratio_kernel(float *ratio, const double *sums, size_t count,
                                                             double trust, double decay)
{
    double weights = 0, steps = 0;
    for (size_t i = threadIdx.x; i < count; i += BLOCK) {
        weights += sums[i];
        steps += sums[count + i];
    }
    weights = sqrt(over_group<BLOCK>(weights, added()));
    steps = sqrt(over_group<BLOCK>(steps, added()));
    if (threadIdx.x == 0)
        *ratio = trust * weights > 0 && steps > 0 ? (float)(trust * weights / (steps + decay * weights)) : 1.0f;
}

// The place of the ratio in the scratch; the sums are behind it.
static float *ratio_of(const struct cuda_launch *launch)
{
    return (float *)launch->scratch;
}

template <class Body>
static cudaError_t find_ratio(const struct cuda_launch *launch, const Body &body, size_t count, size_t head,
                              double trust, double decay)
{
    const size_t blocks = blocks_of_sum(count, 16 * BLOCK);
    double *const sums = (double *)launch->scratch + 1;
    const cudaError_t status = launch_blocks(launch, two_squares_kernel<UPDATE_PACK, Body>, blocks, BLOCK, 0, sums,
                                             body, count, head);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(launch, ratio_kernel, 1, BLOCK, 0, ratio_of(launch), sums, blocks, trust, decay);
}

// --- lars ----------------------------------------------------------------------------------

template <class T>
struct lars_norms {
    weights<T> weight;
    const float *gradients;

    template <int N>
    __device__ void at(size_t i, pack<N> &one, pack<N> &other) const
    {
        one = weight.template read<N>(i);
        other = load<N>(gradients + i);
    }
};

// 16 bytes at a time: each_kernel<4, lars_body<T>>, 3 loads, 2 stores
template <class T>
struct lars_body {
    weights<T> weight;
    const float *gradients;
    float *first;
    float rate, momentum, decay;
    const float *rate_at;  // NULL: `rate` is used
    const float *ratio;    // NULL: 1

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> g = load<N>(gradients + i);
        pack<N> m = load<N>(first + i), w = weight.template read<N>(i);
        const float now = rate_at ? *rate_at : rate, scale = ratio ? __fmul_rn(now, *ratio) : now;
#pragma unroll
        for (int k = 0; k < N; k++) {
            m.at[k] = __fmaf_rn(momentum, m.at[k], __fmul_rn(scale, __fmaf_rn(decay, w.at[k], g.at[k])));
            w.at[k] = __fadd_rn(w.at[k], -m.at[k]);
        }
        store<N>(first + i, m);
        weight.template write<N>(i, w);
    }
};

template <class T>
static cudaError_t lars_of(const struct cuda_launch *launch, const struct lars *lars, const struct optimizer_span *span)
{
    const lars_norms<T> norms = { weights_of<T>(span), span->gradients };
    const lars_body<T> body = { norms.weight, span->gradients, span->first, lars->rate, lars->momentum, lars->decay,
                                (const float *)lars->rate_at, lars->trust > 0 ? ratio_of(launch) : NULL };
    const size_t head = head_of_span<T>(span);
    const cudaError_t status = lars->trust > 0 && span->count > 0
        ? find_ratio(launch, norms, span->count, head, (double)lars->trust, (double)lars->decay) : cudaSuccess;
    return status == cudaSuccess ? launch_each<UPDATE_PACK>(launch, body, span->count, head) : status;
}

cudaError_t cuda_lars(const struct cuda_launch *launch, const struct lars *lars, const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, lars_of<T>(launch, lars, span));
}

// --- lamb ----------------------------------------------------------------------------------

template <class T>
struct lamb_parts {
    weights<T> weight;
    const float *gradients;
    float *first, *second;
    float beta1, rest1, beta2, rest2, epsilon, decay;
    struct lamb_factors given;
    const struct lamb_factors *there;  // NULL: `given` is used

    __device__ struct lamb_factors factors() const
    {
        return there ? *there : given;
    }

    template <int N>
    __device__ pack<N> step(const pack<N> &w, const pack<N> &m, const pack<N> &v, struct lamb_factors factor) const
    {
        pack<N> step;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float scale = __fmaf_rn(sqrtf(v.at[k]), factor.second, epsilon);
            step.at[k] = __fmaf_rn(decay, w.at[k], __fmul_rn(factor.first, m.at[k]) / scale);
        }
        return step;
    }
};

// 16 bytes at a time: two_squares_kernel<4, lamb_moments<T>>, 4 loads, 2 stores
template <class T>
struct lamb_moments {
    lamb_parts<T> parts;

    template <int N>
    __device__ void at(size_t i, pack<N> &one, pack<N> &other) const
    {
        const pack<N> g = load<N>(parts.gradients + i);
        pack<N> m = load<N>(parts.first + i), v = load<N>(parts.second + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            m.at[k] = __fmaf_rn(parts.beta1, m.at[k], __fmul_rn(parts.rest1, g.at[k]));
            v.at[k] = __fmaf_rn(parts.beta2, v.at[k], __fmul_rn(__fmul_rn(parts.rest2, g.at[k]), g.at[k]));
        }
        store<N>(parts.first + i, m);
        store<N>(parts.second + i, v);
        one = parts.weight.template read<N>(i);
        other = parts.step(one, m, v, parts.factors());
    }
};

// 16 bytes at a time: each_kernel<4, lamb_body<T>>, 3 loads, 1 store
template <class T>
struct lamb_body {
    lamb_parts<T> parts;
    const float *ratio;  // NULL: 1

    template <int N>
    __device__ void at(size_t i) const
    {
        const struct lamb_factors factors = parts.factors();
        const float scale = ratio ? __fmul_rn(factors.rate, *ratio) : factors.rate;
        pack<N> w = parts.weight.template read<N>(i);
        const pack<N> step = parts.step(w, load<N>(parts.first + i), load<N>(parts.second + i), factors);
#pragma unroll
        for (int k = 0; k < N; k++)
            w.at[k] = __fmaf_rn(-scale, step.at[k], w.at[k]);
        parts.weight.template write<N>(i, w);
    }
};

template <class T>
static cudaError_t lamb_of(const struct cuda_launch *launch, const struct lamb *lamb, const struct optimizer_span *span)
{
    lamb_parts<T> parts;
    parts.weight = weights_of<T>(span);
    parts.gradients = span->gradients, parts.first = span->first, parts.second = span->second;
    parts.beta1 = lamb->beta1, parts.rest1 = 1 - lamb->beta1;
    parts.beta2 = lamb->beta2, parts.rest2 = 1 - lamb->beta2;
    parts.epsilon = lamb->epsilon, parts.decay = lamb->decay;
    parts.given = lamb_factors(lamb);
    parts.there = (const struct lamb_factors *)lamb->factors_at;
    const size_t head = head_of_span<T>(span);
    if (span->count == 0)
        return cudaSuccess;
    const cudaError_t status = find_ratio(launch, lamb_moments<T>{ parts }, span->count, head, 1, 0);
    if (status != cudaSuccess)
        return status;
    return launch_each<UPDATE_PACK>(launch, lamb_body<T>{ parts, lamb->trusts ? ratio_of(launch) : NULL }, span->count,
                                    head);
}

cudaError_t cuda_lamb(const struct cuda_launch *launch, const struct lamb *lamb, const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, lamb_of<T>(launch, lamb, span));
}

// --- adafactor -----------------------------------------------------------------------------

static __device__ struct adafactor_factors factors_of(struct adafactor_factors given, const void *there)
{
    return there ? *(const struct adafactor_factors *)there : given;
}

static __device__ void move_to(float *moment, double mean, float beta)
{
    *moment = __fmaf_rn(1 - beta, *moment, __fmul_rn(beta, (float)mean));
}

static __global__ void __launch_bounds__(BLOCK) factored_rows_kernel(struct factored_span span,
                                                                     struct adafactor_factors given, const void *there)
{
    const float *row = span.gradients + (size_t)blockIdx.x * span.columns;
    double sum = 0;
    for (size_t i = threadIdx.x; i < span.columns; i += BLOCK)
        sum += square(row[i]);
    sum = over_group<BLOCK>(sum, added());
    if (threadIdx.x == 0)
        move_to(&span.row[blockIdx.x], sum / (double)span.columns, factors_of(given, there).beta);
}

// A thread for each column: adds `chunk` rows into sums, or all rows at once.
static __global__ void __launch_bounds__(BLOCK) factored_chunks_kernel(double *sums, struct factored_span span,
                                                                       size_t chunk, size_t tiles)
{
    const size_t column = blockIdx.x % tiles * BLOCK + threadIdx.x, number = blockIdx.x / tiles;
    const size_t first = number * chunk, end = first + chunk < span.rows ? first + chunk : span.rows;
    double sum = 0;
    if (column >= span.columns)
        return;
    for (size_t r = first; r < end; r++)
        sum += square(span.gradients[r * span.columns + column]);
    sums[number * span.columns + column] = sum;
}

static __global__ void __launch_bounds__(BLOCK) factored_columns_kernel(struct factored_span span, const double *sums,
                                                                        size_t chunks, struct adafactor_factors given,
                                                                        const void *there)
{
    const size_t column = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    double sum = 0;
    if (column >= span.columns)
        return;
    for (size_t i = 0; i < chunks; i++)
        sum += sums[i * span.columns + column];
    move_to(&span.column[column], sum / (double)span.rows, factors_of(given, there).beta);
}

struct vector_moments {
    const float *gradients;
    float *moments;
    struct adafactor_factors given;
    const void *there;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> g = load<N>(gradients + i);
        pack<N> v = load<N>(moments + i);
        const float beta = factors_of(given, there).beta;
#pragma unroll
        for (int k = 0; k < N; k++)
            v.at[k] = __fmaf_rn(1 - beta, v.at[k], __fmul_rn(__fmul_rn(beta, g.at[k]), g.at[k]));
        store<N>(moments + i, v);
    }
};

// The scratch begins with two floats: the mean of the rows' moments, and the step length. The sums are behind them.
static __global__ void __launch_bounds__(BLOCK) row_mean_kernel(float *mean, const float *rows, size_t count)
{
    double sum = 0;
    for (size_t i = threadIdx.x; i < count; i += BLOCK)
        sum += (double)rows[i];
    const float all = (float)(over_group<BLOCK>(sum, added()) / (double)count);
    if (threadIdx.x == 0)
        *mean = all < ADAFACTOR_LEAST_SECOND ? ADAFACTOR_LEAST_SECOND : all;
}

struct factored_steps {
    struct factored_span span;
    const float *mean;

    __device__ float second(size_t i) const
    {
        if (!span.column)
            return span.row[i];
        const size_t r = row_of(i, span.columns);
        return __fmul_rn(span.row[r] / *mean, span.column[i - r * span.columns]);
    }

    template <int N>
    __device__ pack<N> step(size_t i) const
    {
        pack<N> step = load<N>(span.gradients + i);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float least = ADAFACTOR_LEAST_SECOND * ADAFACTOR_LEAST_SECOND, v = second(i + k);
            step.at[k] = step.at[k] / sqrtf(v < least ? least : v);
        }
        return step;
    }

    template <int N>
    __device__ void at(size_t i, pack<N> &one, pack<N> &other) const
    {
        one = load<N>((const float *)span.weights + i);
        other = step<N>(i);
    }
};

static __global__ void __launch_bounds__(BLOCK) factored_scale_kernel(float *scale, const double *sums, size_t blocks,
                                                                      double count, struct adafactor_factors given,
                                                                      const void *there)
{
    double weights = 0, steps = 0;
    for (size_t i = threadIdx.x; i < blocks; i += BLOCK) {
        weights += sums[i];
        steps += sums[blocks + i];
    }
    weights = sqrt(over_group<BLOCK>(weights, added()) / count);
    steps = sqrt(over_group<BLOCK>(steps, added()) / count);
    const double least = (double)ADAFACTOR_LEAST_WEIGHT, size = weights > least ? weights : least;
    if (threadIdx.x == 0)
        *scale = (float)((double)factors_of(given, there).rate * size / (steps > 1 ? steps : 1));
}

struct factored_body {
    factored_steps steps;
    const float *scale;
    struct adafactor_factors given;
    const void *there;

    template <int N>
    __device__ void at(size_t i) const
    {
        const float shrink = factors_of(given, there).shrink;
        const pack<N> step = steps.step<N>(i);
        pack<N> w = load<N>((const float *)steps.span.weights + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            w.at[k] = __fmaf_rn(shrink, w.at[k], -__fmul_rn(*scale, step.at[k]));
        store<N>((float *)steps.span.next + i, w);
    }
};

// Works in chunks of rows whose sums fit into the scratch: four million columns at most.
static cudaError_t factored_moments(const struct cuda_launch *launch, const struct factored_span *span,
                                    struct adafactor_factors given, const void *there)
{
    const size_t room = CUDA_SCRATCH_BYTES / sizeof(double) - 1, most = room / span->columns;
    const size_t wanted = blocks_for(span->rows, 512), chunks = wanted < most ? wanted : most;
    const size_t tiles = blocks_for(span->columns, BLOCK);
    double *const sums = (double *)launch->scratch + 1;
    if (chunks == 0)
        return cudaErrorInvalidConfiguration;
    const size_t chunk = blocks_for(span->rows, chunks), used = blocks_for(span->rows, chunk);
    cudaError_t status = launch_blocks(launch, factored_rows_kernel, span->rows, BLOCK, 0, *span, given, there);
    if (status == cudaSuccess)
        status = launch_blocks(launch, factored_chunks_kernel, tiles * used, BLOCK, 0, sums, *span, chunk, tiles);
    if (status == cudaSuccess)
        status = launch_blocks(launch, factored_columns_kernel, tiles, BLOCK, 0, *span, sums, used, given, there);
    if (status == cudaSuccess)
        status = launch_blocks(launch, row_mean_kernel, 1, BLOCK, 0, (float *)launch->scratch, span->row, span->rows);
    return status;
}

cudaError_t cuda_adafactor(const struct cuda_launch *launch, const struct adafactor *adafactor,
                           const struct factored_span *span)
{
    const struct adafactor_factors given = adafactor_factors(adafactor);
    const void *there = adafactor->factors_at;
    const size_t count = span->rows * span->columns, blocks = blocks_of_sum(count, 16 * BLOCK);
    float *const floats = (float *)launch->scratch;
    double *const sums = (double *)launch->scratch + 1;
    const factored_steps steps = { *span, floats };
    const size_t head = head_of<UPDATE_PACK>(count, (const float *)span->next, (const float *)span->weights,
                                             span->gradients);
    if (count == 0)
        return cudaSuccess;
    cudaError_t status = span->column
        ? factored_moments(launch, span, given, there)
        : launch_each<UPDATE_PACK>(launch, vector_moments{ span->gradients, span->row, given, there }, count,
                                   head_of<UPDATE_PACK>(count, span->gradients, (const float *)span->row));
    if (status == cudaSuccess)
        status = launch_blocks(launch, two_squares_kernel<UPDATE_PACK, factored_steps>, blocks, BLOCK, 0, sums, steps,
                               count, head);
    if (status == cudaSuccess)
        status = launch_blocks(launch, factored_scale_kernel, 1, BLOCK, 0, floats + 1, sums, blocks, (double)count,
                               given, there);
    if (status == cudaSuccess)
        status = launch_each<UPDATE_PACK>(launch, factored_body{ steps, floats + 1, given, there }, count, head);
    return status;
}

// --- loading -------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(two_squares_kernel<UPDATE_PACK, lars_norms<T>>, each_kernel<UPDATE_PACK, lars_body<T>>,
                        two_squares_kernel<UPDATE_PACK, lamb_moments<T>>, each_kernel<UPDATE_PACK, lamb_body<T>>);
}

cudaError_t cuda_load_tensor_optimizers(void)
{
    const cudaError_t status =
        load_kernels(ratio_kernel, factored_rows_kernel, factored_chunks_kernel, factored_columns_kernel,
                     each_kernel<UPDATE_PACK, vector_moments>, row_mean_kernel, factored_scale_kernel,
                     two_squares_kernel<UPDATE_PACK, factored_steps>, each_kernel<UPDATE_PACK, factored_body>);
    return first_bad(status, LOAD_OF_ALL);
}
