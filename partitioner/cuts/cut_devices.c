// Which devices the ranks of a search are, and the links between them.
//
//     variants of stages     "split 2"   none        rank     0     1     2
//     replicas                   1         2         devices  3 0   1     2      as the request names them
//
// Messages go between the first devices of two groups.
#include <stdlib.h>

#include "common/array.h"
#include "partitioner/cost/predict.h"
#include "partitioner/cost/variant.h"
#include "partitioner/cuts/cut_parts.h"

const char *cut_variant(const struct cut_problem *problem, uint32_t stage)
{
    return problem->request->layout.variants ? problem->request->layout.variants[stage] : NULL;
}

// The number of devices of a rank: that of its stages' variant.
static bool size_of_group(const struct cut_problem *problem, uint32_t rank, uint32_t *size, struct error *error)
{
    const struct placement *placement = problem->schedule.placement;
    for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++) {
        const uint32_t s = placement->held[i];
        const uint32_t devices = variant_devices(problem->request->profile, cut_variant(problem, s));
        if (i > placement->stage_at[rank] && devices != *size)
            return error_set(error, "stages %u and %u are on one rank, but their variants take %u and %u devices",
                             placement->held[i - 1], s, *size, devices);
        *size = devices;
    }
    return true;
}

static bool find_groups(struct cut_problem *problem, struct error *error)
{
    const struct search_request *request = problem->request;
    struct cut_devices *devices = &problem->devices;
    const size_t all = request->cluster->device_count;
    size_t count = 0;
    for (uint32_t r = 0; r < problem->ranks; r++) {
        uint32_t size = 1;
        if (!size_of_group(problem, r, &size, error))
            return false;
        count += size;
        if (count > all)
            return error_set(error, "%u ranks need %zu devices or more, but the cluster has %zu", problem->ranks, count,
                             all);
        devices->group_at[r + 1] = (uint32_t)count;
    }
    for (uint32_t i = 0; i < count; i++)
        devices->group[i] = request->layout.devices ? request->layout.devices[i] : i;
    return true;
}

static bool find_links(struct cut_problem *problem, struct error *error)
{
    struct cut_devices *devices = &problem->devices;
    devices->network = problem->request->network;
    if (devices->network)
        return true;
    uint32_t *first = calloc(problem->ranks, sizeof first[0]);
    if (!first)
        return error_no_memory(error, "a search");
    for (uint32_t r = 0; r < problem->ranks; r++)
        first[r] = devices->group[devices->group_at[r]];
    devices->network = devices->own_network =
        cluster_network(problem->request->cluster, first, problem->ranks, error);
    free(first);
    return devices->network != NULL;
}

static void read_devices(struct cut_problem *problem)
{
    const struct placement *placement = problem->schedule.placement;
    struct cut_devices *devices = &problem->devices;
    for (uint32_t s = 0; s < problem->stages; s++)
        devices->speed[s] = UINT64_MAX;
    for (uint32_t r = 0; r < problem->ranks; r++)
        devices->capacity[r] = UINT64_MAX;
    for (uint32_t r = 0; r < problem->ranks; r++) {
        uint64_t *capacity = &devices->capacity[problem->schedule.leader[r]];
        for (uint32_t i = devices->group_at[r]; i < devices->group_at[r + 1]; i++) {
            const struct cluster_device *device = &problem->request->cluster->devices[devices->group[i]];
            *capacity = device->memory_bytes < *capacity ? device->memory_bytes : *capacity;
            for (uint32_t held = placement->stage_at[r]; held < placement->stage_at[r + 1]; held++) {
                uint64_t *speed = &devices->speed[placement->held[held]];
                *speed = device->speed_permille < *speed ? device->speed_permille : *speed;
            }
        }
    }
    for (uint32_t s = 0; s < problem->stages; s++)
        if (devices->speed[s] > devices->fastest)
            devices->fastest = devices->speed[s];
}

// Whether no link carries messages of two channels. A channel goes from one rank and stage to another.
static bool find_shared_links(struct cut_problem *problem, struct error *error)
{
    const struct network *network = problem->devices.network;
    const struct schedule *order = problem->schedule.order;
    uint64_t *channel_of = calloc(network->link_count + 1, sizeof channel_of[0]);
    if (!channel_of)
        return error_no_memory(error, "a search");
    problem->devices.links_unshared = true;
    for (uint32_t route = 0; route < order->route_count; route++) {
        for (uint32_t s = 0; s + 1 < order->stages; s++) {
            const uint32_t *ranks = &order->routes[(size_t)route * order->stages + s];
            for (uint32_t back = 0; back < 2 && ranks[0] != ranks[1]; back++) {
                const uint64_t pair = (uint64_t)ranks[back] * network->ranks + ranks[1 - back];
                const uint32_t link = network->link_of[pair];
                const uint64_t channel = 1 + back + 2 * (s + order->stages * pair);
                problem->devices.links_unshared &= channel_of[link] == 0 || channel_of[link] == channel;
                channel_of[link] = channel;
            }
        }
    }
    free(channel_of);
    return true;
}

static bool is_known(const struct link *links, uint32_t count, const struct link *link)
{
    for (uint32_t i = 0; i < count; i++)
        if (links[i].latency_ns == link->latency_ns && links[i].bytes_per_second == link->bytes_per_second)
            return true;
    return false;
}

// A stage with hundreds of replicas has as many pairs as their square, but few kinds of links between them.
static bool find_links_among(struct cut_problem *problem, struct error *error)
{
    const struct placement *placement = problem->schedule.placement;
    struct cut_devices *devices = &problem->devices;
    uint32_t count = 0;
    size_t capacity = 0;
    for (uint32_t s = 0; s < problem->stages; s++) {
        const uint32_t copies = placement_copies(placement, s), first = count;
        for (uint64_t pair = 0; pair < (uint64_t)copies * copies; pair++) {
            const uint32_t from = placement_rank(placement, s, (uint32_t)(pair / copies));
            const uint32_t to = placement_rank(placement, s, (uint32_t)(pair % copies));
            const struct link *link = network_link(devices->network, from, to);
            if (from == to || is_known(&devices->among[first], count - first, link))
                continue;
            if (!array_reserve(&devices->among, &capacity, count + (size_t)1, sizeof devices->among[0]))
                return error_no_memory(error, "a search");
            devices->among[count++] = *link;
        }
        devices->among_at[s + 1] = count;
    }
    return true;
}

bool cut_devices_create(struct cut_problem *problem, struct error *error)
{
    struct cut_devices *devices = &problem->devices;
    struct arrays *arrays = &problem->arrays;
    devices->group_at = arrays_add(arrays, (size_t)problem->ranks + 1, sizeof devices->group_at[0]);
    devices->group = arrays_add(arrays, problem->request->cluster->device_count, sizeof devices->group[0]);
    devices->speed = arrays_add(arrays, problem->stages, sizeof devices->speed[0]);
    devices->capacity = arrays_add(arrays, problem->ranks, sizeof devices->capacity[0]);
    devices->places = arrays_add(arrays, problem->stages, sizeof devices->places[0]);
    devices->among_at = arrays_add(arrays, (size_t)problem->stages + 1, sizeof devices->among_at[0]);
    if (arrays->failed)
        return error_no_memory(error, "a search");
    if (!find_groups(problem, error) || !find_links(problem, error))
        return false;
    read_devices(problem);
    for (uint32_t s = 0; s < problem->stages; s++)
        devices->places[s] =
            predict_place(problem->schedule.placement, s, devices->network, problem->request->cluster);
    return find_shared_links(problem, error) && find_links_among(problem, error);
}
