// The cost of sending a micro-batch's activation and receiving its gradient: two stages that do nothing else, by
// message size.
//
//     bench_hand_over [DEVICE]              both ranks in this process, which pass pointers
//     WEIR_RANK=0 WEIR_RANKS=2 WEIR_RENDEZVOUS=FILE bench_hand_over DEVICE    one rank of two processes,
//                                           whose devices communicate (on GPUs by NCCL)
//
// A micro-batch has a forward message, a backward message, and the interpreters of both ranks.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/idle_stage.h"
#include "device/communicator.h"
#include "runtime/groups/processes/control.h"
#include "schedules/generators/generate.h"
#include "schedules/lower.h"

enum { REPEATS = 11, MICRO_BATCHES = 16 };

// The last size is the output of a block of gpt2: 16 sequences of 1024 by 768 numbers of two bytes.
static const uint64_t sizes[] = { 4 << 10, 256 << 10, 4 << 20, 24 << 20 };

// Microseconds per micro-batch of every step except the first, in ascending order.
static bool measure(const struct schedule *lowered, struct device *device, uint64_t bytes,
                    const struct session_settings *settings, double samples[REPEATS], struct error *error)
{
    const struct stage stages[] = {
        { .functions = &idle_functions, .bytes = { .kept = 256, .output = bytes } },
        { .functions = &idle_functions, .bytes = { .kept = 256, .input = bytes } },
    };
    struct session *session = session_create(lowered, stages, device, settings, error);
    bool good = session && session_step(session, error);
    for (int i = 0; good && i < REPEATS; i++) {
        good = session_step(session, error);
        samples[i] = good ? (double)session_last(session)->iteration_ns / MICRO_BATCHES / 1000 : 0;
    }
    session_free(session);
    samples_sort(samples, REPEATS);
    return good;
}

static bool measure_all(struct device *device, const struct process_group *group, bool *is_stuck, struct error *error)
{
    const struct session_settings settings = { .optimizer = { .kind = OPTIMIZER_SGD }, .group = group,
                                               .is_stuck = is_stuck };
    struct schedule *order = schedule_generate("1f1b", 2, 0, MICRO_BATCHES, error);
    struct schedule *lowered = order ? schedule_lower(order, error) : NULL;
    bool good = lowered != NULL;
    for (size_t i = 0; good && i < sizeof sizes / sizeof sizes[0]; i++) {
        double samples[REPEATS];
        good = measure(lowered, device, sizes[i], &settings, samples, error);
        const double median = samples[REPEATS / 2];
        if (good && (!group || group->rank == 0))
            printf("%8llu KiB  %9.1f us per micro-batch (%.1f to %.1f), %.2f GB/s\n",
                   (unsigned long long)sizes[i] >> 10, median, samples[0], samples[REPEATS - 1],
                   (double)(2 * sizes[i]) / median / 1000);
    }
    schedule_free(lowered);
    schedule_free(order);
    return good;
}

static bool run(const char *name, bool *is_stuck, struct error *error)
{
    struct launch launch;
    struct process_group group = { 0 };
    struct communication communication = { .library = "pointers" };
    if (!launch_from_environment(&launch, error))
        return false;
    if (launch.ranks > 2)
        return error_set(error, "this is about 2 processes, and %s started %u", launch.by, launch.ranks);
    struct control *control = control_open(&launch, &(struct control_settings){ 0 }, error);
    struct device *device = control ? device_open(name, error) : NULL;
    bool good = device && (launch.ranks == 1 || device_communication(device, &communication, error));
    if (good)
        group = control_group(control);
    if (good && launch.rank == 0)
        printf("%s, %u process%s, by %s\n", name, launch.ranks, launch.ranks > 1 ? "es" : "", communication.library);
    good = good && measure_all(device, launch.ranks > 1 ? &group : NULL, is_stuck, error);
    if (!*is_stuck)
        device_close(device);
    control_close(control);
    return good;
}

int main(int count, char **arguments)
{
    struct error error = { 0 };
    bool is_stuck = false;
    const bool good = run(count > 1 ? arguments[1] : "cpu", &is_stuck, &error);
    if (!good)
        fprintf(stderr, "bench_hand_over: %s\n", error.text);
    fflush(NULL);
    if (is_stuck)
        _exit(3);
    return good ? 0 : 1;
}
