#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/weir_handles.h"
#include "api/weir_options.h"
#include "common/number.h"
#include "exports/export.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/question.h"
#include "partitioner/explain/explain.h"
#include "partitioner/explain/plan_prove.h"
#include "partitioner/integer/second_opinion.h"
#include "partitioner/plan_search.h"
#include "partitioner/search/search_given.h"
#include "partitioner/search/search_telling.h"
#include "partitioner/sweep/sweep.h"
#include "partitioner/target_search.h"
#include "schedules/generators/given_order.h"

// --- partition -----------------------------------------------------------------------

static bool is_complete(const struct weir_partition_options *options, struct error *error)
{
    if (!options->schedule && !options->order)
        return error_set(error, "weir_partition_options.schedule is needed: \"1f1b\", \"gpipe\", \"zb-h1\", ...; or"
                         " weir_partition_options.order");
    if (options->schedule && options->order)
        return error_set(error, "weir_partition_options.schedule and weir_partition_options.order: one of them");
    if (options->micro_batches == 0 && !options->order)
        return error_set(error, "weir_partition_options.micro_batches is needed: 1 or more in an iteration");
    return true;
}

// Whether the schedule flushes. An unknown schedule is refused later, by the search.
static bool flushes(const struct weir_partition_options *options)
{
    struct error unknown = { 0 };
    const struct schedule *order = options->order ? options->order->schedule : NULL;
    struct generator generator;
    return generator_for(options->schedule, order, &generator, &unknown) && generator.weights == WEIGHTS_FLUSH;
}

static bool given_storage(const struct weir_partition_options *options, const struct profile *profile,
                          struct storage *storage, struct error *error)
{
    unsigned shard;
    enum tied tied;
    *storage = (struct storage){
        .optimizer_on_host = options->optimizer_on_host,
        .activations_on_host = options->activations_on_host,
        .window = options->window,
        .step_rate = options->step_rate,
    };
    if (!given_optimizer(options->optimizer, &storage->optimizer, error)
        || !given_choice(options->shard, "shard", shard_names, &shard, error)
        || !given_tied(options->tied, &tied, error))
        return false;
    storage->shard = (enum shard)shard;
    storage_meet_profile(storage, tied, profile, flushes(options));
    return true;
}

static void tell_search(void *self, const struct search_progress *now)
{
    char words[SEARCH_PROGRESS_SIZE];
    watching_tell(self, "%s", search_progress_format(now, words));
}

static uint32_t count_ranks(const struct weir_partition_options *options, const struct cluster *cluster)
{
    uint64_t ranks = 0;
    for (size_t s = 0; s < options->replicas.count; s++)
        ranks += options->replicas.at[s];
    if (options->ranks > 0)
        return options->ranks;
    if (options->order)
        return options->order->schedule->ranks;
    if (ranks == 0)
        ranks = options->devices.count > 0 ? options->devices.count : cluster->device_count;
    return (uint32_t)min_u64(ranks, UINT32_MAX);
}

// Reads replicas, devices and pins. The caller frees `pins`.
static bool give_by_hand(const struct weir_partition_options *options, struct search_request *request,
                         struct search_pin **pins, struct error *error)
{
    const struct weir_numbers replicas = options->replicas, devices = options->devices;
    if ((replicas.count > 0 && options->choose_replicas) || (devices.count > 0 && options->choose_devices))
        return error_set(error, "%s: are given, and so there is nothing to choose",
                         options->choose_replicas ? "replicas" : "devices");
    for (size_t s = 0; s < replicas.count; s++)
        if (replicas.at[s] == 0)
            return error_set(error, "replicas: stage %zu needs at least one", s);
    if (replicas.count > 0) {
        request->layout.replicas = replicas.at;
        request->layout.stages = (uint32_t)replicas.count;
    }
    if (devices.count > 0 && !search_give_devices(request, devices.at, devices.count, error))
        return error_at(error, "devices");
    *pins = calloc(options->pin_count + 1, sizeof **pins);
    if (!*pins)
        return error_no_memory(error, "pinned layers");
    for (size_t i = 0; i < options->pin_count; i++)
        if (!search_give_pin(request->profile, options->pins[i].layer, strlen(options->pins[i].layer),
                             options->pins[i].stage, *pins, &request->pinned.count, error))
            return error_at(error, "pins");
    request->pinned.at = *pins;
    return true;
}

// `given` is the order of `options`, prepared for planning, or NULL.
static struct plan *search_by(const struct schedule *given, const struct weir_partition_options *options,
                              const struct profile *profile, const struct cluster *cluster,
                              const struct storage *storage, struct error *error)
{
    struct watching watching = { .watch = options->watch };
    struct search_request request = {
        .profile = profile,
        .cluster = cluster,
        .schedule = given ? given->name : options->schedule,
        .given = given,
        .ranks = count_ranks(options, cluster),
        .chunks = options->chunks,
        .micro_batches = options->micro_batches || !given ? options->micro_batches : given->micro_batches,
        .storage = *storage,
        .free = { .replicas = options->choose_replicas, .devices = options->choose_devices,
                  .fewer = options->choose_fewer_devices, .variants = options->choose_variants },
        .wanted = { .own_order = options->own_order, .never_worse = true },
        .limits = { .budget = options->budget, .deadline_ns = options->deadline_ns,
                    .interrupted = watching_stop(&watching), .progress = tell_search, .self = &watching },
    };
    struct search_pin *pins = NULL;
    unsigned target;
    const bool good = given_choice(options->target, "target", plan_target_names, &target, error)
                   && give_by_hand(options, &request, &pins, error);
    struct plan *plan = good ? plan_search_for(&request, (enum plan_target)target, error) : NULL;
    plan_search_blame_deadline(error);
    free(pins);
    return plan;
}

static struct plan *search(const struct weir_partition_options *options, const struct profile *profile,
                           const struct cluster *cluster, const struct storage *storage, struct error *error)
{
    struct schedule *given = options->order ? given_order(options->order->schedule, error) : NULL;
    const bool good = given || !options->order || error_at(error, "order");
    struct plan *plan = good ? search_by(given, options, profile, cluster, storage, error) : NULL;
    schedule_free(given);
    return plan;
}

struct weir_plan *weir_partition(const struct weir_profile *profile, const struct weir_partition_options *options,
                                 struct weir_error *error)
{
    struct weir_partition_options chosen;
    if (!is_there(profile, "profile", error) || !given_partition_options(options, &chosen, error))
        return NULL;
    struct error reason = { 0 };
    struct storage storage;
    struct plan *plan = NULL;
    struct cluster *cluster =
        given_cluster(chosen.cluster, "weir_partition_options.cluster", chosen.memory_bytes, &reason);
    const bool good = cluster && is_complete(&chosen, &reason)
        && given_storage(&chosen, profile->profile, &storage, &reason);
    if (good && chosen.ranks > cluster->device_count)
        error_set(&reason, "ranks: %u, but the cluster has %zu devices", chosen.ranks, cluster->device_count);
    else if (good)
        plan = search(&chosen, profile->profile, cluster, &storage, &reason);
    cluster_free(cluster);
    return wrap_plan(plan, &reason, error);
}

// --- documents -----------------------------------------------------------------------

struct weir_plan *weir_plan_load(const char *path, struct weir_error *error)
{
    struct error reason = { 0 };
    struct plan *plan = plan_load(path, &reason);
    return wrap_plan(plan, &reason, error);
}

struct weir_plan *weir_plan_read(const char *text, size_t length, const char *name, struct weir_error *error)
{
    struct error reason = { 0 };
    struct plan *plan = plan_read(text, length, document_name(name), &reason);
    return wrap_plan(plan, &reason, error);
}

bool weir_plan_save(const struct weir_plan *plan, const char *path, struct weir_error *error)
{
    if (!is_there(plan, "plan", error))
        return false;
    struct text text = { 0 };
    plan_write(plan->plan, &text);
    return save_text(&text, path, error);
}

char *weir_plan_document(const struct weir_plan *plan, struct weir_error *error)
{
    if (!is_there(plan, "plan", error))
        return NULL;
    struct text text = { 0 };
    plan_write(plan->plan, &text);
    return hand_text(&text, error);
}

char *weir_plan_text(const struct weir_plan *plan, struct weir_error *error)
{
    if (!is_there(plan, "plan", error))
        return NULL;
    struct text text = { 0 };
    plan_print(plan->plan, &text);
    return hand_text(&text, error);
}

void weir_plan_free(struct weir_plan *plan)
{
    if (plan)
        plan_free(plan->plan);
    free(plan);
}

size_t weir_plan_stage_count(const struct weir_plan *plan)
{
    return plan->plan->stage_count;
}

uint32_t weir_plan_ranks(const struct weir_plan *plan)
{
    return plan->plan->ranks;
}

uint32_t weir_plan_micro_batches(const struct weir_plan *plan)
{
    return plan->plan->micro_batches;
}

const char *weir_plan_schedule_name(const struct weir_plan *plan)
{
    return plan->plan->schedule;
}

const char *weir_plan_optimizer(const struct weir_plan *plan)
{
    return optimizer_names[plan->plan->storage.optimizer];
}

struct weir_stage weir_plan_stage(const struct weir_plan *plan, size_t stage)
{
    assert(stage < plan->plan->stage_count);
    const struct plan_stage *from = &plan->plan->stages[stage];
    struct weir_stage to = { from->first, from->end, 0, from->memory.peak_bytes };
    for (size_t i = 0; i < from->recompute_count; i++)
        to.recomputed_layers += from->recompute[i].end - from->recompute[i].first;
    return to;
}

// --- questions about a plan ----------------------------------------------------------

bool weir_plan_check(const struct weir_plan *plan, const struct weir_profile *profile, struct weir_error *error)
{
    if (!is_there(plan, "plan", error) || !is_there(profile, "profile", error))
        return false;
    struct error reason = { 0 };
    return plan_evaluate(plan->plan, profile->profile, &reason) || tell(error, &reason);
}

bool weir_plan_is_proved(const struct weir_plan *plan)
{
    const struct certificate *certificate = &plan->plan->certificate;
    return certificate->proved && !certificate->is_claimed;
}

bool weir_plan_prove(struct weir_plan *plan, const struct weir_profile *profile, uint64_t budget,
                     const struct weir_watch *watch, struct weir_error *error)
{
    if (!is_there(plan, "plan", error) || !is_there(profile, "profile", error))
        return false;
    struct error reason = { 0 };
    struct watching watching = { .watch = watch };
    struct plan_proof proof;
    const struct search_limits limits = { .budget = budget, .interrupted = watching_stop(&watching),
                                          .progress = tell_search, .self = &watching };
    if (!plan_evaluate(plan->plan, profile->profile, &reason)
        || !plan_prove(plan->plan, profile->profile, &limits, &proof, &reason))
        return tell(error, &reason);
    if (proof.verdict != CLAIM_HOLDS) {
        error_set_kind(&reason, ERROR_ANSWER, "%s%s",
                       proof.verdict == CLAIM_FAILS ? "the certificate is false: " : "", proof.why);
        return tell(error, &reason);
    }
    plan->plan->certificate.is_claimed = false;
    return true;
}

struct weir_schedule *weir_plan_schedule(const struct weir_plan *plan, struct weir_error *error)
{
    if (!is_there(plan, "plan", error))
        return NULL;
    struct error reason = { 0 };
    struct schedule *schedule = plan_schedule(plan->plan, plan->plan->micro_batches, false, &reason);
    return wrap_schedule(schedule, &reason, error);
}

static bool export(const struct export_format *format, const struct export_request *request, struct text *text,
                   struct text *said, struct error *error)
{
    const struct profile *profile = request->profile;
    const struct plan_company with = { profile ? profile->model : NULL, profile ? profile->hash : NULL };
    return plan_belongs(request->plan, with, EXPORT_ASKS | EXPORT_REFUSES, EXPORT_REFUSES, said, error)
        && plan_export(format, request, text, said, error);
}

bool weir_plan_export(const struct weir_plan *plan, const char *format, const struct weir_export_options *options,
                      struct weir_answer *answer, struct weir_error *error)
{
    *answer = (struct weir_answer){ NULL, NULL };
    struct weir_export_options chosen;
    if (!is_there(plan, "plan", error) || !is_there(format, "format", error)
        || !given_export_options(options, &chosen, error))
        return false;
    const struct export_request request = {
        .plan = plan->plan,
        .profile = chosen.profile ? chosen.profile->profile : NULL,
        .units = chosen.units.count > 0 ? chosen.units.at : NULL,
        .unit_count = chosen.units.count,
        .base = chosen.base,
    };
    struct error reason = { 0 };
    struct text text = { 0 }, said = { 0 };
    const struct export_format *found = export_find(format, &reason);
    if (found && export(found, &request, &text, &said, &reason))
        return hand_answer(&text, &said, answer, error);
    text_clear(&text), text_clear(&said);
    return tell(error, &reason);
}

static void tell_explain(void *self, size_t done)
{
    watching_tell(self, "%zu changes planned anew", done);
}

bool weir_explain(const struct weir_plan *plan, const struct weir_profile *profile,
                  const struct weir_explain_options *options, struct weir_answer *answer, struct weir_error *error)
{
    struct weir_explain_options chosen;
    if (!is_there(plan, "plan", error) || !is_there(profile, "profile", error)
        || !given_explain_options(options, &chosen, error))
        return false;
    struct error reason = { 0 };
    struct watching watching = { .watch = chosen.watch };
    const struct explain_request request = { .plan = plan->plan, .profile = profile->profile,
                                             .budget = chosen.budget, .interrupted = watching_stop(&watching),
                                             .progress = tell_explain, .self = &watching };
    struct explanation *explanation = explain_plan(&request, &reason);
    *answer = (struct weir_answer){ NULL, NULL };
    if (!explanation)
        return tell(error, &reason);
    struct text document = { 0 }, text = { 0 };
    explanation_write(explanation, &document);
    explanation_print(explanation, &text);
    explanation_free(explanation);
    return hand_answer(&document, &text, answer, error);
}

char *weir_second_opinion(const struct weir_plan *plan, const struct weir_profile *profile,
                          const struct weir_watch *watch, struct weir_error *error)
{
    if (!is_there(plan, "plan", error) || !is_there(profile, "profile", error))
        return NULL;
    struct error reason = { 0 };
    struct question question;
    struct second_opinion opinion;
    struct text text = { 0 };
    const struct integer_limits limits = second_opinion_limits(watch ? watch->stop : NULL);
    bool good = question_of(plan->plan, profile->profile, &question, &reason);
    if (good) {
        good = second_opinion_ask(&question.request, plan->plan, limits, &opinion, &reason);
        question_clear(&question);
    }
    if (good) {
        second_opinion_print(&opinion, &text);
        second_opinion_clear(&opinion);
    }
    return hand_made(good, &text, &reason, error);
}

// --- sweep ---------------------------------------------------------------------------

static void tell_sweep(void *self, size_t done, size_t all)
{
    watching_tell(self, "%zu of %zu plans", done, all);
}

static struct sweep *run_sweep(const struct weir_sweep_options *options, const struct profile *profile,
                               const struct cluster *cluster, struct error *error)
{
    struct watching watching = { .watch = options->watch };
    struct sweep_request request = {
        .profile = profile,
        .cluster = cluster,
        .schedules = options->schedules,
        .schedule_count = options->schedule_count,
        .ranks = { options->ranks.at, options->ranks.count },
        .chunks = { options->chunks.at, options->chunks.count },
        .micro_batches = { options->micro_batches.at, options->micro_batches.count },
        .own_order = options->own_order,
        .budget = options->budget,
        .threads = options->threads,
        .interrupted = watching_stop(&watching),
        .progress = tell_sweep,
        .self = &watching,
    };
    enum tied tied;
    if (!given_optimizer(options->optimizer, &request.storage.optimizer, error)
        || !given_tied(options->tied, &tied, error))
        return NULL;
    storage_meet_profile(&request.storage, tied, profile, true);
    if (!storage_check(&request.storage, profile, cluster, true, error))
        return NULL;
    return sweep_run(&request, error);
}

static bool hand_best(const struct sweep *sweep, struct weir_plan **best, struct weir_error *error)
{
    const struct sweep_row *row = best ? sweep_best_plan(sweep) : NULL;
    struct error reason = { 0 };
    if (row)
        *best = wrap_plan(plan_copy(row->plan, &reason), &reason, error);
    return !row || *best;
}

bool weir_sweep(const struct weir_profile *profile, const struct weir_sweep_options *options,
                struct weir_answer *answer, struct weir_plan **best, struct weir_error *error)
{
    struct weir_sweep_options chosen;
    if (!is_there(profile, "profile", error) || !given_sweep_options(options, &chosen, error))
        return false;
    struct error reason = { 0 };
    struct cluster *cluster = given_cluster(chosen.cluster, "weir_sweep_options.cluster", chosen.memory_bytes, &reason);
    struct sweep *sweep = cluster ? run_sweep(&chosen, profile->profile, cluster, &reason) : NULL;
    struct text document = { 0 }, text = { 0 };
    *answer = (struct weir_answer){ NULL, NULL };
    if (best)
        *best = NULL;
    bool good = sweep && hand_best(sweep, best, error);
    if (good) {
        sweep_write(sweep, &document);
        sweep_print(sweep, &text);
        good = hand_answer(&document, &text, answer, error);
    } else if (!sweep) {
        tell(error, &reason);
    }
    if (!good && best) {
        weir_plan_free(*best);
        *best = NULL;
    }
    sweep_free(sweep);
    cluster_free(cluster);
    return good;
}
