#include "partitioner/orders/order_plan.h"

#include "partitioner/orders/orders.h"
#include "partitioner/plan_search.h"
#include "tests/partitioner/brute_orders.h"

struct instance {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
};

static const struct kind {
    const char *schedule;
    uint32_t most_ranks, chunks, most_layers;
} kinds[] = {
    { "gpipe", 4, 1, 9 },       { "1f1b", 4, 1, 9 },      { "zb-h1", 3, 1, 9 },
    { "interleaved", 2, 2, 7 }, { "pipedream", 3, 1, 7 },
};

// Capacities around what some plan takes: even parts of the layers in the profile's order.
static void set_memory(struct instance *instance, bool ample, uint64_t *seed)
{
    struct error error = { 0 };
    const struct search_request *request = &instance->request;
    struct slots *slots =
        predict_slots(request->schedule, request->ranks, request->chunks, request->micro_batches, &error);
    assert_good(slots, error);
    const uint32_t layers = (uint32_t)instance->profile->layer_count;
    for (uint32_t r = 0; r < request->ranks; r++) {
        const uint32_t first = layers * r / request->ranks, end = layers * (r + 1) / request->ranks;
        const struct stage_bytes bytes = stage_bytes_of(instance->profile, first, end, NULL, 0, &request->holding);
        const uint64_t peak = request->chunks * stage_memory_of(&bytes, &slots[r]).peak_bytes;
        instance->cluster->devices[r].memory_bytes =
            ample ? 8 * peak + 1 : 1 + peak / 2 + peak / 8 * random_below(seed, 7);
    }
    free(slots);
}

// Where memory is tight the twin has all orders and segments of a stage to go through.
enum { TIGHT_LAYERS = 7 };

static struct instance instance_create(uint64_t *seed)
{
    struct error error = { 0 };
    const struct kind *kind = &kinds[random_below(seed, sizeof kinds / sizeof kinds[0])];
    const uint32_t ranks = kind->chunks > 1 ? kind->most_ranks : 1 + (uint32_t)random_below(seed, kind->most_ranks);
    const uint32_t least = ranks * kind->chunks + 1;
    const bool ample = random_below(seed, 3) == 0;
    const uint32_t most = ample || kind->most_layers < TIGHT_LAYERS ? kind->most_layers : TIGHT_LAYERS;
    const uint32_t layers = least + (uint32_t)random_below(seed, most - least + 1);
    struct instance instance = { .profile = small_random_dag(seed, layers, 2 + (uint32_t)random_below(seed, 3),
                                                             random_below(seed, 3) ? 1000 : 4) };
    if (random_below(seed, 5) == 0) {
        instance.profile->tied = malloc(sizeof instance.profile->tied[0]);
        const uint32_t from = (uint32_t)random_below(seed, layers - 1);
        instance.profile->tied[0] =
            (struct edge){ from, from + 1 + (uint32_t)random_below(seed, 2) % (layers - from - 1) };
        instance.profile->tied_count = 1;
    }
    if (random_below(seed, 6) == 0) {
        instance.profile->no_cut_after = malloc(sizeof(uint32_t));
        instance.profile->no_cut_after[0] = (uint32_t)random_below(seed, layers);
        instance.profile->no_cut_count = 1;
    }
    assert_good(profile_rehash(instance.profile, &error), error);
    const uint64_t rate = random_below(seed, 3) == 0 ? 1000000000 : 1000000000000;
    instance.cluster = cluster_uniform(ranks, 1, random_below(seed, 200), rate, &error);
    assert_good(instance.cluster, error);
    if (random_below(seed, 4) == 0)
        for (uint32_t r = 0; r < ranks; r++)
            instance.cluster->devices[r].speed_permille = 500 + 250 * random_below(seed, 4);
    instance.request = (struct search_request){ .profile = instance.profile, .cluster = instance.cluster,
                                                .schedule = kind->schedule, .ranks = ranks, .chunks = kind->chunks,
                                                .micro_batches = ranks * (1 + (uint32_t)random_below(seed, 2)),
                                                .holding.optimizer = (enum optimizer_kind)random_below(seed, 3) };
    set_memory(&instance, ample, seed);
    return instance;
}

static void instance_clear(struct instance *instance)
{
    profile_free(instance->profile);
    cluster_free(instance->cluster);
}

struct tally {
    uint64_t instances, feasible, proved, ordered, better, plans;
};

static void check_against(const struct instance *instance, uint64_t best, const struct plan *plan,
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
    const uint64_t trials = test_trials(400, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct instance instance = instance_create(&seed);
        struct error error = { 0 }, own_error = { 0 };
        const uint64_t best = brute_orders(&instance.request, &tally.plans);
        struct plan *plan = plan_search_orders(&instance.request, &error);
        check_against(&instance, best, plan, &error, trial, &tally);
        struct plan *own = plan_search(&instance.request, &own_error);
        if (own && (!plan || plan->certificate.value_ns > own->certificate.value_ns))
            fail_msg("trial %d: all orders have no plan as good as one of them", (int)trial);
        tally.better += plan && (!own || plan->certificate.value_ns < own->certificate.value_ns);
        plan_free(own);
        plan_free(plan);
        instance_clear(&instance);
    }
    print_message("# %d instances, %d with a plan, %d proved, %d in an order of their own, %d better than in the"
                  " profile's, %d plans simulated by the twin\n", (int)tally.instances, (int)tally.feasible, (int)tally.proved,
                  (int)tally.ordered, (int)tally.better, (int)tally.plans);
    assert_true(tally.feasible > trials / 2 && tally.proved >= tally.feasible * 9 / 10 && tally.better > trials / 50);
}

// Loops and mixtures of paths, each by itself, with a plan to better that is a little slower than the best.
static void no_bound_of_paths_is_above_the_best(void **state)
{
    (void)state;
    uint64_t seed = 55, plans = 0, bounded = 0, settled[2] = { 0 }, found[2] = { 0 };
    const uint64_t trials = test_trials(200, 10000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        struct instance instance = instance_create(&seed);
        const uint64_t best = brute_orders(&instance.request, &plans);
        for (int by_mixtures = 0; best != UINT64_MAX && by_mixtures < 2; by_mixtures++) {
            struct orders *orders = orders_create(&instance.request, ORDERS_AS_IS, 0, &error);
            bool whole = true;
            uint64_t bound = 0;
            assert_true(orders || error.kind == ERROR_ANSWER);
            if (orders && orders->pattern.is_known && orders->stages > 1) {
                orders->best.value_ns = best + 1 + best / 20;
                assert_good(order_tables_fill(orders, orders->best.value_ns, &whole, &error), error);
                assert_good(by_mixtures ? order_paths(orders, UINT64_MAX, &bound, &error)
                                        : order_loops(orders, UINT64_MAX, &bound, &error), error);
                if (bound > best || orders->best.value_ns < best)
                    fail_msg("trial %d (%s): %s say %d, and have a plan of %d, but the best is %d", (int)trial,
                             instance.request.schedule, by_mixtures ? "mixtures" : "loops", (int)bound,
                             (int)orders->best.value_ns, (int)best);
                bounded += by_mixtures == 0;
                settled[by_mixtures] += bound == best;
                found[by_mixtures] += orders->best.value_ns == best;
            }
            orders_free(orders);
        }
        instance_clear(&instance);
    }
    print_message("# %d bounded; settled: %d by loops, %d by mixtures; best plan found: %d, %d\n", (int)bounded,
                  (int)settled[0], (int)settled[1], (int)found[0], (int)found[1]);
    assert_true(bounded > trials / 6 && settled[1] > bounded * 4 / 5 && found[1] > bounded * 4 / 5);
}

// The twin of what any order recomputes at least: all of them.
static void no_order_recomputes_less_than_is_said(void **state)
{
    (void)state;
    uint64_t seed = 54, compared = 0, said = 0;
    for (uint64_t trial = 0; trial < test_trials(150, 4000); trial++) {
        struct error error = { 0 };
        struct instance instance = instance_create(&seed);
        struct orders *orders = orders_create(&instance.request, ORDERS_AS_IS, 0, &error);
        assert_true(orders || error.kind == ERROR_ANSWER);
        const uint32_t stage = orders ? (uint32_t)random_below(&seed, orders->stages) : 0;
        for (uint32_t from = 0; orders && from < orders->downsets; from++) {
            const uint32_t to = from + (uint32_t)random_below(&seed, orders->downsets - from);
            const struct downsets *downsets = orders->graph->downsets;
            if (to == from
                || !downsets_within(downsets_set(downsets, from), downsets_set(downsets, to), downsets->words))
                continue;
            const uint64_t least = order_recompute_ns(orders, stage, from, to);
            const struct order_stage *of = order_front(orders, stage, from, to, &error);
            assert_good(of, error);
            const uint64_t best = of->count > 0 ? of->at[0].forward_ns : UINT64_MAX;
            if (of->complete && least > best)
                fail_msg("trial %d: %d ns at least, but %d will do", (int)trial, (int)least, (int)best);
            compared += of->complete;
            said += of->complete && least > 0;
        }
        orders_free(orders);
        instance_clear(&instance);
    }
    assert_true(said > compared / 20);
}

// Layers that take no time are put to others only where no plan loses by it.
static void a_reduced_graph_loses_nothing(void **state)
{
    (void)state;
    uint64_t seed = 52, plans = 0, reduced = 0, settled = 0;
    const uint64_t trials = test_trials(200, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct instance instance = instance_create(&seed);
        struct error error = { 0 };
        for (size_t l = 0; l < instance.profile->layer_count; l++) {
            struct profile_layer *layer = &instance.profile->layers[l];
            if (random_below(&seed, 2))
                layer->forward_ns = layer->backward_ns = layer->backward_input_ns = layer->backward_weight_ns =
                    layer->parameter_bytes = 0;
            layer->output_bytes *= random_below(&seed, 3);
        }
        if (strcmp(instance.request.schedule, "pipedream") != 0) {
            const uint64_t best = brute_orders(&instance.request, &plans);
            struct orders *orders = orders_create(&instance.request, ORDERS_REDUCED, 1000, &error);
            uint64_t bound = 0;
            if (!orders && error.kind != ERROR_ANSWER)
                fail_msg("trial %d: %s", (int)trial, error.text);
            if (orders)
                assert_good(orders_search(orders, &bound, &error), error);
            if (orders
                && (orders->best.value_ns < best
                    || (best != UINT64_MAX && bound > best && orders->best.value_ns != best)))
                fail_msg("trial %d (%s): value %d, bound %d, but the best is %d", (int)trial, instance.request.schedule,
                         (int)orders->best.value_ns, (int)bound, (int)best);
            reduced += orders && orders->graph->block_count < instance.profile->layer_count;
            settled += orders && orders->best.value_ns == best && bound >= best;
            orders_free(orders);
        }
        instance_clear(&instance);
    }
    print_message("# %d graphs were reduced, %d of all settled\n", (int)reduced, (int)settled);
    assert_true(reduced > trials / 3 && settled > trials / 5);
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
        struct plan *plan = plan_search(&in_order, &error);
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
    const uint64_t trials = test_trials(60, 1000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        struct profile *profile = small_random_dag(&seed, 4 + (uint32_t)random_below(&seed, 2), 3, 1000);
        struct cluster *cluster = cluster_uniform(3, 64 << 10, 100, 1000000000, &error);
        assert_good(cluster, error);
        if (random_below(&seed, 2))
            cluster->devices[1].speed_permille = 700;
        struct search_request request = { .profile = profile, .cluster = cluster, .ranks = 3, .chunks = 1,
                                          .schedule = kinds[random_below(&seed, 2)].schedule, .micro_batches = 4,
                                          .holding.optimizer = OPTIMIZER_ADAMW };
        const uint64_t what = random_below(&seed, 4);
        request.free.replicas = what == 0;
        request.free.devices = what == 1;
        request.free.fewer = what == 2;
        request.holding.step_rate = what == 3 ? 1000000000 : 0;
        uint32_t order[SMALL_DAG_MOST];
        const uint64_t best = best_of_orders(&request, order, 0, 0);
        struct plan *plan = plan_search_orders(&request, &error);
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

// Copies, splits, backwards in parts, several stages on a rank: whatever the schedule does.
static void every_schedule_is_planned(void **state)
{
    (void)state;
    uint64_t seed = 54;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct profile *profile = small_random_dag(&seed, 10, 3, 1000);
        struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
        assert_good(cluster, error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = generator->name,
                                                .ranks = 2, .micro_batches = 4, .holding.optimizer = OPTIMIZER_ADAMW };
        struct plan *own = plan_search(&request, &error), *plan = plan_search_orders(&request, &error);
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
        cmocka_unit_test(no_bound_of_paths_is_above_the_best),
        cmocka_unit_test(no_order_recomputes_less_than_is_said),
        cmocka_unit_test(a_reduced_graph_loses_nothing),
        cmocka_unit_test(small_plans_are_the_best_of_all_orders),
    };
    return cmocka_run_group_tests_name("order_plan", tests, NULL, NULL);
}
