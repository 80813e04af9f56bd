// What authors of trainers have of a run besides its steps: clipping, an optimizer of their own, verifying, checkpoints,
// ranks in processes and on devices of their own.
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/api/scale_layers.h"
#include "tests/api/scratch_folder.h"

static void fill_changing(struct weir_layer layers[LAYERS])
{
    fill(layers);
    layers[0].forward = changing_data_forward;
}

static struct weir_plan *plan_for(const struct weir_layer *layers, const struct weir_partition_options *given)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile = profile_of(layers);
    struct weir_partition_options planning = *given;
    planning.cluster = "2 devices, 1MiB, 10GB/s 1us";
    planning.micro_batches = 4;
    planning.optimizer = planning.optimizer ? planning.optimizer : "sgd";
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan, error);
    weir_profile_free(profile);
    return plan;
}

static void read_all(const struct weir_runtime *runtime, float parameters[LAYERS])
{
    struct weir_error error = { 0 };
    for (uint32_t l = 1; l < LAYERS - 1; l++)
        assert_good(weir_runtime_read(runtime, l, &parameters[l], &error), error);
}

static void step_times(struct weir_runtime *runtime, int times)
{
    struct weir_error error = { 0 };
    for (int i = 0; i < times; i++)
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
}

// --- clipping, and an optimizer of one's own -----------------------------------------------

// By the plain loop: the norm of all gradients, and what they are scaled by.
static void gradients_are_clipped_as_in_a_plain_loop(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_result result;
    struct plain plain;
    begin_plain(&plain);
    struct weir_plan *plan = plan_of(plain.layers, "1f1b");
    const float clip = 0.0009765625f, rate = 8;
    const struct weir_runtime_options running = { .size = sizeof running, .rate = rate, .clip = clip };
    struct weir_runtime *runtime = weir_runtime_create(plan, plain.layers, LAYERS, &running, &error);
    assert_good(runtime, error);
    for (uint64_t step = 0; step < 4; step++) {
        float before[LAYERS];
        memcpy(before, plain.parameters, sizeof before);
        plain_step(&plain, step, rate);
        double sum = 0;
        for (int l = 1; l < LAYERS - 1; l++)
            sum += (double)plain.gradients[l] * (double)plain.gradients[l];
        assert_true(sqrt(sum) > (double)clip);
        assert_good(weir_runtime_step(runtime, &result, &error), error);
        assert_true(fabs(result.gradient_norm - sqrt(sum)) < 1e-6 * sqrt(sum));
        for (uint32_t l = 1; l < LAYERS - 1; l++) {
            float parameter;
            plain.parameters[l] = before[l] - rate * (float)((double)clip / sqrt(sum)) * plain.gradients[l];
            assert_good(weir_runtime_read(runtime, l, &parameter, &error), error);
            assert_true(fabsf(parameter - plain.parameters[l]) < 1e-6f);
            plain.parameters[l] = parameter;
        }
    }
    weir_runtime_free(runtime);
    assert_null(weir_runtime_create(plan, plain.layers, LAYERS, WEIR_OPTIONS(runtime, .clip = -1), &error));
    assert_error(error, "weir_runtime_options.clip: -1 is not a number of 0 or more");
    weir_plan_free(plan);
    error = (struct weir_error){ 0 };
    plan = plan_of(plain.layers, "pipedream");
    assert_null(weir_runtime_create(plan, plain.layers, LAYERS, &running, &error));
    assert_non_null(strstr(error.text, "and pipedream has none"));
    weir_plan_free(plan);
}

// Two runs, of which one measures the norm: weights and losses are the same.
static void only_measure(const struct weir_plan *plan, const struct weir_layer *layers, const char *name)
{
    struct weir_error error = { 0 };
    struct weir_result result;
    struct weir_runtime *runtimes[2] = { NULL, NULL };
    for (int i = 0; i < 2; i++) {
        runtimes[i] = weir_runtime_create(plan, layers, LAYERS,
                                          WEIR_OPTIONS(runtime, .rate = 0.5f, .gradient_norm = i == 1), &error);
        assert_good(runtimes[i], error);
    }
    for (int step = 0; step < 4; step++) {
        float losses[2][4], parameters[2][LAYERS] = { { 0 } };
        for (int i = 0; i < 2; i++) {
            uint32_t count;
            assert_good(weir_runtime_step(runtimes[i], &result, &error), error);
            if ((result.gradient_norm > 0) != (i == 1))
                fail_msg("%s: the norm is %g", name, result.gradient_norm);
            memcpy(losses[i], weir_runtime_losses(runtimes[i], &count), sizeof losses[i]);
            read_all(runtimes[i], parameters[i]);
        }
        if (memcmp(losses[0], losses[1], sizeof losses[0]) != 0
            || memcmp(parameters[0], parameters[1], sizeof parameters[0]) != 0)
            fail_msg("%s: step %d differs", name, step);
    }
    weir_runtime_free(runtimes[0]);
    weir_runtime_free(runtimes[1]);
    const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.5f, .gradient_norm = true };
    if (!weir_verify(plan, layers, LAYERS, &running, 3, &error))
        fail_msg("%s: %s", name, error.text);
}

static void a_norm_that_is_only_measured_changes_no_bit(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1", "zb-v", "interleaved", "chimera", "dualpipe" };
    static const char *const shards[] = { "none", "optimizer", "gradients", "weights" };
    static const uint32_t replicas[] = { 2, 2 };
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill_changing(layers);
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct weir_plan *plan =
            plan_for(layers, WEIR_OPTIONS(partition, .schedule = schedules[n], .optimizer = n % 2 ? "adamw" : "sgd"));
        only_measure(plan, layers, schedules[n]);
        weir_plan_free(plan);
    }
    struct weir_profile *profile = profile_of(layers);
    for (size_t n = 0; n < sizeof shards / sizeof shards[0]; n++) {
        struct weir_plan *plan =
            weir_partition(profile, WEIR_OPTIONS(partition, .cluster = "4 devices, 1MiB, 10GB/s 1us",
                                                 .schedule = "1f1b", .micro_batches = 4, .optimizer = "momentum",
                                                 .shard = shards[n], .replicas = { replicas, 2 }), &error);
        assert_good(plan, error);
        only_measure(plan, layers, shards[n]);
        weir_plan_free(plan);
    }
    weir_profile_free(profile);
}

// The norms of a plain loop, also where gradients are zero or no numbers.
static void a_norm_that_is_only_measured_is_that_of_a_plain_loop(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "chimera" };
    for (size_t n = 0; n < 2; n++) {
        struct weir_error error = { 0 };
        struct weir_result result;
        struct plain plain;
        begin_plain(&plain);
        struct weir_plan *plan = plan_of(plain.layers, schedules[n]);
        const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.25f, .gradient_norm = true };
        struct weir_runtime *runtime = weir_runtime_create(plan, plain.layers, LAYERS, &running, &error);
        assert_good(runtime, error);
        for (uint64_t step = 0; step < 4; step++) {
            double sum = 0;
            plain_step(&plain, step, 0.25f);
            for (int l = 1; l < LAYERS - 1; l++)
                sum += (double)plain.gradients[l] * (double)plain.gradients[l];
            assert_good(weir_runtime_step(runtime, &result, &error), error);
            assert_true(sum > 0 && fabs(result.gradient_norm - sqrt(sum)) < 1e-6 * sqrt(sum));
        }
        const float zero = 0, huge = 1e30f;
        float found;
        for (uint32_t l = 1; l < LAYERS - 1; l++)
            assert_good(weir_runtime_write(runtime, l, &zero, &error), error);
        assert_good(weir_runtime_step(runtime, &result, &error), error);
        assert_true(result.gradient_norm == 0);
        for (uint32_t l = 1; l < LAYERS - 1; l++) {
            assert_good(weir_runtime_read(runtime, l, &found, &error), error);
            assert_true(found == 0);
            assert_good(weir_runtime_write(runtime, l, &huge, &error), error);
        }
        assert_good(weir_runtime_step(runtime, &result, &error), error);
        assert_false(isfinite(result.gradient_norm));
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

static void a_norm_that_cannot_be_measured_is_refused(void **state)
{
    (void)state;
    static const uint32_t replicas[] = { 2, 1 };
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill_changing(layers);
    const struct weir_runtime_options running = { .size = sizeof running, .gradient_norm = true };
    struct weir_plan *plan = plan_of(layers, "pipedream");
    assert_null(weir_runtime_create(plan, layers, LAYERS, &running, &error));
    assert_error(error, "gradient_norm is the norm over all stages, which is known at a flush only, and pipedream has"
                        " none; take a schedule that flushes, or leave gradient_norm out");
    assert_int_equal(error.code, 2);
    weir_plan_free(plan);
    error = (struct weir_error){ 0 };
    struct weir_profile *profile = profile_of(layers);
    plan = weir_partition(profile, WEIR_OPTIONS(partition, .cluster = "3 devices, 1MiB, 10GB/s 1us",
                                                .schedule = "1f1b", .micro_batches = 4, .optimizer = "adam1bit",
                                                .replicas = { replicas, 2 }), &error);
    assert_good(plan, error);
    assert_null(weir_runtime_create(plan, layers, LAYERS, &running, &error));
    assert_error(error, "the replicas of stage 0 send each other a compressed momentum (adam1bit), and"
                        " gradient_norm is of the gradients, which are never added up; leave gradient_norm out, or plan"
                        " with adamw");
    assert_int_equal(error.code, 2);
    weir_plan_free(plan);
    weir_profile_free(profile);
}

// Momentum that also counts its calls; `fails` in that update of layer "b".
struct own {
    _Atomic unsigned calls;
    uint64_t fails;
};

static bool own_update(void *self, const struct weir_update *update, struct weir_error *error)
{
    struct own *own = self;
    own->calls++;
    assert_int_equal(update->count, 1);
    assert_string_equal(update->layer->kind, "scale");
    assert_null(update->state[1]);
    if (update->number == own->fails && strcmp(update->layer->name, "b") == 0) {
        *error = (struct weir_error){ 3, "no way down" };
        return false;
    }
    update->state[0][0] = 0.5f * update->state[0][0] + update->gradients[0];
    update->next[0] = update->parameters[0] - update->rate * update->state[0][0];
    return true;
}

static void an_own_optimizer_is_called_for_each_layer(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1" };
    for (size_t n = 0; n < 3; n++) {
        struct own own = { .fails = 5 };
        struct weir_error error = { 0 };
        struct plain plain;
        float momentum[LAYERS] = { 0 };
        begin_plain(&plain);
        struct weir_plan *plan =
            plan_for(plain.layers, WEIR_OPTIONS(partition, .schedule = schedules[n], .optimizer = "momentum"));
        const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.03125f, .update = own_update,
                                                      .self = &own };
        struct weir_runtime *runtime = weir_runtime_create(plan, plain.layers, LAYERS, &running, &error);
        assert_good(runtime, error);
        for (uint64_t step = 0; step < 4; step++) {
            plain_step(&plain, step, 0);
            for (int l = 1; l < LAYERS - 1; l++) {
                momentum[l] = 0.5f * momentum[l] + plain.gradients[l];
                plain.parameters[l] -= 0.03125f * momentum[l];
            }
            assert_good(weir_runtime_step(runtime, NULL, &error), error);
            is_as_plain(runtime, &plain);
        }
        assert_int_equal(own.calls, 4 * 3);
        assert_false(weir_runtime_step(runtime, NULL, &error));
        assert_int_equal(error.code, 3);
        assert_non_null(strstr(error.text, "the update of layer b: no way down"));
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

// --- a last micro-batch with fewer samples -------------------------------------------------

// Of four micro-batches the last has 5.
enum { BATCH = 3 * ROWS + 5 };

static int rows_of(const struct weir_pass *pass)
{
    return pass->micro_batch < 3 ? ROWS : BATCH - 3 * ROWS;
}

// What has no sample is far off, and must not be seen.
static bool uneven_data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = changing_data_forward(self, pass, error);
    for (int i = rows_of(pass); i < ROWS; i++)
        ((float *)pass->output)[i] = 1e6f;
    return good;
}

static bool uneven_loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = pass->input;
    float sum = 0;
    for (int i = 0; i < rows_of(pass); i++)
        sum += x[i] * x[i] / 2;
    *pass->loss = sum / (float)rows_of(pass);
    return true;
}

static bool uneven_loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = i < rows_of(pass) ? ((const float *)pass->input)[i] / BATCH : 0;
    return true;
}

static void fill_uneven(struct weir_layer layers[LAYERS])
{
    fill(layers);
    layers[0].forward = uneven_data_forward;
    layers[LAYERS - 1].forward = uneven_loss_forward;
    layers[LAYERS - 1].backward_input = uneven_loss_backward_input;
}

// One batch of all samples: y = a b c x, and the mean of y y / 2.
static double one_big_step(double parameters[LAYERS], uint64_t step, double rate)
{
    const double product = parameters[1] * parameters[2] * parameters[3];
    double squares = 0;
    for (int i = 0; i < BATCH; i++) {
        const double x = (double)((i % ROWS + (int)step * 5 + i / ROWS * 3) % 7) / 4 - 0.5;
        squares += x * x / BATCH;
    }
    double next[LAYERS];
    for (int l = 1; l < LAYERS - 1; l++)
        next[l] = parameters[l] - rate * squares * product * product / parameters[l];
    memcpy(parameters + 1, next + 1, (LAYERS - 2) * sizeof *next);
    return squares * product * product / 2;
}

static void a_smaller_last_micro_batch_counts_by_its_samples(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-v", "chimera" };
    struct weir_layer layers[LAYERS];
    fill_uneven(layers);
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct weir_error error = { 0 };
        struct weir_result result;
        double parameters[LAYERS] = { 0, 0.5, 0.5, 0.5, 0 };
        struct weir_plan *plan = plan_for(layers, WEIR_OPTIONS(partition, .schedule = schedules[n]));
        const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.5f, .batch = BATCH,
                                                      .micro_batch = ROWS };
        assert_good(weir_verify(plan, layers, LAYERS, &running, 3, &error), error);
        struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, &running, &error);
        assert_good(runtime, error);
        for (uint64_t step = 0; step < 5; step++) {
            const double loss = one_big_step(parameters, step, 0.5);
            assert_good(weir_runtime_step(runtime, &result, &error), error);
            assert_true(fabs(result.loss - loss) < 1e-5 * loss);
            for (uint32_t l = 1; l < LAYERS - 1; l++) {
                float parameter;
                assert_good(weir_runtime_read(runtime, l, &parameter, &error), error);
                assert_true(fabs((double)parameter - parameters[l]) < 1e-5 * parameters[l]);
            }
        }
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
}

static void a_batch_that_its_micro_batches_do_not_hold_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *schedule;
        const struct weir_runtime_options *running;
        const char *sentence;
    } rows[] = {
        { "1f1b", WEIR_OPTIONS(runtime, .batch = 9, .micro_batch = 2),
          "weir_runtime_options.batch: 9 samples are not in 4 micro-batches of"
          " weir_runtime_options.micro_batch 2, with some for the last" },
        { "1f1b", WEIR_OPTIONS(runtime, .batch = 6, .micro_batch = 2),
          "weir_runtime_options.batch: 6 samples are not in 4 micro-batches of"
          " weir_runtime_options.micro_batch 2, with some for the last" },
        { "1f1b", WEIR_OPTIONS(runtime, .batch = 4),
          "weir_runtime_options.batch: 4 samples are not in 4 micro-batches of"
          " weir_runtime_options.micro_batch 0, with some for the last" },
        { "pipedream", WEIR_OPTIONS(runtime, .batch = 7, .micro_batch = 2),
          "weir_runtime_options.batch: pipedream updates without a flush, by whole micro-batches: leave it out, or"
          " plan by a schedule that flushes" },
    };
    struct weir_layer layers[LAYERS];
    fill_uneven(layers);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        struct weir_plan *plan = plan_for(layers, WEIR_OPTIONS(partition, .schedule = rows[i].schedule));
        assert_null(weir_runtime_create(plan, layers, LAYERS, rows[i].running, &error));
        assert_error(error, rows[i].sentence);
        assert_int_equal(error.code, 2);
        weir_plan_free(plan);
    }
}

// --- verifying -----------------------------------------------------------------------------------

static void pipelines_of_own_layers_are_verified(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-v", "chimera", "pipedream", "pipedream-2bw" };
    struct weir_layer layers[LAYERS];
    fill_changing(layers);
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct weir_error error = { 0 };
        struct own own = { 0 };
        const bool flushes = n < 4, is_momentum = n % 2 == 0;
        struct weir_plan *plan =
            plan_for(layers, WEIR_OPTIONS(partition, .schedule = schedules[n],
                                          .optimizer = is_momentum ? "momentum" : "adamw"));
        struct weir_runtime_options running = { .size = sizeof running, .clip = flushes ? 0.25f : 0 };
        assert_good(weir_verify(plan, layers, LAYERS, &running, 3, &error), error);
        running.update = is_momentum ? own_update : NULL;
        running.self = &own;
        assert_good(weir_verify(plan, layers, LAYERS, &running, 3, &error), error);
        assert_int_equal(own.calls > 0, is_momentum);
        assert_good(weir_verify(plan, layers, LAYERS, NULL, 2, &error), error);
        assert_false(weir_verify(plan, layers, LAYERS, NULL, 0, &error));
        assert_error(error, "steps is needed: 1 or more");
        weir_plan_free(plan);
    }
}

// A stage on two of three ranks, which take micro-batches in turns: their data and gradients are those of one.
static void replicas_of_own_layers_are_verified(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "gpipe", "pipedream" };
    static const uint32_t ranks_of_stages[] = { 2, 1 };
    struct weir_layer layers[LAYERS];
    fill_changing(layers);
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct weir_error error = { 0 };
        struct weir_profile *profile = profile_of(layers);
        const struct weir_partition_options planning = { .size = sizeof planning,
                                                         .cluster = "3 devices, 1MiB, 10GB/s 1us",
                                                         .schedule = schedules[n], .micro_batches = 4,
                                                         .optimizer = "sgd", .replicas = { ranks_of_stages, 2 } };
        struct weir_plan *plan = weir_partition(profile, &planning, &error);
        assert_good(plan, error);
        assert_int_equal(weir_plan_stage_count(plan), 2);
        const struct weir_runtime_options running = { .size = sizeof running, .clip = n < 2 ? 0.25f : 0 };
        assert_good(weir_verify(plan, layers, LAYERS, &running, 3, &error), error);
        weir_plan_free(plan);
        weir_profile_free(profile);
    }
}

// Data that depend on how often they were asked for.
static bool forgetful_data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    unsigned *calls = self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = (float)((i + (int)*calls) % 5);
    ++*calls;
    return true;
}

static void what_differs_is_told(void **state)
{
    (void)state;
    unsigned calls = 0;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    layers[0].forward = forgetful_data_forward;
    layers[0].self = &calls;
    assert_false(weir_verify(plan, layers, LAYERS, NULL, 1, &error));
    assert_int_equal(error.code, 1);
    assert_non_null(strstr(error.text, "parameters differ, first number 0 of layer a: "));
    weir_plan_free(plan);
}

// --- checkpoints ---------------------------------------------------------------------------------

static char said[2000];

static void note(void *self, const char *sentence)
{
    (void)self;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", sentence);
}

static struct weir_runtime *open_kept(const struct weir_plan *plan, const struct weir_layer *layers,
                                      struct weir_checkpoint_options keeping, struct weir_error *error)
{
    keeping.size = sizeof keeping;
    keeping.folder = folder;
    keeping.say = note;
    const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.01f, .checkpoints = &keeping };
    said[0] = '\0';
    return weir_runtime_create(plan, layers, LAYERS, &running, error);
}

static void damage(const char *name)
{
    char path[300], byte = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int file = open(path, O_RDWR);
    assert_true(file >= 0);
    assert_true(lseek(file, -1, SEEK_END) >= 0);
    assert_int_equal(read(file, &byte, 1), 1);
    byte ^= 1;
    assert_true(lseek(file, -1, SEEK_END) >= 0);
    assert_int_equal(write(file, &byte, 1), 1);
    close(file);
}

static bool exists(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

// Ended behind a step without a word, as by kill -9; gone on with; and compared with one that was never ended.
static void a_run_goes_on_from_its_checkpoint(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "zb-h1", "pipedream", "pipedream-2bw" };
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct weir_layer layers[LAYERS];
        struct weir_error error = { 0 };
        float whole[LAYERS] = { 0 }, gone_on[LAYERS] = { 0 };
        fill_changing(layers);
        empty_folder(NULL);
        struct weir_plan *plan =
            plan_for(layers, WEIR_OPTIONS(partition, .schedule = schedules[n], .optimizer = "adamw"));
        const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .every = 2, .data = "made" };
        struct weir_runtime *runtime = open_kept(plan, layers, keeping, &error);
        assert_good(runtime, error);
        step_times(runtime, 5);
        assert_good(weir_runtime_save(runtime, &error), error);
        assert_true(exists("step-5/b.safetensors") && exists("step-5/b.optimizer.safetensors"));
        assert_false(exists("step-5/data.safetensors") || exists("step-5/data.optimizer.safetensors"));
        step_times(runtime, 4);
        read_all(runtime, whole);
        weir_runtime_free(runtime);

        assert_null(open_kept(plan, layers, keeping, &error));
        assert_non_null(strstr(error.text, "has checkpoints of a run"));
        error = (struct weir_error){ 0 };
        struct weir_checkpoint_options resuming = keeping;
        resuming.resume = true;
        damage(exists("step-8") ? "step-8/b.safetensors" : "step-6/b.safetensors");
        runtime = open_kept(plan, layers, resuming, &error);
        assert_good(runtime, error);
        assert_non_null(strstr(said, "b.safetensors"));
        const uint64_t steps = weir_runtime_steps(runtime);
        assert_true(steps == 6 || steps == 5);
        step_times(runtime, (int)(9 - steps));
        read_all(runtime, gone_on);
        assert_memory_equal(whole, gone_on, sizeof whole);
        weir_runtime_free(runtime);

        resuming.data = "another";
        assert_null(open_kept(plan, layers, resuming, &error));
        assert_non_null(strstr(error.text, "weir_checkpoint_options.data: the checkpoint is of a run on other data"));
        weir_plan_free(plan);
    }
}

// Measuring is no part of what a checkpoint says of its run.
static void a_run_that_only_measures_goes_on_with_or_without_it(void **state)
{
    (void)state;
    static const char *const devices[] = { NULL, "cpu:queued", "cpu:queued,cpu:queued" };
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    double norms[3][4];
    float parameters[3][LAYERS] = { { 0 } };
    fill_changing(layers);
    struct weir_plan *plan = plan_for(layers, WEIR_OPTIONS(partition, .schedule = "zb-h1", .optimizer = "adamw"));
    for (int n = 0; n < 3; n++) {
        empty_folder(NULL);
        for (int step = 0; step < 4; step++) {
            const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = folder, .resume = true };
            struct weir_runtime *runtime =
                weir_runtime_create(plan, layers, LAYERS,
                                    WEIR_OPTIONS(runtime, .rate = 0.01f, .gradient_norm = step % 2 == 0,
                                                 .device = devices[n], .checkpoints = &keeping), &error);
            assert_good(runtime, error);
            assert_int_equal(weir_runtime_steps(runtime), step);
            struct weir_result result;
            assert_good(weir_runtime_step(runtime, &result, &error) && weir_runtime_save(runtime, &error), error);
            norms[n][step] = result.gradient_norm;
            assert_int_equal(result.gradient_norm > 0, step % 2 == 0);
            read_all(runtime, parameters[n]);
            weir_runtime_free(runtime);
        }
        assert_memory_equal(norms[n], norms[0], sizeof norms[0]);
        assert_memory_equal(parameters[n], parameters[0], sizeof parameters[0]);
    }
    char command[300];
    snprintf(command, sizeof command, "grep -q '\"rate\"' '%s/step-3/manifest.json'", folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "grep -q '\"clip\"' '%s/step-3/manifest.json'", folder);
    assert_int_not_equal(system(command), 0);
    weir_plan_free(plan);
}

static void a_run_goes_on_by_another_plan(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    float was[LAYERS] = { 0 }, is[LAYERS] = { 0 };
    fill_changing(layers);
    empty_folder(NULL);
    struct weir_plan *plan = plan_for(layers, WEIR_OPTIONS(partition, .schedule = "1f1b", .optimizer = "adamw"));
    struct weir_plan *other =
        plan_for(layers, WEIR_OPTIONS(partition, .schedule = "gpipe", .optimizer = "adamw", .ranks = 1));
    struct weir_runtime *runtime = open_kept(plan, layers, (struct weir_checkpoint_options){ 0 }, &error);
    assert_good(runtime, error);
    assert_false(weir_runtime_save(runtime, &error));
    assert_error(error, "no step has been made, of which there could be a checkpoint");
    step_times(runtime, 3);
    error = (struct weir_error){ 0 };
    assert_good(weir_runtime_save(runtime, &error), error);
    read_all(runtime, was);
    weir_runtime_free(runtime);
    runtime = open_kept(other, layers, (struct weir_checkpoint_options){ .resume = true }, &error);
    assert_good(runtime, error);
    assert_non_null(strstr(said, "the plan is another one than the checkpoint's (1f1b on 2 ranks; now gpipe on 1)"));
    assert_int_equal(weir_runtime_steps(runtime), 3);
    read_all(runtime, is);
    assert_memory_equal(was, is, sizeof was);
    weir_runtime_free(runtime);
    assert_null(weir_runtime_create(plan, layers, LAYERS,
                                    WEIR_OPTIONS(runtime, .checkpoints = WEIR_OPTIONS(checkpoint, .every = 0)),
                                    &error));
    assert_error(error, "weir_checkpoint_options.folder is needed");
    weir_plan_free(plan);
    weir_plan_free(other);
}

// Two rows of two, and two numbers behind them that are nobody's.
static void tensors_are_kept_by_their_names(void **state)
{
    (void)state;
    static const struct weir_tensor named[] = { { "gain", 0, 1, 0 } };
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill_changing(layers);
    empty_folder(NULL);
    layers[2].tensors = named;
    layers[2].tensor_count = 1;
    struct weir_plan *plan = plan_of(layers, "1f1b");
    struct weir_runtime *runtime = open_kept(plan, layers, (struct weir_checkpoint_options){ 0 }, &error);
    assert_good(runtime, error);
    step_times(runtime, 1);
    assert_good(weir_runtime_save(runtime, &error), error);
    weir_runtime_free(runtime);
    char header[400] = "", path[300];
    snprintf(path, sizeof path, "%s/step-1/b.safetensors", folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_true(fread(header, 1, sizeof header - 1, file) > 8);
    fclose(file);
    if (!strstr(header + 8, "\"b.gain\": {\"dtype\": \"F32\", \"shape\": [1]"))
        fail_msg("%.300s", header + 8);
    weir_plan_free(plan);

    static const struct { struct weir_tensor tensors[2]; size_t count; } wrong[] = {
        { { { "gain", 0, 2, 0 } }, 1 }, { { { "gain", 1, 1, 4 } }, 1 }, { { { "", 0, 1, 0 } }, 1 },
        { { { "gain", 0, 1, 2 } }, 1 }, { { { "gain", 0, 1, 0 }, { "gain", 0, 1, 0 } }, 2 },
        { { { "gain", UINT64_MAX, UINT64_MAX, 0 } }, 1 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        error = (struct weir_error){ 0 };
        layers[2].tensors = wrong[i].tensors;
        layers[2].tensor_count = wrong[i].count;
        assert_null(weir_profile_layers(layers, LAYERS, NULL, &error));
        assert_int_equal(error.code, 2);
        assert_non_null(strstr(error.text, "layer 2 (b): tensors["));
    }
}

// --- ranks elsewhere -----------------------------------------------------------------------------

struct seen {
    float parameters[LAYERS], losses[4], held[10];
    double norm;
};

// What a run of some steps shows.
static bool look(const struct weir_plan *plan, const struct weir_layer *layers,
                 const struct weir_runtime_options *running, struct seen *seen, struct weir_error *error)
{
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, running, error);
    struct weir_result result = { 0 };
    bool good = runtime != NULL;
    *seen = (struct seen){ 0 };
    for (int step = 0; good && step < 3; step++)
        good = weir_runtime_step(runtime, &result, error);
    const float more = 0.75f;
    uint32_t count = 0;
    good = good && weir_runtime_write(runtime, 2, &more, error) && weir_runtime_step(runtime, &result, error)
        && weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 100,
                                              .micro_batches = 10, .losses = seen->held), error)
        && (!running->checkpoints || weir_runtime_save(runtime, error));
    for (uint32_t l = 1; good && l < LAYERS - 1; l++)
        good = weir_runtime_read(runtime, l, &seen->parameters[l], error);
    if (good) {
        char *trace = weir_runtime_trace(runtime, error);
        good = trace != NULL;
        weir_text_free(trace);
        memcpy(seen->losses, weir_runtime_losses(runtime, &count), sizeof seen->losses);
        seen->norm = result.gradient_norm;
    }
    weir_runtime_free(runtime);
    return good;
}

static void each_rank_may_have_a_device(void **state)
{
    (void)state;
    static const char *const schedules[] = { "1f1b", "zb-h1", "chimera" };
    for (size_t n = 0; n < sizeof schedules / sizeof schedules[0]; n++) {
        struct weir_layer layers[LAYERS];
        struct weir_error error = { 0 };
        struct seen threads, devices;
        struct own own = { 0 };
        fill_changing(layers);
        empty_folder(NULL);
        struct weir_plan *plan =
            plan_for(layers, WEIR_OPTIONS(partition, .schedule = schedules[n], .optimizer = "momentum"));
        const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = folder, .every = 2 };
        struct weir_runtime_options running = { .size = sizeof running, .rate = 0.01f, .clip = 0.5f,
                                                .update = own_update, .self = &own };
        assert_good(look(plan, layers, &running, &threads, &error), error);
        running.device = "cpu:queued";
        assert_good(look(plan, layers, &running, &devices, &error), error);
        assert_memory_equal(&threads, &devices, sizeof threads);
        running.device = "cpu:queued,cpu:queued";
        running.checkpoints = &keeping;
        assert_good(look(plan, layers, &running, &devices, &error), error);
        assert_memory_equal(&threads, &devices, sizeof threads);
        assert_true(exists("step-4/manifest.json"));
        running.device = "cpu:queued,cpu:queued,cpu:queued";
        assert_null(weir_runtime_create(plan, layers, LAYERS, &running, &error));
        assert_error(error, "weir_runtime_options.device names 3 devices, and the plan has 2 ranks: one for each, or a"
                            " single one for all, is needed");
        weir_plan_free(plan);
    }
}

// This process, of two.
static void become_rank(uint32_t rank)
{
    char number[2] = { (char)('0' + rank), '\0' }, place[300];
    snprintf(place, sizeof place, "%s/meet", folder);
    setenv("WEIR_RANK", number, 1);
    setenv("WEIR_RANKS", "2", 1);
    setenv("WEIR_RENDEZVOUS", place, 1);
}

// A process that is a rank of two; it writes what it has seen, or why not.
static float factor_of_rank_1;

static int be_rank(uint32_t rank, const struct weir_plan *plan, const struct weir_layer *layers,
                   const struct weir_runtime_options *running, struct seen *seen)
{
    struct weir_error error = { 0 };
    struct weir_layer own[LAYERS];
    become_rank(rank);
    memcpy(own, layers, sizeof own);
    if (rank == 1)
        own[2].rate_factor = factor_of_rank_1;
    const bool good = look(plan, factor_of_rank_1 > 0 ? own : layers, running, seen, &error);
    if (!good)
        fprintf(stderr, "%s\n", error.text);
    return good ? 0 : error.code;
}

static void run_two(const struct weir_plan *plan, const struct weir_layer *layers,
                    const struct weir_runtime_options *running, struct seen seen[2], int status[2])
{
    pid_t ranks[2];
    int ends[2][2];
    fflush(NULL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(pipe(ends[rank]), 0);
        ranks[rank] = fork();
        assert_true(ranks[rank] >= 0);
        if (ranks[rank] == 0) {
            const int code = be_rank(rank, plan, layers, &running[rank], &seen[rank]);
            _exit(write(ends[rank][1], &seen[rank], sizeof seen[rank]) == sizeof seen[rank] ? code : 9);
        }
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(read(ends[rank][0], &seen[rank], sizeof seen[rank]), sizeof seen[rank]);
        close(ends[rank][0]);
        close(ends[rank][1]);
        assert_int_equal(waitpid(ranks[rank], &status[rank], 0), ranks[rank]);
    }
}

static void each_rank_may_be_a_process(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    struct seen threads, seen[2];
    int status[2];
    fill_changing(layers);
    empty_folder(NULL);
    struct weir_plan *plan = plan_for(layers, WEIR_OPTIONS(partition, .schedule = "zb-h1", .optimizer = "adamw"));
    struct weir_runtime_options running = { .size = sizeof running, .rate = 0.01f, .clip = 0.5f };
    assert_good(look(plan, layers, &running, &threads, &error), error);
    const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = folder, .every = 2 };
    running.checkpoints = &keeping;
    struct weir_runtime_options both[2] = { running, running };
    run_two(plan, layers, both, seen, status);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(status[rank], 0);
        assert_memory_equal(&threads, &seen[rank], sizeof threads);
    }
    assert_true(exists("step-4/manifest.json"));
    both[0].checkpoints = both[1].checkpoints = NULL;
    both[1].clip = 0.25f;  // seen to be another
    run_two(plan, layers, both, seen, status);
    for (int rank = 0; rank < 2; rank++)
        assert_true(WIFEXITED(status[rank]) && WEXITSTATUS(status[rank]) == 2);
    both[1].clip = 0.5f;
    factor_of_rank_1 = 2;  // of a layer's own rate: the layers are others
    run_two(plan, layers, both, seen, status);
    factor_of_rank_1 = 0;
    for (int rank = 0; rank < 2; rank++)
        assert_true(WIFEXITED(status[rank]) && WEXITSTATUS(status[rank]) == 2);
    weir_plan_free(plan);
}

// --- what is refused -----------------------------------------------------------------------------

static void an_object_that_failed_is_refused(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    assert_null(weir_partition(NULL, NULL, &error));
    assert_int_equal(error.code, 2);
    assert_error(error, "profile is needed, and is NULL, as what a call returns that has failed");
    assert_null(weir_runtime_create(NULL, layers, LAYERS, NULL, &error));  // the first error stays
    assert_false(weir_runtime_step(NULL, NULL, &error));
    assert_false(weir_runtime_train(NULL, NULL, NULL, &error));
    assert_false(weir_verify(NULL, layers, LAYERS, NULL, 1, &error));
    assert_null(weir_plan_text(NULL, &error));
    assert_null(weir_plan_simulate(NULL, &error));
    assert_error(error, "profile is needed, and is NULL, as what a call returns that has failed");
    error = (struct weir_error){ 0 };
    assert_false(weir_layers_check(NULL, 6, NULL, &error));
    assert_error(error, "a model needs at least one layer");
}

static float no_rate(void *self, uint64_t step)
{
    (void)self;
    return step == 1 ? NAN : 0.01f;
}

static void numbers_without_a_meaning_are_refused(void **state)
{
    (void)state;
    const struct { const struct weir_runtime_options *running; const char *sentence; } wrong[] = {
        { WEIR_OPTIONS(runtime, .rate = -1), "weir_runtime_options.rate: -1 is not a number of 0 or more" },
        { WEIR_OPTIONS(runtime, .rate = INFINITY), "weir_runtime_options.rate: inf is not a number of 0 or more" },
        { WEIR_OPTIONS(runtime, .momentum = 2), "weir_runtime_options.momentum: 2 is not from 0 to below 1" },
        { WEIR_OPTIONS(runtime, .beta1 = 5), "weir_runtime_options.beta1: 5 is not from 0 to below 1" },
        { WEIR_OPTIONS(runtime, .beta2 = 1), "weir_runtime_options.beta2: 1 is not from 0 to below 1" },
        { WEIR_OPTIONS(runtime, .epsilon = -1), "weir_runtime_options.epsilon: -1 is not a number of 0 or more" },
        { WEIR_OPTIONS(runtime, .decay = NAN), "weir_runtime_options.decay: nan is not a number of 0 or more" },
        { WEIR_OPTIONS(runtime, .update = own_update, .states = 1),
          "weir_runtime_options.states: 1 floats of each parameter are to be kept, and the plan's optimizer sgd keeps"
          " 0: plan with \"momentum\" for one, \"adamw\" for two" },
    };
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill(layers);
    struct weir_plan *plan = plan_of(layers, "1f1b");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        error = (struct weir_error){ 0 };
        assert_null(weir_runtime_create(plan, layers, LAYERS, wrong[i].running, &error));
        assert_error(error, wrong[i].sentence);
        error = (struct weir_error){ 0 };
        assert_false(weir_verify(plan, layers, LAYERS, wrong[i].running, 1, &error));
        assert_error(error, wrong[i].sentence);
    }
    error = (struct weir_error){ 0 };
    assert_null(weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .device = "cpu:bf16"), &error));
    assert_error(error, "weir_runtime_options.device: cpu:bf16 computes in bf16, and layers of one's own in floats");
    error = (struct weir_error){ 0 };
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, NULL, &error);
    assert_good(runtime, error);
    const struct weir_train_options training = { .size = sizeof training, .steps = 3, .rate = no_rate };
    assert_false(weir_runtime_train(runtime, &training, NULL, &error));
    assert_error(error, "weir_train_options.rate: of step 1 it is nan, which is no learning rate");
    float parameter = 0;
    error = (struct weir_error){ 0 };
    assert_false(weir_runtime_read(runtime, LAYERS, &parameter, &error));
    assert_error(error, "layer: there is no layer 5 of a runtime's 5");
    error = (struct weir_error){ 0 };
    assert_false(weir_runtime_write(runtime, 99, &parameter, &error));
    assert_int_equal(error.code, 2);
    error = (struct weir_error){ 0 };
    assert_false(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 1), &error));
    assert_error(error, "weir_evaluate_options.micro_batches: is 0; it must be from 1 to 4294967294");
    error = (struct weir_error){ 0 };
    uint64_t counts[1];
    assert_false(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .micro_batches = 1, .metrics = counts), &error));
    assert_error(error, "weir_evaluate_options.metrics: layer loss, which computes the loss, has no metric_count");
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

static void training_ends_with_its_checkpoints_written(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    fill_changing(layers);
    struct weir_plan *plan = plan_for(layers, WEIR_OPTIONS(partition, .schedule = "1f1b", .optimizer = "adamw"));
    for (int trial = 0; trial < 10; trial++) {
        empty_folder(NULL);
        struct weir_runtime *runtime = open_kept(plan, layers, (struct weir_checkpoint_options){ .every = 2 }, &error);
        assert_good(runtime, error);
        assert_good(weir_runtime_train(runtime, WEIR_OPTIONS(train, .steps = 4), NULL, &error), error);
        weir_runtime_free(runtime);
        assert_true(exists("step-4/manifest.json"));
    }
    weir_plan_free(plan);
}

// A rank that ends in the middle of what is done behind a step.
static bool lose_rank_0(void *self, uint64_t step, const struct weir_result *result)
{
    const struct weir_runtime *runtime = self;
    struct weir_error error = { 0 };
    uint32_t ranks;
    float losses[4];
    (void)result;
    if (step == 1 && weir_runtime_process(runtime, &ranks) == 0)
        _exit(0);
    return weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 100,
                                              .micro_batches = 4, .losses = losses), &error);
}

static void a_rank_lost_behind_a_step_is_no_good_end(void **state)
{
    (void)state;
    struct weir_layer layers[LAYERS];
    pid_t ranks[2];
    fill_changing(layers);
    empty_folder(NULL);
    struct weir_plan *plan = plan_for(layers, WEIR_OPTIONS(partition, .schedule = "1f1b", .optimizer = "adamw"));
    fflush(NULL);
    for (uint32_t rank = 0; rank < 2; rank++) {
        ranks[rank] = fork();
        assert_true(ranks[rank] >= 0);
        if (ranks[rank] > 0)
            continue;
        struct weir_error error = { 0 };
        become_rank(rank);
        struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, NULL, &error);
        const struct weir_train_options training = { .size = sizeof training, .steps = 4, .after = lose_rank_0,
                                                     .self = runtime };
        _exit(runtime && !weir_runtime_train(runtime, &training, NULL, &error) && error.code == 3 ? 5 : 1);
    }
    int status;
    assert_int_equal(waitpid(ranks[0], &status, 0), ranks[0]);
    assert_int_equal(waitpid(ranks[1], &status, 0), ranks[1]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    weir_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_clipped_as_in_a_plain_loop),
        cmocka_unit_test(a_norm_that_is_only_measured_changes_no_bit),
        cmocka_unit_test(a_norm_that_is_only_measured_is_that_of_a_plain_loop),
        cmocka_unit_test(a_norm_that_cannot_be_measured_is_refused),
        cmocka_unit_test(an_own_optimizer_is_called_for_each_layer),
        cmocka_unit_test(a_smaller_last_micro_batch_counts_by_its_samples),
        cmocka_unit_test(a_batch_that_its_micro_batches_do_not_hold_is_refused),
        cmocka_unit_test(pipelines_of_own_layers_are_verified),
        cmocka_unit_test(replicas_of_own_layers_are_verified),
        cmocka_unit_test(what_differs_is_told),
        cmocka_unit_test(a_run_goes_on_from_its_checkpoint),
        cmocka_unit_test(a_run_goes_on_by_another_plan),
        cmocka_unit_test(a_run_that_only_measures_goes_on_with_or_without_it),
        cmocka_unit_test(tensors_are_kept_by_their_names),
        cmocka_unit_test(each_rank_may_have_a_device),
        cmocka_unit_test(each_rank_may_be_a_process),
        cmocka_unit_test(an_object_that_failed_is_refused),
        cmocka_unit_test(numbers_without_a_meaning_are_refused),
        cmocka_unit_test(training_ends_with_its_checkpoints_written),
        cmocka_unit_test(a_rank_lost_behind_a_step_is_no_good_end),
    };
    return cmocka_run_group_tests_name("weir.h, running", tests, make_folder, remove_folder);
}
