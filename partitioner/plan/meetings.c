#include "partitioner/plan/meetings.h"

#include <stdlib.h>

#include "partitioner/plan/meetings_ends.h"
#include "schedules/board.h"

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
    return good && (!any || !schedule->lowered || meetings_come_to_ends(meetings, schedule, placement, error));
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
