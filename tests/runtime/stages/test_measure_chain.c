#include "runtime/stages/measure_chain.h"

#include <string.h>

#include "tests/test.h"

// y = p x on four numbers, and a loss of y y / 2: small enough to follow by hand.
static bool scale_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = pass->input, *p = pass->parameters;
    for (size_t i = 0; i < 4; i++)
        ((float *)pass->output)[i] = p[i] * (x ? x[i] : (float)(i + 1));
    return true;
}

static bool scale_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    if (memcmp(pass->held, pass->output_gradient, 16) != 0) {
        strcpy(error->text, "held does not begin with the output's gradient");
        return false;
    }
    const float *p = pass->parameters, *dy = pass->output_gradient;
    for (size_t i = 0; pass->input_gradient && i < 4; i++)
        ((float *)pass->input_gradient)[i] = p[i] * dy[i];
    return true;
}

static bool scale_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = pass->input, *dy = pass->held;
    for (size_t i = 0; i < 4; i++)
        ((float *)pass->gradients)[i] += dy[i] * (x ? x[i] : (float)(i + 1));
    return true;
}

static bool scale_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)queue;
    (void)error;
    for (size_t i = 0; i < 4; i++)
        ((float *)parameters)[i] = *(const float *)self;
    return true;
}

static bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const float *x = pass->input;
    float *told = self;
    told[0] = 0;
    for (size_t i = 0; i < 4; i++)
        told[0] += x[i] * x[i] / 2;
    return true;
}

static bool loss_backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    memcpy(pass->input_gradient, pass->input, 16);
    return true;
}

static bool nothing(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static float two = 2, three = 3;

static void layers_of(struct weir_layer layers[3], float *loss)
{
    const struct weir_layer scale = {
        .kind = "scale", .parameter_bytes = 16, .output_bytes = 16, .held_for_weight_bytes = 16,
        .input_kept = WEIR_INPUT_KEPT_WEIGHT, .workspace_bytes = 300, .forward = scale_forward,
        .backward_input = scale_input, .backward_weight = scale_weight, .initialize = scale_initialize,
    };
    layers[0] = layers[1] = scale;
    layers[0].name = "first", layers[0].self = &two;
    layers[1].name = "second", layers[1].self = &three;
    layers[2] = (struct weir_layer){ .name = "loss", .kind = "loss", .input_kept = WEIR_INPUT_KEPT_BOTH, .self = loss,
                                     .forward = loss_forward, .backward_input = loss_backward,
                                     .backward_weight = nothing };
}

static void every_phase_runs_in_memory_of_its_own(void **state)
{
    (void)state;
    struct error error = { 0 };
    float loss[4] = { 0 };
    struct weir_layer layers[3];
    layers_of(layers, loss);
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct measured_chain *chain = measured_chain_create(layers, 3, device, &error);
    assert_good(chain, error);
    const struct measured *measured = measured_chain_callbacks(chain);
    assert_int_equal(measured->layer_count, 3);

    for (size_t l = 0; l < 3; l++)
        assert_good(measured->run(measured->self, l, PHASE_FORWARD, &error), error);
    assert_good(measured->wait(measured->self, &error), error);
    assert_true(loss[0] == 36 * (1 + 4 + 9 + 16) / 2);  // y = 6 x, x = 1 2 3 4

    // Fused, then split, then after a recompute: each must find what it needs.
    for (size_t l = 3; l-- > 0;)
        assert_good(measured->run(measured->self, l, PHASE_BACKWARD, &error), error);
    for (size_t l = 3; l-- > 0;) {
        assert_good(measured->run(measured->self, l, PHASE_BACKWARD_INPUT, &error), error);
        assert_good(measured->run(measured->self, l, PHASE_BACKWARD_WEIGHT, &error), error);
    }
    for (size_t l = 3; l-- > 0;)
        assert_good(measured->run(measured->self, l, PHASE_RECOMPUTE, &error), error);
    assert_good(measured->wait(measured->self, &error), error);
    measured_chain_free(chain);
    assert_int_equal(device_memory(device).current_bytes, 0);
    device_close(device);
}

static void sizes_are_those_the_device_counted(void **state)
{
    (void)state;
    struct error error = { 0 };
    float loss[4];
    struct weir_layer layers[3];
    layers_of(layers, loss);
    struct device *device = device_open("cpu", &error);
    assert_good(device, error);
    struct measured_chain *chain = measured_chain_create(layers, 3, device, &error);
    assert_good(chain, error);
    const struct measured *measured = measured_chain_callbacks(chain);
    struct profile_layer described = { 0 };
    assert_good(measured->describe(measured->self, 1, &described, &error), error);
    assert_string_equal(described.name, "second");
    assert_string_equal(described.kind, "scale");
    assert_int_equal(described.parameter_bytes, 256);
    assert_int_equal(described.workspace_bytes, 512);
    assert_int_equal(described.backward_workspace_bytes, 256);  // no fused backward: room for `held`
    assert_int_equal(described.held_for_weight_bytes, 256);
    assert_int_equal(described.input_kept, INPUT_KEPT_WEIGHT);
    assert_int_equal(described.saved_bytes, 0);
    free(described.name);
    free(described.kind);
    free(described.shapes);
    measured_chain_free(chain);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_phase_runs_in_memory_of_its_own),
        cmocka_unit_test(sizes_are_those_the_device_counted),
    };
    return cmocka_run_group_tests_name("measure_chain", tests, NULL, NULL);
}
