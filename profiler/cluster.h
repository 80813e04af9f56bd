// The machines: the *cluster* document, or its one-line synopsis
//
//     "2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us"
//
// Levels are listed innermost first. Devices within a group of `size` communicate over level 0, groups of groups over
// level 1, and so on.
#ifndef PROFILER_CLUSTER_H
#define PROFILER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

struct cluster_device {
    char *name;
    uint64_t memory_bytes;
    uint64_t speed_permille;  // 1000: as fast as the device of the profile
};

struct cluster_level {
    uint64_t size;  // devices (level 0), or groups of the level below, in one group
    uint64_t latency_ns;
    uint64_t bytes_per_second;
};

struct cluster {
    struct cluster_device *devices;
    size_t device_count;
    struct cluster_level *levels;
    size_t level_count;
    bool has_host;
    uint64_t host_memory_bytes, host_bytes_per_second;
    char *notes;  // or NULL
};

// Loads a cluster from a file's path, "-", or a synopsis. A text is a synopsis if it contains " device", or begins
// with a digit and has a comma. NULL with an error. cluster_free() frees the result.
struct cluster *cluster_load(const char *path_or_synopsis, struct error *error);
struct cluster *cluster_read(const char *text, size_t length, const char *name, struct error *error);
void cluster_write(const struct cluster *cluster, struct text *text);

// The same document as a part of another one (a plan holds its cluster). It is read from the object at `place`, and
// written as an object under `key`. Errors are noted at their place, for json_ok() to report. In that case the result
// is NULL, with the same reason in `error`.
struct cluster *cluster_read_part(struct json *place, struct error *error);
void cluster_write_part(const struct cluster *cluster, struct json_writer *writer, const char *key);

// cluster_create() makes a cluster with zeroed devices and levels; NULL if memory runs out. Once the levels' sizes
// are set, cluster_name_devices() makes names such as "node0.device3" from a noun per level, innermost first.
enum { CLUSTER_MOST_DEVICES = 65536, CLUSTER_MOST_LEVELS = 8, CLUSTER_MOST_SPEED = 1000000 };
struct cluster *cluster_create(size_t device_count, size_t level_count);
bool cluster_name_devices(struct cluster *cluster, const char *const *nouns, struct error *error);

void cluster_free(struct cluster *cluster);

// A copy of the cluster, without its notes. The caller frees it.
struct cluster *cluster_copy(const struct cluster *cluster, struct error *error);

// A cluster with one level. All devices are alike and as fast as the profile's.
struct cluster *cluster_uniform(size_t devices, uint64_t memory_bytes, uint64_t latency_ns,
                                uint64_t bytes_per_second, struct error *error);

// The level over which two devices communicate (0 for a device and itself); and the group of a device at a level
// (level 0: its innermost group).
size_t cluster_level_between(const struct cluster *cluster, size_t a, size_t b);
size_t cluster_group(const struct cluster *cluster, size_t level, size_t device);

#endif
