// Cuts found by trying: a slow twin of the searches for simulated time, of orders with one
// stage per rank and a flush. It shares nothing with them but prices.
//
//     start       the cuts that need least memory: each stage takes what it can, or a little less,
//                 of less and less memory
//     a move      a cut goes elsewhere, near or far, or two do:     | a a | b | c c |  ->  | a | a b | c c |
//                 or two stages become one and another two:         | a a | b | c c |  ->  | a a b | c | c |
//     its price   the simulator's, with the quickest recomputation that fits each stage
//     taken       where it is not slower
//     in between  a good while without a gain: some moves from the best cuts, or from the first, taken
//                 as long as they fit
//
// All devices are alike, and the layers stay in the profile's own order.
#ifndef BENCH_RANDOM_CUTS_H
#define BENCH_RANDOM_CUTS_H

#include "partitioner/search/search.h"

struct random_cuts;

// The request is borrowed; the memory of its devices is not looked at.
struct random_cuts *random_cuts_create(const struct search_request *request, struct error *error);
void random_cuts_free(struct random_cuts *random);

// The least memory of each device in which cuts were found to fit, to 1 part in 2000. Asked once, before any search.
bool random_cuts_least_bytes(struct random_cuts *random, uint64_t *bytes, struct error *error);

// The least simulated time after so many seconds of CPU time, UINT64_MAX where nothing fits. Begins with the best
// cuts of the search before, if they fit: with more memory from call to call, times never rise.
bool random_cuts_search(struct random_cuts *random, uint64_t memory_bytes, double seconds, uint64_t *iteration_ns,
                        struct error *error);

#endif
