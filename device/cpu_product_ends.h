// Private: matrix products of floats, with their ends (epilogues). Included by cpu_vectors.h.
#ifndef DEVICE_CPU_PRODUCT_ENDS_H
#define DEVICE_CPU_PRODUCT_ENDS_H

#include "device/cpu_elementwise.h"

// One row of a product: adds the bias, and applies GELU if before_gelu is given, which then keeps the GELU's input.
INLINE void end_row(float *c, float *before_gelu, const float *bias, size_t columns)
{
    FOR_VECTORS (i, left, columns) {
        const vec product = vec_load_first(c + i, left, 0);
        const vec x = bias ? product + vec_load_first(bias + i, left, 0) : product;
        if (before_gelu)
            vec_store_first(before_gelu + i, x, left);
        vec_store_first(c + i, before_gelu ? gelu(x).output : x, left);
    }
}

static void cpu_matmul(struct queue *queue, const struct matmul *matmul)
{
    cpu_product(queue, matmul);
    if (!matmul->bias && !matmul->before_gelu)
        return;
    float *before = floats(matmul->before_gelu);
    for (size_t row = 0; row < matmul->m; row++)
        end_row(floats(matmul->c) + row * matmul->ldc, before ? before + row * matmul->ldc : NULL,
                floats_of(matmul->bias), matmul->n);
}

#endif
