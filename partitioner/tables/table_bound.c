#include "partitioner/tables/table_bound.h"

#include <stdio.h>
#include <string.h>

#include "common/arrays.h"
#include "common/clock.h"
#include "common/number.h"
#include "partitioner/tables/table_packing.h"

// --- by sums ------------------------------------------------------------------------------------

static uint64_t speeds_of(const struct placement_problem *problem)
{
    uint64_t speeds = 0;
    for (uint32_t i = 0; i < problem->members; i++)
        speeds += problem->cluster->devices[i].speed_permille;
    return speeds;
}

static uint64_t least_exchange_ps(const struct placement_problem *problem, uint64_t width_bytes)
{
    uint64_t most = 0;
    for (uint32_t l = 0; l < problem->level_count; l++) {
        const uint64_t units = problem->levels[l].units;
        most = max_u64(most, placement_level_ps(problem, l, width_bytes / units + (width_bytes % units > 0), 0));
    }
    return most;
}

uint64_t table_bound_by_sums(const struct placement_problem *problem)
{
    unsigned __int128 work = 0;
    uint64_t largest = 0, widths = 0;
    for (uint32_t t = 0; t < problem->tables; t++) {
        uint64_t least = UINT64_MAX, piece = UINT64_MAX, width = UINT64_MAX;
        for (uint32_t w = 0; w < problem->way_count[t]; w++) {
            const struct table_way *way = placement_way(problem, t, w);
            least = min_u64(least, multiply_clamped(way->parts, way->read_ps));
            piece = min_u64(piece, way->read_ps);
            width = min_u64(width, way->parts * way->width_bytes);
        }
        work += least;
        largest = max_u64(largest, piece);
        widths += width;
    }
    const uint64_t speeds = speeds_of(problem);
    const uint64_t mean = (uint64_t)((work * 1000 + speeds - 1) / speeds);
    return add_clamped(max_u64(mean, placement_quickest_ps(problem, largest)), least_exchange_ps(problem, widths));
}

// --- parts --------------------------------------------------------------------------------------

// An interval is wide above a 20th of the best cost, and is not cut any more below a 2000th.
enum { WIDE = 20, NARROW = 2000, PACKING_STEPS = 20000 };

struct node {
    struct placement_part part;
    uint64_t bound_ps;
    bool is_solved;
    uint32_t table, way;  // once it is solved: by which it can be cut in two; no table: its ways are decided
};

struct bounding {
    const struct placement_problem *problem;
    struct table_search *search;
    struct table_bound_limits limits;
    struct table_bound *bound;
    struct arrays arrays;
    struct node *nodes;  // open ones; two more for each program
    size_t node_count;
    uint32_t *ways;      // of a relaxation's answer
    struct error failed;  // memory ran out
    uint64_t until_ns;   // of clock_now_ns(); 0: never
};

// What the exchange takes at least in a part.
static uint64_t exchange_ps(const struct placement_problem *problem, const struct placement_part *part)
{
    uint64_t most = 0;
    for (uint32_t l = 0; l < problem->level_count; l++)
        most = max_u64(most, placement_level_ps(problem, l, part->width_least[l], 0));
    return most;
}

static uint64_t least_ps(const struct placement_problem *problem, const struct placement_part *part)
{
    return add_clamped(part->read_least, exchange_ps(problem, part));
}

// The largest width of a level with which a placement of the part costs less than the limit.
static uint64_t largest_width(const struct placement_problem *problem, const struct placement_part *part,
                              uint32_t level, uint64_t limit_ps)
{
    uint64_t least = part->width_least[level], most = part->width_most[level];
    while (least < most) {
        const uint64_t middle = most - (most - least) / 2;
        if (add_clamped(part->read_least, placement_level_ps(problem, level, middle, 0)) < limit_ps)
            least = middle;
        else
            most = middle - 1;
    }
    return least;
}

// All widths are multiples of this.
static uint64_t common_width(const struct placement_problem *problem, const struct placement_part *part)
{
    uint64_t common = 0;
    for (uint32_t t = 0; t < problem->tables; t++)
        for (uint32_t w = 0; w < problem->way_count[t]; w++)
            if (placement_part_admits(problem, part, t, w))
                common = greatest_common(common, placement_way(problem, t, w)->width_bytes);
    return common > 0 ? common : 1;
}

static bool has_ways(const struct placement_problem *problem, const struct placement_part *part)
{
    for (uint32_t t = 0; t < problem->tables; t++) {
        bool has_way = false;
        for (uint32_t w = 0; w < problem->way_count[t]; w++)
            has_way = has_way || placement_part_admits(problem, part, t, w);
        if (!has_way)
            return false;
    }
    return true;
}

// Makes a part as small as the best placement allows. False if it has nothing better.
static bool tighten(const struct placement_problem *problem, struct placement_part *part, uint64_t limit_ps)
{
    const uint64_t least = least_ps(problem, part);
    if (least >= limit_ps)
        return false;
    part->read_most = min_u64(part->read_most, part->read_least + (limit_ps - 1 - least));
    const uint64_t common = common_width(problem, part);
    for (uint32_t l = 0; l < problem->level_count; l++) {
        part->width_most[l] = largest_width(problem, part, l, limit_ps) / common * common;
        part->width_least[l] = (part->width_least[l] + common - 1) / common * common;
        if (part->width_least[l] > part->width_most[l])
            return false;
    }
    return has_ways(problem, part);
}

// Adds a part, unless it is seen to have nothing better than the best placement.
static void add_node(struct bounding *bounding, struct placement_part part, uint64_t bound_ps)
{
    const uint64_t best = bounding->search->best_ps;
    if (!tighten(bounding->problem, &part, best)
        || table_packing_try(bounding->problem, &part, best, PACKING_STEPS, &bounding->failed) == PACKING_NONE)
        return;
    const uint64_t least = max_u64(bound_ps, least_ps(bounding->problem, &part));
    bounding->nodes[bounding->node_count++] = (struct node){ .part = part, .bound_ps = least,
                                                             .table = UINT32_MAX };
}

// --- one relaxation -----------------------------------------------------------------------------

static double value_of(const struct table_program *program, const struct linear_solution *solution, uint32_t t,
                       uint32_t w)
{
    const uint32_t column = program->column[(size_t)t * TABLE_MOST_WAYS + w];
    return column == UINT32_MAX ? 0 : solution->values[column];
}

// Rounds the answer to a way for each table, and finds the table that is least decided, of those with a choice. Large
// tables come first, also where the answer is whole: what is decided makes the rows of a part stronger.
static void read_ways(const struct table_program *program, const struct linear_solution *solution, struct node *node,
                      uint32_t *ways)
{
    double largest = 0;
    for (uint32_t t = 0; t < program->problem->tables; t++) {
        double most = -1;
        uint32_t choices = 0;
        for (uint32_t w = 0; w < program->problem->way_count[t]; w++) {
            choices += program->column[(size_t)t * TABLE_MOST_WAYS + w] != UINT32_MAX;
            if (program->column[(size_t)t * TABLE_MOST_WAYS + w] == UINT32_MAX
                || value_of(program, solution, t, w) <= most)
                continue;
            most = value_of(program, solution, t, w);
            ways[t] = w;
        }
        const double undecided = (1.5 - most) * (double)placement_way(program->problem, t, 0)->read_ps;
        if (undecided > largest && choices > 1) {
            largest = undecided;
            node->table = t;
            node->way = ways[t];
        }
    }
}

// A better placement may follow from the answer.
static void try_ways(struct bounding *bounding)
{
    bounding->search->budget = bounding->limits.work;
    table_search_descend(bounding->search, bounding->ways);
}

static struct integer_limits solver_limits(const struct bounding *bounding)
{
    const uint64_t now = clock_now_ns();
    const uint64_t left = bounding->until_ns == 0 ? 3600 : bounding->until_ns > now
                        ? (bounding->until_ns - now) / 1000000000 + 1 : 1;
    return (struct integer_limits){ .seconds = left, .memory_bytes = (uint64_t)4 << 30,
                                    .interrupted = bounding->limits.interrupted, .until_ns = bounding->until_ns };
}

static bool solve_program(struct bounding *bounding, const struct table_program *program, struct node *node,
                          struct error *error)
{
    struct linear_solution solution;
    if (!linear_relax(&program->model, solver_limits(bounding), &solution, error))
        return false;
    if (solution.duals)
        node->bound_ps = max_u64(node->bound_ps, table_program_bound(program, solution.duals));
    if (solution.duals && solution.values) {
        read_ways(program, &solution, node, bounding->ways);
        try_ways(bounding);
    }
    linear_solution_clear(&solution);
    return true;
}

static bool solve_node(struct bounding *bounding, struct node *node, bool *fits, struct error *error)
{
    struct table_program program;
    const bool good = table_program_open(&program, bounding->problem, &node->part, bounding->search->best_ps, fits,
                                         error)
                   && (!*fits || solve_program(bounding, &program, node, error));
    table_program_close(&program);
    bounding->bound->programs += good && *fits;
    node->is_solved = true;
    return good;
}

// --- cutting a part in two ------------------------------------------------------------------------

static uint32_t *copy_allowed(struct bounding *bounding, const uint32_t *allowed)
{
    const size_t bytes = bounding->problem->tables * sizeof allowed[0];
    uint32_t *copy = arrays_add(&bounding->arrays, bounding->problem->tables, sizeof copy[0]);
    return copy ? memcpy(copy, allowed, bytes) : NULL;
}

static void cut_ways(struct bounding *bounding, const struct node *node)
{
    struct placement_part with = node->part, without = node->part;
    with.allowed = copy_allowed(bounding, node->part.allowed);
    without.allowed = copy_allowed(bounding, node->part.allowed);
    if (bounding->arrays.failed)
        return;
    with.allowed[node->table] = (uint32_t)1 << node->way;
    without.allowed[node->table] &= ~((uint32_t)1 << node->way);
    add_node(bounding, with, node->bound_ps);
    add_node(bounding, without, node->bound_ps);
}

static void cut_reads(struct bounding *bounding, const struct node *node)
{
    const uint64_t middle = node->part.read_least + (node->part.read_most - node->part.read_least) / 2;
    struct placement_part less = node->part, more = node->part;
    less.read_most = middle;
    more.read_least = middle + 1;
    add_node(bounding, less, node->bound_ps);
    add_node(bounding, more, node->bound_ps);
}

static void cut_widths(struct bounding *bounding, const struct node *node, uint32_t level)
{
    const uint64_t least = node->part.width_least[level], most = node->part.width_most[level];
    struct placement_part less = node->part, more = node->part;
    less.width_most[level] = least + (most - least) / 2;
    more.width_least[level] = least + (most - least) / 2 + 1;
    add_node(bounding, less, node->bound_ps);
    add_node(bounding, more, node->bound_ps);
}

// Cuts the widest interval of a part, if one is wider than this.
static bool cut_interval(struct bounding *bounding, const struct node *node, uint64_t enough_ps)
{
    const struct placement_problem *problem = bounding->problem;
    const struct placement_part *part = &node->part;
    uint64_t widest = part->read_most - part->read_least;
    uint32_t level = UINT32_MAX;
    for (uint32_t l = 0; l < problem->level_count; l++) {
        const uint64_t range = placement_level_ps(problem, l, part->width_most[l], 0)
                             - placement_level_ps(problem, l, part->width_least[l], 0);
        level = range > widest ? l : level;
        widest = max_u64(widest, range);
    }
    if (widest <= enough_ps)
        return false;
    if (level == UINT32_MAX)
        cut_reads(bounding, node);
    else
        cut_widths(bounding, node, level);
    return true;
}

// Cuts a solved part: wide intervals first, then ways, then narrow intervals. False if nothing is left to decide.
static bool cut(struct bounding *bounding, const struct node *node)
{
    const uint64_t best = bounding->search->best_ps;
    if (cut_interval(bounding, node, best / WIDE))
        return true;
    if (node->table == UINT32_MAX)
        return cut_interval(bounding, node, best / NARROW);
    cut_ways(bounding, node);
    return true;
}

// --- the search for a bound -------------------------------------------------------------------------

static size_t least_node(const struct bounding *bounding)
{
    size_t least = 0;
    for (size_t i = 1; i < bounding->node_count; i++)
        if (bounding->nodes[i].bound_ps < bounding->nodes[least].bound_ps)
            least = i;
    return least;
}

static void end(struct bounding *bounding, enum search_stop stop, const char *why)
{
    bounding->bound->stop = stop;
    snprintf(bounding->bound->stopped, sizeof bounding->bound->stopped, "%.79s", why);
}

// Whether a limit ends the search; it is then noted.
static bool must_end(struct bounding *bounding)
{
    const struct table_bound_limits *limits = &bounding->limits;
    const uint64_t best = bounding->search->best_ps, least = bounding->bound->bound_ps;
    char why[80];
    if (limits->interrupted && *limits->interrupted) {
        end(bounding, STOP_INTERRUPTED, "interrupted");
    } else if (best - least <= (uint64_t)((unsigned __int128)best * limits->gap_ppm / 1000000)) {
        snprintf(why, sizeof why, "within %g %%", limits->gap_ppm / 1e4);
        end(bounding, STOP_OTHER, why);
    } else if (bounding->until_ns > 0 && clock_now_ns() >= bounding->until_ns) {
        snprintf(why, sizeof why, "%llu s", (unsigned long long)limits->seconds);
        end(bounding, STOP_DEADLINE, why);
    } else if (bounding->bound->programs >= limits->programs) {
        snprintf(why, sizeof why, limits->programs > 0 ? "%u programs" : "GLPK was not asked", limits->programs);
        end(bounding, STOP_BUDGET, why);
    } else {
        return false;
    }
    return true;
}

// One step with the part whose bound is least: it is solved, or cut. False if the search ends.
static bool step(struct bounding *bounding, struct error *error)
{
    if (bounding->node_count == 0) {  // no part has anything better
        bounding->bound->bound_ps = bounding->search->best_ps;
        return false;
    }
    const size_t least = least_node(bounding);
    bounding->bound->bound_ps = max_u64(bounding->bound->bound_ps,
                                        min_u64(bounding->nodes[least].bound_ps, bounding->search->best_ps));
    if (bounding->bound->bound_ps == bounding->search->best_ps || must_end(bounding))
        return false;
    bool fits = true;
    if (!bounding->nodes[least].is_solved) {
        const bool good = solve_node(bounding, &bounding->nodes[least], &fits, error);
        if (!fits)
            end(bounding, STOP_OTHER, "its numbers are too large for whole numbers");
        return good && fits;
    }
    const struct node node = bounding->nodes[least];
    bounding->nodes[least] = bounding->nodes[--bounding->node_count];
    if (cut(bounding, &node))
        return true;
    end(bounding, STOP_OTHER, "all ways are decided; members may not be filled better");
    return false;
}

static bool begin(struct bounding *bounding, struct error *error)
{
    const struct placement_problem *problem = bounding->problem;
    bounding->nodes = arrays_add(&bounding->arrays, 2 * (size_t)bounding->limits.programs + 4,
                                 sizeof bounding->nodes[0]);
    bounding->ways = arrays_add(&bounding->arrays, problem->tables, sizeof bounding->ways[0]);
    uint32_t *allowed = arrays_add(&bounding->arrays, problem->tables, sizeof allowed[0]);
    if (bounding->arrays.failed)
        return error_no_memory(error, "a bound on tables' places");
    struct placement_part all = { .allowed = allowed, .read_most = bounding->search->best_ps };
    for (uint32_t t = 0; t < problem->tables; t++)
        allowed[t] = UINT32_MAX;
    for (uint32_t l = 0; l < problem->level_count; l++)
        all.width_most[l] = (uint64_t)problem->tables * problem->levels[l].unit_size * problem->set->columns
                          * problem->set->number_bytes;
    if (bounding->limits.seconds > 0)
        bounding->until_ns = clock_now_ns() + bounding->limits.seconds * 1000000000;
    add_node(bounding, all, bounding->bound->bound_ps);
    return true;
}

bool table_bound_find(const struct placement_problem *problem, struct table_search *search,
                      struct table_bound_limits limits, struct table_bound *bound, struct error *error)
{
    *bound = (struct table_bound){ .bound_ps = min_u64(table_bound_by_sums(problem), search->best_ps) };
    if (search->best_ps == PLACEMENT_NONE || bound->bound_ps == search->best_ps)
        return true;
    struct bounding bounding = { .problem = problem, .search = search, .limits = limits, .bound = bound };
    struct error unsolved = { 0 };
    bool good = begin(&bounding, error);
    while (good && step(&bounding, &unsolved) && !bounding.arrays.failed && bounding.failed.kind == ERROR_NONE)
        continue;
    if (good && (bounding.arrays.failed || bounding.failed.kind != ERROR_NONE))
        good = error_no_memory(error, "a bound on tables' places");
    else if (good && unsolved.kind != ERROR_NONE)
        end(&bounding, STOP_OTHER, unsolved.text);
    arrays_clear(&bounding.arrays);
    return good;
}
