// Gathers and scatters the replicas' shares of a stage's weights and gradients (ZeRO 2 and 3), layer by layer while
// an action is computed, in the collectives of partitioner/plan/collectives.h.
#include "runtime/ranks/interpreting.h"

static const struct collective *collective_of(const struct exchange *exchange)
{
    return &exchange->in->needs.collectives->stages[exchange->action.stage].at[exchange->number];
}

// The weight version that all copies at the collective use.
static uint64_t version_met(const struct exchange *exchange)
{
    return weight_plan_version(exchange->in->needs.weight_plan, exchange->in->passes, collective_of(exchange)->action);
}

// Begins after everything the rank's queue was given. `queue`, which is that or the second one, continues after this.
static bool exchange_of(const struct exchange *exchange, struct queue *queue, const struct reduction *reduction,
                        struct error *error)
{
    struct interpreter *interpreter = exchange->in;
    const struct message_header header = { interpreter->step, exchange->number, 0, version_met(exchange) };
    event_record(interpreter->updated, interpreter->needs.queue);
    const bool good = add_with_others(interpreter, reduction, header, exchange->action, interpreter->updated, error);
    if (good && interpreter->reduction.event)
        queue_wait_event(queue, interpreter->reduction.event);
    rank_status_act(interpreter->needs.status, interpreter->needs.rank, exchange->action);
    return good;
}

static struct reduction reduction_of(const struct interpreter *interpreter, const struct local *local, uint64_t first,
                                     uint64_t count)
{
    const uint64_t number_bytes = precision_bytes(device_precision(queue_device(interpreter->needs.queue)));
    return (struct reduction){ .group = local->stage, .first = first,
                               .count = count, .whole = local->memory->all_weights / number_bytes,
                               .edges = local->own.edges };
}

static bool gather(const struct stage_exchange *self, struct queue *queue, void *room, uint64_t first, uint64_t count,
                   struct error *error)
{
    const struct exchange *exchange = (const struct exchange *)self;
    const struct interpreter *interpreter = exchange->in;
    const struct local *local = flights_local(&interpreter->flights, exchange->action);
    struct reduction reduction = reduction_of(interpreter, local, first, count);
    reduction.kind = REDUCTION_GATHER;
    reduction.number_bytes = (uint32_t)precision_bytes(device_precision(queue_device(interpreter->needs.queue)));
    reduction.numbers = room;
    reduction.own = row_at(&local->memory->weights, weight_ring_find(&local->ring, version_met(exchange)));
    reduction.brings = collective_of(exchange)->present;
    if (!reduction.own)
        return error_set_kind(error, ERROR_MACHINE,
                              "weight version %llu is asked for by other copies, and this rank does"
                              " not hold its share of it",
                              (unsigned long long)version_met(exchange));
    return exchange_of(exchange, queue, &reduction, error);
}

static bool add(const struct stage_exchange *self, struct queue *queue, const float *gradients, uint64_t first,
                uint64_t count, struct error *error)
{
    const struct exchange *exchange = (const struct exchange *)self;
    const struct local *local = flights_local(&exchange->in->flights, exchange->action);
    struct reduction reduction = reduction_of(exchange->in, local, first, count);
    reduction.kind = REDUCTION_ONTO;
    reduction.number_bytes = sizeof(float);
    reduction.numbers = (void *)(uintptr_t)gradients;
    reduction.own = local->memory->gradients;
    reduction.brings = collective_of(exchange)->present;
    return exchange_of(exchange, queue, &reduction, error);
}

const struct stage_exchange *open_exchange(struct interpreter *interpreter, struct action action, size_t position,
                                           struct exchange *exchange)
{
    const uint32_t number = interpreter->needs.collectives->ranks[interpreter->needs.rank].of[position];
    *exchange = (struct exchange){ { gather, add }, interpreter, action, number };
    return number == NO_COLLECTIVE ? NULL : &exchange->functions;
}

void close_exchange(const struct exchange *exchange)
{
    const struct collective *collective = collective_of(exchange);
    if (action_adds_gradient(exchange->action))
        flights_local(&exchange->in->flights, exchange->action)->contributed_by_all += collective->present_count;
}

// Runs the stage's list of exchanges, and nothing else of the stage.
static bool attend(struct interpreter *interpreter, const struct absence *absence, struct error *error)
{
    const struct collective *collective =
        &interpreter->needs.collectives->stages[absence->stage].at[absence->collective];
    struct local *local = flights_local(&interpreter->flights, collective->action);
    struct weight_ring *ring = &local->ring;
    const struct slab_row *recomputed = &local->memory->rows[SLAB_RECOMPUTED];
    const struct exchange exchange = { { gather, add }, interpreter, collective->action, absence->collective };
    const struct stage_pass pass = {
        .base = {
            .queue = interpreter->needs.queue,
            .step = interpreter->step,
            .micro_batch = collective->action.micro_batch,
            .copy = local->copy,
        },
        .recomputed = recomputed->count > 0 ? row_at(recomputed, 0) : NULL,
        .workspace_bytes = local->memory->workspace,
        .was_recomputed = collective->was_recomputed,
        .exchange = &exchange.functions,
        .is_absent = true,
    };
    if (!function_of(local->does->functions, collective->action.kind)(local->does->self, &pass, error))
        return at_action(interpreter, collective->action, error);
    close_exchange(&exchange);
    if (local_shares_weights(local) && action_adds_gradient(collective->action))
        weight_ring_drop(ring, weight_ring_find(ring, version_met(&exchange)));
    return true;
}

bool attend_absent(struct interpreter *interpreter, size_t position, struct error *error)
{
    const struct rank_collectives *collectives = &interpreter->needs.collectives->ranks[interpreter->needs.rank];
    for (; interpreter->attended < collectives->absence_count
           && collectives->absences[interpreter->attended].position <= position;
         interpreter->attended++)
        if (!attend(interpreter, &collectives->absences[interpreter->attended], error))
            return false;
    return true;
}

bool gather_gradients(struct interpreter *interpreter, struct local *local, uint64_t first, uint64_t count,
                      struct error *error)
{
    struct reduction reduction = reduction_of(interpreter, local, first, count);
    reduction.kind = REDUCTION_GATHER;
    reduction.number_bytes = sizeof(float);
    reduction.numbers = local->memory->window_gradients;
    reduction.own = local->memory->gradients;
    return gather_for_update(interpreter, &reduction, local_step(local), error);
}
