// Private to the cpu maker: the same kernels, compiled for three instruction sets, each for floats and 16-bit numbers.
// A device gets the best set that this processor has, or the one that its name asks for, as in "cpu:avx2". Results
// differ between instruction sets in the last bits, but never between runs.
#ifndef DEVICE_CPU_H
#define DEVICE_CPU_H

#include "device/maker.h"

// What multiplies matrices in bf16. Sums are fp32 by each.
enum bf16_by {
    BF16_BY_FP32,    // products of floats
    BF16_BY_VECTORS, // avx512_bf16
    BF16_BY_AMX,
};

struct cpu {  // a device's own
    const struct kernel_functions *kernels;        // kernels that compute at once
    const struct kernel_functions *float_kernels;  // what those compute with: themselves, except for 16 bits
    uint64_t link_rate;                            // bytes per second to and from the host; 0: no such link
    struct empty_hall *empty_halls;                // of communicators without an end yet; under the device's lock
    struct cpu_convolution *_Atomic convolutions;  // those that convolution_bytes() was asked about
    enum bf16_by bf16_by;
    struct cpu_product *_Atomic products;          // those that it has computed so far
};

// Also used by the device that runs ahead (cpu_queued.h).
void cpu_close(struct device *device);
void *cpu_allocate(struct device *device, uint64_t bytes, struct error *error);
void cpu_release(struct device *device, void *memory);
void cpu_zero(struct queue *queue, void *memory, uint64_t bytes);
void cpu_copy(struct queue *queue, void *to, const void *from, uint64_t bytes);
void cpu_transfer(struct queue *queue, void *to, const void *from, uint64_t bytes);

extern const struct kernel_functions cpu_kernels_baseline, cpu_kernels_bf16_baseline, cpu_kernels_fp16_baseline;
#if defined(__x86_64__)
// with FMA
extern const struct kernel_functions cpu_kernels_avx2, cpu_kernels_bf16_avx2, cpu_kernels_fp16_avx2;
// F, BW, DQ, VL
extern const struct kernel_functions cpu_kernels_avx512, cpu_kernels_bf16_avx512, cpu_kernels_fp16_avx512;
#endif

// The matrix product alone, without epilogues. All instruction sets share it: oneDNN finds the instruction set
// itself.
void cpu_product(struct queue *queue, const struct matmul *matmul);

// The quickest that this processor has, that oneDNN may use (ONEDNN_MAX_CPU_ISA), and that it does use.
enum bf16_by cpu_bf16_by(void);

// The product in bf16 by AMX or avx512_bf16, with its epilogues. GELU is that of the rounded before_gelu, as in the
// backward. False if that is not possible: then nothing was done.
bool cpu_bf16_product(struct queue *queue, const struct matmul *matmul);
void cpu_forget_products(struct cpu *cpu);

// Attention in bf16, on a device that has AMX or avx512_bf16.
#if defined(__x86_64__)
void cpu_bf16_attention(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                       const struct values *qkv);
void cpu_bf16_attention_backward(struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                                const struct values *out_gradient, const struct values *out, const float *log_sums,
                                const struct values *qkv);
#endif

// oneDNN's number of threads is a setting of the calling thread. It is one from begin to end, and then what it was.
int cpu_begin_alone(void);
void cpu_end_alone(int threads);

// All instruction sets share these, too. They take numbers in bf16 if cpu_convolution_is_bf16(), and otherwise floats.
void cpu_convolution(struct queue *queue, const struct convolution *convolution, struct values *out,
                     const struct values *in, const struct values *weights, const struct values *bias, void *workspace);
void cpu_convolution_input(struct queue *queue, const struct convolution *convolution, struct values *in_gradient,
                           const struct values *out_gradient, const struct values *weights, void *workspace);
void cpu_convolution_weight(struct queue *queue, const struct convolution *convolution, float *weights_gradient,
                            const struct values *out_gradient, const struct values *in, void *workspace);
bool cpu_convolution_bytes(struct device *device, const struct convolution *convolution,
                           struct convolution_bytes *bytes, struct error *error);
bool cpu_convolution_is_bf16(const struct cpu *cpu, const struct convolution *convolution);
void cpu_forget_convolutions(struct cpu *cpu);

// The values of kernels for floats.
static inline float *floats(struct values *values)
{
    return (float *)values;
}
static inline const float *floats_of(const struct values *values)
{
    return (const float *)values;
}

// Score blocks of attention: so many query rows at a time, with each row padded to whole vectors of any instruction
// set.
enum { ATTENTION_ROWS = 64 };
static inline size_t attention_row_floats(size_t sequence)
{
    return (sequence + 31) / 32 * 32;
}

#endif
