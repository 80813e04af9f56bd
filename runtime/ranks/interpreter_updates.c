#include <math.h>
#include <stdlib.h>

#include "runtime/ranks/interpreting.h"

bool end_update(struct interpreter *interpreter, const struct recording *recording, struct error *error)
{
    const struct span *span = recording->spans;
    const struct stage *does = flights_local(&interpreter->flights, span->action)->does;
    const struct span_start start = { recording->events.begin, span->start_ns };
    if (does->functions->linger)
        does->functions->linger(does->self, interpreter->needs.queue, span->action.kind, start);
    end_span(interpreter, recording->events);
    return is_well(interpreter, span->action, error);
}

// Without a flush, the last update of a run may have fewer micro-batches than the losses are averaged over. (With
// several copies, their REDUCE has corrected this.)
static void average(struct interpreter *interpreter, struct local *local)
{
    const struct weight_plan *plan = interpreter->needs.weight_plan;
    const uint32_t samples = plan->samples;
    const bool is_sum = local->copies == 1 || local_shares_gradients(local);
    const uint32_t all = local_shares_gradients(local) ? local->contributed_by_all : local->contributed;
    const uint32_t contributed = all / plan->schedule->splits;
    const uint64_t count = dense_gradients(local);
    const float factor = (float)samples / (float)contributed;
    if (plan->schedule->weights == WEIGHTS_FLUSH || !is_sum || contributed == 0 || contributed == samples)
        return;
    if (count > 0)
        kernel_scale(interpreter->needs.queue, local->memory->gradients, local->memory->gradients, factor, count);
    FOR_LISTS (part, local) {
        const struct row_list list = stage_part_rows(part, local->memory->gradients);
        kernel_scale(interpreter->needs.queue, list.sums, list.sums, factor, list.room * list.columns);
    }
}

static void forget_gradients(struct interpreter *interpreter, const struct local *local)
{
    struct queue *queue = interpreter->needs.queue;
    if (dense_gradients(local) > 0)
        queue_zero(queue, local->memory->gradients, dense_gradients(local) * sizeof(float));
    FOR_LISTS (part, local)
        list_empty(queue, part, local->memory->gradients);
}

// Multiplies a list's sums; those that are not in use as well.
static void clip_lists(struct interpreter *interpreter, const struct local *local)
{
    FOR_LISTS (part, local) {
        const struct row_list list = stage_part_rows(part, local->memory->gradients);
        clipping_clip(&interpreter->clipping, interpreter->needs.queue, list.sums, list.room * list.columns);
    }
}

// The number of the stage's next update, from 1.
static uint64_t next_update(const struct interpreter *interpreter, const struct local *local)
{
    const uint64_t *before = interpreter->needs.updates_before;
    return weight_ring_version(&local->ring, local->ring.newest)
         + (before ? before[local->stage] : 0) - interpreter->scaling.skipped + 1;
}

bool sends_compressed(const struct interpreter *interpreter, const struct local *local)
{
    return local->copies > 1 && optimizer_is_frozen(interpreter->needs.optimizer, next_update(interpreter, local));
}

// The part of the weights, gradients and state that this rank updates.
static struct optimizer_buffers buffers_of(const struct interpreter *interpreter, const struct local *local,
                                           uint32_t next)
{
    const struct slab_stage *memory = local->memory;
    const enum precision precision = device_precision(queue_device(interpreter->needs.queue));
    const struct optimizer_buffers whole = {
        .next = row_at(&memory->weights, next),
        .weights = row_at(&memory->weights, local->ring.newest),
        .gradients = memory->gradients,
        .state = memory->optimizer,
        .count = memory->all_weights / precision_bytes(precision),
        .exempt = local->does->exempt,
        .exempt_count = local->does->exempt_count,
        .parts = local->does->parts,
        .part_count = local->does->part_count,
        .has_momentum = sends_compressed(interpreter, local),
    };
    struct optimizer_buffers buffers = share_buffers(&local->own, precision, whole);
    if (local_shares_gradients(local))
        buffers.gradients = whole.gradients;
    if (local_shares_weights(local)) {
        buffers.next = whole.next;
        buffers.weights = whole.weights;
    }
    return buffers;
}

// Micro-batches that use the newest version find it in another slot.
static void follow_aside(const struct interpreter *interpreter, struct local *local, uint32_t slot)
{
    const uint64_t newest = weight_ring_version(&local->ring, local->ring.newest);
    const size_t count = parts_of(interpreter->needs.schedule);
    for (size_t i = 0; i < count; i++)
        if (local->flights[i].weights == local->ring.newest && local->flights[i].version == newest)
            local->flights[i].weights = slot;
}

// Reads the newest version and writes the next one into a slot.
static void optimize(struct interpreter *interpreter, struct local *local, uint32_t next)
{
    const struct slab_stage *memory = local->memory;
    const struct optimizer_buffers buffers = buffers_of(interpreter, local, next);
    const uint64_t number = next_update(interpreter, local);
    const uint64_t floats = local->does->list_bytes > 0 ? dense_gradients(local) : buffers.count;
    if (floats > 0 && interpreter->clipping.measures)
        clipping_clip(&interpreter->clipping, interpreter->needs.queue, (float *)(uintptr_t)buffers.gradients, floats);
    if (interpreter->clipping.measures)
        clip_lists(interpreter, local);
    if (buffers.count > 0 && is_updated_on_host(memory))
        host_updates_make(&interpreter->host_updates, interpreter->needs.queue, interpreter->needs.optimizer, number,
                          memory, &buffers);
    else if (buffers.count > 0)
        optimizer_update(interpreter->needs.optimizer, number, interpreter->needs.queue, &buffers);
    forget_gradients(interpreter, local);
}

static void update(struct interpreter *interpreter, struct local *local, uint32_t next)
{
    const struct slab_row *weights = &local->memory->weights;
    const bool is_frozen = optimizer_is_frozen(interpreter->needs.optimizer, next_update(interpreter, local));
    const struct replay_key key = {
        .what = (uint64_t)ACTION_STEP << 56 | (uint64_t)is_frozen << 32 | local->stage,
        .places = { row_at(weights, local->ring.newest), row_at(weights, next) },
    };
    const bool puts_aside = local->ring.in_place && next != local->ring.newest;
    begin_replay(interpreter, &key);
    if (puts_aside)
        lists_put_aside(interpreter, local, next);
    average(interpreter, local);
    if (interpreter->skips)
        forget_gradients(interpreter, local);
    else
        optimize(interpreter, local, local->ring.in_place ? local->ring.newest : next);
    end_replay(interpreter);
    if (puts_aside)
        follow_aside(interpreter, local, next);
    weight_ring_advance(&local->ring, next);
    local->contributed = local->contributed_by_all = 0;
}

static uint64_t added(const struct interpreter *interpreter, const struct stage_part *part)
{
    return part->room > 0 ? 0 : split_added(interpreter->needs.split, part->layer, part->end - part->first);
}

// Adds up the gradients of layers whose members own rows, over the members of this rank's group. Adjacent ones go
// together.
static void add_members(struct interpreter *interpreter, const struct local *local)
{
    const struct split_norms *split = interpreter->needs.split;
    const struct stage *stage = local->does;
    float *gradients = local->memory->gradients;
    FOR_LISTS (part, local)
        if (part->summed > 0)
            split->add(split->self, interpreter->needs.rank, interpreter->needs.member, interpreter->needs.queue,
                       stage_part_rows(part, gradients).sums, part->summed * part->columns);
    for (size_t i = 0; i < stage->part_count; i++) {
        const uint64_t first = stage->parts[i].first;
        uint64_t end = first + added(interpreter, &stage->parts[i]);
        for (; end > first && i + 1 < stage->part_count && end == stage->parts[i + 1].first; i++)
            end += added(interpreter, &stage->parts[i + 1]);
        if (end > first)
            split->add(split->self, interpreter->needs.rank, interpreter->needs.member, interpreter->needs.queue,
                       gradients + first, end - first);
    }
}

static bool begin_step(struct interpreter *interpreter, struct action action, uint32_t *next, struct error *error)
{
    rank_status_act(interpreter->needs.status, interpreter->needs.rank, action);
    return weight_ring_next(&flights_local(&interpreter->flights, action)->ring, next, error)
        || at_action(interpreter, action, error);
}

void warm_up_update(struct interpreter *interpreter, struct local *local)
{
    float *gradients = local->memory->gradients;
    const uint64_t count = dense_gradients(local);
    if (count > 0) {
        kernel_add_floats(interpreter->needs.queue, gradients, gradients, gradients, count);
        kernel_scale(interpreter->needs.queue, gradients, gradients, 1, count);
    }
    if (interpreter->clipping.measures) {
        clipping_begin(&interpreter->clipping, interpreter->needs.queue);
        if (!local_shares_gradients(local))
            clipping_measure(&interpreter->clipping, interpreter->needs.queue, local->does, gradients);
        for (size_t i = 0; local_shares_gradients(local) && i < local->does->part_count; i++)
            clipping_measure_part(&interpreter->clipping, interpreter->needs.queue, &local->does->parts[i],
                                  local->memory->window_gradients);
    }
    optimize(interpreter, local, local->ring.newest);
}

bool is_tied(const struct interpreter *interpreter, uint32_t stage)
{
    return interpreter->needs.ties && ties_have(interpreter->needs.ties, stage);
}

// Gathers the other replicas' updated shares of the weights.
static bool gather_weights(struct interpreter *interpreter, const struct local *local, struct action action,
                           struct error *error)
{
    const uint32_t number_bytes = (uint32_t)precision_bytes(device_precision(queue_device(interpreter->needs.queue)));
    const struct reduction reduction = {
        .kind = REDUCTION_GATHER,
        .group = action.stage,
        .numbers = row_at(&local->memory->weights, local->ring.newest),
        .number_bytes = number_bytes,
        .count = local->memory->all_weights / number_bytes,
        .edges = local->own.edges,
    };
    return local->own.copies == 1 || local_shares_weights(local)
        || gather_for_update(interpreter, &reduction, action, error);
}

static bool update_all(struct interpreter *interpreter, struct local *local, struct action action, uint32_t next,
                       const struct recording *recording, struct error *error)
{
    update(interpreter, local, next);
    return gather_weights(interpreter, local, action, error)
        && fold_statistics(interpreter, local, error) && end_update(interpreter, recording, error);
}

// If replicas share states and the schedule flushes, their STEPs run after the list, where they wait for each other.
// So two ranks cannot wait for each other in two stages that they take in different orders.
bool do_step(struct interpreter *interpreter, struct action action, struct error *error)
{
    struct local *local = flights_local(&interpreter->flights, action);
    const bool shares = local->own.copies > 1 && interpreter->needs.schedule->weights == WEIGHTS_FLUSH;
    uint32_t next;
    if (shares || is_tied(interpreter, action.stage)) {
        local->is_step_due = true;
        return true;
    }
    if (!begin_step(interpreter, action, &next, error) || !stay_near(interpreter, error))
        return false;
    const struct recording recording = begin_span(interpreter, &action, 1);
    event_record(recording.events.begin, interpreter->needs.queue);
    add_members(interpreter, local);
    return update_all(interpreter, local, action, next, &recording, error);
}

// --- ties --------------------------------------------------------------------------

// The stages on this rank whose STEP is due, in order: the next one after `last`, or NULL.
static struct local *next_due(const struct interpreter *interpreter, const struct tie *tie, const struct local *last)
{
    struct local *locals = interpreter->flights.locals;
    for (size_t l = last ? (size_t)(last - locals) + 1 : 0; l < interpreter->flights.local_count; l++)
        if (locals[l].is_step_due && (!tie || tie_has(tie, locals[l].stage)))
            return &locals[l];
    return NULL;
}

static float *tied_gradients(const struct tie *tie, const struct local *local)
{
    return (float *)local->memory->gradients + tie_range(tie, local->does).first;
}

static uint64_t tied_count(const struct tie *tie, const struct local *local)
{
    const struct shared range = tie_range(tie, local->does);
    return range.end - range.first;
}

// For a tie whose stages are all on this rank.
static void add_here(struct interpreter *interpreter, const struct tie *tie)
{
    const struct local *first = next_due(interpreter, tie, NULL), *other = first;
    struct queue *queue = interpreter->needs.queue;
    const uint64_t count = tied_count(tie, first);
    float *sum = tied_gradients(tie, first);
    while ((other = next_due(interpreter, tie, other)))
        kernel_add_floats(queue, sum, sum, tied_gradients(tie, other), count);
    for (other = first; (other = next_due(interpreter, tie, other));)
        queue_copy(queue, tied_gradients(tie, other), sum, count * sizeof *sum);
}

static bool add_tied(struct interpreter *interpreter, uint32_t number, struct error *error)
{
    const struct tie *tie = &interpreter->needs.ties->at[number];
    const struct local *local = next_due(interpreter, tie, NULL);
    const struct reduction reduction = {
        .group = interpreter->needs.schedule->stages + number,
        .numbers = tied_gradients(tie, local),
        .number_bytes = sizeof(float),
        .count = tied_count(tie, local),
    };
    return add_for_update(interpreter, &reduction, local_step(local), interpreter->latest, error);
}

// Layer by layer, if each copy has a share of their gradients.
static bool measure_shared(struct interpreter *interpreter, struct local *local, struct error *error)
{
    for (size_t i = 0; i < local->does->part_count; i++) {
        const struct stage_part *part = &local->does->parts[i];
        if (part->end > part->first
            && !gather_gradients(interpreter, local, part->first, part->end - part->first, error))
            return false;
        if (local->copy == 0)
            clipping_measure_part(&interpreter->clipping, interpreter->needs.queue, part,
                                  local->memory->window_gradients);
    }
    return true;
}

// Divides the gradients by the loss scale, before anything else reads them.
static void unscale(struct interpreter *interpreter, const struct local *local)
{
    const uint64_t count = dense_gradients(local);
    const float scale = interpreter->scaling.scale;
    float *gradients = local->memory->gradients;
    if (scale > 0 && count > 0)
        kernel_scale(interpreter->needs.queue, gradients, gradients, 1 / scale, count);
    FOR_LISTS (part, local) {
        const struct row_list list = stage_part_rows(part, gradients);
        if (scale > 0)
            kernel_scale(interpreter->needs.queue, list.sums, list.sums, 1 / scale, list.room * list.columns);
    }
}

// Decides whether all stages step. That is known when all norms are there, so the host waits for them. (If gradients
// are only clipped it need not wait: the device reads the norms itself.)
static bool judge(struct interpreter *interpreter, struct error *error)
{
    const bool halts = interpreter->needs.optimizer->halts;
    if (interpreter->scaling.scale <= 0 && !halts)
        return true;
    clipping_download(&interpreter->clipping, interpreter->needs.queue);
    if (!await_device(interpreter, error))
        return false;
    if (halts) {
        interpreter->skips = !isfinite(clipping_norm(&interpreter->clipping));
        interpreter->scaling.skipped += interpreter->skips;
    } else {
        interpreter->skips = !loss_scaling_judge(&interpreter->scaling, clipping_norm(&interpreter->clipping));
    }
    return true;
}

// Adds up the norms of this rank's layers, and then those of all ranks.
static bool add_norms(struct interpreter *interpreter, uint32_t number, struct error *error)
{
    const struct clipping *clipping = &interpreter->clipping;
    struct local *local = NULL;
    clipping_begin(clipping, interpreter->needs.queue);
    while ((local = next_due(interpreter, NULL, local))) {
        unscale(interpreter, local);
        if (local_shares_gradients(local) && !measure_shared(interpreter, local, error))
            return false;
        if (local->copy == 0 && !local_shares_gradients(local))
            clipping_measure(clipping, interpreter->needs.queue, local->does, local->memory->gradients);
    }
    const struct reduction reduction = clipping_sum(clipping, interpreter->needs.schedule->stages + number);
    if (interpreter->needs.ties->at[number].is_local)
        return true;
    event_record(clipping->measured, interpreter->needs.queue);
    return add_for_update(interpreter, &reduction, local_step(next_due(interpreter, NULL, NULL)),
                          clipping->measured, error);
}

// Sums over members. They count as the first STEP's, as the ties do.
static void add_all_members(struct interpreter *interpreter, struct recording *recording)
{
    const struct action action = local_step(next_due(interpreter, NULL, NULL));
    struct local *local = NULL;
    if (!interpreter->needs.split || !interpreter->needs.split->adds_up)
        return;
    *recording = begin_span(interpreter, &action, 1);
    event_record(recording->events.begin, interpreter->needs.queue);
    while ((local = next_due(interpreter, NULL, local)))
        add_members(interpreter, local);
}

// The time of the ties counts as the first STEP's, from when all ranks had come to the first tie.
static bool add_all_tied(struct interpreter *interpreter, struct recording *recording, struct error *error)
{
    const struct ties *ties = interpreter->needs.ties;
    const struct action action = local_step(next_due(interpreter, NULL, NULL));
    const struct ticket *ticket = &interpreter->reduction;
    for (uint32_t t = 0; ties && t < ties->count; t++) {
        const bool takes_part = next_due(interpreter, &ties->at[t], NULL), is_alone = ties->at[t].is_local;
        const bool are_norms = ties->have_norms && t + 1 == ties->count;
        if (are_norms && !add_norms(interpreter, t, error))
            return false;
        if (takes_part && !is_alone && !are_norms && !add_tied(interpreter, t, error))
            return false;
        if (takes_part && !recording->spans) {
            *recording = begin_span(interpreter, &action, 1);
            if (!is_alone) {
                recording->spans->start_ns = ticket->gathered_ns;
                queue_behind(interpreter, ticket->gathered);
            }
            event_record(recording->events.begin, interpreter->needs.queue);
        }
        if (takes_part && is_alone && !are_norms)
            add_here(interpreter, &ties->at[t]);
        else if (takes_part && !is_alone)
            queue_behind(interpreter, ticket->event);
    }
    if (ties && ties->have_norms)
        clipping_add_members(&interpreter->clipping, interpreter->needs.queue, interpreter->needs.rank);
    return true;
}

bool do_due_steps(struct interpreter *interpreter, struct error *error)
{
    struct recording recording = { 0 };
    struct local *local = next_due(interpreter, NULL, NULL);
    if (!local)
        return true;
    add_all_members(interpreter, &recording);
    bool good = add_all_tied(interpreter, &recording, error) && judge(interpreter, error);
    for (; good && local; local = next_due(interpreter, NULL, local)) {
        const struct action action = local_step(local);
        uint32_t next;
        if (!begin_step(interpreter, action, &next, error))
            return false;
        if (!recording.spans) {
            recording = begin_span(interpreter, &action, 1);
            event_record(recording.events.begin, interpreter->needs.queue);
        }
        good = update_all(interpreter, local, action, next, &recording, error);
        recording = (struct recording){ 0 };
    }
    if (interpreter->clipping.measures)
        clipping_download(&interpreter->clipping, interpreter->needs.queue);
    return good;
}

// No update here waits for a check over all stages, so none is ever undone.
bool do_validate(struct interpreter *interpreter, struct action action, struct error *error)
{
    const struct span_events events = begin_span(interpreter, &action, 1).events;
    event_record(events.begin, interpreter->needs.queue);
    end_span(interpreter, events);
    return is_well(interpreter, action, error);
}
