#include "runtime/pipeline_shards.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/session.h"

// Bytes of a parameter in this part. It is 0 if the part has a float of each row of tables: no other layer with a block
// is split.
static uint64_t number_bytes(const struct pipeline *pipeline, uint32_t part)
{
    return part == 0 ? pipeline->number_bytes : pipeline_is_block(pipeline, part) ? 0 : sizeof(float);
}

// Bytes of one member's part of a layer.
static uint64_t own_bytes(const struct pipeline *pipeline, uint32_t layer, uint32_t part)
{
    const struct pipeline_shards *shards = pipeline->shards;
    if (pipeline_is_block(pipeline, part))
        return pipeline_own_block_bytes(pipeline, layer);
    return shards->own_bytes(shards->self, layer) / pipeline->number_bytes * number_bytes(pipeline, part);
}

static bool is_split(const struct pipeline_shards *shards, uint32_t layer)
{
    return shards->is_split(shards->self, layer);
}

bool shards_are_apart(const struct pipeline_shards *shards, uint32_t layer)
{
    return shards->grid->group && is_split(shards, layer);
}

// Bytes on the device of a shard that is on the host; 0: all of it is on the device.
static uint64_t room_bytes(const struct pipeline_shards *shards, uint32_t layer)
{
    return is_split(shards, layer) ? shards->room_bytes(shards->self, layer) : 0;
}

// --- out -----------------------------------------------------------------------------------

static bool read_own(const struct pipeline *pipeline, const struct pipeline *source, uint32_t layer, uint32_t part,
                     uint32_t member, uint32_t copy, void *host, struct error *error)
{
    const struct pipeline_shards *shards = pipeline->shards;
    const uint64_t bytes = room_bytes(shards, layer);
    if (bytes == 0)
        return pipeline_read_own(source, layer, part, copy, NULL, host, error);
    void *there = malloc(bytes);
    const bool good = (there || error_no_memory(error, "the shards of a layer"))
                   && pipeline_read_own(source, layer, part, copy, NULL, there, error);
    memset(host, 0, own_bytes(pipeline, layer, part));  // a member with fewer rows than others has some to spare
    if (good)
        shards->get(shards->self, layer, member, part, there, host);
    free(there);
    return good;
}

// What replicas share (ZeRO) is gathered by the ranks of each member, for all members at a time (member_groups.h).
// Then every place has the data of its own member, whichever member is asked for.
static bool read_here(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t member, uint32_t copy,
                      void *host, struct error *error)
{
    const struct pipeline_shards *shards = pipeline->shards;
    const bool is_shared = shards->grid->group && pipeline_own_is_shared(pipeline, layer, part);
    const struct pipeline *source = is_shared ? pipeline : shards->of[member];
    const bool reads = source && (is_shared || pipeline_has_copy(source, layer, copy));
    return !reads || read_own(pipeline, source, layer, part, member, copy, host, error);
}

bool shards_read_member(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t member, uint32_t copy,
                        void *host, struct error *error)
{
    const struct rank_grid *grid = pipeline->shards->grid;
    const uint32_t place = rank_grid_place(grid, pipeline_rank_of(pipeline, layer, copy), member);
    return read_here(pipeline, layer, part, member, copy, host, error)
        && group_broadcast(grid->group, place, host, own_bytes(pipeline, layer, part), error);
}

// Bytes between tensors are zero.
static bool read_split(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t copy, void *host,
                       struct error *error)
{
    const struct pipeline_shards *shards = pipeline->shards;
    void *shard = malloc(own_bytes(pipeline, layer, part) + 1);
    bool good = shard || error_no_memory(error, "the shards of a layer");
    if (host)
        memset(host, 0, pipeline_part_bytes(pipeline, layer, part));
    for (uint32_t m = 0; good && m < shards->members(shards->self, layer); m++) {
        good = shards_read_member(pipeline, layer, part, m, copy, shard, error);
        if (good && host)
            shards->join(shards->self, layer, m, part, number_bytes(pipeline, part), shard, host);
    }
    free(shard);
    return good;
}

// A rank that has the layer tells the others.
static bool read_alone(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, void *host, struct error *error)
{
    const struct pipeline_shards *shards = pipeline->shards;
    return (!pipeline_has_copy(pipeline, layer, copy) || read_split(pipeline, layer, 0, copy, host, error))
        && group_broadcast(pipeline->session->settings.group, pipeline_rank_of(pipeline, layer, copy), host,
                           shards->whole_bytes(shards->self, layer), error);
}

bool shards_read_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, void *host,
                      struct error *error)
{
    return is_split(pipeline->shards, layer) ? read_split(pipeline, layer, part, 0, host, error)
                                             : pipeline_read_own(pipeline, layer, part, 0, NULL, host, error);
}

bool shards_read_parameters(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, void *host,
                            struct error *error)
{
    if (shards_are_alone(pipeline->shards))
        return read_alone(pipeline, layer, copy, host, error);
    return is_split(pipeline->shards, layer) ? read_split(pipeline, layer, 0, 0, host, error)
                                             : shards_read_member(pipeline, layer, 0, 0, copy, host, error);
}

// --- in ------------------------------------------------------------------------------------

static bool write_own(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t member,
                      const void *host, struct error *error)
{
    const struct pipeline_shards *shards = pipeline->shards;
    const uint64_t bytes = room_bytes(shards, layer);
    if (bytes == 0)
        return pipeline_write_own(shards->of[member], layer, part, NULL, host, error);
    void *there = malloc(bytes);
    const bool good = (there || error_no_memory(error, "the shards of a layer"))
                   && shards->put(shards->self, layer, member, part, host, there, error)
                   && pipeline_write_own(shards->of[member], layer, part, NULL, there, error);
    free(there);
    return good;
}

bool shards_write_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, const void *host,
                       struct error *error)
{
    const struct pipeline_shards *shards = pipeline->shards;
    const bool splits = is_split(shards, layer);
    void *shard = calloc(1, own_bytes(pipeline, layer, part) + 1);
    bool good = shard || error_no_memory(error, "the shards of a layer");
    for (uint32_t m = 0; good && m < shards->members(shards->self, layer); m++) {
        if (!shards->of[m])
            continue;
        if (splits)
            shards->cut(shards->self, layer, m, part, number_bytes(pipeline, part), shard, host);
        good = write_own(pipeline, layer, part, m, splits ? shard : host, error);
    }
    free(shard);
    return good;
}
