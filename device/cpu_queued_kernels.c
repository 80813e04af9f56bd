// The kernels of "cpu:queued": each takes a copy of its arguments, structs included,
// and calls the kernel of the plain maker with them when its turn comes.
#include "device/cpu_queued.h"

static const struct kernel_functions *at_once(const struct queue *queue)
{
    return ((const struct cpu *)queue->device->own)->kernels;
}

#define KERNEL(kernel, parameters, kept, taken, given, members)                      \
    struct kept_for_##kernel {                                                       \
        kept                                                                         \
    };                                                                               \
    static void do_##kernel(struct queue *queue, const void *arguments)              \
    {                                                                                \
        const struct kept_for_##kernel *x = arguments;                               \
        at_once(queue)->kernel given;                                                \
    }                                                                                \
    static void give_##kernel parameters                                             \
    {                                                                                \
        const struct kept_for_##kernel x = { taken };                                \
        cpu_queued_call(queue, do_##kernel, &x, sizeof x);                           \
    }
#include "device/kernel_list.h"

const struct kernel_functions cpu_queued_kernels = {
#define KERNEL(kernel, ...) .kernel = give_##kernel,
#include "device/kernel_list.h"
};
