// The engine of threads on a device that runs ahead of its host. Nothing is moved here; queues are told to move it.
#include <stdlib.h>

#include "device/kernels.h"
#include "runtime/transport/threads_engine.h"

// --- opening and closing -------------------------------------------------------------

static bool lane_open_queue(struct lane *lane, struct device *device, struct error *error)
{
    if (lane->channel.messages == 0)
        return true;
    lane->events = calloc(lane->channel.messages, sizeof(struct event *));
    if (!lane->events)
        return error_no_memory(error, "the channels between ranks");
    for (; lane->event_count < lane->channel.messages; lane->event_count++)
        if (!(lane->events[lane->event_count] = event_create(device, error)))
            return false;
    lane->queue = queue_create(device, error);
    return lane->queue != NULL;
}

static bool all_reduce_open_queue(struct all_reduce *all_reduce, struct device *device, struct error *error)
{
    if (all_reduce->count < 2)
        return true;
    all_reduce->gathered = event_create(device, error);
    all_reduce->summed = all_reduce->gathered ? event_create(device, error) : NULL;
    all_reduce->queue = all_reduce->summed ? queue_create(device, error) : NULL;
    return all_reduce->queue != NULL;
}

bool threads_open_queues(struct threads *engine, struct error *error)
{
    struct device *device = engine->settings.device;
    bool good = true;
    for (uint32_t lane = 0; good && lane < engine->lane_count; lane++)
        good = lane_open_queue(&engine->lanes[lane], device, error);
    for (uint32_t group = 0; good && group < engine->all_reduce_count; group++)
        good = all_reduce_open_queue(&engine->all_reduces[group], device, error);
    return good;
}

// Queues wait for each other's events, so all queues are freed before any event.
void threads_close_queues(struct threads *engine)
{
    for (uint32_t lane = 0; lane < engine->lane_count; lane++)
        queue_free(engine->lanes[lane].queue);
    for (uint32_t group = 0; group < engine->all_reduce_count; group++)
        queue_free(engine->all_reduces[group].queue);
    for (uint32_t l = 0; l < engine->lane_count; l++) {
        struct lane *lane = &engine->lanes[l];
        for (uint64_t e = 0; e < lane->event_count; e++)
            event_free(lane->events[e]);
        free(lane->events);
    }
    for (uint32_t group = 0; group < engine->all_reduce_count; group++) {
        event_free(engine->all_reduces[group].gathered);
        event_free(engine->all_reduces[group].summed);
    }
}

// --- what queues are told --------------------------------------------------------------

static void wait_after(struct queue *queue, const struct post *post)
{
    if (post->after)
        queue_wait_event(queue, post->after);
}

void threads_copy_later(struct lane *lane, struct post *send, struct post *receive)
{
    struct meeting_piece piece;
    struct event *event = lane->events[lane->met++ % lane->event_count];
    wait_after(lane->queue, send);
    wait_after(lane->queue, receive);
    for (size_t i = 0; post_meet_piece(send, receive, i, &piece); i++)
        queue_copy(lane->queue, piece.to, piece.from, piece.bytes);
    event_record(event, lane->queue);
    send->event = receive->event = event;
}

// The same sum in the same order as all_reduce_add()'s, in the first copy's buffer.
static void add_all(const struct all_reduce *all_reduce)
{
    struct queue *queue = all_reduce->queue;
    const uint64_t count = all_reduce->posts[0]->bytes / sizeof(float);
    const float factor = all_reduce_factor(all_reduce);
    float *sum = all_reduce->posts[0]->data;
    for (uint32_t copy = 1; copy < all_reduce->adders && count > 0; copy++)
        kernel_add_floats(queue, sum, sum, all_reduce->posts[copy]->data, count);
    if (factor != 1.0f && count > 0)
        kernel_scale(queue, sum, sum, factor, count);
}

// Copies a copy's share from where it is to its place among the numbers of another.
static void hand_on(const struct all_reduce *all_reduce, uint32_t share, const void *from, uint32_t to)
{
    const struct share_bytes bytes = all_reduce_share(all_reduce, share);
    char *data = all_reduce->posts[to]->data;
    if (data && from != data + bytes.first && bytes.count > 0)
        queue_copy(all_reduce->queue, data + bytes.first, from, bytes.count);
}

// Adds what all copies contribute onto one copy's share.
static void add_onto(const struct all_reduce *all_reduce, uint32_t share)
{
    const struct share_bytes bytes = all_reduce_share(all_reduce, share);
    float *sum = all_reduce_own(all_reduce, share);
    for (uint32_t copy = 0; copy < all_reduce->count && bytes.count > 0; copy++) {
        const char *data = all_reduce->posts[copy]->data;
        if (data)
            kernel_add_floats(all_reduce->queue, sum, sum, (const float *)(const void *)(data + bytes.first),
                              bytes.count / sizeof *sum);
    }
}

static void give_all(const struct all_reduce *all_reduce)
{
    const struct post *first = all_reduce->posts[0];
    const enum reduction_kind kind = first->what.kind;
    if (kind == REDUCTION_WHOLE || kind == REDUCTION_SHARES)
        add_all(all_reduce);
    for (uint32_t copy = 0; copy < all_reduce->count; copy++) {
        if (kind == REDUCTION_WHOLE && copy > 0)
            queue_copy(all_reduce->queue, all_reduce->posts[copy]->data, first->data, first->bytes);
        if (kind == REDUCTION_SHARES)
            hand_on(all_reduce, copy, (char *)first->data + all_reduce_share(all_reduce, copy).first, copy);
        if (kind == REDUCTION_ONTO)
            add_onto(all_reduce, copy);
        if (kind == REDUCTION_COMPRESSED)
            all_reduce_add_compressed(all_reduce, copy, all_reduce->queue);
        const bool is_for_all = kind == REDUCTION_GATHER || kind == REDUCTION_COMPRESSED;
        for (uint32_t to = 0; is_for_all && to < all_reduce->count; to++)
            hand_on(all_reduce, copy, all_reduce_own(all_reduce, copy), to);
    }
}

void threads_add_later(struct all_reduce *all_reduce)
{
    struct queue *queue = all_reduce->queue;
    struct post *const *posts = all_reduce->posts;
    for (uint32_t copy = 0; copy < all_reduce->count; copy++)
        wait_after(queue, posts[copy]);
    event_record(all_reduce->gathered, queue);
    give_all(all_reduce);
    event_record(all_reduce->summed, queue);
    for (uint32_t copy = 0; copy < all_reduce->count; copy++) {
        posts[copy]->gathered = all_reduce->gathered;
        posts[copy]->event = all_reduce->summed;
    }
}

bool threads_queues_are_well(const struct threads *engine, struct error *error)
{
    if (!engine->settings.device || !device_runs_ahead(engine->settings.device))
        return true;  // there are none
    bool good = true;
    for (uint32_t lane = 0; good && lane < engine->lane_count; lane++)
        good = !engine->lanes[lane].queue || queue_report(engine->lanes[lane].queue, error);
    for (uint32_t group = 0; good && group < engine->all_reduce_count; group++)
        good = !engine->all_reduces[group].queue || queue_report(engine->all_reduces[group].queue, error);
    return good;
}
