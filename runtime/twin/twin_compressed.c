#include "runtime/twin/twin_compressed.h"

#include "common/number.h"
#include "runtime/transport/transport.h"

static void *get(const struct twin_compressed *signs, uint64_t bytes, struct error *error)
{
    void *memory = device_allocate(signs->device, round_to_256(bytes) + 256, error);
    if (memory)
        queue_zero(signs->queue, memory, round_to_256(bytes) + 256);
    return memory;
}

bool twin_compressed_open(struct twin_compressed *signs, struct device *device, struct queue *queue, uint32_t copies,
                     uint64_t count, struct error *error)
{
    const uint64_t bytes = count * sizeof(float);
    *signs = (struct twin_compressed){ .device = device, .queue = queue, .copies = copies, .count = count };
    return (signs->gradients = get(signs, copies * bytes, error)) && (signs->errors = get(signs, copies * bytes, error))
        && (signs->momentum = get(signs, bytes, error)) && (signs->seconds = get(signs, bytes, error))
        && (signs->signs = get(signs, copies * sign_block_count(count) * sizeof(struct sign_block), error));
}

void twin_compressed_close(struct twin_compressed *signs)
{
    void *all[] = { signs->gradients, signs->errors, signs->momentum, signs->seconds, signs->signs };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_release(signs->device, all[i]);
}

// The share that one of the copies owns: numbers [first, first + count).
struct piece {
    uint32_t owner;
    uint64_t block, first, count;
};

static struct sign_block *signs_at(const struct twin_compressed *signs, uint32_t copy, const struct piece *piece)
{
    return signs->signs + copy * sign_block_count(signs->count) + piece->block;
}

static float *errors_at(const struct twin_compressed *signs, uint32_t copy, const struct piece *piece)
{
    return signs->errors + copy * signs->count + piece->first;
}

// Adds a copy's momentum and gradients to its errors, for one share. If another copy owns the share, takes the signs
// of that.
static void send(const struct twin_compressed *signs, uint32_t copy, const struct piece *piece, float beta1)
{
    const float *gradients = signs->gradients + copy * signs->count + piece->first;
    const float *where = signs->seconds + piece->first, all = (float)signs->copies;
    float *errors = errors_at(signs, copy, piece);
    const bool owns = copy == piece->owner;
    kernel_add_where(signs->queue, errors, signs->momentum + piece->first, owns ? beta1 / all : beta1, where,
                     piece->count);
    kernel_add_where(signs->queue, errors, gradients, owns ? 1 - beta1 : (1 - beta1) * all, where, piece->count);
    if (!owns)
        kernel_take_signs(signs->queue, signs_at(signs, copy, piece), errors, where, piece->count);
}

static void meet_at(const struct twin_compressed *signs, const struct piece *piece, float beta1)
{
    const float *where = signs->seconds + piece->first;
    float *errors = errors_at(signs, piece->owner, piece), *momentum = signs->momentum + piece->first;
    for (uint32_t copy = 0; copy < signs->copies; copy++)
        send(signs, copy, piece, beta1);
    for (uint32_t copy = 0; copy < signs->copies; copy++)
        if (copy != piece->owner)
            kernel_add_signs(signs->queue, errors, signs_at(signs, copy, piece), 1 / (float)signs->copies, where,
                             piece->count);
    kernel_take_signs(signs->queue, signs_at(signs, piece->owner, piece), errors, where, piece->count);
    queue_zero(signs->queue, momentum, piece->count * sizeof *momentum);
    kernel_add_signs(signs->queue, momentum, signs_at(signs, piece->owner, piece), 1, where, piece->count);
}

void twin_compressed_meet(const struct twin_compressed *signs, float beta1)
{
    const uint64_t blocks = sign_block_count(signs->count);
    for (uint32_t owner = 0; owner < signs->copies; owner++) {
        const uint64_t block = share_first(blocks, owner, signs->copies);
        const uint64_t first = block * SIGN_BLOCK;
        const uint64_t end = min_u64(share_first(blocks, owner + 1, signs->copies) * SIGN_BLOCK, signs->count);
        if (end > first)
            meet_at(signs, &(struct piece){ owner, block, first, end - first }, beta1);
    }
}
