// Capacities are sorted by what they drop, as plain loops count it; and profiles that cannot be compared are refused.
#include "partitioner/experts/expert_capacities.h"

#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "profiler/expert_routing.h"
#include "tests/test.h"

enum { BATCHES = 5, EXPERTS = 4, PAIRS = 24, LAYERS = 2 };

struct made {
    struct profile profile;
    struct profile_routing routing;
    struct layer_routing layers[LAYERS];
    uint32_t counts[LAYERS][BATCHES * EXPERTS];
};

static void make(struct made *made, char *model, uint64_t capacity, uint64_t seed)
{
    *made = (struct made){ .profile = { .model = model, .dtype = "fp32", .micro_batch = 4, .routing = &made->routing },
                           .routing = { .data = "d", .seed = 1, .batches = BATCHES, .layers = made->layers,
                                        .layer_count = LAYERS } };
    for (int l = 0; l < LAYERS; l++) {
        made->layers[l] = (struct layer_routing){ .experts = EXPERTS, .top = 2, .pairs = PAIRS, .capacity = capacity,
                                                  .counts = made->counts[l] };
        for (int b = 0; b < BATCHES; b++)
            for (int pair = 0; pair < PAIRS; pair++)
                made->counts[l][b * EXPERTS + (int)random_below(&seed, EXPERTS)]++;
    }
}

static uint64_t dropped(const struct made *made)
{
    uint64_t sum = 0;
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < BATCHES * EXPERTS; i++)
            for (uint64_t n = made->layers[l].capacity; n > 0 && n < made->counts[l][i]; n++)
                sum++;
    return sum;
}

static void capacities_are_sorted_by_what_they_drop(void **state)
{
    (void)state;
    static char *models[] = { "moe,capacity=1,top=2", "moe,top=2", "moe,capacity=2,top=2",
                              "moe,top=2,capacity=dropless", "capacity=3,moe,top=2" };
    static const uint64_t capacities[] = { 6, 8, 12, 0, 18 };
    for (uint64_t seed = 1; seed < 50; seed++) {
        struct made made[5];
        struct capacity_choice choices[5];
        struct error error = { 0 };
        for (int i = 0; i < 5; i++) {
            make(&made[i], models[(i + seed) % 5], capacities[(i + seed) % 5], seed);
            choices[i] = (struct capacity_choice){ .profile = &made[i].profile, .file = "f" };
        }
        assert_good(expert_capacities_sort(choices, 5, &error), error);
        assert_string_equal(choices[0].profile->model, "moe,top=2,capacity=dropless");
        for (int i = 0; i < 5; i++) {
            const struct made *of = (const struct made *)(const void *)choices[i].profile;
            assert_int_equal(choices[i].dropped_ppm, 1000000 * dropped(of) / (LAYERS * BATCHES * PAIRS));
            assert_true(i == 0 || choices[i - 1].dropped_ppm <= choices[i].dropped_ppm);
        }
        // The larger capacity comes first if several drop nothing.
        for (int i = 2; i < 5; i++)
            assert_true(choices[i].profile->routing->layers[0].capacity
                        < choices[i - 1].profile->routing->layers[0].capacity);
    }
}

static void refuse(struct made made[2], const char *sentence)
{
    struct error error = { 0 };
    struct capacity_choice choices[] = { { &made[0].profile, "a.json", 0 }, { &made[1].profile, "b.json", 0 } };
    assert_false(expert_capacities_sort(choices, 2, &error));
    assert_error(error, sentence);
}

static void what_cannot_be_compared_is_refused(void **state)
{
    (void)state;
    struct made made[2];
    make(&made[0], "moe,capacity=1", 6, 1);
    make(&made[1], "moe,top=1", 6, 1);
    refuse(made, "b.json: is of another model than a.json, and not only of another capacity");
    make(&made[1], "moe,capacity=2,top=1", 6, 1);
    refuse(made, "b.json: is of another model than a.json, and not only of another capacity");
    make(&made[1], "moe,capacity=1", 6, 1);
    refuse(made, "b.json: is of the same capacity as a.json");
    make(&made[1], "moe,capacity=2", 6, 1);
    made[1].profile.micro_batch = 8;
    refuse(made, "b.json: is of another model than a.json, and not only of another capacity");
    made[1].profile.micro_batch = 4;
    made[1].routing.seed = 2;
    refuse(made, "b.json: its routing was counted by other data, weights or micro-batches than that of a.json");
    made[1].profile.routing = NULL;
    refuse(made, "b.json: has no routing of experts, by which capacities are compared: profile the model on a"
                 " text");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capacities_are_sorted_by_what_they_drop),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
    };
    return cmocka_run_group_tests_name("expert_capacities", tests, NULL, NULL);
}
