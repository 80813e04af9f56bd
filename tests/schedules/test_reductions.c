// REDUCE, STEP and VALIDATE: copies of stages, versions of weights, and schedules
// that have no updates at all.
#include <string.h>

#include "schedules/check.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"
#include "tests/schedules/made_of.h"
#include "tests/schedules/random_schedule.h"
#include "tests/schedules/slow_simulator.h"

// Micro-batch i takes route i mod the number of routes.
static struct schedule *routed(struct schedule *schedule, uint32_t routes, const uint32_t *ranks)
{
    free(schedule->routes);
    schedule->route_count = routes;
    schedule->routes = calloc(routes * schedule->stages, sizeof *schedule->routes);
    memcpy(schedule->routes, ranks, routes * schedule->stages * sizeof *ranks);
    for (uint32_t i = 0; i < schedule->micro_batches; i++)
        schedule->route_of[i] = i % routes;
    return schedule;
}

// Two stages on two ranks, and the other way round.
static struct schedule *crossed(enum weights weights, uint32_t micro_batches, const char *const *lists)
{
    return routed(made_of(weights, 2, 2, micro_batches, lists), 2, (const uint32_t[]){ 0, 1, 1, 0 });
}

static char *faults_of(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct check_result result;
    struct text text = { 0 };
    assert_good(schedule_check(schedule, 0, &result, &error), error);
    for (size_t i = 0; i < result.fault_count; i++) {
        const struct check_fault *fault = &result.faults[i];
        char buffer[ACTION_SIZE];
        text_add(&text, "rank %u, %s: %s\n", fault->rank, action_format(fault->action, buffer), fault->reason);
    }
    text_add(&text, "%s", result.cycle.data ? result.cycle.data : "");
    check_result_clear(&result);
    char *taken = text_take(&text, &error);
    assert_good(taken, error);
    return taken;
}

// --- what is refused ----------------------------------------------------------------------

#define GOOD_0 "0F0 0B0 1F1 1B1 "
#define GOOD_1 "1F0 1B0 0F1 0B1 "

static struct fault_row {
    const char *name;
    enum weights weights;
    const char *lists[2];
    const char *faults;
} fault_rows[] = {
    { "update: each copy reduces, then steps", WEIGHTS_FLUSH,
      { GOOD_0 "0REDUCE 1REDUCE 0STEP 1STEP", GOOD_1 "0REDUCE 1REDUCE 1STEP 0STEP" }, "" },
    { "update: a flush may leave it all to its user", WEIGHTS_FLUSH, { GOOD_0, GOOD_1 }, "" },
    { "update: copies step without a reduction", WEIGHTS_FLUSH, { GOOD_0 "0STEP 1STEP", GOOD_1 "0STEP 1STEP" },
      "rank 0, 0STEP: the gradients of the 2 copies of stage 0 have not been reduced\n"
      "rank 0, 1STEP: the gradients of the 2 copies of stage 1 have not been reduced\n"
      "rank 1, 0STEP: the gradients of the 2 copies of stage 0 have not been reduced\n"
      "rank 1, 1STEP: the gradients of the 2 copies of stage 1 have not been reduced\n" },
    { "update: a copy does not take part", WEIGHTS_FLUSH, { GOOD_0 "0REDUCE 1REDUCE", GOOD_1 "0REDUCE" },
      "rank 1, 1REDUCE: it is missing\n"
      "rank 0, 1REDUCE: it waits for 1REDUCE, and rank 1 ends without it\n"
      "rank 0 waits at 1REDUCE for 1REDUCE of rank 1; rank 1 has finished" },
    { "update: reductions in another order", WEIGHTS_FLUSH,
      { GOOD_0 "0REDUCE 1REDUCE 0STEP 1STEP", GOOD_1 "1REDUCE 0REDUCE 1STEP 0STEP" },
      "rank 0, 0REDUCE: it waits for 0REDUCE of rank 1, which in turn waits for rank 0\n"
      "rank 0 waits at 0REDUCE for 0REDUCE of rank 1; rank 1 waits at 1REDUCE for 1REDUCE of rank 0" },
    { "update: a reduction before the last backward", WEIGHTS_FLUSH,
      { "0F0 1F1 1B1 0REDUCE 0B0 1REDUCE", GOOD_1 "0REDUCE 1REDUCE" },
      "rank 0, 0B0: it comes after the REDUCE of stage 0\n" },
    { "update: a reduction twice", WEIGHTS_FLUSH, { GOOD_0 "0REDUCE 0REDUCE 1REDUCE", GOOD_1 "0REDUCE 1REDUCE" },
      "rank 0, 0REDUCE: stage 0 has had its reduction\n"
      "rank 1, 0REDUCE: it is missing\n" },
    { "update: a reduction after the step", WEIGHTS_FLUSH,
      { GOOD_0 "0REDUCE 0STEP 0REDUCE 1REDUCE 1STEP", GOOD_1 "0REDUCE 1REDUCE 1STEP 0STEP" },
      "rank 0, 0REDUCE: it comes after the step of stage 0\n"
      "rank 1, 0REDUCE: it is missing\n" },
    { "update: a number in a flush", WEIGHTS_FLUSH, { GOOD_0 "0REDUCE0 1REDUCE", GOOD_1 "0REDUCE 1REDUCE" },
      "rank 0, 0REDUCE0: the reduction of a flush has no number\n" },
    { "update: each in its turn", WEIGHTS_STASH,
      { GOOD_0 "0REDUCE0 0STEP0 1REDUCE0 1STEP0", GOOD_1 "0REDUCE0 1REDUCE0 0STEP0 1STEP0" }, "" },
    { "update: another is due", WEIGHTS_STASH,
      { GOOD_0 "0REDUCE1 0STEP0 1REDUCE0 1STEP0", GOOD_1 "0REDUCE0 1REDUCE0 0STEP0 1STEP0" },
      "rank 0, 0REDUCE1: update 0 of stage 0 is due here\n" },
    { "update: one copy has more", WEIGHTS_STASH,
      { GOOD_0 "0REDUCE0 0STEP0 1REDUCE0 1STEP0 0REDUCE1 0STEP1", GOOD_1 "0REDUCE0 1REDUCE0 0STEP0 1STEP0" },
      "rank 1, 0REDUCE1: it is missing\n"
      "rank 0, 0REDUCE1: it waits for 0REDUCE1, and rank 1 ends without it\n"
      "rank 0 waits at 0REDUCE1 for 0REDUCE1 of rank 1; rank 1 has finished" },
    { "update: validated before the first backward", WEIGHTS_FLUSH,
      { "0F0 0VALIDATE 0B0 1VALIDATE 1F1 1B1", GOOD_1 }, "" },
    { "update: validated too late, and twice", WEIGHTS_FLUSH,
      { "0F0 0B0 0VALIDATE 1VALIDATE 1F1 1VALIDATE 1B1", GOOD_1 },
      "rank 0, 0VALIDATE: it comes after a backward of stage 0\n"
      "rank 0, 1VALIDATE: stage 1 has had its validation\n" },
    { "update: validated with a number", WEIGHTS_FLUSH, { "0F0 0VALIDATE3 0B0 1F1 1B1", GOOD_1 },
      "rank 0, 0VALIDATE3: a validation has no number\n" },
    { "update: nothing to validate", WEIGHTS_STASH,
      { "0VALIDATE " GOOD_0 "0REDUCE0 0STEP0 1REDUCE0 1STEP0", GOOD_1 "0REDUCE0 1REDUCE0 0STEP0 1STEP0" },
      "rank 0, 0VALIDATE: there is nothing to validate where weights are not flushed\n" },
    { "update: forwards alone are inference", WEIGHTS_FLUSH, { "0F0 1F1", "1F0 0F1" }, "" },
    { "update: forwards and a step are not", WEIGHTS_FLUSH, { "0F0 1F1 0STEP", "1F0 0F1" },
      "rank 0, 0B0: it is missing, and so are 1 more of its kind on this stage\n"
      "rank 1, 1B0: it is missing, and so are 1 more of its kind on this stage\n"
      "rank 0, 0STEP: the gradients of the 2 copies of stage 0 have not been reduced\n"
      "rank 1, 0REDUCE: it is missing\n"
      "rank 1, 0STEP: it is missing\n"
      "rank 0, 1REDUCE: it is missing\n"
      "rank 0, 1STEP: it is missing\n"
      "rank 1, 1REDUCE: it is missing\n"
      "rank 1, 1STEP: it is missing\n" },
};

static void update_is_judged(void **state)
{
    const struct fault_row *row = *state;
    struct schedule *schedule = crossed(row->weights, 2, row->lists);
    char *faults = faults_of(schedule);
    assert_string_equal(faults, row->faults);
    free(faults);
    schedule_free(schedule);
}

static void vertical_sync_wants_as_many_copies_of_every_stage(void **state)
{
    (void)state;
    struct schedule *schedule =
        routed(made_of(WEIGHTS_VERTICAL, 3, 2, 2,
                       (const char *const[]){ "0F0 0B0 0REDUCE0 0STEP0", "0F1 0B1 0REDUCE0 0STEP0",
                                              "1F0 1B0 1STEP0 1F1 1B1 1STEP1" }),
               2, (const uint32_t[]){ 0, 2, 1, 2 });
    char *faults = faults_of(schedule);
    assert_string_equal(faults,
                        "rank 2, 1STEP0: vertical sync wants as many copies of every stage: stage 0 has 2, stage 1 has 1\n");
    free(faults);
    schedule_free(schedule);
}

static void copies_that_reduce_different_updates_are_an_error(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct simulation simulation;
    const struct cost_row costs[2] = { { .forward_ns = 1 } };
    struct schedule *schedule = crossed(WEIGHTS_STASH, 2, (const char *const[]){ GOOD_0 "0REDUCE0", GOOD_1 "0REDUCE1" });
    assert_false(schedule_simulate(schedule, costs, NULL, &simulation, NULL, &error));
    assert_error(error, "rank 1, position 4, 0REDUCE1: another copy of stage 0 reduces another update");
    schedule_free(schedule);
}

// --- what it takes --------------------------------------------------------------------------

// Rank 0 is there after 3 + 6 ns, rank 1 after 3 + 6 + 9 in all: both end at 18 + 4.
static void a_reduction_starts_when_the_last_copy_is_there(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule =
        routed(made_of(WEIGHTS_FLUSH, 2, 1, 3,
                       (const char *const[]){ "0F0 0B0 0REDUCE 0STEP", "0F1 0B1 0F2 0B2 0REDUCE 0STEP" }),
               2, (const uint32_t[]){ 0, 1 });
    schedule->route_of[2] = 1;
    const struct cost_row costs = { .forward_ns = 3, .backward_ns = 6, .reduce_ns = 4, .step_ns = 5 };
    struct simulation simulation;
    assert_good(schedule_simulate(schedule, &costs, NULL, &simulation, NULL, &error), error);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_int_equal(simulation.per_rank[rank].last_ns, 18 + 4 + 5);
    assert_int_equal(simulation.per_rank[0].busy_ns, 9);
    assert_int_equal(simulation.critical_path.compute_ns, 27);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static void a_validation_moves_no_bubble(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct cost_row costs[2] = { { .forward_ns = 3, .backward_ns = 6 }, { .forward_ns = 3, .backward_ns = 6 } };
    struct simulation with, without;
    struct schedule *a = made_of(WEIGHTS_FLUSH, 2, 2, 1, (const char *const[]){ "0F0 0B0", "1F0 1B0" });
    struct schedule *b = made_of(WEIGHTS_FLUSH, 2, 2, 1,
                                 (const char *const[]){ "0VALIDATE 0F0 0B0", "1VALIDATE 1F0 1B0" });
    assert_good(schedule_simulate(a, costs, NULL, &without, NULL, &error), error);
    assert_good(schedule_simulate(b, costs, NULL, &with, NULL, &error), error);
    assert_memory_equal(&with.bubble, &without.bubble, sizeof with.bubble);
    assert_memory_equal(with.per_rank, without.per_rank, 2 * sizeof *with.per_rank);
    assert_memory_equal(&with.critical_path, &without.critical_path, sizeof with.critical_path);
    simulation_clear(&with);
    simulation_clear(&without);
    schedule_free(a);
    schedule_free(b);
}

static void inference_keeps_nothing(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct cost_row costs[2] = { { .forward_ns = 3, .kept_forward_bytes = 10 },
                                       { .forward_ns = 3, .kept_forward_bytes = 10 } };
    struct schedule *order = made_of(WEIGHTS_FLUSH, 2, 2, 3, (const char *const[]){ "0F0 0F1 0F2", "1F0 1F1 1F2" });
    struct schedule *lowered = schedule_lower(order, &error);
    struct simulation simulation;
    struct slots slots[2];
    assert_good(lowered && slots_count(lowered, slots, &error), error);
    assert_int_equal(slots[1].kept, 1);
    assert_int_equal(slots[1].input[INPUT_UNTIL_W], 1);
    assert_good(schedule_simulate(lowered, costs, NULL, &simulation, NULL, &error), error);
    assert_int_equal(simulation.per_rank[0].live_peak_bytes, 10);
    assert_int_equal(simulation.per_rank[0].peak_in_flight, 1);
    simulation_clear(&simulation);
    schedule_free(lowered);
    schedule_free(order);
}

// --- random runs without a flush, stages in several copies ---------------------------------------

enum { STAGES = 4, COPIES = 3, MICRO_BATCHES = 12 };

// Micro-batch i goes through copy i mod r of each stage; update t is made from
// micro-batches t r to t r + r - 1.
struct training {
    struct schedule *schedule;
    uint32_t copies[STAGES], first_rank[STAGES];
    bool f[STAGES][MICRO_BATCHES], b[STAGES][MICRO_BATCHES];
    uint32_t version[STAGES][MICRO_BATCHES];  // that the forward met, by the formulas
    uint32_t reduced[STAGES], steps[STAGES][COPIES];
};

static uint32_t training_rank(const struct training *training, uint32_t s, uint32_t i)
{
    return training->first_rank[s] + i % training->copies[s];
}

static uint32_t training_steps(const struct training *training, uint32_t s, uint32_t i)
{
    return training->steps[s][i % training->copies[s]];
}

static bool can_forward(const struct training *training, uint32_t s, uint32_t i)
{
    const uint32_t r = training->copies[s];
    const bool ready = training->schedule->weights != WEIGHTS_VERTICAL || s == 0
                    || training_steps(training, s, i) >= training->version[0][i];
    return !training->f[s][i] && (i < r || training->f[s][i - r]) && (s == 0 || training->f[s - 1][i]) && ready;
}

// Its gradient is for update i / r, which must be the next on its copy. 2bw: made from the version before.
static bool can_backward(const struct training *training, uint32_t s, uint32_t i)
{
    return training->f[s][i] && !training->b[s][i] && (s + 1 == training->schedule->stages || training->b[s + 1][i])
        && training_steps(training, s, i) == i / training->copies[s];
}

static uint32_t update_count(const struct training *training, uint32_t s)
{
    return (training->schedule->micro_batches + training->copies[s] - 1) / training->copies[s];
}

static bool can_reduce(const struct training *training, uint32_t s)
{
    const uint32_t r = training->copies[s], t = training->reduced[s];
    bool good = t < update_count(training, s);
    for (uint32_t copy = 0; copy < r; copy++)
        good &= training->steps[s][copy] == t;
    for (uint32_t i = t * r; i < t * r + r && i < training->schedule->micro_batches; i++)
        good &= training->b[s][i];
    return good;
}

static void training_add(struct training *training, uint32_t rank, uint32_t s, enum action_kind kind, uint32_t number)
{
    random_add(training->schedule, rank,
               (struct action){ .stage = (uint16_t)s, .kind = (uint8_t)kind, .micro_batch = number });
}

// What the formulas say the forward meets: 2bw can tell before the backward has come, since i fixes its update.
static uint32_t version_met(const struct training *training, uint32_t s, uint32_t i)
{
    const uint32_t update = i / training->copies[s];
    if (training->schedule->weights == WEIGHTS_2BW)
        return update > 0 ? update - 1 : 0;
    return training->schedule->weights == WEIGHTS_VERTICAL && s > 0 ? training->version[0][i]
                                                                    : training_steps(training, s, i);
}

static bool try_unit(struct training *training, uint32_t s, uint32_t i)
{
    if (can_forward(training, s, i)
        && (training->schedule->weights != WEIGHTS_2BW || version_met(training, s, i) <= training_steps(training, s, i))) {
        training->version[s][i] = version_met(training, s, i);
        training->f[s][i] = true;
        training_add(training, training_rank(training, s, i), s, ACTION_F, i);
        return true;
    }
    if (!can_backward(training, s, i))
        return false;
    training->b[s][i] = true;
    training_add(training, training_rank(training, s, i), s, ACTION_B, i);
    return true;
}

static bool try_update(struct training *training, uint32_t s, uint64_t *seed)
{
    const uint32_t copy = (uint32_t)random_below(seed, training->copies[s]), t = training->reduced[s];
    if (training->steps[s][copy] < t) {
        training_add(training, training->first_rank[s] + copy, s, ACTION_STEP, training->steps[s][copy]++);
        return true;
    }
    if (!can_reduce(training, s))
        return false;
    for (uint32_t c = 0; c < training->copies[s]; c++)
        training_add(training, training->first_rank[s] + c, s, ACTION_REDUCE, t);
    training->reduced[s]++;
    return true;
}

static bool training_is_over(const struct training *training)
{
    bool over = true;
    for (uint32_t s = 0; s < training->schedule->stages; s++) {
        for (uint32_t copy = 0; copy < training->copies[s]; copy++)
            over &= training->steps[s][copy] == update_count(training, s);
    }
    return over;
}

static struct training random_training(uint64_t *seed)
{
    struct error error = { 0 };
    struct training training = { 0 };
    const uint32_t stages = 1 + (uint32_t)random_below(seed, STAGES), micro_batches = 1 + (uint32_t)random_below(seed, MICRO_BATCHES);
    const enum weights weights = (enum weights)(1 + random_below(seed, 3));
    const uint32_t equal = 1 + (uint32_t)random_below(seed, COPIES);
    uint32_t ranks = 0, routes = 6;  // the least common multiple of 1, 2, 3
    for (uint32_t s = 0; s < stages; s++) {
        training.copies[s] = weights == WEIGHTS_VERTICAL ? equal : 1 + (uint32_t)random_below(seed, COPIES);
        training.first_rank[s] = ranks;
        ranks += training.copies[s];
    }
    training.schedule = schedule_create("training", weights, ranks, stages, micro_batches, &error);
    assert_good(training.schedule, error);
    uint32_t homes[6 * STAGES];
    for (uint32_t at = 0; at < routes * stages; at++)
        homes[at] = training_rank(&training, at % stages, at / stages);
    routed(training.schedule, routes, homes);
    while (!training_is_over(&training)) {
        const uint32_t s = (uint32_t)random_below(seed, stages);
        if (random_below(seed, 3) || !try_update(&training, s, seed))
            try_unit(&training, s, (uint32_t)random_below(seed, micro_batches));
    }
    return training;
}

// The versions on a rank: from the oldest that is still to be used to the newest, at every place of its list.
static uint32_t slow_versions(const struct training *training, uint32_t s, uint32_t copy)
{
    const struct action_list *list = &training->schedule->lists[training->first_rank[s] + copy];
    uint32_t most = 1, newest = 0;
    for (size_t at = 0; at < list->count; at++) {
        newest += list->at[at].kind == ACTION_STEP;
        uint32_t oldest = newest;
        for (size_t later = at + 1; later < list->count; later++) {
            const uint32_t version = list->at[later].kind == ACTION_B ? training->version[s][list->at[later].micro_batch] : newest;
            oldest = version < oldest ? version : oldest;
        }
        most = newest - oldest + 1 > most ? newest - oldest + 1 : most;
    }
    return most;
}

static void check_versions(const struct training *training, uint64_t trial)
{
    struct error error = { 0 };
    struct cost_row costs[STAGES];
    struct simulation simulation;
    for (int s = 0; s < STAGES; s++)
        costs[s] = (struct cost_row){ .forward_ns = 1, .backward_ns = 2, .step_ns = 1, .version_bytes = 100 };
    assert_good(schedule_simulate(training->schedule, costs, NULL, &simulation, NULL, &error), error);
    for (uint32_t s = 0; s < training->schedule->stages; s++) {
        for (uint32_t copy = 0; copy < training->copies[s]; copy++) {
            const uint32_t rank = training->first_rank[s] + copy, want = slow_versions(training, s, copy);
            const uint64_t got = simulation.per_rank[rank].live_peak_bytes / 100 + 1;
            if (got != want)
                fail_msg("trial %llu: rank %u holds %llu versions, its twin %u", (unsigned long long)trial, rank,
                         (unsigned long long)got, want);
        }
    }
    simulation_clear(&simulation);
}

static void copies_hold_the_versions_of_the_formulas(void **state)
{
    (void)state;
    static struct slow slow;
    for (uint64_t trial = 0; trial < test_trials(1000, 10000); trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        const struct training training = random_training(&seed);
        struct schedule *lowered = schedule_lower(training.schedule, &error);
        assert_good(lowered, error);
        char *faults = faults_of(training.schedule);
        if (faults[0])
            fail_msg("trial %llu: %s", (unsigned long long)trial, faults);
        check_versions(&training, trial);
        struct cost_row costs[6];
        random_costs(&seed, costs, training.schedule->stages, 1);
        struct network *network = random_network(&seed, lowered->ranks, random_below(&seed, 2));
        struct simulator *simulator = simulator_create(lowered, network, &error);
        assert_good(simulator, error);
        const unsigned long long got = simulator_iteration_ns(simulator, costs);
        const unsigned long long want = slow_iteration_ns(&slow, lowered, costs, network);
        struct simulation simulation;
        assert_good(schedule_simulate(lowered, costs, network, &simulation, NULL, &error), error);
        if (got != want || simulation.iteration_ns != want)
            fail_msg("trial %llu: %llu and %llu, its twin says %llu", (unsigned long long)trial, got,
                     (unsigned long long)simulation.iteration_ns, want);
        simulation_clear(&simulation);
        simulator_free(simulator);
        network_free(network);
        free(faults);
        schedule_free(lowered);
        schedule_free(training.schedule);
    }
}

int main(void)
{
    enum { FAULTS = sizeof fault_rows / sizeof fault_rows[0], PLAIN = 6 };
    struct CMUnitTest tests[PLAIN + FAULTS] = {
        cmocka_unit_test(vertical_sync_wants_as_many_copies_of_every_stage),
        cmocka_unit_test(copies_that_reduce_different_updates_are_an_error),
        cmocka_unit_test(a_reduction_starts_when_the_last_copy_is_there),
        cmocka_unit_test(a_validation_moves_no_bubble),
        cmocka_unit_test(inference_keeps_nothing),
        cmocka_unit_test(copies_hold_the_versions_of_the_formulas),
    };
    for (size_t i = 0; i < FAULTS; i++)
        tests[PLAIN + i] = (struct CMUnitTest)TEST_ROW(update_is_judged, &fault_rows[i]);
    return cmocka_run_group_tests_name("reductions", tests, NULL, NULL);
}
