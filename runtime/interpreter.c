#include "runtime/interpreter.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "runtime/interpreting.h"

// --- computing -----------------------------------------------------------------------

// Actions that are done together; mostly one.
struct group {
    const struct action *at;
    size_t size;
};

static struct stage_pass pass_of(struct interpreter *in, struct action action, struct group group,
                                 struct stopwatch *reruns)
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
        .loss_scale = in->scaling.scale,
        .weights = row_at(&memory->weights, flight->weights),
        .gradients = memory->gradients,
        .window_weights = memory->window_weights,
        .window_gradients = memory->window_gradients,
        .moves = memory->bytes.comes_ahead ? in->moves : NULL,
        .moved = in->move_events,
        .input = flights_input(flights, action),
        .output = flights_at(flights, action, SLAB_OUTPUT),
        .kept = flights_at(flights, action, SLAB_KEPT),
        .kept_through = flights_at(flights, action, SLAB_KEPT_THROUGH),
        .held = flights_at(flights, action, SLAB_HELD),
        .again = flights_at(flights, action, SLAB_AGAIN),
        .carried = flights_at(flights, flights_first_part(action), SLAB_CARRIED),
        .carried_gradient = flights_at(flights, flights_first_part(action), SLAB_CARRIED_GRADIENT),
        .output_gradient = flights_output_gradient(flights, action),
        .input_gradient = flights_at(flights, action, SLAB_INPUT_GRADIENT),
        .workspace = memory->workspace > 0 ? in->needs.slab->workspace : NULL,
        .workspace_bytes = memory->workspace,
        .loss = action.kind == ACTION_F ? &in->needs.losses[part_place(in->needs.schedule, action)] : NULL,
        .reruns = reruns,
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

bool take_slot(struct interpreter *in, struct action action, enum slab_class class, struct error *error)
{
    return flights_take(&in->flights, action, class, error) || at_action(in, action, error);
}

// What the parts of a sequence share the first of them takes that needs it, and the last gives back.
static bool take_shared(struct interpreter *in, struct action action, enum slab_class class, struct error *error)
{
    const struct action first = flights_first_part(action);
    return in->needs.schedule->splits == 1 || flights_flight(&in->flights, first)->slots[class] != NO_SLOT
        || take_slot(in, first, class, error);
}

static void end_part(struct interpreter *in, struct action action, struct event *used)
{
    const struct action first = flights_first_part(action);
    struct flight *flight = flights_flight(&in->flights, first);
    if (++flight->parts_done < in->needs.schedule->splits)
        return;
    flight->parts_done = 0;
    flights_give(&in->flights, first, SLAB_CARRIED, used);
    flights_give(&in->flights, first, SLAB_CARRIED_GRADIENT, used);
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
        && take_kept(in, action, in->needs.queue, error) && take_shared(in, action, SLAB_CARRIED, error)
        && meet_weights(in, action, error);
}

// What follows gives back slots when their last use has been given to the queue; `used`
// is the event behind it.

static void end_backward_input(struct interpreter *in, struct action action, struct event *used)
{
    end_part(in, action, used);
    flights_use(&in->flights, action, SLAB_INPUT_GRADIENT, used);
    flights_give(&in->flights, action, SLAB_KEPT, used);
    flights_give(&in->flights, action, SLAB_AGAIN, used);
    flights_give(&in->flights, action, SLAB_OUTPUT_GRADIENT, used);
    flights_give_above(&in->flights, action, used);
    if (flights_local(&in->flights, action)->does->bytes.input_life == INPUT_UNTIL_I)
        flights_give(&in->flights, action, SLAB_INPUT, used);
}

static void end_backward_weight(struct interpreter *in, struct action action, struct event *used)
{
    flights_give(&in->flights, action, SLAB_HELD, used);
    flights_give(&in->flights, action, SLAB_KEPT_THROUGH, used);
    flights_give(&in->flights, action, SLAB_INPUT, used);
    flights_give_below(&in->flights, action, used);
    struct local *local = flights_local(&in->flights, action);
    weight_ring_drop(&local->ring, flights_flight(&in->flights, action)->weights);
    local->brought++;
}

static void end_backward(struct interpreter *in, struct action action, struct event *used)
{
    end_backward_input(in, action, used);
    end_backward_weight(in, action, used);
}

// Where nothing goes back, nothing is kept.
static void end_forward(struct interpreter *in, struct action action, struct event *used)
{
    flights_use(&in->flights, action, SLAB_OUTPUT, used);
    if (!in->needs.weight_plan->has_backward)
        end_backward(in, action, used);
    else if (flights_local(&in->flights, action)->does->bytes.input_life == INPUT_UNTIL_F)
        flights_give(&in->flights, action, SLAB_INPUT, used);
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

// Where what is run again goes, on a stage of which some action is an R. (Elsewhere it goes into the workspace.)
static bool take_again(struct interpreter *in, struct action action, struct error *error)
{
    return flights_local(&in->flights, action)->memory->rows[SLAB_AGAIN].count == 0
        || take_slot(in, action, SLAB_AGAIN, error);
}

static bool begin_recompute(struct interpreter *in, struct action action, struct error *error)
{
    await_prefetch(in, action);
    return has_its_version(in, action, error) && take_again(in, action, error);
}

// What B and I begin with.
static bool begin_backward(struct interpreter *in, struct action action, struct error *error)
{
    struct flight *flight = flights_flight(&in->flights, action);
    await_prefetch(in, action);
    return await_message(in, &flight->output_gradient, of_kind(action, ACTION_RECV_B), error)
        && take_input_gradient(in, action, error) && take_shared(in, action, SLAB_CARRIED_GRADIENT, error)
        && has_its_version(in, action, error) && (flight->was_recomputed || take_again(in, action, error));
}

static bool begin_backward_input(struct interpreter *in, struct action action, struct error *error)
{
    return begin_backward(in, action, error) && take_slot(in, action, SLAB_HELD, error);
}

static void end_recompute(struct interpreter *in, struct action action, struct event *used)
{
    (void)used;
    flights_flight(&in->flights, action)->was_recomputed = true;
}

stage_function *function_of(const struct stage_functions *functions, enum action_kind kind)
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
    void (*end)(struct interpreter *in, struct action action, struct event *used);
} computing[ACTION_KINDS] = {
    [ACTION_F] = { begin_forward, end_forward },
    [ACTION_B] = { begin_backward, end_backward },
    [ACTION_I] = { begin_backward_input, end_backward_input },
    [ACTION_W] = { has_its_version, end_backward_weight },
    [ACTION_R] = { begin_recompute, end_recompute },
};

// What makes two actions give their queue the same, but for what a recording lets vary.
static struct replay_key key_of(struct action action, const struct stage_pass *pass)
{
    return (struct replay_key){
        .what = (uint64_t)action.kind << 56 | (uint64_t)pass->was_recomputed << 48 | (uint64_t)action.split << 16
              | action.stage,
        .places = { pass->weights, pass->gradients, pass->input, pass->output, pass->kept, pass->kept_through,
                    pass->held, pass->again, pass->carried, pass->carried_gradient, pass->output_gradient,
                    pass->input_gradient, pass->workspace },
    };
}

// --- one call -----------------------------------------------------------------------------

static bool call_stage(struct interpreter *in, struct action action, const struct stage_pass *pass, struct error *error)
{
    const struct stage *does = flights_local(&in->flights, action)->does;
    whereabouts_act(in->needs.whereabouts, in->needs.rank, action);
    return function_of(does->functions, action.kind)(does->self, pass, error);
}

bool compute_once(struct interpreter *in, struct action action, struct error *error)
{
    const struct stage_pass pass = pass_of(in, action, (struct group){ &action, 1 }, NULL);
    return call_stage(in, action, &pass, error) ? is_well(in, action, error) : at_action(in, action, error);
}

// With what others bring, which no recording has.
static bool call_together(struct interpreter *in, const struct action *action, struct stage_pass *pass,
                          struct error *error)
{
    const size_t position = (size_t)(action - in->needs.schedule->lists[in->needs.rank].at);
    struct exchange exchange;
    pass->exchange = open_exchange(in, *action, position, &exchange);
    if (!call_stage(in, *action, pass, error))
        return false;
    if (pass->exchange)
        close_exchange(&exchange);
    return true;
}

static bool call_alone(struct interpreter *in, const struct action *action, struct stage_pass *pass,
                       struct error *error)
{
    const struct replay_key key = key_of(*action, pass);
    begin_replay(in, &key);
    const bool good = call_stage(in, *action, pass, error);
    end_replay(in);
    return good;
}

static bool compute(struct interpreter *in, const struct action *action, struct group group, struct stopwatch *reruns,
                    struct error *error)
{
    const struct local *local = flights_local(&in->flights, *action);
    struct stage_pass pass = pass_of(in, *action, group, reruns);
    const bool meets = local_shares_gradients(local) || local_shares_weights(local);
    const bool good = (meets ? call_together : call_alone)(in, action, &pass, error);
    return good ? is_well(in, *action, error) : at_action(in, *action, error);
}

// Begins when all that its members need is there (or the queue has been told to wait
// for it), does them one after the other, and ends for all at once.
static bool do_computing(struct interpreter *in, struct group group, struct error *error)
{
    for (size_t i = 0; i < group.size; i++)
        if (!computing[group.at[i].kind].begin(in, group.at[i], error))
            return false;
    if (!post_ahead(in, error) || !stay_near(in, error))
        return false;
    const struct recording recording = begin_span(in, group.at, group.size);
    event_record(recording.events.begin, in->needs.queue);
    for (size_t i = 0; i < group.size; i++)
        if (!compute(in, &group.at[i], group, &recording.reruns[i], error))
            return false;
    end_span(in, recording.events);
    for (size_t i = 0; i < group.size; i++)
        computing[group.at[i].kind].end(in, group.at[i], recording.events.end);
    return true;
}

// --- running ----------------------------------------------------------------------------

typedef bool action_function(struct interpreter *in, struct action action, struct error *error);

// What is no computing.
static action_function *const does[ACTION_KINDS] = {
    [ACTION_SEND_F] = do_send, [ACTION_RECV_F] = do_receive, [ACTION_SEND_B] = do_send, [ACTION_RECV_B] = do_receive,
    [ACTION_EVICT] = do_evict,   [ACTION_PREFETCH] = do_prefetch,
    [ACTION_REDUCE] = do_reduce, [ACTION_STEP] = do_step, [ACTION_VALIDATE] = do_validate,
};

static void begin_pass(struct interpreter *in)
{
    slab_forget_uses(in->needs.slab);
    in->latest = in->moved = NULL;
    in->attended = 0;
    in->ended = in->well = 0;
    in->looked_ns = 0;
    for (uint32_t l = 0; l < in->flights.local_count; l++) {
        struct local *local = &in->flights.locals[l];
        const uint32_t stage = (uint32_t)(local->does - in->needs.stages);
        local->incoming[0].posted = local->incoming[1].posted = 0;
        local->is_step_due = false;
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
        if (!attend_absent(in, (size_t)(at - list->at), error))
            return false;
        if (!(does[at->kind] ? does[at->kind](in, *at, error) : do_computing(in, group, error)))
            return false;
        at += group.size;
    }
    return attend_absent(in, list->count, error) && do_due_steps(in, error);
}

bool interpreter_run(struct interpreter *in, uint64_t step, struct error *error)
{
    struct error reason = { 0 };
    in->step = step;
    const uint64_t begun_ns = clock_thread_cpu_ns();
    bool good = run_list(in, &reason) && await_all_outgoing(in, &reason);
    queue_behind(in, in->moved);
    in->needs.recorder->ranks[in->needs.rank].host_ns = clock_thread_cpu_ns() - begun_ns - in->looked_ns;
    good = good && await_device(in, &reason);
    in->passes++;
    if (good) {
        whereabouts_idle(in->needs.whereabouts, in->needs.rank);
        replays_prepare(&in->replays);
        return true;
    }
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
            return error_set(error, "rank %u: %s cannot be done together with another action; only F, B, I, W and R "
                             "can", needs->rank, name);
        if (action.kind == ACTION_R && !stage->functions->recompute)
            return error_set(error, "rank %u: %s cannot be an action of its own: these layers run their forwards again "
                             "within B or I; leave it out of the schedule", needs->rank, name);
    }
    return group.size <= MOST_JOINED
        || error_set(error, "rank %u: %zu actions from %s on are done together; at most %d can", needs->rank,
                     group.size, action_format(*group.at, name), MOST_JOINED);
}

static bool shares(const struct interpreter_needs *needs, uint32_t stage)
{
    return needs->stages[stage].shard != SHARD_NONE
        && placement_copies(needs->weight_plan->placement, stage) > 1;
}

static bool can_share(const struct interpreter_needs *needs, const struct action *at, struct error *error)
{
    return at->kind != ACTION_STEP || !shares(needs, at->stage) || !needs->optimizer->own
        || error_set(error, "replicas share what the optimizer of stage %u keeps, and one of one's own is given whole"
                     " layers: plan without sharding", (unsigned)at->stage);
}

// The norm of a momentum is not that of the gradients it is of, and those are never in one place.
static bool can_clip(const struct interpreter_needs *needs, struct error *error)
{
    for (uint32_t s = 0; s < needs->schedule->stages; s++)
        if (placement_copies(needs->weight_plan->placement, s) > 1 && needs->optimizer->clip > 0
            && optimizer_sends_signs(needs->optimizer->kind) && !needs->optimizer->own)
            return error_set(error, "the replicas of stage %u send each other signs of their momentum (%s), and gradients"
                             " are clipped by the norm of all; leave clipping out, or plan with adamw", s,
                             optimizer_names[needs->optimizer->kind]);
    return true;
}

static bool can_run(const struct interpreter_needs *needs, struct error *error)
{
    const struct schedule *schedule = needs->schedule;
    if (!schedule->lowered)
        return error_set(error, "the schedule has no SENDs and RECVs yet; lower it first");
    for (uint32_t s = 0; schedule->splits > 1 && s < schedule->stages; s++)
        if (!needs->stages[s].takes_splits)
            return error_set(error, "the schedule passes each sequence through in %u splits, and the layers of stage "
                             "%u take whole sequences only", schedule->splits, s);
    const struct action_list *list = &schedule->lists[needs->rank];
    const struct action *end = list_end(list);
    if (!can_clip(needs, error))
        return false;
    for (const struct action *at = list->at; at < end; at += group_size(at, end))
        if (!can_do(needs, (struct group){ at, group_size(at, end) }, error) || !can_share(needs, at, error))
            return false;
    return true;
}

static bool shares_fit(const struct interpreter *in, struct error *error)
{
    for (uint32_t l = 0; l < in->flights.local_count; l++) {
        const struct local *local = &in->flights.locals[l];
        if (!in->needs.optimizer->own && !share_fits(&local->own, local->does, in->needs.optimizer->kind, error))
            return error_at(error, "stage %u", (unsigned)(local->does - in->needs.stages));
    }
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
    in->scaling = needs->scaling;
    replays_open(&in->replays, needs->queue, needs->captures_at_once);
    if (!flights_open(&in->flights, needs->schedule, needs->weight_plan->placement, needs->rank, needs->stages,
                      needs->slab, error)
        || !shares_fit(in, error)
        || !clipping_open(&in->clipping, queue_device(needs->queue), needs->stages, needs->schedule->stages,
                          needs->optimizer->clip, needs->scaling.scale > 0, needs->split, needs->member, error)
        || !host_updates_open(&in->host_updates, needs->queue, needs->slab, needs->optimizer, error)
        || !open_moves(in, error)
        || !(in->updated = event_create(queue_device(needs->queue), error))) {
        interpreter_free(in);
        return NULL;
    }
    return in;
}

void interpreter_free(struct interpreter *in)
{
    if (!in)
        return;
    close_moves(in);
    flights_close(&in->flights);
    replays_close(&in->replays);
    clipping_close(&in->clipping);
    host_updates_close(&in->host_updates);
    event_free(in->updated);
    free(in);
}

// From its first weights, or the rank's share of them.
static void begin_optimizer(const struct interpreter *in, const struct local *local, void *weights)
{
    const struct interpreter_needs *needs = &in->needs;
    const struct slab_stage *memory = local->memory;
    const enum precision precision = device_precision(queue_device(needs->queue));
    const void *own = local_shares_weights(local) ? weights : values_at(weights, precision, local->own.first);
    if (is_updated_on_host(memory))
        host_updates_begin(&in->host_updates, needs->queue, needs->optimizer, memory, own, local->own.count);
    else
        optimizer_begin(needs->optimizer, needs->queue, own, memory->optimizer, local->own.count);
}

// All of them, or the rank's share.
static bool write_first_weights(struct interpreter *in, const struct local *local, void *weights, struct error *error)
{
    const struct stage_functions *functions = local->does->functions;
    const struct first_share share = { weights, local->memory->window_weights, local->own.first,
                                       local->own.first + local->own.count };
    return local_shares_weights(local)
               ? functions->initialize_share(local->does->self, in->needs.queue, &share, error)
               : functions->initialize(local->does->self, in->needs.queue, weights, error);
}

static bool initialize(struct interpreter *in, struct error *error)
{
    struct slab *slab = in->needs.slab;
    if (slab->bytes > 0)
        queue_zero(in->needs.queue, slab->memory, slab->bytes);
    if (slab->host_bytes > 0)
        queue_zero(in->needs.queue, slab->host_memory, slab->host_bytes);
    for (uint32_t l = 0; l < in->flights.local_count; l++) {
        const struct local *local = &in->flights.locals[l];
        void *weights = row_at(&local->memory->weights, local->ring.newest);
        if (weights && !write_first_weights(in, local, weights, error))
            return error_at(error, "rank %u", in->needs.rank);
        begin_optimizer(in, local, weights);
    }
    return await_device(in, error);
}

bool interpreter_initialize(struct interpreter *in, struct error *error)
{
    const bool runs_ahead = device_runs_ahead(queue_device(in->needs.queue));
    return initialize(in, error) && (!runs_ahead || (warm_up(in, error) && initialize(in, error)));
}

const struct loss_scaling *interpreter_scaling(const struct interpreter *in)
{
    return &in->scaling;
}

void interpreter_set_scaling(struct interpreter *in, const struct loss_scaling *scaling)
{
    assert(in->passes == 0);
    in->scaling = *scaling;
}

double interpreter_gradient_norm(const struct interpreter *in)
{
    return clipping_norm(&in->clipping);
}

void *interpreter_state(const struct interpreter *in, uint32_t stage, uint32_t part)
{
    const struct local *local = in->flights.by_stage[stage];
    assert(local);
    const struct slab_stage *memory = local->memory;
    float *state = is_updated_on_host(memory) ? memory->on_host.optimizer : memory->optimizer;
    return part == 0 ? row_at(&memory->weights, local->ring.newest) : state + (part - 1) * local->own.count;
}

void *interpreter_host_weights(const struct interpreter *in, uint32_t stage)
{
    return in->flights.by_stage[stage]->memory->on_host.weights;
}
