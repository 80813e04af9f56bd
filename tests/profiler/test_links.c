#include "profiler/links.h"

#include <string.h>

#include "common/number.h"
#include "tests/test.h"

enum { REPEATS = 20 };

// A link whose time is counted, not spent: bytes pass at the rate, or faster as long as a bucket of tokens lets them,
// which fills again at the rate.
struct lane {
    double tokens, since_ns;
};

struct fake {
    uint64_t latency_ns, bytes_per_second, back_bytes_per_second;
    uint64_t bucket_bytes, fast_bytes_per_second;  // 0: there is no bucket
    bool is_shared;  // both ways at once have half of the rate each
    bool slow_first; // the first message of each size takes ten times as long
    bool noisy;      // every fifth message takes twice as long
    uint64_t fail_at;
    bool is_second;  // this is the other end: what it measures is wrong, and what it is told counts
    // So far:
    double now_ns;
    struct lane lanes[2];
    uint64_t calls, last_bytes, streamed, told[LINK_SIZES + LINK_WAYS], tellings;
};

static double rate_of(const struct fake *fake, int lane)
{
    const uint64_t back = fake->back_bytes_per_second ? fake->back_bytes_per_second : fake->bytes_per_second;
    return (double)(lane == 0 ? fake->bytes_per_second : back) / 1e9;
}

// When so many bytes, which begin now, have come at the other end of a lane.
static double pass(struct fake *fake, int lane, double bytes, double rate)
{
    struct lane *at = &fake->lanes[lane];
    const double fast = (double)fake->fast_bytes_per_second / 1e9, most = (double)fake->bucket_bytes;
    double ns = 0;
    at->tokens += (fake->now_ns - at->since_ns) * rate;
    at->tokens = at->tokens < most ? at->tokens : most;
    if (most > 0) {
        const double fast_ns = at->tokens / (fast - rate);  // until the bucket is empty
        ns = bytes / fast < fast_ns ? bytes / fast : fast_ns;
        at->tokens -= ns * (fast - rate);
        bytes -= ns * fast;
    }
    at->since_ns = fake->now_ns + ns + bytes / rate;
    return at->since_ns;
}

static bool fake_ping_pong(void *self, uint64_t bytes, uint64_t *ns, struct error *error)
{
    struct fake *fake = self;
    const double begun_ns = fake->now_ns;
    if (++fake->calls == fake->fail_at)
        return error_set_kind(error, ERROR_MACHINE, "the other end is gone");
    for (int lane = 0; lane < 2; lane++)
        fake->now_ns = pass(fake, lane, (double)bytes, rate_of(fake, lane)) + (double)fake->latency_ns;
    const double took_ns = fake->now_ns - begun_ns;
    fake->now_ns += fake->slow_first && bytes != fake->last_bytes ? 9 * took_ns : 0;
    fake->now_ns += fake->noisy && fake->calls % 5 == 0 ? took_ns : 0;
    fake->last_bytes = bytes;
    *ns = fake->is_second ? 1 : (uint64_t)(fake->now_ns - begun_ns + 0.5);
    return true;
}

static bool fake_stream(void *self, enum link_way way, uint64_t bytes, uint64_t count, uint64_t *ns, struct error *error)
{
    struct fake *fake = self;
    const double begun_ns = fake->now_ns;
    (void)error;
    fake->streamed += bytes * count;
    for (uint64_t i = 0; i < count; i++) {
        double come_ns = fake->now_ns;
        for (int lane = 0; lane < 2; lane++) {
            const double rate = rate_of(fake, lane) / (way == LINK_BOTH && fake->is_shared ? 2 : 1);
            if (way == LINK_BOTH || (int)way == lane) {
                const double lane_ns = pass(fake, lane, (double)bytes, rate);
                come_ns = lane_ns > come_ns ? lane_ns : come_ns;
            }
        }
        fake->now_ns = come_ns;
    }
    fake->now_ns += 2 * (double)fake->latency_ns;
    *ns = fake->is_second ? 1 : (uint64_t)(fake->now_ns - begun_ns + 0.5);
    return true;
}

static bool fake_tell(void *self, uint64_t *value, struct error *error)
{
    struct fake *fake = self;
    (void)error;
    if (fake->is_second)
        *value = fake->told[fake->tellings++];
    else
        fake->told[fake->tellings++] = *value;
    return true;
}

static bool measure(struct fake *fake, struct link_cost *cost, struct error *error)
{
    const struct link_measured what = { .self = fake, .ping_pong = fake_ping_pong, .stream = fake_stream,
                                        .tell = fake_tell };
    fake->lanes[0].tokens = fake->lanes[1].tokens = (double)fake->bucket_bytes;
    return measure_link(&what, link_usual_sizes, LINK_SIZES, REPEATS, cost, error);
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
      { .latency_ns = 5000, .bytes_per_second = 12000000000, .slow_first = true } },
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
    assert_near(cost.both_bytes_per_second, fake.bytes_per_second, 5);
    assert_in_range(cost.worst_permille, 0, 5);
    assert_int_equal(cost.least_good_bytes, 1024);

    // The other end does the same and gets the same, whatever its own clock says.
    struct fake other = row->fake;
    struct link_cost told;
    other.is_second = true;
    memcpy(other.told, fake.told, sizeof fake.told);
    assert_good(measure(&other, &told, &error), error);
    assert_memory_equal(&told, &cost, sizeof cost);
    assert_int_equal(other.calls, fake.calls);
    assert_int_equal(other.streamed, fake.streamed);
}

static void ways_are_told_apart_and_plans_have_the_slower(void **state)
{
    (void)state;
    struct fake fake = { .latency_ns = 50000, .bytes_per_second = 1000000000, .back_bytes_per_second = 500000000,
                         .is_shared = true };
    struct error error = { 0 };
    struct link_cost cost;
    assert_good(measure(&fake, &cost, &error), error);
    assert_near(cost.there_bytes_per_second, 1000000000, 5);
    assert_near(cost.back_bytes_per_second, 500000000, 5);
    assert_near(cost.both_bytes_per_second, 250000000, 5);
    assert_int_equal(cost.bytes_per_second, cost.back_bytes_per_second);
}

// As `tc tbf` has one, and as providers of machines do: its rate is what lasts, and what small messages take is told
// beside.
static void a_bucket_of_tokens_does_not_make_the_rate_larger(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < test_trials(300, 3000); trial++) {
        uint64_t seed = trial;
        struct fake fake = { .latency_ns = 20000 + random_below(&seed, 200000),
                             .bytes_per_second = 5000000 + random_below(&seed, 500000000),
                             .bucket_bytes = 4096 + random_below(&seed, 1 << 20), .fast_bytes_per_second = 2000000000 };
        struct error error = { 0 };
        struct link_cost cost;
        assert_good(measure(&fake, &cost, &error), error);
        const uint64_t stated_ns = transfer_ns(cost.worst_bytes, cost.bytes_per_second, cost.latency_ns);
        const uint64_t apart_ns = stated_ns > cost.worst_ns ? stated_ns - cost.worst_ns : cost.worst_ns - stated_ns;
        if (cost.bytes_per_second < fake.bytes_per_second / 100 * 99
            || cost.bytes_per_second > fake.bytes_per_second / 100 * 101
            || cost.latency_ns > fake.latency_ns * 11 / 10
            || apart_ns * 1000 / cost.worst_ns != cost.worst_permille)
            fail_msg("trial %llu: %llu B/s, not %llu; %llu ns, not %llu; %llu per mille at %llu bytes",
                     (unsigned long long)trial, (unsigned long long)cost.bytes_per_second,
                     (unsigned long long)fake.bytes_per_second, (unsigned long long)cost.latency_ns,
                     (unsigned long long)fake.latency_ns, (unsigned long long)cost.worst_permille,
                     (unsigned long long)cost.worst_bytes);
    }
}

// What is long is tried a few times, and larger sizes not at all.
static void a_slow_link_does_not_take_for_ever(void **state)
{
    (void)state;
    struct fake slow = { .latency_ns = 100000, .bytes_per_second = 12500000 }, fast = slow;
    fast.bytes_per_second = 1250000000;
    struct error error = { 0 };
    struct link_cost cost;
    assert_good(measure(&fast, &cost, &error) && measure(&slow, &cost, &error), error);
    assert_int_equal(fast.calls, LINK_SIZES * (1 + REPEATS));
    assert_int_equal(slow.calls, (LINK_LEAST_SIZES - 1) * (1 + REPEATS) + 1 + 3);
    assert_true(slow.now_ns < 30e9);
}

// --- the line -------------------------------------------------------------------------------

static double error_of(const uint64_t *bytes, const uint64_t *ns, double latency, double rate)
{
    double sum = 0;
    for (size_t i = 0; i < LINK_SIZES; i++) {
        const double apart = (latency + 1e9 * (double)bytes[i] / rate - (double)ns[i]) / (double)ns[i];
        sum += apart * apart;
    }
    return sum;
}

// The fit beats its neighbours in the sum that it claims to make least.
static void no_other_latency_fits_better(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(1000, 10000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial, ns[LINK_SIZES];
        const uint64_t latency = 1000 + random_below(&seed, 100000), rate = 100000000 + random_below(&seed, 1000000000);
        for (size_t i = 0; i < LINK_SIZES; i++)
            ns[i] = transfer_ns(link_usual_sizes[i], rate, latency / 2 + random_below(&seed, latency));
        struct link_cost cost = { .bytes_per_second = rate };
        link_fit(link_usual_sizes, ns, LINK_SIZES, &cost);
        const double best = error_of(link_usual_sizes, ns, (double)cost.latency_ns, (double)rate);
        for (int i = -1; i <= 1; i++)
            if (error_of(link_usual_sizes, ns, (double)cost.latency_ns * (1 + 0.01 * i), (double)rate)
                < best * (1 - 1e-6))
                fail_msg("trial %llu: %d is better", (unsigned long long)trial, i);
    }
}

static void messages_faster_than_the_rate_tell_no_latency(void **state)
{
    (void)state;
    const uint64_t bytes[] = { 1000, 2000, 4000, 8000, 16000, 100000 }, ns[] = { 1400, 900, 900, 900, 12000, 99000 };
    struct link_cost cost = { .bytes_per_second = 1000000000 };
    link_fit(bytes, ns, 6, &cost);
    assert_int_equal(cost.latency_ns, 400);
    assert_int_equal(cost.worst_bytes, 8000);
    assert_int_equal(cost.worst_ns, 900);
    assert_int_equal(cost.worst_permille, 8333);
    assert_int_equal(cost.least_good_bytes, 100000);  // 16000 are told as 16400 ns, 37 % more than they take
}

static void a_failure_names_the_size(void **state)
{
    (void)state;
    struct fake fake = { .latency_ns = 1, .bytes_per_second = 1000000000, .fail_at = 22 };
    struct link_cost cost;
    struct error error = { 0 };
    assert_false(measure(&fake, &cost, &error));
    assert_error(error, "4096 bytes: the other end is gone");
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_are_told_apart_and_plans_have_the_slower),
        cmocka_unit_test(a_bucket_of_tokens_does_not_make_the_rate_larger),
        cmocka_unit_test(a_slow_link_does_not_take_for_ever),
        cmocka_unit_test(no_other_latency_fits_better),
        cmocka_unit_test(messages_faster_than_the_rate_tell_no_latency),
        cmocka_unit_test(a_failure_names_the_size),
    };
    struct CMUnitTest links[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        links[i] = (struct CMUnitTest)TEST_ROW(latency_and_rate_of_a_link_are_found, &rows[i]);
    return cmocka_run_group_tests_name("links", tests, NULL, NULL)
           + cmocka_run_group_tests_name("links: rows", links, NULL, NULL);
}
