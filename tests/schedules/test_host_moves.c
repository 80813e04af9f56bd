#include "schedules/host_moves.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"
#include "schedules/standstill.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"

static struct schedule *generated(const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate(name, ranks, 0, micro_batches, &error);
    assert_good(order, error);
    return order;
}

static void add_moves(struct schedule *order)
{
    struct error error = { 0 };
    assert_good(schedule_add_moves(order, &error), error);
}

static void check_list(const struct schedule *schedule, uint32_t rank, const char *want)
{
    char *found = list_of(schedule, rank);
    assert_string_equal(found, want);
    free(found);
}

static void forwards_leave_and_come_back_ahead_of_their_backwards(void **state)
{
    (void)state;
    struct schedule *order = generated("1f1b", 4, 6);
    add_moves(order);
    check_list(order, 0, "0F0 0EVICT0 0F1 0EVICT1 0F2 0EVICT2 0PREFETCH0 0F3 0EVICT3 0PREFETCH1 0B0 0F4 0EVICT4 "
                         "0PREFETCH2 0B1 0F5 0EVICT5 0PREFETCH3 0B2 0PREFETCH4 0B3 0PREFETCH5 0B4 0B5 0STEP");
    check_list(order, 2, "2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2B5 2STEP");  // two at a time
    check_list(order, 3, "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3STEP");
    schedule_free(order);
}

static void what_is_needed_next_stays(void **state)
{
    (void)state;
    struct schedule *order = made_of(WEIGHTS_FLUSH, 1, 1, 3, (const char *const[]){ "0F0 0F1 0F2 0B2 0B1 0B0 0STEP" });
    add_moves(order);
    check_list(order, 0, "0F0 0EVICT0 0F1 0EVICT1 0PREFETCH1 0F2 0B2 0PREFETCH0 0B1 0B0 0STEP");
    schedule_free(order);
}

static void nothing_is_kept_where_nothing_goes_back(void **state)
{
    (void)state;
    struct schedule *order = generated("forward-only", 2, 4);
    add_moves(order);
    assert_false(order->moves);
    schedule_free(order);
}

// --- any order -----------------------------------------------------------------------------

static const unsigned needs = 1u << ACTION_B | 1u << ACTION_I | 1u << ACTION_R;

static size_t find(const struct action_list *list, struct action of, unsigned kinds)
{
    size_t at = 0;
    while (at < list->count
           && !((kinds >> list->at[at].kind & 1) && list->at[at].stage == of.stage
                && list->at[at].micro_batch == of.micro_batch && list->at[at].split == of.split))
        at++;
    return at;
}

// Computations that stand between two positions, what is done together as one.
static int computations(const struct action_list *list, size_t first, size_t end)
{
    int count = 0;
    for (size_t i = first; i < end; i++)
        count += is_compute(list->at[i]) && !list->at[i].joined;
    return count;
}

static bool is_behind(const struct action_list *list, size_t at, struct action forward)
{
    while (at > 0 && is_move(list->at[at]))
        at--;
    for (; list->at[at].kind != ACTION_F || list->at[at].stage != forward.stage
           || list->at[at].micro_batch != forward.micro_batch || list->at[at].split != forward.split; at--)
        if (at == 0 || !list->at[at - 1].joined)
            return false;
    return true;
}

static void check_unit(const struct schedule *order, struct action forward, uint64_t trial)
{
    const struct action_list *list =
        &order->lists[schedule_rank(order, forward.stage, forward.micro_batch)];
    const size_t at = find(list, forward, 1u << ACTION_F), need = find(list, forward, needs);
    const size_t evict = find(list, forward, 1u << ACTION_EVICT), fetch = find(list, forward, 1u << ACTION_PREFETCH);
    if (evict == list->count) {
        assert_int_equal(fetch, list->count);
        return;
    }
    if (!(at < evict && evict < fetch && fetch < need) || !is_behind(list, evict, forward)
        || computations(list, fetch, need) > 2 || computations(list, at, need) < 2)
        fail_msg("trial %d: stage %u, micro-batch %u", (int)trial, (unsigned)forward.stage, forward.micro_batch);
}

// The same with each PREFETCH right in front of what needs it: what the order needs at least.
static struct schedule *without_looking_ahead(const struct schedule *order)
{
    struct error error = { 0 };
    struct schedule *late = schedule_copy(order, &error);
    assert_good(late, error);
    for (uint32_t rank = 0; rank < late->ranks; rank++) {
        struct action_list *list = &late->lists[rank];
        for (size_t at = list->count; at-- > 0;) {
            if (list->at[at].kind != ACTION_PREFETCH)
                continue;
            size_t need = find(list, list->at[at], needs);
            while (list->at[need - 1].joined)
                need--;
            random_move(list, at, need - 1);
        }
    }
    return late;
}

static void count(const struct schedule *order, struct slots *slots)
{
    struct error error = { 0 };
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    assert_good(slots_count(lowered, slots, &error), error);
    schedule_free(lowered);
}

// Two places, or what the order needs without any looking ahead, and never more than without the host.
static void check_places(const struct schedule *order, const struct schedule *plain, uint64_t trial)
{
    struct slots slots[RANDOM_STAGES], late[RANDOM_STAGES], whole[RANDOM_STAGES];
    struct schedule *lazy = without_looking_ahead(order);
    count(order, slots);
    count(lazy, late);
    count(plain, whole);
    for (uint32_t s = 0; s < order->stages; s++) {
        const uint32_t most = late[s].kept_through > 2 ? late[s].kept_through : 2;
        if (slots[s].away > 0 ? slots[s].kept_through > most || slots[s].kept > whole[s].kept || whole[s].kept <= 2
                              : slots[s].kept != whole[s].kept)
            fail_msg("trial %d: stage %u has %u and %u places, %u without looking ahead, and %u without the host",
                     (int)trial, s, slots[s].kept, slots[s].kept_through, late[s].kept_through, whole[s].kept);
    }
    schedule_free(lazy);
}

// Links that take no time are no links.
static void check_time(const struct schedule *order, const struct schedule *plain, uint64_t *seed)
{
    struct error error = { 0 };
    struct cost_row costs[RANDOM_STAGES];
    struct simulation with, without;
    random_costs(seed, costs, order->stages, 1);
    for (uint32_t s = 0; s < order->stages; s++)
        costs[s].move_ns = 0;
    assert_good(schedule_simulate(order, costs, NULL, &with, NULL, &error), error);
    assert_good(schedule_simulate(plain, costs, NULL, &without, NULL, &error), error);
    assert_int_equal(with.iteration_ns, without.iteration_ns);
    simulation_clear(&with);
    simulation_clear(&without);
}

static void moves_keep_the_order_and_the_places_of_any_schedule(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(1000, 20000);
    uint64_t moved = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *plain = random_schedule(&seed);
        schedule_drop(plain, KINDS_OF_MOVES);
        struct schedule *order = schedule_copy(plain, &error);
        assert_good(order, error);
        add_moves(order);
        assert_good(actions_in_order(order, false, &error), error);
        for (uint32_t rank = 0; rank < order->ranks; rank++)
            for (size_t i = 0; i < order->lists[rank].count; i++)
                if (order->lists[rank].at[i].kind == ACTION_F)
                    check_unit(order, order->lists[rank].at[i], trial);
        check_places(order, plain, trial);
        check_time(order, plain, &seed);
        moved += order->moves;
        schedule_drop(order, KINDS_OF_MOVES);
        for (uint32_t rank = 0; rank < order->ranks; rank++) {
            char *all = list_of(plain, rank);
            check_list(order, rank, all);
            free(all);
        }
        schedule_free(order);
        schedule_free(plain);
    }
    assert_true(moved > trials / 10);
}

static void an_order_out_of_order_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = made_of(WEIGHTS_FLUSH, 1, 1, 1, (const char *const[]){ "0B0 0F0" });
    assert_false(schedule_add_moves(order, &error));
    assert_error(error, "rank 0, position 0, 0B0: it comes before 0F0");
    schedule_free(order);
}

// Eight forwards of 10 ns, and then backwards of 20: while one runs, what the next needs comes back.
static void moves_take_no_time_that_computing_covers(void **state)
{
    (void)state;
    static const struct {
        uint64_t move_ns, want_ns;
    } rows[] = {
        { 0, 240 },
        { 10, 250 },  // but that the last forward has to wait for 0EVICT6, since 0PREFETCH0 has the other place
        { 100, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        struct simulation with;
        struct cost_row row = { .forward_ns = 10, .backward_ns = 20, .move_ns = rows[i].move_ns };
        struct schedule *order = generated("gpipe", 1, 8);
        add_moves(order);
        assert_good(schedule_simulate(order, &row, NULL, &with, NULL, &error), error);
        if (rows[i].want_ns)
            assert_int_equal(with.iteration_ns, rows[i].want_ns);
        else
            assert_in_range(with.iteration_ns, 16 * 100, 16 * 100 + 240);  // the link's own work
        simulation_clear(&with);
        schedule_free(order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forwards_leave_and_come_back_ahead_of_their_backwards),
        cmocka_unit_test(what_is_needed_next_stays),
        cmocka_unit_test(nothing_is_kept_where_nothing_goes_back),
        cmocka_unit_test(moves_keep_the_order_and_the_places_of_any_schedule),
        cmocka_unit_test(an_order_out_of_order_is_refused),
        cmocka_unit_test(moves_take_no_time_that_computing_covers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
