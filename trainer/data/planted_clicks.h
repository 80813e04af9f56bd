// Generated clicks of Criteo's shape, whose labels are drawn from a known probability. So the best AUC that any model
// can have is known, too.
//
//     ids           id k of a slot with probability proportional to 1 / (k + 1); a bag in 20 is empty
//     numbers       0 to 2047, of each size in bits alike often; one in 20 is missing (0), one in 50 is -1
//     probability   1 / (1 + exp(-z)),  z = -1 + sum(a(s)) / sqrt(S) + 1.5 sum(u(s) u(s + 1)) / sqrt(P)
//                                                               + 0.5 sum(c(n) * (bits(n) - 5) / 3) / sqrt(N)
//
// S slots have an effect a each, which is drawn for each id. The first slots are P pairs (s, s + 1), at most two, whose
// effects depend on both ids: each id has a factor u. A bag's effect and factor are the means over its ids, and 0 if it
// is empty. N numbers have an effect c each. All a, u and c have mean 0 and variance 1.
//
// Logistic regression finds what a and c say. It cannot find the pairs, which the dots of a DLRM can express.
#ifndef TRAINER_DATA_PLANTED_CLICKS_H
#define TRAINER_DATA_PLANTED_CLICKS_H

#include "trainer/data/click_writer.h"

enum { PLANTED_HELD_EVERY = 10 };

struct planted_clicks {
    uint64_t samples;  // the last tenth is held out
    uint64_t slots, numbers;
    uint64_t ids;   // of each slot
    uint64_t most;  // ids of a sample and slot; above 1 their number is drawn
    uint64_t seed;
};

// Adds all samples; `train` are those to train on. The same bytes for the same request.
bool planted_clicks_make(const struct planted_clicks *request, struct click_writer *writer, uint64_t *train,
                         struct error *error);

// The probability of label 1 of a sample that was made.
double planted_clicks_probability(const struct planted_clicks *request, const struct click_sample *sample);

#endif
