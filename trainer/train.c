#include "trainer/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/number.h"
#include "partitioner/plan/placement.h"
#include "runtime/pipeline.h"
#include "schedules/board.h"
#include "trainer/model_layers.h"
#include "trainer/ngram.h"
#include "trainer/twin.h"

struct pass_record {  // of one pass through the schedule
    uint64_t ns;
    struct bubble bubble;
};

struct training {
    const struct plan *plan;
    const struct model *model;
    const struct train_settings *settings;
    struct device *device;
    struct model_layers *layers;
    struct pipeline *pipeline;
    struct pass_record *passes;
    size_t pass_count;
    uint32_t iterations;  // in one pass
    uint32_t samples;     // micro-batches that an update averages
};

static struct optimizer optimizer_of(const struct plan *plan, float rate)
{
    struct optimizer optimizer = optimizer_default(plan->holding.optimizer);
    optimizer.rate = rate;
    optimizer.decay = 0.1f;
    optimizer.beta2 = 0.99f;  // short runs
    return optimizer;
}

static float rate_at(const struct train_settings *settings, uint32_t step)
{
    const float warm = fmaxf(1, (float)settings->steps / 10);
    if ((float)step < warm)
        return settings->rate * ((float)step + 1) / warm;
    const float done = ((float)step - warm) / fmaxf(1, (float)settings->steps - warm);
    return settings->rate * (0.1f + 0.45f * (1 + cosf(done * 3.14159265f)));
}

static uint64_t bytes_per_iteration(const struct training *training)
{
    return (uint64_t)training->plan->micro_batches * training->model->sizes.micro_batch
        * training->model->sizes.sequence;
}

// Tells of each iteration of the pass that has just ended.
static void tell(const struct training *training, uint32_t first_step, struct train_result *result)
{
    const struct session_result *last = session_last(training->pipeline->session);
    const uint32_t m = training->plan->micro_batches;
    for (uint32_t i = 0; i < training->iterations && first_step + i < training->settings->steps; i++) {
        double loss = 0;
        for (uint32_t j = 0; j < m; j++)
            loss += last->losses[i * m + j];
        loss *= (double)training->samples / m;  // each is a share of the mean over what an update averages
        const struct train_step step = {
            .step = first_step + i + 1,
            .loss = loss,
            .bytes_per_second = 1e9 * (double)(bytes_per_iteration(training) * training->iterations)
                / (double)last->iteration_ns,
            .bubble = last->bubble.makespan,
            .slowest_stage = last->slowest_stage,
        };
        if (step.step == 1)
            result->first_loss = loss;
        result->last_loss = loss;
        if (training->settings->tell)
            training->settings->tell(training->settings->self, &step);
    }
}

static void count_replayed(const struct training *training, struct train_result *result)
{
    const struct schedule *schedule = training->pipeline->schedule;
    const struct session_result *last = session_last(training->pipeline->session);
    if (!device_records(training->device))
        return;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        result->replayed += last->replayed[rank];
        for (size_t i = 0; i < schedule->lists[rank].count; i++) {
            const uint8_t kind = schedule->lists[rank].at[i].kind;
            result->actions += kind < ACTION_SEND_F || kind > ACTION_RECV_B;
        }
    }
}

static bool run_all(struct training *training, struct train_result *result, struct error *error)
{
    const uint32_t steps = training->settings->steps;
    for (uint32_t step = 0; step < steps; step += training->iterations) {
        session_set_rate(training->pipeline->session, rate_at(training->settings, step));
        if (!session_step(training->pipeline->session, error))
            return false;
        const struct session_result *last = session_last(training->pipeline->session);
        training->passes[training->pass_count++] = (struct pass_record){ last->iteration_ns, last->bubble };
        result->bytes_trained += bytes_per_iteration(training) * training->iterations;
        tell(training, step, result);
        if (!isfinite(result->last_loss))
            return error_set_kind(error, ERROR_ANSWER, "at step %u the loss is no number any more: a learning rate of"
                                  " %g is too high, or comes too soon", step + training->iterations,
                                  (double)training->settings->rate);
    }
    count_replayed(training, result);
    return session_timeline(training->pipeline->session, &result->measured_timeline, error);
}

static int by_time(const void *a, const void *b)
{
    const struct pass_record *x = a, *y = b;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static bool predict(const struct training *training, struct train_result *result, struct error *error)
{
    const struct plan *plan = training->plan;
    struct network *network = plan_network(plan, error);
    result->predicted_timeline.wants_levels = true;
    const bool good = network
        && schedule_simulate(training->pipeline->schedule, NULL, network, &result->predicted,
                             &result->predicted_timeline, error);
    network_free(network);
    return good;
}

// The slabs of a rank's stages, which share one workspace.
static uint64_t rank_bytes(const struct plan *plan, const struct placement *placement, uint32_t rank)
{
    uint64_t sum = 0, workspace = 0;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++) {
        const struct stage_memory *memory = &plan->stages[placement->held[at]].memory;
        sum += memory->peak_bytes - memory->transient_bytes;
        workspace = memory->transient_bytes > workspace ? memory->transient_bytes : workspace;
    }
    return sum + workspace;
}

static bool compare_bytes(const struct training *training, struct train_result *result, struct error *error)
{
    const struct plan *plan = training->plan;
    result->ranks = plan->ranks;
    result->predicted_bytes = calloc(plan->ranks, sizeof(uint64_t));
    result->measured_bytes = calloc(plan->ranks, sizeof(uint64_t));
    if (!result->predicted_bytes || !result->measured_bytes)
        return error_no_memory(error, "a table");
    struct placement *placement = placement_read(training->pipeline->schedule, error);
    for (uint32_t rank = 0; placement && rank < plan->ranks; rank++) {
        result->predicted_bytes[rank] = rank_bytes(plan, placement, rank);
        result->measured_bytes[rank] = session_slab_bytes(training->pipeline->session, rank);
    }
    const bool has_placement = placement != NULL;
    placement_free(placement);
    return has_placement;
}

// Of several ranks the first evaluates for all.
static bool evaluates(const struct training *training)
{
    const struct process_group *group = training->settings->place.group;
    return !group || group->rank == 0;
}

// The pipeline's weights, which all ranks bring together, into the twin of the one that evaluates.
static bool take_weights(const struct training *training, struct twin *twin, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < training->layers->layer_count; l++) {
        const uint64_t bytes = training->layers->layers[l].parameter_bytes;
        void *host = malloc(bytes + 1);
        good = host ? pipeline_read_parameters(training->pipeline, (uint32_t)l, 0, bytes, host, error)
                    : error_no_memory(error, "the weights of a layer");
        if (good && twin)
            twin_put_parameters(twin, l, host);
        free(host);
    }
    return good;
}

// The held-out text, forward only.
static bool evaluate(const struct training *training, struct twin *twin, double *bits, struct error *error)
{
    const struct model *model = training->model;
    const size_t rows = model->sizes.micro_batch, length = model->sizes.sequence;
    const size_t count = text_data_held_batches(training->settings->text, rows, length);
    double nats = 0;
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        float loss = 0;
        if (!twin_loss(twin, 0, (uint32_t)i, &loss, error))
            return false;
        // A last batch that is not full repeats windows; it would count them twice.
        if (text_data_held_rows(training->settings->text, i, rows, length) == rows) {
            nats += loss;
            taken++;
        }
    }
    if (taken == 0)
        return error_set(error, "the held-out text is shorter than one micro-batch (%zu bytes)", rows * length);
    if (!isfinite(nats))
        return error_set_kind(error, ERROR_ANSWER, "the loss on held-out text is no number: a learning rate of %g is too"
                              " high, or comes too soon", (double)training->settings->rate);
    *bits = nats / (double)taken / log(2);
    return true;
}

// By the sequential twin with the pipeline's weights, and without the pipeline: the other
// ranks need not wait, and its memory is free.
static bool hold_out(struct training *training, struct train_result *result, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_HELD, .text = training->settings->text,
                                            .seed = training->settings->seed, .samples = 1 };
    const struct twin_settings settings = { .optimizer = optimizer_default(OPTIMIZER_SGD) };
    struct model_layers *layers = NULL;
    struct twin *twin = NULL;
    bool good = true;
    if (evaluates(training)) {
        layers = model_layers_create(training->model, training->device, &batches, error);
        twin = layers ? twin_create(layers->layers, layers->layer_count, training->device, &settings, error) : NULL;
        good = twin != NULL;
    }
    good = good && take_weights(training, twin, error);
    if (good) {
        pipeline_free(training->pipeline);
        training->pipeline = NULL;
    }
    result->held_bits = NAN;
    good = good && (!twin || evaluate(training, twin, &result->held_bits, error));
    twin_free(twin);
    model_layers_free(layers);
    return good;
}

static bool prepare(struct training *training, struct error *error)
{
    const struct train_settings *settings = training->settings;
    const struct plan *plan = training->plan;
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    struct batch_settings batches;
    const struct session_settings session = {
        .capacity = TRANSPORT_UNLIMITED,
        .pin = settings->pin,
        .optimizer = optimizer_of(plan, settings->rate),
        .group = settings->place.group,
        .is_stuck = settings->place.is_stuck,
        .opened = settings->place.opened,
        .failed = settings->place.failed,
        .self = settings->place.self,
    };
    training->iterations = flushes ? 1 : settings->flush_every;
    if (settings->text->vocabulary > training->model->vocabulary)
        return error_set(error, "the text is of a vocabulary of %u tokens, and model %s has one of %zu",
                         settings->text->vocabulary, training->model->name, training->model->vocabulary);
    if (settings->steps % training->iterations)
        return error_set(error, "%u steps cannot be had from a pipeline that drains after every %u", settings->steps,
                         training->iterations);
    training->passes = calloc(settings->steps / training->iterations + 1, sizeof training->passes[0]);
    if (!training->passes)
        return error_no_memory(error, "a training run");
    if (!batch_settings_of(plan, training->iterations, settings->seed, &batches, error))
        return false;
    batches.batches = BATCHES_TRAIN;
    batches.text = settings->text;
    training->samples = batches.samples;
    training->device = device_open(settings->place.device, error);
    training->layers =
        training->device ? model_layers_create(training->model, training->device, &batches, error) : NULL;
    if (training->layers)
        training->pipeline = pipeline_create(plan, training->layers->layers, training->layers->layer_count,
                                             training->device, training->iterations, &session, error);
    if (training->pipeline && schedule_is_forward_only(training->pipeline->schedule))
        return error_set(error, "%s makes no updates, so it trains nothing; it can be verified", plan->schedule);
    return training->pipeline != NULL;
}

static void conclude(struct training *training, struct train_result *result)
{
    qsort(training->passes, training->pass_count, sizeof training->passes[0], by_time);
    const struct pass_record median = training->passes[training->pass_count / 2];
    result->iterations = training->iterations;
    result->measured_ns = median.ns;
    result->measured_bubble = median.bubble;
    result->bytes_per_second =
        1e9 * (double)(bytes_per_iteration(training) * training->iterations) / (double)median.ns;
    result->parameter_count = model_parameter_count(training->model);
    const bool are_bytes = training->settings->text->vocabulary <= 256;
    result->order0_bits = are_bytes ? ngram_bits_per_byte(training->settings->text, 0) : NAN;
    result->order1_bits = are_bytes ? ngram_bits_per_byte(training->settings->text, 1) : NAN;
}

bool train_plan(const struct plan *plan, const struct model *model, const struct train_settings *settings,
                struct train_result *result, struct error *error)
{
    *result = (struct train_result){ 0 };
    struct training training = { .plan = plan, .model = model, .settings = settings };
    const bool good = prepare(&training, error) && predict(&training, result, error)
        && compare_bytes(&training, result, error) && run_all(&training, result, error)
        && hold_out(&training, result, error);
    if (good)
        conclude(&training, result);
    pipeline_free(training.pipeline);
    model_layers_free(training.layers);
    device_close(training.device);
    free(training.passes);
    if (!good)
        train_result_clear(result);
    return good;
}

void train_result_clear(struct train_result *result)
{
    simulation_clear(&result->predicted);
    timeline_clear(&result->predicted_timeline);
    timeline_clear(&result->measured_timeline);
    free(result->predicted_bytes);
    free(result->measured_bytes);
    *result = (struct train_result){ 0 };
}

static void print_share(struct text *text, const char *what, double predicted, double measured)
{
    text_add(text, "  %-28s %11.1f %% %11.1f %%\n", what, 100 * predicted, 100 * measured);
}

void train_result_print(const struct train_result *result, struct text *text)
{
    char a[NUMBER_SIZE], b[NUMBER_SIZE];
    text_add(text, "  %-28s %13s %13s\n", "", "predicted", "measured");
    char what[40];
    if (result->iterations == 1)
        snprintf(what, sizeof what, "iteration time");
    else
        snprintf(what, sizeof what, "time of %u iterations", result->iterations);
    text_add(text, "  %-28s %13s %13s  measured / predicted %.3f\n", what,
             time_format(result->predicted.iteration_ns, a), time_format(result->measured_ns, b),
             (double)result->measured_ns / (double)result->predicted.iteration_ns);
    print_share(text, "bubble, makespan", result->predicted.bubble.makespan, result->measured_bubble.makespan);
    print_share(text, "bubble, overhead", result->predicted.bubble.overhead, result->measured_bubble.overhead);
    print_share(text, "bubble, span", result->predicted.bubble.span, result->measured_bubble.span);
    print_share(text, "bubble, zb_rate", result->predicted.bubble.zb_rate, result->measured_bubble.zb_rate);
    if (result->actions > 0)
        text_add(text, "  %-28s %13s %13zu  of %zu in the last pass\n", "actions replayed", "", result->replayed,
                 result->actions);
    for (uint32_t rank = 0; rank < result->ranks; rank++) {
        snprintf(what, sizeof what, "peak bytes, rank %u", rank);
        text_add(text, "  %-28s %13llu %13llu\n", what, (unsigned long long)result->predicted_bytes[rank],
                 (unsigned long long)result->measured_bytes[rank]);
    }
}
