#include "partitioner/search/recompute_bound.h"

#include <stdlib.h>

#include "common/number.h"
#include "partitioner/search/recompute_prices.h"

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
    uint64_t capacity;
    struct row *rows;  // by first layer
};

struct recompute_bounds {
    struct intervals *intervals;
    uint32_t layers, stages;
    uint64_t *outputs;     // running totals
    struct stage_bytes most;  // input, output and transient: the most that any interval has
    bool can_estimate;     // whether `most` is all there is to an interval besides its sums
    struct bounds_stage *by_stage;
    struct sizes_row *sizes;  // by first layer; of what can be estimated
    struct recompute_prices *prices;  // once something does not fit; or NULL
    struct recompute_prices *dry;     // of ways for which the input is not kept; likewise
    uint32_t *priced;      // of each first layer: the end up to which they are asked
    bool is_asked;         // whether there are prices, or cannot be any
};

// --- making it ----------------------------------------------------------------------

static void sum_layers(struct recompute_bounds *bounds)
{
    struct intervals *intervals = bounds->intervals;
    for (uint32_t l = 0; l < bounds->layers; l++)
        bounds->outputs[l + 1] = add_clamped(bounds->outputs[l], intervals->memory[l].output);
    bounds->most = interval_bytes(intervals, 0, bounds->layers);
    bounds->most.input_life = INPUT_UNTIL_W;
    for (uint32_t l = 0; l <= bounds->layers; l++)
        if (intervals->cut[l] > bounds->most.input)
            bounds->most.input = bounds->most.output = intervals->cut[l];
    bounds->can_estimate = holding_is_plain(&intervals->holding);
}

struct recompute_bounds *recompute_bounds_create(struct intervals *intervals, const struct slots *slots,
                                                 const uint64_t *capacities, uint32_t stages, struct error *error)
{
    struct recompute_bounds *bounds = calloc(1, sizeof *bounds);
    bool good = bounds != NULL;
    if (good) {
        *bounds = (struct recompute_bounds){ .intervals = intervals, .layers = intervals->layers, .stages = stages };
        bounds->outputs = calloc((size_t)bounds->layers + 1, sizeof bounds->outputs[0]);
        bounds->by_stage = calloc((size_t)stages + 1, sizeof bounds->by_stage[0]);
        bounds->sizes = calloc((size_t)bounds->layers + 1, sizeof bounds->sizes[0]);
        bounds->priced = calloc((size_t)bounds->layers + 1, sizeof bounds->priced[0]);
        good = bounds->outputs && bounds->by_stage && bounds->sizes && bounds->priced;
    }
    if (good)
        sum_layers(bounds);
    for (uint32_t s = 0; good && s < stages; s++) {
        struct bounds_stage *stage = &bounds->by_stage[s];
        stage->slots = &slots[s];
        stage->capacity = capacities[s];
        stage->rows = calloc((size_t)bounds->layers + 1, sizeof stage->rows[0]);
        good = stage->rows != NULL;
    }
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
    }
    for (uint32_t l = 0; bounds->sizes && l < bounds->layers; l++)
        free(bounds->sizes[l].at);
    free(bounds->sizes);
    free(bounds->priced);
    recompute_prices_free(bounds->prices);
    recompute_prices_free(bounds->dry);
    free(bounds->by_stage);
    free(bounds->outputs);
    free(bounds);
}

// --- asking -------------------------------------------------------------------------

// What sums alone say: all of it, but for what the largest interval of all lends here.
static struct stage_bytes estimate(const struct recompute_bounds *bounds, uint32_t first, uint32_t end)
{
    const struct intervals *intervals = bounds->intervals;
    struct stage_bytes bytes = bounds->most;
    bytes.weights = bytes.version = intervals->weights[end] - intervals->weights[first];
    bytes.gradients = holding_gradient_bytes(&intervals->holding, bytes.weights);
    bytes.optimizer = intervals->optimizer[end] - intervals->optimizer[first];
    bytes.kept = intervals->kept[end] - intervals->kept[first];
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

// --- prices -------------------------------------------------------------------------

static uint32_t least_of(const uint32_t *counts, size_t count)
{
    uint32_t least = counts[0];
    for (size_t i = 1; i < count; i++)
        least = counts[i] < least ? counts[i] : least;
    return least;
}

// What prices say of an interval for which they are made ready, with its input kept for so many slots.
static uint64_t ask_with(struct recompute_bounds *bounds, const struct recompute_prices *prices,
                         const struct bounds_stage *stage, uint32_t first, uint32_t end, uint32_t input)
{
    const struct stage_bytes bytes = bytes_of(bounds, first, end);
    const struct slots *slots = stage->slots;
    const uint64_t transient = bytes.transient, fixed = stage_fixed_bytes(bytes, slots, input);
    const uint32_t kept[] = { slots->kept, slots->kept_through }, count = least_of(kept, 2);
    if (add_clamped(fixed, transient) > stage->capacity)
        return UINT64_MAX;
    return count == 0 ? 0 : recompute_prices_least(prices, end, count, stage->capacity - fixed, transient, 0);
}

// With the input kept until the backward, or only until F.
static uint64_t ask_prices(struct recompute_bounds *bounds, const struct bounds_stage *stage, uint32_t first,
                           uint32_t end)
{
    const uint32_t *input = stage->slots->input;
    const uint32_t kept = input[INPUT_UNTIL_I] < input[INPUT_UNTIL_W] ? input[INPUT_UNTIL_I] : input[INPUT_UNTIL_W];
    const uint64_t least = ask_with(bounds, bounds->prices, stage, first, end, kept);
    if (least == 0 || input[INPUT_UNTIL_F] >= kept)
        return least;
    const uint64_t dry = ask_with(bounds, bounds->dry, stage, first, end, input[INPUT_UNTIL_F]);
    return least < dry ? least : dry;
}

static void learn(struct bounds_stage *stage, uint32_t first, uint32_t end, uint64_t least_ns)
{
    uint64_t *known = find_bound(&stage->rows[first], end - first);
    if (known && (*known == UNKNOWN || *known < least_ns))
        *known = least_ns;
}

// All stages that begin with a layer and end behind `end` or somewhat later, at once: it is the same for all of them.
static void price_row(struct recompute_bounds *bounds, uint32_t first, uint32_t end)
{
    const uint32_t more = end + (end - first) / 2 + 4, until = more < bounds->layers ? more : bounds->layers;
    recompute_prices_from(bounds->prices, first, until);
    recompute_prices_from(bounds->dry, first, until);
    for (uint32_t e = bounds->priced[first] > first ? bounds->priced[first] + 1 : first + 1; e <= until; e++) {
        for (uint32_t s = 0; s < bounds->stages; s++) {
            struct bounds_stage *stage = &bounds->by_stage[s];
            if (!surely_fits(bounds, stage->slots, first, e, stage->capacity)
                && lacking(bounds, stage->slots, first, e, stage->capacity) > 0)
                learn(stage, first, e, ask_prices(bounds, stage, first, e));
        }
    }
    bounds->priced[first] = until;
}

static bool has_prices(struct recompute_bounds *bounds)
{
    struct error ignored = { 0 };
    uint64_t most = 0;
    if (bounds->is_asked)
        return bounds->prices && bounds->dry;
    for (uint32_t s = 0; s < bounds->stages; s++)
        most = bounds->by_stage[s].capacity > most ? bounds->by_stage[s].capacity : most;
    bounds->prices =
        recompute_prices_create(bounds->intervals, 0, bounds->layers, most, RECOMPUTE_SHARP, &ignored);
    bounds->dry = recompute_prices_create(bounds->intervals, 0, bounds->layers, most, RECOMPUTE_SHARP, &ignored);
    bounds->is_asked = true;
    if (bounds->dry)
        recompute_prices_leave_input(bounds->dry);
    return bounds->prices && bounds->dry;
}

uint64_t recompute_bound(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end)
{
    struct bounds_stage *own = &bounds->by_stage[stage];
    const uint64_t *known = find_bound(&own->rows[first], end - first);
    if (known && *known != UNKNOWN)
        return *known;
    const bool stays_here = bounds->intervals->splits == 1 && !bounds->intervals->holding.activations_on_host;
    if (stays_here && end > first && bounds->priced[first] < end
        && !surely_fits(bounds, own->slots, first, end, own->capacity)
        && lacking(bounds, own->slots, first, end, own->capacity) > 0 && has_prices(bounds))
        price_row(bounds, first, end);
    learn(own, first, end, 0);
    known = find_bound(&own->rows[first], end - first);
    return known ? *known : 0;
}

void recompute_bounds_learn(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end,
                            uint64_t least_ns)
{
    learn(&bounds->by_stage[stage], first, end, least_ns);
}
