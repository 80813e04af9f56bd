// Stages with the least largest load against a dynamic program that leaves nothing out.

#include "partitioner/objectives/minimax.h"

#include <math.h>

#include "tests/test.h"

enum { MOST_NODES = 14, MOST_MACHINES = 6, MOST_WAYS = 2 * MOST_MACHINES + 1 };

// Loads that grow with a stage but for a toll at its beginning; memory that depends on
// the steps that come later. Ways without a cost are replicas on machines, of which all may
// have to be used; those with one are replicas of one or two machines, or a slow processor.
struct world {
    struct downsets *downsets;
    uint64_t *work, *bytes;
    uint64_t toll[1 << MOST_NODES];
    struct minimax_way ways[MOST_WAYS];
    size_t way_count;
    uint32_t most_steps, most_cost;
    double step_speed, cost_speed;
    bool takes_all_steps;
    uint64_t memory_bytes;  // 0: plenty
};

static bool is_within(const struct downsets *downsets, size_t inner, size_t outer)
{
    return downsets_within(downsets_set(downsets, inner), downsets_set(downsets, outer), downsets->words);
}

static double speed_of(const struct world *world, size_t way)
{
    return world->ways[way].steps * world->step_speed + world->ways[way].cost * world->cost_speed;
}

static double load_of(const struct world *world, uint32_t inner, uint32_t outer, size_t way)
{
    const double work = (double)(world->work[outer] - world->work[inner]);
    const double bytes = (double)(world->bytes[outer] - world->bytes[inner]);
    const uint32_t replicas = world->ways[way].steps ? world->ways[way].steps : 1;
    return work / speed_of(world, way) + bytes * (replicas - 1) / replicas / replicas
         + (double)world->toll[inner] / replicas;
}

static bool fits(const struct world *world, uint32_t inner, uint32_t outer, size_t way, uint32_t later)
{
    const uint64_t bytes = world->bytes[outer] - world->bytes[inner];
    const uint32_t replicas = world->ways[way].steps ? world->ways[way].steps : 1;
    return world->memory_bytes == 0 || bytes * ((later + replicas - 1) / replicas) <= world->memory_bytes;
}

static double fill_loads(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads)
{
    (void)below;
    const struct world *world = self;
    double fastest = 0;
    for (size_t w = 0; w < world->way_count; w++) {
        if (world->ways[w].steps <= most)
            loads[w] = load_of(world, inner, outer, w);
        fastest = fmax(fastest, speed_of(world, w));
    }
    return (double)(world->work[outer] - world->work[inner]) / fastest;
}

static double refine(void *self, uint32_t inner, uint32_t outer, size_t way, uint32_t later, double load, double below)
{
    (void)below;
    return fits(self, inner, outer, way, later) ? load : INFINITY;
}

// best[outer][steps][cost], over all pairs.
static double try_all(const struct world *world)
{
    const struct downsets *downsets = world->downsets;
    const uint32_t count = (uint32_t)downsets->count, costs = world->most_cost + 1;
    const uint32_t width = (world->most_steps + 1) * costs;
    double *best = malloc(count * width * sizeof best[0]);
    assert_non_null(best);
    for (size_t i = 0; i < (size_t)count * width; i++)
        best[i] = INFINITY;
    best[(count - 1) * width] = 0;
    for (uint32_t outer = count; outer-- > 1;)
        for (uint32_t inner = 0; inner < outer; inner++)
            for (size_t w = 0; is_within(downsets, inner, outer) && w < world->way_count; w++)
                for (uint32_t later = 0; later + world->ways[w].steps <= world->most_steps; later++)
                    for (uint32_t cost = 0; cost + world->ways[w].cost < costs; cost++)
                        if (fits(world, inner, outer, w, later)) {
                            const double value =
                                fmax(best[outer * width + later * costs + cost], load_of(world, inner, outer, w));
                            const size_t at = inner * width + (later + world->ways[w].steps) * costs + cost
                                            + world->ways[w].cost;
                            best[at] = fmin(best[at], value);
                        }
    double least = INFINITY;
    for (uint32_t i = world->takes_all_steps ? world->most_steps * costs : 0; i < width; i++)
        least = fmin(least, best[i]);
    free(best);
    return least;
}

// What a plan is worth, or INFINITY if it is none.
static double value_of(const struct world *world, const struct minimax *minimax)
{
    const uint32_t all = (uint32_t)world->downsets->count - 1;
    uint32_t steps = 0, cost = 0, inner = 0;
    double value = 0;
    for (size_t s = 0; s < minimax->stage_count; s++) {
        steps += world->ways[minimax->stages[s].way].steps;
        cost += world->ways[minimax->stages[s].way].cost;
    }
    bool is_plan =
        cost <= world->most_cost && (world->takes_all_steps ? steps == world->most_steps : steps <= world->most_steps);
    for (size_t s = 0; s < minimax->stage_count; s++) {
        const struct minimax_stage stage = minimax->stages[s];
        steps -= world->ways[stage.way].steps;
        is_plan &= stage.downset != inner && is_within(world->downsets, inner, stage.downset) && stage.later == steps
                && fits(world, inner, stage.downset, stage.way, steps);
        value = fmax(value, load_of(world, inner, stage.downset, stage.way));
        inner = stage.downset;
    }
    return is_plan && inner == all ? value : INFINITY;
}

static void make_ways(struct world *world, uint64_t *seed)
{
    const uint32_t machines = 1 + (uint32_t)random_below(seed, MOST_MACHINES);
    const uint32_t most = random_below(seed, 4) == 0 ? 1 : machines;
    const bool has_cost = random_below(seed, 2);
    world->way_count = 0;
    world->most_steps = machines;
    world->most_cost = has_cost ? machines : 0;
    world->cost_speed = has_cost ? 1 : 0;
    world->step_speed = has_cost ? 0 : 1;
    world->takes_all_steps = !has_cost && random_below(seed, 2);
    const uint32_t kind = has_cost ? (uint32_t)random_below(seed, 3) : 3;
    if (kind == 0) {  // on one machine each, or on one of few processors
        world->most_steps = (uint32_t)random_below(seed, 3);
        world->step_speed = 0.4;
        world->ways[world->way_count++] = (struct minimax_way){ 1, 0 };
        world->ways[world->way_count++] = (struct minimax_way){ 0, 1 };
        return;
    }
    for (uint32_t t = 1; t <= (kind == 1 ? 2 : 1); t++)
        for (uint32_t d = 1; d <= most && t * d <= machines; d++)
            world->ways[world->way_count++] = (struct minimax_way){ d, has_cost ? t * d : 0 };
}

static void make_world(struct world *world, uint64_t *seed)
{
    struct error error = { 0 };
    struct edge edges[MOST_NODES * MOST_NODES];
    uint64_t work[MOST_NODES], bytes[MOST_NODES];
    const size_t nodes = random_below(seed, 3) == 0 ? 2 + random_below(seed, MOST_NODES - 1) : MOST_NODES;
    struct downset_graph graph = { .node_count = nodes, .edges = edges };
    const uint64_t chance = 5 + random_below(seed, 30);
    for (uint32_t i = 0; i < nodes; i++) {
        work[i] = random_below(seed, 1000);
        bytes[i] = random_below(seed, 3) * random_below(seed, 1000);
        for (uint32_t j = i + 1; j < nodes; j++)
            if (random_below(seed, 100) < chance)
                edges[graph.edge_count++] = (struct edge){ i, j };
    }
    world->downsets = downsets_create(&graph, 0, &error);
    assert_good(world->downsets, error);
    world->work = downsets_sum(world->downsets, work, &error);
    world->bytes = downsets_sum(world->downsets, bytes, &error);
    assert_true(world->work && world->bytes);
    const uint64_t most_toll = random_below(seed, 2) * 500 + 1;
    for (size_t d = 0; d < world->downsets->count; d++)
        world->toll[d] = random_below(seed, most_toll);
    make_ways(world, seed);
    world->memory_bytes = random_below(seed, 3) == 0 ? 500 + random_below(seed, 5000) : 0;
}

static struct minimax_problem problem_of(struct world *world)
{
    return (struct minimax_problem){ .downsets = world->downsets,
                                     .work = world->work,
                                     .ways = { world->ways, world->way_count, world->most_steps, world->most_cost,
                                               world->takes_all_steps, world->step_speed, world->cost_speed },
                                     .loads = fill_loads,
                                     .refine = world->memory_bytes ? refine : NULL,
                                     .self = world,
                                     .below = INFINITY };
}

static void clear_world(struct world *world)
{
    downsets_free(world->downsets);
    free(world->work);
    free(world->bytes);
}

static void nothing_is_better_than_what_is_found(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(300, 3000);
    static struct world world;
    size_t large = 0, costly = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        make_world(&world, &seed);
        if (world.downsets->count > 1500) {
            clear_world(&world);
            continue;
        }
        large += world.downsets->count > 300;
        costly += world.most_cost > 1;
        const struct minimax_problem problem = problem_of(&world);
        struct minimax minimax;
        struct error error = { 0 };
        assert_good(minimax_search(&problem, &minimax, &error), error);
        const double least = try_all(&world);
        assert_true(minimax.is_complete);
        if (minimax.value != least || (minimax.stages ? value_of(&world, &minimax) != least : least < INFINITY))
            fail_msg("trial %llu: %.17g, not %.17g", (unsigned long long)trial, minimax.value, least);
        assert_true(minimax.lower_bound == least);
        minimax_clear(&minimax);
        clear_world(&world);
    }
    assert_true(large > trials / 20 && costly > trials / 4);
}

static void nothing_is_found_below_the_best(void **state)
{
    (void)state;
    static struct world world;
    for (uint64_t trial = 0; trial < 50; trial++) {
        uint64_t seed = trial;
        make_world(&world, &seed);
        struct minimax_problem problem = problem_of(&world);
        struct minimax best, none;
        struct error error = { 0 };
        assert_good(minimax_search(&problem, &best, &error), error);
        problem.below = best.value;
        assert_good(minimax_search(&problem, &none, &error), error);
        if (best.stages && (none.stages || !none.is_complete || none.lower_bound != best.value))
            fail_msg("trial %llu: something was below %.17g", (unsigned long long)trial, best.value);
        minimax_clear(&best);
        minimax_clear(&none);
        clear_world(&world);
    }
}

static void a_budget_ends_it_with_a_bound(void **state)
{
    (void)state;
    static struct world world;
    uint64_t seed = 0;
    make_world(&world, &seed);
    while (world.downsets->count < 300 || world.most_steps < 3) {
        clear_world(&world);
        make_world(&world, &seed);
    }
    world.takes_all_steps = false;
    struct minimax_problem problem = problem_of(&world);
    problem.budget = 50;
    struct minimax minimax;
    struct error error = { 0 };
    assert_good(minimax_search(&problem, &minimax, &error), error);
    assert_false(minimax.is_complete);
    assert_true(minimax.lower_bound <= try_all(&world));
    assert_true(!minimax.stages || value_of(&world, &minimax) <= minimax.value);
    world.memory_bytes = 0;  // one stage is a plan then, whatever there was time for
    problem.refine = NULL;
    problem.budget = 1;
    minimax_clear(&minimax);
    assert_good(minimax_search(&problem, &minimax, &error), error);
    assert_false(minimax.is_complete);
    assert_true(value_of(&world, &minimax) <= minimax.value && minimax.value < INFINITY);
    minimax_clear(&minimax);
    clear_world(&world);
}

// How many stages were priced before somebody was asked whether to end.
struct asked {
    uint64_t priced, before;
};

static double count_price(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads)
{
    (void)inner, (void)outer, (void)most, (void)below;
    ((struct asked *)self)->priced++;
    loads[0] = 13;
    return 0;
}

static bool end_at_once(void *self, double value, double lower_bound)
{
    struct asked *asked = self;
    (void)value, (void)lower_bound;
    asked->before = asked->before ? asked->before : asked->priced;
    return true;
}

static void it_can_be_ended_between_two_stages_behind_one_downset(void **state)
{
    (void)state;
    enum { NODES = 13 };  // that nothing joins: 8,192 downsets, all of them within the whole
    struct error error = { 0 };
    const struct downset_graph graph = { .node_count = NODES };
    struct downsets *downsets = downsets_create(&graph, 0, &error);
    assert_good(downsets, error);
    uint64_t value[NODES];
    for (size_t i = 0; i < NODES; i++)
        value[i] = 1;
    uint64_t *work = downsets_sum(downsets, value, &error);
    assert_good(work, error);
    struct asked asked = { 0 };
    const struct minimax_way way = { 1, 0 };
    const struct minimax_problem problem = { .downsets = downsets, .work = work, .self = &asked, .loads = count_price,
                                             .ways = { .list = &way, .count = 1, .most_steps = 4, .step_speed = 13 },
                                             .must_end = end_at_once, .ended_self = &asked, .below = INFINITY,
                                             .lower_bound = 10 };
    struct minimax minimax;
    assert_good(minimax_search(&problem, &minimax, &error), error);
    assert_false(minimax.is_complete);
    assert_in_range(asked.before, 1, 5000);
    minimax_clear(&minimax);
    free(work);
    downsets_free(downsets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_better_than_what_is_found),
        cmocka_unit_test(nothing_is_found_below_the_best),
        cmocka_unit_test(a_budget_ends_it_with_a_bound),
        cmocka_unit_test(it_can_be_ended_between_two_stages_behind_one_downset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
