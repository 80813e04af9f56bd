// Two stages against one thread: how much of the simulated speed-up is reached.
//
//     bench_pipeline [MODEL ROUNDS [DEVICE]]        cpu, cpu:bf16, ..
//
// The model is profiled right now, planned for one rank and for two (1f1b, 16 micro-batches), and both plans run in
// turns, step by step. Other load on the machine therefore affects both equally. The simulated speed-up is the ratio
// of the plans' iteration times, the measured one the ratio of the median steps. Needs two idle cores; each rank is
// pinned to one.
#include <stdio.h>
#include <stdlib.h>

#include "common/ascending.h"
#include "partitioner/plan_search.h"
#include "runtime/pipeline.h"
#include "trainer/measure_model.h"
#include "trainer/model_layers.h"
#include "trainer/model_spec.h"

enum { MICRO_BATCHES = 16, ROUNDS_MOST = 1000, TURN = 4 };

struct side {  // a plan that runs
    struct plan *plan;
    struct model_layers *layers;
    struct pipeline *pipeline;
    uint64_t times[ROUNDS_MOST * TURN];
};

static bool make_side(const struct profile *profile, const struct model *model, struct device *device,
                      uint32_t ranks, struct side *side, struct error *error)
{
    struct cluster *cluster = cluster_uniform(ranks, (uint64_t)8 << 30, 5000, 10000000000, error);
    const bool is_half = device_precision(device) != PRECISION_FP32;
    const enum optimizer_kind optimizer = is_half ? OPTIMIZER_ADAMW_MASTER : OPTIMIZER_ADAMW;
    const struct search_request request = {
        .profile = profile, .cluster = cluster, .schedule = "1f1b", .ranks = ranks, .chunks = 1,
        .micro_batches = MICRO_BATCHES, .storage.optimizer = optimizer,
    };
    const struct batch_settings batches = { .batches = BATCHES_RANDOM, .seed = 1, .samples = MICRO_BATCHES };
    const struct session_settings settings = { .capacity = TRANSPORT_UNLIMITED, .pin = true,
                                               .optimizer = optimizer_default(optimizer) };
    side->plan = cluster ? plan_search(&request, error) : NULL;
    side->layers = side->plan ? model_layers_create(model, device, &batches, error) : NULL;
    if (side->layers)
        side->pipeline = pipeline_create(side->plan, side->layers->layers, side->layers->layer_count, device, 1,
                                         &settings, error);
    cluster_free(cluster);
    return side->pipeline != NULL;
}

static void clear_side(struct side *side)
{
    pipeline_free(side->pipeline);
    model_layers_free(side->layers);
    plan_free(side->plan);
}

static bool take_turn(struct side *side, size_t round, struct error *error)
{
    if (!session_step(side->pipeline->session, error))
        return false;
    for (size_t i = 0; i < TURN; i++) {
        if (!session_step(side->pipeline->session, error))
            return false;
        side->times[round * TURN + i] = session_last(side->pipeline->session)->iteration_ns;
    }
    return true;
}

static double median(struct side *side, size_t rounds)
{
    qsort(side->times, rounds * TURN, sizeof side->times[0], ascending_u64s);
    return (double)side->times[rounds * TURN / 2];
}

static bool compare(const char *name, size_t rounds, const char *device_name, struct error *error)
{
    struct side one = { 0 }, two = { 0 };
    struct device *device = device_open(device_name, error);
    const struct measure_options options = measure_usual_options();
    struct model *model = device ? model_from_spec(name, device_precision(device), error) : NULL;
    struct profile *profile = model ? measure_model(name, device, &options, NULL, error) : NULL;
    bool good = profile && make_side(profile, model, device, 1, &one, error)
        && make_side(profile, model, device, 2, &two, error);
    for (size_t round = 0; good && round < rounds; round++)
        good = take_turn(&one, round, error) && take_turn(&two, round, error);
    if (good) {
        const double simulated = (double)one.plan->iteration_ns / (double)two.plan->iteration_ns;
        const double single = median(&one, rounds), pair = median(&two, rounds), measured = single / pair;
        printf("%-10s one thread %8.1f ms (simulated %8.1f)   two stages %8.1f ms (simulated %8.1f)\n", name,
               single / 1e6, (double)one.plan->iteration_ns / 1e6, pair / 1e6, (double)two.plan->iteration_ns / 1e6);
        printf("%-10s speed-up %.3f, simulated %.3f: %.1f %% of it\n", name, measured, simulated,
               100 * measured / simulated);
    }
    clear_side(&one);
    clear_side(&two);
    profile_free(profile);
    model_free(model);
    device_close(device);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    bool good;
    const char *device = count > 3 ? arguments[3] : "cpu";
    if (count > 2) {
        const size_t rounds = strtoul(arguments[2], NULL, 10);
        good = rounds > 0 && rounds <= ROUNDS_MOST ? compare(arguments[1], rounds, device, &error)
                                                   : error_set(&error, "from 1 to %d rounds", ROUNDS_MOST);
    } else {
        good = compare("gpt-nano", 11, device, &error) && compare("gpt-10m", 3, device, &error);
    }
    if (!good)
        fprintf(stderr, "bench_pipeline: %s\n", error.text);
    return good ? 0 : 1;
}
