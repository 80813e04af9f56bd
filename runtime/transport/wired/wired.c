#include <assert.h>
#include <poll.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/pause.h"
#include "runtime/transport/wired/wired_engine.h"

// --- failing ------------------------------------------------------------------------
// What is under way never ends by itself when a rank is gone.
static void abort_all(struct wired *wired)
{
    for (uint32_t i = 0; wired->ends && !wired->is_stuck && i < wired->wiring.count; i++)
        if (wired->ends[i].communicator
            && !communicator_abort(wired->ends[i].communicator, wired->settings.abort_ns))
            wired->is_stuck = true;
}

static bool group_is_well(struct wired *wired, struct error *error)
{
    struct error reason = { 0 };
    if (wired->failed)
        return wired_fail(wired, &wired->error, error);
    if (wired->settings.group->is_well(wired->settings.group->self, &reason))
        return true;
    return wired_fail(wired, &reason, error);
}

// --- issuing ---------------------------------------------------------------------------

// The ticket stays active until its owner tests it.
static void ticket_finish(struct ticket *ticket, struct event *event)
{
    ticket->done = true;
    ticket->event = event;
    ticket->done_ns = clock_now_ns();
}

// The pieces of a message move together. If there are none, nothing moves at either end.
static bool exchange_pieces(const struct lane_end *end, const struct posted *posted, struct error *error)
{
    struct message_end *ends = calloc(posted->piece_count + 1, sizeof *ends);
    if (!ends)
        return error_no_memory(error, "a message in pieces");
    for (size_t i = 0; i < posted->piece_count; i++) {
        ends[i] = posted->end;
        ends[i].data = posted->pieces[i].data;
        ends[i].bytes = posted->pieces[i].bytes;
    }
    communicator_exchange(end->communicator, end->queue, ends, posted->piece_count);
    free(ends);
    return true;
}

static bool issue(struct lane_end *end, struct posted *posted, struct error *error)
{
    if (posted->after)
        queue_wait_event(end->queue, posted->after);
    if (!posted->pieces)
        communicator_exchange(end->communicator, end->queue, &posted->end, 1);
    else if (!exchange_pieces(end, posted, error))
        return false;
    end->issuing = posted;
    return true;
}

// Whether something has its turn and waits for the communicator.
static bool is_held(const struct lane_end *end)
{
    return end->issuing || (end->turn < end->count && end->posted[end->turn].ticket);
}

// Issues what has its turn, as long as the communicator accepts it.
static bool lane_end_move(struct wired *wired, struct lane_end *end, struct error *error)
{
    while (is_held(end)) {
        bool ready;
        if (!lane_is_ready(wired, end, &ready, error))
            return false;
        if (!ready)
            return true;
        if (!end->issuing) {
            if (!issue(end, &end->posted[end->turn], error))
                return false;
            continue;
        }
        event_record(end->issuing->event, end->queue);
        ticket_finish(end->issuing->ticket, end->issuing->event);
        end->issuing->ticket = NULL;
        end->issuing = NULL;
        end->turn++;
    }
    return true;
}

static bool move_all(struct wired *wired, struct error *error)
{
    bool any = false;
    for (uint32_t i = 0; i < wired->wiring.count; i++) {
        if (wired->ends[i].posted && !lane_end_move(wired, &wired->ends[i], error))
            return false;
        any |= wired->ends[i].posted && is_held(&wired->ends[i]);
    }
    const bool good = reducing_move(wired, error);
    wired->transport.is_held = any || wired->reducing.end;
    return good;
}

// --- the functions of a transport ---------------------------------------------------------

// When the first message of the next pass is posted, all of this pass have been.
static void begin_pass_of(struct lane_end *end, struct wired *wired)
{
    if (end->turn < end->count)
        return;
    end->turn = 0;
    for (uint32_t channel = 0; channel < channel_count(wired->settings.schedule); channel++)
        if (wired->wiring.wire_of_channel[channel] == (uint32_t)(end - wired->ends))
            wired->passed[channel] = 0;
}

static bool post(struct wired *wired, uint32_t channel, const struct posted *message, struct message_header header,
                 struct ticket *ticket, struct error *error)
{
    if (!group_is_well(wired, error))
        return false;
    struct lane_end *end = &wired->ends[wired->wiring.wire_of_channel[channel]];
    begin_pass_of(end, wired);
    const uint32_t turn = wired->turns.turn[wired->turns.first[channel] + wired->passed[channel]++];
    struct posted *posted = &end->posted[turn];
    assert(!posted->ticket && turn >= end->turn);
    *ticket = (struct ticket){ .active = true, .header = header, .index = turn, .posted_ns = clock_now_ns() };
    struct event *const event = posted->event;
    *posted = *message;
    posted->ticket = ticket;
    posted->event = event;
    return lane_end_move(wired, end, error);
}

// The rank at the other end of a channel, as an index among the ends of its wire.
static uint32_t peer_on(const struct wired *wired, uint32_t channel, bool is_send)
{
    const struct channel_ends ends = channel_ends(wired->settings.schedule, channel);
    return wire_end(&wired->wiring.wires[wired->wiring.wire_of_channel[channel]], is_send ? ends.to : ends.from);
}

static bool wired_post_send(struct transport *transport, uint32_t channel, const void *data, uint64_t bytes,
                            struct message_header header, struct event *after, struct ticket *ticket,
                            struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    const struct message_end end = { .is_send = true, .peer = peer_on(wired, channel, true),
                                     .data = (void *)(uintptr_t)data, .bytes = bytes };
    return post(wired, channel, &(struct posted){ .end = end, .after = after }, header, ticket, error);
}

static bool wired_post_receive(struct transport *transport, uint32_t channel, void *data, uint64_t bytes,
                               struct message_header expected, struct event *after, struct ticket *ticket,
                               struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    const struct message_end end = { .peer = peer_on(wired, channel, false), .data = data, .bytes = bytes };
    return post(wired, channel, &(struct posted){ .end = end, .after = after }, expected, ticket, error);
}

static bool wired_post_pieces(struct transport *transport, uint32_t channel, bool sends,
                              const struct message_piece *pieces, size_t count, struct message_header header,
                              struct event *after, struct ticket *ticket, struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    const struct posted message = { .end = { .is_send = sends, .peer = peer_on(wired, channel, sends) },
                                    .pieces = pieces, .piece_count = count, .after = after };
    return post(wired, channel, &message, header, ticket, error);
}

static bool wired_post_reduction(struct transport *transport, const struct reduction *reduction,
                                 struct message_header header, struct event *after, struct ticket *ticket,
                                 struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    if (!group_is_well(wired, error))
        return false;
    *ticket = (struct ticket){ .active = true, .header = header, .posted_ns = clock_now_ns() };
    return reducing_begin(wired, reduction, after, ticket, error);
}

static bool wired_test(struct transport *transport, struct ticket *ticket, struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    assert(ticket->active);
    if (!group_is_well(wired, error) || !move_all(wired, error))
        return false;
    ticket->active = !ticket->done;
    return true;
}

// Polls, since a communicator works without waking any thread. A caller that keeps waiting calls again at once.
static bool wired_wait(struct transport *transport, uint64_t deadline_ns, struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    const uint64_t now_ns = clock_now_ns();
    if (now_ns > wired->waited_ns + SHORTEST_PAUSE_NS)
        wired->waits_ns = now_ns;
    const struct timespec pause = { .tv_nsec = (long)pause_ns(now_ns - wired->waits_ns) };
    if (now_ns < deadline_ns)
        ppoll(NULL, 0, &pause, NULL);
    wired->waited_ns = clock_now_ns();
    return group_is_well(wired, error);
}

static void wired_cancel(struct transport *transport, struct ticket *ticket)
{
    struct wired *wired = (struct wired *)transport;
    if (!ticket->active)
        return;
    for (uint32_t i = 0; i < wired->wiring.count; i++)
        for (uint32_t turn = 0; wired->ends[i].posted && turn < wired->ends[i].count; turn++)
            if (wired->ends[i].posted[turn].ticket == ticket) {
                wired->ends[i].posted[turn].ticket = NULL;
                if (wired->ends[i].issuing == &wired->ends[i].posted[turn])
                    wired->ends[i].issuing = NULL;
            }
    if (wired->reducing.ticket == ticket)
        wired->reducing = (struct reducing){ 0 };
    ticket->active = false;
}

// Asks the communicators too, since a wire may be the first to know that its peer is gone. This also issues what was
// posted while one was busy: the caller may be waiting for what another rank does with that.
static bool wired_check(struct transport *transport, struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    bool ready;
    for (uint32_t i = 0; i < wired->wiring.count; i++)
        if (wired->ends[i].communicator && !wired->failed
            && !lane_is_ready(wired, &wired->ends[i], &ready, error))
            return false;
    return group_is_well(wired, error) && move_all(wired, error);
}

static void wired_abandon(struct transport *transport, const struct error *error)
{
    struct wired *wired = (struct wired *)transport;
    wired_fail(wired, error, &(struct error){ 0 });
    wired->settings.group->abandon(wired->settings.group->self, error);
    abort_all(wired);
}

const struct transport_functions wired_functions = {
    wired_post_send, wired_post_receive, wired_post_reduction, wired_post_pieces, wired_test,
    wired_wait,      wired_cancel,       wired_check,          wired_abandon,
};
