// A trainer of your own on Weir: a small network in plain C, which uses only Weir's header. It lets Weir check its
// layers, profiles them, and plans them onto two devices that are too small to keep everything. Then it simulates the
// plan, trains by it, and compares the weights with those of a plain loop, bit for bit. It is C, and C++20 as well,
// which needs the casts.
//
//     data --> dense --> dense --> dense --> dense --> dense --> dense --> loss
//     x        tanh(w x + b)                                               the mean of (y - target)^2 / 2
//
// A batch of a step is MICRO_BATCHES times ROWS samples of WIDTH numbers; target is a rotation of the sines of x.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir.h"

enum { ROWS = 64, WIDTH = 32, SIZE = ROWS * WIDTH, DENSE = 6, LAYERS = DENSE + 2, MICRO_BATCHES = 8, STEPS = 40 };
enum { WEIGHTS = WIDTH * WIDTH, PARAMETERS = WEIGHTS + WIDTH };  // of a dense layer: w, then b

// A power of two: the product with it is exact. It therefore does not matter which machine instructions subtract it
// from a weight.
static const float rate = 0.25f;

// --- data ------------------------------------------------------------------------

// Step and micro-batch determine the data, so each rank can make it and no rank has to send it.
static void make_data(uint64_t step, uint32_t micro_batch, float *x)
{
    uint32_t state = (uint32_t)step * 2654435761u + micro_batch * 40503u + 1;
    for (int i = 0; i < SIZE; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / (float)(1 << 23) - 1;
    }
}

static void make_target(uint64_t step, uint32_t micro_batch, float *target)
{
    float x[SIZE];
    make_data(step, micro_batch, x);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < WIDTH; i++)
            target[row * WIDTH + i] = 0.5f * sinf(x[row * WIDTH + (i + 1) % WIDTH]);
}

static bool data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    make_data(pass->step, pass->micro_batch, (float *)pass->output);
    return true;
}

static bool nothing_to_do(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

// --- a dense layer -------------------------------------------------------------------

static bool dense_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *w = (const float *)pass->parameters, *b = w + WEIGHTS, *x = (const float *)pass->input;
    float *y = (float *)pass->output, *saved = (float *)pass->saved;
    for (int row = 0; row < ROWS; row++) {
        float *out = y + row * WIDTH;
        memcpy(out, b, WIDTH * sizeof *b);
        for (int i = 0; i < WIDTH; i++)
            for (int j = 0; j < WIDTH; j++)
                out[j] += x[row * WIDTH + i] * w[i * WIDTH + j];
        for (int j = 0; j < WIDTH; j++)
            saved[row * WIDTH + j] = out[j] = tanhf(out[j]);
    }
    return true;
}

// In `held`, the gradient of the sums follows the output's gradient, for the weights.
static float *sums_of(void *held)
{
    return (float *)held + SIZE;
}

static bool dense_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *w = (const float *)pass->parameters, *y = (const float *)pass->saved;
    const float *dy = (const float *)pass->output_gradient;
    float *dx = (float *)pass->input_gradient, *sums = sums_of(pass->held);
    for (int i = 0; i < SIZE; i++)
        sums[i] = dy[i] * (1 - y[i] * y[i]);
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < WIDTH; i++) {
            float sum = 0;
            for (int j = 0; j < WIDTH; j++)
                sum += sums[row * WIDTH + j] * w[i * WIDTH + j];
            dx[row * WIDTH + i] = sum;
        }
    }
    return true;
}

static bool dense_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = (const float *)pass->input, *sums = sums_of(pass->held);
    float *dw = (float *)pass->gradients, *db = dw + WEIGHTS;
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < WIDTH; i++)
            for (int j = 0; j < WIDTH; j++)
                dw[i * WIDTH + j] += x[row * WIDTH + i] * sums[row * WIDTH + j];
        for (int j = 0; j < WIDTH; j++)
            db[j] += sums[row * WIDTH + j];
    }
    return true;
}

static bool dense_initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)queue;
    (void)error;
    uint32_t state = (uint32_t)(uintptr_t)(*(const int *)self) * 7919u + 17;
    float *w = (float *)parameters;
    for (int i = 0; i < WEIGHTS; i++) {
        state = state * 1664525u + 1013904223u;
        w[i] = ((float)(state >> 8) / (float)(1 << 23) - 1) * 0.35f;
    }
    memset(w + WEIGHTS, 0, WIDTH * sizeof *w);
    return true;
}

// --- the loss --------------------------------------------------------------------------

static bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *y = (const float *)pass->input;
    float target[SIZE], sum = 0;
    make_target(pass->step, pass->micro_batch, target);
    for (int i = 0; i < SIZE; i++)
        sum += (y[i] - target[i]) * (y[i] - target[i]) / 2;
    if (pass->loss)
        *pass->loss = sum / (float)ROWS;
    return true;
}

static bool loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *y = (const float *)pass->input;
    float target[SIZE], *dx = (float *)pass->input_gradient;
    const float share = pass->share / (float)ROWS;  // of a sample in the mean over the step
    make_target(pass->step, pass->micro_batch, target);
    for (int i = 0; i < SIZE; i++)
        dx[i] = (y[i] - target[i]) * share;
    return true;
}

// --- the layers, told to Weir ----------------------------------------------------------------

static const struct weir_layer data_layer = {
    .name = "data", .kind = "data", .output_bytes = SIZE * sizeof(float),
    .forward = data_forward, .backward_input = nothing_to_do, .backward_weight = nothing_to_do,
};

static const struct weir_layer dense_layer = {
    .kind = "dense",
    .parameter_bytes = PARAMETERS * sizeof(float),
    .output_bytes = SIZE * sizeof(float),
    .saved_bytes = SIZE * sizeof(float),        // y
    .input_kept = WEIR_INPUT_KEPT_WEIGHT,       // x, for dw
    .held_for_weight_bytes = 2 * SIZE * sizeof(float),  // the output's gradient, and that of the sums
    .flops = 2 * (uint64_t)ROWS * WEIGHTS,
    .forward = dense_forward,
    .backward_input = dense_backward_input,
    .backward_weight = dense_backward_weight,
    .initialize = dense_initialize,
};

static const struct weir_layer loss_layer = {
    .name = "loss", .kind = "loss", .input_kept = WEIR_INPUT_KEPT_BOTH,
    .forward = loss_forward, .backward_input = loss_backward_input, .backward_weight = nothing_to_do,
};

static void fill_layers(struct weir_layer layers[LAYERS], char names[DENSE][24], int numbers[DENSE])
{
    layers[0] = data_layer;
    for (int i = 0; i < DENSE; i++) {
        numbers[i] = i;
        snprintf(names[i], sizeof names[i], "dense%d", i);
        layers[1 + i] = dense_layer;
        layers[1 + i].name = names[i];
        layers[1 + i].self = &numbers[i];
    }
    layers[LAYERS - 1] = loss_layer;
}

// --- the plain loop that the pipeline has to equal ---------------------------------------------

struct plain {
    float parameters[LAYERS][PARAMETERS], gradients[LAYERS][PARAMETERS];
    float y[LAYERS][SIZE], saved[LAYERS][SIZE], dy[LAYERS][SIZE], held[2 * SIZE];
};

static void plain_micro_batch(struct plain *plain, const struct weir_layer *layers, uint64_t step, uint32_t micro_batch)
{
    for (int l = 0; l < LAYERS; l++) {
        const struct weir_pass pass = {
            .step = step, .micro_batch = micro_batch, .parameters = plain->parameters[l],
            .input = l > 0 ? plain->y[l - 1] : NULL, .output = plain->y[l], .saved = plain->saved[l] };
        layers[l].forward(layers[l].self, &pass, NULL);
    }
    for (int l = LAYERS - 1; l >= 0; l--) {
        const struct weir_pass pass = {
            .step = step, .micro_batch = micro_batch, .micro_batches = MICRO_BATCHES,
            .share = 1.0f / (float)MICRO_BATCHES, .parameters = plain->parameters[l],
            .gradients = plain->gradients[l], .input = l > 0 ? plain->y[l - 1] : NULL,
            .input_gradient = l > 0 ? plain->dy[l - 1] : NULL, .output_gradient = plain->dy[l],
            .saved = plain->saved[l], .held = plain->held };
        layers[l].backward_input(layers[l].self, &pass, NULL);
        layers[l].backward_weight(layers[l].self, &pass, NULL);
    }
}

static void plain_train(struct plain *plain, const struct weir_layer *layers)
{
    memset(plain, 0, sizeof *plain);
    for (int l = 1; l <= DENSE; l++)
        layers[l].initialize(layers[l].self, NULL, plain->parameters[l], NULL);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < MICRO_BATCHES; i++)
            plain_micro_batch(plain, layers, step, i);
        for (int l = 1; l <= DENSE; l++)
            for (int i = 0; i < PARAMETERS; i++)
                plain->parameters[l][i] -= rate * plain->gradients[l][i];
        memset(plain->gradients, 0, sizeof plain->gradients);
    }
}

// --- the road ---------------------------------------------------------------------------------------

// Plans twice: with room for everything, and with nine tenths of what that took.
static struct weir_plan *make_plan(const struct weir_profile *profile, struct weir_error *error)
{
    struct weir_partition_options options = { .size = sizeof options, .cluster = "2 devices, 1GiB, 10GB/s 1us",
                                              .schedule = "1f1b", .micro_batches = MICRO_BATCHES, .optimizer = "sgd" };
    struct weir_plan *roomy = weir_partition(profile, &options, error);
    uint64_t most = 0;
    for (size_t s = 0; roomy && s < weir_plan_stage_count(roomy); s++)
        if (weir_plan_stage(roomy, s).peak_bytes > most)
            most = weir_plan_stage(roomy, s).peak_bytes;
    weir_plan_free(roomy);
    char cluster[100];
    snprintf(cluster, sizeof cluster, "2 devices, %lluB, 10GB/s 1us", (unsigned long long)(most / 10 * 9));
    options.cluster = cluster;
    return roomy ? weir_partition(profile, &options, error) : NULL;
}

static bool print_and_free(char *text)
{
    const bool is_there = text != NULL;
    if (is_there)
        fputs(text, stdout);
    free(text);
    return is_there;
}

static bool train(struct weir_runtime *runtime, struct weir_error *error)
{
    struct weir_result first = { 0 }, last = { 0 };
    for (int step = 0; step < STEPS; step++)
        if (!weir_runtime_step(runtime, step == 0 ? &first : &last, error))
            return false;
    printf("loss %.4f at the first step, %.4f at the last; %llu bytes on 2 ranks\n", first.loss, last.loss,
           (unsigned long long)last.allocated_bytes);
    if (last.loss < first.loss / 2)
        return true;
    error->code = 1;
    snprintf(error->text, sizeof error->text, "the loss did not fall by half");
    return false;
}

static bool compare(const struct weir_runtime *runtime, const struct plain *plain, struct weir_error *error)
{
    static float parameters[PARAMETERS];
    for (uint32_t l = 1; l <= DENSE; l++) {
        if (!weir_runtime_read(runtime, l, parameters, error))
            return false;
        if (memcmp(parameters, plain->parameters[l], sizeof parameters) != 0) {
            error->code = 1;
            snprintf(error->text, sizeof error->text, "layer %u differs from the plain loop's", l);
            return false;
        }
    }
    printf("the pipeline's weights equal the plain loop's, bit for bit\n");
    return true;
}

static bool run(const struct weir_layer *layers, struct plain *plain, struct weir_error *error)
{
    const struct weir_profile_options profile_options = { .size = sizeof profile_options, .model = "own",
                                                          .micro_batch = ROWS };
    const struct weir_runtime_options runtime_options = { .size = sizeof runtime_options, .rate = rate };
    if (!weir_layers_check(layers, LAYERS, NULL, error))
        return false;
    struct weir_profile *profile = weir_profile_layers(layers, LAYERS, &profile_options, error);
    struct weir_plan *plan = profile ? make_plan(profile, error) : NULL;
    struct weir_simulation *simulation = plan ? weir_plan_simulate(plan, error) : NULL;
    bool good = simulation && print_and_free(weir_plan_text(plan, error))
             && print_and_free(weir_simulation_document(simulation, error));
    weir_simulation_free(simulation);
    struct weir_runtime *runtime = good ? weir_runtime_create(plan, layers, LAYERS, &runtime_options, error) : NULL;
    good = runtime && train(runtime, error);
    if (good) {
        plain_train(plain, layers);
        good = compare(runtime, plain, error);
    }
    weir_runtime_free(runtime);
    weir_plan_free(plan);
    weir_profile_free(profile);
    return good;
}

int main(void)
{
    static struct plain plain;
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    char names[DENSE][24];
    int numbers[DENSE];
    fill_layers(layers, names, numbers);
    printf("Weir %s\n", weir_version());
    if (run(layers, &plain, &error))
        return 0;
    fprintf(stderr, "own_trainer: %s\n", error.text);
    return error.code;
}
