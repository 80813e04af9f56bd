// Whatever allocation fails in a command, it gives the very answer that it gives with more memory, or says in one
// sentence that memory is missing, and exits with 3. What it leaves of checkpoints can be loaded.
#include <glob.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/hostile/command_trial.h"
#include "tests/sanitizer.h"
#include "tests/test.h"

// --- an allocator that fails --------------------------------------------------------------

// Shared with the command's process, which counts; NULL in this one, which has all memory.
struct counting {
    atomic_size_t allocations;  // so far
    size_t from, until;         // those with these numbers fail, half open
};

static struct counting *asked, *counting;

static void count_from_here(void)
{
    counting = asked;
}

#if !HAS_SANITIZER
static bool may_have(void)
{
    if (!counting)
        return true;
    const size_t number = atomic_fetch_add(&counting->allocations, 1);
    return number < counting->from || number >= counting->until;
}

#include "tests/failing_allocator.h"
#endif

// --- trials -------------------------------------------------------------------------------

static char *folder;

static void run(const char *line, size_t from, size_t until, struct child *child)
{
    char copied[500];
    const char *words[TRIAL_MOST_WORDS];
    snprintf(copied, sizeof copied, "%s", line);
    child_words(copied, words, TRIAL_MOST_WORDS);
    asked->allocations = 0;
    asked->from = from;
    asked->until = until;
    child_run_prepared(words, folder, count_from_here, child);
}

// What a training took differs from run to run: its lines are not compared.
static bool is_measured(const char *line)
{
    return strncmp(line, "weir train", 10) == 0;
}

// A sentence by the machine's fault, or what is said with more memory.
static const char *fault_of(const char *line, const struct child *child, const struct child *expected)
{
    const char *fault = child_fault(child, &(struct child_rules){ .files = NULL });
    if (fault || child->code == 3)
        return fault;
    if (child->code != expected->code)
        return "another exit code";
    return strcmp(child->out, expected->out) != 0 && !is_measured(line) ? "another answer" : NULL;
}

struct row {
    const char *name;    // the command
    const char *before;  // of one that keeps checkpoints in the folder `new`: what makes that ready; NULL: of another one
};

// What is there by a checkpoint's name is one.
static const char *fault_of_kept(void)
{
    char pattern[300];
    glob_t found;
    struct child child = { 0 };
    snprintf(pattern, sizeof pattern, "%s/new/step-*[0-9]", folder);
    const bool is_kept = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    if (!is_kept)
        return NULL;
    run("weir eval " SAMPLE_MODEL " --checkpoint new --data text", 0, 0, &child);
    const bool is_good = child.code == 0 && child.err_length == 0;
    child_clear(&child);
    return is_good ? NULL : "a checkpoint that cannot be loaded";
}

static void make_ready(const struct row *row)
{
    char command[500];
    snprintf(command, sizeof command, "cd %s && %s", folder, row->before ? row->before : "true");
    assert_int_equal(system(command), 0);
}

static size_t check(const struct row *row, size_t from, size_t until, const struct child *expected)
{
    const char *line = row->name;
    struct child child = { 0 };
    make_ready(row);
    run(line, from, until, &child);
    const char *fault = fault_of(line, &child, expected);
    if (!fault && row->before)
        fault = fault_of_kept();
    if (fault)
        print_message("# %s, without allocations %zu to %zu: %s (exit code %d, signal %d): %.300s\n", line, from, until,
                      fault, child.code, child.signal, child.err);
    child_clear(&child);
    return fault != NULL;
}

#define TRAIN "weir train " SAMPLE_MODEL " --plan nano.plan.json --data text --steps "

static struct row rows[] = {
    { "weir --help", NULL },
    { "weir model gpt-nano --json", NULL },
    { "weir profile --lint profile.json", NULL },
    { "weir import pipedream pipedream.txt", NULL },
    { "weir import piper piper.json --cluster-output made", NULL },
    { "weir import dnn-partitioning dnn.json", NULL },
    { "weir estimate config.json --device device.json", NULL },
    { "weir sweep --config config.json --device device.json --devices 2 --global-batch 4 --budget 20", NULL },
    { "weir partition profile.json -c two.json -s 1f1b -m 4 --budget 500 --tied apart", NULL },
    { "weir explain plan.json --profile profile.json --budget 100", NULL },
    { "weir price profile.json --plan plan.json --budget 500", NULL },
    { "weir price hand.profile.json --plan hand.json -c two.json -s 1f1b -m 4 --budget 500", NULL },
    { "weir keep profile.json --plan plan.json --budget 500 --noise 3% --draws 2", NULL },
    { "weir front profile.json -c two.json -m 4 --budget 200 --tied apart -s 1f1b --resolution 50%", NULL },
    { "weir sweep profile.json -c two.json -m 4 --budget 100 --tied apart", NULL },
    { "weir bottleneck profile.json --model pipedream -c two.json -m 4 --budget 500", NULL },
    { "weir bottleneck piper.profile.json --model tps -c piper.cluster.json --plan loads.json", NULL },
    { "weir place tables.json -c two.json --memory 1GiB --seconds 0", NULL },
    { "weir place clicks.profile.json -c two.json -m 2 --seconds 0", NULL },
    { "weir export deepspeed plan.json --profile profile.json", NULL },
    { "weir export torchtitan nano.plan.json", NULL },
    { "weir schedule zb-v -p 2 -m 3 --lowered --format csv", NULL },
    { "weir schedule search -p 2 -m 3 --cost costs.json", NULL },
    { "weir check lowered.json --sends eager:1 --channels shared", NULL },
    { "weir check plan.json --profile profile.json", NULL },
    { "weir simulate schedule.json --against plan.json", NULL },
    { "weir simulate schedule.json --format html", NULL },
    { "weir simulate --trace trace.json.gz --format svg", NULL },
    { "weir compare plan.json plan.trace.json --refine profile.json -o made", NULL },
    { "weir compare plan.json plan.trace.json --json", NULL },
    { "weir verify nano.plan.json --steps 1", NULL },
    { TRAIN "1", NULL },
    { TRAIN "2 --save-every 1 --checkpoints new", "rm -rf new" },
    { TRAIN "3 --eval-every 1 --checkpoints new --keep 1 --log made --out drawn", "rm -rf new made" },
    { TRAIN "1 --weights kept/step-1", NULL },
    { TRAIN "2 --save-every 1 --checkpoints new --resume", "rm -rf new && cp -r kept new" },
    { "weir eval " SAMPLE_MODEL " --checkpoint kept --data text", NULL },
    { "weir score clicks.plan.json --weights clicked --data clicks/data.json", NULL },
    { "weir sample " SAMPLE_MODEL " --checkpoint kept --tokens 5 abc", NULL },
};

static void there_is_the_same_answer_or_no_memory(void **state)
{
    const struct row *row = *state;
    const char *line = row->name;
    if (HAS_SANITIZER)
        TEST_SKIP("sanitizers bring an allocator of their own");
    struct child expected = { 0 };
    make_ready(row);
    run(line, 0, 0, &expected);
    const size_t all = asked->allocations, step = 1 + all / test_trials(8, 1000);
    size_t faults = 0;
    if (expected.code > 1)
        fail_msg("%s: exit code %d: %s", line, expected.code, expected.err);
    for (size_t at = 0; at < all && faults < 5; at += step) {
        faults += check(row, at, at + 1, &expected);
        faults += check(row, at, SIZE_MAX, &expected);
    }
    print_message("# %s: %zu allocations, each %zu. of them failed\n", line, all, step);
    child_clear(&expected);
    assert_int_equal(faults, 0);
}

// --- all ----------------------------------------------------------------------------------

static int make(void **state)
{
    (void)state;
    asked = mmap(NULL, sizeof *asked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (asked == MAP_FAILED)
        return -1;
    folder = samples_make();
    return 0;
}

static int clear(void **state)
{
    (void)state;
    if (folder)
        samples_remove(folder);
    return 0;
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    struct CMUnitTest tests[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(there_is_the_same_answer_or_no_memory, &rows[i]);
    return cmocka_run_group_tests(tests, make, clear);
}
