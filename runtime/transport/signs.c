#include "runtime/transport/signs.h"

#include <assert.h>

#include "common/number.h"
#include "partitioner/plan/storage.h"

_Static_assert((int)SIGN_BLOCK == (int)OPTIMIZER_SIGN_BLOCK, "plans count blocks of another size");
_Static_assert(sizeof(struct sign_block) == OPTIMIZER_SIGN_BYTES, "plans count other bytes");

// The numbers of blocks [first, first + count), of `all` numbers.
static struct reduction_share numbers_of(uint64_t all, struct reduction_share blocks)
{
    const uint64_t first = min_u64(blocks.first * SIGN_BLOCK, all);
    return (struct reduction_share){ first, min_u64((blocks.first + blocks.count) * SIGN_BLOCK, all) - first };
}

// Adds to the errors: `before` times the momentum, and `added` times the copy's own gradients.
static void add_momentum(const struct signs *signs, struct queue *queue, struct reduction_share blocks, float before,
                         float added)
{
    const struct reduction_share numbers = numbers_of(signs->count, blocks);
    float *errors = signs->errors + numbers.first;
    const float *where = signs->seconds + numbers.first;
    if (numbers.count == 0)
        return;
    kernel_add_where(queue, errors, signs->momentum + numbers.first, before, where, numbers.count);
    kernel_add_where(queue, errors, signs->gradients + numbers.first, added, where, numbers.count);
}

static struct sign_block *blocks_of(const struct signs *signs)
{
    return (struct sign_block *)(void *)signs->gradients;
}

static void take_momentum(const struct signs *signs, struct queue *queue, struct reduction_share blocks)
{
    const struct reduction_share numbers = numbers_of(signs->count, blocks);
    if (numbers.count > 0)
        kernel_take_signs(queue, blocks_of(signs) + blocks.first, signs->errors + numbers.first,
                          signs->seconds + numbers.first, numbers.count);
}

// --- for transports ----------------------------------------------------------------------

static void add(struct queue *queue, const struct reduction *reduction, struct reduction_share blocks, const void *sent,
                uint32_t copies)
{
    const struct reduction_share numbers = numbers_of(reduction->sum_count, blocks);
    if (numbers.count > 0)
        kernel_add_signs(queue, reduction->sums + numbers.first, sent, 1 / (float)copies,
                         reduction->where + numbers.first, numbers.count);
}

static void compress(struct queue *queue, const struct reduction *reduction, struct reduction_share blocks)
{
    const struct reduction_share numbers = numbers_of(reduction->sum_count, blocks);
    struct sign_block *to = (struct sign_block *)reduction->numbers + blocks.first;
    if (numbers.count > 0)
        kernel_take_signs(queue, to, reduction->sums + numbers.first, reduction->where + numbers.first, numbers.count);
}

static const struct compression compression = { add, compress };

// --- for ranks ----------------------------------------------------------------------------

struct reduction signs_begin(const struct signs *signs, struct queue *queue, uint32_t group)
{
    const uint64_t blocks = sign_block_count(signs->count);
    const uint64_t first = share_first(blocks, signs->copy, signs->copies);
    const uint64_t end = share_first(blocks, signs->copy + 1, signs->copies);
    const struct reduction_share share = { first, end - first }, below = { 0, first }, above = { end, blocks - end };
    assert(blocks * sizeof(struct sign_block) <= signs->count * sizeof(float));
    const float beta1 = signs->beta1, copies = (float)signs->copies;
    add_momentum(signs, queue, share, beta1 / copies, 1 - beta1);
    add_momentum(signs, queue, below, beta1, (1 - beta1) * copies);
    add_momentum(signs, queue, above, beta1, (1 - beta1) * copies);
    take_momentum(signs, queue, below);
    take_momentum(signs, queue, above);
    return (struct reduction){ .kind = REDUCTION_COMPRESSED, .group = group, .numbers = signs->gradients,
                               .number_bytes = sizeof(struct sign_block), .count = blocks,
                               .compression = &compression, .sums = signs->errors, .where = signs->seconds,
                               .sum_count = signs->count, .queue = queue };
}

void signs_end(const struct signs *signs, struct queue *queue)
{
    queue_zero(queue, signs->momentum, signs->count * sizeof *signs->momentum);
    kernel_add_signs(queue, signs->momentum, blocks_of(signs), 1, signs->seconds, signs->count);
    queue_zero(queue, signs->gradients, signs->count * sizeof *signs->gradients);
}
