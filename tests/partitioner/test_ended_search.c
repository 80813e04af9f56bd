// What a search answers that is ended before it has begun: a first plan all the same.
#include <string.h>

#include "common/random.h"
#include "partitioner/plan_search.h"
#include "partitioner/stability/regret.h"
#include "partitioner/sweep/plan_front.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small.h"

struct kind {
    const char *name, *schedule;
    uint32_t devices;
    struct search_freedom free;
};

static struct kind kinds[] = {
    { "one rank per stage", "1f1b", 6, { .replicas = false } },
    { "without a flush", "pipedream", 6, { .replicas = false } },
    { "two stages per rank", "zb-v", 4, { .replicas = false } },
    { "layouts that are all listed", "1f1b", 4, { .replicas = true } },
    { "more of them than can be", "1f1b", 16, { .replicas = true } },
    { "the same without a flush", "pipedream", 16, { .replicas = true } },
    { "on devices that are chosen", "gpipe", 16, { .replicas = true, .devices = true, .fewer = true } },
};

struct asked {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
};

static struct asked ask(const struct kind *kind)
{
    uint64_t seed = 7;
    struct error error = { 0 };
    struct asked asked = { .profile = small_random_chain(&seed, 20, 1000),
                           .cluster = cluster_uniform(kind->devices, 1ull << 40, 100, 10000000000, &error) };
    assert_good(asked.cluster, error);
    asked.request = (struct search_request){ .profile = asked.profile, .cluster = asked.cluster,
                                             .schedule = kind->schedule, .ranks = kind->devices,
                                             .micro_batches = 32, .free = kind->free };
    resolve(&asked.request);
    return asked;
}

static void clear(struct asked *asked)
{
    profile_free(asked->profile);
    cluster_free(asked->cluster);
}

static void a_search_that_is_ended_at_once_still_makes_a_plan(void **state)
{
    const struct kind *kind = *state;
    static const volatile sig_atomic_t interrupted = 1;
    for (int late = 0; late < 2; late++) {
        struct asked asked = ask(kind);
        struct error error = { 0 };
        asked.request.limits.deadline_ns = late ? 1 : 0;
        asked.request.limits.interrupted = late ? NULL : &interrupted;
        struct plan *plan = plan_search(&asked.request, &error);
        assert_good(plan, error);
        const char *stopped = plan->certificate.stopped;
        if (!plan->certificate.proved && !strstr(stopped, late ? "deadline" : "interrupted"))
            fail_msg("%s: it says \"%s\"", kind->name, stopped);
        plan_free(plan);
        clear(&asked);
    }
}

// The most that a stage of the plan takes.
static uint64_t largest_peak(const struct plan *plan)
{
    uint64_t most = 0;
    for (size_t s = 0; s < plan->stage_count; s++)
        most = plan->stages[s].memory.peak_bytes > most ? plan->stages[s].memory.peak_bytes : most;
    return most;
}

// Under memory in which stages must recompute, or be uneven. It may miss a plan that is there, but not often, and
// claims nothing that is not so.
static void a_search_that_is_ended_at_once_finds_what_fits_in_little_memory(void **state)
{
    (void)state;
    static const volatile sig_atomic_t interrupted = 1;
    static const char *const schedules[] = { "1f1b", "gpipe", "pipedream" };
    uint64_t seed = 11;
    size_t there = 0, found = 0;
    for (size_t trial = 0; trial < test_all_trials(60, 3000); trial++) {
        struct error error = { 0 }, none = { 0 };
        struct profile *profile = small_random_chain(&seed, 5 + (uint32_t)random_below(&seed, 8), 1000);
        struct cluster *cluster = cluster_uniform(3, 1ull << 40, 100, 10000000000, &error);
        assert_good(cluster, error);
        struct search_request request = { .profile = profile, .cluster = cluster, .ranks = 3, .micro_batches = 6,
                                          .schedule = schedules[random_below(&seed, 3)] };
        struct plan *plan = plan_search(&request, &error);
        assert_good(plan, error);
        const uint64_t memory = largest_peak(plan) / 100 * (50 + random_below(&seed, 50));
        for (uint32_t d = 0; d < 3; d++)
            cluster->devices[d].memory_bytes = memory;
        plan_free(plan);
        plan = plan_search(&request, &none);
        request.limits.interrupted = &interrupted;
        struct plan *ended = plan_search(&request, &none);
        there += plan != NULL;
        found += ended != NULL;
        if (ended && (!plan || ended->certificate.lower_bound_ns > plan->iteration_ns
                      || ended->iteration_ns < plan->certificate.lower_bound_ns || largest_peak(ended) > memory))
            fail_msg("trial %zu: a claim does not hold", trial);
        plan_free(plan);
        plan_free(ended);
        profile_free(profile);
        cluster_free(cluster);
    }
    if (there < 20 || found * 10 < there * 9)
        fail_msg("of %zu plans %zu are found", there, found);
}

static void a_front_that_is_ended_at_once_has_a_point(void **state)
{
    (void)state;
    static const volatile sig_atomic_t interrupted = 1;
    for (int late = 0; late < 2; late++) {
        struct asked asked = ask(&kinds[0]);
        struct error error = { 0 };
        asked.request.limits.deadline_ns = late ? 1 : 0;
        asked.request.limits.interrupted = late ? NULL : &interrupted;
        const struct front_request request = { .search = &asked.request };
        struct plan_front *front = front_find(&request, &error);
        assert_good(front, error);
        assert_int_equal(front->count, 1);
        assert_string_equal(front->stopped, late ? "the deadline of 1 ns has passed" : "interrupted");
        front_free(front);
        clear(&asked);
    }
}

static void draws_end_with_the_deadline(void **state)
{
    (void)state;
    struct asked asked = ask(&kinds[0]);
    struct error error = { 0 };
    struct plan *plan = plan_search(&asked.request, &error);
    assert_good(plan, error);
    asked.request.limits.deadline_ns = 1;
    const struct regret_request request = { .search = &asked.request, .noise.ppm = 30000, .draws = 5, .seed = 1 };
    struct regret regret;
    assert_good(regret_measure(&request, plan, &regret, &error), error);
    assert_int_equal(regret.draws, 0);
    plan_free(plan);
    clear(&asked);
}

int main(void)
{
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    enum { OTHERS = 3 };
    struct CMUnitTest tests[KINDS + OTHERS] = {
        cmocka_unit_test(a_search_that_is_ended_at_once_finds_what_fits_in_little_memory),
        cmocka_unit_test(a_front_that_is_ended_at_once_has_a_point),
        cmocka_unit_test(draws_end_with_the_deadline),
    };
    for (size_t i = 0; i < KINDS; i++)
        tests[OTHERS + i] = (struct CMUnitTest)TEST_ROW(a_search_that_is_ended_at_once_still_makes_a_plan, &kinds[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
