// A command that takes the options of a plan beside its own: price, keep, front, bottleneck.
#ifndef CLI_PLAN_COMMAND_H
#define CLI_PLAN_COMMAND_H

#include "cli/command.h"
#include "cli/plan_request.h"

enum { PLAN_COMMAND_OWN = 2 };

struct plan_command {
    struct plan_options *plan;
    struct shared_options *output;  // --json, -o
    // Its own groups of options, with what each fills in; fewer end in an argp of NULL.
    struct argp_child own[PLAN_COMMAND_OWN];
    void *inputs[PLAN_COMMAND_OWN];
    bool replaces;  // whether they stand in front of the plan's, and take what both have
    // What --help leaves out of the plan's options (NULL: nothing) and of the devices' (NULL: all of them), and where
    // the rest of the latter stands; States are left out.
    const char *const *without, *const *without_devices;
    const char *devices_heading;
    // Refuses what does not go together, once all options are there.
    void (*check)(void *given, struct argp_state *state);
    void *given;
    const char *doc;
};

// Parses the arguments of a command about a PROFILE.
void plan_command_parse(const struct plan_command *command, int count, char **arguments);

#endif
