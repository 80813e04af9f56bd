// Other ways to run a model's layers, for the planner to choose among: over groups of devices, by their degrees.
//
//     name          devices  matrices (not experts')  tokens                                         experts
//     tensor4             4  a quarter                all                                            all
//     tensor4sp           4  a quarter                all; between the products a quarter            all
//     context2            2  all                      half of each sequence                          all
//     expert8             8  all                      an eighth of the micro-batch's sequences       an eighth
//     tensor4sp+context2  8  both
//
// Outside its experts, the group of an expert degree is data parallel. A micro-batch keeps its number of sequences,
// and the devices divide them, so the degree must divide their number. If devices divide tokens, each has a share of
// the layers' outputs. Then either all stages of a plan use the variant, or none does (partitioner/cost/variant.h).
//
// Devices of a group with the same parameters reduce their gradients once per iteration. The times of a variant do
// not include this, just as they do not for --data; see estimate.reduce_ns.
#ifndef PROFILER_ESTIMATE_VARIANTS_H
#define PROFILER_ESTIMATE_VARIANTS_H

#include "profiler/estimate/estimate.h"

// The most that a plan chooses among.
enum { ESTIMATE_MOST_VARIANTS = 16 };

struct estimate_variant {
    uint32_t tensor, context, expert;
    bool sequence_parallel;
};

struct estimate_variants {
    struct estimate_variant at[ESTIMATE_MOST_VARIANTS];
    size_t count;
    // Instead of a list: degrees 2, 4 and 8 of each kind that divide the model, up to the size of the innermost level
    bool all;
};

// Parses "2,tensor4sp,context2,tensor2+context2", where a number alone is a tensor degree; or "all". False with an
// error.
bool estimate_variants_read(const char *words, struct estimate_variants *variants, struct error *error);

// Adds these variants to every layer of a profile. The profile must come from estimate_profile() for a model on one
// device each. The messages within a group are part of a variant's times. If the estimate has sequence parallel
// layers, each tensor degree is added a second time with sequence parallelism. False with an error.
bool estimate_add_variants(const struct estimate *estimate, const struct estimate_variants *variants,
                           struct profile *profile, struct error *error);

#endif
