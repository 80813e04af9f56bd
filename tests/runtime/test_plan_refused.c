// Plans that the runtime cannot follow.
#include "runtime/pipeline.h"

#include "tests/test.h"

static void an_order_of_its_own_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct plan *plan = plan_create(1, &error);
    struct device *device = device_open("cpu", &error);
    assert_good(plan && device, error);
    plan->order = calloc(1, sizeof plan->order[0]);
    const struct weir_layer layer = { .name = "a" };
    assert_null(pipeline_create(plan, &layer, 1, device, 1, &(struct session_settings){ 0 }, &error));
    assert_error(error, "the plan's stages hold the layers in an order of their own, and layers that are run stand in a"
                        " chain, each reading from the one before: partition the model's own profile");
    plan_free(plan);
    device_close(device);
}

static void states_that_are_not_plainly_on_the_device_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct plan *plan = plan_create(1, &error);
    struct device *device = device_open("cpu", &error);
    assert_good(plan && device, error);
    plan->holding.shard = SHARD_OPTIMIZER;
    const struct weir_layer layer = { .name = "a" };
    assert_null(pipeline_create(plan, &layer, 1, device, 1, &(struct session_settings){ 0 }, &error));
    assert_error(error, "the plan shards its optimizer over replicas, which is planned but not run; plan without");
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
        cmocka_unit_test(an_order_of_its_own_is_refused),
        cmocka_unit_test(states_that_are_not_plainly_on_the_device_are_refused),
        cmocka_unit_test(parts_of_a_sequence_meet_the_same_weights),
    };
    return cmocka_run_group_tests_name("plan_refused", tests, NULL, NULL);
}
