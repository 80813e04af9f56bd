#include "cli/capacities.h"

#include <inttypes.h>

#include "cli/command.h"
#include "common/shown.h"
#include "partitioner/experts/expert_capacities.h"
#include "profiler/expert_routing.h"

struct choices {
    struct profile *profiles[MOST_CAPACITIES + 1];
    struct capacity_choice at[MOST_CAPACITIES + 1];
    size_t count;
};

static bool load(const struct capacity_options *options, const char *first, struct choices *choices,
                 struct error *error)
{
    for (size_t i = 0; i <= options->count; i++) {
        const char *file = i == 0 ? first : options->files[i - 1];
        struct profile *profile = profile_load(file, error);
        if (!profile)
            return false;
        choices->profiles[choices->count] = profile;
        choices->at[choices->count++] = (struct capacity_choice){ .profile = profile, .file = file };
    }
    return expert_capacities_sort(choices->at, choices->count, error);
}

// Leaves out those that drop too much, which come last.
static bool limit(const struct capacity_options *options, struct choices *choices, struct error *error)
{
    size_t count = choices->count;
    while (options->has_most_dropped && count > 0 && choices->at[count - 1].dropped_ppm > options->most_dropped_ppm)
        count--;
    if (count == 0)
        return error_set_kind(error, ERROR_ANSWER, "--most-dropped: %s drops %.2f %% of all choices, and there is no"
                              " profile with fewer: take a larger capacity", choices->at[0].file,
                              (double)choices->at[0].dropped_ppm / 1e4);
    choices->count = count;
    return true;
}

static void tell(const struct choices *choices, size_t i, struct text *said)
{
    const struct capacity_choice *choice = &choices->at[i];
    shown_add(said, "The plan is of %s. This capacity drops %.2f %% of all choices, by the %" PRIu64 " micro-batches of"
              " its routing.", choice->profile->model, (double)choice->dropped_ppm / 1e4,
              choice->profile->routing->batches);
    if (i > 0)
        text_add(said, " No plan fits by one that drops fewer.");
}

static int find(const struct choices *choices, struct plan_options *plan, const struct plan_finding *finding)
{
    int code = ERROR_ANSWER;
    for (size_t i = 0; code == ERROR_ANSWER && i < choices->count; i++) {
        struct text said = { 0 };
        struct error error = { 0 };
        struct plan_finding one = *finding;
        tell(choices, i, &said);
        plan->profile = choices->at[i].file;
        one.has_others = i + 1 < choices->count;
        one.note = said.data;
        code = said.failed ? command_fail((error_no_memory(&error, "a plan"), &error)) : plan_find_run(&one);
        text_clear(&said);
    }
    return code;
}

int capacities_run(const struct capacity_options *options, struct plan_options *plan,
                   const struct plan_finding *finding)
{
    struct choices choices = { .count = 0 };
    struct error error = { 0 };
    const bool good = load(options, plan->profile, &choices, &error) && limit(options, &choices, &error);
    const int code = good ? find(&choices, plan, finding) : command_fail(&error);
    for (size_t i = 0; i <= options->count; i++)
        profile_free(choices.profiles[i]);
    return code;
}
