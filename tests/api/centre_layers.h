// The layers of scale_layers.h with some between them that keep a running mean: state without a gradient.
#ifndef TESTS_API_CENTRE_LAYERS_H
#define TESTS_API_CENTRE_LAYERS_H

#include "tests/api/scale_layers.h"

enum { BLOCKS = 4, CENTRED = 2 + 2 * BLOCKS };

static inline float mean_of(const float *x)
{
    float sum = 0;
    for (int i = 0; i < ROWS; i++)
        sum += x[i];
    return sum / ROWS;
}

// y = x less the mean of its batch, in an evaluation less the running mean.
static inline bool centre_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *x = pass->input, mean = pass->is_training ? mean_of(x) : *(const float *)pass->state;
    (void)self;
    (void)error;
    if (pass->statistics)
        *(float *)pass->statistics = mean;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->output)[i] = x[i] - mean;
    return true;
}

static inline bool centre_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const float *dy = pass->output_gradient, mean = mean_of(dy);
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = dy[i] - mean;
    return true;
}

static inline bool centre_initialize_state(void *self, void *queue, void *state, struct weir_error *error)
{
    (void)self;
    (void)queue;
    (void)error;
    *(float *)state = 0.5f;
    return true;
}

// The running mean, and how many folds there were.
static inline bool centre_fold(void *self, const struct weir_fold *fold, struct weir_error *error)
{
    float *state = fold->state, sum = 0;
    (void)self;
    (void)error;
    for (uint32_t i = 0; i < fold->count; i++)
        sum += *(const float *)fold->statistics[i];
    state[0] = 0.75f * state[0] + 0.25f * (sum / (float)fold->count);
    state[1] += 1;
    return true;
}

static const struct weir_tensor centre_states[] = { { "running_mean", 0, 1, 0 }, { "folds", 0, 1, sizeof(float) } };

static const struct weir_layer centre = {
    .kind = "centre", .output_bytes = BYTES, .state_bytes = 2 * sizeof(float), .statistics_bytes = sizeof(float),
    .states = centre_states, .state_count = 2, .forward = centre_forward, .backward_input = centre_backward_input,
    .backward_weight = nothing, .initialize_state = centre_initialize_state, .fold = centre_fold,
};

static inline bool mean_loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < ROWS; i++)
        ((float *)pass->input_gradient)[i] = ((const float *)pass->input)[i] * (pass->share / ROWS);
    return true;
}

// Data, then BLOCKS times a scale and a centre, then the loss.
static inline void fill_centred(struct weir_layer layers[CENTRED])
{
    static const char *const names[CENTRED] = { "data", "a", "ca", "b", "cb", "c", "cc", "d", "cd", "loss" };
    struct weir_layer ends[LAYERS];
    fill(ends);
    layers[0] = ends[0];
    layers[0].forward = changing_data_forward;
    for (int l = 1; l < CENTRED - 1; l++)
        layers[l] = l % 2 ? scale : centre;
    layers[CENTRED - 1] = ends[LAYERS - 1];
    layers[CENTRED - 1].backward_input = mean_loss_backward_input;
    for (int l = 0; l < CENTRED; l++)
        layers[l].name = names[l];
}

// A scale that evaluates by an average of its parameter.
static inline bool averaged_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    struct weir_pass own = *pass;
    own.parameters = pass->is_training ? pass->parameters : pass->state;
    return scale_forward(self, &own, error);
}

static inline bool averaged_fold(void *self, const struct weir_fold *fold, struct weir_error *error)
{
    float *average = fold->state;
    (void)self;
    (void)error;
    *average = 0.75f * *average + 0.25f * *(const float *)fold->parameters;
    return fold->count > 0 && !fold->statistics[0];
}

// The same layers, and each scale keeps an average.
static inline void fill_averaged(struct weir_layer layers[CENTRED])
{
    fill_centred(layers);
    for (int l = 1; l < CENTRED - 1; l += 2) {
        layers[l].forward = averaged_forward;
        layers[l].state_bytes = sizeof(float);
        layers[l].fold_reads_parameters = true;
        layers[l].initialize_state = scale_initialize;
        layers[l].fold = averaged_fold;
    }
}

#endif
