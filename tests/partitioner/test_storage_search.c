// Plans whose states are sharded, with the host, streamed or tied apart, against trying
// everything: all cuts and all ways to recompute, each priced as a plan of its own. That
// the prices are right is for the evaluator, which judges every plan found.
#include <stdio.h>

#include "partitioner/cost/predict.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/search/search_request.h"
#include "tests/partitioner/own_order.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small.h"

enum { MOST_RANKS = 4, MOST_STAGES = 4 };

struct brute {
    const struct search_request *request;
    struct placement *placement;
    struct plan *plan;
    uint32_t stages;
    uint64_t best, plans;
};

static bool has_room(const struct brute *brute)
{
    const struct plan *plan = brute->plan;
    const struct cluster *cluster = plan->cluster;
    for (uint32_t r = 0; r < plan->ranks; r++)
        if (plan_rank_bytes(plan, brute->placement, r) > cluster->devices[r].memory_bytes)
            return false;
    for (size_t machine = 0; machine < cluster->device_count; machine++) {
        uint64_t bytes = 0;
        for (uint32_t s = 0; s < brute->stages; s++)
            for (size_t i = 0; i < plan->stages[s].device_count; i++)
                if (plan->stages[s].devices[i] / cluster->levels[0].size == machine)
                    bytes += plan->stages[s].memory.host_bytes;
        if (bytes > 0 && bytes > cluster->host_memory_bytes)
            return false;
    }
    return true;
}

static void try_plan(struct brute *brute)
{
    struct error error = { 0 };
    assert_good(plan_predict(brute->plan, brute->request->profile, &error), error);
    brute->plans++;
    if (has_room(brute) && brute->plan->iteration_ns < brute->best)
        brute->best = brute->plan->iteration_ns;
}

static void try_stage(struct brute *brute, uint32_t s, uint32_t first);

// All ways to recompute layers from `from` on.
static void try_segments(struct brute *brute, uint32_t s, struct segment layers, uint32_t from,
                         struct segment *segments, size_t count)
{
    if (from == layers.end) {
        struct error error = { 0 };
        const struct placement *placement = brute->placement;
        assert_good(plan_set_stage(brute->plan, s, brute->request->profile, layers, 0, segments, count, &error)
                        && plan_set_devices(brute->plan, s, &placement->copies[placement->copy_at[s]],
                                            placement_copies(placement, s), &error),
                    error);
        try_stage(brute, s + 1, layers.end);
        return;
    }
    try_segments(brute, s, layers, from + 1, segments, count);
    for (uint32_t to = from + 1; to <= layers.end; to++) {
        segments[count] = (struct segment){ from, to };
        try_segments(brute, s, layers, to, segments, count + 1);
    }
}

static bool parts_tied_layers(const struct search_request *request, uint32_t cut)
{
    const struct profile *profile = request->profile;
    for (size_t i = 0; i < profile->tied_count && !request->storage.tied_apart; i++)
        if (profile->tied[i].from < cut && cut <= profile->tied[i].to)
            return true;
    return false;
}

static void try_stage(struct brute *brute, uint32_t s, uint32_t first)
{
    const uint32_t layers = (uint32_t)brute->request->profile->layer_count;
    if (s == brute->stages) {
        try_plan(brute);
        return;
    }
    for (uint32_t end = first + 1; end <= layers; end++) {
        struct segment segments[8];
        if ((end == layers) == (s + 1 == brute->stages) && !parts_tied_layers(brute->request, end))
            try_segments(brute, s, (struct segment){ first, end }, first, segments, 0);
    }
}

static uint64_t brute_force(const struct search_request *request, uint64_t *plans)
{
    struct error error = { 0 };
    struct schedule *order = search_order(request, request->micro_batches, &error);
    assert_good(order, error);
    struct brute brute = { .request = request, .stages = order->stages, .best = UINT64_MAX };
    brute.placement = placement_read(order, &error);
    brute.plan = search_begin_plan(request, order->stages, &error);
    assert_good(brute.placement && brute.plan, error);
    try_stage(&brute, 0, 0);
    plan_free(brute.plan);
    placement_free(brute.placement);
    schedule_free(order);
    *plans += brute.plans;
    return brute.best;
}

// --- random requests ----------------------------------------------------------------------

struct drawn {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
    uint32_t replicas[MOST_STAGES];
};

static struct storage draw_storage(uint64_t *seed, const struct profile *profile, bool flushes)
{
    struct storage storage = {
        .optimizer = (enum optimizer_kind)random_below(seed, OPTIMIZER_ADAM_1BIT + 1),
        .shard = random_below(seed, 2) ? (enum shard)random_below(seed, 4) : SHARD_NONE,
        .optimizer_on_host = random_below(seed, 3) == 0,
        .activations_on_host = random_below(seed, 5) == 0,
        .tied_apart = flushes && random_below(seed, 2),
        .step_rate = random_below(seed, 3) == 0 ? 1000000000 + random_below(seed, 20) * 1000000000 : 0,
    };
    if (optimizer_compresses(storage.optimizer) && !flushes)
        storage.optimizer = OPTIMIZER_ADAM;
    if (optimizer_compresses(storage.optimizer))
        storage.optimizer_on_host = storage.tied_apart = false;
    if (optimizer_compresses(storage.optimizer))
        storage.shard = SHARD_NONE;
    if (storage.shard > SHARD_OPTIMIZER && profile->one_owner_count > 0)
        storage.shard = SHARD_OPTIMIZER;
    if ((storage.shard >= SHARD_GRADIENTS || (flushes && storage.optimizer_on_host)) && random_below(seed, 2))
        storage.window = 1 + (uint32_t)random_below(seed, 2);
    return storage;
}

static const struct way {
    const char *schedule;
    uint32_t ranks, stages;
    uint32_t replicas[MOST_STAGES];  // none: one each
} ways[] = {
    { "1f1b", 2, 2, { 0 } },      { "gpipe", 2, 2, { 0 } },       { "1f1b", 3, 3, { 0 } },
    { "1f1b", 3, 2, { 2, 1 } },   { "gpipe", 4, 2, { 2, 2 } },    { "1f1b", 4, 3, { 1, 2, 1 } },
    { "pipedream", 2, 2, { 0 } }, { "pipedream", 3, 2, { 2, 1 } }, { "chimera", 2, 2, { 0 } },
    { "zb-h1", 2, 2, { 0 } },
};

static void draw_shapes(uint64_t *seed, struct profile *profile)
{
    for (size_t l = 0; l < profile->layer_count; l++) {
        struct profile_layer *layer = &profile->layers[l];
        layer->shapes = calloc(2, sizeof layer->shapes[0]);
        layer->shape_count = 2;
        layer->shapes[0] = (struct shape){ 1 + random_below(seed, 100), 1 + random_below(seed, 9) };
        layer->shapes[1] = (struct shape){ 1 + random_below(seed, 100), 1 };
    }
}

// Capacities around what a random plan without recomputation takes, in bytes of devices and hosts.
static void set_memory(struct drawn *drawn, uint64_t *seed)
{
    struct error error = { 0 };
    const struct search_request *request = &drawn->request;
    const uint32_t layers = (uint32_t)drawn->profile->layer_count;
    struct schedule *order = search_order(request, request->micro_batches, &error);
    struct placement *placement = order ? placement_read(order, &error) : NULL;
    struct plan *plan = placement ? search_begin_plan(request, order->stages, &error) : NULL;
    assert_good(plan, error);
    for (uint32_t s = 0, first = 0; s < order->stages; s++) {
        const uint32_t left = layers - first - (order->stages - s - 1);
        const uint32_t end = s + 1 == order->stages ? layers : first + 1 + (uint32_t)random_below(seed, left);
        assert_good(plan_set_stage(plan, s, drawn->profile, (struct segment){ first, end }, 0, NULL, 0, &error)
                        && plan_set_devices(plan, s, &placement->copies[placement->copy_at[s]],
                                            placement_copies(placement, s), &error),
                    error);
        first = end;
    }
    assert_good(plan_predict(plan, drawn->profile, &error), error);
    uint64_t host = 0;
    for (uint32_t s = 0; s < order->stages; s++)
        host += plan->stages[s].memory.host_bytes * plan->stages[s].device_count;
    for (uint32_t r = 0; r < request->ranks; r++) {
        const uint64_t bytes = plan_rank_bytes(plan, placement, r);
        drawn->cluster->devices[r].memory_bytes = 1 + bytes - bytes / 8 + bytes / 8 * random_below(seed, 6);
    }
    drawn->cluster->host_memory_bytes = random_below(seed, 3) ? (uint64_t)1 << 40 : 1 + host;
    plan_free(plan);
    placement_free(placement);
    schedule_free(order);
}

static void draw(struct drawn *drawn, uint64_t *seed)
{
    struct error error = { 0 };
    const struct way *way = &ways[random_below(seed, sizeof ways / sizeof ways[0])];
    const struct generator *generator = generator_find(way->schedule, &error);
    assert_non_null(generator);
    *drawn =
        (struct drawn){ .profile = small_random_chain(seed, way->stages + random_below(seed, 7 - way->stages), 1000) };
    if (random_below(seed, 4) == 0)
        small_random_edges(seed, drawn->profile);
    draw_shapes(seed, drawn->profile);
    const uint32_t layers = (uint32_t)drawn->profile->layer_count;
    if (random_below(seed, 3) == 0) {
        drawn->profile->tied = malloc(sizeof drawn->profile->tied[0]);
        const uint32_t from = (uint32_t)random_below(seed, layers - 1);
        drawn->profile->tied[0] = (struct edge){ from, from + 1 + (uint32_t)random_below(seed, layers - from - 1) };
        drawn->profile->tied_count = 1;
        if (random_below(seed, 2))
            small_lend(drawn->profile);
    }
    assert_good(profile_rehash(drawn->profile, &error), error);
    const uint64_t rate = random_below(seed, 3) == 0 ? 5000000000 : 1000000000000;
    drawn->cluster = cluster_uniform(way->ranks, (uint64_t)1 << 40, random_below(seed, 50), rate, &error);
    assert_good(drawn->cluster, error);
    drawn->cluster->has_host = true;
    drawn->cluster->host_memory_bytes = (uint64_t)1 << 40;
    drawn->cluster->host_bytes_per_second = 10000000000 + random_below(seed, 50) * 2000000000;
    if (way->ranks == 4 && random_below(seed, 2)) {  // two machines
        struct cluster_level inner = drawn->cluster->levels[0];
        free(drawn->cluster->levels);
        drawn->cluster->levels = calloc(2, sizeof inner);
        drawn->cluster->level_count = 2;
        drawn->cluster->levels[0] = drawn->cluster->levels[1] = inner;
        drawn->cluster->levels[0].size = drawn->cluster->levels[1].size = 2;
    }
    memcpy(drawn->replicas, way->replicas, sizeof drawn->replicas);
    drawn->request = (struct search_request){
        .profile = drawn->profile, .cluster = drawn->cluster, .schedule = way->schedule, .ranks = way->ranks,
        .chunks = 1, .micro_batches = 2 * (1 + (uint32_t)random_below(seed, 2)), .layout.stages = way->stages,
        .layout.replicas = way->replicas[0] ? drawn->replicas : NULL,
        .storage = draw_storage(seed, drawn->profile, generator->weights == WEIGHTS_FLUSH),
    };
    resolve(&drawn->request);
    if (!drawn->request.layout.replicas)
        drawn->request.layout.stages = 0;
    set_memory(drawn, seed);
}

struct tally {
    uint64_t plans, found, proved;
};

// What is written is read, and written again alike.
static void write_and_read(const struct plan *plan, uint64_t trial)
{
    struct error error = { 0 };
    struct text first = { 0 }, second = { 0 };
    plan_write(plan, &first);
    struct plan *read = plan_read(first.data, first.length, "plan.json", &error);
    if (!read)
        fail_msg("trial %d: %s", (int)trial, error.text);
    plan_write(read, &second);
    if (strcmp(first.data, second.data) != 0)
        fail_msg("trial %d: written in another way when it was read", (int)trial);
    plan_free(read);
    text_clear(&first);
    text_clear(&second);
}

// The best of all numbers of replicas of so many stages or fewer.
static uint64_t best_replicas(const struct search_request *request, uint32_t *replicas, uint32_t stages, uint32_t left,
                              uint64_t *plans)
{
    if (left == 0) {
        struct search_request arranged = *request;
        arranged.free = (struct search_freedom){ .replicas = false };
        arranged.layout.replicas = replicas;
        arranged.layout.stages = stages;
        return stages <= request->profile->layer_count ? brute_force(&arranged, plans) : UINT64_MAX;
    }
    uint64_t best = UINT64_MAX;
    for (replicas[stages] = 1; replicas[stages] <= left; replicas[stages]++) {
        const uint64_t own = best_replicas(request, replicas, stages + 1, left - replicas[stages], plans);
        best = own < best ? own : best;
    }
    return best;
}

static uint64_t best_of(const struct search_request *request, uint64_t *plans)
{
    uint32_t replicas[MOST_RANKS + 1];
    return request->free.replicas ? best_replicas(request, replicas, 0, request->ranks, plans)
                                  : brute_force(request, plans);
}

// The evaluator sees a number that is changed.
static void change_and_refuse(struct plan *plan, const struct profile *profile, uint64_t trial)
{
    struct plan_stage *stage = &plan->stages[trial % plan->stage_count];
    uint64_t *const numbers[] = { &stage->memory.host_bytes, &stage->memory.optimizer_bytes, &stage->costs.step_ns,
                                  &stage->costs.forward_ns, &stage->costs.reduce_ns, &stage->memory.weights_bytes };
    struct error error = { 0 };
    uint64_t *number = numbers[trial % (sizeof numbers / sizeof numbers[0])];
    *number += 1;
    if (plan_evaluate(plan, profile, &error) || error.kind != ERROR_ANSWER)
        fail_msg("trial %d: a changed number is not seen: %s", (int)trial, error.text);
    *number -= 1;
}

static void judge(const struct drawn *drawn, uint64_t trial, struct tally *tally)
{
    struct error error = { 0 };
    const uint64_t best = best_of(&drawn->request, &tally->plans);
    struct plan *plan = own_order_search(&drawn->request, &error);
    if (!plan) {
        // Tied layers can leave too few cuts.
        if (error.kind != ERROR_ANSWER || best != UINT64_MAX)
            fail_msg("trial %d: no plan, but one takes %llu: %s", (int)trial, (unsigned long long)best, error.text);
        return;
    }
    const struct certificate *certificate = &plan->certificate;
    tally->found++;
    tally->proved += certificate->proved;
    if (plan->iteration_ns < best || certificate->lower_bound_ns > best
        || (certificate->proved && plan->iteration_ns != best))
        fail_msg("trial %d, %s: found %llu, bound %llu, %sproved; the best is %llu", (int)trial,
                 drawn->request.schedule, (unsigned long long)plan->iteration_ns,
                 (unsigned long long)certificate->lower_bound_ns, certificate->proved ? "" : "not ",
                 (unsigned long long)best);
    write_and_read(plan, trial);
    change_and_refuse(plan, drawn->profile, trial);
    plan_free(plan);
}

// Replicas to choose where there are three ranks and four micro-batches.
static void set_free(struct drawn *drawn)
{
    struct search_request *request = &drawn->request;
    if (request->ranks != 3 || strcmp(request->schedule, "pipedream") == 0 || request->micro_batches < 4)
        return;
    request->free.replicas = true;
    request->layout.replicas = NULL;
    request->layout.stages = 0;
}

static void try_requests(bool is_free, uint64_t seed, uint64_t trials)
{
    struct tally tally = { 0 };
    for (uint64_t trial = 0; trial < trials; trial++) {
        struct drawn drawn;
        draw(&drawn, &seed);
        if (is_free)
            set_free(&drawn);
        judge(&drawn, trial, &tally);
        profile_free(drawn.profile);
        cluster_free(drawn.cluster);
    }
    print_message("# %llu plans tried; %llu of %llu found were proved\n", (unsigned long long)tally.plans,
                  (unsigned long long)tally.proved, (unsigned long long)tally.found);
    assert_true(10 * tally.proved >= 9 * tally.found);
}

static void no_plan_is_better_than_one_that_is_proved(void **state)
{
    (void)state;
    try_requests(false, 91, test_trials(60, 16000));
}

static void no_number_of_replicas_is_better_than_one_that_is_proved(void **state)
{
    (void)state;
    try_requests(true, 92, test_trials(15, 4000));
}

// Weights in a window, a layer that lends its own to another stage, and that one in a segment: a soak's trial 1722.
static void a_segment_has_room_for_the_copies_it_brings(void **state)
{
    (void)state;
    try_requests(false, 17385241138352756452u, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_plan_is_better_than_one_that_is_proved),
        cmocka_unit_test(no_number_of_replicas_is_better_than_one_that_is_proved),
        cmocka_unit_test(a_segment_has_room_for_the_copies_it_brings),
    };
    return cmocka_run_group_tests_name("storage_search", tests, NULL, NULL);
}
