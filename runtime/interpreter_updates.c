#include "device/kernels.h"
#include "runtime/interpreting.h"

bool end_update(struct interpreter *in, const struct recording *recording, struct error *error)
{
    const struct span *span = recording->spans;
    const struct stage *does = flights_local(&in->flights, span->action)->does;
    const struct span_start start = { recording->events.begin, span->start_ns };
    if (does->functions->linger)
        does->functions->linger(does->self, in->needs.queue, span->action.kind, start);
    end_span(in, recording->events);
    return is_well(in, span->action, error);
}

// Without a flush, the last update of a run may have fewer micro-batches than the
// losses are shares of. (Where there are copies, their REDUCE has seen to it.)
static void average(struct interpreter *in, struct local *local)
{
    const struct weight_plan *plan = in->needs.weight_plan;
    const uint32_t stage = (uint32_t)(local->does - in->needs.stages), samples = plan->samples;
    const bool is_sum = placement_copies(plan->placement, stage) == 1 || local_shares_gradients(local);
    const uint32_t all = local_shares_gradients(local) ? local->brought_by_all : local->brought;
    const uint32_t brought = all / plan->schedule->splits;
    const uint64_t count = local->memory->bytes.gradients / sizeof(float);
    if (plan->schedule->weights != WEIGHTS_FLUSH && is_sum && brought > 0 && brought != samples && count > 0)
        kernel_scale(in->needs.queue, local->memory->gradients, local->memory->gradients,
                     (float)samples / (float)brought, count);
}

static void forget_gradients(struct interpreter *in, const struct local *local)
{
    if (local->memory->bytes.gradients > 0)
        queue_zero(in->needs.queue, local->memory->gradients, local->memory->bytes.gradients);
}

// Which update of the stage's weights is next, from 1.
static uint64_t next_update(const struct interpreter *in, const struct local *local)
{
    const uint64_t *before = in->needs.updates_before;
    return weight_ring_version(&local->ring, local->ring.newest)
         + (before ? before[local->does - in->needs.stages] : 0) - in->scaling.skipped + 1;
}

bool sends_signs(const struct interpreter *in, const struct local *local)
{
    const uint32_t stage = (uint32_t)(local->does - in->needs.stages);
    return placement_copies(in->needs.weight_plan->placement, stage) > 1
        && optimizer_is_frozen(in->needs.optimizer, next_update(in, local));
}

// What of them this rank updates.
static struct optimizer_buffers buffers_of(const struct interpreter *in, const struct local *local, uint32_t next)
{
    const struct slab_stage *memory = local->memory;
    const enum precision precision = device_precision(queue_device(in->needs.queue));
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
        .has_momentum = sends_signs(in, local),
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

// Reads the newest version and writes the next one into a slot.
static void optimize(struct interpreter *in, struct local *local, uint32_t next)
{
    const struct slab_stage *memory = local->memory;
    const struct optimizer_buffers buffers = buffers_of(in, local, next);
    const uint64_t number = next_update(in, local);
    if (buffers.count > 0 && in->clipping.measures)
        clipping_clip(&in->clipping, in->needs.queue, (float *)(uintptr_t)buffers.gradients, buffers.count);
    if (buffers.count > 0 && is_updated_on_host(memory))
        host_updates_make(&in->host_updates, in->needs.queue, in->needs.optimizer, number, memory, &buffers);
    else if (buffers.count > 0)
        optimizer_update(in->needs.optimizer, number, in->needs.queue, &buffers);
    forget_gradients(in, local);
}

static void update(struct interpreter *in, struct local *local, uint32_t next)
{
    const struct slab_row *weights = &local->memory->weights;
    const bool is_frozen = optimizer_is_frozen(in->needs.optimizer, next_update(in, local));
    const struct replay_key key = {
        .what = (uint64_t)ACTION_STEP << 56 | (uint64_t)is_frozen << 32 | (uint64_t)(local->does - in->needs.stages),
        .places = { row_at(weights, local->ring.newest), row_at(weights, next) },
    };
    begin_replay(in, &key);
    average(in, local);
    if (in->skips)
        forget_gradients(in, local);
    else
        optimize(in, local, next);
    end_replay(in);
    weight_ring_advance(&local->ring, next);
    local->brought = local->brought_by_all = 0;
}

static bool begin_step(struct interpreter *in, struct action action, uint32_t *next, struct error *error)
{
    whereabouts_act(in->needs.whereabouts, in->needs.rank, action);
    return weight_ring_next(&flights_local(&in->flights, action)->ring, next, error) || at_action(in, action, error);
}

void warm_up_update(struct interpreter *in, struct local *local)
{
    float *gradients = local->memory->gradients;
    const uint64_t count = local->memory->bytes.gradients / sizeof *gradients;
    if (count > 0) {
        kernel_add_floats(in->needs.queue, gradients, gradients, gradients, count);
        kernel_scale(in->needs.queue, gradients, gradients, 1, count);
    }
    if (in->clipping.measures) {
        clipping_begin(&in->clipping, in->needs.queue);
        for (size_t i = 0; i < local->does->part_count; i++) {
            const struct stage_part *part = &local->does->parts[i];
            clipping_measure_part(&in->clipping, in->needs.queue, part,
                                  local_shares_gradients(local) ? local->memory->window_gradients
                                                                : gradients + part->first);
        }
    }
    optimize(in, local, local->ring.newest);
}

bool add_with_others(struct interpreter *in, const struct reduction *reduction, struct message_header header,
                     struct action action, struct event *after, struct error *error)
{
    struct transport *transport = in->needs.transport;
    return transport->functions->post_reduction(transport, reduction, header, after, &in->reduction, error)
        && await(in, &in->reduction, action, error);
}

bool add_for_update(struct interpreter *in, const struct reduction *reduction, struct action action,
                           struct event *after, struct error *error)
{
    const struct weight_ring *ring = &flights_local(&in->flights, action)->ring;
    const struct message_header header = header_of(in, action, weight_ring_version(ring, ring->newest));
    return add_with_others(in, reduction, header, action, after, error);
}

bool is_tied(const struct interpreter *in, uint32_t stage)
{
    return in->needs.ties && ties_have(in->needs.ties, stage);
}

// To the share of the weights that was updated here, those of the other replicas.
static bool gather_weights(struct interpreter *in, const struct local *local, struct action action,
                           struct error *error)
{
    const uint32_t number_bytes = (uint32_t)precision_bytes(device_precision(queue_device(in->needs.queue)));
    const struct reduction reduction = {
        .kind = REDUCTION_GATHER,
        .group = action.stage,
        .numbers = row_at(&local->memory->weights, local->ring.newest),
        .number_bytes = number_bytes,
        .count = local->memory->all_weights / number_bytes,
        .edges = local->own.edges,
    };
    if (local->own.copies == 1 || local_shares_weights(local))
        return true;
    event_record(in->updated, in->needs.queue);
    if (!add_for_update(in, &reduction, action, in->updated, error))
        return false;
    queue_behind(in, in->reduction.event);
    return true;
}

static bool update_all(struct interpreter *in, struct local *local, struct action action, uint32_t next,
                       const struct recording *recording, struct error *error)
{
    update(in, local, next);
    return gather_weights(in, local, action, error) && end_update(in, recording, error);
}

// Where replicas share states and the list ends with this, they wait for each other behind it: so no two ranks can, of
// two stages in different orders.
bool do_step(struct interpreter *in, struct action action, struct error *error)
{
    struct local *local = flights_local(&in->flights, action);
    const bool shares = local->own.copies > 1 && in->needs.schedule->weights == WEIGHTS_FLUSH;
    uint32_t next;
    if (shares || is_tied(in, action.stage)) {
        local->is_step_due = true;
        return true;
    }
    if (!begin_step(in, action, &next, error) || !stay_near(in, error))
        return false;
    const struct recording recording = begin_span(in, &action, 1);
    event_record(recording.events.begin, in->needs.queue);
    return update_all(in, local, action, next, &recording, error);
}

// --- ties --------------------------------------------------------------------------

static struct action step_of(const struct interpreter *in, const struct local *local)
{
    return (struct action){ .stage = (uint16_t)(local->does - in->needs.stages), .kind = ACTION_STEP,
                            .micro_batch = NO_MICRO_BATCH };
}

// The stages on this rank whose STEP is due, in order: the one behind `last`, or NULL.
static struct local *next_due(const struct interpreter *in, const struct tie *tie, const struct local *last)
{
    struct local *locals = in->flights.locals;
    for (size_t l = last ? (size_t)(last - locals) + 1 : 0; l < in->flights.local_count; l++)
        if (locals[l].is_step_due && (!tie || tie_has(tie, step_of(in, &locals[l]).stage)))
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

// All stages of the tie are on this rank.
static void add_here(struct interpreter *in, const struct tie *tie)
{
    const struct local *first = next_due(in, tie, NULL), *other = first;
    struct queue *queue = in->needs.queue;
    const uint64_t count = tied_count(tie, first);
    float *sum = tied_gradients(tie, first);
    while ((other = next_due(in, tie, other)))
        kernel_add_floats(queue, sum, sum, tied_gradients(tie, other), count);
    for (other = first; (other = next_due(in, tie, other));)
        queue_copy(queue, tied_gradients(tie, other), sum, count * sizeof *sum);
}

static bool add_tied(struct interpreter *in, uint32_t number, struct error *error)
{
    const struct tie *tie = &in->needs.ties->at[number];
    const struct local *local = next_due(in, tie, NULL);
    const struct reduction reduction = {
        .group = in->needs.schedule->stages + number,
        .numbers = tied_gradients(tie, local),
        .number_bytes = sizeof(float),
        .count = tied_count(tie, local),
    };
    return add_for_update(in, &reduction, step_of(in, local), in->latest, error);
}

// Layer by layer, where each copy has a share of their gradients.
static bool measure_shared(struct interpreter *in, struct local *local, struct error *error)
{
    for (size_t i = 0; i < local->does->part_count; i++) {
        const struct stage_part *part = &local->does->parts[i];
        if (part->end > part->first && !gather_gradients(in, local, part->first, part->end - part->first, error))
            return false;
        if (local->copy == 0)
            clipping_measure_part(&in->clipping, in->needs.queue, part, local->memory->window_gradients);
    }
    return true;
}

// Back to what they are of a loss that is not scaled, before anyone looks at them.
static void unscale(struct interpreter *in, const struct local *local)
{
    const uint64_t count = local->memory->bytes.gradients / sizeof(float);
    float *gradients = local->memory->gradients;
    if (in->scaling.scale > 0 && count > 0)
        kernel_scale(in->needs.queue, gradients, gradients, 1 / in->scaling.scale, count);
}

// Whether all stages step, which is known when the norms of all are there: the host waits for them. (Where gradients
// are clipped only, it need not: the device reads them there.)
static bool judge(struct interpreter *in, struct error *error)
{
    if (in->scaling.scale <= 0)
        return true;
    clipping_download(&in->clipping, in->needs.queue);
    if (!await_device(in, error))
        return false;
    in->skips = !loss_scaling_judge(&in->scaling, clipping_norm(&in->clipping));
    return true;
}

// The norms of this rank's layers, and with them those of all.
static bool add_norms(struct interpreter *in, uint32_t number, struct error *error)
{
    const struct clipping *clipping = &in->clipping;
    struct local *local = NULL;
    clipping_begin(clipping, in->needs.queue);
    while ((local = next_due(in, NULL, local))) {
        unscale(in, local);
        if (local_shares_gradients(local) && !measure_shared(in, local, error))
            return false;
        if (local->copy == 0 && !local_shares_gradients(local))
            clipping_measure(clipping, in->needs.queue, local->does, local->memory->gradients);
    }
    const struct reduction reduction = clipping_sum(clipping, in->needs.schedule->stages + number);
    if (in->needs.ties->at[number].is_local)
        return true;
    event_record(clipping->measured, in->needs.queue);
    return add_for_update(in, &reduction, step_of(in, next_due(in, NULL, NULL)), clipping->measured, error);
}

// What the ties take is the first STEP's, from when all had come to the first of them.
static bool add_all_tied(struct interpreter *in, struct recording *recording, struct error *error)
{
    const struct ties *ties = in->needs.ties;
    const struct action action = step_of(in, next_due(in, NULL, NULL));
    const struct ticket *ticket = &in->reduction;
    for (uint32_t t = 0; ties && t < ties->count; t++) {
        const bool takes_part = next_due(in, &ties->at[t], NULL), is_alone = ties->at[t].is_local;
        const bool are_norms = ties->have_norms && t + 1 == ties->count;
        if (are_norms && !add_norms(in, t, error))
            return false;
        if (takes_part && !is_alone && !are_norms && !add_tied(in, t, error))
            return false;
        if (takes_part && !recording->spans) {
            *recording = begin_span(in, &action, 1);
            if (!is_alone) {
                recording->spans->start_ns = ticket->gathered_ns;
                queue_behind(in, ticket->gathered);
            }
            event_record(recording->events.begin, in->needs.queue);
        }
        if (takes_part && is_alone && !are_norms)
            add_here(in, &ties->at[t]);
        else if (takes_part && !is_alone)
            queue_behind(in, ticket->event);
    }
    if (ties && ties->have_norms)
        clipping_add_members(&in->clipping, in->needs.queue, in->needs.rank);
    return true;
}

bool do_due_steps(struct interpreter *in, struct error *error)
{
    struct recording recording = { 0 };
    struct local *local = next_due(in, NULL, NULL);
    if (!local)
        return true;
    bool good = add_all_tied(in, &recording, error) && judge(in, error);
    for (; good && local; local = next_due(in, NULL, local)) {
        const struct action action = step_of(in, local);
        uint32_t next;
        if (!begin_step(in, action, &next, error))
            return false;
        if (!recording.spans) {
            recording = begin_span(in, &action, 1);
            event_record(recording.events.begin, in->needs.queue);
        }
        good = update_all(in, local, action, next, &recording, error);
        recording = (struct recording){ 0 };
    }
    if (in->clipping.measures)
        clipping_download(&in->clipping, in->needs.queue);
    return good;
}

// No update here waits for a judgement over all stages, hence none is ever undone.
bool do_validate(struct interpreter *in, struct action action, struct error *error)
{
    const struct span_events events = begin_span(in, &action, 1).events;
    event_record(events.begin, in->needs.queue);
    end_span(in, events);
    return is_well(in, action, error);
}
