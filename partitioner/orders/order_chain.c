#include "partitioner/orders/order_chain.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "schedules/simulate.h"

// Ways to recompute that are tried together under given stages; beyond, something is left out.
#define MOST_TRIES 20000

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool order_chain_no_memory(struct order_chain *chain)
{
    chain->failed = true;
    return error_no_memory(chain->error, "a search");
}

// --- the best -----------------------------------------------------------------------------

static bool keep(struct order_chain *chain, uint64_t value_ns)
{
    struct orders *orders = chain->orders;
    struct order_best *best = &orders->best;
    uint32_t place = 0;
    best->value_ns = value_ns;
    best->is_set = true;
    for (uint32_t s = 0; s < orders->stages; s++) {
        const struct order_choice *choice = chain->choice[s];
        const size_t count = choice ? choice->count : 0;
        best->cuts[s] = place;
        free(best->segments[s]);
        best->segments[s] = malloc((count + 1) * sizeof best->segments[s][0]);
        best->segment_count[s] = count;
        if (!best->segments[s])
            return order_chain_no_memory(chain);
        for (size_t i = 0; i < count; i++)
            best->segments[s][i] =
                (struct segment){ place + choice->segments[i].first, place + choice->segments[i].end };
        const uint32_t layers = order_graph_layers(orders->graph, chain->at[s], chain->at[s + 1], best->order + place);
        if (choice)
            memcpy(best->order + place, choice->layers, layers * sizeof choice->layers[0]);
        place += layers;
    }
    best->cuts[orders->stages] = place;
    return true;
}

static uint64_t time_of(struct order_chain *chain)
{
    struct coupled *coupled = chain->orders->coupled;
    coupled->work += 1 + coupled->actions / 32;
    uint64_t value = simulator_iteration_ns(coupled->simulators[0], chain->rows);
    if (coupled->simulators[1])
        value -= simulator_iteration_ns(coupled->simulators[1], chain->rows);
    return value;
}

static void note_if_better(struct order_chain *chain)
{
    const uint64_t value = time_of(chain);
    if (value < chain->orders->best.value_ns)
        keep(chain, value);
}

// --- bounds -------------------------------------------------------------------------------

static uint64_t simulated_bound(struct order_chain *chain)
{
    struct coupled *coupled = chain->orders->coupled;
    if (!coupled->bound_simulator)
        return 0;
    coupled->work += 1 + coupled->actions / 32;
    return simulator_iteration_ns(coupled->bound_simulator, chain->rows);
}

// The stages up to `s` as pattern.h times them.
static uint64_t timed_bound(struct order_chain *chain, uint32_t s)
{
    struct orders *orders = chain->orders;
    const struct pattern_stage *stage = &chain->as[s];
    const size_t next = order_cell(orders, s + 1, chain->at[s + 1]);
    const uint64_t way = pattern_round_ns(stage) - stage->forward_ns - stage->backward_ns;
    const struct pattern_rest rest = { way + orders->behind[next], way, orders->slowest[next] };
    orders->coupled->work += 1 + (uint64_t)(s + 1) * orders->pattern.micro_batches * (1 + orders->pattern.goes_on) / 64;
    return pattern_time(&orders->pattern, orders->room, chain->as, 0, s + 1, s + 1 < orders->stages ? &rest : NULL,
                        PATTERN_NO_RANK);
}

// What ranks with a stage behind `s` have done, and what is left for all of them, on average.
static uint64_t average_bound(const struct order_chain *chain, uint32_t s)
{
    const struct orders *orders = chain->orders;
    const struct coupled *coupled = orders->coupled;
    const struct placement *placement = coupled->placement;
    unsigned __int128 sum = 0;
    uint32_t open = 0;
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        if (placement->held[placement->stage_at[r + 1] - 1] <= s)
            continue;
        open++;
        for (uint32_t at = placement->stage_at[r]; at < placement->stage_at[r + 1] && placement->held[at] <= s; at++) {
            const struct coupled_work *work = &coupled->work_of[at];
            const struct cost_row *row = &chain->rows[placement->held[at]];
            sum += (unsigned __int128)work->forwards * row->forward_ns
                   + (unsigned __int128)work->backwards * row->backward_ns
                   + (unsigned __int128)work->inputs * row->backward_input_ns
                   + (unsigned __int128)work->weights * row->backward_weight_ns;
        }
    }
    return open ? (uint64_t)((sum + order_least_ns(orders, chain->at[s + 1], orders->downsets - 1)) / open) : 0;
}

uint64_t order_chain_bound(struct order_chain *chain, uint32_t s)
{
    struct orders *orders = chain->orders;
    if (!orders->has_bounds)
        return 0;
    if (orders->pattern.is_known)
        return timed_bound(chain, s);
    return larger(simulated_bound(chain), s + 1 < orders->stages ? average_bound(chain, s) : 0);
}

// --- ways to recompute -----------------------------------------------------------------------

static bool fits(const struct order_chain *chain, uint32_t rank)
{
    return add_clamped(chain->bytes[rank], chain->workspace[rank])
        <= chain->orders->request->cluster->devices[rank].memory_bytes;
}

static void try_choices(struct order_chain *chain, uint32_t s, uint64_t bound_ns);

// With this choice on the ranks that hold the stage, if they have room, the stages behind it.
static void try_choice(struct order_chain *chain, uint32_t s, const struct order_choice *choice, uint64_t bound_ns)
{
    const struct placement *placement = chain->orders->coupled->placement;
    const uint32_t copies = placement_copies(placement, s);
    uint64_t *before = malloc(2 * (size_t)copies * sizeof before[0]);
    if (!before) {
        order_chain_no_memory(chain);
        return;
    }
    bool has_room = true;
    for (uint32_t copy = 0; copy < copies; copy++) {
        const uint32_t rank = placement_rank(placement, s, copy);
        before[2 * copy] = chain->bytes[rank];
        before[2 * copy + 1] = chain->workspace[rank];
        chain->bytes[rank] = add_clamped(chain->bytes[rank], choice->bytes);
        chain->workspace[rank] = larger(chain->workspace[rank], choice->workspace_bytes);
        has_room &= fits(chain, rank);
    }
    chain->choice[s] = choice;
    if (has_room)
        try_choices(chain, s + 1, bound_ns);
    for (uint32_t copy = 0; copy < copies; copy++) {
        chain->bytes[placement_rank(placement, s, copy)] = before[2 * copy];
        chain->workspace[placement_rank(placement, s, copy)] = before[2 * copy + 1];
    }
    free(before);
}

// What no choice of the stages that are still open can beat: they recompute the least there is.
static uint64_t bound_of_choices(struct order_chain *chain)
{
    const struct orders *orders = chain->orders;
    return orders->pattern.is_known ? timed_bound(chain, orders->stages - 1) : simulated_bound(chain);
}

static void try_choices(struct order_chain *chain, uint32_t s, uint64_t bound_ns)
{
    struct orders *orders = chain->orders;
    if (s == orders->stages) {
        chain->left--;
        note_if_better(chain);
        return;
    }
    const struct order_stage *of = chain->of[s];
    const struct cost_row row = chain->rows[s];
    const struct pattern_stage as = chain->as[s];
    uint64_t bound = bound_ns;
    for (size_t i = 0; i < of->count && !chain->failed; i++) {
        chain->rows[s].recompute_ns = stage_scaled_ns(of->at[i].forward_ns, orders->coupled->speed[s]);
        chain->as[s] = order_pattern_stage(orders, s, chain->at[s], chain->at[s + 1], of->at[i].forward_ns);
        if (i > 0)
            bound = larger(bound, bound_of_choices(chain));
        if (i > 0 && bound >= orders->best.value_ns)
            break;  // those that follow take longer
        if (chain->left == 0 || coupled_must_stop(orders->coupled)) {
            orders_lose(orders, bound);
            break;
        }
        try_choice(chain, s, &of->at[i], bound);
    }
    chain->rows[s] = row;
    chain->as[s] = as;
}

static bool fits_as_it_is(struct order_chain *chain)
{
    const struct orders *orders = chain->orders;
    const struct placement *placement = orders->coupled->placement;
    for (uint32_t r = 0; r < orders->coupled->ranks; r++) {
        uint64_t bytes = 0, workspace = 0;
        for (uint32_t at = placement->stage_at[r]; at < placement->stage_at[r + 1]; at++) {
            const struct order_stage *of = chain->of[placement->held[at]];
            bytes = add_clamped(bytes, of->bytes);
            workspace = larger(workspace, of->workspace_bytes);
        }
        if (add_clamped(bytes, workspace) > orders->request->cluster->devices[r].memory_bytes)
            return false;
    }
    return true;
}

void order_chain_finish(struct order_chain *chain, uint64_t bound_ns)
{
    struct orders *orders = chain->orders;
    bool empty = false, complete = true;
    for (uint32_t s = 0; s < orders->stages; s++)
        empty |= chain->at[s] == chain->at[s + 1];
    if (empty || (orders->graph->is_reduced && !orders->coupled->is_monotone))
        orders_lose(orders, bound_ns);
    if (empty)
        return;
    memset(chain->choice, 0, orders->stages * sizeof chain->choice[0]);
    if (orders->coupled->is_monotone && fits_as_it_is(chain)) {
        note_if_better(chain);
        return;
    }
    for (uint32_t s = 0; s < orders->stages && !chain->failed; s++) {
        chain->of[s] = order_front(orders, s, chain->at[s], chain->at[s + 1], chain->error);
        chain->failed |= !chain->of[s];
        complete &= !chain->failed && chain->of[s]->complete;
    }
    if (!complete)
        orders_lose(orders, bound_ns);
    chain->left = MOST_TRIES;
    if (!chain->failed)
        try_choices(chain, 0, bound_ns);
}

// --- beginning and end ----------------------------------------------------------------------

void order_chain_set(struct order_chain *chain, uint32_t s, struct order_stage *of, uint64_t recompute_ns)
{
    chain->of[s] = of;
    chain->failed |= !of;
    chain->rows[s] = order_row(chain->orders, s, chain->at[s], chain->at[s + 1], recompute_ns);
    chain->as[s] = order_pattern_stage(chain->orders, s, chain->at[s], chain->at[s + 1], recompute_ns);
}

bool order_chain_create(struct order_chain *chain, struct orders *orders, struct error *error)
{
    const size_t stages = orders->stages, ranks = orders->coupled->ranks;
    *chain = (struct order_chain){ .orders = orders, .error = error };
    chain->at = calloc(stages + 1, sizeof chain->at[0]);
    chain->rows = calloc(stages, sizeof chain->rows[0]);
    chain->as = calloc(stages, sizeof chain->as[0]);
    chain->of = calloc(stages, sizeof chain->of[0]);
    chain->choice = calloc(stages, sizeof chain->choice[0]);
    chain->bytes = calloc(ranks, sizeof chain->bytes[0]);
    chain->workspace = calloc(ranks, sizeof chain->workspace[0]);
    if (chain->at && chain->rows && chain->as && chain->of && chain->choice && chain->bytes && chain->workspace)
        return true;
    return order_chain_no_memory(chain);
}

void order_chain_clear(struct order_chain *chain)
{
    free(chain->at);
    free(chain->rows);
    free(chain->as);
    free(chain->of);
    free(chain->choice);
    free(chain->bytes);
    free(chain->workspace);
    *chain = (struct order_chain){ 0 };
}
