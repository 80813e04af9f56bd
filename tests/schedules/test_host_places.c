#include "schedules/host_places.h"

#include <stdio.h>

#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/slow_simulator.h"

static void check_waits(const char *list, const char *const *want)
{
    struct error error = { 0 };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 1, 1, 6, &list);
    struct host_places places;
    assert_good(host_places_create(&places, schedule, &error), error);
    size_t found = 0;
    for (const struct action *at = schedule->lists[0].at; at < list_end(&schedule->lists[0]); at++) {
        char name[ACTION_SIZE];
        const size_t wait = host_places_wait(&places, schedule, *at);
        if (at->kind != ACTION_F || wait == NO_MOVE)
            continue;
        assert_non_null(want[found]);
        struct action evict = { .kind = ACTION_EVICT, .micro_batch = (uint32_t)wait };
        char line[2 * ACTION_SIZE + 8];
        snprintf(line, sizeof line, "%s", action_format(*at, name));
        snprintf(line + strlen(line), sizeof line - strlen(line), " %s", action_format(evict, name));
        assert_string_equal(line, want[found++]);
    }
    assert_null(want[found]);
    host_places_clear(&places);
    schedule_free(schedule);
}

static void who_takes_a_place_waits_for_what_leaves_it(void **state)
{
    (void)state;
    // One place, since nobody looks ahead.
    check_waits("0F0 0EVICT0 0F1 0EVICT1 0PREFETCH0 0B0 0F2 0EVICT2 0PREFETCH1 0B1 0PREFETCH2 0B2",
                (const char *const[]){ "0F1 0EVICT0", NULL });
    // Two, in turns: 0PREFETCH0 has that of 0EVICT0, and so 0F2 that of 0EVICT1.
    check_waits("0F0 0EVICT0 0F1 0EVICT1 0PREFETCH0 0F2 0EVICT2 0B0 0PREFETCH1 0PREFETCH2 0B1 0B2",
                (const char *const[]){ "0F2 0EVICT1", NULL });
    // What W needs has three places, which 0F2 is the fourth to take; what I needs has one.
    check_waits("0F0 0EVICT0 0F1 0I1 0PREFETCH0 0I0 0F2 0B2 0W1 0W0",
                (const char *const[]){ "0F1 0EVICT0", "0F2 0EVICT0", NULL });
}

static void where_nothing_is_moved_nobody_waits(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 1, 1, 2, (const char *const[]){ "0F0 0F1 0B0 0B1" });
    struct host_places places;
    assert_good(host_places_create(&places, schedule, &error), error);
    assert_null(places.waits);
    assert_true(host_places_wait(&places, schedule, schedule->lists[0].at[0]) == NO_MOVE);
    host_places_clear(&places);
    schedule_free(schedule);
}

static void a_list_out_of_order_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *list, *sentence;
    } rows[] = {
        { "0F0 0EVICT0 0B0", "rank 0, position 2, 0B0: it comes before 0PREFETCH0" },
        { "0F0 0EVICT0 0R0 0PREFETCH0 0B0", "rank 0, position 2, 0R0: it comes before 0PREFETCH0" },
        { "0F0 0PREFETCH0 0B0", "rank 0, position 1, 0PREFETCH0: it comes before 0EVICT0" },
        { "0EVICT0 0F0 0PREFETCH0 0B0", "rank 0, position 0, 0EVICT0: it comes before 0F0" },
        { "0F0 0B0 0EVICT0", "rank 0, position 2, 0EVICT0: micro-batch 0 has had its backward on stage 0" },
        { "0F0 0R0 0EVICT0 0PREFETCH0 0B0", "rank 0, position 2, 0EVICT0: its forward was run again already" },
        { "0F0 0EVICT0 0EVICT0 0PREFETCH0 0B0", "rank 0, position 2, 0EVICT0: it is there for the second time" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct host_places places;
        struct schedule *schedule = made_of(WEIGHTS_FLUSH, 1, 1, 1, &rows[i].list);
        assert_false(host_places_create(&places, schedule, &error));
        assert_error(error, rows[i].sentence);
        host_places_clear(&places);
        schedule_free(schedule);
    }
}

static void places_are_handed_round_as_by_the_slow_twin(void **state)
{
    (void)state;
    static struct slow slow;
    const uint64_t trials = test_trials(1000, 20000);
    uint64_t waiting = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *schedule = random_schedule(&seed);
        struct host_places places;
        struct cost_row costs[RANDOM_STAGES] = { { 0 } };
        assert_good(host_places_create(&places, schedule, &error), error);
        slow_set_up(&slow, schedule, costs, NULL);
        slow_find_places(&slow, schedule);
        for (int i = 0; i < slow.count; i++) {
            const struct action action = slow.actions[i].action;
            const int evict = slow.actions[i].evict;
            const size_t want = evict < 0 ? NO_MOVE : unit_of(schedule, slow.actions[evict].action);
            if (host_places_wait(&places, schedule, action) != want)
                fail_msg("trial %d: %u of micro-batch %u on stage %u waits for another", (int)trial,
                         (unsigned)action.kind, action.micro_batch, (unsigned)action.stage);
            waiting += want != NO_MOVE;
        }
        host_places_clear(&places);
        schedule_free(schedule);
    }
    assert_true(waiting > trials / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_takes_a_place_waits_for_what_leaves_it),
        cmocka_unit_test(where_nothing_is_moved_nobody_waits),
        cmocka_unit_test(a_list_out_of_order_is_refused),
        cmocka_unit_test(places_are_handed_round_as_by_the_slow_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
