// Reads and writes the cluster document, and accepts a synopsis instead.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/cluster_synopsis.h"

// --- reading -----------------------------------------------------------------

static bool read_devices(struct cluster *cluster, struct json *list)
{
    struct json item;
    for (size_t i = 0; i < cluster->device_count && json_next(list, &item); i++) {
        struct cluster_device *device = &cluster->devices[i];
        json_item_object(&item);
        const char *name = json_string(&item, "name");
        if (*name == '\0')
            json_refuse_key(&item, "name", "is empty");
        device->name = strdup(name);
        if (!device->name)
            return false;
        device->memory_bytes = json_u64(&item, "memory_bytes", 1, JSON_MAX);
        device->speed_permille = json_u64(&item, "speed_permille", 1, CLUSTER_MOST_SPEED);
        json_end(&item);
    }
    return true;
}

// The groups of all levels together must hold exactly the listed devices.
static void read_levels(struct cluster *cluster, struct json *list)
{
    struct json item;
    uint64_t held = 1;
    for (size_t i = 0; i < cluster->level_count && json_next(list, &item); i++) {
        struct cluster_level *level = &cluster->levels[i];
        json_item_object(&item);
        level->size = json_u64(&item, "size", 1, CLUSTER_MOST_DEVICES);
        level->latency_ns = json_u64(&item, "latency_ns", 0, JSON_MAX);
        level->bytes_per_second = json_u64(&item, "bytes_per_second", 1, JSON_MAX);
        json_end(&item);
        held *= level->size;
        if (held > CLUSTER_MOST_DEVICES) {
            json_refuse(list, "hold more than %d devices", CLUSTER_MOST_DEVICES);
            return;
        }
    }
    if (held != cluster->device_count)
        json_refuse(list, "hold %llu devices, but %zu are listed", (unsigned long long)held, cluster->device_count);
}

static int compare_devices(const void *a, const void *b)
{
    const struct cluster_device *const *left = a, *const *right = b;
    const int order = strcmp((*left)->name, (*right)->name);
    return order ? order : (*left > *right) - (*left < *right);
}

static bool check_names(const struct cluster *cluster, struct json *list)
{
    const struct cluster_device **sorted = calloc(cluster->device_count, sizeof sorted[0]);
    if (!sorted)
        return false;
    for (size_t i = 0; i < cluster->device_count; i++)
        sorted[i] = &cluster->devices[i];
    qsort(sorted, cluster->device_count, sizeof sorted[0], compare_devices);
    for (size_t i = 1; i < cluster->device_count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            json_refuse(list, "devices %td and %td are both called %s", sorted[i - 1] - cluster->devices,
                        sorted[i] - cluster->devices, sorted[i]->name);
    free(sorted);
    return true;
}

static void read_host(struct cluster *cluster, struct json *object)
{
    cluster->has_host = json_has(object, "host");
    if (!cluster->has_host)
        return;
    struct json host = json_object(object, "host");
    cluster->host_memory_bytes = json_u64(&host, "memory_bytes", 1, JSON_MAX);
    cluster->host_bytes_per_second = json_u64(&host, "bytes_per_second", 1, JSON_MAX);
    json_end(&host);
}

// False only if memory runs out. Errors of the document are noted in it.
static bool read_parts(struct cluster *cluster, struct json *object, struct json *devices, struct json *levels)
{
    struct error quiet = { 0 };
    if (!read_devices(cluster, devices))
        return false;
    read_levels(cluster, levels);
    if (json_ok(object->document, &quiet) && !check_names(cluster, devices))
        return false;
    read_host(cluster, object);
    if (json_has(object, "notes")) {
        cluster->notes = strdup(json_string(object, "notes"));
        if (!cluster->notes)
            return false;
    }
    json_end(object);
    return true;
}

struct cluster *cluster_read_part(struct json *object, struct error *error)
{
    json_format(object, "weir.cluster");
    struct json devices = json_array(object, "devices"), levels = json_array(object, "levels");
    const size_t device_count = json_count(&devices), level_count = json_count(&levels);
    if (device_count == 0 || device_count > CLUSTER_MOST_DEVICES)
        json_refuse(&devices, "holds %zu devices (1 to %d)", device_count, CLUSTER_MOST_DEVICES);
    if (level_count > CLUSTER_MOST_LEVELS)
        json_refuse(&levels, "holds %zu levels (at most %d)", level_count, CLUSTER_MOST_LEVELS);
    if (!json_ok(object->document, error))
        return NULL;

    struct cluster *cluster = cluster_create(device_count, level_count);
    if (!cluster || !read_parts(cluster, object, &devices, &levels))
        error_no_memory(error, "a cluster");
    else if (json_ok(object->document, error))
        return cluster;
    cluster_free(cluster);
    return NULL;
}

// Takes ownership of the document.
static struct cluster *read_document(struct json_document *document, struct error *error)
{
    if (!document)
        return NULL;
    struct json root = json_root(document);
    struct cluster *cluster = cluster_read_part(&root, error);
    json_free(document);
    return cluster;
}

struct cluster *cluster_read(const char *text, size_t length, const char *name, struct error *error)
{
    return read_document(json_parse(text, length, name, error), error);
}

struct cluster *cluster_load(const char *path_or_synopsis, struct error *error)
{
    if (!*path_or_synopsis) {
        error_set(error, "a cluster's file, or a line such as \"2 devices, 16GiB, 12GB/s 5us\", is needed, not \"\"");
        return NULL;
    }
    if (cluster_is_synopsis(path_or_synopsis))
        return cluster_from_synopsis(path_or_synopsis, error);
    if (strcmp(path_or_synopsis, "-") != 0 && access(path_or_synopsis, F_OK) != 0) {
        error_set(error, "\"%s\" is neither a cluster's file nor a line such as \"2 devices, 16GiB, 12GB/s 5us\"",
                  path_or_synopsis);
        return NULL;
    }
    return read_document(json_load(path_or_synopsis, error), error);
}

// --- writing -----------------------------------------------------------------

static void write_devices(const struct cluster *cluster, struct json_writer *writer)
{
    json_begin_array(writer, "devices", JSON_LINES);
    for (size_t i = 0; i < cluster->device_count; i++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_string(writer, "name", cluster->devices[i].name);
        json_put_u64(writer, "memory_bytes", cluster->devices[i].memory_bytes);
        json_put_u64(writer, "speed_permille", cluster->devices[i].speed_permille);
        json_close(writer);
    }
    json_close(writer);
}

static void write_levels(const struct cluster *cluster, struct json_writer *writer)
{
    json_begin_array(writer, "levels", cluster->level_count ? JSON_LINES : JSON_INLINE);
    for (size_t i = 0; i < cluster->level_count; i++) {
        json_begin_object(writer, NULL, JSON_INLINE);
        json_put_u64(writer, "size", cluster->levels[i].size);
        json_put_u64(writer, "latency_ns", cluster->levels[i].latency_ns);
        json_put_u64(writer, "bytes_per_second", cluster->levels[i].bytes_per_second);
        json_close(writer);
    }
    json_close(writer);
}

void cluster_write_part(const struct cluster *cluster, struct json_writer *writer, const char *key)
{
    json_begin_object(writer, key, JSON_LINES);
    json_put_format(writer, "weir.cluster");
    write_devices(cluster, writer);
    write_levels(cluster, writer);
    if (cluster->has_host) {
        json_begin_object(writer, "host", JSON_INLINE);
        json_put_u64(writer, "memory_bytes", cluster->host_memory_bytes);
        json_put_u64(writer, "bytes_per_second", cluster->host_bytes_per_second);
        json_close(writer);
    }
    if (cluster->notes)
        json_put_string(writer, "notes", cluster->notes);
    json_close(writer);
}

void cluster_write(const struct cluster *cluster, struct text *text)
{
    struct json_writer writer = json_writer(text);
    cluster_write_part(cluster, &writer, NULL);
}
