#include "profiler/profile_transfers.h"

#include <stdlib.h>

int profile_transfers_compare(const void *a, const void *b)
{
    const struct profile_transfer *left = a, *right = b;
    return (left->layer > right->layer) - (left->layer < right->layer);
}

static struct profile_transfer read_transfer(struct json *pair)
{
    struct profile_transfer transfer = { 0 };
    struct json item;
    json_item_array(pair);
    if (json_count(pair) != 2)
        json_refuse(pair, "is not a layer and its bytes");
    if (json_next(pair, &item))
        transfer.layer = (uint32_t)json_item_u64(&item, 0, PROFILE_MOST_LAYERS - 1);
    if (json_next(pair, &item))
        transfer.bytes = json_item_u64(&item, 0, JSON_MAX);
    return transfer;
}

static bool read_list(struct json *object, const char *key, struct profile_transfer **transfers, size_t *count)
{
    if (!json_has(object, key))
        return true;
    struct json list = json_array(object, key), item;
    const size_t most = json_count(&list);
    struct profile_transfer *read = calloc(most + 1, sizeof read[0]);
    if (!read)
        return false;
    *transfers = read;
    while (*count < most && json_next(&list, &item))
        read[(*count)++] = read_transfer(&item);
    qsort(read, *count, sizeof read[0], profile_transfers_compare);
    for (size_t i = 1; i < *count; i++)
        if (read[i - 1].layer == read[i].layer)
            json_refuse(&list, "layer %u is there twice", read[i].layer);
    return true;
}

bool profile_transfers_read(struct json *object, struct profile_layer *layer)
{
    return read_list(object, "receives", &layer->receives, &layer->receive_count)
        && read_list(object, "sends", &layer->sends, &layer->send_count);
}

static void write_list(const char *key, const struct profile_transfer *transfers, size_t count,
                       struct json_writer *writer)
{
    if (count == 0)
        return;
    json_begin_array(writer, key, JSON_INLINE);
    for (size_t i = 0; i < count; i++) {
        json_begin_array(writer, NULL, JSON_INLINE);
        json_put_u64(writer, NULL, transfers[i].layer);
        json_put_u64(writer, NULL, transfers[i].bytes);
        json_close(writer);
    }
    json_close(writer);
}

void profile_transfers_write(const struct profile_layer *layer, struct json_writer *writer)
{
    write_list("receives", layer->receives, layer->receive_count, writer);
    write_list("sends", layer->sends, layer->send_count, writer);
}

// --- along edges only ---------------------------------------------------------------

static bool is_edge(const struct profile *profile, uint32_t from, uint32_t to)
{
    if (profile->is_chain)
        return to < profile->layer_count && to == from + 1;
    size_t least = 0, most = profile->edge_count;
    while (least < most) {
        const size_t middle = (least + most) / 2;
        const struct edge *edge = &profile->edges[middle];
        if (edge->from == from && edge->to == to)
            return true;
        if (edge->from < from || (edge->from == from && edge->to < to))
            least = middle + 1;
        else
            most = middle;
    }
    return false;
}

static void check_way(const struct profile *profile, uint32_t layer, const struct profile_layer *way, struct json *root)
{
    for (size_t i = 0; i < way->receive_count; i++)
        if (!is_edge(profile, way->receives[i].layer, layer))
            json_refuse_key(root, "layers", "layer %u receives from layer %u, but no edge goes there", layer,
                            way->receives[i].layer);
    for (size_t i = 0; i < way->send_count; i++)
        if (!is_edge(profile, layer, way->sends[i].layer))
            json_refuse_key(root, "layers", "layer %u sends to layer %u, but no edge goes there", layer,
                            way->sends[i].layer);
}

void profile_transfers_check(const struct profile *profile, struct json *root)
{
    for (uint32_t i = 0; i < profile->layer_count; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        check_way(profile, i, layer, root);
        for (size_t v = 0; v < layer->variant_count; v++)
            check_way(profile, i, &layer->variants[v].layer, root);
    }
}

// --- asking ---------------------------------------------------------------------------

static uint64_t find_bytes(const struct profile_transfer *transfers, size_t count, uint32_t layer, uint64_t otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (transfers[i].layer == layer)
            return transfers[i].bytes;
    return otherwise;
}

uint64_t profile_receive_bytes(const struct profile *profile, const struct profile_layer *way, uint32_t from)
{
    return find_bytes(way->receives, way->receive_count, from, profile->layers[from].output_bytes);
}

uint64_t profile_send_bytes(const struct profile_layer *way, uint32_t to)
{
    return find_bytes(way->sends, way->send_count, to, way->output_bytes);
}
