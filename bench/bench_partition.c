// Times and gaps of the search on profiles that nobody here made: PipeDream's, for 4
// and 16 ranks, 16 micro-batches, devices of 80 GiB, links of 12 GB/s and 5 us.
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "partitioner/search.h"
#include "profiler/import.h"

#define FOLDER "../shared/data/partition/pipedream/"

static const char *const graphs[] = { "alexnet", "gnmt", "gnmt_large", "inception_v3", "resnet50", "vgg16", NULL };
static const char *const schedules[] = { "gpipe", "1f1b", "pipedream", NULL };

static int fail(const struct error *error)
{
    fprintf(stderr, "bench_partition: %s\n", error->text);
    return 3;
}

static bool plan_once(const struct profile *profile, const struct cluster *cluster, const char *schedule,
                      struct error *error)
{
    const uint32_t ranks = (uint32_t)cluster->device_count;
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedule,
                                            .ranks = ranks, .chunks = 1, .micro_batches = 16,
                                            .holding.optimizer = OPTIMIZER_SGD };
    const uint64_t since = clock_now_ns();
    struct plan *plan = plan_search(&request, error);
    if (!plan)
        return false;
    const struct certificate *certificate = &plan->certificate;
    size_t segments = 0;
    for (size_t s = 0; s < plan->stage_count; s++)
        segments += plan->stages[s].recompute_count;
    printf("%-13s %4zu layers  %-9s %2u ranks %8.2f s  iteration %10.3f ms  gap %6.2f %%%s, %zu segments\n",
           profile->model, profile->layer_count, schedule, ranks, 1e-9 * (double)(clock_now_ns() - since),
           1e-6 * (double)certificate->value_ns, 100 * certificate->gap, certificate->proved ? " (proved)" : "", segments);
    fflush(stdout);
    plan_free(plan);
    return true;
}

static bool plan_all(const struct profile *profile, uint32_t ranks, struct error *error)
{
    struct cluster *cluster = cluster_uniform(ranks, (uint64_t)80 << 30, 5000, 12000000000, error);
    bool good = cluster != NULL;
    for (size_t i = 0; good && schedules[i]; i++)
        good = plan_once(profile, cluster, schedules[i], error);
    cluster_free(cluster);
    return good;
}

int main(void)
{
    struct error error = { 0 };
    if (access(FOLDER, R_OK) != 0) {
        printf("skipped: the real profiles are not here (" FOLDER ")\n");
        return 0;
    }
    for (size_t i = 0; graphs[i]; i++) {
        char path[200];
        snprintf(path, sizeof path, FOLDER "%s.graph.txt", graphs[i]);
        struct profile *profile = import_pipedream(path, 1, &error);
        const bool good = profile && plan_all(profile, 4, &error) && plan_all(profile, 16, &error);
        profile_free(profile);
        if (!good)
            return fail(&error);
    }
    return 0;
}
