// Cuts found by local search: a slow reference for the searches for simulated time, with one stage per rank and a
// schedule that flushes. It shares only its prices with them.
//
//     start       cuts that need the least memory: each stage takes what fits, or a little less,
//                 within less and less memory
//     move        one cut is moved, near or far, or two are:        | a a | b | c c |  ->  | a | a b | c c |
//                 or two stages are joined and another is split:    | a a | b | c c |  ->  | a a b | c | c |
//     price       simulated time, with the quickest recomputation that fits each stage
//     accepted    if it is not slower
//     restart     after a long time without a gain: some moves from the best cuts, or from the first,
//                 accepted if they fit
//
// All devices must be equal, and the layers stay in the profile's own order.
#ifndef BENCH_RANDOM_CUTS_H
#define BENCH_RANDOM_CUTS_H

#include "partitioner/search/search.h"

struct random_cuts;

// Borrows the request, whose devices' memory is ignored. NULL with `error`. Freed by random_cuts_free().
struct random_cuts *random_cuts_create(const struct search_request *request, struct error *error);
void random_cuts_free(struct random_cuts *random);

// The least memory per device in which fitting cuts were found, to 1 part in 2000. Call it once, before any search.
bool random_cuts_least_bytes(struct random_cuts *random, uint64_t *bytes, struct error *error);

// The least simulated time (ns) found in `seconds` of CPU time; UINT64_MAX if nothing fits. It starts with the best
// cuts of the search before, if they fit. If memory grows from call to call, times therefore never increase.
bool random_cuts_search(struct random_cuts *random, uint64_t memory_bytes, double seconds, uint64_t *iteration_ns,
                        struct error *error);

#endif
