// The copies of a stage add up their gradients, as do stages with tied parameters. Copy c owns the c-th share of the
// elements. A share is sent in pieces, since the room for what others send is small:
//
//     shares     each copy that adds something sends every other one its piece of that one's share
//     add        own piece and what came, in the order of the copies, as a loop would
//     sums       each copy sends its piece, added up, to every other one
//
// Compressed numbers are sent in the same way. Their form adds them up (struct compression), and the sums are sent back
// in that form.
//
// A reduction to shares, or one that adds onto the shares, ends before the sums are sent back. A gather is that last
// step alone.
#include <stdlib.h>

#include "common/clock.h"
#include "device/kernels.h"
#include "runtime/transport/wired/wired_engine.h"

struct piece {
    uint64_t first, count;  // elements
};

static uint32_t copies_of(const struct reducing *reducing)
{
    return reducing->end->wire->rank_count;
}

// Elements of a piece. (A gather needs no room; it sends as many 16-bit numbers at a time as floats.)
static uint64_t piece_most(const struct wired *wired)
{
    const bool is_compressed = wired->reducing.what.kind == REDUCTION_COMPRESSED;
    return is_compressed ? wired->room_floats * sizeof(float) / wired->reducing.what.number_bytes : wired->room_floats;
}

// The current piece of a copy's share, counted from the first of the numbers. It is empty if that share is shorter
// than others.
static struct piece piece_of(const struct wired *wired, uint32_t copy)
{
    const struct reducing *reducing = &wired->reducing;
    const struct reduction_share share = reduction_share(&reducing->what, copy, copies_of(reducing));
    const uint64_t most = piece_most(wired), done = reducing->piece * most;
    if (done >= share.count)
        return (struct piece){ 0 };
    const uint64_t left = share.count - done;
    return (struct piece){ share.first + done, left < most ? left : most };
}

static bool is_last_piece(const struct wired *wired)
{
    const struct reducing *reducing = &wired->reducing;
    uint64_t longest = 0;
    for (uint32_t copy = 0; copy < copies_of(reducing); copy++) {
        const uint64_t count = reduction_share(&reducing->what, copy, copies_of(reducing)).count;
        longest = count > longest ? count : longest;
    }
    return (reducing->piece + 1) * piece_most(wired) >= longest;
}

static float *room_of(const struct wired *wired, uint32_t copy)
{
    return wired->room + copy * wired->room_floats;
}

static void *number_at(const struct reducing *reducing, uint64_t first)
{
    return (char *)reducing->what.numbers + first * reducing->what.number_bytes;
}

// The address of the current piece of this rank's share.
static void *own_piece(const struct wired *wired, uint32_t this_copy)
{
    const struct reducing *reducing = &wired->reducing;
    return (char *)reduction_own(&reducing->what, this_copy, copies_of(reducing))
         + reducing->piece * piece_most(wired) * reducing->what.number_bytes;
}

// Whether a copy contributes something to the sum.
static bool brings(const struct reducing *reducing, uint32_t copy)
{
    return reducing->what.brings ? reducing->what.brings[copy] : copy < reducing->end->wire->adders;
}

// Whether a copy receives what is gathered.
static bool takes(const struct reducing *reducing, uint32_t copy)
{
    return !reducing->what.brings || reducing->what.brings[copy];
}

static void add_end(struct message_end *ends, size_t *count, bool is_send, uint32_t peer, void *data, uint64_t bytes)
{
    if (bytes > 0)
        ends[(*count)++] = (struct message_end){ .is_send = is_send, .peer = peer, .data = data, .bytes = bytes };
}

// Sends the shares out, or the sums back.
static bool issue(struct wired *wired, struct error *error)
{
    struct reducing *reducing = &wired->reducing;
    const uint32_t this_copy = wire_end(reducing->end->wire, wired->transport.rank);
    const struct piece mine = piece_of(wired, this_copy);
    const uint64_t size = reducing->what.number_bytes;
    size_t count = 0;
    struct message_end *ends = calloc(2 * copies_of(reducing), sizeof *ends);
    if (!ends)
        return error_no_memory(error, "the messages of a reduction");
    for (uint32_t copy = 0; copy < copies_of(reducing); copy++) {
        const struct piece its = piece_of(wired, copy);
        if (copy == this_copy)
            continue;
        if (reducing->is_back) {
            add_end(ends, &count, true, copy, own_piece(wired, this_copy),
                    takes(reducing, copy) ? mine.count * size : 0);
            add_end(ends, &count, false, copy, number_at(reducing, its.first),
                    takes(reducing, this_copy) ? its.count * size : 0);
        } else {
            add_end(ends, &count, true, copy, number_at(reducing, its.first),
                    brings(reducing, this_copy) ? its.count * size : 0);
            add_end(ends, &count, false, copy, room_of(wired, copy), brings(reducing, copy) ? mine.count * size : 0);
        }
    }
    communicator_exchange(reducing->end->communicator, reducing->end->queue, ends, count);
    reducing->is_issuing = true;
    free(ends);
    return true;
}

// ((s + g0) + g1) ..., where s is what the share has already.
static void add_onto(struct wired *wired, uint32_t this_copy, struct piece mine)
{
    const struct reducing *reducing = &wired->reducing;
    float *sum = own_piece(wired, this_copy);
    for (uint32_t copy = 0; copy < copies_of(reducing); copy++)
        if (brings(reducing, copy))
            kernel_add_floats(reducing->end->queue, sum, sum,
                              copy == this_copy ? number_at(reducing, mine.first) : room_of(wired, copy), mine.count);
}

static void add_compressed(struct wired *wired, uint32_t this_copy, struct piece mine)
{
    const struct reducing *reducing = &wired->reducing;
    const struct reduction *what = &reducing->what;
    const struct reduction_share share = { mine.first, mine.count };
    for (uint32_t copy = 0; copy < copies_of(reducing); copy++)
        if (copy != this_copy)
            what->compression->add(reducing->end->queue, what, share, room_of(wired, copy), copies_of(reducing));
    what->compression->compress(reducing->end->queue, what, share);
}

// In the order of the copies: ((g0 + g1) + g2) ...
static void add_piece(struct wired *wired)
{
    struct reducing *reducing = &wired->reducing;
    struct queue *queue = reducing->end->queue;
    const uint32_t this_copy = wire_end(reducing->end->wire, wired->transport.rank);
    const struct piece mine = piece_of(wired, this_copy);
    if (mine.count > 0 && reducing->what.kind == REDUCTION_ONTO) {
        add_onto(wired, this_copy, mine);
        return;
    }
    if (mine.count > 0 && reducing->what.kind == REDUCTION_COMPRESSED) {
        add_compressed(wired, this_copy, mine);
        return;
    }
    float *gradients = number_at(reducing, mine.first);
    float *sum = this_copy == 0 ? gradients : room_of(wired, 0);
    if (mine.count == 0)
        return;
    for (uint32_t copy = 1; copy < reducing->end->wire->adders; copy++)
        kernel_add_floats(queue, sum, sum, copy == this_copy ? gradients : room_of(wired, copy), mine.count);
    if (reducing->factor != 1.0f)
        kernel_scale(queue, sum, sum, reducing->factor, mine.count);
    if (sum != gradients)
        queue_copy(queue, gradients, sum, mine.count * sizeof *sum);
}

static void finish(struct wired *wired)
{
    struct reducing *reducing = &wired->reducing;
    event_record(wired->reduced, reducing->end->queue);
    *reducing->ticket = (struct ticket){ .active = true, .done = true, .event = wired->reduced,
                                         .gathered = wired->gathered, .header = reducing->ticket->header,
                                         .posted_ns = reducing->ticket->posted_ns, .done_ns = clock_now_ns() };
    *reducing = (struct reducing){ 0 };
}

// When a gather goes to a buffer apart from the shares: copies this rank's own piece there.
static void take_own(struct wired *wired)
{
    const struct reducing *reducing = &wired->reducing;
    const uint32_t this_copy = wire_end(reducing->end->wire, wired->transport.rank);
    const struct piece mine = piece_of(wired, this_copy);
    if (reducing->what.own && takes(reducing, this_copy) && mine.count > 0)
        queue_copy(reducing->end->queue, number_at(reducing, mine.first), own_piece(wired, this_copy),
                   mine.count * reducing->what.number_bytes);
}

// What follows an issued exchange in the queue.
static void follow(struct wired *wired)
{
    struct reducing *reducing = &wired->reducing;
    const enum reduction_kind kind = reducing->what.kind;
    reducing->is_issuing = false;
    if (reducing->piece == 0 && (!reducing->is_back || kind == REDUCTION_GATHER))
        event_record(wired->gathered, reducing->end->queue);
    if (!reducing->is_back)
        add_piece(wired);
    else
        take_own(wired);
    if (!reducing->is_back && (kind == REDUCTION_WHOLE || kind == REDUCTION_COMPRESSED)) {
        reducing->is_back = true;
        return;
    }
    reducing->is_back = kind == REDUCTION_GATHER;
    if (is_last_piece(wired))
        finish(wired);
    else
        reducing->piece++;
}

bool reducing_move(struct wired *wired, struct error *error)
{
    struct reducing *reducing = &wired->reducing;
    while (reducing->end) {
        bool ready;
        if (!lane_is_ready(wired, reducing->end, &ready, error))
            return false;
        if (!ready)
            return true;
        if (reducing->is_issuing)
            follow(wired);
        else if (!issue(wired, error))
            return false;
    }
    return true;
}

bool reducing_begin(struct wired *wired, const struct reduction *reduction, struct event *after,
                    struct ticket *ticket, struct error *error)
{
    struct lane_end *end = &wired->ends[wired->wiring.wire_of_group[reduction->group]];
    struct contributions *given = &wired->contributions[reduction->group];
    const bool gathers = reduction->kind == REDUCTION_GATHER;
    const bool is_mean = reduction->kind == REDUCTION_WHOLE || reduction->kind == REDUCTION_SHARES;
    const uint32_t all = given->all && is_mean ? given->all[given->next++ % given->count] : 0;
    wired->reducing = (struct reducing){
        .end = end,
        .ticket = ticket,
        .what = *reduction,
        .is_back = gathers,
        .factor = reduction->samples > 0 && all > 0 ? (float)reduction->samples / (float)all : 1.0f,
    };
    if (after)
        queue_wait_event(end->queue, after);
    return reducing_move(wired, error);
}
