// Numbers that others have published or that their programs print, replayed: the
// tables of the zero-bubble paper to the microsecond, PyTorch's own files.
#include "schedules/generate.h"
#include "schedules/simulate.h"
#include "tests/schedules/schedule_csv.h"

static void assert_near(double got, double want, double by)
{
    if (got - want > by || want - got > by)
        fail_msg("%.15f is not %.15f", got, want);
}

// The same row for each stage, and a link with this latency between any two ranks.
static struct simulation simulated(struct schedule *schedule, struct cost_row row, uint64_t latency_ns)
{
    struct error error = { 0 };
    struct simulation simulation;
    struct network *network = network_uniform(schedule->ranks, (struct link){ latency_ns, 0 }, &error);
    assert_good(network, error);
    schedule->costs = calloc(schedule->stages, sizeof row);
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        schedule->costs[stage] = row;
    assert_good(schedule_simulate(schedule, NULL, network, &simulation, NULL, &error), error);
    network_free(network);
    return simulation;
}

// --- the zero-bubble paper -----------------------------------------------------

// Tables 4 and 5: times in us, and what 1F1B, ZB-H1 and ZB-H2 cost. Costs are the
// longest span of a rank; the rates are printed with four digits.
enum { PUBLISHED = 3 };
static const char *const published_schedules[PUBLISHED] = { "1f1b", "zb-h1", "zb-h2" };

static struct published_row {
    const char *name;
    uint32_t ranks, micro_batches;
    uint64_t f, b, w, c;
    uint64_t costs[PUBLISHED];
    double rates[PUBLISHED];
} published_rows[] = {
    { "published: 1.5B, p=8, m=24", 8, 24, 18522, 18086, 9337, 601, { 1456749, 1310405, 1236632 },
      { .2431, .1585, .1083 } },
    { "published: 1.5B, p=8, m=32", 8, 32, 18513, 18086, 9331, 626, { 1833838, 1678164, 1604083 },
      { .1985, .1242, .0837 } },
    { "published: 1.5B, p=8, m=64", 8, 64, 18546, 18097, 9321, 762, { 3357932, 3154286, 3078371 },
      { .1240, .0674, .0444 } },
    { "published: 14.6B, p=16, m=48", 16, 48, 11347, 11248, 8132, 377, { 1980287, 1714461, 1581171 },
      { .2552, .1397, .0672 } },
    { "published: 14.6B, p=16, m=64", 16, 64, 11307, 11254, 8101, 379, { 2478390, 2202008, 2069123 },
      { .2082, .1088, .0516 } },
    { "published: 14.6B, p=16, m=128", 16, 128, 11325, 11308, 8109, 378, { 4497410, 4175516, 4042541 },
      { .1251, .0576, .0266 } },
};

static struct cost_row published_costs(const struct published_row *row)
{
    return (struct cost_row){ .forward_ns = row->f * 1000, .backward_ns = (row->b + row->w) * 1000,
                              .backward_input_ns = row->b * 1000, .backward_weight_ns = row->w * 1000 };
}

static void published_costs_are_exact(void **state)
{
    const struct published_row *row = *state;
    for (size_t i = 0; i < PUBLISHED; i++) {
        struct error error = { 0 };
        struct schedule *schedule =
            schedule_generate(published_schedules[i], row->ranks, 1, row->micro_batches, &error);
        assert_good(schedule, error);
        struct simulation simulation = simulated(schedule, published_costs(row), row->c * 1000);
        assert_int_equal(simulation.max_span_ns, row->costs[i] * 1000);
        assert_near(simulation.bubble.zb_rate, row->rates[i], 0.00005);
        simulation_clear(&simulation);
        schedule_free(schedule);
    }
}

// What their own heuristic found for the first row, in the bytes of that model: a
// hidden size of 2304, 24 heads, sequences of 1024 (34 h + 5 a s and 32 h for each).
static void the_authors_order_costs_and_keeps_what_they_say(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    static const double peaks[8] = { 8, 7.366, 6.733, 6.099, 5.466, 4.832, 4.198, 3.565 };
    const uint64_t kept = 34 * 2304 + 5 * 24 * 1024, kept_weight = 32 * 2304;
    struct schedule *schedule = csv_load("zb1p_1.5B_p8_m24.csv");
    struct cost_row costs = published_costs(&published_rows[0]);
    costs.kept_forward_bytes = kept;
    costs.kept_weight_bytes = kept_weight;
    struct simulation simulation = simulated(schedule, costs, published_rows[0].c * 1000);
    assert_int_equal(simulation.max_span_ns, 1310405000);
    for (uint32_t rank = 0; rank < 8; rank++) {
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, (8 - rank) * kept + rank * kept_weight);
        assert_near((double)simulation.per_rank[rank].live_peak_bytes / (double)kept, peaks[rank], 0.0005);
    }
    simulation_clear(&simulation);
    schedule_free(schedule);
}

// --- PyTorch's files -------------------------------------------------------------

static struct overlap_row {
    const char *name;
    uint64_t scale, overlapped, steps;  // in halves where a group takes 2.5
} overlap_rows[] = {
    { "dualpipev: a group of 3 makes 66", 1, 3, 66 },
    { "dualpipev: a group of 2.5 makes 59", 2, 5, 59 },
    { "dualpipev: a group of 2 makes 52", 1, 2, 52 },
};

static void dualpipev_takes_what_its_groups_take(void **state)
{
    const struct overlap_row *row = *state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct schedule *schedule = csv_load("pytorch_dualpipev_4rank_10mb.csv");
    const struct cost_row costs = { .forward_ns = row->scale, .backward_input_ns = row->scale,
                                    .backward_weight_ns = row->scale, .backward_ns = 2 * row->scale,
                                    .overlapped_ns = row->overlapped, .kept_forward_bytes = 1 };
    struct simulation simulation = simulated(schedule, costs, 0);
    assert_int_equal(simulation.iteration_ns, row->steps * row->scale);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(simulation.per_rank[rank].peak_in_flight, 9);  // PP + 1 chunks
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, 9);
    }
    simulation_clear(&simulation);
    schedule_free(schedule);
}

static void zbv_takes_51_and_keeps_8(void **state)
{
    (void)state;
    if (!csv_is_there())
        TEST_SKIP("no ../shared/data/schedules here");
    struct schedule *schedule = csv_load("ref_zbv_p4_m8.csv");
    struct simulation simulation = simulated(schedule, (struct cost_row){ 1, 2, 1, 1, .kept_forward_bytes = 1 }, 0);
    assert_int_equal(simulation.iteration_ns, 51);
    assert_int_equal(simulation.max_span_ns, 48);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(simulation.per_rank[rank].live_peak_bytes, 8);
    simulation_clear(&simulation);
    schedule_free(schedule);
}

int main(void)
{
    enum {
        ROWS = sizeof published_rows / sizeof published_rows[0],
        OVERLAPS = sizeof overlap_rows / sizeof overlap_rows[0],
    };
    struct CMUnitTest tests[2 + ROWS + OVERLAPS] = {
        cmocka_unit_test(the_authors_order_costs_and_keeps_what_they_say),
        cmocka_unit_test(zbv_takes_51_and_keeps_8),
    };
    size_t count = 2;
    for (size_t i = 0; i < ROWS; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(published_costs_are_exact, &published_rows[i]);
    for (size_t i = 0; i < OVERLAPS; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(dualpipev_takes_what_its_groups_take, &overlap_rows[i]);
    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
