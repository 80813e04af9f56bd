// Plans that somebody made by hand, for the same prices as our own.
//
// In full, a document: a plan as Weir writes it, or as much of one as says what was
// decided (docs/formats/plan-by-hand.md). Whatever numbers stand in it are not
// read but compared. In short, how many layers each stage has, and how many of them
// are run again.
//
//     [9,9,9,10]   stage 0 is the first 9 layers, stage 1 the next 9, ...
//     [4,4,2,2]    of stage 0 the first 4 layers are run again before their backward, each
//                  as a segment of its own, which keeps no more than its layer's input; ...
#ifndef PARTITIONER_EVALUATE_HANDMADE_H
#define PARTITIONER_EVALUATE_HANDMADE_H

#include "partitioner/search/search.h"

struct handmade {
    struct json_document *document;
    struct plan *whole;       // where the document is a plan that plan_load() reads
    // What the document says about its request; NULL, "" or 0 where it does not.
    struct cluster *cluster;
    char schedule[64];
    uint32_t ranks, chunks, micro_batches;
    bool has_holding;
    struct holding holding;
};

// Reads what is asked above; the stages are read by handmade_plan().
struct handmade *handmade_load(const char *path, struct error *error);
struct handmade *handmade_read(const char *text, size_t length, const char *name, struct error *error);
void handmade_free(struct handmade *handmade);

// The plan, with every number as plan_price() gives it. Every layer of the profile must
// be on one stage, once: what is missing, unknown, repeated or out of order is refused.
// Stages without devices get those of the schedule, rank r being device r.
struct plan *handmade_plan(struct handmade *handmade, const struct search_request *request, struct error *error);

// The stages alone, of a document that is no whole plan, for who prices them by other rules: in the profile's order,
// on devices of the cluster, or without where it names none.
struct plan *handmade_stages(struct handmade *handmade, const struct profile *profile, const struct cluster *cluster,
                             struct error *error);

// The plan of these counts; `recompute` may be NULL. Brackets may be left out.
struct plan *handmade_count(const char *cuts, const char *recompute, const struct search_request *request,
                            struct error *error);

// A list of counts as a document, whatever brackets it has; freed by json_free().
struct json_document *handmade_counts(const char *text, const char *name, struct error *error);

// A line for each number in the document that is not the plan's, up to 20. False without memory.
bool handmade_compare(struct handmade *handmade, const struct plan *plan, struct text *text, struct error *error);

#endif
