// The kernels for processors with AVX2 and FMA; the flags are in SConscript.
#if defined(__x86_64__)
#define CPU_KERNELS cpu_kernels_avx2
#include "device/cpu_vectors.h"
#endif
