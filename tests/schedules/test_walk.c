#include "schedules/walk.h"

#include "schedules/lower.h"
#include "schedules/tariff.h"
#include "tests/schedules/random_schedule.h"

// What the walk's visits are held against: a board of our own, and who needs whom.
static void check_visit(const struct schedule *schedule, struct board *board, const struct visit *visit,
                        size_t position)
{
    char reason[REASON_SIZE];
    const struct action action = *visit->at;
    assert_memory_equal(&action, &schedule->lists[visit->rank].at[position], sizeof action);
    assert_int_equal(visit_needs(visit), needs_message(schedule, action));
    if (visit_needs(visit)) {
        const struct action giver = action_needed_by(action);
        const unsigned kinds = action.kind == ACTION_F ? (schedule->lowered ? 1u << ACTION_SEND_F : DID_F)
                                                       : (schedule->lowered ? 1u << ACTION_SEND_B : DID_BACKWARD);
        assert_true(board_has(board, giver, kinds));
    }
    assert_true(board_place(board, visit->rank, action, reason));
    const bool sends = action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
    assert_int_equal(visit->gives, schedule->lowered ? sends : makes_message(schedule, action));
    if (!visit->gives)
        return;
    assert_int_equal(visit->back, action.kind != ACTION_F && action.kind != ACTION_SEND_F);
    const uint32_t user = visit->back ? action.stage - 1u : action.stage + 1u;
    assert_int_equal(visit->user, unit_index(schedule, user, action.micro_batch, action.split));
    assert_int_equal(visit->channel, channel_number(schedule, action, visit->back ? user : action.stage, visit->back));
}

static void check_walk(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct walk walk;
    struct board board;
    size_t next[8] = { 0 };
    assert_good(walk_create(&walk, schedule, &error), error);
    assert_good(board_create(&board, schedule, schedule->lowered, &error), error);
    for (struct visit visit; walk_next(&walk, &visit);)
        check_visit(schedule, &board, &visit, next[visit.rank]++);
    assert_good(walk_end(&walk, &error), error);
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        assert_int_equal(next[rank], schedule->lists[rank].count);
    board_clear(&board);
    walk_clear(&walk);
}

static void every_action_is_visited_once_after_what_it_needs(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(2000, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        check_walk(order);
        check_walk(lowered);
        schedule_free(lowered);
        schedule_free(order);
    }
}

// --- what must be refused -------------------------------------------------------------

// Whether what the action needs from another rank has been done.
static bool is_served(const struct schedule *schedule, const struct board *board, struct action action)
{
    if (!needs_message(schedule, action))
        return true;
    const struct action giver = action_needed_by(action);
    const bool forward = action.kind == ACTION_F;
    const unsigned sends = 1u << (forward ? ACTION_SEND_F : ACTION_SEND_B);
    return board_has(board, giver, schedule->lowered ? sends : forward ? DID_F : DID_BACKWARD);
}

static bool holds(const struct schedule *schedule, uint32_t rank, uint32_t stage)
{
    for (uint32_t route = 0; route < schedule->route_count; route++) {
        if (schedule->routes[route * schedule->stages + stage] == rank)
            return true;
    }
    return false;
}

// Whether every copy of the stage stands at the same REDUCE.
static bool all_reduce(const struct schedule *schedule, const size_t *next, struct action reduce)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action_list *list = &schedule->lists[rank];
        if (holds(schedule, rank, reduce.stage)
            && (next[rank] == list->count || memcmp(&list->at[next[rank]], &reduce, sizeof reduce) != 0))
            return false;
    }
    return true;
}

// Does what stands at a rank, all of it: how many actions, 0 if it cannot go on.
static size_t step(const struct schedule *schedule, struct board *board, size_t *next, uint32_t rank)
{
    char reason[REASON_SIZE];
    const struct action *group = schedule->lists[rank].at + next[rank], *end = list_end(&schedule->lists[rank]);
    const size_t size = group_size(group, end);
    if (group->joined && !group_fits(group, size, reason))
        return 0;
    for (size_t i = 0; i < size; i++) {
        if (!board_in_range(board, rank, group[i], reason) || (has_unit(group[i]) && !is_served(schedule, board, group[i])))
            return 0;
    }
    if (group->kind == ACTION_REDUCE) {
        if (!all_reduce(schedule, next, *group))
            return 0;
        size_t moved = 0;
        for (uint32_t other = 0; other < schedule->ranks; other++) {
            next[other] += holds(schedule, other, group->stage);
            moved += holds(schedule, other, group->stage);
        }
        return moved;
    }
    for (size_t i = 0; i < size; i++) {
        if (!board_place(board, rank, group[i], reason))
            return 0;
    }
    next[rank] += size;
    return size;
}

// The rules of the board and nothing else, rank after rank, until nothing moves.
static bool can_run(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct board board;
    size_t next[8] = { 0 }, left = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        left += schedule->lists[rank].count;
    assert_good(board_create(&board, schedule, schedule->lowered, &error), error);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
            const size_t done = next[rank] < schedule->lists[rank].count ? step(schedule, &board, next, rank) : 0;
            left -= done;
            moved |= done > 0;
        }
    }
    board_clear(&board);
    return left == 0;
}

static bool judge(const struct schedule *schedule, uint64_t trial)
{
    struct error error = { 0 };
    struct walk walk;
    assert_good(walk_create(&walk, schedule, &error), error);
    for (struct visit visit; walk_next(&walk, &visit);)
        continue;
    const bool good = walk_end(&walk, &error), want = can_run(schedule);
    walk_clear(&walk);
    if (good != want)
        fail_msg("trial %llu: the board says %s, the walk %s", (unsigned long long)trial, want ? "yes" : "no",
                 good ? "yes" : error.text);
    assert_true(good || (error.kind == ERROR_ANSWER && error.text[0]));
    return good;
}

static void what_the_board_refuses_is_refused(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(5000, 50000);
    uint64_t good = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *lowered = schedule_lower(order, &error);
        assert_good(lowered, error);
        for (uint64_t i = 1 + random_below(&seed, 3); i > 0; i--) {
            random_mutate(order, &seed);
            random_mutate(lowered, &seed);
        }
        good += judge(order, trial);
        good += judge(lowered, trial);
        schedule_free(lowered);
        schedule_free(order);
    }
    if (good < trials / 5 || good > 2 * trials - trials / 5)
        fail_msg("%llu of %llu mutants can run: too one-sided to show anything", (unsigned long long)good,
                 (unsigned long long)(2 * trials));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_action_is_visited_once_after_what_it_needs),
        cmocka_unit_test(what_the_board_refuses_is_refused),
    };
    return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
