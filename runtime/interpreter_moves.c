// What is kept for backwards, to the host and back, on a queue of its own that runs beside the rank's.
#include "runtime/interpreting.h"

bool open_moves(struct interpreter *in, struct error *error)
{
    struct device *device = queue_device(in->needs.queue);
    bool moves = in->needs.schedule->moves;
    for (uint32_t l = 0; l < in->flights.local_count; l++)
        moves |= in->flights.locals[l].memory->bytes.comes_ahead;
    if (!moves)
        return true;
    for (size_t i = 0; i < sizeof in->move_events / sizeof in->move_events[0]; i++)
        if (!(in->move_events[i] = event_create(device, error)))
            return false;
    return (in->moves = queue_create(device, error)) != NULL;
}

void close_moves(struct interpreter *in)
{
    queue_free(in->moves);
    for (size_t i = 0; i < sizeof in->move_events / sizeof in->move_events[0]; i++)
        event_free(in->move_events[i]);
}

// Who had the slot may have been moved out of it by the other queue.
static void await_slot(struct interpreter *in, struct action action, enum slab_class class, struct queue *queue)
{
    const struct slab_row *row = &flights_local(&in->flights, action)->memory->rows[class];
    struct event *used = flights_used(&in->flights, action, class);
    if (row->oldest_first && used)
        queue_wait_event(queue, used);
}

bool take_kept(struct interpreter *in, struct action action, struct queue *queue, struct error *error)
{
    if (!take_slot(in, action, SLAB_KEPT, error) || !take_slot(in, action, SLAB_KEPT_THROUGH, error))
        return false;
    await_slot(in, action, SLAB_KEPT, queue);
    await_slot(in, action, SLAB_KEPT_THROUGH, queue);
    return true;
}

void await_prefetch(struct interpreter *in, struct action action)
{
    struct flight *flight = flights_flight(&in->flights, action);
    queue_behind(in, flight->fetched);
    flight->fetched = NULL;
}

// What has failed there is found out when the pass ends: its slots hold whatever they held, and the queue goes on.
bool moves_are_well(const struct interpreter *in, struct error *error)
{
    if (!in->moves || !queue_has_failed(in->moves))
        return true;
    queue_report(in->moves, error);
    return error_at(error, "rank %u: to its host and back", in->needs.rank);
}

// --- one move ----------------------------------------------------------------------------

static void move(struct interpreter *in, struct action action, enum slab_class from, enum slab_class to)
{
    const struct slab_row *row = &flights_local(&in->flights, action)->memory->rows[from];
    void *place = flights_at(&in->flights, action, from);
    if (place)
        queue_transfer(in->moves, flights_at(&in->flights, action, to), place, row->bytes);
}

static struct span_events begin_move(struct interpreter *in, struct action action)
{
    const struct span_events events = begin_span(in, &action, 1).events;
    if (in->latest)
        queue_wait_event(in->moves, in->latest);
    event_record(events.begin, in->moves);
    return events;
}

static void end_move(struct interpreter *in, struct span_events events)
{
    event_record(events.end, in->moves);
    in->moved = events.end;
    in->ended = in->needs.recorder->ranks[in->needs.rank].span_count;
}

bool do_evict(struct interpreter *in, struct action action, struct error *error)
{
    if (!take_slot(in, action, SLAB_AWAY, error) || !take_slot(in, action, SLAB_AWAY_THROUGH, error)
        || !stay_near(in, error))
        return false;
    const struct span_events events = begin_move(in, action);
    move(in, action, SLAB_KEPT, SLAB_AWAY);
    move(in, action, SLAB_KEPT_THROUGH, SLAB_AWAY_THROUGH);
    end_move(in, events);
    flights_give(&in->flights, action, SLAB_KEPT, events.end);
    flights_give(&in->flights, action, SLAB_KEPT_THROUGH, events.end);
    return true;
}

bool do_prefetch(struct interpreter *in, struct action action, struct error *error)
{
    if (!stay_near(in, error) || !take_kept(in, action, in->moves, error))
        return false;
    const struct span_events events = begin_move(in, action);
    move(in, action, SLAB_AWAY, SLAB_KEPT);
    move(in, action, SLAB_AWAY_THROUGH, SLAB_KEPT_THROUGH);
    end_move(in, events);
    flights_flight(&in->flights, action)->fetched = events.end;
    flights_give(&in->flights, action, SLAB_AWAY, events.end);
    flights_give(&in->flights, action, SLAB_AWAY_THROUGH, events.end);
    return true;
}
