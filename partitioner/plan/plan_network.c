// The links between the ranks of a plan. Each ordered pair of devices of an innermost group has a link of its own.
// Further out, two groups share one link in each direction.
//
//     2 nodes x 2 devices        0 --> 1, 1 --> 0, 2 --> 3, 3 --> 2     a link each, level 0
//                                {0, 1} --> {2, 3}                      one for four pairs, level 1
//                                {2, 3} --> {0, 1}                      one for four pairs, level 1
#include <stdlib.h>

#include "partitioner/plan/plan.h"

// A link that several pairs share: the level, and the two groups at its ends.
struct shared_link {
    size_t level, from, to;
    uint32_t link;
};

// The links of a network while they are being found.
struct links {
    const struct cluster *cluster;
    struct network *network;
    struct shared_link *shared;
    size_t shared_count;
};

static uint32_t add_link(struct links *links, size_t level)
{
    const struct cluster_level *cluster_level = &links->cluster->levels[level];
    links->network->links[links->network->link_count] = (struct link){ cluster_level->latency_ns,
                                                                       cluster_level->bytes_per_second };
    return links->network->link_count++;
}

static uint32_t link_between(struct links *links, size_t a, size_t b)
{
    const struct cluster *cluster = links->cluster;
    const size_t level = cluster_level_between(cluster, a, b);
    if (level == 0)
        return add_link(links, 0);
    const size_t from = cluster_group(cluster, level - 1, a), to = cluster_group(cluster, level - 1, b);
    for (size_t i = 0; i < links->shared_count; i++) {
        const struct shared_link *shared = &links->shared[i];
        if (shared->level == level && shared->from == from && shared->to == to)
            return shared->link;
    }
    const uint32_t link = add_link(links, level);
    links->shared[links->shared_count++] = (struct shared_link){ level, from, to, link };
    return link;
}

// Whether devices a and b are of one group, and reach device `to` by the link that their group shares.
static bool shares_link(const struct cluster *cluster, size_t a, size_t b, size_t to)
{
    const size_t level = cluster_level_between(cluster, b, to);
    return level > 0 && cluster_group(cluster, level - 1, a) == cluster_group(cluster, level - 1, b);
}

struct network *cluster_network(const struct cluster *cluster, const uint32_t *devices, uint32_t ranks,
                                struct error *error)
{
    // At most there is one link for each ordered pair. network_uniform() has room for that many.
    struct links links = { .cluster = cluster, .network = network_uniform(ranks, (struct link){ 0 }, error) };
    links.shared = links.network ? calloc((size_t)ranks * ranks, sizeof links.shared[0]) : NULL;
    if (!links.shared) {
        network_free(links.network);
        return error_null(error_no_memory(error, "the links of a plan"));
    }
    links.network->link_count = 0;
    uint32_t *link_of = links.network->link_of;
    for (uint32_t from = 0; from < ranks; from++) {
        for (uint32_t to = 0; to < ranks; to++) {
            // The rank before often has the same link, and a search takes longer than this test.
            const bool is_same = from > 0 && shares_link(cluster, devices[from - 1], devices[from], devices[to]);
            const size_t pair = (size_t)from * ranks + to;
            link_of[pair] = from == to ? 0 : is_same ? link_of[pair - ranks] : link_between(&links, devices[from],
                                                                                            devices[to]);
        }
    }
    free(links.shared);
    return links.network;
}

struct network *plan_network(const struct plan *plan, struct error *error)
{
    struct placement *placement = plan_placement(plan, error);
    struct network *network =
        placement ? cluster_network(plan->cluster, placement->devices, plan->ranks, error) : NULL;
    placement_free(placement);
    return network;
}

struct network *cluster_network_by_rank(const struct cluster *cluster, uint32_t ranks, struct error *error)
{
    if (cluster->device_count < ranks) {
        error_set(error, "the cluster has %zu devices, and the schedule %u ranks", cluster->device_count, ranks);
        return NULL;
    }
    uint32_t *devices = calloc(ranks, sizeof *devices);
    for (uint32_t rank = 0; devices && rank < ranks; rank++)
        devices[rank] = rank;
    struct network *network = devices ? cluster_network(cluster, devices, ranks, error) : NULL;
    if (!devices)
        error_no_memory(error, "the links of a cluster");
    free(devices);
    return network;
}

bool plan_simulate_lowered(const struct plan *plan, const struct schedule *lowered, struct simulation *run,
                           struct timeline *timeline, struct error *error)
{
    struct network *network = plan_network(plan, error);
    const bool good = network && schedule_simulate(lowered, NULL, network, run, timeline, error);
    network_free(network);
    return good;
}

bool plan_simulate(const struct plan *plan, uint32_t micro_batches, struct simulation *run, struct timeline *timeline,
                   struct error *error)
{
    struct schedule *lowered = plan_schedule(plan, micro_batches, true, error);
    const bool good = lowered && plan_simulate_lowered(plan, lowered, run, timeline, error);
    schedule_free(lowered);
    return good;
}
