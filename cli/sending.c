#include "cli/sending.h"

#include <string.h>

#include "cli/options.h"
#include "schedules/check.h"
#include "schedules/lower.h"
#include "schedules/lower_late.h"
#include "schedules/lower_timed.h"

static uint32_t take_sends(const char *argument, struct argp_state *state)
{
    if (strcmp(argument, "rendezvous") == 0 || strcmp(argument, "grouped") == 0)
        return 0;
    if (strncmp(argument, "eager:", 6) != 0)
        argp_error(state, "--sends: \"%s\" is none of rendezvous, eager:K, grouped", argument);
    return (uint32_t)option_count(argument + 6, "--sends", 0, CHECK_NEVER - 1, state);
}

static enum lowering take_lower(const char *argument, struct argp_state *state)
{
    static const char *const names[] = { [LOWER_EARLY] = "early", [LOWER_LATE] = "late", [LOWER_TIMED] = "timed",
                                         [LOWER_ALL] = "all" };
    for (unsigned i = LOWER_EARLY; i <= LOWER_ALL; i++)
        if (strcmp(names[i], argument) == 0)
            return (enum lowering)i;
    argp_error(state, "--lower: \"%s\" is none of early, late, timed, all", argument);
    return LOWER_UNSAID;
}

error_t sending_option(int key, char *argument, struct sending_options *options, struct argp_state *state)
{
    switch (key) {
    case KEY_SENDS:
        options->has_sends = true;
        options->grouped = strcmp(argument, "grouped") == 0;
        options->capacity = take_sends(argument, state);
        break;
    case KEY_LOWER:
        options->lower = take_lower(argument, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static bool replace(struct schedule **schedule, struct schedule *replacement)
{
    if (!replacement)
        return false;
    schedule_free(*schedule);
    *schedule = replacement;
    return true;
}

bool sending_strip(const struct sending_options *options, struct priced *subject, struct error *error)
{
    return options->lower == LOWER_UNSAID || !subject->schedule->lowered
        || replace(&subject->schedule, schedule_without_messages(subject->schedule, error));
}

bool sending_lower(const struct sending_options *options, struct priced *subject, struct error *error)
{
    if (!sending_strip(options, subject, error))
        return false;
    if (options->lower == LOWER_LATE) {
        // refuses a schedule in which no place for a receive is right
        struct schedule *early = schedule_lower(subject->schedule, error);
        schedule_free(early);
        return early && replace(&subject->schedule, schedule_lower_late(subject->schedule, error));
    }
    if (options->lower == LOWER_TIMED)
        return replace(&subject->schedule,
                       schedule_lower_timed(subject->schedule, NULL, subject->network, error));
    return true;
}
