#include "partitioner/plan/collectives_ends.h"

#include <string.h>

#include "common/arrays.h"
#include "schedules/blocking.h"

struct standing {
    // it waits at the collective at its position; or at that of the first absence still to come
    bool at_own, as_absent;
    uint32_t stage;          // the stage of that collective
    bool has_met;            // its own collective has taken place
};

struct last_sent {
    size_t count, messages[2];  // the last but one, and the last
};

// The ranks advance as runtime/ranks/interpreter.h lets them, with two slots for what a stage sends
// (schedules/slots.h). An action that needs a third slot waits for the first of the two, until the RECV of that
// message is reached. It does not help if the second message has arrived meanwhile, since slots are given back in
// the order in which they were taken:
//
//     2SEND_B2  2SEND_B0  2B3        2B3 waits for 1RECV_B2, whether or not 1RECV_B0 has been
//
// A rank that is absent from a collective joins it as early as it may. If that leads to a deadlock, it joins when all
// ranks that do something in the collective are there (`is_late`).
struct progress {
    struct collectives *collectives;
    bool is_late;
    const struct schedule *schedule;
    const struct placement *placement;
    size_t *positions, *attended;  // by rank: its position; how many of its absences are over
    struct standing *standing;     // by rank
    // by stage: how many ranks wait at a collective; how many collectives have taken place
    uint32_t *come, *held;
    bool *posted, *sent;           // by message_number()
    struct last_sent *last_sent;   // by rank, then stage, then direction (1: backward)
    struct arrays arrays;
};

// Fails if memory runs out.
static bool progress_open(struct progress *progress, struct collectives *collectives, bool is_late,
                          const struct schedule *schedule, const struct placement *placement)
{
    const size_t ranks = schedule->ranks, stages = schedule->stages, messages = 2 * unit_count(schedule);
    *progress = (struct progress){
        .collectives = collectives, .is_late = is_late, .schedule = schedule, .placement = placement,
    };
    struct arrays *arrays = &progress->arrays;
    progress->positions = arrays_add(arrays, ranks, sizeof *progress->positions);
    progress->attended = arrays_add(arrays, ranks, sizeof *progress->attended);
    progress->standing = arrays_add(arrays, ranks, sizeof *progress->standing);
    progress->come = arrays_add(arrays, stages, sizeof *progress->come);
    progress->held = arrays_add(arrays, stages, sizeof *progress->held);
    progress->posted = arrays_add(arrays, messages, sizeof *progress->posted);
    progress->sent = arrays_add(arrays, messages, sizeof *progress->sent);
    progress->last_sent = arrays_add(arrays, ranks * stages * 2, sizeof *progress->last_sent);
    return !arrays->failed;
}

static struct absence *first_absence(const struct progress *progress, uint32_t rank)
{
    return &progress->collectives->ranks[rank].absences[progress->attended[rank]];
}

// Leaves a collective that has taken place.
static void leave(struct progress *progress, uint32_t rank)
{
    struct standing *standing = &progress->standing[rank];
    if (standing->as_absent)
        first_absence(progress, rank)->position = progress->positions[rank];
    progress->attended[rank] += standing->as_absent;
    *standing = (struct standing){ .has_met = standing->at_own };
}

// Leaves a collective that has not taken place yet.
static void step_back(struct progress *progress, uint32_t rank)
{
    struct standing *standing = &progress->standing[rank];
    if (standing->at_own || standing->as_absent)
        progress->come[standing->stage]--;
    standing->at_own = standing->as_absent = false;
}

// The rank comes to a collective. Returns whether that has taken place now: the last rank to come releases all of
// them.
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
    const bool is_here = from >= schedule->stages
                      || (!schedule->exchanges && schedule_rank(schedule, from, action.micro_batch) == rank);
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
    const struct action *action = &list->at[position];
    const bool follows = position > 0 && action[-1].joined;
    const size_t size = follows ? 1 : group_size(action, list_end(list));
    if (is_send(*action))
        send(progress, rank, *action);
    else if (is_message(*action))
        progress->posted[message_number(progress->schedule, *action)] = true;
    for (size_t i = 0; i < size && !is_message(*action); i++)
        if (!is_served(progress, rank, action[i]))
            return false;
    return progress->collectives->ranks[rank].of[position] == NO_COLLECTIVE || progress->standing[rank].has_met
        || come(progress, rank, (struct standing){ .at_own = true, .stage = action->stage });
}

// --- who is absent -------------------------------------------------------------------------

static struct absence *next_absence(const struct progress *progress, uint32_t rank)
{
    const struct rank_collectives *collectives = &progress->collectives->ranks[rank];
    const size_t next = progress->attended[rank];
    return next < collectives->absence_count && collectives->absences[next].position <= progress->positions[rank]
             ? &collectives->absences[next]
             : NULL;
}

// An absence whose collective has begun, moved to the front of those to come.
static struct absence *open_absence(const struct progress *progress, uint32_t rank)
{
    struct rank_collectives *collectives = &progress->collectives->ranks[rank];
    struct absence *const first = first_absence(progress, rank);
    for (struct absence *absence = first; absence < collectives->absences + collectives->absence_count; absence++) {
        const struct collective *collective = &progress->collectives->stages[absence->stage].at[absence->collective];
        if (absence->position > progress->positions[rank] || absence->collective != progress->held[absence->stage]
            || progress->come[absence->stage] < collective->present_count)
            continue;
        const struct absence open = *absence;
        memmove(first + 1, first, (size_t)(absence - first) * sizeof *absence);
        *first = open;
        return first;
    }
    return NULL;
}

// Whether the rank is at a STEP or REDUCE of a stage, before which it has to join other collectives of that stage.
static bool is_held_up(const struct progress *progress, uint32_t rank)
{
    const struct rank_collectives *collectives = &progress->collectives->ranks[rank];
    const struct action *action = &progress->schedule->lists[rank].at[progress->positions[rank]];
    for (size_t i = progress->attended[rank]; i < collectives->absence_count; i++)
        if ((action->kind == ACTION_STEP || action->kind == ACTION_REDUCE)
            && collectives->absences[i].stage == action->stage
            && collectives->absences[i].position <= progress->positions[rank])
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

// A rank that waits at its own collective leaves it for one that has begun. A rank whose own collective has taken place
// goes on.
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
              && progress->attended[rank] == progress->collectives->ranks[rank].absence_count;
    return ended;
}

bool collectives_come_to_ends(struct collectives *collectives, const struct schedule *schedule,
                              const struct placement *placement, struct error *error)
{
    bool good = true, ended = false;
    for (int late = 0; good && !ended && late < 2; late++) {
        struct progress progress;
        good = progress_open(&progress, collectives, late, schedule, placement)
            || error_no_memory(error, "the collectives of replicas");
        ended = good && all_have_ended(&progress);
        arrays_clear(&progress.arrays);
    }
    if (good && !ended)
        good = error_set_kind(error, ERROR_ANSWER, "replicas do together what they share states for, and by this"
                              " schedule they would wait for each other for ever: share less, or take another");
    return good;
}
