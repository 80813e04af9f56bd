#include "schedules/generators/generate.h"

#include "schedules/board.h"
#include "schedules/check.h"
#include "schedules/generators/generators.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "schedules/slots.h"
#include "tests/schedules/schedule_csv.h"

static struct order_row {
    const char *name;
    const char *schedule;
    uint32_t ranks, micro_batches;
    const char *lists[3];
} order_rows[] = {
    { "gpipe: all forwards, then all backwards", "gpipe", 2, 3,
      { "0F0 0F1 0F2 0B0 0B1 0B2 0STEP", "1F0 1F1 1F2 1B0 1B1 1B2 1STEP" } },
    { "1f1b: rank s runs p - s forwards ahead", "1f1b", 3, 4,
      { "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3 0STEP", "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3 1STEP",
        "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3 2STEP" } },
    { "1f1b: fewer micro-batches than ranks", "1f1b", 3, 2,
      { "0F0 0F1 0B0 0B1 0STEP", "1F0 1F1 1B0 1B1 1STEP", "2F0 2B0 2F1 2B1 2STEP" } },
    { "pipedream: an update after each backward", "pipedream", 2, 3,
      { "0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0B2 0STEP2", "1F0 1B0 1STEP0 1F1 1B1 1STEP1 1F2 1B2 1STEP2" } },
    { "pipedream: fewer micro-batches than ranks", "pipedream", 3, 1,
      { "0F0 0B0 0STEP0", "1F0 1B0 1STEP0", "2F0 2B0 2STEP0" } },
    { "vertical: pipedream's order", "vertical", 2, 3,
      { "0F0 0F1 0B0 0STEP0 0F2 0B1 0STEP1 0B2 0STEP2", "1F0 1B0 1STEP0 1F1 1B1 1STEP1 1F2 1B2 1STEP2" } },
    { "pipedream-2bw: an update after p backwards", "pipedream-2bw", 3, 7,
      { "0F0 0F1 0F2 0B0 0F3 0B1 0F4 0B2 0STEP0 0F5 0B3 0F6 0B4 0B5 0STEP1 0B6 0STEP2",
        "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1STEP0 1F4 1B3 1F5 1B4 1F6 1B5 1STEP1 1B6 1STEP2",
        "2F0 2B0 2F1 2B1 2F2 2B2 2STEP0 2F3 2B3 2F4 2B4 2F5 2B5 2STEP1 2F6 2B6 2STEP2" } },
    { "interleaved: rounds of p through the stages of a rank", "interleaved", 2, 4,
      { "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3 0STEP 2STEP",
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3 1STEP 3STEP" } },
    { "interleaved: a round of 3 where 2 would leave 1 over", "interleaved", 2, 3,
      { "0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2 0STEP 2STEP",
        "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1B0 1B1 1B2 1STEP 3STEP" } },
    { "looped-bfs: stage after stage, and back", "looped-bfs", 2, 3,
      { "0F0 0F1 0F2 2F0 2F1 2F2 2B2 2B1 2B0 0B2 0B1 0B0 0STEP 2STEP",
        "1F0 1F1 1F2 3F0 3F1 3F2 3B2 3B1 3B0 1B2 1B1 1B0 1STEP 3STEP" } },
    { "zb-h1: each W r backwards behind its I", "zb-h1", 3, 4,
      { "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3 0STEP",
        "1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3 1STEP",
        "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3 2STEP" } },
    { "zb-h2: twice as far ahead, and a validation", "zb-h2", 2, 4,
      { "0F0 0F1 0F2 0VALIDATE 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3 0STEP",
        "1F0 1VALIDATE 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3 1STEP" } },
    { "zb-v: fewer micro-batches than fill the pipeline", "zb-v", 2, 1,
      { "0F0 3F0 3VALIDATE 3I0 3W0 0VALIDATE 0I0 0W0 0STEP 3STEP",
        "1F0 2F0 2VALIDATE 2I0 2W0 1VALIDATE 1I0 1W0 1STEP 2STEP" } },
    { "chimera: even micro-batches go down, odd ones up", "chimera", 2, 3,
      { "0F0 1F1 1B1 0F2 0B0 0B2 0REDUCE 0STEP 1REDUCE 1STEP",
        "0F1 1F0 1B0 0B1 1F2 1B2 0REDUCE 0STEP 1REDUCE 1STEP" } },
    { "dualpipe: both pipelines at once", "dualpipe", 2, 4,
      { "0F0 1F1 0F2 1B1 (1F3;0B0)OVERLAP_F_B 1B3 0I2 0W2 0REDUCE 0STEP 1REDUCE 1STEP",
        "0F1 1F0 0F3 1B0 (1F2;0B1)OVERLAP_F_B 1B2 0I3 0W3 0REDUCE 0STEP 1REDUCE 1STEP" } },
    { "seq1f1b: splits forward in order, backward in reverse", "seq1f1b", 2, 1,
      { "0F0 0F0.1 0F0.2 0F0.3 0B0.3 0B0.2 0B0.1 0B0 0STEP", "1F0 1F0.1 1F0.2 1F0.3 1B0.3 1B0.2 1B0.1 1B0 1STEP" } },
    { "forward-only: forwards", "forward-only", 2, 3, { "0F0 0F1 0F2", "1F0 1F1 1F2" } },
    { "v-half: half of 1f1b's memory", "v-half", 2, 2,
      { "0F0 0F1 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1 0STEP 3STEP",
        "1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 1W0 2W1 1W1 1STEP 2STEP" } },
    { "v-min: a third of 1f1b's memory", "v-min", 3, 2,
      { "0F0 0F1 5F0 5I0 5W0 5F1 5I1 0I0 5W1 0W0 0I1 0W1 0STEP 5STEP",
        "1F0 1F1 4F0 4I0 4F1 4W0 1I0 4I1 1W0 4W1 1I1 1W1 1STEP 4STEP",
        "2F0 3F0 2F1 3F1 3I0 2I0 3W0 2W0 3I1 2I1 3W1 2W1 2STEP 3STEP" } },
    { "hanayo: a wave down the ranks and back", "hanayo", 2, 3,
      { "0F0 0F1 0F2 3F0 3B0 3F1 3B1 0B0 3F2 3B2 0B1 0B2 0STEP 3STEP",
        "1F0 2F0 1F1 2F1 2B0 1F2 1B0 2F2 2B1 1B1 2B2 1B2 1STEP 2STEP" } },
    { "interleaved-zb: fewer micro-batches than ranks", "interleaved-zb", 2, 1,
      { "0F0 2F0 2I0 2W0 0I0 0W0 0STEP 2STEP", "1F0 3F0 3I0 1I0 3W0 1W0 1STEP 3STEP" } },
};

static void order_is_the_drawn_one(void **state)
{
    const struct order_row *row = *state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(row->schedule, row->ranks, 0, row->micro_batches, &error);
    assert_good(schedule, error);
    char buffer[2000];
    for (uint32_t rank = 0; rank < row->ranks; rank++)
        assert_string_equal(list_text(schedule, rank, buffer, sizeof buffer), row->lists[rank]);
    schedule_free(schedule);
}

// A forward more on each rank before its first backward, and every pair may run.
static void backwards_are_joined_with_the_forwards_behind_them(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate("interleaved", 2, 2, 4, &error);
    assert_good(schedule, error);
    generate_pairs(schedule);
    char buffer[2000];
    assert_string_equal(list_text(schedule, 0, buffer, sizeof buffer),
                        "0F0 0F1 2F0 2F1 0F2 (2B0;0F3)OVERLAP_F_B (2B1;2F2)OVERLAP_F_B (0B0;2F3)OVERLAP_F_B 0B1 2B2"
                        " 2B3 0B2 0B3 0STEP 2STEP");
    assert_string_equal(list_text(schedule, 1, buffer, sizeof buffer),
                        "1F0 1F1 3F0 (3B0;3F1)OVERLAP_F_B (3B1;1F2)OVERLAP_F_B (1B0;1F3)OVERLAP_F_B"
                        " (1B1;3F2)OVERLAP_F_B (3B2;3F3)OVERLAP_F_B 3B3 1B2 1B3 1STEP 3STEP");
    schedule_free(schedule);
    // F takes 1, B 2 and a pair 2. So a pair is as good as its backward alone, and forwards in no pair are left.
    for (uint32_t ranks = 1; ranks <= 8; ranks *= 2)
        for (uint32_t chunks = 2; chunks <= 4; chunks++) {
            const uint32_t m = 4 * ranks;
            schedule = schedule_generate("interleaved", ranks, chunks, m, &error);
            assert_good(schedule, error);
            struct cost_row rows[32] = { { 0 } };
            for (uint32_t s = 0; s < schedule->stages; s++)
                rows[s] = (struct cost_row){ .forward_ns = 1000, .backward_ns = 2000, .overlapped_ns = 2000 };
            struct simulation apart, paired;
            assert_good(schedule_simulate(schedule, rows, NULL, &apart, NULL, &error), error);
            generate_pairs(schedule);
            assert_good(schedule_simulate(schedule, rows, NULL, &paired, NULL, &error), error);
            const uint64_t alone = (chunks - 1) * ranks + 1;  // forwards of the last rank before its first pair
            assert_int_equal(apart.iteration_ns, 3000 * (m * chunks + ranks - 1));
            assert_true(paired.iteration_ns >= 2000 * m * chunks + 1000 * alone);
            assert_true(paired.iteration_ns <= 2000 * m * chunks + 1000 * alone + 3000 * 2 * (ranks - 1));
            simulation_clear(&apart);
            simulation_clear(&paired);
            schedule_free(schedule);
        }
}

static struct file_row {
    const char *name;
    const char *schedule;
    uint32_t ranks, micro_batches;
    const char *file;
} file_rows[] = {
    { "gpipe is that of the data files", "gpipe", 4, 8, "ref_gpipe_p4_m8.csv" },
    { "1f1b is that of the data files", "1f1b", 4, 8, "ref_1f1b_p4_m8.csv" },
    { "interleaved is that of the data files", "interleaved", 4, 8, "ref_interleaved1f1b_p4_m8_v2.csv" },
    { "zb-h1 is that of the data files", "zb-h1", 4, 8, "ref_zbh1_p4_m8.csv" },
    { "zb-h2 is that of the data files", "zb-h2", 4, 8, "ref_zbh2_p4_m8.csv" },
    { "zb-v is PyTorch's", "zb-v", 4, 8, "ref_zbv_p4_m8.csv" },
    { "dualpipev is PyTorch's", "dualpipev", 4, 10, "pytorch_dualpipev_4rank_10mb.csv" },
    { "interleaved-zb is PyTorch's ZB1P", "interleaved-zb", 2, 8, "pytorch_zb1p_2rank_2stagep_compute.csv" },
};

// The files have only what computes.
static void keep_what_computes(struct schedule *schedule)
{
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        struct action_list *list = &schedule->lists[rank];
        size_t kept = 0;
        for (size_t i = 0; i < list->count; i++) {
            if (list->at[i].kind <= ACTION_W)
                list->at[kept++] = list->at[i];
        }
        list->count = kept;
    }
}

static void order_is_that_of_the_file(void **state)
{
    const struct file_row *row = *state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct error error = { 0 };
    struct schedule *ours = schedule_generate(row->schedule, row->ranks, 0, row->micro_batches, &error);
    assert_good(ours, error);
    keep_what_computes(ours);
    struct schedule *theirs = csv_load(row->file);
    assert_int_equal(ours->ranks, theirs->ranks);
    assert_int_equal(ours->stages, theirs->stages);
    assert_memory_equal(ours->routes, theirs->routes, ours->stages * sizeof *ours->routes);
    for (uint32_t rank = 0; rank < row->ranks; rank++) {
        char got[8000], want[8000];
        assert_string_equal(list_text(ours, rank, got, sizeof got), list_text(theirs, rank, want, sizeof want));
        assert_memory_equal(ours->lists[rank].at, theirs->lists[rank].at,
                            ours->lists[rank].count * sizeof(struct action));
    }
    schedule_free(theirs);
    schedule_free(ours);
}

// Where PyTorch has rounds at all (m % max(1, m / p) == 0), ours are the same.
static void rounds_are_pytorchs_and_otherwise_megatrons(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 20; ranks++) {
        for (uint32_t m = 1; m <= 100; m++) {
            const struct rounds rounds = rounds_of(ranks, m);
            const uint32_t theirs = m < ranks ? 1 : m / ranks;
            if (m % theirs == 0)
                assert_int_equal(rounds.size, m / theirs);
            assert_int_equal(rounds.remainder, m % rounds.size);
            assert_true(rounds.remainder == 0 || rounds.remainder >= ranks);
            assert_true(rounds.size <= m && (rounds.size >= ranks || m < ranks));
        }
    }
}

static void what_cannot_be_generated_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        uint32_t chunks;
        const char *sentence;
    } rows[] = {
        { "gpipe", 2, "gpipe has one stage per rank: chunks must be 1, not 2" },
        { "1f1b", 3, "1f1b has one stage per rank: chunks must be 1, not 3" },
        { "pipedream", 9, "pipedream has one stage per rank: chunks must be 1, not 9" },
        { "pipedream-2bw", 2, "pipedream-2bw has one stage per rank: chunks must be 1, not 2" },
        { "zb-h1", 2, "zb-h1 has one stage per rank: chunks must be 1, not 2" },
        { "interleaved", 1,
          "interleaved has several stages per rank: chunks must be 2 or more, not 1 (1f1b is for 1)" },
        { "looped-bfs", 1, "looped-bfs has several stages per rank: chunks must be 2 or more, not 1 (gpipe is for 1)" },
        { "interleaved-zb", 1,
          "interleaved-zb has several stages per rank: chunks must be 2 or more, not 1 (zb-h1 is for 1)" },
        { "zb-h2", 2, "zb-h2 has one stage per rank: chunks must be 1, not 2" },
        { "zb-v", 4, "zb-v has two stages per rank, on a V: chunks must be 2, not 4" },
        { "dualpipev", 1, "dualpipev has two stages per rank, on a V: chunks must be 2, not 1" },
        { "dualpipe", 2, "dualpipe has one stage per rank: chunks must be 1, not 2" },
        { "chimera", 2, "chimera has one stage per rank: chunks must be 1, not 2" },
        { "seq1f1b", 2, "seq1f1b has one stage per rank: chunks must be 1, not 2" },
        { "forward-only", 2, "forward-only has one stage per rank: chunks must be 1, not 2" },
        { "v-half", 3, "v-half has two stages per rank, on a V: chunks must be 2, not 3" },
        { "v-min", 1, "v-min has two stages per rank, on a V: chunks must be 2, not 1" },
        { "hanayo", 5, "hanayo has two stages per rank and wave: chunks must be even, such as 6, not 5" },
        { "interleaved", UINT32_MAX, "4294967295 stages are more than a schedule can have (65535)" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        assert_null(schedule_generate(rows[i].schedule, 4, rows[i].chunks, 8, &error));
        assert_error(error, rows[i].sentence);
    }
    const uint32_t replicas[] = { 1, 3 };
    const struct generate_request split = { .ranks = 4, .micro_batches = 8, .splits = 2 },
                                  replicated = { .ranks = 4, .micro_batches = 8, .replicas = replicas, .stages = 2 };
    struct error error = { 0 };
    assert_null(schedule_generate_as("gpipe", &split, &error));
    assert_error(error, "gpipe takes sequences whole: splits must be 1, not 2");
    error = (struct error){ 0 };
    assert_null(schedule_generate_as("zb-h1", &replicated, &error));
    assert_error(error, "zb-h1 has one rank for each stage; replicas are for gpipe, 1f1b, pipedream, pipedream-2bw,"
                 " forward-only");
}

static bool may_run(const struct schedule *schedule)
{
    struct error error = { 0 };
    struct check_result result;
    assert_good(schedule_check(schedule, 0, &result, &error), error);
    const bool ok = result.ok && result.capacity == 0;
    check_result_clear(&result);
    return ok;
}

// At many more sizes than test_check.c has, and with other numbers of stages per rank.
static void whatever_is_generated_may_run_without_buffers(void **state)
{
    (void)state;
    const uint64_t trials = test_all_trials(200, 1500);
    for (const struct generator *generator = generators; generator->name; generator++) {
        uint64_t good = 0, seed = 11;  // so that a new schedule changes no other's cases
        for (uint64_t trial = 0; trial < trials; trial++) {
            const uint32_t p = generator_ranks(generator, 1 + (uint32_t)random_below(&seed, 9));
            const uint32_t m = 1 + (uint32_t)random_below(&seed, 30);
            const struct generate_request request = { .ranks = p, .micro_batches = m,
                                                      .chunks = (uint32_t)random_below(&seed, 7),
                                                      .splits = (uint32_t)random_below(&seed, 6) };
            struct error error = { 0 };
            struct schedule *schedule = schedule_generate_as(generator->name, &request, &error);
            if (schedule && !may_run(schedule))
                fail_msg("%s: %u ranks, %u stages each, %u micro-batches, %u splits", generator->name, p,
                         request.chunks, m, request.splits);
            good += schedule != NULL;
            schedule_free(schedule);
        }
        assert_true(good > 0);
    }
}

// With any number of ranks for each stage: it runs, every rank that shares a stage reduces, and a rank keeps as many
// micro-batches as it is ahead with (1F1B-RR), or all of its own (gpipe), or none.
static void replicas_take_turns(void **state)
{
    (void)state;
    uint64_t seed = 3;
    const uint64_t trials = test_all_trials(200, 4000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint32_t replicas[5], most = 0;
        struct generate_request request = { .stages = 1 + (uint32_t)random_below(&seed, 5), .replicas = replicas };
        for (uint32_t s = 0; s < request.stages; s++) {
            replicas[s] = 1 + (uint32_t)random_below(&seed, 4);
            request.ranks += replicas[s];
            most = replicas[s] > most ? replicas[s] : most;
        }
        request.micro_batches = most + (uint32_t)random_below(&seed, 30);
        struct error error = { 0 };
        static const char *const names[] = { "pipedream", "1f1b", "gpipe", "forward-only" };
        const uint64_t which = random_below(&seed, 4);
        struct schedule *schedule = schedule_generate_as(names[which], &request, &error);
        assert_good(schedule, error);
        if (!may_run(schedule))
            fail_msg("trial %u: %u stages on %u ranks, %u micro-batches", (unsigned)trial, request.stages,
                     request.ranks, request.micro_batches);
        struct schedule *lowered = schedule_lower(schedule, &error);
        assert_good(lowered, error);
        struct slots slots[5];
        assert_good(slots_count(lowered, slots, &error), error);
        uint32_t after = request.ranks;
        for (uint32_t s = 0; s < request.stages; after -= replicas[s++]) {
            const uint32_t ahead = (after + replicas[s] - 1) / replicas[s];  // the paper's number of warm-up
            const uint32_t own = (request.micro_batches + replicas[s] - 1) / replicas[s];
            const uint32_t in_flight = which == 2 || ahead > own ? own : ahead;
            assert_int_equal(slots[s].versions, which == 0 ? in_flight : 1);
            assert_int_equal(slots[s].kept, which == 3 ? 1 : in_flight);
        }
        schedule_free(lowered);
        schedule_free(schedule);
    }
}

static void replicas_that_do_not_fit_are_said(void **state)
{
    (void)state;
    static const uint32_t some[] = { 2, 1 }, none[] = { 2, 0 }, odd[] = { 511, 509, 503 };
    static const struct {
        struct generate_request request;
        const char *sentence;
    } rows[] = {
        { { .ranks = 4, .micro_batches = 8, .replicas = some, .stages = 2 },
          "the replicas of the 2 stages take 3 ranks, not 4" },
        { { .ranks = 2, .micro_batches = 8, .replicas = none, .stages = 2 }, "stage 1 needs one rank or more, not 0" },
        { { .ranks = 3, .micro_batches = 1, .replicas = some, .stages = 2 },
          "micro-batches must be 2 or more, one for each replica of a stage, not 1" },
        { { .ranks = 3, .micro_batches = 8, .replicas = some, .stages = 2, .chunks = 2 },
          "pipedream has one stage per rank: chunks must be 1, not 2" },
        { { .ranks = 1523, .micro_batches = 70000, .replicas = odd, .stages = 3 },
          "these replicas need 70000 routes, and a schedule can have 65536: use numbers of replicas that divide each "
          "other" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        assert_null(schedule_generate_as("pipedream", &rows[i].request, &error));
        assert_error(error, rows[i].sentence);
    }
}

static void ranks_and_micro_batches_that_do_not_fit_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *schedule;
        uint32_t ranks, micro_batches;
        const char *sentence;
    } rows[] = {
        { "dualpipev", 4, 7, "dualpipev needs two micro-batches for each rank: 8 or more, not 7" },
        { "dualpipe", 4, 6, "dualpipe needs an even number of micro-batches, at least two for each rank: 8, not 6" },
        { "dualpipe", 4, 9, "dualpipe needs an even number of micro-batches, at least two for each rank: 10, not 9" },
        { "dualpipe", 5, 20, "dualpipe has two pipelines against each other: ranks must be even, such as 6, not 5" },
        { "chimera", 3, 8, "chimera has two pipelines against each other: ranks must be even, such as 4, not 3" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error error = { 0 };
        assert_null(schedule_generate(rows[i].schedule, rows[i].ranks, 0, rows[i].micro_batches, &error));
        assert_error(error, rows[i].sentence);
    }
    const struct generate_request request = { .ranks = 2, .micro_batches = 2, .splits = 128 };
    struct error error = { 0 };
    assert_null(schedule_generate_as("seq1f1b", &request, &error));
    assert_error(error, "seq1f1b cuts a sequence into at most 127 splits, not 128");
}

static void an_unknown_schedule_is_answered_with_all_that_there_are(void **state)
{
    (void)state;
    struct error error = { 0 };
    assert_null(schedule_generate("2f2b", 4, 1, 8, &error));
    const char start[] = "there is no schedule named \"2f2b\" (there are gpipe, 1f1b, pipedream, ";
    assert_memory_equal(error.text, start, sizeof start - 1);
    for (const struct generator *generator = generators; generator->name; generator++)
        assert_non_null(strstr(error.text, generator->name));
}

static void inference_is_forwards_alone(void **state)
{
    (void)state;
    for (const struct generator *generator = generators; generator->name; generator++) {
        struct error error = { 0 };
        struct schedule *schedule = schedule_generate(generator->name, generator_ranks(generator, 2), 0, 8, &error);
        assert_good(schedule, error);
        assert_int_equal(generator->is_inference, schedule_is_forward_only(schedule));
        schedule_free(schedule);
    }
}

static void the_page_of_schedules_has_a_line_for_each(void **state)
{
    (void)state;
    struct error error = { 0 };
    size_t length;
    char *page = text_load("docs/schedules.md", &length, &error);
    assert_good(page, error);
    for (const struct generator *generator = generators; generator->name; generator++) {
        char line[80];
        snprintf(line, sizeof line, "\n| `%s` | ", generator->name);
        if (!strstr(page, line))
            fail_msg("docs/schedules.md says nothing of %s", generator->name);
    }
    free(page);
}

int main(void)
{
    enum {
        ORDERS = sizeof order_rows / sizeof order_rows[0],
        FILES = sizeof file_rows / sizeof file_rows[0],
        OTHERS = 10,
    };
    struct CMUnitTest tests[OTHERS + ORDERS + FILES] = {
        cmocka_unit_test(rounds_are_pytorchs_and_otherwise_megatrons),
        cmocka_unit_test(what_cannot_be_generated_is_said),
        cmocka_unit_test(whatever_is_generated_may_run_without_buffers),
        cmocka_unit_test(backwards_are_joined_with_the_forwards_behind_them),
        cmocka_unit_test(replicas_take_turns),
        cmocka_unit_test(replicas_that_do_not_fit_are_said),
        cmocka_unit_test(ranks_and_micro_batches_that_do_not_fit_are_said),
        cmocka_unit_test(inference_is_forwards_alone),
        cmocka_unit_test(the_page_of_schedules_has_a_line_for_each),
        cmocka_unit_test(an_unknown_schedule_is_answered_with_all_that_there_are),
    };
    for (size_t i = 0; i < ORDERS; i++)
        tests[OTHERS + i] = (struct CMUnitTest)TEST_ROW(order_is_the_drawn_one, &order_rows[i]);
    for (size_t i = 0; i < FILES; i++)
        tests[OTHERS + ORDERS + i] = (struct CMUnitTest)TEST_ROW(order_is_that_of_the_file, &file_rows[i]);
    return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}
