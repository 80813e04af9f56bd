#include "runtime/ranks/flights.h"

#include <stdlib.h>

static const char *const class_names[] = { "the input", "what is kept", "inner inputs", "what is kept on the host",
                                           "inner inputs on the host", "what is held for W", "what is run again",
                                           "what parts share", "its gradient", "the output", "the output's gradient",
                                           "the input's gradient", "statistics", "the statistics of all copies" };

// --- neighbours ------------------------------------------------------------------

static struct action below(struct action action)
{
    action.stage--;
    return action;
}

static struct action above(struct action action)
{
    action.stage++;
    return action;
}

// Whether a stage next to one of this rank is here, too, and needs no message.
static bool is_here(const struct flights *flights, struct action action)
{
    return !flights->schedule->exchanges
        && schedule_rank(flights->schedule, action.stage, action.micro_batch) == flights->rank;
}

bool flights_has_below(const struct flights *flights, struct action action)
{
    return action.stage > 0 && is_here(flights, below(action));
}

bool flights_has_above(const struct flights *flights, struct action action)
{
    return action.stage + 1u < flights->schedule->stages && is_here(flights, above(action));
}

// --- slots -------------------------------------------------------------------------

bool flights_take(const struct flights *flights, struct action action, enum slab_class class, struct error *error)
{
    struct flight *flight = flights_flight(flights, action);
    flight->slots[class] = row_take(&flights_local(flights, action)->memory->rows[class]);
    return flight->slots[class] != NO_SLOT
        || error_set_kind(error, ERROR_MACHINE, "no slot is free for %s; the slots were counted for another schedule",
                          class_names[class]);
}

void flights_give(const struct flights *flights, struct action action, enum slab_class class, struct event *used)
{
    struct flight *flight = flights_flight(flights, action);
    if (flight->slots[class] != NO_SLOT)
        row_give(&flights_local(flights, action)->memory->rows[class], flight->slots[class], used);
    flight->slots[class] = NO_SLOT;
}

static struct event **used_of(const struct flights *flights, struct action action, enum slab_class class)
{
    const uint32_t slot = flights_flight(flights, action)->slots[class];
    return slot == NO_SLOT ? NULL : &flights_local(flights, action)->memory->rows[class].used[slot];
}

struct event *flights_used(const struct flights *flights, struct action action, enum slab_class class)
{
    struct event **used = used_of(flights, action, class);
    return used ? *used : NULL;
}

void flights_use(const struct flights *flights, struct action action, enum slab_class class, struct event *used)
{
    struct event **place = used_of(flights, action, class);
    if (place)
        *place = used;
}

void flights_give_above(const struct flights *flights, struct action action, struct event *used)
{
    if (flights_has_above(flights, action))
        flights_give(flights, above(action), SLAB_INPUT_GRADIENT, used);
}

void flights_give_below(const struct flights *flights, struct action action, struct event *used)
{
    if (flights_has_below(flights, action))
        flights_give(flights, below(action), SLAB_OUTPUT, used);
}

void *flights_at(const struct flights *flights, struct action action, enum slab_class class)
{
    return row_at(&flights_local(flights, action)->memory->rows[class], flights_flight(flights, action)->slots[class]);
}

void *flights_input(const struct flights *flights, struct action action)
{
    return flights_has_below(flights, action) ? flights_at(flights, below(action), SLAB_OUTPUT)
                                              : flights_at(flights, action, SLAB_INPUT);
}

void *flights_output_gradient(const struct flights *flights, struct action action)
{
    return flights_has_above(flights, action) ? flights_at(flights, above(action), SLAB_INPUT_GRADIENT)
                                              : flights_at(flights, action, SLAB_OUTPUT_GRADIENT);
}

// --- messages on their way out --------------------------------------------------------

struct slab_row *outgoing_row(struct local *local, enum direction direction)
{
    return &local->memory->rows[direction == OUTPUTS ? SLAB_OUTPUT : SLAB_INPUT_GRADIENT];
}

struct outgoing *outgoing_oldest(struct local *local, enum direction direction)
{
    struct outgoing *oldest = NULL;
    for (uint32_t slot = 0; slot < outgoing_row(local, direction)->count; slot++) {
        struct outgoing *outgoing = &local->outgoing[direction][slot];
        if (outgoing->ticket.active && (!oldest || outgoing->ticket.posted_ns < oldest->ticket.posted_ns))
            oldest = outgoing;
    }
    return oldest;
}

enum slab_class receive_class(struct action receive)
{
    return receive.kind == ACTION_RECV_F ? SLAB_INPUT : SLAB_OUTPUT_GRADIENT;
}

void flights_cancel(struct flights *flights, struct transport *transport)
{
    for (uint32_t l = 0; l < flights->local_count; l++) {
        struct local *local = &flights->locals[l];
        for (size_t i = 0; i < parts_of(flights->schedule); i++) {
            transport->functions->cancel(transport, &local->flights[i].input);
            transport->functions->cancel(transport, &local->flights[i].output_gradient);
        }
        for (enum direction direction = OUTPUTS; direction <= GRADIENTS; direction++)
            for (uint32_t slot = 0; slot < outgoing_row(local, direction)->count; slot++)
                transport->functions->cancel(transport, &local->outgoing[direction][slot].ticket);
    }
}

// --- opening and closing ------------------------------------------------------------------

static bool local_open(struct local *local, const struct stage *does, struct slab_stage *memory, size_t parts,
                       struct error *error)
{
    local->does = does;
    local->memory = memory;
    local->flights = calloc(parts + 1, sizeof *local->flights);
    for (enum direction direction = OUTPUTS; direction <= GRADIENTS; direction++)
        local->outgoing[direction] = calloc(outgoing_row(local, direction)->count + 1u, sizeof(struct outgoing));
    if (!local->flights || !local->outgoing[OUTPUTS] || !local->outgoing[GRADIENTS])
        return error_no_memory(error, "what is in flight on a stage");
    for (size_t i = 0; i < parts; i++)
        for (int class = 0; class < SLAB_CLASSES; class++)
            local->flights[i].slots[class] = NO_SLOT;
    return weight_ring_open(&local->ring, &memory->weights, does->list_bytes > 0, error);
}

// The RECVs of each stage, as the rank's list has them.
static bool collect_incoming(struct flights *flights, const struct action_list *list, struct error *error)
{
    for (uint32_t l = 0; l < flights->local_count; l++) {
        for (int kind = 0; kind < 2; kind++) {
            struct incoming *incoming = &flights->locals[l].incoming[kind];
            incoming->receives = calloc(parts_of(flights->schedule) + 1, sizeof *incoming->receives);
            if (!incoming->receives)
                return error_no_memory(error, "what a stage receives");
        }
    }
    for (size_t i = 0; i < list->count; i++) {
        const struct action action = list->at[i];
        if (action.kind != ACTION_RECV_F && action.kind != ACTION_RECV_B)
            continue;
        struct incoming *incoming = &flights_local(flights, action)->incoming[action.kind == ACTION_RECV_B];
        incoming->receives[incoming->count++] = action;
    }
    return true;
}

bool flights_open(struct flights *flights, const struct schedule *schedule, const struct placement *placement,
                  uint32_t rank, const struct stage *stages, struct slab *slab, struct error *error)
{
    *flights = (struct flights){ .schedule = schedule, .rank = rank };
    const size_t number_bytes = precision_bytes(device_precision(slab->device));
    flights->locals = calloc(schedule->stages, sizeof *flights->locals);
    flights->by_stage = calloc(schedule->stages, sizeof *flights->by_stage);
    if (!flights->locals || !flights->by_stage)
        return error_no_memory(error, "the stages of a rank");
    for (uint32_t s = 0; s < schedule->stages; s++) {
        const uint32_t copy = placement_find(placement, s, rank);
        if (copy == NOT_HELD)
            continue;
        const uint32_t l = flights->local_count++;
        flights->by_stage[s] = &flights->locals[l];
        struct local *local = &flights->locals[l];
        local->stage = s;
        local->copies = placement_copies(placement, s);
        local->copy = copy;
        local->statistics_edges = calloc(local->copies + 1u, sizeof(uint64_t));
        if (!local->statistics_edges)
            return error_no_memory(error, "the stages of a rank");
        if (!local_open(local, &stages[s], &slab->stages[l], parts_of(schedule), error)
            || !share_open(&local->own, &stages[s], slab->stages[l].all_weights / number_bytes, copy, local->copies,
                           error))
            return false;
    }
    return collect_incoming(flights, &schedule->lists[rank], error);
}

void flights_close(struct flights *flights)
{
    for (uint32_t l = 0; l < flights->local_count; l++) {
        struct local *local = &flights->locals[l];
        free(local->flights);
        free(local->statistics_edges);
        free(local->outgoing[OUTPUTS]);
        free(local->outgoing[GRADIENTS]);
        free(local->incoming[0].receives);
        free(local->incoming[1].receives);
        weight_ring_close(&local->ring);
        share_close(&local->own);
    }
    free(flights->locals);
    free(flights->by_stage);
    *flights = (struct flights){ 0 };
}
