#include "partitioner/search/interval.h"

#include <stdlib.h>

#include "common/number.h"

void intervals_free(struct intervals *intervals)
{
    if (!intervals)
        return;
    arrays_clear(&intervals->arrays);
    free(intervals);
}

// Arrays of one type share an allocation, one behind the other.
static bool allocate(struct intervals *intervals, size_t edge_count)
{
    const size_t row = (size_t)intervals->layers + 1;
    struct arrays *arrays = &intervals->arrays;
    intervals->before = arrays_add(arrays, row, sizeof intervals->before[0]);
    intervals->memory = arrays_add(arrays, row, sizeof intervals->memory[0]);
    intervals->cut = arrays_add(arrays, row, sizeof intervals->cut[0]);
    intervals->alive = arrays_add(arrays, row, sizeof intervals->alive[0]);
    intervals->above = arrays_add(arrays, row, sizeof intervals->above[0]);
    intervals->reader_at = arrays_add(arrays, row + 1, sizeof intervals->reader_at[0]);
    intervals->source_at = arrays_add(arrays, row + 1, sizeof intervals->source_at[0]);
    intervals->readers = arrays_add(arrays, edge_count, sizeof intervals->readers[0]);
    intervals->sources = arrays_add(arrays, edge_count, sizeof intervals->sources[0]);
    return !arrays->failed;
}

// Edges come in order of (from, to), so both lists fill up in ascending order.
static void index_edges(struct intervals *intervals, size_t edge_count)
{
    uint32_t *reader_at = intervals->reader_at, *source_at = intervals->source_at;
    for (size_t i = 0; i < edge_count; i++) {
        const struct edge edge = profile_edge(intervals->profile, i);
        reader_at[edge.from + 2]++;
        source_at[edge.to + 2]++;
    }
    for (uint32_t l = 2; l <= intervals->layers + 1; l++) {
        reader_at[l] += reader_at[l - 1];
        source_at[l] += source_at[l - 1];
    }
    for (size_t i = 0; i < edge_count; i++) {
        const struct edge edge = profile_edge(intervals->profile, i);
        intervals->readers[reader_at[edge.from + 1]++] = edge.to;
        intervals->sources[source_at[edge.to + 1]++] = edge.from;
    }
}

static void sum_layers(struct intervals *intervals)
{
    for (uint32_t l = 0; l < intervals->layers; l++) {
        const struct profile_layer *layer = &intervals->profile->layers[l];
        const struct layer_memory memory = intervals->memory[l] = layer_memory_of(layer);
        const struct interval_sums *sums = &intervals->before[l];
        intervals->before[l + 1] = (struct interval_sums){
            .forward_ns = sums->forward_ns + layer->forward_ns,
            .backward_ns = sums->backward_ns + layer->backward_ns,
            .recompute_ns = sums->recompute_ns + profile_recompute_ns(layer),
            .with_weights = sums->with_weights + (memory.weights > 0),
            .weights = sums->weights + memory.weights,
            .optimizer = add_clamped(sums->optimizer, storage_state_bytes(&intervals->storage, intervals->profile, l)),
            .gradients = add_clamped(sums->gradients,
                                     storage_layer_gradients(&intervals->storage, intervals->profile, l, 1)),
            .version_less = sums->version_less + storage_version_less(&intervals->storage, intervals->profile, l),
            .kept = sums->kept + memory.kept,
            .shared_by_parts = sums->shared_by_parts + memory.shared_by_parts,
            .held = sums->held + memory.held,
            .state = sums->state + memory.state,
            .statistics = sums->statistics + memory.statistics,
            .update_ns = sums->update_ns + layer->update_ns,
        };
    }
}

// A message over a cut has the outputs of all layers in front of it that a layer behind it reads.
static void sum_cuts(struct intervals *intervals)
{
    uint64_t *ends = intervals->above;  // scratch: what no layer behind this one reads any more
    uint64_t bytes = 0;
    for (uint32_t l = 0; l < intervals->layers; l++) {
        intervals->cut[l] = bytes;
        bytes -= ends[l];
        if (intervals->reader_at[l + 1] > intervals->reader_at[l]) {
            bytes += intervals->memory[l].output;
            ends[intervals->readers[intervals->reader_at[l + 1] - 1]] += intervals->memory[l].output;
        }
    }
}

struct intervals *intervals_create(const struct profile *profile, const struct storage *storage,
                                   struct error *error)
{
    struct intervals *intervals = calloc(1, sizeof *intervals);
    const size_t edge_count = profile_edge_count(profile);
    if (intervals) {
        intervals->profile = profile;
        intervals->storage = *storage;
        intervals->layers = (uint32_t)profile->layer_count;
        intervals->splits = intervals->replicas = 1;
        for (size_t l = 0; l < profile->layer_count; l++)
            intervals->has_lists |= storage_list_room(storage, profile, (uint32_t)l, 1) > 0;
    }
    if (!intervals || !allocate(intervals, edge_count)) {
        intervals_free(intervals);
        return error_null(error_no_memory(error, "the prices of a model"));
    }
    index_edges(intervals, edge_count);
    sum_layers(intervals);
    sum_cuts(intervals);
    return intervals;
}

// The last layer of [first, end) at which y_q is alive; q itself if no layer of the model reads it. False if only
// later stages read it.
static bool last_alive(const struct intervals *intervals, uint32_t q, uint32_t end, uint32_t *last)
{
    const uint32_t from = intervals->reader_at[q], to = intervals->reader_at[q + 1];
    *last = q;
    for (uint32_t i = to; i-- > from;) {
        if (intervals->readers[i] < end) {
            *last = intervals->readers[i];
            return true;
        }
    }
    return from == to;
}

// Fills alive[l] for the layers of [first, end), and above[l]: the part of it that was made before l.
static void walk(struct intervals *intervals, uint32_t first, uint32_t end)
{
    uint64_t *ends = intervals->above;  // at first what ends after each layer, then what was made before it
    for (uint32_t l = first; l < end; l++)
        ends[l] = 0;
    uint64_t alive = 0;
    for (uint32_t l = first; l < end; l++) {
        uint32_t last;
        const uint64_t before = alive;
        if (last_alive(intervals, l, end, &last)) {
            alive += intervals->memory[l].output;
            ends[last] += intervals->memory[l].output;
        }
        intervals->alive[l] = alive;
        alive -= ends[l];
        intervals->above[l] = before;
    }
}

static bool is_kept(const struct intervals *intervals, uint32_t q, uint32_t end)
{
    for (uint32_t i = intervals->reader_at[q]; i < intervals->reader_at[q + 1]; i++)
        if (intervals->readers[i] < end && interval_reads_until(intervals, intervals->readers[i]) > INPUT_UNTIL_F)
            return true;
    return false;
}

static enum input_life input_life(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    enum input_life life = INPUT_UNTIL_F;
    for (uint32_t l = first; l < end; l++)
        if (intervals->source_at[l] < intervals->source_at[l + 1]
            && intervals->sources[intervals->source_at[l]] < first && interval_reads_until(intervals, l) > life)
            life = interval_reads_until(intervals, l);
    return life;
}

// Weights of the copies that layers [from, to) bring to stage [first, end).
static uint64_t copies_within(const struct intervals *intervals, uint32_t first, uint32_t end, uint32_t from,
                              uint32_t to)
{
    const struct profile *profile = intervals->profile;
    uint64_t bytes = 0;
    for (size_t i = 0; i < profile->one_owner_count; i++) {
        const struct edge pair = profile->one_owner[i];
        if (from <= pair.to && pair.to < to && stage_brings_copy(profile, first, end, i))
            bytes += intervals->memory[pair.from].weights;
    }
    return bytes;
}

// If no layer has a list, gradients are as large as the weights.
uint64_t interval_gradients(const struct intervals *intervals, uint32_t first, uint32_t end, uint32_t copies)
{
    const struct interval_sums *from = &intervals->before[first], *to = &intervals->before[end];
    uint64_t bytes = to->gradients - from->gradients;
    if (copies == 1 || !intervals->has_lists)
        return bytes;
    bytes = 0;
    for (uint32_t l = first; l < end; l++)
        bytes = add_clamped(bytes, storage_layer_gradients(&intervals->storage, intervals->profile, l, copies));
    return bytes;
}

uint64_t interval_reduced(const struct intervals *intervals, uint32_t first, uint32_t end, uint32_t copies)
{
    uint64_t bytes = intervals->before[end].weights - intervals->before[first].weights;
    for (uint32_t l = first; copies > 1 && intervals->has_lists && l < end; l++)
        bytes = bytes - intervals->memory[l].weights
              + storage_reduced_bytes(&intervals->storage, intervals->profile, l, copies);
    return bytes;
}

struct stage_states interval_states(const struct intervals *intervals, uint32_t first, uint32_t end)
{
    const struct profile *profile = intervals->profile;
    const struct interval_sums *from = &intervals->before[first], *to = &intervals->before[end];
    struct stage_states states = { .layers = end - first,
                                   .with_weights = (uint32_t)(to->with_weights - from->with_weights),
                                   .weights = to->weights - from->weights,
                                   .optimizer = to->optimizer - from->optimizer,
                                   .gradients = interval_gradients(intervals, first, end, intervals->replicas),
                                   .version_less = to->version_less - from->version_less,
                                   .state = to->state - from->state,
                                   .statistics = to->statistics - from->statistics,
                                   .update_ns = to->update_ns - from->update_ns };
    for (size_t i = 0; i < profile->one_owner_count; i++) {
        const uint32_t owner = profile->one_owner[i].from;
        if (!stage_brings_copy(profile, first, end, i))
            continue;
        states.optimizer = add_clamped(states.optimizer, storage_state_bytes(&intervals->storage, profile, owner));
        states.gradients = add_clamped(states.gradients,
                                       storage_layer_gradients(&intervals->storage, profile, owner,
                                                               intervals->replicas));
        states.update_ns = add_clamped(states.update_ns, profile->layers[owner].update_ns);
    }
    states.weights += copies_within(intervals, first, end, first, end);
    return states;
}

static void put_held(const struct intervals *intervals, uint32_t first, uint32_t end, struct stage_bytes *bytes)
{
    struct stage_states states = interval_states(intervals, first, end);
    const struct interval_sums *before = intervals->before;
    const struct profile *profile = intervals->profile;
    const uint32_t window = intervals->storage.window;
    const bool is_asked_for = window > 0 || intervals->storage.shard != SHARD_NONE;
    const bool shares_tensors = is_asked_for && optimizer_unit(intervals->storage.optimizer) == UPDATES_TENSORS;
    for (uint32_t l = first; is_asked_for && l < end; l++) {
        const uint32_t to = end - l < window ? end : l + window;
        states.largest = max_u64(states.largest, intervals->memory[l].weights
                                                     + copies_within(intervals, first, end, l, l + 1));
        if (shares_tensors)
            states.tensor = max_u64(states.tensor, storage_largest_tensor(profile, l));
        states.window = max_u64(states.window, before[to].weights - before[l].weights
                                                   + copies_within(intervals, first, end, l, to));
    }
    for (size_t i = 0; shares_tensors && i < profile->one_owner_count; i++)
        if (stage_brings_copy(profile, first, end, i))
            states.tensor = max_u64(states.tensor, storage_largest_tensor(profile, profile->one_owner[i].from));
    storage_put_bytes(&intervals->storage, intervals->replicas, &states, bytes);
}

struct stage_bytes interval_bytes(struct intervals *intervals, uint32_t first, uint32_t end)
{
    const struct interval_sums *from = &intervals->before[first], *to = &intervals->before[end];
    struct stage_bytes bytes = {
        .kept_moves = intervals->storage.activations_on_host,
        .input_life = input_life(intervals, first, end),
        .input = intervals->cut[first],
        .output = intervals->cut[end],
        .kept = to->kept - from->kept,
        .shared_by_parts = to->shared_by_parts - from->shared_by_parts,
        .kept_shared_by_parts = to->shared_by_parts - from->shared_by_parts,
        .held = to->held - from->held,
    };
    put_held(intervals, first, end, &bytes);
    walk(intervals, first, end);
    for (uint32_t l = first; l < end; l++) {
        bytes.transient = max_u64(bytes.transient, layer_workspace(&intervals->memory[l], intervals->alive[l]));
        if (is_kept(intervals, l, end))
            bytes.kept_through += intervals->memory[l].output;
    }
    bytes.transient_with_recompute = bytes.transient;
    return bytes;
}
