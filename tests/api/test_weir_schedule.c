// What bindings see of schedules and simulations.
#include "tests/api/written_profile.h"

#include <stdio.h>
#include <unistd.h>

static struct weir_schedule *generated(const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct weir_error error = { 0 };
    const struct weir_generate_options generating = { .size = sizeof generating, .name = name, .ranks = ranks,
                                                      .micro_batches = micro_batches };
    struct weir_schedule *schedule = weir_schedule_generate(&generating, &error);
    assert_good(schedule, error);
    return schedule;
}

// --- schedules ------------------------------------------------------------------------

static void a_schedule_goes_to_every_form_and_back(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    char path[] = "/tmp/weir-test-XXXXXX";
    close(mkstemp(path));
    struct weir_schedule *schedule = generated("zb-h1", 3, 4), *back;
    char *document = weir_schedule_document(schedule, &error), *again, *csv;
    assert_good(document, error);
    assert_good(weir_schedule_save(schedule, path, &error), error);
    assert_good(back = weir_schedule_load(path, &error), error);
    assert_good(again = weir_schedule_document(back, &error), error);
    assert_string_equal(document, again);
    weir_schedule_free(back);
    weir_text_free(again);
    unlink(path);

    assert_good(csv = weir_schedule_csv(schedule, NULL, &error), error);
    assert_null(strstr(csv, "SEND"));
    assert_good(back = weir_schedule_read(csv, strlen(csv), "zb.csv", &error), error);
    assert_good(again = weir_schedule_csv(back, NULL, &error), error);
    assert_string_equal(csv, again);
    weir_text_free(again), weir_text_free(csv);
    const struct weir_csv_options older = { .size = sizeof older, .lowered = true, .line_feeds = true,
                                            .dialect = "torch2.6" };
    assert_good(csv = weir_schedule_csv(schedule, &older, &error), error);
    assert_true(strstr(csv, "0SEND_F0") && !strchr(csv, '\r'));
    weir_text_free(csv), weir_text_free(document);
    weir_schedule_free(schedule), weir_schedule_free(back), weir_schedule_free(NULL);
}

static void stages_are_cut_into_segments(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    const struct weir_generate_options *const generating[] = {
        WEIR_OPTIONS(generate, .name = "gpipe", .ranks = 1, .micro_batches = 2, .segments = 2),
        WEIR_OPTIONS(generate, .name = "gpipe", .ranks = 1, .micro_batches = 2, .segments = 2, .passes = 1),
    };
    static const char *const wanted[] = { "\"0F0 0F1 1F0 1F1 1B0 1B1 0B0 0B1 0STEP 1STEP\"",
                                          "\"0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1 0STEP 1STEP\"" };
    for (size_t i = 0; i < 2; i++) {
        struct weir_schedule *schedule = weir_schedule_generate(generating[i], &error);
        assert_good(schedule, error);
        char *document = weir_schedule_document(schedule, &error);
        assert_good(document, error);
        assert_true(strstr(document, "\"exchanges\": true") && strstr(document, wanted[i]));
        weir_text_free(document);
        weir_schedule_free(schedule);
    }
}

static void what_no_schedule_can_be_is_refused(void **state)
{
    (void)state;
    static const uint32_t replicas[] = { 2, 1 };
    const struct {
        const struct weir_generate_options *generating;
        const char *sentence;
    } rows[] = {
        { WEIR_OPTIONS(generate, .ranks = 2, .micro_batches = 2),
          "weir_generate_options.name is needed: \"1f1b\", \"gpipe\", \"zb-h1\", ..." },
        { WEIR_OPTIONS(generate, .name = "1f1b", .micro_batches = 2),
          "weir_generate_options.ranks is needed: 1 or more" },
        { WEIR_OPTIONS(generate, .name = "1f1b", .ranks = 2),
          "weir_generate_options.micro_batches is needed: 1 or more" },
        { WEIR_OPTIONS(generate, .name = "1f1b", .ranks = 2, .micro_batches = 2, .segments = 65),
          "stages are cut into 2 to 64 segments, not 65" },
        { WEIR_OPTIONS(generate, .name = "1f2b", .ranks = 2, .micro_batches = 2), NULL },
        { WEIR_OPTIONS(generate, .name = "zb-v", .ranks = 3, .micro_batches = 6, .replicas = { replicas, 2 }), NULL },
        { WEIR_OPTIONS(generate, .name = "1f1b", .ranks = UINT32_MAX, .micro_batches = UINT32_MAX), NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        assert_null(weir_schedule_generate(rows[i].generating, &error));
        assert_int_equal(error.code, 2);
        if (rows[i].sentence)
            assert_error(error, rows[i].sentence);
    }
    struct weir_error error = { 0 };
    assert_null(weir_schedule_generate(NULL, &error));
    assert_error(error, "weir_generate_options.name is needed: \"1f1b\", \"gpipe\", \"zb-h1\", ...");
    error = (struct weir_error){ 0 };
    assert_null(weir_schedule_read("0F0,1B", 6, "half.csv", &error));
    assert_true(error.code == 2 && strncmp(error.text, "half.csv:", 9) == 0);
    struct weir_schedule *schedule = generated("1f1b", 2, 2);
    error = (struct weir_error){ 0 };
    assert_null(weir_schedule_csv(schedule, WEIR_OPTIONS(csv, .dialect = "torch1"), &error));
    assert_error(error, "dialect: \"torch1\" is none of torch2.6, torch2.9: did you mean torch2.6?");
    weir_schedule_free(schedule);
}

static void replicas_are_dealt_micro_batches(void **state)
{
    (void)state;
    static const uint32_t replicas[] = { 2, 1 };
    struct weir_error error = { 0 };
    const struct weir_generate_options generating = { .size = sizeof generating, .name = "1f1b", .ranks = 3,
                                                      .micro_batches = 4, .replicas = { replicas, 2 } };
    struct weir_schedule *schedule = weir_schedule_generate(&generating, &error);
    assert_good(schedule, error);
    char *document = weir_schedule_document(schedule, &error);
    assert_non_null(strstr(document, "\"stages\": 2"));
    weir_text_free(document);
    weir_schedule_free(schedule);
}

// --- check ----------------------------------------------------------------------------

static bool runs(const struct weir_schedule *schedule, const struct weir_check_options *checking)
{
    struct weir_error error = { 0 };
    char *found = weir_schedule_check(schedule, checking, &error);
    assert_good(found, error);
    assert_non_null(strstr(found, "\"format\": \"weir.check\""));
    const bool ok = strstr(found, "\"ok\": true");
    weir_text_free(found);
    return ok;
}

static void check_says_with_which_sends_it_runs(void **state)
{
    (void)state;
    struct weir_schedule *schedule = generated("1f1b", 2, 4);
    const struct weir_price_options pricing = { .size = sizeof pricing, .costs = "1us,1us,1us,1us",
                                                .kept_forward_bytes = 1000 };
    assert_true(runs(schedule, NULL));
    assert_false(runs(schedule, WEIR_OPTIONS(check, .receives = "late")));
    assert_true(runs(schedule, WEIR_OPTIONS(check, .receives = "late", .buffered_sends = 1)));
    assert_true(runs(schedule, WEIR_OPTIONS(check, .receives = "timed", .price = &pricing, .grouped = true)));
    assert_true(runs(schedule, WEIR_OPTIONS(check, .memory_bytes = 2000, .price = &pricing)));
    assert_false(runs(schedule, WEIR_OPTIONS(check, .memory_bytes = 1999, .price = &pricing)));
    struct weir_error error = { 0 };
    assert_null(weir_schedule_check(schedule, WEIR_OPTIONS(check, .memory_bytes = 1), &error));
    assert_error(error, "memory: says nothing of a schedule without costs");
    error = (struct weir_error){ 0 };
    assert_null(weir_schedule_check(schedule, WEIR_OPTIONS(check, .receives = "soon"), &error));
    assert_error(error, "receives: \"soon\" is none of early, late, timed");
    weir_schedule_free(schedule);
}

// --- simulations ------------------------------------------------------------------------

// GPipe's makespan is (m + p - 1) (F + B).
static void a_schedule_takes_what_the_formula_says(void **state)
{
    (void)state;
    const struct weir_price_options pricing = { .size = sizeof pricing, .costs = "1us,1us,1us,0us" };
    for (uint32_t ranks = 1; ranks < 5; ranks++) {
        struct weir_error error = { 0 };
        struct weir_schedule *schedule = generated("gpipe", ranks, 6);
        struct weir_simulation *simulation = weir_schedule_simulate(schedule, &pricing, &error);
        assert_good(simulation, error);
        char *document = weir_simulation_document(simulation, &error), expected[60];
        snprintf(expected, sizeof expected, "\"iteration_ns\": %u,", 3000 * (6 + ranks - 1));
        assert_non_null(strstr(document, expected));
        weir_text_free(document);
        weir_simulation_free(simulation);
        weir_schedule_free(schedule);
    }
}

// What the plan has predicted, by its schedule and cluster.
static void a_plans_schedule_takes_what_the_plan_does(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_profile *profile = made_profile(8);
    struct weir_plan *plan = made_plan(profile, "zb-v");
    struct weir_simulation *one = weir_plan_simulate(plan, &error), *other;
    struct weir_schedule *schedule = weir_plan_schedule(plan, &error);
    assert_good(one && schedule, error);
    const struct weir_price_options pricing = { .size = sizeof pricing, .cluster = small_cluster };
    assert_good(other = weir_schedule_simulate(schedule, &pricing, &error), error);
    char *a = weir_simulation_document(one, &error), *b = weir_simulation_document(other, &error);
    const char *at = strstr(a, "\"iteration_ns\""), *there = strstr(b, "\"iteration_ns\"");
    assert_memory_equal(at, there, strcspn(at, "\n") + 1);
    weir_text_free(a), weir_text_free(b);
    assert_good(a = weir_simulation_text(one, &error), error);
    assert_non_null(strstr(a, "critical path"));
    weir_text_free(a);
    weir_simulation_free(one), weir_simulation_free(other), weir_simulation_free(NULL);
    weir_schedule_free(schedule);
    weir_plan_free(plan);
    weir_profile_free(profile);
}

#define COSTS "{\"forward_ns\": 1, \"backward_input_ns\": 1, \"backward_weight_ns\": 1}"

static void costs_are_refused_in_words(void **state)
{
    (void)state;
    const struct {
        const struct weir_price_options *pricing;
        const char *sentence;
    } rows[] = {
        { WEIR_OPTIONS(price, .costs = NULL), "the schedule has no costs: give F,I,W,C or a document of them" },
        { WEIR_OPTIONS(price, .costs = "{}"), "costs: format: is missing" },
        { WEIR_OPTIONS(price, .costs = "{\"format\": \"weir.costs\", \"version\": 1, \"costs\": [" COSTS ", " COSTS
                                       ", " COSTS "]}"),
          "costs: has costs of 3 stages, not of 2" },
        { WEIR_OPTIONS(price, .costs = "1us,1us,1us,1us", .cluster = "1 device, 1GiB, 1GB/s 1us"),
          "the cluster has 1 devices, and the schedule 2 ranks" },
    };
    struct weir_schedule *schedule = generated("1f1b", 2, 2);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        assert_null(weir_schedule_simulate(schedule, rows[i].pricing, &error));
        assert_error(error, rows[i].sentence);
        assert_int_equal(error.code, 2);
    }
    weir_schedule_free(schedule);
}

// Bytes alone are enough to ask for peaks.
static void what_is_kept_needs_no_times(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    const struct weir_price_options pricing = { .size = sizeof pricing, .kept_forward_bytes = 100 };
    struct weir_schedule *schedule = generated("gpipe", 2, 3);
    struct weir_simulation *simulation = weir_schedule_simulate(schedule, &pricing, &error);
    assert_good(simulation, error);
    char *document = weir_simulation_document(simulation, &error);
    assert_non_null(strstr(document, "\"iteration_ns\": 0,"));
    assert_non_null(strstr(document, "\"live_peak_bytes\": 300,"));
    weir_text_free(document);
    weir_simulation_free(simulation);
    weir_schedule_free(schedule);
}

static void what_no_document_can_hold_is_refused(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    const struct weir_price_options pricing = { .size = sizeof pricing, .costs = "9000000s,1s,1s,0us" };
    struct weir_schedule *schedule = generated("gpipe", 2, 3);
    assert_null(weir_schedule_simulate(schedule, &pricing, &error));
    assert_error(error, "an iteration takes more than 2^53 - 1 ns, 104 days: its costs or the cluster's latency are too "
                        "high");
    assert_int_equal(error.code, 2);
    weir_schedule_free(schedule);
}

static void a_simulation_is_drawn(void **state)
{
    (void)state;
    static const char *const begins[] = { [WEIR_CHART] = "rank 0", [WEIR_SVG] = "<svg", [WEIR_PAGE] = "<!",
                                          [WEIR_TRACE] = "{" };
    struct weir_error error = { 0 };
    struct weir_schedule *schedule = generated("1f1b", 2, 3);
    const struct weir_price_options pricing = { .size = sizeof pricing, .costs = "1,1,1,0" };
    struct weir_simulation *simulation = weir_schedule_simulate(schedule, &pricing, &error);
    assert_good(simulation, error);
    char *usual = weir_simulation_draw(simulation, NULL, &error);
    for (int picture = WEIR_CHART; picture <= WEIR_TRACE; picture++) {
        const struct weir_draw_options drawing = { .size = sizeof drawing, .picture = (enum weir_picture)picture };
        char *drawn = weir_simulation_draw(simulation, &drawing, &error);
        assert_good(drawn, error);
        assert_memory_equal(drawn, begins[picture], strlen(begins[picture]));
        if (picture == WEIR_CHART)
            assert_string_equal(drawn, usual);
        weir_text_free(drawn);
    }
    assert_null(weir_simulation_draw(simulation, WEIR_OPTIONS(draw, .picture = (enum weir_picture)7), &error));
    assert_error(error, "picture: 7 is none of a chart, an SVG, a page and a trace");
    weir_text_free(usual);
    weir_simulation_free(simulation);
    weir_schedule_free(schedule);
}

// --- search -----------------------------------------------------------------------------

static void an_order_has_a_bound(void **state)
{
    (void)state;
    struct weir_error error = { 0 };
    struct weir_found found;
    const struct weir_search_options searching = { .size = sizeof searching, .ranks = 4, .micro_batches = 8,
                                                   .price = WEIR_OPTIONS(price, .costs = "10us,12us,8us,1us") };
    struct weir_schedule *schedule = weir_search(&searching, &found, &error), *again;
    assert_good(schedule, error);
    assert_true(found.bound_ns > 0 && found.bound_ns <= found.time_ns && found.method[0]);
    assert_true(found.proved == (found.bound_ns == found.time_ns));
    assert_true(runs(schedule, NULL));
    assert_good(again = weir_search(&searching, NULL, &error), error);
    weir_schedule_free(schedule), weir_schedule_free(again);
}

static void a_search_that_cannot_be_is_refused(void **state)
{
    (void)state;
    const struct {
        const struct weir_search_options *searching;
        int code;
        const char *sentence;
    } rows[] = {
        { WEIR_OPTIONS(search, .micro_batches = 2), 2, "weir_search_options.ranks is needed: 1 or more" },
        { WEIR_OPTIONS(search, .ranks = 2), 2, "weir_search_options.micro_batches is needed: 1 or more" },
        { WEIR_OPTIONS(search, .ranks = 2, .micro_batches = 2), 2,
          "weir_price_options.costs is needed: \"18522us,18086us,9337us,601us\", F, I, W and a message's latency, or a"
          " document's text" },
        { WEIR_OPTIONS(search, .ranks = 2, .micro_batches = 2, .price = WEIR_OPTIONS(price, .costs = "1,1,1,0"),
                       .placement = "w"), 2, "placement: \"w\" is none of one-way, v, wave" },
        { WEIR_OPTIONS(search, .ranks = 2, .micro_batches = 2, .price = WEIR_OPTIONS(price, .costs = "1,1,1,0"),
                       .objective = "joy"), 2, "objective: \"joy\" is none of span, makespan" },
        { WEIR_OPTIONS(search, .ranks = 70000, .micro_batches = 2, .price = WEIR_OPTIONS(price, .costs = "1,1,1,0")), 2,
          "ranks: is more than 65535" },
        { WEIR_OPTIONS(search, .ranks = 2, .micro_batches = 2, .memory_bytes = 10,
            .price = WEIR_OPTIONS(price, .costs = "1,1,1,0", .kept_forward_bytes = 11)), 1, NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct weir_error error = { 0 };
        assert_null(weir_search(rows[i].searching, NULL, &error));
        assert_int_equal(error.code, rows[i].code);
        if (rows[i].sentence)
            assert_error(error, rows[i].sentence);
    }
    struct weir_error error = { 0 };
    assert_null(weir_search(NULL, NULL, &error));
    assert_error(error, rows[0].sentence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schedule_goes_to_every_form_and_back),
        cmocka_unit_test(stages_are_cut_into_segments),
        cmocka_unit_test(what_no_schedule_can_be_is_refused),
        cmocka_unit_test(replicas_are_dealt_micro_batches),
        cmocka_unit_test(check_says_with_which_sends_it_runs),
        cmocka_unit_test(a_schedule_takes_what_the_formula_says),
        cmocka_unit_test(a_plans_schedule_takes_what_the_plan_does),
        cmocka_unit_test(costs_are_refused_in_words),
        cmocka_unit_test(what_is_kept_needs_no_times),
        cmocka_unit_test(what_no_document_can_hold_is_refused),
        cmocka_unit_test(a_simulation_is_drawn),
        cmocka_unit_test(an_order_has_a_bound),
        cmocka_unit_test(a_search_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
