#include "partitioner/tables/table_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/tables/table_bound.h"

// Budgets, in units of work of table_search.h: about 200 million a second.
#define SEARCH_WORK 150000000u
#define SEARCH_WORK_EACH 700000u  // at most, for each table and member
#define PROGRAM_WORK 1000000u
#define SPLIT_WORK 20000000u
enum { MOST_PROGRAMS = 400, LEAST_PROGRAMS = 4, FEW_TABLES = 64, SMALL_GAP_PPM = 1000 };

// The plan has their placements one after the other, until its own is known.
static bool find_rules(struct table_plan *plan, struct table_search *search, struct error *error)
{
    for (enum table_rule rule = 0; rule < TABLE_RULES; rule++) {
        struct table_rule_cost *cost = &plan->rules[rule];
        struct error why = { 0 };
        cost->fits = table_rule_place(&plan->problem, rule, &plan->placement, &cost->cost, &why);
        snprintf(cost->why, sizeof cost->why, "%.199s", why.text);
        if (why.kind == ERROR_MACHINE)
            error_hand_on(error, &why);
        if (cost->fits)
            table_search_offer(search, &plan->placement);
    }
    return error->kind == ERROR_NONE;
}

// A program of twice as many tables takes about four times as long.
static uint32_t most_programs(const struct table_request *request)
{
    const uint64_t tables = request->set->table_count;
    const uint64_t most = MOST_PROGRAMS * FEW_TABLES * FEW_TABLES / (tables * tables);
    return request->without_solver ? 0 : (uint32_t)max_u64(LEAST_PROGRAMS, min_u64(MOST_PROGRAMS, most));
}

static bool find_bound(struct table_plan *plan, const struct table_request *request, struct table_search *search,
                       struct error *error)
{
    const struct table_bound_limits limits = { .programs = most_programs(request), .gap_ppm = SMALL_GAP_PPM,
                                               .seconds = request->seconds, .work = PROGRAM_WORK,
                                               .interrupted = request->interrupted };
    struct table_bound bound;
    if (!table_bound_find(&plan->problem, search, limits, &bound, error))
        return false;
    plan->programs = bound.programs;
    plan->certificate = (struct certificate){ .value_ns = placement_ns(search->best_ps), .by = BY_DUAL };
    snprintf(plan->certificate.objective, sizeof plan->certificate.objective, "tables_ns");
    certificate_bound(&plan->certificate, placement_ns(bound.bound_ps), bound.stop, bound.stopped);
    return true;
}

// --- why ------------------------------------------------------------------------------------------

static void find_binding(struct table_plan *plan)
{
    uint64_t longest = 0;
    for (uint32_t t = 0; t < plan->problem.tables; t++) {
        const struct table_way *way = placement_way(&plan->problem, t, plan->placement.way[t]);
        for (uint32_t j = 0; j < way->parts; j++) {
            if (plan->placement.member[(size_t)t * plan->problem.members + j] != plan->cost.slowest
                || way->read_ps <= longest)
                continue;
            longest = way->read_ps;
            plan->binding = t;
        }
    }
}

static bool try_split(struct table_plan *plan, struct table_search *search, enum table_kind kind, uint32_t parts)
{
    const struct placement_problem *problem = &plan->problem;
    const uint32_t w = placement_find_way(problem, plan->binding, kind, parts);
    if (w == problem->way_count[plan->binding] || w == plan->placement.way[plan->binding])
        return false;
    search->best_ps = PLACEMENT_NONE;
    search->pinned = plan->binding;
    search->budget = SPLIT_WORK;
    memcpy(search->ways, plan->placement.way, problem->tables * sizeof search->ways[0]);
    search->ways[plan->binding] = w;
    table_search_descend(search, search->ways);
    plan->splits[plan->split_count++] = (struct table_split){ kind, parts, search->best_ps };
    return true;
}

static void find_splits(struct table_plan *plan, struct table_search *search)
{
    static const enum table_kind kinds[] = { TABLE_ROWS, TABLE_COLUMNS };
    for (uint32_t parts = 2; parts <= 4; parts *= 2)
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            try_split(plan, search, kinds[i], parts);
}

// --- the whole ------------------------------------------------------------------------------------

static bool fill(struct table_plan *plan, const struct table_request *request, struct table_search *search,
                 struct error *error)
{
    table_search_begin(search);
    if (!find_rules(plan, search, error))
        return false;
    if (search->best_ps == PLACEMENT_NONE)
        return error_set_kind(error, ERROR_ANSWER, "no placement was found that fits into the members' memory");
    table_search_go_on(search, table_bound_by_sums(&plan->problem));
    if (!find_bound(plan, request, search, error))
        return false;
    table_placement_copy(&plan->problem, &plan->placement, &search->best);
    placement_sum(&plan->problem, &plan->placement, &plan->loads);
    plan->cost = placement_cost(&plan->problem, &plan->loads);
    find_binding(plan);
    find_splits(plan, search);
    return true;
}

struct table_plan *table_plan_make(const struct table_request *request, struct error *error)
{
    struct table_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return error_null(error_no_memory(error, "a placement of tables"));
    struct table_search search = { 0 };
    const uint64_t pairs = request->set->table_count * request->cluster->device_count;
    const uint64_t work = min_u64(SEARCH_WORK, pairs * SEARCH_WORK_EACH);
    bool good = placement_open(&plan->problem, request->set, request->cluster, request->optimizer, error);
    if (good) {
        plan->placement = table_placement_create(&plan->problem, &plan->arrays);
        plan->loads = placement_loads_create(&plan->problem, &plan->arrays);
        good = !plan->arrays.failed || error_no_memory(error, "a placement of tables");
    }
    good = good && table_search_open(&search, &plan->problem, work, error)
        && fill(plan, request, &search, error);
    table_search_close(&search);
    if (good)
        return plan;
    table_plan_free(plan);
    return NULL;
}

void table_plan_free(struct table_plan *plan)
{
    if (!plan)
        return;
    arrays_clear(&plan->arrays);
    placement_close(&plan->problem);
    free(plan);
}
