// Writes the document of a front: docs/formats/front.md.
#include "common/json.h"
#include "partitioner/plan/holding_document.h"
#include "partitioner/sweep/plan_front.h"

#define FRONT_VERSION 1

static void write_numbers(struct json_writer *writer, const char *key, const uint32_t *numbers, uint32_t count)
{
    json_begin_array(writer, key, JSON_INLINE);
    for (uint32_t i = 0; i < count; i++)
        json_put_u64(writer, NULL, numbers[i]);
    json_close(writer);
}

static void write_point(struct json_writer *writer, const struct front_point *point)
{
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_u64(writer, "ranks", point->ranks);
    json_put_u64(writer, "limit_bytes", point->limit_bytes);
    json_put_u64(writer, "peak_bytes", point->peak_bytes);
    json_put_u64(writer, "iteration_ns", point->iteration_ns);
    json_put_u64(writer, "lower_bound_ns", point->lower_bound_ns);
    json_put_bool(writer, "proved", point->proved);
    json_put_bool(writer, "front", point->is_on_front);
    write_numbers(writer, "layers", point->layers, point->stages);
    write_numbers(writer, "recomputed", point->recomputed, point->stages);
    json_close(writer);
}

void front_write(const struct plan_front *front, struct text *text)
{
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_string(&writer, "format", "weir.front");
    json_put_u64(&writer, "version", FRONT_VERSION);
    json_begin_object(&writer, "profile", JSON_INLINE);
    json_put_string(&writer, "model", front->model);
    json_put_string(&writer, "hash", front->profile_hash);
    json_close(&writer);
    cluster_write_part(front->cluster, &writer, "cluster");
    json_begin_object(&writer, "schedule", JSON_INLINE);
    json_put_string(&writer, "name", front->schedule);
    json_put_u64(&writer, "chunks", front->chunks);
    json_put_u64(&writer, "micro_batches", front->micro_batches);
    json_close(&writer);
    holding_write(&front->holding, &writer);
    json_put_u64(&writer, "budget", front->budget);
    json_put_u64(&writer, "resolution_ppm", front->resolution_ppm);
    json_begin_array(&writer, "points", JSON_LINES);
    for (size_t i = 0; i < front->count; i++)
        write_point(&writer, &front->points[i]);
    json_close(&writer);
    json_put_string(&writer, "stopped", front->stopped);
    json_close(&writer);
}
