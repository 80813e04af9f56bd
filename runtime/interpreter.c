#include "runtime/interpreter.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/number.h"
#include "runtime/flights.h"

struct interpreter {
    struct interpreter_needs needs;
    struct flights flights;
    uint64_t step;
    uint64_t passes;        // that have been run
    uint64_t recompute_ns;  // of the action at hand
    struct ticket reduction;
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

static struct message_header header_of(const struct interpreter *in, struct action action, uint64_t version)
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
                                         message_bytes(in, action), header_of(in, action, flight->version),
                                         &outgoing->ticket, error))
        return false;
    recorder_sent(in->needs.recorder, action, outgoing->ticket.posted_ns);
    return in->needs.waiting == WAIT_AT_USE || await_outgoing(in, local, direction, outgoing, error);
}

// A slot for what goes on, to another rank or to the next stage on this one. One that
// was sent from is free again when its message is out.
static bool take_outgoing(struct interpreter *in, struct action action, enum direction direction, struct error *error)
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
    return true;
}

// --- computing -----------------------------------------------------------------------

// Actions that are done together; mostly one.
struct group {
    const struct action *at;
    size_t size;
};

static struct stage_pass pass_of(struct interpreter *in, struct action action, struct group group)
{
    const struct flights *flights = &in->flights;
    const struct local *local = flights_local(flights, action);
    const struct slab_stage *memory = local->memory;
    const struct flight *flight = flights_flight(flights, action);
    return (struct stage_pass){
        .queue = in->needs.queue,
        .step = in->step,
        .micro_batch = action.micro_batch,
        .split = action.split,
        .splits = in->needs.schedule->splits,
        .copy = local->copy,
        .weights = row_at(&memory->weights, flight->weights),
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
        .was_recomputed = flight->was_recomputed,
        .together = group.at,
        .together_count = group.size,
    };
}

static struct action of_kind(struct action action, enum action_kind kind)
{
    action.kind = (uint8_t)kind;
    return action;
}

static bool take(struct interpreter *in, struct action action, enum slab_class class, struct error *error)
{
    return flights_take(&in->flights, action, class, error) || at_action(in, action, error);
}

static bool take_output(struct interpreter *in, struct action action, struct error *error)
{
    const bool goes_on = action.stage + 1u < in->needs.schedule->stages;
    return !goes_on || take_outgoing(in, action, OUTPUTS, error);
}

static bool take_input_gradient(struct interpreter *in, struct action action, struct error *error)
{
    return action.stage == 0 || take_outgoing(in, action, GRADIENTS, error);
}

// The weights that the schedule says this micro-batch meets.
static bool meet_weights(struct interpreter *in, struct action action, struct error *error)
{
    const struct weight_ring *ring = &flights_local(&in->flights, action)->ring;
    struct flight *flight = flights_flight(&in->flights, action);
    flight->version = weight_plan_version(in->needs.weight_plan, in->passes, action);
    flight->weights = weight_ring_find(ring, flight->version);
    if (flight->weights != NO_SLOT)
        return true;
    error_set_kind(error, ERROR_MACHINE, "weight version %llu is to be met, and this rank does not hold it (its newest "
                   "is %llu)", (unsigned long long)flight->version,
                   (unsigned long long)weight_ring_version(ring, ring->newest));
    return at_action(in, action, error);
}

static bool begin_forward(struct interpreter *in, struct action action, struct error *error)
{
    struct flight *flight = flights_flight(&in->flights, action);
    flight->was_recomputed = false;
    return await_message(in, &flight->input, of_kind(action, ACTION_RECV_F), error) && take_output(in, action, error)
        && take(in, action, SLAB_KEPT, error) && take(in, action, SLAB_KEPT_THROUGH, error)
        && meet_weights(in, action, error);
}

static void end_backward_input(struct interpreter *in, struct action action)
{
    flights_give(&in->flights, action, SLAB_KEPT);
    flights_give(&in->flights, action, SLAB_OUTPUT_GRADIENT);
    flights_give_above(&in->flights, action);
    if (flights_local(&in->flights, action)->does->bytes.input_life == INPUT_UNTIL_I)
        flights_give(&in->flights, action, SLAB_INPUT);
}

static void end_backward_weight(struct interpreter *in, struct action action)
{
    flights_give(&in->flights, action, SLAB_HELD);
    flights_give(&in->flights, action, SLAB_KEPT_THROUGH);
    flights_give(&in->flights, action, SLAB_INPUT);
    flights_give_below(&in->flights, action);
    weight_ring_drop(&flights_local(&in->flights, action)->ring, flights_flight(&in->flights, action)->weights);
}

static void end_backward(struct interpreter *in, struct action action)
{
    end_backward_input(in, action);
    end_backward_weight(in, action);
}

// Where nothing goes back, nothing is kept.
static void end_forward(struct interpreter *in, struct action action)
{
    if (!in->needs.weight_plan->has_backward)
        end_backward(in, action);
    else if (flights_local(&in->flights, action)->does->bytes.input_life == INPUT_UNTIL_F)
        flights_give(&in->flights, action, SLAB_INPUT);
}

// The version of a backward is that of its forward.
static bool has_its_version(struct interpreter *in, struct action action, struct error *error)
{
    const struct flight *flight = flights_flight(&in->flights, action);
    const uint64_t met = weight_ring_version(&flights_local(&in->flights, action)->ring, flight->weights);
    if (met == flight->version)
        return true;
    error_set_kind(error, ERROR_MACHINE, "the forward met weight version %llu, and the backward meets %llu",
                   (unsigned long long)flight->version, (unsigned long long)met);
    return at_action(in, action, error);
}

// What B and I begin with.
static bool begin_backward(struct interpreter *in, struct action action, struct error *error)
{
    struct flight *flight = flights_flight(&in->flights, action);
    return await_message(in, &flight->output_gradient, of_kind(action, ACTION_RECV_B), error)
        && take_input_gradient(in, action, error) && has_its_version(in, action, error);
}

static bool begin_backward_input(struct interpreter *in, struct action action, struct error *error)
{
    return begin_backward(in, action, error) && take(in, action, SLAB_HELD, error);
}

static void end_recompute(struct interpreter *in, struct action action)
{
    flights_flight(&in->flights, action)->was_recomputed = true;
}

typedef bool stage_function(void *self, const struct stage_pass *pass, struct error *error);

static stage_function *function_of(const struct stage_functions *functions, enum action_kind kind)
{
    switch (kind) {
    case ACTION_F:
        return functions->forward;
    case ACTION_B:
        return functions->backward;
    case ACTION_I:
        return functions->backward_input;
    case ACTION_W:
        return functions->backward_weight;
    default:
        return functions->recompute;
    }
}

// What each kind needs before it can be done, and gives back when it is.
static const struct {
    bool (*begin)(struct interpreter *in, struct action action, struct error *error);
    void (*end)(struct interpreter *in, struct action action);
} computing[ACTION_KINDS] = {
    [ACTION_F] = { begin_forward, end_forward },
    [ACTION_B] = { begin_backward, end_backward },
    [ACTION_I] = { begin_backward_input, end_backward_input },
    [ACTION_W] = { has_its_version, end_backward_weight },
    [ACTION_R] = { has_its_version, end_recompute },
};

static bool compute(struct interpreter *in, struct action action, struct group group, struct error *error)
{
    const struct stage *does = flights_local(&in->flights, action)->does;
    const struct stage_pass pass = pass_of(in, action, group);
    whereabouts_act(in->needs.whereabouts, in->needs.rank, action);
    return (function_of(does->functions, action.kind)(does->self, &pass, error) && queue_wait(in->needs.queue, error))
        || at_action(in, action, error);
}

// Begins when all that its members need is there, does them one after the other,
// and ends for all at once.
static bool do_computing(struct interpreter *in, struct group group, struct error *error)
{
    for (size_t i = 0; i < group.size; i++)
        if (!computing[group.at[i].kind].begin(in, group.at[i], error))
            return false;
    if (!post_ahead(in, error))
        return false;
    uint64_t recompute_ns[MOST_JOINED];
    const uint64_t start_ns = clock_now_ns();
    for (size_t i = 0; i < group.size; i++) {
        in->recompute_ns = 0;
        if (!compute(in, group.at[i], group, error))
            return false;
        recompute_ns[i] = in->recompute_ns;
    }
    const uint64_t end_ns = clock_now_ns();
    for (size_t i = 0; i < group.size; i++) {
        computing[group.at[i].kind].end(in, group.at[i]);
        recorder_span(in->needs.recorder,
                      (struct span){ in->needs.rank, group.at[i], start_ns, end_ns, recompute_ns[i] });
    }
    return true;
}

// --- updating ------------------------------------------------------------------------

// What a STEP or REDUCE takes besides, and when it was.
static void finish(struct interpreter *in, struct action action, uint64_t start_ns)
{
    const struct stage *does = flights_local(&in->flights, action)->does;
    if (does->functions->linger)
        does->functions->linger(does->self, action.kind, start_ns);
    recorder_span(in->needs.recorder, (struct span){ in->needs.rank, action, start_ns, clock_now_ns(), 0 });
}

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
    if (buffers.count > 0)
        optimizer_update(in->needs.optimizer, weight_ring_version(&local->ring, local->ring.newest) + 1,
                         in->needs.queue, &buffers);
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
    finish(in, action, start_ns);
    return true;
}

// Adds up the gradients of all copies. With a flush each micro-batch's share of the
// mean is in its loss already; otherwise every copy brings the gradient of a
// micro-batch, and the update takes their mean.
static bool do_reduce(struct interpreter *in, struct action action, struct error *error)
{
    const struct interpreter_needs *needs = &in->needs;
    const struct local *local = flights_local(&in->flights, action);
    const uint32_t copies = placement_copies(needs->weight_plan->placement, action.stage);
    const struct reduction reduction = {
        .stage = action.stage,
        .gradients = local->memory->gradients,
        .count = local->memory->bytes.gradients / sizeof(float),
        .divisor = needs->schedule->weights == WEIGHTS_FLUSH ? 1.0f : (float)copies,
    };
    uint64_t start_ns = clock_now_ns();
    if (copies > 1) {
        const uint64_t newest = weight_ring_version(&local->ring, local->ring.newest);
        struct ticket *ticket = &in->reduction;
        if (!needs->transport->functions->post_reduction(needs->transport, &reduction, header_of(in, action, newest),
                                                         ticket, error)
            || !await(in, ticket, action, error))
            return false;
        start_ns = ticket->gathered_ns;
    }
    finish(in, action, start_ns);
    return true;
}

// No update here waits for a judgement over all stages, hence none is ever undone.
static bool do_validate(struct interpreter *in, struct action action, struct error *error)
{
    (void)error;
    const uint64_t now = clock_now_ns();
    recorder_span(in->needs.recorder, (struct span){ in->needs.rank, action, now, now, 0 });
    return true;
}

// --- running ----------------------------------------------------------------------------

typedef bool action_function(struct interpreter *in, struct action action, struct error *error);

// What is no computing.
static action_function *const does[ACTION_KINDS] = {
    [ACTION_SEND_F] = do_send, [ACTION_RECV_F] = do_receive, [ACTION_SEND_B] = do_send, [ACTION_RECV_B] = do_receive,
    [ACTION_REDUCE] = do_reduce, [ACTION_STEP] = do_step, [ACTION_VALIDATE] = do_validate,
};

static void begin_pass(struct interpreter *in)
{
    for (uint32_t l = 0; l < in->flights.local_count; l++) {
        struct local *local = &in->flights.locals[l];
        const uint32_t stage = (uint32_t)(local->does - in->needs.stages);
        local->incoming[0].posted = local->incoming[1].posted = 0;
        weight_ring_begin(&local->ring, weight_plan_users(in->needs.weight_plan, stage, in->needs.rank));
    }
}

static bool run_list(struct interpreter *in, struct error *error)
{
    const struct action_list *list = &in->needs.schedule->lists[in->needs.rank];
    const struct action *end = list_end(list);
    begin_pass(in);
    for (const struct action *at = list->at; at < end;) {
        const struct group group = { at, group_size(at, end) };
        if (!(does[at->kind] ? does[at->kind](in, *at, error) : do_computing(in, group, error)))
            return false;
        at += group.size;
    }
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
    in->needs.transport->functions->cancel(in->needs.transport, &in->reduction);
    flights_cancel(&in->flights, in->needs.transport);
    return error_set_kind(error, reason.kind, "%s", reason.text);
}

// --- making and freeing ---------------------------------------------------------------------

static bool can_do(const struct interpreter_needs *needs, struct group group, struct error *error)
{
    char name[ACTION_SIZE];
    for (size_t i = 0; i < group.size; i++) {
        const struct action action = group.at[i];
        const struct stage *stage = &needs->stages[action.stage];
        action_format(action, name);
        if (group.size > 1 && !computing[action.kind].begin)
            return error_set(error, "rank %u: %s cannot be done together with another action; only F, B, I, W and R can",
                             needs->rank, name);
        if (action.kind == ACTION_R && !stage->functions->recompute)
            return error_set(error, "rank %u: %s cannot be an action of its own: these layers run their forwards again "
                             "within B or I; leave it out of the schedule", needs->rank, name);
    }
    return group.size <= MOST_JOINED
        || error_set(error, "rank %u: %zu actions from %s on are done together; at most %d can", needs->rank, group.size,
                     action_format(*group.at, name), MOST_JOINED);
}

static bool can_run(const struct interpreter_needs *needs, struct error *error)
{
    const struct schedule *schedule = needs->schedule;
    if (!schedule->lowered)
        return error_set(error, "the schedule has no SENDs and RECVs yet; lower it first");
    for (uint32_t s = 0; schedule->splits > 1 && s < schedule->stages; s++)
        if (!needs->stages[s].takes_splits)
            return error_set(error, "the schedule passes each sequence through in %u splits, and the layers of stage %u "
                             "take whole sequences only", schedule->splits, s);
    const struct action_list *list = &schedule->lists[needs->rank];
    const struct action *end = list_end(list);
    for (const struct action *at = list->at; at < end; at += group_size(at, end))
        if (!can_do(needs, (struct group){ at, group_size(at, end) }, error))
            return false;
    return true;
}

struct interpreter *interpreter_create(const struct interpreter_needs *needs, struct error *error)
{
    if (!can_run(needs, error))
        return NULL;
    struct interpreter *in = calloc(1, sizeof *in);
    if (!in) {
        error_no_memory(error, "a rank");
        return NULL;
    }
    in->needs = *needs;
    if (!flights_open(&in->flights, needs->schedule, needs->weight_plan->placement, needs->rank, needs->stages, needs->slab,
                      error)) {
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
