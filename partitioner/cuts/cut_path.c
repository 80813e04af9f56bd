#include "partitioner/cuts/cut_path.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"

struct cell {
    uint64_t cost, also;
    uint32_t from;
};

struct paths {
    struct cut_problem *problem;
    const struct path_prices *prices;
    struct cell *cells;      // the best path of the first s stages to a place: [s * places + place]
    uint32_t places;         // as many as there were at the beginning
    struct place_walk walk;
    uint32_t *cuts;          // of the path that is examined
    uint64_t limit;          // a stage that costs as much is left out
    const struct search_part *part;
};

static struct cell *cell_of(const struct paths *paths, uint32_t s, uint32_t place)
{
    return &paths->cells[(size_t)s * paths->places + place];
}

// Extends the best path to `from` by stage s, in every way.
static void extend(struct paths *paths, uint32_t s, uint32_t from)
{
    struct cut_problem *problem = paths->problem;
    const struct path_prices *prices = paths->prices;
    const struct cell so_far = *cell_of(paths, s, from);
    const bool is_last = s + 1 == problem->stages;
    uint32_t to;
    place_walk_from(&paths->walk, from);
    while (place_walk_next(&paths->walk, &to)) {
        problem->context->work += (to & 31) == 0;
        if (prices->only_grows(prices->self, s, from, to) >= paths->limit) {
            place_walk_prune(&paths->walk);
            continue;
        }
        if ((is_last && to != problem->places->full) || !cut_may_end(problem, s, to))
            continue;
        struct cell *cell = cell_of(paths, s + 1, to);
        uint64_t cost = prices->cost(prices->self, s, from, to);
        cost = cost > so_far.cost ? cost : so_far.cost;
        if (cost >= paths->limit || cost > cell->cost)
            continue;
        const uint64_t also = so_far.also + (prices->also ? prices->also(prices->self, s, from, to) : 0);
        if (cost < cell->cost || also < cell->also)
            *cell = (struct cell){ cost, also, from };
    }
}

// False if the part of the search is over before it is done.
static bool fill(struct paths *paths)
{
    struct cut_problem *problem = paths->problem;
    const size_t all = ((size_t)problem->stages + 1) * paths->places;
    for (size_t i = 0; i < all; i++)
        paths->cells[i] = (struct cell){ NO_TIME, NO_TIME, 0 };
    *cell_of(paths, 0, 0) = (struct cell){ 0, 0, 0 };
    for (uint32_t s = 0; s < problem->stages; s++)
        for (uint32_t from = 0; from < paths->places; from++) {
            if (part_is_over(problem->context, paths->part))
                return false;
            if (cell_of(paths, s, from)->cost < paths->limit)
                extend(paths, s, from);
        }
    return true;
}

static void read_cuts(const struct paths *paths, uint32_t *cuts)
{
    uint32_t place = paths->problem->places->full;
    for (uint32_t s = paths->problem->stages; s > 0; s--) {
        cuts[s] = place;
        place = cell_of(paths, s, place)->from;
    }
    cuts[0] = 0;
}

// Works out what the stages of a path cost. *news: whether that changed anything.
static bool work_out(struct paths *paths, const uint32_t *cuts, bool *news, struct error *error)
{
    const struct path_prices *prices = paths->prices;
    *news = false;
    for (uint32_t s = 0; prices->work_out && s < paths->problem->stages; s++) {
        bool is_new = false;
        if (!prices->work_out(prices->self, s, cuts[s], cuts[s + 1], &is_new, error))
            return false;
        *news |= is_new;
    }
    return true;
}

// The cost of a path by all that is known now.
static uint64_t cost_of(const struct paths *paths, const uint32_t *cuts)
{
    const struct path_prices *prices = paths->prices;
    uint64_t most = 0;
    for (uint32_t s = 0; s < paths->problem->stages; s++) {
        const uint64_t cost = prices->cost(prices->self, s, cuts[s], cuts[s + 1]);
        most = cost > most ? cost : most;
    }
    return most;
}

// Looks for paths below a limit, which grows until there is one. A low limit leaves out the most.
static bool find(struct paths *paths, unsigned rounds, struct path *path, struct error *error)
{
    const struct cut_problem *problem = paths->problem;
    const uint64_t whole = paths->prices->only_grows(paths->prices->self, 0, 0, problem->places->full);
    paths->limit = 2 * (whole / problem->stages) + 2;
    for (unsigned round = 0; round < rounds;) {
        if (!fill(paths))
            return true;
        const struct cell *end = cell_of(paths, problem->stages, problem->places->full);
        if (end->cost == NO_TIME && paths->limit == NO_TIME) {
            path->is_least = true;
            return true;
        }
        if (end->cost == NO_TIME) {
            paths->limit = multiply_clamped(paths->limit, 4);
            continue;
        }
        bool news;
        read_cuts(paths, paths->cuts);
        if (!work_out(paths, paths->cuts, &news, error))
            return false;
        const uint64_t cost = cost_of(paths, paths->cuts);
        if (cost < path->cost || path->cost == NO_TIME) {
            path->cost = cost;
            memcpy(path->cuts, paths->cuts, (problem->stages + (size_t)1) * sizeof path->cuts[0]);
        }
        path->is_least = !news || path->cost <= end->cost;
        if (path->is_least)
            return true;
        round++;
    }
    return true;
}

bool cut_path_find(struct cut_problem *problem, const struct path_prices *prices, unsigned rounds,
                   const struct search_part *part, struct path *path, struct error *error)
{
    struct paths paths = { .problem = problem, .prices = prices, .part = part };
    const struct places *places = problem->places;
    paths.places = places->is_complete ? places->count : places->blocks + 1;
    path->cost = NO_TIME;
    path->is_least = false;
    paths.cells = malloc(((size_t)problem->stages + 1) * paths.places * sizeof paths.cells[0]);
    paths.cuts = calloc(problem->stages + (size_t)1, sizeof paths.cuts[0]);
    bool good = (paths.cells && paths.cuts) || error_no_memory(error, "a search");
    good = good && place_walk_create(&paths.walk, places, error) && find(&paths, rounds, path, error);
    free(paths.cells);
    free(paths.cuts);
    place_walk_clear(&paths.walk);
    return good;
}
