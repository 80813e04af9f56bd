// Private to the plug-in: our own CUDA kernels, as plain C functions. There is one for each function of kernels.h
// that neither cuBLASLt nor cuDNN does, with its meaning and its arguments. Each launches its kernels on the stream
// and returns CUDA's status of the launch. None waits, and none allocates.
//
//     cuda_maker.c    queue = stream + struct cuda_launch; keeps the first error
//         |
//     launch.h        this page: C, so that the makers stay C
//         |
//     *.cu            templates over float, __nv_bfloat16 and __half
//
// Addresses need only be multiples of the number's own size, unless a sentence says more: a kernel uses wide loads
// only where its addresses allow it. A count or a number of rows may be 0 (then nothing is launched) and may exceed
// 2^32. No sum depends on the order in which blocks run: there are no atomics on floats, and no size taken from the
// chip changes the order of a sum.
#ifndef DEVICE_CUDA_LAUNCH_H
#define DEVICE_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "device/expert_kernels.h"
#include "device/kernel_list.h"
#include "device/kernels.h"
#include "device/picture_kernels.h"
#include "device/table_kernels.h"

// Scratch that a kernel may use between its passes (partial sums, sorted tokens). Its size does not depend on the
// problem. It is aligned to 256 bytes.
enum { CUDA_SCRATCH_BYTES = 32 << 20 };

// An error that a kernel found while it ran. The host sees it when it next looks.
enum cuda_failure {
    CUDA_FAILURE_NONE = 0, CUDA_FAILURE_TOKEN = 1, CUDA_FAILURE_TARGET = 2, CUDA_FAILURE_ID = 3, CUDA_FAILURE_BAG = 4,
    CUDA_FAILURE_ANSWER = 5, CUDA_FAILURE_LIST = 6,
};

struct cuda_launch {
    cudaStream_t stream;
    enum precision precision;  // of all `struct values`
    void *scratch;             // on the device; the stream's own, so it is free at each launch
    // Visible to host and device. A kernel that meets a token, a target or an id outside its range stores an enum
    // cuda_failure here, reads nothing outside the range, and continues.
    uint32_t *failure;
    size_t shared_bytes;  // shared memory that a block may have on this chip; 0: what all chips have
};

// --- kernels of kernels.h ----------------------------------------------------------

// One for each kernel, with its arguments. There is none for matmul, which is cuBLASLt's (cuda_give_matmul), and for
// convolutions, which are cuDNN's (cuda_give_convolution).
//
// Attention takes any head size up to 256 and any sequence. It is used in fp32, and in 16 bits if cuDNN refuses the
// shape. The log_sums are those of cuDNN (the natural logarithm), so that a forward of one suits the other's backward.
// The workspace is attention_workspace_bytes().
#define CUDA_KERNEL(kernel, ...) \
    cudaError_t cuda_##kernel(const struct cuda_launch *launch PARAMETERS_##kernel(PARAMETER_V, PARAMETER_S));
KERNELS(CUDA_KERNEL)

// The end (epilogue) of a matrix product, if cuBLASLt refuses to do it. The rows of c are `stride` numbers apart. If
// bias is not NULL, c becomes c + bias of the column. Then, if before_gelu (laid out as c) is not NULL, c is written
// there, rounded, and c becomes its GELU.
cudaError_t cuda_end_matmul(const struct cuda_launch *launch, struct values *c, struct values *before_gelu,
                            const struct values *bias, size_t rows, size_t columns, size_t stride);

// The transpose of a matrix of rows x columns floats. The second one adds it to `sums`.
cudaError_t cuda_transpose(const struct cuda_launch *launch, float *out, const float *in, size_t rows, size_t columns);
cudaError_t cuda_add_transposed(const struct cuda_launch *launch, float *sums, const float *in, size_t rows,
                                size_t columns);

// --- loading -----------------------------------------------------------------------

// Each loads all kernels of its file on the thread's GPU. Otherwise CUDA would load a kernel at its first launch, and
// might then wait for all running work. That can include a receive whose message is only sent after this launch.
cudaError_t cuda_load_attention(void);
cudaError_t cuda_load_columns(void);
cudaError_t cuda_load_eight_bits(void);
cudaError_t cuda_load_elementwise(void);
cudaError_t cuda_load_embedding(void);
cudaError_t cuda_load_experts(void);
cudaError_t cuda_load_loss(void);
cudaError_t cuda_load_optimizer(void);
cudaError_t cuda_load_pictures(void);
cudaError_t cuda_load_rows(void);
cudaError_t cuda_load_signs(void);
cudaError_t cuda_load_tables(void);
cudaError_t cuda_load_tensor_optimizers(void);
cudaError_t cuda_load_transpose(void);

static inline cudaError_t cuda_load_kernels(void)
{
    cudaError_t (*const files[])(void) = { cuda_load_attention, cuda_load_columns, cuda_load_eight_bits,
                                           cuda_load_elementwise, cuda_load_embedding, cuda_load_experts,
                                           cuda_load_loss, cuda_load_optimizer, cuda_load_pictures,
                                           cuda_load_rows, cuda_load_signs, cuda_load_tables,
                                           cuda_load_tensor_optimizers, cuda_load_transpose };
    cudaError_t status = cudaSuccess;
    for (size_t i = 0; status == cudaSuccess && i < sizeof files / sizeof files[0]; i++)
        status = files[i]();
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
