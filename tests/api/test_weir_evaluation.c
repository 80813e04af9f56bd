// Evaluations in the pipeline, and what the last layer counts: the same by any plan, and training goes on to the same
// bits.
#include <pthread.h>
#include <stdio.h>

#include "tests/api/centre_layers.h"

enum { MICRO_BATCHES = 8, COUNTS = 3, MOST = 20 };
static const uint64_t far_away = 1 << 20;

static pthread_t main_thread;
static uint32_t calls_of_main;

// Counts the rows whose number is below, in and above a range.
static bool counting_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *x = pass->input;
    if (pass->queue && !pass->is_training && pthread_equal(pthread_self(), main_thread))
        calls_of_main++;  // an evaluation that is not in the pipeline
    for (int i = 0; pass->metrics && i < ROWS; i++)
        pass->metrics[(x[i] > -0.02f) + (x[i] > 0.02f)]++;
    return loss_forward(self, pass, error);
}

static void fill_counting(struct weir_layer layers[CENTRED])
{
    fill_centred(layers);
    layers[CENTRED - 1].forward = counting_forward;
    layers[CENTRED - 1].metric_count = COUNTS;
}

static struct weir_plan *plan_counting(const struct weir_layer *layers, const char *schedule, const char *cluster,
                                       const struct weir_numbers *replicas)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile = weir_profile_layers(layers, CENTRED, NULL, &error);
    assert_good(profile, error);
    struct weir_plan *plan =
        weir_partition(profile, WEIR_OPTIONS(partition, .cluster = cluster, .schedule = schedule,
                                             .micro_batches = MICRO_BATCHES, .optimizer = "momentum",
                                             .replicas = replicas ? *replicas : (struct weir_numbers){ NULL, 0 },
                                             .budget = 20000), &error);
    if (!plan)
        fail_msg("%s: %s", schedule, error.text);
    weir_profile_free(profile);
    return plan;
}

struct seen {
    float losses[MOST], predictions[MOST][ROWS], parameter;
    uint64_t metrics[COUNTS], trained[COUNTS];
};

// Two steps, with evaluations of these micro-batches before, between and after them; 0: none.
static void train(const struct weir_plan *plan, const struct weir_layer *layers, const char *device, uint32_t evaluated,
                  struct seen *seen)
{
    struct weir_error error = { 0 };
    struct weir_result result;
    struct weir_runtime *runtime =
        weir_runtime_create(plan, layers, CENTRED, WEIR_OPTIONS(runtime, .rate = 0.25f, .device = device), &error);
    assert_good(runtime, error);
    memset(seen, 0, sizeof *seen);
    for (int step = 0; step < 3; step++) {
        if (evaluated > 0)
            assert_good(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = far_away,
                                                                    .micro_batches = evaluated + (step == 1),
                                                                    .losses = seen->losses, .metrics = seen->metrics,
                                                                    .predictions = seen->predictions), &error), error);
        if (step == 2)
            break;
        assert_good(weir_runtime_step(runtime, &result, &error), error);
        assert_int_equal(result.metric_count, COUNTS);
        for (int i = 0; i < COUNTS; i++)
            seen->trained[i] += result.metrics[i];
    }
    assert_good(weir_runtime_read(runtime, 1, &seen->parameter, &error), error);
    weir_runtime_free(runtime);
}

static void assert_is_whole(const struct seen *seen, uint32_t evaluated)
{
    uint64_t counted = 0, trained = 0, again[COUNTS] = { 0 };
    for (int i = 0; i < COUNTS; i++) {
        counted += seen->metrics[i];
        trained += seen->trained[i];
    }
    assert_int_equal(counted, evaluated * ROWS);
    assert_int_equal(trained, 2 * MICRO_BATCHES * ROWS);
    for (uint32_t m = 0; m < evaluated; m++) {
        float loss;
        const struct weir_pass pass = { .input = seen->predictions[m], .loss = &loss, .metrics = again };
        counting_forward(NULL, &pass, NULL);
        assert_memory_equal(&loss, &seen->losses[m], sizeof loss);
    }
    assert_memory_equal(again, seen->metrics, sizeof again);
}

// Plans that flush, without copies, give the results of one rank; the others have weights of their own.
static void evaluations_are_the_same_by_any_plan(void **state)
{
    (void)state;
    static const char *const flushing[] = {
        "gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb", "zb-v", "v-half", "v-min",
        "dualpipev", "hanayo", "chimera", "dualpipe", "pipedream", "vertical", "pipedream-2bw",
    };
    struct weir_layer layers[CENTRED];
    fill_counting(layers);
    struct weir_plan *alone = plan_counting(layers, "gpipe", "1 device, 1MiB, 10GB/s 1us", NULL);
    calls_of_main = 0;
    main_thread = pthread_self();
    for (uint32_t evaluated = 1; evaluated < MOST; evaluated += 6) {
        struct seen one, all, none;
        train(alone, layers, NULL, evaluated, &one);
        assert_is_whole(&one, evaluated);
        for (size_t i = 0; i < sizeof flushing / sizeof flushing[0]; i++) {
            struct weir_plan *plan = plan_counting(layers, flushing[i], "2 devices, 1MiB, 10GB/s 1us", NULL);
            train(plan, layers, NULL, 0, &none);
            train(plan, layers, NULL, evaluated, &all);
            assert_memory_equal(&none.parameter, &all.parameter, sizeof all.parameter);
            assert_memory_equal(none.trained, all.trained, sizeof all.trained);
            assert_is_whole(&all, evaluated);
            // a sum over copies is in another order, and asynchronous weights are others
            if (i < 12 && memcmp(&one, &all, sizeof all) != 0)
                fail_msg("%s, %u: other bits than one rank's", flushing[i], evaluated);
            weir_plan_free(plan);
        }
    }
    assert_int_equal(calls_of_main, 0);
    weir_plan_free(alone);
}

static void replicas_evaluate_their_shares(void **state)
{
    (void)state;
    static const uint32_t two_one[] = { 2, 1 };
    static const struct weir_numbers replicas = { two_one, 2 };
    struct weir_layer layers[CENTRED];
    struct seen all, none, queued;
    fill_counting(layers);
    struct weir_plan *plan = plan_counting(layers, "1f1b", "3 devices, 1MiB, 10GB/s 1us", &replicas);
    train(plan, layers, NULL, 0, &none);
    train(plan, layers, NULL, 5, &all);
    assert_memory_equal(&none.parameter, &all.parameter, sizeof all.parameter);
    assert_is_whole(&all, 5);
    train(plan, layers, "cpu:queued,cpu:queued,cpu:queued", 5, &queued);
    assert_memory_equal(&all, &queued, sizeof all);
    weir_plan_free(plan);
}

// Weights that come layer by layer, from the host or from other replicas, do so in evaluations as well.
static void evaluations_work_however_states_are_held(void **state)
{
    (void)state;
    static const uint32_t two[] = { 2, 2 };
    static const struct {
        const char *schedule, *shard;
        bool optimizer, activations;
        uint32_t window;
    } rows[] = {
        { "1f1b", "optimizer", false, false, 0 }, { "gpipe", "gradients", false, false, 0 },
        { "1f1b", "weights", false, false, 1 },   { "pipedream", "optimizer", false, false, 0 },
        { "1f1b", "none", true, false, 0 },       { "gpipe", "none", false, true, 0 },
        { "1f1b", "none", true, false, 1 },
    };
    struct weir_layer layers[CENTRED];
    struct weir_error error = { 0 };
    fill_counting(layers);
    struct weir_profile *profile = weir_profile_layers(layers, CENTRED, NULL, &error);
    assert_good(profile, error);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bool is_shared = strcmp(rows[i].shard, "none") != 0;
        struct seen all, none;
        struct weir_plan *plan =
            weir_partition(profile, WEIR_OPTIONS(partition, .cluster = "4 devices, 1MiB, 10GB/s 1us, host 1GiB 10GB/s",
                                                 .schedule = rows[i].schedule, .micro_batches = MICRO_BATCHES,
                                                 .optimizer = "momentum", .shard = rows[i].shard,
                                                 .optimizer_on_host = rows[i].optimizer,
                                                 .activations_on_host = rows[i].activations,
                                                 .window = rows[i].window,
                                                 .replicas = { two, is_shared ? 2 : 0 }), &error);
        assert_good(plan, error);
        train(plan, layers, NULL, 0, &none);
        train(plan, layers, NULL, 7, &all);
        assert_memory_equal(&none.parameter, &all.parameter, sizeof all.parameter);
        assert_memory_equal(none.trained, all.trained, sizeof all.trained);
        assert_is_whole(&all, 7);
        weir_plan_free(plan);
    }
    assert_int_equal(calls_of_main, 0);
    weir_profile_free(profile);
}

static bool setting_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    if (pass->metrics)
        pass->metrics[1] = ROWS;  // of this micro-batch alone
    return loss_forward(self, pass, error);
}

static bool beyond_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    if (pass->metrics)
        pass->metrics[COUNTS]++;
    return loss_forward(self, pass, error);
}

static void the_guard_names_what_counts_wrong(void **state)
{
    (void)state;
    struct weir_layer layers[CENTRED];
    struct weir_error error = { 0 };
    fill_counting(layers);
    assert_good(weir_layers_check(layers, CENTRED, NULL, &error), error);
    layers[CENTRED - 1].forward = setting_forward;
    assert_false(weir_layers_check(layers, CENTRED, NULL, &error));
    assert_string_equal(error.text, "layer 9 (loss): forward sets metrics, number 1, where it has to add to them: they"
                        " are summed over the micro-batches");
    error = (struct weir_error){ 0 };
    layers[CENTRED - 1].forward = beyond_forward;
    assert_false(weir_layers_check(layers, CENTRED, NULL, &error));
    assert_string_equal(error.text, "layer 9 (loss): forward writes up to 8 bytes beyond metrics: metric_count in bytes"
                        " is 24");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(evaluations_are_the_same_by_any_plan),
        cmocka_unit_test(replicas_evaluate_their_shares),
        cmocka_unit_test(evaluations_work_however_states_are_held),
        cmocka_unit_test(the_guard_names_what_counts_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
