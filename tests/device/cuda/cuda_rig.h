// A bench for the kernels of device/cuda/ on the GPU that the CPU plays: every check
// runs in each precision and in three orders of threads and blocks, which must
// leave the same bits. Buffers begin at odd addresses now and then, and end where
// the sanitizer, or a guard, sees what is past them; outputs are poisoned.
#ifndef TESTS_CUDA_RIG_H
#define TESTS_CUDA_RIG_H

#include <math.h>
#include <string.h>

#include "common/hash.h"
#include "device/cuda/launch.h"
#include "device/half.h"
#include "gpu_on_cpu.h"
#include "tests/test.h"

#ifdef __SANITIZE_ADDRESS__
enum { CUDA_RIG_GUARD = 0 };
#else
enum { CUDA_RIG_GUARD = 64 };
#endif
enum { CUDA_RIG_BUFFERS = 40, CUDA_RIG_ALIGN = 256 };

struct cuda_rig {
    struct cuda_launch launch;
    enum precision precision;
    uint32_t failure;
    uint64_t seed;
    size_t shift;  // numbers by which buffers begin past a good address
    struct {
        void *memory;
        size_t bytes, skipped_bytes;  // with what was skipped
        bool is_output;
    } buffer[CUDA_RIG_BUFFERS];
    size_t buffer_count;
};

// --- numbers of each precision ------------------------------------------------------

static inline float rounded_to(enum precision precision, float x)
{
    return precision == PRECISION_FP32 ? x : half_widen(precision, half_round(precision, x));
}

static inline float value_at(const struct cuda_rig *rig, const struct values *values, size_t i)
{
    return number_of(values, rig->precision, i);
}

static inline void set_value(const struct cuda_rig *rig, struct values *values, size_t i, float x)
{
    if (rig->precision == PRECISION_FP32)
        ((float *)(void *)values)[i] = x;
    else
        ((uint16_t *)(void *)values)[i] = half_round(rig->precision, x);
}

// --- buffers -----------------------------------------------------------------------------

static inline void *cuda_rig_bytes(struct cuda_rig *rig, size_t count, size_t bytes_each, bool is_output)
{
    assert_true(rig->buffer_count < CUDA_RIG_BUFFERS);
    const size_t skipped = rig->shift * bytes_each, bytes = skipped + count * bytes_each;
    uint8_t *memory = malloc(bytes + CUDA_RIG_GUARD + 1);
    assert_non_null(memory);
    memset(memory, 0xff, bytes);
    memset(memory + bytes, 0x5a, CUDA_RIG_GUARD);
    rig->buffer[rig->buffer_count].memory = memory;
    rig->buffer[rig->buffer_count].bytes = bytes;
    rig->buffer[rig->buffer_count].skipped_bytes = skipped;
    rig->buffer[rig->buffer_count++].is_output = is_output;
    return memory + skipped;
}

static inline struct values *out_values(struct cuda_rig *rig, size_t count)
{
    return cuda_rig_bytes(rig, count, precision_bytes(rig->precision), true);
}

static inline float *out_floats(struct cuda_rig *rig, size_t count)
{
    return cuda_rig_bytes(rig, count, sizeof(float), true);
}

// Uniform in [-spread, spread), rounded to the precision.
static inline struct values *some_values(struct cuda_rig *rig, size_t count, double spread)
{
    struct values *values = cuda_rig_bytes(rig, count, precision_bytes(rig->precision), false);
    for (size_t i = 0; i < count; i++)
        set_value(rig, values, i, (float)((2 * random_unit(&rig->seed) - 1) * spread));
    return values;
}

static inline float *some_floats(struct cuda_rig *rig, size_t count, double spread)
{
    float *data = cuda_rig_bytes(rig, count, sizeof(float), false);
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((2 * random_unit(&rig->seed) - 1) * spread);
    return data;
}

// An output that is added to: numbers to begin with, and a copy of them.
static inline float *some_sums(struct cuda_rig *rig, size_t count, float **before)
{
    *before = some_floats(rig, count, 1);
    float *sums = out_floats(rig, count);
    memcpy(sums, *before, count * sizeof(float));
    return sums;
}

static inline int32_t *some_tokens(struct cuda_rig *rig, size_t count, size_t vocabulary)
{
    int32_t *tokens = cuda_rig_bytes(rig, count, sizeof(int32_t), false);
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)random_below(&rig->seed, vocabulary);
    return tokens;
}

// --- comparisons ----------------------------------------------------------------------------

static inline void must_launch(cudaError_t status)
{
    if (status != cudaSuccess || gpu_trouble())
        fail_msg("the launch gave %d: %s", (int)status, gpu_trouble() ? gpu_trouble() : "no more is known");
}

// Relative to 1 + |want|: `tolerance` for float; what is rounded to 16 bits may be one
// unit in its last place further.
static inline void must_be_near(const struct cuda_rig *rig, double got, double want, double tolerance,
                                const char *what, size_t i)
{
    static const double units[] = { [PRECISION_FP32] = 0, [PRECISION_BF16] = 1. / 128, [PRECISION_FP16] = 1. / 1024 };
    const double allowed = tolerance * (1 + fabs(want)) + units[rig->precision] * fabs(want);
    if (!(fabs(got - want) <= allowed))
        fail_msg("%s[%zu] is %.9g, should be %.9g", what, i, got, want);
}

// The same bits, but for what a NaN carries.
static inline void must_equal(double got, double want, const char *what, size_t i)
{
    if (isnan(want) ? !isnan(got) : got != want)
        fail_msg("%s[%zu] is %.9g, should be exactly %.9g", what, i, got, want);
}

// --- trials ------------------------------------------------------------------------------------

// Looks at the guards, hashes the outputs into `digits`, and releases all.
static inline void cuda_rig_finish(struct cuda_rig *rig, char digits[HASH_SIZE])
{
    char hashes[CUDA_RIG_BUFFERS][HASH_SIZE] = { { 0 } };
    for (size_t b = 0; b < rig->buffer_count; b++) {
        const uint8_t *memory = rig->buffer[b].memory;
        const size_t skipped = rig->buffer[b].skipped_bytes, bytes = rig->buffer[b].bytes, guard = CUDA_RIG_GUARD;
        for (size_t i = 0; i < skipped; i++)
            assert_true(memory[i] == 0xff);
        for (size_t i = 0; i < guard; i++)
            if (memory[bytes + i] != 0x5a)
                fail_msg("buffer %zu was written %zu past its end", b, i);
        if (rig->buffer[b].is_output)
            hash_bytes(memory + skipped, bytes - skipped, hashes[b]);
        free(rig->buffer[b].memory);
    }
    hash_bytes(hashes, sizeof hashes, digits);
    rig->buffer_count = 0;
}

typedef void cuda_check(struct cuda_rig *rig, uint64_t trial);

static inline void cuda_rig_trial(struct cuda_rig *rig, cuda_check *check, uint64_t trial)
{
    char first[HASH_SIZE], digits[HASH_SIZE];
    for (enum gpu_order order = 0; order < GPU_ORDERS; order++) {
        gpu_set_order(order, trial);
        memset(rig->launch.scratch, 0xff, CUDA_SCRATCH_BYTES / 16);
        rig->seed = trial;
        rig->shift = trial % 3 == 2 ? random_below(&rig->seed, 8) : 0;
        rig->failure = CUDA_FAILURE_NONE;
        check(rig, trial);
        cuda_rig_finish(rig, order ? digits : first);
        if (order && strcmp(first, digits) != 0)
            fail_msg("trial %llu: other bits when threads run in another order", (unsigned long long)trial);
    }
}

static inline void cuda_rig_try(cuda_check *check, uint64_t trials)
{
    must_launch(cuda_load_kernels());
    for (enum precision precision = PRECISION_FP32; precision <= PRECISION_FP16; precision++) {
        struct cuda_rig rig = { .precision = precision };
        rig.launch = (struct cuda_launch){ .precision = precision, .failure = &rig.failure };
        rig.launch.scratch = aligned_alloc(CUDA_RIG_ALIGN, CUDA_SCRATCH_BYTES);
        assert_non_null(rig.launch.scratch);
        for (uint64_t trial = 0; trial < trials; trial++)
            cuda_rig_trial(&rig, check, trial);
        free(rig.launch.scratch);
        gpu_close();
    }
}

// From 0 to `most`, often about a multiple of 8.
static inline size_t some_size(struct cuda_rig *rig, size_t most)
{
    const size_t any = random_below(&rig->seed, most + 1), near = any / 8 * 8 + random_below(&rig->seed, 3);
    return random_below(&rig->seed, 2) && near <= most ? near : any;
}

#endif
