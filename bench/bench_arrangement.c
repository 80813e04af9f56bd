// Replica layouts (arrangements) chosen for the least simulated time. One part has replicas on PipeDream's profiles,
// next to the layout that its authors published for VGG-16 on 16 devices (15-1). Another has chains of 500 layers on
// 64 devices, equal or of two speeds. Links have 1.25 GB/s and 12 GB/s. Memory is ample unless a name says how much
// there is.
//
//     bench_arrangement             all cases
//     bench_arrangement TEXT...     cases whose names contain every TEXT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/made_chain.h"
#include "bench/real_profiles.h"
#include "partitioner/plan_search.h"

struct bench {
    char **wanted;  // texts that the name of a case must contain
    int wanted_count;
    struct error error;
};

// "3-1": ranks by stage.
static void print_replicas(const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count && s < 16; s++)
        printf("%s%zu", s ? "-" : "  ", plan->stages[s].device_count);
    printf("%s\n", plan->stage_count > 16 ? "-..." : "");
    fflush(stdout);
}

static bool plan_once(struct bench *bench, const char *name, const struct search_request *request)
{
    if (!has_all_texts(name, bench->wanted, bench->wanted_count))
        return true;
    uint64_t work = 0;
    struct search_request counted = *request;
    counted.found.work = &work;
    counted.wanted.own_order = true;
    const clock_t since = clock();
    struct plan *plan = plan_search(&counted, &bench->error);
    const double seconds = (double)(clock() - since) / CLOCKS_PER_SEC;
    printf("%-34s %6.2f s of CPU, %8llu units", name, seconds, (unsigned long long)work);
    if (!plan) {
        printf("  %s\n", bench->error.text);
        const bool is_answer = bench->error.kind == ERROR_ANSWER;
        bench->error = is_answer ? (struct error){ 0 } : bench->error;
        return is_answer;
    }
    printf(" %12.3f ms  gap %6.2f %%%s", 1e-6 * (double)plan->certificate.value_ns, 100 * plan->certificate.gap,
           plan->certificate.proved ? " (proved)" : "");
    print_replicas(plan);
    plan_free(plan);
    return true;
}

static bool plan_graph(struct bench *bench, const char *graph, const char *schedule, uint32_t devices)
{
    char name[80];
    snprintf(name, sizeof name, "%s %s %u devices", graph, schedule, devices);
    struct profile *profile = real_profile(graph, &bench->error);
    struct cluster *cluster = cluster_uniform(devices, (uint64_t)1 << 44, 5000, 1250000000, &bench->error);
    static const uint32_t shipped[] = { 15, 1 };
    struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedule, .ranks = devices,
                                      .chunks = 1, .micro_batches = 4 * devices,
                                      .storage.optimizer = OPTIMIZER_SGD, .free.replicas = true };
    bool good = profile && cluster && plan_once(bench, name, &request);
    if (good && devices == 16 && strcmp(graph, "vgg16") == 0) {
        request.free.replicas = false;
        request.layout.replicas = shipped;
        request.layout.stages = 2;
        snprintf(name, sizeof name, "%s %s as shipped", graph, schedule);
        good = plan_once(bench, name, &request);
    }
    profile_free(profile);
    cluster_free(cluster);
    return good;
}

// Clears the cluster.
static bool plan_on(struct bench *bench, const char *name, uint32_t layers, struct cluster *cluster, uint32_t factor,
                    bool unlike)
{
    struct profile *profile = cluster ? made_chain("chain", layers, false, &bench->error) : NULL;
    const uint32_t devices = cluster ? (uint32_t)cluster->device_count : 0;
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                            .ranks = devices, .chunks = 1, .micro_batches = factor * devices,
                                            .storage.optimizer = OPTIMIZER_SGD, .free.replicas = true,
                                            .free.devices = unlike };
    const bool good = profile && cluster && plan_once(bench, name, &request);
    profile_free(profile);
    cluster_free(cluster);
    return good;
}

// Devices with so little memory that stages must recompute some layers.
static bool plan_tight(struct bench *bench, uint32_t layers, uint32_t devices, uint32_t factor, uint32_t gib)
{
    char name[80];
    snprintf(name, sizeof name, "chain of %u 1f1b %u devices x%u %u GiB", layers, devices, factor, gib);
    return plan_on(bench, name, layers, cluster_uniform(devices, (uint64_t)gib << 30, 5000, 12000000000, &bench->error),
                   factor, false);
}

static bool plan_chain(struct bench *bench, uint32_t layers, uint32_t devices, uint32_t factor, bool unlike)
{
    char name[80];
    snprintf(name, sizeof name, "chain of %u 1f1b %u devices x%u%s", layers, devices, factor, unlike ? " unlike" : "");
    struct cluster *cluster = cluster_uniform(devices, (uint64_t)1 << 44, 5000, 12000000000, &bench->error);
    for (uint32_t d = 0; unlike && cluster && d < devices; d += 4)
        cluster->devices[d].speed_permille = 500;
    return plan_on(bench, name, layers, cluster, factor, unlike);
}

// Servers with 8 devices and fast links inside, and 12 GB/s between them.
static bool plan_servers(struct bench *bench, uint32_t layers, uint32_t servers, uint32_t factor)
{
    char name[80], text[80];
    snprintf(name, sizeof name, "chain of %u 1f1b %u x 8 devices x%u", layers, servers, factor);
    snprintf(text, sizeof text, "%u x 8 devices, 16TiB, 300GB/s 2us, 12GB/s 5us", servers);
    return plan_on(bench, name, layers, cluster_load(text, &bench->error), factor, false);
}

int main(int count, char **arguments)
{
    struct bench bench = { .wanted = arguments + 1, .wanted_count = count - 1 };
    static const char *const graphs[] = { "vgg16", "gnmt", "gnmt_large", "resnet50", "inception_v3" };
    static const char *const schedules[] = { "pipedream", "1f1b" };
    bool good = true;
    const bool has_data = real_profiles_are_here();
    for (uint32_t devices = 4; good && has_data && devices <= 16; devices *= 2)
        for (int i = 0; good && i < 10; i++)
            good = plan_graph(&bench, graphs[i / 2], schedules[i % 2], devices);
    for (uint32_t factor = 1; good && factor <= 8; factor *= 2)
        good = plan_chain(&bench, 500, 64, factor, false);
    for (uint32_t gib = 4; good && gib <= 10; gib += 2)
        good = plan_tight(&bench, 500, 64, 4, gib);
    good = good && plan_chain(&bench, 500, 64, 4, true) && plan_chain(&bench, 100, 16, 4, true)
        && plan_chain(&bench, 1000, 512, 4, false) && plan_servers(&bench, 1000, 64, 4);
    return good ? 0 : fail(&bench.error);
}
