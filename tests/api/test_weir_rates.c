// Layers with a rate of their own, and frozen ones, by any plan.
#include <math.h>
#include <stdio.h>

#include "tests/api/centre_layers.h"
#include "tests/api/scratch_folder.h"

// Data, five layers of y = gain x + shift (a gain for each row, one shift for all), and the loss. The numbers of a
// layer are one more than 256 bytes hold, so that shares of replicas cut them.
enum { PACED = 7, NUMBERS = ROWS + 1, MICRO_BATCHES = 4, STEPS = 4 };

static bool line_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *x = pass->input, *p = pass->parameters;
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = p[i] * x[i] + p[ROWS];
    return true;
}

static bool line_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *dy = pass->output_gradient, *p = pass->parameters;
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = p[i] * dy[i];
    return true;
}

static bool line_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *x = pass->input, *dy = pass->held;
    float *gradients = pass->gradients;
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++) {
        gradients[i] += x[i] * dy[i];
        gradients[ROWS] += dy[i];
    }
    return true;
}

static bool line_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)self;
    (void)queue;
    (void)error;
    for (int i = 0; i < NUMBERS; i++)
        ((float *)parameters)[i] = 0.75f + (float)(i % 5) / 16;
    return true;
}

static const struct weir_range shift = { ROWS * sizeof(float), NUMBERS * sizeof(float) };
static const struct weir_tensor line_tensors[] = { { "gain", 8, ROWS / 8, 0 }, { "shift", 0, 1, BYTES } };

static const struct weir_layer line = {
    .kind = "line", .parameter_bytes = NUMBERS * sizeof(float), .output_bytes = BYTES,
    .input_kept = WEIR_INPUT_KEPT_WEIGHT, .held_for_weight_bytes = BYTES, .undecayed = &shift, .undecayed_count = 1,
    .tensors = line_tensors, .tensor_count = 2, .forward = line_forward, .backward_input = line_backward_input,
    .backward_weight = line_backward_weight, .initialize = line_initialize,
};

static const struct {
    float rate_factor;
    bool is_frozen;
} paces[] = { { 0.5f, false }, { 0, true }, { 0, false }, { 2, false }, { 0.5f, true } };

// The paces in turn, from one of them on.
static void fill_paced(struct weir_layer layers[PACED], int from)
{
    static const char *const names[PACED] = { "data", "a", "b", "c", "d", "e", "loss" };
    struct weir_layer centred[CENTRED];
    fill_centred(centred);
    layers[0] = centred[0];
    layers[PACED - 1] = centred[CENTRED - 1];
    for (int l = 1; l < PACED - 1; l++) {
        layers[l] = line;
        layers[l].rate_factor = paces[(l - 1 + from) % 5].rate_factor;
        layers[l].is_frozen = paces[(l - 1 + from) % 5].is_frozen;
    }
    for (int l = 0; l < PACED; l++)
        layers[l].name = names[l];
}

static struct weir_plan *plan_paced(const struct weir_layer *layers, const struct weir_partition_options *options)
{
    struct weir_error error = { 0 };
    struct weir_partition_options planning = *options;
    struct weir_profile *profile = weir_profile_layers(layers, PACED, NULL, &error);
    assert_good(profile, error);
    planning.micro_batches = MICRO_BATCHES;
    planning.cluster = planning.cluster ? planning.cluster : "2 devices, 1MiB, 10GB/s 1us";
    planning.schedule = planning.schedule ? planning.schedule : "1f1b";
    planning.budget = 20000;
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    if (!plan)
        fail_msg("%s, %s: %s", planning.schedule, planning.optimizer, error.text);
    weir_profile_free(profile);
    return plan;
}

static struct weir_runtime *runtime_of(const struct weir_plan *plan, const struct weir_layer *layers,
                                       const struct weir_runtime_options *options)
{
    struct weir_error error = { 0 };
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, PACED, options, &error);
    assert_good(runtime, error);
    return runtime;
}

static void make_steps(struct weir_runtime *runtime, int count)
{
    struct weir_error error = { 0 };
    for (int i = 0; i < count; i++)
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
}

static void read_all(const struct weir_runtime *runtime, float parameters[PACED][NUMBERS])
{
    struct weir_error error = { 0 };
    for (uint32_t l = 1; l < PACED - 1; l++)
        assert_good(weir_runtime_read(runtime, l, parameters[l], &error), error);
}

// --- the plain loop ------------------------------------------------------------------------------

struct loop {
    struct weir_layer layers[PACED];
    float parameters[PACED][NUMBERS], gradients[PACED][NUMBERS], values[PACED][ROWS], slopes[PACED][ROWS];
    double first[PACED][NUMBERS], second[PACED][NUMBERS];
    double norm;  // of the gradients of what is trained
};

static void loop_begin(struct loop *loop, int from)
{
    memset(loop, 0, sizeof *loop);
    fill_paced(loop->layers, from);
    for (int l = 1; l < PACED - 1; l++)
        line_initialize(NULL, NULL, loop->parameters[l], NULL);
}

static void loop_gradients(struct loop *loop, uint64_t step)
{
    memset(loop->gradients, 0, sizeof loop->gradients);
    for (uint32_t m = 0; m < MICRO_BATCHES; m++)
        for (int call = 0; call < 2 * PACED; call++) {
            const bool is_forward = call < PACED;
            const int l = is_forward ? call : 2 * PACED - 1 - call;
            const struct weir_pass pass = {
                .step = step, .micro_batch = m, .share = 1.0f / MICRO_BATCHES, .parameters = loop->parameters[l],
                .gradients = loop->gradients[l], .input = l > 0 ? loop->values[l - 1] : NULL,
                .output = loop->values[l], .input_gradient = l > 0 ? loop->slopes[l - 1] : NULL,
                .output_gradient = loop->slopes[l], .held = loop->slopes[l],
            };
            if (is_forward) {
                loop->layers[l].forward(NULL, &pass, NULL);
            } else if (l > 0) {
                loop->layers[l].backward_input(NULL, &pass, NULL);
                loop->layers[l].backward_weight(NULL, &pass, NULL);
            }
        }
    loop->norm = 0;
    for (int l = 1; l < PACED - 1; l++)
        for (int i = 0; i < NUMBERS && !loop->layers[l].is_frozen; i++)
            loop->norm += pow((double)loop->gradients[l][i], 2);
    loop->norm = sqrt(loop->norm);
}

// By the formulas of sgd and adamw in docs/memory.md.
static void loop_step(struct loop *loop, uint64_t step, const struct weir_runtime_options *options, bool is_adamw)
{
    loop_gradients(loop, step);
    const double clipped = options->clip > 0 ? fmin(1, (double)options->clip / loop->norm) : 1;
    const double beta1 = (double)0.9f, beta2 = (double)0.999f, t = (double)step + 1;
    for (int l = 1; l < PACED - 1; l++) {
        const float factor = loop->layers[l].rate_factor;
        const double rate = (double)(options->rate * (factor > 0 ? factor : 1));
        for (int i = 0; i < NUMBERS && !loop->layers[l].is_frozen; i++) {
            const double p = (double)loop->parameters[l][i], g = clipped * (double)loop->gradients[l][i];
            const double decay = i < ROWS ? (double)options->decay : 0;
            double *first = &loop->first[l][i], *second = &loop->second[l][i];
            *first = beta1 * *first + (1 - beta1) * g;
            *second = beta2 * *second + (1 - beta2) * g * g;
            const double near = *first / (1 - pow(beta1, t)) / (sqrt(*second / (1 - pow(beta2, t))) + 1e-8) + decay * p;
            loop->parameters[l][i] = (float)(p - rate * (is_adamw ? near : g + decay * p));
        }
    }
}

static void assert_is_near(float parameters[PACED][NUMBERS], struct loop *loop, double distance)
{
    for (int l = 1; l < PACED - 1; l++)
        for (int i = 0; i < NUMBERS; i++)
            if (!(fabs((double)parameters[l][i] - (double)loop->parameters[l][i]) <= distance))
                fail_msg("layer %d, number %d is %.9g, should be %.9g", l, i, (double)parameters[l][i],
                         (double)loop->parameters[l][i]);
}

// --- tests ---------------------------------------------------------------------------------------

static void parameters_are_those_of_a_plain_loop(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *optimizer;
        float rate, decay, clip;
        double distance;
    } rows[] = {
        { "gpipe", "sgd", 0.125f, 0, 0, 0 }, { "1f1b", "sgd", 0.125f, 0.125f, 0, 1e-6 },
        { "zb-h1", "sgd", 0.125f, 0, 0.25f, 1e-6 },
        { "gpipe", "adamw", 0.01f, 0, 0, 2e-6 }, { "1f1b", "adamw", 0.01f, 0.125f, 0, 2e-6 },
        { "interleaved", "adamw", 0.01f, 0.125f, 0.25f, 2e-6 },
    };
    for (size_t n = 0; n < 5 * sizeof rows / sizeof rows[0]; n++) {
        struct loop loop;
        struct weir_error error = { 0 };
        float found[PACED][NUMBERS];
        loop_begin(&loop, (int)n % 5);
        const struct weir_runtime_options options = { .size = sizeof options, .rate = rows[n / 5].rate,
                                                      .decay = rows[n / 5].decay, .clip = rows[n / 5].clip };
        struct weir_plan *plan = plan_paced(loop.layers, WEIR_OPTIONS(partition, .schedule = rows[n / 5].schedule,
                                                                      .optimizer = rows[n / 5].optimizer));
        struct weir_runtime *runtime = runtime_of(plan, loop.layers, &options);
        for (uint64_t step = 0; step < STEPS; step++) {
            struct weir_result result;
            assert_good(weir_runtime_step(runtime, &result, &error), error);
            loop_step(&loop, step, &options, strcmp(rows[n / 5].optimizer, "adamw") == 0);
            read_all(runtime, found);
            assert_is_near(found, &loop, rows[n / 5].distance);
            assert_true(options.clip > 0 ? fabs(result.gradient_norm - loop.norm) < 1e-5 : result.gradient_norm == 0);
        }
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

// Also decay and momentum, which need no gradient, leave what is frozen alone; and so does any kind of optimizer.
static void verify_agrees_and_what_is_frozen_stays(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "zb-h2", "chimera", "dualpipev", "pipedream", "pipedream-2bw",
                                             "vertical" };
    static const char *const optimizers[] = { "sgd", "momentum", "adamw", "lamb", "lars", "adafactor", "adam8bit",
                                              "adam1bit" };
    for (size_t n = 0; n < 7 * 8; n++) {
        struct weir_layer layers[PACED];
        struct weir_error error = { 0 };
        float first[PACED][NUMBERS], found[PACED][NUMBERS];
        fill_paced(layers, (int)n % 5);
        const bool is_1bit = n % 8 == 7;
        if (is_1bit && n / 8 > 1)
            continue;  // a schedule with copies, or without a flush
        struct weir_plan *plan = plan_paced(layers, WEIR_OPTIONS(partition, .schedule = schedules[n / 8],
                                                                 .optimizer = optimizers[n % 8]));
        const struct weir_runtime_options options = { .size = sizeof options, .rate = 0.03f, .decay = 0.1f,
                                                      .freeze_step = is_1bit ? 2 : 0 };
        if (!weir_verify(plan, layers, PACED, &options, 4, &error))
            fail_msg("%s, %s: %s", schedules[n / 8], optimizers[n % 8], error.text);
        struct weir_runtime *runtime = runtime_of(plan, layers, &options);
        read_all(runtime, first);
        make_steps(runtime, 3);
        read_all(runtime, found);
        for (int l = 1; l < PACED - 1; l++)
            assert_int_equal(memcmp(first[l], found[l], sizeof first[l]) == 0, layers[l].is_frozen);
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

static void replicas_agree_however_they_share(void **state)
{
    (void)state;
    static const char *const shards[] = { "none", "optimizer", "gradients", "weights" };
    static const char *const optimizers[] = { "sgd", "adamw", "lamb", "adafactor", "adam8bit" };
    static const char *const schedules[] = { "gpipe", "1f1b", "pipedream", "pipedream-2bw" };
    static const uint32_t two[] = { 2, 2 };
    for (size_t n = 0; n < 4 * 4 * 5; n++) {
        struct weir_layer layers[PACED];
        struct weir_error error = { 0 };
        fill_paced(layers, (int)n % 5);
        const char *schedule = schedules[n / 20], *shard = shards[n / 5 % 4], *optimizer = optimizers[n % 5];
        struct weir_plan *plan = plan_paced(layers, WEIR_OPTIONS(partition, .cluster = "4 devices, 1MiB, 10GB/s 1us",
                                                                 .schedule = schedule, .shard = shard,
                                                                 .optimizer = optimizer, .replicas = { two, 2 }));
        const float clip = n / 20 < 2 && n % 2 ? 0.25f : 0;
        if (!weir_verify(plan, layers, PACED, WEIR_OPTIONS(runtime, .rate = 0.03f, .decay = 0.1f, .clip = clip), 4,
                         &error))
            fail_msg("%s, %s, %s: %s", schedule, shard, optimizer, error.text);
        weir_plan_free(plan);
    }
}

static void the_host_updates_by_the_same_rates(void **state)
{
    (void)state;
    for (uint32_t window = 0; window < 3; window++) {
        struct weir_layer layers[PACED];
        struct weir_error error = { 0 };
        fill_paced(layers, (int)window);
        struct weir_plan *plan = plan_paced(layers, WEIR_OPTIONS(partition, .optimizer_on_host = true,
                                                                 .window = window,
                                                                 .cluster = "2 devices, 1MiB, 10GB/s 1us, host 1GiB"
                                                                            " 25GB/s"));
        if (!weir_verify(plan, layers, PACED, WEIR_OPTIONS(runtime, .rate = 0.03f, .decay = 0.1f), 4, &error))
            fail_msg("a window of %u: %s", window, error.text);
        weir_plan_free(plan);
    }
}

// --- tied layers: "e" has the parameters of "a" ----------------------------------------------------

static struct weir_pass as_if_own(const struct weir_pass *pass)
{
    struct weir_pass own = *pass;
    own.parameters = pass->tied_parameters;
    own.gradients = pass->tied_gradients;
    return own;
}

static bool tied_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return line_forward(self, &(struct weir_pass){ .parameters = pass->tied_parameters, .input = pass->input,
                                                   .output = pass->output }, error);
}

static bool tied_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_pass own = as_if_own(pass);
    return line_backward_input(self, &own, error);
}

static bool tied_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct weir_pass own = as_if_own(pass);
    return line_backward_weight(self, &own, error);
}

static void a_tied_copy_has_the_pace_of_its_owner(void **state)
{
    (void)state;
    for (int from = 0; from < 5; from++) {
        struct weir_layer layers[PACED];
        struct weir_error error = { 0 };
        fill_paced(layers, from);
        layers[5] = (struct weir_layer){ .name = "e", .kind = "tied", .output_bytes = BYTES, .tied = &layers[1],
                                         .input_kept = WEIR_INPUT_KEPT_WEIGHT, .held_for_weight_bytes = BYTES,
                                         .forward = tied_forward, .backward_input = tied_backward_input,
                                         .backward_weight = tied_backward_weight };
        struct weir_plan *plan = plan_paced(layers, WEIR_OPTIONS(partition, .tied = "apart"));
        if (!weir_verify(plan, layers, PACED, WEIR_OPTIONS(runtime, .rate = 0.03f, .decay = 0.1f, .clip = 0.25f), 4,
                         &error))
            fail_msg("%s", error.text);
        weir_plan_free(plan);
    }
}

// --- optimizers of one's own ------------------------------------------------------------------------

static bool paced_update(void *self, const struct weir_update *update, struct weir_error *error)
{
    const float factor = update->layer->rate_factor;
    (void)self;
    (void)error;
    assert_false(update->layer->is_frozen);
    assert_true(update->rate == 0.25f * (factor > 0 ? factor : 1));
    for (uint64_t i = 0; i < update->count; i++)
        update->next[i] = update->parameters[i] - update->rate * update->gradients[i];
    return true;
}

static void an_own_optimizer_is_given_the_rate_of_each_layer(void **state)
{
    (void)state;
    for (int from = 0; from < 5; from++) {
        struct loop loop;
        struct weir_error error = { 0 };
        float found[PACED][NUMBERS];
        loop_begin(&loop, from);
        struct weir_plan *plan = plan_paced(loop.layers, WEIR_OPTIONS(partition, .optimizer = "sgd"));
        const struct weir_runtime_options options = { .size = sizeof options, .rate = 0.25f, .update = paced_update };
        struct weir_runtime *runtime = runtime_of(plan, loop.layers, &options);
        make_steps(runtime, STEPS);
        for (uint64_t step = 0; step < STEPS; step++)
            loop_step(&loop, step, &options, false);
        read_all(runtime, found);
        assert_is_near(found, &loop, 0);
        weir_runtime_free(runtime);
        weir_plan_free(plan);
        plan = plan_paced(loop.layers, WEIR_OPTIONS(partition, .optimizer = "sgd", .schedule = "pipedream"));
        assert_good(weir_verify(plan, loop.layers, PACED, &options, 3, &error), error);
        weir_plan_free(plan);
    }
}

// --- checkpoints -----------------------------------------------------------------------------------

static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    struct weir_layer layers[PACED];
    struct weir_error error = { 0 };
    float whole[PACED][NUMBERS] = { 0 }, resumed[PACED][NUMBERS] = { 0 };
    fill_paced(layers, 3);
    struct weir_plan *plan = plan_paced(layers, WEIR_OPTIONS(partition, .optimizer = "adamw"));
    const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = folder, .resume = true };
    const struct weir_runtime_options options = { .size = sizeof options, .decay = 0.1f, .checkpoints = &keeping };
    struct weir_runtime *runtime = runtime_of(plan, layers, &options);
    make_steps(runtime, 2);
    assert_good(weir_runtime_save(runtime, &error), error);
    make_steps(runtime, 2);
    read_all(runtime, whole);
    weir_runtime_free(runtime);
    runtime = runtime_of(plan, layers, &options);
    assert_int_equal(weir_runtime_steps(runtime), 2);
    make_steps(runtime, 2);
    read_all(runtime, resumed);
    assert_memory_equal(whole, resumed, sizeof whole);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

// Its momentum is still zero, whatever gradients there were while it was frozen.
static void a_thawed_layer_begins_without_momentum(void **state)
{
    (void)state;
    struct loop loop;
    struct weir_error error = { 0 };
    char own[300];
    float found[PACED][NUMBERS];
    snprintf(own, sizeof own, "%s/thawed", folder);
    const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = own, .resume = true };
    const struct weir_runtime_options options = { .size = sizeof options, .rate = 0.125f, .checkpoints = &keeping };
    loop_begin(&loop, 0);
    for (int l = 1; l < PACED - 1; l++)
        loop.layers[l].is_frozen = true;
    struct weir_plan *plan = plan_paced(loop.layers, WEIR_OPTIONS(partition, .optimizer = "momentum"));
    struct weir_runtime *runtime = runtime_of(plan, loop.layers, &options);
    make_steps(runtime, 3);
    assert_good(weir_runtime_save(runtime, &error), error);
    weir_runtime_free(runtime);
    for (int l = 1; l < PACED - 1; l++)
        loop.layers[l].is_frozen = false;
    runtime = runtime_of(plan, loop.layers, &options);
    make_steps(runtime, 1);
    loop_step(&loop, 3, &options, false);
    read_all(runtime, found);
    assert_is_near(found, &loop, 0);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        float factor;
        const char *sentence;
    } rows[] = {
        { -1, "layer 2 (b): rate_factor: -1 is no rate: needs a number above 0, or 0 for the run's own rate" },
        { NAN, "layer 2 (b): rate_factor: nan is no rate: needs a number above 0, or 0 for the run's own rate" },
        { INFINITY, "layer 2 (b): rate_factor: inf is no rate: needs a number above 0, or 0 for the run's own rate" },
    };
    static const uint32_t two[] = { 2 };
    struct weir_layer layers[PACED];
    for (size_t n = 0; n < 3; n++) {
        struct weir_error error = { 0 };
        fill_paced(layers, 0);
        layers[2].rate_factor = rows[n].factor;
        assert_null(weir_profile_layers(layers, PACED, NULL, &error));
        assert_int_equal(error.code, 2);
        assert_string_equal(error.text, rows[n].sentence);
    }
    struct weir_error error = { 0 };
    fill_paced(layers, 0);
    struct weir_plan *plan = plan_paced(layers, WEIR_OPTIONS(partition, .optimizer = "adam1bit",
                                                             .replicas = { two, 1 }));
    assert_null(weir_runtime_create(plan, layers, PACED, NULL, &error));
    assert_int_equal(error.code, 2);
    assert_string_equal(error.text, "is_frozen: the replicas of stage 0 send each other a compressed momentum"
                        " (adam1bit) of all its layers, and one of them is frozen; plan with adamw");
    for (int l = 1; l < PACED - 1; l++)
        layers[l].is_frozen = false;
    error = (struct weir_error){ 0 };
    assert_good(weir_verify(plan, layers, PACED, WEIR_OPTIONS(runtime, .freeze_step = 2), 5, &error), error);
    weir_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_of_a_plain_loop),
        cmocka_unit_test(verify_agrees_and_what_is_frozen_stays),
        cmocka_unit_test(replicas_agree_however_they_share),
        cmocka_unit_test(the_host_updates_by_the_same_rates),
        cmocka_unit_test(a_tied_copy_has_the_pace_of_its_owner),
        cmocka_unit_test(an_own_optimizer_is_given_the_rate_of_each_layer),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(a_thawed_layer_begins_without_momentum),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests_name("weir.h, rates", tests, make_folder, remove_folder);
}
