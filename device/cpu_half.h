// Private to the cpu maker: kernels for 16-bit numbers that call those for floats.
#ifndef DEVICE_CPU_HALF_H
#define DEVICE_CPU_HALF_H

#include "device/cpu.h"

#define KERNELS_OF_HALVES(K) K(matmul) K(norm) K(clip) KERNELS_UPDATING(K)

#define CPU_HALF_PROTOTYPE(kernel, ...) \
    void cpu_half_##kernel(struct queue *queue PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S));
KERNELS_OF_HALVES(CPU_HALF_PROTOTYPE)
KERNELS_OF_CONVOLUTIONS(CPU_HALF_PROTOTYPE)

#endif
