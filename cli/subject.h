// The arguments of a command that takes a schedule: FILE and the options that give its costs. The file's content says
// whether it is a schedule, a plan or PyTorch's CSV. Instead of FILE there can be a schedule's name, with the options
// that give its size.
//
//     struct check_arguments { struct subject_options subject; ... };
//
//     static const struct argp_option options[] = { SUBJECT_OPTIONS, OPTION_JSON, { 0 } };
//
//     case 'x': ... break;
//     default: return subject_option(key, argument, &given->subject, state);
#ifndef CLI_SUBJECT_H
#define CLI_SUBJECT_H

#include "cli/options.h"
#include "partitioner/cost/priced.h"
#include "schedules/segments.h"

struct subject_options {
    const char *file;
    const char *cost;        // as given, or NULL
    const char *overlapped;
    struct kept_bytes kept;  // of --keep
    bool is_order;           // take only a plan's compute actions, without messages
    uint32_t splits;         // for a schedule by name, like ranks, chunks and micro-batches
    struct segmenting into;  // of a schedule by name, or from a file
    bool is_judged;          // the command checks the schedule itself, so one that cannot run is loaded too
    struct shared_options shared;
};

enum { KEY_COST = KEY_SUBJECT, KEY_OVERLAPPED, KEY_KEEP, KEY_NAMED_SPLITS, KEY_SEGMENTS };

#define OPTION_COST \
    { "cost", KEY_COST, "F,I,W,C", 0, "What every stage costs: forward, backward for the input, for the weights " \
      "(B is both), and a message's latency; times, or numbers without units; or a document with rows of costs", 0 }
#define OPTION_KEEP \
    { "keep", KEY_KEEP, "A,B", 0, "Bytes kept of a micro-batch after F and after I", 0 }
// The argument of --segments, N or N,K; N may be "auto" (0) for commands that know how many the model needs.
struct segmenting option_segments(const char *argument, bool may_be_auto, struct argp_state *state);

#define OPTION_SEGMENTS \
    { "segments", KEY_SEGMENTS, "N,K", 0, "Segments of each stage, and passes in turns (2)", 0 }
// For commands that accept a schedule's name instead of FILE: the options of `weir schedule NAME`. (For a plan,
// --micro-batches changes the number, if the command permits it.)
#define NAMED_OPTIONS \
    { "ranks", KEY_RANKS, "P", 0, "Of a schedule by name: its ranks", 0 }, \
    { "chunks", KEY_CHUNKS, "V", 0, "Of a schedule by name: its stages per rank", 0 }, \
    { "splits", KEY_NAMED_SPLITS, "K", 0, "Of seq1f1b by name: parts of each sequence", 0 }, \
    OPTION_SEGMENTS
#define OPTION_NAMED_MICRO_BATCHES \
    { "micro-batches", KEY_MICRO_BATCHES, "M", 0, "Of a schedule by name: its micro-batches", 0 }
#define SUBJECT_OPTIONS \
    OPTION_COST, \
    { "overlapped", KEY_OVERLAPPED, "TIME", 0, "With --cost F,I,W,C: what a forward and a backward take that are " \
      "done together (their sum)", 0 }, \
    OPTION_KEEP, \
    OPTION_CLUSTER

// Whether the options give the size of a schedule by name.
bool subject_says_size(const struct subject_options *options);

// Parses FILE, an option of SUBJECT_OPTIONS or a shared one; returns ARGP_ERR_UNKNOWN for any other key.
error_t subject_option(int key, char *argument, struct subject_options *options, struct argp_state *state);

// The costs of each of `stages` by --cost, --overlapped and --keep. False with `error`, also if --cost was not given.
// Freed by costs_clear().
bool subject_costs(const struct subject_options *options, uint32_t stages, struct costs *costs, struct error *error);

// Reads FILE, or generates the schedule that it names. A schedule that cannot run is refused, unless `is_judged`. It
// may come without costs, which subject_wants_costs() refuses. Cleared by priced_clear(), also if it fails.
bool subject_load(const struct subject_options *options, struct priced *subject, struct error *error);
bool subject_wants_costs(const struct subject_options *options, const struct priced *subject, struct error *error);

// Whether the argument of --schedule is a file and not a name: it has a "." or a "/" in it.
// The second function loads the order from that file (a schedule's, a plan's or PyTorch's) in the form in which a
// plan stores it (given_order.h). Returns NULL with `error`.
bool subject_is_order(const char *schedule);
struct schedule *subject_load_order(const char *file, struct error *error);

#endif
