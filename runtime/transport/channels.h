// The channels of a schedule: one for each edge between neighbouring stages, each route and each direction. They are
// numbered by a formula that every rank can compute by itself:
//
//     stage 0   --- channel 0 (F) -->   stage 1   --- channel 2 (F) -->   stage 2
//               <-- channel 1 (B) ---             <-- channel 3 (B) ---
//
// A second route adds 2 (S - 1) more. Neighbours on one rank exchange no messages; their channels exist and stay
// empty. If sequences are split, each split is a message of its own, with its share of the bytes.
#ifndef RUNTIME_TRANSPORT_CHANNELS_H
#define RUNTIME_TRANSPORT_CHANNELS_H

#include "runtime/stages/stage.h"
#include "schedules/cost_part.h"

struct channel {
    uint32_t from, to;   // ranks
    uint64_t bytes;      // of one message
    uint64_t messages;   // in one pass through the schedule
};

uint32_t channel_count(const struct schedule *schedule);

// The index of a split of a micro-batch among all those of a stage.
static inline size_t part_place(const struct schedule *schedule, struct action action)
{
    return (size_t)action.micro_batch * schedule->splits + action.split;
}

static inline size_t parts_of(const struct schedule *schedule)
{
    return (size_t)schedule->micro_batches * schedule->splits;
}

// Bytes that hold any one split of something.
static inline uint64_t largest_part(uint64_t whole, uint32_t splits)
{
    return whole / splits + (whole % splits > 0);
}

// For a SEND or a RECV: its channel, and the rank at the other end.
uint32_t channel_of(const struct schedule *schedule, struct action action);
uint32_t channel_peer(const struct schedule *schedule, struct action action);

// The stage that produced the data of a SEND or RECV.
uint32_t channel_source(struct action action);

// The sending and the receiving rank of a channel, by the schedule's routes.
struct channel_ends {
    uint32_t from, to;
};
struct channel_ends channel_ends(const struct schedule *schedule, uint32_t channel);

// All channels, channel_count() of them; the caller frees the array. A gradient is as large as the output that it
// belongs to.
struct channel *channels_create(const struct schedule *lowered, const struct stage *stages, struct error *error);

#endif
