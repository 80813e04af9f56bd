#include "exports/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alike.h"
#include "exports/fit.h"

const struct export_format export_formats[] = {
    { "megatron", "Megatron-Core", "arguments: the layout of the pipeline, what is recomputed", &megatron_words },
    { "torchtitan", "torchtitan", "Python: module names of each stage, the schedule", &torchtitan_words },
    { "deepspeed", "DeepSpeed", "Python: a PipelineModule with this partition", &deepspeed_words },
    { "colossalai", "Colossal-AI", "Python: a HybridParallelPlugin with layers of each stage", &colossalai_words },
    { "nanotron", "nanotron", "YAML, and the costs by which it cuts there", &nanotron_words },
    { "torchgpipe", "torchgpipe", "Python: balance, devices, checkpoint mode", &torchgpipe_words },
    { "pytorch", "PyTorch", "Python: where to split a model, and what to recompute", &pytorch_words },
    { "pytorch-csv", "PyTorch's CSV", "the order of actions, for PyTorch's pipelining", &pytorch_csv_words },
    { 0 },
};

const struct export_format *export_find(const char *name, struct error *error)
{
    struct alike alike = { .distance = 0 };
    char said[ALIKE_SAID];
    for (const struct export_format *format = export_formats; format->name; format++) {
        if (strcmp(format->name, name) == 0)
            return format;
        alike_try(&alike, name, format->name);
    }
    error_set(error, "there is no format \"%.60s\" to export%s (weir export --help lists them)", name,
              alike_said(&alike, said));
    return NULL;
}

// --- what no format can say ---------------------------------------------------------------

static bool find_schedule(struct export *export, struct error *error)
{
    const struct export_words *words = export->format->words;
    struct text known = { 0 };
    for (const struct schedule_word *word = words->schedules; word && word->ours; word++) {
        if (strcmp(word->ours, export->plan->schedule) == 0)
            export->schedule = word->theirs;
        text_add(&known, "%s%s", known.length ? ", " : "", word->ours);
    }
    const bool good = export->schedule || words->opens_files || !words->schedules
                   || error_set_kind(error, ERROR_ANSWER, "%s has no schedule %s (of Weir's it has %s): plan for one of"
                                     " these", export->format->title, export->plan->schedule,
                                     known.data ? known.data : "none");
    text_clear(&known);
    return good;
}

// The first stage that has copies of itself without a schedule of replicas that makes them; `stages` if none has.
static uint32_t find_copies(const struct plan *plan, const uint32_t *replicas)
{
    uint32_t s = 0;
    while (s < plan->stage_count && (replicas || plan->stages[s].device_count == 1))
        s++;
    return s;
}

static bool replicas_are_equal(const struct export *export, const uint32_t *replicas, struct error *error)
{
    for (uint32_t s = 1; replicas && s < export->stages; s++)
        if (replicas[s] != replicas[0])
            return error_set_kind(error, ERROR_ANSWER,
                                  "%s has as many replicas of every stage, but stage 0 has %u and"
                                  " stage %u has %u: plan with --replicas %u,%u,...",
                                  export->format->title, replicas[0], s, replicas[s], replicas[0], replicas[0]);
    return true;
}

// Whole micro-batches are dealt to replicas in turns. If all stages have the same number of replicas, and it divides
// the micro-batches, this is data parallelism. Each replica is then a pipeline of its own, with its part of the
// micro-batches.
static bool find_pipelines(struct export *export, struct error *error)
{
    const struct plan *plan = export->plan;
    uint32_t *replicas;
    if (!plan_replicas(plan, &replicas, error))
        return false;
    bool good = replicas_are_equal(export, replicas, error);
    const uint32_t copied = find_copies(plan, replicas);
    export->pipelines = replicas ? replicas[0] : 1;
    free(replicas);
    if (good && copied < export->stages)
        good = error_set_kind(error, ERROR_ANSWER,
                              "%s has %zu copies of stage %u, between which micro-batches go both ways;"
                              " %s has one",
                              plan->schedule, plan->stages[copied].device_count, copied, export->format->title);
    if (good && plan->micro_batches % export->pipelines != 0)
        good = error_set_kind(error, ERROR_ANSWER, "%s gives each replica as many micro-batches, but %u are not a"
                              " multiple of %u", export->format->title, plan->micro_batches, export->pipelines);
    export->micro_batches = plan->micro_batches / export->pipelines;
    export->ranks = plan->ranks / export->pipelines;
    return good;
}

static bool check_layers(const struct export *export, struct error *error)
{
    const struct plan *plan = export->plan;
    if (plan->order)
        return error_set_kind(error, ERROR_ANSWER, "the plan has an order of its own for the layers of a graph, but %s"
                              " cuts the model's own between two of them: plan with --own-order",
                              export->format->title);
    for (uint32_t s = 0; s < export->stages; s++)
        if (plan->stages[s].first == plan->stages[s].end)
            return error_set_kind(error, ERROR_ANSWER, "stage %u has no layers, as no stage of %s can be", s,
                                  export->format->title);
    return true;
}

static bool check_plan(const struct export *export, struct error *error)
{
    const struct plan *plan = export->plan;
    if (plan->weights != WEIGHTS_FLUSH)
        return error_set_kind(error, ERROR_ANSWER,
                              "%s updates its weights while micro-batches are under way (weights %s),"
                              " which %s does not: plan for a schedule that flushes",
                              plan->schedule, weights_names[plan->weights], export->format->title);
    for (uint32_t s = 0; s < export->stages; s++)
        if (plan_stage_group(&plan->stages[s]) > 1)
            return error_set_kind(error, ERROR_ANSWER, "stage %u is split over %u devices by its variant \"%.60s\", of"
                                  " which Weir knows what it costs, and not how %s would be told", s,
                                  plan_stage_group(&plan->stages[s]), plan->stages[s].variant, export->format->title);
    if (export->profile && strcmp(export->profile->hash, plan->profile_hash) != 0)
        return error_set(error, "the plan was made of another profile");
    return export->format->words->grain == GRAIN_NONE || check_layers(export, error);
}

// --- what is said of every plan -----------------------------------------------------------

static void write_devices(const struct placement *placement, struct text *text)
{
    for (uint32_t r = 0; r < placement->ranks; r++)
        text_add(text, "%s%u", r ? ", " : "", placement->devices[r]);
}

static bool say_devices(struct export *export, struct error *error)
{
    struct placement *placement = plan_placement(export->plan, error);
    if (!placement)
        return false;
    bool are_in_order = true;
    for (uint32_t r = 0; r < placement->ranks; r++)
        are_in_order &= placement->devices[r] == r;
    struct text devices = { 0 };
    write_devices(placement, &devices);
    if (!are_in_order && !devices.failed)
        export_say(export, "The plan's ranks are on devices %s of its cluster, in this order: launch them so.",
                   devices.data);
    placement_free(placement);
    const bool good = text_ok(&devices, "the devices of a plan", error);
    text_clear(&devices);
    return good;
}

static bool say_states(struct export *export, struct error *error)
{
    const struct plan *plan = export->plan;
    struct text held = { 0 };
    storage_say(&plan->storage, &held);
    const bool good = text_ok(&held, "how states are held", error);
    if (good && !storage_is_plain(&plan->storage))
        export_say(export, "The plan counts on its states being held so: %s. Nothing here tells %s.", held.data,
                   export->format->title);
    else if (good)
        export_say(export, "Memory is planned for %s%s.", held.data,
                   export->expressed & 1u << CHOICE_OPTIMIZER ? "" : "; the optimizer is not set here");
    text_clear(&held);
    for (uint32_t s = 0; good && s < export->stages; s++)
        if (plan->stages[s].variant)
            export_say(export, "Stage %u counts on its layers' variant \"%.60s\", which %s is not told.", s,
                       plan->stages[s].variant, export->format->title);
    return good;
}

static bool say_common(struct export *export, struct error *error)
{
    if (!export->profile)
        export_say(export, "Parallel degrees, number formats and the model are told only with the plan's profile"
                           " (--profile).");
    if (export->pipelines > 1)
        export_say(export, "Each of the %u replicas is a pipeline of its own with %u of the micro-batches: data"
                   " parallelism.", export->pipelines, export->micro_batches);
    return say_devices(export, error) && say_states(export, error);
}

// --- all of it ----------------------------------------------------------------------------

static void want_planned(struct export *export)
{
    for (uint32_t s = 0; s < export->stages; s++) {
        const struct plan_stage *stage = &export->plan->stages[s];
        for (size_t i = 0; i < stage->recompute_count; i++)
            for (uint32_t l = stage->recompute[i].first; l < stage->recompute[i].end; l++)
                export->wants_again[l] = true;
    }
}

static bool outline_fill(struct export *export, const struct export_request *request, struct error *error)
{
    const enum grain grain = export->format->words->grain;
    const uint32_t layers = export->plan->stages[export->stages - 1].end;
    if (grain <= GRAIN_NAMES && request->units)
        return error_named(error, "--units: %s counts no layers", export->format->title);
    export->cuts = calloc((size_t)export->stages + 1, sizeof export->cuts[0]);
    export->wants_again = calloc((size_t)layers + 1, sizeof export->wants_again[0]);
    export->again.counts = calloc((size_t)export->stages + 1, sizeof export->again.counts[0]);
    export->again.segments = calloc((size_t)layers + 1, sizeof export->again.segments[0]);
    if (!export->cuts || !export->wants_again || !export->again.counts || !export->again.segments)
        return error_no_memory(error, "a plan in other words");
    want_planned(export);
    if (request->units)
        return outline_by_hand(&export->outline, export->plan, grain, request->units, request->unit_count, error);
    return outline_by_name(&export->outline, export->plan, grain, error);
}

// Finds the nearest plan that fits. If memory is short, it recomputes more.
static bool fit(struct export *export, struct error *error)
{
    const size_t said = export->said->length;
    for (;;) {
        uint32_t rank;
        struct error lacks = { 0 };
        if (!fit_cuts(export, error) || (export->format->words->fit && !export->format->words->fit(export, error)))
            return false;
        const enum fit fit = export->format->words->fit ? fit_price(export, &rank, &lacks) : FIT_GOOD;
        if (fit == FIT_GOOD)
            return true;
        if (fit == FIT_FAILS || !fit_more(export, rank, error))
            return error->kind != ERROR_NONE ? false : error_hand_on(error, &lacks);
        export->said->length = said;
        if (export->said->data)
            export->said->data[said] = '\0';
    }
}

// MODULE.FUNCTION, with names in ASCII: the text is written into Python as it is.
static bool is_function(const char *base)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t names = 0;
    for (;; base++) {
        const size_t length = strspn(base, letters);
        if (length == 0 || (*base >= '0' && *base <= '9'))
            return false;
        names++;
        base += length;
        if (*base != '.')
            return *base == '\0' && names > 1;
    }
}

static bool check_base(const struct export *export, struct error *error)
{
    if (!export->base)
        return true;
    if (export->format->words != &torchtitan_words)
        return error_named(error, "--base: %s has no config functions", export->format->title);
    return is_function(export->base)
        || error_named(error, "--base: \"%.80s\" is not MODULE.FUNCTION, such as"
                       " torchtitan.models.llama3.config_registry.llama3_8b", export->base);
}

// If layers were removed from a profile or merged, it is not a profile of the model that it was estimated for.
static bool check_blocks(const struct export *export, struct error *error)
{
    const bool counts = export->estimated && export->format->words->grain >= GRAIN_BLOCKS;
    return !counts || export->outline.blocks == export->estimated->model.layers
        || error_set(error, "the profile was estimated of %llu blocks, and the plan has %u",
                     (unsigned long long)export->estimated->model.layers, export->outline.blocks);
}

// Frameworks that know their own models have a head after the blocks, and nothing else.
static bool check_predicted(const struct export *export, struct error *error)
{
    const uint64_t predicted = export->estimated ? export->estimated->model.predicted : 0;
    const bool is_megatron = export->format->words == &megatron_words;
    if (export->format->words->grain < GRAIN_BLOCKS || (predicted == 0 && export->outline.predicted == 0))
        return true;
    if (!is_megatron)
        return error_set_kind(error, ERROR_ANSWER, "%s trains no multi-token prediction, which the plan has: estimate"
                              " the model without it, and plan again", export->format->title);
    return predicted == 0 || predicted == export->outline.predicted
        || error_named(error, "--units: of the layers behind the blocks %llu predict tokens further on; leave --units"
                            " out",
                     (unsigned long long)predicted);
}

// Their arguments build decoders, of blocks of attention and an MLP.
static bool check_architecture(const struct export *export, struct error *error)
{
    const struct estimated *estimated = export->estimated;
    if (export->format->words->grain < GRAIN_BLOCKS || !estimated)
        return true;
    const struct transformer *model = &estimated->model;
    const char *what = model->recurrence != RECURRENCE_NONE ? "recurrent layers" : "encoders";
    if (model->recurrence == RECURRENCE_NONE && !model->is_bidirectional && model->encoder_layers == 0)
        return true;
    return error_set_kind(error, ERROR_ANSWER, "what Weir writes for %s builds no %s, such as %s has: export to a"
                          " format of layers, such as pytorch", export->format->title, what, model->name);
}

static bool mark_expressed(struct export *export)
{
    if (export->format->words->tells && export->estimated)
        export->format->words->tells(export);
    return true;
}

static bool say_omitted(struct export *export)
{
    export_say_omitted(export);
    return true;
}

static bool fill(struct export *export, const struct export_request *request, struct error *error)
{
    return check_base(export, error) && check_plan(export, error) && find_schedule(export, error)
        && find_pipelines(export, error)
        && outline_fill(export, request, error) && (export->format->words->grain == GRAIN_NONE || fit(export, error))
        && check_blocks(export, error) && check_predicted(export, error)
        && check_architecture(export, error) && mark_expressed(export)
        && say_common(export, error) && say_omitted(export);
}

bool plan_export(const struct export_format *format, const struct export_request *request, struct text *text,
                 struct text *said, struct error *error)
{
    struct export export = { .format = format, .plan = request->plan, .profile = request->profile,
                             .estimated = request->profile ? request->profile->estimated : NULL, .base = request->base,
                             .text = text, .said = said,
                             .stages = (uint32_t)request->plan->stage_count };
    const bool good = fill(&export, request, error) && format->words->write(&export, error)
                   && text_ok(said, "what is said of a plan", error) && text_ok(text, "a plan in other words", error);
    outline_clear(&export.outline);
    free(export.cuts);
    free(export.wants_again);
    free(export.again.counts);
    free(export.again.segments);
    return good;
}
