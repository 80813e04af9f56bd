#include "runtime/interpreter.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/number.h"
#include "runtime/channels.h"
#include "runtime/flights.h"

struct interpreter {
    struct interpreter_needs needs;
    struct flights flights;
    uint64_t step;
    uint64_t passes;        // that have been run
    uint64_t recompute_ns;  // of the action at hand
};

// Where a failure of this rank's own happened. (What a transport reports of others
// names its place already.)
static bool at_action(const struct interpreter *in, struct action action, struct error *error)
{
    char name[ACTION_SIZE];
    return error_at(error, "rank %u: %s", in->needs.rank, action_format(action, name));
}

// --- waiting -------------------------------------------------------------------

static bool deadline_missed(struct interpreter *in, struct error *error)
{
    char limit[NUMBER_SIZE];
    whereabouts_report(in->needs.whereabouts, error);
    return error_at(error, "nothing came for %s", time_format(in->needs.deadline_ns, limit));
}

// Until the ticket is done, which `what` has posted.
static bool await(struct interpreter *in, struct ticket *ticket, struct action what, struct error *error)
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

static bool await_message(struct interpreter *in, struct ticket *ticket, struct action receive, struct error *error)
{
    const bool is_new = ticket->active;
    if (!await(in, ticket, receive, error))
        return false;
    if (is_new)
        recorder_arrived(in->needs.recorder, receive, ticket->done_ns);
    return true;
}

// The slot is free again when its message is out.
static bool await_outgoing(struct interpreter *in, struct local *local, enum direction direction,
                           struct outgoing *outgoing, struct error *error)
{
    if (!await(in, &outgoing->ticket, outgoing->send, error))
        return false;
    row_give(outgoing_row(local, direction), (uint32_t)(outgoing - local->outgoing[direction]));
    return true;
}

// The last messages are still under way when the list is done.
static bool await_all_outgoing(struct interpreter *in, struct error *error)
{
    for (uint32_t l = 0; l < in->flights.local_count; l++) {
        struct local *local = &in->flights.locals[l];
        for (enum direction direction = OUTPUTS; direction <= GRADIENTS; direction++) {
            struct outgoing *oldest;
            while ((oldest = outgoing_oldest(local, direction)))
                if (!await_outgoing(in, local, direction, oldest, error))
                    return false;
        }
    }
    return true;
}

// --- messages ----------------------------------------------------------------------

static uint32_t expected_version(const struct interpreter *in, uint32_t stage, uint32_t micro_batch)
{
    const struct schedule *schedule = in->needs.schedule;
    const size_t m = schedule->micro_batches;
    const uint32_t per_pass = in->needs.versions[schedule->stages * m + stage];
    return (uint32_t)(in->passes * per_pass) + in->needs.versions[stage * m + micro_batch];
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
    const struct message_header expected = { in->step, receive.micro_batch,
                                             expected_version(in, channel_source(receive), receive.micro_batch) };
    local->incoming[receive.kind == ACTION_RECV_B].posted++;
    return transport->functions->post_receive(transport, channel_of(in->needs.schedule, receive),
                                              flights_at(&in->flights, receive, class),
                                              local->memory->rows[class].bytes, expected,
                                              receive_ticket(in, receive), error);
}

// Posts the receives to come for which a slot is free already. A row's receives are
// posted in the order of the list, so that none takes the slot of one before it.
static bool post_ahead(struct interpreter *in, struct error *error)
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

static bool do_receive(struct interpreter *in, struct action action, struct error *error)
{
    const bool is_posted = flights_flight(&in->flights, action)->slots[receive_class(action)] != NO_SLOT;
    if (!is_posted && !post_receive(in, action, error))
        return false;
    return in->needs.waiting == WAIT_AT_USE || await_message(in, receive_ticket(in, action), action, error);
}

static bool do_send(struct interpreter *in, struct action action, struct error *error)
{
    const enum direction direction = action.kind == ACTION_SEND_F ? OUTPUTS : GRADIENTS;
    const enum slab_class class = direction == OUTPUTS ? SLAB_OUTPUT : SLAB_INPUT_GRADIENT;
    struct transport *transport = in->needs.transport;
    struct local *local = flights_local(&in->flights, action);
    struct flight *flight = flights_flight(&in->flights, action);
    struct outgoing *outgoing = &local->outgoing[direction][flight->slots[class]];
    const void *data = flights_at(&in->flights, action, class);
    outgoing->send = action;
    flight->slots[class] = NO_SLOT;  // the message's from here
    if (!transport->functions->post_send(transport, channel_of(in->needs.schedule, action), data,
                                         outgoing_row(local, direction)->bytes,
                                         (struct message_header){ in->step, action.micro_batch, flight->version },
                                         &outgoing->ticket, error))
        return false;
    recorder_sent(in->needs.recorder, action, outgoing->ticket.posted_ns);
    return in->needs.waiting == WAIT_AT_USE || await_outgoing(in, local, direction, outgoing, error);
}

// A slot for what is sent on. It is free again when the send before it is done.
static bool take_outgoing(struct interpreter *in, struct action action, enum direction direction, struct error *error)
{
    struct local *local = flights_local(&in->flights, action);
    struct slab_row *row = outgoing_row(local, direction);
    uint32_t *slot = &flights_flight(&in->flights, action)->slots[direction == OUTPUTS ? SLAB_OUTPUT
                                                                                     : SLAB_INPUT_GRADIENT];
    while ((*slot = row_take(row)) == NO_SLOT) {
        struct outgoing *oldest = outgoing_oldest(local, direction);
        if (!oldest) {
            error_set_kind(error, ERROR_MACHINE, "no slot is free to send from, and nothing is being sent: a SEND "
                           "stands too late in the schedule");
            return at_action(in, action, error);
        }
        if (!await_outgoing(in, local, direction, oldest, error))
            return false;
    }
    return true;
}

// --- computing -----------------------------------------------------------------------

static struct stage_pass pass_of(struct interpreter *in, struct action action)
{
    const struct flights *flights = &in->flights;
    const struct slab_stage *memory = flights_local(flights, action)->memory;
    return (struct stage_pass){
        .queue = in->needs.queue,
        .step = in->step,
        .micro_batch = action.micro_batch,
        .weights = row_at(&memory->weights, flights_flight(flights, action)->weights),
        .gradients = memory->gradients,
        .input = flights_input(flights, action),
        .output = flights_at(flights, action, SLAB_OUTPUT),
        .kept = flights_at(flights, action, SLAB_KEPT),
        .kept_through = flights_at(flights, action, SLAB_KEPT_THROUGH),
        .held = flights_at(flights, action, SLAB_HELD),
        .output_gradient = flights_output_gradient(flights, action),
        .input_gradient = flights_at(flights, action, SLAB_INPUT_GRADIENT),
        .workspace = memory->bytes.transient > 0 ? in->needs.slab->workspace : NULL,
        .loss = action.kind == ACTION_F ? &in->needs.losses[action.micro_batch] : NULL,
        .recompute_ns = &in->recompute_ns,
    };
}

typedef bool stage_function(void *self, const struct stage_pass *pass, struct error *error);

static bool compute(struct interpreter *in, struct action action, stage_function *function, struct error *error)
{
    if (!post_ahead(in, error))
        return false;
    const struct stage_pass pass = pass_of(in, action);
    const uint64_t start_ns = clock_now_ns();
    in->recompute_ns = 0;
    whereabouts_act(in->needs.whereabouts, in->needs.rank, action);
    if (!function(flights_local(&in->flights, action)->does->self, &pass, error)
        || !queue_wait(in->needs.queue, error))
        return at_action(in, action, error);
    recorder_span(in->needs.recorder,
                  (struct span){ in->needs.rank, action, start_ns, clock_now_ns(), in->recompute_ns });
    return true;
}

static struct action of_kind(struct action action, enum action_kind kind)
{
    action.kind = (uint8_t)kind;
    return action;
}

static bool take_output(struct interpreter *in, struct action action, struct error *error)
{
    if (flights_goes_by_message(&in->flights, action))
        return take_outgoing(in, action, OUTPUTS, error);
    return !flights_has_above(&in->flights, action) || flights_take(&in->flights, action, SLAB_OUTPUT, error)
        || at_action(in, action, error);
}

static bool take_input_gradient(struct interpreter *in, struct action action, struct error *error)
{
    if (flights_comes_by_message(&in->flights, action))
        return take_outgoing(in, action, GRADIENTS, error);
    return !flights_has_below(&in->flights, action) || flights_take(&in->flights, action, SLAB_INPUT_GRADIENT, error)
        || at_action(in, action, error);
}

static bool do_forward(struct interpreter *in, struct action action, struct error *error)
{
    struct local *local = flights_local(&in->flights, action);
    struct flight *flight = flights_flight(&in->flights, action);
    if (!await_message(in, &flight->input, of_kind(action, ACTION_RECV_F), error) || !take_output(in, action, error))
        return false;
    if (!flights_take(&in->flights, action, SLAB_KEPT, error)
        || !flights_take(&in->flights, action, SLAB_KEPT_THROUGH, error))
        return at_action(in, action, error);
    flight->weights = weight_ring_hold(&local->ring);
    flight->version = weight_ring_version(&local->ring, flight->weights);
    if (!compute(in, action, local->does->functions->forward, error))
        return false;
    if (local->does->bytes.input_life == INPUT_UNTIL_F)
        flights_give(&in->flights, action, SLAB_INPUT);
    return true;
}

// The version of a backward is that of its forward, and that of the schedule.
static bool has_its_version(const struct interpreter *in, struct action action, struct error *error)
{
    const struct flight *flight = flights_flight(&in->flights, action);
    const uint32_t met = weight_ring_version(&flights_local(&in->flights, action)->ring, flight->weights);
    const uint32_t planned = expected_version(in, action.stage, action.micro_batch);
    if (met == flight->version && met == planned)
        return true;
    error_set_kind(error, ERROR_MACHINE, "the forward met weight version %u, the backward meets %u, and the schedule "
                   "says %u", flight->version, met, planned);
    return at_action(in, action, error);
}

// What B and I begin with.
static bool begin_backward(struct interpreter *in, struct action action, struct error *error)
{
    struct flight *flight = flights_flight(&in->flights, action);
    return await_message(in, &flight->output_gradient, of_kind(action, ACTION_RECV_B), error)
        && take_input_gradient(in, action, error) && has_its_version(in, action, error);
}

static void end_backward_input(struct interpreter *in, struct action action)
{
    flights_give(&in->flights, action, SLAB_KEPT);
    flights_give(&in->flights, action, SLAB_OUTPUT_GRADIENT);
    flights_give_above(&in->flights, action);
}

static void end_backward_weight(struct interpreter *in, struct action action)
{
    flights_give(&in->flights, action, SLAB_KEPT_THROUGH);
    flights_give(&in->flights, action, SLAB_INPUT);
    flights_give_below(&in->flights, action);
    weight_ring_drop(&flights_local(&in->flights, action)->ring, flights_flight(&in->flights, action)->weights);
}

static bool do_backward(struct interpreter *in, struct action action, struct error *error)
{
    if (!begin_backward(in, action, error)
        || !compute(in, action, flights_local(&in->flights, action)->does->functions->backward, error))
        return false;
    end_backward_input(in, action);
    end_backward_weight(in, action);
    return true;
}

static bool do_backward_input(struct interpreter *in, struct action action, struct error *error)
{
    const struct stage *does = flights_local(&in->flights, action)->does;
    if (!begin_backward(in, action, error))
        return false;
    if (!flights_take(&in->flights, action, SLAB_HELD, error))
        return at_action(in, action, error);
    if (!compute(in, action, does->functions->backward_input, error))
        return false;
    end_backward_input(in, action);
    if (does->bytes.input_life == INPUT_UNTIL_I)
        flights_give(&in->flights, action, SLAB_INPUT);
    return true;
}

static bool do_backward_weight(struct interpreter *in, struct action action, struct error *error)
{
    if (!has_its_version(in, action, error)
        || !compute(in, action, flights_local(&in->flights, action)->does->functions->backward_weight, error))
        return false;
    flights_give(&in->flights, action, SLAB_HELD);
    end_backward_weight(in, action);
    return true;
}

// --- updating ------------------------------------------------------------------------

// Reads the newest version and writes the next one into a slot that nobody holds.
static void update(struct interpreter *in, struct local *local, uint32_t next)
{
    const struct slab_stage *memory = local->memory;
    const struct optimizer_buffers buffers = {
        .next = row_at(&memory->weights, next),
        .weights = row_at(&memory->weights, local->ring.newest),
        .gradients = memory->gradients,
        .state = memory->optimizer,
        .count = memory->bytes.weights / sizeof(float),
        .exempt = local->does->exempt,
        .exempt_count = local->does->exempt_count,
    };
    const uint64_t number = (uint64_t)weight_ring_version(&local->ring, local->ring.newest) + 1;
    if (buffers.count > 0)
        optimizer_update(in->needs.optimizer, number, in->needs.queue, &buffers);
    if (memory->bytes.gradients > 0)
        queue_zero(in->needs.queue, memory->gradients, memory->bytes.gradients);
    weight_ring_advance(&local->ring, next);
}

static bool do_step(struct interpreter *in, struct action action, struct error *error)
{
    struct local *local = flights_local(&in->flights, action);
    const uint64_t start_ns = clock_now_ns();
    uint32_t next;
    whereabouts_act(in->needs.whereabouts, in->needs.rank, action);
    if (!weight_ring_next(&local->ring, &next, error))
        return at_action(in, action, error);
    update(in, local, next);
    if (!queue_wait(in->needs.queue, error))
        return at_action(in, action, error);
    recorder_span(in->needs.recorder, (struct span){ in->needs.rank, action, start_ns, clock_now_ns(), 0 });
    return true;
}

// --- running ----------------------------------------------------------------------------

typedef bool action_function(struct interpreter *in, struct action action, struct error *error);

static action_function *const does[ACTION_KINDS] = {
    [ACTION_F] = do_forward,         [ACTION_B] = do_backward,    [ACTION_I] = do_backward_input,
    [ACTION_W] = do_backward_weight, [ACTION_SEND_F] = do_send,   [ACTION_RECV_F] = do_receive,
    [ACTION_SEND_B] = do_send,       [ACTION_RECV_B] = do_receive, [ACTION_STEP] = do_step,
};

static bool run_list(struct interpreter *in, struct error *error)
{
    const struct action_list *list = &in->needs.schedule->lists[in->needs.rank];
    for (uint32_t l = 0; l < in->flights.local_count; l++)
        in->flights.locals[l].incoming[0].posted = in->flights.locals[l].incoming[1].posted = 0;
    for (size_t i = 0; i < list->count; i++)
        if (!does[list->at[i].kind](in, list->at[i], error))
            return false;
    return true;
}

bool interpreter_run(struct interpreter *in, uint64_t step, struct error *error)
{
    struct error reason = { 0 };
    in->step = step;
    const bool good = run_list(in, &reason) && await_all_outgoing(in, &reason);
    whereabouts_idle(in->needs.whereabouts, in->needs.rank);
    in->passes++;
    if (good)
        return true;
    in->needs.transport->functions->abandon(in->needs.transport, &reason);
    flights_cancel(&in->flights, in->needs.transport);
    return error_set_kind(error, reason.kind, "%s", reason.text);
}

// --- making and freeing ---------------------------------------------------------------------

uint32_t *static_versions(const struct schedule *schedule, struct error *error)
{
    const size_t m = schedule->micro_batches;
    uint32_t *versions = calloc((m + 1) * schedule->stages, sizeof *versions);
    if (!versions) {
        error_no_memory(error, "the weight versions of a schedule");
        return NULL;
    }
    uint32_t *steps = &versions[schedule->stages * m];
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            const struct action action = list->at[i];
            if (action.kind == ACTION_STEP)
                steps[action.stage]++;
            else if (action.kind == ACTION_F)
                versions[action.stage * m + action.micro_batch] = steps[action.stage];
        }
    }
    return versions;
}

static bool can_run(const struct schedule *schedule, uint32_t rank, struct error *error)
{
    if (!schedule->lowered)
        return error_set(error, "the schedule has no SENDs and RECVs yet; lower it first");
    if (schedule->weights != WEIGHTS_FLUSH && schedule->weights != WEIGHTS_STASH)
        return error_set(error, "weights \"%s\" cannot be run yet (flush and stash can)",
                         weights_names[schedule->weights]);
    if (schedule->route_count != 1)
        return error_set(error, "a schedule of %u routes cannot be run yet (replicas need a REDUCE)",
                         schedule->route_count);
    for (size_t i = 0; i < schedule->lists[rank].count; i++) {
        const struct action action = schedule->lists[rank].at[i];
        char name[ACTION_SIZE];
        if (!does[action.kind] || action.split != 0)
            return error_set(error, "rank %u: %s: R, REDUCE and sequence splits cannot be run yet", rank,
                             action_format(action, name));
    }
    return true;
}

struct interpreter *interpreter_create(const struct interpreter_needs *needs, struct error *error)
{
    if (!can_run(needs->schedule, needs->rank, error))
        return NULL;
    struct interpreter *in = calloc(1, sizeof *in);
    if (!in) {
        error_no_memory(error, "a rank");
        return NULL;
    }
    in->needs = *needs;
    if (!flights_open(&in->flights, needs->schedule, needs->rank, needs->stages, needs->slab, error)) {
        interpreter_free(in);
        return NULL;
    }
    return in;
}

void interpreter_free(struct interpreter *in)
{
    if (!in)
        return;
    flights_close(&in->flights);
    free(in);
}

bool interpreter_initialize(struct interpreter *in, struct error *error)
{
    struct slab *slab = in->needs.slab;
    if (slab->bytes > 0)
        queue_zero(in->needs.queue, slab->memory, slab->bytes);
    for (uint32_t l = 0; l < in->flights.local_count; l++) {
        const struct local *local = &in->flights.locals[l];
        void *weights = row_at(&local->memory->weights, local->ring.newest);
        if (weights && !local->does->functions->initialize(local->does->self, in->needs.queue, weights, error))
            return error_at(error, "rank %u", in->needs.rank);
    }
    return queue_wait(in->needs.queue, error);
}

const void *interpreter_weights(const struct interpreter *in, uint32_t stage)
{
    const struct local *local = in->flights.by_stage[stage];
    assert(local);
    return row_at(&local->memory->weights, local->ring.newest);
}
