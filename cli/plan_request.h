// What is to be planned, as commands that plan are given it: the profile, the
// cluster, the schedule, and how long to search. A command takes them as a child of
// its own arguments:
//
//     static const struct argp_child children[] = { { &plan_argp, 0, NULL, 0 }, { 0 } };
//
//     case ARGP_KEY_INIT:
//         state->child_inputs[0] = &given->plan;
#ifndef CLI_PLAN_REQUEST_H
#define CLI_PLAN_REQUEST_H

#include "cli/arrangement_options.h"
#include "cli/holding_options.h"
#include "cli/options.h"
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
    uint32_t ranks, chunks, micro_batches;
    bool has_holding;
    struct holding holding;
};

extern const struct argp plan_argp;

// What these options ask for, loaded. `request` borrows from the rest; Ctrl-C ends its
// search, and a second one the program.
struct plan_request {
    struct profile *profile;
    struct cluster *cluster;
    bool cluster_is_borrowed;
    struct search_pin *pins;
    struct search_request request;
};

// `defaults` may be NULL where the options are not partial.
bool plan_request_load(const struct plan_options *options, const struct plan_defaults *defaults,
                       struct plan_request *request, struct error *error);
void plan_request_clear(struct plan_request *request);

// Whether --json or -o - ask for a plan's document on standard output, and nothing else there.
bool plan_output_is_document(const struct shared_options *output);

// Writes the document where it is asked for, else `table`, which is freed; and returns
// `code`, or the code of what went wrong in writing.
int plan_output(const struct plan *plan, const struct shared_options *output, struct text *table, int code);

// The same of a document that is there already; both texts are the callee's.
int plan_output_document(struct text *document, const struct shared_options *output, struct text *table, int code);

#endif
