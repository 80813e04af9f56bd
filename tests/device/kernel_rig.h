// A bench for trying kernels: buffers with guards behind them, outputs poisoned
// with NaN, every check run twice on every instruction set this machine has.
//
// A check sees floats. rig_values() gives them to a kernel in the device's precision,
// and rig_settle() makes the floats what the kernels have left there.
#ifndef TESTS_KERNEL_RIG_H
#define TESTS_KERNEL_RIG_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "device/half.h"
#include "device/kernels.h"
#include "tests/test.h"

enum { RIG_BUFFERS = 96, RIG_GUARD = 64 };

struct rig {
    struct device *device;
    struct queue *queue;
    uint64_t seed;
    float poison;
    struct {
        float *data;
        size_t count;
        bool is_output;
        uint16_t *narrow;  // the same numbers in 16 bits, where kernels have them
        bool settled;      // the floats are what is narrow, or newer
    } buffer[RIG_BUFFERS];
    size_t buffer_count;
};

// What the device has its numbers in, and how far they may be off: set by rig_try().
static enum precision rig_precision;
static double rig_precision_error;

// To the nearest that the device's precision has (test_half.c has the formats).
static inline float rig_round(float x)
{
    return rig_precision == PRECISION_FP32 ? x : half_widen(rig_precision, half_round(rig_precision, x));
}

// Nearly the largest that it has.
static inline float rig_large(void)
{
    return rig_precision == PRECISION_FP16 ? 6e4f : 3e38f;
}

// `count` floats of device memory (the host may look: this is the cpu), and a guard.
static inline float *rig_buffer(struct rig *rig, size_t count, bool is_output)
{
    struct error error = { 0 };
    assert_true(rig->buffer_count < RIG_BUFFERS);
    float *data = device_allocate(rig->device, (count + RIG_GUARD) * sizeof(float), &error);
    assert_good(data, error);
    for (size_t i = 0; i < count; i++)
        data[i] = rig->poison;
    for (size_t i = 0; i < RIG_GUARD; i++)
        data[count + i] = 12345;
    rig->buffer[rig->buffer_count].data = data;
    rig->buffer[rig->buffer_count].count = count;
    rig->buffer[rig->buffer_count].narrow = NULL;
    rig->buffer[rig->buffer_count++].is_output = is_output;
    return data;
}

static inline float *rig_output(struct rig *rig, size_t count)
{
    return rig_buffer(rig, count, true);
}

// Where kernels find these floats, from now on; any place in a buffer. What the host
// writes there before rig_settle(), or after it without asking here again, they do not see.
static inline struct values *rig_values(struct rig *rig, const float *at)
{
    if (!at || device_precision(rig->device) == PRECISION_FP32)
        return (struct values *)(uintptr_t)at;
    size_t b = 0;
    while (b < rig->buffer_count
           && (at < rig->buffer[b].data || at >= rig->buffer[b].data + rig->buffer[b].count + RIG_GUARD))
        b++;
    assert_true(b < rig->buffer_count);
    const float *data = rig->buffer[b].data;
    const size_t count = rig->buffer[b].count + RIG_GUARD;
    const bool is_new = !rig->buffer[b].narrow;
    struct error error = { 0 };
    if (is_new)
        rig->buffer[b].narrow = device_allocate(rig->device, count * sizeof(uint16_t), &error);
    assert_good(rig->buffer[b].narrow, error);
    for (size_t i = 0; (is_new || rig->buffer[b].settled) && i < count; i++)
        rig->buffer[b].narrow[i] = half_round(rig_precision, data[i]);
    rig->buffer[b].settled = false;
    return values_at((struct values *)rig->buffer[b].narrow, rig_precision, (size_t)(at - data));
}

static inline void rig_settle(struct rig *rig)
{
    struct error error = { 0 };
    assert_good(queue_wait(rig->queue, &error), error);
    for (size_t b = 0; b < rig->buffer_count; b++) {
        uint16_t *narrow = rig->buffer[b].narrow;
        if (!narrow)
            continue;
        for (size_t i = 0; i < rig->buffer[b].count; i++)
            rig->buffer[b].data[i] = half_widen(rig_precision, narrow[i]);
        for (size_t i = rig->buffer[b].count; i < rig->buffer[b].count + RIG_GUARD; i++)
            if (narrow[i] != half_round(rig_precision, 12345))
                fail_msg("buffer %zu was written past its end", b);
        rig->buffer[b].settled = true;
    }
}

// Uniform in [-spread, spread), as the device's precision has them.
static inline float *rig_numbers(struct rig *rig, size_t count, double spread)
{
    float *data = rig_buffer(rig, count, false);
    for (size_t i = 0; i < count; i++)
        data[i] = rig_round((float)((2 * random_unit(&rig->seed) - 1) * spread));
    return data;
}

// An output that is added to: numbers to begin with, and a copy of them.
static inline float *rig_sums(struct rig *rig, size_t count, float **before)
{
    *before = rig_numbers(rig, count, 1);
    float *data = rig_output(rig, count);
    memcpy(data, *before, count * sizeof(float));
    return data;
}

static inline int32_t *rig_tokens(struct rig *rig, size_t count, size_t vocabulary)
{
    int32_t *tokens = (int32_t *)(void *)rig_buffer(rig, count, false);
    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)random_below(&rig->seed, vocabulary);
    return tokens;
}

static inline void rig_close_to(float got, double want, double tolerance, const char *what, size_t index)
{
    if (!(fabs((double)got - want) <= tolerance * (1 + fabs(want))))
        fail_msg("%s[%zu] is %.9g, should be %.9g", what, index, (double)got, want);
}

// Of values, which are rounded where they are written.
static inline void rig_value_close_to(float got, double want, double tolerance, const char *what, size_t index)
{
    rig_close_to(got, want, tolerance > rig_precision_error ? tolerance : rig_precision_error, what, index);
}

// Waits, looks at the guards, and hashes the outputs into `digits`.
static inline void rig_finish(struct rig *rig, char digits[HASH_SIZE])
{
    rig_settle(rig);
    char hashes[RIG_BUFFERS][HASH_SIZE] = { { 0 } };
    for (size_t b = 0; b < rig->buffer_count; b++) {
        const float *data = rig->buffer[b].data;
        for (size_t i = 0; i < RIG_GUARD; i++)
            if (data[rig->buffer[b].count + i] != 12345)
                fail_msg("buffer %zu was written %zu past its end", b, i);
        if (rig->buffer[b].is_output)
            hash_bytes(data, rig->buffer[b].count * sizeof(float), hashes[b]);
        device_release(rig->device, rig->buffer[b].data);
        device_release(rig->device, rig->buffer[b].narrow);
    }
    hash_bytes(hashes, sizeof hashes, digits);
    rig->buffer_count = 0;
}

typedef void rig_check(struct rig *rig, uint64_t trial);

// Runs a check twice per trial and device, with another poison the second time:
// both must leave the same bits.
static inline void rig_try(const char *device, rig_check *check, uint64_t trials)
{
    struct error error = { 0 };
    struct rig rig = { .device = device_open(device, &error) };
    if (!rig.device && getenv("WEIR_TEST_DEVICES"))
        fail_msg("%s: %s", device, error.text);
    if (!rig.device) {
        print_message("# %s: %s\n", device, error.text);
        return;
    }
    rig.queue = queue_create(rig.device, &error);
    assert_good(rig.queue, error);
    rig_precision = device_precision(rig.device);
    rig_precision_error = rig_precision == PRECISION_FP32 ? 0 : rig_precision == PRECISION_FP16 ? 2e-3 : 1e-2;
    for (uint64_t trial = 0; trial < trials; trial++) {
        char first[HASH_SIZE], second[HASH_SIZE];
        rig.seed = trial;
        rig.poison = NAN;
        check(&rig, trial);
        rig_finish(&rig, first);
        rig.seed = trial;
        rig.poison = -1e30f;
        check(&rig, trial);
        rig_finish(&rig, second);
        if (strcmp(first, second) != 0)
            fail_msg("%s, trial %llu: not the same bits again", device, (unsigned long long)trial);
    }
    queue_free(rig.queue);
    device_close(rig.device);
}

// On every CPU device there is; or on those that $WEIR_TEST_DEVICES names, with spaces between
// them: "cuda:seen cuda:bf16,seen" are a GPU's, with memory that the host may look into.
static inline void rig_try_everywhere(rig_check *check, uint64_t trials)
{
    const char *asked = getenv("WEIR_TEST_DEVICES");
    while (asked && *asked) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(asked, " "), asked);
        if (name[0])
            rig_try(name, check, trials);
        asked += strcspn(asked, " ");
        asked += strspn(asked, " ");
    }
    if (getenv("WEIR_TEST_DEVICES"))
        return;
    static const char *const devices[] = { "cpu:baseline", "cpu:avx2", "cpu:avx512", "cpu:bf16", "cpu:bf16,avx2",
                                           "cpu:bf16,baseline", "cpu:fp16", "cpu:fp16,avx2", "cpu:fp16,baseline" };
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        rig_try(devices[i], check, trials);
}

// A size from 1 to `most`, often near a multiple of 16, where vectors end.
static inline size_t rig_size(struct rig *rig, size_t most)
{
    const size_t any = 1 + random_below(&rig->seed, most);
    const size_t near = (any + 15) / 16 * 16 + random_below(&rig->seed, 3);
    return random_below(&rig->seed, 2) && near > 1 && near - 1 <= most ? near - 1 : any;
}

#endif
