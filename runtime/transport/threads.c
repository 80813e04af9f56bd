#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "runtime/transport/threads_engine.h"

// --- news ---------------------------------------------------------------------

static void end_notify(struct end *end)
{
    end->notified = true;
    pthread_cond_signal(&end->changed);
}

static void post_finish(struct threads *engine, struct post *post, uint64_t done_ns)
{
    post->state = POST_DONE;
    post->done_ns = done_ns;
    end_notify(&engine->ends[post->rank]);
}

// --- failing -----------------------------------------------------------------

static void fail(struct threads *engine, const struct error *error)
{
    if (engine->failed)
        return;
    engine->failed = true;
    engine->error = *error;
    for (uint32_t rank = 0; rank < engine->ranks; rank++)
        end_notify(&engine->ends[rank]);
}

static bool report(const struct threads *engine, struct error *error)
{
    return error_hand_on(error, &engine->error);
}

// Whether this rank may still do something by itself: it runs, or has news to see.
static bool end_may_move(const struct end *end)
{
    if (end->left)
        return false;
    if (!end->waiting || end->notified)
        return true;
    for (const struct post *post = end->pool.active; post; post = post->next_active)
        if (post->state == POST_DONE && !post->announced)
            return true;
    return false;
}

static void fail_if_quiescent(struct threads *engine)
{
    bool someone_waits = false;
    for (uint32_t rank = 0; rank < engine->ranks; rank++) {
        if (end_may_move(&engine->ends[rank]))
            return;
        someone_waits |= !engine->ends[rank].left;
    }
    if (!someone_waits || engine->failed)
        return;
    struct error error = { 0 };
    if (engine->settings.explain)
        engine->settings.explain(engine->settings.self, &error);
    error_set_kind(&error, ERROR_MACHINE, "every rank waits and no message is under way");
    fail(engine, &error);
}

// Sleeps on a rank's condition variable until it is signalled or `until_ns` has passed.
static void sleep_until(struct end *end, uint64_t until_ns)
{
    const uint64_t far = clock_now_ns() + 3600u * (uint64_t)1000000000;  // and look again
    clock_wait(&end->changed, &end->engine->lock, min_u64(until_ns, far));
}

// --- moving messages ---------------------------------------------------------

// Puts `bytes` on the lane's link now; returns when they arrive.
static uint64_t occupy_link(struct threads *engine, const struct lane *lane, uint64_t bytes)
{
    const uint64_t now = clock_now_ns();
    if (!engine->links)
        return now;
    const struct link *link = &engine->links[lane->link];
    uint64_t *free_ns = &engine->link_free_ns[lane->link];
    *free_ns = add_clamped(*free_ns > now ? *free_ns : now, transfer_ns(bytes, link->bytes_per_second, 0));
    return add_clamped(*free_ns, link->latency_ns);
}

static unsigned char *parcel_room(const struct lane *lane, uint32_t parcel)
{
    return lane->room + parcel * lane->channel.bytes;
}

// Copies bytes outside the lock. The lane's `moving` keeps other threads away from it.
static void copy_unlocked(struct threads *engine, void *to, const void *from, uint64_t bytes)
{
    if (bytes == 0)
        return;
    pthread_mutex_unlock(&engine->lock);
    memcpy(to, from, bytes);
    pthread_mutex_lock(&engine->lock);
}

static void copy_pieces(struct threads *engine, const struct post *send, const struct post *receive)
{
    struct meeting_piece piece;
    for (size_t i = 0; post_meet_piece(send, receive, i, &piece); i++)
        copy_unlocked(engine, piece.to, piece.from, piece.bytes);
}

static void deliver_parcel(struct threads *engine, struct lane *lane)
{
    struct post *receive = post_queue_pop(&lane->receives);
    const uint32_t slot = lane->parcel_first;
    const struct parcel parcel = lane->parcels[slot];
    receive->state = POST_MOVING;
    copy_unlocked(engine, receive->data, parcel_room(lane, slot), min_u64(parcel.bytes, receive->bytes));
    lane->parcel_first = (slot + 1) % lane->capacity;
    lane->parcel_count--;
    receive->met = parcel.header;
    receive->met_bytes = parcel.bytes;
    post_finish(engine, receive, parcel.arrives_ns);
}

static void deliver_directly(struct threads *engine, struct lane *lane)
{
    struct post *receive = post_queue_pop(&lane->receives), *send = post_queue_pop(&lane->sends);
    const uint64_t arrives_ns = occupy_link(engine, lane, send->bytes);
    receive->state = send->state = POST_MOVING;
    if (lane->queue)
        threads_copy_later(lane, send, receive);
    else
        copy_pieces(engine, send, receive);
    receive->met = send->header;
    receive->met_bytes = send->bytes;
    post_finish(engine, receive, arrives_ns);
    post_finish(engine, send, arrives_ns);
}

static void put_aside(struct threads *engine, struct lane *lane)
{
    struct post *send = post_queue_pop(&lane->sends);
    const uint32_t slot = (lane->parcel_first + lane->parcel_count) % lane->capacity;
    lane->parcels[slot] = (struct parcel){ send->header, send->bytes, occupy_link(engine, lane, send->bytes) };
    send->state = POST_MOVING;
    copy_unlocked(engine, parcel_room(lane, slot), send->data, send->bytes);
    lane->parcel_count++;
    post_finish(engine, send, clock_now_ns());
}

// Whether the first send has room before its receive is posted. A message in pieces takes none.
static bool can_put_aside(const struct lane *lane)
{
    return lane->sends.first && !lane->sends.first->pieces && lane->parcel_count < lane->capacity;
}

// Moves everything that can move in a lane, in order. A second thread leaves its post for the first, which looks
// again before it returns.
static void lane_move(struct threads *engine, struct lane *lane)
{
    if (lane->moving)
        return;
    lane->moving = true;
    for (;;) {
        if (lane->receives.first && lane->parcel_count > 0)
            deliver_parcel(engine, lane);
        else if (lane->receives.first && lane->sends.first)
            deliver_directly(engine, lane);
        else if (can_put_aside(lane))
            put_aside(engine, lane);
        else
            break;
    }
    lane->moving = false;
}

static struct post_queue *queue_of(struct lane *lane, const struct post *post)
{
    return post->kind == POST_SEND ? &lane->sends : &lane->receives;
}

static void enter_lane(struct threads *engine, struct post *post)
{
    struct lane *lane = &engine->lanes[post->lane];
    post_queue_append(queue_of(lane, post), post);
    lane_move(engine, lane);
}

// --- adding gradients ------------------------------------------------------------

static void finish_all_reduce(struct threads *engine, struct all_reduce *all_reduce)
{
    for (uint32_t copy = 0; copy < all_reduce->count; copy++)
        post_finish(engine, all_reduce->posts[copy], clock_now_ns());
    all_reduce_clear(all_reduce);
}

// Every copy now has to add its share.
static void begin_shares(struct threads *engine, struct all_reduce *all_reduce)
{
    const uint64_t now = clock_now_ns();
    for (uint32_t copy = 0; copy < all_reduce->count; copy++) {
        all_reduce->posts[copy]->state = POST_MOVING;
        all_reduce->posts[copy]->gathered_ns = now;
        end_notify(&engine->ends[all_reduce->ranks[copy]]);
    }
}

// A copy comes to its all-reduce. When it is the last, there is something to add.
static void join(struct threads *engine, struct post *post)
{
    struct all_reduce *all_reduce = &engine->all_reduces[post->lane];
    struct error error = { 0 };
    all_reduce_join(all_reduce, post);
    if (!all_reduce_is_full(all_reduce))
        return;
    if (!all_reduce_agrees(all_reduce, &error)) {
        if (post->lane < engine->settings.placement->stages)
            error_at(&error, "stage %u", post->lane);
        fail(engine, &error);
    } else if (all_reduce->queue) {
        threads_add_later(all_reduce);
        finish_all_reduce(engine, all_reduce);
        return;
    }
    begin_shares(engine, all_reduce);
}

static void add_share(struct threads *engine, struct post *post)
{
    struct all_reduce *all_reduce = &engine->all_reduces[post->lane];
    post->has_added = true;
    pthread_mutex_unlock(&engine->lock);
    all_reduce_add(all_reduce, post);
    pthread_mutex_lock(&engine->lock);
    if (!all_reduce_end_share(all_reduce) || engine->failed)
        return;
    finish_all_reduce(engine, all_reduce);
}

// A part in a reduction can be withdrawn until all copies have come. After that the others count on it: it is
// finished, or the run fails.
static void leave(struct threads *engine, struct end *end, struct post *post)
{
    struct all_reduce *all_reduce = &engine->all_reduces[post->lane];
    if (post->state == POST_QUEUED)
        all_reduce_withdraw(all_reduce, post);
    if (post->state == POST_MOVING && !post->has_added && !engine->failed)
        add_share(engine, post);
    while (post->state == POST_MOVING && !engine->failed)
        sleep_until(end, UINT64_MAX);
}

// --- the functions of a transport ----------------------------------------------

static bool post(struct end *end, const struct post *what, struct ticket *ticket, struct error *error)
{
    struct threads *engine = end->engine;
    bool good = true;
    pthread_mutex_lock(&engine->lock);
    struct post *entry = engine->failed ? NULL : post_take(&end->pool, what);
    if (entry) {
        entry->rank = end->transport.rank;
        *ticket = (struct ticket){ .active = true, .header = what->header, .posted_ns = clock_now_ns(),
                                   .index = (uint64_t)(entry - end->pool.posts) };
        if (entry->kind == POST_REDUCTION)
            join(engine, entry);
        else
            enter_lane(engine, entry);
    } else if (engine->failed) {
        good = report(engine, error);
    } else {
        good = error_set_kind(error, ERROR_MACHINE, "more than %d messages of a channel are under way", MOST_POSTS);
    }
    pthread_mutex_unlock(&engine->lock);
    return good;
}

static bool threads_post_send(struct transport *transport, uint32_t channel, const void *data, uint64_t bytes,
                              struct message_header header, struct event *after, struct ticket *ticket,
                              struct error *error)
{
    struct end *end = (struct end *)transport;
    assert(channel < end->engine->lane_count && end->engine->lanes[channel].channel.from == transport->rank);
    assert(bytes <= end->engine->lanes[channel].channel.bytes);
    // A post is of any kind; the data of a send is only ever read.
    return post(end, &(struct post){ .kind = POST_SEND, .lane = channel, .data = (void *)(uintptr_t)data,
                                     .bytes = bytes, .header = header, .after = after }, ticket, error);
}

static bool threads_post_receive(struct transport *transport, uint32_t channel, void *data, uint64_t bytes,
                                 struct message_header expected, struct event *after, struct ticket *ticket,
                                 struct error *error)
{
    struct end *end = (struct end *)transport;
    assert(channel < end->engine->lane_count && end->engine->lanes[channel].channel.to == transport->rank);
    return post(end, &(struct post){ .kind = POST_RECEIVE, .lane = channel, .data = data, .bytes = bytes,
                                     .header = expected, .after = after }, ticket, error);
}

static bool threads_post_pieces(struct transport *transport, uint32_t channel, bool sends,
                                const struct message_piece *pieces, size_t count, struct message_header header,
                                struct event *after, struct ticket *ticket, struct error *error)
{
    struct end *end = (struct end *)transport;
    const uint64_t bytes = pieces_bytes(pieces, count);
    assert(channel < end->engine->lane_count && bytes <= end->engine->lanes[channel].channel.bytes);
    return post(end, &(struct post){ .kind = sends ? POST_SEND : POST_RECEIVE, .lane = channel, .bytes = bytes,
                                     .pieces = pieces, .piece_count = count, .header = header, .after = after },
                ticket, error);
}

static bool threads_post_reduction(struct transport *transport, const struct reduction *reduction,
                                   struct message_header header, struct event *after, struct ticket *ticket,
                                   struct error *error)
{
    struct end *end = (struct end *)transport;
    assert(reduction->group < end->engine->all_reduce_count);
    assert(reduction->kind == REDUCTION_GATHER || reduction->kind == REDUCTION_COMPRESSED
           || reduction->number_bytes == sizeof(float));
    return post(end, &(struct post){ .kind = POST_REDUCTION, .lane = reduction->group, .data = reduction->numbers,
                                     .bytes = reduction->count * reduction->number_bytes, .what = *reduction,
                                     .header = header, .after = after },
                ticket, error);
}

static const char *part_format(const struct message_header *header, char *buffer, size_t size)
{
    snprintf(buffer, size, header->split > 0 ? "%u.%u" : "%u", header->micro_batch, header->split);
    return buffer;
}

static bool is_expected(const struct post *post, struct error *error)
{
    const struct message_header *met = &post->met, *want = &post->header;
    if (met->step == want->step && met->micro_batch == want->micro_batch && met->split == want->split
        && met->version == want->version && post->met_bytes == post->bytes)
        return true;
    char came[32], expected[32];
    return error_set_kind(error, ERROR_MACHINE,
                          "rank %u: a message of step %llu, micro-batch %s, weight version %llu and %llu bytes came "
                          "where step %llu, micro-batch %s, version %llu and %llu bytes were expected",
                          post->rank, (unsigned long long)met->step, part_format(met, came, sizeof came),
                          (unsigned long long)met->version, (unsigned long long)post->met_bytes,
                          (unsigned long long)want->step, part_format(want, expected, sizeof expected),
                          (unsigned long long)want->version, (unsigned long long)post->bytes);
}

static bool threads_test(struct transport *transport, struct ticket *ticket, struct error *error)
{
    struct end *end = (struct end *)transport;
    struct threads *engine = end->engine;
    assert(ticket->active);
    bool good = true;
    pthread_mutex_lock(&engine->lock);
    struct post *entry = &end->pool.posts[ticket->index];
    if (!engine->failed && entry->kind == POST_REDUCTION && entry->state == POST_MOVING && !entry->has_added)
        add_share(engine, entry);
    if (engine->failed) {
        good = report(engine, error);
    } else if (entry->state == POST_DONE && entry->done_ns <= clock_now_ns()) {
        ticket->done = true;
        ticket->active = false;
        ticket->done_ns = entry->done_ns;
        ticket->gathered_ns = entry->gathered_ns;
        ticket->event = entry->event;
        ticket->gathered = entry->gathered;
        if (entry->kind == POST_RECEIVE) {
            ticket->header = entry->met;
            good = is_expected(entry, error);
        }
        post_release(&end->pool, entry);
    }
    pthread_mutex_unlock(&engine->lock);
    return good;
}

// The next moment at which one of the rank's messages becomes visible; UINT64_MAX if none is under way; `now` for one
// that has arrived and was not announced.
static uint64_t next_arrival(struct end *end, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (struct post *entry = end->pool.active; entry; entry = entry->next_active) {
        if (entry->state != POST_DONE || entry->announced)
            continue;
        if (entry->done_ns <= now) {
            entry->announced = true;
            next = now;
        } else {
            next = min_u64(next, entry->done_ns);
        }
    }
    return next;
}

static bool threads_wait(struct transport *transport, uint64_t deadline_ns, struct error *error)
{
    struct end *end = (struct end *)transport;
    struct threads *engine = end->engine;
    pthread_mutex_lock(&engine->lock);
    end->waiting = true;
    for (;;) {
        const uint64_t now = clock_now_ns(), arrival = next_arrival(end, now);
        if (end->notified || engine->failed || arrival <= now || deadline_ns <= now)
            break;
        fail_if_quiescent(engine);
        if (!engine->failed)
            sleep_until(end, min_u64(arrival, deadline_ns));
    }
    end->waiting = end->notified = false;
    const bool good = !engine->failed || report(engine, error);
    pthread_mutex_unlock(&engine->lock);
    return good;
}

static void threads_cancel(struct transport *transport, struct ticket *ticket)
{
    struct end *end = (struct end *)transport;
    struct threads *engine = end->engine;
    if (!ticket->active)
        return;
    pthread_mutex_lock(&engine->lock);
    struct post *entry = &end->pool.posts[ticket->index];
    if (entry->kind == POST_REDUCTION) {
        leave(engine, end, entry);
    } else {
        while (entry->state == POST_MOVING)  // by another thread, which signals when it is done
            sleep_until(end, UINT64_MAX);
        if (entry->state == POST_QUEUED)
            post_queue_remove(queue_of(&engine->lanes[entry->lane], entry), entry);
    }
    post_release(&end->pool, entry);
    ticket->active = false;
    pthread_mutex_unlock(&engine->lock);
}

static void threads_abandon(struct transport *transport, const struct error *error)
{
    struct threads *engine = ((struct end *)transport)->engine;
    pthread_mutex_lock(&engine->lock);
    fail(engine, error);
    pthread_mutex_unlock(&engine->lock);
}

static bool threads_check(struct transport *transport, struct error *error)
{
    struct threads *engine = ((struct end *)transport)->engine;
    pthread_mutex_lock(&engine->lock);
    struct error reason = { 0 };
    if (!threads_queues_are_well(engine, &reason))
        fail(engine, &reason);
    const bool good = !engine->failed || report(engine, error);
    pthread_mutex_unlock(&engine->lock);
    return good;
}

const struct transport_functions threads_functions = {
    threads_post_send, threads_post_receive, threads_post_reduction, threads_post_pieces, threads_test,
    threads_wait,      threads_cancel,       threads_check,          threads_abandon,
};

struct transport *threads_transport(struct threads *threads, uint32_t rank)
{
    assert(rank < threads->ranks);
    return &threads->ends[rank].transport;
}

void threads_begin(struct threads *threads)
{
    pthread_mutex_lock(&threads->lock);
    for (uint32_t rank = 0; rank < threads->ranks; rank++)
        threads->ends[rank].left = threads->ends[rank].notified = false;
    pthread_mutex_unlock(&threads->lock);
}

void threads_leave(struct threads *threads, uint32_t rank)
{
    pthread_mutex_lock(&threads->lock);
    threads->ends[rank].left = true;
    fail_if_quiescent(threads);
    pthread_mutex_unlock(&threads->lock);
}
