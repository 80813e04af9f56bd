// Stages with the least largest load against a dynamic program that leaves nothing out.

#include "partitioner/objectives/cover.h"

#include <math.h>

#include "tests/test.h"

enum { MOST_NODES = 14, MOST_MACHINES = 6 };

// Loads that grow with a stage but for a toll at its beginning; memory that depends on
// the machines that come later.
struct world {
    struct downsets *downsets;
    uint64_t *work, *bytes;
    uint64_t toll[1 << MOST_NODES];
    uint32_t machines, most_replicas;
    bool may_use_fewer;
    uint64_t memory_bytes;  // 0: plenty
};

static bool is_within(const struct downsets *downsets, size_t inner, size_t outer)
{
    return downsets_within(downsets_set(downsets, inner), downsets_set(downsets, outer), downsets->words);
}

static double load_of(const struct world *world, uint32_t inner, uint32_t outer, uint32_t replicas)
{
    const double work = (double)(world->work[outer] - world->work[inner]);
    const double bytes = (double)(world->bytes[outer] - world->bytes[inner]);
    return work / replicas + bytes * (replicas - 1) / replicas / replicas + (double)world->toll[inner] / replicas;
}

static bool fits(const struct world *world, uint32_t inner, uint32_t outer, uint32_t replicas, uint32_t later)
{
    const uint64_t bytes = world->bytes[outer] - world->bytes[inner];
    return world->memory_bytes == 0 || bytes * ((later + replicas - 1) / replicas) <= world->memory_bytes;
}

static double fill_loads(void *self, uint32_t inner, uint32_t outer, uint32_t most, double below, double *loads)
{
    (void)below;
    const struct world *world = self;
    for (uint32_t r = 1; r <= most; r++)
        loads[r] = load_of(world, inner, outer, r);
    return (double)(world->work[outer] - world->work[inner]) / world->most_replicas;
}

static double refine(void *self, uint32_t inner, uint32_t outer, uint32_t replicas, uint32_t later, double load,
                     double below)
{
    (void)below;
    return fits(self, inner, outer, replicas, later) ? load : INFINITY;
}

// best[outer][later], over all pairs.
static double try_all(const struct world *world)
{
    const struct downsets *downsets = world->downsets;
    const uint32_t count = (uint32_t)downsets->count, width = world->machines + 1;
    double *best = malloc(count * width * sizeof best[0]);
    assert_non_null(best);
    for (size_t i = 0; i < (size_t)count * width; i++)
        best[i] = INFINITY;
    best[(count - 1) * width] = 0;
    for (uint32_t outer = count; outer-- > 1;)
        for (uint32_t inner = 0; inner < outer; inner++)
            for (uint32_t r = 1; is_within(downsets, inner, outer) && r <= world->most_replicas; r++)
                for (uint32_t later = 0; later + r < width; later++)
                    if (fits(world, inner, outer, r, later)) {
                        const double value = fmax(best[outer * width + later], load_of(world, inner, outer, r));
                        best[inner * width + later + r] = fmin(best[inner * width + later + r], value);
                    }
    double least = best[world->machines];
    for (uint32_t m = 1; world->may_use_fewer && m < width; m++)
        least = fmin(least, best[m]);
    free(best);
    return least;
}

// What a plan is worth, or INFINITY if it is none.
static double value_of(const struct world *world, const struct cover *cover)
{
    const uint32_t all = (uint32_t)world->downsets->count - 1;
    uint32_t machines = 0, inner = 0;
    double value = 0;
    for (size_t s = 0; s < cover->stage_count; s++)
        machines += cover->stages[s].replicas;
    bool is_plan = machines == world->machines || (world->may_use_fewer && machines < world->machines);
    for (size_t s = 0; s < cover->stage_count; s++) {
        const struct cover_stage stage = cover->stages[s];
        machines -= stage.replicas;
        is_plan &= stage.downset != inner && is_within(world->downsets, inner, stage.downset)
                && stage.replicas <= world->most_replicas
                && fits(world, inner, stage.downset, stage.replicas, machines);
        value = fmax(value, load_of(world, inner, stage.downset, stage.replicas));
        inner = stage.downset;
    }
    return is_plan && inner == all ? value : INFINITY;
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
    world->machines = 1 + (uint32_t)random_below(seed, MOST_MACHINES);
    world->most_replicas = random_below(seed, 4) == 0 ? 1 : world->machines;
    world->may_use_fewer = random_below(seed, 2);
    world->memory_bytes = random_below(seed, 3) == 0 ? 500 + random_below(seed, 5000) : 0;
}

static struct cover_problem problem_of(struct world *world)
{
    return (struct cover_problem){ .downsets = world->downsets,
                                   .work = world->work,
                                   .share = 1,
                                   .machines = world->machines,
                                   .most_replicas = world->most_replicas,
                                   .may_use_fewer = world->may_use_fewer,
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

// Graphs of up to some thousand downsets, so that both ways of meeting pairs are taken.
static void nothing_is_better_than_what_is_found(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(150, 1500);
    static struct world world;
    size_t large = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        make_world(&world, &seed);
        if (world.downsets->count > 1500) {
            clear_world(&world);
            continue;
        }
        large += world.downsets->count > 300;
        const struct cover_problem problem = problem_of(&world);
        struct cover cover;
        struct error error = { 0 };
        assert_good(cover_search(&problem, &cover, &error), error);
        const double least = try_all(&world);
        assert_true(cover.is_complete);
        if (cover.value != least || (cover.stages ? value_of(&world, &cover) != least : least < INFINITY))
            fail_msg("trial %llu: %.17g, not %.17g", (unsigned long long)trial, cover.value, least);
        assert_true(cover.lower_bound == least);
        cover_clear(&cover);
        clear_world(&world);
    }
    assert_true(large > trials / 20);
}

static void nothing_is_found_below_the_best(void **state)
{
    (void)state;
    static struct world world;
    for (uint64_t trial = 0; trial < 50; trial++) {
        uint64_t seed = trial;
        make_world(&world, &seed);
        struct cover_problem problem = problem_of(&world);
        struct cover best, none;
        struct error error = { 0 };
        assert_good(cover_search(&problem, &best, &error), error);
        problem.below = best.value;
        assert_good(cover_search(&problem, &none, &error), error);
        if (best.stages && (none.stages || !none.is_complete || none.lower_bound != best.value))
            fail_msg("trial %llu: something was below %.17g", (unsigned long long)trial, best.value);
        cover_clear(&best);
        cover_clear(&none);
        clear_world(&world);
    }
}

static void a_budget_ends_it_with_a_bound(void **state)
{
    (void)state;
    static struct world world;
    uint64_t seed = 0;
    make_world(&world, &seed);
    while (world.downsets->count < 300 || world.machines < 3) {
        clear_world(&world);
        make_world(&world, &seed);
    }
    struct cover_problem problem = problem_of(&world);
    problem.may_use_fewer = true;
    world.may_use_fewer = true;
    problem.budget = 50;
    struct cover cover;
    struct error error = { 0 };
    assert_good(cover_search(&problem, &cover, &error), error);
    assert_false(cover.is_complete);
    assert_true(cover.lower_bound <= try_all(&world));
    cover_clear(&cover);
    clear_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_better_than_what_is_found),
        cmocka_unit_test(nothing_is_found_below_the_best),
        cmocka_unit_test(a_budget_ends_it_with_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
