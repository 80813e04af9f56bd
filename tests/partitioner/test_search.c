#include "partitioner/search.h"

#include "tests/partitioner/instance.h"

struct tally {
    uint64_t instances, feasible, proved, plans;
};

static void check_against(const struct instance *instance, uint64_t best, struct plan *plan, const struct error *error,
                          uint64_t trial, struct tally *tally)
{
    const struct search_request *request = &instance->request;
    tally->instances++;
    if (!plan) {
        if (best != UINT64_MAX || error->kind != ERROR_ANSWER)
            fail_msg("trial %d (%s, %d layers, %u ranks): no plan, but brute force has %d: %s", (int)trial,
                     request->schedule, (int)request->profile->layer_count, request->ranks, (int)best, error->text);
        return;
    }
    const struct certificate *certificate = &plan->certificate;
    tally->feasible++;
    tally->proved += certificate->proved;
    if (certificate->value_ns < best || certificate->lower_bound_ns > best
        || (certificate->proved && certificate->value_ns != best)
        || (!instance->network && plan->iteration_ns != certificate->value_ns))
        fail_msg("trial %d (%s, %d layers, %u ranks, %u micro-batches%s): value %d, bound %d, plan %d, proved %d, but the"
                 " best is %d",
                 (int)trial, request->schedule, (int)request->profile->layer_count, request->ranks,
                 request->micro_batches, instance->network ? ", shared links" : "", (int)certificate->value_ns,
                 (int)certificate->lower_bound_ns, (int)plan->iteration_ns, certificate->proved, (int)best);
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct stage_memory *memory = &plan->stages[s].memory;
        if (memory->peak_bytes > memory->capacity_bytes)
            fail_msg("trial %d: stage %d: peak %d, capacity %d", (int)trial, (int)s, (int)memory->peak_bytes,
                     (int)memory->capacity_bytes);
    }
}

// Every cut and every way to recompute is tried.
static void small_plans_are_the_best_there_are(void **state)
{
    (void)state;
    uint64_t seed = 8;
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(1000, 10000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, 8);
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, layers < 4 ? layers : 4);
        struct instance instance = instance_create(&seed, layers, ranks, false);
        struct error error = { 0 };
        const uint64_t best = brute_force(&instance, BRUTE_EVERY, &tally.plans);
        struct plan *plan = plan_search(&instance.request, &error);
        check_against(&instance, best, plan, &error, trial, &tally);
        plan_free(plan);
        instance_clear(&instance);
    }
    print_message("# %d instances, %d with a plan, %d proved, %d plans simulated by the twin\n", (int)tally.instances,
                  (int)tally.feasible, (int)tally.proved, (int)tally.plans);
    assert_true(tally.feasible > trials / 2 && tally.proved >= tally.feasible * 95 / 100);
}

// Asynchronous plans may gain by recomputing more than they must, which this twin
// does not try: its best is only a plan that must not be missed.
static void check_async(const struct instance *instance, uint64_t best, struct plan *plan, const struct error *error,
                        uint64_t trial, struct tally *tally)
{
    const uint64_t value = plan ? plan->certificate.value_ns : UINT64_MAX;
    if (plan && plan->certificate.proved && value < best)
        best = value;
    check_against(instance, best, plan, error, trial, tally);
}

static void plans_of_14_to_18_layers_are_proved(void **state)
{
    (void)state;
    uint64_t seed = 9;
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(200, 1000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        const uint32_t layers = 14 + (uint32_t)random_below(&seed, 5);
        const uint32_t ranks = 2 + (uint32_t)random_below(&seed, 4);
        struct instance instance = instance_create(&seed, layers, ranks, true);
        instance.request.micro_batches += (uint32_t)random_below(&seed, 8);
        struct error error = { 0 };
        const uint64_t best = brute_force(&instance, BRUTE_LEAST, &tally.plans);
        struct plan *plan = plan_search(&instance.request, &error);
        if (plan && plan->weights != WEIGHTS_FLUSH)
            check_async(&instance, best, plan, &error, trial, &tally);
        else
            check_against(&instance, best, plan, &error, trial, &tally);
        if (plan && !plan->certificate.proved)
            print_message("# trial %d (%s, %u layers, %u ranks): gap %d ppm, %s\n", (int)trial, plan->schedule, layers,
                          ranks, (int)(1e6 * plan->certificate.gap), plan->certificate.stopped);
        plan_free(plan);
        instance_clear(&instance);
    }
    print_message("# %d instances, %d with a plan, %d proved, %d plans simulated by the twin\n", (int)tally.instances,
                  (int)tally.feasible, (int)tally.proved, (int)tally.plans);
    assert_true(tally.feasible > trials / 2 && tally.proved >= tally.feasible * 95 / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_plans_are_the_best_there_are),
        cmocka_unit_test(plans_of_14_to_18_layers_are_proved),
    };
    return cmocka_run_group_tests_name("search", tests, NULL, NULL);
}
