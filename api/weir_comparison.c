#include <stdlib.h>

#include "api/weir_options.h"
#include "api/weir_pricing.h"
#include "partitioner/evaluate/refine.h"
#include "schedules/compare/comparison.h"

struct weir_comparison {
    const struct plan *plan;  // the plan that was run, owned by the caller; NULL: a schedule was run
    struct priced priced;
    struct measured_run run;
    struct comparison comparison;
};

// --- runs ------------------------------------------------------------------------------

static bool load(const struct weir_compare_options *options, struct measured_run *run, struct error *error)
{
    if (options->file_count == 0)
        return error_set(error, "weir_compare_options.files is needed: the file of a run, or one for each rank");
    const int64_t iteration = options->has_iteration ? (int64_t)options->iteration : TRACE_LAST;
    return measured_run_load(options->files, options->file_count, iteration, run, error);
}

// Compares the run with what has been priced, unless something has failed before.
static struct weir_comparison *finish(struct weir_comparison *comparison, bool good,
                                      const struct weir_compare_options *options, struct error *reason,
                                      struct weir_error *error)
{
    if (good && load(options, &comparison->run, reason)) {
        if (comparison_create(&comparison->comparison, comparison->priced.schedule, comparison->priced.network,
                              &comparison->run, NULL, reason))
            return comparison;
        if (reason->kind == ERROR_INPUT)
            error_at(reason, "%s", options->files[0]);
    }
    weir_comparison_free(comparison);
    tell(error, reason);
    return NULL;
}

static struct weir_comparison *create(struct error *error)
{
    struct weir_comparison *comparison = calloc(1, sizeof *comparison);
    if (!comparison)
        error_no_memory(error, "a comparison");
    return comparison;
}

struct weir_comparison *weir_plan_compare(const struct weir_plan *plan, const struct weir_compare_options *options,
                                          struct weir_error *error)
{
    struct weir_compare_options chosen;
    if (!given_compare_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    struct weir_comparison *comparison = create(&reason);
    const bool good = comparison && priced_of_plan(plan->plan, true, &comparison->priced, &reason);
    if (good)
        comparison->plan = plan->plan;
    return finish(comparison, good, &chosen, &reason, error);
}

struct weir_comparison *weir_schedule_compare(const struct weir_schedule *schedule,
                                              const struct weir_price_options *price,
                                              const struct weir_compare_options *options, struct weir_error *error)
{
    struct weir_price_options costs;
    struct weir_compare_options chosen;
    if (!given_price_options(price, &costs, error) || !given_compare_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    struct weir_comparison *comparison = create(&reason);
    const bool good = comparison && price_times(schedule->schedule, &costs, &comparison->priced, &reason);
    return finish(comparison, good, &chosen, &reason, error);
}

void weir_comparison_free(struct weir_comparison *comparison)
{
    if (!comparison)
        return;
    comparison_clear(&comparison->comparison);
    measured_run_clear(&comparison->run);
    priced_clear(&comparison->priced);
    free(comparison);
}

// --- texts -----------------------------------------------------------------------------

char *weir_comparison_document(const struct weir_comparison *comparison, struct weir_error *error)
{
    struct text text = { 0 };
    comparison_write(&comparison->comparison, &text);
    return hand_text(&text, error);
}

char *weir_comparison_text(const struct weir_comparison *comparison, struct weir_error *error)
{
    struct text text = { 0 };
    comparison_print(&comparison->comparison, &text);
    return hand_text(&text, error);
}

char *weir_comparison_notes(const struct weir_comparison *comparison, struct weir_error *error)
{
    struct text text = { 0 };
    measured_run_note(&comparison->run, &text);
    return hand_text(&text, error);
}

// --- profiles --------------------------------------------------------------------------

static struct profile *refined(const struct weir_comparison *comparison, const struct profile *profile,
                               struct error *error)
{
    const struct deviation *deviation = &comparison->comparison.deviation;
    if (!comparison->plan) {
        error_set(error, "the comparison is of a schedule, which has no layers: compare a plan with the run");
        return NULL;
    }
    struct profile *copy = copy_profile(profile, error);
    if (copy && profile_refine(copy, comparison->plan, deviation->rows, deviation->row_count, error))
        return copy;
    profile_free(copy);
    return NULL;
}

struct weir_profile *weir_profile_refine(const struct weir_profile *profile, const struct weir_comparison *comparison,
                                         struct weir_error *error)
{
    struct error reason = { 0 };
    struct profile *made = refined(comparison, profile->profile, &reason);
    return wrap_profile(made, &reason, error);
}
