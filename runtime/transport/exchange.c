#include "runtime/transport/exchange.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/number.h"
#include "common/pause.h"
#include "schedules/board.h"

static const uint64_t usual_deadline_ns = 600u * (uint64_t)1000000000;

// One end of a message from the rank to itself.
struct post_end {
    struct ticket *ticket;  // of the rank; NULL: it was cancelled, or is done
    struct ticket *shares;  // for those that go to other members, or come from them; rows come last
    size_t posted;          // how many of these
    struct message_piece *runs;  // of rows, by part and then by the other member
    struct message_header header;
    void *data;
    uint64_t bytes;
    struct event *after, *moved;
    bool is_copied;  // what stays on the member
};

// The messages of a channel, in their order. Message k of a run is at k % room.
struct lane {
    uint64_t posted[2];       // receives, sends
    struct post_end *ends[2];
    uint64_t room;
    struct exchange_range parts;
};

struct exchange {
    struct transport transport;  // first, so that a pointer to it is a pointer to the exchange
    struct exchange_settings settings;
    struct exchange_part *parts;
    struct lane *lanes;          // by channel; those between ranks have no room
    struct queue *queue;
    struct queue *counting;      // fetches the counts of rows
    struct transport *awaited;   // between members; NULL: the last ticket that was tested waits for nothing of them
};

// --- making ------------------------------------------------------------------------------

static bool is_own(const struct exchange *exchange, uint32_t channel)
{
    return exchange->lanes[channel].room > 0;
}

struct exchange_range exchange_parts_of(const struct exchange_part *parts, size_t part_count, uint32_t boundary)
{
    struct exchange_range range = { .first = 0 };
    while (range.first < part_count && parts[range.first].boundary < boundary)
        range.first++;
    range.end = range.first;
    while (range.end < part_count && parts[range.end].boundary == boundary)
        range.end++;
    return range;
}

static uint32_t boundary_of(const struct exchange *exchange, uint32_t channel)
{
    return channel / 2 % (exchange->settings.schedule->stages - 1);
}

// Whether a channel's message brings rows back from the experts.
static bool is_back(const struct exchange_part *part, uint32_t channel)
{
    return part->rows.is_back != (channel % 2 == 1);
}

// How many runs of rows go to another member, or come from it: one for each expert of the end that has the experts.
static size_t runs_with(const struct exchange *exchange, const struct exchange_part *part, uint32_t channel, bool sends,
                        uint32_t peer)
{
    const uint32_t owner = sends == is_back(part, channel) ? exchange->settings.member : peer;
    size_t runs = 0;
    for (uint32_t e = 0; e < part->rows.experts; e++)
        runs += part->rows.owners[e] == owner;
    return peer == exchange->settings.member ? 0 : runs;
}

static size_t all_runs(const struct exchange *exchange, uint32_t channel, bool sends)
{
    const struct exchange_range *parts = &exchange->lanes[channel].parts;
    size_t runs = 0;
    for (size_t i = parts->first; i < parts->end; i++)
        for (uint32_t peer = 0; peer < exchange->settings.members; peer++)
            runs += runs_with(exchange, &exchange->settings.parts[i], channel, sends, peer);
    return runs;
}

// The number of shares of a message that go to other members, or come from them. All rows of a member are one.
static size_t shares_of(const struct exchange *exchange, uint32_t channel)
{
    const struct exchange_range *parts = &exchange->lanes[channel].parts;
    return (parts->end - parts->first) * (exchange->settings.members - 1);
}

static bool open_lane(const struct exchange *exchange, uint32_t channel, uint64_t room, struct error *error)
{
    const struct exchange_settings *settings = &exchange->settings;
    struct lane *lane = &exchange->lanes[channel];
    lane->room = room;
    lane->parts = exchange_parts_of(settings->parts, settings->part_count, boundary_of(exchange, channel));
    for (int sends = 0; sends < 2; sends++) {
        const size_t runs = all_runs(exchange, channel, sends);
        lane->ends[sends] = calloc(room, sizeof *lane->ends[sends]);
        for (uint64_t i = 0; i < room; i++) {
            struct post_end *end = lane->ends[sends] ? &lane->ends[sends][i] : NULL;
            if (!end || !(end->shares = calloc(shares_of(exchange, channel) + 1, sizeof *end->shares))
                || !(end->runs = calloc(runs + 1, sizeof *end->runs)))
                return error_no_memory(error, "the messages of a rank to itself");
            if (!(end->moved = event_create(exchange->settings.device, error)))
                return false;
        }
    }
    return true;
}

static bool open_lanes(struct exchange *exchange, struct error *error)
{
    const struct schedule *schedule = exchange->settings.schedule;
    const struct action_list *list = &schedule->lists[exchange->settings.rank];
    uint64_t *messages = calloc(channel_count(schedule) + 1, sizeof *messages);
    exchange->lanes = calloc(channel_count(schedule) + 1, sizeof *exchange->lanes);
    bool good = (messages && exchange->lanes) || error_no_memory(error, "the messages of a rank to itself");
    for (size_t i = 0; good && i < list->count; i++)
        if (is_send(list->at[i])
            && channel_peer(schedule, list->at[i]) == exchange->settings.rank)
            messages[channel_of(schedule, list->at[i])]++;
    for (uint32_t channel = 0; good && channel < channel_count(schedule); channel++)
        good = messages[channel] == 0 || open_lane(exchange, channel, messages[channel], error);
    free(messages);
    return good;
}

static const struct transport_functions exchange_functions;

struct exchange *exchange_create(const struct exchange_settings *settings, struct error *error)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange) {
        error_no_memory(error, "the messages of a rank to itself");
        return NULL;
    }
    exchange->transport = (struct transport){ .functions = &exchange_functions, .rank = settings->rank };
    exchange->settings = *settings;
    if (settings->deadline_ns == 0)
        exchange->settings.deadline_ns = usual_deadline_ns;
    exchange->parts = calloc(settings->part_count + 1, sizeof *exchange->parts);
    for (size_t i = 0; exchange->parts && i < settings->part_count; i++)
        exchange->parts[i] = settings->parts[i];
    exchange->settings.parts = exchange->parts;
    if ((exchange->parts || error_no_memory(error, "the messages of a rank to itself"))
        && (exchange->queue = queue_create(settings->device, error))
        && (exchange->counting = queue_create(settings->device, error)) && open_lanes(exchange, error))
        return exchange;
    exchange_free(exchange);
    return NULL;
}

void exchange_free(struct exchange *exchange)
{
    if (!exchange)
        return;
    for (uint32_t channel = 0; exchange->lanes && channel < channel_count(exchange->settings.schedule); channel++)
        for (int sends = 0; sends < 2; sends++) {
            const struct lane *lane = &exchange->lanes[channel];
            for (uint64_t i = 0; lane->ends[sends] && i < lane->room; i++) {
                free(lane->ends[sends][i].shares);
                free(lane->ends[sends][i].runs);
                event_free(lane->ends[sends][i].moved);
            }
            free(lane->ends[sends]);
        }
    free(exchange->lanes);
    free(exchange->parts);
    queue_free(exchange->queue);
    queue_free(exchange->counting);
    free(exchange);
}

struct transport *exchange_transport(struct exchange *exchange)
{
    return &exchange->transport;
}

// The transport between members of a channel; NULL: nothing of it goes to another member.
static struct transport *between_of(const struct exchange *exchange, uint32_t channel)
{
    const struct exchange_settings *settings = &exchange->settings;
    return settings->part_count > 0 && is_own(exchange, channel) ? settings->between[channel].transport : NULL;
}

// What is posted on one of them may go on only when that one is asked.
static bool check_all(struct exchange *exchange, struct error *error)
{
    struct transport *others = exchange->settings.others;
    bool good = others->functions->check(others, error);
    bool held = others->is_held;
    const struct transport *checked = NULL;  // most channels have the same one
    for (uint32_t channel = 0; good && channel < channel_count(exchange->settings.schedule); channel++) {
        struct transport *between = between_of(exchange, channel);
        if (!between || between == checked)
            continue;
        good = between->functions->check(between, error);
        held |= between->is_held;
        checked = between;
    }
    exchange->transport.is_held = held;
    return good;
}

// --- what stays on the member ------------------------------------------------------------

static void copy_range(const struct exchange *exchange, const struct post_end *to, const struct post_end *from,
                       uint64_t first, uint64_t end)
{
    if (first < end)
        queue_copy(exchange->queue, (char *)to->data + first, (const char *)from->data + first, end - first);
}

// All but the shares of other members, and rows.
static void copy_rest(const struct exchange *exchange, const struct exchange_range *parts, const struct post_end *to,
                      const struct post_end *from)
{
    const struct exchange_settings *settings = &exchange->settings;
    uint64_t done = 0;
    for (size_t i = parts->first; i < parts->end; i++) {
        const struct exchange_part *part = &settings->parts[i];
        const uint64_t own = part->first + settings->member * part->share;
        copy_range(exchange, to, from, done, part->first);
        if (part->rows.experts == 0)
            copy_range(exchange, to, from, own, own + part->share);
        done = part->first + (part->rows.experts > 0 ? 1 : settings->members) * part->share;
    }
    copy_range(exchange, to, from, done, to->bytes);
}

static bool is_expected(const struct exchange *exchange, const struct post_end *to, const struct post_end *from,
                        struct error *error)
{
    const struct message_header *met = &from->header, *want = &to->header;
    if (met->step == want->step && met->micro_batch == want->micro_batch && met->split == want->split
        && met->version == want->version && from->bytes == to->bytes)
        return true;
    return error_set_kind(error, ERROR_MACHINE, "rank %u: micro-batch %u of step %llu came to itself where micro-batch"
                          " %u of step %llu was expected", exchange->settings.rank, met->micro_batch,
                          (unsigned long long)met->step, want->micro_batch, (unsigned long long)want->step);
}

// --- posting -----------------------------------------------------------------------------

static uint32_t channel_with(const struct exchange *exchange, uint32_t channel, bool sends, size_t number,
                             uint32_t peer)
{
    const struct exchange_settings *settings = &exchange->settings;
    return settings->between[channel].first
         + exchange_channel(number, settings->members, sends ? settings->member : peer,
                            sends ? peer : settings->member);
}

static bool post_share(struct exchange *exchange, uint32_t channel, struct post_end *end, bool sends, size_t number,
                       uint32_t peer, struct error *error)
{
    const struct exchange_settings *settings = &exchange->settings;
    const struct exchange_part *part = &settings->parts[exchange->lanes[channel].parts.first + number];
    struct transport *between = settings->between[channel].transport;
    struct ticket *ticket = &end->shares[end->posted++];
    char *data = (char *)end->data + part->first + peer * part->share;
    const uint32_t there = channel_with(exchange, channel, sends, number, peer);
    const struct transport_functions *functions = between->functions;
    return sends ? functions->post_send(between, there, data, part->share, end->header, end->after, ticket, error)
                 : functions->post_receive(between, there, data, part->share, end->header, end->after, ticket, error);
}

static bool post_shares(struct exchange *exchange, uint32_t channel, struct post_end *end, bool sends,
                        struct error *error)
{
    const struct exchange_settings *settings = &exchange->settings;
    const struct exchange_range *parts = &exchange->lanes[channel].parts;
    bool good = true;
    for (size_t i = parts->first; i < parts->end; i++) {
        const struct exchange_part *part = &settings->parts[i];
        for (uint32_t peer = 0; good && part->rows.experts == 0 && peer < settings->members; peer++)
            good = peer == settings->member
                || post_share(exchange, channel, end, sends, i - parts->first, peer, error);
    }
    return good;
}

// --- rows --------------------------------------------------------------------------------

// An end of a part of rows, with the runs that go to each other member, or come from it.
struct row_end {
    struct post_end *end;
    struct message_piece *runs[ROW_MEMBERS];
    size_t counts[ROW_MEMBERS];
};

// A part of a message whose two ends are posted.
struct row_part {
    uint32_t channel;
    size_t number;
    const struct exchange_part *part;
    struct row_end ends[2];  // receives, sends
};

// Waits until the sender's bytes are there. Another member may be waiting for what is held here meanwhile.
static bool await_counts(struct exchange *exchange, const struct post_end *from, struct error *error)
{
    enum { LOOK_NS = 10000000 };
    const uint64_t begin_ns = clock_now_ns();
    char limit[NUMBER_SIZE];
    if (from->after)
        queue_wait_event(exchange->counting, from->after);
    while (!queue_is_done(exchange->counting)) {
        if (!check_all(exchange, error))
            return false;
        if (clock_now_ns() - begin_ns >= exchange->settings.deadline_ns)
            return error_set_kind(error, ERROR_MACHINE, "rank %u: the rows of micro-batch %u are not there after %s",
                                  exchange->settings.rank, from->header.micro_batch,
                                  time_format(exchange->settings.deadline_ns, limit));
        queue_wait_for(exchange->counting, exchange->transport.is_held ? SHORTEST_PAUSE_NS : LOOK_NS);
    }
    return true;
}

// Runs of this part are noted behind those of the parts before it.
static void open_runs(const struct exchange *exchange, struct row_part *rows, struct message_piece *next[2])
{
    for (int sends = 0; sends < 2; sends++)
        for (uint32_t peer = 0; peer < exchange->settings.members; peer++) {
            rows->ends[sends].runs[peer] = next[sends];
            next[sends] += runs_with(exchange, rows->part, rows->channel, sends, peer);
        }
}

static void *row_at(const struct row_part *rows, bool sends, uint64_t row)
{
    return (char *)rows->ends[sends].end->data + rows->part->first + row * rows->part->rows.row_bytes;
}

static bool has_room(const struct exchange *exchange, const struct row_part *rows, uint64_t row, uint64_t count,
                     struct error *error)
{
    const uint64_t most = rows->part->share / rows->part->rows.row_bytes;
    return (count <= most && row <= most - count)
        || error_set_kind(error, ERROR_MACHINE, "rank %u: a message has more than the %llu rows of tokens that it has"
                          " room for", exchange->settings.rank, (unsigned long long)most);
}

static bool note_run(const struct exchange *exchange, struct row_part *rows, bool sends, uint32_t peer, uint64_t row,
                     uint64_t count, struct error *error)
{
    struct row_end *end = &rows->ends[sends];
    if (!has_room(exchange, rows, row, count, error))
        return false;
    end->runs[peer][end->counts[peer]++] =
        (struct message_piece){ row_at(rows, sends, row), count * rows->part->rows.row_bytes };
    return true;
}

// Copies a run that stays here, and notes one that comes or goes.
static bool take_run(const struct exchange *exchange, struct row_part *rows, const struct row_run *run,
                     struct error *error)
{
    const uint32_t member = exchange->settings.member;
    if (run->from == member && run->to == member) {
        if (!has_room(exchange, rows, run->from_row, run->count, error)
            || !has_room(exchange, rows, run->to_row, run->count, error))
            return false;
        queue_copy(exchange->queue, row_at(rows, false, run->to_row), row_at(rows, true, run->from_row),
                   run->count * rows->part->rows.row_bytes);
        return true;
    }
    if (run->from == member)
        return note_run(exchange, rows, true, run->to, run->from_row, run->count, error);
    return run->to != member || note_run(exchange, rows, false, run->from, run->to_row, run->count, error);
}

static bool walk_rows(const struct exchange *exchange, struct row_part *rows, struct error *error)
{
    const struct exchange_rows *are = &rows->part->rows;
    const struct row_exchange how = {
        .kept = (const int32_t *)(const void *)((const char *)rows->ends[true].end->data + are->counts_at),
        .owners = are->owners, .experts = are->experts, .members = exchange->settings.members,
        .is_back = is_back(rows->part, rows->channel), .room = are->room, .member = exchange->settings.member,
    };
    struct row_walk walk;
    struct row_run run;
    bool good = row_walk_begin(&walk, exchange->counting, &how, error);
    while (good && row_walk_next(&walk, &run))
        good = run.count == 0 || take_run(exchange, rows, &run, error);
    return good;
}

// One message for each other member, even if no row goes there. So their order does not depend on counts.
static bool post_runs(const struct exchange *exchange, const struct row_part *rows, bool sends, struct error *error)
{
    const struct exchange_settings *settings = &exchange->settings;
    struct transport *between = settings->between[rows->channel].transport;
    const struct row_end *its = &rows->ends[sends];
    struct post_end *end = its->end;
    bool good = true;
    for (uint32_t peer = 0; good && peer < settings->members; peer++)
        good = peer == settings->member
            || between->functions->post_pieces(between, channel_with(exchange, rows->channel, sends, rows->number, peer),
                                               sends, its->runs[peer], its->counts[peer], end->header, end->after,
                                               &end->shares[end->posted++], error);
    return good;
}

static bool post_rows(struct exchange *exchange, uint32_t channel, struct post_end *to, struct post_end *from,
                      struct error *error)
{
    const struct exchange_range *parts = &exchange->lanes[channel].parts;
    struct message_piece *next[2] = { to->runs, from->runs };
    bool good = true;
    for (size_t i = parts->first; good && i < parts->end; i++) {
        struct row_part rows = { .channel = channel, .number = i - parts->first, .part = &exchange->settings.parts[i],
                                 .ends = { { .end = to }, { .end = from } } };
        if (rows.part->rows.experts == 0)
            continue;
        open_runs(exchange, &rows, next);
        good = await_counts(exchange, from, error) && walk_rows(exchange, &rows, error)
            && post_runs(exchange, &rows, true, error) && post_runs(exchange, &rows, false, error);
    }
    return good;
}

// Copies what stays once both ends are posted, and posts rows.
static bool post_both(struct exchange *exchange, uint32_t channel, uint64_t number, struct error *error)
{
    const struct lane *lane = &exchange->lanes[channel];
    if (number >= lane->posted[0] || number >= lane->posted[1])
        return true;
    struct post_end *to = &lane->ends[0][number % lane->room], *from = &lane->ends[1][number % lane->room];
    if (!to->ticket || !from->ticket)
        return true;  // one was cancelled
    if (!is_expected(exchange, to, from, error))
        return false;
    if (to->after)
        queue_wait_event(exchange->queue, to->after);
    if (from->after)
        queue_wait_event(exchange->queue, from->after);
    copy_rest(exchange, &lane->parts, to, from);
    if (!post_rows(exchange, channel, to, from, error))
        return false;
    event_record(to->moved, exchange->queue);
    event_record(from->moved, exchange->queue);
    to->is_copied = from->is_copied = true;
    return true;
}

static bool post(struct exchange *exchange, uint32_t channel, bool sends, const struct post_end *what,
                 struct ticket *ticket, struct error *error)
{
    struct lane *lane = &exchange->lanes[channel];
    const uint64_t number = lane->posted[sends]++;
    struct post_end *end = &lane->ends[sends][number % lane->room];
    assert(!end->ticket);
    *ticket = (struct ticket){ .active = true, .header = what->header, .posted_ns = clock_now_ns(),
                               .index = (number % lane->room * channel_count(exchange->settings.schedule) + channel) * 2
                                      + sends };
    struct ticket *const shares = end->shares;
    struct message_piece *const runs = end->runs;
    struct event *const moved = end->moved;
    *end = *what;
    end->ticket = ticket;
    end->shares = shares;
    end->runs = runs;
    end->moved = moved;
    return post_shares(exchange, channel, end, sends, error) && post_both(exchange, channel, number, error);
}

static struct exchange *of(struct transport *transport)
{
    return (struct exchange *)transport;
}

static bool exchange_post_send(struct transport *transport, uint32_t channel, const void *data, uint64_t bytes,
                               struct message_header header, struct event *after, struct ticket *ticket,
                               struct error *error)
{
    struct exchange *exchange = of(transport);
    struct transport *others = exchange->settings.others;
    const struct post_end end = { .header = header, .data = (void *)(uintptr_t)data, .bytes = bytes, .after = after };
    return is_own(exchange, channel) ? post(exchange, channel, true, &end, ticket, error)
                                     : others->functions->post_send(others, channel, data, bytes, header, after, ticket,
                                                                    error);
}

static bool exchange_post_receive(struct transport *transport, uint32_t channel, void *data, uint64_t bytes,
                                  struct message_header expected, struct event *after, struct ticket *ticket,
                                  struct error *error)
{
    struct exchange *exchange = of(transport);
    struct transport *others = exchange->settings.others;
    const struct post_end end = { .header = expected, .data = data, .bytes = bytes, .after = after };
    return is_own(exchange, channel) ? post(exchange, channel, false, &end, ticket, error)
                                     : others->functions->post_receive(others, channel, data, bytes, expected, after,
                                                                       ticket, error);
}

static bool exchange_post_reduction(struct transport *transport, const struct reduction *reduction,
                                    struct message_header header, struct event *after, struct ticket *ticket,
                                    struct error *error)
{
    struct transport *others = of(transport)->settings.others;
    return others->functions->post_reduction(others, reduction, header, after, ticket, error);
}

// --- moving ------------------------------------------------------------------------------

// The channel of a ticket of this transport's own.
static uint32_t channel_of_ticket(const struct exchange *exchange, const struct ticket *ticket)
{
    return (uint32_t)(ticket->index / 2 % channel_count(exchange->settings.schedule));
}

// The end that a ticket is of; NULL: it is of the other transport.
static struct post_end *end_of(const struct exchange *exchange, const struct ticket *ticket)
{
    const struct lane *lane = &exchange->lanes[channel_of_ticket(exchange, ticket)];
    const uint64_t number = ticket->index / 2 / channel_count(exchange->settings.schedule);
    struct post_end *end = number < lane->room ? &lane->ends[ticket->index % 2][number] : NULL;
    return end && end->ticket == ticket ? end : NULL;
}

static bool test_shares(struct transport *between, const struct post_end *end, bool *done, struct error *error)
{
    for (size_t i = 0; i < end->posted; i++) {
        if (end->shares[i].active && !between->functions->test(between, &end->shares[i], error))
            return false;
        *done &= !end->shares[i].active;
    }
    return true;
}

// The ticket's event comes when all has moved.
static void finish(struct exchange *exchange, struct post_end *end)
{
    struct ticket *ticket = end->ticket;
    const bool runs_ahead = device_runs_ahead(exchange->settings.device);
    ticket->done = true;
    ticket->active = false;
    ticket->done_ns = end->posted > 0 ? 0 : clock_now_ns();
    for (size_t i = 0; i < end->posted; i++) {
        ticket->done_ns = max_u64(ticket->done_ns, end->shares[i].done_ns);
        if (end->shares[i].event)
            queue_wait_event(exchange->queue, end->shares[i].event);
    }
    if (runs_ahead && exchange->settings.part_count > 0)
        event_record(end->moved, exchange->queue);
    ticket->event = runs_ahead ? end->moved : NULL;
    end->ticket = NULL;
    end->is_copied = false;
}

static bool exchange_test(struct transport *transport, struct ticket *ticket, struct error *error)
{
    struct exchange *exchange = of(transport);
    struct transport *others = exchange->settings.others;
    struct post_end *end = end_of(exchange, ticket);
    const uint32_t channel = end ? channel_of_ticket(exchange, ticket) : 0;
    struct transport *between = end ? between_of(exchange, channel) : NULL;
    bool done = true;
    if (!check_all(exchange, error)
        || !(end ? test_shares(between, end, &done, error) : others->functions->test(others, ticket, error)))
        return false;
    exchange->awaited = done ? NULL : between;
    if (end && done && end->is_copied)
        finish(exchange, end);
    return true;
}

static bool exchange_wait(struct transport *transport, uint64_t deadline_ns, struct error *error)
{
    const struct exchange *exchange = of(transport);
    struct transport *on = exchange->awaited ? exchange->awaited : exchange->settings.others;
    return on->functions->wait(on, deadline_ns, error);
}

static void exchange_cancel(struct transport *transport, struct ticket *ticket)
{
    struct exchange *exchange = of(transport);
    struct transport *others = exchange->settings.others;
    struct post_end *end = ticket->active ? end_of(exchange, ticket) : NULL;
    const uint32_t channel = end ? channel_of_ticket(exchange, ticket) : 0;
    struct transport *between = end ? between_of(exchange, channel) : NULL;
    if (!end) {
        others->functions->cancel(others, ticket);
        return;
    }
    for (size_t i = 0; i < end->posted; i++)
        if (end->shares[i].active)
            between->functions->cancel(between, &end->shares[i]);
    end->ticket = NULL;
    ticket->active = false;
}

static bool exchange_check(struct transport *transport, struct error *error)
{
    return check_all(of(transport), error);
}

static void exchange_abandon(struct transport *transport, const struct error *error)
{
    const struct exchange *exchange = of(transport);
    struct transport *others = exchange->settings.others;
    others->functions->abandon(others, error);
    for (uint32_t channel = 0; channel < channel_count(exchange->settings.schedule); channel++) {
        struct transport *between = between_of(exchange, channel);
        if (between)
            between->functions->abandon(between, error);
    }
}

static const struct transport_functions exchange_functions = {
    exchange_post_send, exchange_post_receive, exchange_post_reduction, NULL,             exchange_test,
    exchange_wait,      exchange_cancel,       exchange_check,          exchange_abandon,
};
