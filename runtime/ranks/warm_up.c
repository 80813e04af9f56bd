#include <stdlib.h>

#include "runtime/ranks/interpreting.h"
#include "schedules/board.h"

// Gives a micro-batch the first slot of each class that its stage has; NO_SLOT as `slot` takes them back.
static void lend(struct interpreter *interpreter, struct action action, uint32_t slot)
{
    const struct local *local = flights_local(&interpreter->flights, action);
    struct flight *flight = flights_flight(&interpreter->flights, action);
    for (int class = 0; class < SLAB_CLASSES; class++)
        flight->slots[class] = local->memory->rows[class].count > 0 ? slot : NO_SLOT;
    struct flight *first = flights_flight(&interpreter->flights, flights_first_part(action));
    first->slots[SLAB_SHARED_BY_PARTS] = flight->slots[SLAB_SHARED_BY_PARTS];
    first->slots[SLAB_SHARED_BY_PARTS_GRADIENT] = flight->slots[SLAB_SHARED_BY_PARTS_GRADIENT];
    flight->weights = local->ring.newest;
    flight->was_recomputed = false;
}

// The same for the neighbours on this rank, since an action reads where they have written.
static void lend_all(struct interpreter *interpreter, struct action action, uint32_t slot)
{
    struct action below = action, above = action;
    below.stage--;
    above.stage++;
    lend(interpreter, action, slot);
    if (flights_has_below(&interpreter->flights, action))
        lend(interpreter, below, slot);
    if (flights_has_above(&interpreter->flights, action))
        lend(interpreter, above, slot);
}

static bool do_once(struct interpreter *interpreter, struct action action, struct error *error)
{
    struct local *local = flights_local(&interpreter->flights, action);
    if (local->does->warms_up && action.kind == ACTION_STEP)
        warm_up_update(interpreter, local);
    if (!local->does->warms_up || !is_compute(action))
        return is_well(interpreter, action, error);
    lend_all(interpreter, action, 0);
    const bool good = compute_once(interpreter, action, error);
    lend_all(interpreter, action, NO_SLOT);
    return good;
}

bool warm_up(struct interpreter *interpreter, struct error *error)
{
    const struct action_list *list = &interpreter->needs.schedule->lists[interpreter->needs.rank];
    const uint32_t stages = interpreter->needs.schedule->stages;
    bool (*seen)[ACTION_KINDS] = calloc(stages, sizeof *seen);
    bool good = seen || error_no_memory(error, "the actions of a rank");
    for (size_t i = 0; good && i < list->count; i++) {
        const struct action action = list->at[i];
        if (!seen[action.stage][action.kind])
            good = do_once(interpreter, action, error);
        seen[action.stage][action.kind] = true;
    }
    free(seen);
    return good && await_device(interpreter, error);
}
