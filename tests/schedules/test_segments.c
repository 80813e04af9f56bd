// Stages cut into segments, against a slow twin of the rule, all interleavings of small orders, and formulas.
#include "schedules/segments.h"

#include <stdlib.h>

#include "schedules/check.h"
#include "schedules/generators/generate.h"
#include "schedules/host_moves.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"

static struct schedule *cut(const struct schedule *order, uint32_t segments, uint32_t open)
{
    struct error error = { 0 };
    struct schedule *result = schedule_segment(order, (struct segmenting){ segments, open }, &error);
    assert_good(result, error);
    return result;
}

static struct schedule *named(const char *name, uint32_t ranks, uint32_t micro_batches, uint32_t segments,
                              uint32_t open)
{
    struct error error = { 0 };
    const struct generate_request request = { .ranks = ranks, .micro_batches = micro_batches,
                                              .into = { segments, open } };
    struct schedule *schedule = schedule_generate_as(name, &request, &error);
    assert_good(schedule, error);
    return schedule;
}

static uint64_t iteration_of(const struct schedule *schedule, const struct cost_row *costs)
{
    struct error error = { 0 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, costs, NULL, &simulation, NULL, &error), error);
    const uint64_t ns = simulation.iteration_ns;
    simulation_clear(&simulation);
    return ns;
}

enum { MOST_ROWS = 64 };

// --- small orders ----------------------------------------------------------------------------

static struct row {
    const char *name;
    uint32_t segments, open;
    uint32_t stages, micro_batches;
    const char *list, *wanted;
} rows[] = {
    { "two forwards in turns", 3, 2, 1, 2, "0F0 0F1 0B0 0B1 0STEP",
      "0F0 0F1 1F0 1F1 2F0 2F1 2B0 2B1 1B0 1B1 0B0 0B1 0STEP 1STEP 2STEP" },
    { "one after the other", 3, 1, 1, 2, "0F0 0F1 0B0 0B1 0STEP",
      "0F0 1F0 2F0 0F1 1F1 2F1 2B0 1B0 0B0 2B1 1B1 0B1 0STEP 1STEP 2STEP" },
    { "a pair", 2, 2, 1, 2, "0F0 (0F1;0B0)OVERLAP_F_B 0B1 0STEP", "0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1 0STEP 1STEP" },
    { "a backward waits for its forward", 2, 2, 1, 2, "0F0 0B0 0F1 0B1 0STEP",
      "0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1 0STEP 1STEP" },
    { "W's beside I's", 3, 2, 1, 1, "0F0 0I0 0W0 0STEP", "0F0 1F0 2F0 2I0 2W0 1I0 1W0 0I0 0W0 0STEP 1STEP 2STEP" },
    { "nothing behind a step begins before it", 2, 4, 2, 1, "0F0 1F0 1B0 1STEP 0B0 0STEP",
      "0F0 1F0 2F0 3F0 3B0 2B0 2STEP 3STEP 1B0 0B0 0STEP 1STEP" },
    { "a validation is no pass", 2, 2, 1, 2, "0F0 0VALIDATE 0F1 0I0 0W0 0I1 0W1 0STEP",
      "0F0 0VALIDATE 1VALIDATE 0F1 1F0 1F1 1I0 1W0 0I0 1I1 0W0 0I1 1W1 0W1 0STEP 1STEP" },
};

static void passes_are_in_turns(void **state)
{
    const struct row *row = *state;
    struct error error = { 0 };
    struct schedule *order = made_of(WEIGHTS_FLUSH, 1, row->stages, row->micro_batches, &row->list);
    struct schedule *result = cut(order, row->segments, row->open);
    char *list = list_of(result, 0);
    assert_string_equal(list, row->wanted);
    assert_true(result->exchanges && result->stages == row->stages * row->segments);
    assert_good(schedule_can_run(result, &error), error);
    free(list);
    schedule_free(result);
    schedule_free(order);
}

// --- a slow twin -------------------------------------------------------------------------------

// What has been done, in the order in which it began. Everything is found by looking at all of it.
struct event {
    struct action action;
    uint32_t rank;
    uint64_t end, there;  // when its result is where it is used
    bool is_exchange;
};

struct twin {
    const struct schedule *order;
    uint32_t n, open;
    struct event *events;
    size_t count;
};

static const struct event *find(const struct twin *twin, uint32_t stage, uint32_t micro_batch, uint32_t split,
                                bool forward)
{
    for (size_t i = 0; i < twin->count; i++) {
        const struct action is = twin->events[i].action;
        if (is.stage == stage && is.micro_batch == micro_batch && is.split == split
            && (forward ? is.kind == ACTION_F : is.kind == ACTION_B || is.kind == ACTION_I))
            return &twin->events[i];
    }
    return NULL;
}

static uint32_t segments_done(const struct twin *twin, uint32_t rank, struct action pass)
{
    uint32_t done = 0;
    for (size_t i = 0; i < twin->count; i++) {
        const struct event *event = &twin->events[i];
        done += event->rank == rank && event->action.kind == pass.kind && event->action.stage / twin->n == pass.stage
             && event->action.micro_batch == pass.micro_batch && event->action.split == pass.split;
    }
    return done;
}

static bool may_begin(const struct twin *twin, struct action is, uint64_t slot)
{
    const uint32_t stages = twin->order->stages * twin->n, splits = twin->order->splits;
    const uint32_t s = is.stage, i = is.micro_batch, j = is.split;
    const struct event *before = s > 0 ? find(twin, s - 1, i, j, true) : NULL;
    const struct event *behind = s + 1 < stages ? find(twin, s + 1, i, j, false) : NULL;
    switch (is.kind) {
    case ACTION_F:
        return (s == 0 || (before && before->there <= slot)) && (j == 0 || find(twin, s, i, j - 1, true));
    case ACTION_B:
    case ACTION_I:
        return find(twin, s, i, j, true) && (s + 1 == stages || (behind && behind->there <= slot))
            && (j + 1 == splits || find(twin, s, i, j + 1, false));
    case ACTION_W:
        return find(twin, s, i, j, false);
    default:
        return find(twin, s, i, j, true) && !find(twin, s, i, j, false);  // R
    }
}

static struct action segment_of(const struct twin *twin, struct action pass, uint32_t done)
{
    const bool descends = pass.kind == ACTION_B || pass.kind == ACTION_I || pass.kind == ACTION_W
                       || pass.kind == ACTION_R;
    pass.stage = (uint16_t)(pass.stage * twin->n + (descends ? twin->n - 1 - done : done));
    pass.joined = 0;
    return pass;
}

static bool twin_choose(const struct twin *twin, uint32_t rank, uint64_t slot, struct action *chosen)
{
    bool has_weights = false, is_first = true;
    uint32_t open = 0;
    for (size_t i = 0; i < twin->order->lists[rank].count && open < twin->open; i++) {
        const struct action pass = twin->order->lists[rank].at[i];
        const uint32_t done = segments_done(twin, rank, pass);
        if (done == twin->n)
            continue;
        const struct action next = segment_of(twin, pass, done);
        if (pass.kind == ACTION_STEP || pass.kind == ACTION_REDUCE) {
            if (is_first)
                *chosen = next;
            return is_first || has_weights;
        }
        is_first = false;
        if (pass.kind == ACTION_VALIDATE) {
            *chosen = next;
            return true;
        }
        open++;
        if (!may_begin(twin, next, slot) || (pass.kind == ACTION_W && has_weights))
            continue;
        *chosen = next;
        has_weights = true;
        if (pass.kind != ACTION_W)
            return true;
    }
    return has_weights;
}

static void twin_begin(struct twin *twin, uint32_t rank, struct action is, uint64_t slot)
{
    const bool goes_back = is.kind == ACTION_B || is.kind == ACTION_I;
    struct event event = { .action = is, .rank = rank };
    event.end = event.there = slot + (is.kind == ACTION_B ? 2 : is.kind <= ACTION_R ? 1 : 0);
    event.is_exchange = (is.kind == ACTION_F && is.stage % twin->n + 1 < twin->n)
                     || (goes_back && is.stage % twin->n > 0);
    if (event.is_exchange) {
        for (size_t i = 0; i < twin->count; i++)
            if (twin->events[i].rank == rank && twin->events[i].is_exchange && twin->events[i].there > event.there)
                event.there = twin->events[i].there;
        event.there++;
    }
    twin->events[twin->count++] = event;
}

static bool is_free(const struct twin *twin, uint32_t rank, uint64_t slot)
{
    for (size_t i = 0; i < twin->count; i++)
        if (twin->events[i].rank == rank && twin->events[i].end > slot)
            return false;
    return true;
}

static void twin_run(struct twin *twin, size_t actions)
{
    for (uint64_t slot = 0; twin->count < actions; slot++) {
        assert_true(slot < 10 * actions + 10);
        for (uint32_t rank = 0; rank < twin->order->ranks; rank++) {
            struct action next;
            while (is_free(twin, rank, slot) && twin_choose(twin, rank, slot, &next))
                twin_begin(twin, rank, next, slot);
        }
    }
}

static void assert_as_twin(const struct schedule *order, uint32_t segments, uint32_t open, uint64_t trial)
{
    struct twin twin = { .order = order, .n = segments, .open = open };
    size_t actions = 0;
    for (uint32_t rank = 0; rank < order->ranks; rank++)
        actions += order->lists[rank].count * segments;
    twin.events = calloc(actions + 1, sizeof *twin.events);
    twin_run(&twin, actions);
    struct schedule *result = cut(order, segments, open);
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        size_t at = 0;
        for (size_t i = 0; i < twin.count; i++) {
            if (twin.events[i].rank != rank)
                continue;
            const struct action wanted = twin.events[i].action, is = result->lists[rank].at[at++];
            if (memcmp(&wanted, &is, sizeof is) != 0)
                fail_msg("trial %d, rank %u: action %zu is another", (int)trial, rank, at - 1);
        }
        assert_int_equal(result->lists[rank].count, at);
    }
    schedule_free(result);
    free(twin.events);
}

static void rule_is_that_of_the_twin(void **state)
{
    (void)state;
    uint64_t tried = 0;
    for (uint64_t trial = 0; trial < test_trials(400, 5000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct schedule *order = random_schedule(&seed);
        schedule_drop(order, KINDS_OF_MOVES);
        const uint32_t segments = 2 + (uint32_t)random_below(&seed, 3), open = 1 + (uint32_t)random_below(&seed, 4);
        struct check_result result;
        assert_good(schedule_check(order, 0, &result, &error), error);
        if (result.ok) {
            assert_as_twin(order, segments, open, trial);
            tried++;
        }
        check_result_clear(&result);
        schedule_free(order);
    }
    assert_true(tried >= 100);
}

// --- all schedules ------------------------------------------------------------------------------

// A rank's list with each pass replaced by its segments.
static void assert_in_turn(const struct schedule *order, const struct schedule *result, uint32_t n)
{
    const struct twin twin = { .order = order, .n = n };
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        assert_int_equal(result->lists[rank].count, n * order->lists[rank].count);
        for (size_t i = 0; i < result->lists[rank].count; i++) {
            const struct action wanted = segment_of(&twin, order->lists[rank].at[i / n], (uint32_t)(i % n));
            assert_memory_equal(&wanted, &result->lists[rank].at[i], sizeof wanted);
        }
    }
}

// They run without a buffer, also with messages, and one communicator is enough for each pair of ranks.
static void every_schedule_can_be_cut(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        for (uint32_t trial = 0; trial < 6 && !generator->exchanges; trial++) {
            const uint32_t p = generator_ranks(generator, 2 + 2 * (trial % 2)), n = 2 + trial % 3, open = 1 + trial % 4;
            struct error error = { 0 };
            struct schedule *order = named(generator->name, p, 2 * p, 0, 0);
            struct schedule *result = named(generator->name, p, 2 * p, n, open);
            struct schedule *lowered = schedule_lower(result, &error);
            assert_good(lowered, error);
            struct check_result check;
            assert_good(schedule_check(lowered, 0, &check, &error), error);
            if (!check.ok || check.sharing.can != check.sharing.pairs)
                fail_msg("%s: %u segments, %u open: %s", generator->name, n, open,
                         check.fault_count ? check.faults[0].reason : "communicators");
            check_result_clear(&check);
            if (open == 1)
                assert_in_turn(order, result, n);
            schedule_free(lowered);
            schedule_free(result);
            schedule_free(order);
        }
    }
}

// A rank keeps at most what it keeps in the given order, and a micro-batch of a stage for each open pass but one.
static void open_passes_keep_a_micro_batch_each(void **state)
{
    (void)state;
    enum { N = 3, P = 4, M = 16 };
    for (const struct generator *generator = generators; generator->name; generator++) {
        if (generator->exchanges)
            continue;
        struct error error = { 0 };
        struct schedule *order = named(generator->name, P, M, 0, 0);
        struct cost_row whole[MOST_ROWS], cuts[MOST_ROWS];
        for (uint32_t s = 0; s < MOST_ROWS; s++) {
            whole[s] = (struct cost_row){ .forward_ns = 1, .backward_ns = 2, .backward_input_ns = 1,
                                          .backward_weight_ns = 1, .kept_forward_bytes = 12 * N };
            cuts[s] = whole[s];
            cuts[s].kept_forward_bytes /= N;
        }
        struct simulation given;
        assert_good(schedule_simulate(order, whole, NULL, &given, NULL, &error), error);
        assert_true(given.per_rank[0].live_peak_bytes > 0);
        for (uint32_t open = 1; open <= 4; open++) {
            struct schedule *result = named(generator->name, P, M, N, open);
            struct simulation is;
            assert_good(schedule_simulate(result, cuts, NULL, &is, NULL, &error), error);
            for (uint32_t rank = 0; rank < P; rank++)
                if (is.per_rank[rank].live_peak_bytes
                    > given.per_rank[rank].live_peak_bytes + (open - 1) * whole[0].kept_forward_bytes)
                    fail_msg("%s: rank %u with %u open passes", generator->name, rank, open);
            simulation_clear(&is);
            schedule_free(result);
        }
        simulation_clear(&given);
        schedule_free(order);
    }
}

// --- times ------------------------------------------------------------------------------------------

static void fill(struct cost_row *costs, uint32_t stages, uint64_t f, uint64_t i, uint64_t w, uint64_t exchange)
{
    for (uint32_t s = 0; s < stages; s++)
        costs[s] = (struct cost_row){ .forward_ns = f, .backward_ns = i + w, .backward_input_ns = i,
                                      .backward_weight_ns = w, .exchange_ns = exchange };
}

// On one rank, where an exchange takes no longer than a segment, those of pairs are hidden. In gpipe these are all of
// two micro-batches, and in 1f1b all but those of the first forward and the last backward. In zb-h1 those of I's are
// beside W's. A forward has the last of these for one exchange, since the next I waits for it.
static void exchanges_of_pairs_are_hidden(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        const uint32_t n = 2 + (uint32_t)random_below(&seed, 5), m = 1 + (uint32_t)random_below(&seed, 9);
        const uint64_t f = 1 + random_below(&seed, 50), i = 1 + random_below(&seed, 50);
        const uint64_t w = 1 + random_below(&seed, 50);
        const uint64_t least = f < i ? f < w ? f : w : i < w ? i : w, e = random_below(&seed, least + 1);
        struct cost_row costs[MOST_ROWS];
        fill(costs, n, f, i, w, e);
        const uint64_t work = n * (f + i + w);
        struct schedule *two = named("gpipe", 1, 2, n, 2), *pairs = named("1f1b", 1, m, n, 2);
        struct schedule *split = named("zb-h1", 1, m, n, 2), *in_turn = named("1f1b", 1, m, n, 1);
        assert_int_equal(iteration_of(two, costs), 2 * work);
        assert_int_equal(iteration_of(pairs, costs), m * work + 2 * (n - 1) * e);
        assert_int_equal(iteration_of(split, costs), m * work + (n - 1) * e + (m - 1) * (n - 2) * e);
        assert_int_equal(iteration_of(in_turn, costs), m * (work + 2 * (n - 1) * e));
        schedule_free(two);
        schedule_free(pairs);
        schedule_free(split);
        schedule_free(in_turn);
    }
}

// The least time of all ways to interleave two lists; `taken` and `count` are what is chosen so far.
struct merge {
    const struct schedule *in_turn;
    const struct cost_row *costs;
    struct schedule *made;
    const struct action *lists[2];
    size_t counts[2], ways;
    uint64_t least_ns;
};

static void merge_all(struct merge *merge, size_t first, size_t second)
{
    if (first == merge->counts[0] && second == merge->counts[1]) {
        const uint64_t ns = iteration_of(merge->made, merge->costs);
        merge->least_ns = ns < merge->least_ns ? ns : merge->least_ns;
        merge->ways++;
        return;
    }
    for (int which = 0; which < 2; which++) {
        const size_t at = which ? second : first;
        if (at == merge->counts[which])
            continue;
        merge->made->lists[0].at[first + second] = merge->lists[which][at];
        merge_all(merge, first + !which, second + which);
    }
}

// Two micro-batches on one rank: no way to interleave their segments is quicker, if an exchange takes no longer
// than a segment.
static void a_pair_is_interleaved_as_well_as_can_be(void **state)
{
    (void)state;
    enum { N = 4 };
    uint64_t seed = 5;
    for (uint64_t trial = 0; trial < test_trials(20, 200); trial++) {
        const uint64_t f = 1 + random_below(&seed, 20), b = 1 + random_below(&seed, 20);
        struct cost_row costs[2 * N];
        fill(costs, 2 * N, f, b, 0, random_below(&seed, (f < b ? f : b) + 1));
        struct action lists[2][2 * N];
        const char *const order[] = { "0F0 0F1 0B0 0B1" };
        struct schedule *whole = made_of(WEIGHTS_FLUSH, 1, 1, 2, order);
        struct schedule *result = cut(whole, N, 2), *made = cut(whole, N, 1);
        for (uint32_t mb = 0; mb < 2; mb++)
            for (uint32_t k = 0; k < 2 * N; k++)
                lists[mb][k] = (struct action){ .stage = (uint16_t)(k < N ? k : 2 * N - 1 - k),
                                                .kind = k < N ? ACTION_F : ACTION_B, .micro_batch = mb };
        struct merge merge = { .costs = costs, .made = made, .lists = { lists[0], lists[1] },
                               .counts = { 2 * N, 2 * N }, .least_ns = UINT64_MAX };
        merge_all(&merge, 0, 0);
        assert_int_equal(merge.ways, 12870);  // 16 over 8
        assert_int_equal(iteration_of(result, costs), merge.least_ns);
        schedule_free(made);
        schedule_free(result);
        schedule_free(whole);
    }
}

// Exchanges of 0.3 of the computation, three segments to a stage, 8 ranks.
static void two_ways_and_zero_bubbles_gain_a_sixth(void **state)
{
    (void)state;
    static const char *const names[] = { "dualpipev", "zb-v", "dualpipe" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct schedule *overlapped = named(names[i], 8, 32, 3, 2), *in_turn = named(names[i], 8, 32, 3, 1);
        struct cost_row costs[MOST_ROWS];
        fill(costs, overlapped->stages, 4000, 4000, 4000, 0);
        for (uint32_t s = 0; s < overlapped->stages; s++)
            costs[s].exchange_ns = s % 3 == 2 ? 0 : 2700;  // four times that is 0.3 of 36,000
        const uint64_t ns = iteration_of(overlapped, costs), other_ns = iteration_of(in_turn, costs);
        if (100 * other_ns < 117 * ns)
            fail_msg("%s: %llu ns, in turn %llu ns", names[i], (unsigned long long)ns, (unsigned long long)other_ns);
        schedule_free(overlapped);
        schedule_free(in_turn);
    }
}

// --- refusals ------------------------------------------------------------------------------------------

static void assert_refused(struct schedule *schedule, uint32_t segments, const char *why)
{
    struct error error = { 0 };
    assert_null(schedule_segment(schedule, (struct segmenting){ segments, 2 }, &error));
    assert_string_equal(error.text, why);
    schedule_free(schedule);
}

static void what_cannot_be_cut_is_said(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *order = named("1f1b", 2, 4, 0, 0), *moved = schedule_copy(order, &error);
    assert_refused(schedule_lower(order, &error), 2,
                   "1f1b has messages among its actions: segments are made of an order without");
    assert_good(schedule_add_moves(moved, &error), error);
    moved->moves = true;
    assert_refused(moved, 2, "1f1b has EVICTs and PREFETCHes among its actions: cut it first, then add them");
    assert_refused(named("tables-ahead", 1, 4, 0, 0), 2,
                   "tables-ahead exchanges between stages of a rank already: its stages cannot be cut again");
    assert_refused(named("1f1b", 2000, 2, 0, 0), 33,
                   "1f1b has 2000 stages: in 33 segments each they are more than 65535");
    order->costs = calloc(2, sizeof *order->costs);
    assert_refused(order, 2, "1f1b has costs of whole stages: leave them out, and give those of segments");
    assert_refused(named("1f1b", 2, 4, 0, 0), 65, "stages are cut into 2 to 64 segments, not 65");
    static const char *const stuck[] = { "0B0 0F0 0STEP" };
    order = made_of(WEIGHTS_FLUSH, 1, 1, 1, stuck);
    assert_null(schedule_segment(order, (struct segmenting){ 2, 2 }, &error));
    assert_non_null(strstr(error.text, "0B0"));
    schedule_free(order);
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0], OTHERS = 7 };
    struct CMUnitTest tests[OTHERS + ROWS] = {
        cmocka_unit_test(rule_is_that_of_the_twin),
        cmocka_unit_test(every_schedule_can_be_cut),
        cmocka_unit_test(open_passes_keep_a_micro_batch_each),
        cmocka_unit_test(exchanges_of_pairs_are_hidden),
        cmocka_unit_test(a_pair_is_interleaved_as_well_as_can_be),
        cmocka_unit_test(two_ways_and_zero_bubbles_gain_a_sixth),
        cmocka_unit_test(what_cannot_be_cut_is_said),
    };
    for (size_t i = 0; i < ROWS; i++)
        tests[OTHERS + i] = (struct CMUnitTest)TEST_ROW(passes_are_in_turns, &rows[i]);
    return cmocka_run_group_tests_name("segments", tests, NULL, NULL);
}
