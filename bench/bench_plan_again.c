// Plans made again: the plan with ample memory is planned anew with exactly its own peak as memory, and with more
// budget. Neither may be worse. The profiles are PipeDream's, chains and graphs, over all orders of the layers, by
// several schedules.
//
//     bench_plan_again [--only TEXT] [--every N] [--graphs N] [--budgets N] [--profiles NAME,...]
//
//     --profiles    only these, named as in plan_case.h, such as files of `weir profile`
//     --only        requests whose names contain the text
//     --every       each Nth of them (1)
//     --graphs      number of random graphs of 20 to 1,300 layers (12)
//     --budgets     how many of the budgets 0.2, 1 and 5 M, from the first
//
// Exits with 1 if a plan is worse than permitted.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/plan_case.h"
#include "bench/real_profiles.h"
#include "partitioner/plan_search.h"

static const char *const profiles[] = { "alexnet", "gnmt", "gnmt_large", "inception_v3", "resnet50", "vgg16", NULL };
static const char *const schedules[] = { "gpipe", "1f1b", "pipedream", "zb-h1", "zb-v", "interleaved", NULL };
static const uint64_t budgets[] = { 200000, 1000000, 5000000 };
enum { BUDGETS = sizeof budgets / sizeof budgets[0], USUAL_GRAPHS = 12 };

struct bench {
    const char *only;
    unsigned long every, graphs, budgets, seen, tried, faults;
};

// The time of a plan; UINT64_MAX if there is none.
static bool plan(struct plan_case *plan_case, uint64_t bytes, uint64_t budget, uint64_t *value_ns, uint64_t *peak_bytes,
                 struct error *error)
{
    struct error why = { 0 };
    uint32_t rank;
    for (size_t d = 0; d < plan_case->cluster->device_count; d++)
        plan_case->cluster->devices[d].memory_bytes = bytes;
    plan_case->request.limits.budget = budget;
    plan_case->request.wanted.never_worse = true;
    struct plan *found = plan_search(&plan_case->request, &why);
    *value_ns = found ? found->certificate.value_ns : UINT64_MAX;
    if (found && peak_bytes)
        *peak_bytes = plan_peak_bytes(found, &rank, error);
    const bool good = found || why.kind == ERROR_ANSWER || error_hand_on(error, &why);
    plan_free(found);
    return good && error->kind == ERROR_NONE;
}

static void compare(struct bench *bench, const char *name, const char *what, uint64_t budget, uint64_t before,
                    uint64_t now)
{
    if (now <= before)
        return;
    bench->faults++;
    printf("%-34s %9llu  %s: %.4f of %.3f ms\n", name, (unsigned long long)budget, what,
           now == UINT64_MAX ? 0 : (double)now / (double)before, 1e-6 * (double)before);
    fflush(stdout);
}

// With ample memory and each budget, then with its own peak as memory, and with two fifths of that.
static bool try_case(struct bench *bench, const char *line, struct error *error)
{
    struct plan_case plan_case;
    uint64_t last = UINT64_MAX, last_tight = UINT64_MAX, tight_bytes = 0;
    const clock_t since = clock();
    bool good = plan_case_read(&plan_case, line, error);
    for (size_t b = 0; good && b < BUDGETS && b < bench->budgets; b++) {
        uint64_t ample = 0, again = 0, tight = 0, peak = 0;
        good = plan(&plan_case, (uint64_t)1 << 44, budgets[b], &ample, &peak, error);
        if (!good || ample == UINT64_MAX)
            break;
        tight_bytes = tight_bytes ? tight_bytes : peak / 5 * 2;
        good = plan(&plan_case, peak, budgets[b], &again, NULL, error)
            && plan(&plan_case, tight_bytes, budgets[b], &tight, NULL, error);
        compare(bench, plan_case.name, "at its own peak WORSE", budgets[b], ample, again);
        compare(bench, plan_case.name, "with more budget WORSE", budgets[b], last, ample);
        compare(bench, plan_case.name, "with more budget, tight, WORSE", budgets[b], last_tight, tight);
        last = ample;
        last_tight = tight;
    }
    bench->tried += good;
    if (good)
        printf("%-34s %7.1f s\n", plan_case.name, (double)(clock() - since) / CLOCKS_PER_SEC);
    fflush(stdout);
    plan_case_clear(&plan_case);
    return good;
}

static bool try_profile(struct bench *bench, const char *profile, struct error *error)
{
    const char *slash = strrchr(profile, '/'), *short_name = slash ? slash + 1 : profile;
    bool good = true;
    for (size_t s = 0; good && schedules[s]; s++)
        for (unsigned ranks = 4; good && ranks <= 8; ranks *= 2) {
            char name[80], line[500];
            snprintf(name, sizeof name, "%s-%s-p%u", short_name, schedules[s], ranks);
            if ((bench->only && !strstr(name, bench->only)) || bench->seen++ % bench->every != 0)
                continue;
            snprintf(line, sizeof line, "%s %s %s m=%u | %u devices, 1TiB, 12GB/s 5us", name, profile, schedules[s],
                     2 * ranks, ranks);
            good = try_case(bench, line, error);
        }
    return good;
}

static bool try_all(struct bench *bench, struct error *error)
{
    bool good = true;
    for (size_t i = 0; good && real_profiles_are_here() && profiles[i]; i++)
        good = try_profile(bench, profiles[i], error);
    for (unsigned long g = 0; good && g < bench->graphs; g++) {
        char profile[40];
        const unsigned long layers = 20 + 1280 * g / (bench->graphs > 1 ? bench->graphs - 1 : 1);
        snprintf(profile, sizeof profile, "graph%lu.%lu", layers, g + 1);
        good = try_profile(bench, profile, error);
    }
    return good;
}

int main(int count, char **arguments)
{
    struct bench bench = { .every = 1, .graphs = USUAL_GRAPHS, .budgets = BUDGETS };
    struct error error = { 0 };
    char *names = NULL;
    for (int i = 1; i < count; i += 2) {
        const unsigned long number = i + 1 < count ? strtoul(arguments[i + 1], NULL, 10) : 0;
        if (i + 1 < count && strcmp(arguments[i], "--only") == 0)
            bench.only = arguments[i + 1];
        else if (strcmp(arguments[i], "--every") == 0 && number > 0)
            bench.every = number;
        else if (i + 1 < count && strcmp(arguments[i], "--graphs") == 0)
            bench.graphs = number;
        else if (i + 1 < count && strcmp(arguments[i], "--budgets") == 0)
            bench.budgets = number;
        else if (i + 1 < count && strcmp(arguments[i], "--profiles") == 0)
            names = arguments[i + 1];
        else
            return fprintf(stderr, "Usage: bench_plan_again [--only TEXT] [--every N] [--graphs N] [--budgets N]"
                                   " [--profiles NAME,...]\n"), 2;
    }
    bool good = names || try_all(&bench, &error);
    for (char *name = names ? strtok(names, ",") : NULL; good && name; name = strtok(NULL, ","))
        good = try_profile(&bench, name, &error);
    if (!good)
        return fail(&error);
    printf("%lu requests, %lu plans are worse than they may be\n", bench.tried, bench.faults);
    return bench.faults > 0;
}
