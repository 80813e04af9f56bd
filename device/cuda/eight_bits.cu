// Adam with moments of one byte each. A block of threads takes a block of numbers, whose largest is their scale.
#include "device/cuda/reduce.cuh"

// The same as in eight_bit_value().
static __device__ float positive_value(unsigned code, unsigned steps)
{
    const float decades[] = { 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1 };
    unsigned decade = 0;
    for (; decade < 7 && code >= steps; decade++, steps *= 2)
        code -= steps;
    if (decade == 7)
        return 1;
    return __fmul_rn(decades[decade], __fadd_rn(0.1f, __fmul_rn(0.9f, (float)code + 0.5f) / (float)steps));
}

static __device__ float value_of(unsigned code, bool is_signed)
{
    if (!is_signed)
        return code == 0 ? 0 : positive_value(code - 1, 2);
    if (code == 127)
        return 0;
    return code > 127 ? positive_value(code - 128, 1) : -positive_value(126 - code, 1);
}

// How many of the 255 ends are below x.
static __device__ uint8_t code_of(const float *ends, float x)
{
    unsigned code = 0;
#pragma unroll
    for (unsigned half = 128; half > 0; half /= 2)
        code += ends[code + half - 1] < x ? half : 0;
    return (uint8_t)code;
}

enum { EIGHT_BIT_EACH = EIGHT_BIT_BLOCK / BLOCK };  // numbers per thread

static __device__ float code_all(const float *ends, uint8_t *codes, const float (&numbers)[EIGHT_BIT_EACH],
                                 size_t rest)
{
    float most = 0;
#pragma unroll
    for (int k = 0; k < EIGHT_BIT_EACH; k++)
        most = largest()(fabsf(numbers[k]), most);
    most = over_group<BLOCK>(most, largest());
#pragma unroll
    for (int k = 0; k < EIGHT_BIT_EACH; k++) {
        const size_t i = (size_t)k * BLOCK + threadIdx.x;
        if (i < rest)
            codes[i] = code_of(ends, most > 0 ? numbers[k] / most : 0);
    }
    return most;
}

static __global__ void __launch_bounds__(BLOCK) eight_bits_kernel(struct adamw adamw, struct adamw_factors given,
                                                                  struct eight_bit_span span)
{
    SHARED(float, values, [512]);
    SHARED(float, ends, [512]);
    for (unsigned k = threadIdx.x; k < 512; k += BLOCK)
        values[k] = value_of(k % 256, k < 256);
    __syncthreads();
    for (unsigned k = threadIdx.x; k < 511; k += BLOCK)
        ends[k] = 0.5f * (values[k] + values[k + 1]);
    __syncthreads();
    const struct adamw_factors factors = adamw.factors_at ? *(const struct adamw_factors *)adamw.factors_at : given;
    const float rest1 = 1 - adamw.beta1, rest2 = 1 - adamw.beta2;
    const size_t from = (size_t)blockIdx.x * EIGHT_BIT_BLOCK, rest = span.count - from;
    const float first_scale = span.first_scales[blockIdx.x], second_scale = span.second_scales[blockIdx.x];
    float first[EIGHT_BIT_EACH] = {}, second[EIGHT_BIT_EACH] = {};
#pragma unroll
    for (int k = 0; k < EIGHT_BIT_EACH; k++) {
        const size_t i = (size_t)k * BLOCK + threadIdx.x;
        if (i >= rest)
            continue;
        const float w = ((const float *)span.weights)[from + i];
        float g = span.gradients[from + i];
        if (factors.coupled != 0)
            g = __fmaf_rn(factors.coupled, w, g);
        const float m = __fmul_rn(values[span.first[from + i]], first_scale);
        const float v = __fmul_rn(values[256 + span.second[from + i]], second_scale);
        first[k] = __fmaf_rn(adamw.beta1, m, __fmul_rn(rest1, g));
        second[k] = __fmaf_rn(adamw.beta2, v, __fmul_rn(__fmul_rn(rest2, g), g));
        const float scale = __fmaf_rn(sqrtf(second[k]), factors.second_factor, adamw.epsilon);
        ((float *)span.next)[from + i] =
            __fmaf_rn(factors.shrink, w, -(__fmul_rn(factors.step, first[k]) / scale));
    }
    const float most_first = code_all(ends, span.first + from, first, rest);
    const float most_second = code_all(ends + 256, span.second + from, second, rest);
    if (threadIdx.x == 0) {
        span.first_scales[blockIdx.x] = most_first;
        span.second_scales[blockIdx.x] = most_second;
    }
}

cudaError_t cuda_adam8bit(const struct cuda_launch *launch, const struct adamw *adamw,
                          const struct eight_bit_span *span)
{
    return launch_blocks(launch, eight_bits_kernel, blocks_for(span->count, EIGHT_BIT_BLOCK), BLOCK, 0, *adamw,
                         adamw_factors(adamw), *span);
}

// --- loading -------------------------------------------------------------------------------

cudaError_t cuda_load_eight_bits(void)
{
    return load_kernels(eight_bits_kernel);
}
