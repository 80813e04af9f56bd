// Private: reads and writes whole layers of pipelines side by side whose layers are shards (pipeline.h). Shards are
// joined when read and cut when written. With a device for each member, all places (ranks of the process group) read
// together, and broadcast to each other what each has.
#ifndef RUNTIME_PIPELINE_SHARDS_H
#define RUNTIME_PIPELINE_SHARDS_H

#include "runtime/pipeline.h"

struct number_range {
    uint64_t first, count;
};

// Access to one pipeline's own part: a shard of a layer, or the whole layer. If the part has a number for each
// parameter, `range` may say which ones are meant; NULL: all of them.
bool pipeline_has_copy(const struct pipeline *pipeline, uint32_t layer, uint32_t copy);
uint32_t pipeline_rank_of(const struct pipeline *pipeline, uint32_t layer, uint32_t copy);
bool pipeline_own_is_shared(const struct pipeline *pipeline, uint32_t layer, uint32_t part);
bool pipeline_read_own(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t copy,
                       const struct number_range *range, void *host, struct error *error);
bool pipeline_write_own(const struct pipeline *pipeline, uint32_t layer, uint32_t part,
                        const struct number_range *range, const void *host, struct error *error);

// Whether the optimizer has a part in blocks, one for each layer; and the bytes of such a block.
bool pipeline_is_block(const struct pipeline *pipeline, uint32_t part);
uint64_t pipeline_own_block_bytes(const struct pipeline *pipeline, uint32_t layer);

// Whether there is one member only: a layer that is split has another part of it on the host.
static inline bool shards_are_alone(const struct pipeline_shards *shards)
{
    return shards->grid->members == 1;
}

// Whether a layer's shards are on different devices.
bool shards_are_apart(const struct pipeline_shards *shards, uint32_t layer);

// Reads a member's shard of a part of a layer. All places call it together.
bool shards_read_member(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t member, uint32_t copy,
                        void *host, struct error *error);

// Read and write whole layers. `pipeline` is the first pipeline of this process.
bool shards_read_parameters(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, void *host,
                            struct error *error);
bool shards_read_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, void *host,
                      struct error *error);
bool shards_write_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, const void *host,
                       struct error *error);

#endif
