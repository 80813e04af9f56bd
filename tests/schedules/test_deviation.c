#include "schedules/compare/deviation.h"

#include "tests/schedules/planted_run.h"

struct found {
    struct aligned aligned;
    struct deviation deviation;
    uint64_t took_ns;
};

static struct found find(const struct plant *plant)
{
    struct error error = { 0 };
    struct found found;
    struct timeline timeline = planted_run(plant, &found.took_ns);
    struct schedule *schedule = planted_schedule(plant->schedule, plant);
    struct network *network = planted_links(plant, false);
    assert_good(aligned_create(&found.aligned, schedule, network, &timeline, &error), error);
    assert_good(deviation_find(&found.aligned, NULL, &found.deviation, &error), error);
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

static void a_slow_exchange_is_found(void **state)
{
    (void)state;
    for (uint32_t micro_batches = 1; micro_batches < 9; micro_batches++) {
        const struct plant plant = { .schedule = "tables-ahead", .ranks = 1, .chunks = 2,
                                     .micro_batches = micro_batches, .exchange_ns = { 400000, 2900000 } };
        struct found found = find(&plant);
        const struct deviation_cause *first = found.deviation.causes;
        assert_true(apart(&found) > 0);
        if (first->kind != CAUSE_EXCHANGE || first->stage != 0)
            fail_msg("%u micro-batches: cause %u explains %lld of %lld ns", micro_batches, first->kind,
                     (long long)first->explains_ns, (long long)apart(&found));
        assert_int_equal(first->planned_ns, 400000);
        assert_int_equal(first->measured_ns, 2900000);
        assert_int_equal(first->explains_ns, apart(&found));
        assert_int_equal(found.deviation.together_ns, found.took_ns);
        forget(&found);
    }
}

// The stage as a whole explains as much, and comes first.
static void exchanges_within_actions_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        struct plant plant = shapes[i];
        plant.within_ns = 250000;
        struct found found = find(&plant);
        const int64_t late = apart(&found);
        const struct stage_exchange within[MOST_STAGES] = { { 50000, 300000 } };
        struct deviation deviation;
        struct error error = { 0 };
        assert_good(deviation_find(&found.aligned, within, &deviation, &error), error);
        assert_true(late > 0 && deviation.cause_count >= 2);
        assert_int_equal(deviation.causes[0].kind, CAUSE_STAGE);
        assert_int_equal(deviation.causes[1].kind, CAUSE_WITHIN);
        assert_int_equal(deviation.causes[1].stage, 0);
        assert_int_equal(deviation.causes[1].planned_ns, 50000);
        assert_int_equal(deviation.causes[1].measured_ns, 300000);
        assert_int_equal(deviation.causes[1].explains_ns, late);
        assert_int_equal(deviation.together_ns, found.took_ns);
        deviation_clear(&deviation);
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
    struct timeline fewer = planted_run(&two, &took_ns), many = planted_run(&more, &took_ns);
    struct schedule *schedule = planted_schedule("1f1b", &two), *longer = planted_schedule("1f1b", &more);
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
    struct timeline timeline = planted_run(&plant, &took_ns);
    size_t kept = 0;
    for (size_t i = 0; i < timeline.span_count; i++) {
        if (timeline.spans[i].action.kind != ACTION_STEP)
            timeline.spans[kept++] = timeline.spans[i];
    }
    timeline.span_count = kept;
    struct schedule *schedule = planted_schedule("1f1b", &plant);
    struct network *network = planted_links(&plant, false);
    struct aligned aligned;
    assert_good(aligned_create(&aligned, schedule, network, &timeline, &error), error);
    assert_int_equal(aligned.planned_ns, aligned.measured_ns);
    assert_int_equal(aligned.planned_ns, took_ns - 300000);
    aligned_clear(&aligned);
    network_free(network);
    schedule_free(schedule);
    timeline_clear(&timeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_as_planned_has_no_causes),
        cmocka_unit_test(a_slow_stage_is_found),
        cmocka_unit_test(a_slow_link_is_found),
        cmocka_unit_test(a_slow_exchange_is_found),
        cmocka_unit_test(exchanges_within_actions_are_found),
        cmocka_unit_test(gaps_are_found),
        cmocka_unit_test(noise_is_found),
        cmocka_unit_test(another_order_is_found),
        cmocka_unit_test(the_worst_of_several_comes_first),
        cmocka_unit_test(rows_are_averages_per_stage_and_kind),
        cmocka_unit_test(unlike_runs_are_refused),
        cmocka_unit_test(what_no_trace_shows_is_left_out),
    };
    return cmocka_run_group_tests_name("deviation", tests, NULL, NULL);
}
