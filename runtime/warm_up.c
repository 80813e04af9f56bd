#include <stdlib.h>

#include "runtime/interpreting.h"

// Lends a stage the first slot of each class it has, for a micro-batch; `slot` NO_SLOT takes them back.
static void lend(struct interpreter *in, struct action action, uint32_t slot)
{
    const struct local *local = flights_local(&in->flights, action);
    struct flight *flight = flights_flight(&in->flights, action);
    for (int class = 0; class < SLAB_CLASSES; class++)
        flight->slots[class] = local->memory->rows[class].count > 0 ? slot : NO_SLOT;
    struct flight *first = flights_flight(&in->flights, flights_first_part(action));
    first->slots[SLAB_CARRIED] = flight->slots[SLAB_CARRIED];
    first->slots[SLAB_CARRIED_GRADIENT] = flight->slots[SLAB_CARRIED_GRADIENT];
    flight->weights = local->ring.newest;
    flight->was_recomputed = false;
}

// An action reads where its neighbours on the rank have written.
static void lend_all(struct interpreter *in, struct action action, uint32_t slot)
{
    struct action below = action, above = action;
    below.stage--;
    above.stage++;
    lend(in, action, slot);
    if (flights_has_below(&in->flights, action))
        lend(in, below, slot);
    if (flights_has_above(&in->flights, action))
        lend(in, above, slot);
}

static bool computes(struct action action)
{
    return action.kind == ACTION_F || action.kind == ACTION_B || action.kind == ACTION_I || action.kind == ACTION_W
        || action.kind == ACTION_R;
}

static bool do_once(struct interpreter *in, struct action action, struct error *error)
{
    struct local *local = flights_local(&in->flights, action);
    if (local->does->warms_up && action.kind == ACTION_STEP)
        warm_up_update(in, local);
    if (!local->does->warms_up || !computes(action))
        return is_well(in, action, error);
    lend_all(in, action, 0);
    const bool good = compute_once(in, action, error);
    lend_all(in, action, NO_SLOT);
    return good;
}

bool warm_up(struct interpreter *in, struct error *error)
{
    const struct action_list *list = &in->needs.schedule->lists[in->needs.rank];
    const uint32_t stages = in->needs.schedule->stages;
    bool (*seen)[ACTION_KINDS] = calloc(stages, sizeof *seen);
    bool good = seen || error_no_memory(error, "the actions of a rank");
    for (size_t i = 0; good && i < list->count; i++) {
        const struct action action = list->at[i];
        if (!seen[action.stage][action.kind])
            good = do_once(in, action, error);
        seen[action.stage][action.kind] = true;
    }
    free(seen);
    return good && await_device(in, error);
}
