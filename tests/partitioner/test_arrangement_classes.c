// The bound of all arrangements of devices of unlike speeds, against all of them with all their cuts.
#include "partitioner/arrangement/arrangement_floor.h"

#include "common/number.h"
#include "partitioner/arrangement/crew_time.h"
#include "tests/partitioner/small.h"

enum { MOST_LAYERS = 6, MOST_DEVICES = 6 };

static const char *const schedules[] = { "1f1b", "gpipe", "forward-only" };

struct every {
    const struct search_request *request;
    struct crew_clock *clock;
    enum crew_order order;
    struct crew_stage stages[MOST_DEVICES];
    uint32_t speeds[MOST_DEVICES];  // of the devices, the fastest first where they are chosen
    bool used[MOST_DEVICES];
    uint64_t best, plans;
};

static struct crew_stage stage_of(const struct every *every, uint32_t first, uint32_t end, uint32_t ranks,
                                  uint32_t speed)
{
    const struct profile *profile = every->request->profile;
    const struct cluster_level *level = &every->request->cluster->levels[0];
    struct crew_stage stage = { .ranks = ranks };
    uint64_t forward = 0, backward = 0, weights = 0;
    for (uint32_t l = first; l < end; l++) {
        forward += profile->layers[l].forward_ns;
        backward += profile->layers[l].backward_ns;
        weights += round_to_256(profile->layers[l].parameter_bytes);
    }
    stage.forward_ns = stage_scaled_ns(forward, speed);
    stage.backward_ns = every->order == CREW_FORWARD_ONLY ? 0 : stage_scaled_ns(backward, speed);
    if (ranks > 1 && every->order != CREW_FORWARD_ONLY)
        stage.reduce_ns = holding_reduce_ns(&every->request->holding, ranks, weights,
                                            (struct link){ level->latency_ns, level->bytes_per_second });
    if (end < profile->layer_count) {
        stage.busy_ns = transfer_ns(stage_cut_bytes(profile, end), level->bytes_per_second, 0);
        stage.latency_ns = level->latency_ns;
    }
    return stage;
}

static void try_stages(struct every *every, uint32_t count, uint32_t first, uint32_t seat);

// The stage's ranks from this one on get a device each: any that is not before the last one's and is not used, or where
// they are given the next.
static void try_devices(struct every *every, uint32_t count, uint32_t first, uint32_t end, uint32_t seat,
                        uint32_t ranks, uint32_t taken, uint32_t device, uint32_t speed)
{
    if (taken == ranks) {
        every->stages[count] = stage_of(every, first, end, ranks, speed);
        try_stages(every, count + 1, end, seat + ranks);
        return;
    }
    const bool is_given = !every->request->free.devices;
    const uint32_t from = is_given ? seat + taken : device, to = is_given ? from + 1 : MOST_DEVICES;
    for (uint32_t d = from; d < to && d < every->request->cluster->device_count; d++) {
        if (every->used[d])
            continue;
        every->used[d] = true;
        const uint32_t least = every->speeds[d] < speed ? every->speeds[d] : speed;
        try_devices(every, count, first, end, seat, ranks, taken + 1, d + 1, least);
        every->used[d] = false;
    }
}

static void try_stages(struct every *every, uint32_t count, uint32_t first, uint32_t seat)
{
    const struct search_request *request = every->request;
    const uint32_t layers = (uint32_t)request->profile->layer_count, left = request->ranks - seat;
    if (first == layers) {
        if (left > 0 && !request->free.fewer)
            return;
        const uint64_t ns = crew_time(every->clock, every->order, every->stages, count);
        every->best = ns < every->best ? ns : every->best;
        every->plans++;
        return;
    }
    for (uint32_t end = first + 1; end <= layers; end++)
        for (uint32_t ranks = 1; ranks <= left && ranks <= request->micro_batches; ranks++)
            try_devices(every, count, first, end, seat, ranks, 0, 0, UINT32_MAX);
}

static uint64_t bound_of(const struct search_request *request)
{
    struct error error = { 0 };
    struct arrangement_names names;
    struct arrangement reached = { 0 };
    uint64_t bound = 0, work = 0;
    assert_good(arrangement_names_read(request, &names, &error), error);
    struct arrangement_bounds *bounds = arrangement_bounds_create(request, &names, &error);
    assert_good(bounds, error);
    assert_good(arrangement_bound_of_all(bounds, &bound, &reached, &work, &error), error);
    arrangement_clear(&reached);
    arrangement_bounds_free(bounds);
    return bound;
}

// Of up to three speeds; the ranks' devices in any order where they are given.
static void draw_speeds(uint64_t *seed, struct cluster *cluster, uint32_t *order)
{
    static const uint32_t speeds[] = { 1000, 500, 320 };
    const uint32_t count = (uint32_t)cluster->device_count;
    const uint64_t kinds = 2 + random_below(seed, 2);
    for (uint32_t d = 0; d < count; d++) {
        cluster->devices[d].speed_permille = speeds[random_below(seed, kinds)];
        order[d] = d;
    }
    for (uint32_t d = count; d-- > 1;) {
        const uint32_t other = (uint32_t)random_below(seed, d + 1), was = order[d];
        order[d] = order[other];
        order[other] = was;
    }
}

static uint64_t best_of(const struct search_request *request, enum crew_order order, uint64_t *plans)
{
    struct error error = { 0 };
    struct every every = { .request = request, .order = order, .best = UINT64_MAX };
    every.clock = crew_clock_create(MOST_DEVICES, request->micro_batches, &error);
    assert_good(every.clock, error);
    for (uint32_t d = 0; d < request->cluster->device_count; d++)
        every.speeds[d] =
            (uint32_t)request->cluster->devices[request->devices ? request->devices[d] : d].speed_permille;
    try_stages(&every, 0, 0, 0);
    crew_clock_free(every.clock);
    *plans += every.plans;
    return every.best;
}

static void no_arrangement_of_unlike_devices_is_quicker_than_the_bound(void **state)
{
    (void)state;
    uint64_t seed = 9, plans = 0, short_of = 0, raised = 0;
    const uint64_t trials = test_trials(300, 10000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        uint32_t order[MOST_DEVICES];
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, MOST_LAYERS),
                       devices = 1 + (uint32_t)random_below(&seed, layers > 4 ? 4 : MOST_DEVICES - 1);
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        const uint64_t rate = random_below(&seed, 3) == 0 ? 1000000000 : 20000000000;
        struct cluster *cluster = cluster_uniform(devices, (uint64_t)1 << 50, random_below(&seed, 99), rate, &error);
        assert_good(cluster, error);
        draw_speeds(&seed, cluster, order);
        const uint32_t kind = (uint32_t)random_below(&seed, 6);
        struct search_request request = {
            .profile = profile, .cluster = cluster, .schedule = schedules[kind < 3 ? kind : 0], .chunks = 1,
            .ranks = random_below(&seed, 3) ? devices : 1 + (uint32_t)random_below(&seed, devices),
            .micro_batches = 1 + (uint32_t)random_below(&seed, 20),
            .free = { .replicas = true, .devices = random_below(&seed, 3) > 0, .fewer = random_below(&seed, 4) == 0 } };
        if (!request.free.devices)
            request.devices = order;
        const uint64_t best = best_of(&request, (enum crew_order)(kind < 3 ? kind : 0), &plans);
        const uint64_t bound = bound_of(&request);
        if (bound > best)
            fail_msg("trial %d (%s, %u of %u devices, %u micro-batches, %u layers): the bound is %d, but the best takes"
                     " %d", (int)trial, request.schedule, request.ranks, devices, request.micro_batches, layers,
                     (int)bound, (int)best);
        short_of += best == UINT64_MAX ? 0 : 1000 - 1000 * bound / best;
        for (uint32_t d = 0; d < devices; d++)
            cluster->devices[d].speed_permille = 1000;
        raised += bound > bound_of(&request);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d plans; the bound is %d of 1000 short of the best on average; that devices are slow"
                  " raises it in %d\n", (int)trials, (int)plans, (int)(short_of / trials), (int)raised);
    assert_true(raised > trials / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_arrangement_of_unlike_devices_is_quicker_than_the_bound),
    };
    return cmocka_run_group_tests_name("arrangement_classes", tests, NULL, NULL);
}
