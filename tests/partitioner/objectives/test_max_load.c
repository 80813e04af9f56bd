#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "partitioner/objectives/bottleneck.h"
#include "profiler/import.h"
#include "tests/partitioner/objectives/told.h"
#include "tests/partitioner/random_graph.h"
#include "tests/test.h"

#define DATA "../shared/data/partition/dnn-partitioning/"

static struct bottleneck_request ask(const struct profile *profile, const struct cluster *cluster)
{
    return (struct bottleneck_request){ .model = BOTTLENECK_MAX_LOAD, .profile = profile, .cluster = cluster };
}

// --- small graphs, priced by hand ---------------------------------------------------

// a (10 ns, hands on 4) -> b (20 ns, hands on 3) -> d, a -> c (5 ns, hands on 1) -> d (10 ns)
static struct profile *diamond(void)
{
    struct error error = { 0 };
    struct profile *profile = profile_create("diamond", "fp32", 1, 4, &error);
    assert_good(profile, error);
    static const uint64_t work[] = { 10, 20, 5, 10 }, bytes[] = { 4, 3, 1, 0 };
    for (size_t i = 0; i < 4; i++) {
        char name[] = "a";
        name[0] = (char)('a' + i);
        profile->layers[i] = (struct profile_layer){ .name = strdup(name), .kind = strdup(""), .forward_ns = work[i],
                                                     .parameter_bytes = 100, .output_bytes = bytes[i] };
    }
    profile->is_chain = false;
    profile->edges = calloc(4, sizeof profile->edges[0]);
    profile->edge_count = 4;
    profile->edges[0] = (struct edge){ 0, 1 };
    profile->edges[1] = (struct edge){ 0, 2 };
    profile->edges[2] = (struct edge){ 1, 3 };
    profile->edges[3] = (struct edge){ 2, 3 };
    return profile;
}

static void a_tensor_is_sent_once_and_received_by_each_stage(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = diamond();
    struct cluster *cluster = cluster_uniform(3, 1000, 0, 1000000000, &error);
    struct bottleneck_request request = ask(profile, cluster);
    struct bottleneck_result *plan = bottleneck_create(&request, 3, &error);
    assert_good(plan, error);
    // a c | b | d
    static const uint32_t stage_of[] = { 0, 1, 0, 2 };
    bottleneck_place(plan, stage_of);
    assert_good(bottleneck_value(&request, plan, &error), error);
    assert_true(plan->stages[0].load_ns == 10 + 5 + 4 + 1);
    assert_true(plan->stages[1].load_ns == 20 + 4 + 3);
    assert_true(plan->stages[2].load_ns == 10 + 3 + 1);
    assert_true(plan->value_ns == 27);
    // With a backward every crossing is paid twice.
    profile->layers[3].backward_ns = 1;
    assert_good(bottleneck_value(&request, plan, &error), error);
    assert_true(plan->stages[1].load_ns == 20 + 2 * (4 + 3));
    assert_true(plan->stages[2].load_ns == 11 + 2 * (3 + 1));
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

static struct refusal {
    const char *name;
    uint64_t memory_bytes;
    uint32_t devices;
    const char *sentence;
} refusals[] = {
    { "refused: one byte", 1, 4, "layer \"a\" alone holds 100 B; a machine has 1 B" },
    { "refused: too little in all", 150, 3,
      "no cut into 3 stages fits: the layers hold 400 B in all, a machine 150 B" },
};

static void what_does_not_fit_is_refused_with_its_layer(void **state)
{
    const struct refusal *row = *state;
    struct error error = { 0 };
    struct profile *profile = diamond();
    struct cluster *cluster = cluster_uniform(row->devices, row->memory_bytes, 0, 1000000000, &error);
    const struct bottleneck_request request = ask(profile, cluster);
    assert_null(bottleneck_search(&request, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.kind, ERROR_ANSWER);
    cluster_free(cluster);
    profile_free(profile);
}

static void plans_the_model_does_not_know_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = diamond();
    struct cluster *cluster = cluster_uniform(2, 1000, 0, 1000000000, &error);
    struct bottleneck_request request = ask(profile, cluster);
    struct bottleneck_result *plan = bottleneck_create(&request, 2, &error);
    assert_good(plan, error);
    static const uint32_t backwards[] = { 1, 0, 1, 1 }, forwards[] = { 0, 0, 0, 1 };
    bottleneck_place(plan, backwards);
    assert_false(bottleneck_value(&request, plan, &error));
    assert_error(error, "stage 0 reads layer \"a\", which is in stage 1");

    error = (struct error){ 0 };
    bottleneck_place(plan, forwards);
    plan->stages[1].replicas = 2;
    assert_false(bottleneck_value(&request, plan, &error));
    assert_error(error, "stage 1: max-load knows stages on one machine only");

    error = (struct error){ 0 };
    plan->stages[1].replicas = 1;
    plan->stages[1].on_cpu = true;
    assert_false(bottleneck_value(&request, plan, &error));
    assert_error(error, "stage 1: layer \"d\" has no variant \"cpu\"");

    error = (struct error){ 0 };
    cluster->devices[1].speed_permille = 900;
    assert_null(bottleneck_search(&request, &error));
    assert_error(error, "max-load knows machines of the profile's speed only; device 1 has 900 permille of it");
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

static void too_many_ways_to_cut_leave_a_plan_and_a_bound(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = diamond();
    struct cluster *cluster = cluster_uniform(2, 1000, 0, 1000000000, &error);
    struct bottleneck_request request = ask(profile, cluster);
    request.most_downsets = 3;
    struct bottleneck_result *plan = bottleneck_search(&request, &error);
    assert_good(plan, error);
    assert_false(plan->proved);
    assert_true(plan->value_ns == 30 + 7);  // a b | c d, against a c | b d: 20 and 35
    assert_true(plan->lower_bound_ns <= 35 && plan->lower_bound_ns > 22);
    assert_string_equal(plan->stopped, "too many ways to cut the graph; its own order was cut");
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

// An operator graph: twelve branches of weights (no time) and two operators between an input and a sum. Weights and
// operators of a branch have one colour each; the colour that the input and the sum share closes a cycle of all.
static struct profile *operators(uint32_t branches, bool has_cycle)
{
    struct error error = { 0 };
    const uint32_t layers = 3 * branches + 2;
    struct profile *profile = profile_create("operators", "fp32", 1, layers, &error);
    assert_good(profile, error);
    profile->is_chain = false;
    profile->edges = calloc(4 * branches, sizeof profile->edges[0]);
    profile->tied = calloc(2 * branches + 1, sizeof profile->tied[0]);
    for (uint32_t i = 0; i < layers; i++) {
        profile->layers[i] = (struct profile_layer){ .name = strdup("operator"), .kind = strdup(""),
                                                     .forward_ns = i > branches ? 10 : 0, .output_bytes = 1 };
        profile->layers[i].parameter_bytes = i < branches ? 100 : 0;
    }
    for (uint32_t b = 0; b < branches; b++) {  // weights, the input, first operators, second ones, the sum
        const uint32_t first = branches + 1 + b, second = first + branches;
        profile->edges[profile->edge_count++] = (struct edge){ b, first };
        profile->edges[profile->edge_count++] = (struct edge){ branches, first };
        profile->edges[profile->edge_count++] = (struct edge){ first, second };
        profile->edges[profile->edge_count++] = (struct edge){ second, layers - 1 };
        profile->tied[profile->tied_count++] = (struct edge){ b, first };
        profile->tied[profile->tied_count++] = (struct edge){ b, second };
    }
    if (has_cycle)
        profile->tied[profile->tied_count++] = (struct edge){ branches, layers - 1 };
    qsort(profile->tied, profile->tied_count, sizeof profile->tied[0], edges_compare);
    qsort(profile->edges, profile->edge_count, sizeof profile->edges[0], edges_compare);
    return profile;
}

// Uncontracted these are more than 2^24 ways.
static void layers_of_one_colour_are_one_where_a_graph_is_cut(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct cluster *cluster = cluster_uniform(3, 10000, 0, JSON_MAX, &error);
    for (uint32_t has_cycle = 0; has_cycle < 2; has_cycle++) {
        struct profile *profile = operators(12, has_cycle);
        const struct bottleneck_request request = ask(profile, cluster);
        struct bottleneck_result *plan = bottleneck_search(&request, &error);
        assert_good(plan, error);
        assert_true(plan->proved);
        // The twelve branches of 20 ns on three machines, and the sum; all in one stage where that closes a cycle.
        assert_int_equal(plan->downset_count, has_cycle ? 2 : 4096 + 2);
        assert_true(has_cycle ? plan->value_ns == 250 : plan->value_ns >= 90 && plan->value_ns < 120);
        assert_good(bottleneck_value(&request, plan, &error), error);
        bottleneck_free(plan);
        profile_free(profile);
    }
    cluster_free(cluster);
}

// --- the twin: every way to give each layer a stage -----------------------------------

struct twin {
    const struct profile *profile;
    uint32_t layers, accelerators, cpus;
    uint64_t memory_bytes, latency_ns;
    uint32_t stage_of[RANDOM_MOST_LAYERS];
    uint64_t best;
};

static bool is_allowed(const struct twin *twin)
{
    for (uint32_t a = 0; a < twin->layers; a++)
        for (uint32_t b = a + 1; b < twin->layers; b++)
            if (random_graph_has_edge(twin->profile, a, b) && twin->stage_of[a] > twin->stage_of[b])
                return false;
    for (size_t i = 0; i < twin->profile->tied_count; i++)
        if (twin->stage_of[twin->profile->tied[i].from] != twin->stage_of[twin->profile->tied[i].to])
            return false;
    for (size_t i = 0; i < twin->profile->no_cut_count; i++)
        if (twin->stage_of[twin->profile->no_cut_after[i]] != twin->stage_of[twin->profile->no_cut_after[i] + 1])
            return false;
    return true;
}

// Of a stage on an accelerator; UINT64_MAX where it does not fit. Every tensor is asked who has it.
static uint64_t accelerator_load(const struct twin *twin, uint32_t stage)
{
    uint64_t load = 0, bytes = 0, times = 1;
    for (uint32_t a = 0; a < twin->layers; a++)
        if (twin->profile->layers[a].backward_ns > 0)
            times = 2;
    for (uint32_t a = 0; a < twin->layers; a++) {
        const struct profile_layer *layer = &twin->profile->layers[a];
        bool inside = false, outside = false;
        for (uint32_t b = 0; b < twin->layers; b++)
            if (random_graph_has_edge(twin->profile, a, b))
                *(twin->stage_of[b] == stage ? &inside : &outside) = true;
        const bool is_own = twin->stage_of[a] == stage;
        if (is_own ? outside : inside)
            load += times * (layer->output_bytes + twin->latency_ns);
        if (is_own) {
            load += layer->forward_ns + layer->backward_ns;
            bytes += layer->parameter_bytes + layer->saved_bytes;
        }
    }
    return bytes <= twin->memory_bytes ? load : UINT64_MAX;
}

static uint64_t cpu_load(const struct twin *twin, uint32_t stage)
{
    uint64_t load = 0;
    for (uint32_t a = 0; a < twin->layers; a++) {
        const struct profile_layer *layer = &twin->profile->layers[a];
        if (twin->stage_of[a] != stage)
            continue;
        if (layer->variant_count == 0)
            return UINT64_MAX;
        load += layer->variants[0].layer.forward_ns + layer->variants[0].layer.backward_ns;
    }
    return load;
}

// All ways to say which stages a CPU holds; a stage without layers takes no machine.
static void try_machines(struct twin *twin, uint32_t stages)
{
    uint64_t accelerator[RANDOM_MOST_LAYERS], cpu[RANDOM_MOST_LAYERS];
    bool holds[RANDOM_MOST_LAYERS] = { false };
    for (uint32_t a = 0; a < twin->layers; a++)
        holds[twin->stage_of[a]] = true;
    for (uint32_t s = 0; s < stages; s++) {
        accelerator[s] = accelerator_load(twin, s);
        cpu[s] = cpu_load(twin, s);
    }
    for (uint32_t choice = 0; choice < 1u << stages; choice++) {
        uint32_t cpus = 0, accelerators = 0;
        uint64_t worst = 0;
        for (uint32_t s = 0; s < stages; s++) {
            const bool on_cpu = choice >> s & 1;
            const uint64_t load = !holds[s] ? 0 : on_cpu ? cpu[s] : accelerator[s];
            *(on_cpu ? &cpus : &accelerators) += holds[s];
            worst = load > worst ? load : worst;
        }
        if (cpus <= twin->cpus && accelerators <= twin->accelerators && worst < twin->best)
            twin->best = worst;
    }
}

static void try_all(struct twin *twin, uint32_t layer, uint32_t stages)
{
    if (layer == twin->layers) {
        if (is_allowed(twin))
            try_machines(twin, stages);
        return;
    }
    for (twin->stage_of[layer] = 0; twin->stage_of[layer] < stages; twin->stage_of[layer]++)
        try_all(twin, layer + 1, stages);
}

static void add_cpu(struct profile_layer *layer, uint64_t *seed, bool has_backward)
{
    layer->variants = calloc(1, sizeof layer->variants[0]);
    layer->variant_count = 1;
    layer->variants[0] = (struct profile_variant){ .layer = random_way(seed, "cpu", has_backward), .devices = 1 };
}

static struct profile *random_profile(uint64_t *seed, uint32_t layers, bool has_cpu)
{
    struct profile *profile = random_graph(seed, layers);
    const bool all = random_below(seed, 2);
    for (uint32_t i = 0; i < layers; i++)
        if (has_cpu && (all || random_below(seed, 3)))
            add_cpu(&profile->layers[i], seed, profile->layers[i].backward_ns > 0);
    profile->tied = calloc(1, sizeof profile->tied[0]);
    profile->no_cut_after = calloc(1, sizeof profile->no_cut_after[0]);
    if (layers > 2 && random_below(seed, 3) == 0)
        profile->tied[profile->tied_count++] = (struct edge){ (uint32_t)random_below(seed, layers - 1), layers - 1 };
    if (layers > 2 && random_below(seed, 3) == 0)
        profile->no_cut_after[profile->no_cut_count++] = (uint32_t)random_below(seed, layers - 1);
    return profile;
}

static void random_graphs_have_the_least_largest_load_of_all_ways_to_cut_them(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(1000, 20000);
    uint64_t answers = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = 0x6d61786c6f6164 + trial;
        struct error error = { 0 };
        // Nine layers on three machines, or fewer on four.
        const uint32_t machines = 1 + (uint32_t)random_below(&seed, 4);
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, trial % 8 ? 6 : machines < 4 ? 9 : 7);
        struct twin twin = { .layers = layers, .cpus = (uint32_t)random_below(&seed, 2), .best = UINT64_MAX,
                             .memory_bytes = 20 + random_below(&seed, 100), .latency_ns = random_below(&seed, 3) };
        if (twin.cpus == machines && random_below(&seed, 2))
            twin.cpus = 0;
        twin.accelerators = machines - twin.cpus;
        struct profile *profile = random_profile(&seed, layers, twin.cpus > 0);
        twin.profile = profile;
        try_all(&twin, 0, machines);

        struct cluster *cluster = cluster_uniform(machines, twin.memory_bytes, twin.latency_ns, 1000000000, &error);
        assert_good(cluster, error);
        for (uint32_t c = 0; c < twin.cpus; c++)
            memcpy(cluster->devices[c].name, "cpu", 4);
        struct told told = { .least = twin.best < UINT64_MAX ? (double)twin.best : INFINITY };
        struct bottleneck_request request = ask(profile, cluster);
        request.listener = (struct bottleneck_listener){ told_hear, &told };
        struct bottleneck_result *plan = bottleneck_search(&request, &error);
        assert_true(told.times > 0 || !plan);
        const uint64_t found = plan ? (uint64_t)plan->value_ns : UINT64_MAX;
        if (found != twin.best || (plan && (!plan->proved || plan->lower_bound_ns != plan->value_ns)))
            fail_msg("trial %llu: found %llu, the twin %llu; %s", (unsigned long long)trial, (unsigned long long)found,
                     (unsigned long long)twin.best, plan ? "a plan" : error.text);
        answers += plan != NULL;
        bottleneck_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(answers > trials / 2 && answers < trials);
}

// --- published optima --------------------------------------------------------------------

static struct profile *import(const char *file, struct cluster **cluster)
{
    char path[200];
    snprintf(path, sizeof path, DATA "LayerGraphs/%s.json", file);
    FILE *open = fopen(path, "r");
    if (!open)
        TEST_SKIP("the inputs of dnn-partitioning are not here (" DATA ")");
    fclose(open);
    struct error error = { 0 };
    struct profile *profile = import_dnn_partitioning(path, 1, cluster, &error);
    assert_good(profile, error);
    return profile;
}

// In ms, as their program prints it: six digits, or with all for accelerators only.
static struct published_row {
    const char *name, *file;
    uint32_t cpus;
    double value_ms, within_ms;
    size_t downsets;
} published_rows[] = {
    { "published: bert24_inference", "bert24_inference", 1, 17.7899, 5e-5, 30 },
    { "published: bert24_training", "bert24_training", 1, 41.7458, 5e-5, 30 },
    { "published: gnmt_inference", "gnmt_inference", 1, 32.9107, 5e-5, 17914 },
    { "published: resnet50_inference", "resnet50_inference", 1, 33.7747, 5e-5, 242 },
    { "published: resnet50_training", "resnet50_training", 1, 78.6318, 5e-5, 242 },
    { "published: bert24_inference, accelerators only", "bert24_inference", 0, 17.78990625, 2e-6, 30 },
    { "published: gnmt_inference, accelerators only", "gnmt_inference", 0, 32.9106582, 3e-6, 17914 },
    { "published: resnet50_inference, accelerators only", "resnet50_inference", 0, 34.22285156, 2e-6, 242 },
};

static bool is_within(double a, double b, double difference)
{
    return a - b <= difference && b - a <= difference;
}

// Transfers are whole ns here: a load of a few of them differs by a ns or two.
static void a_published_optimum_is_found_and_proved(void **state)
{
    const struct published_row *row = *state;
    struct error error = { 0 };
    struct cluster *cluster;
    struct profile *profile = import(row->file, &cluster);
    cluster->device_count = 6 + row->cpus;
    free(row->cpus ? NULL : cluster->devices[6].name);
    struct bottleneck_request request = ask(profile, cluster);
    struct bottleneck_result *plan = bottleneck_search(&request, &error);
    assert_good(plan, error);
    if (!is_within(plan->value_ns * 1e-6, row->value_ms, row->within_ms))
        fail_msg("%.9f ms, published %.9f", plan->value_ns * 1e-6, row->value_ms);
    assert_true(plan->proved);
    assert_int_equal(plan->downset_count, row->downsets);
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

// --- the human experts ---------------------------------------------------------------------

static struct expert_row {
    const char *name, *file;
    double value_ms;
} expert_rows[] = {
    { "experts: bert24_inference", "bert24_inference", 20.084 },
    { "experts: resnet50_inference", "resnet50_inference", 43.9183 },
};

// Their plan gives each accelerator the ids of its nodes; here layers are called nodeID.
static void read_expert(const char *file, const struct profile *profile, uint32_t *stage_of, size_t *stages)
{
    char path[200];
    snprintf(path, sizeof path, DATA "human-experts/%s_expert.json", file);
    struct error error = { 0 };
    struct json_document *document = json_load(path, &error);
    assert_good(document, error);
    struct json root = json_root(document), list = json_array(&root, "fpgas"), machine, id;
    for (*stages = 0; json_next(&list, &machine); (*stages)++) {
        struct json nodes = json_array(&machine, "nodes");
        while (json_next(&nodes, &id)) {
            char name[32];
            snprintf(name, sizeof name, "node%llu", (unsigned long long)json_item_u64(&id, 0, JSON_MAX));
            for (size_t i = 0; i < profile->layer_count; i++)
                if (strcmp(profile->layers[i].name, name) == 0)
                    stage_of[i] = (uint32_t)*stages;
        }
    }
    assert_good(json_ok(document, &error), error);
    json_free(document);
}

static void the_experts_plan_is_priced_and_beaten(void **state)
{
    const struct expert_row *row = *state;
    struct error error = { 0 };
    struct cluster *cluster;
    struct profile *profile = import(row->file, &cluster);
    struct bottleneck_request request = ask(profile, cluster);
    uint32_t stage_of[200] = { 0 };
    size_t stages;
    read_expert(row->file, profile, stage_of, &stages);
    struct bottleneck_result *experts = bottleneck_create(&request, stages, &error);
    assert_good(experts, error);
    bottleneck_place(experts, stage_of);
    assert_good(bottleneck_value(&request, experts, &error), error);
    if (!is_within(experts->value_ns * 1e-6, row->value_ms, 5e-5))
        fail_msg("%.9f ms, published %.9f", experts->value_ns * 1e-6, row->value_ms);
    struct bottleneck_result *plan = bottleneck_search(&request, &error);
    assert_good(plan, error);
    assert_true(plan->value_ns < experts->value_ns);
    bottleneck_free(plan);
    bottleneck_free(experts);
    cluster_free(cluster);
    profile_free(profile);
}

int main(void)
{
    enum {
        REFUSALS = sizeof refusals / sizeof refusals[0],
        PUBLISHED = sizeof published_rows / sizeof published_rows[0],
        EXPERTS = sizeof expert_rows / sizeof expert_rows[0]
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_sent_once_and_received_by_each_stage),
        cmocka_unit_test(plans_the_model_does_not_know_are_refused),
        cmocka_unit_test(too_many_ways_to_cut_leave_a_plan_and_a_bound),
        cmocka_unit_test(layers_of_one_colour_are_one_where_a_graph_is_cut),
        cmocka_unit_test(random_graphs_have_the_least_largest_load_of_all_ways_to_cut_them),
    };
    struct CMUnitTest refused[REFUSALS], published[PUBLISHED], experts[EXPERTS];
    for (size_t i = 0; i < REFUSALS; i++)
        refused[i] = (struct CMUnitTest)TEST_ROW(what_does_not_fit_is_refused_with_its_layer, &refusals[i]);
    for (size_t i = 0; i < PUBLISHED; i++)
        published[i] = (struct CMUnitTest)TEST_ROW(a_published_optimum_is_found_and_proved, &published_rows[i]);
    for (size_t i = 0; i < EXPERTS; i++)
        experts[i] = (struct CMUnitTest)TEST_ROW(the_experts_plan_is_priced_and_beaten, &expert_rows[i]);
    return cmocka_run_group_tests_name("max-load", tests, NULL, NULL)
           + cmocka_run_group_tests_name("max-load: refusals", refused, NULL, NULL)
           + cmocka_run_group_tests_name("max-load: published", published, NULL, NULL)
           + cmocka_run_group_tests_name("max-load: experts", experts, NULL, NULL);
}
