// Auxiliary losses in the middle of a model: the same bits by any plan, trained by, told, and checked by the guard.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/api/scale_layers.h"
#include "tests/api/small_plan.h"
#include "tests/runtime/graph_layers.h"
#include "tests/sanitizer.h"

enum { DEEP = 8, MICRO_BATCHES = 8, STEPS = 3, EVALUATED = 3 };
static const float rate = 0.25f;
static const uint64_t far_away = 1 << 20;

// --- layers ----------------------------------------------------------------------------------------

static atomic_uint reruns, wrong_places;  // forwards that were recomputed; losses that were wanted wrongly, or not

static void note_place(const struct weir_pass *pass, bool wants)
{
    wrong_places += (pass->auxiliary_loss != NULL) != wants;
}

// y = p x, with the penalty c y y / 2, of which `self` is c.
static bool penalized_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *y = pass->output, c = *(const float *)self;
    float sum = 0;
    if (!scale_forward(NULL, pass, error))
        return false;
    note_place(pass, !pass->is_rerun);
    reruns += pass->is_rerun;
    for (int i = 0; i < ROWS; i++)
        sum += y[i] * y[i] / 2;
    if (pass->auxiliary_loss)
        *pass->auxiliary_loss = c * (sum / ROWS);
    return true;
}

static bool penalized_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *x = pass->input, p = *(const float *)pass->parameters, c = *(const float *)self;
    float *dy = pass->held;
    note_place(pass, false);
    for (int i = 0; i < ROWS; i++)
        dy[i] += pass->share * (c / ROWS) * (p * x[i]);
    return scale_backward_input(NULL, pass, error);
}

static bool penalized_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    note_place(pass, false);
    return scale_backward_weight(NULL, pass, error);
}

static bool plain_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    note_place(pass, false);
    return scale_forward(NULL, pass, error);
}

static bool shared_loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = ((const float *)pass->input)[i] * (pass->share / ROWS);
    return true;
}

// Every other scale has a penalty, each of a weight of its own.
static void fill_deep(struct weir_layer layers[DEEP])
{
    static const char *const names[DEEP] = { "data", "a", "b", "c", "d", "e", "f", "loss" };
    static float weights[DEEP] = { 0, 0.5f, 0, 0.75f, 0, 1.3f, 0, 0 };
    struct weir_layer ends[LAYERS];
    fill(ends);
    layers[0] = ends[0];
    layers[0].forward = changing_data_forward;
    layers[DEEP - 1] = ends[LAYERS - 1];
    layers[DEEP - 1].backward_input = shared_loss_backward_input;
    for (int l = 1; l < DEEP - 1; l++) {
        layers[l] = scale;
        layers[l].forward = plain_forward;
        if (weights[l] == 0)
            continue;
        layers[l].has_auxiliary_loss = true;
        layers[l].self = &weights[l];
        layers[l].input_kept = WEIR_INPUT_KEPT_BOTH;
        layers[l].forward = penalized_forward;
        layers[l].backward_input = penalized_backward_input;
        layers[l].backward_weight = penalized_backward_weight;
    }
    for (int l = 0; l < DEEP; l++)
        layers[l].name = names[l];
}

// --- the plain loop --------------------------------------------------------------------------------

struct loop {
    struct weir_layer layers[DEEP];
    float parameters[DEEP], gradients[DEEP], values[DEEP][ROWS], slopes[DEEP][ROWS];
    float losses[MICRO_BATCHES], auxiliary[DEEP][MICRO_BATCHES], sums[MICRO_BATCHES];
};

static void loop_begin(struct loop *loop)
{
    memset(loop, 0, sizeof *loop);
    fill_deep(loop->layers);
    for (int l = 1; l < DEEP - 1; l++)
        loop->parameters[l] = 0.5f;
}

static struct walk walk_of(struct loop *loop)
{
    return (struct walk){ loop->layers, DEEP, loop->parameters, loop->gradients, loop->values, loop->slopes };
}

static void loop_forward(struct loop *loop, uint64_t step, uint32_t m)
{
    const struct walk walk = walk_of(loop);
    loop->sums[m] = 0;
    for (int l = 0; l < DEEP; l++) {
        struct weir_pass pass = walk_pass(&walk, l);
        pass.step = step;
        pass.micro_batch = m;
        pass.loss = &loop->losses[m];
        pass.auxiliary_loss = loop->layers[l].has_auxiliary_loss ? &loop->auxiliary[l][m] : NULL;
        assert_true(loop->layers[l].forward(loop->layers[l].self, &pass, NULL));
        loop->sums[m] += loop->auxiliary[l][m];
    }
}

static void loop_step(struct loop *loop, uint64_t step)
{
    const struct walk walk = walk_of(loop);
    memset(loop->gradients, 0, sizeof loop->gradients);
    for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
        loop_forward(loop, step, m);
        walk_backward(&walk, 1.0f / MICRO_BATCHES);
    }
    for (int l = 1; l < DEEP - 1; l++)
        loop->parameters[l] -= rate * loop->gradients[l];
}

// --- plans -----------------------------------------------------------------------------------------

static struct weir_plan *plan_deep(const struct weir_layer *layers, const char *schedule, uint32_t ranks, bool is_small,
                                   struct weir_numbers replicas)
{
    return small_plan(layers, DEEP, &(struct small_plan){ .schedule = schedule, .ranks = ranks,
                                                          .micro_batches = MICRO_BATCHES, .has_room = !is_small,
                                                          .replicas = replicas });
}

static const struct weir_numbers no_replicas = { NULL, 0 };

static struct weir_runtime *runtime_of(const struct weir_plan *plan, const struct weir_layer *layers,
                                       const char *device, uint64_t batch)
{
    struct weir_error error = { 0 };
    struct weir_runtime *runtime =
        weir_runtime_create(plan, layers, DEEP, WEIR_OPTIONS(runtime, .rate = rate, .device = device, .batch = batch,
                                                             .micro_batch = batch > 0 ? 4 : 0), &error);
    assert_good(runtime, error);
    return runtime;
}

// What a step has told: the losses of each layer, and both means.
static void assert_tells(const struct weir_runtime *runtime, const struct weir_result *result, const struct loop *loop)
{
    struct weir_error error = { 0 };
    double losses = 0, sums = 0;
    for (uint32_t l = 0; l < DEEP; l++) {
        float found[MICRO_BATCHES];
        if (!loop->layers[l].has_auxiliary_loss)
            continue;
        assert_good(weir_runtime_auxiliary_losses(runtime, l, found, &error), error);
        assert_memory_equal(found, loop->auxiliary[l], sizeof found);
    }
    for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
        assert_true(loop->sums[m] > 0);
        losses += (double)loop->losses[m];
        sums += (double)loop->sums[m];
    }
    assert_true(result->loss == losses / MICRO_BATCHES);
    assert_true(result->auxiliary_loss == sums / MICRO_BATCHES);
}

static void assert_trained(const struct weir_runtime *runtime, struct loop *loop)
{
    struct weir_error error = { 0 };
    float losses[EVALUATED], sums[EVALUATED];
    for (uint32_t l = 1; l < DEEP - 1; l++) {
        float parameter = 0;
        assert_good(weir_runtime_read(runtime, l, &parameter, &error), error);
        assert_memory_equal(&parameter, &loop->parameters[l], sizeof parameter);
    }
    assert_good(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = far_away, .micro_batches = EVALUATED,
                                                            .losses = losses, .auxiliary_losses = sums), &error),
                error);
    for (uint32_t m = 0; m < EVALUATED; m++)
        loop_forward(loop, far_away, m);
    assert_memory_equal(losses, loop->losses, sizeof losses);
    assert_memory_equal(sums, loop->sums, sizeof sums);
}

// --- tests -----------------------------------------------------------------------------------------

static void training_is_that_of_a_plain_loop(void **state)
{
    (void)state;
    static const struct {
        const char *schedule, *device;
        uint32_t ranks;
        bool is_small;
    } rows[] = {
        { "gpipe", NULL, 1, false },       { "gpipe", NULL, 3, true },  { "1f1b", NULL, 2, false },
        { "1f1b", NULL, 2, true },         { "zb-h1", NULL, 3, false }, { "interleaved", NULL, 2, false },
        { "zb-v", NULL, 2, true },         { "1f1b", "cpu:queued", 2, true },
        { "1f1b", "cpu:queued,cpu:queued", 2, false }, { "zb-v", "cpu:queued,cpu:queued", 2, true },
    };
    reruns = wrong_places = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        struct weir_layer layers[DEEP];
        struct weir_result result;
        struct loop loop;
        fill_deep(layers);
        loop_begin(&loop);
        struct weir_plan *plan =
            plan_deep(layers, rows[i].schedule, rows[i].ranks, rows[i].is_small, no_replicas);
        struct weir_runtime *runtime = runtime_of(plan, layers, rows[i].device, 0);
        assert_trained(runtime, &loop);
        for (uint64_t step = 0; step < STEPS; step++) {
            assert_good(weir_runtime_step(runtime, &result, &error), error);
            loop_step(&loop, step);
            assert_tells(runtime, &result, &loop);
            assert_trained(runtime, &loop);
        }
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
    assert_int_equal(wrong_places, 0);
    assert_true(reruns > 0);
}

// Copies of a stage, which each run some of the micro-batches, tell in the first step what the plain loop does.
static void copies_tell_of_all_micro_batches(void **state)
{
    (void)state;
    static const uint32_t two[] = { 2, 2 }, two_one[] = { 2, 1 };
    static const struct {
        const char *schedule, *device;
        uint32_t ranks;
        struct weir_numbers replicas;
    } rows[] = {
        { "chimera", NULL, 2, { NULL, 0 } }, { "dualpipe", "cpu:queued,cpu:queued", 2, { NULL, 0 } },
        { "1f1b", NULL, 4, { two, 2 } },     { "gpipe", "cpu:queued,cpu:queued,cpu:queued", 3, { two_one, 2 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        struct weir_layer layers[DEEP];
        struct weir_result result;
        struct loop loop;
        fill_deep(layers);
        loop_begin(&loop);
        struct weir_plan *plan = plan_deep(layers, rows[i].schedule, rows[i].ranks, false, rows[i].replicas);
        struct weir_runtime *runtime = runtime_of(plan, layers, rows[i].device, 0);
        assert_trained(runtime, &loop);
        assert_good(weir_runtime_step(runtime, &result, &error), error);
        loop_step(&loop, 0);
        assert_tells(runtime, &result, &loop);
        weir_runtime_free(runtime);
        assert_good(weir_verify(plan, layers, DEEP, WEIR_OPTIONS(runtime, .rate = rate), STEPS, &error), error);
        weir_plan_free(plan);
    }
}

static void verify_agrees_by_every_schedule(void **state)
{
    (void)state;
    static const char *const schedules[] = { "gpipe", "1f1b", "zb-h1", "interleaved", "chimera", "pipedream",
                                             "pipedream-2bw", "vertical" };
    struct weir_layer layers[DEEP];
    fill_deep(layers);
    reruns = wrong_places = 0;
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++)
        for (int is_small = 0; is_small < 2; is_small++) {
            struct weir_error error = { 0 };
            struct weir_plan *plan = plan_deep(layers, schedules[i], 2, is_small, no_replicas);
            if (!weir_verify(plan, layers, DEEP, WEIR_OPTIONS(runtime, .rate = rate), STEPS, &error))
                fail_msg("%s: %s", schedules[i], error.text);
            weir_plan_free(plan);
        }
    assert_int_equal(wrong_places, 0);
    assert_true(reruns > 0);
}

static bool counting_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    static atomic_uint calls;
    if (pass->auxiliary_loss)
        *pass->auxiliary_loss = (float)++calls;
    return penalized_forward(self, &(struct weir_pass){ .input = pass->input, .output = pass->output,
                                                        .parameters = pass->parameters }, error);
}

static void verify_names_a_loss_that_differs(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[DEEP];
    fill_deep(layers);
    layers[3].forward = counting_forward;
    struct weir_plan *plan = plan_deep(layers, "1f1b", 2, false, no_replicas);
    assert_false(weir_verify(plan, layers, DEEP, WEIR_OPTIONS(runtime, .rate = rate), 1, &error));
    assert_int_equal(error.code, 1);
    assert_string_equal(error.text, "8 auxiliary losses of micro-batches differ, the first of layer c");
    weir_plan_free(plan);
}

// The last of 8 micro-batches has 2 samples instead of 4.
static void the_mean_is_weighted_by_samples(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[DEEP];
    struct weir_result result;
    struct loop loop;
    double sum = 0;
    fill_deep(layers);
    loop_begin(&loop);
    struct weir_plan *plan = plan_deep(layers, "1f1b", 2, false, no_replicas);
    struct weir_runtime *runtime = runtime_of(plan, layers, NULL, 30);
    assert_good(weir_runtime_step(runtime, &result, &error), error);
    for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
        loop_forward(&loop, 0, m);
        sum += (m < 7 ? 4 : 2) * (double)loop.sums[m];
    }
    assert_true(result.auxiliary_loss == sum / 30);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

static void a_model_without_them_has_none(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[DEEP];
    struct weir_result result = { .auxiliary_loss = 1 };
    float losses[MICRO_BATCHES], sums[EVALUATED] = { 1, 1, 1 };
    fill_deep(layers);
    for (int l = 1; l < DEEP - 1; l++) {
        layers[l] = scale;
        layers[l].name = (const char *[]){ "a", "b", "c", "d", "e", "f" }[l - 1];
    }
    struct weir_plan *plan = plan_deep(layers, "1f1b", 2, false, no_replicas);
    struct weir_runtime *runtime = runtime_of(plan, layers, "cpu:queued,cpu:queued", 0);
    assert_good(weir_runtime_step(runtime, &result, &error), error);
    assert_true(result.auxiliary_loss == 0);
    assert_good(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = far_away, .micro_batches = EVALUATED,
                                                            .auxiliary_losses = sums), &error), error);
    assert_true(sums[0] == 0 && sums[1] == 0 && sums[2] == 0);
    assert_false(weir_runtime_auxiliary_losses(runtime, 1, losses, &error));
    assert_int_equal(error.code, 2);
    assert_string_equal(error.text, "layer: layer a has no auxiliary loss");
    error = (struct weir_error){ 0 };
    assert_false(weir_runtime_auxiliary_losses(runtime, DEEP, losses, &error));
    assert_string_equal(error.text, "layer: there is no layer 8 of a runtime's 8");
    error = (struct weir_error){ 0 };
    assert_false(weir_runtime_auxiliary_losses(runtime, 1, NULL, &error));
    assert_int_equal(error.code, 2);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
    layers[DEEP - 1].has_auxiliary_loss = true;
    error = (struct weir_error){ 0 };
    assert_null(weir_profile_layers(layers, DEEP, NULL, &error));
    assert_int_equal(error.code, 2);
    assert_string_equal(error.text, "layer 7 (loss): has_auxiliary_loss: the last layer computes the loss itself: add"
                        " it to that");
}

static bool lost_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const bool good = penalized_forward(self, pass, error);
    if (pass->auxiliary_loss)
        *pass->auxiliary_loss = NAN;
    return good;
}

// As with the loss: such a run is not worth resuming.
static void a_loss_that_is_no_number_makes_no_checkpoint(void **state)
{
    (void)state;
    char folder[200], command[300];
    struct weir_error error = { 0 };
    struct weir_layer layers[DEEP];
    snprintf(folder, sizeof folder, "%s/weir-auxiliary-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
    fill_deep(layers);
    for (int is_lost = 1; is_lost >= 0; is_lost--) {
        layers[3].forward = is_lost ? lost_forward : penalized_forward;
        struct weir_plan *plan = plan_deep(layers, "1f1b", 2, false, no_replicas);
        const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = folder };
        struct weir_runtime *runtime = weir_runtime_create(
            plan, layers, DEEP, WEIR_OPTIONS(runtime, .rate = rate, .checkpoints = &keeping), &error);
        assert_good(runtime, error);
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
        assert_true(weir_runtime_save(runtime, &error) == !is_lost);
        if (is_lost)
            assert_string_equal(error.text, "the loss of step 0 is no number: no checkpoint of it is made");
        assert_int_equal(error.code, is_lost);
        error = (struct weir_error){ 0 };
        weir_runtime_free(runtime);
        weir_plan_free(plan);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

// --- layers in an order of the plan's --------------------------------------------------------------

// A sum of the outputs; it has no gradient here.
static bool reporting_forward(void *it, const struct weir_pass *pass, struct weir_error *error)
{
    const struct graph_self *self = it;
    float sum = 0;
    if (!graph_forward(it, pass, error))
        return false;
    for (size_t j = 0; j < self->out; j++)
        sum += ((const float *)pass->output)[j];
    if (pass->auxiliary_loss)
        *pass->auxiliary_loss = sum;
    return true;
}

struct told {
    float losses[GRAPH_MOST][4], sums[2];
    double mean;
};

static void tell_graph(const struct graph *graph, const char *schedule, uint32_t ranks, struct told *told,
                       uint32_t *orders)
{
    struct weir_error error = { 0 };
    struct weir_result result;
    char cluster[80];
    snprintf(cluster, sizeof cluster, "%u devices, 1MiB, 10GB/s 1us", ranks);
    struct weir_profile *profile = weir_profile_layers(graph->layers, graph->count, NULL, &error);
    assert_good(profile, error);
    struct weir_plan *plan = weir_partition(profile, WEIR_OPTIONS(partition, .cluster = cluster, .schedule = schedule,
                                                                  .micro_batches = 4, .optimizer = "sgd",
                                                                  .budget = 20000), &error);
    assert_good(plan, error);
    char *document = weir_plan_document(plan, &error);
    *orders += strstr(document, "\"order\"") != NULL;
    free(document);
    assert_good(weir_verify(plan, graph->layers, graph->count, NULL, 2, &error), error);
    struct weir_runtime *runtime = weir_runtime_create(plan, graph->layers, graph->count, NULL, &error);
    assert_good(runtime, error);
    memset(told, 0, sizeof *told);
    assert_good(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 7, .micro_batches = 2,
                                                            .auxiliary_losses = told->sums), &error), error);
    assert_good(weir_runtime_step(runtime, &result, &error), error);
    told->mean = result.auxiliary_loss;
    for (uint32_t l = 0; l + 1 < graph->count; l++)
        assert_good(weir_runtime_auxiliary_losses(runtime, l, told->losses[l], &error), error);
    weir_runtime_free(runtime);
    weir_plan_free(plan);
    weir_profile_free(profile);
}

static void sums_do_not_depend_on_the_order_of_a_plan(void **state)
{
    (void)state;
    uint32_t orders = 0;
    for (uint64_t trial = 0; trial < 8; trial++) {
        uint64_t seed = trial;
        struct graph graph;
        struct told one, other;
        graph_random(&seed, &graph);
        for (size_t l = 0; l + 1 < graph.count; l++) {
            graph.layers[l].has_auxiliary_loss = true;
            graph.layers[l].forward = reporting_forward;
        }
        if (graph.count < 4)
            continue;
        tell_graph(&graph, "gpipe", 1, &one, &orders);
        for (int i = 0; i < 2; i++) {
            tell_graph(&graph, i == 0 ? "1f1b" : "interleaved", 2, &other, &orders);
            assert_memory_equal(one.losses, other.losses, sizeof one.losses);
            assert_memory_equal(&one.mean, &other.mean, sizeof one.mean);
            assert_memory_equal(one.sums, other.sums, sizeof one.sums);
        }
    }
    assert_true(orders > 0);
}

// --- the guard -------------------------------------------------------------------------------------

static bool forgetting_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    return scale_backward_input(NULL, pass, error);
}

// Without the share.
static bool sharing_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    own.share = 1;
    return penalized_backward_input(self, &own, error);
}

static bool silent_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    return scale_forward(NULL, pass, error);
}

static bool heedless_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    *pass->auxiliary_loss = 1;
    return penalized_forward(self, pass, error);
}

// The gradient reaches the parameters, and not the inputs.
static bool late_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    return scale_backward_input(NULL, pass, error) && penalized_backward_input(self, &(struct weir_pass){
        .share = pass->share, .input = pass->input, .parameters = pass->parameters, .held = pass->held,
        .output_gradient = (const float[ROWS]){ 0 }, .input_gradient = (float[ROWS]){ 0 } }, error);
}

static void the_guard_knows_the_gradient_of_an_auxiliary_loss(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[DEEP];
    float light = 0.001f;
    for (int is_light = 0; is_light < 2; is_light++) {
        fill_deep(layers);
        layers[3].self = is_light ? &light : layers[3].self;
        assert_good(weir_layers_check(layers, DEEP, NULL, &error), error);
        layers[3].backward_input = forgetting_backward_input;
        assert_named(layers, DEEP, "layer 3 (c): backward_input computes a gradient of input");
        assert_named(layers, DEEP, "differences of forward's output and auxiliary_loss to");
        assert_named(layers, DEEP, "(is weir_pass.share times the gradient of auxiliary_loss in it?)");
        layers[3].backward_input = sharing_backward_input;
        assert_named(layers, DEEP, "layer 3 (c): backward_input computes a gradient of input");
        layers[3].backward_input = late_backward_input;
        assert_named(layers, DEEP, "layer 3 (c): backward_input computes a gradient of input");
    }
    layers[3].has_auxiliary_loss = false;
    layers[3].forward = plain_forward;
    layers[3].backward_input = forgetting_backward_input;
    assert_good(weir_layers_check(layers, DEEP, NULL, &error), error);
}

static void the_guard_knows_when_it_is_set(void **state)
{
    (void)state;
    struct weir_layer layers[DEEP];
    fill_deep(layers);
    layers[3].forward = silent_forward;
    assert_named(layers, DEEP, "layer 3 (c): forward leaves bytes 0 to 3 unwritten of auxiliary_loss: a float is 4");
    layers[3].forward = heedless_forward;
    if (HAS_SANITIZER)  // it would end the program there
        return;
    assert_named(layers, DEEP, "layer 3 (c): forward touches memory that it was not given");
    assert_named(layers, DEEP, "and so is the loss when a forward is run again, and auxiliary_loss");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_is_that_of_a_plain_loop),
        cmocka_unit_test(copies_tell_of_all_micro_batches),
        cmocka_unit_test(verify_agrees_by_every_schedule),
        cmocka_unit_test(verify_names_a_loss_that_differs),
        cmocka_unit_test(the_mean_is_weighted_by_samples),
        cmocka_unit_test(a_model_without_them_has_none),
        cmocka_unit_test(a_loss_that_is_no_number_makes_no_checkpoint),
        cmocka_unit_test(sums_do_not_depend_on_the_order_of_a_plan),
        cmocka_unit_test(the_guard_knows_the_gradient_of_an_auxiliary_loss),
        cmocka_unit_test(the_guard_knows_when_it_is_set),
    };
    return cmocka_run_group_tests_name("weir.h, auxiliary losses", tests, NULL, NULL);
}
