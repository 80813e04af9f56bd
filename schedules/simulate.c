#include "schedules/simulate.h"

#include <stdlib.h>

#include "schedules/live_bytes.h"

// --- numbers per rank ---------------------------------------------------------

static uint64_t span_of(const struct rank_result *rank)
{
    return rank->last_ns - rank->first_ns;
}

struct bubble bubble_of(uint64_t iteration_ns, const struct rank_result *per_rank, uint32_t ranks)
{
    struct bubble bubble = { 0 };
    double busy_sum = 0;
    uint64_t max_busy = 0, max_span = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const uint64_t busy = per_rank[rank].busy_ns, span = span_of(&per_rank[rank]);
        busy_sum += (double)busy;
        max_busy = busy > max_busy ? busy : max_busy;
        max_span = span > max_span ? span : max_span;
        if (span > 0 && (double)(span - busy) / (double)span > bubble.span)
            bubble.span = (double)(span - busy) / (double)span;
    }
    if (iteration_ns > 0)
        bubble.makespan = 1 - busy_sum / ((double)ranks * (double)iteration_ns);
    if (max_busy > 0)
        bubble.overhead = (double)(iteration_ns - max_busy) / (double)max_busy;
    if (max_span > 0)
        bubble.zb_rate = (double)(max_span - max_busy) / (double)max_span;
    return bubble;
}

static void count_in_flight(struct action action, uint32_t *now, struct rank_result *result)
{
    if (action.kind == ACTION_F && ++*now > result->peak_in_flight)
        result->peak_in_flight = *now;
    if (action.kind == ACTION_B || action.kind == ACTION_I)
        --*now;
}

static void count_times(const struct stroll *stroll, struct rank_result *result)
{
    if (stroll->next_end_ns == &stroll->record->ends_ns[stroll->record->first[stroll->rank]] + 1)
        result->first_ns = stroll->start_ns;
    result->last_ns = stroll->end_ns;
    if (stroll->action.kind <= ACTION_R)
        result->busy_ns += stroll->end_ns - stroll->start_ns;
    result->recompute_ns += record_recompute_ns(stroll->record, stroll->action);
}

static bool fill_rank(const struct record *record, uint32_t rank, struct versions *versions,
                      struct rank_result *result, struct error *error)
{
    struct live live;
    if (!live_begin(&live, record, rank, versions, error))
        return false;
    uint32_t in_flight = 0;
    struct stroll stroll = stroll_begin(record, rank);
    while (stroll_next(&stroll)) {
        if (stroll.takes_time)
            count_times(&stroll, result);
        count_in_flight(stroll.action, &in_flight, result);
        live_follow(&live, &stroll);
    }
    return live_end(&live, &result->live_peak_bytes, error);
}

static bool fill_ranks(const struct record *record, struct simulation *simulation, struct error *error)
{
    struct versions versions;
    bool good = versions_create(&versions, record->schedule, error);
    for (uint32_t rank = 0; good && rank < simulation->ranks; rank++) {
        struct rank_result *result = &simulation->per_rank[rank];
        good = fill_rank(record, rank, &versions, result, error);
        if (span_of(result) > simulation->max_span_ns)
            simulation->max_span_ns = span_of(result);
    }
    versions_clear(&versions);
    return good;
}

// --- the timeline --------------------------------------------------------------

static bool add_span(const struct stroll *stroll, struct timeline *timeline)
{
    return timeline_add(timeline, (struct span){ stroll->rank, stroll->action, stroll->start_ns, stroll->end_ns,
                                                 record_recompute_ns(stroll->record, stroll->action) });
}

static bool gives_message(const struct schedule *schedule, struct action action)
{
    return schedule->lowered ? action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B
                             : makes_message(schedule, action);
}

static bool add_message(const struct stroll *stroll, struct timeline *timeline)
{
    const struct record *record = stroll->record;
    const bool back = stroll->action.kind != ACTION_F && stroll->action.kind != ACTION_SEND_F;
    struct action send = stroll->action;
    send.kind = back ? ACTION_SEND_B : ACTION_SEND_F;
    const uint32_t user = back ? send.stage - 1u : send.stage + 1u;
    const uint32_t number = channel_number(record->schedule, send.micro_batch, back ? user : send.stage, back);
    const struct channel *channel = &record->tariff.channels[number];
    uint64_t arrived;
    record_arrival(record, user, send.micro_batch, back, &arrived);
    return timeline_add_message(timeline, (struct message){ send, stroll->rank, channel->to,
                                                            arrived - channel->latency_ns - channel->occupied_ns,
                                                            arrived });
}

static bool fill_timeline(const struct record *record, struct timeline *timeline, struct error *error)
{
    bool good = true;
    timeline->ranks = record->schedule->ranks;
    for (uint32_t rank = 0; rank < timeline->ranks; rank++) {
        struct stroll stroll = stroll_begin(record, rank);
        while (good && stroll_next(&stroll)) {
            if (stroll.takes_time)
                good = add_span(&stroll, timeline);
            if (good && gives_message(record->schedule, stroll.action))
                good = add_message(&stroll, timeline);
        }
    }
    return good || error_no_memory(error, "a timeline");
}

// --- all of it -------------------------------------------------------------------

bool schedule_simulate(const struct schedule *schedule, const struct cost_row *costs, const struct network *network,
                       struct simulation *simulation, struct timeline *timeline, struct error *error)
{
    *simulation = (struct simulation){ .ranks = schedule->ranks };
    costs = costs ? costs : schedule->costs;
    if (!costs)
        return error_set(error, "schedule %s has no costs to simulate with", schedule->name);
    struct record record;
    if (!record_create(&record, schedule, costs, network, error))
        return false;
    simulation->per_rank = calloc(schedule->ranks, sizeof *simulation->per_rank);
    const bool good = (simulation->per_rank || error_no_memory(error, "the results of a simulation"))
                   && fill_ranks(&record, simulation, error)
                   && record_critical_path(&record, &simulation->critical_path, error)
                   && (!timeline || fill_timeline(&record, timeline, error));
    if (good) {
        simulation->iteration_ns = record.iteration_ns;
        simulation->bubble = bubble_of(record.iteration_ns, simulation->per_rank, schedule->ranks);
    } else {
        simulation_clear(simulation);
    }
    record_clear(&record);
    return good;
}

void simulation_clear(struct simulation *simulation)
{
    free(simulation->per_rank);
    *simulation = (struct simulation){ 0 };
}
