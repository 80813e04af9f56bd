// What planning over all orders of a graph gains over the profile's own order, and how long it takes. The profiles
// are PipeDream's with branches, with 16 micro-batches, devices of 80 GiB, and links of 12 GB/s and 5 us.
//
//     bench_orders [MODEL [RANKS [SCHEDULE]]]
#include <stdio.h>
#include <sys/resource.h>

#include "bench/real_profiles.h"
#include "common/clock.h"
#include "partitioner/plan_search.h"

static const char *const graphs[] = { "gnmt", "gnmt_large", "resnet50", "inception_v3", NULL };
static const char *const schedules[] = { "1f1b", "pipedream", NULL };

static void print_plan(const char *what, const struct plan *plan, uint64_t since)
{
    const struct certificate *certificate = &plan->certificate;
    printf("  %s %6.2f s %9.3f ms, gap %5.2f %%%s", what, 1e-9 * (double)(clock_now_ns() - since),
           1e-6 * (double)certificate->value_ns, 100 * certificate->gap,
           certificate->proved ? " (proved)" : "         ");
}

static bool plan_both(const struct profile *profile, uint32_t ranks, const char *schedule, struct error *error)
{
    struct cluster *cluster = cluster_uniform(ranks, (uint64_t)80 << 30, 5000, 12000000000, error);
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedule,
                                            .ranks = ranks, .chunks = 1, .micro_batches = 16,
                                            .storage.optimizer = OPTIMIZER_SGD };
    printf("%-12s %2u ranks %-9s", profile->model, ranks, schedule);
    uint64_t since = clock_now_ns();
    struct search_request of_own = request;
    of_own.wanted.own_order = true;
    struct plan *own_plan = cluster ? plan_search(&of_own, error) : NULL;
    if (own_plan)
        print_plan("own order", own_plan, since);
    since = clock_now_ns();
    struct plan *all = own_plan ? plan_search(&request, error) : NULL;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (all) {
        print_plan("  all orders", all, since);
        printf("  gains %5.2f %%  %4ld MB at most\n",
               100 - 100 * (double)all->certificate.value_ns / (double)own_plan->certificate.value_ns,
               usage.ru_maxrss / 1024);
    }
    fflush(stdout);
    plan_free(own_plan);
    plan_free(all);
    cluster_free(cluster);
    return all != NULL;
}

static bool is_wanted(int count, char **arguments, int index, const char *word)
{
    return count <= index || strcmp(arguments[index], word) == 0;
}

static bool plan_graph(const char *graph, int count, char **arguments, struct error *error)
{
    struct profile *profile = real_profile(graph, error);
    bool good = profile != NULL;
    for (uint32_t ranks = 4; good && ranks <= 16; ranks *= 2)
        for (size_t s = 0; good && schedules[s]; s++)
            if ((count <= 2 || strtoul(arguments[2], NULL, 10) == ranks)
                && is_wanted(count, arguments, 3, schedules[s]))
                good = plan_both(profile, ranks, schedules[s], error);
    profile_free(profile);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    bool good = true;
    for (size_t i = 0; good && real_profiles_are_here() && graphs[i]; i++)
        good = !is_wanted(count, arguments, 1, graphs[i]) || plan_graph(graphs[i], count, arguments, &error);
    return good ? 0 : fail(&error);
}
