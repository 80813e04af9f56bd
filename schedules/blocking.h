// Runs a lowered schedule (one with SENDs and RECVs) in the strictest model of execution (check.h). A rank does one
// thing at a time, in the order of its list, and
//
//     SEND   ends when its RECV is reached, or fewer than `capacity` messages of its channel are under way
//     RECV   ends when its message is there
//     REDUCE ends when every copy of its stage has reached its own
//
// A message from a rank to itself stops neither end: the rank does not wait for itself.
//
// In the grouped model (NCCL's ncclGroupStart, PyTorch's batch_isend_irecv) consecutive messages form a group. Each
// of its messages is exchanged when both of its ends are reached:
//
//     0F1 [0SEND_F1 2RECV_F0] 2F0      consecutive messages are reached together,
//                                      and the rank continues when all of them are exchanged
//
// The order in which the ranks are advanced does not matter: they always come equally far, since an action that is
// possible stays possible until its rank does it.
#ifndef SCHEDULES_BLOCKING_H
#define SCHEDULES_BLOCKING_H

#include "common/arrays.h"
#include "schedules/board.h"

struct blocking {
    const struct schedule *schedule;
    size_t *positions;    // per rank: its position in its list
    const uint32_t *queue_of;  // per channel: the queue that it shares; NULL: each channel has its own
    uint32_t *under_way;       // per queue: messages that are sent and not received yet
    struct copies copies;
    uint32_t *waiting;    // per stage: how many of its copies have arrived at a REDUCE
    bool *waits;          // per rank: whether it is one of those that wait at a REDUCE
    uint8_t *reached;     // per message, in groups: at how many of its ends a rank is, or has been
    uint32_t *pending;    // per rank: messages of its current group that are not exchanged yet
    uint32_t *stack;      // ranks that may be able to continue
    bool *queued;
    uint32_t height;
    struct arrays arrays;  // all of these but queue_of
};

// The channel of a message: from a stage to a neighbour, on one route.
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

// Both ends of a message have the same number. It consists of the unit that receives the message, and the direction.
static inline size_t message_number(const struct schedule *schedule, struct action message)
{
    const bool back = message.kind == ACTION_SEND_B || message.kind == ACTION_RECV_B;
    if (is_send(message))
        message.stage = (uint16_t)(back ? message.stage - 1 : message.stage + 1);
    return 2 * unit_of(schedule, message) + back;
}

// The lists must contain nothing that a board refuses (board.h). They must receive the messages of each channel, or
// queue, in the order in which they are sent. A capacity limits the messages under way in a queue. There are no more
// queues than channels. Returns false if memory runs out.
bool blocking_create(struct blocking *blocking, const struct schedule *lowered, struct error *error);
void blocking_clear(struct blocking *blocking);

// Returns whether all ranks reach the ends of their lists. If not, `positions` says where each of them stopped.
bool blocking_run(struct blocking *blocking, uint32_t capacity);
// The same with messages in groups and no buffers. A rank that cannot continue is then at the first message of its
// group that is not exchanged.
bool blocking_run_grouped(struct blocking *blocking);

#endif
