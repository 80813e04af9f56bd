// What authors of trainers see: weir.h alone, from profile to weights.
#include "api/weir.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/api/scale_layers.h"
#include "tests/test.h"

static void layers_are_profiled_planned_and_trained(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "pipedream", "zb-v", "chimera" };
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct weir_layer layers[LAYERS];
        struct weir_error error = { 0 };
        struct weir_result first, last;
        fill(layers);
        struct weir_plan *plan = plan_of(layers, schedules[n]);
        struct weir_runtime *runtime =
            weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .rate = 0.05f), &error);
        assert_good(runtime, error);
        assert_good(weir_runtime_step(runtime, &first, &error), error);
        for (int step = 0; step < 5; step++)
            assert_good(weir_runtime_step(runtime, &last, &error), error);
        assert_true(last.loss < first.loss && last.iteration_ns > 0);
        uint32_t count;
        const float *losses = weir_runtime_losses(runtime, &count);
        assert_int_equal(count, 4);
        assert_true(losses[0] > 0);
        uint64_t planned = 0;
        for (size_t s = 0; s < weir_plan_stage_count(plan); s++)
            planned += weir_plan_stage(plan, s).peak_bytes;
        if (n < 3)  // one stage on each rank
            assert_int_equal(last.allocated_bytes, planned);
        float parameter = 0;
        assert_good(weir_runtime_read(runtime, 2, &parameter, &error), error);
        assert_true(parameter > 0 && parameter < 0.5f);
        char *trace = weir_runtime_trace(runtime, &error);
        assert_good(trace, error);
        assert_non_null(strstr(trace, "0F0"));
        free(trace);
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

static float parameter_after_a_step(struct weir_runtime *runtime)
{
    struct weir_error error = { 0 };
    float parameter = 0;
    assert_good(weir_runtime_step(runtime, NULL, &error), error);
    assert_good(weir_runtime_read(runtime, 2, &parameter, &error), error);
    return parameter;
}

// The same three with a parameter of another layer.

static struct weir_pass as_if_own(const struct weir_pass *pass)
{
    struct weir_pass own = *pass;
    own.parameters = pass->tied_parameters;
    own.gradients = pass->tied_gradients;
    return own;
}

static bool tied_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_pass own = as_if_own(pass);
    return scale_forward(self, &own, error);
}

static bool tied_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_pass own = as_if_own(pass);
    return scale_backward_input(self, &own, error);
}

static bool tied_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_pass own = as_if_own(pass);
    return scale_backward_weight(self, &own, error);
}

// "c" takes the parameter of "a", of which four stages put one between. All numbers are sums of few
// powers of two, so that the order of addition makes no difference.
static void tied_layers_are_trained_together_and_apart(void **state)
{
    (void)state;
    static const char *const clusters[] = { "1 device, 1MiB, 10GB/s 1us", "4 devices, 1MiB, 10GB/s 1us" };
    float found[2];
    for (size_t n = 0; n < 2; n++) {
        struct weir_layer layers[LAYERS];
        struct weir_error error = { 0 };
        fill(layers);
        layers[3].parameter_bytes = 0;
        layers[3].tied = &layers[1];
        layers[3].forward = tied_forward;
        layers[3].backward_input = tied_backward_input;
        layers[3].backward_weight = tied_backward_weight;
        layers[3].initialize = NULL;
        const struct weir_partition_options planning = { .size = sizeof planning, .cluster = clusters[n],
                                                         .schedule = "1f1b", .micro_batches = 4, .tied = "apart",
                                                         .optimizer = "sgd" };
        struct weir_profile *profile = profile_of(layers);
        struct weir_plan *plan = weir_partition(profile, &planning, &error);
        assert_good(plan, error);
        assert_int_equal(weir_plan_stage_count(plan), n == 0 ? 1 : 4);
        struct weir_runtime *runtime =
            weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .rate = 0.0625f), &error);
        assert_good(runtime, error);
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
        assert_good(weir_runtime_read(runtime, 1, &found[n], &error), error);
        weir_runtime_free(runtime);
        weir_plan_free(plan);
        weir_profile_free(profile);
    }
    assert_true(found[0] > 0 && found[0] < 0.5f && found[0] == found[1]);
}

static void the_rate_is_that_of_the_steps_to_come(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    struct weir_runtime *runtime =
        weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .rate = 0.05f), &error);
    assert_good(runtime, error);
    const float trained = parameter_after_a_step(runtime);
    weir_runtime_set_rate(runtime, 0);
    assert_true(parameter_after_a_step(runtime) == trained);
    weir_runtime_set_rate(runtime, 0.05f);
    assert_true(parameter_after_a_step(runtime) != trained);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

// --- training, held against a plain loop ---------------------------------------------

// Powers of two: the product with a gradient is exact, however it is subtracted.
static float falling_rate(void *self, uint64_t step)
{
    (void)self;
    return 0.03125f / (float)(1u << step / 2);
}

// What is told behind each step, and compared there.
struct watched {
    struct weir_runtime *runtime;
    struct plain *plain;
    uint64_t told, ends;
};

enum { HELD_OUT = 1000 };

static bool compare_step(void *self, uint64_t step, const struct weir_result *result)
{
    struct watched *watched = self;
    struct weir_error error = { 0 };
    float losses[3];
    assert_int_equal(step, watched->told++);
    assert_true(result->loss > 0);
    plain_step(watched->plain, step, falling_rate(NULL, step));
    is_as_plain(watched->runtime, watched->plain);
    assert_good(weir_runtime_evaluate(watched->runtime, WEIR_OPTIONS(evaluate, .step = HELD_OUT,
                                                   .micro_batches = 3, .losses = losses), &error), error);
    for (uint32_t i = 0; i < 3; i++) {
        const float loss = plain_loss(watched->plain, HELD_OUT, i);
        assert_memory_equal(&losses[i], &loss, sizeof loss);
    }
    return watched->told < watched->ends;
}

static float rate_of_watched(void *self, uint64_t step)
{
    assert_int_equal(step, ((struct watched *)self)->told);
    return falling_rate(NULL, step);
}

static void training_and_evaluation_are_a_plain_loops(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1" };
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct plain plain;
        struct weir_error error = { 0 };
        struct weir_result last = { 0 };
        begin_plain(&plain);
        struct weir_plan *plan = plan_of(plain.layers, schedules[n]);
        struct weir_runtime *runtime = weir_runtime_create(plan, plain.layers, LAYERS, NULL, &error);
        assert_good(runtime, error);
        struct watched watched = { runtime, &plain, 0, 6 };
        const struct weir_train_options training = { .size = sizeof training, .steps = 4, .rate = rate_of_watched,
                                                     .after = compare_step, .self = &watched };
        assert_good(weir_runtime_train(runtime, &training, &last, &error), error);
        assert_int_equal(watched.told, 4);
        assert_good(weir_runtime_train(runtime, &training, &last, &error), error);
        assert_int_equal(watched.told, 6);  // it was ended by the sixth
        const uint64_t allocated = last.allocated_bytes;
        assert_good(weir_runtime_step(runtime, &last, &error), error);
        assert_int_equal(last.allocated_bytes, allocated);  // evaluation has left none
        assert_false(weir_runtime_train(runtime, NULL, NULL, &error));
        assert_error(error, "weir_train_options.steps is needed: 1 or more");
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

// In one step "b" gets other parameters than training gave it; and so does a copy, where there are two.
static void parameters_are_written(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "chimera" };
    for (size_t n = 0; n < 2; n++) {
        struct plain plain;
        struct weir_error error = { 0 };
        struct weir_result result;
        uint32_t layer = 0;
        begin_plain(&plain);
        struct weir_plan *plan = plan_of(plain.layers, schedules[n]);
        struct weir_runtime *runtime =
            weir_runtime_create(plan, plain.layers, LAYERS, WEIR_OPTIONS(runtime, .rate = 0.03125f), &error);
        assert_good(runtime, error);
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
        assert_good(weir_runtime_find(runtime, "b", &layer, &error), error);
        assert_int_equal(layer, 2);
        for (uint32_t l = 1; l < LAYERS - 1; l++)
            assert_good(weir_runtime_read(runtime, l, &plain.parameters[l], &error), error);
        plain.parameters[2] = 0.75f;
        assert_good(weir_runtime_write(runtime, layer, &plain.parameters[2], &error), error);
        is_as_plain(runtime, &plain);
        assert_good(weir_runtime_step(runtime, &result, &error), error);
        uint32_t count;
        const float *losses = weir_runtime_losses(runtime, &count);
        for (uint32_t i = 0; i < count; i++) {
            const float loss = plain_loss(&plain, 1, i);
            assert_memory_equal(&losses[i], &loss, sizeof loss);
        }
        assert_false(weir_runtime_find(runtime, "d", &layer, &error));
        assert_error(error, "name: no layer of the runtime's 5 is called \"d\"");
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

// A layer that fails in an evaluation, and training that a step's failure ends.
static void failures_end_evaluation_and_training(void **state)
{
    (void)state;
    struct plain plain;
    struct weir_error error = { 0 };
    float loss;
    uint64_t step = HELD_OUT;
    begin_plain(&plain);
    struct weir_plan *plan = plan_of(plain.layers, "1f1b");
    plain.layers[2].self = &step;
    struct weir_runtime *runtime = weir_runtime_create(plan, plain.layers, LAYERS, NULL, &error);
    assert_good(runtime, error);
    assert_false(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = HELD_OUT,
                                                    .micro_batches = 1, .losses = &loss), &error));
    assert_non_null(strstr(error.text, "F0: layer b: the lights went out"));
    assert_int_equal(error.code, 3);
    step = 1;
    error = (struct weir_error){ 0 };
    assert_false(weir_runtime_train(runtime, WEIR_OPTIONS(train, .steps = 3), NULL, &error));
    if (!strstr(error.text, "layer b: the lights went out"))
        fail_msg("%s", error.text);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

static void documents_go_to_files_and_back(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    char folder[] = "/tmp/weir-test-XXXXXX", profile_path[64], plan_path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(profile_path, sizeof profile_path, "%s/profile.json", folder);
    snprintf(plan_path, sizeof plan_path, "%s/plan.json", folder);
    fill(layers);
    struct weir_profile *profile = profile_of(layers), *again;
    struct weir_plan *plan = plan_of(layers, "1f1b"), *back;
    assert_good(weir_profile_save(profile, profile_path, &error), error);
    assert_good(weir_plan_save(plan, plan_path, &error), error);
    assert_good(again = weir_profile_load(profile_path, &error), error);
    assert_good(back = weir_plan_load(plan_path, &error), error);
    char *one = weir_plan_document(plan, &error), *two = weir_plan_document(back, &error);
    assert_good(one && two, error);
    assert_string_equal(one, two);
    free(one), free(two);
    weir_profile_free(profile), weir_profile_free(again);
    weir_plan_free(plan), weir_plan_free(back);
    unlink(profile_path), unlink(plan_path), rmdir(folder);
    assert_null(weir_plan_load(plan_path, &error));
    assert_true(error.code >= 2);  // the file is gone
}

// Changes one layer's sizes or functions for the worse.
struct unsound_row {
    const char *name;
    uint32_t layer;
    void (*spoil)(struct weir_layer *layer);
    const char *sentence;
};

static void no_name(struct weir_layer *layer)
{
    layer->name = "";
}

static void same_name(struct weir_layer *layer)
{
    layer->name = "a";
}

static void no_function(struct weir_layer *layer)
{
    layer->backward_weight = NULL;
}

static void odd_parameters(struct weir_layer *layer)
{
    layer->parameter_bytes = 6;
}

static void small_held(struct weir_layer *layer)
{
    layer->held_for_weight_bytes = 8;
}

static void some_output(struct weir_layer *layer)
{
    layer->output_bytes = 4;
}

static void wild_range(struct weir_layer *layer)
{
    static const struct weir_range range = { 0, 8 };
    layer->undecayed = &range;
    layer->undecayed_count = 1;
}

static struct unsound_row unsound_rows[] = {
    { "a_layer_needs_a_name", 1, no_name, "layer 1 (): needs a name and a kind" },
    { "names_are_unique", 3, same_name, "layer 3 (a): another layer is called the same" },
    { "a_layer_needs_its_functions", 2, no_function,
      "layer 2 (b): needs forward, backward_input and backward_weight" },
    { "parameters_are_floats", 2, odd_parameters, "layer 2 (b): parameter_bytes: 6 is no whole number of floats" },
    { "held_begins_with_the_gradient", 2, small_held,
      "layer 2 (b): held_for_weight_bytes: 8 has no room for the output's gradient (256 bytes)" },
    { "the_last_layer_hands_nothing_on", 4, some_output,
      "layer 4 (loss): output_bytes: the last layer computes the loss and hands nothing on" },
    { "undecayed_ranges_lie_in_the_parameters", 2, wild_range,
      "layer 2 (b): undecayed[0] is no range of whole parameters behind the one before" },
};

static void unsound_layers_are_refused(void **state)
{
    const struct unsound_row *row = *state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    row->spoil(&layers[row->layer]);
    assert_null(weir_profile_layers(layers, LAYERS, NULL, &error));
    assert_error(error, row->sentence);
    assert_int_equal(error.code, 2);
}

static void what_is_missing_in_a_plan_is_named(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    fill(layers);
    struct weir_profile *profile = profile_of(layers);
    const struct {
        const struct weir_partition_options *planning;
        int code;
        const char *sentence;
    } rows[] = {
        { WEIR_OPTIONS(partition, .ranks = 0), 2,
          "weir_partition_options.cluster is needed: a line (\"2 devices, 1GiB, 10GB/s 1us\"), a file or a document's"
          " text" },
        { WEIR_OPTIONS(partition, .cluster = "2 devices, 1MiB, 10GB/s 1us"), 2,
          "weir_partition_options.schedule is needed: \"1f1b\", \"gpipe\", \"zb-h1\", ...; or"
          " weir_partition_options.order" },
        { WEIR_OPTIONS(partition, .cluster = "2 devices, 1MiB, 10GB/s 1us", .schedule = "1f1b"), 2,
          "weir_partition_options.micro_batches is needed: 1 or more in an iteration" },
        { WEIR_OPTIONS(partition, .cluster = "2 devices, 1MiB, 10GB/s 1us", .schedule = "1f1b", .micro_batches = 2,
                       .optimizer = "lion"),
          2, "optimizer: \"lion\" is none of sgd, momentum, adamw, adam, lamb, lars, adafactor, adam8bit, adam1bit, "
             "adagrad, adagrad-rows, adam-rows, sgd-master, momentum-master, adamw-master" },
        { WEIR_OPTIONS(partition, .cluster = "2 devices, 1MiB, 10GB/s 1us", .schedule = "1f1b", .micro_batches = 2,
                       .ranks = 3),
          2, "ranks: 3, but the cluster has 2 devices" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        assert_null(weir_partition(profile, rows[i].planning, &error));
        assert_error(error, rows[i].sentence);
        assert_int_equal(error.code, rows[i].code);
    }
    struct weir_error error = { 0 };
    assert_null(weir_partition(profile, NULL, &error));
    assert_error(error, rows[0].sentence);
    error = (struct weir_error){ 0 };
    const struct weir_partition_options tiny = { .size = sizeof tiny, .cluster = "2 devices, 1KiB, 10GB/s 1us",
                                                 .schedule = "1f1b", .micro_batches = 2 };
    assert_null(weir_partition(profile, &tiny, &error));
    assert_int_equal(error.code, 1);  // done, and the answer is no
    weir_profile_free(profile);
}

// Options of which nothing is needed may be left away: what is usual then is as usual.
static void options_may_be_left_away(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    struct weir_result result[2];
    fill(layers);
    struct weir_profile *profile = weir_profile_layers(layers, LAYERS, NULL, &error);
    assert_good(profile, error);
    weir_profile_free(profile);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    for (int i = 0; i < 2; i++) {
        struct weir_runtime *runtime =
            weir_runtime_create(plan, layers, LAYERS, i == 0 ? NULL : WEIR_OPTIONS(runtime, .rate = 0.001f), &error);
        assert_good(runtime, error);
        for (int step = 0; step < 3; step++)
            assert_good(weir_runtime_step(runtime, &result[i], &error), error);
        weir_runtime_free(runtime);
    }
    assert_true(result[0].loss == result[1].loss);
    weir_plan_free(plan);
}

static void a_layers_error_comes_back_from_the_step(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    uint64_t last_step = 2;
    layers[2].self = &last_step;
    struct weir_runtime *runtime =
        weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .rate = 0.01f), &error);
    assert_good(runtime, error);
    for (int step = 0; step < 2; step++)
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
    assert_false(weir_runtime_step(runtime, NULL, &error));
    if (!strstr(error.text, "layer b: the lights went out"))
        fail_msg("%s", error.text);
    assert_int_equal(error.code, 3);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

static void a_plan_of_other_layers_is_refused(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    layers[1].name = "another";
    assert_null(weir_runtime_create(plan, layers, LAYERS, NULL, &error));
    assert_error(error, "the plan's stage 0 calls layer 1 \"a\", the model \"another\": the plan is of another model");
    layers[1].name = "a";
    layers[1].saved_bytes = 4096;
    error = (struct weir_error){ 0 };
    assert_null(weir_runtime_create(plan, layers, LAYERS, NULL, &error));
    assert_non_null(strstr(error.text, ": the plan was changed, or is of layers of other sizes"));
    assert_int_equal(error.code, 2);
    weir_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_profiled_planned_and_trained),
        cmocka_unit_test(tied_layers_are_trained_together_and_apart),
        cmocka_unit_test(the_rate_is_that_of_the_steps_to_come),
        cmocka_unit_test(training_and_evaluation_are_a_plain_loops),
        cmocka_unit_test(parameters_are_written),
        cmocka_unit_test(failures_end_evaluation_and_training),
        cmocka_unit_test(documents_go_to_files_and_back),
        cmocka_unit_test(what_is_missing_in_a_plan_is_named),
        cmocka_unit_test(options_may_be_left_away),
        cmocka_unit_test(a_layers_error_comes_back_from_the_step),
        cmocka_unit_test(a_plan_of_other_layers_is_refused),
        TEST_ROW(unsound_layers_are_refused, &unsound_rows[0]),
        TEST_ROW(unsound_layers_are_refused, &unsound_rows[1]),
        TEST_ROW(unsound_layers_are_refused, &unsound_rows[2]),
        TEST_ROW(unsound_layers_are_refused, &unsound_rows[3]),
        TEST_ROW(unsound_layers_are_refused, &unsound_rows[4]),
        TEST_ROW(unsound_layers_are_refused, &unsound_rows[5]),
        TEST_ROW(unsound_layers_are_refused, &unsound_rows[6]),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
