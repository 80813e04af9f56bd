#include <assert.h>

#include "runtime/ranks/interpreting.h"

static bool is_last(const struct interpreter *interpreter, struct action action)
{
    return action.stage + 1u == interpreter->needs.schedule->stages;
}

static void *last_input_of(const struct interpreter *interpreter, struct action action)
{
    char *all = interpreter->needs.last_inputs ? *interpreter->needs.last_inputs : NULL;
    return all && action.kind == ACTION_F && is_last(interpreter, action)
               ? all + action.micro_batch * interpreter->needs.last_input_bytes : NULL;
}

static float *auxiliary_of(const struct interpreter *interpreter, struct action action)
{
    const struct interpreter_needs *needs = &interpreter->needs;
    const struct stage *does = &needs->stages[action.stage];
    return action.kind == ACTION_F && does->auxiliary_count > 0
               ? needs->auxiliary_losses + part_place(needs->schedule, action) * needs->auxiliary_count
                     + does->first_auxiliary : NULL;
}

static struct stage_pass pass_of(struct interpreter *interpreter, struct action action, struct group group,
                                 struct stopwatch *reruns)
{
    const struct flights *flights = &interpreter->flights;
    const struct local *local = flights_local(flights, action);
    const struct slab_stage *memory = local->memory;
    const struct flight *flight = flights_flight(flights, action);
    const struct update_samples *all = &interpreter->needs.samples;
    const uint64_t samples = samples_of(all, action.micro_batch);
    return (struct stage_pass){  // made where the caller has it
        .base = {
            .queue = interpreter->needs.queue,
            .step = interpreter->step,
            .micro_batch = action.micro_batch,
            .micro_batches = all->micro_batches,
            .samples = samples,
            .share = loss_share_of(all, samples),
            .is_training = interpreter->needs.weight_plan->has_backward,
            .split = action.split,
            .splits = interpreter->needs.schedule->splits,
            .copy = local->copy,
            .loss_scale = interpreter->scaling.scale,
            .parameters = row_at(&memory->weights, flight->weights),
            .gradients = memory->gradients,
            .input = flights_input(flights, action),
            .input_gradient = flights_at(flights, action, SLAB_INPUT_GRADIENT),
            .output = flights_at(flights, action, SLAB_OUTPUT),
            .output_gradient = flights_output_gradient(flights, action),
            .saved = flights_at(flights, action, SLAB_KEPT),
            .held = flights_at(flights, action, SLAB_HELD),
            .shared_by_parts = flights_at(flights, flights_first_part(action), SLAB_SHARED_BY_PARTS),
            .shared_by_parts_gradient = flights_at(flights, flights_first_part(action), SLAB_SHARED_BY_PARTS_GRADIENT),
            .state = memory->state,
            .statistics = flights_at(flights, action, SLAB_STATISTICS),
            .workspace = memory->workspace > 0 ? interpreter->needs.slab->workspace : NULL,
            .loss = action.kind == ACTION_F
                      ? &interpreter->needs.losses[part_place(interpreter->needs.schedule, action)] : NULL,
            .auxiliary_loss = auxiliary_of(interpreter, action),
            .metrics = action.kind == ACTION_F && is_last(interpreter, action) ? interpreter->needs.metrics : NULL,
        },
        .newest = local->ring.in_place ? row_at(&memory->weights, local->ring.newest) : NULL,
        .last_input = last_input_of(interpreter, action),
        .kept_through = flights_at(flights, action, SLAB_KEPT_THROUGH),
        .recomputed = flights_at(flights, action, SLAB_RECOMPUTED),
        .workspace_bytes = memory->workspace,
        .reruns = reruns,
        .was_recomputed = flight->was_recomputed,
        .window_weights = memory->window_weights,
        .window_gradients = memory->window_gradients,
        .moves = memory->bytes.comes_ahead ? interpreter->moves : NULL,
        .moved = interpreter->move_events,
        .together = group.at,
        .together_count = group.size,
    };
}

static struct action of_kind(struct action action, enum action_kind kind)
{
    action.kind = (uint8_t)kind;
    return action;
}

// What the parts of a sequence share: the first part that needs it takes the slot, and the last one gives it back.
static bool take_shared(struct interpreter *interpreter, struct action action, enum slab_class class,
                        struct error *error)
{
    const struct action first = flights_first_part(action);
    return interpreter->needs.schedule->splits == 1
        || flights_flight(&interpreter->flights, first)->slots[class] != NO_SLOT
        || take_slot(interpreter, first, class, error);
}

static void end_part(struct interpreter *interpreter, struct action action, struct event *used)
{
    const struct action first = flights_first_part(action);
    struct flight *flight = flights_flight(&interpreter->flights, first);
    if (++flight->parts_done < interpreter->needs.schedule->splits)
        return;
    flight->parts_done = 0;
    flights_give(&interpreter->flights, first, SLAB_SHARED_BY_PARTS, used);
    flights_give(&interpreter->flights, first, SLAB_SHARED_BY_PARTS_GRADIENT, used);
}

static bool take_output(struct interpreter *interpreter, struct action action, struct error *error)
{
    const bool goes_on = action.stage + 1u < interpreter->needs.schedule->stages;
    return !goes_on || take_outgoing(interpreter, action, OUTPUTS, error);
}

static bool take_input_gradient(struct interpreter *interpreter, struct action action, struct error *error)
{
    return action.stage == 0 || take_outgoing(interpreter, action, GRADIENTS, error);
}

// Finds the weight version that the schedule gives this micro-batch.
static bool meet_weights(struct interpreter *interpreter, struct action action, struct error *error)
{
    const struct weight_ring *ring = &flights_local(&interpreter->flights, action)->ring;
    struct flight *flight = flights_flight(&interpreter->flights, action);
    flight->version = weight_plan_version(interpreter->needs.weight_plan, interpreter->passes, action);
    flight->weights = weight_ring_find(ring, flight->version);
    if (flight->weights != NO_SLOT)
        return true;
    error_set_kind(error, ERROR_MACHINE, "weight version %llu is to be met, and this rank does not hold it (its newest "
                   "is %llu)", (unsigned long long)flight->version,
                   (unsigned long long)weight_ring_version(ring, ring->newest));
    return at_action(interpreter, action, error);
}

// The STEP gives the slot back (interpreter_fold.c).
static bool take_statistics(struct interpreter *interpreter, struct action action, struct error *error)
{
    const struct slab_row *row = &flights_local(&interpreter->flights, action)->memory->rows[SLAB_STATISTICS];
    return row->bytes == 0 || !interpreter->needs.weight_plan->has_backward
        || take_slot(interpreter, action, SLAB_STATISTICS, error);
}

static bool begin_forward(struct interpreter *interpreter, struct action action, struct error *error)
{
    struct flight *flight = flights_flight(&interpreter->flights, action);
    flight->was_recomputed = false;
    return await_message(interpreter, &flight->input, of_kind(action, ACTION_RECV_F), error)
        && take_output(interpreter, action, error) && take_kept(interpreter, action, interpreter->needs.queue, error)
        && take_shared(interpreter, action, SLAB_SHARED_BY_PARTS, error)
        && take_statistics(interpreter, action, error) && meet_weights(interpreter, action, error);
}

// The functions that follow give back slots as soon as their last use has been given to the queue. `used` is the
// event after that use.

static void end_backward_input(struct interpreter *interpreter, struct action action, struct event *used)
{
    end_part(interpreter, action, used);
    flights_use(&interpreter->flights, action, SLAB_INPUT_GRADIENT, used);
    flights_give(&interpreter->flights, action, SLAB_KEPT, used);
    flights_give(&interpreter->flights, action, SLAB_RECOMPUTED, used);
    flights_give(&interpreter->flights, action, SLAB_OUTPUT_GRADIENT, used);
    flights_give_above(&interpreter->flights, action, used);
    if (flights_local(&interpreter->flights, action)->does->bytes.input_life == INPUT_UNTIL_I)
        flights_give(&interpreter->flights, action, SLAB_INPUT, used);
}

static void end_backward_weight(struct interpreter *interpreter, struct action action, struct event *used)
{
    flights_give(&interpreter->flights, action, SLAB_HELD, used);
    flights_give(&interpreter->flights, action, SLAB_KEPT_THROUGH, used);
    flights_give(&interpreter->flights, action, SLAB_INPUT, used);
    flights_give_below(&interpreter->flights, action, used);
    struct local *local = flights_local(&interpreter->flights, action);
    weight_ring_drop(&local->ring, flights_flight(&interpreter->flights, action)->weights);
    local->contributed++;
}

static void end_backward(struct interpreter *interpreter, struct action action, struct event *used)
{
    end_backward_input(interpreter, action, used);
    end_backward_weight(interpreter, action, used);
}

// Without a backward, nothing is kept.
static void end_forward(struct interpreter *interpreter, struct action action, struct event *used)
{
    flights_use(&interpreter->flights, action, SLAB_OUTPUT, used);
    if (!interpreter->needs.weight_plan->has_backward)
        end_backward(interpreter, action, used);
    else if (flights_local(&interpreter->flights, action)->does->bytes.input_life == INPUT_UNTIL_F)
        flights_give(&interpreter->flights, action, SLAB_INPUT, used);
}

// A backward must use the same version as its forward.
static bool has_its_version(struct interpreter *interpreter, struct action action, struct error *error)
{
    const struct flight *flight = flights_flight(&interpreter->flights, action);
    const uint64_t met = weight_ring_version(&flights_local(&interpreter->flights, action)->ring, flight->weights);
    if (met == flight->version)
        return true;
    error_set_kind(error, ERROR_MACHINE, "the forward met weight version %llu, and the backward meets %llu",
                   (unsigned long long)flight->version, (unsigned long long)met);
    return at_action(interpreter, action, error);
}

// Takes a slot for what is recomputed, on a stage that has a separate R action. (On other stages it goes into the
// workspace.)
static bool take_recomputed(struct interpreter *interpreter, struct action action, struct error *error)
{
    return flights_local(&interpreter->flights, action)->memory->rows[SLAB_RECOMPUTED].count == 0
        || take_slot(interpreter, action, SLAB_RECOMPUTED, error);
}

static bool begin_recompute(struct interpreter *interpreter, struct action action, struct error *error)
{
    await_prefetch(interpreter, action);
    return has_its_version(interpreter, action, error) && take_recomputed(interpreter, action, error);
}

// What B and I need before they begin.
static bool begin_backward(struct interpreter *interpreter, struct action action, struct error *error)
{
    struct flight *flight = flights_flight(&interpreter->flights, action);
    await_prefetch(interpreter, action);
    return await_message(interpreter, &flight->output_gradient, of_kind(action, ACTION_RECV_B), error)
        && take_input_gradient(interpreter, action, error)
        && take_shared(interpreter, action, SLAB_SHARED_BY_PARTS_GRADIENT, error)
        && has_its_version(interpreter, action, error)
        && (flight->was_recomputed || take_recomputed(interpreter, action, error));
}

static bool begin_backward_input(struct interpreter *interpreter, struct action action, struct error *error)
{
    return begin_backward(interpreter, action, error) && take_slot(interpreter, action, SLAB_HELD, error);
}

static void end_recompute(struct interpreter *interpreter, struct action action, struct event *used)
{
    (void)used;
    flights_flight(&interpreter->flights, action)->was_recomputed = true;
}

// What each kind of action needs before it can run, and gives back afterwards.
static const struct {
    bool (*begin)(struct interpreter *interpreter, struct action action, struct error *error);
    void (*end)(struct interpreter *interpreter, struct action action, struct event *used);
} computing[ACTION_KINDS] = {
    [ACTION_F] = { begin_forward, end_forward },
    [ACTION_B] = { begin_backward, end_backward },
    [ACTION_I] = { begin_backward_input, end_backward_input },
    [ACTION_W] = { has_its_version, end_backward_weight },
    [ACTION_R] = { begin_recompute, end_recompute },
};

// Two actions with the same key give their queue the same calls, except for what a recording allows to vary.
static struct replay_key key_of(struct action action, const struct stage_pass *pass)
{
    const struct weir_pass *base = &pass->base;
    return (struct replay_key){
        .what = (uint64_t)action.kind << 56 | (uint64_t)pass->was_recomputed << 48 | (uint64_t)action.split << 16
              | action.stage,
        .places = { base->parameters, base->gradients, base->input, base->output, base->saved, pass->kept_through,
                    base->held, pass->recomputed, base->shared_by_parts, base->shared_by_parts_gradient,
                    base->output_gradient, base->input_gradient, base->workspace, base->state, base->statistics },
    };
}

// --- one call -----------------------------------------------------------------------------

static bool call_stage(struct interpreter *interpreter, struct action action, const struct stage_pass *pass,
                       struct error *error)
{
    const struct stage *does = flights_local(&interpreter->flights, action)->does;
    rank_status_act(interpreter->needs.status, interpreter->needs.rank, action);
    return function_of(does->functions, action.kind)(does->self, pass, error);
}

bool compute_once(struct interpreter *interpreter, struct action action, struct error *error)
{
    const struct stage_pass pass = pass_of(interpreter, action, (struct group){ &action, 1 }, NULL);
    return call_stage(interpreter, action, &pass, error) ? is_well(interpreter, action, error)
                                                         : at_action(interpreter, action, error);
}

// Computes with what other replicas bring, which is in no recording.
static bool call_together(struct interpreter *interpreter, const struct action *action, struct stage_pass *pass,
                          struct error *error)
{
    const size_t position = (size_t)(action - interpreter->needs.schedule->lists[interpreter->needs.rank].at);
    struct exchange exchange;
    pass->exchange = open_exchange(interpreter, *action, position, &exchange);
    if (!call_stage(interpreter, *action, pass, error))
        return false;
    if (pass->exchange)
        close_exchange(&exchange);
    return true;
}

// Brings the rows of a version to the tables, from the newest version back; or those of the newest again.
static void swap_rows(struct interpreter *interpreter, const struct local *local, uint64_t version, bool is_back)
{
    const uint64_t newest = weight_ring_version(&local->ring, local->ring.newest);
    for (uint64_t i = version; i < newest; i++) {
        const uint32_t slot = weight_ring_find(&local->ring, is_back ? version + newest - 1 - i : i);
        lists_swap(interpreter, local, row_at(&local->memory->weights, slot));
    }
}

// Tables are in the newest version alone. A forward of an older one finds the rows of that version there meanwhile.
// Other passes do not read rows (weir_layer.h), unless they run a forward again.
static bool reads_older_rows(const struct local *local, const struct flight *flight, struct action action)
{
    const bool runs_forward = action.kind == ACTION_F || action.kind == ACTION_R
                           || (action.kind != ACTION_W && local->does->bytes.again > 0);
    return local->ring.in_place && runs_forward && flight->version < weight_ring_version(&local->ring,
                                                                                         local->ring.newest);
}

static bool call_alone(struct interpreter *interpreter, const struct action *action, struct stage_pass *pass,
                       struct error *error)
{
    const struct replay_key key = key_of(*action, pass);
    begin_replay(interpreter, &key);
    const bool good = call_stage(interpreter, *action, pass, error);
    end_replay(interpreter);
    return good;
}

static bool compute(struct interpreter *interpreter, const struct action *action, struct group group,
                    struct stopwatch *reruns, struct error *error)
{
    const struct local *local = flights_local(&interpreter->flights, *action);
    struct stage_pass pass = pass_of(interpreter, *action, group, reruns);
    const bool meets = local_shares_gradients(local) || local_shares_weights(local);
    const struct flight *flight = flights_flight(&interpreter->flights, *action);
    const bool swaps = reads_older_rows(local, flight, *action);
    if (swaps)
        swap_rows(interpreter, local, flight->version, true);
    const bool good = (meets ? call_together : call_alone)(interpreter, action, &pass, error);
    if (swaps)
        swap_rows(interpreter, local, flight->version, false);
    return good ? is_well(interpreter, *action, error) : at_action(interpreter, *action, error);
}

bool do_computing(struct interpreter *interpreter, struct group group, struct error *error)
{
    for (size_t i = 0; i < group.size; i++)
        if (!computing[group.at[i].kind].begin(interpreter, group.at[i], error))
            return false;
    if (!post_ahead(interpreter, error) || !stay_near(interpreter, error))
        return false;
    const struct recording recording = begin_span(interpreter, group.at, group.size);
    event_record(recording.events.begin, interpreter->needs.queue);
    for (size_t i = 0; i < group.size; i++)
        if (!compute(interpreter, &group.at[i], group, &recording.reruns[i], error))
            return false;
    end_span(interpreter, recording.events);
    for (size_t i = 0; i < group.size; i++)
        computing[group.at[i].kind].end(interpreter, group.at[i], recording.events.end);
    return true;
}
