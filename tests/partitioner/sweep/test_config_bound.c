#include "partitioner/sweep/config_bound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedules/generators/generate.h"
#include "tests/test.h"

// --- what waits for its backward, in the orders themselves -------------------------------------------------------

// The most micro-batches of which a stage has had its F and not yet its B or I.
static uint32_t in_flight(const struct schedule *schedule, uint32_t rank, uint32_t stage)
{
    uint32_t now = 0, most = 0;
    for (const struct action *at = schedule->lists[rank].at; at < list_end(&schedule->lists[rank]); at++) {
        if (at->stage != stage)
            continue;
        now += at->kind == ACTION_F;
        now -= at->kind == ACTION_B || at->kind == ACTION_I;
        most = now > most ? now : most;
    }
    return most;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void no_order_has_fewer_in_flight(const char *name, uint32_t ranks, uint32_t chunks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, ranks, chunks, micro_batches, &error);
    assert_good(schedule, error);
    const struct generate_request request = { .ranks = ranks, .chunks = chunks, .micro_batches = micro_batches };
    const struct generator *generator = generator_find(name, &error);
    assert_non_null(generator);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const struct generator_flight flight = generator_flight(generator, &request, rank);
        uint32_t of[16], count = 0;
        for (uint32_t stage = 0; stage < schedule->stages; stage++)
            if (schedule_rank(schedule, stage, 0) == rank)
                of[count++] = in_flight(schedule, rank, stage);
        assert_int_equal(count, chunks);
        qsort(of, count, sizeof of[0], by_number);
        if (of[0] < flight.least || flight.dear >= count || (flight.dear && of[count - flight.dear] < flight.most))
            fail_msg("%s, p %u, v %u, m %u, rank %u: fewer in flight than %u", name, ranks, chunks, micro_batches, rank,
                     flight.least);
    }
    schedule_free(schedule);
}

static void as_many_are_in_flight_as_is_said(void **state)
{
    (void)state;
    static const char *const names[] = { "1f1b", "gpipe", "zb-h1", "zb-h2" };
    for (uint32_t p = 2; p <= 9; p++)
        for (uint32_t m = p; m <= 4 * p; m += m < p + 3 ? 1 : p - 1) {
            for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
                no_order_has_fewer_in_flight(names[i], p, 1, m);
            no_order_has_fewer_in_flight("zb-v", p, 2, m);
        }
    for (uint32_t p = 2; p <= 9; p++)
        for (uint32_t rounds = 1; rounds <= 4; rounds++)
            for (uint32_t v = 2; v <= 8; v++)
                no_order_has_fewer_in_flight("interleaved", p, v, rounds * p);
}

// --- the least end, over every cut ---------------------------------------------------------------------------------

enum { MOST_PARTS = 16 };

// Units [first, end), of which the 0-th is the embedding and the last the head, as layers.
static size_t parts_of(const struct transformer *model, size_t first, size_t end, enum layer_part *parts)
{
    size_t count = 0;
    for (size_t unit = first; unit < end; unit++) {
        if (unit == 0)
            parts[count++] = PART_EMBEDDING;
        else if (unit == model->layers + 1)
            parts[count++] = PART_HEAD;
        else {
            parts[count++] = model->local_window > 0 && model->is_local[unit - 1] ? PART_WINDOWED : PART_ATTENTION;
            parts[count++] = PART_MLP;
        }
    }
    return count;
}

static const struct rated_device device = { .levels = { { 64, 0, 1000000000, 1, 1000 } }, .level_count = 1 };

static struct config_costs random_costs(uint64_t *seed, const struct transformer *model)
{
    struct config_costs costs = { .model = model, .output_bytes = (double)random_below(seed, 20) };
    for (int i = 0; i < LAYER_PARTS; i++) {
        costs.forward_ns[i] = 1 + (double)random_below(seed, 30);
        costs.pass_ns[i] = 3 * costs.forward_ns[i];
        costs.saved_bytes[i] = (double)random_below(seed, 10);
        costs.fixed_bytes[i] = (double)random_below(seed, 20);
    }
    costs.memory_bytes = (double)(10 + random_below(seed, 120));
    enum layer_part parts[MOST_PARTS];
    const size_t count = parts_of(model, 0, model->layers + 2, parts);
    for (size_t i = 0; i < count; i++)
        costs.work_ns += costs.pass_ns[parts[i]];
    costs.work_forward_ns = costs.work_ns / 3;
    return costs;
}

// The least time to run layers again whose bytes cover what is lacking: every set of them whole, and one more in part.
static double again_ns(const struct config_costs *costs, const enum layer_part *parts, size_t count, double live,
                       double lacking)
{
    double best = lacking > 0 ? INFINITY : 0;
    for (uint32_t set = 0; lacking > 0 && set < UINT32_C(1) << count; set++) {
        double freed = 0, ns = 0;
        for (size_t i = 0; i < count; i++)
            if (set >> i & 1) {
                freed += live * costs->saved_bytes[parts[i]];
                ns += costs->forward_ns[parts[i]];
            }
        if (freed >= lacking)
            best = fmin(best, ns);
        for (size_t i = 0; i < count && freed < lacking; i++) {
            const double one = live * costs->saved_bytes[parts[i]];
            if (!(set >> i & 1) && one >= lacking - freed)
                best = fmin(best, ns + costs->forward_ns[parts[i]] * (lacking - freed) / one);
        }
    }
    return best;
}

// The end of 1f1b where rank `s` has units from `first` on and began after `before`, over all cuts of what is left.
static double least_of_cuts(const struct config_costs *costs, const struct config_row *row, uint32_t s, size_t first,
                            double before)
{
    const size_t units = costs->model->layers + 2;
    double best = first == units ? 0 : INFINITY;
    for (size_t end = first + 1; s < row->ranks && end <= units; end++) {
        enum layer_part parts[MOST_PARTS];
        const size_t count = parts_of(costs->model, first, end, parts);
        const double live = fmin(row->micro_batches, row->ranks - s);
        double ns = 0, bytes = 0;
        for (size_t i = 0; i < count; i++) {
            ns += costs->pass_ns[parts[i]];
            bytes += costs->fixed_bytes[parts[i]] + live * costs->saved_bytes[parts[i]];
        }
        const double own = ns + again_ns(costs, parts, count, live, bytes - costs->memory_bytes);
        const double rest = least_of_cuts(costs, row, s + 1, end, before + ns + 2 * costs->output_bytes);
        best = fmin(best, fmax(before + own * row->micro_batches, rest));
    }
    return best;
}

static void no_cut_ends_before_its_bound(void **state)
{
    (void)state;
    uint64_t seed = 5;
    size_t none = 0, met = 0;
    const uint64_t trials = test_trials(300, 20000);
    struct error error = { 0 };
    const struct generator *generator = generator_find("1f1b", &error);
    assert_non_null(generator);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct transformer model = { .layers = 2 + random_below(&seed, 4), .local_window = random_below(&seed, 2) };
        for (uint64_t i = 0; i < model.layers; i++)
            model.is_local[i] = random_below(&seed, 2);
        const struct config_costs costs = random_costs(&seed, &model);
        struct config_row row = { .tensor = 1, .context = 1, .data = 1, .ranks = 1 + (uint32_t)random_below(&seed, 4),
                                  .chunks = 1, .schedule = "1f1b", .generator = generator };
        row.micro_batches = row.ranks + (uint32_t)random_below(&seed, 8);
        const struct config_request request = { .model = &model, .device = &device, .devices = row.ranks };
        const double bound = config_least_ns(&costs, &request, &row), least = least_of_cuts(&costs, &row, 0, 0, 0);
        if (isinf(bound) ? !isinf(least) : bound > least * (1 + 1e-5))
            fail_msg("trial %llu: %g, and a cut ends by %g", (unsigned long long)trial, bound, least);
        none += isinf(bound);
        met += !isinf(bound) && bound > least * (1 - 1e-4);
    }
    assert_in_range(none, 20, trials - 20);
    assert_true(met > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_are_in_flight_as_is_said),
        cmocka_unit_test(no_cut_ends_before_its_bound),
    };
    return cmocka_run_group_tests_name("config_bound", tests, NULL, NULL);
}
