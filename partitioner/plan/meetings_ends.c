#include "partitioner/plan/meetings_ends.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/blocking.h"
#include "schedules/standstill.h"

struct standing {
    bool at_own, as_absent;  // at the meeting that stands at its position; or at that of the first absence to come
    uint32_t stage;          // whose meeting that is
    bool has_met;            // its own has been
};

struct last_sent {
    size_t count, messages[2];  // the last but one, and the last
};

// The ranks as runtime/interpreter.h lets them go on, with two slots for what a stage sends (schedules/slots.h): who needs
// a third waits for the first of them, until the RECV of that is reached. If the second has arrived meanwhile, that is
// no help, since slots are given back in the order in which they were taken:
//
//     2SEND_B2  2SEND_B0  2B3        2B3 waits for 1RECV_B2, whether or not 1RECV_B0 has been
//
// Who is absent from a meeting comes to it as early as it may; or, where that does not go well, when all who do something
// in it are there.
struct progress {
    struct meetings *meetings;
    bool is_late;
    const struct schedule *schedule;
    const struct placement *placement;
    size_t *positions, *attended;  // by rank; how many of its absences are behind it
    struct standing *standing;     // by rank
    uint32_t *come, *held;         // by stage: how many stand at a meeting; how many meetings have been
    bool *posted, *sent;           // by message_number()
    struct last_sent *last_sent;   // by rank, then stage, then whether back
};

static bool progress_open(struct progress *progress, struct meetings *meetings, bool is_late,
                          const struct schedule *schedule, const struct placement *placement)
{
    *progress = (struct progress){
        .meetings = meetings, .is_late = is_late, .schedule = schedule, .placement = placement,
        .positions = calloc(schedule->ranks + 1u, sizeof *progress->positions),
        .attended = calloc(schedule->ranks + 1u, sizeof *progress->attended),
        .standing = calloc(schedule->ranks + 1u, sizeof *progress->standing),
        .come = calloc(schedule->stages + 1u, sizeof *progress->come),
        .held = calloc(schedule->stages + 1u, sizeof *progress->held),
        .posted = calloc(2 * unit_count(schedule) + 1, sizeof *progress->posted),
        .sent = calloc(2 * unit_count(schedule) + 1, sizeof *progress->sent),
        .last_sent = calloc((size_t)schedule->ranks * schedule->stages * 2 + 1, sizeof *progress->last_sent),
    };
    return progress->positions && progress->attended && progress->standing && progress->come && progress->held
        && progress->posted && progress->sent && progress->last_sent;
}

static void progress_close(struct progress *progress)
{
    free(progress->positions);
    free(progress->attended);
    free(progress->standing);
    free(progress->come);
    free(progress->held);
    free(progress->posted);
    free(progress->sent);
    free(progress->last_sent);
}

static struct absence *first_absence(const struct progress *progress, uint32_t rank)
{
    return &progress->meetings->ranks[rank].absences[progress->attended[rank]];
}

// From a meeting that has been.
static void leave(struct progress *progress, uint32_t rank)
{
    struct standing *standing = &progress->standing[rank];
    if (standing->as_absent)
        first_absence(progress, rank)->position = progress->positions[rank];
    progress->attended[rank] += standing->as_absent;
    *standing = (struct standing){ .has_met = standing->at_own };
}

// From one that has not been yet.
static void step_back(struct progress *progress, uint32_t rank)
{
    struct standing *standing = &progress->standing[rank];
    if (standing->at_own || standing->as_absent)
        progress->come[standing->stage]--;
    standing->at_own = standing->as_absent = false;
}

// Whether the meeting has been that the rank comes to now: the last to come lets all go on.
static bool come(struct progress *progress, uint32_t rank, struct standing to)
{
    step_back(progress, rank);
    progress->standing[rank] = to;
    if (++progress->come[to.stage] < placement_copies(progress->placement, to.stage))
        return false;
    progress->come[to.stage] = 0;
    progress->held[to.stage]++;
    for (uint32_t copy = 0; copy < placement_copies(progress->placement, to.stage); copy++)
        leave(progress, placement_rank(progress->placement, to.stage, copy));
    return true;
}

static struct last_sent *last_sent_of(const struct progress *progress, uint32_t rank, uint32_t stage, bool goes_back)
{
    return &progress->last_sent[((size_t)rank * progress->schedule->stages + stage) * 2 + goes_back];
}

static bool has_slot(const struct progress *progress, const struct last_sent *last)
{
    return last->count < 2 || progress->posted[last->messages[0]];
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
        && has_slot(progress, last_sent_of(progress, rank, action.stage, goes_back));
}

static void send(struct progress *progress, uint32_t rank, struct action action)
{
    const size_t message = message_number(progress->schedule, action);
    struct last_sent *last = last_sent_of(progress, rank, action.stage, action.kind == ACTION_SEND_B);
    progress->sent[message] = true;
    *last = (struct last_sent){ last->count + 1, { last->messages[1], message } };
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
        progress->posted[message_number(progress->schedule, *at)] = true;
    for (size_t i = 0; i < size && !is_message(*at); i++)
        if (!is_served(progress, rank, at[i]))
            return false;
    return progress->meetings->ranks[rank].of[position] == NO_MEETING || progress->standing[rank].has_met
        || come(progress, rank, (struct standing){ .at_own = true, .stage = at->stage });
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
    struct absence *const first = first_absence(progress, rank);
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
    progress->standing[rank] = (struct standing){ 0 };
    progress->positions[rank]++;
    return true;
}

static bool attend(struct progress *progress, uint32_t rank, const struct absence *absence)
{
    return come(progress, rank, (struct standing){ .as_absent = true, .stage = absence->stage });
}

// Who stands at its own meeting leaves it for one that has begun; who was let go on from its own goes on.
static bool go_on_late(struct progress *progress, uint32_t rank)
{
    if (progress->standing[rank].has_met)
        return do_next(progress, rank);
    step_back(progress, rank);
    const struct absence *open = open_absence(progress, rank);
    return open ? attend(progress, rank, open) : do_next(progress, rank);
}

static bool go_on(struct progress *progress, uint32_t rank)
{
    if (progress->is_late)
        return go_on_late(progress, rank);
    const struct absence *absence = next_absence(progress, rank);
    return absence ? attend(progress, rank, absence) : do_next(progress, rank);
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
