#include "partitioner/search/recompute_prices.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

enum {
    UNIT = 256,      // bytes are counted in these
    MOST_PRICES = 27,
    MOST_LIMITS = 10,
};

// Costs are whole numbers below 2^53, which a double holds exactly. A processor compares several of them at once.
#define MOST_COST 0x1p52

struct recompute_prices {
    struct intervals *intervals;
    uint32_t begin, end;  // the layers
    unsigned shift;       // a cost is ns << shift
    uint32_t price_count, limit_count;
    double price[MOST_PRICES + 1];  // of a unit; the last row is of bytes alone: a unit costs 1, and time nothing
    uint64_t limit[MOST_LIMITS];    // bytes of a segment's data; the last: any
    uint32_t first, until;  // of the ways that are priced
    bool leaves_input;      // only ways count that do not keep the input
    double *cheapest;     // ways up to a layer, or from there on: [layer - begin][limit][price]
    double *going;        // the same with a segment that goes on there
    double cells[];       // of both
};

static size_t row_size(const struct recompute_prices *prices)
{
    return (size_t)prices->limit_count * (prices->price_count + 1);
}

static double *row_of(const struct recompute_prices *prices, double *rows, uint32_t position)
{
    return rows + (position - prices->begin) * row_size(prices);
}

// --- prices ---------------------------------------------------------------------------------

static uint64_t units_of(uint64_t bytes)
{
    return bytes / UNIT;
}

static uint64_t kept_units(const struct recompute_prices *prices, uint32_t l)
{
    return units_of(prices->intervals->memory[l].kept);
}

static uint64_t kept_bytes(const struct recompute_prices *prices)
{
    return prices->intervals->before[prices->end].kept - prices->intervals->before[prices->begin].kept;
}

struct density {
    double cost;
    uint64_t units;
};

static int by_cost(const void *a, const void *b)
{
    const struct density *x = a, *y = b;
    return (x->cost > y->cost) - (x->cost < y->cost);
}

// The cost of recomputing a layer per unit that this saves. It saves what the layer keeps, and its output.
static struct density density_of(const struct recompute_prices *prices, uint32_t l)
{
    const uint64_t units = kept_units(prices, l) + units_of(prices->intervals->memory[l].output);
    const uint64_t time = interval_recompute_ns(prices->intervals, l, l + 1);
    return (struct density){ units > 0 ? (double)(time << prices->shift) / (double)units : 0, units };
}

// The cost per unit below which so many thousandths of all possible savings are.
static double quantile(const struct density *densities, uint32_t count, uint64_t sum, uint32_t thousandths)
{
    uint64_t below = 0;
    for (uint32_t i = 0; i < count; i++) {
        below += densities[i].units;
        if (below >= sum / 1000 * thousandths)
            return densities[i].cost;
    }
    return count > 0 ? densities[count - 1].cost : 1;
}

// A third of the prices are what layers cost, where one of them is just worth it. The others are steps from below the
// cheapest to some times the dearest, since segments cost more than their layers.
static void choose_prices(struct recompute_prices *prices, const struct density *densities, uint32_t count,
                          uint64_t sum, double highest)
{
    const uint32_t half = prices->price_count / 3, rest = prices->price_count - half;
    for (uint32_t k = 0; k < half; k++)
        prices->price[k] = quantile(densities, count, sum, (2 * k + 1) * 500 / half);
    double low = quantile(densities, count, sum, 20) / 2, high = 8 * quantile(densities, count, sum, 980), step = 1.25;
    low = low < 8 ? 8 : low;
    for (double reach = 0; step < 16 && reach < high; step += 0.0625) {
        reach = low;
        for (uint32_t k = 1; k < rest; k++)
            reach *= step;
    }
    for (uint32_t k = 0; k < rest; k++, low *= step)
        prices->price[half + k] = low;
    for (uint32_t k = 0; k < prices->price_count; k++)
        prices->price[k] = (double)(uint64_t)(prices->price[k] < highest ? prices->price[k] : highest);
    prices->price[prices->price_count] = 1;
}

static bool set_prices(struct recompute_prices *prices, uint64_t all_units)
{
    struct density *densities = calloc(prices->end - prices->begin, sizeof densities[0]);
    if (!densities)
        return false;
    uint32_t count = 0;
    uint64_t sum = 0;
    for (uint32_t l = prices->begin; l < prices->end; l++) {
        densities[count] = density_of(prices, l);
        if (densities[count].cost > 0)
            sum += densities[count++].units;
    }
    qsort(densities, count, sizeof densities[0], by_cost);
    choose_prices(prices, densities, count, sum, MOST_COST / 4 / (double)all_units);
    free(densities);
    return true;
}

// --- beginning and end ----------------------------------------------------------------------

// Limits go from what two layers have on average to half of the capacity, each by the same factor larger than the
// last.
static void set_limits(struct recompute_prices *prices, uint64_t capacity)
{
    const uint32_t layers = prices->end - prices->begin, steps = prices->limit_count - 2;
    uint64_t bytes = kept_bytes(prices);
    for (uint32_t l = prices->begin; l < prices->end; l++)
        bytes = add_clamped(bytes, prices->intervals->memory[l].output);
    const double low = (double)(2 * (bytes / layers)), high = (double)(capacity / 2);
    double step = 1, reach = low;
    while (reach < high) {
        step += 0.0625;
        reach = low + 1;
        for (uint32_t j = 0; j < steps; j++)
            reach *= step;
    }
    reach = low;
    for (uint32_t j = 0; j + 1 < prices->limit_count; j++, reach *= step)
        prices->limit[j] = (uint64_t)reach;
    prices->limit[prices->limit_count - 1] = UINT64_MAX;
}

// Works out the most that costs can come to, and a shift to match. False if that is too much, or nothing.
static bool set_shift(struct recompute_prices *prices, uint64_t *all_units)
{
    const struct intervals *intervals = prices->intervals;
    uint64_t bytes = kept_bytes(prices);
    for (uint32_t l = prices->begin; l < prices->end; l++) {
        bytes = add_clamped(bytes, intervals->memory[l].output);
        for (uint32_t i = intervals->source_at[l]; i < intervals->source_at[l + 1]; i++)
            bytes = add_clamped(bytes, intervals->memory[intervals->sources[i]].output);
    }
    *all_units = bytes / UNIT + 1;
    const uint64_t time = interval_recompute_ns(intervals, prices->begin, prices->end);
    if (bytes > (uint64_t)1 << 52 || time > (uint64_t)1 << 48)
        return false;
    for (prices->shift = 0; prices->shift < 20 && time << (prices->shift + 1) < (uint64_t)1 << 50;)
        prices->shift++;
    return bytes > 0 && time > 0;
}

struct recompute_prices *recompute_prices_create(struct intervals *intervals, uint32_t first, uint32_t end,
                                                 uint64_t capacity_bytes, enum recompute_sharpness sharpness,
                                                 struct error *error)
{
    const uint32_t price_count = sharpness == RECOMPUTE_SHARP ? MOST_PRICES : MOST_PRICES / 2;
    const uint32_t limit_count = sharpness == RECOMPUTE_SHARP ? MOST_LIMITS : 6;
    const size_t cells = ((size_t)end - first + 1) * limit_count * (price_count + 1);
    struct recompute_prices *prices = malloc(sizeof *prices + 2 * cells * sizeof prices->cells[0]);
    uint64_t all_units = 0;
    if (!prices)
        return error_null(error_no_memory(error, "the choice of what to recompute"));
    *prices = (struct recompute_prices){ .intervals = intervals, .begin = first, .end = end,
                                         .price_count = price_count, .limit_count = limit_count };
    prices->cheapest = prices->cells;
    prices->going = prices->cells + cells;
    if (set_shift(prices, &all_units)) {
        set_limits(prices, capacity_bytes);
        if (set_prices(prices, all_units))
            return prices;
        error_no_memory(error, "the choice of what to recompute");
    }
    free(prices);
    return NULL;
}

// --- the cheapest ways ----------------------------------------------------------------------

// All parts together are no more than the whole.
uint64_t recompute_prices_part(const struct recompute_prices *prices, uint32_t layer)
{
    const struct intervals *intervals = prices->intervals;
    const uint32_t readers = intervals->reader_at[layer + 1] - intervals->reader_at[layer];
    return intervals->memory[layer].output / UNIT / readers * UNIT;
}

// The parts that a layer pays for what it reads of [first, made_before), in units.
static uint64_t parts_read(const struct recompute_prices *prices, uint32_t layer, uint32_t first, uint32_t made_before)
{
    const struct intervals *intervals = prices->intervals;
    uint64_t units = 0;
    for (uint32_t i = intervals->source_at[layer]; i < intervals->source_at[layer + 1]; i++)
        if (intervals->sources[i] >= first && intervals->sources[i] < made_before)
            units += recompute_prices_part(prices, intervals->sources[i]) / UNIT;
    return units;
}

// Relaxes a row from limit `least` on: it is at most what the other row is with `more` added.
static void relax(const struct recompute_prices *prices, double *to, const double *from, const double *more,
                  uint32_t least)
{
    const uint32_t columns = prices->price_count + 1;
    for (uint32_t j = least; j < prices->limit_count; j++) {
        double *restrict row = to + j * columns;
        const double *restrict old = from + j * columns;
        for (uint32_t k = 0; k < columns; k++) {
            const double with = old[k] + more[k];
            row[k] = with < row[k] ? with : row[k];
        }
    }
}

static void price_way(const struct recompute_prices *prices, uint64_t time_ns, uint64_t units, double *more)
{
    const double time = (double)(time_ns << prices->shift);
    for (uint32_t k = 0; k < prices->price_count; k++)
        more[k] = time + prices->price[k] * (double)units;
    more[prices->price_count] = (double)units;
}

void recompute_prices_leave_input(struct recompute_prices *prices)
{
    prices->leaves_input = true;
}

// Whether the layer reads what must not be kept.
static bool is_barred(const struct recompute_prices *prices, uint32_t layer)
{
    const struct intervals *intervals = prices->intervals;
    const uint32_t source = intervals->source_at[layer];
    return prices->leaves_input && source < intervals->source_at[layer + 1]
        && intervals->sources[source] < prices->first;
}

static void keep_layer(struct recompute_prices *prices, uint32_t layer, bool backwards)
{
    double more[MOST_PRICES + 1];
    uint64_t units = kept_units(prices, layer);
    const bool needs = interval_reads_until(prices->intervals, layer) > INPUT_UNTIL_F;
    if (needs && is_barred(prices, layer))
        return;
    if (needs)
        units += parts_read(prices, layer, prices->first, layer);
    price_way(prices, 0, units, more);
    double *before = row_of(prices, prices->cheapest, layer), *behind = row_of(prices, prices->cheapest, layer + 1);
    relax(prices, backwards ? before : behind, backwards ? behind : before, more, 0);
}

// The workspace of a segment with one more layer, as far as it is certain: the tensors that are alive since the layer
// itself reads them.
static uint64_t add_layer(const struct recompute_prices *prices, uint32_t first, uint32_t l,
                          struct segment_memory *segment)
{
    const struct intervals *intervals = prices->intervals;
    uint64_t alive = 0;
    for (uint32_t i = intervals->source_at[l]; i < intervals->source_at[l + 1]; i++)
        if (intervals->sources[i] >= first)
            alive = add_clamped(alive, intervals->memory[intervals->sources[i]].output);
    segment_add(segment, &intervals->memory[l], alive, 0);
    return segment_workspace(segment, 0);
}

// Tries all segments that begin at `begin`. `goes_on`: as the rest of a segment that began before.
static void drop_layers(struct recompute_prices *prices, uint32_t begin, bool goes_on, bool backwards)
{
    double *here = row_of(prices, goes_on ? prices->going : prices->cheapest, begin);
    struct segment_memory segment = { 0 };
    uint64_t units = 0;
    uint32_t least = 0;
    for (uint32_t l = begin; l < prices->until && l < begin + RECOMPUTE_SEGMENT && !is_barred(prices, l); l++) {
        double more[MOST_PRICES + 1];
        const uint64_t bytes = add_layer(prices, begin, l, &segment);
        while (prices->limit[least] < bytes)
            least++;
        units += goes_on ? 0 : parts_read(prices, l, prices->first, begin);
        price_way(prices, interval_recompute_ns(prices->intervals, begin, l + 1), units, more);
        double *other = row_of(prices, prices->cheapest, l + 1), *going = row_of(prices, prices->going, l + 1);
        relax(prices, backwards ? here : other, backwards ? other : here, more, least);
        if (l + 1 == begin + RECOMPUTE_SEGMENT)
            relax(prices, backwards ? here : going, backwards ? going : here, more, least);
    }
}

// There is no way anywhere, except one to `position`, or from it, at no cost.
static void begin_ways(struct recompute_prices *prices, uint32_t first, uint32_t until, uint32_t position)
{
    prices->first = first;
    prices->until = until;
    const size_t row = row_size(prices), from = (first - prices->begin) * row, to = (until + 1 - prices->begin) * row;
    for (size_t i = from; i < to; i++)
        prices->cheapest[i] = prices->going[i] = MOST_COST;
    memset(row_of(prices, prices->cheapest, position), 0, row * sizeof prices->cheapest[0]);
}

void recompute_prices_from(struct recompute_prices *prices, uint32_t first, uint32_t until)
{
    begin_ways(prices, first, until, first);
    for (uint32_t l = first; l < until; l++) {
        keep_layer(prices, l, false);
        drop_layers(prices, l, false, false);
        if (l >= first + RECOMPUTE_SEGMENT)
            drop_layers(prices, l, true, false);
    }
}

void recompute_prices_rest(struct recompute_prices *prices)
{
    begin_ways(prices, prices->begin, prices->end, prices->end);
    for (uint32_t l = prices->end; l-- > prices->begin;) {
        if (l >= prices->begin + RECOMPUTE_SEGMENT)
            drop_layers(prices, l, true, true);
        keep_layer(prices, l, true);
        drop_layers(prices, l, false, true);
    }
}

// --- asking ---------------------------------------------------------------------------------

// The costs at the beginning of a way.
static const double nothing[MOST_PRICES + 1];

// A bound for ways from one row to another, with so many bytes to spend.
static uint64_t least_within(const struct recompute_prices *prices, const double *from, const double *to,
                             uint64_t bytes)
{
    const uint32_t count = prices->price_count;
    const double units = (double)min_u64(units_of(bytes), (uint64_t)1 << 44);
    double most = 0;
    if (to[count] - from[count] > units)
        return UINT64_MAX;
    for (uint32_t k = 0; k < count; k++) {
        const double cost = to[k] - from[k] - prices->price[k] * units;
        most = cost > most ? cost : most;
    }
    return (uint64_t)most >> prices->shift;
}

uint64_t recompute_prices_least(const struct recompute_prices *prices, uint32_t position, uint32_t slots, uint64_t room,
                                uint64_t transient, uint64_t paid)
{
    const double *row = row_of(prices, prices->cheapest, position);
    uint64_t least = UINT64_MAX;
    for (uint32_t j = 0; j < prices->limit_count && least > 0; j++) {
        const uint64_t below = j > 0 ? prices->limit[j - 1] : 0, workspace = max_u64(below, transient);
        if (workspace > room)
            break;
        least = min_u64(least, least_within(prices, nothing, row + j * (prices->price_count + 1),
                                            add_clamped((room - workspace) / slots, paid)));
    }
    return least;
}

uint64_t recompute_prices_between(const struct recompute_prices *prices, uint32_t first, uint32_t end, uint64_t bytes)
{
    const size_t any = (size_t)(prices->limit_count - 1) * (prices->price_count + 1);
    return least_within(prices, row_of(prices, prices->cheapest, first) + any,
                        row_of(prices, prices->cheapest, end) + any, add_clamped(bytes, UNIT));
}
