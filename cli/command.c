#include "cli/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/shown.h"
#include "common/terminal.h"
#include "common/wrap.h"

enum { SAID = 8192, KEY_USAGE = 0x2000 };

// Messages of argp and getopt quote arguments, which may be names of files from elsewhere. This writes a message as
// one sentence with unprintable characters shown, and keeps what follows it on a line of its own.
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

// argp's own help has no -h.
static error_t take_help(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    switch (key) {
    case 'h':
    case '?':  // argp's own key, which is not shown
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
    // Without the note that a description of --long=X also applies to -l X, unless the user formats help differently.
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
    argp_err_exit_status = 2;
    FILE *const terminal = stderr;
    static char buffer[SAID];
    FILE *const shown = fopencookie(terminal, "w", (cookie_io_functions_t){ .write = write_shown });
    error_t trouble = ENOMEM;
    if (shown) {
        setvbuf(shown, buffer, _IOFBF, sizeof buffer);  // so that the whole message comes in one piece
        stderr = shown;  // getopt's messages cannot be redirected in another way
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
    char sentence[16384], shown[4 * sizeof sentence];  // on the stack, since there may be no memory
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

void command_say_sentence(const char *sentence)
{
    command_say("%s", sentence);
}

void command_tell(void *self, const char *sentence)
{
    (void)self;
    command_say("%s", sentence);
}

bool command_say_lines(const char *file, struct text *lines, struct error *error)
{
    if (lines->failed)
        return error_no_memory(error, "what is said of a file");
    for (char *line = lines->data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
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
    if (error->kind != ERROR_INPUT)
        return false;
    return other ? error_name(error, "%s with %s", names[0], names[1]) : error_name(error, "%s", names[0]);
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
        // A background job of a shell ignores Ctrl-C, which is meant for other processes. Keep it so.
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
