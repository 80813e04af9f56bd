// Whether searches meet their deadlines, and what more time gains: hard requests, each with deadlines from 0.3 to 20
// s and no other limit. It also measures the time of a first plan (with a budget of 1), against the time to read its
// profile and check the plan.
//
//     bench_deadlines [--until SECONDS] [--profiles NAME,...] [TEXT]
//
//     --until       longest deadline (20)
//     --profiles    only these, named as in plan_case.h, by six schedules
//     TEXT          only requests whose names contain it
//
// Exits with 1 if a search took 0.3 s of CPU time more than permitted, or has no plan while one with more time has.
// Other work on the machine makes searches late by the wall clock too; this is marked, and is not a fault.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/plan_case.h"
#include "bench/real_profiles.h"
#include "common/clock.h"
#include "partitioner/evaluate/evaluate.h"

#define LATE_NS 300000000  // how late a search may be

// Written as in plan_case.h. No search uses up this budget.
#define UNBOUNDED " chunks=1 budget=4000000000000000 "
static const char *const cases[] = {
    "chain1000-1f1b-d512 chain1000 1f1b m=2048 replicas=auto" UNBOUNDED "| 512 devices, 16TiB, 12GB/s 5us",
    "chain1000-pipedream-d512 chain1000 pipedream m=2048 replicas=auto" UNBOUNDED "| 512 devices, 16TiB, 12GB/s 5us",
    "chain1000-pipedream-d512-given chain1000 pipedream m=2048 replicas=2,1" UNBOUNDED
    "| 512 devices, 16TiB, 12GB/s 5us",
    "inception_v3-1f1b-p16 inception_v3 1f1b m=64" UNBOUNDED "| 16 devices, 12GiB, 12GB/s 5us",
    "inception_v3-1f1b-p16-all inception_v3 1f1b m=64 all" UNBOUNDED "| 16 devices, 12GiB, 12GB/s 5us",
    "inception_v3-1f1b-p64 inception_v3 1f1b m=256" UNBOUNDED "| 64 devices, 16GiB, 12GB/s 5us",
    "inception_v3-1f1b-p64-all inception_v3 1f1b m=256 all" UNBOUNDED "| 64 devices, 16GiB, 12GB/s 5us",
    "inception_v3-1f1b-d16-replicas-all inception_v3 1f1b m=64 all replicas=auto" UNBOUNDED
    "| 16 devices, 16GiB, 1.25GB/s 5us",
    "inception_v3-twice-1f1b-p16-all inception_v3*2 1f1b m=64 all" UNBOUNDED "| 16 devices, 24GiB, 12GB/s 5us",
    "inception_v3-twice-1f1b-p64-all inception_v3*2 1f1b m=256 all" UNBOUNDED "| 64 devices, 24GiB, 12GB/s 5us",
    "inception_v3-twice-gpipe-p16 inception_v3*2 gpipe m=64" UNBOUNDED "| 16 devices, 24GiB, 12GB/s 5us",
    "graph20-gpipe-p4-all graph20 gpipe m=16 all" UNBOUNDED "| 4 devices, 1TiB, 12GB/s 5us",
    "graph300-zb-v-p8-all graph300 zb-v m=32 all budget=4000000000000000 | 8 devices, 1TiB, 12GB/s 5us",
    "graph1251-1f1b-p8-all graph1251 1f1b m=32 all" UNBOUNDED "| 8 devices, 1TiB, 12GB/s 5us",
    "graph1251-1f1b-p8-tight-all graph1251 1f1b m=32 all" UNBOUNDED "| 8 devices, 1GiB, 12GB/s 5us",
    "graph1251-pipedream-p8-all graph1251 pipedream m=32 all" UNBOUNDED "| 8 devices, 1TiB, 12GB/s 5us",
    "graph1251-zb-v-p8-tight-all graph1251 zb-v m=32 all budget=4000000000000000 | 8 devices, 1GiB, 12GB/s 5us",
    "graph1251-interleaved-p16-all graph1251 interleaved m=64 all budget=4000000000000000"
    " | 16 devices, 1TiB, 12GB/s 5us",
    "graph1251-gpipe-p16-tight-all graph1251 gpipe m=64 all" UNBOUNDED "| 16 devices, 1GiB, 12GB/s 5us",
    NULL
};

static const uint64_t deadlines_ms[] = { 300, 500, 1000, 2000, 5000, 10000, 20000 };
enum { DEADLINES = sizeof deadlines_ms / sizeof deadlines_ms[0] };

// One search; value_ns is UINT64_MAX if there is no plan.
struct trial {
    uint64_t value_ns, wall_ns;
    double cpu_seconds, gap;
};

static bool search_until(struct plan_case *plan_case, uint64_t deadline_ms, struct trial *trial, struct error *error)
{
    struct error why = { 0 };
    plan_case->request.limits.deadline_ns = deadline_ms * 1000000;
    const uint64_t since = clock_now_ns();
    const clock_t cpu_since = clock();
    struct plan *plan = plan_case_search(plan_case, &why);
    *trial = (struct trial){ .value_ns = plan ? plan->certificate.value_ns : UINT64_MAX,
                             .gap = plan ? plan->certificate.gap : 1, .wall_ns = clock_now_ns() - since,
                             .cpu_seconds = (double)(clock() - cpu_since) / CLOCKS_PER_SEC };
    plan_free(plan);
    return plan || why.kind != ERROR_INPUT || error_set(error, "%s", why.text);
}

static bool print_trial(const char *name, uint64_t deadline_ms, const struct trial *trial, bool is_lacking)
{
    const bool is_late_by_wall = trial->wall_ns > deadline_ms * 1000000 + LATE_NS;
    const bool is_late = trial->cpu_seconds > 1e-3 * (double)deadline_ms + 1e-9 * LATE_NS;
    printf("%-36s %5.1f s %7.2f s %7.2f s", name, 1e-3 * (double)deadline_ms, 1e-9 * (double)trial->wall_ns,
           trial->cpu_seconds);
    if (trial->value_ns < UINT64_MAX)
        printf(" %14.3f ms %7.2f %%", 1e-6 * (double)trial->value_ns, 100 * trial->gap);
    else
        printf(" %14s             ", "none");
    printf("%s%s\n", is_late ? "  LATE" : is_late_by_wall ? "  late by the wall clock" : "",
           is_lacking ? "  NO PLAN, with more time there is one" : "");
    fflush(stdout);
    return !is_late && !is_lacking;
}

static void print_worth(const char *name, const struct trial *soon, const struct trial *late)
{
    if (soon->value_ns < UINT64_MAX && late->value_ns < UINT64_MAX)
        printf("%-36s after 1 s %.3f %% slower than after 20 s\n\n", name,
               100 * ((double)soon->value_ns / (double)late->value_ns - 1));
    else
        printf("%-36s no plan after %s\n\n", name, late->value_ns == UINT64_MAX ? "20 s" : "1 s");
}

// CPU time to read a profile from its text.
static bool read_again(const struct profile *profile, double *seconds, struct error *error)
{
    struct text text = { 0 };
    profile_write(profile, &text);
    const clock_t since = clock();
    const bool is_text = text_ok(&text, "a profile", error);
    struct profile *again = is_text ? profile_read(text.data, text.length, "the profile", error) : NULL;
    *seconds = (double)(clock() - since) / CLOCKS_PER_SEC;
    profile_free(again);
    text_clear(&text);
    return again != NULL;
}

static bool try_first_plan(struct plan_case *plan_case, struct error *error)
{
    struct error why = { 0 };
    double reading;
    if (!read_again(plan_case->profile, &reading, error))
        return false;
    const uint64_t budget = plan_case->request.limits.budget;
    plan_case->request.limits.budget = 1;
    const clock_t since = clock();
    struct plan *plan = plan_case_search(plan_case, &why);
    const clock_t found = clock();
    const bool good = !plan || plan_evaluate(plan, plan_case->profile, error);
    const double checking = (double)(clock() - found) / CLOCKS_PER_SEC;
    const double search = (double)(found - since) / CLOCKS_PER_SEC;
    plan_case->request.limits.budget = budget;
    if (good)
        printf("%-36s a first plan%s: %.3f s of CPU with reading, %.3f s to read and check it: %.1f times\n",
               plan_case->name, plan ? "" : " (NONE)", reading + search, reading + checking,
               (reading + search) / (reading + checking));
    plan_free(plan);
    return good;
}

// Starts with the longest deadline, so that its result is known.
static bool try_case(const char *line, double until, unsigned *faults, struct error *error)
{
    struct plan_case plan_case;
    struct trial trials[DEADLINES] = { 0 };
    bool good = plan_case_read(&plan_case, line, error) && try_first_plan(&plan_case, error), any = false;
    size_t tried = DEADLINES;
    while (tried > 1 && 1e-3 * (double)deadlines_ms[tried - 1] > until)
        tried--;
    for (size_t i = tried; good && i-- > 0;) {
        good = search_until(&plan_case, deadlines_ms[i], &trials[i], error);
        const bool has_plan = good && trials[i].value_ns < UINT64_MAX;
        *faults += good && !print_trial(plan_case.name, deadlines_ms[i], &trials[i], any && !has_plan);
        any = any || has_plan;
    }
    if (good && tried == DEADLINES)
        print_worth(plan_case.name, &trials[2], &trials[DEADLINES - 1]);
    plan_case_clear(&plan_case);
    return good;
}

static bool try_profile(const char *profile, double until, unsigned *faults, struct error *error)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "pipedream", "zb-h1", "zb-v", "interleaved", NULL };
    const char *slash = strrchr(profile, '/');
    bool good = true;
    for (size_t s = 0; good && schedules[s]; s++)
        for (unsigned ranks = 4; good && ranks <= 8; ranks *= 2) {
            char line[500];
            snprintf(line, sizeof line, "%.50s-%s-p%u %s %s m=%u all budget=4000000000000000"
                     " | %u devices, 1TiB, 12GB/s 5us",
                     slash ? slash + 1 : profile, schedules[s], ranks, profile, schedules[s], 2 * ranks, ranks);
            good = try_case(line, until, faults, error);
        }
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    unsigned faults = 0;
    double until = 20;
    char *names = NULL;
    int i = 1;
    for (; i + 1 < count && strncmp(arguments[i], "--", 2) == 0; i += 2) {
        if (strcmp(arguments[i], "--until") == 0)
            until = strtod(arguments[i + 1], NULL);
        else if (strcmp(arguments[i], "--profiles") == 0)
            names = arguments[i + 1];
        else
            break;
    }
    if (i + 1 < count || (i < count && arguments[i][0] == '-'))
        return fprintf(stderr, "Usage: bench_deadlines [--until SECONDS] [--profiles NAME,...] [TEXT]\n"), 2;
    const char *only = i < count ? arguments[i] : "";
    bool good = true;
    printf("%-36s deadline  took, of CPU         iteration       gap\n", "request");
    for (char *name = names ? strtok(names, ",") : NULL; good && name; name = strtok(NULL, ","))
        good = try_profile(name, until, &faults, &error);
    for (size_t c = 0; good && !names && real_profiles_are_here() && cases[c]; c++)
        good = !strstr(cases[c], only) || try_case(cases[c], until, &faults, &error);
    if (!good)
        return fail(&error);
    printf("%u searches were late, or have no plan where there is one\n", faults);
    return faults > 0;
}
