// What is to be planned, as commands that plan are given it: the profile, the
// cluster, the schedule, and how long to search; how states are held; which devices
// there are. A command takes them as the first three children of its own arguments:
//
//     { &plan_argp, 0, NULL, 0 }, { &holding_argp, 0, ... }, { &arrangement_argp, 0, ... }
//
//     case ARGP_KEY_INIT:
//         plan_child_inputs(&given->plan, state->child_inputs);
//
// In --help, groups 2 to 5 are what is planned, where, how long, and where it goes
// (OPTION_JSON_IN(5)); a command's own options stand before them, in groups 0 and 1.
#ifndef CLI_PLAN_REQUEST_H
#define CLI_PLAN_REQUEST_H

#include "cli/arrangement_options.h"
#include "cli/holding_options.h"
#include "cli/options.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/search/search.h"

enum { PLAN_MOST_PINS = 64, PLAN_MOST_STAGES = 1 << 20 };

struct plan_options {
    const char *profile;
    uint64_t budget, deadline_ns;
    const char *pins[PLAN_MOST_PINS];  // LAYER=STAGE
    size_t pin_count;
    bool is_partial;  // set by a command that knows where the rest comes from
    struct shared_options shared;
    struct holding_options holding;
    struct arrangement_options arrangement;
};

// What a document says that the options leave out; NULL or 0 where it does not, too.
struct plan_defaults {
    const char *document;
    struct cluster *cluster;  // borrowed
    const char *schedule;
    const struct schedule *given;  // its order, where that was given
    uint32_t ranks, chunks, micro_batches;
    bool has_holding;
    struct holding holding;
};

extern const struct argp plan_argp;

enum { PLAN_CHILDREN = 3 };
void plan_child_inputs(struct plan_options *options, void **inputs);

// Refuses options that are not all there is to know; without `is_partial` the arguments' own end does.
void plan_require_all(const struct plan_options *options, struct argp_state *state);

// What these options ask for, loaded. `request` borrows from the rest; Ctrl-C ends its
// search, and a second one the program.
struct plan_request {
    struct profile *profile;
    struct cluster *cluster;
    bool cluster_is_borrowed;
    struct schedule *given;  // of a file that --schedule names; or NULL
    struct search_pin *pins;
    struct search_request request;
};

// `defaults` may be NULL where the options are not partial.
bool plan_request_load(const struct plan_options *options, const struct plan_defaults *defaults,
                       struct plan_request *request, struct error *error);
void plan_request_clear(struct plan_request *request);

// command_fail() of what was loaded so: a refusal names the profile, and the document of a plan (NULL: the cluster's
// file, if there is one) with it.
int plan_request_fail(const struct plan_options *given, const char *document, struct error *error);

// Makes a search free in what the plan has chosen and the request does not say: replicas,
// devices, variants. `of` is the plan's question, from which the request then borrows.
void plan_request_free_like(const struct plan *plan, const struct question *of, struct search_request *request);

// Whether --json or -o - ask for a plan's document on standard output, and nothing else there.
bool plan_output_is_document(const struct shared_options *output);

// Writes the document where it is asked for, else `table`, which is freed; and returns
// `code`, or the code of what went wrong in writing.
int plan_output(const struct plan *plan, const struct shared_options *output, struct text *table, int code);

// The same of a document that is there already; both texts are the callee's.
int plan_output_document(struct text *document, const struct shared_options *output, struct text *table, int code);

#endif
