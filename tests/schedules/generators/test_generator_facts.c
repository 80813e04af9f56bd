// What generators say of themselves is so of the orders that they make: planners believe it.
#include "schedules/generators/generate.h"
#include "tests/test.h"

// The smallest request that every generator of several ranks takes.
enum { RANKS = 4, MICRO_BATCHES = 8 };

static struct schedule *made_by(const struct generator *generator)
{
    struct error error = { 0 };
    const struct generate_request request = { .ranks = generator_ranks(generator, RANKS),
                                              .micro_batches = MICRO_BATCHES,
                                              .splits = generator->takes_splits ? 2 : 0 };
    struct schedule *schedule = schedule_generate_by(generator, &request, &error);
    assert_good(schedule, error);
    return schedule;
}

static bool is_backward(const struct action *action)
{
    return action->kind == ACTION_B || action->kind == ACTION_I;
}

// Whether some forward of a stage stands behind one of its backwards on the same rank.
static bool has_late_forwards(const struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        for (size_t i = 0; i < list->count; i++)
            for (size_t k = 0; k < i; k++)
                if (list->at[i].kind == ACTION_F && is_backward(&list->at[k]) && list->at[k].stage == list->at[i].stage)
                    return true;
    }
    return false;
}

static void all_forwards_come_first_exactly_where_it_says_so(void **state)
{
    (void)state;
    for (const struct generator *one = generators; one->name; one++) {
        struct schedule *schedule = made_by(one);
        // A schedule that keeps all without saying so would be planned as if it kept less.
        if (one->keeps_all == has_late_forwards(schedule) && !one->is_inference)
            fail_msg("%s %s a forward behind a backward of the same stage", one->name,
                     one->keeps_all ? "has" : "lacks");
        schedule_free(schedule);
    }
}

static void the_last_stage_is_on_the_first_rank_exactly_where_it_says_so(void **state)
{
    (void)state;
    for (const struct generator *one = generators; one->name; one++) {
        struct schedule *schedule = made_by(one);
        const bool comes_back = schedule_rank(schedule, schedule->stages - 1, 0) == 0 && schedule->ranks > 1;
        if (one->comes_back != comes_back)
            fail_msg("%s has its last stage on rank %u", one->name, schedule_rank(schedule, schedule->stages - 1, 0));
        schedule_free(schedule);
    }
}

// The steady state: the most micro-batches whose forward was made and whose backward was not, by stage.
static uint32_t in_flight(const struct schedule *schedule, uint32_t rank, uint32_t stage)
{
    const struct action_list *list = &schedule->lists[rank];
    uint32_t now = 0, most = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct action *action = &list->at[i];
        if (action->stage != stage)
            continue;
        now += action->kind == ACTION_F;
        most = now > most ? now : most;
        now -= is_backward(action);
    }
    return most;
}

static void as_many_are_in_flight_as_it_says(void **state)
{
    (void)state;
    for (const struct generator *one = generators; one->name; one++) {
        const struct generate_request request = { .ranks = RANKS, .micro_batches = MICRO_BATCHES,
                                                  .chunks = one->usual_chunks };
        if (!one->flight)
            continue;
        struct schedule *schedule = made_by(one);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            const struct generator_flight flight = generator_flight(one, &request, rank);
            uint32_t enough = 0, stages = 0, least = 0;
            for (uint32_t stage = 0; stage < schedule->stages; stage++) {
                if (schedule_rank(schedule, stage, 0) != rank)
                    continue;
                const uint32_t here = in_flight(schedule, rank, stage);
                enough += here >= flight.most;
                least += here >= flight.least;
                stages++;
            }
            if (least < stages || enough < flight.dear)
                fail_msg("%s: fewer in flight on rank %u than it says", one->name, rank);
        }
        schedule_free(schedule);
    }
}

static void orders_are_searched_for_the_cuts_of_those_that_say_so(void **state)
{
    (void)state;
    const struct generator *first = generator_to_search(1, NULL), *on_v = generator_to_search(2, NULL);
    assert_string_equal(first->name, "zb-h1");
    assert_string_equal(generator_to_search(1, first)->name, "1f1b");
    assert_null(generator_to_search(1, generator_to_search(1, first)));
    assert_string_equal(on_v->name, "zb-v");
    assert_string_equal(generator_to_search(2, on_v)->name, "v-half");
    assert_null(generator_to_search(3, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forwards_come_first_exactly_where_it_says_so),
        cmocka_unit_test(the_last_stage_is_on_the_first_rank_exactly_where_it_says_so),
        cmocka_unit_test(as_many_are_in_flight_as_it_says),
        cmocka_unit_test(orders_are_searched_for_the_cuts_of_those_that_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
