#include "schedules/noise.h"

#include "schedules/generators/generate.h"
#include "tests/test.h"

static struct lane_world *lanes_of_1f1b(enum lane_use use)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate("1f1b", 4, 1, 8, &error);
    assert_good(order, error);
    const struct cost_row row = { .forward_ns = 1000000, .backward_ns = 2000000, .step_ns = 100000 };
    const struct cost_row costs[4] = { row, row, row, row };
    struct lane_world *lanes = lane_world_create(order, costs, NULL, &(struct lane_rules){ .use = use, .capacity = 0 }, &error);
    assert_good(lanes, error);
    schedule_free(order);
    return lanes;
}

static struct noise_result measured(enum lane_use use, struct noise_request request)
{
    struct error error = { 0 };
    struct noise_result result;
    struct lane_world *lanes = lanes_of_1f1b(use);
    assert_good(noise_measure(lanes, &request, &result, &error), error);
    lane_world_free(lanes);
    return result;
}

// At the middle of all draws nothing changes; at both ends it is 3.4641 deviations.
static void a_draw_moves_a_duration(void **state)
{
    (void)state;
    const uint64_t middle = 0x7fff7fff7fff7fff;  // sums to 131068, 2 below the mean
    assert_int_equal(noise_apply(1000, 100000, middle), 1000);
    assert_int_equal(noise_apply(378370000, 100000, middle), 378370000 - 2 * 1000);
    assert_int_equal(noise_apply(1000000, 100000, UINT64_MAX), 1000000 + 346407);
    assert_int_equal(noise_apply(1000000, 100000, 0), 1000000 - 346407);
    assert_int_equal(noise_apply(1000000, NOISE_MOST_PPM, 0), 1000000 - 866017);
    assert_int_equal(noise_apply(0, NOISE_MOST_PPM, UINT64_MAX), 0);
    assert_int_equal(noise_apply(12345, 0, UINT64_MAX), 12345);
    assert_int_equal(noise_apply(UINT64_MAX >> 1, NOISE_MOST_PPM, 0) >> 60, 1);
}

// A million draws of 5 %: within a fifth of a per mille of the mean, and of the deviation within half a percent.
static void durations_vary_as_is_said(void **state)
{
    (void)state;
    uint64_t seed = 1;
    double sum = 0, squares = 0;
    enum { DRAWS = 1000000 };
    for (int i = 0; i < DRAWS; i++) {
        const double change = ((double)noise_apply(1000000000, 50000, random_next(&seed)) - 1e9) / 1e9;
        sum += change;
        squares += change * change;
    }
    assert_true(sum / DRAWS < 0.0002 && sum / DRAWS > -0.0002);
    assert_true(squares / DRAWS > 0.995 * 0.05 * 0.05 && squares / DRAWS < 1.005 * 0.05 * 0.05);
}

static void without_noise_all_trials_are_as_planned(void **state)
{
    (void)state;
    const struct noise_result result = measured(LANES_FREE, (struct noise_request){ .trials = 5, .seed = 3 });
    assert_int_equal(result.planned_ns, 11 * 3000000 + 100000);
    assert_int_equal(result.min_ns, result.planned_ns);
    assert_int_equal(result.mean_ns, result.planned_ns);
    assert_int_equal(result.max_ns, result.planned_ns);
}

static void count_call(void *self, size_t done, size_t all)
{
    size_t *calls = self;
    assert_int_equal(done, ++*calls);
    assert_int_equal(all, 5);
}

static void progress_is_told_after_each_trial(void **state)
{
    (void)state;
    size_t calls = 0;
    measured(LANES_FREE, (struct noise_request){ .trials = 5, .progress = count_call, .self = &calls });
    assert_int_equal(calls, 5);
}

// The same numbers on every machine: this is what they are.
static void a_seed_gives_the_same_trials_everywhere(void **state)
{
    (void)state;
    const struct noise_request request = { .ppm = 50000, .trials = 1000, .seed = 1 };
    const struct noise_result result = measured(LANES_FREE, request);
    assert_int_equal(result.min_ns, 32370707);
    assert_int_equal(result.median_ns, 33649411);
    assert_int_equal(result.mean_ns, 33645505);
    assert_int_equal(result.p95_ns, 34162151);
    assert_int_equal(result.max_ns, 34741239);
}

// A maximum of many is later than the maximum of their means.
static void noise_makes_pipelines_longer(void **state)
{
    (void)state;
    uint64_t before_ns = 0;
    for (uint32_t ppm = 0; ppm <= NOISE_MOST_PPM; ppm += 50000) {
        const struct noise_result result = measured(LANES_ONE, (struct noise_request){ .ppm = ppm, .trials = 300, .seed = 1 });
        assert_true(result.mean_ns > before_ns);
        assert_true(result.min_ns <= result.median_ns && result.median_ns <= result.p95_ns);
        assert_true(result.p95_ns <= result.max_ns);
        before_ns = result.mean_ns;
    }
}

static void one_trial_is_its_own_summary(void **state)
{
    (void)state;
    const struct noise_result result = measured(LANES_FREE, (struct noise_request){ .ppm = 100000, .trials = 1, .seed = 9 });
    assert_int_equal(result.min_ns, result.max_ns);
    assert_int_equal(result.median_ns, result.max_ns);
    assert_int_equal(result.p95_ns, result.max_ns);
    assert_int_equal(result.mean_ns, result.max_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draw_moves_a_duration),
        cmocka_unit_test(durations_vary_as_is_said),
        cmocka_unit_test(without_noise_all_trials_are_as_planned),
        cmocka_unit_test(progress_is_told_after_each_trial),
        cmocka_unit_test(a_seed_gives_the_same_trials_everywhere),
        cmocka_unit_test(noise_makes_pipelines_longer),
        cmocka_unit_test(one_trial_is_its_own_summary),
    };
    return cmocka_run_group_tests_name("noise", tests, NULL, NULL);
}
