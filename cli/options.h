// The options that several commands share, with the same name and the same meaning everywhere. A command lists the
// ones it takes among its argp options, and passes keys that it does not know to shared_option():
//
//     static const struct argp_option options[] = { OPTION_RANKS, OPTION_JSON, { 0 } };
//
//     case 'x': ... break;
//     default: return shared_option(key, argument, &given->shared, state);
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "partitioner/plan/plan.h"
#include "runtime/updates/loss_scaling.h"

struct shared_options {
    uint64_t ranks;          // 0: not given, as everywhere below
    uint64_t chunks;
    uint64_t micro_batches;
    const char *schedule;
    const char *cluster;
    uint64_t memory_bytes;
    bool json;
    bool pad_vocabulary;
    bool own_order;
    const char *output;
};

// The most frequent options have a letter: the one that papers use, if there is one.
enum {
    KEY_RANKS = 'p',
    KEY_CHUNKS = 'v',
    KEY_MICRO_BATCHES = 'm',
    KEY_SCHEDULE = 's',
    KEY_CLUSTER = 'c',
    KEY_MEMORY = 0x100,
    KEY_JSON,
    KEY_DEVICE,
    KEY_VERBOSE,
    KEY_PAD_VOCABULARY,
    KEY_OWN_ORDER,
    KEY_CLIP,
    KEY_FREEZE,
    KEY_BATCH,
    KEY_LOSS_SCALE,
    KEY_SUBJECT,        // first key of subject.h
    KEY_PICTURE = 0x180,  // first key of pictures.h
    KEY_STORAGE = 0x1c0,  // first key of storage_options.h
    KEY_ESTIMATE = 0x1e0,  // first key of estimate_options.h
    KEY_WEEKS = 0x1f8,  // first key of weeks_options.h
    KEY_OWN = 0x200,    // first of a command's own keys
};

#define OPTION_RANKS { "ranks", KEY_RANKS, "P", 0, "Number of ranks", 0 }
#define OPTION_CHUNKS { "chunks", KEY_CHUNKS, "V", 0, "Stages per rank (the schedule's usual number)", 0 }
#define OPTION_MICRO_BATCHES { "micro-batches", KEY_MICRO_BATCHES, "M", 0, "Micro-batches per iteration", 0 }
#define OPTION_SCHEDULE { "schedule", KEY_SCHEDULE, "NAME", 0, "gpipe, 1f1b, pipedream, ...", 0 }
// For a group: the options of a group are together in --help, and groups are in ascending order.
#define OPTION_CLUSTER_IN(group) \
    { "cluster", KEY_CLUSTER, "C", 0, "A cluster's file, or \"2 nodes x 8 devices, 80GiB, 300GB/s 3us, 25GB/s 8us\"", \
      group }
#define OPTION_CLUSTER OPTION_CLUSTER_IN(0)
#define OPTION_MEMORY { "memory", KEY_MEMORY, "SIZE", 0, "Memory of each device, such as 80GiB", 0 }
#define OPTION_JSON_IN(group) { "json", KEY_JSON, 0, 0, "Print the document instead of a table", group }
#define OPTION_JSON OPTION_JSON_IN(0)
#define OPTION_DEVICE { "device", KEY_DEVICE, "NAME", 0, "Where layers run (cpu): cpu:avx2, cuda, cuda:1, ...", 0 }
#define OPTION_VERBOSE { "verbose", KEY_VERBOSE, 0, 0, "Say what is set for the device's libraries", 0 }
#define OPTION_CLIP { "clip", KEY_CLIP, "NORM", 0, "The most that the norm of all gradients may be (as it comes)", 0 }
#define OPTION_FREEZE \
    { "freeze-step", KEY_FREEZE, "N", 0, \
      "Of adam1bit: the step behind which its second moment stays and replicas send signs (a fifth of the steps)", 0 }
#define OPTION_BATCH { "batch", KEY_BATCH, "N", 0, "Samples of an iteration (all there is room for)", 0 }
#define OPTION_LOSS_SCALE \
    { "loss-scale", KEY_LOSS_SCALE, "S,N", 0, \
      "In fp16: gradients are scaled by S, halved when they overflow, doubled after N steps (65536,2000)", 0 }
// For commands that name a model and no plan; see model_spec_named().
#define OPTION_PAD_VOCABULARY \
    { "pad-vocabulary", KEY_PAD_VOCABULARY, 0, 0, "Room for a multiple of 128 words: MODEL,padded", 0 }
#define OPTION_OWN_ORDER \
    { "own-order", KEY_OWN_ORDER, 0, 0, "Keep a graph's layers in the profile's own order", 0 }
#define OPTION_OUTPUT { "output", 'o', "FILE", 0, "Where the document goes (\"-\": standard output)", 0 }
#define OPTION_RESULT OPTION_JSON, OPTION_OUTPUT

enum { MOST_JOBS = 1024 };  // of --jobs

// Parses a shared option; returns ARGP_ERR_UNKNOWN for any other key. A bad value ends the program through
// argp_error(), with a sentence and exit code 2.
error_t shared_option(int key, char *argument, struct shared_options *options, struct argp_state *state);

// The same arguments, with the named options (NULL: all) hidden from --help. They are still accepted; --help shows
// them for the commands for which they matter more. The result is borrowed from `hiding`.
enum { HIDING_MOST_OPTIONS = 24 };
struct hiding {
    struct argp argp;
    struct argp_option options[HIDING_MOST_OPTIONS + 1];
};
const struct argp *options_hide(const struct argp *argp, const char *const names[], struct hiding *hiding);

// Takes a command's only argument, which is a `what` (for example "profile"). All option_ functions end the program
// with a usage error if the argument is wrong.
void option_argument(const char **to, const char *argument, const char *what, struct argp_state *state);

// Options whose arguments go into fields of the command's arguments as they are, which a table names:
//
//     static const struct option_field fields[] = {
//         { ARGP_KEY_ARG, OPTION_FIELD(struct train_arguments, model), .what = "model" },
//         { KEY_STEPS, OPTION_FIELD(struct train_arguments, steps), .least = 1, .most = 1000000 },
//         { 0 },
//     };
//
// The field's type says what is taken: a text (with `what`, by option_argument()), or a bool that becomes true, unless
// the option has an argument that says no. Integers are in [least, most], or are an index in `names`, or a share
// (option_share()) of up to `most`. Amounts are read by `parse`, with their units; 0 is refused if `needs` is there, as
// in "a device needs more than". Numbers are several such integers (option_counts()). Doubles are above 0 and below
// `most`.
enum option_form { FORM_NONE, FORM_TEXT, FORM_BOOL, FORM_U32, FORM_U64, FORM_DOUBLE, FORM_NUMBERS };
struct option_numbers {
    uint32_t at[64];
    size_t count;
};
struct option_field {
    int key;
    size_t offset;
    enum option_form form;
    uint64_t least, most;
    const char *const *names;
    const char *what;
    bool is_share;
    bool (*parse)(const char *text, uint64_t *number, struct error *error);
    const char *needs;
    size_t given;  // the offset of a bool that becomes true with the option; 0: there is none
};
// The same with a bool, which is not the first field.
#define OPTION_FIELD_GIVEN(type, field, flag) OPTION_FIELD(type, field), .given = offsetof(type, flag)
#define OPTION_FIELD(type, field) \
    .offset = offsetof(type, field), \
    .form = _Generic(((type *)0)->field, char *: FORM_TEXT, const char *: FORM_TEXT, bool: FORM_BOOL, \
                     uint32_t: FORM_U32, uint64_t: FORM_U64, double: FORM_DOUBLE, \
                     struct option_numbers: FORM_NUMBERS)

// Takes an option of the table, whose name in errors is that in `options`. ARGP_ERR_UNKNOWN for any other key.
error_t option_take(const struct argp_option *options, const struct option_field *fields, int key, char *argument,
                    void *given, struct argp_state *state);

// The index of the argument of --option in the list of names that it can be, which ends in NULL.
unsigned option_name(const char *argument, const char *option, const char *const names[], struct argp_state *state);

// A percentage given to --name, such as "5%" or "0.25%", in millionths.
uint32_t option_share(const char *argument, const char *name, uint32_t most_ppm, struct argp_state *state);

// A whole number in [least, most] given to --name.
uint64_t option_count(const char *argument, const char *name, uint64_t least, uint64_t most, struct argp_state *state);

// A comma-separated list of names given to --name; returns their number, at most `room`. The names point into *own,
// which the caller frees.
size_t option_names(const char *argument, const char *name, char **copy, const char **names, size_t room,
                    struct argp_state *state);

// Whole numbers as above, separated by commas, with or without brackets; returns how many there are, at most `room`.
size_t option_counts(const char *argument, const char *name, uint64_t least, uint64_t most, uint32_t *counts,
                     size_t room, struct argp_state *state);

// The same with room for all of them, in a list that the caller frees.
size_t option_all_counts(const char *argument, const char *name, uint64_t least, uint64_t most, uint32_t **counts,
                         struct argp_state *state);

// The arguments of --clip and --loss-scale.
float option_clip(const char *argument, struct argp_state *state);
struct loss_scaling option_loss_scale(const char *argument, struct argp_state *state);

#endif
