// Moves kept activations to the host and back, on a queue that runs concurrently with the rank's own.
#include "runtime/ranks/interpreting.h"

bool open_moves(struct interpreter *interpreter, struct error *error)
{
    struct device *device = queue_device(interpreter->needs.queue);
    bool moves = interpreter->needs.schedule->moves;
    for (uint32_t l = 0; l < interpreter->flights.local_count; l++)
        moves |= interpreter->flights.locals[l].memory->bytes.comes_ahead;
    if (!moves)
        return true;
    for (size_t i = 0; i < sizeof interpreter->move_events / sizeof interpreter->move_events[0]; i++)
        if (!(interpreter->move_events[i] = event_create(device, error)))
            return false;
    return (interpreter->moves = queue_create(device, error)) != NULL;
}

void close_moves(struct interpreter *interpreter)
{
    queue_free(interpreter->moves);
    for (size_t i = 0; i < sizeof interpreter->move_events / sizeof interpreter->move_events[0]; i++)
        event_free(interpreter->move_events[i]);
}

// The slot's previous user may have been moved out of it by the other queue.
static void await_slot(struct interpreter *interpreter, struct action action, enum slab_class class,
                       struct queue *queue)
{
    const struct slab_row *row = &flights_local(&interpreter->flights, action)->memory->rows[class];
    struct event *used = flights_used(&interpreter->flights, action, class);
    if (row->oldest_first && used)
        queue_wait_event(queue, used);
}

bool take_kept(struct interpreter *interpreter, struct action action, struct queue *queue, struct error *error)
{
    if (!take_slot(interpreter, action, SLAB_KEPT, error) || !take_slot(interpreter, action, SLAB_KEPT_THROUGH, error))
        return false;
    await_slot(interpreter, action, SLAB_KEPT, queue);
    await_slot(interpreter, action, SLAB_KEPT_THROUGH, queue);
    return true;
}

void await_prefetch(struct interpreter *interpreter, struct action action)
{
    struct flight *flight = flights_flight(&interpreter->flights, action);
    queue_behind(interpreter, flight->fetched);
    flight->fetched = NULL;
}

// --- one move ----------------------------------------------------------------------------

static void move(struct interpreter *interpreter, struct action action, enum slab_class from, enum slab_class to)
{
    const struct slab_row *row = &flights_local(&interpreter->flights, action)->memory->rows[from];
    void *place = flights_at(&interpreter->flights, action, from);
    if (place)
        queue_transfer(interpreter->moves, flights_at(&interpreter->flights, action, to), place, row->bytes);
}

static struct span_events begin_move(struct interpreter *interpreter, struct action action)
{
    const struct span_events events = begin_span(interpreter, &action, 1).events;
    if (interpreter->latest)
        queue_wait_event(interpreter->moves, interpreter->latest);
    event_record(events.begin, interpreter->moves);
    return events;
}

static void end_move(struct interpreter *interpreter, struct span_events events)
{
    event_record(events.end, interpreter->moves);
    interpreter->moved = events.end;
    interpreter->ended = interpreter->needs.recorder->ranks[interpreter->needs.rank].span_count;
}

bool do_evict(struct interpreter *interpreter, struct action action, struct error *error)
{
    if (!take_slot(interpreter, action, SLAB_AWAY, error) || !take_slot(interpreter, action, SLAB_AWAY_THROUGH, error)
        || !stay_near(interpreter, error))
        return false;
    const struct span_events events = begin_move(interpreter, action);
    move(interpreter, action, SLAB_KEPT, SLAB_AWAY);
    move(interpreter, action, SLAB_KEPT_THROUGH, SLAB_AWAY_THROUGH);
    end_move(interpreter, events);
    flights_give(&interpreter->flights, action, SLAB_KEPT, events.end);
    flights_give(&interpreter->flights, action, SLAB_KEPT_THROUGH, events.end);
    return true;
}

bool do_prefetch(struct interpreter *interpreter, struct action action, struct error *error)
{
    if (!stay_near(interpreter, error) || !take_kept(interpreter, action, interpreter->moves, error))
        return false;
    const struct span_events events = begin_move(interpreter, action);
    move(interpreter, action, SLAB_AWAY, SLAB_KEPT);
    move(interpreter, action, SLAB_AWAY_THROUGH, SLAB_KEPT_THROUGH);
    end_move(interpreter, events);
    flights_flight(&interpreter->flights, action)->fetched = events.end;
    flights_give(&interpreter->flights, action, SLAB_AWAY, events.end);
    flights_give(&interpreter->flights, action, SLAB_AWAY_THROUGH, events.end);
    return true;
}
