// Whole pipelines of synthetic stages on a device, and what must hold of a step of them.
#ifndef TESTS_RUNTIME_SYNTHETIC_PIPELINE_H
#define TESTS_RUNTIME_SYNTHETIC_PIPELINE_H

#include <stdio.h>
#include <string.h>

#include "partitioner/plan/placement.h"
#include "runtime/run.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"
#include "tests/runtime/synthetic.h"
#include "tests/test.h"

enum { MOST_STAGES = 64 };

struct pipeline {
    struct device *device;
    struct schedule *lowered;
    struct cost_row costs[MOST_STAGES];
    struct synthetic synthetic[MOST_STAGES];
    struct stage stages[MOST_STAGES];
};

static inline struct cost_row row_of(uint32_t stage)
{
    return (struct cost_row){ .output_bytes = 1024 + 256 * stage, .kept_forward_bytes = 2048, .kept_weight_bytes = 512,
                              .transient_bytes = 768, .version_bytes = 1280 };
}

static inline struct pipeline pipeline_of(const char *device, struct schedule *lowered)
{
    struct error error = { 0 };
    struct pipeline pipeline = { .device = device_open(device, &error), .lowered = lowered };
    assert_good(pipeline.device, error);
    assert_true(lowered->stages <= MOST_STAGES);
    for (uint32_t s = 0; s < lowered->stages; s++)
        pipeline.costs[s] = row_of(s);
    for (uint32_t s = 0; s < lowered->stages; s++)
        pipeline.synthetic[s] = synthetic_from_costs(pipeline.costs, lowered->stages, s);
    return pipeline;
}

static inline void set_stages(struct pipeline *pipeline)
{
    for (uint32_t s = 0; s < pipeline->lowered->stages; s++) {
        pipeline->synthetic[s].rows = pipeline->costs;  // where they are now
        pipeline->stages[s] = synthetic_stage(&pipeline->synthetic[s]);
    }
}

static inline struct pipeline pipeline_named(const char *device, const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate(name, ranks, 0, micro_batches, &error);
    assert_good(order, error);
    struct schedule *lowered = schedule_lower(order, &error);
    assert_good(lowered, error);
    schedule_free(order);
    return pipeline_of(device, lowered);
}

static inline struct pipeline pipeline_read(const char *device, const char *document)
{
    struct error error = { 0 };
    struct schedule *order = schedule_read(document, strlen(document), "test", &error);
    assert_good(order, error);
    struct schedule *lowered = order->lowered ? schedule_copy(order, &error) : schedule_lower(order, &error);
    assert_good(lowered, error);
    schedule_free(order);
    return pipeline_of(device, lowered);
}

static inline void pipeline_clear(struct pipeline *pipeline)
{
    schedule_free(pipeline->lowered);
    device_close(pipeline->device);
}

static inline struct session_settings plain_settings(void)
{
    return (struct session_settings){ .optimizer = { .kind = OPTIMIZER_SGD, .rate = 1.0f } };
}

static inline struct session *open_session(struct pipeline *pipeline, const struct session_settings *settings)
{
    struct error error = { 0 };
    set_stages(pipeline);
    struct session *session = session_create(pipeline->lowered, pipeline->stages, pipeline->device, settings, &error);
    assert_good(session, error);
    return session;
}

// --- what runs ---------------------------------------------------------------------------------

// Every rank did its list in order, and every message came to its rank.
static inline void assert_timeline_is_schedule(struct session *session, const struct schedule *lowered)
{
    struct error error = { 0 };
    struct timeline timeline = { 0 };
    assert_good(session_timeline(session, &timeline, &error), error);
    size_t span = 0, sends = 0;
    for (uint32_t rank = 0; rank < lowered->ranks; rank++) {
        uint64_t last_ns = 0;
        for (size_t i = 0; i < lowered->lists[rank].count; i++) {
            const struct action action = lowered->lists[rank].at[i];
            sends += action.kind == ACTION_SEND_F || action.kind == ACTION_SEND_B;
            if (action.kind >= ACTION_SEND_F && action.kind <= ACTION_RECV_B)
                continue;
            assert_true(span < timeline.span_count);
            assert_int_equal(timeline.spans[span].rank, rank);
            assert_memory_equal(&timeline.spans[span].action, &action, sizeof action);
            const bool joined = i > 0 && lowered->lists[rank].at[i - 1].joined;
            assert_true(joined ? timeline.spans[span].start_ns == timeline.spans[span - 1].start_ns
                               : timeline.spans[span].start_ns >= last_ns);
            last_ns = timeline.spans[span++].end_ns;
        }
    }
    assert_int_equal(timeline.span_count, span);
    assert_int_equal(timeline.message_count, sends);
    timeline_clear(&timeline);
}

// How many actions of a kind a stage has on one of its ranks.
static inline uint32_t count_actions(const struct schedule *schedule, uint32_t stage, enum action_kind kind)
{
    const struct action_list *list = &schedule->lists[schedule->routes[stage]];
    uint32_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += list->at[i].stage == stage && list->at[i].kind == kind;
    return count;
}

// Each backward adds 1 to the gradient, and the rate is 1. A flush adds up all of an
// iteration; otherwise each update is a mean, of losses that are shares of `samples`.
// Copies are alike.
static inline void assert_updates(struct session *session, const struct pipeline *pipeline, uint32_t steps)
{
    const struct schedule *schedule = pipeline->lowered;
    const bool goes_back = count_actions(schedule, 0, ACTION_B) + count_actions(schedule, 0, ACTION_I) > 0;
    for (uint32_t s = 0; s < schedule->stages; s++) {
        const uint32_t updates = schedule->weights == WEIGHTS_FLUSH ? goes_back
                                                                    : count_actions(schedule, s, ACTION_STEP);
        const float sum = (float)(steps * updates * schedule_samples(schedule) * schedule->splits);
        for (uint32_t copy = 0; copy < session_copies(session, s); copy++) {
            struct error error = { 0 };
            float weight;
            const struct state_span span = { .stage = s, .count = 1 };
            assert_good(session_read_and_tell(session, &span, copy, &weight, &error), error);
            assert_true(weight == -sum);
        }
    }
}

static inline void run_in_all_ways(struct pipeline *pipeline, const char *what)
{
    static const struct {
        enum waiting waiting;
        uint32_t capacity;
    } ways[] = { { WAIT_AT_USE, 0 },   { WAIT_AT_USE, 1 },   { WAIT_AT_USE, TRANSPORT_UNLIMITED },
                 { WAIT_IN_ORDER, 0 }, { WAIT_IN_ORDER, 2 } };
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        struct session_settings settings = plain_settings();
        settings.waiting = ways[way].waiting;
        settings.capacity = ways[way].capacity;
        struct session *session = open_session(pipeline, &settings);
        for (uint32_t step = 1; step <= 3; step++) {
            struct error error = { 0 };
            if (!session_step(session, &error))
                fail_msg("%s, way %zu, step %u: %s", what, way, step, error.text);
            assert_updates(session, pipeline, step);
        }
        assert_timeline_is_schedule(session, pipeline->lowered);
        assert_true(session_last(session)->loss == (pipeline->lowered->micro_batches - 1) / 2.0);
        session_free(session);
    }
}

// --- schedules that have something of their own ---

// Zero-bubble like: B split into I and W, which come later; inputs live until W.
static const char split_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"split\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 3, \"routes\": [[0, 1]], \"route_of\": [0, 0, 0], \"actions\": ["
    "  \"0F0 0F1 0I0 0F2 0I1 0W0 0I2 0W1 0W2 0STEP\", \"1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2 1STEP\"] }";

// Stages 0 and 3 on rank 0, 1 and 2 on rank 1: a message at each turn but one.
static const char v_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"v\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 4, \"micro_batches\": 2, \"routes\": [[0, 1, 1, 0]], \"route_of\": [0, 0], \"actions\": ["
    "  \"0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1 0STEP 3STEP\","
    "  \"1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1 1STEP 2STEP\"] }";

// Forwards run again by an action of their own, ahead of their backward.
static const char recompute_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"again\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 2, \"routes\": [[0, 1]], \"route_of\": [0, 0], \"actions\": ["
    "  \"0F0 0F1 0R0 0B0 0B1 0STEP\", \"1F0 1B0 1F1 1B1 1STEP\"] }";

// Two routes in opposite directions: every stage has two copies.
static const char chimera_schedule[] =
    "{ \"format\": \"weir.schedule\", \"version\": 1, \"name\": \"both ways\", \"weights\": \"flush\", \"ranks\": 2,"
    "  \"stages\": 2, \"micro_batches\": 4, \"routes\": [[0, 1], [1, 0]], \"route_of\": [0, 0, 1, 1], \"actions\": ["
    "  \"0F0 0F1 1F2 1B2 1F3 1B3 0B0 0B1 0REDUCE 1REDUCE 0STEP 1STEP\","
    "  \"0F2 0F3 1F0 1B0 1F1 1B1 0B2 0B3 0REDUCE 1REDUCE 1STEP 0STEP\"] }";

static inline void run_generated(const char *device, const char *name, uint32_t ranks, uint32_t micro_batches)
{
    struct error error = { 0 };
    struct schedule *order = schedule_generate(name, ranks, 0, micro_batches, &error);
    const bool runs = order && order->stages <= 12;
    schedule_free(order);
    if (!runs)
        return;
    char what[100];
    snprintf(what, sizeof what, "%s of %u ranks, %u micro-batches", name, ranks, micro_batches);
    struct pipeline pipeline = pipeline_named(device, name, ranks, micro_batches);
    run_in_all_ways(&pipeline, what);
    pipeline_clear(&pipeline);
}

#endif
