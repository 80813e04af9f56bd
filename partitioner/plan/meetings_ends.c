#include "partitioner/plan/meetings_ends.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/blocking.h"
#include "schedules/standstill.h"

// The ranks as runtime/interpreter.h lets them go on, with two slots for what a stage sends (schedules/slots.h): who needs
// a third waits until the RECV of the first is reached. Who is absent from
// a meeting comes to it as early as it may; or, where that does not go well, when it can do nothing else and all others
// are there.
struct progress {
    struct meetings *meetings;
    bool is_late;
    const struct schedule *schedule;
    const struct placement *placement;
    size_t *positions, *attended;  // by rank; how many of its absences are behind it
    bool *stands, *has_met;        // by rank: at a meeting; it was the one before what stands at its position
    uint32_t *come, *held;         // by stage: how many stand at a meeting; how many meetings have been
    bool *posted, *sent;           // by message_number()
    uint32_t *under_way;           // by rank, then stage, then whether back: sent, and its RECV not reached
};

static bool progress_open(struct progress *progress, struct meetings *meetings, bool is_late,
                          const struct schedule *schedule, const struct placement *placement)
{
    *progress = (struct progress){
        .meetings = meetings, .is_late = is_late, .schedule = schedule, .placement = placement,
        .positions = calloc(schedule->ranks + 1u, sizeof *progress->positions),
        .attended = calloc(schedule->ranks + 1u, sizeof *progress->attended),
        .stands = calloc(schedule->ranks + 1u, sizeof *progress->stands),
        .has_met = calloc(schedule->ranks + 1u, sizeof *progress->has_met),
        .come = calloc(schedule->stages + 1u, sizeof *progress->come),
        .held = calloc(schedule->stages + 1u, sizeof *progress->held),
        .posted = calloc(2 * unit_count(schedule) + 1, sizeof *progress->posted),
        .sent = calloc(2 * unit_count(schedule) + 1, sizeof *progress->sent),
        .under_way = calloc((size_t)schedule->ranks * schedule->stages * 2 + 1, sizeof *progress->under_way),
    };
    return progress->positions && progress->attended && progress->stands && progress->has_met && progress->come
        && progress->held && progress->posted && progress->sent && progress->under_way;
}

static void progress_close(struct progress *progress)
{
    free(progress->positions);
    free(progress->attended);
    free(progress->stands);
    free(progress->has_met);
    free(progress->come);
    free(progress->held);
    free(progress->posted);
    free(progress->sent);
    free(progress->under_way);
}

// Comes to a meeting of the stage; the last lets all go on.
static bool come(struct progress *progress, uint32_t rank, uint32_t stage)
{
    if (progress->has_met[rank])
        return true;
    progress->come[stage] += !progress->stands[rank];
    progress->stands[rank] = true;
    if (progress->come[stage] < placement_copies(progress->placement, stage))
        return false;
    progress->come[stage] = 0;
    progress->held[stage]++;
    for (uint32_t copy = 0; copy < placement_copies(progress->placement, stage); copy++) {
        const uint32_t other = placement_rank(progress->placement, stage, copy);
        progress->stands[other] = false;
        progress->has_met[other] = true;
    }
    return true;
}

static uint32_t *under_way_of(const struct progress *progress, uint32_t rank, uint32_t stage, bool goes_back)
{
    return &progress->under_way[((size_t)rank * progress->schedule->stages + stage) * 2 + goes_back];
}

// Whether what a computation reads has been sent, and a slot for what it sends is free.
static bool is_served(const struct progress *progress, uint32_t rank, struct action action)
{
    const bool goes_back = action.kind == ACTION_B || action.kind == ACTION_I;
    const struct schedule *schedule = progress->schedule;
    const uint32_t from = goes_back ? action.stage + 1u : action.stage - 1u;
    if (action.kind != ACTION_F && !goes_back)
        return true;
    const bool is_here = from >= schedule->stages || schedule_rank(schedule, from, action.micro_batch) == rank;
    return (is_here || progress->sent[2 * unit_of(schedule, action) + goes_back])
        && *under_way_of(progress, rank, action.stage, goes_back) < 2;
}

static void send(struct progress *progress, uint32_t rank, struct action action)
{
    const size_t message = message_number(progress->schedule, action);
    progress->sent[message] = true;
    *under_way_of(progress, rank, action.stage, action.kind == ACTION_SEND_B) += !progress->posted[message];
}

static void receive(struct progress *progress, struct action action)
{
    const size_t message = message_number(progress->schedule, action);
    const struct action from = action_mirror(action);
    const uint32_t rank = schedule_rank(progress->schedule, from.stage, from.micro_batch);
    progress->posted[message] = true;
    *under_way_of(progress, rank, from.stage, from.kind == ACTION_SEND_B) -= progress->sent[message];
}

static bool can_do(struct progress *progress, uint32_t rank, size_t position)
{
    const struct action_list *list = &progress->schedule->lists[rank];
    const struct action *at = &list->at[position];
    const bool follows = position > 0 && at[-1].joined;
    const size_t size = follows ? 1 : group_size(at, list_end(list));
    if (is_send(*at))
        send(progress, rank, *at);
    else if (is_message(*at))
        receive(progress, *at);
    for (size_t i = 0; i < size && !is_message(*at); i++)
        if (!is_served(progress, rank, at[i]))
            return false;
    return progress->meetings->ranks[rank].of[position] == NO_MEETING || come(progress, rank, at->stage);
}

// --- who is absent -------------------------------------------------------------------------

static struct absence *next_absence(const struct progress *progress, uint32_t rank)
{
    const struct rank_meetings *own = &progress->meetings->ranks[rank];
    const size_t next = progress->attended[rank];
    return next < own->absence_count && own->absences[next].position <= progress->positions[rank] ? &own->absences[next]
                                                                                                  : NULL;
}

// One whose meeting has begun, put in front of those to come.
static struct absence *open_absence(const struct progress *progress, uint32_t rank)
{
    struct rank_meetings *own = &progress->meetings->ranks[rank];
    struct absence *const first = &own->absences[progress->attended[rank]];
    for (struct absence *at = first; at < own->absences + own->absence_count; at++) {
        const struct meeting *meeting = &progress->meetings->stages[at->stage].at[at->meeting];
        if (at->position > progress->positions[rank] || at->meeting != progress->held[at->stage]
            || progress->come[at->stage] < meeting->present_count)
            continue;
        const struct absence open = *at;
        memmove(first + 1, first, (size_t)(at - first) * sizeof *at);
        *first = open;
        return first;
    }
    return NULL;
}

// A STEP or REDUCE of a stage that has meetings to come before it.
static bool is_held_up(const struct progress *progress, uint32_t rank)
{
    const struct rank_meetings *own = &progress->meetings->ranks[rank];
    const struct action *at = &progress->schedule->lists[rank].at[progress->positions[rank]];
    for (size_t i = progress->attended[rank]; i < own->absence_count; i++)
        if ((at->kind == ACTION_STEP || at->kind == ACTION_REDUCE) && own->absences[i].stage == at->stage
            && own->absences[i].position <= progress->positions[rank])
            return true;
    return false;
}

static bool do_next(struct progress *progress, uint32_t rank)
{
    if (progress->positions[rank] == progress->schedule->lists[rank].count || is_held_up(progress, rank)
        || !can_do(progress, rank, progress->positions[rank]))
        return false;
    progress->has_met[rank] = false;
    progress->positions[rank]++;
    return true;
}

static bool attend_next(struct progress *progress, uint32_t rank)
{
    struct absence *absence = progress->is_late ? open_absence(progress, rank) : next_absence(progress, rank);
    if (!absence || !come(progress, rank, absence->stage))
        return false;
    absence->position = progress->positions[rank];
    progress->has_met[rank] = false;
    progress->attended[rank]++;
    return true;
}

// From a meeting of its own, which has not been yet.
static void step_back(struct progress *progress, uint32_t rank)
{
    if (!progress->stands[rank])
        return;
    progress->stands[rank] = false;
    progress->come[progress->schedule->lists[rank].at[progress->positions[rank]].stage]--;
}

static bool go_on(struct progress *progress, uint32_t rank)
{
    if (progress->is_late) {
        step_back(progress, rank);
        return attend_next(progress, rank) || do_next(progress, rank);
    }
    return next_absence(progress, rank) ? attend_next(progress, rank) : do_next(progress, rank);
}

static bool all_have_ended(struct progress *progress)
{
    bool moves = true, ended = true;
    while (moves) {
        moves = false;
        for (uint32_t rank = 0; rank < progress->schedule->ranks; rank++)
            while (go_on(progress, rank))
                moves = true;
    }
    for (uint32_t rank = 0; rank < progress->schedule->ranks; rank++)
        ended &= progress->positions[rank] == progress->schedule->lists[rank].count
              && progress->attended[rank] == progress->meetings->ranks[rank].absence_count;
    return ended;
}

bool meetings_come_to_ends(struct meetings *meetings, const struct schedule *schedule,
                           const struct placement *placement, struct error *error)
{
    bool good = true, ended = false;
    for (int late = 0; good && !ended && late < 2; late++) {
        struct progress progress;
        good = progress_open(&progress, meetings, late, schedule, placement)
            || error_no_memory(error, "the meetings of replicas");
        ended = good && all_have_ended(&progress);
        progress_close(&progress);
    }
    if (good && !ended)
        good = error_set_kind(error, ERROR_ANSWER, "replicas do together what they share states for, and by this"
                              " schedule they would wait for each other for ever: share less, or take another");
    return good;
}
