// The kernels for processors with AVX-512 (F, BW, DQ, VL); the flags are in SConscript.
#if defined(__x86_64__)
#define CPU_KERNELS cpu_kernels_avx512
#include "device/cpu_vectors.h"
#endif
