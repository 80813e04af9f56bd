#include "partitioner/cost/stage_cost.h"

#include <assert.h>

#include "common/number.h"
#include "partitioner/cost/layer_memory.h"
#include "partitioner/cost/window_cost.h"

// A stage while it is being counted.
struct stage_view {
    const struct profile *profile;
    uint32_t first, end;
    const struct segment *segments;
    size_t segment_count;
    bool gathers;  // a segment's weights are brought in for its re-run, and stay until its backward
};

#define NO_SEGMENT SIZE_MAX

static size_t segment_of(const struct stage_view *view, uint32_t layer)
{
    for (size_t i = 0; i < view->segment_count; i++)
        if (view->segments[i].first <= layer && layer < view->segments[i].end)
            return i;
    return NO_SEGMENT;
}

static uint64_t output_of(const struct stage_view *view, uint32_t layer)
{
    return layer_memory_of(&view->profile->layers[layer]).output;
}

// The index of the first edge that begins at this layer or a later one.
static size_t edges_from(const struct profile *profile, uint32_t layer)
{
    size_t low = 0, high = profile_edge_count(profile);
    if (profile->is_chain)
        return layer;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (profile_edge(profile, middle).from < layer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Which layers read y_layer, as far as the stage's memory is concerned.
struct tensor_use {
    bool by_nobody;        // no layer of the model reads it
    bool inside;           // a layer of the stage reads it
    uint32_t last_inside;  // the last such layer
    bool kept;             // must stay from F to the backward
    bool held;             // W of its own segment needs it
};

static struct tensor_use use_of(const struct stage_view *view, uint32_t layer)
{
    struct tensor_use use = { .by_nobody = true, .last_inside = layer };
    const size_t layer_segment = segment_of(view, layer);
    const size_t count = profile_edge_count(view->profile);
    for (size_t e = edges_from(view->profile, layer); e < count && profile_edge(view->profile, e).from == layer; e++) {
        const uint32_t reader = profile_edge(view->profile, e).to;
        use.by_nobody = false;
        if (reader >= view->end)
            continue;
        use.inside = true;
        use.last_inside = reader;
        const struct profile_layer *layer_of = &view->profile->layers[reader];
        const size_t segment = segment_of(view, reader);
        if (segment != NO_SEGMENT && segment == layer_segment)
            use.held |= layer_holds_input(layer_of);
        else
            use.kept |= layer_reads_until(layer_of, segment != NO_SEGMENT) > INPUT_UNTIL_F;
    }
    return use;
}

static enum input_life input_life_of(const struct stage_view *view)
{
    enum input_life life = INPUT_UNTIL_F;
    const struct profile *profile = view->profile;
    const size_t count = edges_from(profile, view->first);
    for (size_t i = profile->is_chain && count > 0 ? count - 1 : 0; i < count; i++) {
        const struct edge edge = profile_edge(profile, i);
        if (edge.to < view->first || edge.to >= view->end)
            continue;
        const enum input_life until =
            layer_reads_until(&profile->layers[edge.to], segment_of(view, edge.to) != NO_SEGMENT);
        life = until > life ? until : life;
    }
    return life;
}

// Tensors made in [first, made_before) that are alive at `layer`.
static uint64_t alive_at(const struct stage_view *view, uint32_t layer, uint32_t made_before)
{
    uint64_t sum = 0;
    // In a chain nothing older than x_layer can be alive.
    const uint32_t from = view->profile->is_chain && layer > view->first ? layer - 1 : view->first;
    for (uint32_t q = from; q < made_before; q++) {
        const struct tensor_use use = use_of(view, q);
        if ((use.inside && use.last_inside >= layer) || (use.by_nobody && q == layer))
            sum = add_clamped(sum, output_of(view, q));
    }
    return sum;
}

static uint64_t weights_of(const struct stage_view *view, uint32_t layer)
{
    return stage_layer_weights(view->profile, view->first, view->end, layer);
}

static void add_segment(const struct stage_view *view, const struct segment *segment, struct stage_bytes *bytes)
{
    struct segment_memory memory = { 0 };
    for (uint32_t l = segment->first; l < segment->end; l++) {
        const struct layer_memory layer = layer_memory_of(&view->profile->layers[l]);
        segment_add(&memory, &layer, alive_at(view, l, l + 1), view->gathers ? weights_of(view, l) : 0);
    }
    const uint64_t above = segment->end < view->end ? alive_at(view, segment->end, segment->end) : 0;
    bytes->transient = max_u64(bytes->transient, segment_workspace(&memory, above));
    bytes->transient_with_recompute =
        max_u64(bytes->transient_with_recompute, segment_workspace_with_recompute(&memory, above));
    bytes->again = add_clamped(bytes->again, memory.data);
}

static void add_transient(const struct stage_view *view, struct stage_bytes *bytes)
{
    for (uint32_t l = view->first; l < view->end; l++) {
        const struct layer_memory layer = layer_memory_of(&view->profile->layers[l]);
        bytes->transient = max_u64(bytes->transient, layer_workspace(&layer, alive_at(view, l, l + 1)));
    }
    bytes->transient_with_recompute = bytes->transient;
    for (size_t i = 0; i < view->segment_count; i++)
        add_segment(view, &view->segments[i], bytes);
}

uint64_t stage_cut_bytes(const struct profile *profile, uint32_t end)
{
    assert(end <= profile->layer_count);
    const size_t count = edges_from(profile, end);
    uint32_t counted = UINT32_MAX;
    uint64_t sum = 0;
    for (size_t i = profile->is_chain && end > 0 ? end - 1 : 0; i < count; i++) {
        const struct edge edge = profile_edge(profile, i);
        if (edge.to < end || edge.to >= profile->layer_count || edge.from == counted)
            continue;
        sum = add_clamped(sum, layer_memory_of(&profile->layers[edge.from]).output);
        counted = edge.from;
    }
    return sum;
}

uint64_t stage_reduced_bytes(const struct profile *profile, uint32_t first, uint32_t end,
                             const struct storage *storage, uint32_t replicas)
{
    uint64_t bytes = 0;
    for (uint32_t l = first; l < end; l++) {
        const uint64_t own = layer_memory_of(&profile->layers[l]).weights;
        const uint64_t copied = stage_layer_weights(profile, first, end, l) - own;
        bytes = add_clamped(bytes, add_clamped(copied, storage_reduced_bytes(storage, profile, l, replicas)));
    }
    return bytes;
}

// Adds what the weights of a layer have with them, be they its own or a copy.
static void add_states(struct stage_states *states, const struct profile *profile, uint32_t layer,
                       const struct storage *storage, uint32_t replicas)
{
    states->optimizer = add_clamped(states->optimizer, storage_state_bytes(storage, profile, layer));
    states->gradients = add_clamped(states->gradients, storage_layer_gradients(storage, profile, layer, replicas));
    states->update_ns = add_clamped(states->update_ns, profile->layers[layer].update_ns);
    states->tensor = max_u64(states->tensor, storage_largest_tensor(profile, layer));
}

static struct stage_states states_of(const struct stage_view *view, const struct storage *storage, uint32_t replicas)
{
    const struct profile *profile = view->profile;
    struct stage_states states = { .layers = view->end - view->first };
    for (uint32_t l = view->first; l < view->end; l++) {
        const uint64_t weights = weights_of(view, l);
        states.with_weights += weights > 0;
        states.weights = add_clamped(states.weights, weights);
        states.version_less += storage_version_less(storage, profile, l);
        states.largest = max_u64(states.largest, weights);
        const struct layer_memory layer = layer_memory_of(&profile->layers[l]);
        states.state = add_clamped(states.state, layer.state);
        states.statistics = add_clamped(states.statistics, layer.statistics);
        add_states(&states, profile, l, storage, replicas);
        uint64_t window = 0;
        for (uint32_t k = l; k < view->end && k - l < storage->window; k++)
            window = add_clamped(window, weights_of(view, k));
        states.window = max_u64(states.window, window);
    }
    for (size_t i = 0; i < profile->one_owner_count; i++)
        if (stage_brings_copy(profile, view->first, view->end, i))
            add_states(&states, profile, profile->one_owner[i].from, storage, replicas);
    return states;
}

struct stage_bytes stage_bytes_at(const struct profile *profile, uint32_t first, uint32_t end,
                                  const struct segment *recompute, size_t recompute_count,
                                  const struct storage *storage, uint32_t replicas)
{
    assert(first <= end && end <= profile->layer_count);
    const struct stage_view view = { profile, first, end, recompute, recompute_count,
                                     storage_gathers(storage, replicas, end - first) };
    struct stage_bytes bytes = { .input_life = input_life_of(&view), .kept_moves = storage->activations_on_host,
                                 .streams = storage_streams(storage, end - first),
                                 .comes_ahead = storage->window >= 2
                                             && storage_moves_layers(storage, replicas, end - first) };
    for (uint32_t l = first; l < end; l++) {
        const struct layer_memory layer = layer_memory_of(&profile->layers[l]);
        bytes.held = add_clamped(bytes.held, layer.held);
        bytes.shared_by_parts = add_clamped(bytes.shared_by_parts, layer.shared_by_parts);
        if (segment_of(&view, l) == NO_SEGMENT) {
            bytes.kept = add_clamped(bytes.kept, layer.kept);
            bytes.kept_shared_by_parts = add_clamped(bytes.kept_shared_by_parts, layer.shared_by_parts);
        }
        const struct tensor_use use = use_of(&view, l);
        if (use.kept)
            bytes.kept_through = add_clamped(bytes.kept_through, output_of(&view, l));
        if (use.held)
            bytes.held = add_clamped(bytes.held, output_of(&view, l));
    }
    const struct stage_states states = states_of(&view, storage, replicas);
    storage_put_bytes(storage, replicas, &states, &bytes);
    bytes.input = stage_cut_bytes(profile, first);
    bytes.output = stage_cut_bytes(profile, end);
    add_transient(&view, &bytes);
    return bytes;
}

struct stage_bytes stage_bytes_of_split(struct stage_bytes bytes, uint32_t splits)
{
    uint64_t *const per_micro_batch[] = { &bytes.input,        &bytes.output, &bytes.kept,
                                          &bytes.kept_through, &bytes.held,   &bytes.again };
    if (splits > 1)
        bytes.kept -= bytes.kept_shared_by_parts;
    for (size_t i = 0; splits > 1 && i < sizeof per_micro_batch / sizeof per_micro_batch[0]; i++) {
        const uint64_t whole = *per_micro_batch[i];
        *per_micro_batch[i] = round_to_256(whole / splits + (whole % splits > 0));
    }
    return bytes;
}

static uint64_t moved_bytes(const struct stage_bytes *bytes)
{
    return bytes->kept_moves ? add_clamped(bytes->kept, bytes->kept_through) : 0;
}

// The input counts as kept for as long as its slot is needed.
static void put_bytes(struct cost_row *row, const struct stage_bytes *bytes, bool has_recompute)
{
    const uint64_t through = add_clamped(bytes->kept_through,
                                         bytes->input_life == INPUT_UNTIL_W ? bytes->input : 0);
    const uint64_t only_i = bytes->input_life == INPUT_UNTIL_I ? bytes->input : 0;
    row->output_bytes = bytes->output;
    row->kept_forward_bytes = add_clamped(add_clamped(bytes->kept, only_i), through);
    row->kept_weight_bytes = add_clamped(bytes->held, through);
    row->again_bytes = has_recompute ? bytes->again : 0;
    row->moved_bytes = moved_bytes(bytes);
    row->transient_bytes = has_recompute ? bytes->transient_with_recompute : bytes->transient;
    row->fixed_bytes = add_clamped(add_clamped(bytes->weights, bytes->state),
                                   add_clamped(bytes->gradients, bytes->optimizer));
    row->version_bytes = bytes->version;
}

static struct cost_row times_of(const struct stage_view *view, uint64_t speed_permille)
{
    struct cost_row row = { 0 };
    for (uint32_t l = view->first; l < view->end; l++) {
        const struct profile_layer *layer = &view->profile->layers[l];
        row.forward_ns = add_clamped(row.forward_ns, layer->forward_ns);
        row.backward_ns = add_clamped(row.backward_ns, layer->backward_ns);
        row.backward_input_ns = add_clamped(row.backward_input_ns, layer->backward_input_ns);
        row.backward_weight_ns = add_clamped(row.backward_weight_ns, layer->backward_weight_ns);
        if (segment_of(view, l) != NO_SEGMENT)
            row.recompute_ns = add_clamped(row.recompute_ns, profile_recompute_ns(layer));
    }
    uint64_t *times[] = { &row.forward_ns, &row.backward_ns, &row.backward_input_ns, &row.backward_weight_ns,
                          &row.recompute_ns };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        *times[i] = stage_scaled_ns(*times[i], speed_permille);
    return row;
}

struct cost_row stage_cost_at(const struct profile *profile, uint32_t first, uint32_t end,
                              const struct segment *recompute, size_t recompute_count,
                              const struct storage *storage, const struct stage_place *place)
{
    const struct stage_view view = { profile, first, end, recompute, recompute_count, false };
    const struct stage_bytes bytes =
        stage_bytes_at(profile, first, end, recompute, recompute_count, storage, place->replicas);
    struct cost_row row = times_of(&view, place->speed_permille);
    put_bytes(&row, &bytes, place->has_recompute);
    const struct stage_states states = states_of(&view, storage, place->replicas);
    storage_add_times(storage, place, &states, &row);
    const bool moves = storage_moves_layers(storage, place->replicas, states.layers);
    if (moves && window_overlaps(storage, profile, &row))
        window_add_overlapping(storage, place, profile, first, end, &row);
    else if (moves)
        window_add_in_turn(storage, place, &states, &row);
    if (bytes.kept_moves)
        row.move_ns = storage_move_ns(place, row.moved_bytes);
    return row;
}

struct stage_memory stage_memory_of(const struct stage_bytes *bytes, const struct slots *slots)
{
    struct stage_memory memory = {
        .weights_bytes = add_clamped(bytes->weights, bytes->state),
        .gradients_bytes = bytes->gradients,
        .optimizer_bytes = bytes->optimizer,
        .versions_bytes = slots->versions > 1 ? multiply_clamped(slots->versions - 1, bytes->version) : 0,
        .transient_bytes = stage_workspace(bytes, slots),
        .host_bytes = host_states_bytes(&bytes->host),
    };
    const uint64_t kept[] = { multiply_clamped(slots->input[bytes->input_life], bytes->input),
                              multiply_clamped(slots->kept, bytes->kept),
                              multiply_clamped(slots->kept_through, bytes->kept_through),
                              multiply_clamped(slots->held, bytes->held),
                              multiply_clamped(slots->again, bytes->again),
                              multiply_clamped(slots->shared_by_parts, bytes->shared_by_parts),
                              multiply_clamped(slots->shared_by_parts_gradient, bytes->shared_by_parts),
                              multiply_clamped((uint64_t)slots->statistics + slots->gathered_statistics,
                                               bytes->statistics) };
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        memory.kept_bytes = add_clamped(memory.kept_bytes, kept[i]);
    memory.host_bytes = add_clamped(memory.host_bytes,
                                    multiply_clamped(slots->away, add_clamped(bytes->kept, bytes->kept_through)));
    memory.buffers_bytes = add_clamped(multiply_clamped(slots->output, bytes->output),
                                       add_clamped(multiply_clamped(slots->output_gradient, bytes->output),
                                                   multiply_clamped(slots->input_gradient, bytes->input)));
    const uint64_t all[] = { memory.weights_bytes,  memory.gradients_bytes, memory.optimizer_bytes,
                             memory.versions_bytes, memory.kept_bytes,      memory.transient_bytes,
                             memory.buffers_bytes };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        memory.peak_bytes = add_clamped(memory.peak_bytes, all[i]);
    return memory;
}

uint64_t stage_fixed_bytes(struct stage_bytes bytes, const struct slots *slots, uint32_t input_slots)
{
    struct slots with = *slots;
    with.input[INPUT_UNTIL_F] = input_slots;
    bytes.input_life = INPUT_UNTIL_F;
    bytes.kept = bytes.kept_through = bytes.held = bytes.transient = bytes.again = bytes.transient_with_recompute = 0;
    return stage_memory_of(&bytes, &with).peak_bytes;
}

struct stage_away stage_away_of(const struct stage_bytes *bytes, uint32_t splits, const struct slots *slots)
{
    const struct stage_bytes split = stage_bytes_of_split(*bytes, splits);
    return (struct stage_away){ slots->away ? moved_bytes(bytes) : 0, stage_memory_of(&split, slots).host_bytes };
}
