// The request of commands that plan: the profile, the cluster, the schedule, and how long to search; how states are
// held (sharding, offload); and which devices there are. A command takes these as the first three children of its own
// arguments:
//
//     { &plan_argp, 0, NULL, 0 }, { &storage_argp, 0, ... }, { &arrangement_argp, 0, ... }
//
//     case ARGP_KEY_INIT:
//         plan_child_inputs(&given->plan, state->child_inputs);
//
// In --help, groups 2 to 5 are what is planned, on which devices, how long, and to which output (OPTION_JSON_IN(5)).
// A command's own options come before them, in groups 0 and 1.
#ifndef CLI_PLAN_REQUEST_H
#define CLI_PLAN_REQUEST_H

#include "cli/arrangement_options.h"
#include "cli/storage_options.h"
#include "cli/options.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/search/search.h"

enum { PLAN_MOST_PINS = 64, PLAN_MOST_STAGES = 1 << 20 };

struct plan_options {
    const char *profile;
    uint64_t budget, deadline_ns;
    const char *pins[PLAN_MOST_PINS];  // LAYER=STAGE
    size_t pin_count;
    bool has_segments;
    struct segmenting into;            // of --segments; its `segments` 0: as many as the model needs
    bool is_partial;  // set by commands that know where missing options come from
    struct shared_options shared;
    struct storage_options storage;
    struct arrangement_options arrangement;
};

// Values from a document for options that were not given; NULL or 0 for those that it lacks too.
struct plan_defaults {
    const char *document;
    struct cluster *cluster;  // borrowed
    const char *schedule;
    const struct schedule *given;  // its order, if it is from a file
    uint32_t ranks, chunks, micro_batches;
    bool has_storage;
    struct storage storage;
};

extern const struct argp plan_argp;

enum { PLAN_CHILDREN = 3 };
void plan_child_inputs(struct plan_options *options, void **inputs);

// Ends the program with a usage error if a required option is missing. Without `is_partial` this is done at the end
// of parsing.
void plan_require_all(const struct plan_options *options, struct argp_state *state);

// The request with its files loaded. `request` borrows from the other fields. Ctrl-C ends its search, and a second
// one the program.
struct plan_request {
    struct profile *profile;
    struct cluster *cluster;
    bool cluster_is_borrowed;
    struct schedule *given;  // if --schedule names a file, or there is --segments; else NULL
    const char **variants;   // with --segments: of each segment
    struct search_pin *pins;
    struct search_request request;
};

// Loads the request; `defaults` may be NULL if the options are not partial. False with `error`, and then nothing is
// left to clear.
bool plan_request_load(const struct plan_options *options, const struct plan_defaults *defaults,
                       struct plan_request *request, struct error *error);
void plan_request_clear(struct plan_request *request);

// The same as command_fail() for an error about such a request. A refusal names the profile. It also names the plan's
// document, or, if that is NULL, the cluster's file if there is one.
int plan_request_fail(const struct plan_options *given, const char *document, struct error *error);

// Lets a search choose what the plan has chosen and the request does not say: replicas, devices, variants. The plan's
// question is `question`, from which the request borrows afterwards.
void plan_request_free_like(const struct plan *plan, const struct question *question, struct search_request *request);

// Whether --json or -o - ask for a plan's document on standard output, which then has nothing else.
bool plan_output_is_document(const struct shared_options *output);

// Writes the document to where it was requested, else prints `table`, which is freed. Returns `code`, or the exit
// code of a failure to write.
int plan_output(const struct plan *plan, const struct shared_options *output, struct text *table, int code);

// The same for a finished document. Frees both texts.
int plan_output_document(struct text *document, const struct shared_options *output, struct text *table, int code);

#endif
