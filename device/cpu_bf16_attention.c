// Causal attention in bf16, by products of AMX or of avx512_bf16. One head is computed at a time, BLOCK queries of it
// at once. Their scores are transposed: a row for each key, and a lane for each query. A softmax thus needs no sums
// across lanes.
//
//                 queries of a block
//     keys        b .. b + 31
//        0       | S^T = K Q^T        |    P^T = exp(S^T / sqrt(size) - log_sums), and 0 where key > query
//       ..       |                    |    O^T = V^T P^T
//     b + 31     |               +----|
//                                | 0  |
//
// The backward, with g the gradient of O and D = the sums of g O (cpu_attention.h):
//
//     slope^T = P^T (V g^T - D) / sqrt(size)      dQ^T = K^T slope^T      dK = slope^T Q      dV = P^T g
//
// Both units read the right matrix of a product as pairs: a row of it holds two rows of bf16, interleaved. Rows of P^T
// and slope^T become pairs without leaving their lanes.
#if defined(__x86_64__)
#define CPU_BF16
#include <stdlib.h>

#include "common/large.h"
#include "device/cpu_elements.h"

enum {
    BLOCK = 32,
    TILE = 16,  // a tile of AMX has 16 rows of 64 bytes
    ROWS = 8,   // whose sums fill 16 of 32 registers
};

// Every size below is a multiple of BLOCK. Numbers past the end are zeros.
static size_t padded(size_t count)
{
    return (count + BLOCK - 1) / BLOCK * BLOCK;
}

// --- products ----------------------------------------------------------------------------

struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void tiles_begin(void)
{
    struct tile_shapes shapes = { .palette = 1 };
    for (size_t tile = 0; tile < 8; tile++) {
        shapes.row_bytes[tile] = 64;
        shapes.rows[tile] = TILE;
    }
    _tile_loadconfig(&shapes);
}

// Some compilers do not know that a load of a tile reads memory, and could move a store behind it.
static void compiler_barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

// c (+)= a b for BLOCK rows and BLOCK columns of c. Strides are in elements: floats of c, bf16 of a, pairs of b.
static void multiply_tiles(float *c, size_t c_stride, const element *a, size_t a_stride, const uint32_t *b,
                           size_t b_stride, size_t k, bool adds)
{
    const size_t c_bytes = c_stride * sizeof *c, a_bytes = a_stride * sizeof *a, b_bytes = b_stride * sizeof *b;
    float *below = c + TILE * c_stride;
    compiler_barrier();
    if (adds) {
        _tile_loadd(0, c, c_bytes);
        _tile_loadd(1, c + TILE, c_bytes);
        _tile_loadd(2, below, c_bytes);
        _tile_loadd(3, below + TILE, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t l = 0; l < k; l += BLOCK) {
        const uint32_t *pairs = b + l / 2 * b_stride;
        _tile_loadd(4, a + l, a_bytes);
        _tile_loadd(5, a + TILE * a_stride + l, a_bytes);
        _tile_loadd(6, pairs, b_bytes);
        _tile_loadd(7, pairs + TILE, b_bytes);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + TILE, c_bytes);
    _tile_stored(2, below, c_bytes);
    _tile_stored(3, below + TILE, c_bytes);
    compiler_barrier();
}

// The same for ROWS rows of c. All of their sums are in registers.
INLINE void multiply_rows(float *c, size_t c_stride, const element *a, size_t a_stride, const uint32_t *b,
                          size_t b_stride, size_t k, bool adds)
{
    __m512 left[ROWS], right[ROWS];
    for (size_t row = 0; row < ROWS; row++) {
        left[row] = adds ? _mm512_loadu_ps(c + row * c_stride) : _mm512_setzero_ps();
        right[row] = adds ? _mm512_loadu_ps(c + row * c_stride + TILE) : _mm512_setzero_ps();
    }
    for (size_t l = 0; l < k; l += 2, b += b_stride) {
        const __m512bh b_left = (__m512bh)_mm512_loadu_si512(b), b_right = (__m512bh)_mm512_loadu_si512(b + TILE);
        for (size_t row = 0; row < ROWS; row++) {
            int32_t pair;
            memcpy(&pair, a + row * a_stride + l, sizeof pair);
            const __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
            left[row] = _mm512_dpbf16_ps(left[row], both, b_left);
            right[row] = _mm512_dpbf16_ps(right[row], both, b_right);
        }
    }
    for (size_t row = 0; row < ROWS; row++) {
        _mm512_storeu_ps(c + row * c_stride, left[row]);
        _mm512_storeu_ps(c + row * c_stride + TILE, right[row]);
    }
}

static void multiply_vectors(float *c, size_t c_stride, const element *a, size_t a_stride, const uint32_t *b,
                             size_t b_stride, size_t k, bool adds)
{
    for (size_t row = 0; row < BLOCK; row += ROWS)
        multiply_rows(c + row * c_stride, c_stride, a + row * a_stride, a_stride, b, b_stride, k, adds);
}

// --- one head ----------------------------------------------------------------------------

// The head's numbers and what is made of them. `keys` and `size` are padded.
struct head {
    struct attention shape;
    bool has_tiles;                        // AMX, or else avx512_bf16
    size_t end;                            // of the keys that queries attend to
    size_t keys, size, width;              // width: elements from one row of an output to the next
    float factor;
    element *k, *v;                        // [keys][size]
    element *k_transposed, *v_transposed;  // [size][keys]
    float *k_gradient, *v_gradient;        // [keys][size]
    // What a block of queries has:
    element *q, *g;                        // [BLOCK][size]
    uint32_t *q_transposed, *g_transposed; // pairs, [size / 2][BLOCK]
    uint32_t *q_pairs, *g_pairs;           // [BLOCK / 2][size]
    float *scores, *slopes;                // [keys][BLOCK]
    uint32_t *pairs;                       // of P^T, or of slope^T: [keys / 2][BLOCK]
    element *p_rows, *slope_rows;          // [keys][BLOCK]
    float *result;                         // [size][BLOCK]
    float log_sums[BLOCK], dots[BLOCK];    // D
    void *memory;
};

static void *cut(char **memory, size_t count, size_t size)
{
    char *begin = *memory;
    *memory += (count * size + 63) / 64 * 64;
    return begin;
}

static void lay_out(struct head *head, char *memory)
{
    const size_t all = head->keys * head->size, block = BLOCK * head->size, scores = head->keys * BLOCK;
    head->k = cut(&memory, all, sizeof(element));
    head->v = cut(&memory, all, sizeof(element));
    head->k_transposed = cut(&memory, all, sizeof(element));
    head->v_transposed = cut(&memory, all, sizeof(element));
    head->k_gradient = cut(&memory, all, sizeof(float));
    head->v_gradient = cut(&memory, all, sizeof(float));
    head->q = cut(&memory, block, sizeof(element));
    head->g = cut(&memory, block, sizeof(element));
    head->q_transposed = cut(&memory, block / 2, sizeof(uint32_t));
    head->g_transposed = cut(&memory, block / 2, sizeof(uint32_t));
    head->q_pairs = cut(&memory, block / 2, sizeof(uint32_t));
    head->g_pairs = cut(&memory, block / 2, sizeof(uint32_t));
    head->scores = cut(&memory, scores, sizeof(float));
    head->slopes = cut(&memory, scores, sizeof(float));
    head->pairs = cut(&memory, scores / 2, sizeof(uint32_t));
    head->p_rows = cut(&memory, scores, sizeof(element));
    head->slope_rows = cut(&memory, scores, sizeof(element));
    head->result = cut(&memory, block, sizeof(float));
}

// The memory is a call's own, for one head at a time.
static bool head_init(struct queue *queue, struct head *head, const struct attention *shape)
{
    enum { ALIGNMENT = 256 };
    *head = (struct head){
        .shape = *shape, .end = shape->first + shape->sequence, .keys = padded(shape->first + shape->sequence),
        .size = padded(shape->size), .width = shape->heads * shape->size, .factor = 1 / sqrtf((float)shape->size),
        .has_tiles = ((const struct cpu *)queue->device->own)->bf16_by == BF16_BY_AMX,
    };
    const size_t bytes = head->keys * head->size * (4 * sizeof(element) + 2 * sizeof(float))
                       + BLOCK * head->size * (2 * sizeof(element) + 2 * sizeof(uint32_t) + sizeof(float))
                       + head->keys * BLOCK * (2 * sizeof(float) + 3 * sizeof(element));
    head->memory = large_aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    if (!head->memory) {
        queue_fail(queue, "there is no memory for a head of attention in bf16");
        return false;
    }
    lay_out(head, head->memory);
    if (head->has_tiles)
        tiles_begin();
    return true;
}

static void head_clear(struct head *head)
{
    if (head->has_tiles)
        _tile_release();
    free(head->memory);
}

static void multiply_block(const struct head *head, float *c, size_t c_stride, const element *a, size_t a_stride,
                           const uint32_t *b, size_t b_stride, size_t k, bool adds)
{
    (head->has_tiles ? multiply_tiles : multiply_vectors)(c, c_stride, a, a_stride, b, b_stride, k, adds);
}

// Copies rows of the head, with zeros after them and after the last.
static void copy_rows(const struct head *head, element *to, size_t to_rows, const element *from, size_t stride,
                      size_t rows)
{
    memset(to, 0, to_rows * head->size * sizeof *to);
    for (size_t row = 0; row < rows; row++)
        memcpy(to + row * head->size, from + row * stride, head->shape.size * sizeof *to);
}

static void transpose(const struct head *head, element *to, const element *from)
{
    for (size_t c = 0; c < head->size; c++)
        for (size_t key = 0; key < head->keys; key++)
            to[c * head->keys + key] = from[key * head->size + c];
}

// Pairs of a block's transposed rows: a pair is two numbers of one row.
static void transpose_pairs(const struct head *head, uint32_t *to, const element *from)
{
    for (size_t row = 0; row < BLOCK; row++)
        for (size_t pair = 0; pair < head->size / 2; pair++)
            memcpy(to + pair * BLOCK + row, from + row * head->size + 2 * pair, sizeof *to);
}

// Pairs of a block's rows: a pair is a number of each of two rows.
static void pair_rows(const struct head *head, uint32_t *to, const element *from)
{
    for (size_t pair = 0; pair < BLOCK / 2; pair++, from += 2 * head->size)
        for (size_t c = 0; c < head->size; c++)
            to[pair * head->size + c] = from[c] | (uint32_t)from[head->size + c] << 16;
}

static const element *qkv_of(const struct head *head, const struct values *qkv, size_t index)
{
    const size_t batch = index / head->shape.heads, which = index % head->shape.heads;
    return elements_of(qkv) + batch * attention_whole(&head->shape) * 3 * head->width + which * head->shape.size;
}

// The place where the head begins in an output, or in its gradient.
static size_t out_at(const struct head *head, size_t index)
{
    const size_t batch = index / head->shape.heads, which = index % head->shape.heads;
    return batch * head->shape.sequence * head->width + which * head->shape.size;
}

// Rows of a block: queries [block, block + rows) of those that the call has.
static size_t rows_of(const struct head *head, size_t block)
{
    const size_t left = head->shape.sequence - block;
    return left < BLOCK ? left : BLOCK;
}

// The keys that a block's queries attend to, padded.
static size_t keys_of(const struct head *head, size_t block)
{
    const size_t end = padded(head->shape.first + block + BLOCK);
    return end < head->keys ? end : head->keys;
}

static void load_queries(const struct head *head, const element *qkv, size_t block)
{
    copy_rows(head, head->q, BLOCK, qkv + (head->shape.first + block) * 3 * head->width, 3 * head->width,
              rows_of(head, block));
    transpose_pairs(head, head->q_transposed, head->q);
}

// to = rows of K or V times the block's transposed queries or gradients.
static void multiply_keys(const struct head *head, float *to, const element *keys, const uint32_t *transposed,
                          size_t end)
{
    for (size_t key = 0; key < end; key += BLOCK)
        multiply_block(head, to + key * BLOCK, BLOCK, keys + key * head->size, head->size, transposed, BLOCK,
                       head->size, false);
}

// result = K^T or V^T, times pairs of the block.
static void multiply_transposed(const struct head *head, const element *transposed, size_t end)
{
    for (size_t c = 0; c < head->size; c += BLOCK)
        multiply_block(head, head->result + c * BLOCK, BLOCK, transposed + c * head->keys, head->keys, head->pairs,
                       BLOCK, end, false);
}

// Rounds the transposed result to rows.
static void store_result(const struct head *head, element *to, size_t stride, size_t rows)
{
    const __m512i lanes = (__m512i)(vec_count_up() * BLOCK);
    for (size_t row = 0; row < rows; row++)
        for (size_t c = 0; c < head->shape.size; c += LANES) {
            const vec piece = (vec)_mm512_i32gather_ps(lanes, head->result + c * BLOCK + row, sizeof(float));
            store_first(to + row * stride + c, piece, head->shape.size - c);
        }
}

// The lanes whose query attends to a key. Lane 0 is the query at position `first`.
INLINE ivec attends(size_t first, size_t key)
{
    return (ivec)vec_count_up() + (int32_t)first >= (int32_t)key - (ivec){ 0 };
}

INLINE void store_pairs(uint32_t *to, vec even, vec odd)
{
    const uvec pairs = elements_bits(even) | elements_bits(odd) << 16;
    memcpy(to, &pairs, sizeof pairs);
}

// --- forward -------------------------------------------------------------------------------

// Makes pairs of P^T without its division by `sums`, for the LANES queries from `lane` on.
static void soften(const struct head *head, size_t block, size_t lane, size_t end, vec *sums, vec *shifts)
{
    const float *scores = head->scores + lane;
    const size_t first = head->shape.first + block + lane;
    vec largest = vec_all(-INFINITY), sum = vec_all(0);
    for (size_t key = 0; key < end; key++) {
        const vec score = vec_load(scores + key * BLOCK);
        largest = vec_max(largest, vec_select(attends(first, key), score, vec_all(-INFINITY)));
    }
    const vec shift = largest * head->factor;
    for (size_t key = 0; key < end; key += 2) {
        vec p[2];
        for (size_t i = 0; i < 2; i++) {
            const vec y = vec_exp(vec_load(scores + (key + i) * BLOCK) * head->factor - shift);
            p[i] = vec_select(attends(first, key + i), y, vec_all(0));
            sum += p[i];
        }
        store_pairs(head->pairs + key / 2 * BLOCK + lane, p[0], p[1]);
    }
    *sums = sum;
    *shifts = shift;
}

static void block_forward(struct head *head, const element *qkv, element *out, float *log_sums, size_t block)
{
    const size_t end = keys_of(head, block), rows = rows_of(head, block);
    load_queries(head, qkv, block);
    multiply_keys(head, head->scores, head->k, head->q_transposed, end);
    vec sums[BLOCK / LANES], shifts[BLOCK / LANES];
    for (size_t i = 0; i < BLOCK / LANES; i++)
        soften(head, block, i * LANES, end, &sums[i], &shifts[i]);
    for (size_t row = 0; row < rows; row++)
        log_sums[block + row] = shifts[row / LANES][row % LANES] + logf(sums[row / LANES][row % LANES]);
    multiply_transposed(head, head->v_transposed, end);
    for (size_t c = 0; c < head->shape.size; c++)
        for (size_t i = 0; i < BLOCK / LANES; i++) {
            float *at = head->result + c * BLOCK + i * LANES;
            vec_store(at, vec_load(at) / sums[i]);
        }
    store_result(head, out + block * head->width, head->width, rows);
}

void cpu_bf16_attention(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                       const struct values *qkv)
{
    struct head head;
    if (!head_init(queue, &head, attention))
        return;
    for (size_t i = 0; i < attention->batch * attention->heads; i++) {
        const element *from = qkv_of(&head, qkv, i);
        copy_rows(&head, head.k, head.keys, from + head.width, 3 * head.width, head.end);
        copy_rows(&head, head.v, head.keys, from + 2 * head.width, 3 * head.width, head.end);
        transpose(&head, head.v_transposed, head.v);
        for (size_t block = 0; block < attention->sequence; block += BLOCK)
            block_forward(&head, from, elements(out) + out_at(&head, i), log_sums + i * attention->sequence, block);
    }
    head_clear(&head);
}

// --- backward ------------------------------------------------------------------------------

// What the backward is given of a head.
struct given {
    const element *qkv, *out, *out_gradient;
    const float *log_sums;
    element *qkv_gradient;
};

static void load_gradients(struct head *head, const struct given *given, size_t block)
{
    const size_t rows = rows_of(head, block), at = block * head->width;
    copy_rows(head, head->g, BLOCK, given->out_gradient + at, head->width, rows);
    transpose_pairs(head, head->g_transposed, head->g);
    pair_rows(head, head->q_pairs, head->q);
    pair_rows(head, head->g_pairs, head->g);
    for (size_t row = 0; row < BLOCK; row++) {
        vec dot = vec_all(0);
        for (size_t i = 0; row < rows && i < head->shape.size; i += LANES) {
            const size_t left = head->shape.size - i;
            dot += load_first(head->g + row * head->size + i, left, 0)
                 * load_first(given->out + at + row * head->width + i, left, 0);
        }
        head->dots[row] = vec_sum(dot);
        head->log_sums[row] = row < rows ? given->log_sums[block + row] : 0;
    }
}

// Makes P^T and slope^T, for the LANES queries from `lane` on.
static void make_slopes(const struct head *head, size_t block, size_t lane, size_t end)
{
    const size_t first = head->shape.first + block + lane;
    const vec log_sums = vec_load(head->log_sums + lane), dots = vec_load(head->dots + lane);
    for (size_t key = 0; key < end; key += 2) {
        vec slope[2];
        for (size_t i = 0; i < 2; i++) {
            const size_t at = (key + i) * BLOCK + lane;
            const vec y = vec_exp(vec_load(head->scores + at) * head->factor - log_sums);
            const vec p = vec_select(attends(first, key + i), y, vec_all(0));
            slope[i] = vec_select(attends(first, key + i), p * (vec_load(head->slopes + at) - dots) * head->factor,
                                  vec_all(0));
            store_first(head->p_rows + at, p, LANES);
            store_first(head->slope_rows + at, slope[i], LANES);
        }
        store_pairs(head->pairs + key / 2 * BLOCK + lane, slope[0], slope[1]);
    }
}

// to += rows of P^T or slope^T, times the block's gradients or queries.
static void add_block(const struct head *head, float *to, const element *rows, const uint32_t *pairs, size_t end)
{
    for (size_t key = 0; key < end; key += BLOCK)
        for (size_t c = 0; c < head->size; c += BLOCK)
            multiply_block(head, to + key * head->size + c, head->size, rows + key * BLOCK, BLOCK, pairs + c,
                           head->size, BLOCK, true);
}

static void block_backward(struct head *head, const struct given *given, size_t block)
{
    const size_t end = keys_of(head, block), stride = 3 * head->width;
    load_queries(head, given->qkv, block);
    load_gradients(head, given, block);
    multiply_keys(head, head->scores, head->k, head->q_transposed, end);
    multiply_keys(head, head->slopes, head->v, head->g_transposed, end);
    for (size_t lane = 0; lane < BLOCK; lane += LANES)
        make_slopes(head, block, lane, end);
    multiply_transposed(head, head->k_transposed, end);
    store_result(head, given->qkv_gradient + (head->shape.first + block) * stride, stride, rows_of(head, block));
    add_block(head, head->k_gradient, head->slope_rows, head->q_pairs, end);
    add_block(head, head->v_gradient, head->p_rows, head->g_pairs, end);
}

// Gradients of keys or values. The last part of a sequence comes first and sets all of them; others add to them.
static void store_gradients(const struct head *head, element *to, const float *gradients)
{
    const bool adds = !attention_is_last(&head->shape);
    for (size_t key = 0; key < head->end; key++)
        for (size_t i = 0; i < head->shape.size; i += LANES) {
            element *at = to + key * 3 * head->width + i;
            const size_t left = head->shape.size - i;
            const vec gradient = vec_load_first(gradients + key * head->size + i, left, 0);
            store_first(at, adds ? load_first(at, left, 0) + gradient : gradient, left);
        }
}

static void head_backward(struct head *head, const struct given *given)
{
    const size_t stride = 3 * head->width, all = head->keys * head->size;
    copy_rows(head, head->k, head->keys, given->qkv + head->width, stride, head->end);
    copy_rows(head, head->v, head->keys, given->qkv + 2 * head->width, stride, head->end);
    transpose(head, head->k_transposed, head->k);
    memset(head->k_gradient, 0, all * sizeof(float));
    memset(head->v_gradient, 0, all * sizeof(float));
    for (size_t block = 0; block < head->shape.sequence; block += BLOCK)
        block_backward(head, given, block);
    store_gradients(head, given->qkv_gradient + head->width, head->k_gradient);
    store_gradients(head, given->qkv_gradient + 2 * head->width, head->v_gradient);
}

void cpu_bf16_attention_backward(struct queue *queue, const struct attention *attention, struct values *qkv_gradient,
                                const struct values *out_gradient, const struct values *out, const float *log_sums,
                                const struct values *qkv)
{
    struct head head;
    if (!head_init(queue, &head, attention))
        return;
    for (size_t i = 0; i < attention->batch * attention->heads; i++) {
        const element *from = qkv_of(&head, qkv, i);
        head_backward(&head, &(struct given){
            .qkv = from,
            .out = elements_of(out) + out_at(&head, i),
            .out_gradient = elements_of(out_gradient) + out_at(&head, i),
            .log_sums = log_sums + i * attention->sequence,
            .qkv_gradient = elements(qkv_gradient) + (from - elements_of(qkv)),
        });
    }
    head_clear(&head);
}
#endif
