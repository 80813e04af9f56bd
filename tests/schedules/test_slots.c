#include "schedules/slots.h"

#include <string.h>

#include "schedules/board.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/schedules/random_schedule.h"

static struct schedule *lowered(const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate(name, ranks, 1, micro_batches, &error);
    assert_good(order, error);
    struct schedule *schedule = schedule_lower(order, &error);
    assert_good(schedule, error);
    schedule_free(order);
    return schedule;
}

static struct slots_row {
    const char *name;
    const char *schedule;
    uint32_t micro_batches;
    struct slots want[4];
} slots_rows[] = {
    // input {until F, I, W}, kept, through, held, again, shared_by_parts, its gradient, output, its gradient,
    // input gradient, versions, away, statistics, those of all copies
    { "gpipe: everything is kept", "gpipe", 8,
      { { { 0, 0, 0 }, 8, 8, 0, 0, 0, 0, 2, 1, 0, 1, 0, 8, 0 },
        { { 1, 8, 8 }, 8, 8, 0, 0, 0, 0, 2, 1, 2, 1, 0, 8, 0 },
        { { 1, 8, 8 }, 8, 8, 0, 0, 0, 0, 2, 1, 2, 1, 0, 8, 0 },
        { { 1, 8, 8 }, 8, 8, 0, 0, 0, 0, 0, 0, 2, 1, 0, 8, 0 } } },
    { "1f1b: rank s keeps p - s", "1f1b", 8,
      { { { 0, 0, 0 }, 4, 4, 0, 0, 0, 0, 2, 1, 0, 1, 0, 8, 0 },
        { { 1, 4, 4 }, 3, 3, 0, 0, 0, 0, 2, 1, 2, 1, 0, 8, 0 },
        { { 1, 3, 3 }, 2, 2, 0, 0, 0, 0, 2, 1, 2, 1, 0, 8, 0 },
        { { 1, 2, 2 }, 1, 1, 0, 0, 0, 0, 0, 0, 2, 1, 0, 8, 0 } } },
    { "pipedream: rank s holds p - s versions", "pipedream", 8,
      { { { 0, 0, 0 }, 4, 4, 0, 0, 0, 0, 2, 1, 0, 4, 0, 4, 0 },
        { { 1, 4, 4 }, 3, 3, 0, 0, 0, 0, 2, 1, 2, 3, 0, 3, 0 },
        { { 1, 3, 3 }, 2, 2, 0, 0, 0, 0, 2, 1, 2, 2, 0, 2, 0 },
        { { 1, 2, 2 }, 1, 1, 0, 0, 0, 0, 0, 0, 2, 1, 0, 1, 0 } } },
    { "pipedream: fewer micro-batches than versions", "pipedream", 2,
      { { { 0, 0, 0 }, 2, 2, 0, 0, 0, 0, 2, 1, 0, 2, 0, 2, 0 },
        { { 1, 2, 2 }, 2, 2, 0, 0, 0, 0, 2, 1, 2, 2, 0, 2, 0 },
        { { 1, 2, 2 }, 2, 2, 0, 0, 0, 0, 2, 1, 2, 2, 0, 2, 0 },
        { { 1, 2, 2 }, 1, 1, 0, 0, 0, 0, 0, 0, 2, 1, 0, 1, 0 } } },
};

static void slots_are_the_expected_ones(void **state)
{
    const struct slots_row *row = *state;
    struct error error = { 0 };
    struct schedule *schedule = lowered(row->schedule, 4, row->micro_batches);
    struct slots slots[4];
    assert_good(slots_count(schedule, slots, &error), error);
    for (uint32_t s = 0; s < 4; s++) {
        const struct slots *w = &row->want[s], *g = &slots[s];
        if (memcmp(w, g, sizeof *w) != 0)
            fail_msg("stage %u: input {%u %u %u} kept %u through %u held %u again %u shared_by_parts %u %u output %u"
                     " gradients %u %u versions %u statistics %u %u", s, g->input[0], g->input[1], g->input[2], g->kept, g->kept_through,
                     g->held, g->again, g->shared_by_parts, g->shared_by_parts_gradient, g->output, g->output_gradient,
                     g->input_gradient, g->versions, g->statistics, g->gathered_statistics);
    }
    schedule_free(schedule);
}

// --- the slow twin: for each class the lives, and their largest overlap ---------

struct life {
    size_t begin, end;  // positions in a rank's list, both included
};

#define NOWHERE SIZE_MAX

static size_t position_of(const struct action_list *list, uint32_t stage, uint32_t unit, uint32_t splits, unsigned kinds)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].stage == stage && list->at[i].micro_batch == unit / splits && list->at[i].split == unit % splits
            && (kinds >> list->at[i].kind & 1))
            return i;
    }
    return NOWHERE;
}

enum { F = 1 << ACTION_F, BACK = 1 << ACTION_B | 1 << ACTION_I, LAST = 1 << ACTION_B | 1 << ACTION_W,
       R = 1 << ACTION_R, I = 1 << ACTION_I, W = 1 << ACTION_W, RECV_F = 1 << ACTION_RECV_F, RECV_B = 1 << ACTION_RECV_B,
       EVICT = 1 << ACTION_EVICT, PREFETCH = 1 << ACTION_PREFETCH };

static uint32_t overlap(const struct life *lives, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t now = 0;
        for (size_t j = 0; j < count; j++)
            now += lives[j].begin <= lives[i].begin && lives[i].begin <= lives[j].end;
        most = now > most ? now : most;
    }
    return most;
}

// Lives on one rank of one stage, from the first to the second of two places
// (the second may belong to a neighbour stage on the same rank).
static size_t collect(const struct schedule *schedule, uint32_t rank, uint32_t stage, unsigned from, uint32_t end_stage,
                      unsigned to, struct life lives[16])
{
    size_t count = 0;
    const struct action_list *list = &schedule->lists[rank];
    for (uint32_t i = 0; i < schedule->micro_batches * schedule->splits; i++) {
        struct life life = { position_of(list, stage, i, schedule->splits, from),
                             position_of(list, end_stage, i, schedule->splits, to) };
        if (life.begin == NOWHERE || life.end == NOWHERE)
            continue;
        while (life.begin > 0 && list->at[life.begin - 1].joined)  // a group begins and ends at once
            life.begin--;
        while (list->at[life.end].joined)
            life.end++;
        lives[count++] = life;
    }
    return count;
}

static uint32_t twin(const struct schedule *schedule, uint32_t rank, uint32_t stage, unsigned from, uint32_t end_stage,
                     unsigned to)
{
    struct life lives[16];
    return overlap(lives, collect(schedule, rank, stage, from, end_stage, to, lives));
}

// What is kept from F on has two lives where it goes to the host in between.
static uint32_t twin_kept(const struct schedule *schedule, uint32_t rank, uint32_t stage, unsigned to)
{
    struct life lives[32];
    const size_t first = collect(schedule, rank, stage, F, stage, to | EVICT, lives);
    return overlap(lives, first + collect(schedule, rank, stage, PREFETCH, stage, to, lives + first));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// Messages that leave this rank: two buffers at most. (A schedule may mix these
// with hand-overs on the rank only where it has several routes; those are left
// to the other rows of this test.)
static uint32_t twin_messages(const struct schedule *schedule, uint32_t rank, uint32_t stage, enum action_kind send)
{
    uint32_t count = 0;
    for (size_t i = 0; i < schedule->lists[rank].count; i++) {
        const struct action action = schedule->lists[rank].at[i];
        count += action.kind == send && action.stage == stage;
    }
    return count < 2 ? count : 2;
}

static bool has_an_r(const struct schedule *schedule, uint32_t stage)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        for (size_t i = 0; i < schedule->lists[rank].count; i++)
            if (schedule->lists[rank].at[i].kind == ACTION_R && schedule->lists[rank].at[i].stage == stage)
                return true;
    return false;
}

// What all parts of a micro-batch share: from the first of these places to the last of those.
static uint32_t twin_shared(const struct schedule *schedule, uint32_t rank, uint32_t stage, unsigned from, unsigned to)
{
    struct life lives[16];
    size_t count = 0;
    const struct action_list *list = &schedule->lists[rank];
    for (uint32_t m = 0; schedule->splits > 1 && m < schedule->micro_batches; m++) {
        struct life life = { NOWHERE, 0 };
        for (uint32_t k = 0; k < schedule->splits; k++) {
            const uint32_t part = m * schedule->splits + k;
            const size_t begin = position_of(list, stage, part, schedule->splits, from);
            const size_t end = position_of(list, stage, part, schedule->splits, to);
            life.begin = begin < life.begin ? begin : life.begin;
            life.end = end != NOWHERE && end > life.end ? end : life.end;
        }
        if (life.begin == NOWHERE)
            continue;
        while (life.begin > 0 && list->at[life.begin - 1].joined)
            life.begin--;
        while (list->at[life.end].joined)
            life.end++;
        lives[count++] = life;
    }
    return overlap(lives, count);
}

static size_t position_behind(const struct action_list *list, uint32_t stage, size_t from, unsigned kinds)
{
    while (from < list->count && !(list->at[from].stage == stage && kinds >> list->at[from].kind & 1))
        from++;
    return from;
}

// From F to the STEP behind what ends the micro-batch's update, or to the end.
static uint32_t twin_statistics(const struct schedule *schedule, uint32_t rank, uint32_t stage)
{
    struct life lives[16];
    const struct action_list *list = &schedule->lists[rank];
    size_t count = 0;
    for (uint32_t m = 0; schedule->splits == 1 && m < schedule->micro_batches; m++) {
        const size_t begin = position_of(list, stage, m, 1, F), last = position_of(list, stage, m, 1, LAST);
        if (begin == NOWHERE || schedule_is_forward_only(schedule))
            continue;
        const size_t cut = position_behind(list, stage, last, 1 << ACTION_REDUCE | 1 << ACTION_STEP);
        struct life life = { begin, position_behind(list, stage, cut, 1 << ACTION_STEP) };
        while (life.begin > 0 && list->at[life.begin - 1].joined)
            life.begin--;
        lives[count++] = life;
    }
    return overlap(lives, count);
}

// Where nothing goes back, everything ends with F.
static struct slots twin_slots(const struct schedule *schedule, uint32_t stage)
{
    struct slots most = { .versions = 1 };
    const bool forward_only = schedule_is_forward_only(schedule);
    const unsigned back = forward_only ? F : BACK, last = forward_only ? F : LAST;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        most.input[0] = larger(most.input[0], twin(schedule, rank, stage, RECV_F, stage, F));
        most.input[1] = larger(most.input[1], twin(schedule, rank, stage, RECV_F, stage, back));
        most.input[2] = larger(most.input[2], twin(schedule, rank, stage, RECV_F, stage, last));
        most.kept = larger(most.kept, twin_kept(schedule, rank, stage, back));
        most.kept_through = larger(most.kept_through, twin_kept(schedule, rank, stage, last));
        most.away = larger(most.away, twin(schedule, rank, stage, EVICT, stage, PREFETCH));
        most.statistics = larger(most.statistics, twin_statistics(schedule, rank, stage));
        most.held = larger(most.held, twin(schedule, rank, stage, I, stage, W));
        if (has_an_r(schedule, stage))
            most.again = larger(most.again, twin(schedule, rank, stage, R | BACK, stage, BACK));
        most.shared_by_parts = larger(most.shared_by_parts, twin_shared(schedule, rank, stage, F, back));
        most.shared_by_parts_gradient = larger(most.shared_by_parts_gradient,
                                               twin_shared(schedule, rank, stage, BACK, BACK));
        most.output_gradient = larger(most.output_gradient, twin(schedule, rank, stage, RECV_B, stage, BACK));
        most.output = larger(most.output, twin_messages(schedule, rank, stage, ACTION_SEND_F));
        most.input_gradient = larger(most.input_gradient, twin_messages(schedule, rank, stage, ACTION_SEND_B));
        if (stage + 1 < schedule->stages)
            most.output = larger(most.output, twin(schedule, rank, stage, F, stage + 1, last));
        if (stage > 0)
            most.input_gradient = larger(most.input_gradient, twin(schedule, rank, stage, BACK, stage - 1, BACK));
    }
    return most;
}

static void slots_are_the_largest_overlap_of_lives(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(500, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        struct schedule *schedule = schedule_lower(order, &error);
        assert_good(schedule, error);
        struct slots slots[6];
        assert_good(slots_count(schedule, slots, &error), error);
        for (uint32_t s = 0; s < schedule->stages && schedule->route_count == 1; s++) {
            const struct slots want = twin_slots(schedule, s);
            if (memcmp(&want, &slots[s], sizeof want) != 0)
                fail_msg("trial %llu, stage %u: slots differ from their twin", (unsigned long long)trial, s);
        }
        schedule_free(schedule);
        schedule_free(order);
    }
}

// One rank, two stages: the output of the first is the input of the second, in place.
static void neighbours_on_one_rank_share_a_slot(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = schedule_create("one rank", WEIGHTS_FLUSH, 1, 2, 3, &error);
    assert_good(order, error);
    static const char *const names[] = { "0F0", "0F1", "1F0", "1I0", "0F2", "1W0", "0B0", "1F1", "1B1", "0B1", "1F2", "1B2", "0B2" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct action action;
        assert_good(action_parse(names[i], strlen(names[i]), &action, &error), error);
        assert_good(schedule_add(order, 0, action, &error), error);
    }
    struct schedule *schedule = schedule_lower(order, &error);
    assert_good(schedule, error);
    struct slots slots[2];
    assert_good(slots_count(schedule, slots, &error), error);
    assert_int_equal(slots[0].output, 3);
    assert_int_equal(slots[1].input[INPUT_UNTIL_W], 0);
    assert_int_equal(slots[1].input_gradient, 1);
    assert_int_equal(slots[1].held, 1);
    assert_int_equal(slots[0].kept, 3);
    schedule_free(schedule);
    schedule_free(order);
}

static void a_list_out_of_order_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = lowered("1f1b", 2, 2);
    schedule->lists[1].at[1] = schedule->lists[1].at[0];
    struct slots slots[2];
    assert_false(slots_count(schedule, slots, &error));
    assert_error(error, "rank 1, position 1, 1RECV_F0: it is there for the second time");
    schedule_free(schedule);
}

int main(void)
{
    enum { ROWS = sizeof slots_rows / sizeof slots_rows[0] };
    struct CMUnitTest tests[ROWS + 3] = {
        cmocka_unit_test(slots_are_the_largest_overlap_of_lives),
        cmocka_unit_test(neighbours_on_one_rank_share_a_slot),
        cmocka_unit_test(a_list_out_of_order_is_refused),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[3 + i] = (struct CMUnitTest)TEST_ROW(slots_are_the_expected_ones, &slots_rows[i]);
    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
