// What a command that takes a schedule is given: FILE, which is a schedule, a plan
// or PyTorch's CSV (its content says which), and the options that say what it costs.
//
//     struct given { struct subject_options subject; ... };
//
//     static const struct argp_option options[] = { SUBJECT_OPTIONS, OPTION_JSON, { 0 } };
//
//     case 'x': ... break;
//     default: return subject_option(key, argument, &given->subject, state);
#ifndef CLI_SUBJECT_H
#define CLI_SUBJECT_H

#include "cli/options.h"
#include "schedules/network.h"
#include "schedules/schedule.h"

struct subject_options {
    const char *file;
    bool has_cost, has_keep;
    uint64_t cost_ns[4];     // F, I, W, C
    uint64_t keep_bytes[2];  // after F, after I
    struct shared_options shared;
};

enum { KEY_COST = KEY_SUBJECT, KEY_KEEP };

#define SUBJECT_OPTIONS \
    { "cost", KEY_COST, "F,I,W,C", 0, "What every stage costs: forward, backward for the input, for the weights " \
      "(B is both), and a message's latency; times with units", 0 }, \
    { "keep", KEY_KEEP, "A,B", 0, "Bytes that a stage keeps of a micro-batch after F, and after I; with units", 0 }, \
    OPTION_CLUSTER

// Takes FILE, an option of SUBJECT_OPTIONS or a shared one; ARGP_ERR_UNKNOWN for any other key.
error_t subject_option(int key, char *argument, struct subject_options *options, struct argp_state *state);

struct subject {
    struct schedule *schedule;
    struct network *network;   // the links between its ranks; NULL: messages cost nothing
    uint64_t steady_ns;        // of an asynchronous plan: an iteration once it is under way
    uint64_t stated_ns;        // of a plan as it stands: the iteration it predicts
    uint64_t *capacity_bytes;  // of a plan: the memory of each rank's device
};

// Reads FILE. A schedule may come without costs: subject_wants_costs() refuses that.
bool subject_load(const struct subject_options *options, struct subject *subject, struct error *error);
bool subject_wants_costs(const struct subject_options *options, const struct subject *subject, struct error *error);
void subject_clear(struct subject *subject);

#endif
