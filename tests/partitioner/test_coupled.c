#include "partitioner/coupled.h"

#include "partitioner/pattern.h"
#include "partitioner/predict.h"
#include "partitioner/search_problem.h"
#include "schedules/lower.h"
#include "tests/partitioner/small.h"

enum { MOST_STAGES = 8, MOST_LAYERS = 7, MOST_WAYS = 1024, MOST_DEVICES = 4 };

// --- the twin: all cuts, and for each stage every way to recompute its layers ----------

struct way {
    struct cost_row row;
    uint64_t bytes, workspace;
};

struct brute {
    const struct search_request *request;
    struct placement *placement;
    struct slots *slots;
    struct network *network;
    struct simulator *simulators[2];
    uint32_t stages, splits, cuts[MOST_STAGES + 1];
    struct way ways[MOST_STAGES][MOST_WAYS];
    size_t way_count[MOST_STAGES];
    struct cost_row rows[MOST_STAGES];
    uint64_t bytes[MOST_DEVICES], workspace[MOST_DEVICES];
    uint64_t best, plans;
};

static void note_way(struct brute *brute, uint32_t s, const struct segment *segments, size_t count)
{
    const struct search_request *request = brute->request;
    uint64_t speed = UINT64_MAX;
    for (uint32_t copy = 0; copy < placement_copies(brute->placement, s); copy++) {
        const uint32_t rank = placement_rank(brute->placement, s, copy);
        if (search_device(request, rank)->speed_permille < speed)
            speed = search_device(request, rank)->speed_permille;
    }
    const struct stage_bytes bytes =
        stage_bytes_of(request->profile, brute->cuts[s], brute->cuts[s + 1], segments, count, &request->holding);
    struct way way = { .workspace = bytes.transient };
    const struct stage_bytes split = stage_bytes_of_split(bytes, brute->splits);
    way.bytes = stage_memory_of(&split, &brute->slots[s]).peak_bytes - bytes.transient;
    way.row = stage_cost_of(request->profile, brute->cuts[s], brute->cuts[s + 1], segments, count, &request->holding,
                            speed);
    way.row.reduce_ns = predict_reduce_ns(brute->placement, s, bytes.weights, brute->network);
    for (size_t i = 0; i < brute->way_count[s]; i++) {
        const struct way *other = &brute->ways[s][i];
        if (other->row.recompute_ns == way.row.recompute_ns && other->bytes == way.bytes
            && other->workspace == way.workspace)
            return;
    }
    assert_true(brute->way_count[s] < MOST_WAYS);
    brute->ways[s][brute->way_count[s]++] = way;
}

static void note_ways(struct brute *brute, uint32_t s, uint32_t from, struct segment *segments, size_t count)
{
    const uint32_t end = brute->cuts[s + 1];
    if (from == end) {
        note_way(brute, s, segments, count);
        return;
    }
    note_ways(brute, s, from + 1, segments, count);
    for (uint32_t to = from + 1; to <= end; to++) {
        segments[count] = (struct segment){ from, to };
        note_ways(brute, s, to, segments, count + 1);
    }
}

static void simulate_ways(struct brute *brute, uint32_t s)
{
    if (s == brute->stages) {
        uint64_t value = simulator_iteration_ns(brute->simulators[0], brute->rows);
        if (brute->simulators[1])
            value -= simulator_iteration_ns(brute->simulators[1], brute->rows);
        brute->best = value < brute->best ? value : brute->best;
        brute->plans++;
        return;
    }
    for (size_t i = 0; i < brute->way_count[s]; i++) {
        const struct way *way = &brute->ways[s][i];
        uint64_t bytes[MOST_DEVICES], workspace[MOST_DEVICES];
        memcpy(bytes, brute->bytes, sizeof bytes);
        memcpy(workspace, brute->workspace, sizeof workspace);
        bool fits = true;
        for (uint32_t copy = 0; copy < placement_copies(brute->placement, s); copy++) {
            const uint32_t rank = placement_rank(brute->placement, s, copy);
            brute->bytes[rank] += way->bytes;
            if (way->workspace > brute->workspace[rank])
                brute->workspace[rank] = way->workspace;
            const struct cluster_device *device = search_device(brute->request, rank);
            fits &= brute->bytes[rank] + brute->workspace[rank] <= device->memory_bytes;
        }
        brute->rows[s] = way->row;
        if (fits)
            simulate_ways(brute, s + 1);
        memcpy(brute->bytes, bytes, sizeof bytes);
        memcpy(brute->workspace, workspace, sizeof workspace);
    }
}

static void try_cuts(struct brute *brute, uint32_t s)
{
    const uint32_t layers = (uint32_t)brute->request->profile->layer_count;
    if (s == brute->stages) {
        simulate_ways(brute, 0);
        return;
    }
    for (uint32_t end = brute->cuts[s] + 1; end <= layers; end++) {
        if ((end == layers) != (s + 1 == brute->stages))
            continue;
        struct segment segments[MOST_LAYERS];
        brute->cuts[s + 1] = end;
        brute->way_count[s] = 0;
        note_ways(brute, s, brute->cuts[s], segments, 0);
        try_cuts(brute, s + 1);
    }
}

static struct simulator *simulator_of(const struct search_request *request, uint32_t micro_batches,
                                      const struct network *network)
{
    struct error error = { 0 };
    struct schedule *order = search_order(request, micro_batches, &error);
    struct schedule *lowered = order ? schedule_lower(order, &error) : NULL;
    struct simulator *simulator = lowered ? simulator_create(lowered, network, &error) : NULL;
    assert_good(simulator, error);
    schedule_free(lowered);
    schedule_free(order);
    return simulator;
}

static uint64_t brute_force(const struct search_request *request, const struct schedule *order, uint64_t *plans)
{
    static struct brute brute;
    struct error error = { 0 };
    const uint32_t m = request->micro_batches;
    const bool flushes = order->weights == WEIGHTS_FLUSH;
    brute = (struct brute){ .request = request, .stages = order->stages, .splits = order->splits,
                            .best = UINT64_MAX };
    brute.placement = placement_read(order, &error);
    brute.slots = search_slots(request, &error);
    brute.network = cluster_network(request->cluster, request->devices, request->ranks, &error);
    assert_good(brute.placement && brute.slots && brute.network, error);
    brute.simulators[0] = simulator_of(request, flushes ? m : 3 * m, brute.network);
    brute.simulators[1] = flushes ? NULL : simulator_of(request, 2 * m, brute.network);
    try_cuts(&brute, 0);
    simulator_free(brute.simulators[0]);
    simulator_free(brute.simulators[1]);
    network_free(brute.network);
    placement_free(brute.placement);
    free(brute.slots);
    *plans += brute.plans;
    return brute.best;
}

// --- random requests --------------------------------------------------------------------

// Capacities around what some plan takes.
static void set_memory(const struct search_request *request, const struct schedule *order, struct cluster *cluster,
                       uint64_t *seed)
{
    struct error error = { 0 };
    struct placement *placement = placement_read(order, &error);
    struct slots *slots = search_slots(request, &error);
    assert_good(placement && slots, error);
    const uint32_t layers = (uint32_t)request->profile->layer_count;
    const bool roomy = random_below(seed, 3) == 0;
    uint64_t needs[MOST_DEVICES] = { 0 };
    for (uint32_t s = 0, first = 0; s < order->stages; s++) {
        const uint32_t left = layers - first - (order->stages - s - 1);
        const uint32_t end = s + 1 == order->stages ? layers : first + 1 + (uint32_t)random_below(seed, left);
        struct segment segments[64];
        const size_t count = random_below(seed, 2) ? small_random_segments(seed, first, end, segments) : 0;
        const struct stage_bytes bytes =
            stage_bytes_of(request->profile, first, end, segments, count, &request->holding);
        for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++)
            needs[placement_rank(placement, s, copy)] += stage_memory_of(&bytes, &slots[s]).peak_bytes;
        first = end;
    }
    for (uint32_t r = 0; r < request->ranks; r++)
        cluster->devices[request->devices[r]].memory_bytes = 1 + needs[r] - needs[r] / 8 + needs[r] / 8 * random_below(seed, roomy ? 12 : 3);
    placement_free(placement);
    free(slots);
}

static const struct generator *random_generator(uint64_t *seed)
{
    size_t count = 0;
    while (generators[count].name)
        count++;
    return &generators[random_below(seed, count)];
}

// Ranks of each stage, with more than one of some; and ranks on any of the devices.
struct drawn {
    uint32_t replicas[MOST_DEVICES], devices[MOST_DEVICES];
};

static void draw_replicas(uint64_t *seed, struct search_request *request, struct drawn *drawn)
{
    request->stages = 1 + (uint32_t)random_below(seed, 3);
    request->ranks = 0;
    for (uint32_t s = 0; s < request->stages; s++)
        request->ranks += drawn->replicas[s] = 1 + (uint32_t)random_below(seed, 3);
    request->replicas = drawn->replicas;
}

static void draw_devices(uint64_t *seed, struct search_request *request, struct drawn *drawn)
{
    for (uint32_t i = 0; i < MOST_DEVICES; i++)
        drawn->devices[i] = i;
    for (uint32_t i = 0; random_below(seed, 2) && i < MOST_DEVICES; i++) {
        const uint32_t other = (uint32_t)random_below(seed, MOST_DEVICES), own = drawn->devices[i];
        drawn->devices[i] = drawn->devices[other];
        drawn->devices[other] = own;
    }
    request->devices = drawn->devices;
}

// A request for a schedule that only this search plans for; NULL if the numbers drawn suit none.
static struct schedule *random_order(uint64_t *seed, struct search_request *request, struct drawn *drawn)
{
    struct error ignored = { 0 };
    struct pattern pattern = { 0 };
    const struct generator *generator = random_generator(seed);
    request->schedule = generator->name;
    request->ranks = 2 + (uint32_t)random_below(seed, 3);
    request->chunks = generator->usual_chunks;
    request->micro_batches = 1 + (uint32_t)random_below(seed, 8);
    request->replicas = NULL;
    if (generator->takes_replicas)
        draw_replicas(seed, request, drawn);
    draw_devices(seed, request, drawn);
    struct schedule *order = request->ranks <= MOST_DEVICES ? search_order(request, request->micro_batches, &ignored)
                                                            : NULL;
    const bool wanted = order && order->stages <= MOST_LAYERS && pattern_read(order, &pattern, &ignored)
                     && (!pattern.is_known || request->replicas);
    pattern_clear(&pattern);
    if (wanted)
        return order;
    schedule_free(order);
    return NULL;
}

static void small_plans_are_the_best_there_are(void **state)
{
    (void)state;
    uint64_t seed = 41, plans = 0, feasible = 0, proved = 0, tried = 0;
    const uint64_t trials = test_trials(1000, 4000);
    for (uint64_t trial = 0; trial < trials;) {
        struct error error = { 0 };
        struct search_request request = { .holding.optimizer = (enum optimizer_kind)random_below(&seed, 3) };
        struct drawn drawn;
        struct schedule *order = random_order(&seed, &request, &drawn);
        if (!order)
            continue;
        trial++;
        const uint32_t layers = order->stages + (uint32_t)random_below(&seed, MOST_LAYERS - order->stages + 1);
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        if (random_below(&seed, 3) == 0)
            small_random_edges(&seed, profile);
        const uint64_t rate = random_below(&seed, 3) == 0 ? 1000000000 : 1000000000000;
        struct cluster *cluster = cluster_uniform(MOST_DEVICES, 1, random_below(&seed, 200), rate, &error);
        assert_good(cluster, error);
        if (random_below(&seed, 4) == 0)
            for (uint32_t r = 0; r < MOST_DEVICES; r++)
                cluster->devices[r].speed_permille = 500 + 250 * random_below(&seed, 4);
        request.profile = profile;
        request.cluster = cluster;
        set_memory(&request, order, cluster, &seed);
        const uint64_t best = brute_force(&request, order, &plans);
        struct plan *plan = plan_search(&request, &error);
        if (!plan && (best != UINT64_MAX || error.kind != ERROR_ANSWER))
            fail_msg("trial %d (%s, %u ranks, %u micro-batches, %u layers): no plan, but brute force has %d: %s",
                     (int)trial, request.schedule, request.ranks, request.micro_batches, layers, (int)best, error.text);
        if (plan) {
            const struct certificate *certificate = &plan->certificate;
            // Of splits that must recompute nothing is claimed.
            if (certificate->value_ns < best || certificate->lower_bound_ns > best
                || (certificate->proved && certificate->value_ns != best)
                || (!certificate->proved && order->splits == 1))
                fail_msg("trial %d (%s, %u ranks, %u micro-batches, %u layers): value %d, bound %d, proved %d, but the"
                         " best is %d", (int)trial, request.schedule, request.ranks, request.micro_batches, layers,
                         (int)certificate->value_ns, (int)certificate->lower_bound_ns, certificate->proved, (int)best);
            feasible++;
            proved += certificate->proved;
        }
        tried++;
        plan_free(plan);
        schedule_free(order);
        profile_free(profile);
        cluster_free(cluster);
    }
    print_message("# %d requests, %d with a plan, %d proved, %d plans simulated by the twin\n", (int)tried,
                  (int)feasible, (int)proved, (int)plans);
    assert_true(feasible > trials / 2 && proved >= feasible * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_plans_are_the_best_there_are),
    };
    return cmocka_run_group_tests_name("coupled", tests, NULL, NULL);
}
