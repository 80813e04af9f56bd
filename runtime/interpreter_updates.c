#include "device/kernels.h"
#include "runtime/interpreting.h"

// What a STEP or REDUCE takes besides, and when all of it is done.
static bool finish(struct interpreter *in, const struct recording *recording, struct error *error)
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
    const uint32_t brought = local->brought / plan->schedule->splits;
    const uint64_t count = local->memory->bytes.gradients / sizeof(float);
    if (plan->schedule->weights != WEIGHTS_FLUSH && placement_copies(plan->placement, stage) == 1 && brought > 0
        && brought != samples && count > 0)
        kernel_scale(in->needs.queue, local->memory->gradients, local->memory->gradients,
                     (float)samples / (float)brought, count);
}

// Reads the newest version and writes the next one into a slot that nobody holds.
static void update(struct interpreter *in, struct local *local, uint32_t next)
{
    const struct slab_stage *memory = local->memory;
    const enum precision precision = device_precision(queue_device(in->needs.queue));
    const struct optimizer_buffers buffers = {
        .next = row_at(&memory->weights, next),
        .weights = row_at(&memory->weights, local->ring.newest),
        .gradients = memory->gradients,
        .state = memory->optimizer,
        .count = memory->bytes.weights / precision_bytes(precision),
        .exempt = local->does->exempt,
        .exempt_count = local->does->exempt_count,
    };
    average(in, local);
    if (buffers.count > 0)
        optimizer_update(in->needs.optimizer, weight_ring_version(&local->ring, local->ring.newest) + 1,
                         in->needs.queue, &buffers);
    if (memory->bytes.gradients > 0)
        queue_zero(in->needs.queue, memory->gradients, memory->bytes.gradients);
    weight_ring_advance(&local->ring, next);
    local->brought = 0;
}

bool do_step(struct interpreter *in, struct action action, struct error *error)
{
    struct local *local = flights_local(&in->flights, action);
    uint32_t next;
    whereabouts_act(in->needs.whereabouts, in->needs.rank, action);
    if (!weight_ring_next(&local->ring, &next, error))
        return at_action(in, action, error);
    const struct recording recording = begin_span(in, &action, 1);
    event_record(recording.events.begin, in->needs.queue);
    update(in, local, next);
    return finish(in, &recording, error);
}

// Adds up the gradients of all copies. With a flush each micro-batch's share of the
// mean is in its loss already; otherwise every copy brings the gradient of a
// micro-batch, and the update takes the mean of those there are.
bool do_reduce(struct interpreter *in, struct action action, struct error *error)
{
    const struct interpreter_needs *needs = &in->needs;
    const struct local *local = flights_local(&in->flights, action);
    const uint32_t copies = placement_copies(needs->weight_plan->placement, action.stage);
    const struct reduction reduction = {
        .stage = action.stage,
        .gradients = local->memory->gradients,
        .count = local->memory->bytes.gradients / sizeof(float),
        .brought = local->brought / needs->schedule->splits,
        .samples = needs->schedule->weights != WEIGHTS_FLUSH ? needs->weight_plan->samples : 0,
    };
    const uint64_t newest = weight_ring_version(&local->ring, local->ring.newest);
    struct ticket *ticket = &in->reduction;
    if (copies > 1
        && (!needs->transport->functions->post_reduction(needs->transport, &reduction, header_of(in, action, newest),
                                                         in->latest, ticket, error)
            || !await(in, ticket, action, error)))
        return false;
    const struct recording recording = begin_span(in, &action, 1);
    if (copies > 1) {
        recording.spans->start_ns = ticket->gathered_ns;
        queue_behind(in, ticket->gathered);
    }
    event_record(recording.events.begin, needs->queue);
    if (copies > 1)
        queue_behind(in, ticket->event);
    return finish(in, &recording, error);
}

// No update here waits for a judgement over all stages, hence none is ever undone.
bool do_validate(struct interpreter *in, struct action action, struct error *error)
{
    const struct span_events events = begin_span(in, &action, 1).events;
    event_record(events.begin, in->needs.queue);
    end_span(in, events);
    return is_well(in, action, error);
}
