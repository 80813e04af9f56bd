// A command that takes the options of a plan beside its own: price, keep, front, bottleneck.
#ifndef CLI_PLAN_COMMAND_H
#define CLI_PLAN_COMMAND_H

#include "cli/command.h"
#include "cli/plan_request.h"

enum { PLAN_COMMAND_OWN = 2 };

struct plan_command {
    struct plan_options *plan;
    struct shared_options *output;  // --json, -o
    // Its own groups of options, each with the input that it fills in; an argp of NULL ends a shorter list.
    struct argp_child own[PLAN_COMMAND_OWN];
    void *inputs[PLAN_COMMAND_OWN];
    bool replaces;  // its own groups come before the plan's, and take the options that both have
    // What --help hides: which of the plan's options (NULL: none), and which of the options about devices (NULL:
    // all). The latter are shown under `devices_heading`. Options about how states are held are hidden.
    const char *const *without, *const *without_devices;
    const char *devices_heading;
    // Refuses options that exclude each other, after all options are parsed.
    void (*check)(void *given, struct argp_state *state);
    void *given;
    const char *doc;
};

// Parses the arguments of a command about a PROFILE. A usage error ends the program.
void plan_command_parse(const struct plan_command *command, int count, char **arguments);

#endif
