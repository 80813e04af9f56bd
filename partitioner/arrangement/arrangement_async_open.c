#include <stdlib.h>

#include "common/number.h"
#include "partitioner/arrangement/arrangement_async_floor.h"

typedef unsigned __int128 wide;

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t async_floor_within(const struct async_floor *floor, uint64_t ns)
{
    return crew_within(ns, floor->bounds->request->micro_batches, floor->layers + 1);
}

// Where the devices of the ranks are known; of ascending nodes, so that messages only go up, and back.
static void see_nodes(struct async_floor *floor)
{
    const struct search_request *request = floor->bounds->request;
    if (request->free.devices || request->free.fewer || request->cluster->level_count < 2)
        return;
    for (uint32_t i = 0; i < floor->ranks; i++) {
        floor->node_of[i] = cluster_group(request->cluster, 0, request->devices ? request->devices[i] : i);
        if (i > 0 && floor->node_of[i] < floor->node_of[i - 1])
            return;
    }
    floor->node = floor->node_of;
}

// Rounded down.
static uint64_t on_fastest(const struct async_floor *floor, uint64_t speed, uint64_t ns)
{
    return async_floor_within(floor, (uint64_t)((wide)ns * 1000 / speed));
}

static void see_cluster(struct async_floor *floor)
{
    const struct arrangement_bounds *bounds = floor->bounds;
    const struct totals *least = &bounds->least;
    const struct cluster *cluster = bounds->request->cluster;
    uint64_t speed = 1;
    for (size_t i = 0; i < cluster->device_count; i++)
        speed = larger(speed, cluster->devices[i].speed_permille);
    for (uint32_t l = 0; l <= floor->layers; l++) {
        floor->forward[l] = on_fastest(floor, speed, least->forward[l]);
        floor->backward[l] = on_fastest(floor, speed, least->backward[l]);
        floor->most_forward[l] = on_fastest(floor, speed, least->most_forward[l]);
        floor->most_backward[l] = on_fastest(floor, speed, least->most_backward[l]);
        floor->way[l] = cluster->level_count == 0 ? 0 : UINT64_MAX;
        for (size_t level = 0; level < cluster->level_count; level++) {
            const uint64_t way = bounds->way[level * ((size_t)floor->layers + 1) + l];
            floor->way[l] = smaller(floor->way[l], async_floor_within(floor, way));
        }
    }
}

// Links between groups: two of a level have one for each direction.
static void see_shared_links(struct async_floor *floor)
{
    const struct cluster *cluster = floor->bounds->request->cluster;
    uint64_t groups = cluster->device_count;
    for (size_t level = 0; level < cluster->level_count; level++) {
        const uint64_t *ways = &floor->bounds->way[level * ((size_t)floor->layers + 1)];
        const uint64_t size = cluster->levels[level].size, latency = cluster->levels[level].latency_ns;
        groups /= size;
        floor->shared_links += level > 0 ? groups * size * (size - 1) : 0;
        for (uint32_t l = 0; level > 0 && l <= floor->layers; l++) {
            const uint64_t busy = ways[l] > latency ? ways[l] - latency : 0, least = async_floor_within(floor, busy);
            floor->shared[l] = larger(floor->shared[l], busy);
            floor->least_shared[l] = level == 1 ? least : smaller(floor->least_shared[l], least);
        }
    }
}

void async_floor_close(struct async_floor *floor)
{
    free(floor->forward);
    free(floor->backward);
    free(floor->most_forward);
    free(floor->most_backward);
    free(floor->way);
    free(floor->shared);
    free(floor->least_shared);
    free(floor->node_of);
    free(floor->worths);
    free(floor->rests);
}

bool async_floor_open(struct async_floor *floor, const struct arrangement_bounds *bounds, struct error *error)
{
    const struct search_request *request = bounds->request;
    *floor = (struct async_floor){ .bounds = bounds, .layers = bounds->layers, .ranks = request->ranks };
    floor->most = !request->free.replicas && !request->replicas ? 1
                : request->ranks < request->micro_batches       ? request->ranks
                                                                : request->micro_batches;
    floor->forward = calloc((size_t)floor->layers + 1, sizeof floor->forward[0]);
    floor->most_forward = calloc((size_t)floor->layers + 1, sizeof floor->most_forward[0]);
    floor->backward = calloc((size_t)floor->layers + 1, sizeof floor->backward[0]);
    floor->most_backward = calloc((size_t)floor->layers + 1, sizeof floor->most_backward[0]);
    floor->way = calloc((size_t)floor->layers + 1, sizeof floor->way[0]);
    floor->shared = calloc((size_t)floor->layers + 1, sizeof floor->shared[0]);
    floor->least_shared = calloc((size_t)floor->layers + 1, sizeof floor->least_shared[0]);
    floor->node_of = calloc((size_t)floor->ranks + 1, sizeof floor->node_of[0]);
    if (floor->forward && floor->backward && floor->most_forward && floor->most_backward && floor->way && floor->shared
        && floor->least_shared && floor->node_of) {
        see_cluster(floor);
        see_shared_links(floor);
        see_nodes(floor);
        return true;
    }
    async_floor_close(floor);
    return error_no_memory(error, "the bounds of a plan");
}
