#include "runtime/shares.h"

#include <stdlib.h>

#include "common/number.h"
#include "runtime/transport.h"

bool share_open(struct share *share, const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies,
                struct error *error)
{
    *share = (struct share){ .count = count, .copies = stage->shard == SHARD_NONE ? 1 : copies };
    if (share->copies == 1)
        return true;
    share->first = share_first(count, copy, copies);
    share->count = share_first(count, copy + 1, copies) - share->first;
    share->exempt = calloc(stage->exempt_count + 1, sizeof *share->exempt);
    if (!share->exempt)
        return error_no_memory(error, "a share of a stage");
    for (size_t i = 0; i < stage->exempt_count; i++) {
        const uint64_t first = max_u64(stage->exempt[i].first, share->first);
        const uint64_t end = min_u64(stage->exempt[i].end, share->first + share->count);
        if (first < end)
            share->exempt[share->exempt_count++] = (struct exempt){ first - share->first, end - share->first };
    }
    return true;
}

void share_close(struct share *share)
{
    free(share->exempt);
    *share = (struct share){ 0 };
}

struct optimizer_buffers share_buffers(const struct share *share, enum precision precision,
                                       struct optimizer_buffers whole)
{
    if (share->copies == 1)
        return whole;
    struct optimizer_buffers own = whole;
    own.next = values_at(whole.next, precision, share->first);
    own.weights = values_at(whole.weights, precision, share->first);
    own.gradients = whole.gradients + share->first;
    own.count = share->count;
    own.exempt = share->exempt;
    own.exempt_count = share->exempt_count;
    own.parts = NULL;  // whole layers are in no share
    own.part_count = 0;
    return own;
}
