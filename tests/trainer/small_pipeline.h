// Pipelines of small models on data, planned by made-up times: two ranks that update by momentum.
#ifndef TESTS_TRAINER_SMALL_PIPELINE_H
#define TESTS_TRAINER_SMALL_PIPELINE_H

#include <string.h>

#include "partitioner/plan_search.h"
#include "runtime/pipeline.h"
#include "runtime/stages/chain.h"
#include "runtime/twin/twin.h"
#include "tests/test.h"
#include "trainer/model_layers.h"
#include "trainer/model_spec.h"

enum { SMALL_MICRO_BATCHES = 2 };

struct small_pipeline {
    struct model *model;
    struct device *device;
    struct cluster *cluster;
    struct profile *profile;
    struct plan *plan;
    struct sample_course course;
    struct model_layers *layers;
    struct pipeline *pipeline;
    struct session_settings settings;
};

static inline void small_give_times(struct profile_layer *to, const struct weir_layer *layer)
{
    to->name = strdup(layer->name);
    to->kind = strdup(layer->kind);
    assert_true(to->name && to->kind);
    to->forward_ns = to->backward_input_ns = to->backward_weight_ns = 1000;
    to->backward_ns = 2000;
}

// Plans a model on data by a schedule, without a pipeline.
static inline void small_pipeline_plan(struct small_pipeline *small, const char *spec, const char *schedule,
                                       const struct sample_data *data)
{
    struct error error = { 0 };
    *small = (struct small_pipeline){
        .model = model_from_spec(spec, PRECISION_FP32, &error), .device = device_open("cpu", &error),
        .cluster = cluster_uniform(2, (uint64_t)1 << 30, 0, 1000000000, &error),
        .settings = { .capacity = TRANSPORT_UNLIMITED, .optimizer = optimizer_default(OPTIMIZER_MOMENTUM) },
    };
    assert_good(small->model && small->device && small->cluster, error);
    small->course = (struct sample_course){ .data = data,
                                            .pass_samples = SMALL_MICRO_BATCHES * small->model->sizes.micro_batch };
    const struct batch_settings batches = { .batches = BATCHES_TRAIN, .course = &small->course, .seed = 1,
                                            .samples = SMALL_MICRO_BATCHES };
    small->layers = model_layers_create(small->model, small->device, &batches, &error);
    assert_good(small->layers, error);
    small->profile = chain_profile(small->layers->layers, small->layers->layer_count, "fp32", &error);
    assert_good(small->profile, error);
    for (size_t l = 0; l < small->layers->layer_count; l++)
        small_give_times(&small->profile->layers[l], &small->layers->layers[l]);
    const struct search_request request = { .profile = small->profile, .cluster = small->cluster,
                                            .schedule = schedule, .ranks = 2, .chunks = 1,
                                            .micro_batches = SMALL_MICRO_BATCHES,
                                            .storage.optimizer = OPTIMIZER_MOMENTUM };
    small->plan = plan_search(&request, &error);
    assert_good(small->plan, error);
}

// The same, and makes some steps.
static inline void small_pipeline_train(struct small_pipeline *small, const char *spec, const struct sample_data *data,
                                        int steps)
{
    struct error error = { 0 };
    small_pipeline_plan(small, spec, "1f1b", data);
    small->pipeline = pipeline_create(small->plan, small->layers->layers, small->layers->layer_count, small->device, 1,
                                      &small->settings, &error);
    assert_good(small->pipeline, error);
    for (int step = 0; step < steps; step++)
        assert_good(session_step(small->pipeline->session, &error), error);
}

static inline void small_pipeline_clear(struct small_pipeline *small)
{
    pipeline_free(small->pipeline);
    plan_free(small->plan);
    profile_free(small->profile);
    cluster_free(small->cluster);
    model_layers_free(small->layers);
    device_close(small->device);
    model_free(small->model);
}

// The weights of a pipeline, and its states if wanted, go into a twin.
static inline void small_pipeline_give(const struct small_pipeline *small, struct twin *twin, bool with_states)
{
    struct error error = { 0 };
    for (uint32_t l = 0; l < small->layers->layer_count; l++) {
        const struct weir_layer *layer = &small->layers->layers[l];
        void *host = malloc(layer->parameter_bytes + layer->state_bytes + 1);
        assert_non_null(host);
        assert_good(pipeline_read_parameters(small->pipeline, l, 0, layer->parameter_bytes, host, &error), error);
        twin_put_parameters(twin, l, host);
        if (layer->state_bytes > 0 && with_states) {
            assert_good(pipeline_read_state(small->pipeline, l, 0, host, &error), error);
            twin_put_state(twin, l, host);
        }
        free(host);
    }
}

#endif
