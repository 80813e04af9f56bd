// What struct weir_pass says of its place in an update, beside step and micro-batch.
#ifndef RUNTIME_STAGES_PASS_SHARE_H
#define RUNTIME_STAGES_PASS_SHARE_H

#include "common/number.h"
#include "common/public/weir_layer.h"

// What an update adds up: so many micro-batches. If `batch` is not 0, they have this many samples together, and each
// but the last has `micro_batch` of them. If only `micro_batch` is given, each has that many.
struct update_samples {
    uint32_t micro_batches;
    uint64_t batch, micro_batch;
};

static inline uint64_t samples_of(const struct update_samples *all, uint32_t micro_batch)
{
    const uint64_t before = micro_batch * all->micro_batch;
    return all->batch > 0 ? min_u64(all->batch - before, all->micro_batch) : all->micro_batch;
}

// The share of so many samples in the loss of an update.
static inline float loss_share_of(const struct update_samples *all, uint64_t samples)
{
    return all->batch > 0 ? (float)samples / (float)all->batch : 1.0f / (float)all->micro_batches;
}

// Fills in micro_batches, samples and share, by the pass's own micro_batch.
static inline void pass_put_share(struct weir_pass *pass, const struct update_samples *all)
{
    pass->micro_batches = all->micro_batches;
    pass->samples = samples_of(all, pass->micro_batch);
    pass->share = loss_share_of(all, pass->samples);
}

#endif
