#include "schedules/search/order_tree.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/search/order_memory.h"

enum { MEMORY_BYTES = 48 << 20 };

bool order_tree_create(struct order_tree *tree, const struct order_problem *problem, struct error *error)
{
    *tree = (struct order_tree){ .best_ns = NEVER_NS, .most_nodes = UINT64_MAX };
    if (!order_state_create(&tree->state, problem, error))
        return false;
    const size_t levels = (size_t)problem->ranks * problem->moves;
    // each F can be put off again after another one
    const size_t held = problem->chunks * (levels / 3 + problem->ranks);
    tree->memory = order_memory_create(problem, MEMORY_BYTES, error);
    tree->best = malloc(levels * sizeof *tree->best);
    tree->options = malloc((levels + held + 1) * 3 * problem->chunks * sizeof *tree->options);
    if (tree->memory && tree->best && tree->options)
        return true;
    order_tree_clear(tree);
    return error_no_memory(error, "the search for an order");
}

void order_tree_clear(struct order_tree *tree)
{
    order_state_clear(&tree->state);
    order_memory_free(tree->memory);
    free(tree->best);
    free(tree->options);
    *tree = (struct order_tree){ 0 };
}

// --- the tree -------------------------------------------------------------------------------

static bool is_over(const struct order_tree *tree)
{
    return tree->best_ns <= tree->bound_ns || tree->nodes >= tree->most_nodes || tree->interrupted;
}

static void keep_order(struct order_tree *tree)
{
    const struct order_problem *problem = tree->state.clock.problem;
    const uint64_t time = order_clock_result(&tree->state.clock);
    if (time >= tree->best_ns)
        return;
    tree->best_ns = time;
    memcpy(tree->best, tree->state.order, (size_t)problem->ranks * problem->moves * sizeof *tree->best);
}

static void note_node(struct order_tree *tree)
{
    enum { PAUSE = 256 };
    const struct order_problem *problem = tree->state.clock.problem;
    if (++tree->nodes % PAUSE == 0)
        tree->interrupted = !problem_goes_on(problem, PAUSE * problem_node_work(problem));
}

// Each depth (moves made and F's put off) has options of its own, so that a frame of the recursion is small.
static void visit(struct order_tree *tree, size_t depth)
{
    struct order_state *state = &tree->state;
    struct order_option *options = &tree->options[depth * 3 * state->clock.problem->chunks];
    note_node(tree);
    const uint32_t count = order_state_options(state, options);
    if (count == 0 && order_state_is_complete(state))
        keep_order(tree);
    const struct order_option first = count > 0 ? options[0] : (struct order_option){ 0 };
    const bool may_hold = count > 0 && order_state_may_hold(state, &first);
    order_state_weigh(state, options, count);
    for (uint32_t i = 0; i < count && options[i].bound_ns < tree->best_ns && !is_over(tree); i++) {
        const struct order_undo was = order_state_make(state, options[i].rank, options[i].chunk, options[i].kind);
        if (!order_memory_met(tree->memory, state))
            visit(tree, depth + 1);
        order_state_undo(state, options[i].rank, options[i].chunk, options[i].kind, was);
    }
    if (may_hold && !is_over(tree)) {
        state->held[first.rank] |= (uint64_t)1 << first.chunk;
        visit(tree, depth + 1);
        state->held[first.rank] &= ~((uint64_t)1 << first.chunk);
    }
}

bool order_tree_search(struct order_tree *tree)
{
    order_state_reset(&tree->state);
    order_memory_forget(tree->memory);
    tree->nodes = 0;
    visit(tree, 0);
    return tree->best_ns <= tree->bound_ns || !is_over(tree);
}
