#include "partitioner/search/recompute_bound.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/number.h"
#include "partitioner/search/likeness.h"
#include "partitioner/search/recompute_prices.h"

// Bounds of stages that begin at one layer.
struct row {
    uint64_t *at;    // [(end - first) * stages + stage]
    uint32_t until;  // the last end that `at` has; 0: none is known
};

struct recompute_bounds {
    struct intervals *intervals;
    const struct slots *slots;   // of each stage
    uint64_t *capacities;
    uint32_t stages;
    struct row *rows;            // by first layer
    struct recompute_prices *prices, *dry;  // for any ways, and for those that do not keep the input; or NULL
    bool is_asked;               // whether prices were made, or found to be impossible
};

// --- making it ----------------------------------------------------------------------

struct recompute_bounds *recompute_bounds_create(struct intervals *intervals, const struct slots *slots,
                                                 const uint64_t *capacities, uint32_t stages, struct error *error)
{
    struct recompute_bounds *bounds = calloc(1, sizeof *bounds);
    if (bounds) {
        *bounds = (struct recompute_bounds){ .intervals = intervals, .slots = slots, .stages = stages };
        bounds->capacities = calloc((size_t)stages + 1, sizeof capacities[0]);
        bounds->rows = calloc((size_t)intervals->layers + 1, sizeof bounds->rows[0]);
    }
    if (!bounds || !bounds->capacities || !bounds->rows) {
        recompute_bounds_free(bounds);
        return error_null(error_no_memory(error, "the choice of what to recompute"));
    }
    memcpy(bounds->capacities, capacities, stages * sizeof capacities[0]);
    return bounds;
}

void recompute_bounds_free(struct recompute_bounds *bounds)
{
    if (!bounds)
        return;
    for (uint32_t l = 0; bounds->rows && l < bounds->intervals->layers; l++)
        free(bounds->rows[l].at);
    free(bounds->prices);
    free(bounds->dry);
    free(bounds->capacities);
    free(bounds->rows);
    free(bounds);
}

// Prices know only whole tensors that stay on their devices, and recomputed tensors only as workspace.
static bool has_prices(struct recompute_bounds *bounds)
{
    struct intervals *intervals = bounds->intervals;
    struct error ignored = { 0 };
    uint64_t most = 0;
    if (bounds->is_asked)
        return bounds->prices && bounds->dry;
    bounds->is_asked = true;
    if (intervals->splits > 1 || intervals->storage.activations_on_host)
        return false;
    for (uint32_t s = 0; s < bounds->stages; s++) {
        if (bounds->slots[s].again > 0)
            return false;
        most = max_u64(most, bounds->capacities[s]);
    }
    bounds->prices = recompute_prices_create(intervals, 0, intervals->layers, most, RECOMPUTE_SHARP, &ignored);
    bounds->dry = recompute_prices_create(intervals, 0, intervals->layers, most, RECOMPUTE_SHARP, &ignored);
    if (bounds->dry)
        recompute_prices_leave_input(bounds->dry);
    return bounds->prices && bounds->dry;
}

// --- asking -------------------------------------------------------------------------

// The bound by prices for a stage that ends at `end`, with its input kept in so many slots.
static uint64_t ask_with(const struct recompute_bounds *bounds, const struct recompute_prices *prices, uint32_t stage,
                         uint32_t end, const struct stage_bytes *bytes, uint32_t input)
{
    const struct slots *slots = &bounds->slots[stage];
    const uint64_t capacity = bounds->capacities[stage], fixed = stage_fixed_bytes(*bytes, slots, input);
    const uint32_t kept = min_u32(slots->kept, slots->kept_through);
    if (add_clamped(fixed, bytes->transient) > capacity)
        return UINT64_MAX;
    return kept == 0 ? 0 : recompute_prices_least(prices, end, kept, capacity - fixed, bytes->transient, 0);
}

// The bound with the input kept until the backward, or only until F.
static uint64_t ask(const struct recompute_bounds *bounds, uint32_t stage, uint32_t end,
                    const struct stage_bytes *bytes)
{
    const uint32_t *input = bounds->slots[stage].input;
    const uint32_t kept = min_u32(input[INPUT_UNTIL_I], input[INPUT_UNTIL_W]);
    const uint64_t least = ask_with(bounds, bounds->prices, stage, end, bytes, kept);
    if (least == 0 || input[INPUT_UNTIL_F] >= kept)
        return least;
    return min_u64(least, ask_with(bounds, bounds->dry, stage, end, bytes, input[INPUT_UNTIL_F]));
}

// Prices all stages that begin with a layer and end up to `end` or somewhat later, at once: the ways to recompute are
// the same for all of them. False without memory, or time.
static bool price_row(struct recompute_bounds *bounds, uint32_t first, uint32_t end)
{
    struct row *row = &bounds->rows[first];
    if (bounds->intervals->until_ns && clock_now_ns() >= bounds->intervals->until_ns)
        return false;
    const uint32_t until = min_u32(end + (end - first) / 2 + 4, bounds->intervals->layers);
    uint64_t *prices = realloc(row->at, ((size_t)until - first + 1) * bounds->stages * sizeof *prices);
    if (!prices)
        return false;
    row->at = prices;
    recompute_prices_from(bounds->prices, first, until);
    recompute_prices_from(bounds->dry, first, until);
    for (uint32_t e = row->until > first ? row->until + 1 : first + 1; e <= until; e++) {
        const struct stage_bytes bytes = interval_bytes(bounds->intervals, first, e);
        for (uint32_t s = 0; s < bounds->stages; s++)
            prices[(size_t)(e - first) * bounds->stages + s] = ask(bounds, s, e, &bytes);
    }
    row->until = until;
    return true;
}

static bool fits_as_it_is(const struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end)
{
    const struct stage_bytes bytes = interval_bytes(bounds->intervals, first, end);
    return stage_memory_of(&bytes, &bounds->slots[stage]).peak_bytes <= bounds->capacities[stage];
}

uint64_t recompute_bound(struct recompute_bounds *bounds, uint32_t stage, uint32_t first, uint32_t end)
{
    const uint32_t like = likeness_first(bounds->intervals, first, end);
    end -= first - like;
    first = like;
    const struct row *row = &bounds->rows[first];
    if (row->until < end
        && (fits_as_it_is(bounds, stage, first, end) || !has_prices(bounds) || !price_row(bounds, first, end)))
        return 0;
    return end > first ? row->at[(size_t)(end - first) * bounds->stages + stage] : 0;
}
