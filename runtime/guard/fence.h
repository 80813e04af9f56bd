// Memory for one buffer with a zone on each side. A write beyond the buffer changes a zone, which is found
// afterwards. Behind each zone is a page without access, which stops a write that goes even further.
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
    uint64_t bytes;           // of the buffer, may be 0
    uint64_t before, behind;  // of the zones: at least 64 KiB, and at least the buffer's size
    unsigned char *mapped;
    size_t mapped_bytes;
};

bool fence_create(struct fence *fence, uint64_t bytes, struct error *error);
void fence_clear(struct fence *fence);

// Fills the zones with a byte; and looks for bytes that have changed since. `before` and `behind` receive how far the
// changes reach from the buffer on either side.
void fence_fill(struct fence *fence, unsigned char fill);
bool fence_is_damaged(const struct fence *fence, unsigned char fill, uint64_t *before, uint64_t *behind);

// Whether an address is in the fence, including its pages without access.
bool fence_has(const struct fence *fence, const void *address);

#endif
