// Plans of orders that exchange. The model is cut in front of its exchanges. What they take is a message between stages
// of one rank, and no part of F and of B.
#include <stdlib.h>
#include <string.h>

#include "partitioner/cost/within.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/explain/neighbours.h"
#include "partitioner/plan/plan_path.h"
#include "partitioner/plan_search.h"
#include "schedules/generators/generate.h"
#include "schedules/generators/given_order.h"
#include "tests/partitioner/small_dag.h"

enum { LAYERS = 8 };

static const char *const variants[] = { "rows2", "rows2" };

static void add_variant(struct profile_layer *layer, uint64_t communication_ns)
{
    layer->variants = calloc(1, sizeof layer->variants[0]);
    assert_non_null(layer->variants);
    layer->variant_count = 1;
    layer->variants[0] =
        (struct profile_variant){ .layer = *layer, .devices = 2, .communication_ns = communication_ns };
    layer->variants[0].layer.name = strdup("rows2");
    layer->variants[0].layer.kind = NULL;
    layer->variants[0].layer.variants = NULL;
    layer->variants[0].layer.variant_count = 0;
    layer->variants[0].layer.shapes = NULL;
    layer->variants[0].layer.shape_count = 0;
}

// Layers with exchanges among them, the first of which is layer `first`.
static struct profile *exchanging(uint64_t *seed, uint32_t *first)
{
    struct error error = { 0 };
    struct profile *profile = small_random_dag(seed, LAYERS, 4, 1000);
    *first = 1 + (uint32_t)random_below(seed, LAYERS - 1);
    for (uint32_t l = 0; l < LAYERS; l++) {
        struct profile_layer *layer = &profile->layers[l];
        if (l == *first || (l > *first && random_below(seed, 3) == 0)) {
            free(layer->kind);
            layer->kind = strdup("exchange");
        }
        add_variant(layer, random_below(seed, 400));
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static bool is_exchanged(const struct profile *profile, uint32_t layer, uint32_t first)
{
    if (layer < first || strcmp(profile->layers[layer].kind, "exchange") != 0)
        return false;
    for (size_t i = 0; i < profile->edge_count; i++)
        if (profile->edges[i].to == layer && profile->edges[i].from >= first)
            return false;
    return !profile->is_chain || layer == first;
}

static uint64_t iteration_with(const struct plan *plan, uint64_t more_ns)
{
    struct error error = { 0 };
    struct schedule *schedule = plan_schedule(plan, plan->micro_batches, true, &error);
    struct network *network = plan_network(plan, &error);
    struct simulation run = { 0 };
    assert_good(schedule && network, error);
    schedule->costs[0].exchange_ns += more_ns;
    assert_good(schedule_simulate(schedule, NULL, network, &run, NULL, &error), error);
    const uint64_t ns = run.iteration_ns;
    simulation_clear(&run);
    network_free(network);
    schedule_free(schedule);
    return ns;
}

// Whole exchanges are on the path. If each takes 1 ns more, the run takes longer by as many, unless it waits for some.
static uint64_t check_path(const struct plan *plan, uint64_t exchange_ns)
{
    struct error error = { 0 };
    struct plan_path path;
    assert_good(plan_path_read(plan, &path, &error), error);
    uint64_t sum = path.exchanging_ns + path.waiting_ns;
    for (size_t s = 0; s < path.stage_count; s++)
        sum += path.stages[s].compute_ns + path.stages[s].recompute_ns;
    assert_int_equal(sum, path.run_ns);
    assert_int_equal(path.link_count, 0);
    const uint64_t count = exchange_ns > 0 ? path.exchanging_ns / exchange_ns : 0;
    assert_int_equal(path.exchanging_ns, count * exchange_ns);
    if (path.waiting_ns == 0)
        assert_true(iteration_with(plan, 1) - iteration_with(plan, 0) >= count);
    plan_path_clear(&path);
    return count;
}

// By the formula of each stage, and by the evaluator, which has loops of its own.
static void exchanges_are_messages_of_the_only_cut(void **state)
{
    (void)state;
    uint64_t seed = 9;
    size_t beyond = 0, on_path = 0;
    for (uint64_t trial = 0; trial < test_trials(200, 3000); trial++) {
        struct error error = { 0 };
        uint32_t first;
        struct profile *profile = exchanging(&seed, &first);
        struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "tables-ahead",
                                                .ranks = 1, .micro_batches = 4,
                                                .layout = { .variants = variants, .stages = 2 } };
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        assert_int_equal(plan->stages[1].first, first);
        uint64_t exchange_ns = 0, forward_ns = 0, own_ns = 0;
        for (uint32_t l = first; l < LAYERS; l++) {
            const uint64_t communication_ns = profile->layers[l].variants[0].communication_ns;
            const bool is_message = is_exchanged(profile, l, first);
            exchange_ns += is_message ? communication_ns : 0;
            forward_ns += profile->layers[l].forward_ns + (is_message ? 0 : communication_ns);
            own_ns += is_message ? 0 : communication_ns;
            beyond += l > first && is_message;
        }
        assert_int_equal(within_ns(plan, profile, 1), own_ns);
        assert_int_equal(plan->stages[0].costs.exchange_ns, exchange_ns);
        assert_int_equal(plan->stages[1].costs.exchange_ns, 0);
        assert_int_equal(plan->stages[1].costs.forward_ns, forward_ns);
        assert_good(plan_evaluate(plan, profile, &error), error);
        on_path += check_path(plan, exchange_ns);
        plan->stages[0].costs.exchange_ns++;
        assert_false(plan_evaluate(plan, profile, &error));
        assert_memory_equal(error.text, "stages[0].costs.exchange_ns", 27);
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(beyond > 10 && on_path > 10);
}

// By any other schedule the devices of a stage exchange within F and B, wherever the model is cut.
static void other_orders_have_them_within_their_stages(void **state)
{
    (void)state;
    uint64_t seed = 10;
    for (uint64_t trial = 0; trial < test_trials(20, 300); trial++) {
        struct error error = { 0 };
        uint32_t first;
        struct profile *profile = exchanging(&seed, &first);
        struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "interleaved",
                                                .ranks = 1, .micro_batches = 4,
                                                .layout = { .variants = variants, .stages = 2 } };
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        uint64_t want_ns = 0, within = 0;
        for (uint32_t l = 0; l < LAYERS; l++) {
            want_ns += profile->layers[l].forward_ns + profile->layers[l].variants[0].communication_ns;
            within += profile->layers[l].variants[0].communication_ns;
        }
        assert_int_equal(within_ns(plan, profile, 0) + within_ns(plan, profile, 1), within);
        assert_int_equal(plan->stages[0].costs.forward_ns + plan->stages[1].costs.forward_ns, want_ns);
        assert_int_equal(plan->stages[0].costs.exchange_ns, 0);
        assert_good(plan_evaluate(plan, profile, &error), error);
        plan_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
}

static void a_cut_that_is_forbidden_is_named(void **state)
{
    (void)state;
    uint64_t seed = 11;
    struct error error = { 0 };
    uint32_t first;
    struct profile *profile = exchanging(&seed, &first);
    struct cluster *cluster = cluster_uniform(2, 1 << 20, 100, 1000000000, &error);
    profile->no_cut_after = malloc(sizeof profile->no_cut_after[0]);
    profile->no_cut_after[0] = first - 1;
    profile->no_cut_count = 1;
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "tables-ahead",
                                            .ranks = 1, .micro_batches = 4,
                                            .layout = { .variants = variants, .stages = 2 } };
    char want[300];
    snprintf(want, sizeof want, "tables-ahead exchanges, so that the model is cut in front of its layer %s and nowhere"
             " else, which no_cut_after or a tied layer forbids; take another schedule", profile->layers[first].name);
    assert_null(plan_search(&request, &error));
    assert_non_null(strstr(error.text, want));
    cluster_free(cluster);
    profile_free(profile);
}

// --- layers of experts that are cut ----------------------------------------------------------

enum { MOST_EXPERTS = 6, PER_BLOCK = 5, MOST_STAGES = 3 * MOST_EXPERTS };

// Blocks of an attention, a router, products, a sum, and an MLP.
static struct profile *with_experts(uint64_t *seed, size_t blocks)
{
    static const char *const kinds[PER_BLOCK] = { "attention", "router", "products", "combine", "mlp" };
    struct error error = { 0 };
    struct profile *profile = small_random_chain(seed, blocks * PER_BLOCK, 1000);
    for (size_t l = 0; l < profile->layer_count; l++) {
        struct profile_layer *layer = &profile->layers[l];
        const char *kind = kinds[l % PER_BLOCK];
        free(layer->kind);
        layer->kind = strdup(kind);
        add_variant(layer, l % PER_BLOCK == 2 || l % PER_BLOCK == 3 ? random_below(seed, 400) : 0);
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static struct schedule *segmented(const char *name, uint32_t ranks, uint32_t segments)
{
    struct error error = { 0 };
    const struct generate_request generate = { .ranks = ranks, .micro_batches = 4, .into = { .segments = segments } };
    struct schedule *whole = schedule_generate_as(name, &generate, &error);
    assert_good(whole, error);
    struct schedule *order = given_order(whole, &error);
    assert_good(order, error);
    schedule_free(whole);
    return order;
}

// All cuts in which each layer that reads rows begins a stage. Its rank has the stage before it, too. Each stage of the
// uncut order has as many such layers.
struct cutting {
    const struct search_request *request;
    const struct profile *profile;
    uint32_t segments, ends[MOST_STAGES + 1];
    uint64_t best_ns, plans;
};

static bool reads_rows(const struct profile *profile, uint32_t layer)
{
    const char *kind = layer < profile->layer_count ? profile->layers[layer].kind : "";
    return strcmp(kind, "products") == 0 || strcmp(kind, "combine") == 0;
}

// With each layer pinned there is one plan, or none that fits. The evaluator has loops of its own.
static void price(struct cutting *cutting)
{
    struct error error = { 0 };
    struct search_pin pins[MOST_EXPERTS * PER_BLOCK];
    struct search_request request = *cutting->request;
    request.pinned = (struct search_pins){ .at = pins, .count = cutting->profile->layer_count };
    for (uint32_t s = 0; s < cutting->request->given->stages; s++)
        for (uint32_t l = cutting->ends[s]; l < cutting->ends[s + 1]; l++)
            pins[l] = (struct search_pin){ l, s };
    struct plan *plan = plan_search(&request, &error);
    if (!plan) {
        assert_int_equal(error.kind, ERROR_ANSWER);
        return;
    }
    for (uint32_t s = 0; s < plan->stage_count; s++)
        assert_int_equal(plan->stages[s].end, cutting->ends[s + 1]);
    assert_good(plan_evaluate(plan, cutting->profile, &error), error);
    cutting->best_ns = plan->iteration_ns < cutting->best_ns ? plan->iteration_ns : cutting->best_ns;
    cutting->plans++;
    plan_free(plan);
}

static void try_ends(struct cutting *cutting, uint32_t stage)
{
    const struct schedule *order = cutting->request->given;
    const uint32_t layers = (uint32_t)cutting->profile->layer_count;
    if (stage == order->stages) {
        if (cutting->ends[stage] == layers)
            price(cutting);
        return;
    }
    for (uint32_t end = cutting->ends[stage] + 1; end <= layers; end++) {
        const bool within = (stage + 1) % cutting->segments > 0;
        if (reads_rows(cutting->profile, end) == (within && stage + 1 < order->stages)) {
            cutting->ends[stage + 1] = end;
            try_ends(cutting, stage + 1);
        }
        if (reads_rows(cutting->profile, end))
            break;
    }
}

// A layer may move over a cut between two stages of the uncut order, in one of both directions at least.
static void check_neighbours(const struct plan *plan, const struct profile *profile, uint32_t segments)
{
    struct error error = { 0 };
    size_t moved = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        struct neighbour found[MOST_NEIGHBOURS];
        size_t count;
        assert_good(neighbours_of_stage(plan, profile, s, found, &count, &error), error);
        for (size_t i = 0; i < count; i++) {
            const bool back = found[i].kind == NEIGHBOUR_GIVES_BACK;
            const uint32_t cut = back ? plan->stages[s].first + 1 : plan->stages[s].end - 1;
            if (found[i].kind == NEIGHBOUR_SPARES || found[i].outcome == NEIGHBOUR_ONLY_LAYER)
                continue;
            const bool is_held = (back ? s : s + 1) % segments > 0 || reads_rows(profile, cut);
            assert_int_equal(found[i].outcome, is_held ? NEIGHBOUR_NO_CUT : NEIGHBOUR_NO_FASTER);
            moved += !is_held;
        }
    }
    assert_true(moved + 1 >= plan->stage_count / segments);
}

// The search finds the best of all cuts, or that none fits. Returns its plan, or NULL.
static struct plan *best_of_all_cuts(const struct search_request *request, uint32_t segments)
{
    struct error error = { 0 };
    struct plan *plan = plan_search(request, &error);
    struct cutting cutting = { .segments = segments, .request = request, .profile = request->profile,
                               .best_ns = UINT64_MAX };
    try_ends(&cutting, 0);
    assert_true(plan ? cutting.plans > 0 : error.kind == ERROR_ANSWER && cutting.plans == 0);
    if (!plan)
        return NULL;
    if (plan->iteration_ns != cutting.best_ns)
        fail_msg("by %s: %d ns, the best cut takes %d", request->schedule, (int)plan->iteration_ns,
                 (int)cutting.best_ns);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const uint32_t end = plan->stages[s].end;
        const struct profile_layer *layers = request->profile->layers;
        const bool is_message = reads_rows(request->profile, end);
        assert_int_equal(plan->stages[s].costs.exchange_ns, is_message ? layers[end].variants[0].communication_ns : 0);
        assert_int_equal(within_ns(plan, request->profile, s), 0);
    }
    assert_good(plan_evaluate(plan, request->profile, &error), error);
    return plan;
}

static size_t recomputed(const struct plan *plan)
{
    size_t count = 0;
    for (uint32_t s = 0; plan && s < plan->stage_count; s++)
        count += plan->stages[s].recompute_count;
    return count;
}

// With memory for all, and small models also with less than that plan needs.
static void rows_of_experts_are_messages_of_each_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks, segments;
        size_t experts;
    } rows[] = { { "gpipe", 1, 3, 1 }, { "1f1b", 2, 3, 2 }, { "zb-h1", 2, 3, 2 }, { "dualpipe", 2, 3, 2 },
                 { "gpipe", 2, 5, 4 }, { "interleaved", 2, 3, 4 }, { "zb-v", 2, 3, 4 }, { "1f1b", 4, 3, 4 } };
    uint64_t seed = 12;
    size_t segments_recomputed = 0;
    for (uint64_t trial = 0; trial < test_all_trials(16, 600); trial++) {
        const size_t row = trial % (sizeof rows / sizeof rows[0]);
        const char *names[MOST_STAGES];
        struct error error = { 0 };
        struct profile *profile = with_experts(&seed, rows[row].experts);
        struct schedule *order = segmented(rows[row].name, rows[row].ranks, rows[row].segments);
        struct cluster *cluster = cluster_uniform(8, 1 << 20, 100, 1000000000, &error);
        assert_true(order->stages <= MOST_STAGES);
        for (size_t s = 0; s < MOST_STAGES; s++)
            names[s] = "rows2";
        struct search_request request = { .profile = profile, .cluster = cluster, .schedule = rows[row].name,
                                          .given = order, .ranks = rows[row].ranks, .micro_batches = 4,
                                          .layout = { .variants = names, .stages = order->stages } };
        struct plan *plan = best_of_all_cuts(&request, rows[row].segments);
        assert_non_null(plan);
        check_neighbours(plan, profile, rows[row].segments);
        if (rows[row].experts <= 2) {
            const uint64_t bytes = plan_peak_bytes(plan, &(uint32_t){ 0 }, &error);
            struct cluster *tight = cluster_uniform(8, bytes - bytes / (2 + trial % 6), 100, 1000000000, &error);
            request.cluster = tight;
            struct plan *smaller = best_of_all_cuts(&request, rows[row].segments);
            segments_recomputed += recomputed(smaller);
            plan_free(smaller);
            cluster_free(tight);
        }
        plan_free(plan);
        cluster_free(cluster);
        schedule_free(order);
        profile_free(profile);
    }
    assert_true(segments_recomputed > 0);
}

static void segments_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t ranks, segments;
        size_t experts;
        const char *error;
    } rows[] = {
        { "1f1b", 2, 3, 4, "1f1b has 6 stages, and 8 layers of the model read rows of experts, in front of which it is"
                           " cut: take an order whose stages have the same number N of layers of experts each, and are"
                           " cut into 2 N + 1 segments" },
        { "1f1b", 5, 3, 6, "layer l7 begins stage 3 of 1f1b, and its rows come from another rank: cut its stages"
                           " into 5 segments each" },
    };
    uint64_t seed = 13;
    const char *names[MOST_STAGES];
    for (size_t s = 0; s < MOST_STAGES; s++)
        names[s] = "rows2";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct profile *profile = with_experts(&seed, rows[i].experts);
        struct schedule *order = segmented(rows[i].name, rows[i].ranks, rows[i].segments);
        struct cluster *cluster = cluster_uniform(8, 1 << 20, 100, 1000000000, &error);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = rows[i].name,
                                                .given = order, .ranks = rows[i].ranks, .micro_batches = 4,
                                                .layout = { .variants = names, .stages = order->stages } };
        assert_null(plan_search(&request, &error));
        assert_error(error, rows[i].error);
        cluster_free(cluster);
        schedule_free(order);
        profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges_are_messages_of_the_only_cut),
        cmocka_unit_test(other_orders_have_them_within_their_stages),
        cmocka_unit_test(a_cut_that_is_forbidden_is_named),
        cmocka_unit_test(rows_of_experts_are_messages_of_each_cut),
        cmocka_unit_test(segments_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests_name("exchange_plan", tests, NULL, NULL);
}
