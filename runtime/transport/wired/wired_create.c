#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "device/kernels.h"
#include "runtime/transport/wired/wired_engine.h"

static const uint64_t usual_deadline_ns = 600u * (uint64_t)1000000000, usual_abort_ns = 5u * (uint64_t)1000000000;
static const uint64_t usual_room_bytes = (uint64_t)32 << 20;
enum { GREETING_BYTES = 256 };

// --- waiting, at the start ----------------------------------------------------------

static bool pause_until(struct wired *wired, uint64_t deadline_ns, const struct lane_end *end, struct error *error)
{
    const struct timespec pause = { .tv_nsec = 200000 };
    char limit[NUMBER_SIZE];
    if (!wired->settings.group->is_well(wired->settings.group->self, error))
        return false;
    if (clock_now_ns() >= deadline_ns)
        return error_set_kind(error, ERROR_MACHINE,
                              "rank %u: the wire between rank %u and rank %u did not come up within "
                              "%s",
                              wired->transport.rank, end->wire->ranks[0], end->wire->ranks[1],
                              time_format(wired->settings.deadline_ns, limit));
    ppoll(NULL, 0, &pause, NULL);
    return true;
}

static bool await_ready(struct wired *wired, struct lane_end *end, uint64_t deadline_ns, struct error *error)
{
    for (bool ready = false;;) {
        if (!lane_is_ready(wired, end, &ready, error))
            return false;
        if (ready)
            return true;
        if (!pause_until(wired, deadline_ns, end, error))
            return false;
    }
}

static bool await_queue(struct wired *wired, struct lane_end *end, uint64_t deadline_ns, struct error *error)
{
    while (!queue_is_done(end->queue))
        if (!pause_until(wired, deadline_ns, end, error))
            return false;
    struct error reason = { 0 };
    return queue_report(end->queue, &reason) || wired_broke(wired, &reason, error);
}

// --- wires ------------------------------------------------------------------------------

// The lowest of a wire's ranks makes its name, and all ranks learn all names.
static bool share_names(struct wired *wired, struct communicator_name **names, struct error *error)
{
    const uint32_t ranks = wired->settings.schedule->ranks, count = wired->wiring.count;
    uint32_t most = 0, made = 0;
    uint32_t *makes = calloc(ranks, sizeof *makes);
    for (uint32_t i = 0; makes && i < count; i++) {
        const uint32_t maker = wired->wiring.wires[i].ranks[0];
        most = ++makes[maker] > most ? makes[maker] : most;
    }
    struct communicator_name *sent = calloc(most + 1, sizeof *sent),
                             *all = calloc((size_t)ranks * most + 1, sizeof *all);
    *names = calloc(count + 1, sizeof **names);
    bool good = (makes && sent && all && *names) || error_no_memory(error, "the names of wires");
    for (uint32_t i = 0; good && i < count; i++)
        if (wired->wiring.wires[i].ranks[0] == wired->transport.rank)
            good = communicator_make_name(wired->settings.device, &sent[made++], error);
    good =
        good && wired->settings.group->all_gather(wired->settings.group->self, sent, most * sizeof *sent, all, error);
    if (good)
        memset(makes, 0, ranks * sizeof *makes);
    for (uint32_t i = 0; good && i < count; i++) {
        const uint32_t maker = wired->wiring.wires[i].ranks[0];
        (*names)[i] = all[(size_t)maker * most + makes[maker]++];
    }
    free(makes);
    free(sent);
    free(all);
    return good;
}

static bool open_posted(struct lane_end *end, struct device *device, struct error *error)
{
    end->posted = calloc(end->count + 1u, sizeof *end->posted);
    if (!end->posted)
        return error_no_memory(error, "the messages of a wire");
    for (uint32_t turn = 0; turn < end->count; turn++)
        if (!(end->posted[turn].event = event_create(device, error)))
            return false;
    end->turn = end->count;  // the first post begins a pass
    return true;
}

static bool open_end(struct wired *wired, struct lane_end *end, const struct communicator_name *name,
                     uint64_t deadline_ns, struct error *error)
{
    struct device *device = wired->settings.device;
    const uint32_t number = (uint32_t)(end - wired->ends);
    end->count = wired->turns.on_wire[number];
    end->queue = queue_create(device, error);
    if (!end->queue || (end->wire->kind != WIRE_REDUCTION && !open_posted(end, device, error)))
        return false;
    end->communicator = communicator_open(device, name, end->wire->rank_count,
                                          wire_end(end->wire, wired->transport.rank), error);
    return end->communicator && await_ready(wired, end, deadline_ns, error);
}

static bool exchange_messages(const struct wired *wired, uint32_t a, uint32_t b)
{
    for (uint32_t channel = 0; channel < channel_count(wired->settings.schedule); channel++) {
        const struct channel_ends ends = channel_ends(wired->settings.schedule, channel);
        if (wired->wiring.wire_of_channel[channel] != NO_WIRE
            && ((ends.from == a && ends.to == b) || (ends.from == b && ends.to == a)))
            return true;
    }
    return false;
}

// Sends something small over a wire, in the directions in which it will be used, so that all connections exist before
// the first message.
static bool greet(struct wired *wired, struct lane_end *end, uint64_t deadline_ns, struct error *error)
{
    char *room = wired->greetings;
    const uint32_t this_end = wire_end(end->wire, wired->transport.rank), ranks = end->wire->rank_count;
    const bool both = end->wire->kind != WIRE_EDGE;
    struct message_end *ends = calloc(2 * ranks, sizeof *ends);
    size_t count = 0;
    if (!ends)
        return error_no_memory(error, "the first messages of a wire");
    for (uint32_t peer = 0; peer < ranks; peer++) {
        if (peer == this_end || (end->wire->kind == WIRE_ALL && !exchange_messages(wired, this_end, peer)))
            continue;
        if (both || this_end == 0)
            ends[count++] = (struct message_end){ .is_send = true, .peer = peer, .data = room,
                                                  .bytes = GREETING_BYTES };
        if (both || this_end == 1)
            ends[count++] = (struct message_end){ .peer = peer, .bytes = GREETING_BYTES,
                                                  .data = room + (peer + 1) * (size_t)GREETING_BYTES };
    }
    queue_zero(end->queue, room, (ranks + 1) * (uint64_t)GREETING_BYTES);
    communicator_exchange(end->communicator, end->queue, ends, count);
    free(ends);
    return await_ready(wired, end, deadline_ns, error) && await_queue(wired, end, deadline_ns, error);
}

// In the order of their numbers, as on all ranks, so that no two ranks wait for each other on two wires.
static bool open_ends(struct wired *wired, struct error *error)
{
    const uint64_t deadline_ns = add_clamped(clock_now_ns(), wired->settings.deadline_ns);
    struct communicator_name *names = NULL;
    wired->greetings = device_allocate(wired->settings.device,
                                       (wired->settings.schedule->ranks + 1) * (uint64_t)GREETING_BYTES, error);
    bool good = wired->greetings && share_names(wired, &names, error);
    for (uint32_t i = 0; good && i < wired->wiring.count; i++) {
        struct lane_end *end = &wired->ends[i];
        end->wire = &wired->wiring.wires[i];
        if (wire_joins(end->wire, wired->transport.rank))
            good = open_end(wired, end, &names[i], deadline_ns, error) && greet(wired, end, deadline_ns, error);
    }
    free(names);
    return good;
}

// --- reductions -----------------------------------------------------------------------------

// Adds what a rank contributes to each update of a stage in a pass; returns the number of updates.
static uint32_t add_contributions(const struct schedule *schedule, uint32_t stage, uint32_t rank, uint32_t *all)
{
    const struct action_list *list = &schedule->lists[rank];
    uint32_t parts = 0, update = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct action action = list->at[i];
        if (action.stage != stage)
            continue;
        parts += action.kind == ACTION_B || action.kind == ACTION_W;
        if (action.kind == ACTION_REDUCE) {
            all[update++] += parts / schedule->splits;
            parts = 0;
        }
    }
    return update;
}

// Without a flush, the update takes the mean over what all copies have contributed. The lists say how much that is,
// so no rank has to ask another.
static bool open_contributions(struct wired *wired, struct error *error)
{
    const struct schedule *schedule = wired->settings.schedule;
    const struct placement *placement = wired->settings.placement;
    for (uint32_t stage = 0; schedule->weights != WEIGHTS_FLUSH && stage < schedule->stages; stage++) {
        struct contributions *given = &wired->contributions[stage];
        if (wired->wiring.wire_of_group[stage] == NO_WIRE)
            continue;
        given->all = calloc(schedule->lists[placement_rank(placement, stage, 0)].count + 1, sizeof *given->all);
        if (!given->all)
            return error_no_memory(error, "what the copies of a stage bring");
        for (uint32_t copy = 0; copy < placement_copies(placement, stage); copy++)
            given->count = add_contributions(schedule, stage, placement_rank(placement, stage, copy), given->all);
    }
    return true;
}

// Allocates room for one piece from each copy, for the stage on this rank with most copies.
static bool open_room(struct wired *wired, struct error *error)
{
    uint32_t copies = 0;
    for (uint32_t i = 0; i < wired->wiring.count; i++)
        if (wired->ends[i].communicator && wired->ends[i].wire->kind == WIRE_REDUCTION
            && wired->ends[i].wire->rank_count > copies)
            copies = wired->ends[i].wire->rank_count;
    if (copies == 0)
        return true;
    wired->room_floats = max_u64(wired->settings.room_bytes / sizeof(float) / copies,
                                 sizeof(struct sign_block) / sizeof(float));  // a number of any kind
    const uint64_t bytes = wired->room_floats * copies * sizeof(float);
    wired->room = device_allocate(wired->settings.device, bytes, error);
    wired->reduced = wired->room ? event_create(wired->settings.device, error) : NULL;
    wired->gathered = wired->reduced ? event_create(wired->settings.device, error) : NULL;
    return wired->gathered && wired_register(wired, wired->room, bytes, error);
}

// --- making and freeing ------------------------------------------------------------------------

static bool open_tables(struct wired *wired, struct error *error)
{
    const struct wired_settings *settings = &wired->settings;
    struct communication communication;
    if (!device_communication(settings->device, &communication, error)
        || !wiring_open(&wired->wiring, settings->schedule, settings->placement, settings->ties,
                        settings->one_for_all, error)
        || !turns_open(&wired->turns, &wired->wiring, settings->schedule, settings->group->rank, error))
        return false;
    wired->ends = calloc(wired->wiring.count + 1u, sizeof *wired->ends);
    wired->passed = calloc(channel_count(settings->schedule) + 1u, sizeof *wired->passed);
    wired->contributions = calloc(settings->schedule->stages + (settings->ties ? settings->ties->count : 0) + 1u,
                            sizeof *wired->contributions);
    return (wired->ends && wired->passed && wired->contributions)
        || error_no_memory(error, "the wires of a rank");
}

struct wired *wired_create(const struct wired_settings *settings, struct error *error)
{
    struct wired *wired = calloc(1, sizeof *wired);
    if (!wired) {
        error_no_memory(error, "the wires of a rank");
        return NULL;
    }
    wired->transport = (struct transport){ .functions = &wired_functions, .rank = settings->group->rank };
    wired->settings = *settings;
    if (settings->deadline_ns == 0)
        wired->settings.deadline_ns = usual_deadline_ns;
    if (settings->room_bytes == 0)
        wired->settings.room_bytes = usual_room_bytes;
    if (settings->abort_ns == 0)
        wired->settings.abort_ns = usual_abort_ns;
    struct error reason = { 0 };
    if (open_tables(wired, &reason) && open_ends(wired, &reason) && open_room(wired, &reason)
        && open_contributions(wired, &reason))
        return wired;
    wired_functions.abandon(&wired->transport, &reason);  // the others wait for this rank
    error_hand_on(error, &reason);
    wired_free(wired);
    return NULL;
}

static void close_end(struct lane_end *end)
{
    struct error seen = { 0 };  // was reported when it happened
    if (end->queue)
        queue_wait(end->queue, &seen);
    communicator_close(end->communicator);
    queue_free(end->queue);
    for (uint32_t turn = 0; end->posted && turn < end->count; turn++)
        event_free(end->posted[turn].event);
    free(end->posted);
}

bool wired_free(struct wired *wired)
{
    if (!wired)
        return true;
    const bool is_free = !wired->is_stuck;
    for (uint32_t i = 0; is_free && wired->ends && i < wired->wiring.count; i++)
        close_end(&wired->ends[i]);
    if (is_free) {
        device_release(wired->settings.device, wired->room);
        device_release(wired->settings.device, wired->greetings);
        event_free(wired->reduced);
        event_free(wired->gathered);
    }
    for (uint32_t stage = 0; wired->contributions && stage < wired->settings.schedule->stages; stage++)
        free(wired->contributions[stage].all);
    free(wired->contributions);
    free(wired->passed);
    free(wired->ends);
    turns_close(&wired->turns);
    wiring_close(&wired->wiring);
    free(wired);
    return is_free;
}

bool wired_register(struct wired *wired, void *memory, uint64_t bytes, struct error *error)
{
    for (uint32_t i = 0; i < wired->wiring.count; i++)
        if (wired->ends[i].communicator && !communicator_register(wired->ends[i].communicator, memory, bytes, error))
            return false;
    return true;
}

struct transport *wired_transport(struct wired *wired)
{
    return &wired->transport;
}

const struct wiring *wired_wiring(const struct wired *wired)
{
    return &wired->wiring;
}
