// Plans for devices with growing memory, from the least in which anything fits to twice that, in twelve steps. A plan
// must not be slower than one with less memory, nor slower than what local search finds (random_cuts.h). The profiles
// are PipeDream's by 1f1b, with four micro-batches per rank, sgd, and links of 12 GB/s and 5 us.
//
//     bench_tight_memory [--all] [--seconds N] [--random N] [--seed N] [MODEL [RANKS]]
//
// After the steps, random limits between the least memory and twice that are drawn: two for each profile and number
// of ranks, twenty in a soak run. The seed is printed.
//
//     --all        plans over all orders of the layers
//     --seconds    of local search, for each step (20) and for each random limit (5)
//     --random     number of random limits, without the steps
//     --seed       of the random limits (1)
//
// Exits with 1 if a plan is slower than permitted.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/random_cuts.h"
#include "bench/real_profiles.h"
#include "common/ascending.h"
#include "common/random.h"
#include "partitioner/plan_search.h"
#include "partitioner/search/search_request.h"

enum { STEPS = 12 };

#define ABOVE_TWIN 1.005  // longest permitted time of a plan, relative to local search

static const char *const graphs[] = { "alexnet", "gnmt", "gnmt_large", "inception_v3", "resnet50", "vgg16", NULL };

struct options {
    bool all_orders;
    double seconds;     // 0: the default
    unsigned limits;    // number of random limits
    bool has_steps;
    uint64_t seed;
    const char *model;  // NULL: all
    uint32_t ranks;     // 0: 4, 8 and 16
};

// One model on one number of ranks.
struct bench {
    const struct options *options;
    struct search_request request;
    struct cluster *cluster;
    struct random_cuts *twin;
    uint64_t least_bytes;
    uint64_t quickest_ns;  // of our plans so far
    double worst;          // worst ratio of our plans to local search
    unsigned *faults;
};

static bool plan_ours(struct bench *bench, uint64_t bytes, uint64_t *iteration_ns, struct error *error)
{
    struct error why = { 0 };
    for (size_t d = 0; d < bench->cluster->device_count; d++)
        bench->cluster->devices[d].memory_bytes = bytes;
    bench->request.wanted.own_order = !bench->options->all_orders;
    bench->request.wanted.never_worse = true;
    struct plan *plan = plan_search(&bench->request, &why);
    *iteration_ns = plan ? plan->certificate.value_ns : UINT64_MAX;
    const bool good = plan || why.kind == ERROR_ANSWER || error_hand_on(error, &why);
    plan_free(plan);
    return good;
}

static void print_time(uint64_t ns)
{
    if (ns == UINT64_MAX)
        printf("  %12s   ", "none");
    else
        printf("  %12.3f ms", 1e-6 * (double)ns);
}

static void print_step(struct bench *bench, unsigned percent, uint64_t bytes, uint64_t ours, uint64_t twin)
{
    const double ratio = (double)ours / (double)twin;
    const bool has_both = ours < UINT64_MAX && twin < UINT64_MAX;
    const bool rises = ours > bench->quickest_ns;
    const bool is_slower = twin < UINT64_MAX && (ours == UINT64_MAX || ratio > ABOVE_TWIN);
    printf("%-12s %2u  %3u %%  %14llu B", bench->request.profile->model, bench->request.ranks, percent,
           (unsigned long long)bytes);
    print_time(ours);
    print_time(twin);
    if (has_both)
        printf("  %.4f", ratio);
    if (rises && ours < UINT64_MAX)
        printf("  RISES with memory by %.2f %%", 100 * ((double)ours / (double)bench->quickest_ns - 1));
    else if (rises)
        printf("  LOST with more memory");
    if (is_slower)
        printf("  %s", has_both ? "SLOWER than its twin" : "NOT FOUND");
    printf("\n");
    fflush(stdout);
    *bench->faults += rises || is_slower;
    bench->worst = has_both && ratio > bench->worst ? ratio : bench->worst;
    bench->quickest_ns = ours < bench->quickest_ns ? ours : bench->quickest_ns;
}

static double seconds_of(const struct bench *bench, double usual)
{
    return bench->options->seconds > 0 ? bench->options->seconds : usual;
}

static bool plan_steps(struct bench *bench, struct error *error)
{
    bool good = true;
    for (unsigned i = 0; good && i < STEPS; i++) {
        const uint64_t bytes = bench->least_bytes + bench->least_bytes * i / (STEPS - 1);
        uint64_t ours = 0, twin = 0;
        good = plan_ours(bench, bytes, &ours, error)
            && random_cuts_search(bench->twin, bytes, seconds_of(bench, 20), &twin, error);
        if (good)
            print_step(bench, 100 + 100 * i / (STEPS - 1), bytes, ours, twin);
    }
    return good;
}

// Ascending, so that a plan that is slower than one with less memory is detected.
static bool plan_random(struct bench *bench, struct error *error)
{
    const unsigned count = bench->options->limits;
    uint64_t seed = bench->options->seed, *limits = calloc(count, sizeof limits[0]);
    bool good = limits || error_no_memory(error, "limits");
    bench->quickest_ns = UINT64_MAX;
    bench->worst = 0;
    for (unsigned i = 0; good && i < count; i++)
        limits[i] = bench->least_bytes + random_below(&seed, bench->least_bytes + 1);
    if (good)
        qsort(limits, count, sizeof limits[0], ascending_u64s);
    for (unsigned i = 0; good && i < count; i++) {
        uint64_t ours = 0, twin = 0;
        good = plan_ours(bench, limits[i], &ours, error)
            && random_cuts_search(bench->twin, limits[i], seconds_of(bench, 5), &twin, error);
        if (good)
            print_step(bench, (unsigned)(100 * limits[i] / bench->least_bytes), limits[i], ours, twin);
    }
    free(limits);
    if (good)
        printf("%-12s %2u  worst ratio of %u limits drawn with seed %llu: %.4f\n", bench->request.profile->model,
               bench->request.ranks, count, (unsigned long long)bench->options->seed, bench->worst);
    return good;
}

static bool plan_model(const struct options *options, const struct profile *profile, uint32_t ranks, unsigned *faults,
                       struct error *error)
{
    struct bench bench = { .options = options, .faults = faults, .quickest_ns = UINT64_MAX };
    bench.cluster = cluster_uniform(ranks, 1, 5000, 12000000000, error);
    bench.request = (struct search_request){ .profile = profile, .cluster = bench.cluster, .schedule = "1f1b",
                                             .ranks = ranks, .chunks = 1, .micro_batches = 4 * ranks,
                                             .storage.optimizer = OPTIMIZER_SGD };
    const bool is_good = bench.cluster && search_resolve(&bench.request, error);
    bench.twin = is_good ? random_cuts_create(&bench.request, error) : NULL;
    const bool good = bench.twin && random_cuts_least_bytes(bench.twin, &bench.least_bytes, error)
                   && (!options->has_steps || plan_steps(&bench, error)) && plan_random(&bench, error);
    random_cuts_free(bench.twin);
    cluster_free(bench.cluster);
    return good;
}

static bool plan_graph(const struct options *options, const char *graph, unsigned *faults, struct error *error)
{
    struct profile *profile = real_profile(graph, error);
    bool good = profile != NULL;
    for (uint32_t ranks = 4; good && ranks <= 16; ranks *= 2)
        if (!options->ranks || options->ranks == ranks)
            good = plan_model(options, profile, ranks, faults, error);
    profile_free(profile);
    return good;
}

static bool read_options(int count, char **arguments, struct options *options)
{
    int i = 1;
    for (; i < count && arguments[i][0] == '-'; i++) {
        if (strcmp(arguments[i], "--all") == 0)
            options->all_orders = true;
        else if (strcmp(arguments[i], "--seconds") == 0 && i + 1 < count)
            options->seconds = strtod(arguments[++i], NULL);
        else if (strcmp(arguments[i], "--random") == 0 && i + 1 < count)
            options->limits = (unsigned)strtoul(arguments[++i], NULL, 10), options->has_steps = false;
        else if (strcmp(arguments[i], "--seed") == 0 && i + 1 < count)
            options->seed = strtoull(arguments[++i], NULL, 10);
        else
            return false;
    }
    options->model = i < count ? arguments[i] : NULL;
    options->ranks = i + 1 < count ? (uint32_t)strtoul(arguments[i + 1], NULL, 10) : 0;
    return i + 2 >= count;
}

int main(int count, char **arguments)
{
    struct options options = { .limits = getenv("WEIR_SOAK") ? 20 : 2, .has_steps = true, .seed = 1 };
    struct error error = { 0 };
    unsigned faults = 0;
    if (!read_options(count, arguments, &options))
        return fprintf(stderr, "Usage: "
                       "bench_tight_memory [--all] [--seconds N] [--random N] [--seed N] [MODEL [RANKS]]\n"), 2;
    if (!real_profiles_are_here())
        return 0;
    printf("model     ranks  memory                         ours             trying   ratio\n");
    for (size_t i = 0; graphs[i]; i++)
        if ((!options.model || strcmp(options.model, graphs[i]) == 0)
            && !plan_graph(&options, graphs[i], &faults, &error))
            return fail(&error);
    printf("%u plans are slower than they may be\n", faults);
    return faults > 0;
}
