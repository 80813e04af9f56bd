// A subcommand of `weir`: parses its arguments, calls the library once, prints the
// result on stdout and everything else on stderr, and returns the exit code.
//
// Exit codes: 0 done and good; 1 done and the answer is no; 2 usage or input;
// 3 the machine or a rank failed; 4 a training run was stopped, and can go on. To
// add a command, write NAME_command.c and name it in the table of weir_main.c.
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <argp.h>
#include <signal.h>

#include "common/error.h"
#include "common/text.h"

enum { COMMAND_STOPPED = 4 };  // the others are the kinds of error.h

struct command {
    const char *name;
    const char *about;  // one line for `weir --help`
    int (*run)(int count, char **arguments);
};

extern const struct command command_model;
extern const struct command command_profile;
extern const struct command command_estimate;
extern const struct command command_check;
extern const struct command command_import;
extern const struct command command_schedule;
extern const struct command command_simulate;
extern const struct command command_partition;
extern const struct command command_price;
extern const struct command command_keep;
extern const struct command command_front;
extern const struct command command_bottleneck;
extern const struct command command_explain;
extern const struct command command_sweep;
extern const struct command command_compare;
extern const struct command command_export;
extern const struct command command_verify;
extern const struct command command_train;
extern const struct command command_eval;
extern const struct command command_sample;

// `weir schedule search`, which has options of its own.
int command_run_search(int count, char **arguments);

// `weir sweep --config`, likewise.
int command_run_configs(int count, char **arguments);

// Parses a command's arguments; -h, --help, --usage and usage errors (exit code 2) are answered here.
void command_parse(const struct argp *argp, int count, char **arguments, void *input);

// For argp's help filters: what was added to `list` as the help text's last part, or the end of the program where there
// is no memory for it.
char *command_help(struct text *list);

// Prints "weir: sentence" on stderr, names in it as shown.h says.
void command_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The same of those lines of a text that have `which` in them, each with the file in front, unless that is empty. Takes
// the line ends away. Fails where there was no memory for the text.
bool command_say_lines(const char *file, struct text *lines, const char *which, struct error *error);

// The same of an error; returns the exit code of the error's kind.
int command_fail(const struct error *error);

// Puts in front of a refusal of input what it is about, "FILE: ..." or "FILE with OTHER: ...", unless it names an
// option or one of the two already; `other` may be NULL. Returns false.
bool command_name_files(struct error *error, const char *file, const char *other);

// From now on Ctrl-C makes this 1, and a second one ends the program.
const volatile sig_atomic_t *command_interrupted(void);

// From now on Ctrl-C and SIGTERM make this 1, and a second one ends the program: not within a second, since launchers
// pass on what a terminal has sent to everybody already.
const volatile sig_atomic_t *command_asked_to_stop(void);

// From now on SIGUSR1 makes this 1, again and again, and ends no program that has not begun with what it asks for.
volatile sig_atomic_t *command_asked_to_keep(void);

// Writes a result to a file or "-" (NULL: stdout), frees the text, and returns
// `code`, or the code of what went wrong in writing.
int command_write(struct text *text, const char *path, int code);

// The same of what people read: on a terminal its lines are broken at the width. Not of a document, nor of a chart that
// is as wide as was asked for.
int command_print(struct text *text, const char *path, int code);

// What command_print() does to the text before.
void command_wrap(struct text *text, const char *path);

#endif
