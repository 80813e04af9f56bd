// What a mixture of experts takes: the rules that estimates, measured profiles, runs and planners have in common.
//
// A pair is a token and an expert that it chose. A device of a group has some of the tokens and some of the experts.
// Experts that all devices have are copied, and their pairs stay where they are:
//
//     sends     its other pairs, a row each, to their experts; as many come back, in F and once more in I
//     computes  the pairs of its experts: if all are chosen alike, as many as it sends
//     keeps     rows of the pairs that it computes, and what their experts give back
#ifndef COMMON_EXPERT_RULES_H
#define COMMON_EXPERT_RULES_H

#include <math.h>
#include <stdint.h>

// The pairs of a micro-batch that one expert takes, at least one, by a capacity factor; 0: no limit.
static inline uint64_t expert_capacity(uint64_t pairs, uint64_t experts, double factor)
{
    const double even = (double)pairs / (double)experts;
    return factor > 0 ? (uint64_t)fmax(1, ceil(even * factor)) : 0;
}

// Numbers of an expert's matrices: up, down, and the gate if there is one. A pair takes twice as many operations.
static inline double expert_matrices(double width, double inner, int is_gated)
{
    return (is_gated ? 3 : 2) * width * inner;
}

// The share of so many pairs that is sent: those whose experts are not copied, if all are chosen alike.
static inline double expert_sent_pairs(double pairs, double experts, double copies)
{
    return pairs * (experts - copies) / experts;
}

// Bytes of the rows of so many pairs that a device sends to their experts, those included that stay on it.
static inline double expert_sent_bytes(double pairs, double width, double number_bytes)
{
    return pairs * width * number_bytes;
}

#endif
