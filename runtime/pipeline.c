#include "runtime/pipeline.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/evaluate/belonging.h"
#include "runtime/pipeline_shards.h"
#include "runtime/stages/layer_inputs.h"
#include "schedules/check.h"

// The model's number of the layer at a position of the plan.
static uint32_t layer_of(const struct plan *plan, uint32_t place)
{
    return plan->order ? plan->order[place] : place;
}

// Checks that each layer comes after all layers that it reads.
static bool match_order(const struct plan *plan, const struct weir_layer *layers, struct error *error)
{
    const uint32_t places = plan->order ? plan->stages[plan->stage_count - 1].end : 0;
    for (uint32_t place = 0; place < places; place++)
        for (uint32_t later = place + 1; later < places; later++)
            if (layer_reads(layers, plan->order[place], plan->order[later]))
                return error_set(error, "the plan has layer \"%s\" in front of \"%s\", which it reads: the plan is of"
                                 " another model", layers[plan->order[place]].name, layers[plan->order[later]].name);
    return true;
}

static bool match_names(const struct plan *plan, const struct weir_layer *layers, size_t layer_count,
                        bool are_variants, struct error *error)
{
    uint32_t next = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        if (stage->variant && !are_variants)
            return error_set(error, "the plan's stage %zu takes the variant \"%.60s\" of its layers, and layers are run"
                             " as they are: plan without variants", s, stage->variant);
        if (stage->first != next || stage->end > layer_count)
            return error_set(error, "the plan's stage %zu holds layers %u to %u of a model that has %zu", s,
                             stage->first, stage->end, layer_count);
        for (uint32_t l = stage->first; l < stage->end; l++)
            if (strcmp(stage->layers[l - stage->first], layers[layer_of(plan, l)].name) != 0)
                return error_set(error, "the plan's stage %zu calls layer %u \"%s\", the model \"%s\": the"
                                 " plan is of another model", s, layer_of(plan, l), stage->layers[l - stage->first],
                                 layers[layer_of(plan, l)].name);
        next = stage->end;
    }
    if (next != layer_count)
        return error_set(error, "the plan holds %u layers, the model has %zu", next, layer_count);
    return match_order(plan, layers, error);
}

bool pipeline_prove(const struct schedule *schedule, struct error *error)
{
    struct check_result result;
    if (!schedule_check(schedule, 0, &result, error))
        return false;
    const bool ok = result.ok;
    if (!ok && result.fault_count)
        error_set_kind(error, ERROR_ANSWER, "the schedule cannot run: rank %u: %s", result.faults[0].rank,
                       result.faults[0].reason);
    else if (!ok)
        error_set_kind(error, ERROR_ANSWER, "the schedule cannot run: %s", result.cycle.data ? result.cycle.data : "");
    check_result_clear(&result);
    return ok;
}

// Parts of a sequence attend to each other and add up to one micro-batch's gradients, so they need the same weights.
static bool check_parts(const struct schedule *schedule, struct error *error)
{
    return schedule->splits == 1 || schedule->weights == WEIGHTS_FLUSH
        || error_set(error,
                     "the schedule passes each sequence through in %u splits and updates weights without a flush:"
                     " splits of one sequence may meet different weights; let it flush, or leave sequences whole",
                     schedule->splits);
}

static bool make_stages(struct pipeline *pipeline, size_t layer_count, bool never_warms_up, struct error *error)
{
    const struct plan *plan = pipeline->plan;
    pipeline->chains = calloc(plan->stage_count, sizeof pipeline->chains[0]);
    pipeline->stages = calloc(plan->stage_count, sizeof pipeline->stages[0]);
    if (!pipeline->chains || !pipeline->stages)
        return error_no_memory(error, "the stages of a plan");
    struct placement *placement = placement_read(pipeline->schedule, error);
    bool good = placement != NULL;
    for (uint32_t s = 0; good && s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        pipeline->chains[s] =
            chain_create(pipeline->layers, layer_count, stage->first, stage->end, stage->recompute,
                         stage->recompute_count, pipeline->schedule->splits, &plan->storage,
                         placement_copies(placement, s), error);
        good = pipeline->chains[s] != NULL;
        if (good)
            pipeline->stages[s] = *chain_stage(pipeline->chains[s]);
        pipeline->stages[s].warms_up &= !never_warms_up;
    }
    placement_free(placement);
    return good;
}

static bool match_bytes(size_t stage, const char *where, uint64_t planned, uint64_t needed, bool flushes,
                        struct error *error)
{
    if (needed <= planned && (!flushes || needed == planned))
        return true;
    return error_set(error, "the plan's stage %zu was counted as %llu bytes%s, and its layers take %llu: the plan was"
                     " changed, or is of layers of other sizes; partition anew", stage, (unsigned long long)planned,
                     where, (unsigned long long)needed);
}

// Checks that the layers need what the plan has counted; otherwise they might not fit the devices it was made for. An
// asynchronous run that ends before its steady state may need less. A plan made by hand has counted nothing. A stage
// on a group that this member does not belong to needs less, too: the member follows it (proxy_stages.h).
static bool match_memory(const struct pipeline *pipeline, uint32_t member, struct error *error)
{
    const struct plan *plan = pipeline->plan;
    const bool flushes = plan->weights == WEIGHTS_FLUSH;
    struct slots *slots = calloc(plan->stage_count, sizeof *slots);
    bool good = slots || error_no_memory(error, "the slots of a plan");
    good = good && slots_count(pipeline->schedule, slots, error);
    for (size_t s = 0; good && s < plan->stage_count; s++) {
        const struct stage_memory *planned = &plan->stages[s].memory;
        const struct stage_bytes part = stage_bytes_of_split(pipeline->stages[s].bytes, pipeline->schedule->splits);
        const struct stage_memory needed = stage_memory_of(&part, &slots[s]);
        if (slots[s].again > 0 && part.again > 0 && part.streams && pipeline->schedule->splits > 1) {
            good = error_set(error,
                             "the plan's stage %zu has a window of layers, and an R for parts of sequences: what it"
                             " brings back has room for a part of its layers' data, and weights are whole; leave the R"
                             " or the window out",
                             s);
            break;
        }
        good = planned->peak_bytes == 0 || plan_stage_group(&plan->stages[s]) <= member
            || (match_bytes(s, "", planned->peak_bytes, needed.peak_bytes, flushes, error)
                && match_bytes(s, " on the host", planned->host_bytes, needed.host_bytes, flushes, error));
    }
    free(slots);
    return good;
}

static bool order_auxiliary(struct pipeline *pipeline, size_t layer_count, struct error *error)
{
    uint32_t count = 0;
    pipeline->auxiliary_order = calloc(layer_count + 1, sizeof pipeline->auxiliary_order[0]);
    if (!pipeline->auxiliary_order)
        return error_no_memory(error, "the layers of a model");
    for (size_t l = 0; l < layer_count; l++)
        if (pipeline->layers[pipeline->place[l]].has_auxiliary_loss)
            pipeline->auxiliary_order[count++] = layers_auxiliary_count(pipeline->layers, pipeline->place[l]);
    return true;
}

// Puts the layers in the order in which the plan's stages hold them, and notes the position of each layer of the
// model.
static bool put_in_order(struct pipeline *pipeline, const struct weir_layer *layers, size_t layer_count,
                         struct error *error)
{
    const struct plan *plan = pipeline->plan;
    pipeline->place = calloc(layer_count + 1, sizeof pipeline->place[0]);
    if (!pipeline->place)
        return error_no_memory(error, "the layers of a model");
    for (uint32_t l = 0; l < layer_count; l++)
        pipeline->place[layer_of(plan, l)] = l;
    pipeline->ordered = plan->order ? layers_copy(layers, plan->order, layer_count, error) : NULL;
    pipeline->layers = plan->order ? pipeline->ordered : layers;
    return pipeline->layers != NULL && (!plan->order || order_auxiliary(pipeline, layer_count, error));
}

// Takes the schedule, which may be NULL after an error.
static struct pipeline *create(struct schedule *schedule, const struct plan *plan, const struct weir_layer *layers,
                               size_t layer_count, struct device *device, const struct session_settings *settings,
                               struct error *error)
{
    struct pipeline *pipeline = schedule ? calloc(1, sizeof *pipeline) : NULL;
    if (!pipeline) {
        schedule_free(schedule);
        return error_null(error_no_memory(error, "a pipeline"));
    }
    pipeline->plan = plan;
    pipeline->number_bytes = precision_bytes(device_precision(device));
    pipeline->schedule = schedule;
    const bool good = put_in_order(pipeline, layers, layer_count, error) && check_parts(schedule, error)
                      && pipeline_prove(schedule, error)
                      && make_stages(pipeline, layer_count, settings->never_warms_up, error)
                      && match_memory(pipeline, settings->member, error);
    struct session_settings own = *settings;
    own.auxiliary_order = pipeline->auxiliary_order;
    if (good)
        pipeline->session = session_create(schedule, pipeline->stages, device, &own, error);
    if (good && !pipeline->session && device_is_stuck(device))
        return NULL;  // a rank was left in a layer, with the stages
    if (!good || !pipeline->session) {
        pipeline_free(pipeline);
        return NULL;
    }
    return pipeline;
}

struct pipeline *pipeline_create(const struct plan *plan, const struct weir_layer *layers, size_t layer_count,
                                 struct device *device, uint32_t runs, const struct session_settings *settings,
                                 struct error *error)
{
    const uint32_t micro_batches = plan->micro_batches * (plan->weights == WEIGHTS_FLUSH ? 1 : runs);
    if (!storage_check_runnable(&plan->storage, precision_name(device_precision(device)), error)
        || !match_names(plan, layers, layer_count, settings->shards || settings->has_variants, error)
        || !plan_belongs(plan, (struct plan_company){ 0 }, BELONGS_BY_MEMORY, BELONGS_BY_MEMORY, NULL, error))
        return NULL;
    return create(plan_schedule(plan, micro_batches, true, error), plan, layers, layer_count, device, settings, error);
}

struct pipeline *pipeline_create_on(const struct schedule *schedule, const struct plan *plan,
                                    const struct weir_layer *layers, size_t layer_count, struct device *device,
                                    const struct session_settings *settings, struct error *error)
{
    if (!storage_check_runnable(&plan->storage, precision_name(device_precision(device)), error)
        || !match_names(plan, layers, layer_count, settings->shards || settings->has_variants, error))
        return NULL;
    if (schedule->stages != plan->stage_count) {
        error_set(error, "the schedule has %u stages, but the plan has %zu", schedule->stages, plan->stage_count);
        return NULL;
    }
    return create(schedule_copy(schedule, error), plan, layers, layer_count, device, settings, error);
}

uint64_t pipeline_free(struct pipeline *pipeline)
{
    const uint64_t left_bytes = pipeline ? session_free(pipeline->session) : 0;
    if (!pipeline || left_bytes > 0)
        return left_bytes;
    for (size_t s = 0; pipeline->chains && s < pipeline->plan->stage_count; s++)
        chain_free(pipeline->chains[s]);
    free(pipeline->chains);
    free(pipeline->stages);
    free(pipeline->ordered);
    free(pipeline->place);
    free(pipeline->auxiliary_order);
    schedule_free(pipeline->schedule);
    free(pipeline);
    return 0;
}

static const struct weir_layer *layer_at(const struct pipeline *pipeline, uint32_t layer)
{
    return &pipeline->layers[pipeline->place[layer]];
}

// The stage that has a copy of the layer. `copy` becomes the copy's number among those of the stage.
static uint32_t stage_with(const struct pipeline *pipeline, uint32_t layer, uint32_t *copy, uint64_t *offset)
{
    for (uint32_t stage = 0;; stage++) {
        assert(stage < pipeline->plan->stage_count);
        if (!chain_find_parameters(pipeline->chains[stage], layer_at(pipeline, layer), offset))
            continue;
        const uint32_t copies = session_copies(pipeline->session, stage);
        if (*copy < copies)
            return stage;
        *copy -= copies;
    }
}

uint32_t pipeline_copies(const struct pipeline *pipeline, uint32_t layer)
{
    uint32_t copies = 0;
    uint64_t offset;
    for (uint32_t stage = 0; stage < pipeline->plan->stage_count; stage++)
        if (chain_find_parameters(pipeline->chains[stage], layer_at(pipeline, layer), &offset))
            copies += session_copies(pipeline->session, stage);
    return copies;
}

bool pipeline_read_parameters(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, uint64_t bytes,
                              void *host, struct error *error)
{
    uint64_t offset;
    const struct pipeline_shards *shards = pipeline->shards;
    if (shards && (!shards_are_alone(shards) || shards->is_split(shards->self, layer)))
        return shards_read_parameters(pipeline, layer, copy, host, error);
    struct state_span span = { .stage = stage_with(pipeline, layer, &copy, &offset) };
    span.first = offset / pipeline->number_bytes;
    span.count = bytes / pipeline->number_bytes;
    return session_read_and_tell(pipeline->session, &span, copy, host, error);
}

void pipeline_auxiliary_losses(const struct pipeline *pipeline, uint32_t layer, float *losses)
{
    const struct session_result *last = session_last(pipeline->session);
    const uint32_t number = layers_auxiliary_count(pipeline->layers, pipeline->place[layer]);
    for (uint32_t m = 0; m < pipeline->schedule->micro_batches; m++)
        losses[m] = last->auxiliary_losses[(size_t)m * last->auxiliary_count + number];
}

// --- state that lasts --------------------------------------------------------------------

// The stage that the layer is on, and where its state without a gradient lies there.
static uint32_t state_stage(const struct pipeline *pipeline, uint32_t layer, uint64_t *offset)
{
    uint32_t stage = 0;
    while (!chain_find_state(pipeline->chains[stage], layer_at(pipeline, layer), offset))
        stage++;
    return stage;
}

static struct state_span state_span_of(const struct pipeline *pipeline, uint32_t layer)
{
    uint64_t offset;
    const uint32_t stage = state_stage(pipeline, layer, &offset);
    return (struct state_span){ .stage = stage, .part = LAYER_STATE, .first = offset / sizeof(float),
                                .count = layer_at(pipeline, layer)->state_bytes / sizeof(float) };
}

uint32_t pipeline_state_copies(const struct pipeline *pipeline, uint32_t layer)
{
    uint64_t offset;
    return session_copies(pipeline->session, state_stage(pipeline, layer, &offset));
}

bool pipeline_read_state(const struct pipeline *pipeline, uint32_t layer, uint32_t copy, void *host,
                         struct error *error)
{
    const struct state_span span = state_span_of(pipeline, layer);
    return session_read_and_tell(pipeline->session, &span, copy, host, error);
}

bool pipeline_tell(const struct pipeline *pipeline, uint32_t layer, void *data, uint64_t bytes, struct error *error)
{
    uint64_t offset;
    return session_tell(pipeline->session, state_stage(pipeline, layer, &offset), 0, data, bytes, error);
}

static uint64_t number_bytes(const struct pipeline *pipeline, uint32_t part)
{
    return part == 0 ? pipeline->number_bytes : sizeof(float);
}

static uint64_t number_count(const struct pipeline *pipeline, uint32_t layer)
{
    return layer_at(pipeline, layer)->parameter_bytes / pipeline->number_bytes;
}

uint32_t pipeline_parts(const struct pipeline *pipeline)
{
    return 1 + optimizer_parts(pipeline->plan->storage.optimizer);
}

// The layer's part of a stage that has the layer.
static const struct stage_part *part_of(const struct pipeline *pipeline, uint32_t layer, uint32_t stage)
{
    const struct stage *owner = &pipeline->stages[stage];
    size_t i = 0;
    while (owner->parts[i].layer != pipeline->place[layer])
        i++;
    return &owner->parts[i];
}

bool pipeline_is_block(const struct pipeline *pipeline, uint32_t part)
{
    return part > 0 && part != LAYER_STATE && optimizer_keeps_blocks(pipeline->plan->storage.optimizer);
}

uint64_t pipeline_part_bytes(const struct pipeline *pipeline, uint32_t layer, uint32_t part)
{
    if (part == LAYER_STATE)
        return layer_at(pipeline, layer)->state_bytes;
    const struct pipeline_shards *shards = pipeline->shards;
    if (pipeline_is_block(pipeline, part) && shards && shards->is_split(shards->self, layer))
        return round_to_256(shards->whole_bytes(shards->self, layer) / layer_at(pipeline, layer)->row_columns);
    if (pipeline_is_block(pipeline, part))
        return pipeline_own_block_bytes(pipeline, layer);
    const uint64_t count = shards ? shards->whole_bytes(shards->self, layer) / pipeline->number_bytes
                                  : number_count(pipeline, layer);
    return count * number_bytes(pipeline, part);
}

uint64_t pipeline_own_block_bytes(const struct pipeline *pipeline, uint32_t layer)
{
    uint64_t offset;
    uint32_t copy = 0;
    const struct stage_part *part = part_of(pipeline, layer, stage_with(pipeline, layer, &copy, &offset));
    return part->state_end - part->state;
}

// The numbers of a layer in a stage that has it.
static struct state_span span_of(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t stage,
                                 uint64_t offset)
{
    if (pipeline_is_block(pipeline, part)) {
        const struct stage_part *stage_part = part_of(pipeline, layer, stage);
        return (
            struct state_span){ .stage = stage, .part = part, .first = stage_part->state,
                                .count = stage_part->state_end - stage_part->state };
    }
    return (struct state_span){ .stage = stage, .part = part, .first = offset / pipeline->number_bytes,
                                .count = number_count(pipeline, layer) };
}

// Some of a layer's numbers; NULL: all of them.
static struct state_span within(struct state_span span, const struct number_range *range)
{
    assert(!range || (range->first <= span.count && range->count <= span.count - range->first));
    return range ? (struct state_span){ span.stage, span.part, span.first + range->first, range->count } : span;
}

bool pipeline_has_copy(const struct pipeline *pipeline, uint32_t layer, uint32_t copy)
{
    uint64_t offset;
    const uint32_t stage = stage_with(pipeline, layer, &copy, &offset);
    return session_has(pipeline->session, stage, copy);
}

uint32_t pipeline_rank_of(const struct pipeline *pipeline, uint32_t layer, uint32_t copy)
{
    uint64_t offset;
    const uint32_t stage = stage_with(pipeline, layer, &copy, &offset);
    return session_rank_of(pipeline->session, stage, copy);
}

bool pipeline_has_first(const struct pipeline *pipeline, uint32_t layer)
{
    return pipeline_has_copy(pipeline, layer, 0) && (!pipeline->shards || pipeline->shards->of[0] == pipeline);
}

bool pipeline_own_is_shared(const struct pipeline *pipeline, uint32_t layer, uint32_t part)
{
    uint64_t offset;
    uint32_t copy = 0;
    const uint32_t stage = stage_with(pipeline, layer, &copy, &offset);
    return session_is_shared(pipeline->session, stage, part);
}

bool pipeline_is_shared(const struct pipeline *pipeline, uint32_t layer, uint32_t part)
{
    if (part == LAYER_STATE)
        return false;
    return pipeline_own_is_shared(pipeline, layer, part)
        || (pipeline->shards && shards_are_apart(pipeline->shards, layer));
}

bool pipeline_read_own(const struct pipeline *pipeline, uint32_t layer, uint32_t part, uint32_t copy,
                       const struct number_range *range, void *host, struct error *error)
{
    uint64_t offset;
    const uint32_t stage = stage_with(pipeline, layer, &copy, &offset);
    const struct state_span span = within(span_of(pipeline, layer, part, stage, offset), range);
    return session_read_state(pipeline->session, &span, copy, host, error);
}

bool pipeline_read_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, void *host,
                        struct error *error)
{
    const struct state_span state = part == LAYER_STATE ? state_span_of(pipeline, layer) : (struct state_span){ 0 };
    if (part == LAYER_STATE)
        return session_read_state(pipeline->session, &state, 0, host, error);
    return pipeline->shards ? shards_read_part(pipeline, layer, part, host, error)
                            : pipeline_read_own(pipeline, layer, part, 0, NULL, host, error);
}

static bool has_any(const struct pipeline *pipeline, uint32_t layer)
{
    for (uint32_t copy = 0; copy < pipeline_copies(pipeline, layer); copy++)
        if (pipeline_has_copy(pipeline, layer, copy))
            return true;
    return false;
}

bool pipeline_has_any(const struct pipeline *pipeline, uint32_t layer)
{
    const struct pipeline_shards *shards = pipeline->shards;
    bool has = !shards && has_any(pipeline, layer);
    for (uint32_t m = 0; shards && m < shards->members(shards->self, layer); m++)
        has = has || (shards->of[m] && has_any(shards->of[m], layer));
    return has;
}

bool pipeline_write_own(const struct pipeline *pipeline, uint32_t layer, uint32_t part,
                        const struct number_range *range, const void *host, struct error *error)
{
    uint64_t offset;
    bool good = true;
    for (uint32_t stage = 0; good && stage < pipeline->plan->stage_count; stage++) {
        if (!chain_find_parameters(pipeline->chains[stage], layer_at(pipeline, layer), &offset))
            continue;
        const struct state_span span = within(span_of(pipeline, layer, part, stage, offset), range);
        good = session_write_state(pipeline->session, &span, host, error);
    }
    return good;
}

// All members in this process get it, since they have it alike.
static bool write_layer_state(const struct pipeline *pipeline, uint32_t layer, const void *host, struct error *error)
{
    const struct pipeline_shards *shards = pipeline->shards;
    const struct state_span state = state_span_of(pipeline, layer);
    bool good = shards || session_write_state(pipeline->session, &state, host, error);
    for (uint32_t m = 0; good && shards && m < shards->grid->members; m++)
        good = !shards->of[m] || session_write_state(shards->of[m]->session, &state, host, error);
    return good;
}

bool pipeline_write_part(const struct pipeline *pipeline, uint32_t layer, uint32_t part, const void *host,
                         struct error *error)
{
    if (part == LAYER_STATE)
        return write_layer_state(pipeline, layer, host, error);
    return pipeline->shards ? shards_write_part(pipeline, layer, part, host, error)
                            : pipeline_write_own(pipeline, layer, part, NULL, host, error);
}

uint64_t pipeline_updates(const struct pipeline *pipeline, uint32_t layer)
{
    uint64_t offset;
    uint32_t copy = 0;
    return session_updates(pipeline->session, stage_with(pipeline, layer, &copy, &offset));
}

bool pipeline_go_on(const struct pipeline *pipeline, uint64_t steps, const uint64_t *updates,
                    const struct loss_scaling *scaling, struct error *error)
{
    const struct plan *plan = pipeline->plan;
    uint64_t *most = calloc(plan->stage_count, sizeof *most);
    if (!most)
        return error_no_memory(error, "the stages of a plan");
    for (size_t s = 0; s < plan->stage_count; s++)
        for (uint32_t l = plan->stages[s].first; l < plan->stages[s].end; l++)
            most[s] = max_u64(most[s], updates[layer_of(plan, l)]);
    for (uint32_t m = 0; pipeline->shards && m < pipeline->shards->grid->members; m++)
        if (pipeline->shards->of[m])
            session_go_on(pipeline->shards->of[m]->session, steps, most, scaling);
    if (!pipeline->shards)
        session_go_on(pipeline->session, steps, most, scaling);
    free(most);
    return true;
}
