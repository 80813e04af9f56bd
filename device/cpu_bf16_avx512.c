// The kernels in bf16 for processors with AVX-512 (F, BW, DQ, VL); the flags are in SConscript.
#if defined(__x86_64__)
#define CPU_BF16
#define CPU_KERNELS cpu_kernels_bf16_avx512
#include "device/cpu_half_vectors.h"
#endif
