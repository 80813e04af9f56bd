// Plans that were made by hand, at the same prices as our own.
//
// In full, such a plan is a document: a plan as Weir writes it, or the part of one that says what was decided
// (docs/formats/plan-by-hand.md). Numbers in it are not used, but compared. In short, it is how many layers each
// stage has, and how many of them are run again:
//
//     [9,9,9,10]   stage 0 is the first 9 layers, stage 1 the next 9, ...
//     [4,4,2,2]    of stage 0 the first 4 layers are run again before their backward, each
//                  as a segment of its own, which keeps no more than its layer's input; ...
#ifndef PARTITIONER_EVALUATE_HANDMADE_H
#define PARTITIONER_EVALUATE_HANDMADE_H

#include "partitioner/search/search.h"

struct handmade {
    struct json_document *document;
    struct plan *whole;       // if the document is a plan that plan_load() can read
    // What the document says about its request; NULL, "" or 0 if it says nothing.
    struct cluster *cluster;
    char schedule[64];
    uint32_t ranks, chunks, micro_batches;
    bool has_storage;
    struct storage storage;
};

// Reads the fields above. The stages are read by handmade_plan().
struct handmade *handmade_load(const char *path, struct error *error);
struct handmade *handmade_read(const char *text, size_t length, const char *name, struct error *error);
void handmade_free(struct handmade *handmade);

// The plan, with every number as plan_price() gives it. Every layer of the profile must be on one stage, once.
// Layers that are missing, unknown, repeated or out of order are refused. Stages without devices get those of the
// schedule, with rank r on device r.
struct plan *handmade_plan(struct handmade *handmade, const struct search_request *request, struct error *error);

// The stages alone, of a document that is not a whole plan, for callers that price them by other rules. They are in
// the profile's order, on devices of the cluster, or without devices if the document names none.
struct plan *handmade_stages(struct handmade *handmade, const struct profile *profile, const struct cluster *cluster,
                             struct error *error);

// The plan with these counts; `recompute` may be NULL. Brackets may be left out.
struct plan *handmade_count(const char *cuts, const char *recompute, const struct search_request *request,
                            struct error *error);

// A list of counts as a document, with or without brackets; freed by json_free().
struct json_document *handmade_counts(const char *text, const char *name, struct error *error);

// Adds a line for each number in the document that differs from the plan's, up to 20. False without memory.
bool handmade_compare(struct handmade *handmade, const struct plan *plan, struct text *text, struct error *error);

#endif
