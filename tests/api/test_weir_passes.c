// What a pass says of its place in an update: one program trains right by any plan, and never has to know how many
// micro-batches there are.
#include <math.h>
#include <stdio.h>

#include "tests/api/scale_layers.h"

enum { MOST = 64, STEPS = 3, EVALUATED = 5 };
static const uint64_t far_away = 1ull << 40;  // a step of evaluations
static const float rate = 0.5f;

// What a layer is to be told, and what it has seen.
struct watch {
    uint32_t micro_batches;
    uint64_t batch, full;    // samples of a step, and of each micro-batch but the last; 0: not stated
    bool flushes;
    uint32_t runs[MOST];     // forwards of each micro-batch in the step
    uint64_t step;
    uint32_t first_runs, reruns, evaluations;
};

static bool is_as_told(struct watch *watch, const struct weir_pass *pass, struct weir_error *error)
{
    const bool is_training = pass->step != far_away;
    const uint32_t all = is_training ? watch->micro_batches : EVALUATED;
    const uint64_t before = pass->micro_batch * watch->full;
    const uint64_t left = watch->batch - before;
    const uint64_t samples = !is_training ? 0 : left < watch->full ? left : watch->full;
    const float share = is_training && watch->batch > 0 ? (float)samples / (float)watch->batch : 1.0f / (float)all;
    if (pass->is_training == is_training && pass->micro_batches == all && pass->samples == samples
        && memcmp(&pass->share, &share, sizeof share) == 0)
        return true;
    error->code = 1;
    snprintf(error->text, sizeof error->text, "micro-batch %u of %u: share %g, samples %llu%s", pass->micro_batch,
             pass->micro_batches, (double)pass->share, (unsigned long long)pass->samples,
             pass->is_training ? ", training" : "");
    return false;
}

static bool watched_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct watch *watch = self;
    if (watch->step != pass->step)
        memset(watch->runs, 0, sizeof watch->runs);
    watch->step = pass->step;
    watch->first_runs += pass->is_training && !pass->is_rerun;
    watch->reruns += pass->is_rerun;
    watch->evaluations += !pass->is_training;
    if (watch->flushes && pass->is_rerun != (watch->runs[pass->micro_batch]++ > 0)) {
        *error = (struct weir_error){ 1, "a rerun that is none, or one that is not called so" };
        return false;
    }
    return is_as_told(watch, pass, error) && scale_forward(NULL, pass, error);
}

static bool watched_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return is_as_told(self, pass, error) && scale_backward_input(NULL, pass, error);
}

static bool watched_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return is_as_told(self, pass, error) && scale_backward_weight(NULL, pass, error);
}

static bool shared_loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = ((const float *)pass->input)[i] * (pass->share / ROWS);
    return true;
}

// All micro-batches have the same data, so that the mean over any number of them is the same.
static void fill_watched(struct weir_layer layers[LAYERS], struct watch watches[LAYERS], const struct watch *told)
{
    fill(layers);
    for (int l = 1; l < LAYERS - 1; l++) {
        watches[l] = *told;
        layers[l].self = &watches[l];
        layers[l].forward = watched_forward;
        layers[l].backward_input = watched_backward_input;
        layers[l].backward_weight = watched_backward_weight;
    }
    layers[LAYERS - 1].backward_input = shared_loss_backward_input;
}

// The parameters after as many updates, in double.
static void train_in_double(double parameters[LAYERS], uint32_t updates)
{
    double squares = 0;
    for (int i = 0; i < ROWS; i++)
        squares += (double)(i % 3 + 1) * (i % 3 + 1) / ROWS;
    for (uint32_t u = 0; u < updates; u++) {
        const double product = parameters[1] * parameters[2] * parameters[3];
        double next[LAYERS];
        for (int l = 1; l < LAYERS - 1; l++)
            next[l] = parameters[l] - (double)rate * squares * product * product / parameters[l];
        memcpy(parameters + 1, next + 1, (LAYERS - 2) * sizeof *next);
    }
}

struct row {
    const char *schedule;
    uint32_t micro_batches, told;  // in the plan, and in each update
    const char *memory;            // of a device
    bool recomputes;
    uint64_t batch, full;
};

static struct weir_plan *plan_row(const struct row *row)
{
    struct weir_error error = { 0 };
    struct weir_layer layers[LAYERS];
    char cluster[100];
    fill(layers);
    for (int l = 1; l < LAYERS - 1; l++)
        layers[l].saved_bytes = 1 << 12;  // which a recomputing plan does not keep
    struct weir_profile *profile = profile_of(layers);
    snprintf(cluster, sizeof cluster, "2 devices, %s, 10GB/s 1us", row->memory);
    struct weir_plan *plan = weir_partition(profile, WEIR_OPTIONS(partition, .cluster = cluster, .optimizer = "sgd",
                                            .schedule = row->schedule, .micro_batches = row->micro_batches), &error);
    assert_good(plan, error);
    weir_profile_free(profile);
    assert_int_equal(weir_plan_ranks(plan), 2);
    assert_int_equal(weir_plan_micro_batches(plan), row->micro_batches);
    assert_string_equal(weir_plan_schedule_name(plan), row->schedule);
    assert_string_equal(weir_plan_optimizer(plan), "sgd");
    return plan;
}

static void train_row(const struct row *row)
{
    struct weir_error error = { 0 };
    struct weir_layer layers[LAYERS];
    struct watch watches[LAYERS];
    const bool flushes = row->told == row->micro_batches;
    const struct watch told = { .micro_batches = row->told, .batch = row->batch, .full = row->full, .flushes = flushes,
                                .step = far_away };
    struct weir_plan *plan = plan_row(row);
    fill_watched(layers, watches, &told);
    for (int l = 1; l < LAYERS - 1; l++)
        layers[l].saved_bytes = 1 << 12;
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .rate = rate,
                                                       .batch = row->batch, .micro_batch = row->full), &error);
    assert_good(runtime, error);
    double parameters[LAYERS] = { 0, 0.5, 0.5, 0.5, 0 };
    for (uint32_t step = 1; step <= STEPS; step++) {
        float losses[EVALUATED];
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
        assert_good(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = far_away,
                                                       .micro_batches = EVALUATED, .losses = losses), &error), error);
        train_in_double(parameters, 1);
        for (uint32_t l = 1; l < LAYERS - 1 && flushes; l++) {
            float parameter;
            assert_good(weir_runtime_read(runtime, l, &parameter, &error), error);
            assert_true(fabs((double)parameter - parameters[l]) < 1e-5 * parameters[l]);
        }
    }
    uint32_t reruns = 0;
    for (int l = 1; l < LAYERS - 1; l++) {
        assert_int_equal(watches[l].first_runs, STEPS * row->micro_batches);
        assert_int_equal(watches[l].evaluations, STEPS * EVALUATED);
        reruns += watches[l].reruns;
    }
    assert_true((reruns > 0) == row->recomputes);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

static void one_program_trains_right_by_any_plan(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "gpipe", 4, 4, "1MiB", false, 0, 0 },      { "1f1b", 16, 16, "1MiB", false, 0, 0 },
        { "gpipe", 16, 16, "40KiB", true, 0, 0 },    { "zb-h1", 8, 8, "1MiB", false, 0, 0 },
        { "1f1b", 4, 4, "1MiB", false, 13, 4 },      { "gpipe", 8, 8, "1MiB", false, 64, 8 },
        { "pipedream", 8, 1, "1MiB", false, 0, 0 },  { "pipedream-2bw", 8, 2, "1MiB", false, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        train_row(&rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_program_trains_right_by_any_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
