#include "partitioner/plan/meetings.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/blocking.h"
#include "schedules/standstill.h"

// Whether an action on a stage with several copies is done by all of them at once. Without a flush a STEP is where the
// copies gather their updated shares; with one they do so behind their lists.
static bool meets(const struct schedule *schedule, enum shard shard, struct action action)
{
    switch (action.kind) {
    case ACTION_B:
    case ACTION_W:
        return shard >= SHARD_GRADIENTS;
    case ACTION_F:
    case ACTION_I:
    case ACTION_R:
        return shard == SHARD_WEIGHTS;
    case ACTION_REDUCE:
        return shard == SHARD_OPTIMIZER && schedule->weights != WEIGHTS_FLUSH;
    case ACTION_STEP:
        return (shard == SHARD_OPTIMIZER || shard == SHARD_GRADIENTS) && schedule->weights != WEIGHTS_FLUSH;
    default:
        return false;
    }
}

// --- reading the lists -----------------------------------------------------------------

// What a copy does of a stage: where in its list, and behind how many STEPs.
struct deed {
    size_t position;
    struct meeting does;
};

struct copy_deeds {
    struct deed *at;
    size_t count;
};

static bool is_done_again(const struct action_list *list, size_t position)
{
    const struct action action = list->at[position];
    for (size_t i = 0; i < position && (action.kind == ACTION_B || action.kind == ACTION_I); i++)
        if (list->at[i].kind == ACTION_R && list->at[i].stage == action.stage
            && list->at[i].micro_batch == action.micro_batch && list->at[i].split == action.split)
            return true;
    return false;
}

static bool read_deeds(const struct schedule *schedule, const struct action_list *list, uint32_t stage,
                       enum shard shard, struct copy_deeds *deeds)
{
    uint32_t steps = 0;
    *deeds = (struct copy_deeds){ .at = calloc(list->count + 1, sizeof deeds->at[0]) };
    for (size_t i = 0; deeds->at && i < list->count; i++) {
        const struct action action = list->at[i];
        if (action.stage != stage)
            continue;
        steps += action.kind == ACTION_STEP;
        if (meets(schedule, shard, action))
            deeds->at[deeds->count++] = (struct deed){ i, { .action = action, .update = steps,
                                                            .was_recomputed = is_done_again(list, i) } };
    }
    return deeds->at != NULL;
}

static bool is_like(const struct meeting *a, const struct meeting *b)
{
    return a->action.kind == b->action.kind && a->update == b->update && a->was_recomputed == b->was_recomputed;
}

// --- one stage -------------------------------------------------------------------------

struct reading {
    struct meetings *meetings;
    const struct schedule *schedule;
    const struct placement *placement;
    uint32_t stage;
};

static bool add_absence(struct rank_meetings *rank, struct absence absence)
{
    struct absence *more = realloc(rank->absences, (rank->absence_count + 1) * sizeof *more);
    if (!more)
        return false;
    rank->absences = more;
    size_t at = rank->absence_count++;
    for (; at > 0 && more[at - 1].position > absence.position; at--)
        more[at] = more[at - 1];
    more[at] = absence;
    return true;
}

// Behind what the copy has done of the stage before, with its messages, and behind its STEPs.
static size_t place_of_absent(const struct action_list *list, uint32_t stage, const struct meeting *meeting,
                              size_t behind)
{
    uint32_t steps = 0;
    size_t position = behind;
    for (size_t i = 0; i < list->count && steps < meeting->update; i++) {
        steps += list->at[i].kind == ACTION_STEP && list->at[i].stage == stage;
        position = i + 1 > position ? i + 1 : position;
    }
    while (position < list->count && position > 0 && is_send(list->at[position]))
        position++;
    return position;
}

// Walks along the meetings with what a copy does; `left`: how many of each kind it has still to do.
static bool attend(struct reading *reading, uint32_t copy, const struct copy_deeds *deeds, struct error *error)
{
    const uint32_t rank = placement_rank(reading->placement, reading->stage, copy);
    const struct action_list *list = &reading->schedule->lists[rank];
    struct stage_meetings *stage = &reading->meetings->stages[reading->stage];
    struct rank_meetings *own = &reading->meetings->ranks[rank];
    size_t next = 0, behind = 0, left[ACTION_KINDS] = { 0 };
    for (size_t i = 0; i < deeds->count; i++)
        left[deeds->at[i].does.action.kind]++;
    for (size_t m = 0; m < stage->count; m++) {
        struct meeting *meeting = &stage->at[m];
        if (next < deeds->count && is_like(meeting, &deeds->at[next].does)) {
            meeting->present[copy] = true;
            meeting->present_count++;
            left[meeting->action.kind]--;
            behind = deeds->at[next].position + 1;
            own->of[deeds->at[next++].position] = (uint32_t)m;
        } else if (left[meeting->action.kind] == 0) {
            const size_t at = place_of_absent(list, reading->stage, meeting, behind);
            behind = at;
            if (!add_absence(own, (struct absence){ at, reading->stage, (uint32_t)m }))
                return error_no_memory(error, "the meetings of replicas");
        } else {
            break;
        }
    }
    return next == deeds->count
        || error_set_kind(error, ERROR_ANSWER, "the copies of stage %u do their forwards, backwards and updates"
                          " in different orders, and those who share what they need for these do them together: share"
                          " less, or reorder the schedule", reading->stage);
}

// The copy that does most of them says in which order.
static bool open_stage(struct reading *reading, const struct copy_deeds *deeds, uint32_t copies, struct error *error)
{
    struct stage_meetings *stage = &reading->meetings->stages[reading->stage];
    uint32_t leader = 0;
    for (uint32_t copy = 1; copy < copies; copy++)
        leader = deeds[copy].count > deeds[leader].count ? copy : leader;
    stage->at = calloc(deeds[leader].count + 1, sizeof stage->at[0]);
    stage->present = calloc(deeds[leader].count * copies + 1, sizeof stage->present[0]);
    if (!stage->at || !stage->present)
        return error_no_memory(error, "the meetings of replicas");
    stage->count = deeds[leader].count;
    for (size_t m = 0; m < stage->count; m++) {
        stage->at[m] = deeds[leader].at[m].does;
        stage->at[m].present = &stage->present[m * copies];
    }
    bool good = true;
    for (uint32_t copy = 0; good && copy < copies; copy++)
        good = attend(reading, copy, &deeds[copy], error);
    return good;
}

static bool read_stage(struct reading *reading, enum shard shard, struct error *error)
{
    const uint32_t copies = placement_copies(reading->placement, reading->stage);
    struct copy_deeds *deeds = calloc(copies + 1u, sizeof *deeds);
    bool good = deeds != NULL;
    for (uint32_t copy = 0; good && copy < copies; copy++) {
        const uint32_t rank = placement_rank(reading->placement, reading->stage, copy);
        good = read_deeds(reading->schedule, &reading->schedule->lists[rank], reading->stage, shard, &deeds[copy]);
    }
    good = good ? open_stage(reading, deeds, copies, error) : error_no_memory(error, "the meetings of replicas");
    for (uint32_t copy = 0; deeds && copy < copies; copy++)
        free(deeds[copy].at);
    free(deeds);
    return good;
}

// --- whether all come to their ends ------------------------------------------------------

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

static bool come_to_their_ends(struct meetings *meetings, const struct schedule *schedule,
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

// --- all of it ----------------------------------------------------------------------------

static bool open_tables(struct meetings *meetings, const struct schedule *schedule, struct error *error)
{
    *meetings = (struct meetings){ .stage_count = schedule->stages, .rank_count = schedule->ranks };
    meetings->stages = calloc(schedule->stages + 1u, sizeof meetings->stages[0]);
    meetings->ranks = calloc(schedule->ranks + 1u, sizeof meetings->ranks[0]);
    bool good = meetings->stages && meetings->ranks;
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++) {
        const size_t count = schedule->lists[rank].count;
        uint32_t *of = meetings->ranks[rank].of = malloc((count + 1) * sizeof *of);
        good = of != NULL;
        for (size_t i = 0; good && i < count; i++)
            of[i] = NO_MEETING;
    }
    return good || error_no_memory(error, "the meetings of replicas");
}

bool meetings_open(struct meetings *meetings, const struct schedule *schedule, const struct placement *placement,
                   enum shard shard, struct error *error)
{
    bool good = open_tables(meetings, schedule, error), any = false;
    struct reading reading = { .meetings = meetings, .schedule = schedule, .placement = placement };
    for (; good && reading.stage < schedule->stages; reading.stage++) {
        if (placement_copies(placement, reading.stage) == 1)
            continue;
        good = read_stage(&reading, shard, error);
        any |= meetings->stages[reading.stage].count > 0;
    }
    if (good && any && shard >= SHARD_GRADIENTS && schedule->splits > 1)
        good = error_set_kind(error, ERROR_ANSWER, "sequences go through in parts, and replicas that share gradients or"
                              " weights do whole ones together: share the optimizer's state alone");
    return good && (!any || !schedule->lowered || come_to_their_ends(meetings, schedule, placement, error));
}

void meetings_close(struct meetings *meetings)
{
    for (uint32_t s = 0; meetings->stages && s < meetings->stage_count; s++) {
        free(meetings->stages[s].at);
        free(meetings->stages[s].present);
    }
    for (uint32_t rank = 0; meetings->ranks && rank < meetings->rank_count; rank++) {
        free(meetings->ranks[rank].of);
        free(meetings->ranks[rank].absences);
    }
    free(meetings->stages);
    free(meetings->ranks);
    *meetings = (struct meetings){ 0 };
}
