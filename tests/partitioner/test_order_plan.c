#include "partitioner/plan_search.h"

#include "tests/partitioner/graph_instance.h"
#include "tests/partitioner/own_order.h"

struct tally {
    uint64_t instances, feasible, proved, ordered, better, plans;
};

static void check_against(const struct graph_instance *instance, uint64_t best, const struct plan *plan,
                          const struct error *error, uint64_t trial, struct tally *tally)
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
    tally->ordered += plan->order != NULL;
    if (certificate->value_ns < best || certificate->lower_bound_ns > best
        || (certificate->proved && certificate->value_ns != best) || plan->iteration_ns != certificate->value_ns)
        fail_msg("trial %d (%s, %d layers, %u ranks, %u micro-batches): value %d, bound %d, plan %d, proved %d, but the"
                 " best is %d",
                 (int)trial, request->schedule, (int)request->profile->layer_count, request->ranks,
                 request->micro_batches, (int)certificate->value_ns, (int)certificate->lower_bound_ns,
                 (int)plan->iteration_ns, certificate->proved, (int)best);
}

// Every order, every cut and every way to recompute is tried.
static void small_plans_are_the_best_of_all_orders(void **state)
{
    (void)state;
    uint64_t seed = 51;
    struct tally tally = { 0 };
    const uint64_t trials = test_trials(80, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct graph_instance instance = graph_instance_create(&seed);
        struct error error = { 0 }, own_error = { 0 };
        const uint64_t best = brute_orders(&instance.request, &tally.plans);
        struct plan *plan = plan_search(&instance.request, &error);
        check_against(&instance, best, plan, &error, trial, &tally);
        struct plan *own = own_order_search(&instance.request, &own_error);
        if (own && (!plan || plan->certificate.value_ns > own->certificate.value_ns))
            fail_msg("trial %d: all orders have no plan as good as one of them", (int)trial);
        tally.better += plan && (!own || plan->certificate.value_ns < own->certificate.value_ns);
        plan_free(own);
        plan_free(plan);
        graph_instance_clear(&instance);
    }
    print_message("# %d instances, %d with a plan, %d proved, %d in an order of their own, %d better than in the"
                  " profile's, %d plans simulated by the twin\n", (int)tally.instances, (int)tally.feasible, (int)tally.proved,
                  (int)tally.ordered, (int)tally.better, (int)tally.plans);
    assert_true(tally.feasible > trials / 2 && tally.proved >= tally.feasible * 9 / 10 && tally.better > trials / 50);
}

// The best plan of every order by itself, order by order.
static uint64_t best_of_orders(const struct search_request *request, uint32_t *order, uint32_t at, uint32_t placed)
{
    const struct profile *profile = request->profile;
    uint64_t best = UINT64_MAX;
    if (at == profile->layer_count) {
        struct error error = { 0 };
        struct profile *ordered = profile_reorder(profile, order, &error);
        assert_good(ordered, error);
        struct search_request in_order = *request;
        in_order.profile = ordered;
        struct plan *plan = own_order_search(&in_order, &error);
        best = plan ? plan->certificate.value_ns : UINT64_MAX;
        plan_free(plan);
        profile_free(ordered);
        return best;
    }
    for (uint32_t l = 0; l < profile->layer_count; l++) {
        bool ready = !(placed >> l & 1);
        for (size_t e = 0; e < profile->edge_count; e++)
            ready &= profile->edges[e].to != l || (placed >> profile->edges[e].from & 1);
        if (!ready)
            continue;
        order[at] = l;
        const uint64_t own = best_of_orders(request, order, at + 1, placed | 1u << l);
        best = own < best ? own : best;
    }
    return best;
}

// Replicas, devices to choose from, states held in other ways: not all of it is searched
// over all orders, and then nothing is claimed that is not so.
static void what_is_not_searched_is_not_claimed(void **state)
{
    (void)state;
    uint64_t seed = 53, planned = 0, ordered = 0;
    const uint64_t trials = test_trials(30, 1000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        struct profile *profile = small_random_dag(&seed, 4 + (uint32_t)random_below(&seed, 2), 3, 1000);
        struct cluster *cluster = cluster_uniform(3, 64 << 10, 100, 1000000000, &error);
        assert_good(cluster, error);
        if (random_below(&seed, 2))
            cluster->devices[1].speed_permille = 700;
        struct search_request request = { .profile = profile, .cluster = cluster, .ranks = 3, .chunks = 1,
                                          .schedule = graph_kinds[random_below(&seed, 2)].schedule, .micro_batches = 4,
                                          .storage.optimizer = OPTIMIZER_ADAMW };
        const uint64_t what = random_below(&seed, 4);
        request.free.replicas = what == 0;
        request.free.devices = what == 1;
        request.free.fewer = what == 2;
        request.storage.step_rate = what == 3 ? 1000000000 : 0;
        uint32_t order[SMALL_DAG_MOST];
        const uint64_t best = best_of_orders(&request, order, 0, 0);
        struct plan *plan = plan_search(&request, &error);
        if (plan && (plan->certificate.value_ns < best || plan->certificate.lower_bound_ns > best))
            fail_msg("trial %d: value %d, bound %d, but the best is %d", (int)trial, (int)plan->certificate.value_ns,
                     (int)plan->certificate.lower_bound_ns, (int)best);
        planned += plan != NULL;
        ordered += plan && plan->order;
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    print_message("# %d planned, %d in an order of their own\n", (int)planned, (int)ordered);
    assert_true(planned > trials / 2);
}

// Asked for, the profile's own order is kept, with the best plan of it; what is claimed is true of all orders.
static void the_own_order_is_kept_where_it_is_asked_for(void **state)
{
    (void)state;
    uint64_t seed = 57, kept = 0, worse = 0, missing = 0, plans = 0;
    const uint64_t trials = test_trials(40, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct graph_instance instance = graph_instance_create(&seed);
        struct error error = { 0 }, own_error = { 0 };
        struct search_request request = instance.request;
        uint64_t least_ns = 0;
        request.wanted.own_order = true;
        request.found.least_ns = &least_ns;
        const uint64_t best = brute_orders(&instance.request, &plans);
        struct plan *plan = plan_search(&request, &error), *own = own_order_search(&instance.request, &own_error);
        const struct certificate *certificate = plan ? &plan->certificate : NULL;
        if (!plan != !own || (plan && (plan->order || plan->iteration_ns != own->iteration_ns)))
            fail_msg("trial %d: another plan than that of the profile's own order", (int)trial);
        if (least_ns > best || (plan && (certificate->value_ns < best || certificate->lower_bound_ns > best
                                         || (certificate->proved && certificate->value_ns != best))))
            fail_msg("trial %d: value %d, bound %d, least %d, but the best of all orders is %d", (int)trial,
                     plan ? (int)certificate->value_ns : -1, plan ? (int)certificate->lower_bound_ns : -1, (int)least_ns,
                     (int)best);
        if (!plan && error.kind == ERROR_ANSWER && !profile_has_one_order(request.profile))
            assert_non_null(strstr(error.text, "others may have a plan"));
        kept += plan != NULL;
        worse += plan && certificate->value_ns > best;
        missing += !plan && best != UINT64_MAX;
        plan_free(own);
        plan_free(plan);
        graph_instance_clear(&instance);
    }
    print_message("# %d plans in the profile's own order, %d slower than the best of all, %d missing\n", (int)kept,
                  (int)worse, (int)missing);
    assert_true(kept > trials / 2 && worse > 0);
}

// Copies, splits, backwards in parts, several stages on a rank: whatever the schedule does.
static void every_schedule_is_planned(void **state)
{
    (void)state;
    uint64_t seed = 54;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct profile *profile = small_random_dag(&seed, 10, 3, 1000);
        profile->sequences = SEQUENCES_SOME;  // for the schedules that cut them
        struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
        assert_good(cluster, error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = generator->name,
                                                .ranks = generator_ranks(generator, 2), .micro_batches = 4,
                                                .storage.optimizer = OPTIMIZER_ADAMW };
        struct plan *own = own_order_search(&request, &error), *plan = plan_search(&request, &error);
        if (!own || !plan)
            fail_msg("%s: %s", generator->name, error.text);
        if (plan->certificate.value_ns > own->certificate.value_ns)
            fail_msg("%s: all orders have no plan as good as one of them", generator->name);
        plan_free(own);
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_searched_is_not_claimed),
        cmocka_unit_test(every_schedule_is_planned),
        cmocka_unit_test(the_own_order_is_kept_where_it_is_asked_for),
        cmocka_unit_test(small_plans_are_the_best_of_all_orders),
    };
    return cmocka_run_group_tests_name("order_plan", tests, NULL, NULL);
}
