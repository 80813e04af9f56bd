// Whatever words a command is given, it ends with an answer or one sentence.
//
// The words are those of the commands' own help, with values that are right, wrong, missing or given twice.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hostile/command_trial.h"
#include "tests/test.h"

enum { MOST_OPTIONS = 64, MOST_FAULTS = 20 };

static const char *const commands[] = { "model", "profile", "estimate", "import", "partition", "explain", "price", "keep",
                                        "front", "sweep", "bottleneck", "place", "export", "schedule", "check",
                                        "simulate", "compare", "verify", "train", "eval", "score", "sample",
                                        "nothing" };

static const char *const values[] = {
    "", "0", "1", "2", "4", "-1", "3%", "101%", "1e308", "nan", "9007199254740992", "18446744073709551616", "0x10",
    "1,1", "[2,2]", "2,2,", "auto", "none", "1f1b", "zb-v", "gpipe", "pipedream", "adamw", "sgd", "max-load", "tps",
    "json", "csv", "svg", "text", "early", "all", "shared", "eager:1", "grouped", "10us", "1,1,1,0",
    "10us,12us,8us,1us", "1GiB", "1B", "profile.json", "plan.json", "schedule.json", "schedule.csv", "cluster.json",
    "two.json", "costs.json", "trace.json", "missing.json", ".", "-", "--", "/dev/null", "head=1", "=", "optimizer",
    "weights", "gpt-nano", "gpt-nano,width=0", "2 devices, 1GiB, 1GB/s 1us", "2 devices", "\x1b[31m", "\xff",
    "two\nlines", "cpu", "cpu:avx2", "cuda:9", "spread",
};

// --- a command's options, by its own help ---------------------------------------------------

struct known {
    char *help;
    const char *options[MOST_OPTIONS];  // "--name" of each
    size_t count;
};

static struct known known[sizeof commands / sizeof commands[0]];

static void learn(const char *folder, const char *command, struct known *of)
{
    const char *words[] = { "weir", command, "--help", NULL };
    struct child child = { 0 };
    child_run(words, folder, &child);
    of->help = strdup(child.out);
    child_clear(&child);
    for (char *at = strstr(of->help, "--"); at && of->count < MOST_OPTIONS; at = strstr(at, "--")) {
        char *end = at + 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        const bool is_name = end > at + 2 && (*end == '=' || *end == ' ' || *end == '\n' || *end == ',');
        if (is_name) {
            *end = '\0';
            of->options[of->count++] = at;
        }
        at = end + is_name;
    }
}

static int make(void **state)
{
    trial_make(state);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        learn(*state, commands[i], &known[i]);
    return 0;
}

static int clear(void **state)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        free(known[i].help);
    return trial_clear(state);
}

// --- trials -----------------------------------------------------------------------------

static const char *any_value(uint64_t *seed)
{
    return values[random_below(seed, sizeof values / sizeof values[0])];
}

// What could run for long, or change what other trials read, is given small numbers and places of its own.
static void add_option(const char *option, uint64_t *seed, const char *words[], size_t *count, char joined[200])
{
    static const char *const fixed[][2] = { { "--steps", "1" }, { "--budget", "200" }, { "--output", "made" },
                                            { "--out", "made.out" }, { "--plan", "plan.json" }, { "--svg", "made.svg" },
                                            { "--cluster-output", "made.cluster" }, { "--repeats", "20" },
                                            { "--draws", "2" }, { "--trials", "5" } };
    const char *value = any_value(seed);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (strcmp(fixed[i][0], option) == 0 && random_below(seed, 4) > 0)
            value = fixed[i][1];
    const bool writes = strcmp(option, "--output") == 0 || strncmp(option, "--out", 5) == 0
                     || strcmp(option, "--cluster-output") == 0 || strcmp(option, "--svg") == 0;
    if (writes)
        value = "made";
    const uint64_t how = random_below(seed, 5);
    snprintf(joined, 200, "%s%s%s", option, how < 3 ? "=" : "", how < 3 ? value : "");
    words[(*count)++] = joined;
    if (how == 3 && !writes)
        words[(*count)++] = value;
}

static size_t make_line(uint64_t *seed, const char *words[], char joined[][200])
{
    const size_t at = random_below(seed, sizeof commands / sizeof commands[0]);
    size_t count = 0;
    words[count++] = "weir";
    words[count++] = commands[at];
    if (random_below(seed, 3) > 0)
        words[count++] = any_value(seed);
    for (uint64_t i = 0, options = random_below(seed, 6); i < options && known[at].count > 0; i++)
        add_option(known[at].options[random_below(seed, known[at].count)], seed, words, &count, joined[i]);
    // A search without a limit may take seconds.
    static const char *const searching[] = { "partition", "price", "keep", "front", "sweep", "bottleneck", "explain" };
    for (size_t i = 0; i < sizeof searching / sizeof searching[0]; i++)
        if (strcmp(commands[at], searching[i]) == 0)
            words[count++] = "--budget=200";
    words[count] = NULL;
    return count;
}

static bool try_one(const char *folder, uint64_t trial)
{
    uint64_t seed = trial;
    const char *words[TRIAL_MOST_WORDS];
    char joined[6][200];
    struct child child = { 0 };
    const size_t count = make_line(&seed, words, joined);
    child_run(words, folder, &child);
    const char *fault = child_fault(&child, &(struct child_rules){ .files = NULL });
    if (fault) {
        print_message("# trial %llu: %s (exit code %d, signal %d, %d MiB):", (unsigned long long)trial, fault,
                      child.code, child.signal, (int)(child.peak_bytes >> 20));
        for (size_t i = 0; i < count; i++)
            print_message(" '%s'", words[i]);
        print_message("\n#   %.600s\n", child.err);
    }
    child_clear(&child);
    return !fault;
}

static void every_command_line_ends_as_it_must(void **state)
{
    const uint64_t trials = test_trials(300, 15000);
    size_t faults = 0;
    for (uint64_t i = 0; i < trials && faults < MOST_FAULTS; i++)
        faults += !try_one(*state, i);
    assert_int_equal(faults, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_command_line_ends_as_it_must) };
    return cmocka_run_group_tests(tests, make, clear);
}
