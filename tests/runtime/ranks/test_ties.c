#include "runtime/ranks/ties.h"

#include <stdio.h>
#include <string.h>

#include "runtime/ranks/rank_status.h"
#include "schedules/generators/generate.h"
#include "tests/test.h"

enum { MOST = 8 };

// A schedule, and the stages that share the weights of layer 5.
struct world {
    struct schedule *schedule;
    struct placement *placement;
    struct stage stages[MOST];
    struct shared shared[MOST];
    struct ties ties;
};

struct row {
    const char *name, *schedule;
    uint32_t ranks, replicas[3];
    uint32_t stages[MOST], stage_count;
    const char *want;  // "ranks of those who bring something / of the others", or "alone", or an error
};

static void world_open(struct world *world, const struct row *row, struct error *error)
{
    const struct generate_request request = { .ranks = row->ranks, .micro_batches = 4,
                                              .replicas = row->replicas[0] ? row->replicas : NULL,
                                              .stages = row->replicas[0] ? 3 : 0 };
    *world = (struct world){ .schedule = schedule_generate_as(row->schedule, &request, error) };
    assert_good(world->schedule, *error);
    assert_true(world->schedule->stages <= MOST);
    world->placement = placement_read(world->schedule, error);
    assert_good(world->placement, *error);
    for (uint32_t i = 0; i < row->stage_count; i++) {
        const uint32_t stage = row->stages[i];
        world->shared[stage] = (struct shared){ 5, 64 * stage, 64 * stage + 10 };
        world->stages[stage].shared = &world->shared[stage];
        world->stages[stage].shared_count = 1;
    }
}

static void world_close(struct world *world)
{
    ties_close(&world->ties);
    placement_free(world->placement);
    schedule_free(world->schedule);
}

static void say(const struct ties *ties, char *text)
{
    const struct tie *tie = ties->at;
    if (ties->count != 1)
        sprintf(text, "%u ties", ties->count);
    else if (tie->is_local)
        strcpy(text, "alone");
    for (uint32_t i = 0; ties->count == 1 && i < tie->rank_count; i++)
        text += sprintf(text, "%s%u", i == 0 ? "" : i == tie->adders ? " / " : " ", tie->ranks[i]);
}

static struct row rows[] = {
    { "ties: two stages, each on a rank", "1f1b", 4, { 0 }, { 0, 3 }, 2, "0 3" },
    { "ties: three stages", "gpipe", 4, { 0 }, { 0, 1, 3 }, 3, "0 1 3" },
    { "ties: nobody shares", "1f1b", 4, { 0 }, { 0 }, 0, "0 ties" },
    { "ties: the first of several ranks brings it", "1f1b", 5, { 2, 1, 2 }, { 0, 2 }, 2, "0 3 / 1 4" },
    { "ties: both ends on one rank", "zb-v", 2, { 0 }, { 0, 3 }, 2, "alone" },
    { "ties: both ends on both ranks", "chimera", 2, { 0 }, { 0, 1 }, 2, "alone" },
    { "ties: some on a rank", "zb-v", 2, { 0 }, { 0, 1, 3 }, 3,
      "rank 0 holds 2 of the 3 stages whose layers are tied, and some rank holds 1: tied layers that are apart run on"
      " ranks that hold one of these stages each, or all; plan with them together" },
    { "ties: no flush", "pipedream", 2, { 0 }, { 0, 1 }, 2,
      "tied layers are on different stages, whose gradients are added up at a flush, which pipedream has not; plan with"
      " them together" },
};

static const struct optimizer plain;

static void who_adds_up_is_read_from_the_schedule(void **state)
{
    const struct row *row = *state;
    struct error error = { 0 };
    struct world world;
    char found[100] = "";
    world_open(&world, row, &error);
    if (ties_open(&world.ties, world.stages, world.schedule, world.placement, &plain, false, &error)) {
        say(&world.ties, found);
        assert_string_equal(found, row->want);
        for (uint32_t s = 0; s < world.schedule->stages; s++)
            assert_true(ties_have(&world.ties, s) == (world.stages[s].shared_count > 0));
        if (world.ties.count)
            assert_int_equal(tie_range(world.ties.at, &world.stages[row->stages[1]]).first, 64 * row->stages[1]);
    } else {
        assert_error(error, row->want);
        assert_int_equal(world.ties.count, 0);
    }
    world_close(&world);
}

// Ties of two keys, which every rank takes in one order.
static void ties_come_in_the_order_of_their_keys(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct row row = { .schedule = "1f1b", .ranks = 4 };
    static const struct shared first[] = { { 3, 0, 1 }, { 9, 1, 2 } }, second = { 9, 0, 1 }, third = { 3, 0, 1 };
    struct world world;
    world_open(&world, &row, &error);
    world.stages[0].shared = first, world.stages[0].shared_count = 2;
    world.stages[1].shared = &second, world.stages[1].shared_count = 1;
    world.stages[3].shared = &third, world.stages[3].shared_count = 1;
    assert_good(ties_open(&world.ties, world.stages, world.schedule, world.placement, &plain, false, &error), error);
    assert_int_equal(world.ties.count, 2);
    assert_int_equal(world.ties.at[0].key, 3);
    assert_int_equal(world.ties.at[0].ranks[1], 3);
    assert_int_equal(world.ties.at[1].key, 9);
    assert_int_equal(world.ties.at[1].ranks[1], 1);
    world_close(&world);
}

static void who_waits_in_a_step_waits_for_who_shares_its_weights(void **state)
{
    (void)state;
    struct error error = { 0 }, report = { 0 };
    const struct action steps[] = { { .kind = ACTION_STEP, .micro_batch = NO_MICRO_BATCH },
                                    { .stage = 3, .kind = ACTION_B, .micro_batch = 1 } };
    struct world world;
    struct rank_status status;
    world_open(&world, &rows[0], &error);
    assert_good(ties_open(&world.ties, world.stages, world.schedule, world.placement, &plain, false, &error), error);
    assert_good(rank_status_open(&status, world.schedule, world.placement, &world.ties, NULL, &error), error);
    rank_status_wait(&status, 0, steps[0]);
    rank_status_act(&status, 3, steps[1]);
    rank_status_report(&status, &report);
    assert_error(report, "rank 0 waits at 0STEP for the STEP of rank 3; rank 3 is at 3B1");
    rank_status_close(&status);
    world_close(&world);
}

int main(void)
{
    struct CMUnitTest tests[sizeof rows / sizeof rows[0] + 2] = {
        cmocka_unit_test(ties_come_in_the_order_of_their_keys),
        cmocka_unit_test(who_waits_in_a_step_waits_for_who_shares_its_weights),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        tests[i + 2] = (struct CMUnitTest){ .name = rows[i].name, .test_func = who_adds_up_is_read_from_the_schedule,
                                            .initial_state = &rows[i] };
    return cmocka_run_group_tests_name("ties", tests, NULL, NULL);
}
