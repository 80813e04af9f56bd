#include "runtime/shards/member_messages.h"

#include <stdlib.h>

#include "common/number.h"
#include "runtime/transport/threads.h"

struct member_messages {
    uint32_t members;
    struct exchange_part *parts;
    size_t part_count;
    struct threads *threads;
};

// Rank r's member m is end r * members + m. Every two members have a channel each way.
static struct channel *channels_of_members(const struct member_messages_settings *settings, uint32_t *count,
                                           struct error *error)
{
    enum { MANY = 1 << 16 };  // messages; there is no room to make for them
    const struct schedule *schedule = settings->schedule;
    const uint32_t members = settings->members;
    *count = channel_count(schedule) * members * members;
    struct channel *channels = calloc(*count + 1u, sizeof *channels);
    uint64_t largest = 0;
    for (size_t i = 0; i < settings->part_count; i++)
        largest = max_u64(largest, settings->parts[i].share);
    if (!channels) {
        error_no_memory(error, "the messages between members");
        return NULL;
    }
    for (uint32_t channel = 0; channel < channel_count(schedule); channel++) {
        const struct channel_ends ends = channel_ends(schedule, channel);
        for (uint32_t from = 0; from < members; from++)
            for (uint32_t to = 0; to < members; to++)
                channels[exchange_channel(channel, members, from, to)] = (struct channel){
                    .from = ends.from * members + from, .to = ends.to * members + to,
                    .bytes = largest, .messages = ends.from == ends.to && from != to ? MANY : 0,
                };
    }
    return channels;
}

static bool open_threads(struct member_messages *messages, const struct member_messages_settings *settings,
                         struct error *error)
{
    const uint32_t ends = settings->schedule->ranks * settings->members;
    uint32_t count;
    struct channel *channels = channels_of_members(settings, &count, error);
    struct network *network = settings->link && channels ? network_uniform(ends, *settings->link, error) : NULL;
    const struct threads_settings threads = { .network = network, .device = settings->device };
    if (channels && (network || !settings->link))
        messages->threads = threads_create(ends, channels, count, &threads, error);
    if (messages->threads)
        threads_begin(messages->threads);  // and no end leaves
    network_free(network);
    free(channels);
    return messages->threads != NULL;
}

struct member_messages *member_messages_create(const struct member_messages_settings *settings, struct error *error)
{
    struct member_messages *messages = calloc(1, sizeof *messages);
    if (messages)
        *messages = (struct member_messages){ .members = settings->members, .part_count = settings->part_count,
                                              .parts = calloc(settings->part_count + 1, sizeof *messages->parts) };
    if (!messages || !messages->parts) {
        member_messages_free(messages);
        error_no_memory(error, "the messages between members");
        return NULL;
    }
    for (size_t i = 0; i < settings->part_count; i++)
        messages->parts[i] = settings->parts[i];
    if (open_threads(messages, settings, error))
        return messages;
    member_messages_free(messages);
    return NULL;
}

void member_messages_free(struct member_messages *messages)
{
    if (!messages)
        return;
    threads_free(messages->threads);
    free(messages->parts);
    free(messages);
}

void member_messages_join(struct member_messages *messages, uint32_t member, struct exchange_settings *settings)
{
    settings->member = member;
    settings->members = messages->members;
    settings->parts = messages->parts;
    settings->part_count = messages->part_count;
    settings->between = threads_transport(messages->threads, settings->rank * messages->members + member);
}
