// Private: kernels that treat each element by itself. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_ELEMENTWISE_H
#define DEVICE_CPU_ELEMENTWISE_H

#include "common/number.h"
#include "device/cpu_elements.h"

// Runs `body` for i = 0, LANES, .. with `left` elements still to go. The last time there may be fewer than LANES.
#define FOR_VECTORS(i, left, count) \
    for (size_t i = 0, left = (count); i < (count); i += LANES, left -= LANES)

static void cpu_fill(struct queue *queue, struct values *out, float value, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        store_first(elements(out) + i, vec_all(value), left);
}

static void cpu_add_floats(struct queue *queue, float *out, const float *a, const float *b, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        vec_store_first(out + i, vec_load_first(a + i, left, 0) + vec_load_first(b + i, left, 0), left);
}

INLINE void add_elements(element *out, const element *a, const element *b, size_t count)
{
    FOR_VECTORS (i, left, count)
        store_first(out + i, load_first(a + i, left, 0) + load_first(b + i, left, 0), left);
}

static void cpu_add(struct queue *queue, struct values *out, const struct values *a, const struct values *b,
                    size_t count)
{
    (void)queue;
    add_elements(elements(out), elements_of(a), elements_of(b), count);
}

static void cpu_scale(struct queue *queue, float *out, const float *in, float factor, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        vec_store_first(out + i, vec_load_first(in + i, left, 0) * factor, left);
}

INLINE void copy_elements(element *out, const element *in, size_t count)
{
    if (out != in && count > 0)
        memcpy(out, in, count * sizeof(element));
}

static void cpu_widen(struct queue *queue, float *out, const struct values *in, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        vec_store_first(out + i, load_first(elements_of(in) + i, left, 0), left);
}

static void cpu_narrow(struct queue *queue, struct values *out, const float *in, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        store_first(elements(out) + i, vec_load_first(in + i, left, 0), left);
}

// --- random numbers by counting ----------------------------------------------------

// 32 well-mixed bits from a counter and a key: two rounds of multiply and shift (the constants of Chris Wellons'
// lowbias32, public domain). The key enters before each round.
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
    uint32_t first;
    uint32_t least;  // an element whose bits are below it is dropped
    float factor;
};

INLINE struct dropping dropping_of(struct dropout dropout)
{
    return (struct dropping){
        .key = dropout.key_at ? *(const uint64_t *)dropout.key_at : dropout.key,
        .first = dropout.first,
        .least = (uint32_t)((double)dropout.probability * 0x1p32),
        .factor = 1.0f / (1.0f - dropout.probability),
    };
}

// A dropped NaN or infinity becomes 0 like every other dropped element.
INLINE vec dropped(vec x, size_t index, struct dropping dropping)
{
    const uvec bits = random_bits(vec_count_up() + dropping.first + (uint32_t)index, dropping.key);
    const ivec stays = (ivec)(bits >= dropping.least);
    return (vec)((ivec)(x * dropping.factor) & stays);
}

static void cpu_dropout(struct queue *queue, struct values *out, const struct values *in, size_t count,
                        struct dropout dropout)
{
    const element *from = elements_of(in);
    (void)queue;
    if (dropout.probability <= 0) {
        copy_elements(elements(out), from, count);
        return;
    }
    const struct dropping dropping = dropping_of(dropout);
    FOR_VECTORS (i, left, count)
        store_first(elements(out) + i, dropped(load_first(from + i, left, 0), i, dropping), left);
}

// Adds twelve 16-bit numbers from six draws. The sum is exact. Its mean is 6 * 2^16 - 6, and its variance is one
// after division by 2^16.
static void fill_normal_by_one_key(element *out, float deviation, uint64_t key, uint64_t first, size_t count)
{
    FOR_VECTORS (i, left, count) {
        uvec sum = vec_count_up() & 0u;
        for (uint32_t draw = 0; draw < 6; draw++) {
            const uvec counter = (vec_count_up() + (uint32_t)(first + i)) * 6 + draw;
            const uvec bits = random_bits(counter, key);
            sum += (bits & 0xffffu) + (bits >> 16);
        }
        const ivec centred = (ivec)sum - (6 * 65536 - 6);
        store_first(out + i, vec_of_integers(centred) * 0x1p-16f * deviation, left);
    }
}

// Counters have 32 bits, so every 2^28 numbers have a key of their own.
static void cpu_fill_normal(struct queue *queue, struct values *out, float deviation, uint64_t key, uint64_t first,
                            size_t count)
{
    const uint64_t by_one_key = 1u << 28;
    (void)queue;
    for (size_t done = 0, some; done < count; done += some) {
        const uint64_t index = first + done;
        some = min_u64(count - done, by_one_key - index % by_one_key);
        fill_normal_by_one_key(elements(out) + done, deviation, key + index / by_one_key, index, some);
    }
}

// --- activations -----------------------------------------------------------------------

static void cpu_relu(struct queue *queue, struct values *out, uint8_t *passed, const struct values *in, size_t count)
{
    element *to = elements(out);
    const element *from = elements_of(in);
    (void)queue;
    for (size_t i = 0; i < count; i++) {
        const float x = element_widen(from[i]);
        passed[i] = !(x <= 0);  // a NaN passes
        to[i] = element_round(x <= 0 ? 0 : x);
    }
}

static void cpu_relu_backward(struct queue *queue, struct values *in_gradient, const struct values *out_gradient,
                              const uint8_t *passed, size_t count)
{
    element *to = elements(in_gradient);
    const element *from = elements_of(out_gradient);
    (void)queue;
    for (size_t i = 0; i < count; i++)
        to[i] = passed[i] ? from[i] : element_round(0);
}

// GELU by tanh is x * s with s = (1 + tanh u) / 2 = 1 / (1 + e^(-2u)) and u = sqrt(2 / pi) (x + 0.044715 x^3). That
// takes one exponential and no tanh.
struct gelu {
    vec output;
    vec slope;
};

INLINE struct gelu gelu(vec x)
{
    const float a = 1.59576912f;               // 2 sqrt(2 / pi)
    const float b = 1.59576912f * 0.044715f;
    // Beyond 30 in size, s is 0 or 1 to the last bit. Clamped to that range, no infinity is multiplied by a 0.
    const vec near = vec_min(vec_all(30), vec_max(vec_all(-30), x));
    const vec square = near * near;
    const vec s = 1 / (1 + vec_exp(-near * (a + b * square)));
    return (struct gelu){
        .output = vec_max(vec_all(-30), x) * s,
        .slope = s + near * s * (1 - s) * (a + 3 * b * square),
    };
}

static void cpu_gelu(struct queue *queue, struct values *out, const struct values *in, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count)
        store_first(elements(out) + i, gelu(load_first(elements_of(in) + i, left, 0)).output, left);
}

static void cpu_gelu_backward(struct queue *queue, struct values *in_gradient, struct values *out,
                              const struct values *out_gradient, const struct values *in, size_t count)
{
    (void)queue;
    FOR_VECTORS (i, left, count) {
        const struct gelu y = gelu(load_first(elements_of(in) + i, left, 0));
        const vec slope = y.slope * load_first(elements_of(out_gradient) + i, left, 0);
        if (out)
            store_first(elements(out) + i, y.output, left);
        store_first(elements(in_gradient) + i, slope, left);
    }
}

// --- residuals ------------------------------------------

static void cpu_add_branch(struct queue *queue, struct values *out, const struct values *trunk,
                           const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                           struct dropout dropout)
{
    const bool drops = dropout.probability > 0;
    const struct dropping dropping = dropping_of(dropout);
    const element *from = elements_of(branch), *biases = elements_of(bias);
    (void)queue;
    for (size_t row = 0; row < rows; row++)
        FOR_VECTORS (i, left, columns) {
            const size_t index = row * columns + i;
            const vec x = load_first(from + index, left, 0)
                        + (biases ? load_first(biases + i, left, 0) : vec_all(0));
            const vec added = drops ? dropped(x, index, dropping) : x;
            store_first(elements(out) + index, load_first(elements_of(trunk) + index, left, 0) + added, left);
        }
}

#endif
