// Nodes: stages in a row at one end of a plan, opened in order of their bounds. A node
// adds a stage to its parent's; all stages of a node are read off by walking up.
//
//     from the last stage    ...      p - 2         p - 1
//                                  [31, 36)  ->  [36, 41)      bound 815 us
//                                  [30, 36)  ->                bound 823 us, waits
//
// A child's bound is the largest of: its parent's; what the tables say of its own
// stage and of those on the other side; and the time of its stages alone, with what
// is on the other side as a way that takes at least so long.
//
// Which end is better depends: waiting comes from what is behind a stage, but models
// often have their largest tensors in front. The search tries both.
#include <stdlib.h>
#include <string.h>

#include "partitioner/search/node_heap.h"
#include "partitioner/search/search_state.h"

#define NO_PARENT UINT32_MAX

struct node {
    uint64_t bound;
    uint64_t order;       // in which order nodes are opened: by their bounds, or as a guide suggests
    struct known known;   // of its stages
    uint64_t forward_ns, recompute_ns;
    uint32_t parent;
    uint32_t edge;        // layers up to here, or from here on, are placed
    uint32_t left;        // stages still to be placed
};

struct open_list {
    struct search *search;
    bool from_last;  // which end
    struct node *nodes;
    size_t count, capacity;
    struct node_heap heap;
    struct decision decision;  // of the node that is open
    struct error *error;
};

// --- the heap -------------------------------------------------------------------

static bool comes_first(const void *of, uint32_t a, uint32_t b)
{
    const struct open_list *list = of;
    const struct node *x = &list->nodes[a], *y = &list->nodes[b];
    if (x->order != y->order)
        return x->order < y->order;
    if (x->left != y->left)
        return x->left < y->left;
    return a < b;
}

static bool add_node(struct open_list *list, struct node node)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 1024;
        struct node *nodes = realloc(list->nodes, capacity * sizeof *nodes);
        list->nodes = nodes ? nodes : list->nodes;
        uint32_t *heap = nodes ? realloc(list->heap.nodes, capacity * sizeof *heap) : NULL;
        list->heap.nodes = heap ? heap : list->heap.nodes;
        if (!nodes || !heap)
            return error_no_memory(list->error, "a search");
        list->capacity = capacity;
    }
    list->nodes[list->count] = node;
    node_heap_push(&list->heap, (uint32_t)list->count++, comes_first, list);
    return true;
}

// --- bounds of a child ------------------------------------------------------------

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// The stage a child of the node adds, and its layers if it is cut off at `cut`.
struct addition {
    uint32_t stage, first, end;
};

static struct addition addition_of(const struct open_list *list, const struct node *parent, uint32_t cut)
{
    const uint32_t ranks = list->search->problem->ranks;
    return list->from_last ? (struct addition){ parent->left - 1, cut, parent->edge }
                           : (struct addition){ ranks - parent->left, parent->edge, cut };
}

static struct pattern_stage price(const struct open_list *list, struct addition addition, uint64_t recompute_ns)
{
    return problem_stage(list->search->problem, addition.stage, addition.first, addition.end, recompute_ns);
}

static uint64_t table_bound(const struct open_list *list, const struct node *parent, struct addition addition,
                            const struct pattern_stage *stage)
{
    const struct search *search = list->search;
    return list->from_last ? tables_bound_before(&search->tables, search->problem, addition.stage, addition.first,
                                                 stage, parent->known)
                           : tables_bound_behind(&search->tables, search->problem, addition.stage, addition.end,
                                                 stage, parent->known);
}

// search->stages holds the parent's.
static uint64_t timed_bound(struct open_list *list, struct addition addition, const struct pattern_stage *stage)
{
    struct search *search = list->search;
    const struct problem *problem = search->problem;
    const struct tables *tables = &search->tables;
    const uint32_t s = addition.stage, count = list->from_last ? problem->ranks - s : s + 1;
    search->stages[s] = *stage;
    search->problem->work += (uint64_t)count * problem->micro_batches * (1 + problem->pattern.goes_on) / 64;
    if (list->from_last)
        return tables->before[table_cell(tables, s, addition.first)]
             + pattern_time(&problem->pattern, search->room, search->stages, s, problem->ranks, NULL, PATTERN_NO_RANK);
    const size_t next = table_cell(tables, s + 1, addition.end);
    const uint64_t way = pattern_round_ns(stage) - stage->forward_ns - stage->backward_ns;
    const struct pattern_rest rest = { way + tables->behind[next], way, tables->slowest[next] };
    return pattern_time(&problem->pattern, search->room, search->stages, 0, s + 1,
                        s + 1 < problem->ranks ? &rest : NULL, PATTERN_NO_RANK);
}

// Reads the node's stages into search->stages and list->decision.
static void read_stages(struct open_list *list, const struct node *node)
{
    struct search *search = list->search;
    for (; node->parent != NO_PARENT; node = &list->nodes[node->parent]) {
        const struct addition addition = addition_of(list, &list->nodes[node->parent], node->edge);
        list->decision.cuts[addition.stage] = addition.first;
        list->decision.cuts[addition.stage + 1] = addition.end;
        list->decision.forward_ns[addition.stage] = node->forward_ns;
        list->decision.recompute_ns[addition.stage] = node->recompute_ns;
        search->stages[addition.stage] = price(list, addition, node->recompute_ns);
    }
}

// --- opening ----------------------------------------------------------------------

static bool add_child(struct open_list *list, uint32_t parent_index, uint32_t cut, uint64_t forward_ns,
                      uint64_t recompute_ns)
{
    struct search *search = list->search;
    const struct node parent = list->nodes[parent_index];
    const struct addition addition = addition_of(list, &parent, cut);
    const struct pattern_stage stage = price(list, addition, recompute_ns);
    const uint64_t expected = table_bound(list, &parent, addition, &stage);
    search->problem->work++;
    if (expected == NO_WAY)
        return true;
    struct node child = { .bound = parent.bound, .parent = parent_index, .edge = cut, .left = parent.left - 1,
                          .known = known_with(parent.known, &stage), .forward_ns = forward_ns,
                          .recompute_ns = recompute_ns };
    if (!search->problem->flushes && addition.stage == 0)
        child.bound = larger(child.bound, async_first_bound(search, &stage));
    if (search->problem->bounds_hold) {
        child.bound = larger(child.bound, expected);
        if (child.bound < search->best_ns)
            child.bound = larger(child.bound, timed_bound(list, addition, &stage));
        child.order = child.bound;
    } else {
        child.order = larger(parent.order, expected);
    }
    return child.bound >= search->best_ns || add_node(list, child);
}

// All children whose stage is cut off there: one per way to recompute that matters.
static bool add_children(struct open_list *list, uint32_t parent_index, uint32_t cut)
{
    struct search *search = list->search;
    struct problem *problem = search->problem;
    const struct node parent = list->nodes[parent_index];
    const struct addition addition = addition_of(list, &parent, cut);
    const uint64_t least = problem_recompute_ns(problem, addition.stage, addition.first, addition.end);
    if (least == NO_WAY)
        return true;
    const struct pattern_stage stage = price(list, addition, least);
    const uint64_t expected = table_bound(list, &parent, addition, &stage);
    if (expected == NO_WAY || (problem->bounds_hold && expected >= search->best_ns))
        return true;
    const bool every = problem->flushes && !problem->is_monotone;
    const struct choices *choices =
        every ? problem_every(problem, addition.stage, addition.first, addition.end, list->error)
              : problem_least(problem, addition.stage, addition.first, addition.end, list->error);
    if (!choices)
        return false;
    if (!choices->complete)
        search_lose(search, problem->bounds_hold ? larger(parent.bound, expected) : parent.bound);
    for (size_t i = 0; i < choices->count; i++)
        if (!add_child(list, parent_index, cut, choices->forward_ns[i], choices->recompute_ns[i]))
            return false;
    return true;
}

// A longer stage only takes longer.
static bool is_too_long(const struct open_list *list, const struct node *parent, uint32_t cut)
{
    const struct pattern_stage stage = price(list, addition_of(list, parent, cut), 0);
    const uint64_t work = (stage.forward_ns + stage.backward_ns) * list->search->problem->pattern.counted;
    return list->search->problem->bounds_hold && work >= list->search->best_ns;
}

static bool open_node(struct open_list *list, uint32_t index)
{
    const struct problem *problem = list->search->problem;
    const struct node node = list->nodes[index];
    const uint32_t far = list->from_last ? 0 : problem->layers;
    read_stages(list, &node);
    if (node.left == 0) {
        if (!problem->flushes)
            return async_leaf(list->search, &list->decision, node.bound, list->error);
        search_score(list->search, &list->decision);
        return true;
    }
    for (uint32_t cut = node.edge; cut != far;) {
        cut = list->from_last ? cut - 1 : cut + 1;
        if (is_too_long(list, &node, cut))
            break;
        list->search->problem->work += (cut & 15) == 0;
        if (problem_must_stop(list->search->problem)) {
            search_lose(list->search, node.bound);  // its children are not all there
            break;
        }
        const uint32_t stage = list->from_last ? node.left - 1 : problem->ranks - node.left + 1;
        if (problem_may_begin(problem, stage, cut) && !add_children(list, index, cut))
            return false;
    }
    return true;
}

// The least bound of the nodes that were not opened.
static uint64_t least_left(const struct open_list *list)
{
    uint64_t least = NO_WAY;
    for (size_t i = 0; i < list->heap.count; i++)
        if (list->nodes[list->heap.nodes[i]].bound < least)
            least = list->nodes[list->heap.nodes[i]].bound;
    return least;
}

// The least that async_first_bound() can be.
static uint64_t least_first_bound(const struct search *search)
{
    const struct problem *problem = search->problem;
    uint64_t least = NO_WAY;
    for (uint32_t end = 1; end <= problem->layers; end++) {
        const struct pattern_stage stage = problem_stage(problem, 0, 0, end, 0);
        if (problem_may_begin(problem, 1, end) && async_first_bound(search, &stage) < least)
            least = async_first_bound(search, &stage);
    }
    return least;
}

static struct node root_of(const struct open_list *list)
{
    const struct search *search = list->search;
    const struct problem *problem = search->problem;
    struct node root = { .parent = NO_PARENT, .edge = list->from_last ? problem->layers : 0, .left = problem->ranks };
    const uint64_t head = search->tables.head[table_cell(&search->tables, problem->ranks, problem->layers)];
    root.bound = problem->bounds_hold ? larger(head, search->floor_ns) : least_first_bound(search);
    root.order = root.bound;
    return root;
}

// Nodes come in the order of their bounds, where these hold.
static void see_bound(const struct open_list *list, uint32_t index)
{
    struct search *search = list->search;
    uint64_t *known = &search->problem->progress.bound_ns;
    const uint64_t bound = list->nodes[index].bound < search->lost_ns ? list->nodes[index].bound : search->lost_ns;
    if (search->problem->bounds_hold && bound > *known)
        *known = bound < search->best_ns ? bound : search->best_ns;
}

static bool run(struct open_list *list, uint64_t *least_open)
{
    struct search *search = list->search;
    *least_open = NO_WAY;
    if (!add_node(list, root_of(list)))
        return false;
    while (list->heap.count > 0) {
        if (problem_must_stop(search->problem)) {
            *least_open = least_left(list);
            return true;
        }
        const uint32_t index = node_heap_pop(&list->heap, comes_first, list);
        see_bound(list, index);
        if (list->nodes[index].bound < search->best_ns && !open_node(list, index))
            return false;
    }
    return true;
}

bool search_nodes(struct search *search, bool from_last, uint64_t *least_open_ns, struct error *error)
{
    struct open_list list = { .search = search, .from_last = from_last, .error = error };
    bool good = decision_create(&list.decision, search->problem->ranks, error);
    if (good) {
        good = run(&list, least_open_ns);
    }
    decision_clear(&list.decision);
    free(list.nodes);
    free(list.heap.nodes);
    return good;
}
