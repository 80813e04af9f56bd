// Training on one thread: tokens per second of the sequential loop, for both GPTs, with 16 micro-batches and one
// AdamW update per step.
//
//     bench_train [MODEL STEPS [DEVICE]]        cpu, cpu:bf16, ..
//
// A step's time is the thread's CPU time, of which the median over the steps is taken. On an idle machine this equals
// the wall-clock time, and on a busy one it is disturbed less. GFLOP/s counts a forward, and a backward as twice a
// forward.
#include <stdio.h>
#include <stdlib.h>

#include "bench/fail.h"
#include "common/ascending.h"
#include "common/clock.h"
#include "common/random.h"
#include "tests/models/sequential.h"

enum { MICRO_BATCHES = 16, STEPS_MOST = 200 };

// Bytes that a model can learn something about: mostly, each follows from the one before.
static void make_text(int32_t *tokens, int32_t *targets, size_t count)
{
    uint64_t seed = 1;
    int32_t last = 0;
    for (size_t i = 0; i < count; i++) {
        tokens[i] = last;
        last = random_below(&seed, 8) == 0 ? (int32_t)random_below(&seed, 256) : (last * 5 + 1) % 256;
        targets[i] = last;
    }
}

static bool time_steps(const struct model *model, struct sequential *run, size_t steps, struct error *error)
{
    const size_t count = MICRO_BATCHES * model_tokens(model);
    const struct sequential_update update = {
        .adamw = { .rate = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f, .decay = 0.1f },
    };
    int32_t *tokens = malloc(count * sizeof *tokens), *targets = malloc(count * sizeof *targets);
    uint64_t times[STEPS_MOST];
    double loss = 0;
    bool good = tokens && targets ? true : error_no_memory(error, "the text");
    if (good)
        make_text(tokens, targets, count);
    for (size_t step = 0; good && step < steps + 1; step++) {  // the first one is not counted
        const uint64_t start = clock_thread_cpu_ns();
        good = sequential_step(run, tokens, targets, &update, &loss, error);
        times[step > 0 ? step - 1 : 0] = clock_thread_cpu_ns() - start;
    }
    free(tokens);
    free(targets);
    if (!good)
        return false;
    qsort(times, steps, sizeof times[0], ascending_u64s);
    const double median = (double)times[steps / 2];
    printf("%-10s %9.1f ms/step %9.0f tokens/s %7.1f GFLOP/s   loss %.4f\n", model->name, median / 1e6,
           (double)count * 1e9 / median, 3.0 * MICRO_BATCHES * (double)model_flops(model) / median, loss);
    return true;
}

static bool bench(const char *name, size_t steps, const char *device_name, struct error *error)
{
    struct device *device = device_open(device_name, error);
    const struct model_sizes sizes = { .precision = device ? device_precision(device) : PRECISION_FP32 };
    struct model *model = device ? model_create(name, &sizes, error) : NULL;
    struct sequential *run = model ? sequential_create(device, model, MICRO_BATCHES, 1, error) : NULL;
    const bool good = run && time_steps(model, run, steps, error);
    sequential_free(run);
    device_close(device);
    model_free(model);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    const long asked = count > 2 ? strtol(arguments[2], NULL, 10) : 0;
    const size_t steps = asked > 0 && asked < STEPS_MOST ? (size_t)asked : 0;
    const char *device = count > 3 ? arguments[3] : "cpu";
    const bool good = count > 1 ? bench(arguments[1], steps ? steps : 10, device, &error)
                                : bench("gpt-nano", 20, device, &error) && bench("gpt-10m", 5, device, &error);
    return good ? 0 : fail(&error);
}
