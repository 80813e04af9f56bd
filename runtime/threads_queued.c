// The engine of threads on a device that runs ahead of its host: nothing is moved here,
// queues are told to.
#include <stdlib.h>

#include "device/kernels.h"
#include "runtime/threads_engine.h"

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

static bool gathering_open_queue(struct gathering *gathering, struct device *device, struct error *error)
{
    if (gathering->count < 2)
        return true;
    gathering->gathered = event_create(device, error);
    gathering->summed = gathering->gathered ? event_create(device, error) : NULL;
    gathering->queue = gathering->summed ? queue_create(device, error) : NULL;
    return gathering->queue != NULL;
}

bool threads_open_queues(struct threads *engine, struct error *error)
{
    struct device *device = engine->settings.device;
    bool good = true;
    for (uint32_t lane = 0; good && lane < engine->lane_count; lane++)
        good = lane_open_queue(&engine->lanes[lane], device, error);
    for (uint32_t group = 0; good && group < engine->gathering_count; group++)
        good = gathering_open_queue(&engine->gatherings[group], device, error);
    return good;
}

// Queues wait for each other's events, so all of them are done before any event goes.
void threads_close_queues(struct threads *engine)
{
    for (uint32_t lane = 0; lane < engine->lane_count; lane++)
        queue_free(engine->lanes[lane].queue);
    for (uint32_t group = 0; group < engine->gathering_count; group++)
        queue_free(engine->gatherings[group].queue);
    for (uint32_t l = 0; l < engine->lane_count; l++) {
        struct lane *lane = &engine->lanes[l];
        for (uint64_t e = 0; e < lane->event_count; e++)
            event_free(lane->events[e]);
        free(lane->events);
    }
    for (uint32_t group = 0; group < engine->gathering_count; group++) {
        event_free(engine->gatherings[group].gathered);
        event_free(engine->gatherings[group].summed);
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
    struct event *event = lane->events[lane->met++ % lane->event_count];
    wait_after(lane->queue, send);
    wait_after(lane->queue, receive);
    queue_copy(lane->queue, receive->data, send->data, smaller(send->bytes, receive->bytes));
    event_record(event, lane->queue);
    send->event = receive->event = event;
}

// The same sum in the same order as gathering_add()'s.
void threads_add_later(struct gathering *gathering)
{
    struct queue *queue = gathering->queue;
    struct post *const *posts = gathering->posts;
    const uint64_t bytes = posts[0]->bytes, count = bytes / sizeof(float);
    const float factor = gathering_factor(gathering);
    float *sum = posts[0]->data;
    for (uint32_t copy = 0; copy < gathering->count; copy++)
        wait_after(queue, posts[copy]);
    event_record(gathering->gathered, queue);
    for (uint32_t copy = 1; copy < gathering->adders && count > 0; copy++)
        kernel_add_floats(queue, sum, sum, posts[copy]->data, count);
    if (factor != 1.0f && count > 0)
        kernel_scale(queue, sum, sum, factor, count);
    for (uint32_t copy = 1; copy < gathering->count; copy++)
        queue_copy(queue, posts[copy]->data, sum, bytes);
    event_record(gathering->summed, queue);
    for (uint32_t copy = 0; copy < gathering->count; copy++) {
        posts[copy]->gathered = gathering->gathered;
        posts[copy]->event = gathering->summed;
    }
}

bool threads_queues_are_well(const struct threads *engine, struct error *error)
{
    bool good = true;
    for (uint32_t lane = 0; good && lane < engine->lane_count; lane++)
        good = !engine->lanes[lane].queue || queue_report(engine->lanes[lane].queue, error);
    for (uint32_t group = 0; good && group < engine->gathering_count; group++)
        good = !engine->gatherings[group].queue || queue_report(engine->gatherings[group].queue, error);
    return good;
}
