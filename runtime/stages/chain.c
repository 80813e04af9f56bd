#include "runtime/stages/chain_parts.h"

#include <assert.h>
#include <stdlib.h>

#include "common/number.h"
#include "runtime/stages/layer_table.h"

bool chain_note_shapes(const struct weir_layer *layer, uint64_t number_bytes, struct profile_layer *to,
                       struct error *error)
{
    const struct layer_table table = layer_table_of(layer);
    const bool is_matrix = layer->row_columns > 0 && table.rows > 0;
    const size_t count = layer->tensors && !is_matrix ? layer->tensor_count : layer->parameter_bytes > 0;
    to->shapes = count > 0 ? calloc(count, sizeof to->shapes[0]) : NULL;
    if (count > 0 && !to->shapes)
        return error_no_memory(error, "the shapes of a layer");
    to->shape_count = count;
    if (is_matrix)
        to->shapes[0] = (struct shape){ table.rows, table.columns };
    else if (!layer->tensors && count > 0)
        to->shapes[0] = (struct shape){ layer->parameter_bytes / number_bytes, 1 };
    for (size_t t = 0; layer->tensors && !is_matrix && t < count; t++) {
        const struct weir_tensor *tensor = &layer->tensors[t];
        to->shapes[t] = tensor->rows > 1 ? (struct shape){ tensor->rows, tensor->columns }
                                         : (struct shape){ tensor->columns, 1 };
    }
    return true;
}

struct profile *chain_profile(const struct weir_layer *layers, size_t layer_count, const char *dtype,
                              struct error *error)
{
    bool *has_backward = calloc(layer_count + 1, sizeof *has_backward);
    struct profile *profile = has_backward ? profile_create("", dtype, 1, layer_count, error) : NULL;
    if (!has_backward)
        error_no_memory(error, "a profile");
    else
        layers_find_backwards(layers, layer_count, has_backward);
    bool good = profile != NULL;
    for (size_t l = 0; good && l < layer_count; l++) {
        const struct weir_layer *from = &layers[l];
        struct profile_layer *to = &profile->layers[l];
        to->parameter_bytes = round_to_256(from->parameter_bytes);  // rounded, as measurements count it
        to->output_bytes = from->output_bytes;
        layer_kept_note(from, layer_kept_bytes(from), to);
        to->shared_by_parts_bytes = from->shared_by_parts_bytes;
        to->input_kept = (enum input_kept)from->input_kept;
        to->held_for_weight_bytes = from->held_for_weight_bytes;
        to->touched_rows = from->touched_rows;
        to->summed_rows = from->summed_rows;
        to->row_bytes = layer_table_of(from).columns * profile_dtype_bytes(dtype);
        to->state_bytes = from->state_bytes;
        to->statistics_bytes = from->statistics_bytes;
        to->workspace_bytes = from->workspace_bytes;
        to->backward_workspace_bytes =
            layer_planned_room(layers, has_backward, l, layer_backward_room(layers, layer_count, has_backward, l));
        good = chain_note_shapes(from, profile_dtype_bytes(dtype), to, error);
    }
    free(has_backward);
    if (!good || !chain_note_layers(layers, layer_count, profile, error)) {
        profile_free(profile);
        return NULL;
    }
    return profile;
}

// --- laying out ------------------------------------------------------------------

static const struct segment *find_segment(const struct chain *chain, uint32_t layer)
{
    for (size_t i = 0; i < chain->segment_count; i++)
        if (chain->segments[i].first <= layer && layer < chain->segments[i].end)
            return &chain->segments[i];
    return NULL;
}

// Finds which layers of the stage read an output, and so how long it is needed.
static void find_readers(const struct chain *chain, struct placed *maker)
{
    const size_t from = (size_t)(maker->layer - chain->layers);
    for (size_t i = 0; i < chain_length(chain); i++) {
        const struct placed *reader = &chain->links[i];
        if (!layer_reads(chain->layers, chain->first + i, from))
            continue;
        const bool needed = reader->layer->input_kept != WEIR_INPUT_KEPT_NONE;
        if (reader->segment && reader->segment == maker->segment)
            maker->is_held |= needed;
        else
            maker->is_through |= needed || reader->segment;
    }
}

static uint64_t shared_by_parts_bytes(const struct chain *chain, const struct placed *link)
{
    return chain->splits > 1 ? round_to_256(link->layer->shared_by_parts_bytes) : 0;
}

// Offsets of a layer of a segment in the slot of an R.
static void lay_out_recomputed(const struct chain *chain, struct placed *link, uint64_t *recomputed)
{
    link->recomputed_saved = chain_take(recomputed, layer_kept_bytes(link->layer));
    link->recomputed_output = chain_take(recomputed, link->layer->output_bytes);
    if (chain->weights_from != ORIGIN_HERE)
        link->recomputed_weights = chain_take(recomputed, link->layer->parameter_bytes);
}

static void place_parts(struct chain *chain)
{
    for (size_t i = 0; i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        uint64_t *const places[] = { &link->saved, &link->held, &link->through, &link->held_output,
                                     &link->recomputed_saved, &link->recomputed_output };
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++)
            *places[k] = chain_part(chain, *places[k]);
    }
}

static void lay_out(struct chain *chain)
{
    uint64_t kept = 0, kept_through = 0, held = 0, shared_by_parts = 0, recomputed = 0, state = 0, statistics = 0;
    const uint64_t parameters = chain_lay_out_weights(chain);
    chain_lay_out_window(chain);
    for (size_t i = 0; i < chain_length(chain); i++) {
        struct placed *link = &chain->links[i];
        find_readers(chain, link);
        link->held = chain_take(&held, link->layer->held_for_weight_bytes);
        link->state = chain_take(&state, link->layer->state_bytes);
        link->statistics = chain_take(&statistics, link->layer->statistics_bytes);
        link->shared_by_parts = chain_take(&shared_by_parts, shared_by_parts_bytes(chain, link));
        if (!link->segment)
            link->saved = chain_take(&kept, round_to_256(layer_kept_bytes(link->layer))
                                                - shared_by_parts_bytes(chain, link));
        else
            lay_out_recomputed(chain, link, &recomputed);
        if (link->is_through)
            link->through = chain_take(&kept_through, link->layer->output_bytes);
        if (link->is_held)
            link->held_output = chain_take(&held, link->layer->output_bytes);
    }
    place_parts(chain);
    const struct stage_bytes bytes = stage_bytes_of_split(chain->stage.bytes, chain->splits);
    assert(parameters == bytes.all_weights && chain_part(chain, kept) == bytes.kept
           && chain_part(chain, kept_through) == bytes.kept_through && chain_part(chain, held) == bytes.held
           && chain_part(chain, recomputed) == bytes.again && state == bytes.state && statistics == bytes.statistics
           && (chain->splits == 1 || shared_by_parts == bytes.shared_by_parts));
    (void)bytes, (void)parameters, (void)recomputed;
}

// --- calls -------------------------------------------------------------------------

bool chain_call_layer(const struct weir_layer *layer, layer_function function, const struct weir_pass *pass,
                      struct error *error)
{
    struct weir_error trouble = { 0 };
    if (function(layer->self, pass, &trouble))
        return true;
    const bool known = trouble.code >= ERROR_ANSWER && trouble.code <= ERROR_MACHINE;
    return error_set_kind(error, known ? (enum error_kind)trouble.code : ERROR_MACHINE, "layer %s: %s", layer->name,
                          trouble.text[0] ? trouble.text : "failed without a reason");
}

static bool chain_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    // What is recomputed has a slot elsewhere, so the workspace does not include it.
    const bool has_slot = pass->workspace_bytes < chain->stage.bytes.transient;
    return program_run(has_slot ? &chain->forward_with_slot : &chain->forward, pass, error);
}

static bool chain_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    const struct program *with_slot = pass->was_recomputed ? &chain->backward_after_r : &chain->backward_with_slot;
    return program_run(pass->recomputed ? with_slot : &chain->backward, pass, error);
}

static bool chain_backward_input(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    const struct program *with_slot = pass->was_recomputed ? &chain->input_after_r : &chain->input_with_slot;
    return program_run(pass->recomputed ? with_slot : &chain->backward_input, pass, error);
}

static bool chain_backward_weight(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    return program_run(&chain->backward_weight, pass, error);
}

static bool chain_recompute(void *self, const struct stage_pass *pass, struct error *error)
{
    const struct chain *chain = self;
    return !pass->recomputed || program_run(&chain->recompute, pass, error);
}

static const struct stage_functions chain_functions = {
    .forward = chain_forward,
    .backward = chain_backward,
    .backward_input = chain_backward_input,
    .backward_weight = chain_backward_weight,
    .recompute = chain_recompute,
    .initialize = chain_initialize,
    .initialize_share = chain_initialize_share,
    .initialize_state = chain_initialize_state,
    .fold = chain_fold,
};

// --- life ----------------------------------------------------------------------------

// Gradients and optimizer states are counted by number. With 16-bit weights they take more bytes per number than the
// weights do, so rounding up the weights' bytes would not cover theirs.
static bool check_numbers(const struct chain *chain, struct error *error)
{
    for (size_t i = 0; chain->number_bytes < sizeof(float) && i < chain_length(chain); i++) {
        const struct weir_layer *layer = chain->links[i].layer;
        if (layer->parameter_bytes % 256 != 0)
            return error_set(error, "layer %s: parameter_bytes: %llu is no multiple of 256, as 16-bit weights must be",
                             layer->name, (unsigned long long)layer->parameter_bytes);
    }
    return true;
}

// What has no gradient goes over no cut.
static bool check_cut(const struct chain *chain, size_t layer_count, struct error *error)
{
    for (size_t l = chain->first; chain->first < chain->end && l < layer_count; l++)
        for (size_t i = 0; i < layer_input_count(chain->layers, l); i++) {
            const size_t from = layer_input(chain->layers, l, i);
            if (from < chain->first && !layer_gives_gradients(chain->layers, chain->has_backward, l))
                return error_set(error, "the plan cuts between layer %s and layer %s, which gives no gradient of it"
                                 " (has_constant_inputs): plan with a profile of these layers, whose no_cut_after"
                                 " says so", chain->layers[from].name, chain->layers[l].name);
        }
    return true;
}

// Whether the layers accept this number of parts of a sequence.
static bool check_splits(const struct chain *chain, struct error *error)
{
    for (size_t i = 0; chain->splits > 1 && i < chain_length(chain); i++) {
        const struct weir_layer *layer = chain->links[i].layer;
        if (layer->most_splits <= 1)
            return error_set(error,
                             "layer %s takes whole sequences, and the schedule passes each through in %u splits: "
                             "take another schedule, or a layer of longer sequences that can be split",
                             layer->name, chain->splits);
        if (layer->most_splits % chain->splits != 0)
            return error_set(error, "layer %s takes sequences in numbers of splits that divide %u, and the schedule "
                             "passes each through in %u: take one with such a number", layer->name,
                             layer->most_splits, chain->splits);
    }
    return true;
}

// Finds the sizes and places of all that the stage has.
static bool measure_stage(struct chain *chain, const struct weir_layer *layers, size_t layer_count,
                          const struct segment *recompute, const struct storage *storage, uint32_t replicas,
                          struct error *error)
{
    const char *dtype = chain->number_bytes < sizeof(float) ? "bf16" : "fp32";
    struct profile *profile = chain_profile(layers, layer_count, dtype, error);
    bool good = profile && chain_find_copies(chain, layers, profile, error)
             && chain_check_together(chain, storage, error);
    if (good) {
        chain->stage.bytes = stage_bytes_at(profile, chain->first, chain->end, recompute, chain->segment_count,
                                            storage, replicas);
        good = chain_check_shared(chain, error) && chain_check_folds(chain, error);
    }
    if (good) {
        chain->window = chain->stage.bytes.streams || chain->stage.bytes.comes_ahead ? storage->window : 0;
        chain_find_tied(chain);
        good = chain_find_lists(chain, profile, storage, replicas, error);
    }
    if (good) {
        lay_out(chain);
        good = chain_collect_shared(chain, layers, profile, error)
            && chain_collect_parts(chain, layers, profile, storage, error)
            && chain_write_steps(chain, layer_count, error);
    }
    profile_free(profile);
    return good;
}

struct chain *chain_create(const struct weir_layer *layers, size_t layer_count, uint32_t first, uint32_t end,
                           const struct segment *recompute, size_t recompute_count, uint32_t splits,
                           const struct storage *storage, uint32_t replicas, struct error *error)
{
    assert(first <= end && end <= layer_count);
    struct chain *chain = calloc(1, sizeof *chain + (end - first) * sizeof chain->links[0]);
    struct segment *segments = calloc(recompute_count + 1, sizeof *segments);
    uint32_t *last_reader = calloc(layer_count + 1, sizeof *last_reader);
    bool *has_backward = calloc(layer_count + 1, sizeof *has_backward);
    if (!chain || !segments || !last_reader || !has_backward) {
        free(chain);
        free(segments);
        free(last_reader);
        free(has_backward);
        error_no_memory(error, "a stage");
        return NULL;
    }
    chain->first = first;
    chain->end = end;
    chain->number_bytes = optimizer_is_master(storage->optimizer) ? 2 : sizeof(float);
    chain->splits = splits;
    chain->layers = layers;
    chain->last_reader = last_reader;
    layers_find_last_readers(layers, layer_count, last_reader);
    chain->has_backward = has_backward;
    layers_find_backwards(layers, layer_count, has_backward);
    chain->segments = segments;
    chain->segment_count = recompute_count;
    for (size_t i = 0; i < recompute_count; i++)
        segments[i] = recompute[i];
    chain->stage.first_auxiliary = layers_auxiliary_count(layers, first);
    chain->stage.auxiliary_count = layers_auxiliary_count(layers, end) - chain->stage.first_auxiliary;
    for (uint32_t l = first; l < end; l++)
        chain->links[l - first] = (struct placed){
            .layer = &layers[l], .segment = find_segment(chain, l),
            .auxiliary = layers_auxiliary_count(layers, l) - chain->stage.first_auxiliary,
        };
    chain->stage.functions = &chain_functions;
    chain->stage.warms_up = true;
    chain->stage.takes_splits = splits > 1;
    chain->stage.metric_count = end == layer_count && end > first ? layers[end - 1].metric_count : 0;
    for (uint32_t l = first; l < end; l++)
        if (layers[l].state_bytes > 0 && layers[l].state_reader == WEIR_STATE_READ_BY_TRAINING && !chain->stage.trains_by)
            chain->stage.trains_by = layers[l].name;
    chain->stage.self = chain;
    chain->stage.shard = storage->shard;
    chain->stage.unit = optimizer_unit(storage->optimizer);
    if (!check_numbers(chain, error) || !check_cut(chain, layer_count, error) || !check_splits(chain, error)
        || !measure_stage(chain, layers, layer_count, recompute, storage, replicas, error)
        || !chain_collect_exempt(chain, error)) {
        chain_free(chain);
        return NULL;
    }
    return chain;
}

void chain_free(struct chain *chain)
{
    if (!chain)
        return;
    free(chain->segments);
    free(chain->last_reader);
    free(chain->has_backward);
    struct program *const programs[] = { &chain->forward, &chain->backward, &chain->backward_input,
                                         &chain->backward_weight, &chain->forward_with_slot, &chain->recompute,
                                         &chain->backward_after_r, &chain->backward_with_slot, &chain->input_after_r,
                                         &chain->input_with_slot };
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        program_free(programs[i]);
    free(chain->exempt);
    free(chain->shared);
    free(chain->parts);
    free(chain->copies);
    free(chain->homes);
    free(chain);
}

const struct stage *chain_stage(const struct chain *chain)
{
    return &chain->stage;
}
