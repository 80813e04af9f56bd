
#include "partitioner/search/pattern.h"
#include "partitioner/search/search_request.h"
#include "schedules/generators/given_order.h"
#include "tests/partitioner/arranged_twin.h"
#include "tests/partitioner/own_order.h"
#include "tests/partitioner/resolve.h"
#include "tests/random_order.h"

enum { MOST_LAYERS = TWIN_LAYERS, MOST_DEVICES = TWIN_DEVICES };

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
            stage_bytes_at(request->profile, first, end, segments, count, &request->storage, 1);
        for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++)
            needs[placement_rank(placement, s, copy)] += stage_memory_of(&bytes, &slots[s]).peak_bytes;
        first = end;
    }
    for (uint32_t r = 0; r < request->ranks; r++)
        cluster->devices[request->layout.devices[r]].memory_bytes =
            1 + needs[r] - needs[r] / 8 + needs[r] / 8 * random_below(seed, roomy ? 12 : 3);
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
    request->layout.stages = 1 + (uint32_t)random_below(seed, 3);
    request->ranks = 0;
    for (uint32_t s = 0; s < request->layout.stages; s++)
        request->ranks += drawn->replicas[s] = 1 + (uint32_t)random_below(seed, 3);
    request->layout.replicas = drawn->replicas;
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
    request->layout.devices = drawn->devices;
}

// A request, and its order; NULL if the numbers drawn suit none.
typedef struct schedule *draw_order(uint64_t *seed, struct search_request *request, struct drawn *drawn);

// For a schedule that only this search plans for.
static struct schedule *draw_named(uint64_t *seed, struct search_request *request, struct drawn *drawn)
{
    struct error ignored = { 0 };
    struct pattern pattern = { 0 };
    const struct generator *generator = random_generator(seed);
    request->schedule = generator->name;
    resolve(request);
    request->ranks = 2 + (uint32_t)random_below(seed, 3);
    request->chunks = generator->usual_chunks;
    request->micro_batches = 1 + (uint32_t)random_below(seed, 8);
    request->layout.replicas = NULL;
    if (generator->takes_replicas)
        draw_replicas(seed, request, drawn);
    draw_devices(seed, request, drawn);
    struct schedule *order = request->ranks <= MOST_DEVICES ? search_order(request, request->micro_batches, &ignored)
                                                            : NULL;
    const bool wanted = order && order->stages <= MOST_LAYERS && pattern_read(order, &pattern, &ignored)
                     && (!pattern.is_known || request->layout.replicas);
    pattern_clear(&pattern);
    if (wanted)
        return order;
    schedule_free(order);
    return NULL;
}

// All that ranks do, left to the planner to add, or a part of it where a file has none.
static void drop_updates(struct schedule *order)
{
    for (uint32_t rank = 0; rank < order->ranks; rank++) {
        struct action_list *list = &order->lists[rank];
        size_t kept = 0;
        for (size_t i = 0; i < list->count; i++)
            if (list->at[i].kind < ACTION_REDUCE)
                list->at[kept++] = list->at[i];
        list->count = kept;
    }
}

// For an order of no schedule: anywhere, in any way.
static struct schedule *draw_given(uint64_t *seed, struct search_request *request, struct drawn *drawn)
{
    struct error error = { 0 };
    struct traits traits = random_traits(seed);
    size_t pairs;
    traits.weights = WEIGHTS_FLUSH;
    traits.copies &= random_below(seed, 2);  // planned only where their neighbours are the same
    struct schedule *order = random_order(seed, &traits);
    schedule_free(random_lower(seed, order, &traits, &pairs));
    if (random_below(seed, 2))
        drop_updates(order);
    struct schedule *given = given_order(order, &error);
    schedule_free(order);
    if (!given) {  // a rank that does nothing, or copies of which one does nothing
        assert_int_equal(error.kind, ERROR_INPUT);
        return NULL;
    }
    request->given = given;
    request->schedule = given->name;
    resolve(request);
    request->ranks = given->ranks;
    request->micro_batches = given->micro_batches;
    draw_devices(seed, request, drawn);
    return given;
}

static void hold_against_twin(uint64_t seed, uint64_t trials, draw_order *draw)
{
    uint64_t pin_seed = seed + 1, plans = 0, feasible = 0, proved = 0, tried = 0, refused = 0;
    for (uint64_t trial = 0; trial < trials;) {
        struct error error = { 0 };
        struct search_request request = { .storage.optimizer = (enum optimizer_kind)random_below(&seed, 3) };
        struct drawn drawn;
        struct schedule *order = draw(&seed, &request, &drawn);
        if (!order)
            continue;
        trial++;
        const uint32_t layers = order->stages + (uint32_t)random_below(&seed, MOST_LAYERS - order->stages + 1);
        struct profile *profile = small_random_chain(&seed, layers, random_below(&seed, 3) == 0 ? 4 : 1000);
        if (random_below(&seed, 3) == 0)
            small_random_edges(&seed, profile);
        profile->sequences = SEQUENCES_SOME;  // for schedules that cut them
        const uint64_t rate = random_below(&seed, 3) == 0 ? 1000000000 : 1000000000000;
        struct cluster *cluster = cluster_uniform(MOST_DEVICES, 1, random_below(&seed, 200), rate, &error);
        assert_good(cluster, error);
        if (random_below(&seed, 4) == 0)
            for (uint32_t r = 0; r < MOST_DEVICES; r++)
                cluster->devices[r].speed_permille = 500 + 250 * random_below(&seed, 4);
        request.profile = profile;
        request.cluster = cluster;
        set_memory(&request, order, cluster, &seed);
        const struct search_pin pin = { (uint32_t)random_below(&pin_seed, layers),
                                        (uint32_t)random_below(&pin_seed, order->stages) };
        request.pinned.at = &pin;
        request.pinned.count = trial % 8 == 0;
        const uint64_t best = twin_solve(&request, order, &plans);
        struct plan *plan = own_order_search(&request, &error);
        const bool is_refused = !plan && strstr(error.text, "have different neighbours on their ranks");
        refused += is_refused;
        if (!plan && !is_refused && (best != UINT64_MAX || error.kind != ERROR_ANSWER))
            fail_msg("trial %d (%s, %u ranks, %u micro-batches, %u layers): no plan, but brute force has %d: %s",
                     (int)trial, request.schedule, request.ranks, request.micro_batches, layers, (int)best, error.text);
        if (plan) {
            const struct certificate *certificate = &plan->certificate;
            if (certificate->value_ns < best || certificate->lower_bound_ns > best
                || (certificate->proved && certificate->value_ns != best)
                || !certificate->proved)
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
    print_message("# %d requests, %d with a plan, %d proved, %d refused, %d plans simulated by the twin\n", (int)tried,
                  (int)feasible, (int)proved, (int)refused, (int)plans);
    assert_true(feasible > trials / 2 && proved == feasible);
}

static void small_plans_are_the_best_there_are(void **state)
{
    (void)state;
    hold_against_twin(41, test_trials(200, 20000), draw_named);
}

static void so_are_those_of_orders_that_are_given(void **state)
{
    (void)state;
    hold_against_twin(43, test_trials(200, 20000), draw_given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_plans_are_the_best_there_are),
        cmocka_unit_test(so_are_those_of_orders_that_are_given),
    };
    return cmocka_run_group_tests_name("coupled", tests, NULL, NULL);
}
