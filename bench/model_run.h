// A plan of a model by 1f1b, as it runs here: on threads of this process, each pinned to a core.
#ifndef BENCH_MODEL_RUN_H
#define BENCH_MODEL_RUN_H

#include "bench/fail.h"
#include "partitioner/plan_search.h"
#include "runtime/pipeline.h"
#include "trainer/measure_model.h"
#include "trainer/model_layers.h"
#include "trainer/model_spec.h"

enum { MODEL_RUN_MICRO_BATCHES = 16 };

struct model_run {
    struct cluster *cluster;
    struct plan *plan;
    struct model_layers *layers;
    struct pipeline *pipeline;
};

// False with the error. It is closed in either case.
static inline bool model_run_open(struct model_run *run, const struct profile *profile, const struct model *model,
                                  struct device *device, uint32_t ranks, enum optimizer_kind optimizer,
                                  struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_RANDOM, .seed = 1, .samples = MODEL_RUN_MICRO_BATCHES };
    const struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .pin = true,
                                               .optimizer = optimizer_default(optimizer) };
    run->cluster = cluster_uniform(ranks, (uint64_t)8 << 30, 5000, 10000000000, error);
    const struct search_request request = {
        .profile = profile, .cluster = run->cluster, .schedule = "1f1b", .ranks = ranks, .chunks = 1,
        .micro_batches = MODEL_RUN_MICRO_BATCHES, .storage.optimizer = optimizer,
    };
    run->plan = run->cluster ? plan_search(&request, error) : NULL;
    run->layers = run->plan ? model_layers_create(model, device, &batches, error) : NULL;
    if (run->layers)
        run->pipeline = pipeline_create(run->plan, run->layers->layers, run->layers->layer_count, device, 1, &settings,
                                        error);
    return run->pipeline != NULL;
}

static inline void model_run_close(struct model_run *run)
{
    pipeline_free(run->pipeline);
    model_layers_free(run->layers);
    plan_free(run->plan);
    cluster_free(run->cluster);
}

#endif
