// Two replicas of one stage that shard its gradients, or its weights too (ZeRO 2 and 3). It compares an iteration
// with the plan's, once with transfers in turn with computing, and once with transfers one layer ahead (--window 2).
// Layers only take time, and have as many bytes as the link moves in three fifths of an F.
//
//     mpirun -n 2 --hostfile hosts bench_collectives MICROSECONDS MEGABYTES-PER-SECOND      the link, as measured by
//                                                                                        weir profile --links
//
// The ratio is measured iteration time over predicted, the median of five.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/weir.h"
#include "bench/idle_stage.h"
#include "common/number.h"

enum { LAYERS = 6, MICRO_BATCHES = 4, REPEATS = 5, F_MS = 40, HANDED_ON = 1024 };

static uint64_t handed_on(int layer)
{
    return layer + 1 < LAYERS ? HANDED_ON : 0;
}

static bool rest(unsigned milliseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)milliseconds * 1000000 }, NULL);
    return true;
}

static bool forward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)error;
    if (pass->loss)
        *pass->loss = 0;
    return rest(F_MS);
}

static bool backward(void *self, const struct weir_pass *pass, struct weir_error *error)
{
    (void)self, (void)pass, (void)error;
    return rest(F_MS);
}

static bool initialize(void *self, void *queue, void *parameters, struct weir_error *error)
{
    (void)self, (void)queue, (void)parameters, (void)error;
    return true;
}

static void fill_layers(struct weir_layer layers[LAYERS], char names[LAYERS][24], uint64_t bytes)
{
    for (int l = 0; l < LAYERS; l++) {
        snprintf(names[l], sizeof names[l], "layer%d", l);
        layers[l] = (struct weir_layer){ .name = names[l], .kind = "sleep", .parameter_bytes = bytes,
                                         .output_bytes = handed_on(l), .forward = forward, .backward_input = backward,
                                         .backward_weight = backward, .initialize = initialize };
    }
}

// The profile of the layers, the same in both processes.
static struct weir_profile *make_profile(uint64_t bytes, struct weir_error *error)
{
    char text[8192];
    int length = snprintf(text, sizeof text,
                          "{\"format\": \"weir.profile\", \"version\": 1, \"model\": \"sleep\", \"micro_batch\": 1, "
                          "\"dtype\": \"fp32\", \"source\": {\"how\": \"measured\", \"device\": \"none\", \"clock\": "
                          "\"none\", \"repeats\": 1, \"sum_ns\": 0, \"whole_ns\": 0, \"backward_split\": \"measured\"},"
                          " \"layers\": [");
    for (int l = 0; l < LAYERS; l++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "%s{\"name\": \"layer%d\", \"kind\": \"sleep\", \"forward_ns\": %d, \"backward_input_ns\": "
                           "%d, \"backward_weight_ns\": %d, \"parameter_bytes\": %" PRIu64 ", \"output_bytes\": %d, "
                           "\"saved_bytes\": 0, \"input_kept\": \"none\", \"held_for_weight_bytes\": 0, "
                           "\"workspace_bytes\": 0, \"backward_workspace_bytes\": 0, \"flops\": 0}",
                           l > 0 ? ", " : "", l, F_MS * 1000000, F_MS * 1000000, F_MS * 1000000, bytes,
                           (int)handed_on(l));
    length += snprintf(text + length, sizeof text - (size_t)length, "], \"tied\": [], \"no_cut_after\": []}");
    return weir_profile_read(text, (size_t)length, "sleep", error);
}

static bool measure(const struct weir_plan *plan, const struct weir_layer *layers, double samples[REPEATS],
                    bool *speaks, struct weir_error *error)
{
    const struct weir_runtime_options options = { .size = sizeof options, .device = "cpu:queued" };
    struct weir_runtime *runtime = weir_runtime_create(plan, layers, LAYERS, &options, error);
    bool good = runtime && weir_runtime_step(runtime, NULL, error);  // once to warm up
    for (int i = 0; good && i < REPEATS; i++) {
        struct weir_result result = { 0 };
        good = weir_runtime_step(runtime, &result, error);
        samples[i] = (double)result.iteration_ns;
    }
    *speaks = good && weir_runtime_process(runtime, &(uint32_t){ 0 }) == 0;
    weir_runtime_free(runtime);
    samples_sort(samples, REPEATS);
    return good;
}

static uint64_t planned_ns(const struct weir_plan *plan, struct weir_error *error)
{
    const char key[] = "\"iteration_ns\": ";
    struct weir_simulation *simulation = weir_plan_simulate(plan, error);
    char *document = simulation ? weir_simulation_document(simulation, error) : NULL;
    const char *found = document ? strstr(document, key) : NULL;
    const uint64_t ns = found ? strtoull(found + strlen(key), NULL, 10) : 0;
    free(document);
    weir_simulation_free(simulation);
    return ns;
}

static bool compare(const struct weir_profile *profile, const struct weir_layer *layers, const char *cluster,
                    const char *shard, uint32_t window, struct weir_error *error)
{
    const uint32_t replicas = 2;
    const struct weir_partition_options options = { .size = sizeof options, .cluster = cluster, .schedule = "1f1b",
                                                    .micro_batches = MICRO_BATCHES, .optimizer = "sgd", .shard = shard,
                                                    .window = window, .replicas = { &replicas, 1 } };
    double samples[REPEATS] = { 0 };
    bool speaks = false;
    struct weir_plan *plan = weir_partition(profile, &options, error);
    const uint64_t planned = plan ? planned_ns(plan, error) : 0;
    const bool good = planned > 0 && measure(plan, layers, samples, &speaks, error);
    if (good && speaks)
        printf("%-9s  window %u  planned %8.1f ms  measured %8.1f ms  ratio %.3f  (%.3f to %.3f)\n", shard, window,
               (double)planned / 1e6, samples[REPEATS / 2] / 1e6, samples[REPEATS / 2] / (double)planned,
               samples[0] / (double)planned, samples[REPEATS - 1] / (double)planned);
    weir_plan_free(plan);
    return good;
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "usage: mpirun -n 2 .. bench_collectives MICROSECONDS MEGABYTES-PER-SECOND\n");
        return getenv("OMPI_COMM_WORLD_SIZE") ? 2 : 0;
    }
    struct weir_error error = { 0 };
    struct weir_layer layers[LAYERS];
    char names[LAYERS][24], cluster[100];
    const uint64_t bytes = round_to_256((uint64_t)(atof(arguments[2]) * 1e6 * F_MS / 1000 * 3 / 5));
    snprintf(cluster, sizeof cluster, "2 devices, 8GiB, %sMB/s %sus", arguments[2], arguments[1]);
    fill_layers(layers, names, bytes);
    struct weir_profile *profile = make_profile(bytes, &error);
    bool good = profile != NULL;
    const char *const shards[] = { "gradients", "weights" };
    for (int i = 0; good && i < 4; i++)
        good = compare(profile, layers, cluster, shards[i / 2], 1 + i % 2, &error);
    weir_profile_free(profile);
    if (!good)
        fprintf(stderr, "bench_collectives: %s\n", error.text);
    return good ? 0 : error.code;
}
