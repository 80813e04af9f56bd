// REDUCE: the copies of a stage bring their gradients together, or signs of what these make of its momentum.
#include "device/kernels.h"
#include "runtime/interpreting.h"
#include "runtime/signs.h"

static uint32_t copies_of(const struct interpreter *in, struct action action)
{
    return placement_copies(in->needs.weight_plan->placement, action.stage);
}

static struct signs signs_of(const struct interpreter *in, const struct local *local, struct action action)
{
    float *state = local->memory->optimizer;
    const uint64_t count = local->memory->bytes.gradients / sizeof *state;
    return (struct signs){ .momentum = state, .seconds = state + count, .errors = state + 2 * count,
                           .gradients = local->memory->gradients, .count = count, .copy = local->copy,
                           .copies = copies_of(in, action), .beta1 = in->needs.optimizer->beta1 };
}

// With a flush each micro-batch's share of the mean is in its loss already; otherwise every copy brings the gradient of
// a micro-batch, and the update takes the mean of those there are. Who updates a share needs no more than that of the
// sums, unless they go into norms of whole layers, or into those of other stages.
static struct reduction reduction_of(const struct interpreter *in, const struct local *local, struct action action)
{
    const struct interpreter_needs *needs = &in->needs;
    return (struct reduction){
        .kind = local->own.copies > 1 && !is_tied(in, action.stage) ? REDUCTION_SHARES : REDUCTION_WHOLE,
        .group = action.stage,
        .numbers = local->memory->gradients,
        .number_bytes = sizeof(float),
        .count = local->memory->bytes.gradients / sizeof(float),
        .edges = local->own.edges,
        .brought = local->brought / needs->schedule->splits,
        .samples = needs->schedule->weights != WEIGHTS_FLUSH ? needs->weight_plan->samples : 0,
    };
}

// From when all had come. Shares of gradients are sums already, and a copy alone has all of them.
bool do_reduce(struct interpreter *in, struct action action, struct error *error)
{
    const struct local *local = flights_local(&in->flights, action);
    const bool adds = copies_of(in, action) > 1 && !local_shares_gradients(local);
    const bool are_signs = adds && local->memory->bytes.gradients > 0 && sends_signs(in, local);
    const struct signs signs = are_signs ? signs_of(in, local, action) : (struct signs){ 0 };
    const struct reduction reduction = are_signs ? signs_begin(&signs, in->needs.queue, action.stage)
                                                 : reduction_of(in, local, action);
    if (are_signs)
        event_record(in->updated, in->needs.queue);
    if (adds && !add_for_update(in, &reduction, action, are_signs ? in->updated : in->latest, error))
        return false;
    const struct recording recording = begin_span(in, &action, 1);
    if (adds) {
        recording.spans->start_ns = in->reduction.gathered_ns;
        queue_behind(in, in->reduction.gathered);
    }
    event_record(recording.events.begin, in->needs.queue);
    if (adds)
        queue_behind(in, in->reduction.event);
    if (are_signs)
        signs_end(&signs, in->needs.queue);
    return end_update(in, &recording, error);
}
