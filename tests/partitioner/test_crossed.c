// Requests that cross what each other test has alone: orders of a graph, replicas, unlike
// devices, fewer of them, tied and pinned layers, holdings, tight memory, every kind of
// schedule. The twin prices every plan there is as a plan of its own, by plan_predict(), and
// asks the evaluator about each that would be the best.
#include <stdio.h>

#include "partitioner/arrangement/arrangement.h"
#include "partitioner/evaluate/evaluate.h"
#include "partitioner/orders/order_plan.h"
#include "partitioner/predict.h"
#include "partitioner/search/search_request.h"
#include "profiler/profile_reorder.h"
#include "tests/partitioner/small_dag.h"

enum { MOST_LAYERS = 6, MOST_DEVICES = 4 };

struct drawn {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
    uint32_t replicas[MOST_DEVICES], devices[MOST_DEVICES];
    struct search_pin pin;
};

// --- the twin: every order, arrangement, cut and segment ----------------------------------

struct twin {
    const struct search_request *asked;
    const struct profile *ordered;  // the layers in the order that is tried
    uint32_t order[MOST_LAYERS];
    bool is_own_order;
    uint32_t replicas[MOST_LAYERS], stages, devices[MOST_DEVICES], ranks;
    struct placement *placement;
    struct plan *plan;
    uint64_t best, plans, most;  // plans: up to `most`
    bool only_count;
};

static bool has_room(const struct twin *twin)
{
    struct error error = { 0 };
    const struct plan *plan = twin->plan;
    uint32_t *devices = plan_devices(plan, twin->placement, &error);
    assert_good(devices, error);
    bool room = true;
    for (uint32_t r = 0; r < plan->ranks; r++)
        room &= plan_rank_bytes(plan, twin->placement, r) <= plan->cluster->devices[devices[r]].memory_bytes;
    for (size_t machine = 0; machine < plan->cluster->device_count; machine++) {
        const uint64_t bytes = plan_host_bytes(plan, machine);
        room &= bytes == 0 || bytes <= plan->cluster->host_memory_bytes;
    }
    free(devices);
    return room;
}

// The evaluator must say the same.
static void ask_evaluator(struct twin *twin, bool room)
{
    struct error error = { 0 };
    struct plan *plan = twin->plan;
    plan->certificate = (struct certificate){ .objective = "iteration_ns", .value_ns = plan->iteration_ns };
    plan->certificate.gap = plan->iteration_ns > 0 ? 1 : 0;
    plan->certificate.proved = plan->iteration_ns == 0;
    if (!plan->certificate.proved)
        snprintf(plan->certificate.stopped, sizeof plan->certificate.stopped, "a plan of the twin");
    plan->order = twin->is_own_order ? NULL : twin->order;
    const bool holds = plan_evaluate(plan, twin->asked->profile, &error);
    plan->order = NULL;
    if (holds != room)
        fail_msg("a plan that %s, but the evaluator says: %s", room ? "fits" : "does not fit", error.text);
}

static void try_plan(struct twin *twin)
{
    struct error error = { 0 };
    twin->plans++;
    if (twin->only_count)
        return;
    assert_good(plan_predict(twin->plan, twin->ordered, &error), error);
    if (twin->plan->iteration_ns >= twin->best)
        return;
    const bool room = has_room(twin);
    ask_evaluator(twin, room);
    if (room)
        twin->best = twin->plan->iteration_ns;
}

static void try_stage(struct twin *twin, uint32_t s, uint32_t first);

static void set_stage(struct twin *twin, uint32_t s, struct segment layers, const struct segment *segments, size_t count)
{
    struct error error = { 0 };
    const struct placement *placement = twin->placement;
    uint32_t devices[MOST_DEVICES];
    for (uint32_t copy = 0; copy < placement_copies(placement, s); copy++)
        devices[copy] = twin->devices[placement_rank(placement, s, copy)];
    assert_good(plan_set_stage(twin->plan, s, twin->ordered, layers, 0, segments, count, &error)
                    && plan_set_devices(twin->plan, s, devices, placement_copies(placement, s), &error), error);
}

// All ways to recompute layers from `from` on.
static void try_segments(struct twin *twin, uint32_t s, struct segment layers, uint32_t from, struct segment *segments,
                         size_t count)
{
    if (from == layers.end) {
        if (!twin->only_count)
            set_stage(twin, s, layers, segments, count);
        try_stage(twin, s + 1, layers.end);
        return;
    }
    try_segments(twin, s, layers, from + 1, segments, count);
    for (uint32_t to = from + 1; to <= layers.end; to++) {
        segments[count] = (struct segment){ from, to };
        try_segments(twin, s, layers, to, segments, count + 1);
    }
}

static bool may_end(const struct twin *twin, uint32_t end)
{
    const struct profile *profile = twin->ordered;
    for (size_t i = 0; i < profile->tied_count && !twin->asked->holding.tied_apart; i++)
        if (profile->tied[i].from < end && end <= profile->tied[i].to)
            return false;
    return profile_can_cut_after(profile, end - 1);
}

static void try_stage(struct twin *twin, uint32_t s, uint32_t first)
{
    const uint32_t layers = (uint32_t)twin->ordered->layer_count, stages = twin->placement->stages;
    if (s == stages) {
        try_plan(twin);
        return;
    }
    for (uint32_t end = first + 1; end <= layers && twin->plans < twin->most; end++) {
        struct segment segments[MOST_LAYERS];
        const bool is_last = s + 1 == stages;
        if ((end == layers) == is_last && (is_last || may_end(twin, end)) && small_pins_hold(twin->asked, s, first, end))
            try_segments(twin, s, (struct segment){ first, end }, first, segments, 0);
    }
}

static void try_arrangement(struct twin *twin)
{
    struct error error = { 0 };
    struct search_request request = *twin->asked;
    request.profile = twin->ordered;
    request.ranks = twin->ranks;
    request.stages = twin->stages;
    request.replicas = twin->stages ? twin->replicas : NULL;
    struct schedule *order = search_order(&request, request.micro_batches, &error);
    if (order && order->stages <= request.profile->layer_count) {
        twin->placement = placement_read(order, &error);
        twin->plan = search_begin_plan(&request, order->stages, &error);
        assert_good(twin->placement && twin->plan, error);
        try_stage(twin, 0, 0);
        plan_free(twin->plan);
        placement_free(twin->placement);
    }
    schedule_free(order);
}

static void try_devices(struct twin *twin, uint32_t rank)
{
    const struct search_request *asked = twin->asked;
    if (rank == twin->ranks) {
        try_arrangement(twin);
        return;
    }
    for (uint32_t d = 0; d < asked->cluster->device_count; d++) {
        bool used = false;
        for (uint32_t r = 0; r < rank; r++)
            used |= twin->devices[r] == d;
        if (used || (!asked->free.devices && d != (asked->devices ? asked->devices[rank] : rank)))
            continue;
        twin->devices[rank] = d;
        try_devices(twin, rank + 1);
    }
}

static void try_replicas(struct twin *twin)
{
    const struct search_request *asked = twin->asked;
    const uint32_t ranks = twin->ranks;
    if (ranks > 0 && (ranks == asked->ranks || asked->free.fewer))
        try_devices(twin, 0);
    if (twin->stages == asked->profile->layer_count)
        return;
    const uint32_t s = twin->stages++;
    for (uint32_t r = 1; r <= asked->ranks - ranks; r++) {
        twin->replicas[s] = r;
        twin->ranks = ranks + r;
        try_replicas(twin);
    }
    twin->stages = s;
    twin->ranks = ranks;
}

static void try_arrangements(struct twin *twin)
{
    const struct search_request *asked = twin->asked;
    twin->ranks = twin->stages = 0;
    if (asked->free.replicas) {
        try_replicas(twin);
        return;
    }
    twin->stages = asked->replicas ? asked->stages : 0;
    for (uint32_t s = 0; s < twin->stages; s++)
        twin->replicas[s] = asked->replicas[s];
    const bool fewer = asked->free.fewer && !asked->replicas;
    for (twin->ranks = fewer ? 1 : asked->ranks; twin->ranks <= asked->ranks; twin->ranks++)
        try_devices(twin, 0);
}

// All orders that begin with the first `count` places of this one.
static void try_orders(struct twin *twin, uint32_t count)
{
    struct error error = { 0 };
    const struct profile *profile = twin->asked->profile;
    if (count == profile->layer_count) {
        struct profile *ordered = profile_reorder(profile, twin->order, &error);
        assert_good(ordered, error);
        twin->ordered = ordered;
        twin->is_own_order = true;
        for (uint32_t i = 0; i < count; i++)
            twin->is_own_order &= twin->order[i] == i;
        if (twin->is_own_order || twin->asked->pin_count == 0)  // pins are for the profile's own order
            try_arrangements(twin);
        profile_free(ordered);
        return;
    }
    for (uint32_t l = 0; l < profile->layer_count; l++) {
        bool ready = true;
        uint32_t read = 0;
        for (uint32_t i = 0; i < count; i++)
            ready &= twin->order[i] != l;
        for (size_t e = 0; e < profile->edge_count; e++)
            read += profile->edges[e].to == l;
        for (size_t e = 0; e < profile->edge_count; e++)
            for (uint32_t i = 0; i < count; i++)
                read -= profile->edges[e].to == l && profile->edges[e].from == twin->order[i];
        if (!ready || read > 0 || (profile->is_chain && l != count))
            continue;
        twin->order[count] = l;
        try_orders(twin, count + 1);
    }
}

static struct twin twin_solve(const struct search_request *asked, uint64_t most, bool only_count)
{
    struct twin twin = { .asked = asked, .best = UINT64_MAX, .most = most, .only_count = only_count };
    try_orders(&twin, 0);
    return twin;
}

// --- random requests ----------------------------------------------------------------------

static const struct kind {
    const char *schedule;
    uint32_t chunks, most_ranks;
} kinds[] = {
    { "gpipe", 1, 4 }, { "1f1b", 1, 4 }, { "pipedream", 1, 3 }, { "pipedream-2bw", 1, 3 }, { "zb-h1", 1, 3 },
    { "interleaved", 2, 2 }, { "zb-v", 2, 2 }, { "chimera", 1, 3 }, { "1f1b", 1, 4 }, { "pipedream", 1, 3 },
    { "seq1f1b", 1, 3 },
};

static struct holding draw_holding(uint64_t *seed, bool flushes)
{
    struct holding holding = { .optimizer = (enum optimizer_kind)random_below(seed, OPTIMIZER_ADAM_8BIT) };
    if (holding.optimizer == OPTIMIZER_ADAFACTOR)
        holding.optimizer = OPTIMIZER_ADAM;
    holding.tied_apart = flushes && random_below(seed, 2);
    if (random_below(seed, 3) > 0)
        return holding;
    holding.shard = random_below(seed, 2) ? (enum shard)random_below(seed, 4) : SHARD_NONE;
    holding.optimizer_on_host = random_below(seed, 3) == 0;
    holding.activations_on_host = random_below(seed, 5) == 0;
    holding.step_rate = random_below(seed, 3) == 0 ? 1000000000 + random_below(seed, 20) * 1000000000 : 0;
    if (flushes && holding.optimizer_on_host && holding.shard < SHARD_GRADIENTS && random_below(seed, 2))
        holding.window = 1 + (uint32_t)random_below(seed, 2);
    return holding;
}

// Seldom too few layers for the stages.
static struct profile *draw_profile(uint64_t *seed, uint32_t stages)
{
    struct error error = { 0 };
    const uint32_t least = random_below(seed, 10) == 0 ? 1 : stages;
    const uint32_t layers = least + (uint32_t)random_below(seed, MOST_LAYERS + 1 - least);
    const uint64_t most_ns = random_below(seed, 3) == 0 ? 4 : 1000;
    const uint64_t shape = random_below(seed, 4);
    struct profile *profile = shape == 0 ? small_random_chain(seed, layers, most_ns)
                                         : small_random_dag(seed, layers, 1 + (uint32_t)shape, most_ns);
    if (layers > 1 && random_below(seed, 4) == 0) {
        profile->tied = malloc(sizeof profile->tied[0]);
        const uint32_t from = (uint32_t)random_below(seed, layers - 1);
        profile->tied[0] = (struct edge){ from, from + 1 + (uint32_t)random_below(seed, layers - from - 1) };
        profile->tied_count = 1;
        if (random_below(seed, 2))
            small_lend(profile);
    }
    if (random_below(seed, 5) == 0) {
        profile->no_cut_after = malloc(sizeof(uint32_t));
        profile->no_cut_after[0] = (uint32_t)random_below(seed, layers);
        profile->no_cut_count = 1;
    }
    for (uint32_t l = 0; l < layers; l++) {  // some take no time, some nothing at all
        struct profile_layer *layer = &profile->layers[l];
        const uint64_t what = random_below(seed, 12);
        if (what < 2)
            layer->forward_ns = layer->backward_input_ns = layer->backward_weight_ns = layer->backward_ns = 0;
        if (what == 0)
            layer->parameter_bytes = layer->output_bytes = layer->saved_bytes = layer->workspace_bytes = 0;
    }
    assert_good(profile_rehash(profile, &error), error);
    return profile;
}

static struct cluster *draw_cluster(uint64_t *seed, uint32_t devices)
{
    struct error error = { 0 };
    const uint64_t rate = random_below(seed, 3) == 0 ? 1000000000 : 100000000000;
    struct cluster *cluster = cluster_uniform(devices, 1, random_below(seed, 200), rate, &error);
    if (devices == 4 && random_below(seed, 2) == 0) {
        cluster_free(cluster);
        cluster = cluster_load("2 nodes x 2 devices, 1GiB, 50GB/s 100ns, 2GB/s 400ns", &error);
    }
    assert_good(cluster, error);
    const bool unlike = random_below(seed, 2);
    for (uint32_t d = 0; unlike && d < devices; d++)
        cluster->devices[d].speed_permille = 500 + 250 * random_below(seed, 5);
    cluster->has_host = true;
    cluster->host_memory_bytes = (uint64_t)1 << 40;
    cluster->host_bytes_per_second = 10000000000 + random_below(seed, 50) * 2000000000;
    return cluster;
}

// Room for some plans and not for others.
static void set_memory(uint64_t *seed, struct drawn *drawn)
{
    const struct search_request *request = &drawn->request;
    const uint32_t layers = (uint32_t)drawn->profile->layer_count;
    const struct stage_bytes whole = stage_bytes_of(drawn->profile, 0, layers, NULL, 0, &request->holding);
    const uint64_t fixed = whole.weights + whole.gradients + whole.optimizer;
    const uint64_t all = fixed + 2 * (whole.kept + whole.kept_through) + whole.transient;
    const uint64_t kind = random_below(seed, 3), eighths = 2 + random_below(seed, 12);
    for (size_t d = 0; d < drawn->cluster->device_count; d++)
        drawn->cluster->devices[d].memory_bytes = kind == 0 ? (uint64_t)1 << 40
            : 1 + all / 8 * (kind == 1 ? eighths : 2 + random_below(seed, 12));
    if (random_below(seed, 4) == 0)
        drawn->cluster->host_memory_bytes = 1 + all / (1 + random_below(seed, 4));
}

// Replicas that are given, of all ranks.
static void give_replicas(uint64_t *seed, struct drawn *drawn)
{
    struct search_request *request = &drawn->request;
    request->replicas = drawn->replicas;
    for (uint32_t left = request->ranks; left > 0; left -= drawn->replicas[request->stages++])
        drawn->replicas[request->stages] = 1 + (uint32_t)random_below(seed, left);
}

static void draw_arrangement(uint64_t *seed, const struct generator *generator, struct drawn *drawn)
{
    struct search_request *request = &drawn->request;
    const uint64_t kind = random_below(seed, 4);
    if (kind == 0)
        return;
    request->free.devices = random_below(seed, 2);
    request->free.fewer = random_below(seed, 3) == 0;
    request->free.replicas = generator->takes_replicas && kind == 1;
    if (generator->takes_replicas && kind == 2) {
        request->free.fewer = false;
        give_replicas(seed, drawn);
    }
}

static void draw(uint64_t *seed, struct drawn *drawn)
{
    struct error error = { 0 };
    const struct kind *kind = &kinds[random_below(seed, sizeof kinds / sizeof kinds[0])];
    const struct generator *generator = generator_find(kind->schedule, &error);
    assert_good(generator, error);
    const uint32_t ranks = 1 + (uint32_t)random_below(seed, kind->most_ranks);
    const uint32_t devices = ranks + (random_below(seed, 4) == 0 && ranks < MOST_DEVICES);
    *drawn = (struct drawn){ .profile = draw_profile(seed, ranks * kind->chunks), .cluster = draw_cluster(seed, devices) };
    drawn->request = (struct search_request){
        .profile = drawn->profile, .cluster = drawn->cluster, .schedule = kind->schedule, .ranks = ranks,
        .chunks = kind->chunks, .micro_batches = 1 + (uint32_t)random_below(seed, 5),
        .holding = draw_holding(seed, generator->weights == WEIGHTS_FLUSH),
    };
    draw_arrangement(seed, generator, drawn);
    if (!search_is_free(&drawn->request) && random_below(seed, 5) == 0) {
        drawn->pin = (struct search_pin){ (uint32_t)random_below(seed, drawn->profile->layer_count),
                                          (uint32_t)random_below(seed, ranks) };
        drawn->request.pins = &drawn->pin;
        drawn->request.pin_count = 1;
    }
    if (random_below(seed, 6) == 0)
        drawn->request.budget = 1 + random_below(seed, 2) * random_below(seed, 2000);
    if (random_below(seed, 20) == 0)
        drawn->request.deadline_ns = 1;
    set_memory(seed, drawn);
}

static void drawn_clear(struct drawn *drawn)
{
    profile_free(drawn->profile);
    cluster_free(drawn->cluster);
}

// --- the judgement --------------------------------------------------------------------------

struct tally {
    uint64_t plans, found, proved, other_order;
};

static void refuse(const struct drawn *drawn, uint64_t trial, const struct twin *twin, const char *what)
{
    const struct search_request *r = &drawn->request;
    struct text text = { 0 };
    holding_say(&r->holding, &text);
    fail_msg("trial %llu (%s, %u ranks of %zu, %u micro-batches, %zu layers%s, %s; free:%s%s%s; %u stages given, %zu pins,"
             " budget %llu, deadline %llu): %s; the twin has %lld", (unsigned long long)trial, r->schedule, r->ranks,
             r->cluster->device_count, r->micro_batches, r->profile->layer_count,
             profile_has_one_order(r->profile) ? "" : " of several orders", text.data, r->free.replicas ? " replicas" : "",
             r->free.devices ? " devices" : "", r->free.fewer ? " fewer" : "", r->stages, r->pin_count,
             (unsigned long long)r->budget, (unsigned long long)r->deadline_ns, what, (long long)twin->best);
}

static void judge_plan(const struct drawn *drawn, const struct plan *plan, const struct twin *twin, uint64_t trial)
{
    char what[300];
    struct error error = { 0 };
    const struct certificate *certificate = &plan->certificate;
    snprintf(what, sizeof what, "found %llu (certificate: %llu), bound %llu, %sproved",
             (unsigned long long)plan->iteration_ns, (unsigned long long)certificate->value_ns,
             (unsigned long long)certificate->lower_bound_ns, certificate->proved ? "" : "not ");
    if (plan->iteration_ns != certificate->value_ns || plan->iteration_ns < twin->best
        || certificate->lower_bound_ns > twin->best || (certificate->proved && plan->iteration_ns != twin->best))
        refuse(drawn, trial, twin, what);
    if (!plan_evaluate(plan, drawn->profile, &error))
        refuse(drawn, trial, twin, error.text);
}

// Then something may fit after all.
static bool says_that_it_gave_up(const struct error *error)
{
    return strstr(error->text, "nothing is proved") || strstr(error->text, "the search ended early")
        || strstr(error->text, "not all were tried");
}

static void judge(struct drawn *drawn, uint64_t trial, const struct twin *twin, struct tally *tally)
{
    struct error error = { 0 };
    uint64_t least = 0;
    struct search_shortage shortage = { 0 };
    drawn->request.least_ns = &least;
    drawn->request.shortage = &shortage;
    struct plan *plan = plan_search_orders(&drawn->request, &error);
    if (!plan && ((twin->best != UINT64_MAX && !says_that_it_gave_up(&error)) || error.kind == ERROR_MACHINE
                  || (error.kind != ERROR_ANSWER && twin->plans > 0)))
        refuse(drawn, trial, twin, error.text);
    if (least > twin->best) {
        char what[600];
        snprintf(what, sizeof what, "least_ns is %lld (%s)", (long long)least, error.text);
        refuse(drawn, trial, twin, what);
    }
    if (shortage.is_known && shortage.rank >= drawn->request.ranks)
        refuse(drawn, trial, twin, "a shortage of a rank that there is not");
    if (plan) {
        judge_plan(drawn, plan, twin, trial);
        tally->found++;
        tally->proved += plan->certificate.proved;
        tally->other_order += plan->order != NULL;
    }
    plan_free(plan);
}

static void no_crossing_of_features_makes_a_claim_false(void **state)
{
    (void)state;
    uint64_t seed = 61;
    const uint64_t trials = test_trials(1000, 20000), most = test_trials(1000, 4000);
    struct tally tally = { 0 };
    for (uint64_t trial = 0; trial < trials;) {
        struct drawn drawn;
        draw(&seed, &drawn);
        if (twin_solve(&drawn.request, most, true).plans < most) {
            const struct twin twin = twin_solve(&drawn.request, most, false);
            tally.plans += twin.plans;
            judge(&drawn, trial++, &twin, &tally);
        }
        drawn_clear(&drawn);
    }
    print_message("# %llu plans tried; %llu plans found, %llu of them proved, %llu in another order\n",
                  (unsigned long long)tally.plans, (unsigned long long)tally.found, (unsigned long long)tally.proved,
                  (unsigned long long)tally.other_order);
    assert_true(tally.found > trials / 3 && tally.proved > tally.found / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_crossing_of_features_makes_a_claim_false),
    };
    return cmocka_run_group_tests_name("crossed", tests, NULL, NULL);
}
