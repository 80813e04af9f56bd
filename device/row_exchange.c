#include "device/row_exchange.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/error.h"
#include "device/kernels.h"

static void note(uint64_t *lacked, uint64_t rows)
{
    uint64_t most = __atomic_load_n(lacked, __ATOMIC_RELAXED);
    while (most < rows && !__atomic_compare_exchange_n(lacked, &most, rows, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

// A copied expert is where the member is that has the rows.
static uint32_t owner_of(const struct row_exchange *exchange, uint32_t expert, uint32_t member)
{
    return exchange->owners[expert] == ROW_COPIED ? member : exchange->owners[expert];
}

// The rows of other experts are behind those of copied ones.
static void begin_behind_copies(struct row_walk *walk)
{
    const struct row_exchange *exchange = walk->exchange;
    memset(walk->given, 0, sizeof walk->given);
    memset(walk->copied, 0, sizeof walk->copied);
    memset(walk->taken, 0, sizeof walk->taken);
    for (uint32_t e = 0; e < exchange->experts; e++)
        for (uint32_t m = 0; exchange->owners[e] == ROW_COPIED && m < exchange->members; m++)
            walk->taken[m] += (uint64_t)walk->counts[m * exchange->experts + e];
}

static bool has_room(struct row_walk *walk, struct error *error)
{
    const struct row_exchange *exchange = walk->exchange;
    uint64_t rows[ROW_MEMBERS] = { 0 };
    for (uint32_t m = 0; m < exchange->members; m++)
        for (uint32_t e = 0; e < exchange->experts; e++)
            rows[owner_of(exchange, e, m)] += (uint64_t)walk->counts[m * exchange->experts + e];
    for (uint32_t m = 0; exchange->lacked && m < exchange->members; m++)
        if (rows[m] > exchange->room) {
            note(exchange->lacked, rows[m]);
            walk->gives_up = true;
        }
    for (uint32_t m = 0; !exchange->lacked && m < exchange->members; m++)
        if (rows[m] > exchange->room)
            return error_set_kind(error, ERROR_MACHINE, "the experts of device %u of its group take %llu rows of a"
                                  " micro-batch, and there is room for %llu: plan with a larger --most-rows, or without"
                                  " it", m, (unsigned long long)rows[m], (unsigned long long)exchange->room);
    return true;
}

bool row_walk_begin(struct row_walk *walk, struct queue *queue, const struct row_exchange *exchange,
                    struct error *error)
{
    assert(exchange->members <= ROW_MEMBERS && exchange->experts <= ROUTER_EXPERTS);
    walk->exchange = exchange;
    walk->expert = walk->member = 0;
    walk->gives_up = false;
    queue_download(queue, walk->counts, exchange->kept,
                   (uint64_t)exchange->members * exchange->experts * sizeof walk->counts[0]);
    if (!queue_wait(queue, error))
        return false;
    begin_behind_copies(walk);
    return has_room(walk, error);
}

bool row_walk_next(struct row_walk *walk, struct row_run *run)
{
    const struct row_exchange *exchange = walk->exchange;
    const uint32_t expert = walk->expert, member = walk->member;
    if (expert == exchange->experts || walk->gives_up)
        return false;
    const uint32_t owner = owner_of(exchange, expert, member);
    const uint64_t count = (uint64_t)walk->counts[member * exchange->experts + expert];
    uint64_t *taken = exchange->owners[expert] == ROW_COPIED ? &walk->copied[owner] : &walk->taken[owner];
    *run = exchange->is_back ? (struct row_run){ owner, member, *taken, walk->given[member], count }
                             : (struct row_run){ member, owner, walk->given[member], *taken, count };
    walk->given[member] += count;
    *taken += count;
    walk->member = (member + 1) % exchange->members;
    walk->expert += walk->member == 0;
    return true;
}

void row_walk_end(const struct row_walk *walk, struct queue *queue, const struct row_exchange *own, void *received,
                  size_t count)
{
    size_t experts = 0, rows = 0;
    if (!walk->gives_up)
        return;
    for (uint32_t e = 0; e < own->experts; e++) {
        experts += owner_of(own, e, own->member) == own->member;
        rows += (size_t)walk->counts[own->member * own->experts + e];
    }
    queue_zero(queue, own->ends, experts * sizeof *own->ends);
    if (own->is_back)
        kernel_fill(queue, received, NAN, rows * count);
}
