// Whatever allocation fails while a model is planned: there is the very plan that there would be
// with more memory, or the sentence that says it is missing; never another plan.
#include <string.h>

#include "partitioner/evaluate/handmade.h"
#include "partitioner/plan_search.h"
#include "partitioner/stability/plan_keep.h"
#include "partitioner/stability/regret.h"
#include "partitioner/sweep/plan_front.h"
#include "partitioner/sweep/sweep.h"
#include "tests/failing_between.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small.h"

// --- what is tried ------------------------------------------------------------------------

// Seven layers; as a graph, two branches of three.
static char *make_profile(bool is_graph)
{
    struct small_layer rows[7];
    uint64_t seed = 3;
    for (size_t i = 0; i < 7; i++)
        rows[i] = (struct small_layer){ .forward = 100 + random_below(&seed, 100),
                                        .backward = 200 + random_below(&seed, 99),
                                        .parameters = 2, .output = 1, .saved = 4, .input_kept = INPUT_KEPT_BOTH };
    static const struct edge edges[] = { { 0, 1 }, { 0, 4 }, { 1, 2 }, { 2, 3 }, { 3, 6 }, { 4, 5 }, { 5, 6 } };
    struct profile *profile = small_chain(rows, 7);
    if (is_graph)
        small_set_edges(profile, edges, 7);
    struct text text = { 0 };
    profile_write(profile, &text);
    profile_free(profile);
    return text.data;
}

struct trial {
    const char *name, *schedule, *cluster;
    bool is_graph;
    // What is made, as text; nothing with an error.
    bool (*make)(const struct search_request *request, struct text *text, struct error *error);
};

static bool write_plan(struct plan *plan, struct text *text, struct error *error)
{
    if (plan)
        plan_write(plan, text);
    plan_free(plan);
    if (text->failed)
        error_no_memory(error, "a document");
    return plan && !text->failed;
}

static bool make_plan(const struct search_request *request, struct text *text, struct error *error)
{
    return write_plan(plan_search(request, error), text, error);
}

static bool make_free_plan(const struct search_request *given, struct text *text, struct error *error)
{
    struct search_request request = *given;
    request.free = (struct search_freedom){ .replicas = true, .fewer = true };
    return write_plan(plan_search(&request, error), text, error);
}

static bool make_counted(const struct search_request *request, struct text *text, struct error *error)
{
    return write_plan(handmade_count("[4,3]", "[1,2]", request, error), text, error);
}

static bool make_by_hand(const struct search_request *request, struct text *text, struct error *error)
{
    static const char document[] =
        "{\"stages\": [{\"layers\": [\"l0\", \"l1\"], \"recompute\": [[\"l0\"]], \"first\": 1},"
        " {\"layers\": 5}], \"optimizer\": \"sgd\"}";
    struct handmade *handmade = handmade_read(document, strlen(document), "hand.json", error);
    struct plan *plan = handmade ? handmade_plan(handmade, request, error) : NULL;
    bool good = plan && handmade_compare(handmade, plan, text, error);
    good &= write_plan(plan, text, error);
    handmade_free(handmade);
    return good;
}

static bool make_kept(const struct search_request *request, struct text *text, struct error *error)
{
    struct plan *old = handmade_count("[1,6]", NULL, request, error), *plan = old ? plan_search(request, error) : NULL;
    const struct error none = { 0 };
    struct keeping keeping;
    const bool good = plan && plan_keep(old, "old.json", request, 900000, &plan, &none, &keeping, error);
    if (good)
        text_add(text, "%s\n", keeping.why);
    plan_free(old);
    if (good)
        return write_plan(plan, text, error);
    plan_free(plan);
    return false;
}

static bool make_steady(const struct search_request *request, struct text *text, struct error *error)
{
    const struct regret_request asked = { .search = request, .noise.ppm = 200000, .draws = 4, .seed = 1 };
    struct regret before, after;
    struct plan *plan = plan_search(request, error),
                *steady = plan ? regret_steady(&asked, plan, &before, &after, error) : NULL;
    if (steady)
        text_add(text, "%u %.6f %.6f %.6f\n", after.beaten, before.p95, after.p95, after.mean);
    plan_free(plan);
    return write_plan(steady, text, error);
}

static bool make_front(const struct search_request *request, struct text *text, struct error *error)
{
    const struct front_request asked = { .search = request, .resolution_ppm = 100000 };
    struct plan_front *front = front_find(&asked, error);
    if (front) {
        front_write(front, text);
        front_draw(front, text);
    }
    const bool good = front && !text->failed;
    front_free(front);
    return good || (text->failed && error_no_memory(error, "a document"));
}

static bool make_sweep(const struct search_request *request, struct text *text, struct error *error)
{
    static const char *const schedules[] = { "1f1b", "zb-h1" };
    const struct sweep_request asked = { .profile = request->profile, .cluster = request->cluster,
                                         .schedules = schedules,
                                         .schedule_count = 2, .threads = 1, .budget = 3000 };
    struct sweep *sweep = sweep_run(&asked, error);
    if (sweep)
        sweep_write(sweep, text);
    const bool good = sweep && !text->failed;
    sweep_free(sweep);
    return good || (text->failed && error_no_memory(error, "a document"));
}

#define ROOMY "2 devices, 1MiB, 1GB/s 10ns"
#define TIGHT "2 devices, 17KiB, 1GB/s 10ns"

static struct trial trials[] = {
    { "a plan by 1f1b", "1f1b", ROOMY, false, make_plan },
    { "a plan that must recompute", "1f1b", TIGHT, false, make_plan },
    { "a plan by gpipe", "gpipe", ROOMY, false, make_plan },
    { "a plan by pipedream", "pipedream", ROOMY, false, make_plan },
    { "a plan of several stages per rank", "zb-v", ROOMY, false, make_plan },
    { "a plan of a graph", "1f1b", ROOMY, true, make_plan },
    { "a plan with replicas or fewer devices", "1f1b", ROOMY, false, make_free_plan },
    { "what nothing fits", "1f1b", "2 devices, 1KiB, 1GB/s 10ns", false, make_plan },
    { "counts", "1f1b", ROOMY, false, make_counted },
    { "a plan made by hand", "1f1b", ROOMY, false, make_by_hand },
    { "a plan that is kept", "1f1b", ROOMY, false, make_kept },
    { "a steady plan", "1f1b", ROOMY, false, make_steady },
    { "a front", "1f1b", ROOMY, false, make_front },
    { "a sweep", "1f1b", ROOMY, false, make_sweep },
};

// From the documents to the plan, as a command does it.
static bool run(const struct trial *trial, const char *profile_text, struct text *text, struct error *error)
{
    struct profile *profile = profile_read(profile_text, strlen(profile_text), "profile.json", error);
    struct cluster *cluster = profile ? cluster_load(trial->cluster, error) : NULL;
    struct search_request request = { .profile = profile, .cluster = cluster, .schedule = trial->schedule,
                                      .ranks = 2, .micro_batches = 4, .limits.budget = 3000 };
    resolve(&request);
    const bool good = cluster && trial->make(&request, text, error);
    cluster_free(cluster);
    profile_free(profile);
    return good;
}

static void check(const struct trial *trial, const char *profile, size_t from, size_t until, const char *expected,
                  const struct error *refused)
{
    struct text text = { 0 };
    struct error error = { 0 };
    fail_between(from, until);
    const bool good = run(trial, profile, &text, &error);
    fail_between(0, 0);
    if (good && (!expected || strcmp(text.data, expected) != 0))
        fail_msg("%s, without allocations %d to %d: another plan: %s, not %s", trial->name, (int)from, (int)until,
                 text.data, expected ? expected : "none");
    if (!good && error.kind == ERROR_MACHINE && !strstr(error.text, "no memory"))
        fail_msg("%s, without allocations %d to %d: %s", trial->name, (int)from, (int)until, error.text);
    // What would help is left out of a refusal where there is no memory to find it.
    if (!good && error.kind != ERROR_MACHINE && (expected || strncmp(error.text, refused->text, 12) != 0))
        fail_msg("%s, without allocations %d to %d: %s (%d)", trial->name, (int)from, (int)until, error.text,
                 error.kind);
    text_clear(&text);
}

static void there_is_the_same_plan_or_no_memory(void **state)
{
    const struct trial *trial = *state;
    if (HAS_SANITIZER)
        TEST_SKIP("sanitizers bring an allocator of their own");
    char *profile = make_profile(trial->is_graph);
    struct text expected = { 0 };
    struct error refused = { 0 };
    fail_between(0, 0);
    const bool good = run(trial, profile, &expected, &refused);
    const size_t all = allocations, step = 1 + all / test_trials(400, 20000);
    assert_true(all > 100);
    if (!good && refused.kind != ERROR_ANSWER)
        fail_msg("%s", refused.text);
    for (size_t at = 0; at < all; at += step) {
        check(trial, profile, at, at + 1, good ? expected.data : NULL, &refused);
        check(trial, profile, at, SIZE_MAX, good ? expected.data : NULL, &refused);
    }
    print_message("# %d allocations, each %d. of them failed\n", (int)all, (int)step);
    text_clear(&expected);
    free(profile);
}

int main(void)
{
    enum { TRIALS = sizeof trials / sizeof trials[0] };
    struct CMUnitTest tests[TRIALS];
    for (size_t i = 0; i < TRIALS; i++)
        tests[i] = (struct CMUnitTest)TEST_ROW(there_is_the_same_plan_or_no_memory, &trials[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
