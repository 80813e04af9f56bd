// The table of kernels.
#include "device/cuda/cuda.h"

// The kernels of launch.h, given to the queue's stream. What CUDA says of a launch goes to the queue; `words` is what the
// user reads in front of it.
#define GIVE_ONE_PASS(kernel, words)                                                                          \
    static void cuda_give_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))              \
    {                                                                                                         \
        cuda_check(queue, cuda_##kernel(cuda_launch_of(queue) PARAMETERS_##kernel(ARGUMENT, ARGUMENT)),       \
                   words);                                                                                    \
    }

// The same for those that add up between two passes.
#define GIVE_SUMMING(kernel, words)                                                                           \
    static void cuda_give_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S))              \
    {                                                                                                         \
        const struct cuda_launch *launch = cuda_summing_launch_of(queue);                                     \
        if (launch)                                                                                           \
            cuda_check(queue, cuda_##kernel(launch PARAMETERS_##kernel(ARGUMENT, ARGUMENT)), words);          \
    }

#define GIVE_LIBRARY(kernel, words)

#define GIVE(kernel, launch, words) GIVE_##launch(kernel, words)
KERNELS(GIVE)

#define GIVEN(kernel, ...) .kernel = cuda_give_##kernel,
const struct kernel_functions cuda_kernels = { KERNELS(GIVEN) };
