#include "partitioner/evaluate/handmade.h"

#include <string.h>

#include "partitioner/evaluate/evaluate.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/plan_search.h"
#include "profiler/profile_reorder.h"
#include "tests/document.h"
#include "tests/partitioner/instance.h"
#include "tests/partitioner/resolve.h"
#include "tests/partitioner/small_dag.h"

static const struct small_layer rows[] = {
    { .forward = 10, .backward = 20, .parameters = 2, .output = 1, .saved = 3, .input_kept = INPUT_KEPT_BOTH },
    { .forward = 20, .backward = 30, .parameters = 1, .output = 2, .saved = 2, .input_kept = INPUT_KEPT_WEIGHT },
    { .forward = 30, .backward = 40, .parameters = 3, .output = 1, .saved = 4 },
    { .forward = 15, .backward = 25, .parameters = 1, .output = 1, .saved = 1, .input_kept = INPUT_KEPT_BOTH },
};

struct world {
    struct profile *profile;
    struct cluster *cluster;
    struct search_request request;
};

static struct world create(const char *schedule)
{
    struct error error = { 0 };
    struct world world = { .profile = small_chain(rows, sizeof rows / sizeof rows[0]) };
    world.cluster = cluster_uniform(2, 1 << 20, 10, 1000000000, &error);
    assert_good(world.cluster, error);
    world.request = (struct search_request){ .profile = world.profile, .cluster = world.cluster, .schedule = schedule,
                                             .ranks = 2, .micro_batches = 4 };
    resolve(&world.request);
    return world;
}

static void destroy(struct world *world)
{
    profile_free(world->profile);
    cluster_free(world->cluster);
}

// --- counts -------------------------------------------------------------------------------

static void counts_cut_and_recompute_from_the_front(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world world = create("1f1b");
    struct plan *plan = handmade_count("[1,3]", "0, 2", &world.request, &error);
    assert_good(plan, error);
    assert_int_equal(plan->stages[0].recompute_count, 0);
    assert_int_equal(plan->stages[1].first, 1);
    assert_int_equal(plan->stages[1].recompute_count, 2);
    assert_int_equal(plan->stages[1].recompute[1].first, 2);
    assert_int_equal(plan->stages[1].recompute[1].end, 3);
    assert_int_equal(plan->stages[1].devices[0], 1);
    assert_int_equal(plan->stages[1].costs.recompute_ns, 50);
    assert_good(plan_evaluate(plan, world.profile, &error), error);
    plan_free(plan);
    destroy(&world);
}

struct mistake {
    const char *name, *cuts, *recompute, *sentence;
};

static struct mistake mistakes[] = {
    { "layers left out are not dropped in silence", "[1,1]", NULL,
      "--cuts: 2 of the profile's 4 layers are on no stage, \"l2\" first" },
    { "one layer left out", "[1,2]", NULL, "--cuts: 1 of the profile's 4 layers is on no stage, \"l3\" alone" },
    { "more layers than there are", "[2,3]", NULL, "--cuts: [1]: 3 layers, but only 2 are left of the profile's 4" },
    { "stages that the schedule has not", "[1,1,2]", NULL, "there are 3 stages, but 1f1b has 2 on 2 ranks" },
    { "a number that is none", "[1,b]", NULL, "--cuts: line 1, column 4: a value is expected" },
    { "no numbers", "[]", NULL, "--cuts: how many layers each stage has, such as [9,9,9,10]" },
    { "no list", "{}", NULL, "--cuts: [0]: is an object, not a whole number" },
    { "more run again than there are", "[2,2]", "[0,3]",
      "--recompute: [1]: 3 layers are to be run again, but the stage has 2" },
    { "recomputation of other stages", "[2,2]", "[1]", "--recompute: has 1 numbers, but there are 2 stages" },
};

static void counts_are_refused(void **state)
{
    const struct mistake *mistake = *state;
    struct error error = { 0 };
    struct world world = create("1f1b");
    assert_null(handmade_count(mistake->cuts, mistake->recompute, &world.request, &error));
    assert_error(error, mistake->sentence);
    assert_int_equal(error.kind, ERROR_INPUT);
    destroy(&world);
}

static void cuts_that_the_profile_forbids_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world world = create("1f1b");
    world.profile->no_cut_after = malloc(sizeof world.profile->no_cut_after[0]);
    world.profile->no_cut_after[0] = 1;
    world.profile->no_cut_count = 1;
    assert_null(handmade_count("2,2", NULL, &world.request, &error));
    assert_error(error, "stage 0 ends after layer \"l1\", where the profile forbids a cut (no_cut_after)");
    destroy(&world);
}

// --- documents ----------------------------------------------------------------------------

struct document {
    const char *name, *text, *sentence;
};

#define STAGES(rest) "{\"stages\": [" rest "]}"

static struct document documents[] = {
    { "a layer that is not there", STAGES("{\"layers\": [\"l0\", \"x\"]}, {\"layers\": 2}"),
      "hand.json: stages[0].layers[1]: the profile has no layer \"x\"" },
    { "a layer twice on a stage", STAGES("{\"layers\": [\"l0\", \"l0\"]}, {\"layers\": 2}"),
      "hand.json: stages[0].layers[1]: layer \"l0\" is on this stage already" },
    { "a layer on two stages", STAGES("{\"layers\": 2}, {\"layers\": [\"l1\", \"l2\", \"l3\"]}"),
      "hand.json: stages[1].layers[0]: layer \"l1\" is on stage 0 already" },
    { "a layer that was passed over", STAGES("{\"layers\": [\"l0\", \"l2\"]}, {\"layers\": 2}"),
      "hand.json: stages[0].layers[1]: layer \"l2\" comes after \"l1\" in the profile, which is on no stage yet" },
    { "layers left out", STAGES("{\"layers\": [\"l0\"]}, {\"layers\": [\"l1\", \"l2\"]}"),
      "stages: 1 of the profile's 4 layers is on no stage, \"l3\" alone" },
    { "no layers", STAGES("{}, {\"layers\": 2}"),
      "hand.json: stages[0].layers: is missing: the names of the stage's layers, or how many there are" },
    { "a key nobody knows", STAGES("{\"layers\": 2, \"layer\": 3}"),
      "hand.json: stages[0]: key \"layer\" is not known" },
    { "devices for one stage alone", STAGES("{\"layers\": 2, \"devices\": [0]}, {\"layers\": 2}"),
      "hand.json: stages[1]: has no devices of its own, unlike stage 0" },
    { "a device that is not there", STAGES("{\"layers\": 2, \"devices\": [[2]]}, {\"layers\": 2}"),
      "hand.json: stages[0].devices[0][0]: device 2 is not in the cluster (0 to 1)" },
    { "a segment that skips a layer",
      STAGES("{\"layers\": 4, \"recompute\": [[\"l0\", \"l2\"]]}, {\"layers\": 0}"),
      "hand.json: stages[0].recompute[0][1]: layer \"l2\" does not follow what is named before it in this stage" },
    { "a segment too many",
      STAGES("{\"layers\": 1, \"recompute\": [[\"l0\"], [\"l0\"]]}, {\"layers\": 3}"),
      "hand.json: stages[0].recompute[1][0]: layer \"l0\" does not follow what is named before it in this stage" },
    { "no stages", STAGES(""), "hand.json: stages: holds 0 stages" },
    { "two stages on a device", STAGES("{\"layers\": 2, \"devices\": [1]}, {\"layers\": 2, \"devices\": [1]}"),
      "ranks 0 and 1 are both on device 1" },
};

static struct plan *read_by_hand(const char *text, const struct search_request *request, struct error *error)
{
    struct handmade *handmade = handmade_read(text, strlen(text), "hand.json", error);
    struct plan *plan = handmade ? handmade_plan(handmade, request, error) : NULL;
    handmade_free(handmade);
    return plan;
}

static void documents_are_refused(void **state)
{
    const struct document *document = *state;
    struct error error = { 0 };
    struct world world = create("1f1b");
    assert_null(read_by_hand(document->text, &world.request, &error));
    assert_error(error, document->sentence);
    destroy(&world);
}

static void a_short_document_is_priced_in_full(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world world = create("1f1b");
    struct plan *plan = read_by_hand("{\"stages\": [{\"layers\": [\"l0\", \"l1\"], \"devices\": [1], \"recompute\": 1},"
                                     " {\"recompute\": [[\"l2\", \"l3\"]], \"layers\": 2, \"devices\": [[0]]}]}",
                                     &world.request, &error);
    assert_good(plan, error);
    assert_good(plan_evaluate(plan, world.profile, &error), error);
    assert_int_equal(plan->stages[0].devices[0], 1);
    assert_int_equal(plan->stages[0].recompute[0].end, 1);
    assert_int_equal(plan->stages[1].recompute[0].end, 4);
    assert_int_equal(plan->certificate.lower_bound_ns, 0);
    plan_free(plan);
    destroy(&world);
}

static void the_documented_example_is_read(void **state)
{
    (void)state;
    struct error error = { 0 };
    char *text = test_document("docs/formats/plan-by-hand.md");
    struct handmade *handmade = handmade_read(text, strlen(text), "plan-by-hand.md", &error);
    assert_good(handmade, error);
    assert_string_equal(handmade->schedule, "1f1b");
    assert_int_equal(handmade->micro_batches, 8);
    handmade_free(handmade);
    free(text);
}

// --- our own plans ------------------------------------------------------------------------

// Whatever the search finds: re-priced it is the same plan, but for the certificate; its
// document is one that can be evaluated, without a difference.
static void our_own_plans_keep_their_numbers(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (uint64_t trial = 0; trial < test_trials(60, 600); trial++) {
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, 4);
        struct instance instance = instance_create(&seed, ranks + (uint32_t)random_below(&seed, 6), ranks, true);
        struct error error = { 0 };
        struct plan *plan = plan_search(&instance.request, &error);
        if (plan) {
            struct text before = { 0 }, after = { 0 }, differences = { 0 };
            plan_write(plan, &before);
            struct handmade *handmade = handmade_read(before.data, before.length, "ours", &error);
            assert_good(handmade && handmade->whole, error);
            struct plan *again = handmade_plan(handmade, &instance.request, &error);
            assert_good(again, error);
            plan_certify_by(again, &plan->certificate, true);
            plan_write(again, &after);
            if (strcmp(before.data, after.data) != 0)
                fail_msg("trial %d: %s, and now %s", (int)trial, before.data, after.data);
            assert_good(handmade_compare(handmade, again, &differences, &error), error);
            assert_int_equal(differences.length, 0);
            plan_free(again);
            handmade_free(handmade);
            text_clear(&before);
            text_clear(&after);
        }
        plan_free(plan);
        instance_clear(&instance);
    }
}

// A plan found for a graph's layers in another order names the order, and keeps it when it is re-priced.
static void plans_of_another_order_keep_it(void **state)
{
    (void)state;
    uint64_t seed = 6;
    struct world world = create("1f1b");
    for (uint64_t trial = 0; trial < test_trials(40, 400); trial++) {
        struct error error = { 0 };
        struct profile *graph = small_random_dag(&seed, 8, 4, 100);
        uint32_t order[SMALL_DAG_MOST];
        small_random_order(&seed, graph, order);
        struct profile *reordered = profile_reorder(graph, order, &error);
        assert_good(reordered, error);
        struct search_request request = world.request;
        request.profile = reordered;
        request.wanted.own_order = true;
        struct plan *plan = plan_search(&request, &error), *again;
        assert_good(plan, error);
        request.profile = graph;
        bool same = true;
        for (uint32_t l = 0; l < 8; l++)
            same &= order[l] == l;
        if (!same) {
            plan->order = malloc(8 * sizeof order[0]);
            memcpy(plan->order, order, 8 * sizeof order[0]);
        }
        assert_good(again = plan_reprice(plan, &request, &error), error);
        plan_certify_by(again, &plan->certificate, true);
        struct text before = { 0 }, after = { 0 };
        plan_write(plan, &before);
        plan_write(again, &after);
        if (strcmp(before.data, after.data) != 0)
            fail_msg("trial %d: %s, and now %s", (int)trial, before.data, after.data);
        text_clear(&before);
        text_clear(&after);
        plan_free(plan);
        plan_free(again);
        profile_free(reordered);
        profile_free(graph);
    }
    destroy(&world);
}

static void numbers_that_are_not_the_plans_are_named(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world world = create("gpipe");
    static const char text[] = "{\"stages\": [{\"layers\": 2, \"first\": 0, \"end\": 3, \"costs\": {\"forward_ns\": 30,"
                               " \"backward_ns\": 51}}, {\"layers\": 2}], \"predicted\": {\"iteration_ns\": 1,"
                               " \"bubble\": {\"makespan\": 0.5}}}";
    struct handmade *handmade = handmade_read(text, strlen(text), "hand.json", &error);
    assert_good(handmade, error);
    struct plan *plan = handmade_plan(handmade, &world.request, &error);
    assert_good(plan, error);
    struct text differences = { 0 };
    assert_good(handmade_compare(handmade, plan, &differences, &error), error);
    char expected[400];
    snprintf(expected, sizeof expected,
             "stages[0].end: the document says 3, it is 2\n"
             "stages[0].costs.backward_ns: the document says 51, it is 50\n"
             "predicted.iteration_ns: the document says 1, it is %llu\n"
             "predicted.bubble.makespan: the document says 0.500000, it is %.6f\n",
             (unsigned long long)plan->iteration_ns, plan->bubble.makespan);
    assert_string_equal(differences.data, expected);
    text_clear(&differences);
    plan_free(plan);
    handmade_free(handmade);
    destroy(&world);
}

// --- what does not fit --------------------------------------------------------------------

static void what_is_too_large_is_priced_and_named(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world world = create("1f1b");
    struct plan *plan = handmade_count("2,2", NULL, &world.request, &error);
    assert_good(plan, error);
    struct plan_excess excess;
    assert_good(plan_find_excess(plan, plan->cluster, &excess, &error), error);
    assert_int_equal(excess.lacks_bytes, 0);
    const uint64_t peak = plan->stages[0].memory.peak_bytes;
    plan_free(plan);
    world.cluster->devices[0].memory_bytes = peak - 256;
    plan = handmade_count("2,2", NULL, &world.request, &error);
    assert_good(plan, error);
    assert_good(plan_find_excess(plan, plan->cluster, &excess, &error), error);
    assert_int_equal(excess.rank, 0);
    assert_int_equal(excess.lacks_bytes, 256);
    struct text text = { 0 };
    plan_say_excess(plan, &excess, &text);
    assert_non_null(strstr(text.data, "stage 0 needs"));
    assert_non_null(strstr(text.data, "(256 bytes) too little"));
    text_clear(&text);
    plan_free(plan);
    destroy(&world);
}

// A search's bound is for plans that fit; a plan that is quicker has none.
static void a_plan_that_cheats_has_no_bound(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct world world = create("1f1b");
    struct plan *plan = handmade_count("1,3", NULL, &world.request, &error);
    assert_good(plan, error);
    struct certificate found = { .value_ns = plan->iteration_ns, .lower_bound_ns = plan->iteration_ns / 2 };
    plan_certify_by(plan, &found, true);
    assert_int_equal(plan->certificate.lower_bound_ns, plan->iteration_ns / 2);
    plan_certify_by(plan, &found, false);
    assert_int_equal(plan->certificate.lower_bound_ns, 0);
    assert_string_equal(plan->certificate.stopped, "the plan does not fit");
    found.lower_bound_ns = plan->iteration_ns + 1;
    plan_certify_by(plan, &found, true);
    assert_int_equal(plan->certificate.lower_bound_ns, 0);
    assert_false(plan->certificate.proved);
    plan_free(plan);
    destroy(&world);
}

int main(void)
{
    enum { MISTAKES = sizeof mistakes / sizeof mistakes[0], DOCUMENTS = sizeof documents / sizeof documents[0] };
    struct CMUnitTest tests[MISTAKES + DOCUMENTS + 9] = {
        cmocka_unit_test(counts_cut_and_recompute_from_the_front),
        cmocka_unit_test(cuts_that_the_profile_forbids_are_refused),
        cmocka_unit_test(a_short_document_is_priced_in_full),
        cmocka_unit_test(the_documented_example_is_read),
        cmocka_unit_test(our_own_plans_keep_their_numbers),
        cmocka_unit_test(plans_of_another_order_keep_it),
        cmocka_unit_test(numbers_that_are_not_the_plans_are_named),
        cmocka_unit_test(what_is_too_large_is_priced_and_named),
        cmocka_unit_test(a_plan_that_cheats_has_no_bound),
    };
    for (size_t i = 0; i < MISTAKES; i++)
        tests[9 + i] = (struct CMUnitTest)TEST_ROW(counts_are_refused, &mistakes[i]);
    for (size_t i = 0; i < DOCUMENTS; i++)
        tests[9 + MISTAKES + i] = (struct CMUnitTest)TEST_ROW(documents_are_refused, &documents[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
