// The bound of all orders of a graph's layers and all arrangements at once, against every chain of downsets on any
// numbers of ranks.
#include "partitioner/orders/order_arranged.h"

#include "common/number.h"
#include "partitioner/arrangement/crew_time.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "schedules/simulate.h"
#include "tests/partitioner/small_dag.h"

enum { MOST_LAYERS = 8, MOST_DEVICES = 8 };

static const char *const schedules[] = { "1f1b", "gpipe", "forward-only" };

struct every {
    const struct search_request *request;
    struct crew_clock *clock;
    enum crew_order order;
    struct crew_stage stages[MOST_DEVICES];
    uint64_t best, plans;
};

// --- sets of layers, a bit each -------------------------------------------------------------

static bool is_downset(const struct profile *profile, unsigned set)
{
    bool is = true;
    for (size_t e = 0; e < profile->edge_count; e++)
        is &= !(set >> profile->edges[e].to & 1) || set >> profile->edges[e].from & 1;
    return is;
}

// What layers of the set hand on to others, each once.
static uint64_t bytes_out_of(const struct profile *profile, unsigned set)
{
    uint64_t bytes = 0;
    for (uint32_t l = 0; l < profile->layer_count; l++) {
        bool is_read = false;
        for (size_t e = 0; e < profile->edge_count; e++)
            is_read |= profile->edges[e].from == l && !(set >> profile->edges[e].to & 1);
        bytes += is_read && set >> l & 1 ? round_to_256(profile->layers[l].output_bytes) : 0;
    }
    return bytes;
}

// --- all plans --------------------------------------------------------------------------------

static struct crew_stage stage_of(const struct every *every, unsigned before, unsigned with, uint32_t ranks)
{
    const struct profile *profile = every->request->profile;
    const struct cluster_level *level = &every->request->cluster->levels[0];
    struct crew_stage stage = { .ranks = ranks };
    uint64_t weights = 0;
    for (uint32_t l = 0; l < profile->layer_count; l++) {
        if (!((with & ~before) >> l & 1))
            continue;
        stage.forward_ns += profile->layers[l].forward_ns;
        stage.backward_ns += profile->layers[l].backward_ns;
        weights += round_to_256(profile->layers[l].parameter_bytes);
    }
    if (ranks > 1)
        stage.reduce_ns = holding_reduce_ns(&every->request->holding, ranks, weights,
                                            (struct link){ level->latency_ns, level->bytes_per_second });
    if (with + 1 < 1u << profile->layer_count) {
        stage.busy_ns = transfer_ns(bytes_out_of(profile, with), level->bytes_per_second, 0);
        stage.latency_ns = level->latency_ns;
    }
    if (every->order == CREW_FORWARD_ONLY)
        stage.backward_ns = stage.reduce_ns = 0;
    return stage;
}

static void try_stages(struct every *every, uint32_t count, unsigned before, uint32_t left)
{
    const struct search_request *request = every->request;
    const unsigned all = (1u << request->profile->layer_count) - 1;
    const uint32_t most = request->free.replicas ? request->micro_batches : 1;
    if (before == all) {
        if (left > 0 && !request->free.fewer)
            return;
        const uint64_t ns = crew_time(every->clock, every->order, every->stages, count);
        every->best = ns < every->best ? ns : every->best;
        every->plans++;
        return;
    }
    for (unsigned with = before + 1; with <= all; with++) {
        if ((with & before) != before || !is_downset(request->profile, with))
            continue;
        for (uint32_t ranks = 1; ranks <= left && ranks <= most; ranks++) {
            every->stages[count] = stage_of(every, before, with, ranks);
            try_stages(every, count + 1, with, left - ranks);
        }
    }
}

// --- without a flush ----------------------------------------------------------------------------

// All plans on given ranks, by simulating each.
struct crewed {
    struct every every;
    struct simulator *simulators[2];  // of 3m and 2m micro-batches
    uint32_t replicas[MOST_DEVICES], stages;
    struct cost_row rows[MOST_DEVICES];
};

static struct simulator *simulator_of(const struct crewed *crewed, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    const struct cluster_level *level = &crewed->every.request->cluster->levels[0];
    const struct generate_request request = { .ranks = ranks, .micro_batches = micro_batches, .chunks = 1,
                                              .replicas = crewed->replicas, .stages = crewed->stages };
    struct network *network =
        network_uniform(ranks, (struct link){ level->latency_ns, level->bytes_per_second }, &error);
    struct schedule *order = schedule_generate_as("pipedream", &request, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    struct simulator *simulator = lowered && network ? simulator_create(lowered, network, &error) : NULL;
    assert_good(simulator, error);
    network_free(network);
    schedule_free(lowered);
    schedule_free(order);
    return simulator;
}

static void try_downsets(struct crewed *crewed, uint32_t s, unsigned before)
{
    const struct search_request *request = crewed->every.request;
    const unsigned all = (1u << request->profile->layer_count) - 1;
    if (s == crewed->stages) {
        const uint64_t value = simulator_iteration_ns(crewed->simulators[0], crewed->rows)
                             - simulator_iteration_ns(crewed->simulators[1], crewed->rows);
        crewed->every.best = value < crewed->every.best ? value : crewed->every.best;
        crewed->every.plans++;
        return;
    }
    for (unsigned with = before + 1; with <= all; with++) {
        if ((with & before) != before || !is_downset(request->profile, with)
            || (with == all) != (s + 1 == crewed->stages))
            continue;
        const struct crew_stage stage = stage_of(&crewed->every, before, with, crewed->replicas[s]);
        crewed->rows[s] = (struct cost_row){ .forward_ns = stage.forward_ns, .backward_ns = stage.backward_ns,
                                             .reduce_ns = stage.reduce_ns,
                                             .output_bytes = bytes_out_of(request->profile, with) };
        try_downsets(crewed, s + 1, with);
    }
}

static void try_replicas(struct crewed *crewed, uint32_t left)
{
    const struct search_request *request = crewed->every.request;
    const uint32_t ranks = request->ranks - left;
    if (ranks > 0 && (left == 0 || request->free.fewer) && crewed->stages <= request->profile->layer_count) {
        crewed->simulators[0] = simulator_of(crewed, ranks, 3 * request->micro_batches);
        crewed->simulators[1] = simulator_of(crewed, ranks, 2 * request->micro_batches);
        try_downsets(crewed, 0, 0);
        simulator_free(crewed->simulators[0]);
        simulator_free(crewed->simulators[1]);
    }
    for (uint32_t own = 1; own <= left && own <= request->micro_batches; own++) {
        crewed->replicas[crewed->stages++] = own;
        try_replicas(crewed, left - own);
        crewed->stages--;
    }
}

static uint64_t solve_without_flush(const struct search_request *request, uint64_t *plans)
{
    struct crewed crewed = { .every = { .request = request, .order = CREW_1F1B, .best = UINT64_MAX } };
    try_replicas(&crewed, request->ranks);
    *plans += crewed.every.plans;
    return crewed.every.best;
}

// --- with a flush -------------------------------------------------------------------------------

static uint64_t solve(const struct search_request *request, enum crew_order order, uint64_t *plans)
{
    struct error error = { 0 };
    struct every every = { .request = request, .order = order, .best = UINT64_MAX };
    every.clock = crew_clock_create(MOST_DEVICES, request->micro_batches, &error);
    assert_good(every.clock, error);
    try_stages(&every, 0, 0, request->ranks);
    crew_clock_free(every.clock);
    *plans += every.plans;
    return every.best;
}

// --- the bound ----------------------------------------------------------------------------------

// Some take no time, some nothing at all: such layers are put to others, and stages may lose all they had. Where
// weights are heavy a rank with nothing to do is often better than one more copy.
static struct profile *draw_graph(uint64_t *seed, uint32_t layers)
{
    struct error error = { 0 };
    struct profile *profile =
        small_random_dag(seed, layers, 1 + (uint32_t)random_below(seed, 4), random_below(seed, 3) == 0 ? 4 : 1000);
    const bool are_heavy = random_below(seed, 3) == 0;
    for (uint32_t l = 0; l < layers; l++) {
        struct profile_layer *layer = &profile->layers[l];
        const uint64_t what = random_below(seed, are_heavy ? 4 : 12);
        layer->parameter_bytes *= (1 + random_below(seed, 4)) * (are_heavy ? 20 : 1);
        if (what < 2)
            layer->forward_ns = layer->backward_input_ns = layer->backward_weight_ns = layer->backward_ns = 0;
        if (what == 0)
            layer->parameter_bytes = layer->output_bytes = layer->saved_bytes = 0;
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static void no_order_and_no_arrangement_is_quicker_than_their_bound(void **state)
{
    (void)state;
    enum { MOST_SHORT = 200 };
    uint64_t seed = 3, plans = 0, short_of = 0, found = 0;
    const uint64_t trials = test_trials(3000, 60000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, MOST_LAYERS),
                       devices = 1 + (uint32_t)random_below(&seed, layers > 5 ? 4 : MOST_DEVICES);
        const uint32_t kind = (uint32_t)random_below(&seed, 6);
        const uint64_t rate = random_below(&seed, 3) == 0 ? 1000000000 : 20000000000;
        struct profile *profile = draw_graph(&seed, layers);
        struct cluster *cluster =
            cluster_uniform(devices, (uint64_t)1 << 50, random_below(&seed, 99), rate, &error);
        assert_good(cluster, error);
        const struct search_request request = {
            .profile = profile, .cluster = cluster, .schedule = schedules[kind < 3 ? kind : 0], .ranks = devices,
            .chunks = 1, .micro_batches = 1 + (uint32_t)random_below(&seed, 20),
            .free = { .replicas = random_below(&seed, 5) > 0, .fewer = random_below(&seed, 4) == 0 } };
        const uint64_t best = solve(&request, (enum crew_order)(kind < 3 ? kind : 0), &plans);
        for (unsigned groups = 0; groups < 2; groups++) {
            uint64_t bound = best > 0, work = 0;
            const uint32_t most = groups ? 3 + (uint32_t)random_below(&seed, 6) : ORDER_ARRANGED_PLACES;
            assert_good(order_arranged_bound(&request, most, &bound, &work, &error), error);
            if (bound > best)
                fail_msg("trial %d (%s, %u devices, %u micro-batches, %u layers, %u nodes): the bound is %d, but the"
                         " best takes %d", (int)trial, request.schedule, devices, request.micro_batches, layers, most,
                         (int)bound, (int)best);
            short_of += best == UINT64_MAX || best == 0 || groups ? 0 : 1000 - 1000 * bound / best;
        }
        found += best != UINT64_MAX;
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d plans; the bound is %d of 1000 short of the best on average\n", (int)trials,
                  (int)plans, (int)(short_of / found));
    assert_in_range(short_of / found, 0, MOST_SHORT);
}

static void nor_is_any_without_a_flush(void **state)
{
    (void)state;
    enum { MOST_SHORT = 600 };
    uint64_t seed = 5, plans = 0, short_of = 0, found = 0;
    const uint64_t trials = test_trials(1000, 20000);
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct error error = { 0 };
        const uint32_t layers = 1 + (uint32_t)random_below(&seed, 6), devices = 1 + (uint32_t)random_below(&seed, 4);
        const uint64_t rate = random_below(&seed, 3) == 0 ? 1000000000 : 20000000000;
        struct profile *profile = draw_graph(&seed, layers);
        struct cluster *cluster = cluster_uniform(devices, (uint64_t)1 << 50, random_below(&seed, 99), rate, &error);
        assert_good(cluster, error);
        const struct search_request request = {
            .profile = profile, .cluster = cluster, .schedule = "pipedream", .ranks = devices, .chunks = 1,
            .micro_batches = devices + (uint32_t)random_below(&seed, 8),
            .free = { .replicas = true, .fewer = random_below(&seed, 4) == 0 } };
        const uint64_t best = solve_without_flush(&request, &plans);
        for (unsigned groups = 0; best > 0 && best != UINT64_MAX && groups < 4; groups++) {
            uint64_t bound = 1, work = 0;
            const uint32_t most = groups ? 3 + (uint32_t)random_below(&seed, 6) : ORDER_ARRANGED_ASYNC_PLACES;
            assert_good(order_arranged_bound(&request, most, &bound, &work, &error), error);
            if (bound > best)
                fail_msg("trial %d (%u devices, %u micro-batches, %u layers, %u nodes): the bound is %d, but the best"
                         " takes %d", (int)trial, devices, request.micro_batches, layers, most, (int)bound, (int)best);
            short_of += groups ? 0 : 1000 - 1000 * bound / best;
            found += !groups;
        }
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d plans; the bound is %d of 1000 short of the best on average\n", (int)trials,
                  (int)plans, (int)(short_of / found));
    assert_in_range(short_of / found, 0, MOST_SHORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_and_no_arrangement_is_quicker_than_their_bound),
        cmocka_unit_test(nor_is_any_without_a_flush),
    };
    return cmocka_run_group_tests_name("order_arranged", tests, NULL, NULL);
}
