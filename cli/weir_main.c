// weir COMMAND [options]: finds the command and lets it run.

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/out_of_memory.h"
#include "common/alike.h"
#include "common/clock.h"
#include "common/shown.h"
#include "common/terminal.h"
#include "common/wrap.h"

// In the order in which one meets them.
static const struct command *const commands[] = {
    &command_model,
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
    &command_export,
    &command_schedule,
    &command_check,
    &command_simulate,
    &command_verify,
    &command_train,
    &command_eval,
    &command_sample,
    &command_compare,
};
enum { COMMANDS = sizeof commands / sizeof commands[0], SAID = 8192, KEY_USAGE = 0x2000 };

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

// What argp and getopt say quotes arguments, and names among them are of files that others may have named. It is one
// sentence, and in a line of its own where one may read more.
static ssize_t write_shown(void *terminal, const char *bytes, size_t length)
{
    static const char more[] = "\nTry `";
    char said[SAID], shown[4 * sizeof said];
    snprintf(said, sizeof said, "%.*s", (int)length, bytes);
    char *end = strstr(said, more);
    if (!end)
        end = length > 0 && length < sizeof said && said[length - 1] == '\n' ? said + length - 1 : said + strlen(said);
    const bool ends = *end == '\n';
    *end = '\0';
    fprintf(terminal, "%s%s%s", shown_cut(said, SIZE_MAX, shown, sizeof shown), ends ? "\n" : "",
            ends ? end + 1 : "");
    return (ssize_t)length;
}

// What argp brings of its own has no -h.
static error_t take_help(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    switch (key) {
    case 'h':
    case '?':  // what argp has, which is not shown
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case KEY_USAGE:
        argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option help_options[] = {
    { "help", 'h', 0, 0, "Give this help list", -1 },
    { NULL, '?', 0, OPTION_ALIAS | OPTION_HIDDEN, NULL, -1 },
    { "usage", KEY_USAGE, 0, 0, "Give a short usage message", -1 },
    { 0 },
};
static const struct argp help_argp = { .options = help_options, .parser = take_help };

void command_parse(const struct argp *argp, int count, char **arguments, void *input)
{
    const struct argp_child both[] = { { argp, 0, NULL, 0 }, { &help_argp, 0, NULL, 0 }, { 0 } };
    const struct argp with_help = { .children = both };
    // Without the note that what is said of --long=X goes for -l X too, unless somebody formats help in their own way.
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
    argp_err_exit_status = 2;
    FILE *const terminal = stderr;
    static char buffer[SAID];
    FILE *const shown = fopencookie(terminal, "w", (cookie_io_functions_t){ .write = write_shown });
    error_t trouble = ENOMEM;
    if (shown) {
        setvbuf(shown, buffer, _IOFBF, sizeof buffer);  // so that all that is said comes at once
        stderr = shown;  // there is no other way to reach what getopt says
        trouble = argp_parse(&with_help, count, arguments, ARGP_NO_HELP, NULL, input);
        stderr = terminal;
        fclose(shown);
    }
    if (trouble) {
        fprintf(stderr, "weir: %s\n", strerror(trouble));
        exit(3);
    }
}

void command_say(const char *format, ...)
{
    static const char who[] = "weir: ";
    char sentence[16384], shown[4 * sizeof sentence];  // there may be no memory for it
    va_list arguments;
    va_start(arguments, format);
    strcpy(sentence, who);
    vsnprintf(sentence + strlen(who), sizeof sentence - strlen(who), format, arguments);
    va_end(arguments);
    shown_cut(sentence, SIZE_MAX, shown, sizeof shown);
    struct text wrapped = { 0 };
    const size_t columns = terminal_columns(STDERR_FILENO);
    if (columns > 0)
        wrap_add(&wrapped, shown, columns);
    fprintf(stderr, "%s\n", columns > 0 && !wrapped.failed ? wrapped.data : shown);
    text_clear(&wrapped);
}

bool command_say_lines(const char *file, struct text *lines, const char *which, struct error *error)
{
    if (lines->failed)
        return error_no_memory(error, "what is said of a file");
    for (char *line = lines->data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (strstr(line, which))
            command_say("%s%s%s", file, *file ? ": " : "", line);
    }
    return true;
}

int command_fail(const struct error *error)
{
    command_say("%s", error->text);
    return error->kind == ERROR_NONE ? ERROR_MACHINE : (int)error->kind;
}

char *command_help(struct text *list)
{
    struct error error = { 0 };
    char *all = text_take(list, &error);
    if (!all)
        exit(command_fail(&error));
    return all;
}

bool command_name_files(struct error *error, const char *file, const char *other)
{
    const char *names[2] = { file, other };
    for (size_t i = 0; i < 2; i++)
        if (names[i] && strcmp(names[i], "-") == 0)
            names[i] = "standard input";
    const bool is_named = strstr(error->text, names[0]) || (other && strstr(error->text, names[1]));
    if (error->kind != ERROR_INPUT || is_named || strncmp(error->text, "--", 2) == 0)
        return false;
    return other ? error_at(error, "%s with %s", names[0], names[1]) : error_at(error, "%s", names[0]);
}

static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

const volatile sig_atomic_t *command_interrupted(void)
{
    const struct sigaction action = { .sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND };
    sigaction(SIGINT, &action, NULL);
    return &interrupted;
}

static volatile sig_atomic_t asked_to_stop;
static atomic_llong asked_ns;

static void ask_to_stop(int signal_number)
{
    const int error_number = errno;
    const long long now_ns = (long long)clock_now_ns();
    if (!asked_to_stop) {
        asked_ns = now_ns;
        asked_to_stop = 1;
    } else if (now_ns - asked_ns >= 1000000000) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    errno = error_number;
}

const volatile sig_atomic_t *command_asked_to_stop(void)
{
    const struct sigaction action = { .sa_handler = ask_to_stop, .sa_flags = SA_RESTART };
    const int signals[] = { SIGINT, SIGTERM };
    for (size_t i = 0; i < 2; i++) {
        struct sigaction before;
        // What a shell runs in the background does not hear the Ctrl-C that others are meant by.
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
    return &asked_to_stop;
}

static volatile sig_atomic_t asked_to_keep;

static void ask_to_keep(int signal_number)
{
    (void)signal_number;
    asked_to_keep = 1;
}

volatile sig_atomic_t *command_asked_to_keep(void)
{
    sigaction(SIGUSR1, &(struct sigaction){ .sa_handler = ask_to_keep, .sa_flags = SA_RESTART }, NULL);
    return &asked_to_keep;
}

int command_write(struct text *text, const char *path, int code)
{
    struct error error = { 0 };
    const bool good = text_save(text, path ? path : "-", &error);
    text_clear(text);
    return good ? code : command_fail(&error);
}

void command_wrap(struct text *text, const char *path)
{
    const size_t columns = !path || strcmp(path, "-") == 0 ? terminal_columns(STDOUT_FILENO) : 0;
    if (columns == 0 || text->failed || text->length == 0)
        return;
    struct text wrapped = { 0 };
    wrap_add(&wrapped, text->data, columns);
    text_clear(text);
    *text = wrapped;
}

int command_print(struct text *text, const char *path, int code)
{
    command_wrap(text, path);
    return command_write(text, path, code);
}

// What was printed must have arrived, or a full disk would look like success.
static void flush_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    fprintf(stderr, "weir: standard output: cannot be written: %s\n", strerror(errno));
    fflush(stderr);
    _exit(ERROR_MACHINE);
}

// The command, called by both its names so that usage lines read `weir schedule`.
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

// weir help COMMAND is weir COMMAND --help.
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
