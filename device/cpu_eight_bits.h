// Private: Adam with moments of one byte each. Included by cpu_vectors.h.
#ifndef DEVICE_CPU_EIGHT_BITS_H
#define DEVICE_CPU_EIGHT_BITS_H

#include "device/cpu_optimizer.h"

// The values that codes stand for, and the value above which the next code is nearer.
struct code_book {
    float values[256];
    float ends[255];
};

static void code_book_fill(struct code_book *book, bool is_signed)
{
    for (unsigned code = 0; code < 256; code++)
        book->values[code] = eight_bit_value(code, is_signed);
    for (unsigned code = 0; code < 255; code++)
        book->ends[code] = 0.5f * (book->values[code] + book->values[code + 1]);
}

// The number of ends below x, by a binary search of eight steps.
INLINE uint8_t code_of(const struct code_book *book, float x)
{
    unsigned code = 0;
    for (unsigned half = 128; half > 0; half /= 2)
        code += book->ends[code + half - 1] < x ? half : 0;
    return (uint8_t)code;
}

static float code_block(const struct code_book *book, uint8_t *codes, const float *numbers, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fabsf(numbers[i]) > most ? fabsf(numbers[i]) : most;
    for (size_t i = 0; i < count; i++)
        codes[i] = code_of(book, most > 0 ? numbers[i] / most : 0);
    return most;
}

// Updates one block, which begins at number `from`, in its full precision.
static void update_block(struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span,
                         const struct code_book books[2], size_t from)
{
    float first[EIGHT_BIT_BLOCK], second[EIGHT_BIT_BLOCK];
    const size_t count = min_u64(span->count - from, EIGHT_BIT_BLOCK);
    float *scales[] = { span->first_scales + from / EIGHT_BIT_BLOCK, span->second_scales + from / EIGHT_BIT_BLOCK };
    for (size_t i = 0; i < count; i++) {
        first[i] = books[0].values[span->first[from + i]] * *scales[0];
        second[i] = books[1].values[span->second[from + i]] * *scales[1];
    }
    cpu_adamw(queue, adamw, &(struct optimizer_span){
        .next = (struct values *)(floats(span->next) + from),
        .weights = (const struct values *)(floats_of(span->weights) + from),
        .gradients = span->gradients + from, .first = first, .second = second, .count = count,
    });
    *scales[0] = code_block(&books[0], span->first + from, first, count);
    *scales[1] = code_block(&books[1], span->second + from, second, count);
}

static void cpu_adam8bit(struct queue *queue, const struct adamw *adamw, const struct eight_bit_span *span)
{
    const struct adamw_factors factors = adamw_factors(adamw);
    struct adamw with = *adamw;
    struct code_book books[2];
    with.factors_at = with.factors_at ? with.factors_at : &factors;
    code_book_fill(&books[0], true);
    code_book_fill(&books[1], false);
    for (size_t from = 0; from < span->count; from += EIGHT_BIT_BLOCK)
        update_block(queue, &with, span, books, from);
}

#endif
