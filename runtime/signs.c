#include "runtime/signs.h"

#include <assert.h>

#include "common/number.h"
#include "partitioner/plan/holding.h"

_Static_assert((int)SIGN_BLOCK == (int)OPTIMIZER_SIGN_BLOCK, "plans count blocks of another size");
_Static_assert(sizeof(struct sign_block) == OPTIMIZER_SIGN_BYTES, "plans count other bytes");

// Of so many numbers those of blocks [first, first + count).
static struct reduction_share numbers_of(uint64_t all, struct reduction_share blocks)
{
    const uint64_t first = min_u64(blocks.first * SIGN_BLOCK, all);
    return (struct reduction_share){ first, min_u64((blocks.first + blocks.count) * SIGN_BLOCK, all) - first };
}

// By how much of the momentum before, and of the copy's own gradients.
static void add_momentum(const struct signs *signs, struct queue *queue, struct reduction_share blocks, float before,
                         float own)
{
    const struct reduction_share of = numbers_of(signs->count, blocks);
    float *errors = signs->errors + of.first;
    const float *where = signs->seconds + of.first;
    if (of.count == 0)
        return;
    kernel_add_where(queue, errors, signs->momentum + of.first, before, where, of.count);
    kernel_add_where(queue, errors, signs->gradients + of.first, own, where, of.count);
}

static struct sign_block *blocks_of(const struct signs *signs)
{
    return (struct sign_block *)(void *)signs->gradients;
}

static void take_momentum(const struct signs *signs, struct queue *queue, struct reduction_share blocks)
{
    const struct reduction_share of = numbers_of(signs->count, blocks);
    if (of.count > 0)
        kernel_take_signs(queue, blocks_of(signs) + blocks.first, signs->errors + of.first, signs->seconds + of.first,
                          of.count);
}

struct reduction signs_begin(const struct signs *signs, struct queue *queue, uint32_t group)
{
    const uint64_t blocks = sign_block_count(signs->count);
    const uint64_t first = share_first(blocks, signs->copy, signs->copies);
    const uint64_t end = share_first(blocks, signs->copy + 1, signs->copies);
    const struct reduction_share own = { first, end - first }, below = { 0, first }, above = { end, blocks - end };
    assert(blocks * sizeof(struct sign_block) <= signs->count * sizeof(float));
    const float beta1 = signs->beta1, copies = (float)signs->copies;
    add_momentum(signs, queue, own, beta1 / copies, 1 - beta1);
    add_momentum(signs, queue, below, beta1, (1 - beta1) * copies);
    add_momentum(signs, queue, above, beta1, (1 - beta1) * copies);
    take_momentum(signs, queue, below);
    take_momentum(signs, queue, above);
    return (struct reduction){ .kind = REDUCTION_SIGNS, .group = group, .numbers = signs->gradients,
                               .number_bytes = sizeof(struct sign_block), .count = blocks, .sums = signs->errors,
                               .where = signs->seconds, .sum_count = signs->count, .queue = queue };
}

void signs_end(const struct signs *signs, struct queue *queue)
{
    queue_zero(queue, signs->momentum, signs->count * sizeof *signs->momentum);
    kernel_add_signs(queue, signs->momentum, blocks_of(signs), 1, signs->seconds, signs->count);
    queue_zero(queue, signs->gradients, signs->count * sizeof *signs->gradients);
}

// --- for transports ---------------------------------------------------------------------

void signs_add(struct queue *queue, const struct reduction *reduction, struct reduction_share blocks, const void *sent,
               uint32_t copies)
{
    const struct reduction_share of = numbers_of(reduction->sum_count, blocks);
    if (of.count > 0)
        kernel_add_signs(queue, reduction->sums + of.first, sent, 1 / (float)copies, reduction->where + of.first,
                         of.count);
}

void signs_take(struct queue *queue, const struct reduction *reduction, struct reduction_share blocks)
{
    const struct reduction_share of = numbers_of(reduction->sum_count, blocks);
    struct sign_block *to = (struct sign_block *)reduction->numbers + blocks.first;
    if (of.count > 0)
        kernel_take_signs(queue, to, reduction->sums + of.first, reduction->where + of.first, of.count);
}
