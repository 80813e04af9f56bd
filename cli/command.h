// A subcommand of `weir`: parses its arguments, calls the library once, prints the result on stdout and everything
// else on stderr, and returns the exit code.
//
//     0   done and good
//     1   done, and the answer is no
//     2   wrong usage or input
//     3   the machine or a rank failed
//     4   a training run was stopped, and can be resumed
//
// To add a command, write NAME_command.c and add it to the table of weir_main.c.
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
extern const struct command command_data;
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
extern const struct command command_place;
extern const struct command command_explain;
extern const struct command command_sweep;
extern const struct command command_compare;
extern const struct command command_export;
extern const struct command command_verify;
extern const struct command command_train;
extern const struct command command_eval;
extern const struct command command_score;
extern const struct command command_sample;

// `weir schedule search`, which has its own options.
int command_run_search(int count, char **arguments);

// `weir sweep --config`, likewise.
int command_run_configs(int count, char **arguments);

// Parses a command's arguments; -h, --help, --usage and usage errors (exit code 2) are answered here.
void command_parse(const struct argp *argp, int count, char **arguments, void *input);

// For argp's help filters: returns the text in `list` as the last part of the help. Ends the program if there is no
// memory for it.
char *command_help(struct text *list);

// Prints "weir: sentence" on stderr. Unprintable characters in names are shown as in shown.h.
void command_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The same as functions that the library calls with a sentence.
void command_say_sentence(const char *sentence);
void command_tell(void *self, const char *sentence);

// The same for each line of a text, with the file's name in front unless it is empty. Changes the text: line ends
// become NULs. False with `error` if there was no memory for the text.
bool command_say_lines(const char *file, struct text *lines, struct error *error);

// The same for an error; returns the exit code for the error's kind.
int command_fail(const struct error *error);

// Prefixes an error about input with what it is about: "FILE: ..." or "FILE with OTHER: ...". Leaves it if it names
// its file or option already (error_name()). The argument `other` may be NULL. Returns false.
bool command_name_files(struct error *error, const char *file, const char *other);

// From now on Ctrl-C sets this to 1, and a second one ends the program.
const volatile sig_atomic_t *command_interrupted(void);

// From now on Ctrl-C and SIGTERM set this to 1, and a second signal ends the program. A second one within a second is
// ignored, since launchers pass on signals that the terminal has already sent to every process.
const volatile sig_atomic_t *command_asked_to_stop(void);

// From now on SIGUSR1 sets this to 1, every time. Call it early: without it the signal would end a program that does
// not handle it yet.
volatile sig_atomic_t *command_asked_to_keep(void);

// Writes a result to a file or to stdout ("-" or NULL), and frees the text. Returns `code`, or the exit code of a
// failure to write.
int command_write(struct text *text, const char *path, int code);

// The same for text that people read: on a terminal its lines are wrapped to the width. Not for documents, nor for
// charts with a requested width.
int command_print(struct text *text, const char *path, int code);

// The wrapping that command_print() does before it writes.
void command_wrap(struct text *text, const char *path);

#endif
