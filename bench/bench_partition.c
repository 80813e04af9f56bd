// Times and optimality gaps of the search for simulated time, on PipeDream's profiles, which were made elsewhere, and
// on synthetic chains. Links have 12 GB/s and 5 us.
//
//     bench_partition               4 and 16 ranks, 4 micro-batches per rank, ample memory
//     bench_partition TEXT...       cases whose names contain every TEXT, such as
//                                   "resnet50 1f1b p16 x4 tight": 64 micro-batches in 70 % of the memory
//                                   that the quickest plan takes
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/made_chain.h"
#include "bench/real_profiles.h"
#include "partitioner/plan_search.h"

static const char *const graphs[] = { "alexnet", "gnmt", "gnmt_large", "inception_v3", "resnet50", "vgg16" };
static const char *const schedules[] = { "gpipe", "1f1b", "pipedream" };
static const uint32_t many_ranks[] = { 4, 8, 16, 32, 64 }, few_ranks[] = { 4, 16 };
static const uint32_t many_factors[] = { 1, 4, 8 }, few_factors[] = { 4 };

struct chain {
    const char *name;
    uint32_t layers;
    bool is_uniform;
};

static const struct chain chains[] = { { "uniform100", 100, true },   { "uneven100", 100, false },
                                       { "uniform500", 500, true },   { "uneven500", 500, false },
                                       { "uniform1000", 1000, true }, { "uneven1000", 1000, false } };

struct bench {
    char **wanted;  // texts that the name of a case must contain
    int wanted_count;
    struct profile *profile;
    const char *name;
    struct error error;
};

static uint64_t largest_peak(const struct plan *plan)
{
    uint64_t largest = 0;
    for (size_t s = 0; s < plan->stage_count; s++)
        largest = plan->stages[s].memory.peak_bytes > largest ? plan->stages[s].memory.peak_bytes : largest;
    return largest;
}

static bool set_tight_memory(const struct search_request *request, struct cluster *cluster, struct error *error)
{
    struct search_request quick = *request;
    quick.limits.budget = 1000;
    struct plan *plan = plan_search(&quick, error);
    for (uint32_t r = 0; plan && r < quick.ranks; r++)
        cluster->devices[r].memory_bytes = largest_peak(plan) / 10 * 7;
    plan_free(plan);
    return plan != NULL;
}

static void print_plan(const struct plan *plan, const char *name, double seconds)
{
    const struct certificate *certificate = &plan->certificate;
    size_t segments = 0;
    for (size_t s = 0; s < plan->stage_count; s++)
        segments += plan->stages[s].recompute_count;
    printf("%-38s %6.2f s of CPU %12.3f ms, at least %12.3f ms  gap %6.2f %%%s, %zu segments\n", name, seconds,
           1e-6 * (double)certificate->value_ns, 1e-6 * (double)certificate->lower_bound_ns,
           100 * certificate->gap, certificate->proved ? " (proved)" : "", segments);
    fflush(stdout);
}

static bool plan_once(struct bench *bench, const char *schedule, uint32_t ranks, uint32_t factor, bool tight)
{
    char name[80];
    snprintf(name, sizeof name, "%s %s p%u x%u %s", bench->name, schedule, ranks, factor, tight ? "tight" : "ample");
    if (ranks > bench->profile->layer_count || !has_all_texts(name, bench->wanted, bench->wanted_count))
        return true;
    struct cluster *cluster = cluster_uniform(ranks, (uint64_t)1 << 44, 5000, 12000000000, &bench->error);
    const struct search_request request = { .profile = bench->profile, .cluster = cluster, .schedule = schedule,
                                            .ranks = ranks, .chunks = 1, .micro_batches = factor * ranks,
                                            .storage.optimizer = OPTIMIZER_SGD, .wanted.own_order = true };
    bool good = cluster && (!tight || set_tight_memory(&request, cluster, &bench->error));
    const clock_t since = clock();
    struct plan *plan = good ? plan_search(&request, &bench->error) : NULL;
    if (plan)
        print_plan(plan, name, (double)(clock() - since) / CLOCKS_PER_SEC);
    else if (bench->error.kind == ERROR_ANSWER)
        printf("%-38s %6.2f s of CPU %s\n", name, (double)(clock() - since) / CLOCKS_PER_SEC, bench->error.text);
    good = plan || bench->error.kind == ERROR_ANSWER;
    bench->error = good ? (struct error){ 0 } : bench->error;
    plan_free(plan);
    cluster_free(cluster);
    return good;
}

static bool plan_profile(struct bench *bench)
{
    const bool all = bench->wanted_count > 0;
    bool good = true;
    for (size_t i = 0; good && i < (all ? 5 : 2); i++)
        for (size_t j = 0; good && j < (all ? 3 : 1); j++)
            for (size_t k = 0; good && k < 3; k++)
                for (int tight = 0; good && tight < (all ? 2 : 1); tight++)
                    good = plan_once(bench, schedules[k], (all ? many_ranks : few_ranks)[i],
                                     (all ? many_factors : few_factors)[j], tight);
    profile_free(bench->profile);
    return good;
}

int main(int count, char **arguments)
{
    struct bench bench = { .wanted = arguments + 1, .wanted_count = count - 1 };
    bool good = true;
    const bool has_data = real_profiles_are_here();
    for (size_t i = 0; good && has_data && i < sizeof graphs / sizeof graphs[0]; i++) {
        bench.name = graphs[i];
        bench.profile = real_profile(graphs[i], &bench.error);
        good = bench.profile && plan_profile(&bench);
    }
    for (size_t i = 0; good && i < sizeof chains / sizeof chains[0]; i++) {
        bench.name = chains[i].name;
        bench.profile = made_chain(chains[i].name, chains[i].layers, chains[i].is_uniform, &bench.error);
        good = bench.profile && plan_profile(&bench);
    }
    return good ? 0 : fail(&bench.error);
}
