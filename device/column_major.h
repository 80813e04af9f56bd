// A matrix product of kernels.h as seen by a library that stores columns.
//
// Numbers in rows of `leading` numbers each are, read as columns, the transposed matrix; nothing has to be moved. The
// library is therefore asked for the transposed product, with the factors in the other order:
//
//     rows:     c     (m x n)  =  op(a)  (m x k)   op(b)  (k x n)
//     columns:  c^T   (n x m)  =  op(b)^T (n x k)  op(a)^T (k x m)
//                                 `first`          `second`
//
//     b as it lies     read as columns    what is wanted     so `first` is
//     k x n, rows      n x k              n x k              taken as it is
//     n x k, rows      k x n              n x k              transposed         (transpose_b)
//
// The same holds for `second` and a. A bias per column of c is a bias per row of c^T, which is what such libraries
// add.
#ifndef DEVICE_COLUMN_MAJOR_H
#define DEVICE_COLUMN_MAJOR_H

#include <stdbool.h>
#include <stdint.h>

#include "device/kernels.h"

struct column_matrix {  // as stored: column j begins at j * leading
    uint64_t rows, columns;
    int64_t leading;
};

// Products are looked up by comparing all bytes of this struct, so it has no padding.
struct column_major {
    struct column_matrix first, second, result;
    uint32_t transpose_first, transpose_second;
    uint32_t adds;         // to floats: result = product + result
    uint32_t has_bias;
    uint32_t has_gelu;     // and the input of the GELU is kept, laid out as the result
    uint32_t is_aligned;   // all addresses are multiples of 16 bytes; otherwise of the number's own size only
};

// Leading dimensions must have been filled in (kernel_matmul() does that).
struct column_major column_major_of(const struct matmul *matmul);

// The same without its epilogue (bias, GELU), for libraries that refuse that.
struct column_major column_major_plain(struct column_major product);

// Whether cuBLASLt can be asked to keep the input of the GELU: its rows must begin at multiples of 8 numbers.
static inline bool column_major_can_end(const struct column_major *product)
{
    return !product->has_gelu || product->result.leading % 8 == 0;
}

#endif
