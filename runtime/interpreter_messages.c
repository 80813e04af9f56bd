#include "common/clock.h"
#include "common/number.h"
#include "runtime/interpreting.h"

bool at_action(const struct interpreter *in, struct action action, struct error *error)
{
    char name[ACTION_SIZE];
    return error_at(error, "rank %u: %s", in->needs.rank, action_format(action, name));
}

// --- waiting -------------------------------------------------------------------

bool deadline_missed(struct interpreter *in, struct error *error)
{
    char limit[NUMBER_SIZE];
    whereabouts_report(in->needs.whereabouts, error);
    return error_at(error, "nothing came for %s", time_format(in->needs.deadline_ns, limit));
}

bool await(struct interpreter *in, struct ticket *ticket, struct action what, struct error *error)
{
    struct transport *transport = in->needs.transport;
    if (!ticket->active)
        return true;
    if (!transport->functions->test(transport, ticket, error))
        return false;
    if (ticket->done)
        return true;
    const uint64_t start_ns = clock_now_ns(), deadline_ns = add_clamped(start_ns, in->needs.deadline_ns);
    whereabouts_wait(in->needs.whereabouts, in->needs.rank, what);
    while (!ticket->done) {
        if (!transport->functions->wait(transport, deadline_ns, error)
            || !transport->functions->test(transport, ticket, error))
            return false;
        if (!ticket->done && clock_now_ns() >= deadline_ns)
            return deadline_missed(in, error);
    }
    in->needs.recorder->ranks[in->needs.rank].waited_ns += clock_now_ns() - start_ns;
    return true;
}

bool await_message(struct interpreter *in, struct ticket *ticket, struct action receive, struct error *error)
{
    const bool is_new = ticket->active;
    if (!await(in, ticket, receive, error))
        return false;
    if (is_new) {
        queue_behind(in, ticket->event);
        recorder_arrived(in->needs.recorder, receive, (struct moment){ ticket->event, ticket->done_ns });
    }
    return true;
}

// The slot is free again when its message is out.
static bool await_outgoing(struct interpreter *in, struct local *local, enum direction direction,
                           struct outgoing *outgoing, struct error *error)
{
    if (!await(in, &outgoing->ticket, outgoing->send, error))
        return false;
    row_give(outgoing_row(local, direction), (uint32_t)(outgoing - local->outgoing[direction]),
             outgoing->ticket.event);
    return true;
}

bool await_all_outgoing(struct interpreter *in, struct error *error)
{
    for (uint32_t l = 0; l < in->flights.local_count; l++) {
        struct local *local = &in->flights.locals[l];
        for (enum direction direction = OUTPUTS; direction <= GRADIENTS; direction++) {
            struct outgoing *oldest;
            while ((oldest = outgoing_oldest(local, direction)))
                if (!await_outgoing(in, local, direction, oldest, error))
                    return false;
            const struct slab_row *row = outgoing_row(local, direction);
            for (uint32_t slot = 0; slot < row->count; slot++)
                queue_behind(in, row->used[slot]);
        }
    }
    return true;
}

// --- messages ----------------------------------------------------------------------

struct message_header header_of(const struct interpreter *in, struct action action, uint64_t version)
{
    return (struct message_header){ in->step, action.micro_batch, action.split, version };
}

static uint64_t message_bytes(const struct interpreter *in, struct action message)
{
    const struct stage_bytes *bytes = &flights_local(&in->flights, message)->does->bytes;
    const bool is_output = message.kind == ACTION_SEND_F || message.kind == ACTION_RECV_B;
    return cost_part(is_output ? bytes->output : bytes->input, message.split, in->needs.schedule->splits);
}

static struct ticket *receive_ticket(const struct interpreter *in, struct action receive)
{
    struct flight *flight = flights_flight(&in->flights, receive);
    return receive.kind == ACTION_RECV_F ? &flight->input : &flight->output_gradient;
}

static bool post_receive(struct interpreter *in, struct action receive, struct error *error)
{
    const enum slab_class class = receive_class(receive);
    struct transport *transport = in->needs.transport;
    struct local *local = flights_local(&in->flights, receive);
    if (!flights_take(&in->flights, receive, class, error))
        return at_action(in, receive, error);
    struct action source = receive;
    source.stage = (uint16_t)channel_source(receive);
    const struct message_header expected =
        header_of(in, receive, weight_plan_version(in->needs.weight_plan, in->passes, source));
    local->incoming[receive.kind == ACTION_RECV_B].posted++;
    return transport->functions->post_receive(transport, channel_of(in->needs.schedule, receive),
                                              flights_at(&in->flights, receive, class),
                                              message_bytes(in, receive), expected,
                                              flights_used(&in->flights, receive, class),
                                              receive_ticket(in, receive), error);
}

// A row's receives are posted in the order of the list, so that none takes the slot of one before it.
bool post_ahead(struct interpreter *in, struct error *error)
{
    for (uint32_t l = 0; in->needs.waiting == WAIT_AT_USE && l < in->flights.local_count; l++) {
        struct local *local = &in->flights.locals[l];
        for (int kind = 0; kind < 2; kind++) {
            const struct incoming *incoming = &local->incoming[kind];
            const struct slab_row *row = &local->memory->rows[kind == 0 ? SLAB_INPUT : SLAB_OUTPUT_GRADIENT];
            while (incoming->posted < incoming->count && row_has_free(row))
                if (!post_receive(in, incoming->receives[incoming->posted], error))
                    return false;
        }
    }
    return true;
}

bool do_receive(struct interpreter *in, struct action action, struct error *error)
{
    const bool is_posted = flights_flight(&in->flights, action)->slots[receive_class(action)] != NO_SLOT;
    if (!is_posted && !post_receive(in, action, error))
        return false;
    return in->needs.waiting == WAIT_AT_USE || await_message(in, receive_ticket(in, action), action, error);
}

bool do_send(struct interpreter *in, struct action action, struct error *error)
{
    const enum direction direction = action.kind == ACTION_SEND_F ? OUTPUTS : GRADIENTS;
    const enum slab_class class = direction == OUTPUTS ? SLAB_OUTPUT : SLAB_INPUT_GRADIENT;
    struct transport *transport = in->needs.transport;
    struct local *local = flights_local(&in->flights, action);
    struct flight *flight = flights_flight(&in->flights, action);
    struct outgoing *outgoing = &local->outgoing[direction][flight->slots[class]];
    const void *data = flights_at(&in->flights, action, class);
    struct event *made = flights_used(&in->flights, action, class);
    outgoing->send = action;
    flight->slots[class] = NO_SLOT;  // the message's from here
    if (!transport->functions->post_send(transport, channel_of(in->needs.schedule, action), data,
                                         message_bytes(in, action), header_of(in, action, flight->version), made,
                                         &outgoing->ticket, error))
        return false;
    recorder_sent(in->needs.recorder, action, (struct moment){ made, outgoing->ticket.posted_ns });
    return in->needs.waiting == WAIT_AT_USE || await_outgoing(in, local, direction, outgoing, error);
}

bool take_outgoing(struct interpreter *in, struct action action, enum direction direction, struct error *error)
{
    struct local *local = flights_local(&in->flights, action);
    struct slab_row *row = outgoing_row(local, direction);
    uint32_t *slot = &flights_flight(&in->flights, action)->slots[direction == OUTPUTS ? SLAB_OUTPUT
                                                                                     : SLAB_INPUT_GRADIENT];
    while ((*slot = row_take(row)) == NO_SLOT) {
        struct outgoing *oldest = outgoing_oldest(local, direction);
        if (!oldest) {
            error_set_kind(error, ERROR_MACHINE, "no slot is free for what it makes, and nothing is being sent: a "
                           "SEND stands too late in the schedule");
            return at_action(in, action, error);
        }
        if (!await_outgoing(in, local, direction, oldest, error))
            return false;
    }
    queue_behind(in, row->used[*slot]);
    return true;
}
