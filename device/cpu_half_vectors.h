// Private: the kernels of the cpu maker for 16-bit numbers, for the instruction set and the precision that the
// including file is compiled for. That file defines CPU_KERNELS, the name of the table, and CPU_BF16 or CPU_FP16.
#include "device/cpu_attention.h"
#include "device/cpu_elementwise.h"
#include "device/cpu_experts.h"
#include "device/cpu_half.h"
#include "device/cpu_pictures.h"
#include "device/cpu_rows.h"

// These are the same code for all instruction sets.
#define CPU_HALF_KERNEL(kernel, ...)                                                      \
    static void cpu_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S)) \
    {                                                                                     \
        cpu_half_##kernel(queue PARAMETERS_##kernel(ARGUMENT, ARGUMENT));                 \
    }
KERNELS_OF_HALVES(CPU_HALF_KERNEL)

#define CPU_KERNEL(kernel, ...) .kernel = cpu_##kernel,
#define CPU_HALF(kernel, ...) .kernel = cpu_half_##kernel,
const struct kernel_functions CPU_KERNELS = {
    KERNELS_IN_ALL(CPU_KERNEL) KERNELS_OF_PIXELS(CPU_KERNEL) KERNELS_OF_CONVOLUTIONS(CPU_HALF)
};
