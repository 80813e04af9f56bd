// Kernels that treat each number by itself. Each reads its inputs once and writes its outputs once, which is the
// least possible traffic.
#include "device/cuda/numbers.cuh"

// --- copies and sums ---------------------------------------------------------------

// 16 bytes at a time: each_kernel<8, fill_body<T>>, 0 loads, 1 store
template <class T>
struct fill_body {
    T *out;
    float value;

    template <int N>
    __device__ void at(size_t i) const
    {
        store<N>(out + i, each<N>([&](int) { return value; }));
    }
};

cudaError_t cuda_fill(const struct cuda_launch *launch, struct values *out, float value, size_t count)
{
    WITH_NUMBERS(launch, launch_packs(launch, fill_body<T>{ (T *)out, value }, count, (T *)out));
}

// 16 bytes at a time: each_kernel<8, add_body<T>>, 2 loads, 1 store
template <class T>
struct add_body {
    T *out;
    const T *a, *b;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(a + i), y = load<N>(b + i);
        store<N>(out + i, each<N>([&](int k) { return x.at[k] + y.at[k]; }));
    }
};

template <class T>
static cudaError_t add(const struct cuda_launch *launch, T *out, const T *a, const T *b, size_t count)
{
    return launch_packs(launch, add_body<T>{ out, a, b }, count, out, a, b);
}

cudaError_t cuda_add(const struct cuda_launch *launch, struct values *out, const struct values *a,
                     const struct values *b, size_t count)
{
    WITH_NUMBERS(launch, add(launch, (T *)out, (const T *)a, (const T *)b, count));
}

cudaError_t cuda_add_floats(const struct cuda_launch *launch, float *out, const float *a, const float *b, size_t count)
{
    return add(launch, out, a, b, count);
}

template <class To, class From>
constexpr int least_pack = pack_of<To> < pack_of<From> ? pack_of<To> : pack_of<From>;

// out = factor * in, from one type to another.
// 16 bytes at a time: each_kernel<4, scale_body<float, T>>, 0 loads, 1 store
// 16 bytes at a time: each_kernel<4, scale_body<T, float>>, 1 load, 0 stores
template <class To, class From>
struct scale_body {
    To *out;
    const From *in;
    float factor;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(in + i);
        store<N>(out + i, each<N>([&](int k) { return x.at[k] * factor; }));
    }
};

template <class To, class From>
static cudaError_t scale(const struct cuda_launch *launch, To *out, const From *in, float factor, size_t count)
{
    constexpr int PACK = least_pack<To, From>;
    return launch_each<PACK>(launch, scale_body<To, From>{ out, in, factor }, count, head_of<PACK>(count, out, in));
}

cudaError_t cuda_scale(const struct cuda_launch *launch, float *out, const float *in, float factor, size_t count)
{
    return scale(launch, out, in, factor, count);
}

cudaError_t cuda_widen(const struct cuda_launch *launch, float *out, const struct values *in, size_t count)
{
    WITH_NUMBERS(launch, scale(launch, out, (const T *)in, 1, count));
}

cudaError_t cuda_narrow(const struct cuda_launch *launch, struct values *out, const float *in, size_t count)
{
    WITH_NUMBERS(launch, scale(launch, (T *)out, in, 1, count));
}

// --- random numbers by counting ------------------------------------------------------

// The hash of the CPU's kernels (device/cpu_elementwise.h), bit for bit.
__device__ inline uint32_t random_bits(uint32_t counter, uint64_t key)
{
    uint32_t x = counter * 0x9e3779b9u + (uint32_t)key;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    x += (uint32_t)(key >> 32);
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

template <class T>
struct normal_body {
    T *out;
    float deviation;
    uint64_t key, first;

    // Adds twelve 16-bit numbers from six draws: integers until the last two steps.
    __device__ float number(uint64_t i) const
    {
        uint32_t sum = 0;
#pragma unroll
        for (uint32_t draw = 0; draw < 6; draw++) {
            const uint32_t bits = random_bits((uint32_t)i * 6 + draw, key + (i >> 28));
            sum += (bits & 0xffffu) + (bits >> 16);
        }
        const float centred = (float)((int32_t)sum - (6 * 65536 - 6));
        return __fmul_rn(__fmul_rn(centred, 1.0f / 65536), deviation);
    }

    template <int N>
    __device__ void at(size_t i) const
    {
        store<N>(out + i, each<N>([&](int k) { return number(first + i + k); }));
    }
};

cudaError_t cuda_fill_normal(const struct cuda_launch *launch, struct values *out, float deviation, uint64_t key,
                             uint64_t first, size_t count)
{
    WITH_NUMBERS(launch, launch_packs(launch, normal_body<T>{ (T *)out, deviation, key, first }, count, (T *)out));
}

struct dropping {
    uint64_t key;
    const uint64_t *key_at;  // NULL: `key` is used
    uint32_t first;
    uint32_t least;          // a number whose bits are below it is dropped
    float factor;

    // A dropped NaN or infinity becomes 0 like every other dropped number.
    __device__ float of(float x, size_t index) const
    {
        return random_bits(first + (uint32_t)index, key_at ? *key_at : key) >= least ? __fmul_rn(x, factor) : 0;
    }
};

static struct dropping dropping_of(struct dropout dropout)
{
    return { dropout.key, (const uint64_t *)dropout.key_at, dropout.first,
             (uint32_t)((double)dropout.probability * 4294967296.0), 1.0f / (1.0f - dropout.probability) };
}

// 16 bytes at a time: each_kernel<8, dropout_body<T>>, 1 load, 1 store
template <class T>
struct dropout_body {
    T *out;
    const T *in;
    struct dropping dropping;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(in + i);
        store<N>(out + i, each<N>([&](int k) { return dropping.of(x.at[k], i + k); }));
    }
};

template <class T>
static cudaError_t drop(const struct cuda_launch *launch, T *out, const T *in, size_t count, struct dropout dropout)
{
    if (dropout.probability <= 0)
        return out == in ? cudaSuccess : scale(launch, out, in, 1, count);
    return launch_packs(launch, dropout_body<T>{ out, in, dropping_of(dropout) }, count, out, in);
}

cudaError_t cuda_dropout(const struct cuda_launch *launch, struct values *out, const struct values *in, size_t count,
                         struct dropout dropout)
{
    WITH_NUMBERS(launch, drop(launch, (T *)out, (const T *)in, count, dropout));
}

// --- activations ------------------------------------------------------------------------

// N bytes, each 0 or 1.
template <int N>
__device__ inline void store_bytes(uint8_t *to, const bool (&set)[N])
{
    if constexpr (N % 4 == 0) {
        unsigned words[N / 4];
#pragma unroll
        for (int i = 0; i < N; i += 4)
            words[i / 4] = set[i] | set[i + 1] << 8 | set[i + 2] << 16 | set[i + 3] << 24;
        if constexpr (N == 8)
            __stcg((uint2 *)to, make_uint2(words[0], words[1]));
        else
            __stcg((unsigned *)to, words[0]);
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            to[i] = set[i];
    }
}

template <int N>
__device__ inline void load_bytes(const uint8_t *from, bool (&set)[N])
{
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const unsigned four = *(const unsigned *)(from + i);
            set[i] = four & 0xff, set[i + 1] = four & 0xff00, set[i + 2] = four & 0xff0000, set[i + 3] = four >> 24;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++)
            set[i] = from[i];
    }
}

// 16 bytes at a time: each_kernel<8, relu_body<T>>, 1 load, 1 store
template <class T>
struct relu_body {
    T *out;
    uint8_t *passed;
    const T *in;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(in + i);
        bool passes[N];
#pragma unroll
        for (int k = 0; k < N; k++)
            passes[k] = !(x.at[k] <= 0);  // a NaN passes
        store_bytes<N>(passed + i, passes);
        store<N>(out + i, each<N>([&](int k) { return passes[k] ? x.at[k] : 0; }));
    }
};

cudaError_t cuda_relu(const struct cuda_launch *launch, struct values *out, uint8_t *passed, const struct values *in,
                      size_t count)
{
    WITH_NUMBERS(launch, launch_packs(launch, relu_body<T>{ (T *)out, passed, (const T *)in }, count, (T *)out, passed,
                                      (const T *)in));
}

// 16 bytes at a time: each_kernel<8, relu_backward_body<T>>, 1 load, 1 store
template <class T>
struct relu_backward_body {
    T *in_gradient;
    const T *out_gradient;
    const uint8_t *passed;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> g = load<N>(out_gradient + i);
        bool passes[N];
        load_bytes<N>(passed + i, passes);
        store<N>(in_gradient + i, each<N>([&](int k) { return passes[k] ? g.at[k] : 0; }));
    }
};

cudaError_t cuda_relu_backward(const struct cuda_launch *launch, struct values *in_gradient,
                               const struct values *out_gradient, const uint8_t *passed, size_t count)
{
    WITH_NUMBERS(launch, launch_packs(launch,
                                      relu_backward_body<T>{ (T *)in_gradient, (const T *)out_gradient, passed },
                                      count, (T *)in_gradient, (const T *)out_gradient, passed));
}

// GELU by tanh is x * s with s = 1 / (1 + e^-(a x + b x^3)). That takes one exponential and no tanh. Beyond 30 in
// size, s is 0 or 1 to the last bit. Clamped to that range, no infinity is multiplied by a 0. A NaN stays NaN, since
// every comparison with it leaves it as it is.
template <class T>
struct gelu_of {
    float x, near, a_b_square, s;

    static constexpr float a = 1.59576912f;  // 2 sqrt(2 / pi)
    static constexpr float b = 1.59576912f * 0.044715f;

    __device__ explicit gelu_of(float in)
    {
        x = in < -30 ? -30 : in;
        near = x > 30 ? 30 : x;
        a_b_square = __fmaf_rn(b, __fmul_rn(near, near), a);
        s = quotient<T>(1, __fadd_rn(1, exponential<T>(__fmul_rn(-near, a_b_square))));
    }

    __device__ float output() const
    {
        return __fmul_rn(x, s);
    }

    __device__ float slope() const
    {
        const float inner = 3 * a_b_square - 2 * a;  // a + 3 b x^2
        return s + near * s * (1 - s) * inner;
    }
};

// 16 bytes at a time: each_kernel<8, gelu_body<T>>, 1 load, 1 store
template <class T>
struct gelu_body {
    T *out;
    const T *in;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(in + i);
        store<N>(out + i, each<N>([&](int k) { return gelu_of<T>(x.at[k]).output(); }));
    }
};

cudaError_t cuda_gelu(const struct cuda_launch *launch, struct values *out, const struct values *in, size_t count)
{
    WITH_NUMBERS(launch, launch_packs(launch, gelu_body<T>{ (T *)out, (const T *)in }, count, (T *)out,
                                      (const T *)in));
}

// 16 bytes at a time: each_kernel<8, gelu_backward_body<T>>, 2 loads, 2 stores
template <class T>
struct gelu_backward_body {
    T *in_gradient, *out;
    const T *out_gradient, *in;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(in + i), g = load<N>(out_gradient + i);
        pack<N> y, slope;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const gelu_of<T> gelu(x.at[k]);
            y.at[k] = gelu.output();
            slope.at[k] = g.at[k] * gelu.slope();
        }
        if (out)
            store<N>(out + i, y);
        store<N>(in_gradient + i, slope);
    }
};

cudaError_t cuda_gelu_backward(const struct cuda_launch *launch, struct values *in_gradient, struct values *out,
                               const struct values *out_gradient, const struct values *in, size_t count)
{
    WITH_NUMBERS(launch, launch_packs(launch,
                                      gelu_backward_body<T>{ (T *)in_gradient, (T *)out, (const T *)out_gradient,
                                                             (const T *)in },
                                      count, (T *)in_gradient, (T *)out, (const T *)out_gradient, (const T *)in));
}

// --- biases and residuals ----------------------------------------------------------------

// 16 bytes at a time: each_kernel<8, branch_body<T>>, 3 loads, 1 store
template <class T>
struct branch_body {
    T *out;
    const T *trunk, *branch, *bias;
    size_t columns;
    bool drops;
    struct dropping dropping;

    template <int N>
    __device__ void at(size_t i) const
    {
        const pack<N> x = load<N>(branch + i), y = load<N>(trunk + i),
                      z = bias ? load<N>(bias + i - row_of(i, columns) * columns) : pack<N>{};
        store<N>(out + i, each<N>([&](int k) {
                     const float moved = __fadd_rn(x.at[k], z.at[k]);
                     return __fadd_rn(y.at[k], drops ? dropping.of(moved, i + k) : moved);
                 }));
    }
};

template <class T>
static cudaError_t add_branch(const struct cuda_launch *launch, T *out, const T *trunk, const T *branch, const T *bias,
                              size_t rows, size_t columns, struct dropout dropout)
{
    const branch_body<T> body = { out, trunk, branch, bias, columns, dropout.probability > 0, dropping_of(dropout) };
    const size_t count = rows * columns;
    return launch_each<pack_of<T>>(launch, body, count,
                                   head_of_rows<pack_of<T>>(columns, count, out, trunk, branch, bias));
}

cudaError_t cuda_add_branch(const struct cuda_launch *launch, struct values *out, const struct values *trunk,
                            const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                            struct dropout dropout)
{
    WITH_NUMBERS(launch, add_branch(launch, (T *)out, (const T *)trunk, (const T *)branch, (const T *)bias, rows,
                                    columns, dropout));
}

// 16 bytes at a time: each_kernel<8, matmul_end_body<T>>, 2 loads, 2 stores
template <class T>
struct matmul_end_body {
    T *c, *before_gelu;
    const T *bias;
    size_t columns, stride;

    template <int N>
    __device__ void at(size_t i) const
    {
        const size_t row = row_of(i, columns), column = i - row * columns, index = row * stride + column;
        pack<N> x = load<N>(c + index);
        if (bias) {
            const pack<N> y = load<N>(bias + column);
            x = each<N>([&](int k) { return x.at[k] + y.at[k]; });
        }
        if (before_gelu) {
            store<N>(before_gelu + index, x);
            x = each<N>([&](int k) { return gelu_of<T>(x.at[k]).output(); });
        }
        store<N>(c + index, x);
    }
};

template <class T>
static cudaError_t end_matmul(const struct cuda_launch *launch, T *c, T *before_gelu, const T *bias, size_t rows,
                              size_t columns, size_t stride)
{
    if (!bias && !before_gelu)
        return cudaSuccess;
    const size_t count = rows * columns;
    const size_t head = stride % pack_of<T> ? count : head_of_rows<pack_of<T>>(columns, count, c, before_gelu, bias);
    return launch_each<pack_of<T>>(launch, matmul_end_body<T>{ c, before_gelu, bias, columns, stride }, count, head);
}

cudaError_t cuda_end_matmul(const struct cuda_launch *launch, struct values *c, struct values *before_gelu,
                            const struct values *bias, size_t rows, size_t columns, size_t stride)
{
    WITH_NUMBERS(launch, end_matmul(launch, (T *)c, (T *)before_gelu, (const T *)bias, rows, columns, stride));
}

// --- loading ---------------------------------------------------------------------------------

template <class To, class From>
static cudaError_t load_scale()
{
    return load_kernels(each_kernel<least_pack<To, From>, scale_body<To, From>>);
}

template <class T>
static cudaError_t load_of()
{
    constexpr int PACK = pack_of<T>;
    const cudaError_t status = load_kernels(
        each_kernel<PACK, fill_body<T>>, each_kernel<PACK, add_body<T>>, each_kernel<PACK, normal_body<T>>,
        each_kernel<PACK, dropout_body<T>>, each_kernel<PACK, relu_body<T>>, each_kernel<PACK, relu_backward_body<T>>,
        each_kernel<PACK, gelu_body<T>>, each_kernel<PACK, gelu_backward_body<T>>, each_kernel<PACK, branch_body<T>>,
        each_kernel<PACK, matmul_end_body<T>>);
    return first_bad(status, first_bad(load_scale<T, T>(), first_bad(load_scale<float, T>(), load_scale<T, float>())));
}

cudaError_t cuda_load_elementwise(void)
{
    return LOAD_OF_ALL;
}
