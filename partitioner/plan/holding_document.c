#include "partitioner/plan/holding_document.h"

enum { MOST_WINDOW = 1 << 20 };

bool holding_is_old(const struct holding *holding)
{
    return holding_is_plain(holding) && optimizer_is_old(holding->optimizer);
}

void holding_write(const struct holding *holding, struct json_writer *writer)
{
    json_put_string(writer, "optimizer", optimizer_names[holding->optimizer]);
    if (holding_is_plain(holding))
        return;
    json_begin_object(writer, "holding", JSON_LINES);
    json_put_string(writer, "shard", shard_names[holding->shard]);
    json_put_bool(writer, "optimizer_on_host", holding->optimizer_on_host);
    json_put_bool(writer, "activations_on_host", holding->activations_on_host);
    json_put_u64(writer, "window", holding->window);
    json_put_u64(writer, "step_bytes_per_second", holding->step_rate);
    json_put_bool(writer, "tied_apart", holding->tied_apart);
    json_close(writer);
}

void holding_read(struct json *object, unsigned version, unsigned since, struct holding *holding)
{
    *holding = (struct holding){ .optimizer = (enum optimizer_kind)json_choice(object, "optimizer", optimizer_names) };
    if (version < since && !optimizer_is_old(holding->optimizer))
        json_refuse_key(object, "optimizer", "is \"%s\", which documents know since version %u",
                        optimizer_names[holding->optimizer], since);
    if (version < since || !json_has(object, "holding"))
        return;
    struct json place = json_object(object, "holding");
    holding->shard = (enum shard)json_choice(&place, "shard", shard_names);
    holding->optimizer_on_host = json_bool(&place, "optimizer_on_host");
    holding->activations_on_host = json_bool(&place, "activations_on_host");
    holding->window = (uint32_t)json_u64(&place, "window", 0, MOST_WINDOW);
    holding->step_rate = json_u64(&place, "step_bytes_per_second", 0, JSON_MAX);
    holding->tied_apart = json_bool(&place, "tied_apart");
    if (holding_is_plain(holding))
        json_refuse(&place, "says nothing but what goes without saying; leave it out");
    json_end(&place);
}
