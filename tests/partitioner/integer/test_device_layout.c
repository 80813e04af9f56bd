#include "partitioner/integer/device_layout.h"

#include "common/random.h"
#include "tests/partitioner/solver.h"
#include "tests/test.h"

static const struct integer_limits limits = { .seconds = 60, .memory_bytes = (uint64_t)2 << 30 };

enum { MOST_LAYERS = 7, MOST_DEVICES = 3, MOST_EDGES = MOST_LAYERS * MOST_LAYERS };

struct random_problem {
    struct layout_problem problem;
    uint64_t time_ns[MOST_LAYERS * MOST_DEVICES], bytes[MOST_LAYERS], capacity[MOST_DEVICES], transfer_ns[MOST_LAYERS];
    struct edge edges[MOST_EDGES], together[1];
    bool pays_nothing[MOST_DEVICES];
};

static void fill_times(uint64_t *seed, struct random_problem *random)
{
    const uint64_t unit = random_below(seed, 2) ? 1 : 1000003;
    for (uint32_t v = 0; v < random->problem.layers; v++) {
        const uint64_t time = unit * random_below(seed, 50);
        for (uint32_t d = 0; d < random->problem.devices; d++)
            random->time_ns[v * random->problem.devices + d] =
                d > 0 && random_below(seed, 9) == 0 ? LAYOUT_NEVER : time * (1 + d % 2);
        random->transfer_ns[v] = unit * random_below(seed, 20);
        random->bytes[v] = 1000 * random_below(seed, 100);
    }
}

static void make(uint64_t *seed, struct random_problem *random)
{
    random->problem = (struct layout_problem){
        .layers = 2 + (uint32_t)random_below(seed, MOST_LAYERS - 1),
        .devices = 1 + (uint32_t)random_below(seed, MOST_DEVICES),
        .time_ns = random->time_ns,
        .bytes = random->bytes,
        .capacity = random->capacity,
        .transfer_ns = random->transfer_ns,
        .pays_nothing = random->pays_nothing,
        .edges = random->edges,
    };
    struct layout_problem *problem = &random->problem;
    fill_times(seed, random);
    for (uint32_t u = 0; u < problem->layers; u++)
        for (uint32_t v = u + 1; v < problem->layers; v++)
            if (random_below(seed, 3) == 0 || v == u + 1)
                random->edges[problem->edge_count++] = (struct edge){ u, v };
    const bool is_roomy = random_below(seed, 2), is_free = random_below(seed, 3) == 0, all_pay = random_below(seed, 2);
    for (uint32_t d = 0; d < problem->devices; d++) {
        random->capacity[d] = is_roomy ? UINT64_MAX : 1000 * (100 + random_below(seed, 300));
        random->pays_nothing[d] = !all_pay && random_below(seed, 4) == 0;
    }
    for (uint32_t v = 0; is_free && v < problem->layers; v++)
        random->transfer_ns[v] = 0;
    if (random_below(seed, 3) == 0) {
        random->together[0] = (struct edge){ 0, problem->layers - 1 };
        problem->together = random->together;
        problem->together_count = 1;
    }
}

// All layouts; LAYOUT_NEVER if none keeps the rules.
static uint64_t least_of_all(const struct layout_problem *problem, uint32_t best[MOST_LAYERS])
{
    uint32_t device_of[MOST_LAYERS] = { 0 };
    uint64_t least = LAYOUT_NEVER;
    for (;;) {
        struct error error = { 0 };
        const uint64_t value = layout_value(problem, device_of, &error);
        if (value < least) {
            least = value;
            for (uint32_t v = 0; v < problem->layers; v++)
                best[v] = device_of[v];
        }
        uint32_t v = 0;
        while (v < problem->layers && device_of[v] + 1 == problem->devices)
            device_of[v++] = 0;
        if (v == problem->layers)
            return least;
        device_of[v]++;
    }
}

static void the_solver_finds_the_best_of_all_layouts(void **state)
{
    (void)state;
    need_solver();
    uint64_t seed = 41;
    uint32_t possible = 0, bounded = 0;
    for (uint64_t trial = 0; trial < test_all_trials(150, 3000); trial++) {
        struct random_problem random;
        make(&seed, &random);
        uint32_t best[MOST_LAYERS];
        const uint64_t least = least_of_all(&random.problem, best);
        struct device_layout layout;
        struct error error = { 0 };
        assert_good(layout_solve(&random.problem, NULL, limits, &layout, &error), error);
        if ((layout.device_of != NULL) != (least != LAYOUT_NEVER)
            || (layout.device_of && (layout.value_ns != least || layout.bound_ns > least)))
            fail_msg("trial %d: %s, %llu (bound %llu), not %llu", (int)trial, integer_status_names[layout.status],
                     (unsigned long long)layout.value_ns, (unsigned long long)layout.bound_ns,
                     (unsigned long long)least);
        possible += least != LAYOUT_NEVER;
        bounded += layout.bound_ns > 0;
        device_layout_clear(&layout);
        if (least == LAYOUT_NEVER)
            continue;
        assert_good(layout_solve(&random.problem, best, limits, &layout, &error), error);
        assert_int_equal(layout.value_ns, least);
        device_layout_clear(&layout);
    }
    assert_true(possible > 50 && bounded > 50);
}

static void a_layout_that_breaks_a_rule_is_told_by_it(void **state)
{
    (void)state;
    uint64_t time_ns[] = { 5, LAYOUT_NEVER, 7, 7, 2, 2 }, bytes[] = { 10, 20, 30 }, capacity[] = { 40, 40 };
    uint64_t transfer_ns[] = { 3, 1, 0 };
    bool pays_nothing[] = { true, false };
    struct edge edges[] = { { 0, 1 }, { 1, 2 } }, together[] = { { 0, 2 } };
    struct layout_problem problem = { .layers = 3, .devices = 2, .time_ns = time_ns, .bytes = bytes,
                                      .capacity = capacity, .transfer_ns = transfer_ns, .pays_nothing = pays_nothing,
                                      .edges = edges, .edge_count = 2 };
    struct error none = { 0 };
    assert_int_equal(layout_value(&problem, (uint32_t[]){ 0, 0, 1 }, &none), 12);
    assert_int_equal(layout_load(&problem, (uint32_t[]){ 0, 0, 1 }, 1), 2 + 1);
    const struct {
        uint32_t device_of[3];
        bool together;
        const char *sentence;
    } cases[] = {
        { { 1, 1, 1 }, false, "layer 0 cannot be on device 1" },
        { { 0, 1, 1 }, false, "device 1 holds 50 bytes and has 40" },
        { { 0, 0, 1 }, true, "layers 0 and 2 must be on one device" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem.together = together;
        problem.together_count = cases[i].together;
        struct error error = { 0 };
        assert_int_equal(layout_value(&problem, cases[i].device_of, &error), LAYOUT_NEVER);
        assert_error(error, cases[i].sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_solver_finds_the_best_of_all_layouts),
        cmocka_unit_test(a_layout_that_breaks_a_rule_is_told_by_it),
    };
    return cmocka_run_group_tests_name("device_layout", tests, NULL, NULL);
}
