// Kernels of a queue that records: each becomes a call with a copy of its arguments.
#include <string.h>

#include "device/recording.h"

// DO of each of up to fourteen things.
#define EACH_1(DO, a) DO(a)
#define EACH_2(DO, a, ...) DO(a) EACH_1(DO, __VA_ARGS__)
#define EACH_3(DO, a, ...) DO(a) EACH_2(DO, __VA_ARGS__)
#define EACH_4(DO, a, ...) DO(a) EACH_3(DO, __VA_ARGS__)
#define EACH_5(DO, a, ...) DO(a) EACH_4(DO, __VA_ARGS__)
#define EACH_6(DO, a, ...) DO(a) EACH_5(DO, __VA_ARGS__)
#define EACH_7(DO, a, ...) DO(a) EACH_6(DO, __VA_ARGS__)
#define EACH_8(DO, a, ...) DO(a) EACH_7(DO, __VA_ARGS__)
#define EACH_9(DO, a, ...) DO(a) EACH_8(DO, __VA_ARGS__)
#define EACH_10(DO, a, ...) DO(a) EACH_9(DO, __VA_ARGS__)
#define EACH_11(DO, a, ...) DO(a) EACH_10(DO, __VA_ARGS__)
#define EACH_12(DO, a, ...) DO(a) EACH_11(DO, __VA_ARGS__)
#define EACH_13(DO, a, ...) DO(a) EACH_12(DO, __VA_ARGS__)
#define EACH_14(DO, a, ...) DO(a) EACH_13(DO, __VA_ARGS__)
#define FIFTEENTH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, ...) o
#define EACH(DO, ...)                                                                                               \
    FIFTEENTH(__VA_ARGS__, EACH_14, EACH_13, EACH_12, EACH_11, EACH_10, EACH_9, EACH_8, EACH_7, EACH_6, EACH_5,     \
              EACH_4, EACH_3, EACH_2, EACH_1, )                                                                     \
    (DO, __VA_ARGS__)

// --- when two are the same ---------------------------------------------------------------

// Numbers by their bits: a structure is compared member by member, for what lies between members is nobody's.
static bool equal_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

#define AND_EQUAL_BITS(member) && equal_bits(&a->member, &b->member, sizeof a->member)
#define EQUAL_IF(type, ...)                                                                     \
    static bool equal_##type(const struct type *a, const struct type *b, size_t bytes)          \
    {                                                                                           \
        (void)bytes;                                                                            \
        return true EACH(AND_EQUAL_BITS, __VA_ARGS__);                                          \
    }
EQUAL_IF(matmul, transpose_a, transpose_b, m, n, k, a, b, c, sums, lda, ldb, ldc, bias, before_gelu)
EQUAL_IF(layer_norm, in, gain, offset, rows, columns)
EQUAL_IF(embedding, tokens, rows, sequence, columns, vocabulary, first, own)
EQUAL_IF(attention, batch, sequence, heads, size, first, whole)
EQUAL_IF(cross_entropy, logits, targets, rows, columns, stride, scale, first, whole)
EQUAL_IF(cross_entropy_parts, parts, count, rows, scale, targets)
EQUAL_IF(clip, norms, norm_count, limit)
EQUAL_IF(optimizer_span, next, weights, master, gradients, first, second, count)
EQUAL_IF(dropout, probability, first)           // but for the key,
EQUAL_IF(adamw, beta1, beta2, epsilon, frozen)  // what adamw_factors() come of,
EQUAL_IF(sgd, momentum, decay, is_nesterov)   // and the rate
EQUAL_IF(factored_span, next, weights, gradients, rows, columns, row, column)
EQUAL_IF(eight_bit_span, next, weights, gradients, count, first, second, first_scales, second_scales)
EQUAL_IF(lars, momentum, decay, trust)
EQUAL_IF(lamb, beta1, beta2, epsilon, decay, trusts)

// All of it varies.
static bool always_equal(const struct adafactor *a, const struct adafactor *b, size_t bytes)
{
    (void)a, (void)b, (void)bytes;
    return true;
}

#define AND_EQUAL(member)                       \
    && _Generic((a->member),                    \
           struct matmul: equal_matmul,         \
           struct layer_norm: equal_layer_norm, \
           struct embedding: equal_embedding,   \
           struct attention: equal_attention,   \
           struct cross_entropy: equal_cross_entropy,   \
           struct cross_entropy_parts: equal_cross_entropy_parts, \
           struct optimizer_span: equal_optimizer_span, \
           struct clip: equal_clip,             \
           struct dropout: equal_dropout,       \
           struct adamw: equal_adamw,           \
           struct sgd: equal_sgd,               \
           struct lars: equal_lars,             \
           struct factored_span: equal_factored_span,   \
           struct eight_bit_span: equal_eight_bit_span, \
           struct adafactor: always_equal,      \
           struct lamb: equal_lamb,             \
           default: equal_bits)(&a->member, &b->member, sizeof a->member)

// --- what varies -------------------------------------------------------------------------

static bool dropout_varies(void *argument, struct word *word, const void ***address)
{
    struct dropout *dropout = argument;
    if (dropout->probability <= 0)
        return false;
    memcpy(word->bytes, &dropout->key, sizeof dropout->key);
    *address = &dropout->key_at;
    return true;
}

static bool adamw_varies(void *argument, struct word *word, const void ***address)
{
    struct adamw *adamw = argument;
    const struct adamw_factors factors = adamw_factors(adamw);
    memcpy(word->bytes, &factors, sizeof factors);
    *address = &adamw->factors_at;
    return true;
}

static bool sgd_varies(void *argument, struct word *word, const void ***address)
{
    struct sgd *sgd = argument;
    memcpy(word->bytes, &sgd->rate, sizeof sgd->rate);
    *address = &sgd->rate_at;
    return true;
}

static bool lars_varies(void *argument, struct word *word, const void ***address)
{
    struct lars *lars = argument;
    memcpy(word->bytes, &lars->rate, sizeof lars->rate);
    *address = &lars->rate_at;
    return true;
}

static bool lamb_varies(void *argument, struct word *word, const void ***address)
{
    struct lamb *lamb = argument;
    const struct lamb_factors factors = lamb_factors(lamb);
    memcpy(word->bytes, &factors, sizeof factors);
    *address = &lamb->factors_at;
    return true;
}

static bool adafactor_varies(void *argument, struct word *word, const void ***address)
{
    struct adafactor *adafactor = argument;
    const struct adafactor_factors factors = adafactor_factors(adafactor);
    memcpy(word->bytes, &factors, sizeof factors);
    *address = &adafactor->factors_at;
    return true;
}

static bool never_varies(void *argument, struct word *word, const void ***address)
{
    (void)argument, (void)word, (void)address;
    return false;
}

#define OR_VARIES(member)                                                                            \
    || _Generic((x->member), struct dropout: dropout_varies, struct adamw: adamw_varies,             \
                struct sgd: sgd_varies, struct lars: lars_varies, struct lamb: lamb_varies,             \
                struct adafactor: adafactor_varies, default: never_varies)((void *)&x->member, word, address)

// --- the kernels -------------------------------------------------------------------------

#define KERNEL(kernel, parameters, kept, taken, given, members)                                      \
    struct kept_for_##kernel {                                                                       \
        kept                                                                                         \
    };                                                                                               \
    _Static_assert(sizeof(struct kept_for_##kernel) <= MOST_ARGUMENTS, "a call's arguments");        \
    static void give_##kernel(struct queue *queue, const void *arguments)                            \
    {                                                                                                \
        const struct kept_for_##kernel *x = arguments;                                               \
        queue->device->kernels->kernel given;                                                        \
    }                                                                                                \
    static bool same_##kernel(const void *one, const void *other)                                    \
    {                                                                                                \
        const struct kept_for_##kernel *a = one, *b = other;                                         \
        return true EACH(AND_EQUAL, members);                                                        \
    }                                                                                                \
    static bool varies_##kernel(void *arguments, struct word *word, const void ***address)           \
    {                                                                                                \
        struct kept_for_##kernel *x = arguments;                                                     \
        return false EACH(OR_VARIES, members);                                                       \
    }                                                                                                \
    static const struct call call_##kernel = { give_##kernel, same_##kernel, varies_##kernel,        \
                                               sizeof(struct kept_for_##kernel) };                   \
    static void meet_##kernel parameters                                                             \
    {                                                                                                \
        const struct kept_for_##kernel x = { taken };                                                \
        recorded_meet(queue, &call_##kernel, &x);                                                    \
    }
#include "device/kernel_list.h"

const struct kernel_functions recorded_kernels = {
#define KERNEL(kernel, ...) .kernel = meet_##kernel,
#include "device/kernel_list.h"
};

// --- moving bytes ------------------------------------------------------------------------

static void give_zero(struct queue *queue, const void *arguments)
{
    const struct moving *x = arguments;
    queue->device->functions->zero(queue, x->to, x->bytes);
}

static void give_copy(struct queue *queue, const void *arguments)
{
    const struct moving *x = arguments;
    queue->device->functions->copy(queue, x->to, x->from, x->bytes);
}

static bool same_moving(const void *one, const void *other)
{
    const struct moving *a = one, *b = other;
    return true EACH(AND_EQUAL_BITS, to, from, bytes);
}

const struct call call_zero = { give_zero, same_moving, never_varies, sizeof(struct moving) };
const struct call call_copy = { give_copy, same_moving, never_varies, sizeof(struct moving) };

// What differs from pass to pass by its nature: host memory, events, functions of the host, other ranks.
const struct call cut_upload = { 0 }, cut_download = { 0 }, cut_transfer = { 0 }, cut_call = { 0 },
                  cut_event = { 0 }, cut_wait_event = { 0 }, cut_wait = { 0 }, cut_exchange = { 0 };
