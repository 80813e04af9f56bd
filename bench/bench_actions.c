// The cost of an action besides what it computes: CPU time of each rank's host per action in its list. On a device
// that runs ahead of its host (asynchronous launches), computing must hide this time.
//
// It is measured with stages that do nothing. On such a device it is also measured with stages that launch as many
// small kernels as a few layers do. A device that records work (CUDA graphs) replays these.
//
//     bench_actions [DEVICE]
#include <stdio.h>
#include <stdlib.h>

#include "bench/idle_stage.h"
#include "device/kernels.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"

enum { REPEATS = 31, MOST_STAGES = 16, KERNELS = 60, NUMBERS = 64 };

// One in ten is a dropout, whose key differs each time.
static void give_kernels(const struct stage_pass *pass, void *to)
{
    for (uint64_t i = 0; i < KERNELS; i++) {
        const struct dropout dropout = { .probability = 0.1f,
                                         .key = pass->base.step << 32 ^ pass->base.micro_batch << 8 ^ i };
        if (i % 10 == 0)
            kernel_dropout(pass->base.queue, to, pass->base.saved, NUMBERS, dropout);
        else
            kernel_scale(pass->base.queue, to, pass->base.saved, 0.5f, NUMBERS);
    }
}

static bool give_forward(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self, (void)error;
    give_kernels(pass, pass->base.output ? pass->base.output : pass->base.saved);
    return true;
}

static bool give_backward(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self, (void)error;
    give_kernels(pass, pass->base.input_gradient ? pass->base.input_gradient : pass->base.saved);
    return true;
}

static const struct stage_functions giving = {
    .forward = give_forward,
    .backward = give_backward,
    .initialize = idle_initialize,
};

static bool measure(const struct schedule *lowered, struct device *device, const struct stage_functions *functions,
                    struct error *error)
{
    struct stage stages[MOST_STAGES];
    for (uint32_t s = 0; s < lowered->stages; s++)
        stages[s] = (struct stage){ .functions = functions,
                                    .bytes = { .input = s > 0 ? 256 : 0, .kept = 256,
                                               .output = s + 1 < lowered->stages ? 256 : 0 } };
    const struct session_settings settings = { .optimizer = { .kind = OPTIMIZER_SGD } };
    struct session *session = session_create(lowered, stages, device, &settings, error);
    bool good = session != NULL;
    double samples[REPEATS] = { 0 };
    uint64_t replayed = 0;
    for (int i = 0; good && i < REPEATS; i++) {
        uint64_t host_ns = 0;
        replayed = 0;
        good = session_step(session, error);
        for (uint32_t rank = 0; good && rank < lowered->ranks; rank++) {
            host_ns += session_last(session)->efforts[rank].host_ns;
            replayed += session_last(session)->efforts[rank].replayed;
        }
        samples[i] = (double)host_ns / (double)schedule_action_count(lowered);
    }
    session_free(session);
    samples_sort(samples, REPEATS);
    if (good)
        printf("%-12s p %2u  m %3u  %6zu actions of %2d kernels  %7.0f ns of host each (%.0f to %.0f), %llu replayed\n",
               lowered->name, lowered->ranks, lowered->micro_batches, schedule_action_count(lowered),
               functions == &giving ? KERNELS : 0, samples[REPEATS / 2], samples[0], samples[REPEATS - 1],
               (unsigned long long)replayed);
    return good;
}

static bool run(const char *name, uint32_t ranks, struct device *device, const struct stage_functions *functions,
                struct error *error)
{
    struct schedule *order = schedule_generate(name, ranks, 0, 64, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    const bool good = lowered && measure(lowered, device, functions, error);
    schedule_free(lowered);
    schedule_free(order);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    struct device *device = device_open(count > 1 ? arguments[1] : "cpu", &error);
    bool good = device && run("gpipe", 1, device, &idle_functions, &error)
        && run("1f1b", 2, device, &idle_functions, &error)
        && run("1f1b", 8, device, &idle_functions, &error) && run("zb-h1", 8, device, &idle_functions, &error);
    if (good && device_runs_ahead(device))
        good = run("gpipe", 1, device, &giving, &error) && run("1f1b", 2, device, &giving, &error);
    if (!good)
        fprintf(stderr, "bench_actions: %s\n", error.text);
    device_close(device);
    return good ? 0 : 1;
}
