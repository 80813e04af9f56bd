// Other ways to run a model's layers, for the planner to choose among: over groups of devices, by their degrees.
//
//     name          devices  of the matrices, experts' but for   tokens            experts
//     tensor4             4  a quarter                           all               all
//     tensor4sp           4  a quarter                           all, between the products a quarter
//     context2            2  all                                 half of each sequence
//     expert8             8  all                                 an eighth of the micro-batch's sequences; an eighth
//     tensor4sp+context2  8  both
//
// Outside its experts the group of an expert degree is data parallel: a micro-batch stays as many sequences as it is,
// and the devices share them, so that the degree must divide their number. Where devices share tokens, each has a share of
// what layers hand on, and all stages of a plan take the variant, or none (partitioner/cost/variant.h).
//
// What devices of a group with the same parameters add up once an iteration is not in a variant's times, as it is not in
// those of --data: estimate.reduce_ns.
#ifndef PROFILER_ESTIMATE_ESTIMATE_VARIANTS_H
#define PROFILER_ESTIMATE_ESTIMATE_VARIANTS_H

#include "profiler/estimate/estimate.h"

// As many as a plan chooses among.
enum { ESTIMATE_MOST_VARIANTS = 16 };

struct estimate_variant {
    uint32_t tensor, context, expert;
    bool sequence_parallel;
};

struct estimate_variants {
    struct estimate_variant at[ESTIMATE_MOST_VARIANTS];
    size_t count;
    bool all;  // rather: 2, 4 and 8 of each kind that divide the model, as many as the innermost level has
};

// "2,tensor4sp,context2,tensor2+context2", where a number alone is a tensor degree; or "all".
bool estimate_variants_read(const char *words, struct estimate_variants *variants, struct error *error);

// Gives every layer of a profile that estimate_profile() has made of a model on one device each these variants, with the
// messages within a group among their times. Where the estimate is of sequence parallel layers, each tensor degree is
// there a second time with it.
bool estimate_add_variants(const struct estimate *estimate, const struct estimate_variants *variants,
                           struct profile *profile, struct error *error);

#endif
