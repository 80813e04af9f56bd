// Optimizers that look at a whole tensor at a time. Sums over all of it are made as those of a norm: each block adds
// what falls to it, in double, and one block adds those sums.
#include "device/cuda/spans.cuh"

// `body` leaves two packs at each place, whose squares are added up apart.
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

// trust * |weights| / (|steps| + decay * |weights|), as trust_ratio() has it.
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

// Where in the scratch the ratio stands, and behind it the sums.
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

template <class T>
struct lars_body {
    weights<T> weight;
    const float *gradients;
    float *first;
    float rate, momentum, decay;
    const float *rate_at;  // NULL: `rate` is it
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
    const struct lamb_factors *there;  // NULL: those given are they

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

// --- loading -------------------------------------------------------------------------------

template <class T>
static cudaError_t load_of()
{
    return load_kernels(two_squares_kernel<UPDATE_PACK, lars_norms<T>>, each_kernel<UPDATE_PACK, lars_body<T>>,
                        two_squares_kernel<UPDATE_PACK, lamb_moments<T>>, each_kernel<UPDATE_PACK, lamb_body<T>>);
}

cudaError_t cuda_load_tensor_optimizers(void)
{
    return first_bad(load_kernels(ratio_kernel), first_bad(load_of<float>(), load_of<__nv_bfloat16>()));
}
