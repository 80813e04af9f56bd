// All placements of a small problem, one after the other, and random parts of them (table_program.h).
#ifndef TESTS_PARTITIONER_TABLES_ALL_PLACEMENTS_H
#define TESTS_PARTITIONER_TABLES_ALL_PLACEMENTS_H

#include "partitioner/tables/table_program.h"
#include "tests/partitioner/tables/placement_twin.h"
#include "tests/test.h"

struct all_placements {
    const struct placement_problem *problem;
    struct twin_choice lists[TWIN_TABLES][TWIN_CHOICES];
    uint32_t counts[TWIN_TABLES], chosen[TWIN_TABLES];
    bool is_begun;
    struct table_placement placement;
    struct placement_loads loads;
    struct placement_cost cost;
    struct arrays arrays;
};

static inline void all_placements_open(struct all_placements *all, const struct twin *twin,
                                       const struct placement_problem *problem)
{
    *all = (struct all_placements){ .problem = problem };
    for (uint32_t t = 0; t < problem->tables; t++)
        all->counts[t] = twin_choices(twin, t, all->lists[t]);
    all->placement = table_placement_create(problem, &all->arrays);
    all->loads = placement_loads_create(problem, &all->arrays);
    assert_false(all->arrays.failed);
}

static inline void all_placements_close(struct all_placements *all)
{
    arrays_clear(&all->arrays);
}

static inline bool all_placements_set(struct all_placements *all)
{
    for (uint32_t t = 0; t < all->problem->tables; t++) {
        const struct twin_choice *choice = &all->lists[t][all->chosen[t]];
        all->placement.way[t] = placement_find_way(all->problem, t, choice->kind, choice->parts);
        if (all->placement.way[t] == all->problem->way_count[t])
            return false;
        for (uint32_t j = 0; j < choice->parts; j++)
            all->placement.member[(size_t)t * all->problem->members + j] = choice->members[j];
    }
    placement_sum(all->problem, &all->placement, &all->loads);
    all->cost = placement_cost(all->problem, &all->loads);
    return placement_has_room(all->problem, &all->loads);
}

// The next placement that fits, with its loads and its cost; false after the last.
static inline bool all_placements_next(struct all_placements *all)
{
    for (;;) {
        uint32_t t = 0;
        while (all->is_begun && t < all->problem->tables && ++all->chosen[t] == all->counts[t])
            all->chosen[t++] = 0;
        if (t == all->problem->tables)
            return false;
        all->is_begun = true;
        if (all_placements_set(all))
            return true;
    }
}

// --- parts ------------------------------------------------------------------------------------------

// A part around a random placement that fits, so that it is not empty; `allowed` has room for all tables.
static inline void random_part(uint64_t *seed, const struct all_placements *all, uint32_t *allowed,
                               struct placement_part *part)
{
    const struct placement_problem *problem = all->problem;
    *part = (struct placement_part){ .allowed = allowed };
    const uint64_t below = random_below(seed, all->cost.read_ps / 4 + 1);
    part->read_least = all->cost.read_ps - below;
    part->read_most = all->cost.read_ps + random_below(seed, all->cost.read_ps / 4 + 1);
    for (uint32_t l = 0; l < problem->level_count; l++) {
        uint64_t widest = 0;
        for (uint32_t unit = 0; unit < problem->levels[l].units; unit++) {
            const uint64_t width = all->loads.width_bytes[l * problem->members + unit];
            widest = width > widest ? width : widest;
        }
        part->width_least[l] = widest - random_below(seed, widest / 2 + 1);
        part->width_most[l] = widest + random_below(seed, 20);
    }
    for (uint32_t t = 0; t < problem->tables; t++) {
        allowed[t] = (uint32_t)1 << all->placement.way[t];
        if (random_below(seed, 2))
            allowed[t] |= (uint32_t)random_next(seed);
    }
}

static inline bool part_holds(const struct placement_part *part, const struct all_placements *all)
{
    const struct placement_problem *problem = all->problem;
    bool holds = all->cost.read_ps >= part->read_least && all->cost.read_ps <= part->read_most;
    for (uint32_t l = 0; l < problem->level_count; l++) {
        uint64_t widest = 0;
        for (uint32_t unit = 0; unit < problem->levels[l].units; unit++) {
            const uint64_t width = all->loads.width_bytes[l * problem->members + unit];
            widest = width > widest ? width : widest;
        }
        holds = holds && widest >= part->width_least[l] && widest <= part->width_most[l];
    }
    for (uint32_t t = 0; t < problem->tables; t++)
        holds = holds && (part->allowed[t] >> all->placement.way[t] & 1);
    return holds;
}

// Whether something is exchanged, as programs take for granted.
static inline bool is_exchanged(const struct all_placements *all)
{
    for (uint32_t t = 0; t < all->problem->tables; t++)
        if (placement_way(all->problem, t, all->placement.way[t])->kind != TABLE_COPIED)
            return true;
    return false;
}

// A random problem with at least one placement, a random part of it, and the least cost in the part that has an
// exchange. False if there is none.
struct random_part {
    struct twin twin;
    struct placement_problem problem;
    struct placement_part part;
    uint32_t allowed[TWIN_TABLES];
    uint64_t least_ps;
};

static inline bool random_part_open(uint64_t *seed, bool is_slow, struct random_part *random)
{
    struct all_placements all;
    struct error error = { 0 };
    twin_make(seed, &random->twin);
    if (is_slow)
        twin_slow_down(&random->twin);
    if (!placement_open(&random->problem, &random->twin.set, &random->twin.cluster, random->twin.optimizer, &error))
        return false;
    all_placements_open(&all, &random->twin, &random->problem);
    random->least_ps = UINT64_MAX;
    bool is_chosen = false;
    for (uint64_t left = random_below(seed, 50); all_placements_next(&all); left--) {
        random_part(seed, &all, random->allowed, &random->part);
        is_chosen = true;
        if (left == 0)
            break;
    }
    all_placements_close(&all);
    all_placements_open(&all, &random->twin, &random->problem);
    while (is_chosen && all_placements_next(&all)) {
        const uint64_t ps = placement_total_ps(&all.cost);
        if (part_holds(&random->part, &all) && is_exchanged(&all) && ps < random->least_ps)
            random->least_ps = ps;
    }
    all_placements_close(&all);
    if (!is_chosen)
        placement_close(&random->problem);
    return is_chosen;
}

#endif
