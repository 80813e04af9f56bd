// The least model that a trainer's author could write: layers of one parameter each, in plain C, and the plain loop that
// trains them.
#ifndef TESTS_API_SCALE_LAYERS_H
#define TESTS_API_SCALE_LAYERS_H

#include <string.h>

#include "api/weir.h"
#include "tests/test.h"

// Layers of one number per row: data, a few of y = p x, and the loss x x / 2.
enum { ROWS = 64, LAYERS = 5, BYTES = ROWS * sizeof(float) };

static inline bool data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = (float)(i % 3 + 1);
    return true;
}

static inline bool nothing(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static inline bool scale_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    if (self && *(uint64_t *)self == pass->step) {
        *error = (struct weir_error){ 3, "the lights went out" };
        return false;
    }
    const float *x = pass->input, p = *(const float *)pass->parameters;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = p * x[i];
    return true;
}

static inline bool scale_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *dy = pass->output_gradient, p = *(const float *)pass->parameters;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = p * dy[i];
    return true;
}

static inline bool scale_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = pass->input, *dy = pass->held;
    for (int i = 0; i < ROWS; i++)
        *(float *)pass->gradients += x[i] * dy[i];
    return true;
}

static inline bool scale_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)self;
    (void)queue;
    (void)error;
    *(float *)parameters = 0.5f;
    return true;
}

static inline bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = pass->input;
    float sum = 0;
    for (int i = 0; i < ROWS; i++)
        sum += x[i] * x[i] / 2;
    if (pass->loss)
        *pass->loss = sum / ROWS;
    return true;
}

static inline bool loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = ((const float *)pass->input)[i] / ROWS;
    return true;
}

static const struct weir_layer scale = {
    .kind = "scale", .parameter_bytes = sizeof(float), .output_bytes = BYTES, .input_kept = WEIR_INPUT_KEPT_WEIGHT,
    .held_for_weight_bytes = BYTES, .forward = scale_forward, .backward_input = scale_backward_input,
    .backward_weight = scale_backward_weight, .initialize = scale_initialize,
};

static inline void fill(struct weir_layer layers[LAYERS])
{
    static const char *const names[] = { "data", "a", "b", "c", "loss" };
    layers[0] = (struct weir_layer){ .kind = "data", .output_bytes = BYTES, .forward = data_forward,
                                     .backward_input = nothing, .backward_weight = nothing };
    for (int l = 1; l < LAYERS - 1; l++)
        layers[l] = scale;
    layers[LAYERS - 1] = (struct weir_layer){ .kind = "loss", .input_kept = WEIR_INPUT_KEPT_BOTH,
                                              .forward = loss_forward, .backward_input = loss_backward_input,
                                              .backward_weight = nothing };
    for (int l = 0; l < LAYERS; l++)
        layers[l].name = names[l];
}

static inline struct weir_profile *profile_of(const struct weir_layer *layers)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile =
        weir_profile_layers(layers, LAYERS, WEIR_OPTIONS(profile, .model = "scales"), &error);
    assert_good(profile, error);
    return profile;
}

static inline struct weir_plan *plan_of(const struct weir_layer *layers, const char *schedule)
{
    struct weir_error error = { 0 };
    struct weir_profile *profile = profile_of(layers);
    const struct weir_partition_options planning = { .size = sizeof planning, .cluster = "2 devices, 1MiB, 10GB/s 1us",
                                                     .schedule = schedule, .micro_batches = 4, .optimizer = "sgd" };
    struct weir_plan *plan = weir_partition(profile, &planning, &error);
    assert_good(plan, error);
    weir_profile_free(profile);
    return plan;
}

// Others for each step and micro-batch.
static inline bool changing_data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = (float)((i + pass->step * 5 + pass->micro_batch * 3) % 7) / 4 - 0.5f;
    return true;
}

// How a plain loop goes through a chain of layers, in memory of its own.
struct walk {
    const struct weir_layer *layers;
    int count;
    float *parameters, *gradients;
    float (*values)[ROWS], (*slopes)[ROWS];  // each layer's output, and its gradient
};

// What a layer may read and write, forward and backward.
static inline struct weir_pass walk_pass(const struct walk *walk, int l)
{
    return (struct weir_pass){
        .parameters = &walk->parameters[l], .gradients = &walk->gradients[l],
        .input = l > 0 ? walk->values[l - 1] : NULL, .input_gradient = l > 0 ? walk->slopes[l - 1] : NULL,
        .output = walk->values[l], .output_gradient = walk->slopes[l], .held = walk->slopes[l],
    };
}

static inline void walk_backward(const struct walk *walk, float share)
{
    for (int l = walk->count - 1; l > 0; l--) {
        const struct weir_layer *layer = &walk->layers[l];
        struct weir_pass pass = walk_pass(walk, l);
        pass.share = share;
        assert_true(layer->backward_input(layer->self, &pass, NULL));
        assert_true(layer->backward_weight(layer->self, &pass, NULL));
    }
}

// The same layers, one micro-batch after the other, in memory of their own.
struct plain {
    struct weir_layer layers[LAYERS];
    float parameters[LAYERS], gradients[LAYERS], values[LAYERS][ROWS], slopes[LAYERS][ROWS];
};

static inline void begin_plain(struct plain *plain)
{
    *plain = (struct plain){ .parameters = { 0, 0.5f, 0.5f, 0.5f, 0 } };
    fill(plain->layers);
    plain->layers[0].forward = changing_data_forward;
}

static inline struct walk plain_walk(struct plain *plain)
{
    return (struct walk){ plain->layers, LAYERS, plain->parameters, plain->gradients, plain->values, plain->slopes };
}

static inline float plain_loss(struct plain *plain, uint64_t step, uint32_t micro_batch)
{
    float loss = 0;
    const struct walk walk = plain_walk(plain);
    for (int l = 0; l < LAYERS; l++) {
        struct weir_pass pass = walk_pass(&walk, l);
        pass.step = step;
        pass.micro_batch = micro_batch;
        pass.loss = &loss;
        assert_true(plain->layers[l].forward(plain->layers[l].self, &pass, NULL));
    }
    return loss;
}

static inline void plain_step(struct plain *plain, uint64_t step, float rate)
{
    const struct walk walk = plain_walk(plain);
    memset(plain->gradients, 0, sizeof plain->gradients);
    for (uint32_t i = 0; i < 4; i++) {
        plain_loss(plain, step, i);
        walk_backward(&walk, 0);  // the loss's own backward knows no share
    }
    for (int l = 1; l < LAYERS - 1; l++)
        plain->parameters[l] -= rate * plain->gradients[l];
}

static inline void is_as_plain(const struct weir_runtime *runtime, const struct plain *plain)
{
    struct weir_error error = { 0 };
    for (uint32_t l = 1; l < LAYERS - 1; l++) {
        float parameter = 0;
        assert_good(weir_runtime_read(runtime, l, &parameter, &error), error);
        assert_memory_equal(&parameter, &plain->parameters[l], sizeof parameter);
    }
}

#endif
