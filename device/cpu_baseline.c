// The kernels for any processor that this compiler makes code for.
#define CPU_KERNELS cpu_kernels_baseline
#include "device/cpu_vectors.h"
