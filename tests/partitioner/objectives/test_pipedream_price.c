// PipeDream's model: published values to the last digit, and the search against all plans
// of small random graphs, priced one by one by a twin.

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "partitioner/evaluate/evaluate.h"
#include "partitioner/objectives/bottleneck_plan.h"
#include "profiler/import.h"
#include "tests/partitioner/objectives/told.h"
#include "tests/test.h"

#define FOLDER "../shared/data/partition/pipedream/"

// --- what is published -----------------------------------------------------------

struct published {
    const char *name, *graph, *cluster;
    bool straight, activations, memory;
    double seconds;
    int digits;
};

static struct published cases[] = {
    { "vgg16_on_4_is_as_published", "vgg16", "4 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.175732624, 9 },
    { "vgg16_on_8_is_as_published", "vgg16", "8 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.09351323, 9 },
    { "vgg16_on_16_is_as_published", "vgg16", "16 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.04738646, 9 },
    { "vgg16_straight_is_as_published", "vgg16", "4 devices, 16GB, 1GB/s 0us", 1, 0, 0, 0.21645, 9 },
    { "vgg16_with_activations_is_as_published", "vgg16", "4 devices, 16GB, 1GB/s 0us", 0, 1, 0, 0.205520896, 9 },
    { "vgg16_on_16_with_activations_is_as_published", "vgg16", "16 devices, 16GB, 1GB/s 0us", 0, 1, 0, 0.056529767, 9 },
    { "vgg16_in_4_gb_is_as_published", "vgg16", "4 devices, 4GB, 1GB/s 0us", 0, 0, 1, 0.436945, 6 },
    { "vgg16_in_8_gb_is_as_published", "vgg16", "4 devices, 8GB, 1GB/s 0us", 0, 0, 1, 0.211982, 6 },
    { "vgg16_on_4_servers_is_as_published", "vgg16", "4 nodes x 4 devices, 16GB, 12GB/s 0us, 1250MB/s 0us", 0, 0, 0,
      0.044008415, 9 },
    { "resnet50_on_4_is_as_published", "resnet50", "4 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.111497, 6 },
    { "resnet50_on_16_is_as_published", "resnet50", "16 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.029212, 6 },
    { "resnet50_in_16_gb_is_as_published", "resnet50", "4 devices, 16GB, 1GB/s 0us", 0, 0, 1, 0.114088, 6 },
    { "resnet50_with_activations_is_as_published", "resnet50", "4 devices, 16GB, 1GB/s 0us", 0, 1, 0, 0.162880924, 9 },
    { "resnet50_on_4_servers_is_as_published", "resnet50", "4 nodes x 4 devices, 16GB, 12GB/s 0us, 1250MB/s 0us", 0, 0,
      0, 0.028667352, 9 },
    { "gnmt_on_4_is_as_published", "gnmt", "4 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.025868, 6 },
    { "gnmt_on_16_is_as_published", "gnmt", "16 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.018379576, 9 },
    { "gnmt_large_on_4_is_as_published", "gnmt_large", "4 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.137129, 6 },
    { "gnmt_large_on_8_is_as_published", "gnmt_large", "8 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.082845, 6 },
    { "gnmt_large_on_16_is_as_published", "gnmt_large", "16 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.058971, 6 },
    { "alexnet_on_4_is_as_published", "alexnet", "4 devices, 16GB, 1GB/s 0us", 0, 0, 0, 0.023165752, 9 },
    { "inception_v3_straight_is_proved", "inception_v3", "4 devices, 16GB, 1GB/s 0us", 1, 0, 0, 0.177874, 6 },
};

static struct profile *load(const char *graph)
{
    if (access(FOLDER, R_OK) != 0)
        TEST_SKIP("the real profiles are not here (" FOLDER ")");
    char path[200];
    snprintf(path, sizeof path, FOLDER "%s.graph.txt", graph);
    struct error error = { 0 };
    struct profile *profile = import_pipedream(path, 1, &error);
    assert_good(profile, error);
    return profile;
}

static void a_published_value_is_met(void **state)
{
    const struct published *row = *state;
    struct profile *profile = load(row->graph);
    struct error error = { 0 };
    struct cluster *cluster = cluster_load(row->cluster, &error);
    assert_good(cluster, error);
    const struct bottleneck_request request = { .profile = profile, .cluster = cluster, .is_straight = row->straight,
                                                .counts_activations = row->activations, .heed_memory = row->memory };
    struct bottleneck_result *result = bottleneck_search(&request, &error);
    assert_good(result, error);
    char ours[40], theirs[40];
    snprintf(ours, sizeof ours, "%.*f", row->digits, result->value_ns * 1e-9);
    snprintf(theirs, sizeof theirs, "%.*f", row->digits, row->seconds);
    assert_string_equal(ours, theirs);
    assert_true(result->proved);
    bottleneck_free(result);
    cluster_free(cluster);
    profile_free(profile);
}

// --- a plan of theirs ------------------------------------------------------------

// 15-1: the convolutions on 15 machines, what follows the last pooling on one.
static void the_authors_plan_of_vgg16_costs_four_percent_more(void **state)
{
    (void)state;
    struct profile *profile = load("vgg16");
    struct error error = { 0 };
    struct cluster *cluster = cluster_load("16 devices, 16GB, 1GB/s 0us", &error);
    assert_good(cluster, error);
    const struct bottleneck_request request = { .profile = profile, .cluster = cluster, .counts_activations = true };
    struct bottleneck_result *plan = bottleneck_create(&request, 2, &error);
    assert_good(plan, error);
    uint32_t cut = 0;
    while (strncmp(profile->layers[cut].kind, "Linear", 6) != 0)
        cut++;
    while (strncmp(profile->layers[cut - 1].kind, "MaxPool2d", 9) != 0)
        cut--;
    plan->stages[0].end = plan->stages[1].first = cut;
    plan->stages[1].end = (uint32_t)profile->layer_count;
    plan->stages[0].replicas = 15;
    assert_good(bottleneck_value(&request, plan, &error), error);
    char value[40];
    snprintf(value, sizeof value, "%.7f", plan->value_ns * 1e-9);
    assert_string_equal(value, "0.0588083");
    bottleneck_free(plan);
    cluster_free(cluster);
    profile_free(profile);
}

// --- all plans -------------------------------------------------------------------

struct brute {
    struct bottleneck_request request;
    struct bottleneck_result *plan;
    uint32_t stage_of[8];
    double least;
    uint32_t servers;  // of the outer level; 0: one level
    uint32_t own;      // machines of a server
};

static struct profile *random_profile(uint64_t *seed)
{
    struct error error = { 0 };
    const size_t layers = 1 + random_below(seed, 6);
    struct profile *profile = profile_create("random", "fp32", 1, layers, &error);
    assert_good(profile, error);
    profile->edges = calloc(layers * layers, sizeof profile->edges[0]);
    const uint64_t longest = random_below(seed, 10) == 0 ? 1 : 1000;
    for (uint32_t i = 0; i < layers; i++) {
        struct profile_layer *layer = &profile->layers[i];
        layer->name = strdup("l");
        layer->kind = strdup(random_below(seed, 6) == 0   ? "Input0"
                             : random_below(seed, 6) == 0 ? "__getitem__(0)"
                                                          : "Conv");
        layer->forward_ns = random_below(seed, longest);
        layer->backward_ns = random_below(seed, longest);
        layer->parameter_bytes = random_below(seed, 3) * random_below(seed, 1000);
        layer->output_bytes = random_below(seed, 1000);
        for (uint32_t j = i + 1; j < layers; j++)
            if (random_below(seed, 3) == 0)
                profile->edges[profile->edge_count++] = (struct edge){ i, j };
    }
    profile->is_chain = false;
    return profile;
}

// Inputs that read nothing of what is not left out, and items that nobody such reads, are nothing to PipeDream.
static bool is_left_out(const struct profile *profile, uint32_t layer)
{
    const char *kind = profile->layers[layer].kind;
    bool reads = false, is_read = false;
    for (size_t e = 0; e < profile->edge_count; e++) {
        reads |= profile->edges[e].to == layer;
        is_read |= profile->edges[e].from == layer;
    }
    return (strcmp(kind, "Input0") == 0 && !reads) || (strcmp(kind, "__getitem__(0)") == 0 && !is_read);
}

// Whether one layer is below another, along edges between layers that count.
static bool is_below(const struct profile *profile, uint32_t below, uint32_t layer)
{
    for (size_t e = 0; e < profile->edge_count; e++) {
        const struct edge edge = profile->edges[e];
        if (edge.to == layer && !is_left_out(profile, edge.from)
            && (edge.from == below || is_below(profile, below, edge.from)))
            return true;
    }
    return false;
}

// Whether `low` is of the company of `top`: below it, and read by somebody who is not.
static bool is_company(const struct profile *profile, uint32_t low, uint32_t top)
{
    for (size_t e = 0; e < profile->edge_count; e++) {
        const struct edge edge = profile->edges[e];
        if (edge.from == low && edge.to != top && !is_left_out(profile, edge.to)
            && !is_below(profile, edge.to, top))
            return is_below(profile, low, top);
    }
    return false;
}

// What counts as the output of all stages before this one: of each layer that is read by none of them, and its company.
static uint64_t out_bytes(const struct brute *brute, uint32_t stage)
{
    const struct profile *profile = brute->request.profile;
    bool counts[8] = { false };
    uint64_t bytes = 0;
    for (uint32_t top = 0; top < profile->layer_count; top++) {
        bool is_top = !is_left_out(profile, top) && brute->stage_of[top] < stage;
        for (size_t e = 0; e < profile->edge_count; e++)
            is_top &= profile->edges[e].from != top || is_left_out(profile, profile->edges[e].to)
                   || brute->stage_of[profile->edges[e].to] >= stage;
        for (uint32_t i = 0; is_top && i < profile->layer_count; i++)
            counts[i] |= i == top || (!is_left_out(profile, i) && is_company(profile, i, top));
    }
    for (uint32_t i = 0; i < profile->layer_count; i++)
        bytes += counts[i] ? profile->layers[i].output_bytes : 0;
    return bytes;
}

struct sums {
    uint64_t work_ns, parameter_bytes, activation_bytes;
};

static struct sums add_up(const struct brute *brute, uint32_t first, uint32_t end)
{
    struct sums sums = { 0 };
    for (uint32_t i = 0; i < brute->request.profile->layer_count; i++) {
        const struct profile_layer *layer = &brute->request.profile->layers[i];
        if (is_left_out(brute->request.profile, i) || brute->stage_of[i] < first || brute->stage_of[i] >= end)
            continue;
        sums.work_ns += layer->forward_ns + layer->backward_ns;
        sums.parameter_bytes += layer->parameter_bytes;
        sums.activation_bytes += layer->output_bytes;
    }
    return sums;
}

// Stages [first, end) on `replicas` machines of a level, which one of them does in `time`, of `stages` in all.
static long double level_load(const struct brute *brute, size_t level, uint32_t first, uint32_t end, uint32_t stages,
                              uint32_t replicas, bool is_first, long double time)
{
    const long double ns_per_byte = 1e9L / brute->request.cluster->levels[level].bytes_per_second;
    const long double bytes = add_up(brute, first, end).parameter_bytes;
    const long double fewer = is_first && level == 1 ? brute->own : 1;
    long double load = (time + 4 * (replicas - 1) * bytes * ns_per_byte / replicas / fewer) / replicas;
    if (!brute->request.counts_activations || is_first)
        return load;
    const uint64_t into = out_bytes(brute, first), out = end < stages ? out_bytes(brute, end) : 0;
    return fmaxl(load, 2 * (long double)(into > out ? into : out) * ns_per_byte / replicas);
}

static bool fits(const struct brute *brute, uint32_t first, uint32_t end, uint32_t replicas, uint32_t later)
{
    const struct sums sums = add_up(brute, first, end);
    const uint64_t copies = (later + replicas - 1) / replicas;
    return !brute->request.heed_memory
        || copies * (sums.parameter_bytes + sums.activation_bytes) <= brute->request.cluster->devices[0].memory_bytes;
}

// The largest load, layer by layer and in long doubles; INFINITY where PipeDream's rule about memory forbids it.
static long double twin_value(const struct brute *brute, uint32_t stages)
{
    const struct bottleneck_stage *at = brute->plan->stages;
    long double value = 0;
    uint32_t later = 0;
    for (uint32_t end = stages, first; end > 0; end = first) {
        first = end - 1;
        while (brute->servers && first > 0 && at[first - 1].part == at[first].part)
            first--;
        const uint32_t servers = brute->servers ? at[first].servers : 1;
        uint32_t machines = brute->servers ? 0 : later;
        for (uint32_t s = end; s-- > first; machines += at[s].replicas / servers) {
            const uint32_t replicas = at[s].replicas / servers;
            const bool begins = s == first && (brute->servers || s == 0);
            long double load =
                level_load(brute, 0, s, s + 1, stages, replicas, begins, add_up(brute, s, s + 1).work_ns);
            if (brute->servers)
                load = level_load(brute, 1, first, end, stages, servers, first == 0, load);
            value = fits(brute, s, s + 1, replicas, machines) ? fmaxl(value, load) : INFINITY;
        }
        if (brute->servers && !fits(brute, first, end, servers, later))
            value = INFINITY;
        later += brute->servers ? servers : at[first].replicas;
    }
    return value;
}

// The plan's price is that of the twin, or it is refused.
static void price(struct brute *brute, uint32_t stages)
{
    struct bottleneck_result plan = *brute->plan;
    plan.stage_count = stages;
    bottleneck_place(&plan, brute->stage_of);
    struct error error = { 0 };
    const bool is_allowed = bottleneck_value(&brute->request, &plan, &error);
    const double want = (double)twin_value(brute, stages);
    if (is_allowed != (want < INFINITY) || (is_allowed && fabs(plan.value_ns - want) > 1e-12 * want))
        fail_msg("a plan of %u stages: %.17g, the twin %.17g (%s)", stages, plan.value_ns, want, error.text);
    if (want < brute->least)
        brute->least = want;
}

// Gives replicas to stages from `stage` on, all machines or fewer; with servers, a part on
// `own` machines of each of as many servers.
static void try_replicas(struct brute *brute, uint32_t stages, uint32_t stage, uint32_t left, uint32_t own_left)
{
    const bool fewer = brute->request.may_use_fewer, straight = brute->request.is_straight;
    struct bottleneck_stage *at = brute->plan->stages;
    if (stage == stages) {
        if ((left == 0 || fewer) && (own_left == 0 || fewer || brute->servers == 0))
            price(brute, stages);
        return;
    }
    if (brute->servers == 0) {
        for (uint32_t r = 1; r <= left && !(straight && r > 1); r++) {
            at[stage].replicas = r;
            try_replicas(brute, stages, stage + 1, left - r, 0);
        }
        return;
    }
    for (uint32_t r = 1; stage > 0 && r <= own_left && !(straight && r > 1); r++) {  // goes on in the part before
        at[stage].part = at[stage - 1].part;
        at[stage].servers = at[stage - 1].servers;
        at[stage].replicas = r * at[stage].servers;
        try_replicas(brute, stages, stage + 1, left, own_left - r);
    }
    // Or the stage begins a part.
    for (uint32_t q = 1; (stage == 0 || own_left == 0 || fewer) && q <= left && !(straight && q > 1); q++)
        for (uint32_t r = 1; r <= brute->own && !(straight && r > 1); r++) {
            at[stage].part = stage;
            at[stage].servers = q;
            at[stage].replicas = r * q;
            try_replicas(brute, stages, stage + 1, left - q, brute->own - r);
        }
}

// Every way to give stages to layers from `layer` on, all of [0, stages) used; those that
// read backwards are refused as they are priced.
static void try_stages(struct brute *brute, uint32_t stages, uint32_t layer)
{
    const struct profile *profile = brute->request.profile;
    if (layer < profile->layer_count) {
        for (uint32_t s = 0; s < stages; s++) {
            bool is_forward = true;
            for (size_t e = 0; e < profile->edge_count; e++)
                is_forward &= profile->edges[e].to != layer || brute->stage_of[profile->edges[e].from] <= s;
            brute->stage_of[layer] = s;
            if (is_forward)
                try_stages(brute, stages, layer + 1);
        }
        return;
    }
    for (uint32_t s = 0; s < stages; s++) {
        bool is_used = false;
        for (uint32_t i = 0; i < profile->layer_count; i++)
            is_used |= brute->stage_of[i] == s && !is_left_out(profile, i);
        if (!is_used)
            return;
    }
    const uint32_t all = brute->servers ? brute->servers : (uint32_t)brute->request.cluster->device_count;
    try_replicas(brute, stages, 0, all, 0);
}

static struct cluster *random_cluster(uint64_t *seed, struct brute *brute)
{
    struct error error = { 0 };
    char text[120];
    brute->servers = random_below(seed, 2) ? 0 : 2 + (uint32_t)random_below(seed, 2);
    brute->own = 1 + (uint32_t)random_below(seed, 2);
    const unsigned memory = 256 * (1 + (unsigned)random_below(seed, 16));
    if (brute->servers && brute->own > 1)
        snprintf(text, sizeof text, "%u nodes x 2 devices, %uB, %uGB/s 0us, %uGB/s 0us", brute->servers, memory,
                 1 + (unsigned)random_below(seed, 4), 1 + (unsigned)random_below(seed, 4));
    else
        snprintf(text, sizeof text, "%u devices, %uB, %uGB/s 0us", 1 + (unsigned)random_below(seed, 4), memory,
                 1 + (unsigned)random_below(seed, 4));
    if (brute->own == 1)
        brute->servers = 0;
    struct cluster *cluster = cluster_load(text, &error);
    assert_good(cluster, error);
    return cluster;
}

// Layers that are left out are priced as nothing, so that a stage needs a layer that is not.
static void the_search_finds_the_best_of_all_plans(void **state)
{
    (void)state;
    const uint64_t trials = test_trials(400, 4000);
    size_t found = 0;
    for (uint64_t trial = 0; trial < trials; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        struct profile *profile = random_profile(&seed);
        struct brute brute = { .least = INFINITY };
        struct cluster *cluster = random_cluster(&seed, &brute);
        brute.request = (struct bottleneck_request){ .profile = profile,
                                                     .cluster = cluster,
                                                     .may_use_fewer = random_below(&seed, 2),
                                                     .is_straight = random_below(&seed, 4) == 0,
                                                     .counts_activations = random_below(&seed, 2),
                                                     .heed_memory = random_below(&seed, 3) == 0 };
        brute.plan = bottleneck_create(&brute.request, 8, &error);
        assert_good(brute.plan, error);
        for (uint32_t stages = 1; stages <= cluster->device_count; stages++)
            try_stages(&brute, stages, 0);
        struct told told = { .least = brute.least };
        brute.request.listener = (struct bottleneck_listener){ told_hear, &told };
        struct bottleneck_result *result = bottleneck_search(&brute.request, &error);
        assert_true(told.times > 0 || !result);
        found += result != NULL;
        if (result ? !(fabs(result->value_ns - brute.least) <= 1e-12 * brute.least) || !result->proved
                   : brute.least < INFINITY)
            fail_msg("trial %llu: %.17g, not %.17g (%s)", (unsigned long long)trial,
                     result ? result->value_ns : INFINITY, brute.least, error.text);
        bottleneck_free(result);
        bottleneck_free(brute.plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(found > trials / 2);
}

// --- replicas on servers -----------------------------------------------------------

// By hand: four layers of 12 ms and 480 MB in all, on 4 servers of 4 machines, 12 and 1.2 GB/s between them. On one
// server its four machines load (12 + 4 * 3 * 480 / (12 * 4)) / 4 = 33 ms. On four, all load
// (33 + 4 * 3 * 480 / (1.2 * 4 * 4)) / 4 = 83.25 ms, since the first part's all-reduce is divided by 4 once more.
static void data_parallelism_over_servers_is_priced(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct profile *profile = profile_create("even", "fp32", 1, 4, &error);
    struct cluster *cluster = cluster_load("4 nodes x 4 devices, 16GB, 12GB/s 0us, 1200MB/s 0us", &error);
    assert_good(profile, error);
    assert_good(cluster, error);
    for (uint32_t i = 0; i < 4; i++) {
        profile->layers[i].name = strdup("l");
        profile->layers[i].kind = strdup("Conv");
        profile->layers[i].forward_ns = 1000000;
        profile->layers[i].backward_ns = 2000000;
        profile->layers[i].parameter_bytes = 120000000;
    }
    const struct bottleneck_request request = { .profile = profile, .cluster = cluster };
    static const struct {
        uint32_t replicas[2];
        double value_ns;  // 0: refused
    } rows[] = {
        { { 16, 0 }, 83250000 },  // all of it
        { { 4, 0 }, 33000000 },
        { { 4, 4 }, 16500000 },   // two layers each, on a server each
        { { 2, 2 }, 23000000 },   // on one server: (6 + 4 * 240 / (12 * 2)) / 2
        { { 15, 1 }, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint32_t stages = rows[i].replicas[1] ? 2 : 1;
        struct bottleneck_result *plan = bottleneck_create(&request, stages, &error);
        assert_good(plan, error);
        for (uint32_t s = 0; s < stages; s++) {
            plan->stages[s].first = 4 / stages * s;
            plan->stages[s].end = 4 / stages * (s + 1);
            plan->stages[s].replicas = rows[i].replicas[s];
        }
        if (rows[i].value_ns > 0) {
            assert_good(bottleneck_fill_servers(&request, plan, &error), error);
            assert_good(bottleneck_value(&request, plan, &error), error);
            assert_true(fabs(plan->value_ns - rows[i].value_ns) < 1e-6);
        } else {
            assert_false(bottleneck_fill_servers(&request, plan, &error));
            assert_error(error, "stage 0 has 15 replicas, and the model prices up to 4 on one server, or as many on"
                                " each of up to 4 servers; a cluster with one rate has no servers");
        }
        bottleneck_free(plan);
    }
    cluster_free(cluster);
    profile_free(profile);
}

// The twin of where stages are: machine after machine, of which each knows its stage (from 1 on).
static bool place_slowly(const struct bottleneck_result *plan, uint32_t own, uint32_t servers, uint32_t *first_server,
                         uint32_t *server_count)
{
    uint32_t machines[10][4] = { { 0 } };  // of more servers than there are, which the price refuses
    uint32_t server = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        uint32_t used = 0, count = 1;
        while (used < own && machines[server][used])
            used++;
        const uint32_t replicas = plan->stages[s].replicas;
        if (used > 0 && used + replicas > own)
            used = 0, server++;
        while (count <= servers && (replicas % count > 0 || replicas / count > own))
            count++;
        if (count > servers)
            return false;
        for (uint32_t q = 0; q < count; q++)
            for (uint32_t r = 0; r < replicas / count; r++)
                machines[server + q][used + r] = s + 1;
        first_server[s] = server;
        server_count[s] = count;
        server += count > 1 ? count : 0;
    }
    return true;
}

static void replicas_are_put_on_servers(void **state)
{
    (void)state;
    size_t placed = 0, refused = 0;
    for (uint64_t trial = 0; trial < 2000; trial++) {
        uint64_t seed = trial;
        struct error error = { 0 };
        const uint32_t servers = 2 + (uint32_t)random_below(&seed, 2), own = 2 + (uint32_t)random_below(&seed, 3);
        struct profile *profile = random_profile(&seed);
        char text[100];
        snprintf(text, sizeof text, "%u nodes x %u devices, 16GB, 2GB/s 0us, 1GB/s 0us", servers, own);
        struct cluster *cluster = cluster_load(text, &error);
        assert_good(cluster, error);
        const struct bottleneck_request request = { .profile = profile, .cluster = cluster };
        const uint32_t stages = 1 + (uint32_t)random_below(&seed, 3);
        struct bottleneck_result *plan = bottleneck_create(&request, stages, &error);
        assert_good(plan, error);
        for (uint32_t s = 0; s < stages; s++)
            plan->stages[s].replicas = 1 + (uint32_t)random_below(&seed, servers * own);
        uint32_t first[3], count[3];
        const bool is_placed = bottleneck_fill_servers(&request, plan, &error);
        if (is_placed != place_slowly(plan, own, servers, first, count))
            fail_msg("trial %llu: %s", (unsigned long long)trial, error.text);
        for (uint32_t s = 0; is_placed && s < stages; s++) {
            assert_int_equal(plan->stages[s].servers, count[s]);
            const bool goes_on = s > 0 && first[s] == first[s - 1];
            assert_int_equal(plan->stages[s].part, goes_on ? plan->stages[s - 1].part : s);
        }
        placed += is_placed;
        refused += !is_placed;
        bottleneck_free(plan);
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(placed > 500 && refused > 100);
}

// --- what cannot be --------------------------------------------------------------

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    uint64_t seed = 5;
    struct error error = { 0 };
    struct profile *profile = random_profile(&seed);
    struct cluster *cluster = cluster_load("40 devices, 16GB, 1GB/s 0us", &error);
    assert_good(cluster, error);
    struct bottleneck_request request = { .profile = profile, .cluster = cluster, .is_straight = true };
    assert_null(bottleneck_search(&request, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    char sentence[200];
    snprintf(sentence, sizeof sentence, "the %zu layers cannot be put on all of 40 machines; fewer were not asked for",
             profile->layer_count);
    assert_error(error, sentence);
    error = (struct error){ 0 };
    request.machines = 41;
    assert_null(bottleneck_search(&request, &error));
    assert_error(error, "41 machines were asked for, and the cluster has 40");
    cluster_free(cluster);
    profile_free(profile);
}

// --- as a document ---------------------------------------------------------------

// b and c read a; d reads both. The stages a c, b d are intervals of no order of the profile's own.
static const char diamond[] =
    "node1 -- Conv(a) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=256.0, parameter_size=0.000\n"
    "node2 -- Conv(b) -- forward_compute_time=3.000, backward_compute_time=6.000, activation_size=256.0, parameter_size=0.000\n"
    "node3 -- Conv(c) -- forward_compute_time=4.000, backward_compute_time=8.000, activation_size=256.0, parameter_size=0.000\n"
    "node4 -- Conv(d) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=256.0, parameter_size=0.000\n"
    "\tnode1 -- node2\n\tnode1 -- node3\n\tnode2 -- node4\n\tnode3 -- node4\n";

static void check_document(const struct bottleneck_request *request, const char *expected_order)
{
    struct error error = { 0 };
    const struct storage storage = { .optimizer = OPTIMIZER_SGD };
    struct bottleneck_result *result = bottleneck_search(request, &error);
    assert_good(result, error);
    struct plan *plan = bottleneck_plan(request, result, &storage, &error);
    assert_good(plan, error);
    struct text text = { 0 };
    plan_write(plan, &text);
    struct plan *again = plan_read(text.data, text.length, "plan", &error);
    assert_good(again, error);
    assert_good(plan_evaluate(again, request->profile, &error), error);
    assert_string_equal(again->certificate.objective, "pipedream_ns");
    assert_true(again->certificate.proved);
    assert_int_equal(again->certificate.value_ns, (uint64_t)(result->value_ns + 0.5));
    struct text order = { 0 };
    for (size_t i = 0; again->order && i < result->layer_count; i++)
        text_add(&order, "%u", again->order[i]);
    assert_string_equal(order.length ? order.data : "", expected_order);
    struct bottleneck_result *priced = bottleneck_of_plan(request, again, &error);
    assert_good(priced, error);
    assert_good(bottleneck_value(request, priced, &error), error);
    assert_true(priced->value_ns == result->value_ns);
    text_clear(&order);
    text_clear(&text);
    assert_good(plan_set_variant(again, 0, "half", again->stages[0].devices, again->stages[0].device_count, 1, &error),
                error);
    assert_null(bottleneck_of_plan(request, again, &error));
    assert_string_equal(error.text, "stages[0]: its layers run as variant \"half\"; the models read that from a loads"
                                    " document only");
    bottleneck_free(priced);
    bottleneck_free(result);
    plan_free(again);
    plan_free(plan);
}

static void an_answer_is_a_plan_document(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *order;
        bool straight;
    } shapes[] = { { "2 devices, 16GB, 1GB/s 0us", "0213", true },
                  { "4 devices, 16GB, 1GB/s 0us", "", false },
                  { "2 nodes x 2 devices, 16GB, 4GB/s 0us, 1GB/s 0us", "", true } };
    struct error error = { 0 };
    struct profile *profile = import_pipedream_text(diamond, strlen(diamond), "diamond", 1, &error);
    assert_good(profile, error);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct cluster *cluster = cluster_load(shapes[i].cluster, &error);
        assert_good(cluster, error);
        const struct bottleneck_request request = { .profile = profile,
                                                    .cluster = cluster,
                                                    .is_straight = shapes[i].straight };
        check_document(&request, shapes[i].order);
        cluster_free(cluster);
    }
    profile_free(profile);
}

int main(void)
{
    struct CMUnitTest tests[sizeof cases / sizeof cases[0] + 6];
    size_t count = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tests[count++] = (struct CMUnitTest)TEST_ROW(a_published_value_is_met, &cases[i]);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(the_authors_plan_of_vgg16_costs_four_percent_more);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(the_search_finds_the_best_of_all_plans);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(data_parallelism_over_servers_is_priced);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(replicas_are_put_on_servers);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(what_cannot_be_is_said);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(an_answer_is_a_plan_document);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
