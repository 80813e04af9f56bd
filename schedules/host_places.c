#include "schedules/host_places.h"

#include <stdlib.h>

#include "schedules/standstill.h"

// The two lifetimes of kept data.
enum kept { KEPT, KEPT_THROUGH, KEPTS };

static const unsigned ends[KEPTS] = {
    [KEPT] = 1 << ACTION_EVICT | 1 << ACTION_B | 1 << ACTION_I,
    [KEPT_THROUGH] = 1 << ACTION_EVICT | 1 << ACTION_B | 1 << ACTION_W,
};

// The places of a stage: their number, and their use on the rank that is being traversed.
struct row {
    uint32_t count, now;
    size_t taken, given;
};

// The unit that gave a place back, and the position of that action in the list.
struct giver {
    size_t unit, position;  // NO_MOVE if it was not an EVICT
};

struct filling {
    const struct schedule *schedule;
    struct host_places *places;
    struct row *rows[KEPTS];      // per stage
    struct giver *givers[KEPTS];  // of each stage, in the order of its list: at most two for each of its units
    bool is_counted;              // whether the number of places is known
};

static struct giver *giver_of(const struct filling *filling, enum kept kept, uint32_t stage, size_t number)
{
    return &filling->givers[kept][2 * unit_index(filling->schedule, stage, 0, 0) + number];
}

// If an F waits for several EVICTs, only the last of them matters, since it ends last.
static void take_slot(struct filling *filling, struct action action, enum kept kept, struct giver *last)
{
    struct row *row = &filling->rows[kept][action.stage];
    if (++row->now > row->count)
        row->count = row->now;
    const size_t number = row->taken++;
    if (!filling->is_counted || number < row->count)
        return;
    const struct giver giver = *giver_of(filling, kept, action.stage, number - row->count);
    if (giver.unit != NO_MOVE && (last->unit == NO_MOVE || giver.position > last->position))
        *last = giver;
}

static void begin(struct filling *filling, struct action action)
{
    struct giver last = { NO_MOVE, 0 };
    if (action.kind != ACTION_F && action.kind != ACTION_PREFETCH)
        return;
    for (enum kept kept = KEPT; kept < KEPTS; kept++)
        take_slot(filling, action, kept, &last);
    if (filling->is_counted && action.kind == ACTION_F)
        filling->places->waits[unit_of(filling->schedule, action)] = last.unit;
}

static void end(struct filling *filling, struct action action, size_t position)
{
    for (enum kept kept = KEPT; has_unit(action) && kept < KEPTS; kept++) {
        struct row *row = &filling->rows[kept][action.stage];
        if (!(ends[kept] >> action.kind & 1))
            continue;
        *giver_of(filling, kept, action.stage, row->given++) =
            (struct giver){ action.kind == ACTION_EVICT ? unit_of(filling->schedule, action) : NO_MOVE, position };
        row->now--;
    }
}

static void go_through(struct filling *filling, uint32_t rank)
{
    const struct action_list *list = &filling->schedule->lists[rank];
    for (uint32_t stage = 0; stage < filling->schedule->stages; stage++)
        for (enum kept kept = KEPT; kept < KEPTS; kept++)
            filling->rows[kept][stage] = (struct row){ .count = filling->rows[kept][stage].count };
    size_t size;
    for (const struct action *group = list->at; group < list_end(list); group += size) {
        size = group_size(group, list_end(list));
        for (size_t i = 0; i < size; i++)
            begin(filling, group[i]);
        for (size_t i = 0; i < size; i++)
            end(filling, group[i], (size_t)(group - list->at));
    }
}

// All ranks of a stage have the same number of places, so a first pass counts them before a second one assigns them.
static void fill(struct filling *filling)
{
    for (int pass = 0; pass < 2; pass++) {
        filling->is_counted = pass == 1;
        for (uint32_t rank = 0; rank < filling->schedule->ranks; rank++)
            go_through(filling, rank);
    }
}

bool host_places_create(struct host_places *places, const struct schedule *schedule, struct error *error)
{
    *places = (struct host_places){ NULL };
    if (!schedule->moves)
        return true;
    if (!actions_in_order(schedule, schedule->lowered, error))
        return false;
    struct filling filling = { .schedule = schedule, .places = places };
    const size_t units = unit_count(schedule);
    places->waits = malloc((units + 1) * sizeof places->waits[0]);
    bool good = places->waits != NULL;
    for (enum kept kept = KEPT; kept < KEPTS; kept++) {
        filling.rows[kept] = calloc(schedule->stages, sizeof filling.rows[kept][0]);
        filling.givers[kept] = calloc(2 * units + 1, sizeof filling.givers[kept][0]);
        good = good && filling.rows[kept] && filling.givers[kept];
    }
    for (size_t unit = 0; good && unit < units; unit++)
        places->waits[unit] = NO_MOVE;
    if (good)
        fill(&filling);
    for (enum kept kept = KEPT; kept < KEPTS; kept++) {
        free(filling.rows[kept]);
        free(filling.givers[kept]);
    }
    return good || error_no_memory(error, "what a schedule moves to the host");
}

void host_places_clear(struct host_places *places)
{
    free(places->waits);
    *places = (struct host_places){ NULL };
}
