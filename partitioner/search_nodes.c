// Nodes: prefixes of stages, opened in order of their bounds. A node is a stage on
// top of its parent's; the stages of a prefix are read off by walking up.
//
//     stages    0        1        2 ...
//     node   [0, 7) <- [7, 11) <- [11, 20)      bound 815 us
//                   <- [7, 12)                  bound 823 us, waits
//
// A child's bound is the largest of: its parent's; its own stage's, with what is
// before it exactly known; what the tables say of the stages to come; and the time
// of the prefix with the rest as a way that takes at least so long.
#include <stdlib.h>
#include <string.h>

#include "partitioner/search_state.h"

#define NO_PARENT UINT32_MAX

struct node {
    uint64_t bound;
    uint64_t guide;       // asynchronous: in which order nodes of one bound are opened
    uint64_t before;      // rounds of the prefix
    uint64_t forward_ns, recompute_ns;
    uint32_t parent;
    uint32_t end;         // layers placed
    uint32_t depth;       // stages placed
};

struct open_list {
    struct search *search;
    struct node *nodes;
    size_t count, capacity;
    uint32_t *heap;
    size_t heap_count;
    struct decision decision;  // of the node that is open
    struct error *error;
};

// --- the heap -------------------------------------------------------------------

static bool comes_first(const struct open_list *list, uint32_t a, uint32_t b)
{
    const struct node *x = &list->nodes[a], *y = &list->nodes[b];
    if (x->bound != y->bound)
        return x->bound < y->bound;
    if (x->depth != y->depth)
        return x->depth > y->depth;
    if (x->guide != y->guide)
        return x->guide < y->guide;
    return a < b;
}

static void swap(uint32_t *a, uint32_t *b)
{
    const uint32_t other = *a;
    *a = *b;
    *b = other;
}

static void push(struct open_list *list, uint32_t node)
{
    size_t at = list->heap_count++;
    list->heap[at] = node;
    for (; at > 0 && comes_first(list, list->heap[at], list->heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&list->heap[at], &list->heap[(at - 1) / 2]);
}

static uint32_t pop(struct open_list *list)
{
    const uint32_t first = list->heap[0];
    list->heap[0] = list->heap[--list->heap_count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < list->heap_count && comes_first(list, list->heap[child], list->heap[least]))
                least = child;
        if (least == at)
            return first;
        swap(&list->heap[at], &list->heap[least]);
        at = least;
    }
}

static bool add_node(struct open_list *list, struct node node)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 1024;
        struct node *nodes = realloc(list->nodes, capacity * sizeof *nodes);
        list->nodes = nodes ? nodes : list->nodes;
        uint32_t *heap = nodes ? realloc(list->heap, capacity * sizeof *heap) : NULL;
        list->heap = heap ? heap : list->heap;
        if (!nodes || !heap)
            return error_no_memory(list->error, "a search");
        list->capacity = capacity;
    }
    list->nodes[list->count] = node;
    push(list, (uint32_t)list->count++);
    return true;
}

// --- bounds of a child ------------------------------------------------------------

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// From the tables; NO_WAY if nothing can follow.
static uint64_t table_bound(const struct search *search, const struct node *parent, const struct pattern_stage *stage,
                            uint32_t end)
{
    const struct tables *tables = &search->tables;
    const size_t next = table_cell(tables, parent->depth + 1, end);
    if (tables->behind[next] == NO_WAY)
        return NO_WAY;
    const uint64_t round = pattern_round_ns(stage), way = round - stage->forward_ns - stage->backward_ns;
    const uint64_t own = pattern_stage_bound(&search->problem->pattern, parent->depth, stage, parent->before,
                                             way + tables->behind[next]);
    return larger(own, larger(tables->tail[next], parent->before + round + tables->family[next]));
}

// From the times of the whole prefix, whose last stage is `stage`; search->stages
// holds the others.
static uint64_t prefix_bound(struct search *search, const struct node *parent, const struct pattern_stage *stage,
                             uint32_t end)
{
    const struct tables *tables = &search->tables;
    const uint32_t count = parent->depth + 1;
    const size_t next = table_cell(tables, count, end);
    const uint64_t way = pattern_round_ns(stage) - stage->forward_ns - stage->backward_ns;
    const struct pattern_rest rest = { way + tables->behind[next], way, tables->slowest[next] };
    search->stages[parent->depth] = *stage;
    search->problem->work += 1 + (uint64_t)count * search->problem->micro_batches / 16;
    uint64_t bound = pattern_time(&search->problem->pattern, search->room, search->stages, count,
                                  count < search->problem->ranks ? &rest : NULL, PATTERN_NO_RANK);
    if (search->problem->pattern.is_drained) {
        // All forwards pass the slowest, then all backwards do; it need not be one stage.
        uint64_t forward = 0, backward = 0;
        for (uint32_t s = 0; s < count; s++) {
            forward = larger(forward, larger(search->stages[s].forward_ns, search->stages[s].forward_busy_ns));
            backward = larger(backward, larger(search->stages[s].backward_ns, search->stages[s].backward_busy_ns));
        }
        const uint64_t all = parent->before + pattern_round_ns(stage) + tables->behind[next];
        bound = larger(bound, all + (search->problem->micro_batches - 1) * (forward + backward));
    }
    return bound;
}

// Reads the node's prefix into search->stages and list->decision.
static void read_prefix(struct open_list *list, const struct node *node)
{
    struct search *search = list->search;
    for (uint32_t s = node->depth; s-- > 0;) {
        const uint32_t first = list->nodes[node->parent].end;
        list->decision.cuts[s] = first;
        list->decision.cuts[s + 1] = node->end;
        list->decision.forward_ns[s] = node->forward_ns;
        list->decision.recompute_ns[s] = node->recompute_ns;
        search->stages[s] = problem_stage(search->problem, s, first, node->end, node->recompute_ns);
        node = &list->nodes[node->parent];
    }
}

// --- opening ----------------------------------------------------------------------

static bool add_child(struct open_list *list, uint32_t parent_index, uint32_t end, uint64_t forward_ns,
                      uint64_t recompute_ns)
{
    struct search *search = list->search;
    const struct node parent = list->nodes[parent_index];
    const struct pattern_stage stage = problem_stage(search->problem, parent.depth, parent.end, end, recompute_ns);
    struct node child = { .parent = parent_index, .end = end, .depth = parent.depth + 1, .forward_ns = forward_ns,
                          .recompute_ns = recompute_ns, .before = parent.before + pattern_round_ns(&stage) };
    search->problem->work++;
    const uint64_t expected = table_bound(search, &parent, &stage, end);
    if (expected == NO_WAY)
        return true;
    child.bound = parent.bound;
    if (!search->problem->flushes) {
        child.bound = parent.depth == 0 ? async_first_bound(search, &stage) : parent.bound;
        child.guide = larger(parent.guide, expected);
    } else {
        child.bound = larger(child.bound, expected);
        if (child.bound < search->best_ns)
            child.bound = larger(child.bound, prefix_bound(search, &parent, &stage, end));
    }
    return child.bound >= search->best_ns || add_node(list, child);
}

// All children whose stage ends at `end`: one per way to recompute that matters.
static bool add_children(struct open_list *list, uint32_t parent_index, uint32_t end)
{
    struct search *search = list->search;
    struct problem *problem = search->problem;
    const struct node parent = list->nodes[parent_index];
    const struct pattern_stage stage = problem_stage(problem, parent.depth, parent.end, end, 0);
    const uint64_t without = table_bound(search, &parent, &stage, end);
    problem->work++;
    if (without == NO_WAY || (problem->flushes && without >= search->best_ns))
        return true;
    const bool every = problem->flushes && !problem->is_monotone;
    const struct choices *choices = every ? problem_every(problem, parent.depth, parent.end, end, list->error)
                                          : problem_least(problem, parent.depth, parent.end, end, list->error);
    if (!choices)
        return false;
    if (!choices->complete)
        search_lose(search, problem->flushes ? larger(parent.bound, without) : parent.bound);
    for (size_t i = 0; i < choices->count; i++)
        if (!add_child(list, parent_index, end, choices->forward_ns[i], choices->recompute_ns[i]))
            return false;
    return true;
}

// A longer stage only takes longer.
static bool is_too_long(const struct search *search, const struct node *parent, uint32_t end)
{
    const struct pattern_stage stage = problem_stage(search->problem, parent->depth, parent->end, end, 0);
    const uint64_t work = (stage.forward_ns + stage.backward_ns) * search->problem->micro_batches;
    return search->problem->flushes && parent->before + work >= search->best_ns;
}

static bool open_node(struct open_list *list, uint32_t index)
{
    const struct problem *problem = list->search->problem;
    const struct node node = list->nodes[index];
    read_prefix(list, &node);
    if (node.depth == problem->ranks) {
        if (!problem->flushes)
            return async_leaf(list->search, &list->decision, list->error);
        search_score(list->search, &list->decision);
        return true;
    }
    for (uint32_t end = node.end + 1; end <= problem->layers; end++) {
        if (is_too_long(list->search, &node, end))
            break;
        const bool may_end = problem->can_cut[end] && (end == problem->layers) == (node.depth + 1 == problem->ranks);
        if (may_end && !add_children(list, index, end))
            return false;
    }
    return true;
}

static bool run(struct open_list *list, uint64_t *least_open)
{
    *least_open = NO_WAY;
    const struct node root = { .parent = NO_PARENT };
    if (!add_node(list, root))
        return false;
    while (list->heap_count > 0) {
        const uint32_t index = pop(list);
        const uint64_t bound = list->nodes[index].bound;
        if (bound >= list->search->best_ns)
            return true;  // and so are all that are left
        if (problem_must_stop(list->search->problem)) {
            *least_open = bound;
            return true;
        }
        if (!open_node(list, index))
            return false;
    }
    return true;
}

bool search_nodes(struct search *search, uint64_t *least_open_ns, struct error *error)
{
    struct open_list list = { .search = search, .error = error };
    bool good = decision_create(&list.decision, search->problem->ranks, error);
    if (good) {
        list.decision.cuts[0] = 0;
        good = run(&list, least_open_ns);
    }
    decision_clear(&list.decision);
    free(list.nodes);
    free(list.heap);
    return good;
}
