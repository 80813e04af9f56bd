#include "partitioner/stability/plan_keep.h"

#include <stdio.h>

#include "common/number.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/reprice.h"

static void say_taken(struct keeping *keeping, const char *name, const char *why)
{
    snprintf(keeping->why, sizeof keeping->why, "%.120s is not kept: %.230s; a new plan is taken", name, why);
}

// The old plan at today's prices. NULL if it is not a plan any more, which keeping->why then says, or with an error
// if the machine fails.
static struct plan *reprice_old(const struct plan *old, const char *name, const struct search_request *request,
                                struct keeping *keeping, struct error *error)
{
    struct error why = { 0 };
    struct plan_excess excess = { 0 };
    struct plan *repriced = plan_reprice(old, request, &why);
    struct text text = { 0 };
    if (repriced && plan_find_excess(repriced, repriced->cluster, &excess, &why) && excess.lacks_bytes > 0) {
        plan_say_excess(repriced, &excess, &text);
        if (text.failed)
            error_no_memory(&why, "what is said of a plan");
        else
            error_set_kind(&why, ERROR_ANSWER, "it does not fit any more, %s", text.data);
    }
    text_clear(&text);
    if (repriced && why.kind == ERROR_NONE && plan_evaluate(repriced, request->profile, &why))
        return repriced;
    plan_free(repriced);
    if (why.kind == ERROR_MACHINE)
        error_hand_on(error, &why);
    else
        say_taken(keeping, name, why.text);
    return NULL;
}

bool plan_can_be_kept(const struct plan *old, const char *name, const struct search_request *request,
                      struct keeping *keeping, bool *can, struct error *error)
{
    *keeping = (struct keeping){ 0 };
    struct plan *repriced = reprice_old(old, name, request, keeping, error);
    *can = repriced != NULL;
    plan_free(repriced);
    return error->kind == ERROR_NONE;
}

static bool gains_enough(uint64_t old_ns, uint64_t new_ns, uint32_t gain_ppm)
{
    return new_ns < old_ns
        && (unsigned __int128)(old_ns - new_ns) * 1000000 > (unsigned __int128)old_ns * gain_ppm;
}

static void say_compared(struct keeping *keeping, const char *name, uint32_t gain_ppm)
{
    char before[NUMBER_SIZE], now[NUMBER_SIZE];
    time_format(keeping->old_ns, before);
    time_format(keeping->new_ns, now);
    const double gain = keeping->old_ns && keeping->new_ns < keeping->old_ns
        ? 100 * (double)(keeping->old_ns - keeping->new_ns) / (double)keeping->old_ns : 0;
    if (!keeping->new_ns)
        snprintf(keeping->why, sizeof keeping->why, "%.120s is kept: it takes %s, and the search found none", name,
                 before);
    else if (!keeping->kept)
        snprintf(keeping->why, sizeof keeping->why,
                 "%.120s is not kept: the new plan takes %s instead of %s, a gain of %.2f %%, more than %.6g %%", name,
                 now, before, gain, 1e-4 * gain_ppm);
    else if (keeping->new_ns >= keeping->old_ns)
        snprintf(keeping->why, sizeof keeping->why, "%.120s is kept: it takes %s, and no better plan was found", name,
                 before);
    else
        snprintf(keeping->why, sizeof keeping->why,
                 "%.120s is kept: a new plan would take %s instead of %s, a gain of %.2f %%, no more than %.6g %%",
                 name, now, before, gain, 1e-4 * gain_ppm);
}

bool plan_keep(const struct plan *old, const char *name, const struct search_request *request, uint32_t gain_ppm,
               struct plan **plan, const struct error *found_none, struct keeping *keeping, struct error *error)
{
    *keeping = (struct keeping){ .new_ns = *plan ? (*plan)->iteration_ns : 0 };
    struct plan *repriced = reprice_old(old, name, request, keeping, error);
    if (error->kind != ERROR_NONE)
        return false;
    if (!repriced)
        return *plan || error_hand_on(error, found_none);
    keeping->old_ns = repriced->iteration_ns;
    keeping->kept = !*plan || !gains_enough(keeping->old_ns, keeping->new_ns, gain_ppm);
    say_compared(keeping, name, gain_ppm);
    if (!keeping->kept) {
        plan_free(repriced);
        return true;
    }
    const struct certificate none = { .by = BY_ENUMERATION };
    plan_certify_by(repriced, *plan ? &(*plan)->certificate : &none, true);
    plan_free(*plan);
    *plan = repriced;
    return true;
}
