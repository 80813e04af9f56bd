#include "partitioner/evaluate/belonging.h"

#include <string.h>

#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/reprice.h"

static bool is_of_model(const struct plan *plan, const char *model, struct error *error)
{
    return !model || strcmp(plan->model, model) == 0
        || error_set_kind(error, ERROR_ANSWER, "the plan is one of the model \"%.80s\", not of \"%.80s\"",
                          plan->model, model);
}

static bool is_of_profile(const struct plan *plan, const char *hash, struct error *error)
{
    return !hash || strcmp(plan->profile_hash, hash) == 0
        || error_set_kind(error, ERROR_ANSWER, "the plan was made of the profile %s, and this is %s",
                          plan->profile_hash, hash);
}

static bool fits(const struct plan *plan, struct error *error)
{
    struct plan_excess excess;
    struct text why = { 0 };
    if (!plan->cluster)  // made by hand, for no devices
        return true;
    if (!plan_find_excess(plan, plan->cluster, &excess, error))
        return false;
    if (excess.lacks_bytes == 0)
        return true;
    plan_say_excess(plan, &excess, &why);
    if (why.failed)
        error_no_memory(error, "what is said of a plan");
    else
        error_set_kind(error, ERROR_ANSWER, "the plan does not fit: %s", why.data);
    text_clear(&why);
    return false;
}

static bool foretells(const struct plan *plan, struct error *error)
{
    struct error why = { 0 };
    if (plan->iteration_ns == 0 || plan_evaluate_prediction(plan, &why))
        return true;
    if (why.kind != ERROR_ANSWER)
        return error_hand_on(error, &why);
    return error_set_kind(error, ERROR_ANSWER, "the plan was changed since it was made: %s (weir price prices it anew)",
                          why.text);
}

static bool judge(enum belonging kind, const struct plan *plan, struct plan_company with, struct error *error)
{
    switch (kind) {
    case BELONGS_BY_MODEL:
        return is_of_model(plan, with.model, error);
    case BELONGS_BY_PROFILE:
        return is_of_profile(plan, with.profile_hash, error);
    case BELONGS_BY_MEMORY:
        return fits(plan, error);
    case BELONGS_BY_NUMBERS:
        return foretells(plan, error);
    }
    return true;
}

bool plan_belongs(const struct plan *plan, struct plan_company with, unsigned asked, unsigned refused,
                  struct text *said, struct error *error)
{
    for (unsigned kind = BELONGS_BY_MODEL; kind <= BELONGS_BY_NUMBERS; kind *= 2) {
        struct error why = { 0 };
        if (!(asked & kind) || judge(kind, plan, with, &why))
            continue;
        if (why.kind != ERROR_ANSWER)
            return error_hand_on(error, &why);
        if (refused & kind)
            return error_set(error, "%s", why.text);
        text_add(said, "%s\n", why.text);
        if (kind == BELONGS_BY_MODEL)  // its profile is another one, too
            asked &= ~(unsigned)BELONGS_BY_PROFILE;
    }
    return true;
}
