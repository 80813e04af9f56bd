// What the programs that compare a device with another share (compare_kernels.c,
// compare_layers.c): one run of one case on one device, whose memory the host cannot
// read, and what it leaves there against what it should.
//
//     buffer   |guard|shift|numbers ..          |guard|      uploaded when made, downloaded at the end
//
// Numbers begin at a multiple of 256 bytes, or a few numbers behind one. Inputs are random,
// outputs are poisoned, or begin as numbers that are added to. A run is near where
// |device - right| / |right|, over a whole output, is within the bound of the device's type of
// numbers: 1e-5 in fp32, 1e-2 in 16 bits, and in TF32 the comparison's own, since what it adds up
// to hangs on how many products follow each other. A NaN is near nothing.
#ifndef TESTS_DEVICE_TRIAL_H
#define TESTS_DEVICE_TRIAL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/random.h"
#include "device/half.h"
#include "device/kernels.h"

enum { MOST_BUFFERS = 24, GUARD_BYTES = 256, GUARD = 0x5a };

// CODES are those of moments in 8 bits. Of SIGNS, in blocks, number i is what its sign and its block's size say.
enum number { VALUES, FLOATS, DOUBLES, BYTES, CODES, SIGNS };

struct buffer {
    const char *name; // of an output; NULL of what is not compared
    enum number number;
    enum precision precision;  // of values
    size_t count, bytes;
    size_t before;  // bytes in front of the numbers
    unsigned char *device, *host;
};

// Where the buffers of a trial begin: each as many numbers of its own past a multiple of 256 bytes, or, of APART, each
// another number of them, from 0 to 3, so that no two need begin a pack at the same number.
enum { APART = -1 };

struct trial {
    struct device *device;
    struct queue *queue;
    enum precision precision;
    enum precision rounds; // inputs are what this has, also on the cpu
    uint64_t seed;
    float poison;
    int shift;
    size_t rows, columns;
    struct buffer buffer[MOST_BUFFERS];
    size_t buffer_count;
    struct error error;
};

// --- buffers -------------------------------------------------------------------------

static inline void buffer_set(struct buffer *buffer, size_t i, float x)
{
    const bool is_half = buffer->number == VALUES && buffer->precision != PRECISION_FP32;
    const uint16_t half = half_round(buffer->precision, x);
    if (is_half)
        memcpy(buffer->host + 2 * i, &half, 2);
    else if (buffer->number == DOUBLES)
        memcpy(buffer->host + 8 * i, &(double){ (double)x }, 8);
    else if (buffer->number == CODES)
        buffer->host[i] = (unsigned char)x;
    else
        memcpy(buffer->host + 4 * i, &x, 4);
}

static inline double buffer_sign(const struct buffer *buffer, size_t i)
{
    struct sign_block block;
    memcpy(&block, buffer->host + i / SIGN_BLOCK * sizeof block, sizeof block);
    return block.negative[i % SIGN_BLOCK / 32] >> i % 32 & 1 ? -(double)block.size : (double)block.size;
}

static inline double buffer_number(const struct buffer *buffer, size_t i)
{
    double wide;
    if (buffer->number == BYTES || buffer->number == CODES)
        return buffer->host[i];
    if (buffer->number == SIGNS)
        return buffer_sign(buffer, i);
    if (buffer->number == DOUBLES)
        return memcpy(&wide, buffer->host + 8 * i, 8), wide;
    return (double)number_of(buffer->host, buffer->number == VALUES ? buffer->precision : PRECISION_FP32, i);
}

static inline bool buffer_is_same(const struct buffer *a, const struct buffer *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->host, b->host, a->bytes) == 0);
}

static inline size_t buffer_whole(const struct buffer *buffer)
{
    return buffer->before + buffer->bytes + GUARD_BYTES;
}

static inline size_t bytes_of_each(const struct trial *trial, enum number number)
{
    const bool is_half = number == VALUES && trial->precision != PRECISION_FP32;
    return number == BYTES || number == CODES ? 1 : number == DOUBLES ? 8 : is_half ? 2 : 4;
}

// Device memory with a guard on either side.
static inline struct buffer *trial_buffer(struct trial *trial, enum number number, size_t count, const char *name)
{
    if (trial->buffer_count == MOST_BUFFERS) {
        fprintf(stderr, "a case has more than %d buffers\n", MOST_BUFFERS);
        exit(2);
    }
    const size_t each = bytes_of_each(trial, number);
    const size_t shift = trial->shift == APART ? trial->buffer_count % 4 : (size_t)trial->shift;
    struct buffer *buffer = &trial->buffer[trial->buffer_count++];
    *buffer = (struct buffer){ .name = name, .number = number, .precision = trial->precision, .count = count };
    buffer->bytes = number == SIGNS ? sign_block_count(count) * sizeof(struct sign_block) : count * each;
    buffer->before = GUARD_BYTES + shift * each;
    buffer->host = malloc(buffer_whole(buffer));
    buffer->device = device_allocate(trial->device, buffer_whole(buffer), &trial->error);
    if (!buffer->host || !buffer->device) {
        fprintf(stderr, "%s\n", buffer->host ? trial->error.text : "out of memory");
        exit(2);
    }
    buffer->host += buffer->before;
    buffer->device += buffer->before;
    memset(buffer->host - buffer->before, GUARD, buffer->before);
    memset(buffer->host + buffer->bytes, GUARD, GUARD_BYTES);
    return buffer;
}

// Uploads the host's copy, which a run does not change before its end: given again, the
// device's is as it was made.
static inline void *trial_give(struct trial *trial, struct buffer *buffer)
{
    queue_upload(trial->queue, buffer->device - buffer->before, buffer->host - buffer->before, buffer_whole(buffer));
    return buffer->device;
}

// Numbers [first, first + count) uniform around `middle`.
static inline void trial_draw(struct trial *trial, struct buffer *buffer, size_t first, size_t count, double middle,
                              double spread)
{
    for (size_t i = first; i < first + count; i++) {
        const float x = (float)(middle + (2 * random_unit(&trial->seed) - 1) * spread);
        buffer_set(buffer, i, buffer->number == VALUES && trial->rounds != PRECISION_FP32
                                ? half_widen(trial->rounds, half_round(trial->rounds, x)) : x);
    }
}

static inline void *trial_drawn(struct trial *trial, enum number number, size_t count, const char *name, double middle,
                                double spread)
{
    struct buffer *buffer = trial_buffer(trial, number, count, name);
    trial_draw(trial, buffer, 0, count, middle, spread);
    return trial_give(trial, buffer);
}

static inline int32_t *trial_tokens(struct trial *trial, size_t count, size_t vocabulary)
{
    struct buffer *buffer = trial_buffer(trial, FLOATS, count, NULL);
    for (size_t i = 0; i < count; i++)
        memcpy(buffer->host + 4 * i, &(int32_t){ (int32_t)random_below(&trial->seed, vocabulary) }, 4);
    return trial_give(trial, buffer);
}

static inline struct buffer *trial_poisoned(struct trial *trial, enum number number, size_t count, const char *name)
{
    struct buffer *buffer = trial_buffer(trial, number, count, name);
    if (number == BYTES || number == SIGNS)
        memset(buffer->host, 0xcd, buffer->bytes);
    else
        for (size_t i = 0; i < count; i++)
            buffer_set(buffer, i, trial->poison);
    return buffer;
}

static inline void *trial_output(struct trial *trial, enum number number, size_t count, const char *name)
{
    return trial_give(trial, trial_poisoned(trial, number, count, name));
}

// --- what is left ----------------------------------------------------------------------

static inline bool buffer_is_guarded(const struct buffer *buffer, size_t b, const char *name)
{
    const char *where = NULL;
    for (size_t i = 1; i <= buffer->before; i++)
        where = buffer->host[-(ptrdiff_t)i] != GUARD ? "before its beginning" : where;
    for (size_t i = 0; i < GUARD_BYTES; i++)
        where = buffer->host[buffer->bytes + i] != GUARD ? "past its end" : where;
    if (where)
        printf("%s: FAILED: buffer %zu was written %s\n", name, b, where);
    return !where;
}

// Waits, and brings what the device has to the host.
static inline bool trial_finish(struct trial *trial, const char *name)
{
    for (size_t b = 0; b < trial->buffer_count; b++) {
        const struct buffer *buffer = &trial->buffer[b];
        queue_download(trial->queue, buffer->host - buffer->before, buffer->device - buffer->before,
                       buffer_whole(buffer));
    }
    bool good = queue_wait(trial->queue, &trial->error);
    if (!good)
        printf("%s: FAILED: %s\n", name, trial->error.text);
    for (size_t b = 0; good && b < trial->buffer_count; b++)
        good = buffer_is_guarded(&trial->buffer[b], b, name);
    return good;
}

// A queue that has failed does nothing any more: the cases that follow have a new one.
static inline void trial_renew(struct trial trials[3])
{
    if (!queue_has_failed(trials[1].queue))
        return;
    queue_free(trials[1].queue);
    trials[1].queue = trials[2].queue = queue_create(trials[1].device, &trials[1].error);
    if (!trials[1].queue) {
        fprintf(stderr, "%s\n", trials[1].error.text);
        exit(3);
    }
}

static inline void trial_clear(struct trial *trial)
{
    for (size_t b = 0; b < trial->buffer_count; b++) {
        device_release(trial->device, trial->buffer[b].device - trial->buffer[b].before);
        free(trial->buffer[b].host - trial->buffer[b].before);
    }
    trial->buffer_count = 0;
}

static inline void nearness_add(double *off, double *size, double got, double want)
{
    *off += (got - want) * (got - want);
    *size += want * want;
}

static inline double nearness(double off, double size)
{
    return size > 0 ? sqrt(off / size) : sqrt(off);
}

static inline bool trial_judge(const struct trial *trial, const char *name, const char *what, double relative,
                               double bound, bool same)
{
    const bool near = relative <= bound; // not of a NaN
    char shift[16] = "";
    if (trial->shift != 0)
        snprintf(shift, sizeof shift, trial->shift == APART ? "apart" : "+%d", trial->shift);
    printf("%-26s %4zu x %-4zu %-5s %-18s off by %8.2e of %.0e  %s\n", name, trial->rows, trial->columns, shift, what,
           relative, bound, !same ? "FAILED: other bits the second time" : near ? "good" : "FAILED");
    return near && same;
}

// --- the program -------------------------------------------------------------------------

// All cases on trials[0], the cpu, and trials[1] and [2], the device with two kinds of
// poison; returns an exit code.
typedef int trial_comparison(struct trial trials[3], uint64_t seed, double bound, bool small);

// Exit code 0: all agree; 1: some do not; 3: there is no such device.
static inline int trial_main(const char *program, trial_comparison *comparison, double tf32_bound, int count,
                             char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: %s DEVICE [SEED [small]]\n", program);
        return 2;
    }
    struct error error = { 0 };
    setvbuf(stdout, NULL, _IOLBF, 0);  // so that what was seen is there if it is ended
    const bool small = count > 3 && strcmp(arguments[3], "small") == 0;
    const uint64_t seed = count > 2 ? strtoull(arguments[2], NULL, 10) : clock_now_ns();
    struct device *cpu = device_open("cpu", &error), *device = cpu ? device_open(arguments[1], &error) : NULL;
    struct queue *of_cpu = device ? queue_create(cpu, &error) : NULL;
    struct queue *queue = of_cpu ? queue_create(device, &error) : NULL;
    int code = 3;
    if (queue) {
        const enum precision rounds = device_precision(device);
        struct trial trials[3] = { { .device = cpu, .queue = of_cpu, .poison = -1e30f },
                                   { .device = device, .queue = queue, .poison = NAN },
                                   { .device = device, .queue = queue, .poison = -1e30f } };
        for (size_t t = 0; t < 3; t++) {
            trials[t].precision = device_precision(trials[t].device);
            trials[t].rounds = rounds;
        }
        printf("%s (%s) against cpu, seed %llu\n", arguments[1], device_description(device), (unsigned long long)seed);
        const double of_floats = strstr(arguments[1], "tf32") ? tf32_bound : 1e-5;
        code = comparison(trials, seed, rounds != PRECISION_FP32 ? 1e-2 : of_floats, small);
        queue = trials[1].queue;
    } else {
        fprintf(stderr, "%s: %s\n", program, error.text);
    }
    queue_free(queue);
    queue_free(of_cpu);
    device_close(device);
    device_close(cpu);
    return code;
}

#endif
