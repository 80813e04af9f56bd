// What the replicas of a stage bring together of 1-bit Adam (Tang et al. 2021, arXiv 2102.02888) once it is frozen: in
// place of gradients signs of the momentum that is to be, a block of kernels.h at a time. Of the blocks each owns a
// share:
//
//     each   e += beta1 m + (1 - beta1) r g    of what others own; of its own share a part of the mean, that / r
//     each   signs of others' shares of e      in place of the gradients, which nobody needs now
//     owner  e += signs / r of each other one, in the order of the replicas; then the signs of its share of e
//     all    m = the signs of all shares       the same to the bit everywhere
//
// What signs leave stays in e, and is added to the next ones. An owner's own momentum goes nowhere and needs no signs,
// so that one e of each number is enough: what its own signs have left of others' shares, what the sum's have left of
// its own (docs/decisions/083-signs-between-replicas.md).
#ifndef RUNTIME_SIGNS_H
#define RUNTIME_SIGNS_H

#include "device/kernels.h"
#include "runtime/transport.h"

struct signs {
    float *momentum, *seconds, *errors;
    float *gradients;  // then signs: struct sign_block from the first on
    uint64_t count;    // of numbers, in rows of 64 or more at a time: their signs are never larger than they
    uint32_t copy, copies;
    float beta1;
};

// Gives the first two steps to the queue; what is to be posted behind them, of this group of the transport.
struct reduction signs_begin(const struct signs *signs, struct queue *queue, uint32_t group);

// And the last one: the gradients are zero then.
void signs_end(const struct signs *signs, struct queue *queue);

// For transports, of blocks [first, first + count) of a copy's own share: adds what another copy has sent, and takes
// the signs of the sum.
void signs_add(struct queue *queue, const struct reduction *reduction, struct reduction_share blocks, const void *sent,
               uint32_t copies);
void signs_take(struct queue *queue, const struct reduction *reduction, struct reduction_share blocks);

#endif
