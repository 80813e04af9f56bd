// How long messages between ranks take. Each ordered pair of ranks has a link, and several pairs may share one.
// Messages over the same link go one after the other, in the order in which they became ready (ties by rank). A link
// is occupied for the time of the bytes; the latency is not part of that:
//
//     ready --wait for the link--> start --bytes / rate--> link free --latency--> arrived
#ifndef SCHEDULES_NETWORK_H
#define SCHEDULES_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct link {
    uint64_t latency_ns;
    uint64_t bytes_per_second;  // 0: bytes cost nothing
};

struct network {
    uint32_t ranks;
    uint32_t link_count;
    struct link *links;
    uint32_t *link_of;  // ranks x ranks, [from * ranks + to]
};

static inline const struct link *network_link(const struct network *network, uint32_t from, uint32_t to)
{
    return &network->links[network->link_of[(size_t)from * network->ranks + to]];
}

// A network in which every ordered pair has a link of its own, all alike. Freed by network_free().
struct network *network_uniform(uint32_t ranks, struct link link, struct error *error);
// A copy for as many ranks. If `network` is NULL, its links cost nothing.
struct network *network_copy(const struct network *network, uint32_t ranks, struct error *error);
void network_free(struct network *network);

#endif
