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

// False where the layers do not fit.
static bool bound_edge(const struct cut_tables *tables, const struct cut_problem *problem, uint32_t s, uint32_t from,
                       uint32_t to, struct edge_bound *edge)
{
    const uint64_t recompute_ns = stage_price_known_floor(problem, s, from, to);
    if (recompute_ns == NO_TIME)
        return false;
    const uint64_t before = tables->before[cut_cell(tables, s, from)];
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
    const uint64_t behind = tables->behind[cut_cell(tables, s + 1, to)];
    edge->bound = pattern_stage_bound(&problem->schedule.pattern, s, &edge->stage, before,
                                      way + (behind == NO_TIME ? 0 : behind));
    return true;
}

struct filling {
    struct cut_tables *tables;
    struct cut_problem *problem;
    struct place_walk walk;
    uint64_t limit_ns, until;
};

static void use_before(struct cut_tables *tables, uint32_t s, uint32_t from, uint32_t to, const struct edge_bound *edge)
{
    uint64_t *cell = &tables->before[cut_cell(tables, s + 1, to)];
    *cell = min_u64(*cell, tables->before[cut_cell(tables, s, from)] + edge->round);
}

static void use_behind(struct cut_tables *tables, uint32_t counted, uint32_t s, uint32_t from, uint32_t to,
                       const struct edge_bound *edge)
{
    const size_t cell = cut_cell(tables, s, from), next = cut_cell(tables, s + 1, to);
    const uint64_t work = edge->stage.forward_ns + edge->stage.backward_ns;
    tables->behind[cell] = min_u64(tables->behind[cell], tables->behind[next] + edge->round);
    tables->slowest[cell] = min_u64(tables->slowest[cell], max_u64(tables->slowest[next], work));
    tables->tail[cell] = min_u64(tables->tail[cell], max_u64(tables->tail[next], edge->bound));
    tables->family[cell] =
        min_u64(tables->family[cell], max_u64(work * counted, edge->round + tables->family[next]));
}

// All stages s from a place; forwards they fill what is before, backwards what is behind.
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
        if (!cut_may_end(problem, s, to) || (backwards && tables->tail[cut_cell(tables, s + 1, to)] == NO_TIME)
            || !bound_edge(tables, problem, s, from, to, &edge) || edge.bound >= filling->limit_ns)
            continue;
        if (backwards)
            use_behind(tables, problem->schedule.pattern.counted, s, from, to, &edge);
        else
            use_before(tables, s, from, to, &edge);
    }
}

// False where work or time is over before it is done.
static bool fill(struct filling *filling)
{
    struct cut_problem *problem = filling->problem;
    struct cut_tables *tables = filling->tables;
    for (unsigned backwards = 0; backwards < 2; backwards++)
        for (uint32_t i = 0; i < problem->stages; i++)
            for (uint32_t from = 0; from < tables->places; from++) {
                const uint32_t s = backwards ? problem->stages - 1 - i : i;
                if (context_is_over(problem->context, filling->until))
                    return false;
                if (tables->before[cut_cell(tables, s, from)] != NO_TIME)
                    fill_from(filling, s, from, backwards);
            }
    return true;
}

bool cut_tables_create(struct cut_tables *tables, struct cut_problem *problem, uint64_t limit_ns, uint64_t until,
                       bool *whole, struct error *error)
{
    *tables = (struct cut_tables){ .places = problem->places->count };
    const size_t cells = ((size_t)problem->stages + 1) * tables->places;
    uint64_t **const all[] = { &tables->before, &tables->behind, &tables->slowest, &tables->tail, &tables->family };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i] = malloc(cells * sizeof **all[i]);
        for (size_t cell = 0; *all[i] && cell < cells; cell++)
            (*all[i])[cell] = NO_TIME;
        if (!*all[i])
            return error_no_memory(error, "a search");
    }
    struct filling filling = { .tables = tables, .problem = problem, .limit_ns = limit_ns, .until = until };
    const size_t last = cut_cell(tables, problem->stages, problem->places->full);
    tables->before[0] = 0;
    tables->behind[last] = tables->slowest[last] = tables->tail[last] = tables->family[last] = 0;
    const bool good = place_walk_create(&filling.walk, problem->places, error);
    *whole = good && fill(&filling);
    place_walk_clear(&filling.walk);
    return good;
}

void cut_tables_clear(struct cut_tables *tables)
{
    free(tables->before);
    free(tables->behind);
    free(tables->slowest);
    free(tables->tail);
    free(tables->family);
}

uint64_t cut_tables_bound(const struct cut_tables *tables, const struct cut_problem *problem, uint32_t stage,
                          uint32_t to, const struct pattern_stage *as, uint64_t before_ns)
{
    const size_t next = cut_cell(tables, stage + 1, to);
    if (tables->tail[next] == NO_TIME)
        return NO_TIME;
    if (!problem->schedule.pattern.is_known)
        return tables->tail[next];
    const uint64_t round = pattern_round_ns(as), way = round - as->forward_ns - as->backward_ns;
    const uint64_t own = pattern_stage_bound(&problem->schedule.pattern, stage, as, before_ns,
                                             way + tables->behind[next]);
    return max_u64(max_u64(own, tables->tail[next]), before_ns + round + tables->family[next]);
}
