#include "profiler/estimate/kernel_times.h"

#include <math.h>

enum { TILE = 128, PERMILLE = 1000 };

static double share(uint64_t permille)
{
    return (double)permille / PERMILLE;
}

static double memory_ns(const struct rated_device *device, double bytes)
{
    return bytes / (double)device->memory_bytes_per_second / share(device->memory_permille) * 1e9;
}

double product_ns(const struct rated_device *device, const struct rated_product *of, const struct product_size *size)
{
    const double waves = ceil(size->m / TILE) * ceil(size->n / TILE) * size->count / (double)device->multiprocessors;
    const double lost = share(of->wave_permille) * (ceil(waves) - waves);
    const double tile_flops = 2.0 * TILE * TILE * size->k;
    // Flops per ns are gigaflops per second.
    const double speed = (double)of->gigaflops * share(of->permille) * share(device->sustained_permille);
    const double compute = fmax(waves + lost, 1) * (double)device->multiprocessors * tile_flops / speed;
    const double numbers = (size->m * size->k + size->n * size->k) * size->number_bytes
        + size->m * size->n * size->result_bytes;
    return (double)of->kernel_ns + fmax(compute, memory_ns(device, numbers * size->count));
}

double pass_ns(const struct rated_device *device, double bytes)
{
    return (double)device->kernel_ns + memory_ns(device, bytes);
}

// How many times the bytes of the whole cross the link of each rank.
static double crossings(enum collective what)
{
    return what == ALL_REDUCE ? 2 : 1;
}

// A ring, or what is as good: at each level the ranks within a group of it share the links that leave the group, one
// of each device, and ranks that stand apart have those of the devices between them busy with rings of their own.
double collective_ns(const struct rated_device *device, enum collective what, double bytes, struct group group)
{
    if (group.ranks <= 1)
        return 0;
    double reach = 1, slowest = 0, latency = 0;
    for (size_t i = 0; i < device->level_count; i++) {
        const struct rated_level *level = &device->levels[i];
        const double inside = fmax(1, fmin(group.ranks, reach / group.stride));  // ranks in a group of the level below
        reach *= (double)level->size;
        const double here = fmax(1, fmin(group.ranks, reach / group.stride));
        if (here <= inside)
            continue;
        // Of a gathered whole each group of `inside` ranks lacks what the other groups hold.
        double lacking = bytes * (here - inside) / here;
        lacking /= what == ALL_TO_ALL ? 1 : inside;
        const double rate = (double)level->bytes_per_second * share(level->permille);
        slowest = fmax(slowest, crossings(what) * lacking / rate * 1e9);
        latency += crossings(what) * (double)level->latency_ns * fmax(1, log2(here / inside));
    }
    return latency + slowest;
}
