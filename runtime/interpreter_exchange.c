// What replicas share of a stage's weights and gradients (ZeRO 2 and 3), brought together layer by layer while an action
// is computed, in the meetings of partitioner/plan/meetings.h.
#include "runtime/interpreting.h"

static const struct meeting *meeting_of(const struct exchange *exchange)
{
    return &exchange->in->needs.meetings->stages[exchange->action.stage].at[exchange->number];
}

// The version of the weights that all who are at the meeting meet.
static uint64_t version_met(const struct exchange *exchange)
{
    return weight_plan_version(exchange->in->needs.weight_plan, exchange->in->passes, meeting_of(exchange)->action);
}

// Behind all that the rank's queue was given; `queue`, which is that or the one beside it, goes on behind this.
static bool exchange_with_others(struct interpreter *in, struct queue *queue, const struct reduction *reduction,
                                 struct message_header header, struct action action, struct error *error)
{
    event_record(in->updated, in->needs.queue);
    if (!add_with_others(in, reduction, header, action, in->updated, error))
        return false;
    if (in->reduction.event)
        queue_wait_event(queue, in->reduction.event);
    return true;
}

static bool exchange_of(const struct exchange *exchange, struct queue *queue, const struct reduction *reduction,
                        struct error *error)
{
    struct interpreter *in = exchange->in;
    const struct message_header header = { in->step, exchange->number, 0, version_met(exchange) };
    const bool good = exchange_with_others(in, queue, reduction, header, exchange->action, error);
    whereabouts_act(in->needs.whereabouts, in->needs.rank, exchange->action);
    return good;
}

static struct reduction reduction_of(const struct interpreter *in, const struct local *local, uint64_t first,
                                     uint64_t count)
{
    const uint64_t number_bytes = precision_bytes(device_precision(queue_device(in->needs.queue)));
    return (struct reduction){ .group = (uint32_t)(local->does - in->needs.stages), .first = first, .count = count,
                               .whole = local->memory->all_weights / number_bytes, .edges = local->own.edges };
}

static bool gather(const struct stage_exchange *self, struct queue *queue, void *room, uint64_t first, uint64_t count,
                   struct error *error)
{
    const struct exchange *exchange = (const struct exchange *)self;
    const struct interpreter *in = exchange->in;
    const struct local *local = flights_local(&in->flights, exchange->action);
    struct reduction reduction = reduction_of(in, local, first, count);
    reduction.kind = REDUCTION_GATHER;
    reduction.number_bytes = (uint32_t)precision_bytes(device_precision(queue_device(in->needs.queue)));
    reduction.numbers = room;
    reduction.own = row_at(&local->memory->weights, weight_ring_find(&local->ring, version_met(exchange)));
    reduction.brings = meeting_of(exchange)->present;
    if (!reduction.own)
        return error_set_kind(error, ERROR_MACHINE, "weight version %llu is asked for by other copies, and this rank does"
                              " not hold its share of it", (unsigned long long)version_met(exchange));
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
    reduction.brings = meeting_of(exchange)->present;
    return exchange_of(exchange, queue, &reduction, error);
}

const struct stage_exchange *open_exchange(struct interpreter *in, struct action action, size_t position,
                                           struct exchange *exchange)
{
    const uint32_t number = in->needs.meetings->ranks[in->needs.rank].of[position];
    *exchange = (struct exchange){ { gather, add }, in, action, number };
    return number == NO_MEETING ? NULL : &exchange->functions;
}

static bool adds_gradient(struct action action)
{
    return action.kind == ACTION_B || action.kind == ACTION_W;
}

void close_exchange(const struct exchange *exchange)
{
    const struct meeting *meeting = meeting_of(exchange);
    if (adds_gradient(exchange->action))
        flights_local(&exchange->in->flights, exchange->action)->brought_by_all += meeting->present_count;
}

// The stage's own list of exchanges, and nothing else of what it does.
static bool attend(struct interpreter *in, const struct absence *absence, struct error *error)
{
    const struct meeting *meeting = &in->needs.meetings->stages[absence->stage].at[absence->meeting];
    struct local *local = flights_local(&in->flights, meeting->action);
    struct weight_ring *ring = &local->ring;
    const struct slab_row *again = &local->memory->rows[SLAB_AGAIN];
    const struct exchange exchange = { { gather, add }, in, meeting->action, absence->meeting };
    const struct stage_pass pass = {
        .queue = in->needs.queue,
        .step = in->step,
        .micro_batch = meeting->action.micro_batch,
        .copy = local->copy,
        .again = again->count > 0 ? row_at(again, 0) : NULL,
        .workspace_bytes = local->memory->workspace,
        .was_recomputed = meeting->was_recomputed,
        .exchange = &exchange.functions,
        .is_absent = true,
    };
    if (!function_of(local->does->functions, meeting->action.kind)(local->does->self, &pass, error))
        return at_action(in, meeting->action, error);
    close_exchange(&exchange);
    if (local_shares_weights(local) && adds_gradient(meeting->action))
        weight_ring_drop(ring, weight_ring_find(ring, version_met(&exchange)));
    return true;
}

bool attend_absent(struct interpreter *in, size_t position, struct error *error)
{
    const struct rank_meetings *own = &in->needs.meetings->ranks[in->needs.rank];
    for (; in->attended < own->absence_count && own->absences[in->attended].position <= position; in->attended++)
        if (!attend(in, &own->absences[in->attended], error))
            return false;
    return true;
}

bool gather_gradients(struct interpreter *in, struct local *local, uint64_t first, uint64_t count, struct error *error)
{
    const struct action step = { .stage = (uint16_t)(local->does - in->needs.stages), .kind = ACTION_STEP,
                                 .micro_batch = NO_MICRO_BATCH };
    struct reduction reduction = reduction_of(in, local, first, count);
    reduction.kind = REDUCTION_GATHER;
    reduction.number_bytes = sizeof(float);
    reduction.numbers = local->memory->window_gradients;
    reduction.own = local->memory->gradients;
    return exchange_with_others(in, in->needs.queue, &reduction, header_of(in, step, weight_ring_version(&local->ring,
                                                                                        local->ring.newest)),
                                step, error);
}
