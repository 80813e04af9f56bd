#include "cli/plan_stability.h"

#include <string.h>

#include "cli/command.h"
#include "cli/plan_use.h"
#include "common/json.h"
#include "common/progress.h"
#include "common/shown.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"
#include "partitioner/stability/noisy_profile.h"
#include "partitioner/stability/plan_keep.h"
#include "partitioner/stability/regret.h"

enum { KEY_KEEP = KEY_OWN, KEY_GAIN, KEY_NOISE, KEY_DRAWS, KEY_SEED, KEY_ROBUST };
enum { USUAL_GAIN_PPM = 20000, USUAL_DRAWS = 100, USUAL_SEED = 1, MOST_DRAWS = 100000 };

static const struct argp_option options[] = {
    { "plan", KEY_KEEP, "FILE", 0, "The plan to keep unless another gains more", 0 },
    { "gain", KEY_GAIN, "PERCENT", 0, "Gain worth a change, of an iteration's time (2%)", 0 },
    { "noise", KEY_NOISE, "PERCENT", 0, "Say what is lost when layers vary by 3% (standard deviation), \"spread\": as"
      " they were measured to, \"spread,3%\": the others by 3%", 1 },
    { "draws", KEY_DRAWS, "N", 0, "How often the model is planned anew (100)", 0 },
    { "seed", KEY_SEED, "N", 0, "Of the draws (1)", 0 },
    { "robust", KEY_ROBUST, 0, 0, "Take the plan that loses least in 95 % of draws", 0 },
    { 0 },
};

static error_t complete(struct stability_options *given, struct argp_state *state)
{
    if (!given->has_noise && (given->has_draws || given->has_seed || given->robust))
        argp_error(state, "--draws, --seed and --robust are of --noise, which is missing");
    if (given->has_gain && !given->keep && !given->has_noise)
        argp_error(state, "--gain says when a plan is worth a change; give --plan or --noise too");
    if (given->keep && given->robust)
        argp_error(state, "--plan or --robust, not both: one stays with a plan, the other looks for one");
    if (!given->has_gain)
        given->gain_ppm = USUAL_GAIN_PPM;
    if (!given->has_draws)
        given->draws = USUAL_DRAWS;
    if (!given->has_seed)
        given->seed = USUAL_SEED;
    return 0;
}

// "3%", "spread", or "spread,3%": layers vary as they were measured to, and those without a spread by a share.
static void take_noise(const char *argument, struct noise_amount *noise, struct argp_state *state)
{
    static const char spread[] = "spread";
    const size_t length = sizeof spread - 1;
    noise->by_spread = strncmp(argument, spread, length) == 0 && (!argument[length] || argument[length] == ',');
    const char *share = noise->by_spread ? argument + length + (argument[length] == ',') : argument;
    noise->ppm = noise->by_spread && !argument[length] ? 0 : option_share(share, "--noise", NOISE_MOST_PPM, state);
}

static const struct option_field fields[] = {
    { KEY_KEEP, OPTION_FIELD(struct stability_options, keep) },
    { KEY_GAIN, OPTION_FIELD_GIVEN(struct stability_options, gain_ppm, has_gain), .is_share = true, .most = 1000000 },
    { KEY_DRAWS, OPTION_FIELD_GIVEN(struct stability_options, draws, has_draws), .least = 1, .most = MOST_DRAWS },
    { KEY_SEED, OPTION_FIELD_GIVEN(struct stability_options, seed, has_seed), .most = JSON_MAX },
    { KEY_ROBUST, OPTION_FIELD(struct stability_options, robust) },
    { 0 },
};

static error_t parse_stability_option(int key, char *argument, struct argp_state *state)
{
    struct stability_options *given = state->input;
    switch (key) {
    case KEY_NOISE:
        given->has_noise = true;
        take_noise(argument, &given->noise, state);
        return 0;
    case ARGP_KEY_END:
        return complete(given, state);
    default:
        return option_take(options, fields, key, argument, given, state);
    }
}

const struct argp stability_argp = { .options = options, .parser = parse_stability_option };

// --- noise --------------------------------------------------------------------------------

static void say_noise(const struct stability_options *given, const struct profile *profile, const struct regret *regret,
                      struct text *text)
{
    const size_t layers = profile->layer_count, spreads = given->noise.by_spread ? noisy_profile_spreads(profile) : 0;
    text_add(text, "\nWhen layers vary (");
    if (spreads > 0)
        text_add(text, "%zu of %zu as they were measured to%s", spreads, layers,
                 spreads < layers ? ", the others " : "");
    if (spreads < layers)
        text_add(text, given->noise.ppm ? "by %.6g %%" : "not at all", 1e-4 * given->noise.ppm);
    text_add(text, "; %u draws of seed %llu)", regret->draws, (unsigned long long)given->seed);
}

static void say_regret(const struct regret *regret, struct text *text)
{
    text_add(text, "a median of %.2f %%, a mean of %.2f %%, up to %.2f %% in 95 of 100 draws and %.2f %% in all",
             100 * regret->median, 100 * regret->mean, 100 * regret->p95, 100 * regret->most);
}

static void say_measured(const struct stability_options *given, const struct profile *profile,
                         const struct regret *regret, struct text *text)
{
    const double draws = regret->draws ? regret->draws : 1;
    say_noise(given, profile, regret, text);
    if (regret->draws == 0) {
        text_add(text, " nothing is known: not one draw came to its end.\n");
        return;
    }
    if (regret->beaten == 0) {
        text_add(text, " no better plan was found in any.\n");
        return;
    }
    text_add(text, " another plan is better in %.0f %% of draws, by more than %.6g %% in %.0f %%. The plan then loses ",
             100 * regret->beaten / draws, 1e-4 * given->gain_ppm, 100 * regret->exceeded / draws);
    say_regret(regret, text);
    text_add(text, ".\n");
}

static void say_steady(const struct stability_options *given, const struct profile *profile, const struct plan *plan,
                       const struct plan *steady, const struct regret *before, const struct regret *after,
                       struct text *text)
{
    const double longer = plan->iteration_ns > 0
        ? 100 * ((double)steady->iteration_ns / (double)plan->iteration_ns - 1) : 0;
    say_noise(given, profile, after, text);
    text_add(text, " this plan is the steadiest of %u: it loses ", after->candidates);
    say_regret(after, text);
    if (plan_same_decision(plan, steady))
        text_add(text, ". It is also the best without noise.\n");
    else
        text_add(text,
                 ". The best without noise takes %.2f %% less then, and loses up to %.2f %% in 95 of 100 draws.\n",
                 100 * longer / (100 + longer), 100 * before->p95);
}

static void show(void *self, size_t done, size_t all)
{
    progress_show(self, "%zu of %zu draws", done, all);
}

static bool judge_noise(const struct stability_options *given, const struct search_request *request,
                        struct plan **plan, struct text *text, struct error *error)
{
    struct progress progress = { 0 };
    const struct regret_request asked = { .search = request, .noise = given->noise, .draws = given->draws,
                                          .seed = given->seed, .gain_ppm = given->gain_ppm, .progress = show,
                                          .self = &progress };
    struct regret before, after;
    if (!given->robust) {
        const bool good = regret_measure(&asked, *plan, &before, error);
        progress_end(&progress);
        if (good)
            say_measured(given, request->profile, &before, text);
        return good;
    }
    struct plan *steady = regret_steady(&asked, *plan, &before, &after, error);
    progress_end(&progress);
    if (!steady)
        return false;
    say_steady(given, request->profile, *plan, steady, &before, &after, text);
    plan_free(*plan);
    *plan = steady;
    return true;
}

// --- the whole ----------------------------------------------------------------------------

static bool judge_keep(const struct stability_options *given, const struct search_request *request,
                       const struct plan *kept, const struct error *found_none, struct plan **plan, struct text *text,
                       struct error *error)
{
    struct keeping keeping;
    if (!plan_keep(kept, given->keep, request, given->gain_ppm, plan, found_none, &keeping, error))
        return false;
    text_add(text, "\n");
    shown_add(text, "%s.", keeping.why);
    text_add(text, "\n");
    return true;
}

// Says right away if the plan cannot be kept. A new plan is searched for all the same, but a user who gave the wrong
// file need not wait for it.
static bool say_at_once(const struct stability_options *given, const struct search_request *request,
                        const struct plan *kept, struct error *error)
{
    const struct plan_company with = { .model = request->profile->model };
    struct keeping keeping;
    bool can = false;
    if (!plan_use(kept, given->keep, with, BELONGS_BY_MODEL, 0, error)
        || !plan_can_be_kept(kept, given->keep, request, &keeping, &can, error))
        return false;
    if (can)
        return true;
    // If the requested order does not exist, there will be no new plan either.
    struct schedule *order = search_is_free(request) ? NULL : search_order(request, request->micro_batches, error);
    const bool may_be_planned = order || search_is_free(request);
    schedule_free(order);
    if (may_be_planned)
        command_say("%s", keeping.why);
    return may_be_planned;
}

bool stability_check(const struct stability_options *given, const struct search_request *request,
                     const struct plan *kept, struct error *error)
{
    if (given->noise.by_spread && noisy_profile_spreads(request->profile) == 0)
        return error_named(error, "--noise spread: the profile does not say how much its layers vary; give a share such"
                                " as 3%%");
    return !kept || say_at_once(given, request, kept, error);
}

bool stability_judge(const struct stability_options *given, const struct search_request *request,
                     const struct plan *kept, const struct error *found_none, struct plan **plan, struct text *text,
                     struct error *error)
{
    if (kept && !judge_keep(given, request, kept, found_none, plan, text, error))
        return false;
    if (!*plan)
        return error_hand_on(error, found_none);
    return !given->has_noise || judge_noise(given, request, plan, text, error);
}
