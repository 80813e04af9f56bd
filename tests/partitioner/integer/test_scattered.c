#include "partitioner/integer/scattered.h"

#include <stdio.h>
#include <string.h>

#include "common/number.h"
#include "common/random.h"
#include "tests/partitioner/solver.h"
#include "tests/test.h"

static const struct integer_limits limits = { .seconds = 20, .memory_bytes = (uint64_t)2 << 30 };

enum { MOST_LAYERS = 6, MOST_DEVICES = 3 };

// A graph whose layers read from the one before or from any other.
static struct profile *random_profile(uint64_t *seed)
{
    struct error error = { 0 };
    const uint32_t layers = 2 + (uint32_t)random_below(seed, MOST_LAYERS - 1);
    struct profile *profile = profile_create("random", "fp32", 1, layers, &error);
    assert_good(profile, error);
    profile->is_chain = false;
    profile->edges = calloc(MOST_LAYERS * MOST_LAYERS, sizeof profile->edges[0]);
    assert_non_null(profile->edges);
    for (uint32_t v = 0; v < layers; v++) {
        struct profile_layer *layer = &profile->layers[v];
        char name[16];
        snprintf(name, sizeof name, "layer%u", v);
        free(layer->name);
        layer->name = strdup(name);
        layer->forward_ns = random_below(seed, 1000);
        layer->backward_ns = random_below(seed, 2) ? random_below(seed, 1000) : 0;
        layer->output_bytes = random_below(seed, 100);
        layer->parameter_bytes = random_below(seed, 1000);
        for (uint32_t u = 0; u < v; u++)
            if (random_below(seed, 3) == 0)
                profile->edges[profile->edge_count++] = (struct edge){ u, v };
    }
    // Sorted by (from, to).
    for (size_t a = 1; a < profile->edge_count; a++)
        for (size_t b = a; b > 0 && (profile->edges[b].from < profile->edges[b - 1].from
                                     || (profile->edges[b].from == profile->edges[b - 1].from
                                         && profile->edges[b].to < profile->edges[b - 1].to)); b--) {
            const struct edge swapped = profile->edges[b];
            profile->edges[b] = profile->edges[b - 1];
            profile->edges[b - 1] = swapped;
        }
    return profile;
}

// The load of a device from the model's definition; NO_WAY where it holds too much.
#define NO_WAY UINT64_MAX
static uint64_t load_of(const struct profile *profile, const struct cluster *cluster, const uint32_t *device_of,
                        uint32_t d)
{
    uint64_t load = 0, bytes = 0, crossings = 1;
    for (size_t v = 0; v < profile->layer_count; v++)
        crossings = profile->layers[v].backward_ns ? 2 : crossings;
    for (size_t v = 0; v < profile->layer_count; v++) {
        const struct profile_layer *layer = &profile->layers[v];
        bool leaves = false, comes = false;
        for (size_t e = 0; e < profile->edge_count; e++) {
            leaves |= profile->edges[e].from == v && device_of[profile->edges[e].to] != d;
            comes |= profile->edges[e].from == v && device_of[profile->edges[e].to] == d;
        }
        if (device_of[v] == d) {
            const uint64_t speed = cluster->devices[d].speed_permille, ns = layer->forward_ns + layer->backward_ns;
            load += (ns * 1000 + speed - 1) / speed;
            bytes += layer->parameter_bytes + layer->saved_bytes;
        }
        if (device_of[v] == d ? leaves : comes)
            load += crossings * transfer_ns(layer->output_bytes, 1000000000, 5);
    }
    return bytes > cluster->devices[d].memory_bytes ? NO_WAY : load;
}

static uint64_t least_of_all(const struct profile *profile, const struct cluster *cluster)
{
    uint32_t device_of[MOST_LAYERS] = { 0 };
    uint64_t least = NO_WAY;
    for (;;) {
        uint64_t largest = 0;
        for (uint32_t d = 0; d < cluster->device_count; d++) {
            const uint64_t load = load_of(profile, cluster, device_of, d);
            largest = load > largest ? load : largest;
        }
        least = largest < least ? largest : least;
        size_t v = 0;
        while (v < profile->layer_count && device_of[v] + 1 == cluster->device_count)
            device_of[v++] = 0;
        if (v == profile->layer_count)
            return least;
        device_of[v]++;
    }
}

static void layers_go_where_all_layouts_together_find_no_better(void **state)
{
    (void)state;
    need_solver();
    uint64_t seed = 51;
    uint32_t possible = 0, better = 0;
    for (uint64_t trial = 0; trial < test_all_trials(60, 1500); trial++) {
        struct profile *profile = random_profile(&seed);
        const uint32_t devices = 1 + (uint32_t)random_below(&seed, MOST_DEVICES);
        struct error error = { 0 };
        struct cluster *cluster = cluster_uniform(devices, 1000 + random_below(&seed, 5000), 5, 1000000000, &error);
        assert_good(cluster, error);
        const bool are_alike = random_below(&seed, 2);
        for (uint32_t d = 0; d < devices && !are_alike; d++)
            cluster->devices[d].speed_permille = 500 + random_below(&seed, 1000);
        const struct bottleneck_request request = { .model = BOTTLENECK_MAX_LOAD, .profile = profile,
                                                    .cluster = cluster, .may_use_fewer = true, .heed_memory = true };
        struct scattered scattered;
        const uint64_t least = least_of_all(profile, cluster);
        if (scattered_search(&request, limits, &scattered, &error)) {
            if (scattered.layout.value_ns != least || scattered.layout.bound_ns > least
                || (scattered.contiguous_ns > 0 && scattered.contiguous_ns < least))
                fail_msg("trial %d: %llu, of contiguous stages %llu, not %llu", (int)trial,
                         (unsigned long long)scattered.layout.value_ns, (unsigned long long)scattered.contiguous_ns,
                         (unsigned long long)least);
            possible++;
            better += scattered.contiguous_ns > least;
            scattered_clear(&scattered);
        } else {
            if (least != NO_WAY)
                fail_msg("trial %d: %s, but %llu can be had", (int)trial, error.text, (unsigned long long)least);
            assert_error(error, "no layout keeps within the devices' memory, as GLPK says");
        }
        cluster_free(cluster);
        profile_free(profile);
    }
    assert_true(possible > 20 && better > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_go_where_all_layouts_together_find_no_better),
    };
    return cmocka_run_group_tests_name("scattered", tests, NULL, NULL);
}
