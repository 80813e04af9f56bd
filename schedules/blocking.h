// Running a lowered schedule in the strictest of worlds (check.h): a rank does one
// thing at a time, in the order of its list, and
//
//     SEND   ends when its RECV is reached, or fewer than `capacity` messages of its channel are under way
//     RECV   ends when its message is there
//     REDUCE ends when every copy of its stage stands at its own
//
// Or, with messages in groups (NCCL's ncclGroupStart, PyTorch's batch_isend_irecv),
// each exchanged when both ends are reached:
//
//     0F1 [0SEND_F1 2RECV_F0] 2F0      messages that stand in a row are reached together,
//                                      and the rank goes on when all of them are exchanged
//
// Whatever order the ranks are taken in, they come equally far: what a rank can do
// stays possible until it does it.
#ifndef SCHEDULES_BLOCKING_H
#define SCHEDULES_BLOCKING_H

#include "schedules/board.h"

struct blocking {
    const struct schedule *schedule;
    size_t *positions;    // per rank: where it stands
    const uint32_t *queue_of;  // per channel: the queue it shares with others; NULL: each has its own
    uint32_t *under_way;       // per queue
    struct copies copies;
    uint32_t *waiting;    // per stage: how many of its copies stand at a REDUCE
    bool *waits;          // per rank: whether it is one of them
    uint8_t *reached;     // of groups, per message: at how many of its ends a rank stands, or has stood
    uint32_t *pending;    // per rank: messages of its group that are not exchanged yet
    uint32_t *stack;      // of ranks that may be able to go on
    bool *queued;
    uint32_t height;
};

// From a stage to a neighbour, on one route.
static inline size_t channel_of(const struct schedule *schedule, struct action message)
{
    const bool forward = message.kind == ACTION_SEND_F || message.kind == ACTION_RECV_F;
    const bool upper = message.kind == ACTION_RECV_F || message.kind == ACTION_SEND_B;
    const size_t boundary = message.stage - (size_t)upper;
    return ((size_t)schedule->route_of[message.micro_batch] * schedule->stages + boundary) * 2 + !forward;
}

static inline size_t channels_of(const struct schedule *schedule)
{
    return (size_t)schedule->route_count * schedule->stages * 2;
}

// Both ends of a message have the same number: that of the unit which receives it,
// and the direction.
static inline size_t message_number(const struct schedule *schedule, struct action message)
{
    const bool back = message.kind == ACTION_SEND_B || message.kind == ACTION_RECV_B;
    if (is_send(message))
        message.stage = (uint16_t)(back ? message.stage - 1 : message.stage + 1);
    return 2 * unit_of(schedule, message) + back;
}

// The lists must hold nothing that a board refuses, and receive each channel's, or
// queue's, messages in the order in which they are sent. `capacity` counts what is
// under way in a queue; there are no more queues than channels.
bool blocking_create(struct blocking *blocking, const struct schedule *lowered, struct error *error);
void blocking_clear(struct blocking *blocking);

// Whether all ranks come to their ends; if not, `positions` says where they stand.
bool blocking_run(struct blocking *blocking, uint32_t capacity);
// The same with messages in groups and no buffers. Who stands does so at the first
// message of a group that is not exchanged.
bool blocking_run_grouped(struct blocking *blocking);

#endif
