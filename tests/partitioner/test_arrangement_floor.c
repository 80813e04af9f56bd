// The bound of all arrangements at once, against all of them with all their cuts.
#include "partitioner/arrangement/arrangement_floor.h"

#include "common/number.h"
#include "partitioner/arrangement/arrangement_memory.h"
#include "partitioner/arrangement/crew_time.h"
#include "tests/partitioner/small.h"

enum { MOST_LAYERS = 8, MOST_DEVICES = 8 };

static const char *const schedules[] = { "1f1b", "gpipe", "forward-only" };

struct every {
    const struct search_request *request;
    struct crew_clock *clock;
    enum crew_order order;
    struct arrangement_memory *memory;  // where not all surely fits
    struct crew_stage stages[MOST_DEVICES];
    uint64_t best, plans;
};

// The copies on the devices from `seat` on add up over the slowest link among them; messages take the quickest there is.
static struct crew_stage stage_of(const struct every *every, uint32_t first, uint32_t end, uint32_t seat,
                                  uint32_t ranks)
{
    const struct profile *profile = every->request->profile;
    const struct cluster *cluster = every->request->cluster;
    const struct cluster_level *level = &cluster->levels[0];
    const struct cluster_level *among = &cluster->levels[cluster_level_between(cluster, seat, seat + ranks - 1)];
    struct crew_stage stage = { .ranks = ranks };
    uint64_t weights = 0;
    for (uint32_t l = first; l < end; l++) {
        stage.forward_ns += profile->layers[l].forward_ns;
        stage.backward_ns += profile->layers[l].backward_ns;
        weights += round_to_256(profile->layers[l].parameter_bytes);
    }
    if (ranks > 1)
        stage.reduce_ns = holding_reduce_ns(&every->request->holding, ranks, weights,
                                            (struct link){ among->latency_ns, among->bytes_per_second });
    if (end < profile->layer_count) {
        stage.busy_ns = transfer_ns(stage_cut_bytes(profile, end), level->bytes_per_second, 0);
        stage.latency_ns = level->latency_ns;
    }
    if (every->order == CREW_FORWARD_ONLY)
        stage.backward_ns = stage.reduce_ns = 0;
    return stage;
}

// What it runs again at least, as far as is known of a stage by itself (tests/partitioner/test_arrangement_memory.c);
// UINT64_MAX where it does not fit.
static uint64_t again_of(const struct every *every, uint32_t first, uint32_t end, uint32_t ranks, uint32_t left)
{
    const uint32_t own = (every->request->micro_batches + ranks - 1) / ranks, ahead = (left + ranks - 1) / ranks;
    return arrangement_memory_least(every->memory, first, end, ranks,
                                    ahead < own && every->order != CREW_GPIPE ? ahead : own,
                                    every->request->cluster->devices[0].memory_bytes);
}

static void try_stages(struct every *every, uint32_t count, uint32_t first, uint32_t left)
{
    const uint32_t layers = (uint32_t)every->request->profile->layer_count;
    if (first == layers) {
        if (left > 0 && !every->request->free.fewer)
            return;
        const uint64_t ns = crew_time(every->clock, every->order, every->stages, count);
        every->best = ns < every->best ? ns : every->best;
        every->plans++;
        return;
    }
    for (uint32_t end = first + 1; end <= layers; end++) {
        for (uint32_t ranks = 1; ranks <= left && ranks <= every->request->micro_batches; ranks++) {
            const uint64_t again = again_of(every, first, end, ranks, left);
            every->stages[count] = stage_of(every, first, end, every->request->ranks - left, ranks);
            every->stages[count].backward_ns += again < UINT64_MAX ? again : 0;
            if (again < UINT64_MAX)
                try_stages(every, count + 1, end, left - ranks);
        }
    }
}

static uint64_t bound_of(const struct search_request *request, bool is_coarse)
{
    struct error error = { 0 };
    struct arrangement_names names;
    struct arrangement reached = { 0 };
    uint64_t bound = 0, work = 0;
    assert_good(arrangement_names_read(request, &names, &error), error);
    struct arrangement_bounds *bounds = arrangement_bounds_create(request, &names, &error);
    assert_good(bounds, error);
    bounds->is_coarse = is_coarse;
    assert_good(arrangement_bound_of_all(bounds, &bound, &reached, &work, &error), error);
    arrangement_clear(&reached);
    arrangement_bounds_free(bounds);
    return bound;
}

// On one level or, where they go into pairs, on two, of which the inner one is 50 times as quick.
static struct cluster *make_cluster(uint32_t devices, uint64_t latency_ns, uint64_t rate, bool on_two)
{
    struct error error = { 0 };
    struct cluster *cluster = cluster_uniform(devices, (uint64_t)1 << 50, latency_ns, rate, &error);
    if (cluster && on_two && devices % 2 == 0 && devices > 2) {
        char text[80];
        cluster_free(cluster);
        snprintf(text, sizeof text, "%u nodes x 2 devices, 1024TiB, %uMB/s 1ns, %uMB/s %uns", devices / 2,
                 (unsigned)(rate / 1000000 * 50), (unsigned)(rate / 1000000), (unsigned)latency_ns);
        cluster = cluster_load(text, &error);
    }
    assert_good(cluster, error);
    return cluster;
}

static void no_arrangement_is_quicker_than_the_bound_of_all(void **state)
{
    (void)state;
    uint64_t seed = 3, plans = 0, short_of = 0;
    const uint64_t trials = test_trials(400, 10000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, MOST_LAYERS),
                       devices = 1 + (uint32_t)random_below(&seed, layers > 6 ? 5 : MOST_DEVICES);
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        const uint64_t rate = random_below(&seed, 3) == 0 ? 1000000000 : 20000000000;
        struct cluster *cluster = make_cluster(devices, random_below(&seed, 99), rate, random_below(&seed, 4) == 0);
        const uint32_t kind = (uint32_t)random_below(&seed, 6);
        const struct search_request request = {
            .profile = profile, .cluster = cluster, .schedule = schedules[kind < 3 ? kind : 0], .ranks = devices,
            .chunks = 1, .micro_batches = 1 + (uint32_t)random_below(&seed, 20),
            .free = { .replicas = true, .fewer = random_below(&seed, 4) == 0 } };
        struct every every = { .request = &request, .order = (enum crew_order)(kind < 3 ? kind : 0),
                               .best = UINT64_MAX };
        every.clock = crew_clock_create(MOST_DEVICES, request.micro_batches, &error);
        assert_good(every.clock, error);
        try_stages(&every, 0, 0, devices);
        const uint64_t bound = bound_of(&request, random_below(&seed, 4) == 0);
        if (bound > every.best)
            fail_msg("trial %d (%s, %u devices, %u micro-batches, %u layers): the bound is %d, but the best takes %d",
                     (int)trial, request.schedule, devices, request.micro_batches, layers, (int)bound,
                     (int)every.best);
        plans += every.plans;
        short_of += every.best == UINT64_MAX ? 0 : 1000 - 1000 * bound / every.best;
        crew_clock_free(every.clock);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d plans; the bound is %d of 1000 short of the best on average\n", (int)trials,
                  (int)plans, (int)(short_of / trials));
}

// Of so little memory that stages must run something again, or do not fit: the less, the more micro-batches they have
// in flight.
static void no_arrangement_that_runs_layers_again_is_quicker_than_the_bound_of_all(void **state)
{
    (void)state;
    enum { MOST_SHORT = 130 };  // 128; 131 if only a stage's own work pays for it
    uint64_t seed = 17, again = 0, known = 0, short_of = 0;
    const uint64_t trials = test_trials(400, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 3 + (uint32_t)random_below(&seed, MOST_LAYERS - 2),
                       devices = 2 + (uint32_t)random_below(&seed, layers > 6 ? 4 : MOST_DEVICES - 1);
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        struct cluster *cluster = make_cluster(devices, random_below(&seed, 99), 20000000000, false);
        const uint32_t kind = (uint32_t)random_below(&seed, 4);
        const struct search_request request = {
            .profile = profile, .cluster = cluster, .schedule = schedules[kind == 1], .ranks = devices, .chunks = 1,
            .micro_batches = 1 + (uint32_t)random_below(&seed, 30), .free.replicas = true,
            .holding = { .optimizer = OPTIMIZER_SGD, .shard = random_below(&seed, 3) ? SHARD_NONE : SHARD_GRADIENTS } };
        const uint64_t memory_bytes = 256 * (10 + random_below(&seed, 300));
        for (uint32_t d = 0; d < devices; d++)
            cluster->devices[d].memory_bytes = memory_bytes;
        struct every every = { .request = &request, .order = (enum crew_order)(kind == 1), .best = UINT64_MAX };
        every.clock = crew_clock_create(MOST_DEVICES, request.micro_batches, &error);
        assert_good(every.clock, error);
        try_stages(&every, 0, 0, devices);
        const uint64_t without = every.best;
        every.memory = arrangement_memory_create(&request, &error);
        assert_int_equal(error.kind, ERROR_NONE);
        every.best = UINT64_MAX;
        try_stages(&every, 0, 0, devices);
        const uint64_t bound = bound_of(&request, random_below(&seed, 4) == 0);
        if (bound > every.best)
            fail_msg("trial %d (%s, %u devices, %u micro-batches, %u layers): the bound is %d, but the best takes %d",
                     (int)trial, request.schedule, devices, request.micro_batches, layers, (int)bound,
                     (int)every.best);
        again += every.best > without;
        known += bound > without;
        short_of += every.best > without && every.best < UINT64_MAX ? 1000 - 1000 * bound / every.best : 0;
        crew_clock_free(every.clock);
        arrangement_memory_free(every.memory);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d of them slower for memory, %d of these by the bound, too; that is %d of 1000 short"
                  " of the best on average\n", (int)trials, (int)again, (int)known, (int)(short_of / again));
    assert_in_range(short_of / again, 0, MOST_SHORT);
}

// Stages of which one has a rank more than the others, and many micro-batches: its loops with its neighbours are what
// keeps it busy. Without them, or with fewer of them in a path, more is left open.
static void loops_of_neighbours_are_known_to_the_bound(void **state)
{
    (void)state;
    enum { MOST_SHORT = 3150 };  // 3163 without turns far in front, 3600 without loops
    uint64_t seed = 5, short_of = 0;
    const uint64_t trials = test_trials(150, 5000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 4 + (uint32_t)random_below(&seed, 3), devices = 3 + (uint32_t)random_below(&seed, 4);
        struct profile *profile = small_random_chain(&seed, layers, 1000);
        struct cluster *cluster = make_cluster(devices, random_below(&seed, 9), 2000000000, false);
        for (uint32_t l = 0; l < layers; l++)
            profile->layers[l].parameter_bytes *= 1 + random_below(&seed, 8);
        const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                                .ranks = devices, .chunks = 1, .free.replicas = true,
                                                .micro_batches = 2 * devices + (uint32_t)random_below(&seed, 20) };
        struct every every = { .request = &request, .order = CREW_1F1B, .best = UINT64_MAX };
        every.clock = crew_clock_create(MOST_DEVICES, request.micro_batches, &error);
        assert_good(every.clock, error);
        try_stages(&every, 0, 0, devices);
        const uint64_t bound = bound_of(&request, random_below(&seed, 4) == 0);
        if (bound > every.best)
            fail_msg("trial %d (%u devices, %u micro-batches, %u layers): the bound is %d, but the best takes %d",
                     (int)trial, devices, request.micro_batches, layers, (int)bound, (int)every.best);
        short_of += 100000 - 100000 * bound / every.best;
        crew_clock_free(every.clock);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests; the bound is %d of 100000 short of the best on average\n", (int)trials,
                  (int)(short_of / trials));
    assert_in_range(short_of / trials, 0, MOST_SHORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_arrangement_is_quicker_than_the_bound_of_all),
        cmocka_unit_test(no_arrangement_that_runs_layers_again_is_quicker_than_the_bound_of_all),
        cmocka_unit_test(loops_of_neighbours_are_known_to_the_bound),
    };
    return cmocka_run_group_tests_name("arrangement_floor", tests, NULL, NULL);
}
