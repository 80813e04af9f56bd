#include "schedules/network.h"

#include <stdlib.h>
#include <string.h>

struct network *network_uniform(uint32_t ranks, struct link link, struct error *error)
{
    const size_t pairs = (size_t)ranks * ranks;
    struct network *network = calloc(1, sizeof *network);
    if (network && pairs <= UINT32_MAX) {
        network->links = calloc(pairs, sizeof *network->links);
        network->link_of = calloc(pairs, sizeof *network->link_of);
    }
    if (!network || !network->links || !network->link_of) {
        network_free(network);
        return error_null(error_no_memory(error, "the links between all ranks"));
    }
    network->ranks = ranks;
    network->link_count = (uint32_t)pairs;
    for (uint32_t i = 0; i < pairs; i++) {
        network->links[i] = link;
        network->link_of[i] = i;
    }
    return network;
}

struct network *network_copy(const struct network *network, uint32_t ranks, struct error *error)
{
    struct network *copy = network_uniform(ranks, (struct link){ 0 }, error);
    if (!copy || !network)
        return copy;
    memcpy(copy->links, network->links, network->link_count * sizeof *copy->links);  // never more links than pairs
    memcpy(copy->link_of, network->link_of, (size_t)ranks * ranks * sizeof *copy->link_of);
    copy->link_count = network->link_count;
    return copy;
}

void network_free(struct network *network)
{
    if (!network)
        return;
    free(network->links);
    free(network->link_of);
    free(network);
}
