#include "schedules/search/order_beam.h"

#include <stdlib.h>
#include <string.h>

enum { MEMORY_BYTES = 16 << 20 };

struct order_branch {
    uint32_t parent;  // index in `now`
    struct order_option option;
};

bool order_beam_create(struct order_beam *beam, const struct order_problem *problem, uint32_t width,
                       struct error *error)
{
    *beam = (struct order_beam){ .width = width };
    if (!order_state_create(&beam->state, problem, error))
        return false;
    const size_t size = order_state_size(problem);
    beam->memory = order_memory_create(problem, MEMORY_BYTES, error);
    beam->now = malloc(width * size);
    beam->next = malloc(width * size);
    beam->branches = malloc((size_t)width * 3 * problem->chunks * sizeof *beam->branches);
    if (beam->memory && beam->now && beam->next && beam->branches)
        return true;
    order_beam_clear(beam);
    return error_no_memory(error, "the search for an order");
}

void order_beam_clear(struct order_beam *beam)
{
    order_state_clear(&beam->state);
    order_memory_free(beam->memory);
    free(beam->now);
    free(beam->next);
    free(beam->branches);
    *beam = (struct order_beam){ 0 };
}

// A total order: if all else is equal, in the order in which they were made.
static int compare_branches(const void *one, const void *other)
{
    const struct order_branch *a = one, *b = other;
    if (a->option.bound_ns != b->option.bound_ns)
        return a->option.bound_ns < b->option.bound_ns ? -1 : 1;
    if (a->option.sum_ns != b->option.sum_ns)
        return a->option.sum_ns < b->option.sum_ns ? -1 : 1;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    const uint32_t left = 3 * a->option.chunk + a->option.kind, right = 3 * b->option.chunk + b->option.kind;
    return left < right ? -1 : left > right;
}

static size_t fill_branches(struct order_beam *beam, uint64_t best_ns, uint64_t *nodes)
{
    const size_t size = order_state_size(beam->state.clock.problem);
    size_t count = 0;
    for (uint32_t parent = 0; parent < beam->count; parent++) {
        struct order_option options[MOST_OPTIONS];
        order_state_load(&beam->state, beam->now + parent * size);
        const uint32_t found = order_state_options(&beam->state, options);
        order_state_weigh(&beam->state, options, found);
        *nodes += found;
        for (uint32_t i = 0; i < found && options[i].bound_ns < best_ns; i++)
            beam->branches[count++] = (struct order_branch){ parent, options[i] };
    }
    qsort(beam->branches, count, sizeof *beam->branches, compare_branches);
    return count;
}

// The best branches become the states that are kept; of equal states only the first is kept.
static void grow(struct order_beam *beam, size_t branches)
{
    const size_t size = order_state_size(beam->state.clock.problem);
    uint32_t kept = 0;
    for (size_t i = 0; i < branches && kept < beam->width; i++) {
        const struct order_branch *branch = &beam->branches[i];
        order_state_load(&beam->state, beam->now + branch->parent * size);
        order_state_make(&beam->state, branch->option.rank, branch->option.chunk, branch->option.kind);
        if (!order_memory_met(beam->memory, &beam->state))
            order_state_save(&beam->state, beam->next + kept++ * size);
    }
    char *was = beam->now;
    beam->now = beam->next;
    beam->next = was;
    beam->count = kept;
}

uint64_t order_beam_search(struct order_beam *beam, uint64_t best_ns, uint64_t *nodes, order_move *order)
{
    const struct order_problem *problem = beam->state.clock.problem;
    const uint64_t all = (uint64_t)problem->ranks * problem->moves;
    order_state_reset(&beam->state);
    order_state_save(&beam->state, beam->now);
    order_memory_forget(beam->memory);
    beam->count = 1;
    *nodes = 0;
    bool goes_on = true;
    for (uint64_t made = 0, before = 0; goes_on && made < all && beam->count > 0; made++, before = *nodes) {
        grow(beam, fill_branches(beam, best_ns, nodes));
        goes_on = problem_goes_on(problem, (*nodes - before) * problem_node_work(problem));
    }
    if (beam->count == 0 || !goes_on)
        return NEVER_NS;
    order_state_load(&beam->state, beam->now);
    memcpy(order, beam->state.order, all * sizeof *order);
    return order_clock_result(&beam->state.clock);
}
