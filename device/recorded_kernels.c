// Kernels of a queue that records: each becomes a call with a copy of its arguments.
#include <string.h>

#include "device/recording.h"

// --- when two are the same ---------------------------------------------------------------

// Numbers are compared by their bits. A struct is compared member by member, since padding between members is
// undefined.
static bool equal_bits(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes) == 0;
}

#define AND_EQUAL_BITS(member) && equal_bits(&a->member, &b->member, sizeof a->member)
#define EQUAL_STRUCT(type)                                                                      \
    static bool equal_##type(const struct type *a, const struct type *b, size_t bytes)          \
    {                                                                                           \
        (void)a, (void)b, (void)bytes;                                                          \
        return true MEMBERS_##type(AND_EQUAL_BITS);                                             \
    }
KERNEL_STRUCTS(EQUAL_STRUCT)

#define EQUAL_BY(type) struct type: equal_##type,
#define AND_EQUAL(type, member) \
    && _Generic((a->member), KERNEL_STRUCTS(EQUAL_BY) default: equal_bits)(&a->member, &b->member, sizeof a->member)

// --- what varies -------------------------------------------------------------------------

#define VARYING_STRUCT(type, there, word_type, now, condition)                                  \
    static bool type##_varies(void *argument, struct word *word, const void ***address)         \
    {                                                                                           \
        struct type *x = argument;                                                              \
        if (!(condition))                                                                       \
            return false;                                                                       \
        const word_type value = now;                                                            \
        memcpy(word->bytes, &value, sizeof value);                                              \
        *address = &x->there;                                                                   \
        return true;                                                                            \
    }
KERNEL_WORDS(VARYING_STRUCT)

static bool never_varies(void *argument, struct word *word, const void ***address)
{
    (void)argument, (void)word, (void)address;
    return false;
}

#define VARIES_BY(type, ...) struct type: type##_varies,
#define OR_VARIES(type, member) \
    || _Generic((x->member), KERNEL_WORDS(VARIES_BY) default: never_varies)((void *)&x->member, word, address)

// --- the kernels -------------------------------------------------------------------------

#define KERNEL(kernel, ...)                                                                          \
    struct kept_for_##kernel {                                                                       \
        PARAMETERS_##kernel(MEMBER, MEMBER)                                                                   \
    };                                                                                               \
    _Static_assert(sizeof(struct kept_for_##kernel) <= MOST_ARGUMENTS, "a call's arguments");        \
    static void give_##kernel(struct queue *queue, const void *arguments)                            \
    {                                                                                                \
        const struct kept_for_##kernel *x = arguments;                                               \
        queue->device->kernels->kernel(queue PARAMETERS_##kernel(KEPT_V, KEPT_S));                            \
    }                                                                                                \
    static bool same_##kernel(const void *one, const void *other)                                    \
    {                                                                                                \
        const struct kept_for_##kernel *a = one, *b = other;                                         \
        return true PARAMETERS_##kernel(AND_EQUAL, AND_EQUAL);                                                \
    }                                                                                                \
    static bool varies_##kernel(void *arguments, struct word *word, const void ***address)           \
    {                                                                                                \
        struct kept_for_##kernel *x = arguments;                                                     \
        return false PARAMETERS_##kernel(OR_VARIES, OR_VARIES);                                               \
    }                                                                                                \
    static const struct call call_##kernel = { give_##kernel, same_##kernel, varies_##kernel,        \
                                               sizeof(struct kept_for_##kernel) };                   \
    static void meet_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))              \
    {                                                                                                \
        const struct kept_for_##kernel x = { PARAMETERS_##kernel(VALUE_V, VALUE_S) };                         \
        recorded_meet(queue, &call_##kernel, &x);                                                    \
    }
KERNELS(KERNEL)

#define MET(kernel, ...) .kernel = meet_##kernel,
const struct kernel_functions recorded_kernels = { KERNELS(MET) };

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
    return a->to == b->to && a->from == b->from && a->bytes == b->bytes;
}

const struct call call_zero = { give_zero, same_moving, never_varies, sizeof(struct moving) };
const struct call call_copy = { give_copy, same_moving, never_varies, sizeof(struct moving) };

// Calls that differ from pass to pass by their nature: host memory, events, functions of the host, other ranks.
const struct call cut_upload = { 0 }, cut_download = { 0 }, cut_transfer = { 0 }, cut_call = { 0 },
                  cut_event = { 0 }, cut_wait_event = { 0 }, cut_wait = { 0 }, cut_exchange = { 0 };
