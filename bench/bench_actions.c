// What an action costs besides what it computes: the processor time of each rank's
// host, per action of its list, of stages that do nothing. On a device that runs ahead
// this is what computing must hide.
//
//     bench_actions [DEVICE]
#include <stdio.h>
#include <stdlib.h>

#include "runtime/run.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"

enum { REPEATS = 31, MOST_STAGES = 16 };

static bool do_nothing(void *self, const struct stage_pass *pass, struct error *error)
{
    (void)self, (void)pass, (void)error;
    return true;
}

static bool start_from_zero(void *self, struct queue *queue, void *weights, struct error *error)
{
    (void)self, (void)queue, (void)weights, (void)error;
    return true;
}

static const struct stage_functions nothing = {
    .forward = do_nothing,
    .backward = do_nothing,
    .backward_input = do_nothing,
    .backward_weight = do_nothing,
    .initialize = start_from_zero,
};

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t count_actions(const struct schedule *schedule)
{
    size_t count = 0;
    for (uint32_t rank = 0; rank < schedule->ranks; rank++)
        count += schedule->lists[rank].count;
    return count;
}

static bool measure(const struct schedule *lowered, struct device *device, struct error *error)
{
    struct stage stages[MOST_STAGES];
    for (uint32_t s = 0; s < lowered->stages; s++)
        stages[s] = (struct stage){ .functions = &nothing,
                                    .bytes = { .input = s > 0 ? 256 : 0, .kept = 256,
                                               .output = s + 1 < lowered->stages ? 256 : 0 } };
    const struct session_settings settings = { .optimizer = { .kind = OPTIMIZER_SGD } };
    struct session *session = session_create(lowered, stages, device, &settings, error);
    bool good = session != NULL;
    double samples[REPEATS] = { 0 };
    for (int i = 0; good && i < REPEATS; i++) {
        uint64_t host_ns = 0;
        good = session_step(session, error);
        for (uint32_t rank = 0; good && rank < lowered->ranks; rank++)
            host_ns += session_last(session)->host_ns[rank];
        samples[i] = (double)host_ns / (double)count_actions(lowered);
    }
    session_free(session);
    qsort(samples, REPEATS, sizeof samples[0], ascending);
    if (good)
        printf("%-12s p %2u  m %3u  %6zu actions  %7.0f ns of host each (%.0f to %.0f)\n", lowered->name,
               lowered->ranks, lowered->micro_batches, count_actions(lowered), samples[REPEATS / 2], samples[0],
               samples[REPEATS - 1]);
    return good;
}

static bool run(const char *name, uint32_t ranks, struct device *device, struct error *error)
{
    struct schedule *order = schedule_generate(name, ranks, 0, 64, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    const bool good = lowered && measure(lowered, device, error);
    schedule_free(lowered);
    schedule_free(order);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    struct device *device = device_open(count > 1 ? arguments[1] : "cpu", &error);
    const bool good = device && run("gpipe", 1, device, &error) && run("1f1b", 2, device, &error)
        && run("1f1b", 8, device, &error) && run("zb-h1", 8, device, &error);
    if (!good)
        fprintf(stderr, "bench_actions: %s\n", error.text);
    device_close(device);
    return good ? 0 : 1;
}
