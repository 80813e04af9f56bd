// Branched models planned and run through weir.h, held against the sequential run: to the bit, under all kinds of
// schedules.
#include "api/weir.h"

#include "tests/api/small_plan.h"
#include "tests/runtime/graph_layers.h"
#include "tests/test.h"

static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1", "pipedream", "pipedream-2bw", "interleaved", "zb-v",
                                         "chimera" };

static void assert_told(bool good, const struct weir_error *error)
{
    if (!good)
        fail_msg("code %d: %s", error->code, error->text);
}

// How many of the plans were such as these.
struct met {
    uint32_t orders, recomputed, constants;
};

static void note(const struct weir_plan *plan, struct met *met)
{
    struct weir_error error = { 0 };
    char *document = weir_plan_document(plan, &error);
    assert_told(document, &error);
    met->orders += strstr(document, "\"order\"") != NULL;
    met->recomputed += strstr(document, "\"recompute\": [\n") != NULL;
    free(document);
}

// Layers are asked for by the model's numbers, in whatever order the plan has them.
static void read_all(const struct weir_plan *plan, const struct graph *graph)
{
    struct weir_error error = { 0 };
    struct weir_runtime *runtime = weir_runtime_create(plan, graph->layers, graph->count, NULL, &error);
    assert_told(runtime, &error);
    for (uint32_t l = 0; l < graph->count; l++) {
        const struct weir_layer *layer = &graph->layers[l];
        float first[GRAPH_READS], found[GRAPH_READS];
        if (!layer->initialize)
            continue;
        layer->initialize(layer->self, NULL, first, NULL);
        assert_told(weir_runtime_read(runtime, l, found, &error), &error);
        assert_memory_equal(found, first, sizeof first);
    }
    float losses[2];
    assert_told(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 0,
                                                   .micro_batches = 2, .losses = losses), &error), &error);
    weir_runtime_free(runtime);
}

static bool has_constants(const struct graph *graph)
{
    bool has = false;
    for (size_t l = 0; l < graph->count; l++)
        has |= graph->layers[l].has_constant_inputs;
    return has;
}

static void run_trial(uint64_t trial, struct met *met)
{
    uint64_t seed = trial;
    struct graph graph;
    graph_random(&seed, &graph);
    if (trial % 2)
        graph_random_constants(&seed, &graph);
    struct weir_error error = { 0 };
    if (trial < 3)
        assert_told(weir_layers_check(graph.layers, graph.count, WEIR_OPTIONS(check_layers, .loss_share = 1), &error),
                    &error);
    struct weir_profile *profile = weir_profile_layers(graph.layers, graph.count, NULL, &error);
    assert_told(profile, &error);
    for (size_t s = 0; s < sizeof schedules / sizeof schedules[0]; s++) {
        uint32_t ranks = 2 * (1 + (uint32_t)random_below(&seed, 2));
        const bool has_chunks = s >= 5;
        if ((has_chunks ? 2 : 1) * ranks > graph.count)
            ranks = 2;
        if (graph.count < 4 && has_chunks)
            continue;
        const struct small_plan wanted = { .schedule = schedules[s], .ranks = ranks, .micro_batches = 4 };
        struct weir_plan *plan = small_plan_of(profile, &wanted);
        if (!plan) {
            assert_true(has_constants(&graph));
            continue;
        }
        note(plan, met);
        met->constants += has_constants(&graph);
        if (!weir_verify(plan, graph.layers, graph.count, NULL, 2, &error))
            fail_msg("trial %llu, %s on %u ranks: %s", (unsigned long long)trial, schedules[s], ranks, error.text);
        if (s == 1)
            read_all(plan, &graph);
        weir_plan_free(plan);
    }
    weir_profile_free(profile);
}

static void any_graph_runs_as_planned(void **state)
{
    (void)state;
    struct met met = { 0 };
    for (uint64_t trial = 0; trial < test_trials(4, 1000); trial++)
        run_trial(trial, &met);
    assert_true(met.orders > 0 && met.recomputed > 0 && (met.constants > 0 || TEST_IS_SANITIZED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_graph_runs_as_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
