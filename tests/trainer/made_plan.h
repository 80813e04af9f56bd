// Plans made by hand, of small models, for tests that try many of them.
#ifndef TESTS_TRAINER_MADE_PLAN_H
#define TESTS_TRAINER_MADE_PLAN_H

#include <stdio.h>
#include <string.h>

#include "partitioner/plan/placement.h"
#include "partitioner/plan/plan.h"
#include "schedules/generators/generate.h"
#include "tests/test.h"
#include "trainer/model_spec.h"

enum { MOST = 8, MOST_RANKS = 12 };

// A plan made by hand: cuts, segments and a schedule, with what a pipeline needs of it.
struct made {
    struct plan plan;
    struct plan_stage stages[MOST];
    struct segment segments[MOST][MOST];
    char *names[MOST];
    uint32_t devices[MOST][MOST_RANKS];
};

// What a trial draws: a schedule that its generator accepts, and a plan of it. False if it
// does not, or there are more stages than layers.
struct asked {
    const struct generator *generator;
    uint32_t ranks, chunks, micro_batches;
    const uint32_t *replicas;  // or NULL
    uint32_t stages;           // of them
};

static inline bool set_schedule(struct made *made, const struct asked *asked)
{
    struct error error = { 0 };
    const struct generate_request request = { .ranks = asked->ranks, .chunks = asked->chunks,
                                              .micro_batches = asked->micro_batches, .replicas = asked->replicas,
                                              .stages = asked->stages };
    struct schedule *schedule = schedule_generate_as(asked->generator->name, &request, &error);
    struct placement *placement = schedule ? placement_read(schedule, &error) : NULL;
    const bool good = placement && schedule->stages <= MOST && schedule->ranks <= MOST_RANKS;
    if (good) {
        snprintf(made->plan.schedule, sizeof made->plan.schedule, "%s", asked->generator->name);
        made->plan.weights = schedule->weights;
        made->plan.ranks = asked->ranks;
        made->plan.chunks = asked->chunks ? asked->chunks : asked->generator->usual_chunks;
        made->plan.micro_batches = asked->micro_batches;
        made->plan.stages = made->stages;
        made->plan.stage_count = schedule->stages;
        made->plan.model = "by hand";
        for (uint32_t s = 0; s < schedule->stages; s++) {
            made->stages[s].device_count = placement_copies(placement, s);
            for (uint32_t copy = 0; copy < made->stages[s].device_count; copy++)
                made->devices[s][copy] = placement_rank(placement, s, copy);
        }
    }
    placement_free(placement);
    schedule_free(schedule);
    return good;
}

static inline void cut(struct made *made, struct model *model, uint64_t *seed, bool recompute)
{
    const uint32_t layers = (uint32_t)model->layer_count, stages = (uint32_t)made->plan.stage_count;
    for (uint32_t l = 0; l < layers; l++)
        made->names[l] = model->layers[l].name;
    uint32_t first = 0;
    for (uint32_t s = 0; s < stages; s++) {
        const uint32_t most = layers - first - (stages - 1 - s);
        const uint32_t length = s + 1 == stages ? most : 1 + (uint32_t)random_below(seed, most);
        struct plan_stage *stage = &made->stages[s];
        stage->first = first;
        stage->end = first + length;
        stage->layers = made->names + first;
        stage->devices = made->devices[s];
        stage->recompute = made->segments[s];
        for (uint32_t l = first; recompute && l < stage->end;) {
            const uint32_t segment = 1 + (uint32_t)random_below(seed, stage->end - l);
            if (random_below(seed, 2))
                stage->recompute[stage->recompute_count++] = (struct segment){ l, l + segment };
            l += segment;
        }
        first = stage->end;
    }
}

// Of one model in two, some is dropped.
static inline struct model *drawn_model(const char *spec, uint64_t *seed, enum precision precision)
{
    struct error error = { 0 };
    char text[128];
    snprintf(text, sizeof text, "%s%s", spec, random_below(seed, 2) ? ",dropout=0.2" : "");
    struct model *model = model_from_spec(text, precision, &error);
    assert_good(model, error);
    assert_int_equal(model->layer_count, MOST);
    return model;
}

static inline struct model *small_model(uint64_t *seed, enum precision precision)
{
    return drawn_model("gpt-nano,width=16,blocks=3,heads=2,sequence=8,micro_batch=2", seed, precision);
}

static inline struct model *tied_model(uint64_t *seed, enum precision precision)
{
    return drawn_model("gpt-nano,tied,width=16,blocks=3,heads=2,sequence=8,micro_batch=2", seed, precision);
}

// Four sequences of 64 positions, which the usual four splits of seq1f1b divide.
static inline struct model *long_model(uint64_t *seed, enum precision precision)
{
    return drawn_model("gpt-nano,width=16,blocks=3,heads=2,sequence=64,micro_batch=4", seed, precision);
}

static inline struct model *long_tied_model(uint64_t *seed, enum precision precision)
{
    return drawn_model("gpt-nano,tied,width=16,blocks=3,heads=2,sequence=64,micro_batch=4", seed, precision);
}

// Those that do each thing at once, those that run ahead and those that replay, in float, bfloat16 and fp16.
static inline const char *device_of(uint64_t trial, enum precision precision)
{
    static const char *const names[][6] = {
        { "cpu", "cpu:queued", "cpu", "cpu", "cpu:queued,graphs", "cpu" },
        { "cpu:bf16", "cpu:bf16,queued", "cpu:bf16", "cpu:bf16", "cpu:bf16,queued,graphs", "cpu:bf16" },
        { "cpu:fp16", "cpu:fp16,queued", "cpu:fp16", "cpu:fp16", "cpu:fp16,queued,graphs", "cpu:fp16" },
    };
    return names[precision][trial % 6];
}

#endif
