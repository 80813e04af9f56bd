#include "trainer/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/plan/placement.h"
#include "runtime/groups/agreement.h"
#include "schedules/board.h"
#include "trainer/given_weights.h"
#include "trainer/held_out.h"
#include "trainer/model_lasting.h"
#include "trainer/model_layers.h"
#include "trainer/ngram.h"
#include "trainer/measure_shards.h"
#include "trainer/routing_record.h"
#include "trainer/same_run.h"
#include "trainer/split_layers.h"

struct pass_record {  // of one pass through the schedule
    uint64_t ns;
    struct bubble bubble;
};

struct training {
    const struct plan *plan;
    const struct model *model;
    const struct train_settings *settings;
    struct device *device;
    struct split_layers *layers;
    struct shard_pipelines *pipelines;
    struct pipeline *pipeline;    // of the first member in this process
    struct pass_record *passes;
    size_t pass_count;
    uint64_t step;        // steps made
    struct manifest run;  // what checkpoints say of this run
    struct lasting_model *lasting;    // NULL: no checkpoints and no given weights
    struct checkpoints *checkpoints;  // NULL: no checkpoints
    uint32_t iterations;  // in one pass
    uint64_t freeze_step; // 0: the optimizer has none
    uint32_t samples;     // micro-batches that an update averages
    uint64_t last_pass_ns;     // when the last pass ended, by clock_now_ns()
    struct held_watch held;  // for evaluations during the run, of texts,
    struct predictions held_samples;  // and of samples
    struct sample_course course;  // of pictures
    struct session_settings session;
    bool may_lack_rows;   // of experts (split_layers.h); and how many rows a member's would have taken
    uint64_t lacked_rows;
    struct routing_record *routing;
    double best_bits;     // infinite: nothing was evaluated yet
    uint64_t newest;      // newest checkpoint that was reported
};

static struct optimizer optimizer_of(const struct plan *plan, const struct model *model,
                                     const struct train_settings *settings)
{
    struct optimizer optimizer = optimizer_default(plan->storage.optimizer);
    optimizer.rate = settings->rates.highest;
    optimizer.clip = settings->clip;
    static const float decays[] = { [FAMILY_TEXT] = 0.1f, [FAMILY_PICTURES] = 5e-4f, [FAMILY_CLICKS] = 0 };
    optimizer.decay = decays[model->family];  // as each family is usually trained
    optimizer.beta2 = 0.99f;  // short runs
    return optimizer;
}

static uint64_t bytes_per_iteration(const struct training *training)
{
    const struct model_sizes *sizes = &training->model->sizes;
    const uint64_t batch = training->settings->batch;
    return (batch > 0 ? batch : (uint64_t)training->plan->micro_batches * sizes->micro_batch) * sizes->sequence;
}

// The first rank evaluates and prints for all.
static bool evaluates(const struct training *training)
{
    return group_is_first(training->settings->place.group);
}

// Mean loss over the samples of an iteration of the last pass.
static double loss_of(const struct training *training, uint32_t iteration)
{
    const struct session_result *last = session_last(training->pipeline->session);
    const uint32_t m = training->plan->micro_batches;
    double loss = 0;
    for (uint32_t j = 0; j < m; j++)
        loss += last->losses[iteration * m + j];
    return loss * (double)training->samples / m;  // each loss is its share of the mean over what an update averages
}

// Reports each iteration of the pass that has just ended.
static void tell(struct training *training, uint32_t first_step, float rate, struct train_result *result)
{
    const struct session_result *last = session_last(training->pipeline->session);
    const struct train_listener *listener = &training->settings->listener;
    const uint64_t now_ns = clock_now_ns(), took_ns = now_ns - training->last_pass_ns;
    training->last_pass_ns = now_ns;
    for (uint32_t i = 0; i < training->iterations && first_step + i < training->settings->steps; i++) {
        const struct train_step step = {
            .step = first_step + i + 1,
            .loss = loss_of(training, i),
            .tokens = bytes_per_iteration(training),
            .took_ns = took_ns / training->iterations,
            .bubble = last->bubble.makespan,
            .slowest_stage = last->slowest_stage,
            .rate = rate,
            .gradient_norm = last->gradient_norm,
            .is_skipped = last->is_skipped,
            .loss_scale = session_scaling(training->pipeline->session)->scale,
        };
        if (step.step == 1)
            result->first_loss = step.loss;
        result->last_loss = step.loss;
        if (listener->tell)
            listener->tell(listener->self, &step);
    }
}

static void count_replayed(const struct training *training, struct train_result *result)
{
    const struct schedule *schedule = training->pipeline->schedule;
    const struct session_result *last = session_last(training->pipeline->session);
    if (!device_records(training->device))
        return;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        result->replayed += last->efforts[rank].replayed;
        for (size_t i = 0; i < schedule->lists[rank].count; i++) {
            const uint8_t kind = schedule->lists[rank].at[i].kind;
            result->actions += kind < ACTION_SEND_F || kind > ACTION_RECV_B;
        }
    }
}

static void tell_kept(struct training *training)
{
    const struct train_listener *listener = &training->settings->listener;
    const uint64_t newest = training->checkpoints ? checkpoints_newest(training->checkpoints) : 0;
    if (newest > training->newest && listener->kept)
        listener->kept(listener->self, newest);
    training->newest = max_u64(training->newest, newest);
}

// Checkpoints from before are completed.
static bool refuse_numbers(const struct training *training, const char *what, uint64_t step, struct error *error)
{
    return (!training->checkpoints || checkpoints_wait(training->checkpoints, error))
        && error_set_kind(error, ERROR_ANSWER, "at step %llu the %s any more: a learning rate of %g is too high, or"
                          " comes too soon", (unsigned long long)step, what,
                          (double)training->settings->rates.highest);
}

// No stage has made its update by gradients that are no numbers. Without room for the rows of experts the run ends with
// what was there before. Otherwise it would go on as if there had been no such step.
static bool had_room(struct training *training, const struct train_result *result, struct error *error)
{
    const struct checkpoint_moment moment = { .step = training->step, .loss = result->last_loss,
                                              .passes = session_steps(training->pipeline->session) - 1 };
    uint64_t rows = training->lacked_rows;
    if (!training->may_lack_rows)
        return true;
    if (!ranks_most(training->settings->place.group, &rows, 1, error))
        return false;
    if (rows == 0)
        return isfinite(session_last(training->pipeline->session)->gradient_norm)
            || refuse_numbers(training, "gradients are no numbers", training->step + 1, error);
    if (training->checkpoints && training->step > 0 && !checkpoints_end(training->checkpoints, &moment, error))
        return false;
    tell_kept(training);
    return error_set_kind(error, ERROR_MACHINE, "at step %llu the experts of a device would take %llu rows of a"
                          " micro-batch, more than the plan has room for, and no update was made: plan with a larger"
                          " weir profile --most-rows, or without it, and weir train --resume goes on",
                          (unsigned long long)training->step + 1, (unsigned long long)rows);
}

// Runs one pass of the schedule and reports it.
static bool run_pass(struct training *training, struct train_result *result, struct error *error)
{
    const struct train_settings *settings = training->settings;
    const float rate = rates_at(&settings->rates, (uint32_t)training->step, settings->steps);
    shard_pipelines_set_rate(training->pipelines, rate);
    const uint64_t begin_ns = clock_now_ns();
    if (!split_layers_turn(training->layers, training->pipeline, error))
        return false;
    split_layers_time_anew(training->layers);
    const uint64_t turn_ns = training->layers->host ? clock_now_ns() - begin_ns : 0;
    if (!shard_pipelines_step(training->pipelines, error))
        return false;
    if (!had_room(training, result, error))
        return false;
    const struct session_result *last = session_last(training->pipeline->session);
    training->passes[training->pass_count++] = (struct pass_record){ turn_ns + last->iteration_ns, last->bubble };
    result->bytes_trained += bytes_per_iteration(training) * training->iterations;
    routing_record_keep(training->routing);
    for (uint32_t l = 0; l < training->model->layer_count; l++)
        routing_record_time(training->routing, l, split_layers_time(training->layers, l));
    tell(training, (uint32_t)training->step, rate, result);
    training->step += training->iterations;
    return true;
}

enum { STOP, KEEP, ASKED };  // what ranks are asked for by a signal

// All-gathers what ranks were asked for, so that all of them act after the same pass. Ranks that are threads of one
// process have one flag: the first of them takes it, and tells the others.
static bool ask_all(const struct training *training, uint64_t any[ASKED], struct error *error)
{
    const struct train_settings *settings = training->settings;
    any[STOP] = settings->stop && *settings->stop;
    any[KEEP] = settings->keep && __atomic_exchange_n(settings->keep, 0, __ATOMIC_RELAXED);
    return ranks_most(settings->place.group, any, ASKED, error);
}

// Evaluates before the first step if no step has been made yet, after every `eval_every` steps, and after the last
// step.
static bool is_evaluated_at(const struct training *training, uint64_t step, uint64_t before)
{
    const uint32_t every = training->settings->eval_every;
    return every > 0 && (step == 0 || step / every > before / every || step >= training->settings->steps);
}

static bool find_score(struct training *training, struct sample_score *score, struct error *error)
{
    *score = (struct sample_score){ .right = NAN, .top5 = NAN, .auc = NAN };
    return training->settings->samples ? held_samples_score(&training->held_samples, score, error)
                                       : held_watch_bits(&training->held, &score->bits, error);
}

static bool evaluate(struct training *training, double *bits, struct error *error)
{
    const struct train_listener *listener = &training->settings->listener;
    struct sample_score score;
    if (!find_score(training, &score, error))
        return false;
    *bits = score.bits;
    const bool is_best = *bits < training->best_bits;
    if (is_best)
        training->best_bits = *bits;
    if (listener->evaluated)
        listener->evaluated(listener->self, &(struct train_evaluation){ training->step, *bits, score.right, score.auc,
                                                                          is_best });
    return true;
}

// Samples consumed so far, of pictures; else 0.
static uint64_t consumed(const struct training *training)
{
    const struct sample_course *course = &training->course;
    return course->data ? session_steps(training->pipeline->session) * course->pass_samples + course->offset : 0;
}

// After a pass: makes a checkpoint if one is due. The run continues unless it was asked to stop.
static bool end_pass(struct training *training, const struct train_result *result, bool *stops, struct error *error)
{
    struct checkpoints *checkpoints = training->checkpoints;
    uint64_t asked[ASKED];
    double bits = 0;
    if (!isfinite(result->last_loss))
        return refuse_numbers(training, "loss is no number", training->step, error);
    if (!ask_all(training, asked, error))
        return false;
    const bool has_held = !asked[STOP]
                       && is_evaluated_at(training, training->step, training->step - training->iterations);
    if (has_held && !evaluate(training, &bits, error))
        return false;
    *stops = asked[STOP];
    if (asked[KEEP] && !checkpoints && evaluates(training))
        training->settings->say(training->settings->self,
                                "SIGUSR1 asks for a checkpoint, and there is no folder for it: --checkpoints FOLDER"
                                " keeps what a run needs to go on");
    const struct checkpoint_moment moment = {
        .step = training->step, .passes = session_steps(training->pipeline->session), .loss = result->last_loss,
        .samples = consumed(training), .has_held = has_held, .held_loss = bits * log(2), .is_wanted = asked[KEEP],
    };
    const bool ends = asked[STOP] || training->step >= training->settings->steps;
    const bool good = !checkpoints || (ends ? checkpoints_end : checkpoints_pass)(checkpoints, &moment, error);
    tell_kept(training);
    return good;
}

// A rank that is lost between two passes is reported like one that is lost within one (run.h). The last actions are
// then those of the pass before.
static void say_lost(const struct training *training, const struct error *error)
{
    const struct run_place *place = &training->settings->place;
    if (error->kind == ERROR_MACHINE && place->failed)
        place->failed(place->self, training->pipeline->session);
}

static bool run_all(struct training *training, struct train_result *result, struct error *error)
{
    const struct train_listener *listener = &training->settings->listener;
    bool stops = false;
    double bits;
    training->newest = training->checkpoints ? checkpoints_newest(training->checkpoints) : 0;
    if (listener->begun)
        listener->begun(listener->self, training->step, result);
    if (training->step == 0 && is_evaluated_at(training, 0, 0) && !evaluate(training, &bits, error))
        return false;
    training->last_pass_ns = clock_now_ns();
    while (!stops && training->step < training->settings->steps) {
        if (!run_pass(training, result, error))
            return false;
        if (!end_pass(training, result, &stops, error)) {
            say_lost(training, error);
            return false;
        }
    }
    result->steps = training->step;
    result->is_stopped = training->step < training->settings->steps;
    result->skipped_steps = session_scaling(training->pipeline->session)->skipped;
    if (training->checkpoints) {
        result->saved_step = checkpoints_newest(training->checkpoints);
        result->save_has_failed = checkpoints_have_failed(training->checkpoints);
    }
    count_replayed(training, result);
    return training->pass_count == 0 || shard_pipelines_timeline(training->pipelines, &result->measured_timeline,
                                                                 error);
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

// Bytes of a rank's stages, which share one workspace; *host adds up what they have on its host.
static uint64_t rank_bytes(const struct plan *plan, const struct placement *placement, uint32_t rank, uint64_t *host)
{
    uint64_t sum = 0, workspace = 0;
    for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++) {
        const struct stage_memory *memory = &plan->stages[placement->held[i]].memory;
        sum += memory->peak_bytes - memory->transient_bytes;
        workspace = memory->transient_bytes > workspace ? memory->transient_bytes : workspace;
        *host += memory->host_bytes;
    }
    return sum + workspace;
}

static bool compare_bytes(const struct training *training, struct train_result *result, struct error *error)
{
    const struct plan *plan = training->plan;
    result->ranks = plan->ranks;
    result->predicted_bytes = calloc(plan->ranks, sizeof(uint64_t));
    result->measured_bytes = calloc(plan->ranks, sizeof(uint64_t));
    result->predicted_host_bytes = calloc(plan->ranks, sizeof(uint64_t));
    result->measured_host_bytes = calloc(plan->ranks, sizeof(uint64_t));
    if (!result->predicted_bytes || !result->measured_bytes || !result->predicted_host_bytes
        || !result->measured_host_bytes)
        return error_no_memory(error, "a table");
    struct placement *placement = placement_read(training->pipeline->schedule, error);
    for (uint32_t rank = 0; placement && rank < plan->ranks; rank++) {
        result->predicted_bytes[rank] = rank_bytes(plan, placement, rank, &result->predicted_host_bytes[rank]);
        result->measured_bytes[rank] = session_slab_bytes(training->pipeline->session, rank);
        result->measured_host_bytes[rank] = session_host_bytes(training->pipeline->session, rank);
    }
    const bool has_placement = placement != NULL;
    placement_free(placement);
    return has_placement;
}

// Reads the pipeline's weights, in calls that all ranks make, into the twin of the rank that evaluates.
static bool take_weights(const struct training *training, struct twin *twin, struct error *error)
{
    bool good = true;
    for (size_t l = 0; good && l < training->model->layer_count; l++) {
        const uint64_t bytes = pipeline_part_bytes(training->pipeline, (uint32_t)l, 0);
        void *host = malloc(bytes + 1);
        good = host ? pipeline_read_parameters(training->pipeline, (uint32_t)l, 0, bytes, host, error)
                    : error_no_memory(error, "the weights of a layer");
        if (good && twin)
            twin_put_parameters(twin, l, host);
        free(host);
    }
    return good;
}

static bool judge_loss(const struct training *training, double bits, struct error *error)
{
    return isfinite(bits)
        || error_set_kind(error, ERROR_ANSWER, "the loss on held-out data is no number: a learning rate of %g is too"
                          " high, or comes too soon", (double)training->settings->rates.highest);
}

// Evaluates pictures in the pipeline, whose stages have the running statistics.
static bool hold_out_samples(struct training *training, struct train_result *result, struct error *error)
{
    const struct train_settings *settings = training->settings;
    if (!held_samples_score(&training->held_samples, &result->held, error)
        || !judge_loss(training, result->held.bits, error))
        return false;
    result->held_bits = evaluates(training) ? result->held.bits : NAN;
    return !evaluates(training)
        || held_samples_simple(settings->samples, settings->seed, &result->simple, error);
}

// Evaluates on the sequential twin with the pipeline's weights, after the pipeline is freed. The other ranks need not
// wait, and the pipeline's memory is available.
static bool hold_out(struct training *training, struct train_result *result, struct error *error)
{
    const struct train_settings *settings = training->settings;
    struct held_out held = { 0 };
    if (settings->samples)
        return hold_out_samples(training, result, error);
    bool good = !evaluates(training)
             || held_out_open(&held, training->model, training->device, settings->text, settings->seed, error);
    good = good && take_weights(training, held.twin, error);
    if (good) {
        shard_pipelines_free(training->pipelines);
        training->pipelines = NULL;
        training->pipeline = NULL;
    }
    result->held_bits = NAN;
    good = good && (!held.twin || (held_out_bits(&held, &result->held_bits, error)
                                   && judge_loss(training, result->held_bits, error)));
    held_out_close(&held);
    return good;
}

// Whether the model can be trained on the data.
static bool fits_model(const struct training *training, struct error *error)
{
    const struct train_settings *settings = training->settings;
    const struct model *model = training->model;
    if (settings->samples)
        return sample_data_fits(settings->samples, model, error);
    if (model->family != FAMILY_TEXT)
        return error_set(error, "model %s is of %s, and the data are a text: make data of its kind (weir data)",
                         model->name, model->family == FAMILY_PICTURES ? "pictures" : "clicks");
    return settings->text->vocabulary <= model->vocabulary
        || error_set(error, "the text is of a vocabulary of %u tokens, and model %s has one of %zu",
                     settings->text->vocabulary, model->name, model->vocabulary);
}

static void begin_course(struct training *training, struct batch_settings *batches)
{
    const struct train_settings *settings = training->settings;
    if (!settings->samples)
        return;
    training->course = (struct sample_course){
        .data = settings->samples, .augmentation = settings->augmentation,
        .pass_samples = bytes_per_iteration(training) / training->model->sizes.sequence * training->iterations,
    };
    batches->course = &training->course;
}

// A run ends before an update if all ranks learn from the norm of its gradients that there was no room.
static bool can_halt(const struct training *training, bool flushes, struct error *error)
{
    if (!flushes)
        return error_set(error, "weir profile --most-rows ends a run before its update, which %s has made on some"
                         " stages already: plan by a schedule that flushes, or without it", training->plan->schedule);
    return device_precision(training->device) != PRECISION_FP16
        || error_set(error, "weir profile --most-rows ends a run by gradients that are no numbers, and training in fp16"
                     " goes on behind these: plan without it, or in bf16");
}

static bool prepare(struct training *training, struct error *error)
{
    const struct train_settings *settings = training->settings;
    const struct plan *plan = training->plan;
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    struct batch_settings batches;
    struct session_settings session =  // kept, since evaluations in the pipeline have the same
        run_place_session(&settings->place, optimizer_of(plan, training->model, settings));
    session.pin = settings->pin;
    session.scaling = settings->scaling;
    if (!optimizer_freeze(&session.optimizer, settings->freeze_step, settings->steps, error))
        return false;
    training->freeze_step = optimizer_compresses(session.optimizer.kind) ? session.optimizer.freeze_step : 0;
    training->iterations = flushes ? 1 : settings->flush_every;
    if (!fits_model(training, error))
        return false;
    training->passes = calloc(settings->steps / training->iterations + 1, sizeof training->passes[0]);
    if (!training->passes)
        return error_no_memory(error, "a training run");
    if (!batch_settings_of(plan, training->iterations, settings->seed, &batches, error)
        || !batch_settings_take(&batches, training->model, settings->batch, flushes, error))
        return false;
    batches.batches = BATCHES_TRAIN;
    batches.text = settings->text;
    batches.lacked_rows = &training->lacked_rows;
    batches.routing = training->routing
        = routing_record_create(training->model, plan->micro_batches * training->iterations, error);
    if (!batches.routing)
        return false;
    begin_course(training, &batches);
    training->samples = batches.samples;
    training->device = device_open(settings->place.device, error);
    training->layers = training->device ? split_layers_create(plan, training->model, training->device, &batches,
                                                              &settings->place, error) : NULL;
    if (!training->layers || !split_layers_settle(training->layers, &session, error))
        return false;
    training->may_lack_rows = split_layers_may_lack_rows(training->layers);
    if (training->may_lack_rows && !can_halt(training, flushes, error))
        return false;
    session.optimizer.measures_norm |= training->may_lack_rows;
    session.optimizer.halts = training->may_lack_rows;
    training->session = session;
    const struct shard_request request = { .plan = plan, .layers = training->layers->layers,
                                           .layer_count = training->model->layer_count,
                                           .grid = &training->layers->grid, .device = training->device,
                                           .runs = training->iterations, .settings = &session };
    training->pipelines = shard_pipelines_create(&request, error);
    if (!training->pipelines)
        return false;
    if (split_layers_joining(training->layers))
        shard_pipelines_join(training->pipelines, split_layers_joining(training->layers));
    training->pipeline = training->pipelines->first;
    if (settings->checkpoints.folder || settings->weights) {
        training->lasting = lasting_model_create(training->model, plan->storage.optimizer, error);
        if (!training->lasting)
            return false;
    }
    return !schedule_is_forward_only(training->pipeline->schedule)
        || error_set(error, "%s makes no updates, so it trains nothing; it can be verified", plan->schedule);
}

// What a checkpoint says of this run, except what changes from one checkpoint to the next.
static bool describe(struct training *training, struct error *error)
{
    const struct train_settings *settings = training->settings;
    struct manifest *run = &training->run;
    *run = (struct manifest){ .seed = settings->seed, .steps = settings->steps, .batch = settings->batch,
                              .freeze_step = training->freeze_step,
                              .data_tokens = settings->samples
                                                 ? settings->samples->train + settings->samples->held
                                                 : settings->text->train_count + settings->text->held_count };
    rates_format(&settings->rates, run->rate);
    if (settings->clip > 0)
        rates_format_number(settings->clip, run->clip);
    if (settings->augmentation.flips || settings->augmentation.shift > 0)
        augmentation_format(&settings->augmentation, run->augment);
    run->loss_scale.interval = session_scaling(training->pipeline->session)->interval;
    if (settings->samples)
        memcpy(run->data_hash, settings->samples->hash, sizeof run->data_hash);
    else
        text_data_hash(settings->text, run->data_hash);
    return manifest_note_plan(run, training->plan, training->model->sizes.precision, training->iterations, error);
}

static bool open_checkpoints(struct training *training, struct error *error)
{
    const struct train_settings *settings = training->settings;
    uint64_t passes;
    if (settings->checkpoints.folder) {
        const struct checkpoints_request request = {
            .settings = settings->checkpoints, .group = settings->place.group, .lasting = training->lasting,
            .pipeline = training->pipeline, .run = &training->run, .rules = &same_run, .say = settings->say,
            .self = settings->self,
        };
        if (!describe(training, error))
            return false;
        training->checkpoints = checkpoints_open(&request, &training->step, &passes, error);
        if (!training->checkpoints)
            return false;
        // A batch of another size, or a pass of other steps, goes on with the sample behind the last one.
        const uint64_t samples = checkpoints_samples(training->checkpoints);
        if (training->course.data && samples > 0)
            training->course.offset = samples - passes * training->course.pass_samples;
    }
    const uint64_t left = training->step < settings->steps ? settings->steps - training->step : 0;
    return left % training->iterations == 0
        || error_set(error, "%llu steps cannot be had from a pipeline that drains after every %u: give --steps %llu",
                     (unsigned long long)left, training->iterations,
                     (unsigned long long)(settings->steps + training->iterations - left % training->iterations));
}

// Opens evaluations together with their memory, so that a lack of memory shows before anything is computed.
static bool open_held(struct training *training, struct error *error)
{
    const struct train_settings *settings = training->settings;
    const struct held_watch_request request = { .model = training->model, .text = settings->text,
                                                .pipeline = training->pipeline, .group = settings->place.group,
                                                .device = training->device, .seed = settings->seed };
    const struct saved_best best = training->checkpoints ? checkpoints_best(training->checkpoints)
                                                         : (struct saved_best){ 0 };
    training->best_bits = best.step > 0 ? best.loss / log(2) : INFINITY;
    if (settings->samples) {
        training->held_samples = (struct predictions){
            .model = training->model, .data = settings->samples, .pipeline = training->pipeline,
            .device = training->device, .settings = &training->session, .host = training->layers->host,
        };
        return held_samples_open(&training->held_samples, error);
    }
    return settings->eval_every == 0 || training->step >= settings->steps
        || held_watch_open(&training->held, &request, error);
}

// Loads given weights, unless the run continues from a checkpoint.
static bool take_given_weights(const struct training *training, struct error *error)
{
    const struct train_settings *settings = training->settings;
    if (!settings->weights || training->step > 0)
        return true;
    const bool good = given_weights_put(settings->weights, training->model, training->lasting, training->pipeline,
                                        error);
    return ranks_all_good(settings->place.group, good, error);
}

static bool read_routing(const struct training *training, struct train_result *result, struct error *error)
{
    const struct routing_reading reading = {
        .pipeline = training->pipeline, .sharding = variant_sharding(training->plan->stages[0].variant),
        .end_step = training->step, .steps = training->iterations,
    };
    if (!routing_record_read(training->routing, &reading, &result->routing, error))
        return false;
    if (result->routing) {
        text_data_hash(training->settings->text, result->routing->data);
        result->routing->seed = training->settings->seed;
    }
    return true;
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
    const struct text_data *text = training->settings->text;
    const bool are_bytes = text && text->vocabulary <= 256;
    result->order0_bits = are_bytes ? ngram_bits_per_byte(text, 0) : NAN;
    result->order1_bits = are_bytes ? ngram_bits_per_byte(text, 1) : NAN;
}

bool train_plan(const struct plan *plan, const struct model *model, const struct train_settings *settings,
                struct train_result *result, struct error *error)
{
    *result = (struct train_result){ .held = { NAN, NAN, NAN, NAN }, .simple = { NAN, NAN } };
    struct training training = { .plan = plan, .model = model, .settings = settings };
    bool good = prepare(&training, error) && predict(&training, result, error)
        && compare_bytes(&training, result, error) && open_checkpoints(&training, error)
        && take_given_weights(&training, error) && open_held(&training, error) && run_all(&training, result, error);
    held_watch_close(&training.held);
    // A run that was asked to stop does no more work. One that had no steps left has nothing to report.
    if (good && !result->is_stopped && training.pass_count > 0) {
        good = expert_counts_read(training.pipeline, model, &result->experts, &result->expert_layers, error)
            && read_routing(&training, result, error)
            && hold_out(&training, result, error);
        result->is_complete = good;
        if (good)
            conclude(&training, result);
    }
    predictions_close(&training.held_samples);
    checkpoints_close(training.checkpoints);
    lasting_model_free(training.lasting);
    shard_pipelines_free(training.pipelines);
    // a thread that is stuck on the device may still use them
    if (!training.device || !device_is_stuck(training.device)) {
        split_layers_free(training.layers);
        routing_record_free(training.routing);
    }
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
    free(result->predicted_host_bytes);
    free(result->measured_host_bytes);
    expert_counts_free(result->experts, result->expert_layers);
    routing_free(result->routing);
    *result = (struct train_result){ 0 };
}

static void print_share(struct text *text, const char *what, double predicted, double measured)
{
    text_add(text, "  %-28s %11.1f %% %11.1f %%\n", what, 100 * predicted, 100 * measured);
}

static void print_bytes(struct text *text, const char *name, uint32_t rank, uint64_t predicted, uint64_t measured)
{
    char what[40];
    snprintf(what, sizeof what, "%s, rank %u", name, rank);
    text_add(text, "  %-28s %13llu %13llu\n", what, (unsigned long long)predicted, (unsigned long long)measured);
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
    for (uint32_t rank = 0; rank < result->ranks; rank++)
        print_bytes(text, "peak bytes", rank, result->predicted_bytes[rank], result->measured_bytes[rank]);
    for (uint32_t rank = 0; rank < result->ranks; rank++)
        if (result->predicted_host_bytes[rank] > 0 || result->measured_host_bytes[rank] > 0)
            print_bytes(text, "host bytes", rank, result->predicted_host_bytes[rank],
                        result->measured_host_bytes[rank]);
    expert_counts_print(result->experts, result->expert_layers, text);
}
