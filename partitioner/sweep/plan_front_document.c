// Writes the document of a front: docs/formats/front.md.
#include "common/json.h"
#include "partitioner/sweep/plan_front.h"

static void write_point(struct json_writer *writer, const struct front_point *point)
{
    const struct plan *plan = point->plan;
    json_begin_object(writer, NULL, JSON_LINES);
    json_put_u64(writer, "ranks", plan->ranks);
    json_put_u64(writer, "limit_bytes", point->limit_bytes);
    json_put_u64(writer, "peak_bytes", point->peak_bytes);
    json_put_u64(writer, "iteration_ns", plan->iteration_ns);
    json_put_u64(writer, "lower_bound_ns", plan->certificate.lower_bound_ns);
    json_put_bool(writer, "proved", plan->certificate.proved);
    json_put_bool(writer, "front", point->is_on_front);
    json_begin_array(writer, "layers", JSON_INLINE);
    for (size_t s = 0; s < plan->stage_count; s++)
        json_put_u64(writer, NULL, plan->stages[s].end - plan->stages[s].first);
    json_close(writer);
    json_begin_array(writer, "recomputed", JSON_INLINE);
    for (size_t s = 0; s < plan->stage_count; s++)
        json_put_u64(writer, NULL, front_recomputed(&plan->stages[s]));
    json_close(writer);
    json_close(writer);
}

void front_write(const struct plan_front *front, struct text *text)
{
    const struct search_request *search = front->request->search;
    struct json_writer writer = json_writer(text);
    json_begin_object(&writer, NULL, JSON_LINES);
    json_put_format(&writer, "weir.front");
    json_begin_object(&writer, "profile", JSON_INLINE);
    json_put_string(&writer, "model", search->profile->model);
    json_put_string(&writer, "hash", search->profile->hash);
    json_close(&writer);
    cluster_write_part(search->cluster, &writer, "cluster");
    json_begin_object(&writer, "schedule", JSON_INLINE);
    json_put_string(&writer, "name", search->schedule);
    json_put_u64(&writer, "chunks", search->chunks);
    json_put_u64(&writer, "micro_batches", search->micro_batches);
    json_close(&writer);
    storage_write(&search->storage, &writer);
    json_put_u64(&writer, "budget", front->budget);
    json_put_u64(&writer, "resolution_ppm", front->request->resolution_ppm);
    json_begin_array(&writer, "points", JSON_LINES);
    for (size_t i = 0; i < front->count; i++)
        write_point(&writer, &front->points[i]);
    json_close(&writer);
    json_put_string(&writer, "stopped", front->stopped);
    json_close(&writer);
}
