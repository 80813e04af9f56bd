// REDUCE: the copies of a stage add up their gradients, or exchange the signs of the momentum made from them.
#include "runtime/ranks/interpreting.h"
#include "runtime/transport/signs.h"

static struct signs signs_of(const struct interpreter *interpreter, const struct local *local)
{
    float *state = local->memory->optimizer;
    const uint64_t count = local->memory->bytes.gradients / sizeof *state;
    return (struct signs){ .momentum = state, .seconds = state + count, .errors = state + 2 * count,
                           .gradients = local->memory->gradients, .count = count, .copy = local->copy,
                           .copies = local->copies, .beta1 = interpreter->needs.optimizer->beta1 };
}

// With a flush, each loss is already divided by the number of micro-batches. Otherwise every copy brings the gradient
// of one micro-batch, and the update takes the mean of those present. A rank that updates a share needs only that
// share of the sums, unless the sums go into norms of whole layers, or into those of other stages.
static struct reduction reduction_of(const struct interpreter *interpreter, const struct local *local,
                                     struct action action)
{
    const struct interpreter_needs *needs = &interpreter->needs;
    return (struct reduction){
        .kind = local->own.copies > 1 && !is_tied(interpreter, action.stage) ? REDUCTION_SHARES : REDUCTION_WHOLE,
        .group = action.stage,
        .numbers = local->memory->gradients,
        .number_bytes = sizeof(float),
        .count = dense_gradients(local),
        .edges = local->own.edges,
        .contributed = local->contributed / needs->schedule->splits,
        .samples = needs->schedule->weights != WEIGHTS_FLUSH ? needs->weight_plan->samples : 0,
    };
}

// What copies bring for their state without a gradient.
static bool gather_statistics(struct interpreter *interpreter, const struct local *local, struct action action,
                              struct error *error)
{
    if (local->copies == 1 || !has_statistics(local))
        return true;
    uint64_t *edges = local->statistics_edges;  // other ranks may still read them when this one goes on
    lay_statistics_together(interpreter, local, edges);
    const struct reduction reduction = {
        .kind = REDUCTION_GATHER,
        .group = action.stage,
        .numbers = row_at(&local->memory->rows[SLAB_GATHERED_STATISTICS], 0),
        .number_bytes = sizeof(float),
        .count = edges[local->copies],
        .edges = edges,
    };
    return reduction.count == 0 || gather_for_update(interpreter, &reduction, action, error);
}

// The span starts when all copies have come. Shares of gradients are sums already, and a single copy has everything.
bool do_reduce(struct interpreter *interpreter, struct action action, struct error *error)
{
    const struct local *local = flights_local(&interpreter->flights, action);
    const bool adds = local->copies > 1 && !local_shares_gradients(local);
    const bool are_signs = adds && local->memory->bytes.gradients > 0 && sends_compressed(interpreter, local);
    const struct signs signs = are_signs ? signs_of(interpreter, local) : (struct signs){ 0 };
    const struct reduction reduction = are_signs ? signs_begin(&signs, interpreter->needs.queue, action.stage)
                                                 : reduction_of(interpreter, local, action);
    if (are_signs)
        event_record(interpreter->updated, interpreter->needs.queue);
    if (adds
        && !add_for_update(interpreter, &reduction, action, are_signs ? interpreter->updated : interpreter->latest,
                           error))
        return false;
    const struct recording recording = begin_span(interpreter, &action, 1);
    if (adds) {
        recording.spans->start_ns = interpreter->reduction.gathered_ns;
        queue_behind(interpreter, interpreter->reduction.gathered);
    }
    event_record(recording.events.begin, interpreter->needs.queue);
    if (adds)
        queue_behind(interpreter, interpreter->reduction.event);
    if (are_signs)
        signs_end(&signs, interpreter->needs.queue);
    return lists_add_up(interpreter, local, action, error) && gather_statistics(interpreter, local, action, error)
        && end_update(interpreter, &recording, error);
}
