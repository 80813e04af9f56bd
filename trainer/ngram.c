#include "trainer/ngram.h"

#include <assert.h>
#include <math.h>

enum { SYMBOLS = 256 };

struct context {
    uint64_t total;
    unsigned kinds;  // different bytes seen
    uint32_t seen[SYMBOLS];
};

static void count(struct context *context, unsigned char byte)
{
    context->total += 1;
    context->kinds += context->seen[byte] == 0;
    context->seen[byte] += 1;
}

// P(byte) = (seen + kinds * fallback) / (total + kinds)
static double mixed(const struct context *context, unsigned char byte, double fallback)
{
    if (context->total == 0)
        return fallback;
    return (context->seen[byte] + context->kinds * fallback) / (double)(context->total + context->kinds);
}

double ngram_bits_per_byte(const struct text_data *data, unsigned order)
{
    assert(order <= 1 && data->vocabulary <= SYMBOLS);
    struct context any = { 0 };
    struct context after[SYMBOLS] = { { 0 } };
    for (size_t i = 0; i < data->train_count; i++) {
        count(&any, (unsigned char)data->train[i]);
        if (i > 0)
            count(&after[data->train[i - 1]], (unsigned char)data->train[i]);
    }

    double bits = 0;
    for (size_t i = 1; i < data->held_count; i++) {
        const unsigned char byte = (unsigned char)data->held[i];
        double chance = mixed(&any, byte, 1.0 / SYMBOLS);
        if (order == 1)
            chance = mixed(&after[data->held[i - 1]], byte, chance);
        bits -= log2(chance);
    }
    return data->held_count > 1 ? bits / (double)(data->held_count - 1) : 0;
}
