// Messages between the members of ranks that are groups of devices, for what they exchange (transport/exchange.h).
// All members are threads of this process, on one device.
#ifndef RUNTIME_SHARDS_MEMBER_MESSAGES_H
#define RUNTIME_SHARDS_MEMBER_MESSAGES_H

#include "runtime/transport/exchange.h"

struct member_messages;

struct member_messages_settings {
    const struct schedule *schedule;  // any with the run's routes; needed only while they are made
    uint32_t members;
    struct device *device;
    const struct exchange_part *parts;  // what members exchange, ascending
    size_t part_count;
    const struct link *link;  // between every two members, as if they were apart; NULL: messages take no time
};

// Copies the parts, and borrows the device. NULL with the reason if there is no memory.
struct member_messages *member_messages_create(const struct member_messages_settings *settings, struct error *error);
void member_messages_free(struct member_messages *messages);

// Sets what a rank's member needs of them: parts, members, and its end.
void member_messages_join(struct member_messages *messages, uint32_t member, struct exchange_settings *settings);

#endif
