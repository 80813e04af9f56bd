// State without a gradient: folded to the same bits by any plan, read by evaluations, kept in checkpoints.
#include <stdio.h>

#include "tests/api/centre_layers.h"
#include "tests/api/scratch_folder.h"
#include "tests/api/small_plan.h"
#include "tests/sanitizer.h"

enum { MICRO_BATCHES = 8, STEPS = 4, EVALUATED = 3 };
static const float rate = 0.25f;
static const uint64_t far_away = 1 << 20;

static struct weir_profile *profile_centred(const struct weir_layer *layers)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile = weir_profile_layers(layers, CENTRED, NULL, &error);
    assert_good(profile, error);
    return profile;
}

static struct weir_plan *plan_centred(const struct weir_layer *layers, const char *schedule, uint32_t ranks,
                                      bool is_small)
{
    return small_plan(layers, CENTRED, &(struct small_plan){ .schedule = schedule, .ranks = ranks,
                                                             .micro_batches = MICRO_BATCHES,
                                                             .has_room = !is_small });
}

// --- the plain loop ------------------------------------------------------------------------------

struct loop {
    struct weir_layer layers[CENTRED];
    float parameters[CENTRED], gradients[CENTRED], states[CENTRED][2], statistics[CENTRED][MICRO_BATCHES];
    float values[CENTRED][ROWS], slopes[CENTRED][ROWS];
};

static void loop_begin(struct loop *loop)
{
    memset(loop, 0, sizeof *loop);
    fill_averaged(loop->layers);
    for (int l = 0; l < CENTRED; l++) {
        if (loop->layers[l].initialize)
            loop->layers[l].initialize(NULL, NULL, &loop->parameters[l], NULL);
        if (loop->layers[l].initialize_state)
            loop->layers[l].initialize_state(NULL, NULL, loop->states[l], NULL);
    }
}

static struct walk walk_of(struct loop *loop)
{
    return (struct walk){ loop->layers, CENTRED, loop->parameters, loop->gradients, loop->values, loop->slopes };
}

static float loop_forward(struct loop *loop, uint64_t step, uint32_t micro_batch, bool is_training)
{
    float loss = 0;
    const struct walk walk = walk_of(loop);
    for (int l = 0; l < CENTRED; l++) {
        const bool has_state = loop->layers[l].state_bytes > 0, has_statistics = loop->layers[l].statistics_bytes > 0;
        struct weir_pass pass = walk_pass(&walk, l);
        pass.step = step;
        pass.micro_batch = micro_batch;
        pass.is_training = is_training;
        pass.loss = &loss;
        pass.state = has_state && !is_training ? loop->states[l] : NULL;
        pass.statistics = has_statistics && is_training ? &loop->statistics[l][micro_batch] : NULL;
        assert_true(loop->layers[l].forward(NULL, &pass, NULL));
    }
    return loss;
}

static void loop_step(struct loop *loop, uint64_t step)
{
    static const uint32_t numbers[MICRO_BATCHES] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const struct walk walk = walk_of(loop);
    for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
        loop_forward(loop, step, m, true);
        walk_backward(&walk, 1.0f / MICRO_BATCHES);
    }
    for (int l = 0; l < CENTRED; l++) {
        const void *statistics[MICRO_BATCHES];
        loop->parameters[l] -= rate * loop->gradients[l];
        loop->gradients[l] = 0;
        for (uint32_t m = 0; m < MICRO_BATCHES; m++)
            statistics[m] = loop->layers[l].statistics_bytes > 0 ? &loop->statistics[l][m] : NULL;
        const struct weir_fold fold = { .state = loop->states[l], .statistics = statistics, .micro_batches = numbers,
                                        .count = MICRO_BATCHES, .parameters = &loop->parameters[l] };
        if (loop->layers[l].fold)
            loop->layers[l].fold(NULL, &fold, NULL);
    }
}

// --- tests ---------------------------------------------------------------------------------------

static struct weir_runtime *runtime_of(const struct weir_plan *plan, const struct weir_layer *layers,
                                       const char *device, const struct weir_checkpoint_options *keeping)
{
    struct weir_error error = { 0 };
    struct weir_runtime *runtime =
        weir_runtime_create(plan, layers, CENTRED, WEIR_OPTIONS(runtime, .rate = rate, .device = device,
                                                                .checkpoints = keeping), &error);
    assert_good(runtime, error);
    return runtime;
}

static void make_steps(struct weir_runtime *runtime, int count)
{
    struct weir_error error = { 0 };
    for (int i = 0; i < count; i++)
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
}

// Parameters, states and the losses of an evaluation.
static void assert_is_as(const struct weir_runtime *runtime, struct loop *loop)
{
    struct weir_error error = { 0 };
    float losses[EVALUATED];
    for (uint32_t l = 0; l < CENTRED; l++) {
        float parameter = 0, states[2] = { 0 };
        assert_good(loop->layers[l].parameter_bytes == 0 || weir_runtime_read(runtime, l, &parameter, &error), error);
        assert_memory_equal(&parameter, &loop->parameters[l], sizeof parameter);
        assert_good(loop->layers[l].state_bytes == 0 || weir_runtime_read_state(runtime, l, states, &error), error);
        assert_memory_equal(states, loop->states[l], sizeof states);
    }
    assert_good(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = far_away,
                                                   .micro_batches = EVALUATED, .losses = losses), &error), error);
    for (uint32_t m = 0; m < EVALUATED; m++) {
        const float loss = loop_forward(loop, far_away, m, false);
        assert_memory_equal(&losses[m], &loss, sizeof loss);
    }
}

static void state_is_that_of_a_plain_loop(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *device;
        uint32_t ranks;
        bool is_small;
    } rows[] = {
        { "gpipe", NULL, 1, false }, { "gpipe", NULL, 3, true }, { "1f1b", NULL, 2, true },
        { "interleaved", NULL, 2, false }, { "zb-h1", NULL, 4, false },
        { "1f1b", "cpu:queued", 2, false }, { "zb-v", "cpu:queued,cpu:queued", 2, true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_layer layers[CENTRED];
        struct loop loop;
        fill_averaged(layers);
        loop_begin(&loop);
        struct weir_plan *plan = plan_centred(layers, rows[i].schedule, rows[i].ranks, rows[i].is_small);
        struct weir_runtime *runtime = runtime_of(plan, layers, rows[i].device, NULL);
        assert_is_as(runtime, &loop);
        for (uint64_t step = 0; step < STEPS; step++) {
            make_steps(runtime, 1);
            loop_step(&loop, step);
            assert_is_as(runtime, &loop);
        }
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

static void verify_agrees_by_every_schedule(void **state)
{
    (void)state;
    static const char *const schedules[] = {
        "gpipe", "1f1b", "pipedream", "vertical", "pipedream-2bw", "interleaved", "looped-bfs", "zb-h1", "zb-h2",
        "interleaved-zb", "zb-v", "v-half", "v-min", "chimera", "dualpipe", "dualpipev", "hanayo",
    };
    struct weir_layer layers[CENTRED];
    fill_averaged(layers);
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++)
        for (int is_small = 0; is_small < 2; is_small++) {
            struct weir_error error = { 0 };
            struct weir_plan *plan = plan_centred(layers, schedules[i], 2, is_small);
            if (!weir_verify(plan, layers, CENTRED, WEIR_OPTIONS(runtime, .rate = rate), 3, &error))
                fail_msg("%s: %s", schedules[i], error.text);
            weir_plan_free(plan);
        }
}

static void replicas_fold_what_all_have_seen(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "pipedream", "pipedream-2bw" };
    static const char *const shards[] = { "none", "optimizer", "gradients", "weights" };
    struct weir_layer layers[CENTRED];
    static const uint32_t two[] = { 2, 2 };
    for (size_t i = 0; i < 16; i++) {
        struct weir_error error = { 0 };
        (i % 4 < 3 ? fill_averaged : fill_centred)(layers);  // if weights are sharded, no fold can read them
        struct weir_profile *profile = profile_centred(layers);
        struct weir_plan *plan =
            weir_partition(profile, WEIR_OPTIONS(partition, .cluster = "4 devices, 1MiB, 10GB/s 1us",
                                                 .schedule = schedules[i / 4], .micro_batches = MICRO_BATCHES,
                                                 .optimizer = "momentum", .shard = shards[i % 4],
                                                 .replicas = { two, 2 }), &error);
        assert_good(plan, error);
        if (!weir_verify(plan, layers, CENTRED, WEIR_OPTIONS(runtime, .rate = rate), 3, &error))
            fail_msg("%s, %s: %s", schedules[i / 4], shards[i % 4], error.text);
        weir_plan_free(plan);
        weir_profile_free(profile);
    }
}

// Without a flush each update folds its own micro-batches.
static void each_update_folds_once(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        uint32_t folds;  // in a step
    } rows[] = { { "1f1b", 1 }, { "pipedream", MICRO_BATCHES }, { "pipedream-2bw", MICRO_BATCHES / 2 } };
    struct weir_layer layers[CENTRED];
    fill_centred(layers);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        struct weir_plan *plan = plan_centred(layers, rows[i].schedule, 2, false);
        struct weir_runtime *runtime = runtime_of(plan, layers, NULL, NULL);
        make_steps(runtime, STEPS);
        for (uint32_t l = 2; l < CENTRED - 1; l += 2) {
            float found[2];
            assert_good(weir_runtime_read_state(runtime, l, found, &error), error);
            assert_true(found[1] == (float)(STEPS * rows[i].folds));
        }
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

static void a_run_goes_on_with_its_state(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[CENTRED];
    struct loop loop;
    fill_averaged(layers);
    loop_begin(&loop);
    for (uint64_t step = 0; step < STEPS; step++)
        loop_step(&loop, step);
    struct weir_plan *plan = plan_centred(layers, "1f1b", 2, false);
    struct weir_plan *other = plan_centred(layers, "gpipe", 3, true);
    const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = folder, .every = 2,
                                                     .resume = true };
    struct weir_runtime *runtime = runtime_of(plan, layers, NULL, &keeping);
    make_steps(runtime, 2);
    assert_good(weir_runtime_save(runtime, &error), error);
    weir_runtime_free(runtime);
    runtime = runtime_of(other, layers, NULL, &keeping);
    assert_int_equal(weir_runtime_steps(runtime), 2);
    make_steps(runtime, STEPS - 2);
    assert_is_as(runtime, &loop);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
    weir_plan_free(other);
}

static void a_state_is_written_to_every_copy(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[CENTRED];
    const float given[2] = { 3, 4 };
    float found[2];
    fill_centred(layers);
    struct weir_plan *plan = plan_centred(layers, "chimera", 2, false);
    struct weir_runtime *runtime = runtime_of(plan, layers, NULL, NULL);
    assert_good(weir_runtime_write_state(runtime, 4, given, &error), error);
    assert_good(weir_runtime_read_state(runtime, 4, found, &error), error);
    assert_memory_equal(found, given, sizeof given);
    make_steps(runtime, 1);  // both copies of the layer fold from there
    assert_good(weir_runtime_read_state(runtime, 4, found, &error), error);
    assert_true(found[1] == 5);
    assert_false(weir_runtime_read_state(runtime, 1, found, &error));
    assert_string_equal(error.text, "layer: layer a has no state without a gradient");
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

// --- state that training reads ---------------------------------------------------------------------

static bool shifted_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *x = pass->input, shift = *(const float *)pass->state;
    (void)self;
    (void)error;
    if (pass->statistics)
        *(float *)pass->statistics = mean_of(x);
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = x[i] - shift;
    return true;
}

static bool shifted_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    memcpy(pass->input_gradient, pass->output_gradient, BYTES);
    return pass->state != NULL;
}

static void training_may_read_state_where_a_schedule_flushes(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "zb-h1", "chimera", "pipedream" };
    struct weir_layer layers[CENTRED];
    fill_centred(layers);
    layers[4].state_reader = WEIR_STATE_READ_BY_TRAINING;
    layers[4].forward = shifted_forward;
    layers[4].backward_input = shifted_backward_input;
    struct weir_error error = { 0 };
    assert_good(weir_layers_check(layers, CENTRED, NULL, &error), error);
    for (size_t i = 0; i < 4; i++) {
        struct weir_plan *plan = plan_centred(layers, schedules[i], 2, i == 0);
        const bool good = weir_verify(plan, layers, CENTRED, WEIR_OPTIONS(runtime, .rate = rate), 3, &error);
        if (good != (i < 3))
            fail_msg("%s: %s", schedules[i], error.text);
        weir_plan_free(plan);
    }
    assert_string_equal(error.text, "layer cb: its state is read by training, and the schedule makes updates while"
                        " micro-batches are under way: take one that flushes, or let evaluation alone read it");
    assert_int_equal(error.code, 2);
}

// --- what the guard and the checks of sizes say --------------------------------------------------------

static bool adding_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float before = pass->statistics ? *(float *)pass->statistics : 0;
    centre_forward(self, pass, error);
    if (pass->statistics)
        *(float *)pass->statistics += before;
    return true;
}

static bool forgetting_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass training = *pass;
    training.is_training = true;
    return centre_forward(self, &training, error);
}

static float kept_behind_self;

static bool keeping_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    kept_behind_self += pass->is_training;
    return centre_forward(self, pass, error);
}

static bool keeping_fold(void *self, const struct weir_fold *fold, struct weir_error *error)
{
    centre_fold(self, fold, error);
    ((float *)fold->state)[1] = kept_behind_self;
    return true;
}

static bool folding_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    *(float *)(uintptr_t)pass->state += mean_of(pass->input);
    return centre_forward(self, pass, error);
}

static void the_guard_names_what_is_no_statistic(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[CENTRED];
    fill_centred(layers);
    assert_good(weir_layers_check(layers, CENTRED, NULL, &error), error);
    layers[2].forward = adding_forward;
    assert_named(layers, CENTRED, "layer 2 (ca): forward adds to statistics, or reads them, where it has to set them");
    layers[2].forward = forgetting_forward;
    assert_named(layers, CENTRED, "layer 2 (ca): forward in an evaluation gives the same whatever state is");
    assert_good(weir_layers_check(layers, CENTRED, WEIR_OPTIONS(check_layers, .unread_state = true), &error), error);
    layers[2].forward = folding_forward;
    if (!HAS_SANITIZER)  // which would end the program there
        assert_named(layers, CENTRED, "layer 2 (ca): forward touches memory that it was not given");
    layers[2].forward = keeping_forward;
    layers[2].fold = keeping_fold;
    assert_named(layers, CENTRED, "layer 2 (ca): fold gives other bits for state, from byte 4 on");
}

static bool peeking_fold(void *self, const struct weir_fold *fold, struct weir_error *error)
{
    *(float *)(uintptr_t)fold->parameters += 1;
    return averaged_fold(self, fold, error);
}

static void the_guard_knows_what_a_fold_may_read(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[CENTRED];
    fill_averaged(layers);
    assert_good(weir_layers_check(layers, CENTRED, NULL, &error), error);
    layers[1].fold = peeking_fold;
    assert_named(layers, CENTRED, "layer 1 (a): fold changes parameters, which it may only read");
    layers[1].fold = averaged_fold;
    layers[1].fold_reads_parameters = false;
    if (!HAS_SANITIZER)
        assert_named(layers, CENTRED, "layer 1 (a): fold touches memory that it was not given");
}

// A fold reads all parameters of its layer on the device.
static void averages_are_refused_where_no_rank_has_all_weights(void **state)
{
    (void)state;
    static const uint32_t two[] = { 2, 2 };
    static const char *const sentences[] = {
        "layer a: fold_reads_parameters: its parameters are on the host, and come in a window: plan without a window",
        "layer a: fold_reads_parameters: its parameters are shared by replicas: plan without sharded weights",
    };
    struct weir_layer layers[CENTRED];
    fill_averaged(layers);
    struct weir_profile *profile = profile_centred(layers);
    for (int n = 0; n < 3; n++) {
        struct weir_error error = { 0 };
        const struct weir_partition_options planning = {
            .size = sizeof planning, .cluster = "4 devices, 1MiB, 10GB/s 1us, host 1GiB 25GB/s", .schedule = "1f1b",
            .micro_batches = MICRO_BATCHES, .replicas = { two, 2 }, .optimizer_on_host = n != 1, .window = n == 0,
            .shard = n == 1 ? "weights" : "none",
        };
        struct weir_plan *plan = weir_partition(profile, &planning, &error);
        assert_good(plan, error);
        const bool good = weir_verify(plan, layers, CENTRED, WEIR_OPTIONS(runtime, .rate = rate), 3, &error);
        assert_int_equal(error.code, n < 2 ? 2 : 0);
        if (good != (n == 2) || strcmp(error.text, n < 2 ? sentences[n] : "") != 0)
            fail_msg("%s", error.text);
        weir_plan_free(plan);
    }
    weir_profile_free(profile);
}

static void states_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct weir_tensor twice[] = { { "mean", 0, 1, 0 }, { "mean", 0, 1, 4 } };
    static const struct weir_tensor beyond[] = { { "mean", 0, 3, 0 } };
    struct weir_layer layers[CENTRED];
    struct weir_error error = { 0 };
#define ASSERT_REFUSED(change, sentence)                                \
    do {                                                                \
        fill_centred(layers);                                           \
        error = (struct weir_error){ 0 };                               \
        change;                                                         \
        assert_null(weir_profile_layers(layers, CENTRED, NULL, &error)); \
        assert_string_equal(error.text, "layer 2 (ca): " sentence);     \
    } while (0)
    ASSERT_REFUSED(layers[2].fold = NULL, "fold: is NULL, and the layer has a state, which nothing else may change");
    ASSERT_REFUSED(layers[2].state_bytes = 0,
                   "state_bytes: is 0, and the layer has statistics, a fold or names of a state");
    ASSERT_REFUSED(layers[2].state_bytes = 7, "state_bytes, statistics_bytes: 7 and 4 are not both whole numbers of"
                   " floats");
    ASSERT_REFUSED(layers[2].fold_reads_parameters = true,
                   "fold_reads_parameters: the layer has no state, or no parameters of its own");
    ASSERT_REFUSED(layers[2].most_splits = 4, "most_splits: a layer with a state takes whole sequences");
    ASSERT_REFUSED(layers[2].states = twice, "states[1] has the name of another one: mean");
    ASSERT_REFUSED((layers[2].states = beyond, layers[2].state_count = 1),
                   "states[0] has no name, or is no part of the state behind the one before");
    ASSERT_REFUSED((layers[2].states = layers[2].tensors = twice, layers[2].parameter_bytes = 4,
                    layers[2].tensor_count = layers[2].state_count = 1), "states[0] has the name of tensors[0]: mean");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_is_that_of_a_plain_loop),
        cmocka_unit_test(verify_agrees_by_every_schedule),
        cmocka_unit_test(replicas_fold_what_all_have_seen),
        cmocka_unit_test(each_update_folds_once),
        cmocka_unit_test(a_run_goes_on_with_its_state),
        cmocka_unit_test(a_state_is_written_to_every_copy),
        cmocka_unit_test(training_may_read_state_where_a_schedule_flushes),
        cmocka_unit_test(the_guard_names_what_is_no_statistic),
        cmocka_unit_test(the_guard_knows_what_a_fold_may_read),
        cmocka_unit_test(averages_are_refused_where_no_rank_has_all_weights),
        cmocka_unit_test(states_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests_name("weir.h, state", tests, make_folder, remove_folder);
}
