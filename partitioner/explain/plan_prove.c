#include "partitioner/explain/plan_prove.h"

#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/target_search.h"

static void judge(const struct plan *plan, const struct plan *found, uint64_t least_ns, struct plan_proof *proof)
{
    const struct certificate *claimed = &plan->certificate;
    const uint64_t found_ns = found ? min_u64(found->iteration_ns, plan->iteration_ns) : plan->iteration_ns;
    char claim[NUMBER_SIZE], other[NUMBER_SIZE], *why = proof->why;
    enum { SIZE = sizeof proof->why };
    time_format(claimed->lower_bound_ns, claim);
    proof->verdict = CLAIM_FAILS;
    if (claimed->lower_bound_ns > found_ns && claimed->proved) {
        snprintf(why, SIZE, "it is not optimal: another plan takes %s (%llu ns)", time_format(found_ns, other),
                 (unsigned long long)found_ns);
    } else if (claimed->lower_bound_ns > found_ns) {
        snprintf(why, SIZE, "its bound is %s (%llu ns), and a plan takes %s (%llu ns)", claim,
                 (unsigned long long)claimed->lower_bound_ns, time_format(found_ns, other),
                 (unsigned long long)found_ns);
    } else if (plan->iteration_ns < least_ns) {
        snprintf(why, SIZE, "it is no plan that a search looks at, and nothing is proved of it");
    } else if (claimed->lower_bound_ns <= least_ns) {
        proof->verdict = CLAIM_HOLDS;
        if (claimed->lower_bound_ns == 0)
            snprintf(why, SIZE, "its certificate claims no bound");
        else if (claimed->proved)
            snprintf(why, SIZE, "it is proved optimal: no other cut or recomputation that fits is faster");
        else
            snprintf(why, SIZE, "nothing that fits takes less than %s, as its certificate says", claim);
    } else {
        proof->verdict = CLAIM_OPEN;
        snprintf(why, SIZE, "its certificate claims a bound of %s, and the search proves %s; a larger budget may tell",
                 claim, least_ns ? time_format(least_ns, other) : "none");
    }
}

bool plan_prove(const struct plan *plan, const struct profile *profile, const struct search_limits *limits,
                struct plan_proof *proof, struct error *error)
{
    struct question question;
    struct error why = { 0 };
    uint64_t least_ns = 0;
    if (strcmp(plan->certificate.objective, "iteration_ns") != 0)
        return error_set(error, "the certificate is of another measure, %s, which `weir bottleneck` searches by",
                         plan->certificate.objective);
    if (!question_of(plan, profile, &question, error))
        return false;
    question.request.limits = *limits;
    question.request.wanted.never_worse = true;
    question.request.found.least_ns = &least_ns;
    struct plan *found = plan_search_for(&question.request, plan->target, &why);
    question_clear(&question);
    if (!found && why.kind == ERROR_MACHINE)
        return error_hand_on(error, &why);
    judge(plan, found, least_ns, proof);
    plan_free(found);
    return true;
}
