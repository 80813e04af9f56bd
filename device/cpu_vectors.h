// Private: all kernels of the cpu maker for floats, for the instruction set that the including file is compiled for.
// That file defines CPU_KERNELS, the name of the table.
#include "device/cpu.h"
#include "device/cpu_attention.h"
#include "device/cpu_eight_bits.h"
#include "device/cpu_elementwise.h"
#include "device/cpu_experts.h"
#include "device/cpu_optimizer.h"
#include "device/cpu_pictures.h"
#include "device/cpu_product_ends.h"
#include "device/cpu_row_lists.h"
#include "device/cpu_rows.h"
#include "device/cpu_signs.h"
#include "device/cpu_tables.h"
#include "device/cpu_tensor_optimizers.h"

#define CPU_KERNEL(kernel, ...) .kernel = cpu_##kernel,
const struct kernel_functions CPU_KERNELS = { KERNELS(CPU_KERNEL) };
