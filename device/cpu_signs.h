// Private: numbers compressed to signs and their mean size. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_SIGNS_H
#define DEVICE_CPU_SIGNS_H

#include "device/cpu_elementwise.h"

static void cpu_add_where(struct queue *queue, float *sums, const float *in, float factor, const float *where,
                          size_t count)
{
    (void)queue;
    for (size_t i = 0; i < count; i++)
        sums[i] = where[i] > 0 ? sums[i] + factor * in[i] : sums[i];
}

enum { SIZE_LANES = 8 };  // sizes are added up in so many lanes, whatever the width of vectors

static float mean_size(const float *numbers, const float *where, size_t count)
{
    double sums[SIZE_LANES] = { 0 }, sum = 0;
    unsigned have = 0;
    for (size_t i = 0; i < count; i++) {
        sums[i % SIZE_LANES] += where[i] > 0 ? fabs((double)numbers[i]) : 0;
        have += where[i] > 0;
    }
    for (size_t lane = 0; lane < SIZE_LANES; lane++)
        sum += sums[lane];
    return have > 0 ? (float)(sum / have) : 0;
}

static void take_block(struct sign_block *block, float *numbers, const float *where, size_t count)
{
    *block = (struct sign_block){ .size = mean_size(numbers, where, count) };
    for (size_t i = 0; i < count; i++) {
        const bool is_negative = numbers[i] < 0;
        block->negative[i / 32] |= (uint32_t)is_negative << i % 32;
        numbers[i] -= where[i] > 0 ? (is_negative ? -block->size : block->size) : 0;
    }
}

static void cpu_take_signs(struct queue *queue, struct sign_block *blocks, float *numbers, const float *where,
                           size_t count)
{
    (void)queue;
    for (size_t from = 0; from < count; from += SIGN_BLOCK)
        take_block(&blocks[from / SIGN_BLOCK], numbers + from, where + from,
                   count - from < SIGN_BLOCK ? count - from : SIGN_BLOCK);
}

static void cpu_add_signs(struct queue *queue, float *sums, const struct sign_block *blocks, float factor,
                          const float *where, size_t count)
{
    (void)queue;
    for (size_t i = 0; i < count; i++) {
        const struct sign_block *block = &blocks[i / SIGN_BLOCK];
        const float size = factor * block->size;
        const bool is_negative = block->negative[i % SIGN_BLOCK / 32] >> i % 32 & 1;
        sums[i] += where[i] > 0 ? (is_negative ? -size : size) : 0;
    }
}

#endif
