// Chains of downsets, stage by stage from the first, those with the least bound first
// (order_open.h):
//
//     {}  ->  {a b}  ->  {a b c e}  ->  all         stages  a b | c e | the rest
//         ->  {a c}  -> ...
//
// A chain that has come so far is left when its bound is not below the best plan: the
// largest of what the tables say of its last stage and of those behind it; the time of
// its stages, with what is behind them as a way that takes at least so long (where
// pattern.h knows the order) or as if it took no time (where it does not); and what the
// ranks that are not done have to do on average. At its end stand the plans with these
// stages: all ways to recompute that fit.
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/orders/order_open.h"
#include "partitioner/orders/orders.h"
#include "schedules/simulate.h"

struct candidate {
    uint32_t to;
    uint64_t bound_ns;
};

struct chain {
    struct orders *orders;
    uint32_t *at;                 // downsets, stages + 1 of them
    struct cost_row *rows;        // of what is decided; the rest takes no time
    struct pattern_stage *as;     // likewise
    const struct order_stage **of;
    const struct order_choice **choice;
    uint64_t *bytes, *workspace;  // per rank, of the choices so far
    struct downset_walk walk;
    struct order_open open;
    struct candidate *candidates;  // of the node that is open
    size_t candidate_count, candidate_room;
    uint64_t left;                // plans that may still be tried under these stages
    struct error *error;
    bool failed;
};

// Ways to recompute that are tried together under given stages; beyond, something is left out.
#define MOST_TRIES 20000

// Nodes beyond which the search ends: they take about 60 MB.
#define MOST_NODES 1000000

// Of a node those stages are added together whose bounds are within this part of each other.
#define AT_ONCE 1000

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool fail_memory(struct chain *chain)
{
    chain->failed = true;
    return error_no_memory(chain->error, "a search");
}

// --- the best -----------------------------------------------------------------------------

static bool keep(struct chain *chain, uint64_t value_ns)
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
            return fail_memory(chain);
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

static uint64_t time_of(struct chain *chain)
{
    struct coupled *coupled = chain->orders->coupled;
    coupled->work += 1 + coupled->actions / 32;
    uint64_t value = simulator_iteration_ns(coupled->simulators[0], chain->rows);
    if (coupled->simulators[1])
        value -= simulator_iteration_ns(coupled->simulators[1], chain->rows);
    return value;
}

static void note_if_better(struct chain *chain)
{
    const uint64_t value = time_of(chain);
    if (value < chain->orders->best.value_ns)
        keep(chain, value);
}

// --- bounds -------------------------------------------------------------------------------

static uint64_t simulated_bound(struct chain *chain)
{
    struct coupled *coupled = chain->orders->coupled;
    if (!coupled->bound_simulator)
        return 0;
    coupled->work += 1 + coupled->actions / 32;
    return simulator_iteration_ns(coupled->bound_simulator, chain->rows);
}

// The stages up to `s` as pattern.h times them.
static uint64_t timed_bound(struct chain *chain, uint32_t s)
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
static uint64_t average_bound(const struct chain *chain, uint32_t s)
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

static uint64_t bound_of(struct chain *chain, uint32_t s)
{
    struct orders *orders = chain->orders;
    if (!orders->has_bounds)
        return 0;
    if (orders->pattern.is_known)
        return timed_bound(chain, s);
    return larger(simulated_bound(chain), s + 1 < orders->stages ? average_bound(chain, s) : 0);
}

// --- ways to recompute -----------------------------------------------------------------------

static bool fits(const struct chain *chain, uint32_t rank)
{
    return add_clamped(chain->bytes[rank], chain->workspace[rank])
        <= chain->orders->request->cluster->devices[rank].memory_bytes;
}

static void try_choices(struct chain *chain, uint32_t s, uint64_t bound_ns);

// With this choice on the ranks that hold the stage, if they have room, the stages behind it.
static void try_choice(struct chain *chain, uint32_t s, const struct order_choice *choice, uint64_t bound_ns)
{
    const struct placement *placement = chain->orders->coupled->placement;
    const uint32_t copies = placement_copies(placement, s);
    uint64_t *before = malloc(2 * (size_t)copies * sizeof before[0]);
    if (!before) {
        fail_memory(chain);
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
static uint64_t bound_of_choices(struct chain *chain)
{
    const struct orders *orders = chain->orders;
    return orders->pattern.is_known ? timed_bound(chain, orders->stages - 1) : simulated_bound(chain);
}

static void try_choices(struct chain *chain, uint32_t s, uint64_t bound_ns)
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

static bool fits_as_it_is(struct chain *chain)
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

// The chain is whole, and no plan of it is below `bound_ns`.
static void finish(struct chain *chain, uint64_t bound_ns)
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

// --- chains -------------------------------------------------------------------------------

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

// What the tables say of a stage that begins where the chain has come to.
static uint64_t expected(const struct chain *chain, uint32_t s, uint32_t to, uint64_t before_ns)
{
    const struct orders *orders = chain->orders;
    if (!order_may_end(orders, s, to))
        return NO_ORDER;
    if (!orders->has_bounds)
        return 0;
    const uint64_t tail = orders->tail[order_cell(orders, s + 1, to)];
    if (tail == NO_ORDER)
        return NO_ORDER;
    const uint64_t least = order_recompute_ns(orders, s, chain->at[s], to);
    if (least == NO_ORDER)
        return NO_ORDER;
    const struct pattern_stage as = order_pattern_stage(orders, s, chain->at[s], to, least);
    return larger(tail, order_stage_bound(orders, s, chain->at[s], to, &as, before_ns));
}

// Notes a stage that may follow.
static void note_candidate(struct chain *chain, uint32_t to, uint64_t bound_ns)
{
    if (chain->candidate_count == chain->candidate_room) {
        const size_t room = 2 * chain->candidate_room + 64;
        struct candidate *grown = realloc(chain->candidates, room * sizeof *grown);
        if (!grown) {
            fail_memory(chain);
            return;
        }
        chain->candidates = grown;
        chain->candidate_room = room;
    }
    chain->candidates[chain->candidate_count++] = (struct candidate){ to, bound_ns };
}

// All stages that may follow and are not there yet.
static void list_candidates(struct chain *chain, const struct order_node *node)
{
    struct orders *orders = chain->orders;
    uint32_t to = node->to;
    size_t pairs = 0;
    chain->candidate_count = 0;
    downset_walk_up(&chain->walk, to);
    bool more = orders->graph->is_reduced || downset_walk_next(&chain->walk, &to);
    for (; more && !chain->failed; more = downset_walk_next(&chain->walk, &to)) {
        pairs++;
        if (orders->has_bounds && orders->best.value_ns != NO_ORDER
            && order_least_ns(orders, node->to, to) >= orders->best.value_ns) {
            downset_walk_prune(&chain->walk);
            continue;
        }
        const uint64_t own = expected(chain, node->stages, to, node->before_ns);
        if (own != NO_ORDER && own >= node->from_ns && own < orders->best.value_ns)
            note_candidate(chain, to, own);
    }
    orders->coupled->work += 1 + pairs / 16;
}

// Those of the stages that may follow whose bounds are the least, unpriced; for the others
// the node comes again.
static void add_stages(struct chain *chain, uint32_t index)
{
    struct order_open *open = &chain->open;
    const struct order_node node = open->nodes[index];
    list_candidates(chain, &node);
    uint64_t least = NO_ORDER, rest = NO_ORDER;
    for (size_t i = 0; i < chain->candidate_count; i++)
        least = smaller(least, chain->candidates[i].bound_ns);
    const uint64_t until = larger(least, node.bound_ns) + least / AT_ONCE;
    for (size_t i = 0; i < chain->candidate_count && !chain->failed; i++) {
        const struct candidate candidate = chain->candidates[i];
        const struct order_node next = { .bound_ns = larger(candidate.bound_ns, node.bound_ns), .parent = index,
                                         .to = candidate.to, .stages = node.stages + 1 };
        if (candidate.bound_ns > until)
            rest = smaller(rest, candidate.bound_ns);
        else if (!order_open_add(open, next))
            fail_memory(chain);
    }
    if (rest == NO_ORDER || chain->failed)
        return;
    open->nodes[index].from_ns = until + 1;
    open->nodes[index].bound_ns = rest;
    order_open_again(open, index);
}

static void set_stage(struct chain *chain, uint32_t s, struct order_stage *of, uint64_t least_ns)
{
    chain->of[s] = of;
    chain->failed |= !of;
    chain->rows[s] = order_row(chain->orders, s, chain->at[s], chain->at[s + 1], least_ns);
    chain->as[s] = order_pattern_stage(chain->orders, s, chain->at[s], chain->at[s + 1], least_ns);
}

// Reads the stages of a node; its own only once it is priced.
static void read_stages(struct chain *chain, const struct order_node *node)
{
    struct orders *orders = chain->orders;
    memset(chain->rows, 0, orders->stages * sizeof chain->rows[0]);
    for (const struct order_node *n = node; n->stages > 0; n = &chain->open.nodes[n->parent])
        chain->at[n->stages] = n->to;
    for (const struct order_node *n = node; n->stages > 0; n = &chain->open.nodes[n->parent]) {
        const uint32_t s = n->stages - 1;
        if (n->is_priced)
            set_stage(chain, s, order_stage_of(orders, s, chain->at[s], n->to, chain->error), n->least_ns);
    }
}

// Whether a chain may be better with what its last stage must recompute at least, which is known sooner than
// the ways to do it.
static bool may_be_better(struct chain *chain, struct order_node *node, struct order_stage *of)
{
    const uint64_t least = order_recompute_ns(chain->orders, of->stage, of->from, of->to);
    if (least == NO_ORDER)
        return false;
    set_stage(chain, of->stage, of, least);
    node->bound_ns = larger(node->bound_ns, bound_of(chain, of->stage));
    return node->bound_ns < chain->orders->best.value_ns;
}

// What the last stage takes, with what it must recompute; false if it does not fit.
static bool price(struct chain *chain, struct order_node *node)
{
    struct orders *orders = chain->orders;
    const uint32_t s = node->stages - 1;
    struct order_stage *of = order_stage_of(orders, s, chain->at[s], node->to, chain->error);
    if (of && !of->fits_as_it_is && !of->has_front && !may_be_better(chain, node, of))
        return false;
    if (of && !of->fits_as_it_is) {
        of = order_front(orders, s, chain->at[s], node->to, chain->error);
        node->least_ns = of ? of->least_ns : 0;
    }
    chain->failed |= !of;
    if (chain->failed || node->least_ns == NO_ORDER)
        return false;
    set_stage(chain, s, of, node->least_ns);
    node->is_priced = true;
    node->before_ns = chain->open.nodes[node->parent].before_ns + pattern_round_ns(&chain->as[s]);
    node->bound_ns = larger(node->bound_ns, bound_of(chain, s));
    return true;
}

// Goes on with a node, or puts it back where others are more promising by now.
static void open_node(struct chain *chain, uint32_t index)
{
    struct order_open *open = &chain->open;
    struct order_node *node = &open->nodes[index];
    read_stages(chain, node);
    if (!chain->failed && !node->is_priced) {
        if (!price(chain, node) || node->bound_ns >= chain->orders->best.value_ns)
            return;
        if (open->heap.count > 0 && open->nodes[open->heap.nodes[0]].bound_ns < node->bound_ns) {
            order_open_again(open, index);
            return;
        }
    }
    if (chain->failed)
        return;
    if (node->stages == chain->orders->stages)
        finish(chain, node->bound_ns);
    else
        add_stages(chain, index);
}

static void search(struct chain *chain)
{
    struct orders *orders = chain->orders;
    const struct order_node root = { .is_priced = true };
    uint32_t index;
    if (!order_open_add(&chain->open, root))
        fail_memory(chain);
    while (!chain->failed && order_open_next(&chain->open, &index)) {
        const uint64_t bound = chain->open.nodes[index].bound_ns;
        if (bound >= orders->best.value_ns)
            return;
        if (chain->open.count > MOST_NODES || coupled_must_stop(orders->coupled)) {
            orders_lose(orders, bound);
            return;
        }
        open_node(chain, index);
    }
}

bool order_nodes(struct orders *orders, struct error *error)
{
    struct chain chain = { .orders = orders, .error = error };
    const size_t stages = orders->stages, ranks = orders->coupled->ranks;
    chain.at = calloc(stages + 1, sizeof chain.at[0]);
    chain.rows = calloc(stages, sizeof chain.rows[0]);
    chain.as = calloc(stages, sizeof chain.as[0]);
    chain.of = calloc(stages, sizeof chain.of[0]);
    chain.choice = calloc(stages, sizeof chain.choice[0]);
    chain.bytes = calloc(ranks, sizeof chain.bytes[0]);
    chain.workspace = calloc(ranks, sizeof chain.workspace[0]);
    if (!chain.at || !chain.rows || !chain.as || !chain.of || !chain.choice || !chain.bytes || !chain.workspace)
        fail_memory(&chain);
    else if (!downset_walk_create(&chain.walk, orders->graph->downsets, error))
        chain.failed = true;
    else
        search(&chain);
    order_open_clear(&chain.open);
    free(chain.candidates);
    downset_walk_clear(&chain.walk);
    free(chain.at);
    free(chain.rows);
    free(chain.as);
    free(chain.of);
    free(chain.choice);
    free(chain.bytes);
    free(chain.workspace);
    return !chain.failed;
}
