#include "schedules/record.h"

#include <stdlib.h>

static bool attach_notes(struct record *record, struct error *error)
{
    struct timing *timing = &record->timing;
    const size_t steps = record->order.count + 1, messages = record->order.messages + (size_t)1;
    timing->step_start_ns = calloc(steps, sizeof *timing->step_start_ns);
    timing->step_end_ns = calloc(steps, sizeof *timing->step_end_ns);
    timing->message_ready_ns = calloc(messages, sizeof *timing->message_ready_ns);
    timing->message_start_ns = calloc(messages, sizeof *timing->message_start_ns);
    return (timing->step_start_ns && timing->step_end_ns && timing->message_ready_ns && timing->message_start_ns)
        || error_no_memory(error, "the record of a simulation");
}

bool record_create(struct record *record, const struct schedule *schedule, const struct cost_row *costs,
                   const struct network *network, struct error *error)
{
    *record = (struct record){ .schedule = schedule, .costs = costs };
    if (!order_create(&record->order, schedule, network, true, error)
        || !timing_create(&record->timing, &record->order, error) || !attach_notes(record, error)) {
        record_clear(record);
        return false;
    }
    if (!timing_price(&record->timing, costs)) {
        record_clear(record);
        return error_set(error, "the times of the schedule add up to more than 2^63 ns");
    }
    record->iteration_ns = timing_run(&record->timing);
    return true;
}

void record_clear(struct record *record)
{
    free(record->timing.step_start_ns);
    free(record->timing.step_end_ns);
    free(record->timing.message_ready_ns);
    free(record->timing.message_start_ns);
    timing_clear(&record->timing);
    order_clear(&record->order);
    *record = (struct record){ 0 };
}

uint64_t record_recompute_ns(const struct record *record, const struct step *step)
{
    const enum price kind = (enum price)(step->price % PRICES);
    const bool recomputes = kind == PRICE_R || kind == PRICE_B_RECOMPUTING || kind == PRICE_I_RECOMPUTING;
    return recomputes ? record->costs[step->price / PRICES].recompute_ns : 0;
}

struct stroll stroll_begin(const struct record *record, uint32_t rank)
{
    return (struct stroll){ .record = record, .rank = rank, .number = record->order.first[rank] };
}

bool stroll_next(struct stroll *stroll)
{
    const struct record *record = stroll->record;
    const struct action_list *list = &record->schedule->lists[stroll->rank];
    if (stroll->position == list->count)
        return false;
    stroll->action = list->at[stroll->position++];
    if (stroll->action.kind == ACTION_RECV_F || stroll->action.kind == ACTION_RECV_B) {
        stroll->step = NULL;
        stroll->start_ns = stroll->end_ns;
        return true;
    }
    stroll->step = &record->order.lists[stroll->number];
    stroll->start_ns = record->timing.step_start_ns[stroll->number];
    stroll->end_ns = record->timing.step_end_ns[stroll->number];
    stroll->number++;
    return true;
}
