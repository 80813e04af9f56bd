#include "partitioner/cuts/cut_tables.h"

#include <stdlib.h>

#include "common/number.h"

struct edge_bound {
    struct pattern_stage stage;
    uint64_t round;  // F + B and the ways to the next stage and back
    uint64_t bound;  // of the stage alone
};

bool cut_is_too_long(const struct cut_problem *problem, uint32_t stage, uint32_t from, uint32_t to, uint64_t limit_ns)
{
    const struct pattern *pattern = &problem->schedule.pattern;
    if (pattern->is_known) {
        const uint64_t ns =
            cut_sum(problem, stage, SUM_FORWARD, from, to) + cut_sum(problem, stage, SUM_BACKWARD, from, to);
        return stage_scaled_ns(ns * pattern->counted, problem->devices.speed[stage]) >= limit_ns;
    }
    return problem->schedule.flushes && cut_stage_busy_ns(problem, stage, from, to, 0) >= limit_ns;
}

// False if the layers do not fit.
static bool bound_edge(const struct cut_tables *tables, const struct cut_problem *problem, uint32_t s, uint32_t from,
                       uint32_t to, struct edge_bound *edge)
{
    const uint64_t recompute_ns = stage_price_known_floor(problem, s, from, to);
    if (recompute_ns == NO_TIME)
        return false;
    const uint64_t before = cut_cell(tables, s, from)->before;
    if (!problem->schedule.pattern.is_known) {
        // Nothing is known of the steady state of an order that is no pattern.
        *edge = (struct edge_bound){ 0 };
        if (problem->schedule.flushes)
            edge->bound = cut_stage_busy_ns(problem, s, from, to, recompute_ns);
        return true;
    }
    edge->stage = cut_pattern_stage(problem, s, from, to, recompute_ns);
    edge->round = pattern_round_ns(&edge->stage);
    const uint64_t way = edge->round - edge->stage.forward_ns - edge->stage.backward_ns;
    const uint64_t behind = cut_cell(tables, s + 1, to)->behind;
    edge->bound = pattern_stage_bound(&problem->schedule.pattern, s, &edge->stage, before,
                                      way + (behind == NO_TIME ? 0 : behind));
    return true;
}

struct filling {
    struct cut_tables *tables;
    struct cut_problem *problem;
    struct place_walk walk;
    uint64_t limit_ns;
    const struct search_part *part;
};

static void use_before(struct cut_tables *tables, uint32_t s, uint32_t from, uint32_t to, const struct edge_bound *edge)
{
    uint64_t *before = &cut_cell(tables, s + 1, to)->before;
    *before = min_u64(*before, cut_cell(tables, s, from)->before + edge->round);
}

static void use_behind(struct cut_tables *tables, uint32_t s, uint32_t from, uint32_t to, const struct edge_bound *edge)
{
    struct cut_cell *cell = cut_cell(tables, s, from);
    const struct cut_cell *next = cut_cell(tables, s + 1, to);
    const uint64_t work = edge->stage.forward_ns + edge->stage.backward_ns;
    cell->behind = min_u64(cell->behind, next->behind + edge->round);
    cell->slowest = min_u64(cell->slowest, max_u64(next->slowest, work));
    cell->tail = min_u64(cell->tail, max_u64(next->tail, edge->bound));
}

// Goes through all stages s that begin at a place. If `backwards`, it fills in what is behind the place; else what is
// in front of the places where these stages end.
static void fill_from(struct filling *filling, uint32_t s, uint32_t from, bool backwards)
{
    struct cut_problem *problem = filling->problem;
    struct cut_tables *tables = filling->tables;
    uint32_t to, seen = 0;
    place_walk_from(&filling->walk, from);
    while (place_walk_next(&filling->walk, &to)) {
        problem->context->work += (++seen & 7) == 0;
        if (cut_is_too_long(problem, s, from, to, filling->limit_ns)) {
            place_walk_prune(&filling->walk);
            continue;
        }
        struct edge_bound edge;
        if (!cut_may_end(problem, s, to) || (backwards && cut_cell(tables, s + 1, to)->tail == NO_TIME)
            || !bound_edge(tables, problem, s, from, to, &edge) || edge.bound >= filling->limit_ns)
            continue;
        if (backwards)
            use_behind(tables, s, from, to, &edge);
        else
            use_before(tables, s, from, to, &edge);
    }
}

// False if work or time is over before it is done.
static bool fill(struct filling *filling)
{
    struct cut_problem *problem = filling->problem;
    struct cut_tables *tables = filling->tables;
    for (unsigned backwards = 0; backwards < 2; backwards++)
        for (uint32_t i = 0; i < problem->stages; i++)
            for (uint32_t from = 0; from < tables->places; from++) {
                const uint32_t s = backwards ? problem->stages - 1 - i : i;
                if (part_is_over(problem->context, filling->part))
                    return false;
                if (cut_cell(tables, s, from)->before != NO_TIME)
                    fill_from(filling, s, from, backwards);
            }
    return true;
}

bool cut_tables_create(struct cut_tables *tables, struct cut_problem *problem, uint64_t limit_ns,
                       const struct search_part *part, bool *whole, struct error *error)
{
    *tables = (struct cut_tables){ .places = problem->places->count };
    const size_t cells = ((size_t)problem->stages + 1) * tables->places;
    tables->cells = malloc(cells * sizeof tables->cells[0]);
    if (!tables->cells)
        return error_no_memory(error, "a search");
    for (size_t cell = 0; cell < cells; cell++)
        tables->cells[cell] = (struct cut_cell){ NO_TIME, NO_TIME, NO_TIME, NO_TIME };
    struct filling filling = { .tables = tables, .problem = problem, .limit_ns = limit_ns, .part = part };
    tables->cells[0].before = 0;
    *cut_cell(tables, problem->stages, problem->places->full) = (struct cut_cell){ .before = NO_TIME };
    const bool good = place_walk_create(&filling.walk, problem->places, error);
    *whole = good && fill(&filling);
    place_walk_clear(&filling.walk);
    return good;
}

uint64_t cut_tables_bound(const struct cut_tables *tables, const struct cut_problem *problem, uint32_t stage,
                          uint32_t to, const struct pattern_stage *as, uint64_t before_ns)
{
    const struct cut_cell *next = cut_cell(tables, stage + 1, to);
    if (next->tail == NO_TIME)
        return NO_TIME;
    if (!problem->schedule.pattern.is_known)
        return next->tail;
    const uint64_t way = pattern_round_ns(as) - as->forward_ns - as->backward_ns;
    const uint64_t bound = pattern_stage_bound(&problem->schedule.pattern, stage, as, before_ns,
                                               way + next->behind);
    return max_u64(bound, next->tail);
}
