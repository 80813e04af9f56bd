// Branch and bound. Nodes are the first stages of a plan, which are extended by one stage at a time. The node with
// the least bound is opened first.
//
//     stage      0             1            2
//              {} - {ab}  ->  {ab} - {abd}               bound 815 us: next
//                         ->  {ab} - {abc}               bound 823 us, waits
//
// The bound of a node is the largest of three: the bound of its parent, what the tables say of the stages behind it,
// and a time. This is the time of its own stages, with the others taking what they take at least. If the order is no
// pattern (pattern.h), that time is simulated: all that is not yet decided takes no time, and no message waits for a
// link.
//
// If less time is never worse and a stage has its ranks to itself, what a stage recomputes is decided together with
// its place. It is the quickest way that fits, found exactly. Otherwise every choice that matters is tried once all
// cuts are known.
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/number.h"
#include "partitioner/cuts/cut_search.h"
#include "partitioner/cuts/cut_tables.h"
#include "partitioner/search/node_heap.h"

#define NO_PARENT UINT32_MAX

enum { MOST_NODES = 4 << 20 };

struct node {
    uint64_t bound, before_ns;  // before_ns: of a micro-batch in its stages, there and back
    uint64_t recompute_ns;      // of its last stage, or a lower bound of it
    uint32_t parent, place, depth;
};

struct branching {
    struct cut_problem *problem;
    struct cut_state *best;
    struct cut_state state;       // of the node that is open
    struct cut_tables tables;
    struct place_walk walk;
    struct node *nodes;
    size_t count, capacity, heap_capacity;
    struct node_heap heap;
    struct pattern_stage *stages;  // of the node that is open
    struct stage_price **prices;   // the same, once all its cuts are known
    uint64_t below_ns, lost_ns;    // only quicker plans matter; the least bound of what was given up
    const struct search_part *part;
    bool decides;                  // recomputation is decided together with the place
    bool failed;
    struct error *error;
};

static uint64_t limit_of(const struct branching *branching)
{
    const struct cut_state *best = branching->best;
    return best->most_lacking == 0 && best->value_ns < branching->below_ns ? best->value_ns : branching->below_ns;
}

static void lose(struct branching *branching, uint64_t bound_ns)
{
    branching->lost_ns = bound_ns < branching->lost_ns ? bound_ns : branching->lost_ns;
}

static bool must_stop(struct branching *branching)
{
    return branching->failed || part_is_over(branching->problem->context, branching->part);
}

// --- nodes ------------------------------------------------------------------------------------

// The node with the least bound comes first; of nodes with equal bounds the deepest.
static bool comes_first(const void *search, uint32_t a, uint32_t b)
{
    const struct branching *branching = search;
    const struct node *x = &branching->nodes[a], *y = &branching->nodes[b];
    if (x->bound != y->bound)
        return x->bound < y->bound;
    if (x->depth != y->depth)
        return x->depth > y->depth;
    return a < b;
}

static void add_node(struct branching *branching, struct node node)
{
    if (branching->count == MOST_NODES) {
        lose(branching, node.bound);
        return;
    }
    struct node_heap *heap = &branching->heap;
    if (!array_reserve(&branching->nodes, &branching->capacity, branching->count + 1, sizeof branching->nodes[0])
        || !array_reserve(&heap->nodes, &branching->heap_capacity, heap->count + 1, sizeof heap->nodes[0])) {
        branching->failed = !error_no_memory(branching->error, "a search");
        return;
    }
    branching->nodes[branching->count] = node;
    node_heap_push(heap, (uint32_t)branching->count++, comes_first, branching);
}

static void set_recompute(struct branching *branching, uint32_t s, uint64_t recompute_ns)
{
    const uint32_t *cuts = branching->state.cuts;
    struct cut_problem *problem = branching->problem;
    branching->state.of[s].recompute_ns = recompute_ns;
    problem->clock.rows[s] = cut_row(problem, s, cuts[s], cuts[s + 1], recompute_ns);
    branching->stages[s] = cut_pattern_stage(problem, s, cuts[s], cuts[s + 1], recompute_ns);
}

// Reads the stages of a node into the state, the rows and the pattern's stages. Stages behind them take no time.
static void read_node(struct branching *branching, uint32_t index)
{
    struct cut_problem *problem = branching->problem;
    const struct node *node = &branching->nodes[index];
    memset(problem->clock.rows, 0, problem->stages * sizeof problem->clock.rows[0]);
    for (; node->depth > 0; node = &branching->nodes[node->parent]) {
        const uint32_t s = node->depth - 1;
        branching->state.cuts[s] = branching->nodes[node->parent].place;
        branching->state.cuts[s + 1] = node->place;
        set_recompute(branching, s, node->recompute_ns);
    }
}

// --- bounds -----------------------------------------------------------------------------------

// The time with stages 0 to s as they were read, and those behind as what they take at least.
static uint64_t timed_bound(struct branching *branching, uint32_t s)
{
    struct cut_problem *problem = branching->problem;
    const struct cut_tables *tables = &branching->tables;
    const struct pattern *pattern = &problem->schedule.pattern;
    const struct pattern_stage *stage = &branching->stages[s];
    const struct cut_cell *next = cut_cell(tables, s + 1, branching->state.cuts[s + 1]);
    const uint64_t way = pattern_round_ns(stage) - stage->forward_ns - stage->backward_ns;
    const struct pattern_rest rest = { way + next->behind, way, next->slowest };
    problem->context->work += 1 + (uint64_t)(s + 1) * pattern->micro_batches * (1 + pattern->goes_on) / 160;
    return pattern_time(pattern, problem->clock.room, branching->stages, s + 1,
                        s + 1 < problem->stages ? &rest : NULL);
}

// The simulated time of the rows.
static uint64_t simulated_bound(struct branching *branching)
{
    struct cut_clock *clock = &branching->problem->clock;
    if (!clock->bounding)
        return 0;
    branching->problem->context->work += 1 + clock->actions / 160;
    return simulator_iteration_ns(clock->bounding, clock->rows);
}

// The bound of a node whose stages 0 to s were read.
static uint64_t node_bound(struct branching *branching, uint32_t s)
{
    return branching->problem->schedule.pattern.is_known ? timed_bound(branching, s) : simulated_bound(branching);
}

// --- a whole row of cuts ------------------------------------------------------------------------

static void note_if_better(struct branching *branching)
{
    struct cut_problem *problem = branching->problem;
    struct cut_state *state = &branching->state;
    if (cut_state_host_lacks(problem, state) > 0)
        return;
    // Only a plan that is strictly quicker is taken.
    const uint64_t limit = limit_of(branching);
    state->value_ns = cut_state_time(problem, state, limit);
    if (state->value_ns >= limit)
        return;
    state->is_exact = true;
    state->most_lacking = state->all_lacking = state->host_lacks = 0;
    memset(state->lacks_bytes, 0, problem->ranks * sizeof state->lacks_bytes[0]);
    cut_state_copy(branching->best, state, problem);
    problem->context->best_ns = state->value_ns;
}

// Whether the choices of the stages up to s leave room on their rank. All ranks that hold a stage hold the same
// stages.
static bool has_room(const struct branching *branching, uint32_t s)
{
    const struct cut_problem *problem = branching->problem;
    const struct placement *placement = problem->schedule.placement;
    const uint32_t rank = placement_rank(placement, s, 0);
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t i = placement->stage_at[rank]; i < placement->stage_at[rank + 1]; i++) {
        const uint32_t held = placement->held[i];
        if (held > s)
            continue;
        const struct stage_choice *choice = &branching->prices[held]->choices[branching->state.of[held].choice];
        bytes = add_clamped(bytes, choice->bytes);
        workspace = max_u64(workspace, choice->workspace_bytes);
    }
    return add_clamped(bytes, workspace) <= cut_capacity(problem, s);
}

static void try_choices(struct branching *branching, uint32_t s, uint64_t bound_ns)
{
    struct cut_problem *problem = branching->problem;
    if (s == problem->stages) {
        note_if_better(branching);
        return;
    }
    const struct stage_price *price = branching->prices[s];
    const uint64_t least_ns = branching->state.of[s].recompute_ns;
    for (size_t i = 0; price->fits && i < price->count; i++) {
        const struct stage_choice *choice = &price->choices[i];
        // One bound holds for all choices with the same time; those that follow take longer.
        const bool is_new = i == 0 || choice->forward_ns != price->choices[i - 1].forward_ns;
        set_recompute(branching, s, choice->forward_ns);
        if (is_new && choice->forward_ns > least_ns
            && node_bound(branching, problem->stages - 1) >= limit_of(branching))
            break;
        if (must_stop(branching)) {
            lose(branching, bound_ns);
            break;
        }
        branching->state.of[s].choice = i;
        branching->state.of[s].away = choice->away;
        if (has_room(branching, s))
            try_choices(branching, s + 1, bound_ns);
    }
    set_recompute(branching, s, least_ns);
}

// Whether every rank has room for its stages with nothing recomputed. If so, the state says that nothing is.
static bool fits_as_it_is(struct branching *branching)
{
    struct cut_problem *problem = branching->problem;
    bool all = true;
    for (uint32_t r = 0; r < problem->ranks && all && !branching->failed; r++) {
        bool fits = true;
        branching->failed |= problem->schedule.leader[r] == r
                          && !cut_state_keep(problem, &branching->state, &problem->exact, r, &fits, branching->error);
        all &= fits;
    }
    return all;
}

static void open_leaf(struct branching *branching, const struct node *node)
{
    struct cut_problem *problem = branching->problem;
    const uint32_t *cuts = branching->state.cuts;
    // Activations that are recomputed need not go to the host, so a stage that recomputes more can be the quicker
    // one.
    const bool moves = problem->request->storage.activations_on_host;
    const bool fits = fits_as_it_is(branching);
    if (branching->failed)
        return;
    if (fits && problem->is_monotone && !moves) {
        note_if_better(branching);
        return;
    }
    for (uint32_t s = 0; s < problem->stages; s++) {
        branching->prices[s] =
            stage_price_choices(problem, &problem->exact, s, cuts[s], cuts[s + 1], branching->error);
        branching->failed |= !branching->prices[s];
        if (branching->failed)
            return;
        if (!branching->prices[s]->complete)
            lose(branching, node->bound);
    }
    try_choices(branching, 0, node->bound);
}

// --- opening ------------------------------------------------------------------------------------

// A node with one more stage, up to `to`, that spends at least `recompute_ns` on recomputation.
static struct node child_of(struct branching *branching, uint32_t parent, uint32_t to, uint64_t recompute_ns)
{
    struct cut_problem *problem = branching->problem;
    const struct node node = branching->nodes[parent];
    const uint32_t s = node.depth;
    struct node child = { .bound = node.bound, .before_ns = node.before_ns, .recompute_ns = recompute_ns,
                          .parent = parent, .place = to, .depth = s + 1 };
    const struct pattern_stage as = cut_pattern_stage(problem, s, node.place, to, recompute_ns);
    const uint64_t table = cut_tables_bound(&branching->tables, problem, s, to, &as, node.before_ns);
    problem->context->work++;
    child.bound = table > child.bound ? table : child.bound;
    if (child.bound >= limit_of(branching))
        return child;
    branching->state.cuts[s + 1] = to;
    set_recompute(branching, s, recompute_ns);
    child.before_ns += pattern_round_ns(&as);
    const uint64_t timed = node_bound(branching, s);
    child.bound = timed > child.bound ? timed : child.bound;
    memset(&problem->clock.rows[s], 0, sizeof problem->clock.rows[s]);
    return child;
}

static void add_child(struct branching *branching, uint32_t parent, uint32_t to)
{
    struct cut_problem *problem = branching->problem;
    const struct node node = branching->nodes[parent];
    const uint64_t floor = stage_price_known_floor(problem, node.depth, node.place, to);
    if (floor == NO_TIME)
        return;
    struct node child = child_of(branching, parent, to, floor);
    if (child.bound >= limit_of(branching))
        return;
    if (branching->decides && !stage_price_surely_fits(problem, node.depth, node.place, to)) {
        const struct stage_price *price =
            stage_price_of(problem, &problem->exact, node.depth, node.place, to, branching->error);
        if (price && add_clamped(price->bytes, price->workspace_bytes) > cut_capacity(problem, node.depth))
            price = stage_price_choices(problem, &problem->exact, node.depth, node.place, to, branching->error);
        if (!price) {
            branching->failed = true;
            return;
        }
        if (price->has_choices && !price->complete)
            lose(branching, child.bound);
        if (price->has_choices && !price->fits)
            return;
        if (price->has_choices && price->choices[0].forward_ns > floor) {
            child = child_of(branching, parent, to, price->choices[0].forward_ns);
            if (child.bound >= limit_of(branching))
                return;
        }
    }
    add_node(branching, child);
}

static void open_node(struct branching *branching, uint32_t index)
{
    struct cut_problem *problem = branching->problem;
    const struct node node = branching->nodes[index];
    uint32_t to;
    read_node(branching, index);
    if (node.depth == problem->stages) {
        open_leaf(branching, &node);
        return;
    }
    place_walk_from(&branching->walk, node.place);
    while (place_walk_next(&branching->walk, &to)) {
        problem->context->work += (to & 15) == 0;
        if (cut_is_too_long(problem, node.depth, node.place, to, limit_of(branching))) {
            place_walk_prune(&branching->walk);
            continue;
        }
        if (must_stop(branching)) {
            lose(branching, node.bound);  // some of its children are missing
            return;
        }
        if (cut_may_end(problem, node.depth, to))
            add_child(branching, index, to);
    }
}

static void run(struct branching *branching, uint64_t root_ns)
{
    struct search_context *context = branching->problem->context;
    add_node(branching, (struct node){ .bound = root_ns, .parent = NO_PARENT });
    while (branching->heap.count > 0 && !branching->failed) {
        const uint32_t index = branching->heap.nodes[0];
        const struct node *first = &branching->nodes[index];
        const uint64_t known = first->bound < branching->lost_ns ? first->bound : branching->lost_ns;
        if (known > context->bound_ns)
            context->bound_ns = known;
        if (must_stop(branching)) {
            for (size_t i = 0; i < branching->heap.count; i++)
                lose(branching, branching->nodes[branching->heap.nodes[i]].bound);
            return;
        }
        node_heap_pop(&branching->heap, comes_first, branching);
        if (branching->nodes[index].bound < limit_of(branching))
            open_node(branching, index);
    }
}

static bool begin(struct branching *branching)
{
    const struct cut_problem *problem = branching->problem;
    branching->stages = calloc(problem->stages, sizeof branching->stages[0]);
    branching->prices = calloc(problem->stages, sizeof(struct stage_price *));
    if (!branching->stages || !branching->prices)
        return error_no_memory(branching->error, "a search");
    branching->decides = problem->schedule.is_alone && problem->is_monotone
                      && !problem->request->storage.activations_on_host;
    return cut_state_create(&branching->state, problem, branching->error)
        && place_walk_create(&branching->walk, problem->places, branching->error);
}

bool cut_branch_and_bound(struct cut_problem *problem, struct cut_state *best, uint64_t below_ns,
                          const struct search_part *part,
                          uint64_t *bound_ns, struct error *error)
{
    struct branching branching = { .problem = problem, .best = best, .below_ns = below_ns ? below_ns : NO_TIME,
                                   .lost_ns = NO_TIME, .part = part, .error = error };
    bool whole = false;
    bool good = begin(&branching)
             && cut_tables_create(&branching.tables, problem, limit_of(&branching), part, &whole, error);
    if (good && whole) {
        const uint64_t tail = branching.tables.cells[0].tail;
        const uint64_t root = tail > *bound_ns ? tail : *bound_ns;
        if (tail != NO_TIME)
            run(&branching, root);
        good = !branching.failed;
        *bound_ns = branching.lost_ns > root || tail == NO_TIME ? branching.lost_ns : root;
    }
    free(branching.tables.cells);
    place_walk_clear(&branching.walk);
    cut_state_clear(&branching.state);
    free(branching.nodes);
    free(branching.heap.nodes);
    free(branching.stages);
    free(branching.prices);
    return good;
}
