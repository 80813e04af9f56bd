// Simulated time of our plans against the cuts of other planners: torchgpipe, DeepSpeed, equal numbers of layers, and
// Megatron's manual layouts. The profiles are PipeDream's. Memory is ample, or half as much again as the least in
// which cuts fit. Prints Markdown for docs/numbers.md (bench/baseline-numbers inserts it there).
//
// The other cuts get the same help as ours: the quickest recomputation with which each stage fits, found exactly.
// Exits with 1 if one of them is quicker than ours.
#include <stdio.h>
#include <stdlib.h>

#include "bench/baselines.h"
#include "bench/random_cuts.h"
#include "bench/real_profiles.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/plan_search.h"
#include "partitioner/search/recompute.h"
#include "partitioner/search/search_request.h"

#define BUDGET 1000000
#define MOST_LABELS 20000

enum { BASELINES = 4, MOST_RANKS = 16 };

static const char *const graphs[] = { "alexnet", "gnmt", "gnmt_large", "inception_v3", "resnet50", "vgg16", NULL };
static const uint32_t ranks[] = { 4, 8, 16, 0 };
static const char *const schedules[] = { "1f1b", "gpipe", NULL };

// Results over all cases with the same memory.
struct tally {
    unsigned cases, does_not_fit[BASELINES], worse[BASELINES], quicker;
    double sum[BASELINES], most[BASELINES];
};

// --- loads --------------------------------------------------------------------------------

static uint64_t *layer_times(const struct profile *profile, struct error *error)
{
    uint64_t *times = calloc(profile->layer_count, sizeof times[0]);
    if (!times)
        error_no_memory(error, "a bench");
    for (size_t l = 0; times && l < profile->layer_count; l++)
        times[l] = profile->layers[l].forward_ns + profile->layers[l].backward_ns;
    return times;
}

// Removes layers that take no time, such as the input.
static uint32_t leave_out_idle(uint64_t *times, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (times[i] > 0)
            times[kept++] = times[i];
    return kept;
}

static bool print_loads(const struct profile *profile, struct error *error)
{
    uint64_t *times = layer_times(profile, error);
    bool good = times != NULL;
    const uint32_t layers = good ? leave_out_idle(times, (uint32_t)profile->layer_count) : 0;
    if (good)
        printf("| %s |", profile->model);
    for (unsigned b = 0; good && b < BASELINES; b++) {
        for (size_t i = 0; good && ranks[i]; i++) {
            uint32_t cuts[MOST_RANKS + 1];
            good = baselines[b].cut(times, layers, ranks[i], cuts) || error_no_memory(error, "a bench");
            if (good)
                printf("%s%.3f", i ? " / " : " ", (double)baseline_load(times, ranks[i], cuts)
                                                     / (double)baseline_least_load(times, layers, ranks[i]));
        }
        printf(" |");
    }
    printf("\n");
    free(times);
    return good;
}

// --- time ---------------------------------------------------------------------------------

struct contest {
    const struct search_request *request;
    struct intervals *intervals;
    struct slots *slots;
    const uint64_t *times;
};

// The plan with these cuts and the quickest recomputation that fits each stage. *plan is NULL if none fits.
static bool plan_cuts(const struct contest *contest, const uint32_t *cuts, struct plan **plan, struct error *error)
{
    const struct search_request *request = contest->request;
    *plan = search_begin_plan(request, request->ranks, error);
    bool good = *plan != NULL, fits = good;
    for (uint32_t s = 0; fits && s < request->ranks; s++) {
        struct recompute_list list;
        uint64_t work = 0;
        good = recompute_search(contest->intervals, cuts[s], cuts[s + 1], &contest->slots[s],
                                request->cluster->devices[s].memory_bytes, RECOMPUTE_LEAST, MOST_LABELS, &work, &list,
                                error);
        fits = good && list.count > 0;
        if (fits)
            fits = good = plan_set_stage(*plan, s, request->profile, (struct segment){ cuts[s], cuts[s + 1] }, s,
                                         list.at[0].segments, list.at[0].count, error);
        if (good || list.at)
            recompute_list_clear(&list);
    }
    good = good && (!fits || plan_price(*plan, request->profile, error));
    if (!good || !fits) {
        plan_free(*plan);
        *plan = NULL;
    }
    return good;
}

// A value too small for one digit is not printed as zero.
static void print_percent(const char *sign, double percent)
{
    if (percent > 0 && percent < 0.05)
        printf(" %s<0.1 %% |", sign);
    else
        printf(" %s%.1f %% |", percent < 0 ? "" : sign, percent);
}

static bool print_baseline(const struct contest *contest, unsigned b, const struct plan *ours, struct tally *tally,
                           struct error *error)
{
    const struct search_request *request = contest->request;
    uint32_t cuts[MOST_RANKS + 1];
    struct plan *plan;
    if (!baselines[b].cut(contest->times, (uint32_t)request->profile->layer_count, request->ranks, cuts))
        return error_no_memory(error, "a bench");
    if (!plan_cuts(contest, cuts, &plan, error))
        return false;
    if (!plan) {
        tally->does_not_fit[b]++;
        printf(" does not fit |");
        return true;
    }
    const double slower = 100 * ((double)plan->iteration_ns / (double)ours->iteration_ns - 1);
    tally->quicker += plan->iteration_ns < ours->iteration_ns;
    tally->worse[b] += plan->iteration_ns > ours->iteration_ns;
    tally->sum[b] += slower;
    tally->most[b] = slower > tally->most[b] ? slower : tally->most[b];
    print_percent("+", slower);
    plan_free(plan);
    return true;
}

static void print_ours(const struct search_request *request, const struct plan *ours)
{
    const struct certificate *certificate = &ours->certificate;
    printf("| %s | %u | %s | %.1f GiB | %.1f ms |", request->profile->model, request->ranks, request->schedule,
           (double)request->cluster->devices[0].memory_bytes / (1 << 30), 1e-6 * (double)ours->iteration_ns);
    if (certificate->proved)
        printf(" proved |");
    else
        print_percent("", 100 * certificate->gap);
}

static bool compete(const struct search_request *request, const uint64_t *times, struct tally *tally,
                    struct error *error)
{
    struct contest contest = { .request = request, .times = times };
    struct plan *ours = plan_search(request, error);
    contest.intervals = ours ? intervals_create(request->profile, &request->storage, error) : NULL;
    contest.slots = contest.intervals ? search_slots(request, error) : NULL;
    bool good = contest.slots != NULL;
    if (good)
        print_ours(request, ours);
    for (unsigned b = 0; good && b < BASELINES; b++)
        good = print_baseline(&contest, b, ours, tally, error);
    printf("\n");
    fflush(stdout);
    tally->cases++;
    free(contest.slots);
    intervals_free(contest.intervals);
    plan_free(ours);
    return good;
}

// The least memory per device in which fitting cuts are found.
static bool find_least_bytes(const struct search_request *request, uint64_t *bytes, struct error *error)
{
    struct random_cuts *random = random_cuts_create(request, error);
    const bool good = random && random_cuts_least_bytes(random, bytes, error);
    random_cuts_free(random);
    return good;
}

static bool compete_all(const struct profile *profile, bool is_tight, struct tally *tally, struct error *error)
{
    uint64_t *times = layer_times(profile, error);
    bool good = times != NULL;
    for (size_t i = 0; good && ranks[i]; i++) {
        for (size_t k = 0; good && schedules[k]; k++) {
            uint64_t bytes = (uint64_t)1 << 40;
            struct cluster *cluster = cluster_uniform(ranks[i], bytes, 5000, 12000000000, error);
            struct search_request request = { .profile = profile, .cluster = cluster, .schedule = schedules[k],
                                              .ranks = ranks[i], .chunks = 1, .micro_batches = 2 * ranks[i],
                                              .storage.optimizer = OPTIMIZER_SGD, .limits.budget = BUDGET };
            good = cluster && search_resolve(&request, error)
                && (!is_tight || find_least_bytes(&request, &bytes, error));
            for (size_t d = 0; good && d < ranks[i]; d++)
                cluster->devices[d].memory_bytes = is_tight ? bytes + bytes / 2 : bytes;
            good = good && compete(&request, times, tally, error);
            cluster_free(cluster);
        }
    }
    free(times);
    return good;
}

// --- the whole ----------------------------------------------------------------------------

static void print_tally(const struct tally *tally)
{
    printf("\n| of %u cases | slower than ours in | on average, if it fits | at most | does not fit in |\n"
           "|---|---|---|---|---|\n", tally->cases);
    for (unsigned b = 0; b < BASELINES; b++) {
        const unsigned fits = tally->cases - tally->does_not_fit[b];
        printf("| %s | %u | %.1f %% | %.1f %% | %u |\n", baselines[b].name, tally->worse[b],
               fits ? tally->sum[b] / fits : 0, tally->most[b], tally->does_not_fit[b]);
    }
    printf("\nA baseline is quicker than ours in %u cases.\n", tally->quicker);
}

static bool run_part(int part, struct tally *tally, struct error *error)
{
    static const char *const heads[] = { "Ample memory",
                                         "One and a half times the least memory in which random cuts are found to "
                                         "fit" };
    if (part == 0)
        printf("Largest part against the least possible (forward and backward, 4 / 8 / 16 parts; layers that take "
               "time):\n\n"
               "| profile | torchgpipe | DeepSpeed | even counts | Megatron |\n|---|---|---|---|---|\n");
    else
        printf("\n%s:\n\n| profile | ranks | schedule | memory | ours | gap | torchgpipe | DeepSpeed | even counts |"
               " Megatron |\n|---|---|---|---|---|---|---|---|---|---|\n", heads[part - 1]);
    bool good = true;
    for (size_t i = 0; good && graphs[i]; i++) {
        struct profile *profile = real_profile(graphs[i], error);
        good = profile && (part == 0 ? print_loads(profile, error) : compete_all(profile, part == 2, tally, error));
        profile_free(profile);
    }
    return good;
}

int main(void)
{
    struct error error = { 0 };
    bool quicker = false;
    if (!real_profiles_are_here())
        return 0;
    for (int part = 0; part < 3; part++) {
        struct tally tally = { 0 };
        if (!run_part(part, &tally, &error))
            return fail(&error);
        if (part > 0)
            print_tally(&tally);
        quicker |= tally.quicker > 0;
    }
    return quicker;
}
