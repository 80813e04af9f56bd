#include "device/column_major.h"

#include <assert.h>

static bool is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

struct column_major column_major_of(const struct matmul *x)
{
    assert(x->m > 0 && x->n > 0 && x->k > 0 && !x->c != !x->sums);
    assert(x->c || (!x->bias && !x->before_gelu));
    const uint64_t m = x->m, n = x->n, k = x->k;
    return (struct column_major){
        .first = { x->transpose_b ? k : n, x->transpose_b ? n : k, (int64_t)x->ldb },
        .second = { x->transpose_a ? m : k, x->transpose_a ? k : m, (int64_t)x->lda },
        .result = { n, m, (int64_t)x->ldc },
        .transpose_first = x->transpose_b,
        .transpose_second = x->transpose_a,
        .adds = x->sums != NULL,
        .has_bias = x->bias != NULL,
        .has_gelu = x->before_gelu != NULL,
        .is_aligned = is_aligned(x->a) && is_aligned(x->b) && is_aligned(x->c) && is_aligned(x->sums)
            && is_aligned(x->bias) && is_aligned(x->before_gelu),
    };
}

struct column_major column_major_plain(struct column_major product)
{
    product.has_bias = product.has_gelu = 0;
    return product;
}
