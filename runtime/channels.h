// The channels of a schedule: one per edge between neighbouring stages, route and
// direction, numbered by a formula that every rank can work out for itself:
//
//     stage 0   --- channel 0 (F) -->   stage 1   --- channel 2 (F) -->   stage 2
//               <-- channel 1 (B) ---             <-- channel 3 (B) ---
//
// A second route adds 2 (S - 1) more. Neighbours on one rank exchange nothing;
// their channels are there and stay empty. Where sequences are split, each split is
// a message of its own, with its share of the bytes.
#ifndef RUNTIME_CHANNELS_H
#define RUNTIME_CHANNELS_H

#include "runtime/stage.h"
#include "schedules/cost_part.h"

struct channel {
    uint32_t from, to;   // ranks
    uint64_t bytes;      // of one message
    uint64_t messages;   // in one pass through the schedule
};

uint32_t channel_count(const struct schedule *schedule);

// Of a split of a micro-batch: its place among those of a stage.
static inline size_t part_place(const struct schedule *schedule, struct action action)
{
    return (size_t)action.micro_batch * schedule->splits + action.split;
}

static inline size_t parts_of(const struct schedule *schedule)
{
    return (size_t)schedule->micro_batches * schedule->splits;
}

// Bytes that hold any split of something.
static inline uint64_t largest_part(uint64_t whole, uint32_t splits)
{
    return whole / splits + (whole % splits > 0);
}

// Of a SEND or a RECV: its channel, and the rank at the other end.
uint32_t channel_of(const struct schedule *schedule, struct action action);
uint32_t channel_peer(const struct schedule *schedule, struct action action);

// The stage that a SEND or RECV takes its data from, in the sense of who made it.
uint32_t channel_source(struct action action);

// The ranks that a channel joins, as the schedule's routes have it.
struct channel_ends {
    uint32_t from, to;
};
struct channel_ends channel_ends(const struct schedule *schedule, uint32_t channel);

// All of them, channel_count() long; the caller frees. A gradient is as large as
// the output it belongs to.
struct channel *channels_create(const struct schedule *lowered, const struct stage *stages, struct error *error);

#endif
