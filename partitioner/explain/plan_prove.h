// Checks what a plan's certificate claims. A file can claim anything, so the plan's request is searched anew, on the
// devices that the plan has:
//
//     claimed bound   <=  the quickest plan that is found        else it is refuted: there is a plan below it
//     plan's time     >=  what the search proves of all plans    else the search does not know such plans
//     claimed bound   <=  what the search proves of all plans    then the claim is proved; else it stays open
#ifndef PARTITIONER_EXPLAIN_PLAN_PROVE_H
#define PARTITIONER_EXPLAIN_PLAN_PROVE_H

#include "partitioner/search/search.h"

enum plan_verdict {
    CLAIM_HOLDS,
    CLAIM_FAILS,
    CLAIM_OPEN,  // no contradiction was found; a longer search may decide
};

struct plan_proof {
    enum plan_verdict verdict;
    char why[240];  // a sentence without its full stop
};

// The plan must be one that plan_evaluate() accepts. The budget in `limits` is that of the search; 0: the usual one.
// False only if there is no verdict: the certificate is of another measure, or the machine fails.
bool plan_prove(const struct plan *plan, const struct profile *profile, const struct search_limits *limits,
                struct plan_proof *proof, struct error *error);

#endif
