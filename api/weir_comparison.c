#include <stdlib.h>

#include "api/weir_options.h"
#include "api/weir_pricing.h"
#include "partitioner/evaluate/belonging.h"
#include "partitioner/evaluate/expert_usage.h"
#include "partitioner/evaluate/refine.h"
#include "schedules/compare/comparison.h"

struct weir_comparison {
    const struct plan *plan;  // the plan that was run, owned by the caller; NULL: a schedule was run
    struct priced priced;
    struct measured_run run;
    struct comparison comparison;
    struct profile_routing *routing;  // of experts, as the run counted it, or NULL
    struct stage_exchange *within;    // what devices of experts exchange
    bool lacks_counts;                // the plan has experts, and the run has counted nothing
};

// --- runs ------------------------------------------------------------------------------

static bool load(const struct weir_compare_options *options, struct measured_run *run, struct error *error)
{
    if (options->file_count == 0)
        return error_set(error, "weir_compare_options.files is needed: the file of a run, or one for each rank");
    const int64_t iteration = options->has_iteration ? (int64_t)options->iteration : TRACE_LAST;
    return measured_run_load(options->files, options->file_count, iteration, run, error);
}

// Reads what the run has counted of the plan's experts.
static bool load_experts(struct weir_comparison *comparison, const struct weir_compare_options *options,
                         struct error *error)
{
    const struct profile *profile = options->profile ? options->profile->profile : NULL;
    const struct plan_company with = { NULL, profile ? profile->hash : NULL };
    if (!comparison->plan)
        return !profile
            || error_set(error, "weir_compare_options.profile goes with a plan, and a schedule has no layers");
    if (!plan_belongs(comparison->plan, with, BELONGS_BY_PROFILE, BELONGS_BY_PROFILE, NULL, error)
        || !expert_routing_of(&comparison->run, options->files[0], &comparison->routing, error))
        return false;
    comparison->lacks_counts = !comparison->routing && expert_layers_are_in(profile);
    return !comparison->routing
        || (comparison->within = expert_exchanges_find(comparison->plan, profile, comparison->routing, error));
}

static bool compare(struct weir_comparison *comparison, const struct weir_compare_options *options, struct error *error)
{
    struct comparison *made = &comparison->comparison;
    if (!comparison_create(made, comparison->priced.schedule, comparison->priced.network, &comparison->run,
                           comparison->within, error)) {
        if (error->kind == ERROR_INPUT)
            error_at(error, "%s", options->files[0]);
        return false;
    }
    return !comparison->routing
        || expert_usage_find(comparison->plan, options->profile ? options->profile->profile : NULL, comparison->routing,
                             &made->experts, &made->expert_count, error);
}

// Compares the run with what has been priced, unless something has failed before.
static struct weir_comparison *finish(struct weir_comparison *comparison, bool good,
                                      const struct weir_compare_options *options, struct error *reason,
                                      struct weir_error *error)
{
    if (good && load(options, &comparison->run, reason) && load_experts(comparison, options, reason)
        && compare(comparison, options, reason))
        return comparison;
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
    routing_free(comparison->routing);
    free(comparison->within);
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
    if (comparison->lacks_counts)
        text_add(&text, "the run has no counts of experts: their routing is not compared\n");
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
    if (comparison->routing) {
        error_set(error, "the run counted the routing of experts, which only `weir compare --refine` takes into a "
                         "profile");
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
