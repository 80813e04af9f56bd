// What of a stage's weights a replica updates: all, or, where replicas share the optimizer's state (docs/memory.md:
// ZeRO), one share each, of which alone it keeps that state.
//
//     weights, gradients    |  share 0  |  share 1  |  share 2  |    on each replica
//     state of replica 1                | its moments           |    one behind the other, of its share only
//
// Shares are those that a reduction adds up (transport.h), whatever layers they cut through.
#ifndef RUNTIME_SHARES_H
#define RUNTIME_SHARES_H

#include "runtime/optimizer.h"

struct share {
    uint64_t first, count;  // elements of the stage's weights
    uint32_t copies;        // which own one each; 1: this one owns all
    struct exempt *exempt;  // those of the stage that are in it, counted from its first element
    size_t exempt_count;
};

// Which share a copy of a stage has, of so many elements in all.
bool share_open(struct share *share, const struct stage *stage, uint64_t count, uint32_t copy, uint32_t copies,
                struct error *error);
void share_close(struct share *share);

// From a stage's buffers to those of the share; `state` is the share's already.
struct optimizer_buffers share_buffers(const struct share *share, enum precision precision,
                                       struct optimizer_buffers whole);

#endif
