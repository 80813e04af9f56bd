// The other ranks of a run, where they share no device with this one: how a rank comes
// to know what they know, and of their failures. torch.distributed's word; here it is what
// a launcher's sockets do for processes (processes/control.h) and a lock for threads
// (thread_group.h). It is slow, and moves no tensors (transport.h).
//
// Calls are made by all ranks, in the same order.
#ifndef RUNTIME_PROCESS_GROUP_H
#define RUNTIME_PROCESS_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct process_group {
    void *self;
    uint32_t rank, ranks;      // this one, of so many
    _Atomic uint64_t *board;   // a word by rank: this one writes its own, and sees what the others wrote, a little old
    const uint32_t *board_at;  // where on it the word of each rank is; NULL: at its number
    // Each rank brings `bytes` and gets those of all, by rank.
    bool (*all_gather)(void *self, const void *own, uint64_t bytes, void *all, struct error *error);
    // What one rank has, all have.
    bool (*broadcast)(void *self, uint32_t from, void *data, uint64_t bytes, struct error *error);
    // Whether some rank has failed: false, with the first failure. Never blocks.
    bool (*is_well)(void *self, struct error *error);
    // This one has.
    void (*abandon)(void *self, const struct error *reason);
};

#endif
