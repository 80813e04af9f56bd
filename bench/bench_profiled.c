// Models of pictures that are profiled here and run as their plans say, held against the simulation of these plans.
// Exits with 1 if an iteration takes less than 0.95 or more than 1.05 of the simulated time.
//
//     bench_profiled [computed|synthetic [MODEL]]        default: both, fashion-cnn and a small ResNet-18
//
// *computed*: two stages by 1f1b, on two threads, each pinned to a core. Needs two idle cores. Profiles and steps take
// turns, so that a slow minute of the machine affects both:
//
//     profile   steps   profile   steps   profile ..
//             '-------- the median of these steps, over the mean of the simulations by the profiles on either side
//
// The ratio is the median over all turns. Profiles are by the wall clock, which is that of the steps, too. No profile
// has the time of an update: it is that of a turn's first step, which is not counted.
//
// *synthetic*: the same model on 4, 8 and 16 ranks by three schedules, as layers that only take time. These have the
// planned times, and keep and send the planned bytes over links with the cluster's latency and rate. Everything is
// slowed by a whole factor, links too, so that the busiest stage works 40 ms for a micro-batch. Shorter sleeps would
// measure how long threads need to wake up. Weights are 4 KiB, since to update them is to compute.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "bench/model_run.h"
#include "bench/synthetic_run.h"
#include "common/ascending.h"
#include "partitioner/evaluate/reprice.h"
#include "partitioner/search/search_request.h"

enum { TURNS_MOST = 11, STEPS = 4, REPEATS = 5 };

static const char *const models[] = {
    "fashion-cnn", "resnet18,pixels=28,channels=1,classes=10,stem=3x3s2,micro_batch=8",
};
static const uint32_t all_ranks[] = { 4, 8, 16 };
static const char *const schedules[] = { "1f1b", "gpipe", "zb-h1" };

static const uint64_t ROOM_BYTES = (uint64_t)8 << 30, LATENCY_NS = 5000, BYTES_PER_SECOND = 10000000000,
                      BUSY_NS = 40000000;

// Prints the ratio of measured over simulated time. Returns whether it is near 1.
static bool is_near(double ratio)
{
    const bool good = ratio >= 0.95 && ratio <= 1.05;
    printf("  ratio %.4f%s", ratio, good ? "" : ", more than 5 % off");
    return good;
}

// The length of a model's name before its sizes.
static int family(const char *name)
{
    return (int)strcspn(name, ",");
}

static struct search_request request_for(const struct profile *profile, const struct cluster *cluster,
                                         const char *schedule, uint32_t ranks, uint32_t micro_batches)
{
    return (struct search_request){ .profile = profile, .cluster = cluster, .schedule = schedule, .ranks = ranks,
                                    .chunks = 1, .micro_batches = micro_batches,
                                    .storage.optimizer = OPTIMIZER_MOMENTUM };
}

// --- two ranks that compute ------------------------------------------------------------------

struct computed {
    const char *name;
    struct device *device;
    struct model *model;
    struct model_run run;
    struct network *network;
};

static struct profile *profile_now(const struct computed *computed, struct error *error)
{
    struct measure_options options = measure_usual_options();
    options.clock = MEASURE_WALL;
    return measure_model(computed->name, computed->device, &options, NULL, error);
}

static bool open_pipeline(struct computed *computed, const struct profile *profile, struct error *error)
{
    if (model_run_open(&computed->run, profile, computed->model, computed->device, 2, OPTIMIZER_MOMENTUM, error))
        computed->network = plan_network(computed->run.plan, error);
    return computed->network != NULL;
}

static void close_pipeline(struct computed *computed)
{
    network_free(computed->network);
    model_run_close(&computed->run);
}

struct turn {
    uint64_t step_ns[2];  // of each stage's update
    uint64_t iteration_ns;
};

static bool time_updates(struct session *session, struct turn *turn, struct error *error)
{
    struct timeline timeline = { 0 };
    const bool good = session_timeline(session, &timeline, error);
    for (size_t i = 0; good && i < timeline.span_count; i++)
        if (timeline.spans[i].action.kind == ACTION_STEP)
            turn->step_ns[timeline.spans[i].action.stage] = timeline.spans[i].end_ns - timeline.spans[i].start_ns;
    timeline_clear(&timeline);
    return good;
}

static bool run_turn(const struct computed *computed, struct turn *turn, struct error *error)
{
    struct session *session = computed->run.pipeline->session;
    uint64_t times[STEPS] = { 0 };
    bool good = session_step(session, error) && time_updates(session, turn, error);
    for (size_t i = 0; good && i < STEPS; i++) {
        good = session_step(session, error);
        times[i] = session_last(session)->iteration_ns;
    }
    qsort(times, STEPS, sizeof times[0], ascending_u64s);
    turn->iteration_ns = (times[STEPS / 2 - 1] + times[STEPS / 2]) / 2;
    return good;
}

// The plan's iteration by this profile, with the updates of this turn.
static bool simulate(const struct computed *computed, const struct profile *profile, const struct turn *turn,
                     uint64_t *iteration_ns, struct error *error)
{
    struct search_request request = request_for(profile, computed->run.cluster, "1f1b", 2, MODEL_RUN_MICRO_BATCHES);
    struct plan *plan = search_resolve(&request, error) ? plan_reprice(computed->run.plan, &request, error) : NULL;
    struct simulation simulation = { 0 };
    struct cost_row costs[2];
    for (size_t s = 0; plan && s < 2; s++) {
        costs[s] = plan->stages[s].costs;
        costs[s].step_ns = turn->step_ns[s];
    }
    const bool good = plan && schedule_simulate(computed->run.pipeline->schedule, costs, computed->network, &simulation,
                                                NULL, error);
    *iteration_ns = simulation.iteration_ns;
    simulation_clear(&simulation);
    plan_free(plan);
    return good;
}

static bool take_turns(struct computed *computed, double *ratios, size_t count, struct error *error)
{
    struct profile *before = profile_now(computed, error);
    bool good = before && open_pipeline(computed, before, error);
    for (size_t i = 0; good && i < count; i++) {
        struct turn turn = { 0 };
        uint64_t simulated[2] = { 0 };
        good = run_turn(computed, &turn, error);
        struct profile *after = good ? profile_now(computed, error) : NULL;
        good = after && simulate(computed, before, &turn, &simulated[0], error)
            && simulate(computed, after, &turn, &simulated[1], error);
        if (good) {
            const double mean = ((double)simulated[0] + (double)simulated[1]) / 2;
            ratios[i] = (double)turn.iteration_ns / mean;
            printf("%-12.*s turn %2zu  measured %8.2f ms  simulated %8.2f and %8.2f ms  ratio %.4f\n",
                   family(computed->name), computed->name, i + 1, (double)turn.iteration_ns / 1e6,
                   (double)simulated[0] / 1e6, (double)simulated[1] / 1e6, ratios[i]);
            fflush(stdout);
        }
        profile_free(before);
        before = after;
    }
    profile_free(before);
    return good;
}

static bool compute(const char *name, struct device *device, bool *is_good, struct error *error)
{
    const bool is_large = strncmp(name, "resnet", 6) == 0;  // half a minute for a profile
    const size_t count = is_large ? 5 : TURNS_MOST;
    double ratios[TURNS_MOST];
    struct computed computed = { .name = name, .device = device };
    computed.model = model_from_spec(name, PRECISION_FP32, error);
    const bool good = computed.model && take_turns(&computed, ratios, count, error);
    if (good) {
        qsort(ratios, count, sizeof ratios[0], ascending_doubles);
        printf("%-12.*s two stages, computed, median of %zu turns:", family(name), name, count);
        *is_good &= is_near(ratios[count / 2]);
        printf("  (%.4f to %.4f)\n", ratios[0], ratios[count - 1]);
    }
    close_pipeline(&computed);
    model_free(computed.model);
    return good;
}

// --- more ranks, whose layers only take time --------------------------------------------------

static uint64_t slowing_of(const struct plan *plan)
{
    uint64_t busiest_ns = 1;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const uint64_t work_ns = plan->stages[s].costs.forward_ns + plan->stages[s].costs.backward_ns;
        busiest_ns = work_ns > busiest_ns ? work_ns : busiest_ns;
    }
    return (BUSY_NS + busiest_ns - 1) / busiest_ns;
}

static void slow_down(struct cost_row *row, uint64_t slowing)
{
    row->forward_ns *= slowing;
    row->backward_ns *= slowing;
    row->backward_input_ns *= slowing;
    row->backward_weight_ns *= slowing;
    row->recompute_ns *= slowing;
    row->version_bytes = 1 << 12;
}

static bool compare(const char *name, const struct plan *plan, struct device *device, bool *is_good,
                    struct error *error)
{
    const uint64_t slowing = slowing_of(plan);
    uint64_t times[REPEATS] = { 0 };
    struct simulation simulation = { 0 };
    struct schedule *lowered = plan_schedule(plan, plan->micro_batches, true, error);
    struct network *network = lowered ? plan_network(plan, error) : NULL;
    struct cost_row *costs = calloc(plan->stage_count, sizeof *costs);
    for (size_t s = 0; costs && s < plan->stage_count; s++) {
        costs[s] = plan->stages[s].costs;
        slow_down(&costs[s], slowing);
    }
    for (uint32_t l = 0; network && l < network->link_count; l++) {
        network->links[l].latency_ns *= slowing;
        network->links[l].bytes_per_second /= slowing;
    }
    const struct synthetic_run run = { lowered, costs, network, device };
    const bool good = (costs || error_no_memory(error, "a benchmark")) && network
                   && schedule_simulate(lowered, costs, network, &simulation, NULL, error)
                   && synthetic_run(&run, times, REPEATS, error);
    if (good) {
        printf("%-12.*s %-6s p %2u  m %2u  slowed %3llu times  simulated %8.2f ms  measured %8.2f ms",
               family(name), name, plan->schedule, plan->ranks, plan->micro_batches, (unsigned long long)slowing,
               (double)simulation.iteration_ns / 1e6, (double)times[REPEATS / 2] / 1e6);
        *is_good &= is_near((double)times[REPEATS / 2] / (double)simulation.iteration_ns);
        printf("\n");
        fflush(stdout);
    }
    simulation_clear(&simulation);
    free(costs);
    network_free(network);
    schedule_free(lowered);
    return good;
}

static bool run_synthetic(const char *name, const struct profile *profile, uint32_t ranks, struct device *device,
                          bool *is_good, struct error *error)
{
    struct cluster *cluster = cluster_uniform(ranks, ROOM_BYTES, LATENCY_NS, BYTES_PER_SECOND, error);
    bool good = cluster != NULL;
    for (size_t i = 0; good && i < sizeof schedules / sizeof schedules[0]; i++) {
        const struct search_request request = request_for(profile, cluster, schedules[i], ranks, 2 * ranks);
        struct plan *plan = plan_search(&request, error);
        good = plan && compare(name, plan, device, is_good, error);
        plan_free(plan);
    }
    cluster_free(cluster);
    return good;
}

static bool take_time(const char *name, struct device *device, bool *is_good, struct error *error)
{
    const struct measure_options options = measure_usual_options();
    struct profile *profile = measure_model(name, device, &options, NULL, error);
    bool good = profile != NULL;
    for (size_t i = 0; good && i < sizeof all_ranks / sizeof all_ranks[0]; i++)
        if (all_ranks[i] <= profile->layer_count)
            good = run_synthetic(name, profile, all_ranks[i], device, is_good, error);
        else
            printf("%-12.*s p %2u  left out: it has %zu layers\n", family(name), name, all_ranks[i],
                   profile->layer_count);
    profile_free(profile);
    return good;
}

// NULL: both modes.
static bool is_wanted(const char *mode, const char *name)
{
    return !mode || strcmp(mode, name) == 0;
}

static bool run_model(const char *name, const char *mode, struct device *device, bool *is_good, struct error *error)
{
    return (!is_wanted(mode, "computed") || compute(name, device, is_good, error))
        && (!is_wanted(mode, "synthetic") || take_time(name, device, is_good, error));
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    const char *mode = count > 1 ? arguments[1] : NULL;
    if (count > 3 || (!is_wanted(mode, "computed") && !is_wanted(mode, "synthetic"))) {
        fprintf(stderr, "usage: bench_profiled [computed|synthetic [MODEL]]\n");
        return ERROR_INPUT;
    }
    prctl(PR_SET_TIMERSLACK, 1);  // for new threads too: wake up when asked, not 50 us later
    struct device *device = device_open("cpu", &error);
    bool good = device != NULL, is_near_all = true;
    if (count > 2)
        good = good && run_model(arguments[2], mode, device, &is_near_all, &error);
    else
        for (size_t i = 0; good && i < sizeof models / sizeof models[0]; i++)
            good = run_model(models[i], mode, device, &is_near_all, &error);
    device_close(device);
    return good ? !is_near_all : fail(&error);
}
