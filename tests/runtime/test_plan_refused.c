// Plans that the runtime cannot follow.
#include "runtime/pipeline.h"

#include <string.h>

#include "tests/test.h"

static void an_order_that_is_not_the_models_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct plan *plan = plan_create(1, &error);
    struct device *device = device_open("cpu", &error);
    assert_good(plan && device, error);
    const struct weir_layer layers[] = { { .name = "a" }, { .name = "b" } };
    plan->order = calloc(2, sizeof plan->order[0]);
    plan->stages[0].layers = calloc(2, sizeof plan->stages[0].layers[0]);
    assert_true(plan->order && plan->stages[0].layers);
    plan->order[0] = 1;
    plan->stages[0].end = 2;
    plan->stages[0].layers[0] = strdup("b");
    plan->stages[0].layers[1] = strdup("a");
    assert_null(pipeline_create(plan, layers, 2, device, 1, &(struct session_settings){ 0 }, &error));
    assert_error(error, "the plan has layer \"b\" in front of \"a\", which it reads: the plan is of another model");
    plan_free(plan);
    device_close(device);
}

// A schedule of one rank that updates between micro-batches.
static void parts_of_a_sequence_meet_the_same_weights(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *layers[] = { "a" };
    struct plan_stage stage = { .first = 0, .end = 1, .layers = layers };
    const struct plan plan = { .stages = &stage, .stage_count = 1 };
    struct schedule *schedule = schedule_create("drifting", WEIGHTS_STASH, 1, 1, 1, &error);
    struct device *device = device_open("cpu", &error);
    assert_good(schedule && device && schedule_split(schedule, 2, &error), error);
    const struct weir_layer layer = { .name = "a" };
    assert_null(pipeline_create_on(schedule, &plan, &layer, 1, device, &(struct session_settings){ 0 }, &error));
    assert_error(error, "the schedule passes each sequence through in 2 splits and updates weights without a flush:"
                        " splits of one sequence may meet different weights; let it flush, or leave sequences whole");
    schedule_free(schedule);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_that_is_not_the_models_is_refused),
        cmocka_unit_test(parts_of_a_sequence_meet_the_same_weights),
    };
    return cmocka_run_group_tests_name("plan_refused", tests, NULL, NULL);
}
