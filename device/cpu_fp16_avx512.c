// The kernels in fp16 for processors with AVX-512 (F, BW, DQ, VL); the flags are in SConscript.
#if defined(__x86_64__)
#define CPU_FP16
#define CPU_KERNELS cpu_kernels_fp16_avx512
#include "device/cpu_half_vectors.h"
#endif
