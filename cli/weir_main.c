// weir COMMAND [options]: finds the command and runs it.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/out_of_memory.h"
#include "common/alike.h"

// In the order in which a new user needs them.
static const struct command *const commands[] = {
    &command_model,
    &command_data,
    &command_profile,
    &command_estimate,
    &command_import,
    &command_partition,
    &command_explain,
    &command_price,
    &command_keep,
    &command_front,
    &command_sweep,
    &command_bottleneck,
    &command_place,
    &command_export,
    &command_schedule,
    &command_check,
    &command_simulate,
    &command_verify,
    &command_train,
    &command_eval,
    &command_score,
    &command_sample,
    &command_compare,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *to)
{
    fprintf(to, "Usage: weir COMMAND [options]\n"
                "Plans, simulates and runs pipeline-parallel training.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->about);
    fprintf(to, "\n`weir help COMMAND` says more, with an example; so does `weir COMMAND --help`.\n"
                "Exit codes: 0 done and good; 1 done and the answer is no; 2 usage or input;\n"
                "3 the machine or a rank failed; 4 a training run was stopped and can go on.\n");
}

// Checks that all output was written; otherwise a full disk would look like success.
static void flush_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    fprintf(stderr, "weir: standard output: cannot be written: %s\n", strerror(errno));
    fflush(stderr);
    _exit(ERROR_MACHINE);
}

// Runs the command under both its names, so that usage lines read `weir schedule`.
static int run(const struct command *command, int count, char **arguments)
{
    char name[64];
    snprintf(name, sizeof name, "weir %s", command->name);
    arguments[0] = name;
    return command->run(count, arguments);
}

static const struct command *find_command(const char *name)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
        alike_try(&alike, name, commands[i]->name);
    }
    command_say("there is no command \"%s\"%s (weir --help lists them)", name, alike_said(&alike, said));
    return NULL;
}

// weir help COMMAND is the same as weir COMMAND --help.
static int help(int count, char **arguments)
{
    if (count == 0 || strcmp(arguments[0], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    char more[] = "--help", *asked[] = { arguments[0], more, NULL, NULL };
    const struct command *command = find_command(arguments[0]);
    if (!command)
        return 2;
    if (count == 2 && command == &command_schedule && strcmp(arguments[1], "search") == 0) {
        asked[1] = arguments[1];
        asked[2] = more;
    } else if (count > 1) {
        command_say("help is for one command, not also \"%s\"", arguments[1]);
        return 2;
    }
    return run(command, asked[2] ? 3 : 2, asked);
}

static bool is_one_of(const char *name, const char *const names[])
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

int main(int count, char **arguments)
{
    atexit(flush_output);
    out_of_memory_say();
    if (count < 2) {
        print_help(stderr);
        return 2;
    }
    const char *name = arguments[1];
    if (is_one_of(name, (const char *const[]){ "help", "--help", "-h", "-?", NULL }))
        return help(strcmp(name, "help") == 0 ? count - 2 : 0, arguments + 2);
    if (strcmp(name, "--version") == 0) {
        printf("weir %s\n", WEIR_VERSION);
        return 0;
    }
    const struct command *command = find_command(name);
    return command ? run(command, count - 1, arguments + 1) : 2;
}
