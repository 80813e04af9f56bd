// Private: kernels that take each element by itself. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_ELEMENTWISE_H
#define DEVICE_CPU_ELEMENTWISE_H

#include "device/vector.h"

// Runs `body` for i = 0, LANES, .. with `left` elements still to go, the last time
// fewer than LANES perhaps.
#define FOR_VECTORS(i, left, count) \
    for (size_t i = 0, left = (count); i < (count); i += LANES, left -= LANES)

static void cpu_fill(struct queue *queue, float *out, float value, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        vec_store_first(out + i, vec_all(value), left);
}

static void cpu_add(struct queue *queue, float *out, const float *a, const float *b, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        vec_store_first(out + i, vec_load_first(a + i, left, 0) + vec_load_first(b + i, left, 0), left);
}

static void cpu_scale(struct queue *queue, float *out, const float *in, float factor, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        vec_store_first(out + i, vec_load_first(in + i, left, 0) * factor, left);
}

// --- random numbers by counting ----------------------------------------------------

// 32 well-mixed bits from a counter and a key: two rounds of multiply and shift
// (the constants of Chris Wellons' lowbias32, public domain), the key entering
// before each.
INLINE uvec random_bits(uvec counter, uint64_t key)
{
    uvec x = counter * 0x9e3779b9u + (uint32_t)key;
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

struct dropping {
    uint64_t key;
    uint32_t least;  // bits below it drop their element
    float factor;
};

INLINE struct dropping dropping_of(struct dropout dropout)
{
    return (struct dropping){
        .key = dropout.key,
        .least = (uint32_t)((double)dropout.probability * 0x1p32),
        .factor = 1.0f / (1.0f - dropout.probability),
    };
}

// A dropped NaN or infinity becomes 0 like everything else dropped.
INLINE vec dropped(vec x, size_t index, struct dropping dropping)
{
    const uvec bits = random_bits(vec_count_up() + (uint32_t)index, dropping.key);
    const ivec stays = (ivec)(bits >= dropping.least);
    return (vec)((ivec)(x * dropping.factor) & stays);
}

static void cpu_dropout(struct queue *queue, float *out, const float *in, size_t count, struct dropout dropout)
{
    if (dropout.probability <= 0) {
        if (out != in)
            cpu_scale(queue, out, in, 1, count);
        return;
    }
    const struct dropping dropping = dropping_of(dropout);
    FOR_VECTORS (i, left, count)
        vec_store_first(out + i, dropped(vec_load_first(in + i, left, 0), i, dropping), left);
}

// Twelve 16-bit numbers from six draws; the sum is exact, its variance one after
// the division by 2^16, and its mean 6 short of half a unit.
static void cpu_fill_normal(struct queue *queue, float *out, float deviation, uint64_t key, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count) {
        uvec sum = vec_count_up() & 0u;
        for (uint32_t draw = 0; draw < 6; draw++) {
            const uvec counter = (vec_count_up() + (uint32_t)i) * 6 + draw;
            const uvec bits = random_bits(counter, key + (i >> 28));
            sum += (bits & 0xffffu) + (bits >> 16);
        }
        const ivec centred = (ivec)sum - (6 * 65536 - 6);
        vec_store_first(out + i, vec_of_integers(centred) * 0x1p-16f * deviation, left);
    }
}

// --- activations -----------------------------------------------------------------------

static void cpu_relu(struct queue *queue, float *out, uint8_t *passed, const float *in, size_t count)
{
    (void)queue;
    for (size_t i = 0; i < count; i++) {
        const float x = in[i];
        passed[i] = !(x <= 0);  // a NaN passes
        out[i] = x <= 0 ? 0 : x;
    }
}

static void cpu_relu_backward(struct queue *queue, float *in_gradient, const float *out_gradient, const uint8_t *passed,
                              size_t count)
{
    (void)queue;
    for (size_t i = 0; i < count; i++)
        in_gradient[i] = passed[i] ? out_gradient[i] : 0;
}

// GELU by tanh is x * s with s = (1 + tanh u) / 2 = 1 / (1 + e^(-2u)) and
// u = sqrt(2 / pi) (x + 0.044715 x^3): one exponential, no tanh.
struct gelu {
    vec output;
    vec slope;
};

INLINE struct gelu gelu(vec x)
{
    const float a = 1.59576912f;               // 2 sqrt(2 / pi)
    const float b = 1.59576912f * 0.044715f;
    // Past 30 in size s is 0 or 1 to the last bit; kept within, no infinity meets a 0.
    const vec near = vec_min(vec_all(30), vec_max(vec_all(-30), x));
    const vec square = near * near;
    const vec s = 1 / (1 + vec_exp(-near * (a + b * square)));
    return (struct gelu){
        .output = vec_max(vec_all(-30), x) * s,
        .slope = s + near * s * (1 - s) * (a + 3 * b * square),
    };
}

static void cpu_gelu(struct queue *queue, float *out, const float *in, const float *bias, size_t rows, size_t columns)
{
    (void)queue;
    for (size_t row = 0; row < rows; row++, out += columns, in += columns)
        FOR_VECTORS (i, left, columns) {
            const vec x = vec_load_first(in + i, left, 0);
            const vec moved = bias ? x + vec_load_first(bias + i, left, 0) : x;
            vec_store_first(out + i, gelu(moved).output, left);
        }
}

static void cpu_gelu_backward(struct queue *queue, float *in_gradient, float *out, const float *out_gradient,
                              const float *in, const float *bias, size_t rows, size_t columns)
{
    (void)queue;
    for (size_t row = 0; row < rows; row++)
        FOR_VECTORS (i, left, columns) {
            const size_t at = row * columns + i;
            const vec x = vec_load_first(in + at, left, 0);
            const struct gelu y = gelu(bias ? x + vec_load_first(bias + i, left, 0) : x);
            const vec slope = y.slope * vec_load_first(out_gradient + at, left, 0);
            if (out)
                vec_store_first(out + at, y.output, left);
            vec_store_first(in_gradient + at, slope, left);
        }
}

// --- biases and residuals -------------------------------------------------------------

static void cpu_add_bias(struct queue *queue, float *out, const float *in, const float *bias, size_t rows,
                         size_t columns)
{
    for (size_t row = 0; row < rows; row++)
        cpu_add(queue, out + row * columns, in + row * columns, bias, columns);
}

static void cpu_add_branch(struct queue *queue, float *out, const float *trunk, const float *branch, const float *bias,
                           size_t rows, size_t columns, struct dropout dropout)
{
    (void)queue;
    const bool drops = dropout.probability > 0;
    const struct dropping dropping = dropping_of(dropout);
    for (size_t row = 0; row < rows; row++)
        FOR_VECTORS (i, left, columns) {
            const size_t at = row * columns + i;
            const vec x = vec_load_first(branch + at, left, 0) + vec_load_first(bias + i, left, 0);
            const vec added = drops ? dropped(x, at, dropping) : x;
            vec_store_first(out + at, vec_load_first(trunk + at, left, 0) + added, left);
        }
}

#endif
