// Requests that cross what each other test has alone: orders of a graph, replicas, unlike
// devices, fewer of them, tied and pinned layers, holdings, tight memory, every kind of
// schedule.
#include "partitioner/plan_search.h"
#include "tests/partitioner/crossed_twin.h"
#include "tests/partitioner/resolve.h"

#define ROOM ((uint64_t)1 << 40)  // for whatever is kept

struct drawn {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
    uint32_t replicas[MOST_DEVICES], devices[MOST_DEVICES];
    struct search_pin pin;
    bool keeps_all;  // nothing that is recomputed could make an iteration shorter
};

// --- random requests ----------------------------------------------------------------------

static const struct kind {
    const char *schedule;
    uint32_t chunks, most_ranks;
    bool is_monotone;  // on links of their own: a longer action never makes a shorter iteration
} kinds[] = {
    { "gpipe", 1, 4, true }, { "1f1b", 1, 4, true }, { "pipedream", 1, 3, false }, { "pipedream-2bw", 1, 3, false },
    { "zb-h1", 1, 3, true }, { "interleaved", 2, 2, false }, { "zb-v", 2, 2, false }, { "chimera", 1, 3, false },
    { "1f1b", 1, 4, true }, { "pipedream", 1, 4, false }, { "seq1f1b", 1, 3, true },
    { "pipedream", 1, 4, false }, { "vertical", 1, 3, false },
};

static struct storage draw_storage(uint64_t *seed, const struct profile *profile, bool flushes)
{
    struct storage storage = { .optimizer = (enum optimizer_kind)random_below(seed, OPTIMIZER_ADAM_1BIT + 1) };
    if (storage.optimizer == OPTIMIZER_ADAFACTOR || (optimizer_compresses(storage.optimizer) && !flushes))
        storage.optimizer = OPTIMIZER_ADAM;
    storage.tied_apart = flushes && !optimizer_compresses(storage.optimizer) && random_below(seed, 2);
    if (random_below(seed, 3) > 0)
        return storage;
    storage.shard = random_below(seed, 2) ? (enum shard)random_below(seed, 4) : SHARD_NONE;
    storage.optimizer_on_host = !optimizer_compresses(storage.optimizer) && random_below(seed, 3) == 0;
    storage.activations_on_host = random_below(seed, 5) == 0;
    storage.step_rate = random_below(seed, 3) == 0 ? 1000000000 + random_below(seed, 20) * 1000000000 : 0;
    if (optimizer_compresses(storage.optimizer))
        storage.shard = SHARD_NONE;
    // The twin does not know which replicas cannot meet, and would price plans that are refused; test_storage_search
    // draws these optimizers with all levels.
    if (optimizer_unit(storage.optimizer) != UPDATES_PARAMETERS && storage.shard > SHARD_OPTIMIZER)
        storage.shard = SHARD_OPTIMIZER;
    if (storage.shard > SHARD_OPTIMIZER && profile->one_owner_count > 0)
        storage.shard = SHARD_OPTIMIZER;
    if ((storage.shard >= SHARD_GRADIENTS || (flushes && storage.optimizer_on_host)) && random_below(seed, 2))
        storage.window = 1 + (uint32_t)random_below(seed, 2);
    return storage;
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
    const struct stage_bytes whole = stage_bytes_at(drawn->profile, 0, layers, NULL, 0, &request->storage, 1);
    const uint64_t fixed = whole.weights + whole.state + whole.gradients + whole.optimizer + 8 * whole.statistics;
    const uint64_t all = fixed + 2 * (whole.kept + whole.kept_through) + whole.transient;
    const uint64_t kind = random_below(seed, 3), eighths = 2 + random_below(seed, 12);
    for (size_t d = 0; d < drawn->cluster->device_count; d++)
        drawn->cluster->devices[d].memory_bytes = kind == 0 ? ROOM
            : 1 + all / 8 * (kind == 1 ? eighths : 2 + random_below(seed, 12));
    if (random_below(seed, 4) == 0)
        drawn->cluster->host_memory_bytes = 1 + all / (1 + random_below(seed, 4));
    drawn->keeps_all &= kind == 0 && drawn->cluster->level_count == 1 && !request->storage.activations_on_host;
}

// Replicas that are given, of all ranks.
static void give_replicas(uint64_t *seed, struct drawn *drawn)
{
    struct search_request *request = &drawn->request;
    request->layout.replicas = drawn->replicas;
    for (uint32_t left = request->ranks; left > 0; left -= drawn->replicas[request->layout.stages++])
        drawn->replicas[request->layout.stages] = 1 + (uint32_t)random_below(seed, left);
}

static void draw_layout(uint64_t *seed, const struct generator *generator, struct drawn *drawn)
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
    *drawn = (struct drawn){ .profile = draw_profile(seed, ranks * kind->chunks),
                             .cluster = draw_cluster(seed, devices), .keeps_all = kind->is_monotone };
    drawn->profile->sequences = SEQUENCES_SOME;  // for schedules that cut them
    drawn->request = (struct search_request){
        .profile = drawn->profile, .cluster = drawn->cluster, .schedule = kind->schedule, .ranks = ranks,
        .chunks = kind->chunks, .micro_batches = 1 + (uint32_t)random_below(seed, 5),
        .storage = draw_storage(seed, drawn->profile, generator->weights == WEIGHTS_FLUSH),
    };
    resolve(&drawn->request);
    draw_layout(seed, generator, drawn);
    if (!search_is_free(&drawn->request) && random_below(seed, 5) == 0) {
        drawn->pin = (struct search_pin){ (uint32_t)random_below(seed, drawn->profile->layer_count),
                                          (uint32_t)random_below(seed, ranks) };
        drawn->request.pinned.at = &drawn->pin;
        drawn->request.pinned.count = 1;
    }
    if (random_below(seed, 6) == 0)
        drawn->request.limits.budget = 1 + random_below(seed, 2) * random_below(seed, 2000);
    if (random_below(seed, 20) == 0)
        drawn->request.limits.deadline_ns = 1;
    set_memory(seed, drawn);
}

static void drawn_clear(struct drawn *drawn)
{
    profile_free(drawn->profile);
    cluster_free(drawn->cluster);
}

// --- the judgement --------------------------------------------------------------------------

struct tally {
    uint64_t plans, tried, found, proved, other_order;
    uint64_t long_found, long_proved, crews_found, crews_proved;
};

static void refuse(const struct drawn *drawn, uint64_t trial, const struct twin *twin, const char *what)
{
    const struct search_request *r = &drawn->request;
    struct text text = { 0 };
    storage_say(&r->storage, &text);
    fail_msg("trial %llu (%s, %u ranks of %zu, %u micro-batches, %zu layers%s, %s; free:%s%s%s; %u stages given, %zu"
             " pins, budget %llu, deadline %llu): %s; the twin has %lld",
             (unsigned long long)trial, r->schedule, r->ranks, r->cluster->device_count, r->micro_batches,
             r->profile->layer_count, profile_has_one_order(r->profile) ? "" : " of several orders", text.data,
             r->free.replicas ? " replicas" : "", r->free.devices ? " devices" : "", r->free.fewer ? " fewer" : "",
             r->layout.stages, r->pinned.count, (unsigned long long)r->limits.budget,
             (unsigned long long)r->limits.deadline_ns, what,
             (long long)twin->best);
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

static bool has_copies(const struct plan *plan)
{
    bool has = false;
    for (size_t s = 0; s < plan->stage_count; s++)
        has |= plan->stages[s].device_count > 1;
    return has;
}

static void judge(struct drawn *drawn, uint64_t trial, const struct twin *twin, struct tally *tally)
{
    struct error error = { 0 };
    uint64_t least = 0;
    struct search_shortage shortage = { 0 };
    drawn->request.found.least_ns = &least;
    drawn->request.found.shortage = &shortage;
    struct plan *plan = plan_search(&drawn->request, &error);
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
        const bool is_long = drawn->profile->layer_count > 6;
        const bool crews = plan->weights != WEIGHTS_FLUSH && has_copies(plan);
        tally->long_found += is_long;
        tally->long_proved += is_long && plan->certificate.proved;
        tally->crews_found += crews;
        tally->crews_proved += crews && plan->certificate.proved;
    }
    plan_free(plan);
}

static void no_crossing_of_features_makes_a_claim_false(void **state)
{
    (void)state;
    uint64_t seed = 61;
    const uint64_t trials = test_all_trials(150, 20000), most = test_all_trials(1500, 4000);
    struct tally tally = { 0 };
    for (uint64_t trial = 0; trial < trials;) {
        struct drawn drawn;
        draw(&seed, &drawn);
        if (twin_solve(&drawn.request, drawn.keeps_all, 8 * most, true).plans < 8 * most) {
            const struct twin twin = twin_solve(&drawn.request, drawn.keeps_all, most, false);
            tally.plans += twin.plans;
            tally.tried++;
            if (twin.plans < most)
                judge(&drawn, trial++, &twin, &tally);
        }
        drawn_clear(&drawn);
    }
    print_message("# %llu plans tried for %llu requests; %llu plans found, %llu of them proved, %llu in another order;"
                  " of more than 6 layers %llu, %llu; without a flush and with replicas %llu, %llu\n",
                  (unsigned long long)tally.plans, (unsigned long long)tally.tried, (unsigned long long)tally.found,
                  (unsigned long long)tally.proved, (unsigned long long)tally.other_order,
                  (unsigned long long)tally.long_found, (unsigned long long)tally.long_proved,
                  (unsigned long long)tally.crews_found, (unsigned long long)tally.crews_proved);
    assert_true(tally.found > trials / 3 && tally.proved > tally.found / 2);
    assert_true(tally.long_found > trials / 10 && tally.crews_found > trials / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_crossing_of_features_makes_a_claim_false),
    };
    return cmocka_run_group_tests_name("crossed", tests, NULL, NULL);
}
