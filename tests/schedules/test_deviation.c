#include "schedules/compare/deviation.h"

#include <stdlib.h>
#include <string.h>

#include "schedules/generators/generate.h"
#include "schedules/noise.h"
#include "schedules/pictures/measured.h"
#include "tests/document.h"
#include "tests/test.h"

// A plan, and how the run of it is to differ from it.
struct plant {
    const char *schedule;
    uint32_t ranks, chunks, micro_batches;
    uint32_t slow_stage, slow_percent;  // of its durations; 0: no stage is slow
    uint64_t latency_ns[2];             // of all links, planned; of the one from rank 0 to rank 1, as it was
    uint64_t gap_ns;                    // before every action
    uint32_t noise_ppm;
    uint64_t seed;
    const char *order;  // another schedule, whose order was run
};

enum { MOST_STAGES = 16 };

static void set_costs(struct schedule *schedule, const struct plant *plant)
{
    schedule->costs = calloc(schedule->stages, sizeof *schedule->costs);
    assert_non_null(schedule->costs);
    for (uint32_t stage = 0; stage < schedule->stages; stage++)
        schedule->costs[stage] = (struct cost_row){ .forward_ns = 1000000, .backward_ns = 2000000 + plant->seed,
                                                    .backward_input_ns = 1100000, .backward_weight_ns = 900000,
                                                    .step_ns = 300000 };
}

static struct schedule *make(const char *name, const struct plant *plant)
{
    struct error error = { 0 };
    struct schedule *schedule = schedule_generate(name, plant->ranks, plant->chunks, plant->micro_batches, &error);
    assert_good(schedule, error);
    set_costs(schedule, plant);
    return schedule;
}

static struct network *links(const struct plant *plant, bool as_it_was)
{
    struct error error = { 0 };
    const struct link link = { .latency_ns = plant->latency_ns[0] };
    struct network *network = network_uniform(plant->ranks, link, &error);
    assert_good(network, error);
    if (as_it_was && plant->latency_ns[1])
        network->links[network->link_of[1]].latency_ns = plant->latency_ns[1];
    return network;
}

// What each compute takes, in the order of the lists; VALIDATE and messages are none.
static void plant_durations(const struct schedule *schedule, const struct plant *plant, uint64_t *durations)
{
    uint64_t seed = plant->seed, draws[MOST_STAGES][ACTION_KINDS] = { { 0 } };
    size_t at = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++) {
        const struct action *end = list_end(&schedule->lists[rank]);
        for (const struct action *action = schedule->lists[rank].at; action < end; action += group_size(action, end)) {
            if (action->kind == ACTION_VALIDATE)
                continue;
            if (plant->slow_percent && action->stage == plant->slow_stage && action->kind <= ACTION_R)
                durations[at] += durations[at] * plant->slow_percent / 100;
            uint64_t *draw = &draws[action->stage][action->kind];  // every second takes the one before back
            *draw = action->micro_batch % 2 ? ~*draw : random_next(&seed);
            durations[at] = noise_apply(durations[at], plant->noise_ppm, *draw) + plant->gap_ns;
            at++;
        }
    }
}

// The run: simulated with other durations, links or order.
static struct timeline run(const struct plant *plant, uint64_t *iteration_ns)
{
    struct error error = { 0 };
    struct schedule *schedule = make(plant->order ? plant->order : plant->schedule, plant);
    struct network *network = links(plant, true);
    struct lane_world *world =
        lane_world_create(schedule, NULL, network, &(struct lane_rules){ .use = LANES_FREE }, &error);
    assert_good(world, error);
    size_t count;
    const uint64_t *planned = lane_world_durations(world, &count);
    uint64_t *durations = malloc((count + 1) * sizeof *durations);
    memcpy(durations, planned, count * sizeof *durations);
    plant_durations(schedule, plant, durations);
    struct timeline timeline = { 0 };
    struct lane_world_result result;
    assert_good(lane_world_run(world, durations, iteration_ns, &error), error);
    assert_good(lane_world_result(world, &result, &timeline, &error), error);
    for (size_t i = 0; i < timeline.span_count; i++)
        timeline.spans[i].start_ns += plant->gap_ns;
    *iteration_ns -= plant->gap_ns;  // nobody sees what came before the first start
    lane_world_result_clear(&result);
    lane_world_free(world);
    free(durations);
    network_free(network);
    schedule_free(schedule);
    return timeline;
}

struct found {
    struct aligned aligned;
    struct deviation deviation;
    uint64_t took_ns;
};

static struct found find(const struct plant *plant)
{
    struct error error = { 0 };
    struct found found;
    struct timeline timeline = run(plant, &found.took_ns);
    struct schedule *schedule = make(plant->schedule, plant);
    struct network *network = links(plant, false);
    assert_good(aligned_create(&found.aligned, schedule, network, &timeline, &error), error);
    assert_good(deviation_find(&found.aligned, &found.deviation, &error), error);
    assert_int_equal(found.deviation.measured_ns, found.took_ns);
    network_free(network);
    schedule_free(schedule);
    timeline_clear(&timeline);
    return found;
}

static void forget(struct found *found)
{
    deviation_clear(&found->deviation);
    aligned_clear(&found->aligned);
}

static int64_t apart(const struct found *found)
{
    return (int64_t)(found->deviation.measured_ns - found->deviation.planned_ns);
}

// --- causes that are planted ----------------------------------------------------------------

static const struct plant shapes[] = {
    { .schedule = "1f1b", .ranks = 4, .chunks = 1, .micro_batches = 12, .latency_ns = { 50000, 0 } },
    { .schedule = "gpipe", .ranks = 3, .chunks = 1, .micro_batches = 8, .latency_ns = { 0, 0 } },
    { .schedule = "zb-h1", .ranks = 4, .chunks = 1, .micro_batches = 12, .latency_ns = { 20000, 0 } },
    { .schedule = "interleaved", .ranks = 4, .chunks = 2, .micro_batches = 8, .latency_ns = { 30000, 0 } },
    { .schedule = "zb-v", .ranks = 4, .chunks = 2, .micro_batches = 12, .latency_ns = { 10000, 0 } },
    { .schedule = "1f1b", .ranks = 2, .chunks = 1, .micro_batches = 6, .latency_ns = { 1000, 0 } },
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void a_run_as_planned_has_no_causes(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct found found = find(&shapes[i]);
        assert_int_equal(apart(&found), 0);
        assert_int_equal(found.deviation.cause_count, 0);
        assert_int_equal(found.deviation.together_ns, found.deviation.planned_ns);
        forget(&found);
    }
}

static void a_slow_stage_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        for (uint32_t stage = 0; stage < shapes[i].ranks * shapes[i].chunks; stage++) {
            struct plant plant = shapes[i];
            plant.slow_stage = stage;
            plant.slow_percent = 20;
            struct found found = find(&plant);
            const struct deviation_cause *first = found.deviation.causes;
            if (apart(&found) <= 0)
                fail_msg("%s: stage %u: slower, but not later", plant.schedule, stage);
            if (first->kind != CAUSE_STAGE || first->stage != stage || first->explains_ns != apart(&found))
                fail_msg("%s: stage %u slow: cause %u of stage %u explains %lld of %lld ns", plant.schedule, stage,
                         first->kind, first->stage, (long long)first->explains_ns, (long long)apart(&found));
            assert_int_equal(found.deviation.together_ns, found.took_ns);
            forget(&found);
        }
    }
}

static void a_slow_link_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct plant plant = shapes[i];
        plant.latency_ns[1] = 900000;
        struct found found = find(&plant);
        const struct deviation_cause *first = found.deviation.causes;
        assert_true(apart(&found) > 0);
        if (first->kind != CAUSE_LINK || first->from != 0 || first->to != 1)
            fail_msg("%s: cause %u, %u to %u, explains %lld of %lld ns", plant.schedule, first->kind, first->from,
                     first->to, (long long)first->explains_ns, (long long)apart(&found));
        assert_int_equal(first->planned_ns, plant.latency_ns[0]);
        assert_int_equal(first->measured_ns, 900000);
        assert_int_equal(first->explains_ns, apart(&found));
        assert_int_equal(found.deviation.together_ns, found.took_ns);
        forget(&found);
    }
}

static void gaps_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct plant plant = shapes[i];
        plant.gap_ns = 120000;
        struct found found = find(&plant);
        const struct deviation_cause *first = found.deviation.causes;
        assert_true(apart(&found) > 0);
        if (first->kind != CAUSE_GAPS)
            fail_msg("%s: cause %u explains %lld of %lld ns", plant.schedule, first->kind,
                     (long long)first->explains_ns, (long long)apart(&found));
        assert_int_equal(found.deviation.together_ns, found.took_ns);
        assert_int_equal(found.deviation.cause_count, 1);
        forget(&found);
    }
}

static void noise_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct plant plant = shapes[i];
            plant.micro_batches = 48;
            plant.noise_ppm = 120000;
            plant.seed = seed;
            struct found found = find(&plant);
            const struct deviation_cause *first = found.deviation.causes;
            if (first->kind != CAUSE_NOISE)
                fail_msg("%s, seed %llu: cause %u explains %lld of %lld ns", plant.schedule, (unsigned long long)seed,
                         first->kind, (long long)first->explains_ns, (long long)apart(&found));
            assert_int_equal(found.deviation.together_ns, found.took_ns);
            forget(&found);
        }
    }
}

static void another_order_is_found(void **state)
{
    (void)state;
    const struct plant plant = { .schedule = "1f1b", .ranks = 4, .chunks = 1, .micro_batches = 8, .order = "gpipe",
                                 .latency_ns = { 400000, 0 } };
    struct found found = find(&plant);
    assert_true(apart(&found) != 0);
    assert_int_equal(found.deviation.causes[0].kind, CAUSE_ORDER);
    assert_int_equal(found.deviation.causes[0].explains_ns, apart(&found));
    assert_int_equal(found.deviation.together_ns, found.took_ns);
    forget(&found);
}

// With several at once they overlap, but all of them together are the run.
static void the_worst_of_several_comes_first(void **state)
{
    (void)state;
    struct plant plant = shapes[0];
    plant.slow_stage = 2;
    plant.slow_percent = 40;
    plant.gap_ns = 20000;
    plant.latency_ns[1] = 100000;
    plant.noise_ppm = 10000;
    plant.seed = 7;
    struct found found = find(&plant);
    assert_int_equal(found.deviation.causes[0].kind, CAUSE_STAGE);
    assert_int_equal(found.deviation.causes[0].stage, 2);
    for (size_t i = 1; i < found.deviation.cause_count; i++)
        assert_true(found.deviation.causes[i - 1].explains_ns >= found.deviation.causes[i].explains_ns);
    const int64_t rest = (int64_t)(found.took_ns - found.deviation.together_ns);
    assert_true(llabs(rest) * 100 < apart(&found));
    forget(&found);
}

static void rows_are_averages_per_stage_and_kind(void **state)
{
    (void)state;
    struct plant plant = shapes[2];
    plant.slow_stage = 1;
    plant.slow_percent = 50;
    struct found found = find(&plant);
    assert_int_equal(found.deviation.row_count, 4 * 4);  // F, I, W, STEP of four stages
    const struct deviation_row *row = &found.deviation.rows[4];
    assert_int_equal(row->stage, 1);
    assert_int_equal(row->kind, ACTION_F);
    assert_int_equal(row->count, 12);
    assert_int_equal(row->planned_ns, 1000000);
    assert_int_equal(row->measured_ns, 1500000);
    forget(&found);
}

// --- what cannot be compared ------------------------------------------------------------------

static void unlike_runs_are_refused(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct plant two = { .schedule = "1f1b", .ranks = 2, .chunks = 1, .micro_batches = 2 };
    const struct plant more = { .schedule = "1f1b", .ranks = 2, .chunks = 1, .micro_batches = 3 };
    uint64_t took_ns;
    struct timeline fewer = run(&two, &took_ns), many = run(&more, &took_ns);
    struct schedule *schedule = make("1f1b", &two), *longer = make("1f1b", &more);
    struct aligned aligned;
    assert_false(aligned_create(&aligned, longer, NULL, &fewer, &error));
    assert_error(error, "0F2 on rank 0 is in the plan only: the two do not do the same work");
    error = (struct error){ 0 };
    assert_false(aligned_create(&aligned, schedule, NULL, &many, &error));
    assert_error(error, "0F2 on rank 0 is in the measured run only: the two do not do the same work");
    error = (struct error){ 0 };
    fewer.ranks = 3;
    assert_false(aligned_create(&aligned, schedule, NULL, &fewer, &error));
    assert_error(error, "the plan has 2 ranks, and the measured run 3");
    timeline_clear(&fewer);
    timeline_clear(&many);
    schedule_free(schedule);
    schedule_free(longer);
}

// PyTorch's traces have no STEP: the plan is taken without it, too.
static void what_no_trace_shows_is_left_out(void **state)
{
    (void)state;
    struct error error = { 0 };
    const struct plant plant = shapes[0];
    uint64_t took_ns;
    struct timeline timeline = run(&plant, &took_ns);
    size_t kept = 0;
    for (size_t i = 0; i < timeline.span_count; i++) {
        if (timeline.spans[i].action.kind != ACTION_STEP)
            timeline.spans[kept++] = timeline.spans[i];
    }
    timeline.span_count = kept;
    struct schedule *schedule = make("1f1b", &plant);
    struct network *network = links(&plant, false);
    struct aligned aligned;
    assert_good(aligned_create(&aligned, schedule, network, &timeline, &error), error);
    assert_int_equal(aligned.planned_ns, aligned.measured_ns);
    assert_int_equal(aligned.planned_ns, took_ns - 300000);
    aligned_clear(&aligned);
    network_free(network);
    schedule_free(schedule);
    timeline_clear(&timeline);
}

// The page of the format shows the run of 1F1B on two ranks whose stage 1 takes a fifth longer than planned.
static void the_document_is_the_page_of_its_format(void **state)
{
    (void)state;
    struct error error = { 0 };
    struct plant plant = { .schedule = "1f1b", .ranks = 2, .chunks = 1, .micro_batches = 3, .latency_ns = { 50000, 0 },
                           .slow_stage = 1, .slow_percent = 20 };
    uint64_t took_ns;
    struct timeline timeline = run(&plant, &took_ns);
    const uint64_t peaks[2] = { 8192, 4096 };
    struct found found = find(&plant);
    struct simulation predicted, measured;
    assert_good(timeline_add_level(&timeline, (struct level){ 1, 1000000, 5000 }), error);
    assert_good(timeline_measure(&timeline, &measured, &error), error);
    assert_good(schedule_simulate(found.aligned.schedule, NULL, found.aligned.network, &predicted, NULL, &error),
                error);
    struct text text = { 0 };
    comparison_write(&(struct comparison){ "1f1b", &predicted, &measured, peaks, &found.deviation }, &text);
    char *example = test_document("docs/formats/comparison.md");
    assert_string_equal(text.data, example);
    free(example);
    text_clear(&text);
    simulation_clear(&predicted);
    simulation_clear(&measured);
    timeline_clear(&timeline);
    forget(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_as_planned_has_no_causes),
        cmocka_unit_test(a_slow_stage_is_found),
        cmocka_unit_test(a_slow_link_is_found),
        cmocka_unit_test(gaps_are_found),
        cmocka_unit_test(noise_is_found),
        cmocka_unit_test(another_order_is_found),
        cmocka_unit_test(the_worst_of_several_comes_first),
        cmocka_unit_test(rows_are_averages_per_stage_and_kind),
        cmocka_unit_test(unlike_runs_are_refused),
        cmocka_unit_test(what_no_trace_shows_is_left_out),
        cmocka_unit_test(the_document_is_the_page_of_its_format),
    };
    return cmocka_run_group_tests_name("deviation", tests, NULL, NULL);
}
