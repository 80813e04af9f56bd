#include "partitioner/search/recompute_bound.h"

#include <stdlib.h>

#include "common/number.h"

#define UNKNOWN (UINT64_MAX - 1)

// What is known of stages that begin at one layer, by where they end.
struct row {
    uint64_t *at;
    uint32_t count;
};

// What it takes a pass over the layers to know of an interval, alike for all stages.
struct sizes {
    uint64_t transient, kept_through;
    enum input_life life;
    bool is_known;
};

struct sizes_row {
    struct sizes *at;
    uint32_t count;
};

struct bounds_stage {
    const struct slots *slots;
    uint32_t *order;   // of layers: what saves most bytes per time comes first
    struct row *rows;  // by first layer
};

struct recompute_bounds {
    struct intervals *intervals;
    uint32_t layers, stages;
    uint64_t *inputs;      // of each layer: bytes that it makes others keep
    uint64_t *outputs;     // running totals
    struct stage_bytes most;  // input, output and transient: the most that any interval has
    bool can_estimate;     // whether `most` is all there is to an interval besides its sums
    struct bounds_stage *by_stage;
    struct sizes_row *sizes;  // by first layer; of what can be estimated
};

// --- what a layer saves -------------------------------------------------------------

static uint64_t saved_bytes(const struct recompute_bounds *bounds, const struct slots *slots, uint32_t layer)
{
    const uint64_t saved = bounds->intervals->saved[layer + 1] - bounds->intervals->saved[layer];
    return add_clamped(multiply_clamped(slots->kept, saved),
                       multiply_clamped(slots->kept_through, bounds->inputs[layer]));
}

struct item {
    uint64_t bytes, time;
    uint32_t layer;
};

// Most bytes per time first.
static int by_density(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    const unsigned __int128 left = (unsigned __int128)x->bytes * y->time, right = (unsigned __int128)y->bytes * x->time;
    if (left != right)
        return left > right ? -1 : 1;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

static void sort_layers(const struct recompute_bounds *bounds, const struct slots *slots, struct item *items,
                        uint32_t *order)
{
    for (uint32_t l = 0; l < bounds->layers; l++)
        items[l] = (struct item){ saved_bytes(bounds, slots, l), interval_forward_ns(bounds->intervals, l, l + 1), l };
    qsort(items, bounds->layers, sizeof items[0], by_density);
    for (uint32_t i = 0; i < bounds->layers; i++)
        order[i] = items[i].layer;
}

// --- making it ----------------------------------------------------------------------

static void sum_layers(struct recompute_bounds *bounds)
{
    struct intervals *intervals = bounds->intervals;
    for (uint32_t l = 0; l < bounds->layers; l++) {
        bounds->outputs[l + 1] = add_clamped(bounds->outputs[l], intervals->output[l]);
        for (uint32_t i = intervals->source_at[l];
             interval_needs_input(intervals, l) && i < intervals->source_at[l + 1]; i++)
            bounds->inputs[l] = add_clamped(bounds->inputs[l], intervals->output[intervals->sources[i]]);
    }
    bounds->most = interval_bytes(intervals, 0, bounds->layers);
    bounds->most.input_life = INPUT_UNTIL_W;
    for (uint32_t l = 0; l <= bounds->layers; l++)
        if (intervals->cut[l] > bounds->most.input)
            bounds->most.input = bounds->most.output = intervals->cut[l];
    bounds->can_estimate = holding_is_plain(&intervals->holding);
}

struct recompute_bounds *recompute_bounds_create(struct intervals *intervals, const struct slots *slots,
                                                 uint32_t stages, struct error *error)
{
    struct recompute_bounds *bounds = calloc(1, sizeof *bounds);
    struct item *items = calloc((size_t)intervals->layers + 1, sizeof items[0]);
    bool good = bounds && items;
    if (good) {
        *bounds = (struct recompute_bounds){ .intervals = intervals, .layers = intervals->layers, .stages = stages };
        bounds->inputs = calloc((size_t)bounds->layers + 1, sizeof bounds->inputs[0]);
        bounds->outputs = calloc((size_t)bounds->layers + 1, sizeof bounds->outputs[0]);
        bounds->by_stage = calloc((size_t)stages + 1, sizeof bounds->by_stage[0]);
        bounds->sizes = calloc((size_t)bounds->layers + 1, sizeof bounds->sizes[0]);
        good = bounds->inputs && bounds->outputs && bounds->by_stage && bounds->sizes;
    }
    if (good)
        sum_layers(bounds);
    for (uint32_t s = 0; good && s < stages; s++) {
        struct bounds_stage *stage = &bounds->by_stage[s];
        stage->slots = &slots[s];
        stage->order = calloc((size_t)bounds->layers + 1, sizeof stage->order[0]);
        stage->rows = calloc((size_t)bounds->layers + 1, sizeof stage->rows[0]);
        good = stage->order && stage->rows;
        if (good)
            sort_layers(bounds, stage->slots, items, stage->order);
    }
    free(items);
    if (good)
        return bounds;
    recompute_bounds_free(bounds);
    error_no_memory(error, "the choice of what to recompute");
    return NULL;
}

void recompute_bounds_free(struct recompute_bounds *bounds)
{
    if (!bounds)
        return;
    for (uint32_t s = 0; bounds->by_stage && s < bounds->stages; s++) {
        for (uint32_t l = 0; bounds->by_stage[s].rows && l < bounds->layers; l++)
            free(bounds->by_stage[s].rows[l].at);
        free(bounds->by_stage[s].rows);
        free(bounds->by_stage[s].order);
    }
    for (uint32_t l = 0; bounds->sizes && l < bounds->layers; l++)
        free(bounds->sizes[l].at);
    free(bounds->sizes);
    free(bounds->by_stage);
    free(bounds->inputs);
    free(bounds->outputs);
    free(bounds);
}

// --- asking -------------------------------------------------------------------------

// What sums alone say: all of it, but for what the largest interval of all lends here.
static struct stage_bytes estimate(const struct recompute_bounds *bounds, uint32_t first, uint32_t end)
{
    const struct intervals *intervals = bounds->intervals;
    struct stage_bytes bytes = bounds->most;
    bytes.weights = bytes.gradients = bytes.version = intervals->weights[end] - intervals->weights[first];
    bytes.optimizer = intervals->optimizer[end] - intervals->optimizer[first];
    bytes.kept = intervals->saved[end] - intervals->saved[first];
    bytes.kept_through = bounds->outputs[end] - bounds->outputs[first];
    bytes.held = intervals->held[end] - intervals->held[first];
    return bytes;
}

static bool surely_fits(const struct recompute_bounds *bounds, const struct slots *slots, uint32_t first, uint32_t end,
                        uint64_t capacity)
{
    const struct stage_bytes bytes = estimate(bounds, first, end);
    return bounds->can_estimate && stage_memory_of(&bytes, slots).peak_bytes <= capacity;
}

static struct sizes *find_sizes(struct sizes_row *row, uint32_t index)
{
    if (index >= row->count) {
        const uint32_t count = index + index / 2 + 8;
        struct sizes *at = realloc(row->at, count * sizeof *at);
        if (!at)
            return NULL;
        for (uint32_t i = row->count; i < count; i++)
            at[i] = (struct sizes){ .is_known = false };
        row->at = at;
        row->count = count;
    }
    return &row->at[index];
}

// interval_bytes(), remembered.
static struct stage_bytes bytes_of(struct recompute_bounds *bounds, uint32_t first, uint32_t end)
{
    struct sizes *sizes = bounds->can_estimate ? find_sizes(&bounds->sizes[first], end - first) : NULL;
    if (!sizes)
        return interval_bytes(bounds->intervals, first, end);
    if (!sizes->is_known) {
        const struct stage_bytes bytes = interval_bytes(bounds->intervals, first, end);
        *sizes = (struct sizes){ bytes.transient, bytes.kept_through, bytes.input_life, true };
        return bytes;
    }
    struct stage_bytes bytes = estimate(bounds, first, end);
    bytes.input = bounds->intervals->cut[first];
    bytes.output = bounds->intervals->cut[end];
    bytes.transient = sizes->transient;
    bytes.kept_through = sizes->kept_through;
    bytes.input_life = sizes->life;
    return bytes;
}

// What is lacking at least: the input may live less long where its readers are recomputed.
static uint64_t lacking(struct recompute_bounds *bounds, const struct slots *slots, uint32_t first, uint32_t end,
                        uint64_t capacity)
{
    const struct stage_bytes bytes = bytes_of(bounds, first, end);
    const uint64_t peak = stage_memory_of(&bytes, slots).peak_bytes;
    uint32_t most = slots->input[bytes.input_life], least = most;
    for (unsigned life = 0; life < 3; life++)
        least = slots->input[life] < least ? slots->input[life] : least;
    const uint64_t needed = peak <= capacity ? 0 : peak - capacity;
    const uint64_t less = multiply_clamped(most - least, bytes.input);
    return needed == 0 ? 0 : needed > less ? needed - less : 1;
}

static uint64_t time_to_save(const struct recompute_bounds *bounds, const struct bounds_stage *stage, uint32_t first,
                             uint32_t end, uint64_t bytes)
{
    uint64_t saved = 0, time = 0;
    for (uint32_t i = 0; i < bounds->layers; i++) {
        const uint32_t layer = stage->order[i];
        if (layer < first || layer >= end)
            continue;
        const uint64_t more = saved_bytes(bounds, stage->slots, layer);
        const uint64_t takes = interval_forward_ns(bounds->intervals, layer, layer + 1);
        if (add_clamped(saved, more) >= bytes)
            return time + (uint64_t)((unsigned __int128)(bytes - saved) * takes / more);
        saved += more;
        time += takes;
    }
    return UINT64_MAX;
}

// NULL without memory; then nothing is remembered.
static uint64_t *find_bound(struct row *row, uint32_t index)
{
    if (index >= row->count) {
        const uint32_t count = index + index / 2 + 8;
        uint64_t *at = realloc(row->at, count * sizeof *at);
        if (!at)
            return NULL;
        for (uint32_t i = row->count; i < count; i++)
            at[i] = UNKNOWN;
        row->at = at;
        row->count = count;
    }
    return &row->at[index];
}

uint64_t recompute_bound(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end,
                         uint64_t capacity_bytes)
{
    struct bounds_stage *own = &bounds->by_stage[stage];
    uint64_t *known = find_bound(&own->rows[first], end - first);
    if (known && *known != UNKNOWN)
        return *known;
    uint64_t bound = 0;
    const bool stays_here = bounds->intervals->splits == 1 && !bounds->intervals->holding.activations_on_host;
    if (stays_here && !surely_fits(bounds, own->slots, first, end, capacity_bytes)) {
        const uint64_t bytes = lacking(bounds, own->slots, first, end, capacity_bytes);
        bound = bytes == 0 ? 0 : time_to_save(bounds, own, first, end, bytes);
    }
    if (known)
        *known = bound;
    return bound;
}

void recompute_bounds_learn(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end,
                            uint64_t least_ns)
{
    uint64_t *known = find_bound(&bounds->by_stage[stage].rows[first], end - first);
    if (known && (*known == UNKNOWN || *known < least_ns))
        *known = least_ns;
}
