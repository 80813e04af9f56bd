#include "schedules/check.h"

#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/lower_late.h"
#include "tests/schedules/explorer.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/schedule_csv.h"

static struct check_result checked(const struct schedule *schedule, struct check_request request)
{
    struct error error = { 0 };
    struct check_result result;
    assert_good(schedule_check_as(schedule, &request, &result, &error), error);
    return result;
}

// The one fault of a schedule, as "rank 0, position 3, 0I0: reason".
static void assert_one_fault(const struct check_result *result, const char *want)
{
    char action[ACTION_SIZE], got[300];
    assert_false(result->ok);
    assert_int_equal(result->fault_count, 1);
    const struct check_fault *fault = &result->faults[0];
    snprintf(got, sizeof got, "rank %u, position %zu, %s: %s", fault->rank, fault->position,
             action_format(fault->action, action), fault->reason);
    assert_string_equal(got, want);
}

static struct schedule *generated(const char *name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate(name, ranks, chunks, micro_batches, &error);
    assert_good(order, error);
    return order;
}

// --- both placements of receives --------------------------------------------------

static void early_receives_need_no_buffers_and_one_communicator(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct schedule *order = generated(generator->name, generator_ranks(generator, 4), 0, 8);
        for (uint32_t capacity = 0; capacity <= 3; capacity++) {
            const struct check_request request = { .capacity = capacity == 3 ? CHECK_NEVER - 1 : capacity, .shared = true,
                                                   .most_in_group = NCCL_MOST_IN_GROUP };
            struct check_result result = checked(order, request);
            if (!result.ok || result.capacity != 0)
                fail_msg("%s with a capacity of %u", generator->name, capacity);
            check_result_clear(&result);
        }
        schedule_free(order);
    }
}

static struct late_row {
    const char *name, *file;
    uint32_t capacity;  // the least that works with a communicator per channel
    bool can_share;
    bool grouped;       // whether groups are enough
} late_rows[] = {
    { "late: gpipe", "ref_gpipe_p4_m8.csv", 0, true, true },
    { "late: 1f1b", "ref_1f1b_p4_m8.csv", 1, true, true },
    { "late: interleaved", "ref_interleaved1f1b_p4_m8_v2.csv", 1, true, false },
    { "late: zb-h1", "ref_zbh1_p4_m8.csv", 1, true, true },
    { "late: zb-h2", "ref_zbh2_p4_m8.csv", 1, true, false },
    { "late: zb-v", "ref_zbv_p4_m8.csv", 1, false, false },
    { "late: dualpipev", "pytorch_dualpipev_4rank_10mb.csv", 1, false, false },
};

static void late_receives_are_judged(void **state)
{
    const struct late_row *row = *state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct schedule *order = csv_load(row->file);
    struct check_result result = checked(order, (struct check_request){ .receives = RECEIVES_LATE });
    if (result.capacity != row->capacity || result.ok != (row->capacity == 0)
        || (result.sharing.can == result.sharing.pairs) != row->can_share)
        fail_msg("%s: capacity %u, %zu of %zu", row->name, result.capacity, result.sharing.can, result.sharing.pairs);
    assert_int_equal(result.cycle.data != NULL, row->capacity > 0);
    assert_int_equal(result.grouped, row->grouped);
    check_result_clear(&result);
    result = checked(order, (struct check_request){ .receives = RECEIVES_LATE, .capacity = row->capacity });
    assert_true(result.ok);
    check_result_clear(&result);
    result = checked(order, (struct check_request){ .receives = RECEIVES_LATE, .shared = true, .capacity = row->capacity });
    assert_int_equal(result.ok, row->can_share);
    check_result_clear(&result);
    schedule_free(order);
}

// --- PyTorch's issue 172668 ---------------------------------------------------------

static struct schedule *late_interleaved(void)
{
    struct error error = { 0 };
    struct schedule *order = generated("interleaved", 2, 2, 4), *late = schedule_lower_late(order, &error);
    assert_good(late, error);
    schedule_free(order);
    return late;
}

// "rank 0: [... 0SendF1, 2RecvF0, 2F0], rank 1: [... 1SendF0, 1RecvF1, 1F1]"
static void two_late_sends_meet(void **state)
{
    (void)state;
    struct schedule *late = late_interleaved();
    struct check_result result = checked(late, (struct check_request){ .capacity = 0 });
    assert_one_fault(&result, "rank 0, position 3, 0SEND_F1: it waits for 1RECV_F1 of rank 1, which in turn waits for rank 0");
    assert_string_equal(result.cycle.data,
                        "rank 0 waits at 0SEND_F1 to rank 1; rank 1 waits at 1SEND_F0 to rank 0");
    check_result_clear(&result);
    // One group for both helps past this place, and not past all.
    result = checked(late, (struct check_request){ .grouped = true });
    assert_one_fault(&result, "rank 0, position 14, 2SEND_B0: it waits for 1RECV_B0 of rank 1, which in turn waits for rank 0");
    assert_string_equal(result.cycle.data,
                        "rank 0 waits at 2SEND_B0 to rank 1; rank 1 waits at 3SEND_B1 to rank 0");
    check_result_clear(&result);
    schedule_free(late);
}

// "rank 0: [... 0SEND_F2, 2RECV_B0, 2B0], rank 1: [... 3SEND_B0, 3F1, 3B1, 1RECV_F2, ...]": odd ranks receive before
// they send.
static void receiving_first_on_odd_ranks_is_not_enough(void **state)
{
    (void)state;
    struct schedule *late = late_interleaved();
    struct action_list *list = &late->lists[1];
    for (size_t i = 0; i + 1 < list->count; i++) {
        const struct action a = list->at[i], b = list->at[i + 1];
        const bool sends = a.kind == ACTION_SEND_F || a.kind == ACTION_SEND_B;
        if (!sends || (b.kind != ACTION_RECV_F && b.kind != ACTION_RECV_B))
            continue;
        list->at[i] = b;
        list->at[i + 1] = a;
    }
    struct check_result result = checked(late, (struct check_request){ .capacity = 0 });
    assert_one_fault(&result, "rank 0, position 11, 0SEND_F2: it waits for 1RECV_F2 of rank 1, which in turn waits for rank 0");
    assert_string_equal(result.cycle.data,
                        "rank 0 waits at 0SEND_F2 to rank 1; rank 1 waits at 3SEND_B0 to rank 0");
    assert_int_equal(result.capacity, 1);
    check_result_clear(&result);
    schedule_free(late);
}

// --- what may not be shared, what may not be grouped ----------------------------------

static void what_cannot_share_is_refused_by_name(void **state)
{
    (void)state;
    const char *const lists[] = { "0F0 0SEND_F0 2RECV_F0 2F0 2B0 2SEND_B0 0F1 0SEND_F1 2RECV_F1 2F1 0RECV_B0 0B0 2B1 "
                                  "2SEND_B1 0RECV_B1 0B1",
                                  "1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 1RECV_B0 1B0 1SEND_B0 1RECV_B1 1B1 1SEND_B1" };
    struct schedule *schedule = made_of(WEIGHTS_FLUSH, 2, 3, 2, lists);
    struct check_result result = checked(schedule, (struct check_request){ .capacity = 1 });
    assert_true(result.ok);
    assert_int_equal(result.sharing.pairs, 2);
    assert_int_equal(result.sharing.can, 1);
    check_result_clear(&result);
    result = checked(schedule, (struct check_request){ .capacity = 1, .shared = true });
    assert_one_fault(&result, "rank 1, position 3, 1RECV_F1: on one communicator it would be given 2SEND_B0 of rank 0");
    assert_int_equal(result.capacity, CHECK_NEVER);
    check_result_clear(&result);
    schedule_free(schedule);
}

// Rank 0 sends m times in a row, and rank 1 receives as often.
static void a_group_that_is_too_long_is_refused(void **state)
{
    (void)state;
    for (uint32_t m = 255; m <= 257; m++) {
        struct text lists[2] = { { 0 }, { 0 } };
        for (uint32_t i = 0; i < m; i++)
            text_add(&lists[0], "0F%u ", i);
        for (uint32_t i = 0; i < m; i++) {
            text_add(&lists[0], "0SEND_F%u ", i);
            text_add(&lists[1], "1RECV_F%u ", i);
        }
        for (uint32_t i = 0; i < m; i++) {
            text_add(&lists[0], "0RECV_B%u 0B%u ", i, i);
            text_add(&lists[1], "1F%u 1B%u 1SEND_B%u ", i, i, i);
        }
        struct schedule *schedule = made_of(WEIGHTS_FLUSH, 2, 2, m, (const char *const[]){ lists[0].data, lists[1].data });
        struct check_result result = checked(schedule, (struct check_request){ .most_in_group = NCCL_MOST_IN_GROUP });
        assert_int_equal(result.ok, m == 255);  // rank 0 has a RECV_B right behind its SENDs
        assert_int_equal(result.fault_count, m - 255);
        check_result_clear(&result);
        result = checked(schedule, (struct check_request){ .capacity = 0 });
        assert_true(result.ok);
        check_result_clear(&result);
        if (m == 256) {
            result = checked(schedule, (struct check_request){ .most_in_group = NCCL_MOST_IN_GROUP });
            assert_one_fault(&result, "rank 0, position 256, 0SEND_F0: it begins 257 messages in a row, and 256 is the most "
                                      "that can be issued as one group");
            check_result_clear(&result);
        }
        schedule_free(schedule);
        text_clear(&lists[0]);
        text_clear(&lists[1]);
    }
}

// --- against all interleavings ------------------------------------------------------

// A schedule that is small enough, with some of its messages moved about.
static struct schedule *small_schedule(uint64_t *seed)
{
    for (;;) {
        struct error error = { 0 };
        struct schedule *order = random_schedule(seed);
        struct schedule *lowered = (random_below(seed, 2) ? schedule_lower : schedule_lower_late)(order, &error);
        assert_good(lowered, error);
        schedule_free(order);
        for (uint64_t moves = random_below(seed, 3); moves > 0; moves--) {
            struct action_list *list = &lowered->lists[random_below(seed, lowered->ranks)];
            const size_t from = list->count ? random_below(seed, list->count) : 0;
            const size_t to = list->count ? random_below(seed, list->count) : 0;
            if (list->count && explorer_is_message(list->at[from]))
                random_move(list, from, to);
        }
        if (explorer_states(lowered) <= EXPLORER_STATES)
            return lowered;
        schedule_free(lowered);
    }
}

// Whether a rank's own list is in order: with all the buffers there are, and a
// communicator per channel, only that and what the explorer sees can be wrong.
static bool may_be_explored(const struct schedule *schedule)
{
    struct check_result result = checked(schedule, (struct check_request){ .capacity = CHECK_NEVER - 1 });
    bool good = true;
    for (size_t i = 0; i < result.fault_count; i++)
        good &= strstr(result.faults[i].reason, "channel brings") || strstr(result.faults[i].reason, "in turn waits");
    check_result_clear(&result);
    return good;
}

static void all_interleavings_agree_with_the_check(void **state)
{
    (void)state;
    uint64_t lived = 0, stuck = 0, wrong = 0;
    size_t visited = 0;
    for (uint64_t trial = 0; trial < test_all_trials(3000, 30000); trial++) {
        uint64_t seed = trial;
        struct schedule *schedule = small_schedule(&seed);
        uint32_t least = CHECK_NEVER;
        for (uint32_t world = 0; world < 6 && may_be_explored(schedule); world++) {
            const struct check_request request = { .capacity = world % 3, .shared = world >= 3 };
            const struct explorer explorer = explore(schedule, request.capacity, request.shared);
            struct check_result result = checked(schedule, request);
            const bool want = !explorer.stuck && !explorer.wrong;
            least = world == 3 ? CHECK_NEVER : least;
            least = want && least == CHECK_NEVER ? request.capacity : least;
            if (result.ok != want || (want && result.capacity != least) || (explorer.done && explorer.stuck && !explorer.wrong))
                fail_msg("trial %llu, world %u: check says %d, all interleavings %d (stuck %d, wrong %d)",
                         (unsigned long long)trial, world, result.ok, want, explorer.stuck, explorer.wrong);
            lived += want;
            stuck += explorer.stuck;
            wrong += explorer.wrong;
            visited += explorer.visited;
            check_result_clear(&result);
        }
        schedule_free(schedule);
    }
    print_message("# %zu states visited; %llu lived, %llu stuck, %llu wrong\n", visited, (unsigned long long)lived,
                  (unsigned long long)stuck, (unsigned long long)wrong);
    assert_true(lived > 100 && stuck > 100 && wrong > 20);
}

// Messages in groups, in a random order of moves: opens groups, exchanges what is open
// on both sides, closes groups all of whose messages are exchanged.
static bool lives_in_groups(const struct schedule *s, uint64_t seed)
{
    enum { MOST = 1024 };
    static bool exchanged[EXPLORER_RANKS][MOST];
    size_t at[EXPLORER_RANKS] = { 0 }, end[EXPLORER_RANKS] = { 0 };  // at < end: in a group
    memset(exchanged, 0, sizeof exchanged);
    for (bool moved = true; moved;) {
        moved = false;
        const uint32_t first = (uint32_t)random_below(&seed, s->ranks);
        for (uint32_t k = 0; k < s->ranks && !moved; k++) {
            const uint32_t rank = (first + k) % s->ranks;
            const struct action_list *list = &s->lists[rank];
            if (at[rank] == list->count)
                continue;
            if (!explorer_is_message(list->at[at[rank]])) {
                const struct explorer explorer = { .schedule = s };
                moved = explorer_move(&explorer, at, rank) == EXPLORED_MOVED;
                continue;
            }
            if (end[rank] <= at[rank]) {
                for (end[rank] = at[rank]; end[rank] < list->count && explorer_is_message(list->at[end[rank]]);)
                    end[rank]++;
                moved = true;
                continue;
            }
            bool all = true;
            for (size_t i = at[rank]; i < end[rank]; i++) {
                const struct action a = list->at[i];
                const uint32_t peer = schedule_rank(s, explorer_sends(a) ? explorer_to(a) : explorer_from(a), a.micro_batch);
                for (size_t j = at[peer]; j < end[peer] && !exchanged[rank][i]; j++) {
                    if (explorer_sends(a) != explorer_sends(s->lists[peer].at[j])
                        && explorer_same_message(a, s->lists[peer].at[j]))
                        moved = exchanged[rank][i] = exchanged[peer][j] = true;
                }
                all &= exchanged[rank][i];
            }
            if (all) {
                at[rank] = end[rank];
                moved = true;
            }
        }
    }
    bool done = true;
    for (uint32_t rank = 0; rank < s->ranks; rank++)
        done &= at[rank] == s->lists[rank].count;
    return done;
}

static void groups_are_judged_as_in_a_slow_world(void **state)
{
    (void)state;
    uint64_t lived = 0, saved = 0, stuck = 0;
    for (uint64_t trial = 0; trial < test_all_trials(3000, 30000); trial++) {
        uint64_t seed = trial;
        struct schedule *schedule = small_schedule(&seed);
        struct check_result result = checked(schedule, (struct check_request){ .grouped = true });
        bool can_run = true;
        for (size_t i = 0; i < result.fault_count; i++)
            can_run &= strstr(result.faults[i].reason, "waits for") != NULL;
        if (can_run) {
            const bool want = lives_in_groups(schedule, trial);
            if (result.ok != want || result.grouped != want || (result.capacity == 0 && !want))
                fail_msg("trial %llu: %d, and slowly %d", (unsigned long long)trial, result.ok, want);
            lived += want;
            saved += want && result.capacity > 0;
            stuck += !want;
        }
        check_result_clear(&result);
        schedule_free(schedule);
    }
    if (saved < 50 || stuck < 50 || lived < 500)
        fail_msg("%llu lived, %llu only in groups, %llu stuck: too one-sided", (unsigned long long)lived,
                 (unsigned long long)saved, (unsigned long long)stuck);
}

int main(void)
{
    enum { LATE = sizeof late_rows / sizeof late_rows[0], PLAIN = 7 };
    struct CMUnitTest tests[PLAIN + LATE] = {
        cmocka_unit_test(early_receives_need_no_buffers_and_one_communicator),
        cmocka_unit_test(two_late_sends_meet),
        cmocka_unit_test(receiving_first_on_odd_ranks_is_not_enough),
        cmocka_unit_test(what_cannot_share_is_refused_by_name),
        cmocka_unit_test(a_group_that_is_too_long_is_refused),
        cmocka_unit_test(all_interleavings_agree_with_the_check),
        cmocka_unit_test(groups_are_judged_as_in_a_slow_world),
    };
    struct CMUnitTest *at = &tests[PLAIN];
    for (size_t i = 0; i < LATE; i++)
        *at++ = (struct CMUnitTest)TEST_ROW(late_receives_are_judged, &late_rows[i]);
    return cmocka_run_group_tests_name("check_running", tests, NULL, NULL);
}
