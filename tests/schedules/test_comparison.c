#include "schedules/compare/comparison.h"

#include "schedules/pictures/measured.h"
#include "tests/document.h"
#include "tests/schedules/planted_run.h"

// A plan, and a run of it that a plant makes another.
struct held {
    struct schedule *schedule;
    struct network *network;
    struct measured_run run;
};

static struct held hold(const struct plant *plant)
{
    struct error error = { 0 };
    uint64_t took_ns;
    struct held held = { planted_schedule(plant->schedule, plant), planted_links(plant, false), { .trace.iterations = 1 } };
    held.run.timeline = planted_run(plant, &took_ns);
    held.run.trace.stages = held.schedule->stages;
    held.run.trace.micro_batches = plant->micro_batches;
    assert_good(timeline_measure(&held.run.timeline, &held.run.simulation, &error), error);
    return held;
}

static void let_go(struct held *held)
{
    measured_run_clear(&held->run);
    network_free(held->network);
    schedule_free(held->schedule);
}

static const struct plant slow_stage = { .schedule = "1f1b", .ranks = 2, .chunks = 1, .micro_batches = 3,
                                         .latency_ns = { 50000, 0 }, .slow_stage = 1, .slow_percent = 20 };

// The page of the format shows the run of 1F1B on two ranks whose stage 1 takes a fifth longer than planned.
static void the_document_is_the_page_of_its_format(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct held held = hold(&slow_stage);
    held.schedule->costs[0].kept_forward_bytes = held.schedule->costs[1].kept_forward_bytes = 4096;
    simulation_clear(&held.run.simulation);
    assert_good(timeline_add_level(&held.run.timeline, (struct level){ 1, 1000000, 5000 }), error);
    assert_good(timeline_measure(&held.run.timeline, &held.run.simulation, &error), error);
    struct comparison comparison;
    assert_good(comparison_create(&comparison, held.schedule, held.network, &held.run, NULL, &error), error);
    struct text text = { 0 };
    comparison_write(&comparison, &text);
    char *example = test_document("docs/formats/comparison.md");
    assert_string_equal(text.data, example);
    free(example);
    text_clear(&text);
    comparison_clear(&comparison);
    let_go(&held);
}

static char *printed(const struct held *held)
{
    struct error error = { 0 };
    struct comparison comparison;
    struct text text = { 0 };
    assert_good(comparison_create(&comparison, held->schedule, held->network, &held->run, NULL, &error), error);
    comparison_print(&comparison, &text);
    comparison_clear(&comparison);
    char *words = text_take(&text, &error);
    assert_good(words, error);
    return words;
}

static struct expert_usage *two_layers(void)
{
    const struct expert_usage rows[] = {
        { .layer = "block1.experts", .batches = 48, .slowest_milli = 1620, .dropped_ppm = 71500, .is_planned = true,
          .planned_slowest_milli = 1510, .planned_dropped_ppm = 50000 },
        { .layer = "block3.experts", .batches = 48, .dropped_ppm = 0 },
    };
    struct expert_usage *copy = calloc(2, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, rows, sizeof rows);
    return copy;
}

static void experts_are_shown_as_planned_and_as_counted(void **state)
{
    (void)state;
    struct held held = hold(&slow_stage);
    struct error error = { 0 };
    struct comparison comparison;
    struct text text = { 0 }, document = { 0 };
    assert_good(comparison_create(&comparison, held.schedule, held.network, &held.run, NULL, &error), error);
    comparison.experts = two_layers();
    comparison.expert_count = 2;
    comparison_print(&comparison, &text);
    assert_non_null(strstr(text.data,
        "\nexperts                        slowest over even                 dropped\n"
        "                               planned   counted     planned     counted   counted in\n"
        "block1.experts                    1.51      1.62      5.00 %      7.15 %   48 micro-batches\n"
        "block3.experts                       -         -         -        0.00 %   48 micro-batches\n"));
    comparison_write(&comparison, &document);
    assert_non_null(strstr(document.data,
        "  \"experts\": [\n"
        "    {\"layer\": \"block1.experts\", \"batches\": 48, \"predicted_slowest_milli\": 1510, "
        "\"measured_slowest_milli\": 1620, \"predicted_dropped_ppm\": 50000, \"measured_dropped_ppm\": 71500},\n"
        "    {\"layer\": \"block3.experts\", \"batches\": 48, \"measured_dropped_ppm\": 0}\n"
        "  ],\n"));
    text_clear(&document);
    text_clear(&text);
    comparison_clear(&comparison);
    let_go(&held);
}

static void people_read_which_stage_was_slow(void **state)
{
    (void)state;
    struct held held = hold(&slow_stage);
    char *words = printed(&held);
    assert_non_null(strstr(words, "1f1b: 2 ranks, 2 stages, 3 micro-batches, iteration 0 of 0 to 0\n\n"));
    assert_non_null(strstr(words, "iteration                 12.5 ms       14.2 ms  +1.70 ms (+13.6 %)\n"));
    assert_non_null(strstr(words, "    1  F      x 3          1.00 ms       1.20 ms  +200 us (+20.0 %)\n"));
    assert_non_null(strstr(words, "\n  +1.70 ms  stage 1: its actions take longer than planned\n"));
    assert_null(strstr(words, "stage 0:"));
    assert_null(strstr(words, "updates"));
    free(words);
    let_go(&held);
}

// PyTorch's traces have no STEP: then neither side has, and it is said.
static void it_is_said_where_updates_are_left_out(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct held held = hold(&(struct plant){ .schedule = "1f1b", .ranks = 2, .chunks = 1, .micro_batches = 3 });
    struct timeline *timeline = &held.run.timeline;
    size_t kept = 0;
    for (size_t i = 0; i < timeline->span_count; i++) {
        if (timeline->spans[i].action.kind != ACTION_STEP)
            timeline->spans[kept++] = timeline->spans[i];
    }
    timeline->span_count = kept;
    simulation_clear(&held.run.simulation);
    assert_good(timeline_measure(timeline, &held.run.simulation, &error), error);
    char *words = printed(&held);
    assert_non_null(strstr(words, "the trace shows no updates: the plan's are left out as well\n"));
    assert_non_null(strstr(words, "iteration                 12.0 ms       12.0 ms  =\n"));
    free(words);
    let_go(&held);
}

static void other_work_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct held held = hold(&slow_stage);
    struct plant more = slow_stage;
    more.micro_batches = 4;
    struct schedule *longer = planted_schedule("1f1b", &more);
    struct comparison comparison;
    assert_false(comparison_create(&comparison, longer, NULL, &held.run, NULL, &error));
    assert_error(error, "0F3 on rank 0 is in the plan only: the two do not do the same work");
    comparison_clear(&comparison);
    schedule_free(longer);
    let_go(&held);
}

static void what_no_document_can_hold_is_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct held held = hold(&slow_stage);
    held.schedule->costs[0].forward_ns = UINT64_C(1) << 53;
    struct comparison comparison;
    assert_false(comparison_create(&comparison, held.schedule, NULL, &held.run, NULL, &error));
    assert_error(error, "an iteration takes more than 2^53 - 1 ns, 104 days: its costs or the cluster's latency are too "
                        "high");
    comparison_clear(&comparison);
    let_go(&held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_is_the_page_of_its_format),
        cmocka_unit_test(people_read_which_stage_was_slow),
        cmocka_unit_test(experts_are_shown_as_planned_and_as_counted),
        cmocka_unit_test(it_is_said_where_updates_are_left_out),
        cmocka_unit_test(other_work_is_refused),
        cmocka_unit_test(what_no_document_can_hold_is_refused),
    };
    return cmocka_run_group_tests_name("comparison", tests, NULL, NULL);
}
