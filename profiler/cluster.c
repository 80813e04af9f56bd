#include "profiler/cluster.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    for (size_t i = 0; i < cluster->device_count; i++)
        free(cluster->devices[i].name);
    free(cluster->devices);
    free(cluster->levels);
    free(cluster->notes);
    free(cluster);
}

struct cluster *cluster_create(size_t device_count, size_t level_count)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return NULL;
    cluster->devices = calloc(device_count + 1, sizeof cluster->devices[0]);
    cluster->levels = calloc(level_count + 1, sizeof cluster->levels[0]);
    if (!cluster->devices || !cluster->levels) {
        cluster_free(cluster);
        return NULL;
    }
    cluster->device_count = device_count;
    cluster->level_count = level_count;
    return cluster;
}

struct cluster *cluster_copy(const struct cluster *cluster, struct error *error)
{
    struct cluster *copy = cluster_create(cluster->device_count, cluster->level_count);
    bool good = copy != NULL;
    for (size_t i = 0; good && i < cluster->device_count; i++) {
        copy->devices[i] = cluster->devices[i];
        copy->devices[i].name = strdup(cluster->devices[i].name);
        good = copy->devices[i].name != NULL;
    }
    for (size_t l = 0; good && l < cluster->level_count; l++)
        copy->levels[l] = cluster->levels[l];
    if (!good) {
        cluster_free(copy);
        return error_null(error_no_memory(error, "a cluster"));
    }
    copy->has_host = cluster->has_host;
    copy->host_memory_bytes = cluster->host_memory_bytes;
    copy->host_bytes_per_second = cluster->host_bytes_per_second;
    return copy;
}

bool cluster_name_devices(struct cluster *cluster, const char *const *nouns, struct error *error)
{
    for (size_t i = 0; i < cluster->device_count; i++) {
        struct text name = { 0 };
        size_t group = cluster->device_count, rest = i;
        for (size_t l = cluster->level_count; l-- > 0;) {
            group /= cluster->levels[l].size;
            text_add(&name, "%s%s%zu", name.length ? "." : "", nouns[l], rest / group);
            rest %= group;
        }
        if (cluster->level_count == 0)
            text_add(&name, "%s%zu", nouns[0], i);
        cluster->devices[i].name = text_take(&name, error);
        if (!cluster->devices[i].name)
            return false;
    }
    return true;
}

struct cluster *cluster_uniform(size_t devices, uint64_t memory_bytes, uint64_t latency_ns, uint64_t bytes_per_second,
                                struct error *error)
{
    assert(devices > 0 && devices <= CLUSTER_MOST_DEVICES && bytes_per_second > 0);
    struct cluster *cluster = cluster_create(devices, 1);
    if (!cluster)
        return error_null(error_no_memory(error, "a cluster"));
    for (size_t i = 0; i < devices; i++)
        cluster->devices[i] = (struct cluster_device){ NULL, memory_bytes, 1000 };
    cluster->levels[0] = (struct cluster_level){ devices, latency_ns, bytes_per_second };
    if (cluster_name_devices(cluster, (const char *const[]){ "device" }, error))
        return cluster;
    cluster_free(cluster);
    return NULL;
}

// With levels of 8 and 2, devices 0 to 7 are group 0 of level 0, and all sixteen devices are group 0 of level 1.
size_t cluster_group(const struct cluster *cluster, size_t level, size_t device)
{
    assert(level < cluster->level_count && device < cluster->device_count);
    for (size_t l = 0; l <= level; l++)
        device /= cluster->levels[l].size;
    return device;
}

size_t cluster_level_between(const struct cluster *cluster, size_t a, size_t b)
{
    assert(a < cluster->device_count && b < cluster->device_count);
    size_t level = 0;
    while (level + 1 < cluster->level_count && cluster_group(cluster, level, a) != cluster_group(cluster, level, b))
        level++;
    return level;
}
