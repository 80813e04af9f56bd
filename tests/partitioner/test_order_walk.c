#include "partitioner/orders/orders.h"
#include "tests/partitioner/brute_orders.h"

// A stage of some of the layers on a device that is too small for it as it is, mostly.
struct instance {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
    struct brute_orders brute;
    bool has_workspaces;
};

static void instance_create(struct instance *instance, uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t layers = 4 + (uint32_t)random_below(seed, 4), ranks = 2 + (uint32_t)random_below(seed, 2);
    instance->profile = small_random_dag(seed, layers, 2 + (uint32_t)random_below(seed, 3),
                                         random_below(seed, 3) ? 1000 : 4);
    const bool has_large_outputs = random_below(seed, 2);  // then it matters most which tensors are kept already
    instance->has_workspaces = random_below(seed, 3) == 0;
    for (uint32_t l = 0; l < layers; l++) {
        struct profile_layer *layer = &instance->profile->layers[l];
        layer->saved_bytes *= 4;
        layer->output_bytes *= has_large_outputs ? 4 : 1;
        layer->input_kept = has_large_outputs ? INPUT_KEPT_BOTH : layer->input_kept;
        layer->parameter_bytes /= 2;
        if (!instance->has_workspaces)
            layer->workspace_bytes = layer->backward_workspace_bytes = 0;
    }
    assert_good(profile_rehash(instance->profile, &error), error);
    instance->cluster = cluster_uniform(ranks, 1, 10, 1000000000, &error);
    assert_good(instance->cluster, error);
    instance->request = (struct search_request){ .profile = instance->profile, .cluster = instance->cluster,
                                                 .schedule = random_below(seed, 2) ? "1f1b" : "gpipe", .ranks = ranks,
                                                 .chunks = 1, .micro_batches = ranks * 2,
                                                 .holding.optimizer = OPTIMIZER_SGD };
    struct schedule *order = schedule_generate(instance->request.schedule, ranks, 1, 2 * ranks, &error);
    assert_good(order, error);
    instance->brute = (struct brute_orders){ .request = &instance->request, .flushes = true, .layers = layers,
                                             .placement = placement_read(order, &error), .stages = ranks };
    instance->brute.slots = predict_slots(instance->request.schedule, ranks, 1, 2 * ranks, &error);
    schedule_free(order);
    assert_good(instance->brute.placement && instance->brute.slots, error);
    for (size_t e = 0; e < instance->profile->edge_count; e++)
        instance->brute.after[instance->profile->edges[e].to] |= 1u << instance->profile->edges[e].from;
    for (uint32_t r = 0; r < ranks; r++) {
        const struct stage_bytes bytes =
            stage_bytes_of(instance->profile, 0, layers, NULL, 0, &instance->request.holding);
        const uint64_t peak = stage_memory_of(&bytes, &instance->brute.slots[r]).peak_bytes;
        instance->cluster->devices[r].memory_bytes = 1 + peak / 16 * (7 + random_below(seed, 7));
    }
}

static void instance_clear(struct instance *instance)
{
    for (size_t i = 0; i < 4096; i++)
        free(instance->brute.known[i]);
    placement_free(instance->brute.placement);
    free(instance->brute.slots);
    profile_free(instance->profile);
    cluster_free(instance->cluster);
}

static uint32_t bits_of(const struct orders *orders, uint32_t d)
{
    uint32_t bits = 0;
    for (uint32_t l = 0; l < orders->graph->profile->layer_count; l++)
        bits |= (uint32_t)downsets_holds(orders->graph->downsets, d, orders->graph->block_of[l]) << l;
    return bits;
}

struct tally {
    uint64_t stages, tight, none, settled;
};

static uint64_t least_of(const struct orders_stage *all)
{
    uint64_t best = NO_ORDER;
    for (size_t i = 0; i < all->count; i++)
        best = all->ways[i].row.recompute_ns < best ? all->ways[i].row.recompute_ns : best;
    return best;
}

// All orders of the layers, all segments of each.
static void check_stage(struct instance *instance, struct orders *orders, struct order_stage of, struct tally *tally)
{
    struct error error = { 0 };
    uint32_t layers[SMALL_DAG_MOST];
    bool done;
    const uint64_t floor = order_recompute_ns(orders, of.stage, of.from, of.to);
    const uint64_t best = least_of(orders_stage_of(&instance->brute, of.stage, bits_of(orders, of.from),
                                                   bits_of(orders, of.to)));
    of.layer_count = order_graph_layers(orders->graph, of.from, of.to, layers);
    assert_good(order_quickest(orders, &of, layers, &done, &error), error);
    const uint64_t found = of.count > 0 ? of.at[0].forward_ns : NO_ORDER;
    // With workspaces a segment's run and its backwards may want different orders.
    const bool settled = done && of.complete && found == best && of.least_ns == best;
    if (floor > best || of.least_ns > best || found < best || (!settled && (of.complete || !instance->has_workspaces)))
        fail_msg("%u layers on stage %u recompute %lld ns, but found were %lld, at least %lld, at first sight %lld",
                 of.layer_count, of.stage, (long long)best, (long long)found, (long long)of.least_ns, (long long)floor);
    tally->stages++;
    tally->tight += best > 0 && best < NO_ORDER;
    tally->none += best == NO_ORDER;
    tally->settled += settled;
    for (size_t i = 0; i < of.count; i++) {
        free(of.at[i].layers);
        free(of.at[i].segments);
    }
    free(of.at);
}

static void the_least_of_all_orders_is_found_without_trying_each(void **state)
{
    (void)state;
    uint64_t seed = 56;
    struct tally tally = { 0 };
    for (uint64_t trial = 0; trial < test_trials(1500, 20000); trial++) {
        struct error error = { 0 };
        static struct instance instance;
        instance_create(&instance, &seed);
        struct orders *orders = orders_create(&instance.request, ORDERS_AS_IS, 0, &error);
        assert_good(orders, error);
        const struct downsets *downsets = orders->graph->downsets;
        const uint32_t stage = (uint32_t)random_below(&seed, orders->stages);
        for (uint32_t from = 0; from < orders->downsets; from++) {
            const uint32_t to = from + (uint32_t)random_below(&seed, orders->downsets - from);
            if (to > from
                && downsets_within(downsets_set(downsets, from), downsets_set(downsets, to), downsets->words))
                check_stage(&instance, orders, (struct order_stage){ .stage = stage, .from = from, .to = to }, &tally);
        }
        orders_free(orders);
        instance_clear(&instance);
    }
    print_message("# %d stages: %d recompute, %d do not fit, %d settled\n", (int)tally.stages, (int)tally.tight,
                  (int)tally.none, (int)tally.settled);
    assert_true(tally.tight > tally.stages / 8 && tally.stages - tally.settled <= tally.stages / 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_of_all_orders_is_found_without_trying_each),
    };
    return cmocka_run_group_tests_name("order_walk", tests, NULL, NULL);
}
