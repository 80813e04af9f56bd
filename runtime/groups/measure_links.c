#include "runtime/groups/measure_links.h"

#include <poll.h>
#include <sched.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/communicator.h"

static const uint64_t second_ns = 1000000000;
enum { TIMED_ROUNDS = 2, LOOK_EVERY = 64, WORD_BYTES = 256 };

// This rank's end of the link being measured.
struct link_end {
    struct device *device;
    const struct process_group *group;
    uint64_t deadline_ns;
    uint32_t first;  // of the two ranks, which begins
    uint32_t place;  // 0: this rank is the first
    struct communicator *communicator;
    struct queue *queue;
    struct event *from, *to;
    char *memory;    // the send buffer, then the receive buffer
    uint64_t room_bytes;
};

// --- waiting --------------------------------------------------------------------------------

// That another rank is gone says more than that the link to it broke, and may become known a little later.
static bool say_first(const struct link_end *end, const struct error *broken, struct error *error)
{
    struct error first = { 0 };
    const uint64_t until_ns = clock_now_ns() + second_ns;
    while (end->group->is_well(end->group->self, &first) && clock_now_ns() < until_ns)
        poll(NULL, 0, 1);
    const struct error *first_broken = first.kind != ERROR_NONE ? &first : broken;
    return error_hand_on(error, first_broken);
}

static bool is_late(const struct link_end *end, uint64_t until_ns, struct error *error)
{
    char limit[NUMBER_SIZE];
    if (clock_now_ns() < until_ns)
        return false;
    error_set_kind(error, ERROR_MACHINE, "nothing came within %s", time_format(end->deadline_ns, limit));
    return true;
}

// Waits until the communicator can be given something again, or until everything it was given is done. It polls
// without a pause: a host that slept would look too late, and its delay would be measured.
static bool await(const struct link_end *end, bool is_all, struct error *error)
{
    const uint64_t until_ns = add_clamped(clock_now_ns(), end->deadline_ns);
    for (uint64_t turn = 1;; turn++) {
        struct error broken = { 0 };
        bool ready = false;
        if (!communicator_is_ready(end->communicator, &ready, &broken))
            return say_first(end, &broken, error);
        if (ready && !is_all)
            return true;
        if (ready && queue_is_done(end->queue) && event_done(end->from) && event_done(end->to))
            return queue_report(end->queue, &broken) || say_first(end, &broken, error);
        if (turn % LOOK_EVERY == 0 && !end->group->is_well(end->group->self, error))
            return false;
        if (is_late(end, until_ns, error))
            return false;
        sched_yield();
    }
}

// --- messages -------------------------------------------------------------------------------

static struct message_end message_of(const struct link_end *end, bool is_send, uint64_t bytes)
{
    return (struct message_end){ .is_send = is_send, .peer = 1 - end->place, .bytes = bytes,
                                 .data = end->memory + (is_send ? 0 : end->room_bytes) };
}

static bool pass(const struct link_end *end, bool is_send, uint64_t bytes, struct error *error)
{
    const struct message_end message = message_of(end, is_send, bytes);
    communicator_exchange(end->communicator, end->queue, &message, 1);
    return await(end, false, error);
}

static bool both_pass(const struct link_end *end, uint64_t bytes, struct error *error)
{
    const struct message_end messages[] = { message_of(end, true, bytes), message_of(end, false, bytes) };
    communicator_exchange(end->communicator, end->queue, messages, 2);
    return await(end, false, error);
}

static bool there_and_back(const struct link_end *end, uint64_t bytes, struct error *error)
{
    const bool sends_first = end->place == 0;
    return pass(end, sends_first, bytes, error) && pass(end, !sends_first, bytes, error);
}

// The time from the first mark to here.
static bool mark_end(const struct link_end *end, uint64_t *ns, struct error *error)
{
    event_record(end->to, end->queue);
    if (!await(end, true, error))
        return false;
    *ns = event_time_ns(end->to) - event_time_ns(end->from);
    return true;
}

static bool ping_pong(void *self, uint64_t bytes, uint64_t *ns, struct error *error)
{
    const struct link_end *end = self;
    bool good = there_and_back(end, bytes, error);
    event_record(end->from, end->queue);
    for (int round = 0; good && round < TIMED_ROUNDS; round++)
        good = there_and_back(end, bytes, error);
    good = good && mark_end(end, ns, error);
    *ns = good ? *ns / TIMED_ROUNDS : 0;
    return good;
}

// A short message from the first end starts a stream from the other. A short message from the other end confirms that
// all of the first end's stream has arrived: what a sender has handed over may still be in some buffer.
static bool stream(void *self, enum link_way way, uint64_t bytes, uint64_t count, uint64_t *ns, struct error *error)
{
    const struct link_end *end = self;
    const bool is_first = end->place == 0, sends = is_first == (way == LINK_THERE);
    bool good = there_and_back(end, WORD_BYTES, error);
    event_record(end->from, end->queue);
    if (way == LINK_BACK)
        good = good && pass(end, is_first, WORD_BYTES, error);
    for (uint64_t i = 0; good && i < count; i++)
        good = way == LINK_BOTH ? both_pass(end, bytes, error) : pass(end, sends, bytes, error);
    if (way != LINK_BACK)
        good = good && pass(end, !is_first, WORD_BYTES, error);
    return good && mark_end(end, ns, error);
}

static bool tell(void *self, uint64_t *value, struct error *error)
{
    const struct link_end *end = self;
    if (end->place == 0)
        queue_upload(end->queue, end->memory, value, sizeof *value);
    if (!pass(end, end->place == 0, sizeof *value, error))
        return false;
    if (end->place == 1)
        queue_download(end->queue, value, end->memory + end->room_bytes, sizeof *value);
    return await(end, true, error);
}

// --- a link -----------------------------------------------------------------------------------

static bool open_end(struct link_end *end, const struct communicator_name *name, struct error *error)
{
    end->queue = queue_create(end->device, error);
    end->from = end->queue ? event_create(end->device, error) : NULL;
    end->to = end->from ? event_create(end->device, error) : NULL;
    end->memory = end->to ? device_allocate(end->device, 2 * end->room_bytes, error) : NULL;
    if (!end->memory)
        return false;
    queue_zero(end->queue, end->memory, 2 * end->room_bytes);
    end->communicator = communicator_open(end->device, name, 2, end->place, error);
    return end->communicator && await(end, true, error)
        && communicator_register(end->communicator, end->memory, 2 * end->room_bytes, error);
}

static void close_end(struct link_end *end)
{
    struct error known = { 0 };  // was reported when it happened
    if (end->queue)
        queue_wait(end->queue, &known);
    communicator_close(end->communicator);
    event_free(end->from);
    event_free(end->to);
    queue_free(end->queue);
    device_release(end->device, end->memory);
}

static bool measure_end(struct link_end *end, const struct link_settings *settings, struct link_cost *cost,
                        struct error *error)
{
    const struct link_measured what = { .self = end, .ping_pong = ping_pong, .stream = stream, .tell = tell };
    return measure_link(&what, settings->sizes, settings->size_count, settings->options->repeats, cost, error);
}

// This rank's part in measuring the link between rank `first` and the next.
static bool take_part(struct link_end *end, const struct link_settings *settings, const struct communicator_name *name,
                      struct link_cost *cost, bool *is_stuck, struct error *error)
{
    struct error reason = { 0 };
    const bool good = open_end(end, name, &reason) && measure_end(end, settings, cost, &reason);
    if (!good) {
        if (end->group->is_well(end->group->self, &(struct error){ 0 }))  // it went wrong on this rank
            error_at(&reason, "the link between rank %u and rank %u", end->first, end->first + 1);
        // The others wait for this rank, and what is under way never ends by itself.
        end->group->abandon(end->group->self, &reason);
        if (end->communicator && !communicator_abort(end->communicator, settings->abort_ns))
            *is_stuck = true;
    }
    if (!*is_stuck)
        close_end(end);
    return good || error_hand_on(error, &reason);
}

// --- all of them --------------------------------------------------------------------------------

static uint64_t largest_of(const struct link_settings *settings)
{
    uint64_t most = 0;
    for (size_t i = 0; i < settings->size_count; i++)
        most = settings->sizes[i] > most ? settings->sizes[i] : most;
    return most;
}

static bool measure_next(const struct link_end *blank, const struct link_settings *settings, struct link_cost *cost,
                         bool *is_stuck, struct error *error)
{
    const struct process_group *group = blank->group;
    const uint32_t first = blank->first;
    struct communicator_name name = { { 0 } };
    if (group->rank == first && !communicator_make_name(blank->device, &name, error)) {
        group->abandon(group->self, error);
        return false;
    }
    if (!group->broadcast(group->self, first, &name, sizeof name, error))
        return false;
    if (group->rank == first || group->rank == first + 1) {
        struct link_end end = *blank;
        end.place = group->rank - first;
        if (!take_part(&end, settings, &name, cost, is_stuck, error))
            return false;
    }
    return group->broadcast(group->self, first, cost, sizeof *cost, error);
}

bool measure_links(struct device *device, const struct process_group *group, const struct link_settings *settings,
                   struct link_cost *to_next, bool *is_stuck, struct error *error)
{
    struct link_settings whole = *settings;
    const struct measure_options *options = settings->options;
    if (!whole.sizes) {
        whole.sizes = link_usual_sizes;
        whole.size_count = LINK_SIZES;
    }
    whole.abort_ns = whole.abort_ns ? whole.abort_ns : 5 * second_ns;
    const struct link_end blank = { .device = device, .group = group, .room_bytes = round_to_256(largest_of(&whole)),
                                    .deadline_ns = whole.deadline_ns ? whole.deadline_ns : 60 * second_ns };
    for (uint32_t first = 0; first + 1 < group->ranks; first++) {
        struct link_end end = blank;
        end.first = first;
        if (!measure_next(&end, &whole, &to_next[first], is_stuck, error))
            return false;
        if (options->progress)
            options->progress(options->self, first + 1, group->ranks - 1);
    }
    return true;
}
