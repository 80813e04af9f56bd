#include "partitioner/objectives/minimax.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "common/arrays.h"

#define MOST_TABLE_BYTES ((uint64_t)1 << 31)

// If the distance to the bound is below this share of a plan's load, it is not halved any more: there are few plans
// between.
#define NEAR 0x1p-9

// The amount of work between two looks at the clock, in ways to run a stage. A refined price counts as this many
// ways.
enum { UNSEEN = 1 << 12, REFINED = 16 };

// Loads and speeds are rounded, so their product is made a little larger before it is compared with a limit.
#define ROUNDED (1 + 0x1p-40)

struct search {
    const struct minimax_problem *problem;
    struct downset_walk walk;
    uint32_t *by_work;       // all downsets, those with less work first
    size_t width;            // states of a downset
    uint32_t most;           // the most cost, or steps if nothing has a cost
    double *value;           // of [downset][steps]: the largest load of the stages behind; INFINITY: not reached
    uint32_t *cost;          // the state's, if there are costs
    uint32_t *room;          // of each downset: the cost, or steps if nothing has a cost, that may be taken behind it
    struct minimax_way *fewest;  // of each downset: the least cost of a state, with the steps of that state
    uint32_t *live;          // steps of those states of the current downset that no other state is as good as
    size_t live_count;
    uint32_t least_cost;     // of these
    double most_work;        // of a stage in front of these
    // With these behind it, a state of cost c has at least least_steps + steps_per_cost * c steps.
    double least_steps;
    double *loads;           // of a stage, by way
    double *speed;           // the greatest of the ways that take at most so much cost, or steps if nothing has a cost
    double steps_per_cost;   // the fewest steps that any way takes for a unit of cost
    double below;            // plans of this run load less than this
    double limit;            // its value when the run began
    double known, bound;     // the best load, and a bound that no plan is below
    uint64_t spent;          // of the budget
    uint64_t unseen;         // what was done since must_end() was called last
    bool is_stopped;
    struct arrays arrays;
};

// --- the table -------------------------------------------------------------------

// The work that so many steps and such a cost can do in a ns. The speed of a step may be INFINITY.
static double speed_of(const struct minimax_problem *problem, uint32_t steps, uint32_t cost)
{
    return (steps ? steps * problem->ways.step_speed : 0) + cost * problem->ways.cost_speed;
}

// The greatest speeds of ways, by what they take, and the fewest steps that they take for a unit of cost.
static void fill_speeds(struct search *search)
{
    const struct minimax_problem *problem = search->problem;
    search->steps_per_cost = problem->ways.most_cost ? INFINITY : 0;
    for (size_t w = 0; w < problem->ways.count; w++) {
        const struct minimax_way *way = &problem->ways.list[w];
        const uint32_t takes = problem->ways.most_cost ? way->cost : way->steps;
        if (takes <= search->most)
            search->speed[takes] = fmax(search->speed[takes], speed_of(problem, way->steps, way->cost));
        search->steps_per_cost = fmin(search->steps_per_cost, way->cost ? (double)way->steps / way->cost : 0);
    }
    for (uint32_t i = 1; i <= search->most; i++)
        search->speed[i] = fmax(search->speed[i], search->speed[i - 1]);
}

static int compare_work(const void *a, const void *b, void *work)
{
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    const uint64_t *work_of = work;
    return work_of[left] != work_of[right] ? (work_of[left] > work_of[right]) - (work_of[left] < work_of[right])
                                           : (left > right) - (left < right);
}

static bool search_create(struct search *search, const struct minimax_problem *problem, struct error *error)
{
    const size_t count = problem->downsets->count, width = (size_t)problem->ways.most_steps + 1;
    *search = (struct search){ .problem = problem, .width = width, .known = problem->below };
    const size_t costly = problem->ways.most_cost ? count * width : 1;
    if (count * width > MOST_TABLE_BYTES / (sizeof search->value[0] + sizeof search->cost[0]))
        return error_set(error, "%zu ways to cut the graph for each of %u machines take more than 2 GiB", count,
                         problem->ways.most_steps);
    search->most = problem->ways.most_cost ? problem->ways.most_cost : problem->ways.most_steps;
    search->value = arrays_add(&search->arrays, count * width, sizeof search->value[0]);
    search->cost = arrays_add(&search->arrays, costly, sizeof search->cost[0]);
    search->by_work = arrays_add(&search->arrays, count, sizeof search->by_work[0]);
    search->room = arrays_add(&search->arrays, count, sizeof search->room[0]);
    search->fewest = arrays_add(&search->arrays, count, sizeof search->fewest[0]);
    search->live = arrays_add(&search->arrays, width, sizeof search->live[0]);
    search->loads = arrays_add(&search->arrays, problem->ways.count, sizeof search->loads[0]);
    search->speed = arrays_add(&search->arrays, (size_t)search->most + 1, sizeof search->speed[0]);
    if (search->arrays.failed)
        return error_no_memory(error, "a table of stages");
    fill_speeds(search);
    for (uint32_t d = 0; d < count; d++)
        search->by_work[d] = d;
    qsort_r(search->by_work, count, sizeof search->by_work[0], compare_work, (void *)problem->work);
    return downset_walk_create(&search->walk, problem->downsets, error);
}

static void search_clear(struct search *search)
{
    downset_walk_clear(&search->walk);
    arrays_clear(&search->arrays);
}

// The work that the remaining steps and cost can do below the limit.
static double most_work(const struct search *search, uint32_t steps, uint32_t cost)
{
    const struct minimax_problem *problem = search->problem;
    const double speed = speed_of(problem, problem->ways.most_steps - steps, problem->ways.most_cost - cost);
    return speed > 0 ? search->below * speed * ROUNDED : 0;
}

// Whether the work in the downset can still be done in front of stages of so many steps and such a cost.
static bool is_hopeful(const struct search *search, uint32_t downset, uint32_t steps, uint32_t cost)
{
    return downset == 0 || (double)search->problem->work[downset] < most_work(search, steps, cost);
}

// The most that stages behind a downset may take, so that enough is left for what is in it.
static uint32_t find_room(const struct search *search, uint32_t downset)
{
    const bool is_costly = search->problem->ways.most_cost > 0;
    uint32_t least = 0, end = search->most + 1;  // the first that is too much
    while (least < end) {
        const uint32_t middle = least + (end - least) / 2;
        if (is_hopeful(search, downset, is_costly ? 0 : middle, is_costly ? middle : 0))
            least = middle + 1;
        else
            end = middle;
    }
    return end ? end - 1 : 0;
}

static void begin(struct search *search, double below)
{
    const struct minimax_problem *problem = search->problem;
    const size_t count = problem->downsets->count;
    search->below = below;
    for (size_t i = 0; i < count * search->width; i++)
        search->value[i] = INFINITY;
    search->value[(count - 1) * search->width] = 0;
    for (uint32_t d = 0; d < count; d++) {
        search->fewest[d] = (struct minimax_way){ UINT32_MAX, UINT32_MAX };
        search->room[d] = find_room(search, d);
    }
}

// --- stages ----------------------------------------------------------------------

// Sets held[i] to the smaller of itself and the larger of later[i] and the load.
static void hold(double *restrict held, const double *restrict later, size_t count, double load)
{
    for (size_t i = 0; i < count; i++) {
        const double value = later[i] > load ? later[i] : load;
        held[i] = value < held[i] ? value : held[i];
    }
}

// Whether a known state takes no more.
static bool is_dominated(const struct search *search, uint32_t inner, uint32_t steps, uint32_t cost)
{
    const size_t cell = inner * search->width + steps;
    return (search->fewest[inner].cost <= cost && search->fewest[inner].steps <= steps)
        || (search->value[cell] < INFINITY && search->cost[cell] <= cost);
}

// If there are costs a state keeps the least cost, else the least largest load.
static void hold_state(struct search *search, uint32_t inner, uint32_t outer, uint32_t way, uint32_t later)
{
    const struct minimax_problem *problem = search->problem;
    const bool is_costly = problem->ways.most_cost > 0;
    const size_t before = outer * search->width + later;
    const uint32_t steps = later + problem->ways.list[way].steps;
    const uint32_t cost = is_costly ? search->cost[before] + problem->ways.list[way].cost : 0;
    const size_t cell = inner * search->width + steps;
    double load = search->loads[way];
    if (is_costly ? cost > problem->ways.most_cost || is_dominated(search, inner, steps, cost)
                        || !is_hopeful(search, inner, steps, cost)
                  : !(fmax(search->value[before], load) < search->value[cell]))
        return;
    if (problem->refine)
        load = problem->refine(problem->self, inner, outer, way, later, load, search->below);
    search->unseen += problem->refine ? REFINED : 0;
    const double value = fmax(search->value[before], load);
    if (!(value < (is_costly ? search->below : search->value[cell])))
        return;
    search->value[cell] = value;
    if (!is_costly)
        return;
    search->cost[cell] = cost;
    if (cost < search->fewest[inner].cost)
        search->fewest[inner] = (struct minimax_way){ steps, cost };
}

// Calls must_end(), now and then.
static void look(struct search *search)
{
    const struct minimax_problem *problem = search->problem;
    search->unseen = 0;
    if (problem->must_end)
        search->is_stopped |= problem->must_end(problem->ended_self, fmin(search->known, search->below < search->limit
                                                ? search->below : INFINITY), search->bound);
}

// Puts the stage, in one of its ways, before each of the states behind it.
static void try_way(struct search *search, uint32_t inner, uint32_t outer, uint32_t way)
{
    const struct minimax_problem *problem = search->problem;
    const uint32_t steps = problem->ways.list[way].steps, first = search->live[0];
    const uint32_t last = search->live[search->live_count - 1];
    const uint32_t most = problem->ways.most_cost ? problem->ways.most_steps : search->room[inner];
    const uint32_t room = most < steps ? 0 : most - steps + 1;
    const uint32_t end = last + 1 < room ? last + 1 : room;
    search->spent += search->live_count / 8;
    if (!problem->ways.most_cost && !problem->refine && first < end)
        hold(search->value + inner * search->width + first + steps, search->value + outer * search->width + first,
             end - first, search->loads[way]);
    else
        for (size_t l = 0; l < search->live_count && search->live[l] < room; l++)
            hold_state(search, inner, outer, way, search->live[l]);
}

// The most that a stage may take, in cost or steps, so that enough is left for what is in front. If more cost means
// more steps than the known state of the least cost has, it must also be less than that cost.
static uint32_t most_taken(const struct search *search, uint32_t inner)
{
    const struct minimax_way *fewest = &search->fewest[inner];
    const uint32_t least = search->problem->ways.most_cost ? search->least_cost : search->live[0];
    uint32_t most = search->room[inner];
    if (search->problem->ways.most_cost && fewest->cost <= most
        && fewest->steps <= search->least_steps + search->steps_per_cost * fewest->cost)
        most = fewest->cost ? fewest->cost - 1 : 0;
    return most > least ? most - least : 0;
}

// False if stages that hold more are of no use either.
static bool try_stage(struct search *search, uint32_t inner, uint32_t outer)
{
    const struct minimax_problem *problem = search->problem;
    const double work = (double)(problem->work[outer] - problem->work[inner]);
    search->spent++;
    if (!(work < search->most_work))
        return false;
    if (!(work < search->below * search->speed[most_taken(search, inner)] * ROUNDED))
        return true;
    const uint32_t most = (problem->ways.most_cost ? problem->ways.most_steps : search->room[inner]) - search->live[0];
    if (!(problem->loads(problem->self, inner, outer, most, search->below, search->loads) < search->below))
        return false;
    for (uint32_t w = 0; w < problem->ways.count; w++)
        if (problem->ways.list[w].steps <= most && search->loads[w] < search->below)
            try_way(search, inner, outer, w);
    search->is_stopped = problem->budget && search->spent > problem->budget;
    search->unseen += problem->ways.count;
    if (search->unseen >= UNSEEN)
        look(search);
    return true;
}

// Lists the states of a downset that are worth extending. If there are costs, they have rising steps and falling
// cost. States above the limit are of no use. Returns whether there are any.
static bool list_live(struct search *search, uint32_t outer)
{
    const size_t row = outer * search->width;
    const bool is_costly = search->problem->ways.most_cost > 0;
    search->live_count = 0;
    search->least_steps = INFINITY;
    search->least_cost = is_costly ? UINT32_MAX : 0;
    for (uint32_t i = 0; i < search->width; i++) {
        if (!(search->value[row + i] < search->below) || (is_costly && search->cost[row + i] >= search->least_cost))
            continue;
        search->live[search->live_count++] = i;
        search->least_cost = is_costly ? search->cost[row + i] : 0;
        search->least_steps = fmin(search->least_steps, i - search->steps_per_cost * search->least_cost);
    }
    if (search->live_count == 0)
        return false;
    const uint32_t taken = is_costly ? search->least_cost : search->live[0];
    search->most_work = search->below * search->speed[search->most - taken] * ROUNDED;
    return true;
}

// The steps of the best whole plan that was reached; of equal ones, the fewest. `width`: there is none.
static uint32_t find_plan(const struct search *search)
{
    const struct minimax_ways *ways = &search->problem->ways;
    uint32_t found = (uint32_t)search->width;
    for (uint32_t i = ways->takes_all_steps ? ways->most_steps : 0; i < search->width; i++)
        if (search->value[i] < (found < search->width ? search->value[found] : search->below))
            found = i;
    return found;
}

// The number of downsets that have less work.
static size_t count_below(const struct search *search, double work)
{
    size_t from = 0, end = search->problem->downsets->count;
    while (from < end) {
        const size_t middle = from + (end - from) / 2;
        if ((double)search->problem->work[search->by_work[middle]] < work)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

// Tries all stages in front of the states of `outer`. Their work is below what a stage can do, and what they leave
// is below what can be done in front of it. If few downsets are between the two, looking at these is quicker than
// walking there.
static void try_stages(struct search *search, uint32_t outer)
{
    const struct minimax_problem *problem = search->problem;
    const struct downsets *downsets = problem->downsets;
    const uint32_t *live = search->live;
    const double left = !problem->ways.most_cost       ? most_work(search, live[0] + 1, 0)
                      : problem->ways.step_speed > 0 ? most_work(search, live[0], search->least_cost)
                                                : most_work(search, live[0], search->least_cost + 1);
    const size_t from = count_below(search, (double)problem->work[outer] - search->most_work);
    const size_t end = count_below(search, left > 0 ? left : 1);
    uint32_t inner;
    if (from >= end || end - from < 64 + downsets->count / 32) {
        for (size_t i = from; i < end && !search->is_stopped; i++) {
            inner = search->by_work[i];
            if (inner < outer
                && downsets_within(downsets_set(downsets, inner), downsets_set(downsets, outer), downsets->words))
                try_stage(search, inner, outer);
        }
        return;
    }
    downset_walk_down(&search->walk, outer);
    while (!search->is_stopped && downset_walk_next(&search->walk, &inner))
        if (!try_stage(search, inner, outer))
            downset_walk_prune(&search->walk);
}

static void run(struct search *search, double below)
{
    const struct minimax_problem *problem = search->problem;
    begin(search, below);
    search->limit = below;
    for (uint32_t outer = (uint32_t)problem->downsets->count; outer-- > 1 && !search->is_stopped;) {
        if (list_live(search, outer))
            try_stages(search, outer);
        const uint32_t plan = find_plan(search);
        if (!problem->ways.most_cost && plan < search->width)
            search->below = search->value[plan];  // a state keeps the least: from here on only what is below counts
        look(search);
    }
    search->below = below;
}

// --- the plan --------------------------------------------------------------------

// Finds again how a state was reached: by its cost if there are costs, else by its largest load.
static struct minimax_stage find_stage(struct search *search, uint32_t inner, uint32_t steps, double *load)
{
    const struct minimax_problem *problem = search->problem;
    const bool is_costly = problem->ways.most_cost > 0;
    const size_t cell = inner * search->width + steps;
    const double below = is_costly ? search->below : search->known * ROUNDED + DBL_MIN;  // loads() may rely upon it
    const double most_work = below * search->speed[is_costly ? search->cost[cell] : steps] * ROUNDED;
    uint32_t outer;
    downset_walk_up(&search->walk, inner);
    while (downset_walk_next(&search->walk, &outer)) {
        if ((double)(problem->work[outer] - problem->work[inner]) > most_work) {
            downset_walk_prune(&search->walk);
            continue;
        }
        for (uint32_t w = 0; w < problem->ways.count; w++) {
            const struct minimax_way way = problem->ways.list[w];
            const size_t before = outer * search->width + steps - way.steps;
            if (way.steps > steps || !(search->value[before] < below)
                || (is_costly && search->cost[before] + way.cost != search->cost[cell])
                || !(problem->loads(problem->self, inner, outer, steps, below, search->loads) < below))
                continue;
            *load = search->loads[w];
            if (problem->refine && *load < below)
                *load = problem->refine(problem->self, inner, outer, w, steps - way.steps, *load, below);
            if (is_costly ? *load < below : fmax(search->value[before], *load) <= search->value[cell])
                return (struct minimax_stage){ outer, w, steps - way.steps };
        }
    }
    return (struct minimax_stage){ 0 };  // unreachable: the state was made of one of these
}

static bool take_stages(struct search *search, uint32_t steps, struct minimax *minimax, struct error *error)
{
    const uint32_t all = (uint32_t)search->problem->downsets->count - 1;
    double load, largest = 0;
    free(minimax->stages);
    minimax->stages = calloc(search->problem->downsets->size[all] + 1, sizeof minimax->stages[0]);
    if (!minimax->stages)
        return error_no_memory(error, "the stages of a plan");
    search->known = search->value[steps];
    minimax->stage_count = 0;
    for (uint32_t inner = 0; inner != all;) {
        const struct minimax_stage stage = find_stage(search, inner, steps, &load);
        assert(stage.downset > inner);
        minimax->stages[minimax->stage_count++] = stage;
        largest = fmax(largest, load);
        inner = stage.downset;
        steps = stage.later;
    }
    minimax->value = search->known = largest;
    return true;
}

// The limit of the next run. It rises until there is a plan, unless one was known before. Then the distance that is
// left is halved.
static double next_limit(const struct search *search, const struct minimax *minimax, double slack)
{
    const double left = search->known - search->bound;
    double limit = search->known;
    if (minimax->stages)
        limit = left > NEAR * search->known ? search->bound + left / 2 : search->known;
    else if (search->known == INFINITY && slack <= 16)
        limit = search->bound * (1 + slack);
    return limit > search->bound ? limit : search->known;  // as near as numbers are
}

static bool search_limits(struct search *search, struct minimax *minimax, struct error *error)
{
    double slack = 0x1p-12;
    uint64_t before = 0;  // what the run before took
    while (search->bound < search->known && !search->is_stopped) {
        const double limit = next_limit(search, minimax, slack);
        const uint64_t since = search->spent;
        run(search, limit);
        const uint32_t plan = find_plan(search);
        const bool is_found = plan < search->width;
        if (is_found && !take_stages(search, plan, minimax, error))
            return false;
        if (!search->is_stopped && (!is_found || !search->problem->ways.most_cost))
            search->bound = is_found ? search->known : limit;
        // The limit rises less if a run already takes much longer each time.
        slack *= slack < 0x1p-6 ? 8 : slack < 0x1p-3 || search->spent - since < 2 * before ? 2 : 1;
        before = search->spent - since;
    }
    return true;
}

// Takes the plan that is at hand if the search was ended before it found any: one stage, if that is allowed.
static bool take_single(struct search *search, struct minimax *minimax, struct error *error)
{
    const struct minimax_problem *problem = search->problem;
    const uint32_t all = (uint32_t)problem->downsets->count - 1, most = problem->ways.most_steps;
    minimax->stages = calloc(1, sizeof minimax->stages[0]);
    if (!minimax->stages)
        return error_no_memory(error, "the stages of a plan");
    minimax->value = problem->below;
    problem->loads(problem->self, 0, all, most, INFINITY, search->loads);
    for (uint32_t w = 0; w < problem->ways.count; w++) {
        const struct minimax_way way = problem->ways.list[w];
        const bool is_allowed = problem->ways.takes_all_steps ? way.steps == most : way.steps <= most;
        double load = is_allowed && way.cost <= problem->ways.most_cost ? search->loads[w] : INFINITY;
        if (problem->refine && load < minimax->value)
            load = problem->refine(problem->self, 0, all, w, 0, load, INFINITY);
        if (!(load < minimax->value))
            continue;
        minimax->value = load;
        minimax->stages[0] = (struct minimax_stage){ all, w, 0 };
        minimax->stage_count = 1;
    }
    if (minimax->stage_count == 0)
        minimax_clear(minimax);
    minimax->value = minimax->stages ? minimax->value : INFINITY;
    return true;
}

double minimax_least(const struct minimax_problem *problem)
{
    const double speed = speed_of(problem, problem->ways.most_steps, problem->ways.most_cost);
    return fmax(problem->lower_bound, (double)problem->work[problem->downsets->count - 1] / speed);
}

bool minimax_search(const struct minimax_problem *problem, struct minimax *minimax, struct error *error)
{
    const size_t all = problem->downsets->count - 1;
    *minimax = (struct minimax){ .value = INFINITY };
    struct search search = { 0 };
    bool good = all > 0 || error_set(error, "there are no layers to plan");
    good = good && search_create(&search, problem, error);
    search.bound = minimax_least(problem);
    good = good && search_limits(&search, minimax, error);
    if (good && search.is_stopped && !minimax->stages)
        good = take_single(&search, minimax, error);
    minimax->is_complete = !search.is_stopped;
    minimax->lower_bound = search.bound;
    search_clear(&search);
    if (!good)
        minimax_clear(minimax);
    return good;
}

void minimax_clear(struct minimax *minimax)
{
    free(minimax->stages);
    *minimax = (struct minimax){ .stages = NULL };
}
