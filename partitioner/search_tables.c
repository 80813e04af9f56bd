#include "partitioner/search_tables.h"

#include <stdlib.h>

bool tables_create(struct tables *tables, const struct problem *problem, struct error *error)
{
    const size_t cells = ((size_t)problem->ranks + 1) * ((size_t)problem->layers + 1);
    *tables = (struct tables){ .layers = problem->layers, .ranks = problem->ranks };
    uint64_t **all[] = { &tables->before, &tables->behind, &tables->family, &tables->slowest, &tables->tail };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i] = malloc(cells * sizeof **all[i]);
        if (!*all[i]) {
            tables_clear(tables);
            return error_no_memory(error, "a search");
        }
    }
    return true;
}

void tables_clear(struct tables *tables)
{
    free(tables->before);
    free(tables->behind);
    free(tables->family);
    free(tables->slowest);
    free(tables->tail);
    *tables = (struct tables){ 0 };
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// NO_WAY stays NO_WAY.
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a == NO_WAY || b == NO_WAY ? NO_WAY : a + b;
}

static bool can_end(const struct problem *problem, uint32_t stage, uint32_t end)
{
    return problem->can_cut[end] && (end == problem->layers) == (stage + 1 == problem->ranks);
}

static void empty(struct tables *tables)
{
    const size_t cells = ((size_t)tables->ranks + 1) * ((size_t)tables->layers + 1);
    for (size_t i = 0; i < cells; i++)
        tables->behind[i] = tables->family[i] = tables->slowest[i] = tables->tail[i] = NO_WAY;
    const size_t last = table_cell(tables, tables->ranks, tables->layers);
    tables->behind[last] = tables->family[last] = tables->slowest[last] = tables->tail[last] = 0;
}

// What is known to be least of an edge's recomputation; NO_WAY if it does not fit.
static uint64_t known_recompute(const struct problem *problem, uint32_t stage, uint32_t first, uint32_t end)
{
    const struct choices *choices = problem_known(problem, stage, first, end);
    if (!choices)
        return 0;
    if (choices->count == 0)
        return choices->complete ? NO_WAY : 0;
    return choices->complete ? choices->recompute_ns[0] : 0;
}

struct edge_bound {
    struct pattern_stage stage;
    uint64_t bound;
};

static struct edge_bound bound_edge(const struct tables *tables, const struct problem *problem, uint32_t s,
                                    uint32_t first, uint32_t end, uint64_t recompute_ns)
{
    struct edge_bound result = { .stage = problem_stage(problem, s, first, end, recompute_ns), .bound = NO_WAY };
    const struct pattern_stage *stage = &result.stage;
    const uint64_t way = pattern_round_ns(stage) - stage->forward_ns - stage->backward_ns;
    const uint64_t before = tables->before[table_cell(tables, s, first)];
    const uint64_t behind = plus(way, tables->behind[table_cell(tables, s + 1, end)]);
    if (before != NO_WAY && behind != NO_WAY)
        result.bound = pattern_stage_bound(&problem->pattern, s, stage, before, behind);
    return result;
}

static void use_edge(struct tables *tables, const struct problem *problem, uint32_t s, uint32_t first, uint32_t end,
                     const struct edge_bound *edge)
{
    const size_t to = table_cell(tables, s, first), from = table_cell(tables, s + 1, end);
    const uint64_t round = pattern_round_ns(&edge->stage), work = edge->stage.forward_ns + edge->stage.backward_ns;
    tables->behind[to] = smaller(tables->behind[to], plus(round, tables->behind[from]));
    tables->slowest[to] = smaller(tables->slowest[to], larger(work, tables->slowest[from]));
    tables->tail[to] = smaller(tables->tail[to], larger(edge->bound, tables->tail[from]));
    const uint64_t rest = plus(round, tables->family[from]);
    tables->family[to] = smaller(tables->family[to], larger(work * problem->micro_batches, rest));
}

// One edge, from the last stage up; false on an error.
static bool visit_edge(struct tables *tables, struct problem *problem, uint32_t s, uint32_t first, uint32_t end,
                       uint64_t limit, bool exact, struct error *error)
{
    uint64_t recompute = known_recompute(problem, s, first, end);
    if (recompute == NO_WAY)
        return true;
    struct edge_bound edge = bound_edge(tables, problem, s, first, end, recompute);
    if (edge.bound >= limit)
        return true;
    if (exact && !problem_known(problem, s, first, end) && !problem_must_stop(problem)) {
        if (!problem_least(problem, s, first, end, error))
            return false;
        recompute = known_recompute(problem, s, first, end);
        if (recompute == NO_WAY)
            return true;
        edge = bound_edge(tables, problem, s, first, end, recompute);
        if (edge.bound >= limit)
            return true;
    }
    use_edge(tables, problem, s, first, end, &edge);
    return true;
}

// A longer stage only has a larger bound: the rest of a row need not be looked at
// once its work alone passes the limit.
static bool is_too_long(const struct problem *problem, uint32_t s, uint32_t first, uint32_t end, uint64_t limit)
{
    const struct pattern_stage stage = problem_stage(problem, s, first, end, 0);
    return problem->flushes && (stage.forward_ns + stage.backward_ns) * problem->micro_batches >= limit;
}

static bool fill_behind(struct tables *tables, struct problem *problem, uint64_t limit, bool exact,
                        struct error *error)
{
    empty(tables);
    for (uint32_t s = problem->ranks; s-- > 0;) {
        for (uint32_t first = s; first < problem->layers; first++) {
            if (!problem->can_cut[first] || tables->before[table_cell(tables, s, first)] == NO_WAY)
                continue;
            problem->work += 1 + (problem->layers - first) / 16;
            for (uint32_t end = first + 1; end <= problem->layers; end++) {
                if (limit != NO_WAY && is_too_long(problem, s, first, end, limit))
                    break;
                if (can_end(problem, s, end) && tables->behind[table_cell(tables, s + 1, end)] != NO_WAY
                    && !visit_edge(tables, problem, s, first, end, limit, exact, error))
                    return false;
            }
        }
    }
    return true;
}

// From the first stage down, over edges below the limit.
static void fill_before(struct tables *tables, const struct problem *problem, uint64_t limit)
{
    const size_t cells = ((size_t)tables->ranks + 1) * ((size_t)tables->layers + 1);
    for (size_t i = 0; i < cells; i++)
        tables->before[i] = NO_WAY;
    tables->before[table_cell(tables, 0, 0)] = 0;
    for (uint32_t s = 0; s < problem->ranks; s++) {
        for (uint32_t first = s; first < problem->layers; first++) {
            const uint64_t so_far = tables->before[table_cell(tables, s, first)];
            for (uint32_t end = first + 1; so_far != NO_WAY && end <= problem->layers; end++) {
                const uint64_t recompute = can_end(problem, s, end) ? known_recompute(problem, s, first, end) : NO_WAY;
                if (recompute == NO_WAY)
                    continue;
                const struct edge_bound edge = bound_edge(tables, problem, s, first, end, recompute);
                if (limit != NO_WAY && edge.bound >= limit)
                    continue;
                uint64_t *cell = &tables->before[table_cell(tables, s + 1, end)];
                *cell = smaller(*cell, so_far + pattern_round_ns(&edge.stage));
            }
        }
    }
}

bool tables_fill(struct tables *tables, struct problem *problem, uint64_t limit_ns, bool exact, struct error *error)
{
    empty(tables);
    fill_before(tables, problem, NO_WAY);
    if (!fill_behind(tables, problem, NO_WAY, false, error))
        return false;
    if (limit_ns == NO_WAY && !exact)
        return true;
    if (!fill_behind(tables, problem, limit_ns, exact, error))
        return false;
    fill_before(tables, problem, limit_ns);
    return fill_behind(tables, problem, limit_ns, exact, error);
}
