// The document of a front: docs/formats/front.md.
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "partitioner/plan/holding_document.h"
#include "partitioner/sweep/plan_front.h"

#define FRONT_VERSION 1
#define MOST_RANKS 65536
#define MOST_POINTS 100000
#define MOST_LAYERS 1000000

// --- writing ----------------------------------------------------------------------------------

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
    if (front->notes)
        json_put_string(&writer, "notes", front->notes);
    json_close(&writer);
}

// --- reading ----------------------------------------------------------------------------------

static uint32_t *read_numbers(struct json *object, const char *key, uint32_t *count, struct error *error)
{
    struct json list = json_array(object, key), item;
    const size_t length = json_count(&list);
    if (list.node && (length == 0 || length > MOST_RANKS))
        json_refuse(&list, "holds %zu numbers, not one per stage", length);
    if (!json_ok(object->document, error))
        return NULL;
    uint32_t *numbers = calloc(length, sizeof numbers[0]);
    if (!numbers)
        error_no_memory(error, "a front");
    for (*count = 0; numbers && json_next(&list, &item); (*count)++)
        numbers[*count] = (uint32_t)json_item_u64(&item, 0, MOST_LAYERS);
    return numbers;
}

// What a point's own numbers deny.
static void check_point(struct json *object, const struct front_point *point, uint32_t again)
{
    if (again != point->stages) {
        json_refuse_key(object, "recomputed", "holds %u numbers, but there are %u stages", again, point->stages);
        return;
    }
    for (uint32_t s = 0; s < point->stages; s++)
        if (point->recomputed[s] > point->layers[s])
            json_refuse_key(object, "recomputed", "%u layers of stage %u are run again, but it has %u",
                            point->recomputed[s], s, point->layers[s]);
    if (point->peak_bytes > point->limit_bytes)
        json_refuse_key(object, "peak_bytes", "is %llu, above the limit, %llu", (unsigned long long)point->peak_bytes,
                        (unsigned long long)point->limit_bytes);
    if (point->lower_bound_ns > point->iteration_ns
        || (point->proved && point->lower_bound_ns != point->iteration_ns))
        json_refuse_key(object, "lower_bound_ns", "is %llu, but the iteration takes %llu%s",
                        (unsigned long long)point->lower_bound_ns, (unsigned long long)point->iteration_ns,
                        point->proved ? " and is proved" : "");
}

static bool read_point(struct json *object, struct front_point *point, struct error *error)
{
    uint32_t again = 0;
    json_item_object(object);
    point->ranks = (uint32_t)json_u64(object, "ranks", 1, MOST_RANKS);
    point->limit_bytes = json_u64(object, "limit_bytes", 0, JSON_MAX);
    point->peak_bytes = json_u64(object, "peak_bytes", 0, JSON_MAX);
    point->iteration_ns = json_u64(object, "iteration_ns", 0, JSON_MAX);
    point->lower_bound_ns = json_u64(object, "lower_bound_ns", 0, JSON_MAX);
    point->proved = json_bool(object, "proved");
    point->is_on_front = json_bool(object, "front");
    point->layers = read_numbers(object, "layers", &point->stages, error);
    point->recomputed = point->layers ? read_numbers(object, "recomputed", &again, error) : NULL;
    if (!point->recomputed)
        return false;
    check_point(object, point, again);
    json_end(object);
    return json_ok(object->document, error);
}

static bool read_points(struct json *root, struct plan_front *front, struct error *error)
{
    struct json points = json_array(root, "points"), item;
    if (points.node && (json_count(&points) == 0 || json_count(&points) > MOST_POINTS))
        json_refuse(&points, "holds %zu points, not 1 to %d", json_count(&points), MOST_POINTS);
    if (!json_ok(root->document, error))
        return false;
    front->points = calloc(json_count(&points), sizeof front->points[0]);
    if (!front->points)
        return error_no_memory(error, "a front");
    while (json_next(&points, &item)) {
        struct front_point *point = &front->points[front->count++];
        if (!read_point(&item, point, error))
            return false;
        const struct front_point *before = point - 1;
        if (front->count > 1
            && (before->ranks > point->ranks
                || (before->ranks == point->ranks && before->peak_bytes <= point->peak_bytes)))
            json_refuse(&item, "does not come behind the point before: ranks ascend, peaks of as many descend");
    }
    return json_ok(root->document, error);
}

static bool read_head(struct json *root, struct plan_front *front, struct error *error)
{
    json_format(root, "weir.front", FRONT_VERSION);
    struct json profile = json_object(root, "profile");
    front->model = strdup(json_string(&profile, "model"));
    if (!front->model)
        return error_no_memory(error, "a front");
    json_string_into(&profile, "hash", front->profile_hash, sizeof front->profile_hash);
    json_end(&profile);
    struct json cluster = json_object(root, "cluster");
    if (!json_ok(root->document, error))
        return false;
    front->cluster = cluster_read_part(&cluster, error);
    if (!front->cluster)
        return false;
    json_end(&cluster);
    struct json schedule = json_object(root, "schedule");
    json_string_into(&schedule, "name", front->schedule, sizeof front->schedule);
    front->chunks = (uint32_t)json_u64(&schedule, "chunks", 0, MOST_RANKS);
    front->micro_batches = (uint32_t)json_u64(&schedule, "micro_batches", 1, UINT32_MAX);
    json_end(&schedule);
    holding_read(root, FRONT_VERSION, FRONT_VERSION, &front->holding);
    front->budget = json_u64(root, "budget", 1, JSON_MAX);
    front->resolution_ppm = (uint32_t)json_u64(root, "resolution_ppm", 0, 1000000);
    return json_ok(root->document, error);
}

static bool read_front(struct json_document *document, struct plan_front *front, struct error *error)
{
    struct json root = json_root(document);
    if (!read_head(&root, front, error) || !read_points(&root, front, error))
        return false;
    json_string_into(&root, "stopped", front->stopped, sizeof front->stopped);
    if (json_has(&root, "notes")) {
        front->notes = strdup(json_string(&root, "notes"));
        if (!front->notes)
            return error_no_memory(error, "the notes of a front");
    }
    json_end(&root);
    return json_ok(document, error);
}

struct plan_front *front_read(const char *text, size_t length, const char *name, struct error *error)
{
    struct json_document *document = json_parse(text, length, name, error);
    struct plan_front *front = document ? calloc(1, sizeof *front) : NULL;
    if (document && !front)
        error_no_memory(error, "a front");
    if (front && !read_front(document, front, error)) {
        front_free(front);
        front = NULL;
    }
    json_free(document);
    return front;
}
