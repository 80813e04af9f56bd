// Schedules by name: "gpipe", "1f1b", "pipedream", ... There is one file for each, which begins with a drawing of a
// small case.
#ifndef SCHEDULES_GENERATE_H
#define SCHEDULES_GENERATE_H

#include "schedules/schedule.h"
#include "schedules/segments.h"

// The parameters of a schedule. For 0 or NULL, the schedule chooses.
struct generate_request {
    uint32_t ranks, micro_batches;  // never 0
    uint32_t chunks;           // stages per rank
    uint32_t splits;           // of each sequence (seq1f1b)
    const uint32_t *replicas;  // ranks of each stage, `stages` of them; they sum to `ranks`
    uint32_t stages;
    struct segmenting into;    // segments of each stage, which pass by pass are run in turns; 0 or 1: none
};

// The order of a rank's forwards and backwards, if other modules have formulas for it.
enum generator_order {
    ORDER_OTHER, ORDER_1F1B, ORDER_GPIPE, ORDER_FORWARD_ONLY, ORDER_PIPEDREAM, ORDER_2BW, ORDER_INTERLEAVED
};

// What a rank waits for at its beginning, and again at its end. It waits for the ranks before it: for the forwards
// of a micro-batch; or for the forwards, and for the backwards of the last micro-batch.
enum generator_waits { WAITS_FOR_NONE, WAITS_FOR_FORWARDS, WAITS_FOR_PASSES };

// How long a rank of p is idle if all stages take equally long: (p - 1) / chunks passes through a stage, forward and
// backward; p - 1 forwards; a single forward.
enum generator_idle { IDLE_FOR_PASSES, IDLE_FOR_FORWARDS, IDLE_FOR_A_FORWARD };

// The least number of micro-batches that a rank has in flight at a time in the steady state. That is `least` on one
// of its stages, and `most` on each of `dear` others.
struct generator_flight {
    uint32_t least, most, dear;
};

struct generator {
    const char *name;
    const char *about;  // one line for help texts
    const char *theirs;     // PyTorch's name, if it is different; or NULL
    enum weights weights;
    uint32_t usual_chunks;  // the meaning of `chunks` 0
    bool takes_splits, takes_replicas;
    bool is_inference;         // only forwards
    // Facts for planners, which then need not generate the schedule. Zeros are safe: they mean that nothing is
    // known, and bounds are weaker.
    enum generator_order order;
    enum generator_waits waits;
    enum generator_idle idle;
    bool keeps_all;            // all forwards of a stage come before its first backward
    uint32_t only_ranks;       // the one number of ranks that it takes; 0: several
    bool takes_any_chunks;     // any number from two on; otherwise only the usual one
    bool comes_back;           // in the shape of a V: the last stage is on the first rank
    bool exchanges;            // stages on one rank send each other messages
    bool has_pairs;            // forwards run together with backwards of other micro-batches
    bool may_have_pairs;       // and so they can here, a forward earlier (generate_pairs())
    uint32_t copies;           // of each stage, in pipelines that run against each other; 0: one
    bool wants_rounds;         // micro-batches must be a multiple of the ranks, as in Megatron-Core
    bool is_usual;             // included in a sweep unless schedules are named
    uint32_t search_rank;      // an order search uses the cuts of the schedule with the least rank here; 0: never
    // NULL: one micro-batch on one stage.
    struct generator_flight (*flight)(const struct generate_request *request, uint32_t rank);
    // Makes the schedule. Numbers that the request leaves open have been filled in, except `splits`. On failure
    // returns NULL; the error has the constraint and the nearest valid values.
    struct schedule *(*generate)(const struct generate_request *request, struct error *error);
    const struct schedule *given;  // the only order that it makes, and then `generate` is NULL; or NULL
};

extern const struct generator generators[];  // ended by a NULL name

const struct generator *generator_find(const char *name, struct error *error);

// The micro-batches in flight on a rank, for the ranks, chunks and micro-batches of the request.
struct generator_flight generator_flight(const struct generator *generator, const struct generate_request *request,
                                         uint32_t rank);

// The generators for whose cuts an order is searched, by their search_rank, among those with this usual number of
// chunks. Returns the one after `before` (NULL: the first); NULL at the end.
const struct generator *generator_to_search(uint32_t chunks, const struct generator *before);

// Sets `generator` to the generator of this name. If `given` is not NULL (given_order.h), sets it to one that makes
// that order, which it borrows.
bool generator_for(const char *name, const struct schedule *given, struct generator *generator, struct error *error);

// The number of ranks nearest to a wanted one that it takes, as far as that is a fact above.
static inline uint32_t generator_ranks(const struct generator *generator, uint32_t wanted)
{
    return generator->only_ranks ? generator->only_ranks : wanted;
}

// Whether stages may have several ranks each. If not, the error names the schedules that allow it.
bool generator_takes_replicas(const struct generator *generator, struct error *error);

// Joins each backward of a rank with the forward behind it, if that is of another micro-batch or stage. Each rank then
// has a forward more before its first backward (Megatron's combined_1f1b.py).
void generate_pairs(struct schedule *schedule);

// Generates a compute order (without SENDs and RECVs). Refuses splits and replicas if the schedule does not support
// them. The result is freed by schedule_free().
struct schedule *schedule_generate_by(const struct generator *generator, const struct generate_request *request,
                                      struct error *error);
struct schedule *schedule_generate_as(const char *name, const struct generate_request *request, struct error *error);
struct schedule *schedule_generate(const char *name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches,
                                   struct error *error);

#endif
