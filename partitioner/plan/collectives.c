#include "partitioner/plan/collectives.h"

#include <stdlib.h>

#include "partitioner/plan/collectives_ends.h"
#include "schedules/board.h"

// Whether all copies of a stage do this action at once, as a collective. Without a flush the copies gather their
// updated shares at a STEP; with a flush they do so after their lists.
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

// An action that a copy does on a stage: where in its list, and after how many STEPs.
struct deed {
    size_t position;
    struct collective does;
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

static bool is_like(const struct collective *a, const struct collective *b)
{
    return a->action.kind == b->action.kind && a->update == b->update && a->was_recomputed == b->was_recomputed;
}

// --- one stage -------------------------------------------------------------------------

struct reading {
    struct collectives *collectives;
    const struct schedule *schedule;
    const struct placement *placement;
    uint32_t stage;
};

static bool add_absence(struct rank_collectives *rank, struct absence absence)
{
    struct absence *more = realloc(rank->absences, (rank->absence_count + 1) * sizeof *more);
    if (!more)
        return false;
    rank->absences = more;
    size_t place = rank->absence_count++;
    for (; place > 0 && more[place - 1].position > absence.position; place--)
        more[place] = more[place - 1];
    more[place] = absence;
    return true;
}

// The position is after what the copy did on the stage before, with its messages, and after the STEPs that come
// before the collective.
static size_t place_of_absent(const struct action_list *list, uint32_t stage, const struct collective *collective,
                              size_t behind)
{
    uint32_t steps = 0;
    size_t position = behind;
    for (size_t i = 0; i < list->count && steps < collective->update; i++) {
        steps += list->at[i].kind == ACTION_STEP && list->at[i].stage == stage;
        position = i + 1 > position ? i + 1 : position;
    }
    while (position < list->count && position > 0 && is_send(list->at[position]))
        position++;
    return position;
}

// Goes through the collectives with the actions of a copy. `left`: how many actions of each kind the copy has still to
// do.
static bool attend(struct reading *reading, uint32_t copy, const struct copy_deeds *deeds, struct error *error)
{
    const uint32_t rank = placement_rank(reading->placement, reading->stage, copy);
    const struct action_list *list = &reading->schedule->lists[rank];
    struct stage_collectives *stage = &reading->collectives->stages[reading->stage];
    struct rank_collectives *rank_collectives = &reading->collectives->ranks[rank];
    size_t next = 0, behind = 0, left[ACTION_KINDS] = { 0 };
    for (size_t i = 0; i < deeds->count; i++)
        left[deeds->at[i].does.action.kind]++;
    for (size_t m = 0; m < stage->count; m++) {
        struct collective *collective = &stage->at[m];
        if (next < deeds->count && is_like(collective, &deeds->at[next].does)) {
            collective->present[copy] = true;
            collective->present_count++;
            left[collective->action.kind]--;
            behind = deeds->at[next].position + 1;
            rank_collectives->of[deeds->at[next++].position] = (uint32_t)m;
        } else if (left[collective->action.kind] == 0) {
            const size_t position = place_of_absent(list, reading->stage, collective, behind);
            behind = position;
            if (!add_absence(rank_collectives, (struct absence){ position, reading->stage, (uint32_t)m }))
                return error_no_memory(error, "the collectives of replicas");
        } else {
            break;
        }
    }
    return next == deeds->count
        || error_set_kind(error, ERROR_ANSWER, "the copies of stage %u do their forwards, backwards and updates"
                          " in different orders, and those who share what they need for these do them together: share"
                          " less, or reorder the schedule", reading->stage);
}

// The copy that does most of these actions sets the order.
static bool open_stage(struct reading *reading, const struct copy_deeds *deeds, uint32_t copies, struct error *error)
{
    struct stage_collectives *stage = &reading->collectives->stages[reading->stage];
    uint32_t leader = 0;
    for (uint32_t copy = 1; copy < copies; copy++)
        leader = deeds[copy].count > deeds[leader].count ? copy : leader;
    stage->at = calloc(deeds[leader].count + 1, sizeof stage->at[0]);
    stage->present = calloc(deeds[leader].count * copies + 1, sizeof stage->present[0]);
    if (!stage->at || !stage->present)
        return error_no_memory(error, "the collectives of replicas");
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
    good = good ? open_stage(reading, deeds, copies, error) : error_no_memory(error, "the collectives of replicas");
    for (uint32_t copy = 0; deeds && copy < copies; copy++)
        free(deeds[copy].at);
    free(deeds);
    return good;
}

// --- all of it ----------------------------------------------------------------------------

static bool open_tables(struct collectives *collectives, const struct schedule *schedule, struct error *error)
{
    *collectives = (struct collectives){ .stage_count = schedule->stages, .rank_count = schedule->ranks };
    collectives->stages = calloc(schedule->stages + 1u, sizeof collectives->stages[0]);
    collectives->ranks = calloc(schedule->ranks + 1u, sizeof collectives->ranks[0]);
    bool good = collectives->stages && collectives->ranks;
    for (uint32_t rank = 0; good && rank < schedule->ranks; rank++) {
        const size_t count = schedule->lists[rank].count;
        uint32_t *numbers = collectives->ranks[rank].of = malloc((count + 1) * sizeof *numbers);
        good = numbers != NULL;
        for (size_t i = 0; good && i < count; i++)
            numbers[i] = NO_COLLECTIVE;
    }
    return good || error_no_memory(error, "the collectives of replicas");
}

bool collectives_open(struct collectives *collectives, const struct schedule *schedule,
                      const struct placement *placement, enum shard shard, struct error *error)
{
    bool good = open_tables(collectives, schedule, error), any = false;
    struct reading reading = { .collectives = collectives, .schedule = schedule, .placement = placement };
    for (; good && reading.stage < schedule->stages; reading.stage++) {
        if (placement_copies(placement, reading.stage) == 1)
            continue;
        good = read_stage(&reading, shard, error);
        any |= collectives->stages[reading.stage].count > 0;
    }
    if (good && any && shard >= SHARD_GRADIENTS && schedule->splits > 1)
        good = error_set_kind(error, ERROR_ANSWER, "sequences go through in parts, and replicas that share gradients or"
                              " weights do whole ones together: share the optimizer's state alone");
    return good && (!any || !schedule->lowered || collectives_come_to_ends(collectives, schedule, placement, error));
}

void collectives_close(struct collectives *collectives)
{
    for (uint32_t s = 0; collectives->stages && s < collectives->stage_count; s++) {
        free(collectives->stages[s].at);
        free(collectives->stages[s].present);
    }
    for (uint32_t rank = 0; collectives->ranks && rank < collectives->rank_count; rank++) {
        free(collectives->ranks[rank].of);
        free(collectives->ranks[rank].absences);
    }
    free(collectives->stages);
    free(collectives->ranks);
    *collectives = (struct collectives){ 0 };
}
