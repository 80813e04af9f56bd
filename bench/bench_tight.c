// Times and gaps where memory is tight: PipeDream's profiles on devices that have so much
// more than the least memory in which any plan of the profile's own order was found, with two
// micro-batches per rank and links of 12 GB/s and 5 us. First in the profile's own order, then
// over all orders.
//
//     bench_tight [MODEL [RANKS [SCHEDULE]]]
#include <stdio.h>
#include <time.h>

#include "bench/real_profiles.h"
#include "partitioner/plan_search.h"

static const char *const graphs[] = { "alexnet", "gnmt", "gnmt_large", "inception_v3", "resnet50", "vgg16", NULL };
static const char *const schedules[] = { "1f1b", "gpipe", NULL };
static const uint32_t percents[] = { 110, 150, 0 };

static void set_memory(struct cluster *cluster, uint64_t bytes)
{
    for (size_t d = 0; d < cluster->device_count; d++)
        cluster->devices[d].memory_bytes = bytes;
}

// From a byte on as much more as is lacking at least, or a sixteenth where that is not known.
static bool find_least_bytes(const struct search_request *given, struct cluster *cluster, uint64_t *bytes,
                             struct error *error)
{
    struct search_request request = *given;
    request.limits.budget = 1000;
    for (*bytes = 1;;) {
        struct search_shortage shortage = { 0 };
        struct error why = { 0 };
        request.found.shortage = &shortage;
        set_memory(cluster, *bytes);
        struct plan *plan = plan_search(&request, &why);
        plan_free(plan);
        if (plan)
            return true;
        if (why.kind != ERROR_ANSWER)
            return error_set_kind(error, why.kind, "%s", why.text);
        *bytes += shortage.is_known && shortage.lacks_bytes > *bytes / 16 ? shortage.lacks_bytes : *bytes / 16 + 1;
    }
}

static void print_plan(const char *what, const struct plan *plan, clock_t since)
{
    const struct certificate *certificate = &plan->certificate;
    printf("  %s %6.2f s %9.3f ms, gap %5.2f %%%s", what, (double)(clock() - since) / CLOCKS_PER_SEC,
           1e-6 * (double)certificate->value_ns, 100 * certificate->gap,
           certificate->proved ? " (proved)" : "         ");
    fflush(stdout);
}

static bool plan_both(const struct search_request *request, uint32_t percent, struct error *error)
{
    char name[80];
    snprintf(name, sizeof name, "%s %s p%u at %u %%", request->profile->model, request->schedule, request->ranks,
             percent);
    printf("%-30s %6.2f GiB", name, (double)request->cluster->devices[0].memory_bytes / (1 << 30));
    clock_t since = clock();
    struct plan *own = plan_search(request, error);
    if (own)
        print_plan("own order", own, since);
    since = clock();
    struct plan *all = own ? plan_search_orders(request, error) : NULL;
    if (all)
        print_plan("  all orders", all, since);
    printf("\n");
    fflush(stdout);
    const bool good = all != NULL;
    plan_free(own);
    plan_free(all);
    return good;
}

static bool plan_tight(const struct profile *profile, uint32_t ranks, const char *schedule, struct error *error)
{
    struct cluster *cluster = cluster_uniform(ranks, 1, 5000, 12000000000, error);
    const struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedule,
                                            .ranks = ranks, .chunks = 1, .micro_batches = 2 * ranks,
                                            .holding.optimizer = OPTIMIZER_SGD };
    uint64_t bytes = 0;
    bool good = cluster && find_least_bytes(&request, cluster, &bytes, error);
    for (size_t i = 0; good && percents[i]; i++) {
        set_memory(cluster, bytes / 100 * percents[i]);
        good = plan_both(&request, percents[i], error);
    }
    cluster_free(cluster);
    return good;
}

int main(int count, char **arguments)
{
    const struct real_bench bench = { "bench_tight", graphs, schedules, plan_tight };
    return real_bench_run(&bench, count, arguments);
}
