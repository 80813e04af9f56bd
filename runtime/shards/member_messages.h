// Messages between the members of ranks that are groups of devices, for what they exchange (transport/exchange.h). All
// members are threads of this process on one device, or each has a device of its own (rank_grid.h), and then a session
// opens communicators for them (transport/wired).
#ifndef RUNTIME_SHARDS_MEMBER_MESSAGES_H
#define RUNTIME_SHARDS_MEMBER_MESSAGES_H

#include "runtime/groups/rank_grid.h"
#include "runtime/transport/exchange.h"

struct member_messages;

struct member_messages_settings {
    const struct schedule *schedule;  // any with the run's routes; needed only while they are made
    uint32_t members;
    struct device *device;
    const struct rank_grid *grid;  // if members have a device each; NULL: they are threads
    const struct link *link;  // between every two threads, as if they were apart; NULL: messages take no time
    const struct exchange_part *parts;  // what members exchange, ascending
    size_t part_count;
};

// Copies the parts, and borrows grid and device. NULL with the reason if there is no memory.
struct member_messages *member_messages_create(const struct member_messages_settings *settings, struct error *error);
void member_messages_free(struct member_messages *messages);

// One member's end, for a session.
struct member_end;

// Sets what a rank's member needs of the messages: parts, members, and what is between them. Schedule, rank and device
// are set already. With a grid, all of its places must call this together. NULL with the reason.
struct member_end *member_end_open(struct member_messages *messages, uint32_t member,
                                   struct exchange_settings *settings, struct error *error);
void member_end_close(struct member_end *end);  // when nothing uses the settings any more

#endif
