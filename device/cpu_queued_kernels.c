// The kernels of "cpu:queued". Each takes a copy of its arguments, structs included, and calls the plain maker's
// kernel with them when its turn comes.
#include "device/cpu_queued.h"

static const struct kernel_functions *at_once(const struct queue *queue)
{
    return ((const struct cpu *)queue->device->own)->kernels;
}

#define KERNEL(kernel, ...)                                                                \
    struct kept_for_##kernel {                                                             \
        PARAMETERS_##kernel(MEMBER, MEMBER)                                                         \
    };                                                                                     \
    static void do_##kernel(struct queue *queue, const void *arguments)                    \
    {                                                                                      \
        const struct kept_for_##kernel *x = arguments;                                     \
        at_once(queue)->kernel(queue PARAMETERS_##kernel(KEPT_V, KEPT_S));                          \
    }                                                                                      \
    static void give_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))    \
    {                                                                                      \
        const struct kept_for_##kernel x = { PARAMETERS_##kernel(VALUE_V, VALUE_S) };               \
        cpu_queued_call(queue, do_##kernel, &x, sizeof x);                                 \
    }
KERNELS(KERNEL)

#define GIVEN(kernel, ...) .kernel = give_##kernel,
const struct kernel_functions cpu_queued_kernels = { KERNELS(GIVEN) };
