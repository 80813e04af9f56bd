// Private: causal attention, one head of one sequence at a time. Included by cpu_vectors.h.
//
//               keys 0 .. T
//             +--+
//     8 query |##|--+             only what is at or left of the diagonal is
//     rows    +--+##|--+          computed, in steps of TILE_ROWS
//     at once |  +--+##|
//             +--------+
//
// If the queries are a part of the sequence, they are some of these rows, over all keys.
#ifndef DEVICE_CPU_ATTENTION_H
#define DEVICE_CPU_ATTENTION_H

#include <stdlib.h>

#include "device/cpu_rows.h"
#include "device/cpu_tiles.h"

// --- one head -----------------------------------------------------------------------

// The places of one head's numbers in one sequence. Rows of q, k, v and their gradients are `stride` apart, rows of
// the output `out_stride`. The queries are rows [first, sequence) of q. The output, and everything else with one row
// per query, has only these rows.
struct head {
    size_t first, sequence, size, stride, out_stride;
    size_t across;  // floats from one row of scores to the next, and of K and V transposed
    struct attention_pattern pattern;
    const float *q, *k, *v;
    float *keys, *values;  // transposed: [size][across], zero past the sequence
    float *scores, *slopes;
};

// [sequence][size] to [size][across], few rows at a time: their lines then stay in the L1 cache for all columns.
INLINE void transpose(float *to, const float *from, const struct head *head)
{
    enum { AT_ONCE = 16 };
    for (size_t first = 0; first < head->across; first += AT_ONCE)
        for (size_t c = 0; c < head->size; c++) {
            float *row = to + c * head->across;
            const size_t end = min_u64(first + AT_ONCE, head->sequence);
            for (size_t j = first; j < end; j++)
                row[j] = from[j * head->stride + c];
            for (size_t j = end > first ? end : first; j < first + AT_ONCE; j++)
                row[j] = 0;
        }
}

INLINE struct head head_at(const struct attention *shape, size_t batch, size_t which, const float *qkv, void *workspace)
{
    const size_t width = shape->heads * shape->size, end = shape->first + shape->sequence;
    const size_t across = attention_row_floats(end);
    const float *q = qkv + batch * attention_whole(shape) * 3 * width + which * shape->size;
    float *work = workspace;
    return (struct head){
        .first = shape->first,
        .sequence = end,
        .size = shape->size,
        .stride = 3 * width,
        .out_stride = width,
        .across = across,
        .pattern = shape->pattern,
        .q = q,
        .k = q + width,
        .v = q + 2 * width,
        .keys = work,
        .values = work + shape->size * across,
        .scores = work + 2 * shape->size * across,
        .slopes = work + (2 * shape->size + ATTENTION_ROWS) * across,
    };
}

// to[row][j] = from[row] . transposed[..][j], for keys [begin, end).
INLINE void multiply_keys(const struct head *head, float *to, const float *from, size_t from_stride, size_t rows,
                          const float *transposed, size_t begin, size_t end)
{
    multiply_tiles(&(struct tiles){
        .m = rows, .n = end - begin, .k = head->size,
        .a = from, .a_row = from_stride, .a_column = 1,
        .b = transposed + begin, .ldb = head->across,
        .c = to + begin, .ldc = head->across,
    });
}

// Rows of the output by one over their sums.
INLINE void scale_rows(const struct head *head, float *to, size_t rows, const float *scale)
{
    for (size_t r = 0; r < rows; r++)
        FOR_VECTORS (i, left, head->size) {
            float *piece = to + r * head->out_stride + i;
            vec_store_first(piece, vec_load_first(piece, left, 0) * scale[r], left);
        }
}

// --- patterns -----------------------------------------------------------------------------
//
// A tile of query rows walks along runs of keys that some of its rows see, in whole vectors. Scores of keys between
// the runs are not computed, and nothing reads their places:
//
//           global      strides        window
//     rows | ##          ##      ##     #######   |
//
// Within a run a key that a row does not see gets the score minus infinity, so that its P and slope are zeros.

// The first run, from `from` on, of keys that are seen by some query row of [first, first + rows). `from` is where a
// vector begins. An empty run is the end.
INLINE struct attention_run vectors_seen(const struct head *head, size_t first, size_t rows, size_t from)
{
    const size_t end = min_u64((first + rows + LANES - 1) / LANES * LANES, head->across);
    struct attention_run run = attention_run(&head->pattern, first, from);
    run.begin = min_u64(run.begin, end) / LANES * LANES;
    run.end = (min_u64(run.end, end) + LANES - 1) / LANES * LANES;
    return run;
}

#define FOR_RUNS(run, head, first, rows)                                                         \
    for (struct attention_run run = vectors_seen(head, first, rows, 0); (run).begin < (run).end; \
         run = vectors_seen(head, first, rows, (run).end))

// Minus infinity for the keys of a run that one query does not see.
INLINE void hide_unseen_of(const struct head *head, float *row, size_t query, const struct attention_run *run)
{
    for (size_t key = run->begin; key < run->end;) {
        const struct attention_run seen = attention_run(&head->pattern, query, key);
        const size_t begin = seen.begin > query ? run->end : min_u64(seen.begin, run->end);
        for (; key < begin; key++)
            row[key] = -INFINITY;
        if (key < run->end)
            key = min_u64(min_u64(seen.end, query + 1), run->end);
    }
}

INLINE void hide_unseen(const struct head *head, float *scores, size_t first, size_t rows)
{
    FOR_RUNS (run, head, first, rows)
        for (size_t r = 0; r < rows; r++)
            hide_unseen_of(head, scores + r * head->across, first + r, &run);
}

// to = rows of `block` times the rows of K or V that they see.
INLINE void multiply_runs(const struct head *head, float *to, size_t to_stride, const float *block, const float *from,
                          size_t first, size_t rows)
{
    struct tiles t = {
        .m = rows, .n = head->size,
        .a_row = head->across, .a_column = 1,
        .ldb = head->stride,
        .c = to, .ldc = to_stride,
    };
    FOR_RUNS (run, head, first, rows) {
        t.k = min_u64(run.end, first + rows) - run.begin;
        t.a = block + run.begin;
        t.b = from + run.begin * head->stride;
        multiply_tiles(&t);
        t.add = true;
    }
}

// Turns scores into exp(factor * score - the largest). `scale` becomes one over the rows' sums.
INLINE void soften_runs(const struct head *head, float *scores, size_t first, size_t rows, float *scale,
                        float *log_sums)
{
    const float factor = 1 / sqrtf((float)head->size);
    vec largest[TILE_ROWS], sums[TILE_ROWS];
    float shifts[TILE_ROWS];
    for (size_t r = 0; r < rows; r++)
        largest[r] = vec_all(-INFINITY), sums[r] = vec_all(0);
    FOR_RUNS (run, head, first, rows)
        for (size_t r = 0; r < rows; r++)
            for (size_t key = run.begin; key < run.end; key += LANES)
                largest[r] = vec_max(largest[r], vec_load(scores + r * head->across + key));
    for (size_t r = 0; r < rows; r++)
        shifts[r] = factor * vec_largest(largest[r]);
    FOR_RUNS (run, head, first, rows)
        for (size_t r = 0; r < rows; r++)
            for (size_t key = run.begin; key < run.end; key += LANES) {
                float *at = scores + r * head->across + key;
                const vec y = vec_exp(vec_load(at) * factor - shifts[r]);
                vec_store(at, y);
                sums[r] += y;
            }
    for (size_t r = 0; r < rows; r++) {
        const float sum = vec_sum(sums[r]);
        log_sums[r] = shifts[r] + logf(sum);
        scale[r] = 1 / sum;
    }
}

static void head_forward(const struct head *head, float *out, float *log_sums)
{
    transpose(head->keys, head->k, head);
    for (size_t first = head->first; first < head->sequence; first += TILE_ROWS) {
        const size_t rows = min_u64(TILE_ROWS, head->sequence - first), row = first - head->first;
        float scale[TILE_ROWS];
        FOR_RUNS (run, head, first, rows)
            multiply_keys(head, head->scores, head->q + first * head->stride, head->stride, rows, head->keys,
                          run.begin, run.end);
        hide_unseen(head, head->scores, first, rows);
        soften_runs(head, head->scores, first, rows, scale, log_sums + row);
        multiply_runs(head, out + row * head->out_stride, head->out_stride, head->scores, head->v, first, rows);
        scale_rows(head, out + row * head->out_stride, rows, scale);
    }
}

static void attend(const struct attention *shape, float *out, float *log_sums, const float *qkv, void *workspace)
{
    for (size_t batch = 0; batch < shape->batch; batch++)
        for (size_t which = 0; which < shape->heads; which++) {
            const struct head head = head_at(shape, batch, which, qkv, workspace);
            head_forward(&head, out + batch * shape->sequence * head.out_stride + which * shape->size,
                         log_sums + (batch * shape->heads + which) * shape->sequence);
        }
}

// --- backward ---------------------------------------------------------------------------
//
// With P the probabilities, O = P V and g the gradient of O:
//     slope_ij = P_ij (g_i . v_j - g_i . o_i) / sqrt(size)
//     dQ = slope K     dK = slope^T Q     dV = P^T g
// A block of ATTENTION_ROWS rows of P and slope is made at a time, and its contribution is added to dK and dV.

struct head_gradients {
    const float *g, *out, *log_sums;
    float *q, *k, *v;
    bool adds;  // to the gradients of k and v
};

// g_i . o_i
INLINE float gradient_by_out(const struct head *head, const struct head_gradients *grad, size_t row)
{
    vec dot = vec_all(0);
    FOR_VECTORS (i, left, head->size)
        dot += vec_load_first(grad->g + row * head->out_stride + i, left, 0)
             * vec_load_first(grad->out + row * head->out_stride + i, left, 0);
    return vec_sum(dot);
}

// Makes P and slope of so many keys, in the places where their scores and g . v are.
INLINE void make_row_slopes(float *p, float *slope, size_t count, float factor, float log_sum, float g_out)
{
    FOR_VECTORS (i, left, count) {
        const vec y = vec_exp(vec_load_first(p + i, left, -INFINITY) * factor - log_sum);
        vec_store_first(p + i, y, left);
        vec_store_first(slope + i, y * (vec_load_first(slope + i, left, 0) - g_out) * factor, left);
    }
}

// The gradients of all keys begin as zeros, and each block adds to those of the keys that it sees.

// The tiles of rows of a block, which begins at query `first`, of which some see a key of a vector: those that have
// made P and slope there.
struct rows_seeing {
    size_t begin, end;
};

INLINE struct rows_seeing rows_seeing(const struct head *head, size_t first, size_t rows, size_t key)
{
    const size_t begin = key > first ? key - first : 0;
    const size_t end = min_u64(attention_query_end(&head->pattern, key, key + LANES), first + rows) - first;
    return (struct rows_seeing){ begin / TILE_ROWS * TILE_ROWS,
                                 min_u64((end + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS, rows) };
}

// to += block^T from, for the rows of dK or dV that the block's queries see. Keys that the same rows see are added to
// together.
INLINE void add_runs(const struct head *head, float *to, const float *block, const float *from, size_t from_stride,
                     size_t first, size_t rows)
{
    FOR_RUNS (run, head, first, rows)
        for (size_t key = run.begin, end = 0; key < run.end; key = end) {
            const struct rows_seeing seeing = rows_seeing(head, first, rows, key);
            for (end = key + LANES; end < run.end; end += LANES) {
                const struct rows_seeing next = rows_seeing(head, first, rows, end);
                if (next.begin != seeing.begin || next.end != seeing.end)
                    break;
            }
            multiply_tiles(&(struct tiles){
                .m = min_u64(end, head->sequence) - key, .n = head->size, .k = seeing.end - seeing.begin,
                .a = block + seeing.begin * head->across + key, .a_row = 1, .a_column = head->across,
                .b = from + seeing.begin * from_stride, .ldb = from_stride,
                .c = to + key * head->stride, .ldc = head->stride,
                .add = true,
            });
        }
}

// P, slope and dQ of a tile of rows.
INLINE void tile_backward(const struct head *head, const struct head_gradients *grad, size_t first,
                                  size_t rows, float *scores, float *slopes)
{
    const float factor = 1 / sqrtf((float)head->size);
    const size_t own = first - head->first;
    FOR_RUNS (run, head, first, rows) {
        multiply_keys(head, scores, head->q + first * head->stride, head->stride, rows, head->keys, run.begin,
                      run.end);
        multiply_keys(head, slopes, grad->g + own * head->out_stride, head->out_stride, rows, head->values, run.begin,
                      run.end);
    }
    hide_unseen(head, scores, first, rows);
    float g_out[TILE_ROWS];
    for (size_t r = 0; r < rows; r++)
        g_out[r] = gradient_by_out(head, grad, own + r);
    FOR_RUNS (run, head, first, rows)
        for (size_t r = 0; r < rows; r++)
            make_row_slopes(scores + r * head->across + run.begin, slopes + r * head->across + run.begin,
                            run.end - run.begin, factor, grad->log_sums[own + r], g_out[r]);
    multiply_runs(head, grad->q + first * head->stride, head->stride, slopes, head->k, first, rows);
}

static void head_backward(const struct head *head, const struct head_gradients *grad)
{
    transpose(head->keys, head->k, head);
    transpose(head->values, head->v, head);
    for (size_t key = 0; !grad->adds && key < head->sequence; key++) {
        memset(grad->k + key * head->stride, 0, head->size * sizeof(float));
        memset(grad->v + key * head->stride, 0, head->size * sizeof(float));
    }
    for (size_t block = head->first; block < head->sequence; block += ATTENTION_ROWS) {
        const size_t rows = min_u64(ATTENTION_ROWS, head->sequence - block), own = block - head->first;
        for (size_t r = 0; r < rows; r += TILE_ROWS)
            tile_backward(head, grad, block + r, min_u64(TILE_ROWS, rows - r),
                                  head->scores + r * head->across, head->slopes + r * head->across);
        add_runs(head, grad->k, head->slopes, head->q + block * head->stride, head->stride, block, rows);
        add_runs(head, grad->v, head->scores, grad->g + own * head->out_stride, head->out_stride, block, rows);
    }
}

static void attend_backward(const struct attention *shape, float *qkv_gradient, const float *out_gradient,
                            const float *out, const float *log_sums, const float *qkv, void *workspace)
{
    for (size_t batch = 0; batch < shape->batch; batch++)
        for (size_t which = 0; which < shape->heads; which++) {
            const struct head head = head_at(shape, batch, which, qkv, workspace);
            const size_t out_at = batch * shape->sequence * head.out_stride + which * shape->size;
            float *gradient = qkv_gradient + (head.q - qkv);
            head_backward(&head, &(struct head_gradients){
                .g = out_gradient + out_at,
                .out = out + out_at,
                .log_sums = log_sums + (batch * shape->heads + which) * shape->sequence,
                .q = gradient,
                .k = gradient + head.out_stride,
                .v = gradient + 2 * head.out_stride,
                .adds = !attention_is_last(shape),
            });
        }
}

// --- kernels ----------------------------------------------------------------------------

#if !defined(CPU_BF16) && !defined(CPU_FP16)

static void cpu_attention(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                          const struct values *qkv, void *workspace)
{
    (void)queue;
    attend(attention, floats(out), log_sums, floats_of(qkv), workspace);
}

static void cpu_attention_backward(struct queue *queue, const struct attention *attention,
                                   struct values *qkv_gradient, const struct values *out_gradient,
                                   const struct values *out, const float *log_sums, const struct values *qkv,
                                   void *workspace)
{
    (void)queue;
    attend_backward(attention, floats(qkv_gradient), floats_of(out_gradient), floats_of(out), log_sums, floats_of(qkv),
                    workspace);
}

#else

// The kernels by products of bf16 compute all keys up to a query, since their loops and masks know only the diagonal.
// Attention with a pattern is therefore computed in floats here, on every processor.
//
// In 16 bits one head after the other is widened to floats, which stay in a cache. `shape` is that of one head.
struct widened_head {
    struct attention shape;
    size_t width;            // elements from one row of an output to the next; a row of qkv is three times as long
    size_t at, out_at;       // the head's first elements in qkv and in an output
    float *qkv, *qkv_gradient, *out, *out_gradient;
};

// The memory is a call's own.
static bool widened_head_init(struct queue *queue, struct widened_head *head, const struct attention *shape)
{
    const size_t qkv = 3 * attention_whole(shape) * shape->size, out = shape->sequence * shape->size;
    *head = (struct widened_head){ .shape = *shape, .width = shape->heads * shape->size };
    head->shape.batch = head->shape.heads = 1;
    head->qkv = malloc(2 * (qkv + out) * sizeof(float));
    if (!head->qkv) {
        queue_fail(queue, "there is no memory for a head of attention in 16 bits");
        return false;
    }
    head->qkv_gradient = head->qkv + qkv;
    head->out = head->qkv_gradient + qkv;
    head->out_gradient = head->out + out;
    return true;
}

static void widened_head_move(struct widened_head *head, size_t batch, size_t which)
{
    const size_t first = which * head->shape.size;
    head->at = batch * attention_whole(&head->shape) * 3 * head->width + first;
    head->out_at = batch * head->shape.sequence * head->width + first;
}

static void widen_rows(float *to, size_t to_stride, const element *from, size_t from_stride, size_t rows,
                       size_t columns)
{
    for (size_t row = 0; row < rows; row++)
        FOR_VECTORS (i, left, columns)
            vec_store_first(to + row * to_stride + i, load_first(from + row * from_stride + i, left, 0), left);
}

static void round_rows(element *to, size_t to_stride, const float *from, size_t from_stride, size_t rows,
                       size_t columns)
{
    for (size_t row = 0; row < rows; row++)
        FOR_VECTORS (i, left, columns)
            store_first(to + row * to_stride + i, vec_load_first(from + row * from_stride + i, left, 0), left);
}

// Queries, keys and values, or their gradients.
static void widen_qkv(const struct widened_head *head, float *to, const element *from)
{
    const size_t size = head->shape.size;
    for (size_t part = 0; part < 3; part++)
        widen_rows(to + part * size, 3 * size, from + head->at + part * head->width, 3 * head->width,
                   attention_whole(&head->shape), size);
}

static void round_qkv(const struct widened_head *head, element *to, const float *from)
{
    const size_t size = head->shape.size;
    for (size_t part = 0; part < 3; part++)
        round_rows(to + head->at + part * head->width, 3 * head->width, from + part * size, 3 * size,
                   attention_whole(&head->shape), size);
}

static void widen_out(const struct widened_head *head, float *to, const element *from)
{
    widen_rows(to, head->shape.size, from + head->out_at, head->width, head->shape.sequence, head->shape.size);
}

static void cpu_attention(struct queue *queue, const struct attention *attention, struct values *out, float *log_sums,
                          const struct values *qkv, void *workspace)
{
#if defined(CPU_BF16) && defined(__AVX512F__)
    if (((const struct cpu *)queue->device->own)->bf16_by != BF16_BY_FP32 && attention_is_plain(attention)) {
        cpu_bf16_attention(queue, attention, out, log_sums, qkv);
        return;
    }
#endif
    struct widened_head head;
    if (!widened_head_init(queue, &head, attention))
        return;
    for (size_t i = 0; i < attention->batch * attention->heads; i++) {
        widened_head_move(&head, i / attention->heads, i % attention->heads);
        widen_qkv(&head, head.qkv, elements_of(qkv));
        attend(&head.shape, head.out, log_sums + i * attention->sequence, head.qkv, workspace);
        round_rows(elements(out) + head.out_at, head.width, head.out, head.shape.size, head.shape.sequence,
                   head.shape.size);
    }
    free(head.qkv);
}

// If the queries are a part, some gradients are added to, and others stay. They pass through floats unchanged.
static void cpu_attention_backward(struct queue *queue, const struct attention *attention,
                                   struct values *qkv_gradient, const struct values *out_gradient,
                                   const struct values *out, const float *log_sums, const struct values *qkv,
                                   void *workspace)
{
#if defined(CPU_BF16) && defined(__AVX512F__)
    if (((const struct cpu *)queue->device->own)->bf16_by != BF16_BY_FP32 && attention_is_plain(attention)) {
        cpu_bf16_attention_backward(queue, attention, qkv_gradient, out_gradient, out, log_sums, qkv);
        return;
    }
#endif
    struct widened_head head;
    if (!widened_head_init(queue, &head, attention))
        return;
    for (size_t i = 0; i < attention->batch * attention->heads; i++) {
        widened_head_move(&head, i / attention->heads, i % attention->heads);
        widen_qkv(&head, head.qkv, elements_of(qkv));
        if (attention_is_part(attention))
            widen_qkv(&head, head.qkv_gradient, elements_of(qkv_gradient));
        widen_out(&head, head.out, elements_of(out));
        widen_out(&head, head.out_gradient, elements_of(out_gradient));
        attend_backward(&head.shape, head.qkv_gradient, head.out_gradient, head.out,
                        log_sums + i * attention->sequence, head.qkv, workspace);
        round_qkv(&head, elements(qkv_gradient), head.qkv_gradient);
    }
    free(head.qkv);
}

#endif

#endif
