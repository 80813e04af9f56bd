#include "runtime/ranks/interpreter.h"

#include <assert.h>
#include <stdlib.h>

#include "common/clock.h"
#include "runtime/ranks/interpreting.h"
#include "schedules/board.h"

// --- running ----------------------------------------------------------------------------

typedef bool action_function(struct interpreter *interpreter, struct action action, struct error *error);

// The actions that do not compute.
static action_function *const does[ACTION_KINDS] = {
    [ACTION_SEND_F] = do_send, [ACTION_RECV_F] = do_receive, [ACTION_SEND_B] = do_send, [ACTION_RECV_B] = do_receive,
    [ACTION_EVICT] = do_evict,   [ACTION_PREFETCH] = do_prefetch,
    [ACTION_REDUCE] = do_reduce, [ACTION_STEP] = do_step, [ACTION_VALIDATE] = do_validate,
};

static void begin_pass(struct interpreter *interpreter)
{
    slab_forget_uses(interpreter->needs.slab);
    interpreter->latest = interpreter->moved = NULL;
    interpreter->attended = 0;
    interpreter->ended = interpreter->well = 0;
    interpreter->looked_ns = 0;
    for (uint32_t l = 0; l < interpreter->flights.local_count; l++) {
        struct local *local = &interpreter->flights.locals[l];
        local->incoming[0].posted = local->incoming[1].posted = 0;
        local->is_step_due = false;
        local->updates = 0;
        weight_ring_begin(&local->ring, weight_plan_users(interpreter->needs.weight_plan, local->stage,
                                                          interpreter->needs.rank));
    }
}

static bool run_list(struct interpreter *interpreter, struct error *error)
{
    const struct action_list *list = &interpreter->needs.schedule->lists[interpreter->needs.rank];
    const struct action *end = list_end(list);
    begin_pass(interpreter);
    for (const struct action *action = list->at; action < end;) {
        const struct group group = { action, group_size(action, end) };
        if (!attend_absent(interpreter, (size_t)(action - list->at), error))
            return false;
        if (!(does[action->kind] ? does[action->kind](interpreter, *action, error)
                                 : do_computing(interpreter, group, error)))
            return false;
        action += group.size;
    }
    return attend_absent(interpreter, list->count, error) && do_due_steps(interpreter, error);
}

bool interpreter_run(struct interpreter *interpreter, uint64_t step, struct error *error)
{
    struct error reason = { 0 };
    interpreter->step = step;
    const uint64_t begun_ns = clock_thread_cpu_ns();
    bool good = run_list(interpreter, &reason) && await_all_outgoing(interpreter, &reason);
    queue_behind(interpreter, interpreter->moved);
    interpreter->needs.recorder->ranks[interpreter->needs.rank].effort.host_ns =
        clock_thread_cpu_ns() - begun_ns - interpreter->looked_ns;
    good = good && await_device(interpreter, &reason);
    interpreter->passes++;
    if (good) {
        rank_status_idle(interpreter->needs.status, interpreter->needs.rank);
        replays_prepare(&interpreter->replays);
        return true;
    }
    interpreter->needs.transport->functions->abandon(interpreter->needs.transport, &reason);
    interpreter->needs.transport->functions->cancel(interpreter->needs.transport, &interpreter->reduction);
    flights_cancel(&interpreter->flights, interpreter->needs.transport);
    return error_hand_on(error, &reason);
}

// --- making and freeing ---------------------------------------------------------------------

static bool can_do(const struct interpreter_needs *needs, struct group group, struct error *error)
{
    char name[ACTION_SIZE];
    for (size_t i = 0; i < group.size; i++) {
        const struct action action = group.at[i];
        const struct stage *stage = &needs->stages[action.stage];
        action_format(action, name);
        if (group.size > 1 && !is_compute(action))
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

static bool can_share(const struct interpreter_needs *needs, const struct action *action, struct error *error)
{
    return action->kind != ACTION_STEP || !shares(needs, action->stage) || !needs->optimizer->own
        || error_set(error, "replicas share what the optimizer of stage %u keeps, and one of one's own is given whole"
                     " layers: plan without sharding", (unsigned)action->stage);
}

// The norm of a momentum is not that of the gradients it is made from, and those gradients are never in one place.
static bool can_measure_norm(const struct interpreter_needs *needs, struct error *error)
{
    for (uint32_t s = 0; s < needs->schedule->stages; s++)
        if (placement_copies(needs->weight_plan->placement, s) > 1 && optimizer_measures_norm(needs->optimizer)
            && optimizer_compresses(needs->optimizer->kind) && !needs->optimizer->own)
            return error_set(error, "the replicas of stage %u send each other a compressed momentum (%s), and %s; leave"
                             " %s out, or plan with adamw", s, optimizer_names[needs->optimizer->kind],
                             needs->optimizer->clip > 0 ? "gradients are clipped by the norm of all"
                                                        : "gradient_norm is of the gradients, which are never added up",
                             needs->optimizer->clip > 0 ? "clipping" : "gradient_norm");
    return true;
}

// A momentum that replicas exchange is that of all parameters of a stage.
static bool can_freeze(const struct interpreter_needs *needs, struct error *error)
{
    for (uint32_t s = 0; s < needs->schedule->stages; s++)
        for (size_t i = 0; i < needs->stages[s].part_count; i++)
            if (needs->stages[s].parts[i].is_frozen && placement_copies(needs->weight_plan->placement, s) > 1
                && optimizer_compresses(needs->optimizer->kind) && !needs->optimizer->own)
                return error_set(error, "is_frozen: the replicas of stage %u send each other a compressed momentum (%s)"
                                 " of all its layers, and one of them is frozen; plan with adamw", s,
                                 optimizer_names[needs->optimizer->kind]);
    return true;
}

// An update of one's own gets gradients as large as the weights.
static bool can_list(const struct interpreter_needs *needs, struct error *error)
{
    for (uint32_t s = 0; needs->optimizer->own && s < needs->schedule->stages; s++)
        if (needs->stages[s].list_bytes > 0)
            return error_set(error, "the gradients of tables on stage %u are lists of rows, which an update of one's"
                             " own does not read: plan with momentum or adamw, whose gradients are as large as the"
                             " tables", s);
    return true;
}

static bool can_run(const struct interpreter_needs *needs, struct error *error)
{
    const struct schedule *schedule = needs->schedule;
    if (!schedule->lowered)
        return error_set(error, "the schedule has no SENDs and RECVs yet; lower it first");
    for (uint32_t s = 0; schedule->weights != WEIGHTS_FLUSH && s < schedule->stages; s++)
        if (needs->stages[s].trains_by)
            return error_set(error, "layer %s: its state is read by training, and the schedule makes updates while"
                             " micro-batches are under way: take one that flushes, or let evaluation alone read it",
                             needs->stages[s].trains_by);
    for (uint32_t s = 0; schedule->splits > 1 && s < schedule->stages; s++)
        if (!needs->stages[s].takes_splits)
            return error_set(error, "the schedule passes each sequence through in %u splits, and the layers of stage "
                             "%u take whole sequences only", schedule->splits, s);
    const struct action_list *list = &schedule->lists[needs->rank];
    const struct action *end = list_end(list);
    if (!can_measure_norm(needs, error) || !can_freeze(needs, error) || !can_list(needs, error))
        return false;
    for (const struct action *action = list->at; action < end; action += group_size(action, end))
        if (!can_do(needs, (struct group){ action, group_size(action, end) }, error)
            || !can_share(needs, action, error))
            return false;
    return true;
}

static bool shares_fit(const struct interpreter *interpreter, struct error *error)
{
    for (uint32_t l = 0; l < interpreter->flights.local_count; l++) {
        const struct local *local = &interpreter->flights.locals[l];
        if (!interpreter->needs.optimizer->own
            && !share_fits(&local->own, local->does, interpreter->needs.optimizer->kind, error))
            return error_at(error, "stage %u", local->stage);
    }
    return true;
}

struct interpreter *interpreter_create(const struct interpreter_needs *needs, struct error *error)
{
    if (!can_run(needs, error))
        return NULL;
    struct interpreter *interpreter = calloc(1, sizeof *interpreter);
    if (!interpreter)
        return error_null(error_no_memory(error, "a rank"));
    interpreter->needs = *needs;
    interpreter->scaling = needs->scaling;
    replays_open(&interpreter->replays, needs->queue, needs->captures_at_once);
    if (!flights_open(&interpreter->flights, needs->schedule, needs->weight_plan->placement, needs->rank, needs->stages,
                      needs->slab, error)
        || !shares_fit(interpreter, error)
        || !clipping_open(&interpreter->clipping, queue_device(needs->queue), needs->stages, needs->schedule->stages,
                          needs->optimizer->clip, needs->optimizer->measures_norm || needs->scaling.scale > 0,
                          needs->split, needs->member, error)
        || !host_updates_open(&interpreter->host_updates, needs->queue, needs->slab, needs->optimizer, error)
        || !open_moves(interpreter, error)
        || !(interpreter->updated = event_create(queue_device(needs->queue), error))) {
        interpreter_free(interpreter);
        return NULL;
    }
    return interpreter;
}

void interpreter_free(struct interpreter *interpreter)
{
    if (!interpreter)
        return;
    close_moves(interpreter);
    flights_close(&interpreter->flights);
    replays_close(&interpreter->replays);
    clipping_close(&interpreter->clipping);
    host_updates_close(&interpreter->host_updates);
    event_free(interpreter->updated);
    free(interpreter);
}

// Starts from the stage's first weights, or from the rank's share of them.
static void begin_optimizer(const struct interpreter *interpreter, const struct local *local, void *weights)
{
    const struct interpreter_needs *needs = &interpreter->needs;
    const struct slab_stage *memory = local->memory;
    const enum precision precision = device_precision(queue_device(needs->queue));
    const void *share = local_shares_weights(local) ? weights : values_at(weights, precision, local->own.first);
    if (is_updated_on_host(memory))
        host_updates_begin(&interpreter->host_updates, needs->queue, needs->optimizer, memory, share, local->own.count);
    else
        optimizer_begin(needs->optimizer, needs->queue, share, memory->optimizer, local->own.count);
}

// Writes all of the weights, or the rank's share.
static bool write_first_weights(struct interpreter *interpreter, const struct local *local, void *weights,
                                struct error *error)
{
    const struct stage_functions *functions = local->does->functions;
    const struct first_share share = { weights, local->memory->window_weights, local->own.first,
                                       local->own.first + local->own.count };
    return local_shares_weights(local)
               ? functions->initialize_share(local->does->self, interpreter->needs.queue, &share, error)
               : functions->initialize(local->does->self, interpreter->needs.queue, weights, error);
}

static bool initialize(struct interpreter *interpreter, struct error *error)
{
    struct slab *slab = interpreter->needs.slab;
    if (slab->bytes > 0)
        queue_zero(interpreter->needs.queue, slab->memory, slab->bytes);
    if (slab->host_bytes > 0)
        queue_zero(interpreter->needs.queue, slab->host_memory, slab->host_bytes);
    for (uint32_t l = 0; l < interpreter->flights.local_count; l++) {
        const struct local *local = &interpreter->flights.locals[l];
        void *weights = row_at(&local->memory->weights, local->ring.newest);
        if (weights && !write_first_weights(interpreter, local, weights, error))
            return error_at(error, "rank %u", interpreter->needs.rank);
        begin_optimizer(interpreter, local, weights);
        if (!begin_lists(interpreter, local, error))
            return false;
        const struct stage_functions *functions = local->does->functions;
        if (local->memory->state
            && !functions->initialize_state(local->does->self, interpreter->needs.queue, local->memory->state, error))
            return error_at(error, "rank %u", interpreter->needs.rank);
    }
    return await_device(interpreter, error);
}

bool interpreter_initialize(struct interpreter *interpreter, struct error *error)
{
    const bool runs_ahead = device_runs_ahead(queue_device(interpreter->needs.queue));
    return initialize(interpreter, error)
        && (!runs_ahead || (warm_up(interpreter, error) && initialize(interpreter, error)));
}

void interpreter_use_weights(struct interpreter *interpreter, const struct interpreter *owner)
{
    for (uint32_t l = 0; l < interpreter->flights.local_count; l++)
        weight_ring_follow(&interpreter->flights.locals[l].ring, &owner->flights.locals[l].ring);
}

const struct loss_scaling *interpreter_scaling(const struct interpreter *interpreter)
{
    return &interpreter->scaling;
}

void interpreter_set_scaling(struct interpreter *interpreter, const struct loss_scaling *scaling)
{
    assert(interpreter->passes == 0);
    interpreter->scaling = *scaling;
}

double interpreter_gradient_norm(const struct interpreter *interpreter)
{
    return clipping_norm(&interpreter->clipping);
}

void *interpreter_state(const struct interpreter *interpreter, uint32_t stage, uint32_t part)
{
    const struct local *local = interpreter->flights.by_stage[stage];
    assert(local);
    const struct slab_stage *memory = local->memory;
    if (part == LAYER_STATE)
        return memory->state;
    float *state = is_updated_on_host(memory) ? memory->on_host.optimizer : memory->optimizer;
    return part == 0 ? row_at(&memory->weights, local->ring.newest) : state + (part - 1) * local->own.count;
}

void *interpreter_host_weights(const struct interpreter *interpreter, uint32_t stage)
{
    return interpreter->flights.by_stage[stage]->memory->on_host.weights;
}
