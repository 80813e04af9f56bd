// What plans lose if measured times vary: PipeDream's profiles with 3 % noise on every layer, planned anew for each
// of 50 draws. A plan is worth changing if another one gains more than 2 % (weir keep --gain 2%).
#include <stdio.h>

#include "bench/real_profiles.h"
#include "partitioner/plan_search.h"
#include "partitioner/stability/regret.h"

static const char *const graphs[] = { "alexnet", "gnmt", "gnmt_large", "inception_v3", "resnet50", "vgg16", NULL };
static const uint32_t ranks[] = { 4, 8, 16, 0 };

struct sums {
    uint64_t draws, beaten, exceeded;
    double mean;
    unsigned cases;
};

static bool measure(const struct search_request *search, struct sums *sums, struct error *error)
{
    const struct regret_request request = { .search = search, .noise.ppm = 30000, .draws = 50, .seed = 1,
                                            .gain_ppm = 20000 };
    struct regret regret;
    struct plan *plan = plan_search(search, error);
    const bool good = plan && regret_measure(&request, plan, &regret, error);
    plan_free(plan);
    if (!good)
        return false;
    printf("%-13s %2u ranks  another plan is better in %3.0f %% of draws, by more than 2 %% in %3.0f %%; regret: median"
           " %.2f %%, mean %.2f %%, 95 %% %.2f %%\n", search->profile->model, search->ranks,
           100.0 * regret.beaten / regret.draws, 100.0 * regret.exceeded / regret.draws, 100 * regret.median,
           100 * regret.mean, 100 * regret.p95);
    fflush(stdout);
    sums->draws += regret.draws;
    sums->beaten += regret.beaten;
    sums->exceeded += regret.exceeded;
    sums->mean += regret.mean;
    sums->cases++;
    return true;
}

static bool measure_graph(const char *graph, struct sums *sums, struct error *error)
{
    struct profile *profile = real_profile(graph, error);
    bool good = profile != NULL;
    for (size_t i = 0; good && ranks[i]; i++) {
        struct cluster *cluster = cluster_uniform(ranks[i], (uint64_t)80 << 30, 5000, 12000000000, error);
        const struct search_request search = { .profile = profile, .cluster = cluster, .schedule = "1f1b",
                                               .ranks = ranks[i], .chunks = 1, .micro_batches = 2 * ranks[i],
                                               .storage.optimizer = OPTIMIZER_SGD,
                                               .limits.budget = REGRET_DEFAULT_BUDGET };
        good = cluster && measure(&search, sums, error);
        cluster_free(cluster);
    }
    profile_free(profile);
    return good;
}

int main(void)
{
    struct error error = { 0 };
    struct sums sums = { 0 };
    if (!real_profiles_are_here())
        return 0;
    for (size_t i = 0; graphs[i]; i++)
        if (!measure_graph(graphs[i], &sums, &error))
            return fail(&error);
    printf("all: another plan is better in %.1f %% of draws, by more than 2 %% in %.1f %%; mean regret %.3f %%\n",
           100.0 * (double)sums.beaten / (double)sums.draws, 100.0 * (double)sums.exceeded / (double)sums.draws,
           100 * sums.mean / sums.cases);
    return 0;
}
