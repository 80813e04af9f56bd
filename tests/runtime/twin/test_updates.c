#include "runtime/twin/updates.h"

#include <string.h>

#include "runtime/ranks/weight_plan.h"
#include "schedules/generators/generate.h"
#include "tests/test.h"

static struct schedule *generated(const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, ranks, 0, micro_batches, &error);
    assert_good(schedule, error);
    return schedule;
}

static struct schedule *read(const char *document)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_read(document, strlen(document), "test", &error);
    assert_good(schedule, error);
    return schedule;
}

static struct updates opened(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct updates updates;
    assert_good(updates_open(&updates, schedule, SHARD_NONE, &error), error);
    return updates;
}

// PipeDream: stage s of p is p - s updates behind, once the pipeline is full.
static void stashed_weights_are_as_old_as_the_pipeline_is_long(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 5; p++) {
        struct schedule *schedule = generated("pipedream", p, 9);
        struct updates updates = opened(schedule);
        for (uint32_t s = 0; s < p; s++) {
            assert_int_equal(updates.stages[s].count, 9);
            for (uint32_t i = 0; i < 9; i++)
                assert_int_equal(updates_met(&updates, s, i), i + 1 > p - s ? i + 1 - (p - s) : 0);
        }
        assert_int_equal(schedule_samples(schedule), 1);
        updates_close(&updates);
        schedule_free(schedule);
    }
}

// 1F1B-RR: update t of a stage of r ranks takes micro-batches tr to tr + r - 1, one of each.
static void replicas_take_micro_batches_in_turns(void **state)
{
    (void)state;
    struct error error = { 0 };
    static const uint32_t replicas[] = { 2, 1, 3 };
    const struct generate_request request = { .ranks = 6, .micro_batches = 11, .chunks = 1, .replicas = replicas,
                                              .stages = 3 };
    struct schedule *schedule = schedule_generate_as("pipedream", &request, &error);
    assert_good(schedule, error);
    struct updates updates = opened(schedule);
    for (uint32_t s = 0; s < 3; s++) {
        const uint32_t r = replicas[s];
        assert_int_equal(updates.stages[s].sums, r);
        assert_int_equal(updates.stages[s].count, (11 + r - 1) / r);
        for (uint32_t i = 0; i < updates.stages[s].count * r; i++) {
            const struct update_part *part = &updates.stages[s].parts[i];  // update i / r, copy i % r
            assert_int_equal(part->count, i < 11);
            if (i < 11)
                assert_int_equal(part->micro_batches[0], i);
        }
    }
    assert_int_equal(schedule_samples(schedule), 1);
    updates_close(&updates);
    schedule_free(schedule);
}

// w(t + 1) = w(t) - rate * gradient at w(t - 1), where update t takes p micro-batches.
static void double_buffered_weights_are_one_update_old(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 5; p++) {
        struct schedule *schedule = generated("pipedream-2bw", p, 3 * p);
        struct updates updates = opened(schedule);
        for (uint32_t s = 0; s < p; s++) {
            assert_int_equal(updates.stages[s].count, 3);
            assert_int_equal(updates.stages[s].versions, 2);
            for (uint32_t i = 0; i < 3 * p; i++)
                assert_int_equal(updates_met(&updates, s, i), i / p > 0 ? i / p - 1 : 0);
        }
        assert_int_equal(schedule_samples(schedule), p);
        updates_close(&updates);
        schedule_free(schedule);
    }
}

static void a_flush_is_one_update_at_the_weights_it_began_with(void **state)
{
    (void)state;
    struct schedule *schedule = generated("1f1b", 3, 4);
    struct updates updates = opened(schedule);
    assert_int_equal(updates.step_count, 1);  // of all stages at once
    for (uint32_t s = 0; s < 3; s++) {
        assert_true(updates.steps[0].stages[s]);
        assert_int_equal(updates.stages[s].versions, 1);
        assert_int_equal(updates.stages[s].parts[0].count, 4);
    }
    assert_int_equal(schedule_samples(schedule), 4);
    updates_close(&updates);
    schedule_free(schedule);
}

static const char vertical_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"vertical\", \"weights\": \"vertical\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 4, \"routes\": [[0, 1]], \"route_of\": [0, 0, 0, 0], \"actions\": ["
    "  \"0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0F3 0B2 0STEP2 0B3 0STEP3\","
    "  \"1F0 1B0 1STEP0 1F1 1B1 1STEP1 1F2 1B2 1STEP2 1F3 1B3 1STEP3\"] }";

static void vertical_weights_are_those_of_stage_0(void **state)
{
    (void)state;
    static const uint32_t met[] = { 0, 0, 1, 2 };
    struct schedule *schedule = read(vertical_schedule);
    struct updates updates = opened(schedule);
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < 4; i++)
            assert_int_equal(updates_met(&updates, s, i), met[i]);
    updates_close(&updates);
    schedule_free(schedule);
}

// Two copies of each stage; stage 1 adds in another order than stage 0.
static const char copies_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"both ways\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 4, \"routes\": [[0, 1], [1, 0]], \"route_of\": [1, 0, 1, 0], \"actions\": ["
    "  \"0F1 0F3 1F0 1B0 1F2 1B2 0B3 0B1 0REDUCE 1REDUCE 0STEP 1STEP\","
    "  \"0F0 0F2 1F1 1F3 1B3 1B1 0B0 0B2 0REDUCE 1REDUCE 1STEP 0STEP\"] }";

static void copies_add_up_one_after_the_other_each_in_its_own_order(void **state)
{
    (void)state;
    static const uint32_t orders[2][2] = { { 3, 1 }, { 0, 2 } };  // by copy: of route 0, of route 1
    struct schedule *schedule = read(copies_schedule);
    struct updates updates = opened(schedule);
    for (uint32_t s = 0; s < 2; s++) {
        assert_int_equal(updates.stages[s].sums, 2);
        for (uint32_t copy = 0; copy < 2; copy++) {
            assert_int_equal(updates.stages[s].parts[copy].count, 2);
            assert_memory_equal(updates.stages[s].parts[copy].micro_batches, orders[copy], sizeof orders[copy]);
        }
    }
    assert_int_equal(schedule_samples(schedule), 4);
    updates_close(&updates);
    schedule_free(schedule);
}

static void parts_of_a_sequence_are_one_micro_batch(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct updates updates;
    struct schedule *schedule = schedule_generate("seq1f1b", 2, 1, 3, &error);
    assert_good(schedule, error);
    assert_good(updates_open(&updates, schedule, SHARD_NONE, &error), error);
    assert_int_equal(updates.step_count, 1);
    for (uint32_t stage = 0; stage < 2; stage++) {
        assert_int_equal(updates.stages[stage].parts[0].count, 3);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(updates.stages[stage].parts[0].micro_batches[i], i);
    }
    updates_close(&updates);
    schedule_free(schedule);
}

// 0B0.1 0B1.1 0B0 0B1: the gradients of two micro-batches are added in turns.
static void parts_that_go_back_in_turns_have_no_twin(void **state)
{
    (void)state;
    static const char *const actions[] = { "0F0", "0F0.1", "0F1", "0F1.1", "0B0.1", "0B1.1", "0B0", "0B1", "0STEP" };
    struct error error = { 0 };
    struct schedule *schedule = schedule_create("turns", WEIGHTS_FLUSH, 1, 1, 2, &error);
    assert_good(schedule, error);
    assert_good(schedule_split(schedule, 2, &error), error);
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        struct action action;
        assert_good(action_parse(actions[i], strlen(actions[i]), &action, &error), error);
        assert_good(schedule_add(schedule, 0, action, &error), error);
    }
    struct updates updates;
    assert_false(updates_open(&updates, schedule, SHARD_NONE, &error));
    assert_error(error, "stage 0: the parts of a micro-batch's sequences do not go back one behind the other, and there"
                        " is no twin for that order");
    schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stashed_weights_are_as_old_as_the_pipeline_is_long),
        cmocka_unit_test(replicas_take_micro_batches_in_turns),
        cmocka_unit_test(double_buffered_weights_are_one_update_old),
        cmocka_unit_test(a_flush_is_one_update_at_the_weights_it_began_with),
        cmocka_unit_test(vertical_weights_are_those_of_stage_0),
        cmocka_unit_test(copies_add_up_one_after_the_other_each_in_its_own_order),
        cmocka_unit_test(parts_of_a_sequence_are_one_micro_batch),
        cmocka_unit_test(parts_that_go_back_in_turns_have_no_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
