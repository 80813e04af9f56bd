// What messages between ranks take. Each ordered pair of ranks has a link; pairs
// may share one, and what shares a link goes one after the other, in the order
// the messages became ready (ties by rank). A link is occupied for the time of
// the bytes; the latency passes beside it:
//
//     ready --wait for the link--> start --bytes / rate--> link free --latency--> arrived
#ifndef SCHEDULES_NETWORK_H
#define SCHEDULES_NETWORK_H

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

// Every ordered pair with a link of its own, all alike. Freed by network_free().
struct network *network_uniform(uint32_t ranks, struct link link, struct error *error);
// A copy, with as much room; of NULL, links that cost nothing.
struct network *network_copy(const struct network *network, uint32_t ranks, struct error *error);
void network_free(struct network *network);

#endif
