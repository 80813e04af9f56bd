// Schedules by name: "gpipe", "1f1b", "pipedream", ... one file each, with the
// drawn table of a small case on top.
#ifndef SCHEDULES_GENERATE_H
#define SCHEDULES_GENERATE_H

#include "schedules/schedule.h"

// What a schedule is asked to be. 0 or NULL: the schedule's own choice.
struct generate_request {
    uint32_t ranks, micro_batches;  // never 0
    uint32_t chunks;           // stages per rank
    uint32_t splits;           // of each sequence (seq1f1b)
    const uint32_t *replicas;  // ranks of each stage, `stages` of them; they sum to `ranks`
    uint32_t stages;
};

struct generator {
    const char *name;
    const char *about;  // one line for help texts
    const char *theirs;     // what PyTorch calls it, where that is not alike; or NULL
    enum weights weights;
    uint32_t usual_chunks;  // what `chunks` 0 means
    bool takes_splits, takes_replicas;
    bool is_inference;         // forwards alone
    // NULL with the constraint and the nearest valid values in the error. What the request leaves to the
    // schedule has been filled in, but for `splits`.
    struct schedule *(*generate)(const struct generate_request *request, struct error *error);
    const struct schedule *given;  // NULL, or the only order that it makes, and then `generate` is NULL
};

extern const struct generator generators[];  // ended by a NULL name

const struct generator *generator_find(const char *name, struct error *error);

// Who makes the orders of a schedule: the generator of this name or, where an order was given (given_order.h; else
// NULL), one that makes that very order, which it borrows.
bool generator_for(const char *name, const struct schedule *given, struct generator *generator, struct error *error);

// Whether stages may have several ranks each; if not, the error names the schedules whose stages may.
bool generator_takes_replicas(const struct generator *generator, struct error *error);

// The compute order (without SENDs and RECVs). Refuses splits and replicas where the schedule has none.
struct schedule *schedule_generate_by(const struct generator *generator, const struct generate_request *request,
                                      struct error *error);
struct schedule *schedule_generate_as(const char *name, const struct generate_request *request, struct error *error);
struct schedule *schedule_generate(const char *name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                                   struct error *error);

#endif
