// Layers of one's own that take sequences in parts, by seq1f1b, against whole ones in a plain loop.
#include <math.h>
#include <string.h>

#include "api/weir.h"
#include "tests/test.h"

// Layers of one number per position: data, a few echoes, and the loss x x / 2. An echo hears what was 64 positions ago,
// in the part before this one:
//
//     y[t] = p (x[t] + x[t - 64])
enum { POSITIONS = 256, LAG = 64, COUNT = 5, MICRO_BATCHES = 4, SEQUENCE = POSITIONS * sizeof(float) };

struct part {
    size_t first, end;
};

static struct part part_of(const struct weir_pass *pass)
{
    const size_t splits = pass->splits > 1 ? pass->splits : 1, each = POSITIONS / splits;
    return (struct part){ pass->split * each, (pass->split + 1) * each };
}

static bool data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)error;
    const struct part part = part_of(pass);
    for (size_t t = part.first; t < part.end; t++)
        ((float *)pass->output)[t - part.first] =
            (float)((t * 3 + pass->step * 5 + pass->micro_batch) % 7) / 4 - 0.5f;
    return true;
}

static bool nothing(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)pass, (void)error;
    return true;
}

static float lagging(const float *all, size_t t)
{
    return all[t] + (t >= LAG ? all[t - LAG] : 0);
}

static bool echo_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)error;
    const struct part part = part_of(pass);
    const float *x = pass->input, p = *(const float *)pass->parameters;
    float *all = pass->splits > 1 ? pass->shared_by_parts : pass->saved;
    for (size_t t = part.first; t < part.end; t++)
        all[t] = x[t - part.first];
    for (size_t t = part.first; t < part.end; t++)
        ((float *)pass->output)[t - part.first] = p * lagging(all, t);
    return true;
}

// held: the output's gradient, then what it was a multiple of.
static bool echo_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)error;
    const struct part part = part_of(pass);
    const float *all = pass->splits > 1 ? pass->shared_by_parts : pass->saved, p = *(const float *)pass->parameters;
    float *slopes = pass->splits > 1 ? pass->shared_by_parts_gradient : pass->held, *heard = pass->held;
    heard += part.end - part.first;
    for (size_t t = part.first; pass->splits > 1 && t < part.end; t++)
        slopes[t] = ((const float *)pass->output_gradient)[t - part.first];
    for (size_t t = part.first; t < part.end; t++) {
        heard[t - part.first] = lagging(all, t);
        ((float *)pass->input_gradient)[t - part.first] =
            p * (slopes[t] + (t + LAG < POSITIONS ? slopes[t + LAG] : 0));
    }
    return true;
}

static bool echo_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)error;
    const struct part part = part_of(pass);
    const size_t count = part.end - part.first;
    const float *dy = pass->held, *heard = dy + count;
    for (size_t i = 0; i < count; i++)
        *(float *)pass->gradients += dy[i] * heard[i];
    return true;
}

static bool echo_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)self, (void)queue, (void)error;
    *(float *)parameters = 0.5f;
    return true;
}

static bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)error;
    const struct part part = part_of(pass);
    const float *x = pass->input;
    float sum = 0;
    for (size_t i = 0; i < part.end - part.first; i++)
        sum += x[i] * x[i] / 2;
    if (pass->loss)
        *pass->loss = sum / POSITIONS;
    return true;
}

static bool loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)error;
    const struct part part = part_of(pass);
    for (size_t i = 0; i < part.end - part.first; i++)
        ((float *)pass->input_gradient)[i] = ((const float *)pass->input)[i] / POSITIONS;
    return true;
}

static void fill(struct weir_layer layers[COUNT])
{
    static const char *const names[COUNT] = { "data", "a", "b", "c", "loss" };
    layers[0] = (struct weir_layer){ .kind = "data", .output_bytes = SEQUENCE, .forward = data_forward,
                                     .backward_input = nothing, .backward_weight = nothing };
    for (int l = 1; l < COUNT - 1; l++)
        layers[l] = (struct weir_layer){
            .kind = "echo", .parameter_bytes = sizeof(float), .output_bytes = SEQUENCE, .saved_bytes = SEQUENCE,
            .shared_by_parts_bytes = SEQUENCE, .held_for_weight_bytes = 2 * SEQUENCE, .forward = echo_forward,
            .backward_input = echo_backward_input, .backward_weight = echo_backward_weight,
            .initialize = echo_initialize,
        };
    layers[COUNT - 1] = (struct weir_layer){ .kind = "loss", .input_kept = WEIR_INPUT_KEPT_BOTH,
                                             .forward = loss_forward, .backward_input = loss_backward_input,
                                             .backward_weight = nothing };
    for (int l = 0; l < COUNT; l++) {
        layers[l].name = names[l];
        layers[l].most_splits = 4;
    }
}

// Whole sequences, one micro-batch after the other.
struct plain {
    struct weir_layer layers[COUNT];
    float parameters[COUNT], gradients[COUNT], values[COUNT][POSITIONS], saved[COUNT][POSITIONS];
    float slopes[COUNT][2 * POSITIONS];
};

static float plain_step(struct plain *plain, uint64_t step, float rate)
{
    float sum = 0;
    memset(plain->gradients, 0, sizeof plain->gradients);
    for (uint32_t i = 0; i < MICRO_BATCHES; i++) {
        float loss = 0;
        struct weir_pass passes[COUNT];
        for (int l = 0; l < COUNT; l++) {
            passes[l] = (struct weir_pass){
                .step = step, .micro_batch = i, .parameters = &plain->parameters[l],
                .gradients = &plain->gradients[l], .input = l > 0 ? plain->values[l - 1] : NULL,
                .output = plain->values[l], .saved = plain->saved[l], .loss = &loss,
                .held = plain->slopes[l], .output_gradient = plain->slopes[l],
                .input_gradient = l > 0 ? plain->slopes[l - 1] : NULL,
            };
            assert_true(plain->layers[l].forward(NULL, &passes[l], NULL));
        }
        for (int l = COUNT - 1; l > 0; l--) {
            assert_true(plain->layers[l].backward_input(NULL, &passes[l], NULL));
            assert_true(plain->layers[l].backward_weight(NULL, &passes[l], NULL));
        }
        sum += loss;
    }
    for (int l = 1; l < COUNT - 1; l++)
        plain->parameters[l] -= rate * plain->gradients[l];
    return sum / MICRO_BATCHES;
}

static struct weir_plan *plan_of(const struct weir_layer *layers, uint32_t ranks)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile =
        weir_profile_layers(layers, COUNT, WEIR_OPTIONS(profile, .model = "echoes"), &error);
    assert_good(profile, error);
    const struct weir_partition_options planning = { .size = sizeof planning, .cluster = "3 devices, 1MiB, 10GB/s 1us",
                                                     .schedule = "seq1f1b", .ranks = ranks,
                                                     .micro_batches = MICRO_BATCHES, .optimizer = "sgd" };
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan, error);
    weir_profile_free(profile);
    return plan;
}

static void trains_as_plain(uint32_t ranks)
{
    struct weir_error error = { 0 };
    struct plain plain = { .parameters = { 0, 0.5f, 0.5f, 0.5f, 0 } };
    fill(plain.layers);
    struct weir_plan *plan = plan_of(plain.layers, ranks);
    const struct weir_runtime_options running = { .size = sizeof running, .rate = 0.125f };
    struct weir_runtime *runtime = weir_runtime_create(plan, plain.layers, COUNT, &running, &error);
    assert_good(runtime, error);
    for (uint64_t step = 0; step < 5; step++) {
        struct weir_result result;
        assert_good(weir_runtime_step(runtime, &result, &error), error);
        const float loss = plain_step(&plain, step, running.rate);
        assert_true(fabs(result.loss - (double)loss) <= 1e-5 * (double)loss);
        for (uint32_t l = 1; l < COUNT - 1; l++) {
            float parameter = 0;
            assert_good(weir_runtime_read(runtime, l, &parameter, &error), error);
            assert_true(fabsf(parameter - plain.parameters[l]) <= 1e-5f);
        }
    }
    weir_runtime_free(runtime);
    weir_plan_free(plan);
}

static void parts_hear_what_earlier_parts_have_said(void **state)
{
    (void)state;
    trains_as_plain(2);
    trains_as_plain(3);
}

// An auxiliary loss of a part: the sum of what it hands on. Its gradient is of no interest here.
static bool telling_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const struct part part = part_of(pass);
    float sum = 0;
    if (!echo_forward(self, pass, error))
        return false;
    for (size_t i = 0; i < part.end - part.first; i++)
        sum += ((const float *)pass->output)[i];
    if (pass->auxiliary_loss)
        *pass->auxiliary_loss = sum;
    return true;
}

// The first step of a plain loop, of which layer b (number 2) tells.
static void tell_plain(const struct plain *plain, uint32_t micro_batch, uint32_t splits, float *loss)
{
    float values[COUNT][POSITIONS], saved[POSITIONS];
    *loss = 0;
    for (int l = 0; l < 3; l++)
        plain->layers[l].forward(NULL, &(struct weir_pass){
            .micro_batch = micro_batch, .parameters = &plain->parameters[l], .output = values[l], .saved = saved,
            .input = l > 0 ? values[l - 1] : NULL }, NULL);
    for (uint32_t s = 0; s < splits; s++) {
        float sum = 0;
        for (size_t t = s * POSITIONS / splits; t < (s + 1) * POSITIONS / splits; t++)
            sum += values[2][t];
        *loss = s > 0 ? *loss + sum : sum;
    }
}

static void auxiliary_losses_of_parts_add_up(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct plain plain = { .parameters = { 0, 0.5f, 0.5f, 0.5f, 0 } };
    fill(plain.layers);
    plain.layers[2].forward = telling_forward;
    plain.layers[2].has_auxiliary_loss = true;
    struct weir_plan *plan = plan_of(plain.layers, 3);
    assert_good(weir_verify(plan, plain.layers, COUNT, NULL, 2, &error), error);
    for (int is_apart = 0; is_apart < 2; is_apart++) {  // a process group of three
        float found[MICRO_BATCHES], told[MICRO_BATCHES], whole[MICRO_BATCHES], evaluated[MICRO_BATCHES];
        struct weir_runtime *runtime = weir_runtime_create(
            plan, plain.layers, COUNT, WEIR_OPTIONS(runtime, .device = is_apart ? "cpu:queued,cpu:queued,cpu:queued"
                                                                                : NULL), &error);
        assert_good(runtime, error);
        assert_good(weir_runtime_evaluate(runtime, WEIR_OPTIONS(evaluate, .step = 0, .micro_batches = MICRO_BATCHES,
                                                                .auxiliary_losses = evaluated), &error), error);
        assert_good(weir_runtime_step(runtime, NULL, &error), error);
        assert_good(weir_runtime_auxiliary_losses(runtime, 2, found, &error), error);
        for (uint32_t m = 0; m < MICRO_BATCHES; m++) {
            tell_plain(&plain, m, 4, &told[m]);
            tell_plain(&plain, m, 1, &whole[m]);
        }
        assert_memory_equal(found, told, sizeof told);
        assert_memory_equal(evaluated, whole, sizeof whole);
        weir_runtime_free(runtime);
    }
    weir_plan_free(plan);
}

static void layers_in_parts_pass_the_check_as_a_whole(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[COUNT];
    fill(layers);
    assert_good(weir_layers_check(layers, COUNT, WEIR_OPTIONS(check_layers, .loss_share = 1), &error), error);
}

// Less of it is saved than parts have in common.
static void what_is_carried_is_saved(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_layer layers[COUNT];
    fill(layers);
    layers[2].saved_bytes = 256;
    assert_null(weir_profile_layers(layers, COUNT, NULL, &error));
    assert_error(error, "layer 2 (b): shared_by_parts_bytes: 1024 is more than saved_bytes, 256, of which it is a"
                        " part");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_hear_what_earlier_parts_have_said),
        cmocka_unit_test(auxiliary_losses_of_parts_add_up),
        cmocka_unit_test(layers_in_parts_pass_the_check_as_a_whole),
        cmocka_unit_test(what_is_carried_is_saved),
    };
    return cmocka_run_group_tests_name("weir_splits", tests, NULL, NULL);
}
