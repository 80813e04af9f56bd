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

static bool fill_ranks(const struct record *record, struct simulation *simulation, struct timeline *timeline,
                       struct error *error)
{
    struct live live;
    if (!live_create(&live, record, timeline, error))
        return false;
    bool good = true;
    for (uint32_t rank = 0; good && rank < simulation->ranks; rank++) {
        struct rank_result *result = &simulation->per_rank[rank];
        *result = record->ranks[rank].result;
        good = live_peak(&live, rank, &result->live_peak_bytes, error);
        if (span_of(result) > simulation->max_span_ns)
            simulation->max_span_ns = span_of(result);
    }
    live_clear(&live);
    return good;
}

// --- the timeline --------------------------------------------------------------

static bool add_span(const struct stroll *stroll, size_t member, struct timeline *timeline)
{
    const struct action action = stroll->group[member];
    return timeline_add(timeline, (struct span){ stroll->rank, action, stroll->start_ns, stroll->end_ns,
                                                 record_recompute_ns(stroll->record, action) });
}

static bool gives_message(const struct schedule *schedule, struct action action)
{
    return schedule->lowered ? action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B
                             : makes_message(schedule, action);
}

static bool add_message(const struct stroll *stroll, struct action send, struct timeline *timeline)
{
    const struct record *record = stroll->record;
    const bool back = send.kind != ACTION_F && send.kind != ACTION_SEND_F;
    send.kind = back ? ACTION_SEND_B : ACTION_SEND_F;
    send.joined = 0;
    struct action user = send;
    user.stage = (uint16_t)(back ? send.stage - 1 : send.stage + 1);
    const uint32_t number = channel_number(record->schedule, send, back ? user.stage : send.stage, back);
    const struct channel *channel = &record->tariff.channels[number];
    uint64_t arrived;
    record_arrival(record, unit_of(record->schedule, user), back, &arrived);
    return timeline_add_message(timeline, (struct message){ send, stroll->rank, channel->to,
                                                            arrived - channel->latency_ns - channel->occupied_ns,
                                                            arrived });
}

// A move runs beside the rank's actions.
static bool add_move(const struct stroll *stroll, struct action move, struct timeline *timeline)
{
    const struct record *record = stroll->record;
    const uint64_t end_ns = record->moved_ns[move.kind == ACTION_PREFETCH][unit_of(record->schedule, move)];
    return timeline_add(timeline,
                        (struct span){ stroll->rank, move, end_ns - record_move_ns(record, move), end_ns, 0 });
}

static bool fill_timeline(const struct record *record, struct timeline *timeline, struct error *error)
{
    bool good = true;
    timeline->ranks = record->schedule->ranks;
    for (uint32_t rank = 0; rank < timeline->ranks; rank++) {
        struct stroll stroll = stroll_begin(record, rank);
        while (good && stroll_next(&stroll)) {
            for (size_t i = 0; good && i < stroll.size; i++) {
                good = (!stroll.takes_time || add_span(&stroll, i, timeline))
                    && (!is_move(stroll.group[i]) || add_move(&stroll, stroll.group[i], timeline))
                    && (!gives_message(record->schedule, stroll.group[i])
                        || add_message(&stroll, stroll.group[i], timeline));
            }
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
                   && fill_ranks(&record, simulation, timeline && timeline->wants_levels ? timeline : NULL, error)
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
