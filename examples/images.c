// Images on Weir: a residual network in plain C that learns Fashion-MNIST, with batch norms, moved and mirrored
// pictures, a warm-up, clipping, an evaluation after each epoch, and a checkpoint of the best weights.
//
//     images profile FILE             measures the layers; `weir partition FILE ...` then makes a plan
//     images verify PLAN              checks the layers, and compares the pipeline with a sequential run
//     images train PLAN STEPS FOLDER  trains up to so many steps; keeps the best and the last in FOLDER
//     images train PLAN STEPS FOLDER NOW   ends after so many of them
//
// IMAGES_DEVICE names a device other than the usual one, such as "cpu:queued,mpi".
//
//     data - conv norm relu - conv norm relu - conv norm + - conv norm relu - conv norm relu - conv norm + - conv - loss
//                           `--------------------------'                    `--------------------------'
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "image_layers.h"
#include "weir.h"

enum { CLASSES = 10, SIDE = 28, PIXELS = SIDE * SIDE, TRAIN = 60000, TEST = 10000, LAYERS = 15 };

static unsigned char pictures[2][TRAIN][PIXELS], labels[2][TRAIN];  // to learn from; held out
static uint64_t in_step;                                            // pictures

// --- pictures ------------------------------------------------------------------------------------

static void load(const char *name, int skip, void *to, unsigned bytes)
{
    char path[200];
    snprintf(path, sizeof path, "/usr/share/datasets/fashion-mnist/%s-ubyte.gz", name);
    gzFile file = gzopen(path, "rb");
    if (file && gzseek(file, skip, SEEK_SET) == skip && gzread(file, to, bytes) == (int)bytes && gzclose(file) == Z_OK)
        return;
    fprintf(stderr, "images: %s cannot be read; it is in the package dataset-fashion-mnist\n", path);
    exit(3);
}

// A picture's number follows from its place in the run alone, so that no plan changes it. The order of each epoch is
// another one: powers of 7 have no divisor in common with TRAIN.
static uint32_t picture_of(const struct weir_pass *pass, int lane, uint64_t *place)
{
    uint64_t factor = 7;
    *place = (pass->is_training ? pass->step * in_step : 0) + (uint64_t)pass->micro_batch * PICTURES + (uint64_t)lane;
    for (uint64_t i = 0; i < 9 + *place / TRAIN; i++)
        factor = factor * 7 % TRAIN;
    return (uint32_t)(pass->is_training ? *place % TRAIN * factor % TRAIN : *place % TEST);
}

// In training a picture is moved by up to one pixel, and half of them are mirrored.
static bool data_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    for (int lane = 0; lane < PICTURES; lane++) {
        uint64_t place;
        const unsigned char *from = pictures[!pass->is_training][picture_of(pass, lane, &place)];
        const uint64_t chance = pass->is_training ? (place + 1) * 0x9e3779b97f4a7c15u >> 40 : 4;
        for (int p = 0; p < PIXELS; p++) {
            const int column = pass->is_training && chance / 9 % 2 ? SIDE - 1 - p % SIDE : p % SIDE;
            const int x = column + (int)(chance / 3 % 3) - 1, y = p / SIDE + (int)(chance % 3) - 1;
            const bool is_inside = y >= 0 && y < SIDE && x >= 0 && x < SIDE;
            ((float *)pass->output)[p * PICTURES + lane] = is_inside ? (float)from[y * SIDE + x] / 255 : 0;
        }
    }
    return true;
}

// --- loss ------------------------------------------------------------------------------------------

// The probabilities of the classes, whose scores are means over the pixels; returns the picture's label.
static int classify(const struct shape *s, const struct weir_pass *pass, int lane, float chances[CLASSES])
{
    uint64_t place;
    const int pixels = s->side * s->side;
    float sum = 0;
    for (int k = 0; k < CLASSES; k++) {
        chances[k] = 0;
        for (int p = 0; p < pixels; p++)
            chances[k] += ((const lanes *)pass->input)[k * pixels + p][lane];
        sum += chances[k] = expf(chances[k] / (float)pixels);
    }
    for (int k = 0; k < CLASSES; k++)
        chances[k] /= sum;
    return labels[!pass->is_training][picture_of(pass, lane, &place)];
}

static bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    float loss = 0, chances[CLASSES];
    for (int lane = 0; lane < PICTURES; lane++) {
        const int label = classify(self, pass, lane, chances);
        int best = 0;
        for (int k = 1; k < CLASSES; k++)
            best = chances[k] > chances[best] ? k : best;
        loss -= logf(chances[label]) / PICTURES;
        if (pass->metrics)
            pass->metrics[0] += best == label;
    }
    if (pass->loss)
        *pass->loss = loss;
    return true;
}

static bool loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    const int pixels = ((struct shape *)self)->side * ((struct shape *)self)->side;
    float chances[CLASSES];
    for (int lane = 0; lane < PICTURES; lane++) {
        const int label = classify(self, pass, lane, chances);
        for (int i = 0; i < CLASSES * pixels; i++)
            ((lanes *)pass->input_gradient)[i][lane] =
                (chances[i / pixels] - (float)(i / pixels == label)) * pass->share / (float)(pixels * PICTURES);
    }
    return true;
}

// --- the model ---------------------------------------------------------------------------------------

static struct shape shapes[LAYERS];
static const struct weir_layer *skips[2][2];  // what the two sums read

static void build(struct weir_layer layers[LAYERS])
{
    static const char *const names[LAYERS] = { "data", "conv0", "norm0", "conv1", "norm1", "conv2", "norm2", "conv3",
                                               "norm3", "conv4", "norm4", "conv5", "norm5", "scores", "loss" };
    static const int channels[LAYERS] = { 1, 16, 16, 16, 16, 16, 16, 32, 32, 32, 32, 32, 32, CLASSES };
    static const int sides[LAYERS] = { SIDE, 14, 14, 14, 14, 14, 14, 7, 7, 7, 7, 7, 7, 7 };
    for (int l = 0; l < LAYERS; l++) {
        const int before = l > 0 ? l - 1 : 0;
        const uint64_t bytes = sizeof(lanes) * (uint64_t)(channels[l] * sides[l] * sides[l]);
        shapes[l] = (struct shape){ channels[before], sides[before], channels[l], sides[l], l % 6 != 0 };
        layers[l] = l % 2 ? conv_layer(&shapes[l], bytes) : norm_layer(&shapes[l], bytes);
        layers[l].name = names[l];
    }
    layers[0] = (struct weir_layer){ .name = names[0], .kind = "data", .output_bytes = sizeof(lanes) * PIXELS,
                                     .forward = data_forward, .backward_input = nothing, .backward_weight = nothing };
    layers[14] = (struct weir_layer){ .name = names[14], .kind = "loss", .self = &shapes[14], .metric_count = 1,
                                      .input_kept = WEIR_INPUT_KEPT_BOTH, .forward = loss_forward,
                                      .backward_input = loss_backward_input, .backward_weight = nothing };
    layers[1].has_constant_inputs = true;
    for (int i = 0; i < 2; i++) {  // norm2 reads norm0 as well, and norm5 norm3
        skips[i][0] = &layers[6 * i + 5];
        skips[i][1] = &layers[6 * i + 2];
        layers[6 * i + 6].inputs = skips[i];
        layers[6 * i + 6].input_count = 2;
    }
}

// --- training ------------------------------------------------------------------------------------------

struct training {
    struct weir_runtime *runtime;
    uint64_t steps, until;
    double best;  // part of the held-out pictures
    struct weir_error error;
};

// Ten steps of warm-up, then half a cosine.
static float rate_of(void *self, uint64_t step)
{
    const float part = (float)step / (float)((struct training *)self)->steps;
    return 0.1f * fminf((float)(step + 1) / 10, 0.5f + 0.5f * cosf(3.14159265f * part));
}

// After each epoch, and at the end.
static bool look(void *self, uint64_t step, const struct weir_result *result)
{
    struct training *training = self;
    uint64_t right = 0;
    char words[100];
    uint32_t processes;
    if ((step + 1) * in_step / TRAIN == step * in_step / TRAIN && step + 1 < training->until)
        return true;
    bool good = weir_runtime_evaluate(training->runtime, WEIR_OPTIONS(evaluate, .micro_batches = TEST / PICTURES,
                                                                      .metrics = &right), &training->error);
    snprintf(words, sizeof words, "%.4f of the held-out pictures after step %llu", (double)right / TEST,
             (unsigned long long)step + 1);
    if (good && weir_runtime_process(training->runtime, &processes) == 0)
        printf("%s, loss %.6f, norm %.4f, %llu of %llu right in the step\n", words, result->loss,
               result->gradient_norm, (unsigned long long)result->metrics[0], (unsigned long long)in_step);
    const bool is_better = (double)right / TEST > training->best;
    if (good && is_better)
        good = weir_runtime_set_words(training->runtime, words, &training->error);
    if (good && (is_better || step + 1 == training->until))
        good = weir_runtime_save(training->runtime, &training->error);
    training->best = fmax(training->best, (double)right / TEST);
    return good;
}

static bool train(const struct weir_plan *plan, const struct weir_layer *layers, char **words, struct weir_error *error)
{
    const struct weir_checkpoint_options keeping = { .size = sizeof keeping, .folder = words[1], .keep = 2,
                                                     .resume = true, .data = "Fashion-MNIST" };
    struct training training = { .steps = strtoull(words[0], NULL, 10) };
    training.until = words[2] ? strtoull(words[2], NULL, 10) : training.steps;
    training.runtime = weir_runtime_create(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .momentum = 0.9f, .clip = 1,
                                            .device = getenv("IMAGES_DEVICE"), .checkpoints = &keeping), error);
    if (!training.runtime)
        return false;
    const uint64_t made = weir_runtime_steps(training.runtime);
    training.best = strtod(weir_runtime_words(training.runtime), NULL);
    bool good = made >= training.until
        || weir_runtime_train(training.runtime, WEIR_OPTIONS(train, .steps = training.until - made, .rate = rate_of,
                                                             .after = look, .self = &training), NULL, error);
    if (good && training.error.code != 0) {
        *error = training.error;
        good = false;
    }
    weir_runtime_free(training.runtime);
    return good;
}

static bool profile(const struct weir_layer *layers, const char *path, struct weir_error *error)
{
    struct weir_profile *profile = weir_profile_layers(layers, LAYERS, WEIR_OPTIONS(profile, .model = "images"), error);
    const bool good = profile && weir_profile_save(profile, path, error);
    weir_profile_free(profile);
    return good;
}

int main(int argc, char **argv)
{
    struct weir_layer layers[LAYERS];
    struct weir_error error = { 0 };
    load("train-images-idx3", 16, pictures[0], sizeof pictures[0]);
    load("train-labels-idx1", 8, labels[0], sizeof labels[0]);
    load("t10k-images-idx3", 16, pictures[1], TEST * PIXELS);
    load("t10k-labels-idx1", 8, labels[1], TEST);
    build(layers);
    if (argc == 3 && strcmp(argv[1], "profile") == 0 && profile(layers, argv[2], &error))
        return 0;
    struct weir_plan *plan = argc > 2 && strcmp(argv[1], "profile") != 0 ? weir_plan_load(argv[2], &error) : NULL;
    in_step = plan ? weir_plan_micro_batches(plan) * PICTURES : 0;
    bool good = false;
    if (plan && argc == 3 && strcmp(argv[1], "verify") == 0)
        good = weir_layers_check(layers, LAYERS, NULL, &error)
            && weir_verify(plan, layers, LAYERS, WEIR_OPTIONS(runtime, .rate = 0.1f), 3, &error);
    else if (plan && argc >= 5 && strcmp(argv[1], "train") == 0)
        good = train(plan, layers, argv + 3, &error);
    weir_plan_free(plan);
    if (!good)
        fprintf(stderr, "images: %s\n", error.text[0] ? error.text : "usage: images profile|verify|train FILE ...");
    return good ? 0 : error.code ? error.code : 2;
}
