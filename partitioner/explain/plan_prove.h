// Whether what a plan's certificate claims holds. Anybody can write a file; here its request is searched anew, on the
// devices that the plan has:
//
//     claimed bound   <=  the quickest plan that is found        else it is refuted: there is a plan below it
//     plan's time     >=  what the search proves of all plans    else it is none that the search knows
//     claimed bound   <=  what the search proves of all plans    then the claim is proved; else it stays open
#ifndef PARTITIONER_EXPLAIN_PLAN_PROVE_H
#define PARTITIONER_EXPLAIN_PLAN_PROVE_H

#include "partitioner/search/search.h"

enum plan_verdict {
    CLAIM_HOLDS,
    CLAIM_FAILS,
    CLAIM_OPEN,  // nothing was found that contradicts it; a longer search may tell
};

struct plan_proof {
    enum plan_verdict verdict;
    char why[240];  // a sentence, without its end
};

// The plan is one that plan_evaluate() finds good. Of `limits` the budget is that of the search, the usual one where it is
// 0. False only for what is no answer: another model's measure, or a machine's trouble.
bool plan_prove(const struct plan *plan, const struct profile *profile, const struct search_limits *limits,
                struct plan_proof *proof, struct error *error);

#endif
