// Whatever the bytes, a cluster's document and its synopsis end in a cluster or in
// one sentence; and what was read is written and read again alike.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/cluster.h"
#include "profiler/cluster_synopsis.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_cluster(const struct cluster *cluster)
{
    struct error error = { 0 };
    struct text once = { 0 }, twice = { 0 };
    cluster_write(cluster, &once);
    struct cluster *again = cluster_read(once.data, once.length, "again", &error);
    if (!again)
        abort();
    cluster_write(again, &twice);
    if (strcmp(once.data, twice.data) != 0)
        abort();
    if (cluster->device_count > 1
        && cluster_level_between(cluster, 0, cluster->device_count - 1) >= cluster->level_count)
        abort();
    text_clear(&once);
    text_clear(&twice);
    cluster_free(again);
}

static void try_synopsis(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    struct cluster *cluster = cluster_from_synopsis(text, &error);
    if ((cluster != NULL) == (error.kind != ERROR_NONE))
        abort();
    if (cluster)
        try_cluster(cluster);
    cluster_free(cluster);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error error = { 0 };
    struct cluster *cluster = cluster_read((const char *)data, size, "fuzz", &error);
    if ((cluster != NULL) == (error.kind != ERROR_NONE))
        abort();
    if (cluster)
        try_cluster(cluster);
    cluster_free(cluster);
    try_synopsis(data, size);
    return 0;
}
