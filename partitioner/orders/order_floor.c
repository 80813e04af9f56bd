// What the layers between two downsets recompute at least, in whichever order they stand.
//
// Every layer is kept or recomputed: at a price per byte it costs what it saves, or its F.
// These are sums over layers, so that each downset knows its own, and two of them differ by
// what a stage costs; less the price of what there is to spend, that is a bound. It knows
// nothing of what segments read, and of their workspaces.
//
// Where downsets are few it is known better. An order of a stage's layers is a path from downset to
// downset, and segments are such paths' longer steps: the cheapest ways of recompute_prices.h
// lead over all orders at once. They are asked twice: of all ways, with the stage's input kept until its backward,
// which takes a slot of it for each micro-batch in flight, and of those where nothing that reads the input is run
// again, with the input kept until F.
//
//     {a}  -keep b->  {a b}  -keep c->  {a b c}
//          -keep c->  {a c}  -keep b->
//          -------drop b and c------->
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/orders/orders.h"
#include "partitioner/search/recompute_prices.h"

enum { MOST_CELLS = 4000000 };

// A tensor that a step reads of before it.
struct read {
    uint32_t layer;
    uint64_t part_bytes;
};

// Layers that are dropped together, or one that is kept.
struct step {
    struct recompute_drop drop;  // with what is read left open
    uint64_t kept_bytes;         // of a single layer
    uint64_t workspace_bytes;    // likewise, without the tensors read
    size_t read_at, read_count;
    uint32_t layer;
};

struct order_floor {
    struct intervals *intervals;
    struct recompute_prices *prices;  // NULL: only sums are known
    struct recompute_prices *dry;     // of ways for which the stage's input is not kept
    uint32_t *block_of, *layer_of;    // where blocks are single layers
    struct step *steps;
    size_t step_count, step_room;
    size_t *step_at;                  // of each downset
    struct read *reads;
    size_t read_count, read_room;
    uint64_t *workspace;              // of a row
    bool *is_known;                   // of each downset, as the first
    uint64_t *least;                  // [(from * stages + stage) * downsets + to]
};

// --- sums -------------------------------------------------------------------------------------

// All but what is kept and the workspace; the input as long as it must be, or, `dry`, until F.
static uint64_t fixed_bytes(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to, bool dry)
{
    struct slots slots = orders->coupled->slots[stage];
    const uint64_t weights = order_sum(orders, SUM_WEIGHTS, from, to);
    const struct stage_bytes bytes = { .weights = weights, .gradients = weights, .version = weights,
                                       .optimizer = order_sum(orders, SUM_OPTIMIZER, from, to),
                                       .input = orders->graph->cut[from], .output = orders->graph->cut[to],
                                       .input_life = INPUT_UNTIL_F };
    const uint32_t *input = slots.input;
    if (!dry)
        slots.input[INPUT_UNTIL_F] =
            input[INPUT_UNTIL_I] < input[INPUT_UNTIL_W] ? input[INPUT_UNTIL_I] : input[INPUT_UNTIL_W];
    return stage_memory_of(&bytes, &slots).peak_bytes;
}

static uint64_t least_fixed_bytes(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to)
{
    const uint64_t kept = fixed_bytes(orders, stage, from, to, false), dry = fixed_bytes(orders, stage, from, to, true);
    return kept < dry ? kept : dry;
}

static uint32_t kept_slots(const struct orders *orders, uint32_t stage)
{
    const struct slots *slots = &orders->coupled->slots[stage];
    return slots->kept < slots->kept_through ? slots->kept : slots->kept_through;
}

static uint64_t least_by_sums(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to)
{
    const uint64_t fixed = least_fixed_bytes(orders, stage, from, to), capacity = order_capacity(orders, stage);
    const uint32_t slots = kept_slots(orders, stage);
    uint64_t least = 0;
    if (fixed > capacity)
        return NO_ORDER;
    if (slots == 0 || order_sum(orders, SUM_SAVED, from, to) <= (capacity - fixed) / slots)
        return 0;
    for (uint32_t k = 0; k < ORDER_PRICES; k++) {
        const uint64_t cost = order_sum(orders, (enum order_sum)(SUM_PRICES + k), from, to);
        const double spent = orders->graph->price[k] * (double)((capacity - fixed) / slots) * (1 + 1e-9) + 1;
        if (spent < (double)cost && cost - (uint64_t)spent > least)
            least = cost - (uint64_t)spent;
    }
    return least > 0 ? least - 1 : 0;
}

// --- steps ------------------------------------------------------------------------------------

static bool grow(void **rows, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    void *grown = realloc(*rows, (2 * *room + 256) * size);
    if (!grown)
        return false;
    *rows = grown;
    *room = 2 * *room + 256;
    return true;
}

static bool add_read(struct order_floor *floor, uint32_t layer)
{
    if (!grow((void **)&floor->reads, floor->read_count, &floor->read_room, sizeof floor->reads[0]))
        return false;
    floor->reads[floor->read_count++] =
        (struct read){ layer, recompute_prices_part(floor->prices, layer) };
    return true;
}

// Adds a layer to a step: what it reads of before the step, and the step's data.
static bool add_layer(struct order_floor *floor, const struct downsets *downsets, struct step *step, uint32_t layer,
                      uint64_t *backward)
{
    const struct intervals *intervals = floor->intervals;
    const struct profile_layer *own = &intervals->profile->layers[layer];
    uint64_t alive = round_to_256(own->backward_workspace_bytes);
    for (uint32_t i = intervals->source_at[layer]; i < intervals->source_at[layer + 1]; i++) {
        const uint32_t q = intervals->sources[i];
        if (downsets_holds(downsets, step->drop.from, floor->block_of[q])) {
            if (!add_read(floor, q))
                return false;
        } else {
            alive = add_clamped(alive, intervals->output[q]);
        }
    }
    *backward = alive > *backward ? alive : *backward;
    step->drop.data_bytes = add_clamped(step->drop.data_bytes, intervals->saved[layer + 1] - intervals->saved[layer]);
    step->drop.data_bytes = add_clamped(step->drop.data_bytes, intervals->output[layer]);
    step->drop.time_ns += profile_recompute_ns(own);
    step->layer = layer;
    const uint64_t workspace = own->workspace_bytes > own->backward_workspace_bytes ? own->workspace_bytes
                                                                                    : own->backward_workspace_bytes;
    step->workspace_bytes = round_to_256(workspace);
    step->kept_bytes = intervals->saved[layer + 1] - intervals->saved[layer];
    return true;
}

static bool add_step(struct order_floor *floor, const struct downsets *downsets, uint32_t from, uint32_t to)
{
    struct step step = { .drop = { .from = from, .to = to, .layers = downsets->size[to] - downsets->size[from] },
                         .read_at = floor->read_count };
    uint64_t backward = 0;
    for (size_t word = 0; word < downsets->words; word++) {
        uint64_t set = downsets_set(downsets, to)[word] & ~downsets_set(downsets, from)[word];
        for (; set; set &= set - 1) {
            const size_t block = 64 * word + (size_t)__builtin_ctzll(set);
            if (!add_layer(floor, downsets, &step, floor->layer_of[block], &backward))
                return false;
        }
    }
    step.drop.data_bytes = add_clamped(step.drop.data_bytes, backward);
    step.read_count = floor->read_count - step.read_at;
    if (!grow((void **)&floor->steps, floor->step_count, &floor->step_room, sizeof floor->steps[0]))
        return false;
    floor->steps[floor->step_count++] = step;
    return true;
}

static bool list_steps(struct order_floor *floor, const struct downsets *downsets, struct error *error)
{
    struct downset_walk walk = { 0 };
    bool good = downset_walk_create(&walk, downsets, error);
    for (uint32_t from = 0; good && from < downsets->count; from++) {
        uint32_t to;
        floor->step_at[from] = floor->step_count;
        downset_walk_up(&walk, from);
        while (good && downset_walk_next(&walk, &to)) {
            if (downsets->size[to] - downsets->size[from] > RECOMPUTE_SEGMENT)
                downset_walk_prune(&walk);
            else
                good = add_step(floor, downsets, from, to) || error_no_memory(error, "a search");
        }
    }
    floor->step_at[downsets->count] = floor->step_count;
    downset_walk_clear(&walk);
    return good;
}

// --- rows -------------------------------------------------------------------------------------

// What a step reads of before it.
struct step_reads {
    uint64_t part_bytes, whole_bytes;  // made in the stage: in parts, and all of it
    bool input;                        // and whether of what is not
};

static struct step_reads read_by(const struct order_floor *floor, const struct downsets *downsets,
                                 const struct step *step, uint32_t first)
{
    struct step_reads reads = { 0 };
    for (size_t i = step->read_at; i < step->read_at + step->read_count; i++) {
        const struct read *read = &floor->reads[i];
        if (downsets_holds(downsets, first, floor->block_of[read->layer])) {
            reads.input = true;
            continue;
        }
        reads.part_bytes = add_clamped(reads.part_bytes, read->part_bytes);
        reads.whole_bytes = add_clamped(reads.whole_bytes, floor->intervals->output[read->layer]);
    }
    return reads;
}

static void take_step(struct order_floor *floor, const struct downsets *downsets, const struct step *step,
                      uint32_t first)
{
    const struct step_reads reads = read_by(floor, downsets, step, first);
    struct recompute_drop drop = step->drop;
    drop.read_bytes = reads.part_bytes;
    recompute_prices_drop(floor->prices, &drop);
    if (!reads.input)
        recompute_prices_drop(floor->dry, &drop);
    if (drop.layers > 1)
        return;
    const bool needs = interval_needs_input(floor->intervals, step->layer);
    const uint64_t kept = step->kept_bytes + (needs ? drop.read_bytes : 0);
    recompute_prices_keep(floor->prices, drop.from, drop.to, kept);
    if (!needs || !reads.input)
        recompute_prices_keep(floor->dry, drop.from, drop.to, kept);
    uint64_t *to = &floor->workspace[drop.to];
    const uint64_t own = add_clamped(step->workspace_bytes, reads.whole_bytes);
    *to = own > *to ? own : *to;
    *to = floor->workspace[drop.from] > *to ? floor->workspace[drop.from] : *to;
}

static uint64_t least_with(const struct orders *orders, const struct recompute_prices *prices, uint32_t stage,
                           uint32_t to, uint64_t fixed)
{
    const uint64_t capacity = order_capacity(orders, stage), workspace = orders->floor->workspace[to];
    const uint32_t slots = kept_slots(orders, stage);
    if (add_clamped(fixed, workspace) > capacity)
        return NO_ORDER;
    return slots == 0 ? 0 : recompute_prices_least(prices, to, slots, capacity - fixed, workspace, 0);
}

static uint64_t least_by_prices(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to)
{
    const struct order_floor *floor = orders->floor;
    const uint64_t kept = least_with(orders, floor->prices, stage, to, fixed_bytes(orders, stage, from, to, false));
    if (kept == 0)
        return 0;
    const uint64_t dry = least_with(orders, floor->dry, stage, to, fixed_bytes(orders, stage, from, to, true));
    return kept < dry ? kept : dry;
}

// All stages whose layers begin behind a downset.
static void fill_row(const struct orders *orders, uint32_t from)
{
    struct order_floor *floor = orders->floor;
    const struct downsets *downsets = orders->graph->downsets;
    memset(floor->workspace, 0, downsets->count * sizeof floor->workspace[0]);
    recompute_prices_begin(floor->prices, from);
    recompute_prices_begin(floor->dry, from);
    for (uint32_t d = from; d < downsets->count; d++)
        for (size_t i = floor->step_at[d]; i < floor->step_at[d + 1] && recompute_prices_is_reached(floor->prices, d);
             i++)
            take_step(floor, downsets, &floor->steps[i], from);
    for (uint32_t stage = 0; stage < orders->stages; stage++)
        for (uint32_t to = from; to < downsets->count; to++)
            if (recompute_prices_is_reached(floor->prices, to))
                floor->least[((size_t)from * orders->stages + stage) * downsets->count + to] =
                    least_by_prices(orders, stage, from, to);
    orders->coupled->work += floor->step_count / 64;
    floor->is_known[from] = true;
}

uint64_t order_recompute_ns(const struct orders *orders, uint32_t stage, uint32_t from, uint32_t to)
{
    struct order_floor *floor = orders->floor;
    if (!floor)
        return 0;
    const struct order_stage *of = stage_table_get(&orders->known, stage, from, to);
    if (of && of->has_front)
        return of->least_ns;
    if (!floor->prices)
        return least_by_sums(orders, stage, from, to);
    if (!floor->is_known[from])
        fill_row(orders, from);
    return floor->least[((size_t)from * orders->stages + stage) * orders->downsets + to];
}

// --- beginning and end ----------------------------------------------------------------------------

// Whether some stage of all layers would not fit, and what does not is known.
static bool is_tight(const struct orders *orders)
{
    const struct intervals *all = orders->coupled->intervals[0];
    uint64_t kept = 0;
    for (uint32_t l = 0; l < all->layers; l++)
        kept = add_clamped(kept, add_clamped(all->saved[l + 1] - all->saved[l], multiply_clamped(4, all->output[l])));
    for (uint32_t s = 0; s < orders->stages; s++) {
        const uint64_t fixed = least_fixed_bytes(orders, s, 0, orders->downsets - 1);
        const uint64_t most = add_clamped(fixed, multiply_clamped(1 + kept_slots(orders, s), kept));
        if (most > order_capacity(orders, s))
            return orders->coupled->order->splits == 1 && !orders->request->holding.activations_on_host;
    }
    return false;
}

static bool index_layers(struct order_floor *floor, const struct order_graph *graph)
{
    const size_t layers = graph->profile->layer_count, count = graph->downset_count;
    floor->block_of = calloc(layers, sizeof floor->block_of[0]);
    floor->layer_of = calloc(layers, sizeof floor->layer_of[0]);
    floor->step_at = calloc(count + 1, sizeof floor->step_at[0]);
    floor->workspace = calloc(count, sizeof floor->workspace[0]);
    floor->is_known = calloc(count, sizeof floor->is_known[0]);
    if (!floor->block_of || !floor->layer_of || !floor->step_at || !floor->workspace || !floor->is_known)
        return false;
    for (uint32_t l = 0; l < layers; l++) {
        floor->block_of[l] = graph->block_of[l];
        floor->layer_of[graph->block_of[l]] = l;
    }
    return true;
}

static bool make_prices(struct orders *orders, struct order_floor *floor, struct error *error)
{
    const struct order_graph *graph = orders->graph;
    const size_t cells = graph->downset_count * graph->downset_count * orders->stages;
    uint64_t most = 0;
    if (!graph->downsets || graph->is_reduced || graph->block_count != graph->profile->layer_count
        || cells > MOST_CELLS)
        return true;
    for (uint32_t s = 0; s < orders->stages; s++)
        most = order_capacity(orders, s) > most ? order_capacity(orders, s) : most;
    floor->intervals = intervals_create(graph->profile, &orders->request->holding, error);
    if (!floor->intervals)
        return false;
    floor->prices = recompute_prices_create(floor->intervals, 0, floor->intervals->layers, graph->downset_count,
                                             most, RECOMPUTE_SHARP, error);
    if (!floor->prices)
        return error->kind == ERROR_NONE;
    floor->dry = recompute_prices_create(floor->intervals, 0, floor->intervals->layers, graph->downset_count, most,
                                         RECOMPUTE_SHARP, error);
    if (!floor->dry)
        return false;
    floor->least = calloc(cells, sizeof floor->least[0]);
    if (!floor->least || !index_layers(floor, graph))
        return error_no_memory(error, "a search");
    return list_steps(floor, graph->downsets, error);
}

bool order_floor_create(struct orders *orders, struct error *error)
{
    if (!is_tight(orders))
        return true;
    struct order_floor *floor = orders->floor = calloc(1, sizeof *floor);
    if (!floor)
        return error_no_memory(error, "a search");
    return make_prices(orders, floor, error);
}

void order_floor_free(struct order_floor *floor)
{
    if (!floor)
        return;
    recompute_prices_free(floor->prices);
    recompute_prices_free(floor->dry);
    intervals_free(floor->intervals);
    free(floor->block_of);
    free(floor->layer_of);
    free(floor->steps);
    free(floor->step_at);
    free(floor->reads);
    free(floor->workspace);
    free(floor->is_known);
    free(floor->least);
    free(floor);
}
