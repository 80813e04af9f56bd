// What the replicas of a stage exchange for 1-bit Adam (Tang et al. 2021, arXiv 2102.02888) after its freeze step.
// Instead of gradients they send the signs of the next momentum, in blocks (struct sign_block in kernels.h). Each
// replica owns a share of the blocks:
//
//     each   e += beta1 m + (1 - beta1) r g    for what others own; for its own share a part of the mean, that / r
//     each   signs of others' shares of e      in place of the gradients, which are not needed any more
//     owner  e += signs / r of each other one, in the order of the replicas; then the signs of its share of e
//     all    m = the signs of all shares       bitwise equal everywhere
//
// What the signs lose stays in e, and is added to the next ones. An owner's own momentum is not sent and needs no
// signs. So one e per number is enough. For others' shares it is what its own signs have lost, and for its own share
// it is what the signs of the sum have lost (docs/decisions/083-signs-between-replicas.md).
#ifndef RUNTIME_TRANSPORT_SIGNS_H
#define RUNTIME_TRANSPORT_SIGNS_H

#include "device/kernels.h"
#include "runtime/transport/transport.h"

struct signs {
    float *momentum, *seconds, *errors;
    float *gradients;  // then the signs: struct sign_block from the beginning
    uint64_t count;    // numbers, in rows of 64 or more, so that their signs never take more bytes than they do
    uint32_t copy, copies;
    float beta1;
};

// Gives the first two steps to the queue. Returns the reduction to post after them, for this group of the transport.
struct reduction signs_begin(const struct signs *signs, struct queue *queue, uint32_t group);

// Gives the last step to the queue. The gradients are zero afterwards.
void signs_end(const struct signs *signs, struct queue *queue);

#endif
