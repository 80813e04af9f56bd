#include "common/clock.h"
#include "common/number.h"
#include "runtime/ranks/interpreting.h"

// --- waiting -------------------------------------------------------------------

bool await(struct interpreter *interpreter, struct ticket *ticket, struct action what, struct error *error)
{
    struct transport *transport = interpreter->needs.transport;
    if (!ticket->active)
        return true;
    if (!transport->functions->test(transport, ticket, error))
        return false;
    if (ticket->done)
        return true;
    const uint64_t deadline_ns = add_clamped(clock_now_ns(), interpreter->needs.deadline_ns);
    rank_status_wait(interpreter->needs.status, interpreter->needs.rank, what);
    while (!ticket->done) {
        if (!transport->functions->wait(transport, deadline_ns, error)
            || !transport->functions->test(transport, ticket, error))
            return false;
        if (!ticket->done && clock_now_ns() >= deadline_ns)
            return deadline_missed(interpreter, error);
    }
    return true;
}

bool await_message(struct interpreter *interpreter, struct ticket *ticket, struct action receive, struct error *error)
{
    const bool is_new = ticket->active;
    if (!await(interpreter, ticket, receive, error))
        return false;
    if (is_new) {
        queue_behind(interpreter, ticket->event);
        recorder_arrived(interpreter->needs.recorder, receive, (struct moment){ ticket->event, ticket->done_ns });
    }
    return true;
}

// The slot is free again when its message is sent.
static bool await_outgoing(struct interpreter *interpreter, struct local *local, enum direction direction,
                           struct outgoing *outgoing, struct error *error)
{
    if (!await(interpreter, &outgoing->ticket, outgoing->send, error))
        return false;
    row_give(outgoing_row(local, direction), (uint32_t)(outgoing - local->outgoing[direction]),
             outgoing->ticket.event);
    return true;
}

bool await_all_outgoing(struct interpreter *interpreter, struct error *error)
{
    for (uint32_t l = 0; l < interpreter->flights.local_count; l++) {
        struct local *local = &interpreter->flights.locals[l];
        for (enum direction direction = OUTPUTS; direction <= GRADIENTS; direction++) {
            struct outgoing *oldest;
            while ((oldest = outgoing_oldest(local, direction)))
                if (!await_outgoing(interpreter, local, direction, oldest, error))
                    return false;
            const struct slab_row *row = outgoing_row(local, direction);
            for (uint32_t slot = 0; slot < row->count; slot++)
                queue_behind(interpreter, row->used[slot]);
        }
    }
    return true;
}

// --- messages ----------------------------------------------------------------------

static uint64_t message_bytes(const struct interpreter *interpreter, struct action message)
{
    const struct stage_bytes *bytes = &flights_local(&interpreter->flights, message)->does->bytes;
    const bool is_output = message.kind == ACTION_SEND_F || message.kind == ACTION_RECV_B;
    return cost_part(is_output ? bytes->output : bytes->input, message.split, interpreter->needs.schedule->splits);
}

static struct ticket *receive_ticket(const struct interpreter *interpreter, struct action receive)
{
    struct flight *flight = flights_flight(&interpreter->flights, receive);
    return receive.kind == ACTION_RECV_F ? &flight->input : &flight->output_gradient;
}

static bool post_receive(struct interpreter *interpreter, struct action receive, struct error *error)
{
    const enum slab_class class = receive_class(receive);
    struct transport *transport = interpreter->needs.transport;
    struct local *local = flights_local(&interpreter->flights, receive);
    if (!flights_take(&interpreter->flights, receive, class, error))
        return at_action(interpreter, receive, error);
    struct action source = receive;
    source.stage = (uint16_t)channel_source(receive);
    const struct message_header expected =
        header_of(interpreter, receive,
                  weight_plan_version(interpreter->needs.weight_plan, interpreter->passes, source));
    local->incoming[receive.kind == ACTION_RECV_B].posted++;
    return transport->functions->post_receive(transport, channel_of(interpreter->needs.schedule, receive),
                                              flights_at(&interpreter->flights, receive, class),
                                              message_bytes(interpreter, receive), expected,
                                              flights_used(&interpreter->flights, receive, class),
                                              receive_ticket(interpreter, receive), error);
}

// A row's receives are posted in the order of the list, so that none takes the slot of an earlier one.
bool post_ahead(struct interpreter *interpreter, struct error *error)
{
    for (uint32_t l = 0; interpreter->needs.waiting == WAIT_AT_USE && l < interpreter->flights.local_count; l++) {
        struct local *local = &interpreter->flights.locals[l];
        for (int kind = 0; kind < 2; kind++) {
            const struct incoming *incoming = &local->incoming[kind];
            const struct slab_row *row = &local->memory->rows[kind == 0 ? SLAB_INPUT : SLAB_OUTPUT_GRADIENT];
            while (incoming->posted < incoming->count && row_has_free(row))
                if (!post_receive(interpreter, incoming->receives[incoming->posted], error))
                    return false;
        }
    }
    return true;
}

bool do_receive(struct interpreter *interpreter, struct action action, struct error *error)
{
    const bool is_posted = flights_flight(&interpreter->flights, action)->slots[receive_class(action)] != NO_SLOT;
    if (!is_posted && !post_receive(interpreter, action, error))
        return false;
    return interpreter->needs.waiting == WAIT_AT_USE
        || await_message(interpreter, receive_ticket(interpreter, action), action, error);
}

bool do_send(struct interpreter *interpreter, struct action action, struct error *error)
{
    const enum direction direction = action.kind == ACTION_SEND_F ? OUTPUTS : GRADIENTS;
    const enum slab_class class = direction == OUTPUTS ? SLAB_OUTPUT : SLAB_INPUT_GRADIENT;
    struct transport *transport = interpreter->needs.transport;
    struct local *local = flights_local(&interpreter->flights, action);
    struct flight *flight = flights_flight(&interpreter->flights, action);
    struct outgoing *outgoing = &local->outgoing[direction][flight->slots[class]];
    const void *data = flights_at(&interpreter->flights, action, class);
    struct event *made = flights_used(&interpreter->flights, action, class);
    outgoing->send = action;
    flight->slots[class] = NO_SLOT;  // from here on it belongs to the message
    if (!transport->functions->post_send(transport, channel_of(interpreter->needs.schedule, action), data,
                                         message_bytes(interpreter, action),
                                         header_of(interpreter, action, flight->version), made, &outgoing->ticket,
                                         error))
        return false;
    recorder_sent(interpreter->needs.recorder, action, (struct moment){ made, outgoing->ticket.posted_ns });
    const bool is_own = channel_peer(interpreter->needs.schedule, action) == interpreter->needs.rank;
    return interpreter->needs.waiting == WAIT_AT_USE || is_own  // whose RECV is behind it in this list
        || await_outgoing(interpreter, local, direction, outgoing, error);
}

bool take_outgoing(struct interpreter *interpreter, struct action action, enum direction direction, struct error *error)
{
    struct local *local = flights_local(&interpreter->flights, action);
    struct slab_row *row = outgoing_row(local, direction);
    uint32_t *slot = &flights_flight(&interpreter->flights, action)->slots[direction == OUTPUTS ? SLAB_OUTPUT
                                                                                              : SLAB_INPUT_GRADIENT];
    while ((*slot = row_take(row)) == NO_SLOT) {
        struct outgoing *oldest = outgoing_oldest(local, direction);
        if (!oldest) {
            error_set_kind(error, ERROR_MACHINE, "no slot is free for what it makes, and nothing is being sent: a "
                           "SEND stands too late in the schedule");
            return at_action(interpreter, action, error);
        }
        if (!await_outgoing(interpreter, local, direction, oldest, error))
            return false;
    }
    queue_behind(interpreter, row->used[*slot]);
    return true;
}

bool add_with_others(struct interpreter *interpreter, const struct reduction *reduction, struct message_header header,
                     struct action action, struct event *after, struct error *error)
{
    struct transport *transport = interpreter->needs.transport;
    return transport->functions->post_reduction(transport, reduction, header, after, &interpreter->reduction, error)
        && await(interpreter, &interpreter->reduction, action, error);
}

bool add_for_update(struct interpreter *interpreter, const struct reduction *reduction, struct action action,
                    struct event *after, struct error *error)
{
    const struct weight_ring *ring = &flights_local(&interpreter->flights, action)->ring;
    const struct message_header header = header_of(interpreter, action, weight_ring_version(ring, ring->newest));
    return add_with_others(interpreter, reduction, header, action, after, error);
}

bool gather_for_update(struct interpreter *interpreter, const struct reduction *reduction, struct action action,
                       struct error *error)
{
    event_record(interpreter->updated, interpreter->needs.queue);
    if (!add_for_update(interpreter, reduction, action, interpreter->updated, error))
        return false;
    queue_behind(interpreter, interpreter->reduction.event);
    return true;
}
