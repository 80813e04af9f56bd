#include "partitioner/objectives/cover.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TABLE_BYTES ((uint64_t)1 << 31)

// Downsets by their work, with their sets beside: where few are near enough to a stage's
// end, to look at these is quicker than to walk there.
struct by_work {
    uint32_t *downset;
    uint64_t *sets;
    uint64_t *work;
};

struct search {
    const struct cover_problem *problem;
    struct downset_walk walk;
    struct by_work by_work;
    size_t width;        // machines + 1
    double *best;        // of [downset][machines]
    uint32_t *most_at;   // of each downset: machines that may hold what is not in it, or 0
    double *loads;       // of a stage, by replicas
    double ceiling;      // of a plan that is known, or what was asked for
    double below;        // what a better plan is below
    double found;        // of the best plan of this run
    double bound;        // nothing allowed is below, as far as is known
    uint64_t spent;      // of the budget
    bool is_stopped;
};

// What one machine would take for the downset.
static double least_load(const struct cover_problem *problem, uint64_t work)
{
    return (double)work / problem->share;
}

// --- by work ---------------------------------------------------------------------

// A merge sort from the bottom up: of equal work the order stays that of numbers.
static void sort_by_work(uint32_t *downset, uint32_t *other, const uint64_t *work, size_t count)
{
    for (size_t run = 1; run < count; run *= 2) {
        for (size_t from = 0; from < count; from += 2 * run) {
            const size_t middle = from + run < count ? from + run : count;
            const size_t end = from + 2 * run < count ? from + 2 * run : count;
            size_t a = from, b = middle;
            for (size_t at = from; at < end; at++)
                other[at] =
                    a < middle && (b == end || work[downset[a]] <= work[downset[b]]) ? downset[a++] : downset[b++];
        }
        memcpy(downset, other, count * sizeof downset[0]);
    }
}

static bool by_work_create(struct by_work *by_work, const struct cover_problem *problem, struct error *error)
{
    const struct downsets *downsets = problem->downsets;
    const size_t count = downsets->count, words = downsets->words;
    uint32_t *other = calloc(count, sizeof other[0]);
    by_work->downset = calloc(count, sizeof by_work->downset[0]);
    by_work->sets = calloc(count * words + 1, sizeof by_work->sets[0]);
    by_work->work = calloc(count, sizeof by_work->work[0]);
    const bool good = other && by_work->downset && by_work->sets && by_work->work;
    for (uint32_t d = 0; good && d < count; d++)
        by_work->downset[d] = d;
    if (good)
        sort_by_work(by_work->downset, other, problem->work, count);
    for (size_t i = 0; good && i < count; i++) {
        memcpy(by_work->sets + i * words, downsets_set(downsets, by_work->downset[i]), words * sizeof(uint64_t));
        by_work->work[i] = problem->work[by_work->downset[i]];
    }
    free(other);
    return good || error_no_memory(error, "a table of stages");
}

// The first place whose work is `work` or more.
static size_t by_work_find(const struct by_work *by_work, size_t count, double work)
{
    size_t from = 0, end = count;
    while (from < end) {
        const size_t middle = from + (end - from) / 2;
        if ((double)by_work->work[middle] < work)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

// --- the table -------------------------------------------------------------------

static bool search_create(struct search *search, const struct cover_problem *problem, struct error *error)
{
    const size_t downsets = problem->downsets->count;
    *search = (struct search){ .problem = problem, .width = (size_t)problem->machines + 1 };
    if (downsets * search->width > MOST_TABLE_BYTES / sizeof search->best[0])
        return error_set(error, "%zu ways to cut the graph for each of %u machines take more than 2 GiB", downsets,
                         problem->machines);
    search->best = malloc(downsets * search->width * sizeof search->best[0]);
    search->most_at = malloc(downsets * sizeof search->most_at[0]);
    search->loads = calloc(search->width, sizeof search->loads[0]);
    if (!search->best || !search->most_at || !search->loads)
        return error_no_memory(error, "a table of stages");
    return by_work_create(&search->by_work, problem, error)
        && downset_walk_create(&search->walk, problem->downsets, error);
}

static void search_clear(struct search *search)
{
    downset_walk_clear(&search->walk);
    free(search->by_work.downset);
    free(search->by_work.sets);
    free(search->by_work.work);
    free(search->best);
    free(search->most_at);
    free(search->loads);
}

// The machines that may hold what is not in the downset: those that are left take it
// below the limit at best, and any layers need one.
static uint32_t most_machines_at(const struct search *search, size_t downset)
{
    const uint32_t machines = search->problem->machines;
    if (downset == 0)
        return machines;
    // More than this quotient; a little less is asked, since loads are rounded.
    const double needed =
        floor(least_load(search->problem, search->problem->work[downset]) / search->below * (1 - 0x1p-40));
    if (!(needed < machines))
        return 0;
    return needed < 1 ? machines - 1 : machines - 1 - (uint32_t)needed;
}

static void begin(struct search *search, double below)
{
    const size_t downsets = search->problem->downsets->count;
    search->below = below;
    search->found = INFINITY;
    for (size_t i = 0; i < downsets * search->width; i++)
        search->best[i] = INFINITY;
    for (size_t d = 0; d < downsets; d++)
        search->most_at[d] = most_machines_at(search, d);
    search->best[(downsets - 1) * search->width] = 0;
}

// --- stages ----------------------------------------------------------------------

// held[i] becomes the least of itself and the larger of later[i] and the load.
static void hold(double *restrict held, const double *restrict later, size_t count, double load)
{
    for (size_t i = 0; i < count; i++) {
        const double value = later[i] > load ? later[i] : load;
        held[i] = value < held[i] ? value : held[i];
    }
}

static void hold_refined(struct search *search, uint32_t inner, uint32_t outer, uint32_t replicas, uint32_t first,
                         uint32_t end)
{
    const struct cover_problem *problem = search->problem;
    const double *later = search->best + outer * search->width;
    double *held = search->best + inner * search->width + replicas;
    for (uint32_t m = first; m < end; m++) {
        const double below = held[m] < search->below ? held[m] : search->below;
        if (!(later[m] < below) || !(search->loads[replicas] < below))
            continue;
        const double load = problem->refine(problem->self, inner, outer, replicas, m, search->loads[replicas], below);
        const double value = later[m] > load ? later[m] : load;
        held[m] = value < held[m] ? value : held[m];
    }
}

// The stage from `inner` to `outer`, whose rest is held by machines in [first, end).
static bool try_stage(struct search *search, uint32_t inner, uint32_t outer, uint32_t first, uint32_t end)
{
    const struct cover_problem *problem = search->problem;
    const uint32_t room = search->most_at[inner];
    search->spent++;
    if (room <= first || search->is_stopped)
        return true;
    const uint32_t most = room - first < problem->most_replicas ? room - first : problem->most_replicas;
    if (!(problem->loads(problem->self, inner, outer, most, search->below, search->loads) < search->below))
        return false;
    for (uint32_t r = 1; r <= most; r++) {
        if (!(search->loads[r] < search->below))
            continue;
        const uint32_t last = room - r + 1 < end ? room - r + 1 : end;
        search->spent += (last - first) / 8;
        if (problem->refine)
            hold_refined(search, inner, outer, r, first, last);
        else
            hold(search->best + inner * search->width + first + r, search->best + outer * search->width + first,
                 last - first, search->loads[r]);
    }
    search->is_stopped = problem->budget && search->spent > problem->budget;
    return true;
}

static void walk_stages(struct search *search, uint32_t outer, uint32_t first, uint32_t end)
{
    uint32_t inner;
    downset_walk_down(&search->walk, outer);
    while (!search->is_stopped && downset_walk_next(&search->walk, &inner))
        if (!try_stage(search, inner, outer, first, end))
            downset_walk_prune(&search->walk);
}

// The same, by looking at places [from, to) of those in the order of work.
static void list_stages(struct search *search, uint32_t outer, uint32_t first, uint32_t end, size_t from, size_t to)
{
    const struct downsets *downsets = search->problem->downsets;
    const uint64_t *set = downsets_set(downsets, outer);
    for (size_t at = from; at < to && !search->is_stopped; at++) {
        const uint32_t inner = search->by_work.downset[at];
        if (inner < outer && downsets_within(search->by_work.sets + at * downsets->words, set, downsets->words))
            try_stage(search, inner, outer, first, end);
    }
}

// All stages that end in `outer`. Their work is below the limit times their machines, and
// so is what they leave, times the machines left.
static void try_stages(struct search *search, uint32_t outer, uint32_t first, uint32_t end)
{
    const struct cover_problem *problem = search->problem;
    const size_t count = problem->downsets->count;
    const uint32_t left = problem->machines - first;
    const uint32_t most = left < problem->most_replicas ? left : problem->most_replicas;
    const double limit = search->below * problem->share * (1 + 0x1p-40);
    const bool any = limit == INFINITY;
    const size_t from = any ? 0 : by_work_find(&search->by_work, count, (double)problem->work[outer] - limit * most);
    const size_t to = any ? count : by_work_find(&search->by_work, count, limit * (left - 1) + 1);
    if (to - from < 64 + count / 32)
        list_stages(search, outer, first, end, from, to);
    else
        walk_stages(search, outer, first, end);
}

// The best of the plans that stand in the table, and what others must be below now.
static void see_plans(struct search *search)
{
    const struct cover_problem *problem = search->problem;
    for (uint32_t m = problem->may_use_fewer ? 1 : problem->machines; m <= problem->machines; m++)
        if (search->best[m] < search->below)
            search->found = search->below = search->best[m];
}

static void run(struct search *search, double below)
{
    const struct cover_problem *problem = search->problem;
    begin(search, below);
    for (uint32_t outer = (uint32_t)problem->downsets->count; outer-- > 1 && !search->is_stopped;) {
        const double *later = search->best + outer * search->width;
        uint32_t first = 0, end = (uint32_t)search->width;
        while (first < end && !(later[first] < search->below))
            first++;
        while (first < end && !(later[end - 1] < search->below))
            end--;
        if (first < end)
            try_stages(search, outer, first, end);
        see_plans(search);
        const double known = search->found < search->ceiling ? search->found : search->ceiling;
        search->is_stopped |= problem->must_end && problem->must_end(problem->self, known, search->bound);
    }
}

// --- the plan --------------------------------------------------------------------

// The stage with which the best for (inner, machines) begins: the smallest there is.
static struct cover_stage find_stage(struct search *search, uint32_t inner, uint32_t machines)
{
    const struct cover_problem *problem = search->problem;
    const double value = search->best[inner * search->width + machines];
    const double enough = search->found * (1 + 0x1p-40) + DBL_MIN;  // the whole plan's, which loads() may rely upon
    uint32_t outer;
    downset_walk_up(&search->walk, inner);
    while (downset_walk_next(&search->walk, &outer)) {
        const double *later = search->best + outer * search->width;
        uint32_t least = 0;
        while (least < machines && !(later[least] <= value))
            least++;
        if (least == machines)
            continue;
        const uint32_t room = machines - least;
        const uint32_t most = room < problem->most_replicas ? room : problem->most_replicas;
        if (!(problem->loads(problem->self, inner, outer, most, enough, search->loads) < enough))
            continue;
        for (uint32_t r = 1; r <= most; r++) {
            const double rest = later[machines - r];
            double load = search->loads[r];
            if (rest > value || load > value)
                continue;
            if (problem->refine)
                load = problem->refine(problem->self, inner, outer, r, machines - r, load, INFINITY);
            if (load == value || (rest == value && load < value))
                return (struct cover_stage){ outer, r };
        }
    }
    return (struct cover_stage){ 0, 0 };  // unreachable: the value was made of one of these
}

// Of the least value, on the fewest machines.
static bool take(struct search *search, struct cover *cover, struct error *error)
{
    const uint32_t all = (uint32_t)search->problem->downsets->count - 1;
    uint32_t machines = search->problem->may_use_fewer ? 1 : search->problem->machines;
    while (search->best[machines] > search->found)
        machines++;
    free(cover->stages);
    cover->stages = calloc(search->width, sizeof cover->stages[0]);
    if (!cover->stages)
        return error_no_memory(error, "the stages of a plan");
    cover->stage_count = 0;
    cover->value = search->found;
    for (uint32_t inner = 0; inner != all;) {
        const struct cover_stage stage = find_stage(search, inner, machines);
        assert(stage.replicas > 0);
        cover->stages[cover->stage_count++] = stage;
        inner = stage.downset;
        machines -= stage.replicas;
    }
    return true;
}

// The plan that is always there, if it is allowed: one stage on all machines.
static bool take_single(struct search *search, struct cover *cover, struct error *error)
{
    const struct cover_problem *problem = search->problem;
    const uint32_t all = (uint32_t)problem->downsets->count - 1, machines = problem->machines;
    search->ceiling = problem->below;
    if (machines > problem->most_replicas)
        return true;
    problem->loads(problem->self, 0, all, machines, INFINITY, search->loads);
    double load = search->loads[machines];
    if (problem->refine && load < problem->below)
        load = problem->refine(problem->self, 0, all, machines, 0, load, INFINITY);
    if (!(load < problem->below))
        return true;
    cover->stages = calloc(1, sizeof cover->stages[0]);
    if (!cover->stages)
        return error_no_memory(error, "the stages of a plan");
    cover->stages[0] = (struct cover_stage){ all, machines };
    cover->stage_count = 1;
    cover->value = search->ceiling = load;
    return true;
}

// The next slack after one below which there was nothing: more, but not where that already takes much longer each
// time; how far the next one goes beyond what is needed would then be felt.
static double next_slack(double slack, uint64_t before, uint64_t spent)
{
    if (slack < 0x1p-6)
        return 8 * slack;
    return slack < 0x1p-3 || spent < 2 * before ? 2 * slack : slack;
}

// With limits that grow, up to what is known already.
static bool search_rising(struct search *search, struct cover *cover, struct error *error)
{
    double slack = 0x1p-12;
    uint64_t before = 0;
    for (bool is_last = false; !is_last && !search->is_stopped;) {
        const uint64_t since = search->spent;
        const double limit = cover->lower_bound * (1 + slack);
        search->bound = cover->lower_bound;
        is_last = !(limit * (1 + slack) < search->ceiling) || slack > 16 || !(cover->lower_bound > 0);
        run(search, is_last ? search->ceiling : limit);
        if (search->found < INFINITY)
            return take(search, cover, error);
        if (!search->is_stopped)
            cover->lower_bound = is_last ? search->ceiling : limit;
        slack = next_slack(slack, before, search->spent - since);
        before = search->spent - since;
    }
    return true;
}

bool cover_search(const struct cover_problem *problem, struct cover *cover, struct error *error)
{
    const size_t all = problem->downsets->count - 1;
    *cover = (struct cover){ .value = INFINITY, .is_complete = true };
    cover->lower_bound = least_load(problem, problem->work[all]) / problem->machines;
    struct search search = { 0 };
    bool good = all > 0 || error_set(error, "there are no layers to plan");
    good = good && search_create(&search, problem, error) && take_single(&search, cover, error)
        && search_rising(&search, cover, error);
    cover->is_complete = !search.is_stopped;
    if (cover->is_complete && cover->stages)
        cover->lower_bound = cover->value;
    search_clear(&search);
    if (!good)
        cover_clear(cover);
    return good;
}

void cover_clear(struct cover *cover)
{
    free(cover->stages);
    *cover = (struct cover){ .stages = NULL };
}
