// Private: whole layers of pipelines side by side whose layers are shards (pipeline.h), joined on the way out and cut on
// the way in. With a device for each member all places read together, and get what each has by broadcasts.
#ifndef RUNTIME_PIPELINE_SHARDS_H
#define RUNTIME_PIPELINE_SHARDS_H

#include "runtime/pipeline.h"

// Of one pipeline, a shard of a layer or all of it.
bool pipeline_has_copy(const struct pipeline *pipeline, uint32_t layer, uint32_t copy);
uint32_t pipeline_rank_of(const struct pipeline *pipeline, uint32_t layer, uint32_t copy);
bool pipeline_own_is_shared(const struct pipeline *pipeline, uint32_t layer, uint32_t part);
bool pipeline_read_own(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t copy, void *host,
                       struct error *error);
bool pipeline_write_own(const struct pipeline *pipeline, uint32_t layer, uint32_t part, const void *host,
                        struct error *error);

// Whether a layer's shards are on devices of their own.
bool shards_are_apart(const struct pipeline_shards *shards, uint32_t layer);

// What a member has of a part of a layer; all places together.
bool shards_read_member(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t member, uint32_t copy,
                        void *host, struct error *error);

// `pipeline` is the first of those here.
bool shards_read_parameters(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, void *host,
                            struct error *error);
bool shards_read_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, void *host,
                      struct error *error);
bool shards_write_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, const void *host,
                       struct error *error);

#endif
