// Private: a matrix product for pieces that stay in the L1 cache, in tiles that stay in registers. Included by
// cpu_attention.h.
#ifndef DEVICE_CPU_TILES_H
#define DEVICE_CPU_TILES_H

#include "device/cpu_rows.h"

// A tile of the result stays in registers: TILE_ROWS by TILE_VECTORS of the 16 or 32 that there are.
enum { TILE_ROWS = 8, TILE_VECTORS = VECTOR_BYTES == 64 ? 2 : 1 };

// c (+)= a b. a is m by k with any strides (so transposed is free), b is k by n.
struct tiles {
    size_t m, n, k;
    const float *a;
    size_t a_row, a_column;
    const float *b;
    size_t ldb;
    float *c;
    size_t ldc;
    bool add;
};

// One tile. `rows`, `vectors` and `whole` are constants where this is inlined, so that the sums become registers.
// Without `whole` the last vector has `left` lanes.
INLINE void tile(const struct tiles *t, size_t row, size_t column, const size_t rows, const size_t vectors,
                 const bool whole, size_t left)
{
    const float *a = t->a + row * t->a_row, *b = t->b + column;
    vec sum[TILE_ROWS][TILE_VECTORS];
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < vectors; v++)
            sum[r][v] = vec_all(0);
    for (size_t l = 0; l < t->k; l++) {
        vec right[TILE_VECTORS];
        for (size_t v = 0; v < vectors; v++)
            right[v] = whole ? vec_load(b + l * t->ldb + v * LANES) : vec_load_first(b + l * t->ldb, left, 0);
        for (size_t r = 0; r < rows; r++)
            for (size_t v = 0; v < vectors; v++)
                sum[r][v] += a[r * t->a_row + l * t->a_column] * right[v];
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t v = 0; v < vectors; v++) {
            float *c = t->c + (row + r) * t->ldc + column + v * LANES;
            const size_t lanes = whole ? LANES : left;
            vec_store_first(c, t->add ? vec_load_first(c, lanes, 0) + sum[r][v] : sum[r][v], lanes);
        }
}

INLINE void tile_row(const struct tiles *t, size_t row, const size_t rows)
{
    size_t column = 0;
    for (; column + TILE_VECTORS * LANES <= t->n; column += TILE_VECTORS * LANES)
        tile(t, row, column, rows, TILE_VECTORS, true, 0);
    for (; column + LANES <= t->n; column += LANES)
        tile(t, row, column, rows, 1, true, 0);
    if (column < t->n)
        tile(t, row, column, rows, 1, false, t->n - column);
}

static void multiply_tiles(const struct tiles *t)
{
    size_t row = 0;
    for (; row + TILE_ROWS <= t->m; row += TILE_ROWS)
        tile_row(t, row, TILE_ROWS);
    for (; row < t->m; row++)
        tile_row(t, row, 1);
}

#endif
