// Memory for one buffer, with zones on both sides where a write that goes too far is found afterwards, and behind those
// a page each that stops one that goes further still.
//
//     | no access | zone | the buffer | zone | no access |
//                        ^ a multiple of a page
#ifndef RUNTIME_GUARD_FENCE_H
#define RUNTIME_GUARD_FENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct fence {
    unsigned char *at;
    uint64_t bytes;           // of the buffer, 0 and more
    uint64_t before, behind;  // of the zones: 64 KiB and more, and no less than the buffer
    unsigned char *mapped;
    size_t mapped_bytes;
};

bool fence_create(struct fence *fence, uint64_t bytes, struct error *error);
void fence_clear(struct fence *fence);

// Fills the zones, and looks for bytes that are others since: how many before the buffer, from the farthest on, and how
// many behind it.
void fence_fill(struct fence *fence, unsigned char fill);
bool fence_is_damaged(const struct fence *fence, unsigned char fill, uint64_t *before, uint64_t *behind);

// Whether an address lies in the fence, its pages without access included.
bool fence_has(const struct fence *fence, const void *address);

#endif
