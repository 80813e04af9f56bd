// The other ranks of a run, if they share no device with this one: how a rank gets what they know, and learns of
// their failures. The word is torch.distributed's. For processes it is implemented by TCP sockets
// (processes/control.h), for threads by a lock (thread_group.h). It is slow, and moves no tensors (transport.h does).
//
// Calls are collective: all ranks make them, in the same order.
#ifndef RUNTIME_GROUPS_PROCESS_GROUP_H
#define RUNTIME_GROUPS_PROCESS_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct process_group {
    void *self;
    uint32_t rank, ranks;      // this rank's number, and how many there are
    _Atomic uint64_t *board;   // a word per rank: this rank writes its own, and sees the others' with a small delay
    const uint32_t *board_at;  // the index of each rank's word on it; NULL: its number
    // Each rank contributes `bytes`, and gets those of all by rank.
    bool (*all_gather)(void *self, const void *sent, uint64_t bytes, void *all, struct error *error);
    // All ranks get what rank `from` has.
    bool (*broadcast)(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error);
    // False, with the first failure, if some rank has failed. Never blocks.
    bool (*is_well)(void *self, struct error *error);
    // Says that this rank has failed.
    void (*abandon)(void *self, const struct error *reason);
};

// The group of these two may be NULL, which stands for one process alone.
static inline bool group_is_first(const struct process_group *group)
{
    return !group || group->rank == 0;
}

static inline bool group_broadcast(const struct process_group *group, uint32_t from, void *data, uint64_t bytes,
                                   struct error *error)
{
    return !group || group->broadcast(group->self, from, data, bytes, error);
}

#endif
