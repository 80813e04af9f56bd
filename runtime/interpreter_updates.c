#include "common/clock.h"
#include "device/kernels.h"
#include "runtime/interpreting.h"

// What a STEP or REDUCE takes besides, and when it was.
static void finish(struct interpreter *in, struct action action, uint64_t start_ns)
{
    const struct stage *does = flights_local(&in->flights, action)->does;
    if (does->functions->linger)
        does->functions->linger(does->self, action.kind, start_ns);
    recorder_span(in->needs.recorder, (struct span){ in->needs.rank, action, start_ns, clock_now_ns(), 0 });
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
    const struct optimizer_buffers buffers = {
        .next = row_at(&memory->weights, next),
        .weights = row_at(&memory->weights, local->ring.newest),
        .gradients = memory->gradients,
        .state = memory->optimizer,
        .count = memory->bytes.weights / sizeof(float),
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
    uint64_t start_ns = clock_now_ns();
    if (copies > 1) {
        const uint64_t newest = weight_ring_version(&local->ring, local->ring.newest);
        struct ticket *ticket = &in->reduction;
        if (!needs->transport->functions->post_reduction(needs->transport, &reduction, header_of(in, action, newest),
                                                         NULL, ticket, error)
            || !await(in, ticket, action, error))
            return false;
        start_ns = ticket->gathered_ns;
    }
    finish(in, action, start_ns);
    return true;
}

// No update here waits for a judgement over all stages, hence none is ever undone.
bool do_validate(struct interpreter *in, struct action action, struct error *error)
{
    (void)error;
    const uint64_t now = clock_now_ns();
    recorder_span(in->needs.recorder, (struct span){ in->needs.rank, action, now, now, 0 });
    return true;
}
