#include "runtime/weir.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "partitioner/plan_search.h"
#include "runtime/chain.h"
#include "runtime/measure_chain.h"
#include "runtime/weir_handles.h"
#include "schedules/simulate.h"

const char *weir_version(void)
{
    return WEIR_VERSION;
}

bool tell(struct weir_error *error, const struct error *reason)
{
    if (error && error->code == 0) {
        error->code = reason->kind;
        static_assert(sizeof error->text == sizeof reason->text, "a sentence fits both ways");
        memcpy(error->text, reason->text, sizeof error->text);
    }
    return false;
}

// --- layers ------------------------------------------------------------------------

static bool has_sound_ranges(const struct weir_layer *layer, struct error *error)
{
    uint64_t from = 0;
    for (size_t i = 0; i < layer->undecayed_count; i++) {
        const struct weir_range range = layer->undecayed[i];
        if (range.first < from || range.end < range.first || range.end > layer->parameter_bytes
            || range.first % sizeof(float) != 0 || range.end % sizeof(float) != 0)
            return error_set(error, "undecayed[%zu] is no range of whole parameters behind the one before", i);
        from = range.end;
    }
    return true;
}

static bool is_sound(const struct weir_layer *layer, bool is_last, struct error *error)
{
    if (!layer->name || !layer->name[0] || !layer->kind)
        return error_set(error, "needs a name and a kind");
    if (!layer->forward || !layer->backward_input || !layer->backward_weight)
        return error_set(error, "needs forward, backward_input and backward_weight");
    if (layer->parameter_bytes % sizeof(float) != 0)
        return error_set(error, "parameter_bytes: %llu is no whole number of floats",
                         (unsigned long long)layer->parameter_bytes);
    if (is_last && layer->output_bytes > 0)
        return error_set(error, "output_bytes: the last layer computes the loss and hands nothing on");
    if (!is_last && layer->held_for_weight_bytes > 0 && layer->held_for_weight_bytes < layer->output_bytes)
        return error_set(error, "held_for_weight_bytes: %llu has no room for the output's gradient (%llu bytes)",
                         (unsigned long long)layer->held_for_weight_bytes, (unsigned long long)layer->output_bytes);
    return has_sound_ranges(layer, error);
}

static bool is_name_taken(const struct weir_layer *layers, size_t layer)
{
    for (size_t l = 0; l < layer; l++)
        if (strcmp(layers[l].name, layers[layer].name) == 0)
            return true;
    return false;
}

bool are_sound(const struct weir_layer *layers, size_t count, struct error *error)
{
    if (count == 0)
        return error_set(error, "a model needs at least one layer");
    for (size_t l = 0; l < count; l++) {
        if (!is_sound(&layers[l], l + 1 == count, error))
            return error_at(error, "layer %zu (%s)", l, layers[l].name ? layers[l].name : "");
        if (layers[l].tied && (layers[l].tied < layers || layers[l].tied >= &layers[l]))
            return error_set(error, "layer %zu (%s): tied: is no layer of this model before it", l, layers[l].name);
        if (is_name_taken(layers, l))
            return error_set(error, "layer %zu (%s): another layer is called the same", l, layers[l].name);
    }
    return true;
}

// --- profiles ----------------------------------------------------------------------

static struct weir_profile *wrap_profile(struct profile *profile, const struct error *reason,
                                         struct weir_error *error)
{
    struct weir_profile *handle = profile ? malloc(sizeof *handle) : NULL;
    struct error own = *reason;
    if (handle) {
        handle->profile = profile;
        return handle;
    }
    error_no_memory(&own, "a profile");
    profile_free(profile);
    tell(error, &own);
    return NULL;
}

static struct profile *measure(struct measured_chain *chain, const struct weir_layer *layers, size_t count,
                               const struct weir_measuring *measuring, struct device *device, struct error *error)
{
    struct measure_options options = measure_usual_options();
    if (measuring->repeats > 0)
        options.repeats = measuring->repeats;
    const struct measure_labels labels = {
        .model = measuring->model ? measuring->model : "layers",
        .dtype = "fp32",
        .device = device_description(device),
        .micro_batch = measuring->micro_batch > 0 ? measuring->micro_batch : 1,
    };
    const struct measured *what = measured_chain_callbacks(chain);
    struct measurement *measurement = measure_layers(what, &options, error);
    struct profile *profile = measurement ? measurement_profile(measurement, what, &labels, error) : NULL;
    measurement_free(measurement);
    if (profile && !chain_note_tied(layers, count, profile, error)) {
        profile_free(profile);
        return NULL;
    }
    return profile;
}

struct weir_profile *weir_profile_layers(const struct weir_layer *layers, size_t count,
                                         const struct weir_measuring *measuring, struct weir_error *error)
{
    struct error reason = { 0 };
    struct profile *profile = NULL;
    struct device *device = are_sound(layers, count, &reason) ? device_open("cpu", &reason) : NULL;
    struct measured_chain *chain = NULL;
    if (measuring->repeats > 0 && measuring->repeats < 20)
        error_set(&reason, "repeats: %llu samples say little; take 20 or more", (unsigned long long)measuring->repeats);
    else if (device)
        chain = measured_chain_create(layers, count, device, &reason);
    if (chain)
        profile = measure(chain, layers, count, measuring, device, &reason);
    measured_chain_free(chain);
    device_close(device);
    return wrap_profile(profile, &reason, error);
}

struct weir_profile *weir_profile_load(const char *path, struct weir_error *error)
{
    struct error reason = { 0 };
    struct profile *profile = profile_load(path, &reason);
    return wrap_profile(profile, &reason, error);
}

// Documents go the same way to a file.
static bool save(struct text *text, const char *path, struct weir_error *error)
{
    struct error reason = { 0 };
    const bool good = text_save(text, path, &reason);
    text_clear(text);
    return good || tell(error, &reason);
}

bool weir_profile_save(const struct weir_profile *profile, const char *path, struct weir_error *error)
{
    struct text text = { 0 };
    profile_write(profile->profile, &text);
    return save(&text, path, error);
}

void weir_profile_free(struct weir_profile *profile)
{
    if (profile)
        profile_free(profile->profile);
    free(profile);
}

// --- plans -------------------------------------------------------------------------------

static struct weir_plan *wrap_plan(struct plan *plan, const struct error *reason, struct weir_error *error)
{
    struct weir_plan *handle = plan ? malloc(sizeof *handle) : NULL;
    struct error own = *reason;
    if (handle) {
        handle->plan = plan;
        return handle;
    }
    error_no_memory(&own, "a plan");
    plan_free(plan);
    tell(error, &own);
    return NULL;
}

static bool find_optimizer(const char *name, enum optimizer_kind *kind, struct error *error)
{
    for (enum optimizer_kind i = OPTIMIZER_SGD; optimizer_names[i]; i++) {
        // Those that are run as well; fp32 weights beside narrower ones the caller's layers do not have.
        if (optimizer_is_run(i) && !optimizer_is_master(i) && strcmp(name ? name : "sgd", optimizer_names[i]) == 0) {
            *kind = i;
            return true;
        }
    }
    return error_set(error, "optimizer: \"%s\" is none of sgd, momentum and adamw", name);
}

static bool is_complete(const struct weir_planning *planning, struct error *error)
{
    if (!planning->cluster)
        return error_set(error, "cluster: is missing; for instance \"2 devices, 1GiB, 10GB/s 1us\"");
    if (!planning->schedule)
        return error_set(error, "schedule: is missing; for instance \"1f1b\"");
    if (planning->micro_batches == 0)
        return error_set(error, "micro_batches: an iteration needs at least one");
    return true;
}

struct weir_plan *weir_partition(const struct weir_profile *profile, const struct weir_planning *planning,
                                 struct weir_error *error)
{
    struct error reason = { 0 };
    enum optimizer_kind optimizer = OPTIMIZER_SGD;
    struct plan *plan = NULL;
    const bool good = is_complete(planning, &reason) && find_optimizer(planning->optimizer, &optimizer, &reason);
    struct cluster *cluster = good ? cluster_load(planning->cluster, &reason) : NULL;
    if (cluster && planning->ranks > cluster->device_count) {
        error_set(&reason, "ranks: %u, but the cluster has %zu devices", planning->ranks, cluster->device_count);
    } else if (cluster) {
        const struct search_request request = {
            .profile = profile->profile,
            .cluster = cluster,
            .schedule = planning->schedule,
            .ranks = planning->ranks > 0 ? planning->ranks : (uint32_t)cluster->device_count,
            .chunks = planning->chunks,
            .micro_batches = planning->micro_batches,
            .holding = { .optimizer = optimizer, .tied_apart = planning->tied_apart },
        };
        plan = plan_search(&request, &reason);
    }
    cluster_free(cluster);
    return wrap_plan(plan, &reason, error);
}

struct weir_plan *weir_plan_load(const char *path, struct weir_error *error)
{
    struct error reason = { 0 };
    struct plan *plan = plan_load(path, &reason);
    return wrap_plan(plan, &reason, error);
}

bool weir_plan_save(const struct weir_plan *plan, const char *path, struct weir_error *error)
{
    struct text text = { 0 };
    plan_write(plan->plan, &text);
    return save(&text, path, error);
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

struct weir_stage weir_plan_stage(const struct weir_plan *plan, size_t stage)
{
    assert(stage < plan->plan->stage_count);
    const struct plan_stage *from = &plan->plan->stages[stage];
    struct weir_stage to = { from->first, from->end, 0, from->memory.peak_bytes };
    for (size_t i = 0; i < from->recompute_count; i++)
        to.recomputed_layers += from->recompute[i].end - from->recompute[i].first;
    return to;
}

char *weir_plan_text(const struct weir_plan *plan, struct weir_error *error)
{
    struct error reason = { 0 };
    struct text text = { 0 };
    plan_print(plan->plan, &text);
    char *table = text_take(&text, &reason);
    text_clear(&text);
    if (!table)
        tell(error, &reason);
    return table;
}

char *weir_simulate(const struct weir_plan *plan, struct weir_error *error)
{
    struct error reason = { 0 };
    struct text text = { 0 };
    struct simulation simulation = { 0 };
    char *document = NULL;
    struct schedule *lowered = plan_schedule(plan->plan, plan->plan->micro_batches, true, &reason);
    struct network *network = lowered ? plan_network(plan->plan, &reason) : NULL;
    if (network && schedule_simulate(lowered, NULL, network, &simulation, NULL, &reason)) {
        simulation_write(&simulation, lowered, &text);
        document = text_take(&text, &reason);
    }
    text_clear(&text);
    simulation_clear(&simulation);
    network_free(network);
    schedule_free(lowered);
    if (!document)
        tell(error, &reason);
    return document;
}
