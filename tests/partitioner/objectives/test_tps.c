#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/number.h"
#include "partitioner/objectives/bottleneck.h"
#include "profiler/import.h"
#include "tests/partitioner/objectives/told.h"
#include "tests/partitioner/random_graph.h"
#include "tests/test.h"

#define DATA "../shared/data/partition/piper/"

static struct bottleneck_request ask(const struct profile *profile, const struct cluster *cluster,
                                     uint32_t micro_batches)
{
    return (struct bottleneck_request){ .model = BOTTLENECK_TPS, .profile = profile, .cluster = cluster,
                                        .micro_batches = micro_batches };
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

// --- a pair of layers, priced by hand -------------------------------------------------

// a: 300 ns, hands on 100 bytes; b: 600 ns, or 400 ns on two devices each.
static struct profile *pair(void)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("pair", "fp32", 1, 2, &error);
    assert_good(profile, error);
    profile->layers[0] = (struct profile_layer){ .name = strdup("a"), .kind = strdup(""), .forward_ns = 100,
                                                 .backward_ns = 200, .parameter_bytes = 60, .output_bytes = 100,
                                                 .saved_bytes = 10 };
    profile->layers[1] = (struct profile_layer){ .name = strdup("b"), .kind = strdup(""), .forward_ns = 200,
                                                 .backward_ns = 400, .parameter_bytes = 30, .saved_bytes = 50 };
    struct profile_variant *variants = calloc(2, sizeof variants[0]);
    variants[0] = (struct profile_variant){ .devices = 2, .layer = { .name = strdup("halves"), .forward_ns = 400,
                                            .parameter_bytes = 15, .saved_bytes = 25 } };
    variants[0].layer.receives = calloc(1, sizeof variants[0].layer.receives[0]);
    variants[0].layer.receives[variants[0].layer.receive_count++] = (struct profile_transfer){ 0, 150 };
    variants[1] = (struct profile_variant){ .devices = 1, .layer = { .name = strdup("recomputed"), .forward_ns = 700,
                                            .parameter_bytes = 30, .saved_bytes = 5, .backward_workspace_bytes = 40 } };
    profile->layers[1].variants = variants;
    profile->layers[1].variant_count = 2;
    return profile;
}

static void a_stage_takes_its_time_its_edges_and_its_replicas_gradients(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = pair();
    struct cluster *cluster = cluster_uniform(4, 1000, 7, 500000000, &error);  // 2 ns a byte; no latency is counted
    struct bottleneck_request request = ask(profile, cluster, 8);
    struct bottleneck_result *plan = bottleneck_create(&request, 2, &error);
    assert_good(plan, error);
    static const uint32_t stage_of[] = { 0, 1 };
    bottleneck_place(plan, stage_of);
    plan->variant[1] = 1;
    plan->stages[0].replicas = 2;
    plan->stages[1].group = 2;
    assert_good(bottleneck_value(&request, plan, &error), error);
    // 300 / 2 + 2 * 100 * 2 / 2 + 4 * 1 * 60 * 2 / (2 * 8)
    assert_true(is_near(plan->stages[0].load_ns, 150 + 200 + 30));
    assert_true(is_near(plan->stages[1].load_ns, 400 + 2 * 150 * 2));
    assert_int_equal(plan->machines_used, 4);

    plan->variant[1] = 2;
    assert_false(bottleneck_value(&request, plan, &error));
    assert_error(error, "stage 1: layer \"b\" runs on 1 devices, the stage's groups have 2");
    error = (struct error){ 0 };
    plan->stages[1].group = 1;
    plan->stages[0].replicas = 3;
    assert_false(bottleneck_value(&request, plan, &error));
    assert_error(error, "stage 0: 3 replicas cannot share 8 micro-batches evenly");
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

static struct refusal {
    const char *name;
    uint64_t memory_bytes;
    const char *sentence;
} refusals[] = {
    { "refused: one byte", 1, "layer \"a\" alone holds 130 B; a machine has 1 B" },
    // a holds 120 and 10 for each of two in flight, b 60 and 50 or 100 and 5, or on both devices 30 and 25.
    { "refused: too little for two", 139, "no stages for 2 machines of 139 B fit, in whatever way the layers run" },
};

static void what_does_not_fit_is_refused_with_its_layer(void **state)
{
    const struct refusal *row = *state;
    struct error error = { 0 };
    struct profile *profile = pair();
    struct cluster *cluster = cluster_uniform(2, row->memory_bytes, 0, 500000000, &error);
    const struct bottleneck_request request = ask(profile, cluster, 8);
    assert_null(bottleneck_search(&request, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_ANSWER);
    cluster_free(cluster);
    profile_free(profile);
}

// --- the twin: all stages, from the last to the first, in all ways ----------------------

enum { MOST_MACHINES = 5 };

struct twin {
    const struct profile *profile;
    uint32_t layers, machines, micro_batches;
    uint64_t memory_bytes;
    double ns_per_byte;
    bool is_straight;
    double best;
    // By set of layers, devices, replicas and in flight: -1 before it was asked.
    double price[1 << RANDOM_MOST_LAYERS][3][MOST_MACHINES + 1][MOST_MACHINES + 1];
};

static const struct profile_layer *way_of(const struct profile_layer *layer, size_t variant)
{
    return variant ? &layer->variants[variant - 1].layer : layer;
}

static double edge_bytes(const struct twin *twin, uint32_t set, uint32_t i, const struct profile_layer *way)
{
    double bytes = 0;
    for (uint32_t other = 0; other < twin->layers; other++) {
        if (set >> other & 1)
            continue;
        if (random_graph_has_edge(twin->profile, other, i))
            bytes += (double)profile_receive_bytes(twin->profile, way, other);
        if (random_graph_has_edge(twin->profile, i, other))
            bytes += (double)profile_send_bytes(way, other);
    }
    return bytes;
}

// Every layer from i on in every way.
static double cheapest(const struct twin *twin, uint32_t set, uint32_t i, uint32_t devices, uint32_t replicas,
                       uint32_t in_flight, uint64_t left)
{
    while (i < twin->layers && !(set >> i & 1))
        i++;
    if (i == twin->layers)
        return 0;
    double best = INFINITY;
    const struct profile_layer *layer = &twin->profile->layers[i];
    for (size_t v = 0; v <= layer->variant_count; v++) {
        const struct profile_layer *way = way_of(layer, v);
        const uint64_t bytes = way->saved_bytes * in_flight + 2 * way->parameter_bytes + way->backward_workspace_bytes;
        if ((v ? layer->variants[v - 1].devices : 1) != devices || bytes > left)
            continue;
        const double moved = 2 * edge_bytes(twin, set, i, way)
                           + 4.0 * (replicas - 1) * (double)way->parameter_bytes / twin->micro_batches;
        const double cost = ((double)(way->forward_ns + way->backward_ns) + moved * twin->ns_per_byte) / replicas
                          + cheapest(twin, set, i + 1, devices, replicas, in_flight, left - bytes);
        best = cost < best ? cost : best;
    }
    return best;
}

static bool is_last_of(const struct twin *twin, uint32_t set, uint32_t rest)
{
    for (uint32_t a = 0; a < twin->layers; a++)
        for (uint32_t b = a + 1; b < twin->layers; b++)
            if ((set >> a & 1) && (rest & ~set) >> b & 1 && random_graph_has_edge(twin->profile, a, b))
                return false;
    for (size_t i = 0; i < twin->profile->no_cut_count; i++)
        if ((set >> twin->profile->no_cut_after[i] & 1) != (set >> (twin->profile->no_cut_after[i] + 1) & 1))
            return false;
    for (size_t i = 0; i < twin->profile->tied_count; i++)
        if ((set >> twin->profile->tied[i].from & 1) != (set >> twin->profile->tied[i].to & 1))
            return false;
    return true;
}

static void try_last(struct twin *twin, uint32_t rest, uint32_t machines, uint32_t replicas, double worst)
{
    if (rest == 0 && worst < twin->best)
        twin->best = worst;
    for (uint32_t set = rest; set; set = (set - 1) & rest) {
        if (!is_last_of(twin, set, rest))
            continue;
        for (uint32_t t = 1; t <= 2; t++)
            for (uint32_t d = 1; machines + t * d <= twin->machines; d++) {
                const uint32_t s = replicas + d;
                if (twin->micro_batches % d || s > twin->micro_batches || (twin->is_straight && d > 1))
                    continue;
                double *price = &twin->price[set][t][d][(s + d - 1) / d];
                if (*price < 0)
                    *price = cheapest(twin, set, 0, t, d, (s + d - 1) / d, twin->memory_bytes);
                if (*price < twin->best)
                    try_last(twin, rest & ~set, machines + t * d, s, *price > worst ? *price : worst);
            }
    }
}

static void ask_twin(struct twin *twin)
{
    for (uint32_t set = 0; set < 1u << twin->layers; set++)
        for (size_t t = 0; t < 3; t++)
            for (size_t d = 0; d <= MOST_MACHINES; d++)
                for (size_t y = 0; y <= MOST_MACHINES; y++)
                    twin->price[set][t][d][y] = -1;
    twin->best = INFINITY;
    try_last(twin, (1u << twin->layers) - 1, 0, 0, 0);
}

static void add_transfers(struct profile *profile, uint32_t at, struct profile_layer *way, uint64_t *seed)
{
    way->receives = calloc(RANDOM_MOST_LAYERS, sizeof way->receives[0]);
    way->sends = calloc(RANDOM_MOST_LAYERS, sizeof way->sends[0]);
    for (uint32_t other = 0; other < profile->layer_count; other++) {
        const struct profile_transfer transfer = { other, random_below(seed, 30) };
        if (random_graph_has_edge(profile, other, at) && random_below(seed, 2))
            way->receives[way->receive_count++] = transfer;
        if (random_graph_has_edge(profile, at, other) && random_below(seed, 2))
            way->sends[way->send_count++] = transfer;
    }
}

// Ways that are slower and hold less, on one device or two.
static struct profile *random_profile(uint64_t *seed, uint32_t layers, uint32_t most_variants)
{
    struct profile *profile = random_graph(seed, layers);
    for (uint32_t i = 0; i < layers; i++) {
        struct profile_layer *layer = &profile->layers[i];
        layer->variants = calloc(most_variants + 1, sizeof layer->variants[0]);
        layer->variant_count = random_below(seed, most_variants + 1);
        for (size_t v = 0; v < layer->variant_count; v++) {
            layer->variants[v] = (struct profile_variant){ .layer = random_way(seed, "way", true),
                                                           .devices = 1 + (uint32_t)random_below(seed, 2) };
            layer->variants[v].layer.output_bytes = layer->output_bytes;
            layer->variants[v].layer.backward_workspace_bytes = random_below(seed, 8);
            if (random_below(seed, 2))
                layer->variants[v].layer.saved_bytes /= 4;
            add_transfers(profile, i, &layer->variants[v].layer, seed);
        }
    }
    profile->no_cut_after = calloc(1, sizeof profile->no_cut_after[0]);
    if (layers > 2 && random_below(seed, 4) == 0)
        profile->no_cut_after[profile->no_cut_count++] = (uint32_t)random_below(seed, layers - 1);
    profile->tied = calloc(1, sizeof profile->tied[0]);
    if (layers > 2 && random_below(seed, 4) == 0)
        profile->tied[profile->tied_count++] = (struct edge){ (uint32_t)random_below(seed, layers - 1), layers - 1 };
    return profile;
}

static void random_graphs_have_the_least_largest_load_of_all_stages_in_all_ways(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(1000, 20000);
    struct twin *twin = malloc(sizeof *twin);
    assert_non_null(twin);
    uint64_t answers = 0, with_variants = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = 0x747073 + trial;
        struct error error = { 0 };
        const bool is_large = trial % 16 == 0;  // nine layers on two or three machines
        twin->layers = is_large ? 7 + (uint32_t)random_below(&seed, 3) : 1 + (uint32_t)random_below(&seed, 5);
        twin->machines =
            is_large ? 2 + (uint32_t)random_below(&seed, 2) : 1 + (uint32_t)random_below(&seed, MOST_MACHINES);
        twin->micro_batches = 1 + (uint32_t)random_below(&seed, 12);
        twin->memory_bytes = 20 + random_below(&seed, 150);
        twin->is_straight = random_below(&seed, 4) == 0;
        twin->ns_per_byte = random_below(&seed, 4) ? 0.5 : 0;
        struct profile *profile = random_profile(&seed, twin->layers, is_large ? 1 : 4);
        twin->profile = profile;
        ask_twin(twin);

        struct cluster *cluster = cluster_uniform(twin->machines, twin->memory_bytes, 0,
                                                  twin->ns_per_byte > 0 ? 2000000000 : JSON_MAX, &error);
        assert_good(cluster, error);
        struct bottleneck_request request = ask(profile, cluster, twin->micro_batches);
        request.is_straight = twin->is_straight;
        struct bottleneck_result *plan = bottleneck_search(&request, &error);
        const double found = plan ? plan->value_ns : INFINITY;
        // A rate of 2^53 is a little more than none.
        const bool good = plan ? fabs(found - twin->best) <= 1e-9 * found + 1e-3 * (twin->ns_per_byte == 0)
                               : twin->best == INFINITY && error.kind == ERROR_ANSWER;
        if (!good || (plan && (!plan->proved || plan->lower_bound_ns != plan->value_ns)))
            fail_msg("trial %llu: found %.12g, the twin %.12g; %s", (unsigned long long)trial, found, twin->best,
                     plan ? "a plan" : error.text);
        answers += plan != NULL;
        for (size_t i = 0; plan && i < plan->layer_count; i++)
            with_variants += plan->variant[i] > 0;
        bottleneck_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    free(twin);
    assert_true(answers > trials / 3 && answers < trials && with_variants > trials / 4);
}

// --- chains, by a plain dynamic program -----------------------------------------------------

enum { MOST_CHAIN = 40, MOST_CHAIN_MACHINES = 12 };

// What a stage of a chain loads whose layers have no other way to run.
static double chain_load(const struct profile *profile, size_t first, size_t end, uint32_t replicas, uint32_t behind,
                         uint32_t micro_batches, uint64_t memory_bytes)
{
    double time = 0, parameters = 0;
    uint64_t bytes = 0;
    for (size_t i = first; i < end; i++) {
        const struct profile_layer *layer = &profile->layers[i];
        time += (double)(layer->forward_ns + layer->backward_ns);
        parameters += (double)layer->parameter_bytes;
        bytes += layer->saved_bytes * ((behind + 2 * replicas - 1) / replicas) + 2 * layer->parameter_bytes;
    }
    const double moved = (first > 0 ? (double)profile->layers[first - 1].output_bytes : 0)
                       + (end < profile->layer_count ? (double)profile->layers[end - 1].output_bytes : 0);
    const double load = time + 2 * 0.5 * moved + 4 * (replicas - 1) * parameters * 0.5 / micro_batches;
    return bytes <= memory_bytes ? load / replicas : INFINITY;
}

// The least of all chains of stages, from the last layer to the first: least[first][machines].
static double chain_best(const struct profile *profile, uint32_t machines, uint32_t micro_batches, uint64_t memory_bytes)
{
    static double least[MOST_CHAIN + 1][MOST_CHAIN_MACHINES + 1];
    const size_t layers = profile->layer_count;
    for (size_t first = layers + 1; first-- > 0;)
        for (uint32_t k = 0; k <= machines; k++) {
            least[first][k] = first == layers && k == 0 ? 0 : INFINITY;
            for (size_t end = first + 1; end <= layers; end++)
                for (uint32_t d = 1; d <= k && k <= micro_batches; d++) {
                    if (micro_batches % d != 0 || least[end][k - d] == INFINITY)
                        continue;
                    const double own = chain_load(profile, first, end, d, k - d, micro_batches, memory_bytes);
                    least[first][k] = fmin(least[first][k], fmax(own, least[end][k - d]));
                }
        }
    double best = INFINITY;
    for (uint32_t k = 1; k <= machines; k++)
        best = fmin(best, least[0][k]);
    return best;
}

static struct profile *random_chain(uint64_t *seed)
{
    struct error error = { 0 };
    const size_t layers = 5 + random_below(seed, MOST_CHAIN - 4);
    struct profile *profile = profile_create("chain", "fp32", 1, layers, &error);
    assert_good(profile, error);
    profile->is_chain = true;
    for (size_t i = 0; i < layers; i++) {
        const uint64_t forward_ns = 10 + random_below(seed, 1000);
        profile->layers[i] = (struct profile_layer){ .name = strdup("layer"), .kind = strdup(""),
                                                     .forward_ns = forward_ns, .backward_ns = 2 * forward_ns,
                                                     .parameter_bytes = random_below(seed, 600),
                                                     .output_bytes = random_below(seed, 300),
                                                     .saved_bytes = random_below(seed, 4000) };
    }
    return profile;
}

// Long enough that the search drops cuts after its first plans.
static void random_chains_have_the_least_largest_load_of_a_plain_dynamic_program(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(60, 2000);
    uint64_t answers = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = 0x636861696e + trial;
        struct error error = { 0 };
        struct profile *profile = random_chain(&seed);
        const uint32_t machines = 1 + (uint32_t)random_below(&seed, MOST_CHAIN_MACHINES);
        const uint32_t micro_batches = 1 + (uint32_t)random_below(&seed, 40);
        const uint64_t memory_bytes = 5000 + random_below(&seed, 80000);
        struct cluster *cluster = cluster_uniform(machines, memory_bytes, 0, 2000000000, &error);
        assert_good(cluster, error);
        const double best = chain_best(profile, machines, micro_batches, memory_bytes);
        struct told told = { .least = best };
        struct bottleneck_request request = ask(profile, cluster, micro_batches);
        request.listener = (struct bottleneck_listener){ told_hear, &told };
        struct bottleneck_result *plan = bottleneck_search(&request, &error);
        assert_true(told.times > 0 || !plan);
        if (plan ? !is_near(plan->value_ns, best) || !plan->proved : best < INFINITY || error.kind != ERROR_ANSWER)
            fail_msg("trial %llu: found %.12g, the twin %.12g; %s", (unsigned long long)trial,
                     plan ? plan->value_ns : INFINITY, best, plan ? "a plan" : error.text);
        answers += plan != NULL;
        bottleneck_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(answers > trials / 3 && answers < trials);
}

// --- published values ----------------------------------------------------------------------

static struct published_row {
    const char *name, *file;
    uint32_t machines, micro_batches;
    const char *memory;
    uint64_t bytes_per_second;
    bool is_straight;
    double value_s, within_s;  // to the last digit that was printed; 0: nothing fits
} published_rows[] = {
    { "published: bert32 on 8, 8 GiB", "bert32a100", 8, 128, "8GiB", 25000000000, false, 0.166904267, 1e-9 },
    { "published: bert32 on 32, 8 GiB", "bert32a100", 32, 480, "8GiB", 25000000000, false, 0.0419473, 5e-8 },
    { "published: bert32 on 64, 8 GiB", "bert32a100", 64, 512, "8GiB", 25000000000, false, 0.0211050, 5e-8 },
    { "published: bert32 on 64, 80 GiB", "bert32a100", 64, 512, "80GiB", 25000000000, false, 0.01700963, 5e-9 },
    { "published: bert32 on 8, 2 GiB", "bert32a100", 8, 128, "2GiB", 25000000000, false, 0, 0 },
    { "published: bert32 on 8, 4 GiB", "bert32a100", 8, 128, "4GiB", 25000000000, false, 0, 0 },
    { "published: bert32 on 8, no replicas", "bert32a100", 8, 128, "8GiB", 26843545600, true, 0.16585575, 5e-9 },
    { "published: resnet on 4, no replicas", "resnet", 4, 128, "8GiB", 26843545600, true, 130.0015703, 5e-8 },
};

static struct profile *import(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, DATA "%s.json", name);
    FILE *file = fopen(path, "r");
    if (!file)
        TEST_SKIP("the inputs of Piper are not here (" DATA ")");
    fclose(file);
    struct error error = { 0 };
    struct profile *profile = import_piper(path, 1, NULL, &error);
    assert_good(profile, error);
    return profile;
}

static void a_published_value_is_met_and_proved_least(void **state)
{
    const struct published_row *row = *state;
    struct error error = { 0 };
    struct profile *profile = import(row->file);
    uint64_t memory;
    assert_good(bytes_parse(row->memory, &memory, &error), error);
    struct cluster *cluster = cluster_uniform(row->machines, memory, 0, row->bytes_per_second, &error);
    assert_good(cluster, error);
    struct bottleneck_request request = ask(profile, cluster, row->micro_batches);
    request.is_straight = row->is_straight;
    struct bottleneck_result *plan = bottleneck_search(&request, &error);
    if (row->value_s == 0) {
        assert_null(plan);
        assert_int_equal(error.kind, ERROR_ANSWER);
    } else {
        assert_good(plan, error);
        if (!(fabs(plan->value_ns * 1e-9 - row->value_s) <= row->within_s))
            fail_msg("%.12g s, published %.12g", plan->value_ns * 1e-9, row->value_s);
        assert_true(plan->proved);
    }
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

// Cuts, ways to recompute and what is in flight, together, where memory is short.
static void a_split_of_177_layers_with_recomputation_is_proved_on_8_machines(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = import("resnet");
    struct cluster *cluster = cluster_uniform(8, (uint64_t)4 << 30, 0, 26843545600, &error);
    struct bottleneck_request request = ask(profile, cluster, 128);
    request.is_straight = true;
    struct bottleneck_result *plan = bottleneck_search(&request, &error);
    assert_good(plan, error);
    size_t recomputed = 0;
    for (size_t i = 0; i < plan->layer_count; i++)
        recomputed += plan->variant[i] == 1;
    assert_true(plan->proved && recomputed > 20);
    assert_int_equal(plan->stage_count, 8);
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

// As many replicas as machines, in groups of 1, 2, 4 and 8: no table has a place for each of both.
static void two_thousand_machines_are_planned(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = import("bert32a100");
    struct cluster *cluster = cluster_uniform(2048, (uint64_t)8 << 30, 0, 25000000000, &error);
    struct bottleneck_request request = ask(profile, cluster, 4096);
    struct bottleneck_result *plan = bottleneck_search(&request, &error);
    assert_good(plan, error);
    assert_true(plan->proved && plan->machines_used <= 2048 && plan->stage_count > 1);
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    enum {
        REFUSALS = sizeof refusals / sizeof refusals[0],
        PUBLISHED = sizeof published_rows / sizeof published_rows[0]
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_takes_its_time_its_edges_and_its_replicas_gradients),
        cmocka_unit_test(random_graphs_have_the_least_largest_load_of_all_stages_in_all_ways),
        cmocka_unit_test(random_chains_have_the_least_largest_load_of_a_plain_dynamic_program),
        cmocka_unit_test(a_split_of_177_layers_with_recomputation_is_proved_on_8_machines),
        cmocka_unit_test(two_thousand_machines_are_planned),
    };
    struct CMUnitTest refused[REFUSALS], published[PUBLISHED];
    for (size_t i = 0; i < REFUSALS; i++)
        refused[i] = (struct CMUnitTest)TEST_ROW(what_does_not_fit_is_refused_with_its_layer, &refusals[i]);
    for (size_t i = 0; i < PUBLISHED; i++)
        published[i] = (struct CMUnitTest)TEST_ROW(a_published_value_is_met_and_proved_least, &published_rows[i]);
    return cmocka_run_group_tests_name("tps", tests, NULL, NULL)
           + cmocka_run_group_tests_name("tps: refusals", refused, NULL, NULL)
           + cmocka_run_group_tests_name("tps: published", published, NULL, NULL);
}
