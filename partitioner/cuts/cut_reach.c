// Cuts that fit where hardly any do. Every stage takes as many layers as its device can hold, whatever they then
// recompute, or a few less. For each stage the furthest places at which it may end are kept, and from which place
// each is reached:
//
//     stage 0     0 -> 40, 39, 37              0 .. 40 is found by bisection, as if more layers always took more
//     stage 1     40 -> 71, 70; 39 -> 69; ...
//
// If the last stage reaches the end from any of them, there is a plan.
#include "partitioner/cuts/cut_search.h"

#include <stdlib.h>

enum { REACH_WIDTH = 6 };

struct reach {
    uint32_t end[REACH_WIDTH], from[REACH_WIDTH];  // the furthest first
    uint32_t count;
};

static bool fits(struct cut_problem *problem, const struct search_part *part, uint32_t stage, uint32_t from,
                 uint32_t to, bool *answer, struct error *error)
{
    *answer = stage_price_fixed(problem, stage, from, to) <= cut_capacity(problem, stage);
    if (!*answer || stage_price_surely_fits(problem, stage, from, to))
        return true;
    struct stage_price *price = stage_price_choices(problem, &problem->narrow, stage, from, to, error);
    const bool good = price && (part_is_over(problem->context, part) || stage_price_insist(problem, price, error));
    *answer = good && price->fits;
    return good;
}

// Finds the furthest end of a stage that begins at `from`; `from` itself if there is none.
static bool find_end(struct cut_problem *problem, const struct search_part *part, uint32_t stage, uint32_t from,
                     uint32_t *end, struct error *error)
{
    uint32_t beyond = problem->places->full - (problem->stages - 1 - stage) + 1;
    *end = from;
    while (beyond - *end > 1) {
        const uint32_t middle = *end + (beyond - *end) / 2;
        bool answer;
        if (!fits(problem, part, stage, from, middle, &answer, error))
            return false;
        *(answer ? end : &beyond) = middle;
    }
    return true;
}

static void add_end(struct reach *reach, uint32_t from, uint32_t end)
{
    uint32_t place = 0;
    while (place < reach->count && reach->end[place] > end)
        place++;
    if (place == REACH_WIDTH || (place < reach->count && reach->end[place] == end))
        return;
    for (uint32_t i = reach->count < REACH_WIDTH ? reach->count++ : REACH_WIDTH - 1; i > place; i--) {
        reach->end[i] = reach->end[i - 1];
        reach->from[i] = reach->from[i - 1];
    }
    reach->end[place] = end;
    reach->from[place] = from;
}

// Adds the ends of a stage that begins at `from`. The last stage takes all layers that are left.
static bool add_ends(struct cut_problem *problem, const struct search_part *part, uint32_t stage, uint32_t from,
                     struct reach *behind, struct error *error)
{
    const uint32_t full = problem->places->full;
    const bool is_last = stage + 1 == problem->stages;
    uint32_t end = full, left = REACH_WIDTH;
    if (!is_last && !find_end(problem, part, stage, from, &end, error))
        return false;
    for (; end > from && left > 0; end--) {
        bool answer = is_last || cut_may_end(problem, stage, end);
        if (answer && !fits(problem, part, stage, from, end, &answer, error))
            return false;
        if (answer)
            add_end(behind, from, end);
        left -= answer;
        if (is_last)
            return true;
    }
    return true;
}

bool cut_reach(struct cut_problem *problem, const struct search_part *part, uint32_t *cuts, bool *found,
               struct error *error)
{
    struct reach *reach = calloc(problem->stages + (size_t)1, sizeof reach[0]);
    bool good = reach || error_no_memory(error, "a search");
    if (good)
        reach[0].count = 1;
    for (uint32_t s = 0; good && s < problem->stages; s++)
        for (uint32_t i = 0; good && i < reach[s].count && !part_is_over(problem->context, part); i++)
            good = add_ends(problem, part, s, reach[s].end[i], &reach[s + 1], error);
    *found = good && reach[problem->stages].count > 0;
    uint32_t end = cuts[problem->stages] = *found ? problem->places->full : 0;
    for (uint32_t s = *found ? problem->stages : 0; s-- > 0;) {
        uint32_t i = 0;
        while (reach[s + 1].end[i] != end)
            i++;
        end = cuts[s] = reach[s + 1].from[i];
    }
    free(reach);
    return good;
}
