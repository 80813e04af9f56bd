// How good plans are: a fixed list of requests (bench/plan-cases.txt) is planned. A line for each has the plan's
// time, the lower bound, and CPU time. The program bench/plan-quality compares two such lists.
//
//     bench_plan_quality [--only TEXT] [--jobs N]
//
// With --only, only requests whose names contain the text are planned. With --jobs, N processes take requests in
// turns.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/plan_case.h"
#include "bench/real_profiles.h"

#define CASES "bench/plan-cases.txt"

struct options {
    const char *only;  // NULL: all
    unsigned jobs;
};

// Written in one piece, since several processes may write.
static void say(const struct plan_case *plan_case, const struct plan *plan, double seconds)
{
    char value[30] = "none", bound[30] = "-", gap[30] = "-", line[250];
    if (plan) {
        snprintf(value, sizeof value, "%llu", (unsigned long long)plan->certificate.value_ns);
        snprintf(bound, sizeof bound, "%llu", (unsigned long long)plan->certificate.lower_bound_ns);
        snprintf(gap, sizeof gap, "%.4f", 100 * plan->certificate.gap);
    }
    snprintf(line, sizeof line, "%-46s %15s %15s %9s %-6s %-7s %8.2f\n", plan_case->name, value, bound, gap,
             plan && plan->certificate.proved ? "proved" : "open",
             plan && plan->certificate.stopped[0] ? "stopped" : "ended", seconds);
    fputs(line, stdout);
    fflush(stdout);
}

static bool plan_line(const char *line, struct error *error)
{
    struct plan_case plan_case;
    bool good = plan_case_read(&plan_case, line, error);
    const clock_t since = clock();
    struct plan *plan = good ? plan_case_search(&plan_case, error) : NULL;
    if (plan || (good && error->kind == ERROR_ANSWER)) {
        say(&plan_case, plan, (double)(clock() - since) / CLOCKS_PER_SEC);
        *error = (struct error){ 0 };
    } else {
        good = error_at(error, "%s", plan_case.name);
    }
    plan_free(plan);
    plan_case_clear(&plan_case);
    return good;
}

static bool is_wanted(const struct options *options, const char *line)
{
    char name[80];
    return line[0] != '#' && sscanf(line, "%79s", name) == 1 && (!options->only || strstr(name, options->only));
}

// Plans every `jobs`th of the requested cases, from this one on; returns the exit code. A case that fails does not
// prevent the others.
static int plan_share(const struct options *options, unsigned share)
{
    int code = 0;
    char line[400];
    unsigned index = 0;
    FILE *file = fopen(CASES, "r");
    if (!file) {
        fprintf(stderr, "bench_plan_quality: %s: %s\n", CASES, strerror(errno));
        return 2;
    }
    while (fgets(line, sizeof line, file)) {
        struct error error = { 0 };
        line[strcspn(line, "\n")] = '\0';
        if (is_wanted(options, line) && index++ % options->jobs == share && !plan_line(line, &error))
            code = fail(&error);
    }
    fclose(file);
    return code;
}

static int plan_all(const struct options *options)
{
    int code = 0, status;
    for (unsigned share = 0; share < options->jobs; share++) {
        const pid_t child = fork();
        if (child == 0)
            exit(plan_share(options, share));
        code = child < 0 ? 3 : code;
    }
    while (wait(&status) > 0)
        code = !WIFEXITED(status) ? 3 : WEXITSTATUS(status) > code ? WEXITSTATUS(status) : code;
    return code;
}

int main(int count, char **arguments)
{
    struct options options = { .jobs = 1 };
    for (int i = 1; i < count; i += 2) {
        if (i + 1 < count && strcmp(arguments[i], "--only") == 0)
            options.only = arguments[i + 1];
        else if (i + 1 < count && strcmp(arguments[i], "--jobs") == 0 && strtoul(arguments[i + 1], NULL, 10) > 0)
            options.jobs = (unsigned)strtoul(arguments[i + 1], NULL, 10);
        else
            return fprintf(stderr, "Usage: bench_plan_quality [--only TEXT] [--jobs N]\n"), 2;
    }
    return real_profiles_are_here() ? plan_all(&options) : 0;
}
