#include "partitioner/search/search_tables.h"

#include <stdlib.h>
#include <string.h>

static size_t cells_of(const struct tables *tables)
{
    return ((size_t)tables->ranks + 1) * ((size_t)tables->layers + 1);
}

bool tables_create(struct tables *tables, const struct problem *problem, struct error *error)
{
    *tables = (struct tables){ .layers = problem->layers, .ranks = problem->ranks };
    uint64_t **all[] = { &tables->before, &tables->head, &tables->extra,  &tables->doubled,
                         &tables->behind, &tables->tail, &tables->family, &tables->slowest };
    bool good = true;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        *all[i] = malloc(cells_of(tables) * sizeof **all[i]);
        good &= *all[i] != NULL;
    }
    tables->is_closed = calloc(cells_of(tables), sizeof tables->is_closed[0]);
    good &= tables->is_closed != NULL;
    if (problem->pattern.is_drained) {
        tables->fronts = calloc(cells_of(tables), sizeof tables->fronts[0]);
        good &= tables->fronts != NULL;
    }
    if (good)
        return true;
    tables_clear(tables);
    return error_no_memory(error, "a search");
}

void tables_clear(struct tables *tables)
{
    for (size_t i = 0; tables->fronts && i < cells_of(tables); i++)
        free(tables->fronts[i].at);
    free(tables->fronts);
    free(tables->before);
    free(tables->head);
    free(tables->extra);
    free(tables->doubled);
    free(tables->behind);
    free(tables->tail);
    free(tables->family);
    free(tables->slowest);
    free(tables->is_closed);
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

bool tables_can_end(const struct problem *problem, uint32_t stage, uint32_t end)
{
    return problem_may_begin(problem, stage + 1, end);
}

// --- fronts -----------------------------------------------------------------------

// The largest of times so far and a stage's.
static struct extreme extreme_of(struct extreme so_far, const struct pattern_stage *stage)
{
    return (struct extreme){
        larger(so_far.forward, larger(stage->forward_ns, stage->forward_busy_ns)),
        larger(so_far.backward, larger(stage->backward_ns, stage->backward_busy_ns)),
    };
}

// Adds a point to a front unless another is no worse in both; removes what it beats.
static bool add_point(struct front *front, struct extreme point)
{
    size_t at = 0;
    while (at < front->count && front->at[at].forward < point.forward)
        at++;
    if ((at > 0 && front->at[at - 1].backward <= point.backward)
        || (at < front->count && front->at[at].forward == point.forward && front->at[at].backward <= point.backward))
        return true;
    size_t beaten = at;
    while (beaten < front->count && front->at[beaten].backward >= point.backward)
        beaten++;
    if (beaten == at) {
        if ((front->count & (front->count + 1)) == 0) {  // full at 0, 1, 3, 7, ...
            struct extreme *grown = realloc(front->at, (2 * front->count + 1) * sizeof *grown);
            if (!grown)
                return false;
            front->at = grown;
        }
        memmove(&front->at[at + 1], &front->at[at], (front->count - at) * sizeof front->at[0]);
        front->count++;
    } else {
        memmove(&front->at[at + 1], &front->at[beaten], (front->count - beaten) * sizeof front->at[0]);
        front->count -= beaten - at - 1;
    }
    front->at[at] = point;
    return true;
}

static bool extend_front(struct front *to, const struct front *from, const struct pattern_stage *stage)
{
    bool good = true;
    for (size_t i = 0; good && i < from->count; i++)
        good = add_point(to, extreme_of(from->at[i], stage));
    return good;
}

// The least sum of both over a front that is at least `least` in each.
static uint64_t least_sum(const struct front *front, struct extreme least)
{
    uint64_t sum = NO_WAY;
    for (size_t i = 0; i < front->count; i++)
        sum = smaller(sum, larger(front->at[i].forward, least.forward) + larger(front->at[i].backward, least.backward));
    return sum;
}

static void clear_fronts(struct tables *tables)
{
    for (size_t i = 0; tables->fronts && i < cells_of(tables); i++) {
        free(tables->fronts[i].at);
        tables->fronts[i] = (struct front){ 0 };
    }
}

// --- edges --------------------------------------------------------------------------

static void bound_edge(const struct tables *tables, const struct problem *problem, uint32_t s, uint32_t first,
                       uint32_t end, uint64_t recompute_ns, struct table_edge *edge)
{
    edge->stage = problem_stage(problem, s, first, end, recompute_ns);
    edge->round = pattern_round_ns(&edge->stage);
    edge->way = edge->round - edge->stage.forward_ns - edge->stage.backward_ns;
    edge->before = tables->before[table_cell(tables, s, first)];
    edge->behind = tables->behind[table_cell(tables, s + 1, end)];
    edge->bound = NO_WAY;
    if (edge->before != NO_WAY && edge->behind != NO_WAY)
        edge->bound = pattern_stage_bound(&problem->pattern, s, &edge->stage, edge->before, edge->way + edge->behind);
}

bool tables_edge(const struct tables *tables, const struct problem *problem, uint32_t s, uint32_t first, uint32_t end,
                 struct table_edge *edge)
{
    const uint64_t recompute = problem_recompute_ns(problem, s, first, end);
    if (recompute != NO_WAY)
        bound_edge(tables, problem, s, first, end, recompute, edge);
    return recompute != NO_WAY;
}

bool tables_is_too_long(const struct problem *problem, uint32_t s, uint32_t first, uint32_t end, uint64_t limit)
{
    if (limit == NO_WAY)
        return false;
    const struct pattern_stage stage = problem_stage(problem, s, first, end, 0);
    return (stage.forward_ns + stage.backward_ns) * problem->pattern.counted >= limit;
}

// --- from the last stage up -----------------------------------------------------------

static void begin_behind(struct tables *tables)
{
    for (size_t i = 0; i < cells_of(tables); i++)
        tables->behind[i] = tables->tail[i] = tables->family[i] = tables->slowest[i] = NO_WAY;
    const size_t last = table_cell(tables, tables->ranks, tables->layers);
    tables->behind[last] = tables->tail[last] = tables->family[last] = tables->slowest[last] = 0;
}

static void use_edge_behind(struct tables *tables, const struct problem *problem, uint32_t s, uint32_t first,
                            uint32_t end, const struct table_edge *edge)
{
    const size_t to = table_cell(tables, s, first), from = table_cell(tables, s + 1, end);
    if (tables->is_closed[from])
        return;
    const uint64_t work = edge->stage.forward_ns + edge->stage.backward_ns;
    const uint64_t family = larger(work * problem->pattern.counted, edge->round + tables->family[from]);
    tables->behind[to] = smaller(tables->behind[to], tables->behind[from] + edge->round);
    tables->tail[to] = smaller(tables->tail[to], larger(tables->tail[from], edge->bound));
    tables->family[to] = smaller(tables->family[to], family);
    tables->slowest[to] = smaller(tables->slowest[to], larger(tables->slowest[from], work));
}

static void fill_behind(struct tables *tables, struct problem *problem, uint64_t limit)
{
    begin_behind(tables);
    for (uint32_t s = problem->ranks; s-- > 0;) {
        for (uint32_t first = s; first < problem->layers && !problem_is_interrupted(problem); first++) {
            for (uint32_t end = first + 1; end <= problem->layers; end++) {
                if (tables_is_too_long(problem, s, first, end, limit))
                    break;
                if (!tables_can_end(problem, s, end) || tables->behind[table_cell(tables, s + 1, end)] == NO_WAY)
                    continue;
                struct table_edge edge;
                if (tables_edge(tables, problem, s, first, end, &edge) && (limit == NO_WAY || edge.bound < limit))
                    use_edge_behind(tables, problem, s, first, end, &edge);
            }
        }
    }
}

// --- from the first stage down ----------------------------------------------------------

static bool use_edge(struct tables *tables, const struct problem *problem, uint32_t s, uint32_t first, uint32_t end,
                     const struct table_edge *edge)
{
    const size_t from = table_cell(tables, s, first), to = table_cell(tables, s + 1, end);
    tables->before[to] = smaller(tables->before[to], tables->before[from] + edge->round);
    tables->head[to] = smaller(tables->head[to], larger(tables->head[from], edge->bound));
    const uint64_t extra = pattern_stage_extra(&problem->pattern, s, &edge->stage);
    tables->extra[to] = smaller(tables->extra[to], larger(tables->extra[from], extra));
    const uint64_t doubled = pattern_stage_doubled(&problem->pattern, s, &edge->stage, tables->before[from]);
    const uint64_t earlier = tables->doubled[from] > 0 ? tables->doubled[from] + 2 * edge->round : 0;
    tables->doubled[to] = smaller(tables->doubled[to], larger(earlier, doubled > 0 ? doubled + 2 * edge->way : 0));
    return !tables->fronts || extend_front(&tables->fronts[to], &tables->fronts[from], &edge->stage);
}

static bool visit_edge(struct tables *tables, struct problem *problem, uint32_t s, uint32_t first, uint32_t end,
                       uint64_t limit, uint64_t until, struct error *error)
{
    struct table_edge edge;
    if (tables->is_closed[table_cell(tables, s + 1, end)] || !tables_edge(tables, problem, s, first, end, &edge)
        || edge.bound >= limit)
        return true;
    if (problem->work < until && problem_recompute_ns(problem, s, first, end) > 0
        && !problem_known(problem, s, first, end) && !problem_must_stop(problem)) {
        if (!problem_least(problem, s, first, end, error))
            return false;
        if (!tables_edge(tables, problem, s, first, end, &edge) || edge.bound >= limit)
            return true;
    }
    return use_edge(tables, problem, s, first, end, &edge) || error_no_memory(error, "a search");
}

static bool begin_before(struct tables *tables)
{
    for (size_t i = 0; i < cells_of(tables); i++)
        tables->before[i] = tables->head[i] = tables->extra[i] = tables->doubled[i] = NO_WAY;
    tables->before[0] = tables->head[0] = tables->extra[0] = tables->doubled[0] = 0;
    clear_fronts(tables);
    return !tables->fronts || add_point(&tables->fronts[0], (struct extreme){ 0 });
}

static bool fill_before(struct tables *tables, struct problem *problem, uint64_t limit, uint64_t until,
                        struct error *error)
{
    if (!begin_before(tables))
        return error_no_memory(error, "a search");
    for (uint32_t s = 0; s < problem->ranks; s++) {
        for (uint32_t first = s; first < problem->layers && !problem_is_interrupted(problem); first++) {
            if (tables->before[table_cell(tables, s, first)] == NO_WAY)
                continue;
            problem->work += 1 + (problem->layers - first) / 16;
            for (uint32_t end = first + 1; end <= problem->layers; end++) {
                if (tables_is_too_long(problem, s, first, end, limit))
                    break;
                if (tables_can_end(problem, s, end) && !visit_edge(tables, problem, s, first, end, limit, until, error))
                    return false;
            }
        }
    }
    return true;
}

bool tables_fill(struct tables *tables, struct problem *problem, uint64_t limit_ns, uint64_t until, struct error *error)
{
    memset(tables->before, 0, cells_of(tables) * sizeof tables->before[0]);
    fill_behind(tables, problem, NO_WAY);
    if (!fill_before(tables, problem, limit_ns, until, error))
        return false;
    if (limit_ns == NO_WAY)
        return true;
    fill_behind(tables, problem, limit_ns);
    return fill_before(tables, problem, limit_ns, until, error);
}

// --- asking -----------------------------------------------------------------------------

struct known known_with(struct known known, const struct pattern_stage *stage)
{
    return (struct known){ known.rounds + pattern_round_ns(stage), extreme_of(known.slowest, stage) };
}

uint64_t tables_bound_before(const struct tables *tables, const struct problem *problem, uint32_t k, uint32_t first,
                             const struct pattern_stage *stage, struct known known)
{
    const size_t cell = table_cell(tables, k, first);
    const uint64_t before = tables->before[cell];
    if (before == NO_WAY)
        return NO_WAY;
    const uint64_t round = pattern_round_ns(stage), way = round - stage->forward_ns - stage->backward_ns;
    const uint64_t own = pattern_stage_bound(&problem->pattern, k, stage, before, way + known.rounds);
    const uint64_t all = before + round + known.rounds;
    uint64_t bound = larger(larger(own, tables->head[cell]), all + tables->extra[cell]);
    if (tables->doubled[cell] > 0)
        bound = larger(bound, tables->doubled[cell] + 2 * (round + known.rounds));
    if (tables->fronts)
        bound = larger(bound, all + (problem->micro_batches - 1)
                                        * least_sum(&tables->fronts[cell], extreme_of(known.slowest, stage)));
    return bound;
}

uint64_t tables_bound_behind(const struct tables *tables, const struct problem *problem, uint32_t k, uint32_t end,
                             const struct pattern_stage *stage, struct known known)
{
    const size_t cell = table_cell(tables, k + 1, end);
    const uint64_t behind = tables->behind[cell];
    if (behind == NO_WAY)
        return NO_WAY;
    const uint64_t round = pattern_round_ns(stage), way = round - stage->forward_ns - stage->backward_ns;
    const uint64_t own = pattern_stage_bound(&problem->pattern, k, stage, known.rounds, way + behind);
    uint64_t bound = larger(larger(own, tables->tail[cell]), known.rounds + round + tables->family[cell]);
    if (tables->fronts) {
        const struct extreme slowest = extreme_of(known.slowest, stage);
        bound = larger(bound, known.rounds + round + behind
                                  + (problem->micro_batches - 1) * (slowest.forward + slowest.backward));
    }
    return bound;
}
