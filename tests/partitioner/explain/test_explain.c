#include "partitioner/explain/explain.h"

#include <signal.h>

#include "partitioner/plan_search.h"
#include "profiler/profile_reorder.h"
#include "tests/document.h"
#include "tests/partitioner/instance.h"

static struct explanation *explain(const struct plan *plan, const struct profile *profile)
{
    struct error error = { 0 };
    const struct explain_request request = { .plan = plan, .profile = profile };
    struct explanation *explanation = explain_plan(&request, &error);
    assert_good(explanation, error);
    return explanation;
}

// --- shadow prices, planned again here -------------------------------------------------

// The change as this test understands its row. False: not one of these.
static bool change_again(const struct what_if *change, struct instance *instance)
{
    struct search_request *request = &instance->request;
    struct cluster *cluster = instance->cluster;
    for (size_t i = 0; i < cluster->device_count; i++) {
        uint64_t *memory = &cluster->devices[i].memory_bytes;
        if (change->kind == WHAT_IF_NO_MEMORY_LIMIT)
            *memory = (uint64_t)1 << 50;
        if (change->kind == WHAT_IF_MEMORY)
            *memory = *memory * 11 / 10;
        if (change->kind == WHAT_IF_DEVICE_MEMORY && i == change->at)
            *memory += change->more_bytes;
    }
    if (change->kind == WHAT_IF_RATE)
        cluster->levels[change->at].bytes_per_second *= 2;
    if (change->kind == WHAT_IF_LATENCY)
        cluster->levels[change->at].latency_ns /= 2;
    if (change->kind == WHAT_IF_MICRO_BATCHES)
        request->micro_batches *= 2;
    if (change->kind == WHAT_IF_SCHEDULE) {
        request->schedule = change->row.schedule;
        request->chunks = change->row.chunks;
    }
    if (change->kind == WHAT_IF_RANKS)
        request->ranks = change->row.ranks;
    return change->kind != WHAT_IF_NO_LINK_COST && request->ranks <= cluster->device_count;
}

static void check_change(const struct what_if *change, const struct instance *instance, int trial)
{
    struct error error = { 0 };
    struct instance changed = *instance;
    changed.cluster = cluster_copy(instance->cluster, &error);
    assert_good(changed.cluster, error);
    changed.request.cluster = changed.cluster;
    if (change_again(change, &changed)) {
        uint64_t plans = 0;
        struct plan *plan = plan_search(&changed.request, &(struct error){ 0 });
        const bool is_planned = change->row.found.outcome == SWEEP_PLANNED;
        if ((plan != NULL) != is_planned || (plan && plan->iteration_ns != change->row.found.iteration_ns))
            fail_msg("trial %d: \"%s\" is said to give %d, but planned here it gives %d", trial, change->change,
                     (int)change->row.found.iteration_ns, plan ? (int)plan->iteration_ns : -1);
        const bool is_brute = strcmp(changed.request.schedule, "gpipe") == 0
                           || strcmp(changed.request.schedule, "1f1b") == 0
                           || strcmp(changed.request.schedule, "pipedream") == 0;
        if (is_brute && profile_has_one_order(changed.profile)) {
            const uint64_t best = brute_force(&changed, BRUTE_EVERY, &plans);
            if (change->row.found.proved ? best != change->row.found.iteration_ns
                                         : best < change->row.found.lower_bound_ns)
                fail_msg("trial %d: \"%s\" is said to give %d%s, but the best of all is %d", trial, change->change,
                         (int)change->row.found.iteration_ns, change->row.found.proved ? ", proved" : "", (int)best);
        }
        plan_free(plan);
    }
    cluster_free(changed.cluster);
}

// Nothing that is promised is more than what planning the changed request gives, and
// what is proved is what trying everything gives.
static void gains_are_those_of_planning_anew(void **state)
{
    (void)state;
    uint64_t seed = 61;
    size_t memory_steps = 0, bindings[4] = { 0 };
    for (uint64_t trial = 0; trial < test_all_trials(60, 3000); trial++) {
        const uint32_t ranks = 1 + (uint32_t)random_below(&seed, 3);
        struct instance instance = instance_create(&seed, ranks + (uint32_t)random_below(&seed, 5), ranks, true);
        struct plan *plan = plan_search(&instance.request, &(struct error){ 0 });
        struct explanation *explanation = plan ? explain(plan, instance.profile) : NULL;
        for (size_t i = 0; explanation && i < explanation->change_count; i++) {
            const struct what_if *change = &explanation->changes[i];
            check_change(change, &instance, (int)trial);
            memory_steps += change->kind == WHAT_IF_DEVICE_MEMORY;
            assert_true(change->least_gain <= change->gain && change->gain <= change->most_gain);
            assert_true(i == 0 || change->row.found.outcome > change[-1].row.found.outcome
                        || change->gain <= change[-1].gain);
            if (change->row.found.proved && explanation->unchanged.found.proved)
                assert_true(change->least_gain == change->gain && change->most_gain == change->gain);
        }
        if (explanation)
            bindings[explanation->binding]++;
        explanation_free(explanation);
        plan_free(plan);
        instance_clear(&instance);
    }
    assert_true(memory_steps > 5);
    for (unsigned i = 0; i < 4; i++)
        assert_true(bindings[i] > 0);
}

// --- fixed plans -----------------------------------------------------------------------

// Two ranks under GPipe with four micro-batches; every layer has as much work, and keeps
// 40 blocks of 256 bytes for each of them.
static struct plan *small_plan(struct profile **profile, const struct small_layer *rows, size_t count,
                               uint64_t memory_bytes)
{
    struct error error = { 0 };
    *profile = small_chain(rows, count);
    struct cluster *cluster = cluster_uniform(2, memory_bytes, 1000, 1000000000, &error);
    const struct search_request request = { .profile = *profile, .cluster = cluster, .schedule = "gpipe", .ranks = 2,
                                            .micro_batches = 4, .storage.optimizer = OPTIMIZER_SGD };
    struct plan *plan = plan_search(&request, &error);
    assert_good(plan, error);
    cluster_free(cluster);
    return plan;
}

static void prints(const struct plan *plan, const struct profile *profile, const char *expected)
{
    struct explanation *explanation = explain(plan, profile);
    struct text text = { 0 };
    explanation_print(explanation, &text);
    assert_string_equal(text.data, expected);
    text_clear(&text);
    explanation_free(explanation);
}

static const struct small_layer even[] = {
    { 10000, 20000, 1, 1, 40, INPUT_KEPT_NONE, 0, 0, 0 },
    { 10000, 20000, 1, 1, 40, INPUT_KEPT_NONE, 0, 0, 0 },
    { 10000, 20000, 1, 1, 40, INPUT_KEPT_NONE, 0, 0, 0 },
    { 10000, 20000, 1, 1, 40, INPUT_KEPT_NONE, 0, 0, 0 },
};

static void memory_that_binds_is_priced(void **state)
{
    (void)state;
    struct profile *profile;
    struct plan *plan = small_plan(&profile, even, 4, 70000);
    prints(plan, profile,
           "small by gpipe, 2 ranks, 4 micro-batches: 353 us an iteration, proved optimal.\n"
           "What binds is memory, tightest on stage 1: without limits an iteration would take 14 % less, with 82.3"
           " KiB on rank 1. Links that cost nothing would gain 0.71 %.\n"
           "\n"
           "  busiest        stage 0: 280 us of work (40.0 us of it recomputation), 0 % above the average\n"
           "                 idle 0 ns before it, 72.5 us within, 0 ns behind\n"
           "  critical path  stage 0 37 %, stage 1 62 %; links 0.71 %; recomputation 14 % (in the stages)\n"
           "  largest layer  l0, on stage 0: 120 us of every iteration, 34 %, wherever the model is cut\n"
           "  memory         stage 1 has least to spare: 15.4 KiB of 68.4 KiB\n"
           "\n"
           "Small steps that would relieve the busiest rank, with the quickest recomputation that fits:\n"
           "  l1 from stage 0 to stage 1: fits, and is 34 % slower\n"
           "  stage 0 runs less again: no room, rank 0 lacks 13.6 KiB; with it 2.8 % faster\n"
           "\n"
           "What a change would gain, each planned anew:\n"
           "      gain   per m.-b.        peak  change\n"
           "    29.8 %     61.9 us    64.0 KiB  schedule chimera\n"
           "    29.4 %     62.2 us    64.0 KiB  schedule dualpipe\n"
           "    28.0 %     63.4 us    53.5 KiB  schedule zb-v\n"
           "    27.3 %     64.1 us    43.5 KiB  schedule v-half\n"
           "    26.9 %     64.4 us    63.5 KiB  schedule interleaved-zb\n"
           "    25.9 %     65.3 us    62.3 KiB  schedule zb-h2\n"
           "    24.8 %     66.3 us    42.0 KiB  schedule zb-h1\n"
           "    24.7 %     66.3 us    53.8 KiB  schedule dualpipev\n"
           "    21.3 %     69.4 us    63.5 KiB  schedule interleaved\n"
           "    19.8 %     70.6 us    32.8 KiB  schedule v-min\n"
           "    18.4 %     71.9 us    53.5 KiB  schedule hanayo\n"
           "    14.2 %     75.6 us    82.3 KiB  no limit of memory\n"
           "    13.5 %     76.3 us    42.0 KiB  schedule 1f1b\n"
           "    11.3 %     78.1 us    55.0 KiB  schedule looped-bfs\n"
           "    2.84 %     85.6 us    82.0 KiB  13.6 KiB more on device0\n"
           "    2.84 %     85.6 us    82.3 KiB  13.9 KiB more on device1\n"
           "    2.12 %     86.3 us    52.3 KiB  3 ranks, on devices like the last\n"
           "    0.71 %     87.5 us    53.0 KiB  links that cost nothing\n"
           "    0.28 %     87.9 us    53.0 KiB  half the latency of level 0 (500 ns, from 1.00 us)\n"
           "    0.07 %     88.1 us    53.0 KiB  twice the rate of level 0 (1.00 GB/s)\n"
           "   -2.48 %     90.3 us    24.5 KiB  8 micro-batches an iteration\n"
           "   -70.2 %      150 us    64.0 KiB  1 rank\n"
           "  Nothing is gained by: 10 % more memory on all devices\n"
           "A gain is of the time per micro-batch; the peak is of the rank that takes most.\n");
    plan_free(plan);
    profile_free(profile);
}

static void a_layer_that_binds_is_named(void **state)
{
    (void)state;
    const struct small_layer rows[] = { { 10000, 20000, 1, 1, 4, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 10000, 20000, 1, 1, 4, INPUT_KEPT_NONE, 0, 0, 0 },
                                        { 90000, 180000, 1, 1, 4, INPUT_KEPT_NONE, 0, 0, 0 } };
    struct profile *profile;
    struct plan *plan = small_plan(&profile, rows, 3, 1 << 20);
    prints(plan, profile,
           "small by gpipe, 2 ranks, 4 micro-batches: 1.14 ms an iteration, proved optimal.\n"
           "What binds is layer l2, which no cut divides: alone it is 95 % of an iteration, and 64 % more than a"
           " rank's average work. Memory without limits would gain 0 %, links that cost nothing 0.22 %.\n"
           "\n"
           "  busiest        stage 1: 1.08 ms of work, 64 % above the average\n"
           "                 idle 21.3 us before it, 0 ns within, 41.3 us behind\n"
           "  critical path  stage 0 5.3 %, stage 1 95 %; links 0.22 %\n"
           "  largest layer  l2, on stage 1: 1.08 ms of every iteration, 95 %, wherever the model is cut\n"
           "  memory         stage 0 has least to spare: 1014 KiB of 1.00 MiB\n"
           "\n"
           "Small steps that would relieve the busiest rank, with the quickest recomputation that fits:\n"
           "  l2 from stage 1 to stage 0: it is the stage's only layer\n"
           "\n"
           "What a change would gain, each planned anew:\n"
           "      gain   per m.-b.        peak  change\n"
           "    41.6 %      167 us    8.25 KiB  schedule chimera\n"
           "    41.5 %      167 us    8.25 KiB  schedule dualpipe\n"
           "    3.61 %      275 us    6.00 KiB  schedule zb-h1\n"
           "    3.61 %      275 us    8.25 KiB  schedule zb-h2\n"
           "    2.74 %      278 us    18.0 KiB  8 micro-batches an iteration\n"
           "    0.22 %      285 us    10.0 KiB  links that cost nothing\n"
           "    0.09 %      285 us    10.0 KiB  half the latency of level 0 (500 ns, from 1.00 us)\n"
           "    0.02 %      286 us    10.0 KiB  twice the rate of level 0 (1.00 GB/s)\n"
           "   -0.22 %      286 us    6.00 KiB  3 ranks, on devices like the last\n"
           "   -15.5 %      330 us    14.0 KiB  1 rank\n"
           "  Nothing is gained by: no limit of memory; schedule 1f1b\n"
           "A gain is of the time per micro-batch; the peak is of the rank that takes most.\n");
    plan_free(plan);
    profile_free(profile);
}

// --- what is refused, interrupted, written ------------------------------------------------

static void a_plan_that_is_not_its_profiles_is_refused(void **state)
{
    (void)state;
    struct profile *profile;
    struct plan *plan = small_plan(&profile, even, 4, 70000);
    struct error error = { 0 };
    plan->stages[0].costs.forward_ns++;
    const struct explain_request request = { .plan = plan, .profile = profile };
    assert_null(explain_plan(&request, &error));
    assert_int_equal(error.kind, ERROR_ANSWER);
    assert_error(error, "stages[0].costs.forward_ns: the plan says 20001, its profile gives 20000");
    plan_free(plan);
    profile_free(profile);
}

static void a_plan_that_can_be_beaten_is_told_so(void **state)
{
    (void)state;
    struct profile *profile;
    struct error error = { 0 };
    struct plan *plan = small_plan(&profile, even, 4, 1 << 20);
    assert_good(plan_set_stage(plan, 0, profile, (struct segment){ 0, 1 }, 0, NULL, 0, &error)
                && plan_set_stage(plan, 1, profile, (struct segment){ 1, 4 }, 1, NULL, 0, &error)
                && plan_predict(plan, profile, &error), error);
    plan->certificate = (struct certificate){ .objective = "iteration_ns", .value_ns = plan->iteration_ns, .gap = 1 };
    struct explanation *explanation = explain(plan, profile);
    assert_true(explanation->is_beaten);
    assert_true(explanation->unchanged.found.iteration_ns < plan->iteration_ns);
    struct text text = { 0 };
    explanation_print(explanation, &text);
    assert_non_null(strstr(text.data,
                           "\nPlanned anew the same request takes 303 us, 23 % less: take that plan. Gains below are"
                           " against it, all else is of the plan given.\n"));
    assert_non_null(strstr(text.data, "\n  l1 from stage 1 to stage 0: fits, and is 23 % faster\n"));
    text_clear(&text);
    explanation_free(explanation);
    plan_free(plan);
    profile_free(profile);
}

static void an_interrupt_leaves_what_is_known(void **state)
{
    (void)state;
    struct profile *profile;
    struct error error = { 0 };
    struct plan *plan = small_plan(&profile, even, 4, 70000);
    const volatile sig_atomic_t interrupted = 1;
    const struct explain_request request = { .plan = plan, .profile = profile, .interrupted = &interrupted };
    struct explanation *explanation = explain_plan(&request, &error);
    assert_good(explanation, error);
    assert_string_equal(explanation->stopped, "interrupted");
    assert_int_equal(explanation->change_count, 0);
    assert_int_equal(explanation->unchanged.found.iteration_ns, plan->iteration_ns);
    explanation_free(explanation);
    plan_free(plan);
    profile_free(profile);
}

static void the_same_plan_gives_the_same_bytes_as_its_page_shows(void **state)
{
    (void)state;
    struct profile *profile;
    struct plan *plan = small_plan(&profile, even, 4, 70000);
    struct text texts[2] = { 0 };
    for (int i = 0; i < 2; i++) {
        struct explanation *explanation = explain(plan, profile);
        explanation_write(explanation, &texts[i]);
        explanation_free(explanation);
    }
    assert_string_equal(texts[0].data, texts[1].data);
    assert_shown_as_written("docs/formats/explanation.md", texts[0].data);
    for (int i = 0; i < 2; i++)
        text_clear(&texts[i]);
    plan_free(plan);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gains_are_those_of_planning_anew),
        cmocka_unit_test(memory_that_binds_is_priced),
        cmocka_unit_test(a_layer_that_binds_is_named),
        cmocka_unit_test(a_plan_that_is_not_its_profiles_is_refused),
        cmocka_unit_test(a_plan_that_can_be_beaten_is_told_so),
        cmocka_unit_test(an_interrupt_leaves_what_is_known),
        cmocka_unit_test(the_same_plan_gives_the_same_bytes_as_its_page_shows),
    };
    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
