#include "schedules/noise.h"

#include <stdlib.h>

#include "common/ascending.h"
#include "common/random.h"

__extension__ typedef __int128 wide;

// The sum of four draws from 0 to 65535: its mean, and its standard deviation. The latter is the square root of 4 *
// (65536^2 - 1) / 12.
enum { MEAN = 131070, DEVIATION = 37837 };

uint64_t noise_apply(uint64_t duration_ns, uint32_t ppm, uint64_t draw)
{
    const int64_t sum = (int64_t)((draw & 0xffff) + (draw >> 16 & 0xffff) + (draw >> 32 & 0xffff) + (draw >> 48));
    const wide change = (wide)duration_ns * ppm * (sum - MEAN), whole = (wide)DEVIATION * 1000000;
    return duration_ns + (uint64_t)((change + (change < 0 ? -whole / 2 : whole / 2)) / whole);
}

static bool run_trials(struct lane_world *world, const struct noise_request *request, uint64_t *noisy, uint64_t *times,
                       struct error *error)
{
    size_t count;
    uint64_t seed = request->seed;
    const uint64_t *durations = lane_world_durations(world, &count);
    for (uint32_t trial = 0; trial < request->trials; trial++) {
        for (size_t i = 0; i < count; i++)
            noisy[i] = noise_apply(durations[i], request->ppm, random_next(&seed));
        if (!lane_world_run(world, noisy, &times[trial], error))
            return false;
        if (request->progress)
            request->progress(request->self, trial + 1, request->trials);
    }
    return true;
}

static void summarize(uint64_t *times, uint32_t trials, struct noise_result *result)
{
    wide sum = 0;
    qsort(times, trials, sizeof *times, ascending_u64s);
    for (uint32_t trial = 0; trial < trials; trial++)
        sum += times[trial];
    result->min_ns = times[0];
    result->median_ns = times[(trials - 1) / 2];
    result->p95_ns = times[((uint64_t)trials * 95 + 99) / 100 - 1];
    result->max_ns = times[trials - 1];
    result->mean_ns = (uint64_t)(sum / trials);
}

bool noise_measure(struct lane_world *world, const struct noise_request *request, struct noise_result *result,
                   struct error *error)
{
    size_t count;
    lane_world_durations(world, &count);
    *result = (struct noise_result){ .request = *request };
    uint64_t *noisy = calloc(count + 1, sizeof *noisy), *times = calloc(request->trials, sizeof *times);
    bool good = (noisy && times) || error_no_memory(error, "the trials of a simulation");
    good = good && lane_world_run(world, NULL, &result->planned_ns, error)
        && run_trials(world, request, noisy, times, error);
    if (good)
        summarize(times, request->trials, result);
    free(noisy);
    free(times);
    return good;
}
