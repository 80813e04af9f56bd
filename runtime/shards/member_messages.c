#include "runtime/shards/member_messages.h"

#include <stdlib.h>

#include "runtime/groups/agreement.h"
#include "runtime/transport/threads.h"
#include "runtime/transport/wired/wired.h"
#include "schedules/board.h"

struct member_messages {
    uint32_t members;
    struct exchange_part *parts;
    size_t part_count;
    const struct rank_grid *grid;
    struct threads *threads;  // without a grid: the ends of all ranks' members
};

struct member_end {
    struct exchange_between *between;  // by channel of the session's schedule
    // With a grid: the messages between members as a schedule whose ranks are all places. Its stages are the ends of
    // the members' channels
    struct schedule *order;
    struct placement *placement;
    struct wired *wired;
    struct device *device;
};

// How many numbers the channels between members have, of one channel of the run's schedule: as many as the message with
// most parts needs.
static uint32_t numbers_of(const struct exchange_part *parts, size_t part_count, uint32_t members)
{
    size_t most = 0;
    for (size_t i = 0; i < part_count;) {
        const struct exchange_range range = exchange_parts_of(parts, part_count, parts[i].boundary);
        most = range.end - range.first > most ? range.end - range.first : most;
        i = range.end;
    }
    return exchange_channel(most, members, 0, 0);
}

static struct exchange_range parts_of_channel(const struct schedule *schedule, const struct exchange_part *parts,
                                              size_t part_count, uint32_t channel)
{
    return exchange_parts_of(parts, part_count, channel / 2 % (schedule->stages - 1));
}

// --- threads -----------------------------------------------------------------------------

// Rank r's member m is end r * members + m. Every two members have a channel each way.
static struct channel *channels_of_members(const struct member_messages_settings *settings, uint32_t *count,
                                           struct error *error)
{
    // More messages of a channel than are under way. A device that runs ahead has an event for each, and uses it again
    // for the message so many later
    enum { MANY = 1 << 10 };
    const struct schedule *schedule = settings->schedule;
    const uint32_t members = settings->members, each = numbers_of(settings->parts, settings->part_count, members);
    *count = channel_count(schedule) * each;
    struct channel *channels = calloc(*count + 1u, sizeof *channels);
    if (!channels)
        return error_null(error_no_memory(error, "the messages between members"));
    for (uint32_t channel = 0; channel < channel_count(schedule); channel++) {
        const struct channel_ends ends = channel_ends(schedule, channel);
        const struct exchange_range range = parts_of_channel(schedule, settings->parts, settings->part_count, channel);
        for (size_t part = range.first; part < range.end; part++)
            for (uint32_t from = 0; from < members; from++)
                for (uint32_t to = 0; to < members; to++) {
                    const uint32_t number = exchange_channel(part - range.first, members, from, to);
                    channels[channel * each + number] = (struct channel){
                        .from = ends.from * members + from, .to = ends.to * members + to,
                        .bytes = settings->parts[part].share,
                        .messages = ends.from == ends.to && from != to ? MANY : 0,
                    };
                }
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

// --- a device each -------------------------------------------------------------------------

// What orders of members are made with.
struct ordering {
    const struct member_messages *messages;
    const struct schedule *schedule;
    struct schedule *order;
};

// A message from a rank to itself.
struct own_message {
    uint32_t rank, channel, micro_batch;
};

// One end of what goes from one member to another of a part.
static bool add_end(const struct ordering *with, const struct own_message *message, bool sends, size_t part,
                    uint32_t from, uint32_t to, struct error *error)
{
    const struct member_messages *messages = with->messages;
    const uint32_t first =
        message->channel * numbers_of(messages->parts, messages->part_count, messages->members);
    const uint32_t stage = (first + exchange_channel(part, messages->members, from, to)) / 2;
    const uint32_t sender = rank_grid_place(messages->grid, message->rank, from);
    const uint32_t receiver = rank_grid_place(messages->grid, message->rank, to);
    const struct action end = { .stage = sends ? stage : stage + 1, .micro_batch = message->micro_batch,
                                .kind = sends ? ACTION_SEND_F : ACTION_RECV_F };
    with->order->routes[stage] = sender;
    with->order->routes[stage + 1] = receiver;
    return schedule_add(with->order, sends ? sender : receiver, end, error);
}

static bool add_shares(const struct ordering *with, const struct own_message *message, bool sends, size_t part,
                       struct error *error)
{
    const uint32_t members = with->messages->members;
    bool good = true;
    for (uint32_t from = 0; good && from < members; from++)
        for (uint32_t to = 0; good && to < members; to++)
            good = from == to || add_end(with, message, sends, part, from, to, error);
    return good;
}

// Equal shares are posted where their end is. Rows are posted from both ends, at the later one.
static bool add_message(const struct ordering *with, const struct own_message *message, bool sends, bool is_later,
                        struct error *error)
{
    const struct member_messages *messages = with->messages;
    const struct exchange_range range =
        parts_of_channel(with->schedule, messages->parts, messages->part_count, message->channel);
    bool good = true;
    for (size_t i = range.first; good && i < range.end; i++)
        good = messages->parts[i].rows.experts > 0 || add_shares(with, message, sends, i - range.first, error);
    for (size_t i = range.first; good && is_later && i < range.end; i++)
        good = messages->parts[i].rows.experts == 0
            || (add_shares(with, message, true, i - range.first, error)
                && add_shares(with, message, false, i - range.first, error));
    return good;
}

static bool add_messages(const struct ordering *with, uint32_t rank, struct error *error)
{
    const struct action_list *list = &with->schedule->lists[rank];
    uint64_t(*posted)[2] = calloc(channel_count(with->schedule) + 1u, sizeof *posted);  // receives, sends
    bool good = posted || error_no_memory(error, "the messages between members");
    for (size_t i = 0; good && i < list->count; i++) {
        const struct action is = list->at[i];
        if (!is_message(is) || channel_peer(with->schedule, is) != rank)
            continue;
        const bool sends = is_send(is);
        const struct own_message message = { rank, channel_of(with->schedule, is), is.micro_batch };
        const uint64_t number = posted[message.channel][sends]++;
        good = add_message(with, &message, sends, number < posted[message.channel][!sends], error);
    }
    free(posted);
    return good;
}

static struct schedule *order_of_members(const struct member_messages *messages, const struct schedule *schedule,
                                         struct error *error)
{
    const uint32_t stages =
        channel_count(schedule) * numbers_of(messages->parts, messages->part_count, messages->members) / 2;
    const struct ordering with = { messages, schedule,
                                   schedule_create("members", WEIGHTS_FLUSH, messages->grid->group->ranks, stages,
                                                   schedule->micro_batches, error) };
    bool good = with.order != NULL;
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++)
        good = add_messages(&with, rank, error);
    if (!good) {
        schedule_free(with.order);
        return NULL;
    }
    with.order->lowered = true;
    return with.order;
}

static bool open_wires(struct member_end *end, const struct member_messages *messages,
                       const struct exchange_settings *settings, struct error *error)
{
    const struct process_group *group = messages->grid->group;
    end->order = order_of_members(messages, settings->schedule, error);
    end->placement = end->order ? placement_read(end->order, error) : NULL;
    const struct wired_settings wired = { .schedule = end->order, .placement = end->placement,
                                          .device = settings->device, .group = group };
    if (ranks_all_good(group, end->placement != NULL, error))
        end->wired = wired_create(&wired, error);
    return end->wired != NULL;
}

// --- both ------------------------------------------------------------------------------------

struct member_messages *member_messages_create(const struct member_messages_settings *settings, struct error *error)
{
    struct member_messages *messages = calloc(1, sizeof *messages);
    if (messages)
        *messages = (struct member_messages){ .members = settings->members, .part_count = settings->part_count,
                                              .parts = calloc(settings->part_count + 1, sizeof *messages->parts),
                                              .grid = settings->grid };
    if (!messages || !messages->parts) {
        member_messages_free(messages);
        return error_null(error_no_memory(error, "the messages between members"));
    }
    for (size_t i = 0; i < settings->part_count; i++)
        messages->parts[i] = settings->parts[i];
    if (settings->grid || open_threads(messages, settings, error))
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

struct member_end *member_end_open(struct member_messages *messages, uint32_t member,
                                   struct exchange_settings *settings, struct error *error)
{
    const uint32_t channels = channel_count(settings->schedule);
    const uint32_t each = numbers_of(messages->parts, messages->part_count, messages->members);
    struct member_end *end = calloc(1, sizeof *end);
    if (end)
        *end = (struct member_end){ .between = calloc(channels + 1u, sizeof end->between[0]),
                                    .device = settings->device };
    bool good = (end && end->between) || error_no_memory(error, "the messages between members");
    good = ranks_all_good(messages->grid ? messages->grid->group : NULL, good, error)
        && (!messages->grid || open_wires(end, messages, settings, error));
    if (!good) {
        member_end_close(end);
        return NULL;
    }
    struct transport *transport = end->wired ? wired_transport(end->wired)
                                : threads_transport(messages->threads, settings->rank * messages->members + member);
    for (uint32_t channel = 0; channel < channels; channel++)
        end->between[channel] = (struct exchange_between){ transport, channel * each };
    settings->member = member;
    settings->members = messages->members;
    settings->parts = messages->parts;
    settings->part_count = messages->part_count;
    settings->between = end->between;
    return end;
}

void member_end_close(struct member_end *end)
{
    if (!end)
        return;
    if (end->wired && !device_is_stuck(end->device))
        wired_free(end->wired);
    placement_free(end->placement);
    schedule_free(end->order);
    free(end->between);
    free(end);
}
