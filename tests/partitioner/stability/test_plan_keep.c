#include "partitioner/plan_search.h"
#include "partitioner/stability/plan_keep.h"

#include <string.h>

#include "partitioner/evaluate/handmade.h"
#include "partitioner/evaluate/reprice.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small.h"

// The best cut is 2,2: 100 us of work on each rank. 1,3 and 3,1 are worse.
static const struct small_layer rows[] = {
    { .forward = 10000, .backward = 20000, .parameters = 2 }, { .forward = 20000, .backward = 50000, .parameters = 2 },
    { .forward = 20000, .backward = 30000, .parameters = 2 }, { .forward = 20000, .backward = 30000, .parameters = 2 },
};

struct world {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
};

static struct world create(void)
{
    struct error error = { 0 };
    struct world world = { .profile = small_chain(rows, sizeof rows / sizeof rows[0]) };
    world.cluster = cluster_uniform(2, 1 << 20, 10, 1000000000, &error);
    assert_good(world.cluster, error);
    world.request = (struct search_request){ .profile = world.profile, .cluster = world.cluster, .schedule = "1f1b",
                                             .ranks = 2, .micro_batches = 8 };
    resolve(&world.request);
    return world;
}

static void destroy(struct world *world)
{
    profile_free(world->profile);
    cluster_free(world->cluster);
}

static struct plan *found_by(const struct world *world)
{
    struct error error = { 0 };
    struct plan *plan = plan_search(&world->request, &error);
    assert_good(plan, error);
    return plan;
}

static struct plan *by_hand(const struct world *world, const char *cuts)
{
    struct error error = { 0 };
    struct plan *plan = handmade_count(cuts, NULL, &world->request, &error);
    assert_good(plan, error);
    return plan;
}

static struct keeping decide(const struct world *world, const struct plan *old, uint32_t gain_ppm, struct plan **plan)
{
    struct error error = { 0 };
    const struct error none = { 0 };
    struct keeping keeping;
    assert_good(plan_keep(old, "old.json", &world->request, gain_ppm, plan, &none, &keeping, &error), error);
    return keeping;
}

// The gain is of the old time: what just reaches it is kept, a millionth more is not.
static void a_plan_is_kept_up_to_the_gain(void **state)
{
    (void)state;
    struct world world = create();
    struct plan *old = by_hand(&world, "1,3"), *plan = found_by(&world);
    const uint64_t now = plan->iteration_ns;
    assert_true(now < old->iteration_ns);
    const uint32_t gain = (uint32_t)(1000000 * (old->iteration_ns - now) / old->iteration_ns);
    struct keeping keeping = decide(&world, old, gain + 1, &plan);
    assert_true(keeping.kept);
    assert_int_equal(keeping.old_ns, old->iteration_ns);
    assert_int_equal(keeping.new_ns, now);
    assert_true(plan_same_decision(plan, old));
    assert_int_equal(plan->certificate.lower_bound_ns, now);
    assert_false(plan->certificate.proved);
    assert_non_null(strstr(keeping.why, "old.json is kept: a new plan would take "));
    plan_free(plan);
    plan = found_by(&world);
    keeping = decide(&world, old, gain - 1, &plan);
    assert_false(keeping.kept);
    assert_int_equal(plan->iteration_ns, now);
    assert_non_null(strstr(keeping.why, "old.json is not kept: the new plan takes "));
    plan_free(plan);
    plan_free(old);
    destroy(&world);
}

static void the_same_plan_is_the_same_bytes(void **state)
{
    (void)state;
    struct world world = create();
    struct plan *old = found_by(&world), *plan = found_by(&world);
    struct text before = { 0 }, after = { 0 };
    plan_write(old, &before);
    const struct keeping keeping = decide(&world, old, 0, &plan);
    plan_write(plan, &after);
    assert_true(keeping.kept);
    assert_string_equal(before.data, after.data);
    text_clear(&before);
    text_clear(&after);
    plan_free(plan);
    plan_free(old);
    destroy(&world);
}

// Times changed: the old decision has new numbers.
static void a_kept_plan_has_the_new_numbers(void **state)
{
    (void)state;
    struct world world = create();
    struct plan *old = found_by(&world);
    struct error error = { 0 };
    world.profile->layers[0].forward_ns += 300;
    assert_good(profile_rehash(world.profile, &error), error);
    struct plan *plan = found_by(&world);
    const struct keeping keeping = decide(&world, old, 20000, &plan);
    assert_true(keeping.kept);
    assert_true(plan_same_decision(plan, old));
    assert_int_equal(plan->stages[0].costs.forward_ns, old->stages[0].costs.forward_ns + 300);
    assert_string_equal(plan->profile_hash, world.profile->hash);
    plan_free(plan);
    plan_free(old);
    destroy(&world);
}

static void a_plan_that_does_not_fit_any_more_is_left(void **state)
{
    (void)state;
    struct world world = create();
    struct plan *old = by_hand(&world, "1,3");
    world.cluster->devices[1].memory_bytes = old->stages[1].memory.peak_bytes - 1;
    struct plan *plan = found_by(&world);
    const struct keeping keeping = decide(&world, old, 1000000, &plan);
    assert_false(keeping.kept);
    assert_int_equal(keeping.old_ns, 0);
    assert_non_null(strstr(keeping.why, "old.json is not kept: it does not fit any more, stage 1 needs "));
    assert_non_null(strstr(keeping.why, "(1 bytes) too little; a new plan is taken"));
    plan_free(plan);
    plan_free(old);
    destroy(&world);
}

static void a_plan_of_another_model_is_left(void **state)
{
    (void)state;
    struct world world = create();
    struct plan *old = found_by(&world);
    free(world.profile->layers[2].name);
    world.profile->layers[2].name = strdup("other");
    struct plan *plan = found_by(&world);
    const struct keeping keeping = decide(&world, old, 1000000, &plan);
    assert_false(keeping.kept);
    assert_string_equal(keeping.why,
                        "old.json is not kept: the profile has no layer \"l2\", which the plan has on stage 1;"
                        " a new plan is taken");
    plan_free(plan);
    plan_free(old);
    destroy(&world);
}

// Without a new plan the old one stays if it can; if it cannot, the search's reason is the answer.
static void without_a_new_plan_the_old_one_stays_if_it_can(void **state)
{
    (void)state;
    struct world world = create();
    struct plan *old = found_by(&world), *plan = NULL;
    struct error error = { 0 }, none = { .kind = ERROR_ANSWER, .text = "no plan was found" };
    struct keeping keeping;
    assert_good(plan_keep(old, "old.json", &world.request, 20000, &plan, &none, &keeping, &error), error);
    assert_true(keeping.kept);
    assert_int_equal(plan->certificate.lower_bound_ns, 0);
    assert_non_null(strstr(keeping.why, "and the search found none"));
    plan_free(plan);
    plan = NULL;
    world.cluster->devices[0].memory_bytes = 1;
    assert_false(plan_keep(old, "old.json", &world.request, 20000, &plan, &none, &keeping, &error));
    assert_error(error, "no plan was found");
    assert_int_equal(error.kind, ERROR_ANSWER);
    plan_free(old);
    destroy(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_kept_up_to_the_gain),
        cmocka_unit_test(the_same_plan_is_the_same_bytes),
        cmocka_unit_test(a_kept_plan_has_the_new_numbers),
        cmocka_unit_test(a_plan_that_does_not_fit_any_more_is_left),
        cmocka_unit_test(a_plan_of_another_model_is_left),
        cmocka_unit_test(without_a_new_plan_the_old_one_stays_if_it_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
