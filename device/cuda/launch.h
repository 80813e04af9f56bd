// Private to the plug-in: our own kernels for CUDA, one plain C function for each
// function of kernels.h that neither cuBLASLt nor cuDNN does, with its meaning and
// its arguments. Each gives its kernels to the stream and returns what CUDA said of
// the launch; none waits, none allocates.
//
//     cuda_maker.c    queue = stream + struct cuda_launch; keeps the first error
//         |
//     launch.h        this page: C, so that the makers stay C
//         |
//     *.cu            templates over float, __nv_bfloat16 and __half
//
// Addresses are multiples of the number's own size only, unless a sentence says
// more: wide loads are a path that a kernel takes where its addresses allow it. A
// count or a number of rows may be 0 (nothing is launched then) and may pass 2^32.
// No sum depends on the order in which blocks run: no atomics on floats, no sizes
// taken from the chip that change how something is added up.
#ifndef DEVICE_CUDA_LAUNCH_H
#define DEVICE_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "device/kernels.h"

// What a kernel may use between its passes (partial sums, sorted tokens): this much,
// whatever the size of the problem, aligned to 256.
enum { CUDA_SCRATCH_BYTES = 32 << 20 };

// What a kernel found while it ran, which the host sees when it looks next.
enum cuda_failure { CUDA_FAILURE_NONE = 0, CUDA_FAILURE_TOKEN = 1, CUDA_FAILURE_TARGET = 2 };

struct cuda_launch {
    cudaStream_t stream;
    enum precision precision;  // of all `struct values`
    void *scratch;             // on the device; the stream's, so a launch finds it free
    // Seen by host and device: a kernel that meets a token or a target outside its range stores an enum cuda_failure
    // here, reads nothing outside, and goes on.
    uint32_t *failure;
    size_t shared_bytes;  // that a block may have on this chip; 0: what all have
};

// --- element by element --------------------------------------------------------

cudaError_t cuda_fill(const struct cuda_launch *launch, struct values *out, float value, size_t count);
cudaError_t cuda_fill_normal(const struct cuda_launch *launch, struct values *out, float deviation, uint64_t key,
                             uint64_t first, size_t count);
cudaError_t cuda_add(const struct cuda_launch *launch, struct values *out, const struct values *a,
                     const struct values *b, size_t count);
cudaError_t cuda_scale(const struct cuda_launch *launch, float *out, const float *in, float factor, size_t count);
cudaError_t cuda_add_floats(const struct cuda_launch *launch, float *out, const float *a, const float *b,
                            size_t count);
cudaError_t cuda_widen(const struct cuda_launch *launch, float *out, const struct values *in, size_t count);
cudaError_t cuda_narrow(const struct cuda_launch *launch, struct values *out, const float *in, size_t count);
cudaError_t cuda_dropout(const struct cuda_launch *launch, struct values *out, const struct values *in, size_t count,
                         struct dropout dropout);
cudaError_t cuda_relu(const struct cuda_launch *launch, struct values *out, uint8_t *passed, const struct values *in,
                      size_t count);
cudaError_t cuda_relu_backward(const struct cuda_launch *launch, struct values *in_gradient,
                               const struct values *out_gradient, const uint8_t *passed, size_t count);

// --- rows and columns ------------------------------------------------------------

// The end of a matrix product where cuBLASLt refuses to do it: c, whose rows lie `stride` numbers apart, becomes
// c + bias of the column where bias is not NULL; then, where before_gelu (laid out as c) is not NULL, that is written
// there, rounded, and c becomes its GELU.
cudaError_t cuda_end_matmul(const struct cuda_launch *launch, struct values *c, struct values *before_gelu,
                            const struct values *bias, size_t rows, size_t columns, size_t stride);

cudaError_t cuda_add_branch(const struct cuda_launch *launch, struct values *out, const struct values *trunk,
                            const struct values *branch, const struct values *bias, size_t rows, size_t columns,
                            struct dropout dropout);
cudaError_t cuda_sum_columns(const struct cuda_launch *launch, float *sums, const struct values *in, size_t rows,
                             size_t columns);
cudaError_t cuda_gelu(const struct cuda_launch *launch, struct values *out, const struct values *in, size_t count);
cudaError_t cuda_gelu_backward(const struct cuda_launch *launch, struct values *in_gradient, struct values *out,
                               const struct values *out_gradient, const struct values *in, size_t count);
cudaError_t cuda_softmax(const struct cuda_launch *launch, struct values *out, const struct values *in, size_t rows,
                         size_t columns);

cudaError_t cuda_layer_norm(const struct cuda_launch *launch, const struct layer_norm *norm, struct values *out,
                            float *mean, float *rstd);
cudaError_t cuda_layer_norm_again(const struct cuda_launch *launch, const struct layer_norm *norm, struct values *out,
                                  const float *mean, const float *rstd);
cudaError_t cuda_layer_norm_backward_input(const struct cuda_launch *launch, const struct layer_norm *norm,
                                           struct values *in_gradient, const struct values *out_gradient,
                                           const struct values *add, const float *mean, const float *rstd);
cudaError_t cuda_layer_norm_backward_weight(const struct cuda_launch *launch, const struct layer_norm *norm,
                                            float *gain_gradient, float *offset_gradient,
                                            const struct values *out_gradient, const float *mean, const float *rstd);

// --- words, attention, loss --------------------------------------------------------

cudaError_t cuda_embedding(const struct cuda_launch *launch, const struct embedding *embedding, struct values *out,
                           const struct values *words, const struct values *positions);
cudaError_t cuda_embedding_backward(const struct cuda_launch *launch, const struct embedding *embedding,
                                    float *words_gradient, float *positions_gradient,
                                    const struct values *out_gradient);

// Any size of head up to 256, any sequence: what is done in fp32, and in 16 bits where cuDNN refuses the shape.
// The log_sums are cuDNN's too (the natural logarithm), so that a forward of one suits the other's backward. The
// workspace is attention_workspace_bytes().
cudaError_t cuda_attention(const struct cuda_launch *launch, const struct attention *attention, struct values *out,
                           float *log_sums, const struct values *qkv, void *workspace);
cudaError_t cuda_attention_backward(const struct cuda_launch *launch, const struct attention *attention,
                                    struct values *qkv_gradient, const struct values *out_gradient,
                                    const struct values *out, const float *log_sums, const struct values *qkv,
                                    void *workspace);

cudaError_t cuda_cross_entropy(const struct cuda_launch *launch, const struct cross_entropy *loss, float *sum,
                               float *log_sums);
cudaError_t cuda_cross_entropy_both(const struct cuda_launch *launch, const struct cross_entropy *loss, float *sum,
                                    float *losses, struct values *logits_gradient, float gradient_scale);
cudaError_t cuda_cross_entropy_part(const struct cuda_launch *launch, const struct cross_entropy *loss,
                                    float *log_sums, float *target_logits);
cudaError_t cuda_cross_entropy_join(const struct cuda_launch *launch, const struct cross_entropy_parts *parts,
                                    float *sum, float *log_sums);
cudaError_t cuda_cross_entropy_backward(const struct cuda_launch *launch, const struct cross_entropy *loss,
                                        struct values *logits_gradient, const float *log_sums);

// --- optimizers --------------------------------------------------------------------

cudaError_t cuda_adamw(const struct cuda_launch *launch, const struct adamw *adamw,
                       const struct optimizer_span *span);
cudaError_t cuda_sgd(const struct cuda_launch *launch, const struct sgd *sgd, const struct optimizer_span *span);
cudaError_t cuda_lars(const struct cuda_launch *launch, const struct lars *lars, const struct optimizer_span *span);
cudaError_t cuda_lamb(const struct cuda_launch *launch, const struct lamb *lamb, const struct optimizer_span *span);
cudaError_t cuda_adafactor(const struct cuda_launch *launch, const struct adafactor *adafactor,
                           const struct factored_span *span);
cudaError_t cuda_adam8bit(const struct cuda_launch *launch, const struct adamw *adamw,
                          const struct eight_bit_span *span);
cudaError_t cuda_add_where(const struct cuda_launch *launch, float *sums, const float *in, float factor,
                           const float *where, size_t count);
cudaError_t cuda_take_signs(const struct cuda_launch *launch, struct sign_block *blocks, float *numbers,
                            const float *where, size_t count);
cudaError_t cuda_add_signs(const struct cuda_launch *launch, float *sums, const struct sign_block *blocks,
                           float factor, const float *where, size_t count);
cudaError_t cuda_norm(const struct cuda_launch *launch, float *norm, const float *in, size_t count);
cudaError_t cuda_clip(const struct cuda_launch *launch, const struct clip *clip, float *gradients, size_t count);

// --- loading -----------------------------------------------------------------------

// Each loads all kernels of its file on the thread's GPU, which CUDA would else do when one is launched first: it may
// then wait for all that runs, so also for a receive whose message this launch is to lead to.
cudaError_t cuda_load_attention(void);
cudaError_t cuda_load_columns(void);
cudaError_t cuda_load_eight_bits(void);
cudaError_t cuda_load_elementwise(void);
cudaError_t cuda_load_embedding(void);
cudaError_t cuda_load_loss(void);
cudaError_t cuda_load_optimizer(void);
cudaError_t cuda_load_rows(void);
cudaError_t cuda_load_signs(void);
cudaError_t cuda_load_tensor_optimizers(void);

static inline cudaError_t cuda_load_kernels(void)
{
    cudaError_t (*const files[])(void) = { cuda_load_attention, cuda_load_columns, cuda_load_eight_bits,
                                           cuda_load_elementwise, cuda_load_embedding, cuda_load_loss,
                                           cuda_load_optimizer, cuda_load_rows, cuda_load_signs,
                                           cuda_load_tensor_optimizers };
    cudaError_t status = cudaSuccess;
    for (size_t i = 0; status == cudaSuccess && i < sizeof files / sizeof files[0]; i++)
        status = files[i]();
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
