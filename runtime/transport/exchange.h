// Messages from a rank to itself, in schedules that exchange (schedule.h). All other messages pass through.
//
// The ranks of a schedule may be groups of devices, whose members have samples of their own (decision 096). Such a
// message is then an all-to-all among the members, in the parts of it that are named. Share i of a part goes to member
// i, and comes from there:
//
//     member 0   sends     | a0 | a1 |  rest 0         member 0   receives   | a0 | b0 |  rest 0
//     member 1   sends     | b0 | b1 |  rest 1         member 1   receives   | a1 | b1 |  rest 1
//
// Shares for other members take a transport between members, and what stays is copied on a queue of its own.
//
// Or a part has rows of tokens, which go to the members that have their experts, or back (device/row_exchange.h). There
// are as many as the counts say that the message itself carries. The host fetches them as soon as both ends are posted.
#ifndef RUNTIME_TRANSPORT_EXCHANGE_H
#define RUNTIME_TRANSPORT_EXCHANGE_H

#include "device/row_exchange.h"
#include "runtime/transport/channels.h"
#include "runtime/transport/transport.h"

// Rows in the place of equal shares: packed by expert, before the exchange and behind it.
struct exchange_rows {
    uint32_t experts;     // 0: shares are equal
    uint64_t counts_at;   // where counts begin in the message, [members][experts] of int32_t
    uint64_t row_bytes, room;  // room: the most rows that a member's experts take
    bool is_back;         // outputs come back from the experts, and gradients go to them; else the other way
    uint8_t owners[ROUTER_EXPERTS];
};

// Bytes of a message between two stages, which begin at `first`: a share for each member, or one share with all rows.
struct exchange_part {
    uint32_t boundary;  // the lower stage
    uint64_t first, share;
    struct exchange_rows rows;
};

// What takes a channel's shares from member to member. Its channels are numbered by exchange_channel(), from `first`
// on.
struct exchange_between {
    struct transport *transport;
    uint32_t first;
};

struct exchange_settings {
    const struct schedule *schedule;  // lowered
    uint32_t rank;
    struct device *device;
    struct transport *others;  // for all messages that do not go from a rank to itself
    // What members exchange. With one member there is no part, and no transport
    uint32_t member, members;
    const struct exchange_part *parts;  // ascending
    size_t part_count;
    const struct exchange_between *between;  // by channel of the schedule
    uint64_t deadline_ns;  // for the counts of rows; 0: ten minutes
};

struct exchange;

// All is borrowed but the parts. NULL without memory.
struct exchange *exchange_create(const struct exchange_settings *settings, struct error *error);
void exchange_free(struct exchange *exchange);
struct transport *exchange_transport(struct exchange *exchange);  // borrowed

// The parts of messages between stages `boundary` and boundary + 1, among the ascending parts of all messages.
struct exchange_range {
    size_t first, end;
};
struct exchange_range exchange_parts_of(const struct exchange_part *parts, size_t part_count, uint32_t boundary);

// The channel between members of a share, or of the rows from one to the other. `part` counts from the first
// part of its message. Two stages are its ends, which no other channel has: 0 and 1, 2 and 3, and so on. So its number
// is that of channels.h, in a schedule of all these stages.
static inline uint32_t exchange_channel(size_t part, uint32_t members, uint32_t from, uint32_t to)
{
    return 4 * (((uint32_t)part * members + from) * members + to);
}

#endif
