// Claims of certificates that anybody may have written, against every plan there is.
#include "partitioner/explain/plan_prove.h"

#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/plan_search.h"
#include "tests/partitioner/graph_instance.h"

static struct plan_proof prove(const struct plan *plan, const struct profile *profile, uint64_t budget)
{
    struct error error = { 0 };
    struct plan_proof proof;
    const struct search_limits limits = { .budget = budget };
    assert_good(plan_evaluate(plan, profile, &error), error);
    assert_good(plan_prove(plan, profile, &limits, &proof, &error), error);
    assert_true(proof.why[0] != '\0');
    return proof;
}

static void claim(struct plan *plan, uint64_t bound_ns)
{
    certificate_bound(&plan->certificate, bound_ns, STOP_OTHER, "made by hand");
    plan->certificate.is_claimed = true;
}

// Of a plan that takes v, where the best takes b: any bound up to b holds, any above it does not; with little work it may
// stay open, but nothing false holds, and nothing true fails.
static void what_is_true_holds_and_what_is_false_fails(void **state)
{
    (void)state;
    uint64_t seed = 141, verdicts[3] = { 0 };
    for (uint64_t trial = 0; trial < test_all_trials(60, 1000); trial++) {
        struct graph_instance instance = graph_instance_create(&seed);
        struct error error = { 0 };
        struct search_request quick = instance.request;
        uint64_t plans = 0;
        quick.limits.budget = 1 + random_below(&seed, 2000);
        quick.wanted.own_order = random_below(&seed, 2);
        struct plan *plan = instance.profile->layer_count <= 7 ? plan_search(&quick, &error) : NULL;
        if (plan) {
            const uint64_t best = brute_orders(&instance.request, &plans), value = plan->iteration_ns;
            const uint64_t bounds[] = { value, best, best - best / 3, best + (value - best) / 2, 0 };
            for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
                const uint64_t budget = random_below(&seed, 3) ? 0 : 1 + random_below(&seed, 500);
                claim(plan, bounds[i]);
                const struct plan_proof proof = prove(plan, instance.profile, budget);
                verdicts[proof.verdict]++;
                if ((proof.verdict == CLAIM_HOLDS && bounds[i] > best) || (proof.verdict == CLAIM_FAILS && bounds[i] <= best)
                    || (proof.verdict == CLAIM_OPEN && bounds[i] == 0))
                    fail_msg("trial %d: a bound of %d, the best being %d and the plan %d: %s", (int)trial, (int)bounds[i],
                             (int)best, (int)value, proof.why);
            }
        }
        plan_free(plan);
        graph_instance_clear(&instance);
    }
    print_message("# %d hold, %d fail, %d open\n", (int)verdicts[CLAIM_HOLDS], (int)verdicts[CLAIM_FAILS],
                  (int)verdicts[CLAIM_OPEN]);
    assert_true(verdicts[CLAIM_HOLDS] > 50 && verdicts[CLAIM_FAILS] > 10 && verdicts[CLAIM_OPEN] > 5);
}

static struct plan *even_plan(struct profile **profile, struct search_request *request, struct cluster **cluster)
{
    const struct small_layer rows[] = { { 10000, 20000, 1, 1, 1, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 1, 1, 1, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 1, 1, 1, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 1, 1, 1, INPUT_KEPT_NONE, 0, 0, 0 } };
    struct error error = { 0 };
    *profile = small_chain(rows, 4);
    *cluster = cluster_uniform(2, 1 << 20, 1000, 1000000000, &error);
    request->profile = *profile;
    request->cluster = *cluster;
    request->schedule = "gpipe";
    request->ranks = 2;
    request->micro_batches = 4;
    struct plan *plan = plan_search(request, &error);
    assert_good(plan, error);
    return plan;
}

static void verdicts_are_sentences(void **state)
{
    (void)state;
    struct profile *profile;
    struct cluster *cluster;
    struct error error = { 0 };
    struct search_request request = { .layout = { 0 } };
    struct plan *plan = even_plan(&profile, &request, &cluster);
    assert_string_equal(prove(plan, profile, 0).why,
                        "it is proved optimal: no other cut or recomputation that fits is faster");
    assert_good(plan_set_stage(plan, 0, profile, (struct segment){ 0, 1 }, 0, NULL, 0, &error)
                && plan_set_stage(plan, 1, profile, (struct segment){ 1, 4 }, 1, NULL, 0, &error)
                && plan_price(plan, profile, &error), error);
    claim(plan, plan->iteration_ns);
    assert_string_equal(prove(plan, profile, 0).why, "it is not optimal: another plan takes 303 us (302512 ns)");
    claim(plan, 302513);
    assert_string_equal(prove(plan, profile, 0).why,
                        "its bound is 303 us (302513 ns), and a plan takes 303 us (302512 ns)");
    claim(plan, 302512);
    assert_string_equal(prove(plan, profile, 0).why, "nothing that fits takes less than 303 us, as its certificate says");
    claim(plan, 0);
    assert_string_equal(prove(plan, profile, 0).why, "its certificate claims no bound");
    struct plan_proof proof;
    snprintf(plan->certificate.objective, sizeof plan->certificate.objective, "max_load_ns");
    assert_false(plan_prove(plan, profile, &(struct search_limits){ 0 }, &proof, &error));
    assert_error(error, "the certificate is of another measure, max_load_ns, which `weir bottleneck` searches by");
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

// A plan says which layers were pinned, so that its own request is searched, and no other.
static void pins_are_a_part_of_what_is_claimed(void **state)
{
    (void)state;
    struct profile *profile;
    struct cluster *cluster;
    struct error error = { 0 };
    const struct search_pin pin = { 1, 1 };
    struct search_request request = { .pinned = { &pin, 1 } };
    struct plan *plan = even_plan(&profile, &request, &cluster);
    assert_true(plan->certificate.proved);
    struct plan *read = plan_copy(plan, &error);
    assert_good(read, error);
    assert_int_equal(prove(read, profile, 0).verdict, CLAIM_HOLDS);
    struct text text = { 0 };
    plan_write(read, &text);
    assert_non_null(strstr(text.data, "\"pinned\": [\"l1\"]"));
    text_clear(&text);
    free(read->stages[1].pinned);
    read->stages[1].pinned = NULL;
    assert_int_equal(prove(read, profile, 0).verdict, CLAIM_FAILS);
    plan_free(read);
    plan_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_true_holds_and_what_is_false_fails),
        cmocka_unit_test(verdicts_are_sentences),
        cmocka_unit_test(pins_are_a_part_of_what_is_claimed),
    };
    return cmocka_run_group_tests_name("plan_prove", tests, NULL, NULL);
}
