// Updates over flat spans, and sums of squares. A span may begin at any number: its packs begin where all its
// addresses allow it. The arithmetic is explicit, so that a number gets the same bits in a pack as alone. It also
// gets the bits of a processor (vec_fma()), which updates what is in the host's memory.
#include "device/cuda/spans.cuh"

// 16 bytes at a time: each_kernel<4, adamw_body<T>>, 4 loads, 3 stores
template <class T>
struct adamw_body {
    weights<T> weight;
    const float *gradients;
    float *first, *second;
    float beta1, rest1, beta2, rest2, epsilon;
    struct adamw_factors given;
    const struct adamw_factors *there;  // NULL: `given` is used

    template <int N>
    __device__ void at(size_t i) const
    {
        pack<N> g = load<N>(gradients + i);
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
static cudaError_t adamw_of(const struct cuda_launch *launch, const struct adamw *adamw,
                            const struct optimizer_span *span)
{
    adamw_body<T> body;
    body.weight = weights_of<T>(span);
    body.gradients = span->gradients, body.first = span->first, body.second = span->second;
    body.beta1 = adamw->frozen > 0 ? 1 : adamw->beta1, body.rest1 = 1 - body.beta1;
    body.beta2 = adamw->frozen > 0 ? 1 : adamw->beta2, body.rest2 = 1 - body.beta2;
    body.epsilon = adamw->epsilon;
    body.given = adamw_factors(adamw);
    body.there = (const struct adamw_factors *)adamw->factors_at;
    return launch_each<UPDATE_PACK>(launch, body, span->count, head_of_span<T>(span));
}

cudaError_t cuda_adamw(const struct cuda_launch *launch, const struct adamw *adamw, const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, adamw_of<T>(launch, adamw, span));
}

// 16 bytes at a time: each_kernel<4, sgd_body<T>>, 3 loads, 2 stores
template <class T>
struct sgd_body {
    weights<T> weight;
    const float *gradients;
    float *first;  // NULL: no momentum
    float rate, momentum, decay, ahead;  // ahead: the momentum with Nesterov, or 0
    const float *rate_at;  // NULL: `rate` is used

    template <int N>
    __device__ void at(size_t i) const
    {
        pack<N> g = {}, m, w = weight.template read<N>(i), before = {};
        if (gradients)
            g = load<N>(gradients + i);
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
static cudaError_t sgd_of(const struct cuda_launch *launch, const struct sgd *sgd, const struct optimizer_span *span)
{
    const float momentum = span->first ? sgd->momentum : 0;
    const sgd_body<T> body = { weights_of<T>(span), span->gradients, span->first, sgd->rate, momentum, sgd->decay,
                               sgd->is_nesterov ? momentum : 0, (const float *)sgd->rate_at };
    return launch_each<UPDATE_PACK>(launch, body, span->count, head_of_span<T>(span));
}

cudaError_t cuda_sgd(const struct cuda_launch *launch, const struct sgd *sgd, const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, sgd_of<T>(launch, sgd, span));
}

// 16 bytes at a time: each_kernel<4, adagrad_body<T>>, 3 loads, 2 stores
template <class T>
struct adagrad_body {
    weights<T> weight;
    const float *gradients;
    float *first;
    float rate, epsilon, decay;
    const float *rate_at;  // NULL: `rate` is used

    template <int N>
    __device__ void at(size_t i) const
    {
        pack<N> g = load<N>(gradients + i), sum = load<N>(first + i), w = weight.template read<N>(i);
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
static cudaError_t adagrad_of(const struct cuda_launch *launch, const struct adagrad *adagrad,
                              const struct optimizer_span *span)
{
    const adagrad_body<T> body = { weights_of<T>(span), span->gradients, span->first, adagrad->rate,
                                   adagrad->epsilon, adagrad->decay, (const float *)adagrad->rate_at };
    return launch_each<UPDATE_PACK>(launch, body, span->count, head_of_span<T>(span));
}

cudaError_t cuda_adagrad(const struct cuda_launch *launch, const struct adagrad *adagrad,
                         const struct optimizer_span *span)
{
    WITH_NUMBERS(launch, adagrad_of<T>(launch, adagrad, span));
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

static cudaError_t load_of_all()
{
    return first_bad(load_of<float>(), first_bad(load_of<__nv_bfloat16>(), load_of<__half>()));
}

cudaError_t cuda_load_optimizer(void)
{
    return first_bad(load_kernels(squares_kernel, root_kernel, clip_factor_kernel, each_kernel<UPDATE_PACK, clip_body>),
                     load_of_all());
}
