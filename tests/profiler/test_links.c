#include "profiler/links.h"

#include "common/number.h"
#include "tests/test.h"

// A link whose time is counted, not spent.
struct fake {
    uint64_t now_ns;
    uint64_t latency_ns, bytes_per_second;
    uint64_t calls, slow_first; // the first message of each size takes ten times as long
    uint64_t last_bytes;
    bool noisy; // every fifth message takes twice as long
    uint64_t fail_at;
};

static bool fake_ping_pong(void *self, uint64_t bytes, struct error *error)
{
    struct fake *fake = self;
    uint64_t ns = 2 * transfer_ns(bytes, fake->bytes_per_second, fake->latency_ns);
    if (++fake->calls == fake->fail_at)
        return error_set_kind(error, ERROR_MACHINE, "the other end is gone");
    ns *= fake->slow_first && bytes != fake->last_bytes ? 10 : 1;
    ns *= fake->noisy && fake->calls % 5 == 0 ? 2 : 1;
    fake->last_bytes = bytes;
    fake->now_ns += ns;
    return true;
}

static uint64_t fake_now(void *self, enum measure_clock clock)
{
    assert_int_equal(clock, MEASURE_WALL);
    return ((struct fake *)self)->now_ns;
}

static bool measure(struct fake *fake, struct link_cost *cost, struct error *error)
{
    const struct link_measured what = { .self = fake, .ping_pong = fake_ping_pong };
    struct measure_options options = measure_usual_options();
    options.now_ns = fake_now;
    options.self = fake;
    return measure_link(&what, link_usual_sizes, LINK_SIZES, &options, cost, error);
}

static void assert_near(uint64_t got, uint64_t want, uint64_t permille)
{
    assert_in_range(got, want - want * permille / 1000, want + want * permille / 1000 + 1);
}

static struct link_row {
    const char *name;
    struct fake fake;
} rows[] = {
    { "link: latency and rate are found", { .latency_ns = 5000, .bytes_per_second = 12000000000 } },
    { "link: a slow one", { .latency_ns = 200000, .bytes_per_second = 1000000 } },
    { "link: a fast one", { .latency_ns = 300, .bytes_per_second = 300000000000 } },
    { "link: the first message is not counted",
      { .latency_ns = 5000, .bytes_per_second = 12000000000, .slow_first = 1 } },
    { "link: the median forgives every fifth", { .latency_ns = 5000, .bytes_per_second = 12000000000, .noisy = true } },
};

static void latency_and_rate_of_a_link_are_found(void **state)
{
    const struct link_row *row = *state;
    struct fake fake = row->fake;
    struct error error = { 0 };
    struct link_cost cost;
    assert_good(measure(&fake, &cost, &error), error);
    assert_near(cost.latency_ns, fake.latency_ns, 5);
    assert_near(cost.bytes_per_second, fake.bytes_per_second, 5);
    assert_in_range(cost.worst_permille, 0, 5);
    assert_int_equal(fake.calls, LINK_SIZES * 21);

    // Who answers gets as many messages.
    struct fake other = row->fake;
    const struct link_measured what = { .self = &other, .ping_pong = fake_ping_pong };
    const struct measure_options options = measure_usual_options();
    assert_good(answer_link(&what, link_usual_sizes, LINK_SIZES, &options, &error), error);
    assert_int_equal(other.calls, fake.calls);
}

// Points within 5 % of a line give its rate within 5 %, and the fit beats its
// neighbours in the sum that it claims to make least.
static double error_of(const uint64_t *bytes, const uint64_t *ns, double latency, double rate)
{
    double sum = 0;
    for (size_t i = 0; i < LINK_SIZES; i++) {
        const double apart = (latency + 1e9 * (double)bytes[i] / rate - (double)ns[i]) / (double)ns[i];
        sum += apart * apart;
    }
    return sum;
}

static void no_neighbour_fits_better(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(1000, 10000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial, ns[LINK_SIZES];
        const uint64_t latency = 1000 + random_below(&seed, 100000), rate = 100000000 + random_below(&seed, 1000000000);
        for (size_t i = 0; i < LINK_SIZES; i++) {
            const uint64_t exact = transfer_ns(link_usual_sizes[i], rate, latency);
            ns[i] = exact - exact / 20 + random_below(&seed, exact / 10);
        }
        struct link_cost cost;
        struct error error = { 0 };
        assert_good(link_fit(link_usual_sizes, ns, LINK_SIZES, &cost, &error), error);
        const double best = error_of(link_usual_sizes, ns, (double)cost.latency_ns, (double)cost.bytes_per_second);
        for (int i = -1; i <= 1; i++)
            for (int j = -1; j <= 1; j++) {
                const double other = error_of(link_usual_sizes, ns, (double)cost.latency_ns * (1 + 0.01 * i),
                                              (double)cost.bytes_per_second * (1 + 0.01 * j));
                if (other < best * (1 - 1e-6))
                    fail_msg("trial %llu: %d %d is better", (unsigned long long)trial, i, j);
            }
        if (cost.bytes_per_second < rate * 9 / 10 || cost.bytes_per_second > rate * 11 / 10)
            fail_msg("trial %llu: rate %llu, not %llu", (unsigned long long)trial,
                     (unsigned long long)cost.bytes_per_second, (unsigned long long)rate);
    }
}

static void a_latency_below_zero_is_zero(void **state)
{
    (void)state;
    const uint64_t bytes[] = { 1000, 2000, 3000, 4000, 5000, 6000 }, ns[] = { 900, 1950, 3000, 4050, 5100, 6150 };
    struct link_cost cost;
    struct error error = { 0 };
    assert_good(link_fit(bytes, ns, 6, &cost, &error), error);
    assert_int_equal(cost.latency_ns, 0);
    assert_near(cost.bytes_per_second, 1000000000, 30);
    assert_in_range(cost.worst_permille, 50, 150);
}

static void messages_that_cost_nothing_more_have_no_rate(void **state)
{
    (void)state;
    const uint64_t bytes[] = { 1000, 2000, 3000, 4000, 5000, 6000 }, ns[] = { 700, 700, 700, 700, 700, 700 };
    struct link_cost cost;
    struct error error = { 0 };
    assert_false(link_fit(bytes, ns, 6, &cost, &error));
    assert_error(error, "larger messages do not take longer, so no rate can be told; measure larger sizes");
    assert_int_equal(error.kind, ERROR_ANSWER);
}

static void a_failure_names_the_size(void **state)
{
    (void)state;
    struct fake fake = { .latency_ns = 1, .bytes_per_second = 1000, .fail_at = 22 };
    struct link_cost cost;
    struct error error = { 0 };
    assert_false(measure(&fake, &cost, &error));
    assert_error(error, "4096 bytes: the other end is gone");
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_neighbour_fits_better),
        cmocka_unit_test(a_latency_below_zero_is_zero),
        cmocka_unit_test(messages_that_cost_nothing_more_have_no_rate),
        cmocka_unit_test(a_failure_names_the_size),
    };
    struct CMUnitTest links[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        links[i] = (struct CMUnitTest)TEST_ROW(latency_and_rate_of_a_link_are_found, &rows[i]);
    return cmocka_run_group_tests_name("links", tests, NULL, NULL)
           + cmocka_run_group_tests_name("links: rows", links, NULL, NULL);
}
