// The kernels in fp16 for every processor.
#define CPU_FP16
#define CPU_KERNELS cpu_kernels_fp16_baseline
#include "device/cpu_half_vectors.h"
