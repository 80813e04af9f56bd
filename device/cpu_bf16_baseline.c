// The kernels in bf16 for every processor.
#define CPU_BF16
#define CPU_KERNELS cpu_kernels_bf16_baseline
#include "device/cpu_half_vectors.h"
