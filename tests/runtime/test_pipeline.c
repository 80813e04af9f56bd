// Pipelines of real (small) layers against plain loops over the same layers, to
// the bit, some of them with states on the host.
#include <math.h>
#include <string.h>

#include "runtime/run.h"
#include "runtime/stages/chain.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/test.h"

// --- a small model -----------------------------------------------------------------
//
//     source   y = numbers of (step, micro-batch) times p        no input
//     dense    y = tanh(p x + q)                                 keeps y; W needs x and dy (1 - y y)
//     loss     sum (x - target)^2 / 2, over all samples of a step
//
// Rows of WIDTH numbers, ROWS in a micro-batch.
enum { MOST_LAYERS = 14, WIDTH = 6, ROWS = 3, SIZE = ROWS * WIDTH, MOST_MICRO_BATCHES = 12 };
enum { DENSE_FLOATS = WIDTH * WIDTH + WIDTH };

struct layer_self {
    uint32_t number;
    float scale;  // of the loss: 1 / samples of a step
};

static float number_at(uint64_t step, uint32_t micro_batch, uint32_t i)
{
    return sinf((float)(step * 31 + micro_batch * 7 + i));
}

static bool source_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *p = pass->parameters;
    for (uint32_t i = 0; i < SIZE; i++)
        ((float *)pass->output)[i] = p[i % WIDTH] * number_at(pass->step, pass->micro_batch, i);
    return true;
}

static bool source_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static bool source_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *dy = pass->held;
    float *dp = pass->gradients;
    for (uint32_t i = 0; i < SIZE; i++)
        dp[i % WIDTH] += dy[i] * number_at(pass->step, pass->micro_batch, i);
    return true;
}

static bool dense_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *p = pass->parameters, *x = pass->input;
    float *y = pass->output, *saved = pass->saved;
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t j = 0; j < WIDTH; j++) {
            float sum = p[WIDTH * WIDTH + j];
            for (uint32_t i = 0; i < WIDTH; i++)
                sum += p[j * WIDTH + i] * x[row * WIDTH + i];
            saved[row * WIDTH + j] = y[row * WIDTH + j] = tanhf(sum);
        }
    }
    return true;
}

// The 2 SIZE floats of `held`: the output's gradient, and the sum's.
static bool dense_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *p = pass->parameters, *y = pass->saved, *dy = pass->output_gradient;
    float *dx = pass->input_gradient, *dsum = (float *)pass->held + 64;
    for (uint32_t i = 0; i < SIZE; i++)
        dsum[i] = dy[i] * (1 - y[i] * y[i]);
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            float sum = 0;
            for (uint32_t j = 0; j < WIDTH; j++)
                sum += p[j * WIDTH + i] * dsum[row * WIDTH + j];
            dx[row * WIDTH + i] = sum;
        }
    }
    return true;
}

static bool dense_backward_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)error;
    const float *x = pass->input, *dsum = (const float *)pass->held + 64;
    float *dp = pass->gradients;
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t j = 0; j < WIDTH; j++) {
            dp[WIDTH * WIDTH + j] += dsum[row * WIDTH + j];
            for (uint32_t i = 0; i < WIDTH; i++)
                dp[j * WIDTH + i] += dsum[row * WIDTH + j] * x[row * WIDTH + i];
        }
    }
    return true;
}

static float difference(const struct weir_pass *pass, uint32_t i)
{
    return ((const float *)pass->input)[i] - 0.5f * number_at(pass->step, pass->micro_batch, i + 3);
}

static bool loss_forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct layer_self *its = self;
    float sum = 0;
    for (uint32_t i = 0; i < SIZE; i++)
        sum += difference(pass, i) * difference(pass, i) / 2;
    if (pass->loss)
        *pass->loss = sum * its->scale;
    return true;
}

static bool loss_backward_input(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)error;
    const struct layer_self *its = self;
    for (uint32_t i = 0; i < SIZE && pass->input_gradient; i++)
        ((float *)pass->input_gradient)[i] = difference(pass, i) * its->scale;
    return true;
}

static bool no_weight(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self;
    (void)pass;
    (void)error;
    return true;
}

static bool initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)queue;
    (void)error;
    const struct layer_self *its = self;
    const uint32_t count = its->number == 0 ? WIDTH : DENSE_FLOATS;
    for (uint32_t i = 0; i < count; i++)
        ((float *)parameters)[i] = 0.5f * cosf((float)(its->number * 100 + i));
    return true;
}

static const struct weir_range biases = { WIDTH * WIDTH * sizeof(float), DENSE_FLOATS * sizeof(float) };

struct model {
    uint32_t count;
    struct layer_self selves[MOST_LAYERS];
    struct weir_layer layers[MOST_LAYERS];
};

static struct weir_layer layer_of(struct layer_self *self, uint32_t last)
{
    if (self->number == 0)
        return (struct weir_layer){ .name = "source", .kind = "source", .parameter_bytes = WIDTH * sizeof(float),
                                    .output_bytes = SIZE * sizeof(float), .held_for_weight_bytes = 256, .self = self,
                                    .forward = source_forward, .backward_input = source_backward_input,
                                    .backward_weight = source_backward_weight, .initialize = initialize };
    if (self->number == last)
        return (struct weir_layer){ .name = "loss", .kind = "loss", .input_kept = WEIR_INPUT_KEPT_BOTH, .self = self,
                                    .forward = loss_forward, .backward_input = loss_backward_input,
                                    .backward_weight = no_weight };
    return (struct weir_layer){ .name = "dense", .kind = "dense", .parameter_bytes = DENSE_FLOATS * sizeof(float),
                                .output_bytes = SIZE * sizeof(float), .saved_bytes = SIZE * sizeof(float),
                                .input_kept = WEIR_INPUT_KEPT_WEIGHT,
                                .held_for_weight_bytes = 256 + SIZE * sizeof(float), .undecayed = &biases,
                                .undecayed_count = 1, .self = self, .forward = dense_forward,
                                .backward_input = dense_backward_input, .backward_weight = dense_backward_weight,
                                .initialize = initialize };
}

static void model_open(struct model *model, uint32_t count, uint32_t micro_batches)
{
    model->count = count;
    for (uint32_t l = 0; l < count; l++) {
        model->selves[l] = (struct layer_self){ l, 1.0f / (float)(micro_batches * ROWS) };
        model->layers[l] = layer_of(&model->selves[l], count - 1);
    }
}

// --- the plain loop --------------------------------------------------------------------

enum { MOST_FLOATS = 64 };  // of a layer, rounded up

struct plain {
    const struct model *model;
    struct queue *queue;
    struct optimizer optimizer;
    float weights[MOST_LAYERS][MOST_FLOATS], gradients[MOST_LAYERS][MOST_FLOATS];
    float state[MOST_LAYERS][2 * MOST_FLOATS];
    float y[MOST_LAYERS][SIZE], saved[MOST_LAYERS][SIZE], dx[MOST_LAYERS + 1][SIZE], held[64 + SIZE];
    float loss[MOST_MICRO_BATCHES];
};

static void plain_open(struct plain *plain, const struct model *model, struct queue *queue,
                       const struct optimizer *optimizer)
{
    *plain = (struct plain){ .model = model, .queue = queue, .optimizer = *optimizer };
    for (uint32_t l = 0; l < model->count; l++)
        if (model->layers[l].initialize)
            model->layers[l].initialize(model->layers[l].self, queue, plain->weights[l], NULL);
}

// Forward and backward of a micro-batch with the given weights of each layer.
static void plain_pass(struct plain *plain, float *const *weights, uint64_t step, uint32_t micro_batch)
{
    const struct model *model = plain->model;
    for (uint32_t l = 0; l < model->count; l++) {
        const struct weir_pass pass = { .step = step, .micro_batch = micro_batch, .parameters = weights[l],
                                        .input = l > 0 ? plain->y[l - 1] : NULL, .output = plain->y[l],
                                        .saved = plain->saved[l], .loss = &plain->loss[micro_batch] };
        model->layers[l].forward(model->layers[l].self, &pass, NULL);
    }
    for (uint32_t l = model->count; l-- > 0;) {
        memcpy(plain->held, plain->dx[l + 1], sizeof plain->dx[0]);
        const struct weir_pass pass = { .step = step, .micro_batch = micro_batch, .parameters = weights[l],
                                        .gradients = plain->gradients[l], .input = l > 0 ? plain->y[l - 1] : NULL,
                                        .saved = plain->saved[l], .output_gradient = plain->dx[l + 1],
                                        .input_gradient = l > 0 ? plain->dx[l] : NULL, .held = plain->held };
        model->layers[l].backward_input(model->layers[l].self, &pass, NULL);
        model->layers[l].backward_weight(model->layers[l].self, &pass, NULL);
    }
}

// Layer l: from `weights` to `next`, and its gradients back to zero.
static void plain_update(struct plain *plain, uint32_t l, uint64_t update, const float *weights, float *next)
{
    const bool is_dense = plain->model->layers[l].undecayed_count > 0;
    const struct exempt exempt = { WIDTH * WIDTH, DENSE_FLOATS };
    optimizer_update(&plain->optimizer, update, plain->queue,
                     &(struct optimizer_buffers){
                         .next = (struct values *)next, .weights = (const struct values *)weights,
                         .gradients = plain->gradients[l], .state = plain->state[l], .count = MOST_FLOATS,
                         .exempt = &exempt, .exempt_count = is_dense,
                     });
    memset(plain->gradients[l], 0, sizeof plain->gradients[l]);
}

static void plain_step(struct plain *plain, uint64_t step, uint32_t micro_batches)
{
    float *weights[MOST_LAYERS];
    for (uint32_t l = 0; l < plain->model->count; l++)
        weights[l] = plain->weights[l];
    for (uint32_t i = 0; i < micro_batches; i++)
        plain_pass(plain, weights, step, i);
    for (uint32_t l = 0; l < plain->model->count; l++)
        plain_update(plain, l, step + 1, plain->weights[l], plain->weights[l]);
}

// PipeDream's formula: of micro-batch k, stage s of p uses for forward and backward
// the version it had when the forward ran, which has seen the updates up to that of
// micro-batch k - (p - s); update k is made from version k and this gradient.
static void plain_pipedream(struct plain *plain, const uint32_t *stage_of, uint32_t stages, uint32_t micro_batches)
{
    static float versions[MOST_MICRO_BATCHES + 1][MOST_LAYERS][MOST_FLOATS];
    memcpy(versions[0], plain->weights, sizeof versions[0]);
    for (uint32_t k = 0; k < micro_batches; k++) {
        float *met[MOST_LAYERS];
        for (uint32_t l = 0; l < plain->model->count; l++) {
            const uint32_t ahead = stages - stage_of[l];
            met[l] = versions[k + 1 > ahead ? k + 1 - ahead : 0][l];
        }
        plain_pass(plain, met, 0, k);
        for (uint32_t l = 0; l < plain->model->count; l++)
            plain_update(plain, l, k + 1, versions[k][l], versions[k + 1][l]);
    }
    memcpy(plain->weights, versions[micro_batches], sizeof plain->weights);
}

// --- the pipeline ---------------------------------------------------------------------------

struct cut {
    uint32_t stages;
    uint32_t begins[MOST_LAYERS + 1];  // of each stage, and the end
    struct segment segments[MOST_LAYERS];
    uint32_t segment_count;
    uint32_t stage_of[MOST_LAYERS];
};

// `stages` stages of at least one layer, and segments in some of them.
static struct cut random_cut(uint64_t *seed, uint32_t layers, uint32_t stages, bool recompute)
{
    struct cut cut = { .stages = stages };
    bool begins[MOST_LAYERS] = { true };
    for (uint32_t placed = 1; placed < stages;) {
        const uint32_t at = 1 + (uint32_t)random_below(seed, layers - 1);
        placed += !begins[at];
        begins[at] = true;
    }
    uint32_t stage = 0;
    for (uint32_t l = 0; l < layers; l++) {
        if (begins[l])
            cut.begins[stage++] = l;
        cut.stage_of[l] = stage - 1;
    }
    cut.begins[stages] = layers;
    for (uint32_t l = 0; recompute && l < layers;) {
        const uint32_t rest = cut.begins[cut.stage_of[l] + 1] - l, length = 1 + (uint32_t)random_below(seed, rest);
        if (random_below(seed, 3) > 0)
            cut.segments[cut.segment_count++] = (struct segment){ l, l + length };
        l += length;
    }
    return cut;
}

struct pipeline {
    struct chain *chains[MOST_LAYERS];
    struct session *session;
    uint32_t stages;
};

// What stages hold, by their slots in the schedule, is what is allocated.
static void assert_bytes(const struct pipeline *pipeline, const struct schedule *lowered, const struct stage *stages)
{
    struct error error = { 0 };
    struct slots slots[MOST_LAYERS];
    assert_good(slots_count(lowered, slots, &error), error);
    for (uint32_t s = 0; s < pipeline->stages; s++) {
        const struct stage_memory memory = stage_memory_of(&stages[s].bytes, &slots[s]);
        assert_int_equal(session_slab_bytes(pipeline->session, s), memory.peak_bytes);
        assert_int_equal(session_host_bytes(pipeline->session, s), memory.host_bytes);
    }
}

static struct pipeline pipeline_open(const struct model *model, const struct cut *cut, const struct schedule *lowered,
                                     struct device *device, const struct storage *storage,
                                     const struct optimizer *optimizer)
{
    struct error error = { 0 };
    struct pipeline pipeline = { .stages = cut->stages };
    struct stage stages[MOST_LAYERS];
    for (uint32_t s = 0, next = 0; s < cut->stages; s++) {
        const uint32_t first_segment = next;
        while (next < cut->segment_count && cut->segments[next].first < cut->begins[s + 1])
            next++;
        pipeline.chains[s] =
            chain_create(model->layers, model->count, cut->begins[s], cut->begins[s + 1],
                         &cut->segments[first_segment], next - first_segment, 1, storage, 1, &error);
        assert_good(pipeline.chains[s], error);
        stages[s] = *chain_stage(pipeline.chains[s]);
    }
    const struct session_settings settings = { .optimizer = *optimizer };
    pipeline.session = session_create(lowered, stages, device, &settings, &error);
    assert_good(pipeline.session, error);
    assert_bytes(&pipeline, lowered, stages);
    return pipeline;
}

static void pipeline_close(struct pipeline *pipeline)
{
    session_free(pipeline->session);
    for (uint32_t s = 0; s < pipeline->stages; s++)
        chain_free(pipeline->chains[s]);
}

static void assert_same(uint64_t trial, struct pipeline *pipeline, const struct plain *plain, const struct cut *cut)
{
    static float weights[MOST_LAYERS * MOST_FLOATS * 2];
    for (uint32_t s = 0; s < cut->stages; s++) {
        struct error error = { 0 };
        const struct stage_bytes *stage = &chain_stage(pipeline->chains[s])->bytes;
        const uint64_t bytes = stage->streams ? stage->host.weights : stage->weights;
        const struct state_span span = { .stage = s, .count = bytes / sizeof(float) };
        assert_good(session_read_and_tell(pipeline->session, &span, 0, weights, &error), error);
        for (uint32_t l = cut->begins[s]; l < cut->begins[s + 1]; l++) {
            uint64_t offset;
            assert_true(chain_find_parameters(pipeline->chains[s], &plain->model->layers[l], &offset));
            if (memcmp(weights + offset / sizeof(float), plain->weights[l], plain->model->layers[l].parameter_bytes) != 0)
                fail_msg("trial %d: layer %u has other weights", (int)trial, l);
        }
    }
    const struct session_result *last = session_last(pipeline->session);
    if (memcmp(last->losses, plain->loss, sizeof(float)) != 0)
        fail_msg("trial %d: another loss", (int)trial);
}

static struct schedule *lowered_of(struct schedule *order)
{
    struct error error = { 0 };
    assert_non_null(order);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    schedule_free(order);
    return lowered;
}

// I at once and W as late as it may be, on the list of 1F1B: every second W waits
// for the next one, all are done before the STEP.
static struct schedule *split_of(const struct schedule *order)
{
    struct error error = { 0 };
    struct schedule *split = schedule_create("split", WEIGHTS_FLUSH, order->ranks, order->stages,
                                             order->micro_batches, &error);
    assert_good(split, error);
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        uint32_t owed = 0;  // W from this micro-batch on are still to come
        for (size_t i = 0; i < order->lists[rank].count; i++) {
            struct action action = order->lists[rank].at[i];
            const bool flushes = action.kind == ACTION_STEP, splits = action.kind == ACTION_B;
            const uint32_t done = action.micro_batch;
            if (splits)
                action.kind = ACTION_I;
            if (!flushes)
                assert_good(schedule_add(split, rank, action, &error), error);
            const uint32_t until = flushes ? order->micro_batches : splits && done % 2 == 1 ? done + 1 : owed;
            for (; owed < until; owed++)
                assert_good(schedule_add(split, rank, (struct action){ .stage = (uint16_t)rank, .kind = ACTION_W, .micro_batch = owed }, &error),
                            error);
            if (flushes)
                assert_good(schedule_add(split, rank, action, &error), error);
        }
    }
    return split;
}

enum way { GPIPE, ONE_F_ONE_B, SPLIT, WAYS };

static struct schedule *schedule_of(enum way way, uint32_t stages, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *order =
        schedule_generate(way == GPIPE ? "gpipe" : "1f1b", stages, 1, micro_batches, &error);
    assert_good(order, error);
    if (way != SPLIT)
        return lowered_of(order);
    struct schedule *split = split_of(order);
    schedule_free(order);
    return lowered_of(split);
}

// --- the tests -----------------------------------------------------------------------------------

struct tools {
    struct device *device;
    struct queue *queue;
    struct plain *plain;
    struct model model;
};

static void tools_open(struct tools *tools)
{
    struct error error = { 0 };
    tools->device = device_open("cpu", &error);
    assert_good(tools->device, error);
    tools->queue = queue_create(tools->device, &error);
    assert_good(tools->queue, error);
    tools->plain = malloc(sizeof *tools->plain);
    assert_non_null(tools->plain);
}

static void tools_close(struct tools *tools)
{
    queue_free(tools->queue);
    device_close(tools->device);
    free(tools->plain);
}

static struct optimizer optimizer_at(uint64_t trial)
{
    struct optimizer optimizer = optimizer_default((enum optimizer_kind)(trial % 3));
    optimizer.rate = 0.05f;
    optimizer.decay = 0.1f;
    return optimizer;
}

static struct storage storage_at(uint64_t trial)
{
    return (struct storage){ .optimizer = (enum optimizer_kind)(trial % 3), .optimizer_on_host = trial / 3 % 2,
                              .activations_on_host = trial / 6 % 2 };
}

// And, where the schedule flushes, a window of some layers.
static struct storage flushing_storage_at(uint64_t trial)
{
    struct storage storage = storage_at(trial);
    storage.window = storage.optimizer_on_host ? (uint32_t)(trial / 12 % 4) : 0;
    return storage;
}

static void run_synchronous(struct tools *tools, uint64_t trial, enum way way, uint32_t stages, uint32_t micro_batches)
{
    uint64_t seed = trial;
    const uint32_t layers = stages + 2 + (uint32_t)random_below(&seed, MOST_LAYERS - stages - 1);
    const struct cut cut = random_cut(&seed, layers, stages, trial % 2);
    const struct optimizer optimizer = optimizer_at(trial);
    model_open(&tools->model, layers, micro_batches);
    plain_open(tools->plain, &tools->model, tools->queue, &optimizer);
    struct schedule *lowered = schedule_of(way, stages, micro_batches);
    const struct storage storage = flushing_storage_at(trial);
    struct pipeline pipeline = pipeline_open(&tools->model, &cut, lowered, tools->device, &storage, &optimizer);
    for (uint64_t step = 0; step < 3; step++) {
        struct error error = { 0 };
        assert_good(session_step(pipeline.session, &error), error);
        plain_step(tools->plain, step, micro_batches);
        assert_same(trial, &pipeline, tools->plain, &cut);
    }
    pipeline_close(&pipeline);
    schedule_free(lowered);
}

static void synchronous_pipelines_equal_the_plain_loop_bit_for_bit(void **state)
{
    (void)state;
    struct tools tools;
    tools_open(&tools);
    uint64_t trial = 0;
    for (uint64_t round = 0; round < test_trials(1, 20); round++)
        for (enum way way = GPIPE; way < WAYS; way++)
            for (uint32_t stages = 1; stages <= 6; stages++)
                for (uint32_t micro_batches = 1; micro_batches <= 8; micro_batches++)
                    run_synchronous(&tools, trial++, way, stages, micro_batches);
    tools_close(&tools);
}

static void run_pipedream(struct tools *tools, uint64_t trial, uint32_t stages, uint32_t micro_batches)
{
    uint64_t seed = trial;
    struct error error = { 0 };
    const uint32_t layers = stages + 2 + (uint32_t)random_below(&seed, MOST_LAYERS - stages - 1);
    const struct cut cut = random_cut(&seed, layers, stages, trial % 2);
    const struct optimizer optimizer = optimizer_at(trial);
    model_open(&tools->model, layers, 1);
    plain_open(tools->plain, &tools->model, tools->queue, &optimizer);
    struct schedule *lowered = lowered_of(schedule_generate("pipedream", stages, 1, micro_batches, &error));
    const struct storage storage = storage_at(trial);
    struct pipeline pipeline = pipeline_open(&tools->model, &cut, lowered, tools->device, &storage, &optimizer);
    assert_good(session_step(pipeline.session, &error), error);
    plain_pipedream(tools->plain, cut.stage_of, stages, micro_batches);
    assert_same(trial, &pipeline, tools->plain, &cut);
    pipeline_close(&pipeline);
    schedule_free(lowered);
}

static void pipedream_equals_its_formula_bit_for_bit(void **state)
{
    (void)state;
    struct tools tools;
    tools_open(&tools);
    uint64_t trial = 0;
    for (uint64_t round = 0; round < test_trials(1, 20); round++)
        for (uint32_t stages = 1; stages <= 6; stages++)
            for (uint32_t micro_batches = 1; micro_batches <= MOST_MICRO_BATCHES; micro_batches++)
                run_pipedream(&tools, trial++, stages, micro_batches);
    tools_close(&tools);
}

// A stage without layers hands on what it gets, both ways.
static void an_empty_stage_changes_nothing(void **state)
{
    (void)state;
    struct tools tools;
    tools_open(&tools);
    const struct cut cut = { .stages = 3, .begins = { 0, 3, 3, 6 }, .stage_of = { 0, 0, 0, 2, 2, 2 } };
    const struct optimizer optimizer = optimizer_at(2);
    for (enum way way = GPIPE; way < WAYS; way++) {
        model_open(&tools.model, 6, 4);
        plain_open(tools.plain, &tools.model, tools.queue, &optimizer);
        struct schedule *lowered = schedule_of(way, 3, 4);
        const struct storage storage = storage_at(2);
        struct pipeline pipeline = pipeline_open(&tools.model, &cut, lowered, tools.device, &storage, &optimizer);
        struct error error = { 0 };
        assert_good(session_step(pipeline.session, &error), error);
        plain_step(tools.plain, 0, 4);
        assert_same(way, &pipeline, tools.plain, &cut);
        pipeline_close(&pipeline);
        schedule_free(lowered);
    }
    tools_close(&tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synchronous_pipelines_equal_the_plain_loop_bit_for_bit),
        cmocka_unit_test(pipedream_equals_its_formula_bit_for_bit),
        cmocka_unit_test(an_empty_stage_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
