// Exchanges of two devices over a slow link, beside the computation of another micro-batch, and the same exchanges for
// which each micro-batch waits. For tables it is lookups one micro-batch ahead (tables-ahead). An exchange takes the
// time of a micro-batch's dense forward and backward. For layers of experts that are cut, it is passes in turns, and
// all exchanges of a micro-batch take 0.3 of its computation.
//
//     weir profile "dlrm,...,exchange" --rows 2 --tables slots -o profile.json
//     weir partition profile.json --cluster "2 devices, 1GiB, 10GB/s 1us" --schedule tables-ahead --ranks 1
//         --micro-batches 16 --variants rows2:slots,rows2:slots --optimizer adagrad -o plan.json
//     weir partition .. --schedule in-turn.json .. -o in-turn-plan.json
//     bench_exchange plan.json in-turn-plan.json "dlrm,...,exchange"
//
// (bench/exchange.sh does that.) Both members are threads on a core of their own, so it needs two idle cores. Exits
// with 1 if tables-ahead takes less than 0.95 or more than 1.05 of the simulated time, or if it is less than 1.3 times
// as quick. With experts it does so if passes in turns are less than 1.15 times as quick. Their simulated times are
// those of one member, and without what a message copies on its device.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/synthetic_run.h"
#include "models/table_places.h"
#include "runtime/shard_pipelines.h"
#include "schedules/simulate.h"
#include "trainer/measure_shards.h"
#include "trainer/model_spec.h"
#include "trainer/split_layers.h"

enum { WARM = 3, STEPS = 9, MOST_STAGES = 16 };

struct bench {
    struct plan *plan;  // the one that is run now
    struct model *model;
    bool has_experts;
    struct device *device;
    struct link link;
    struct cost_row costs[MOST_STAGES];  // measured
};

// The first run has no link. Its steps say what each kind of action takes while both members compute.
struct sums {
    uint64_t ns[MOST_STAGES][ACTION_KINDS], counts[MOST_STAGES][ACTION_KINDS];
};

static bool add_step(struct sums *sums, struct session *session, struct error *error)
{
    struct timeline timeline = { 0 };
    const bool good = session_timeline(session, &timeline, error);
    for (size_t i = 0; good && i < timeline.span_count; i++) {
        const struct span *span = &timeline.spans[i];
        sums->ns[span->action.stage][span->action.kind] += span->end_ns - span->start_ns;
        sums->counts[span->action.stage][span->action.kind]++;
    }
    timeline_clear(&timeline);
    return good;
}

static void take_costs(struct bench *bench, const struct sums *sums)
{
    for (size_t s = 0; s < bench->plan->stage_count; s++) {
        bench->costs[s] = bench->plan->stages[s].costs;
        bench->costs[s].forward_ns = sums->ns[s][ACTION_F] / sums->counts[s][ACTION_F];
        bench->costs[s].backward_ns = sums->ns[s][ACTION_B] / sums->counts[s][ACTION_B];
        bench->costs[s].step_ns = sums->ns[s][ACTION_STEP] / sums->counts[s][ACTION_STEP];
    }
}

// Bytes that a member sends to the other one behind a stage, by F as by B; 0: the stage behind it reads nothing that is
// exchanged.
static bool exchanged_bytes(const struct bench *bench, size_t stage, uint64_t *bytes, struct error *error)
{
    const struct plan_stage *next = &bench->plan->stages[stage + 1];
    struct layer shard = bench->model->layers[next->first];
    *bytes = 0;
    if (stage + 1 == bench->plan->stage_count || !layer_takes_exchanged(&shard))
        return true;
    if (!layer_shard(&bench->model->layers[next->first], variant_sharding(next->variant), 0, &shard, error))
        return false;
    *bytes = layer_is_of_experts(&shard) ? layer_exchanged_bytes(&shard) / 2 : placed_share(&shard) * sizeof(float);
    return true;
}

// A link on which exchanges take as long as the last stage's F and B, or 0.3 of those of all stages.
static bool slow_down(struct bench *bench, struct error *error)
{
    const size_t stages = bench->plan->stage_count;
    uint64_t bytes[MOST_STAGES] = { 0 }, sum = 0, compute_ns = 0;
    for (size_t s = 0; s < stages; s++) {
        if (!exchanged_bytes(bench, s, &bytes[s], error))
            return false;
        sum += bytes[s];
        compute_ns += bench->costs[s].forward_ns + bench->costs[s].backward_ns;
    }
    const uint64_t dense_ns = bench->costs[stages - 1].forward_ns + bench->costs[stages - 1].backward_ns;
    const double exchange_ns = bench->has_experts ? 0.3 * (double)compute_ns / 2 : (double)dense_ns;
    bench->link = (struct link){ .bytes_per_second = (uint64_t)((double)sum * 1e9 / exchange_ns) };
    for (size_t s = 0; s < stages; s++)
        bench->costs[s].exchange_ns = (uint64_t)((double)bytes[s] * exchange_ns / (double)sum);
    printf("%-20s a micro-batch takes %.3f ms, and its exchanges of %.2f MB in F and in B %.3f ms each, at %.0f MB/s\n",
           bench->plan->schedule, (double)compute_ns / 1e6, (double)sum / 1e6, exchange_ns / 1e6,
           (double)bench->link.bytes_per_second / 1e6);
    return true;
}

static bool is_right(const struct bench *bench, struct error *error)
{
    const struct plan *plan = bench->plan;
    bool exchanges = false;
    for (size_t s = 1; plan->stage_count <= MOST_STAGES && s < plan->stage_count; s++)
        exchanges |= plan->stages[s].variant && layer_takes_exchanged(&bench->model->layers[plan->stages[s].first]);
    return exchanges || error_set(error, "bench_exchange takes plans of %d stages or fewer, some of which begin with a"
                                  " layer that reads what devices exchange", MOST_STAGES);
}

static bool run(struct bench *bench, uint64_t *iteration_ns, struct error *error)
{
    const struct batch_settings batches = { .batches = BATCHES_RANDOM, .seed = 1,
                                            .samples = bench->plan->micro_batches };
    const struct run_place place = { .exchange_link = bench->link.bytes_per_second > 0 ? &bench->link : NULL };
    struct session_settings settings = { .pin = true,
                                         .optimizer = optimizer_default(bench->plan->storage.optimizer) };
    struct split_layers *layers =
        split_layers_create(bench->plan, bench->model, bench->device, &batches, &place, error);
    if (!layers || !split_layers_settle(layers, &settings, error)) {
        split_layers_free(layers);
        return false;
    }
    const struct shard_request request = { .plan = bench->plan, .layers = layers->layers,
                                           .layer_count = bench->model->layer_count, .grid = &layers->grid,
                                           .device = bench->device, .runs = 1, .settings = &settings };
    struct shard_pipelines *pipelines = shard_pipelines_create(&request, error);
    uint64_t times[STEPS] = { 0 };
    struct sums sums = { .ns = { { 0 } } };
    bool good = pipelines && shard_pipelines_step(pipelines, error);
    for (size_t i = 1; good && i < WARM; i++)
        good = shard_pipelines_step(pipelines, error);
    for (size_t i = 0; good && i < STEPS; i++) {
        good = shard_pipelines_step(pipelines, error);
        good = good && add_step(&sums, pipelines->first->session, error);
        times[i] = session_last(pipelines->first->session)->iteration_ns;
    }
    if (good && bench->link.bytes_per_second == 0)
        take_costs(bench, &sums);
    qsort(times, STEPS, sizeof times[0], ascending_u64s);
    *iteration_ns = times[STEPS / 2];
    if (bench->link.bytes_per_second == 0)
        printf("%-20s exchanges at once: %.2f ms\n", bench->plan->schedule, (double)*iteration_ns / 1e6);
    shard_pipelines_free(pipelines);
    split_layers_free(layers);
    return good;
}

static bool compare(struct bench *bench, const char *path, uint64_t *measured_ns, double *ratio, struct error *error)
{
    struct simulation simulation = { 0 };
    bench->plan = plan_load(path, error);
    bench->link = (struct link){ 0 };
    struct schedule *schedule =
        bench->plan ? plan_schedule(bench->plan, bench->plan->micro_batches, true, error) : NULL;
    const bool good = schedule && is_right(bench, error) && run(bench, measured_ns, error) && slow_down(bench, error)
                   && run(bench, measured_ns, error)
                   && schedule_simulate(schedule, bench->costs, NULL, &simulation, NULL, error);
    *ratio = good ? (double)*measured_ns / (double)simulation.iteration_ns : 0;
    if (good)
        printf("%-20s measured %8.2f ms  simulated %8.2f ms  ratio %.4f\n", bench->plan->schedule,
               (double)*measured_ns / 1e6, (double)simulation.iteration_ns / 1e6, *ratio);
    simulation_clear(&simulation);
    schedule_free(schedule);
    plan_free(bench->plan);
    return good;
}

static bool run_all(struct bench *bench, char **paths, bool *is_good, struct error *error)
{
    uint64_t ahead_ns = 1, in_turn_ns = 1;
    double ratio, other;
    bench->model = model_from_spec(paths[2], PRECISION_FP32, error);
    bench->has_experts = bench->model && bench->model->sizes.experts.experts > 0;
    bench->device = bench->model ? device_open("cpu", error) : NULL;
    const bool good = bench->device && compare(bench, paths[0], &ahead_ns, &ratio, error)
                   && compare(bench, paths[1], &in_turn_ns, &other, error);
    const double gain = (double)in_turn_ns / (double)ahead_ns;
    *is_good = good && (bench->has_experts ? gain >= 1.15 : ratio >= 0.95 && ratio <= 1.05 && gain >= 1.3);
    if (good)
        printf("the first is %.3f times as quick\n", gain);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    struct bench bench = { .plan = NULL };
    bool is_good = false;
    if (count != 4) {
        fprintf(stderr, "usage: bench_exchange PLAN IN-TURN-PLAN MODEL\n");
        return ERROR_INPUT;
    }
    prctl(PR_SET_TIMERSLACK, 1);  // for new threads too: wake up when asked, not 50 us later
    const bool good = run_all(&bench, arguments + 1, &is_good, &error);
    device_close(bench.device);
    model_free(bench.model);
    return good ? !is_good : fail(&error);
}
