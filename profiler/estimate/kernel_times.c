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

double product_ns(const struct rated_device *device, const struct rated_product *rated, const struct product_size *size)
{
    const double waves = ceil(size->m / TILE) * ceil(size->n / TILE) * size->count / (double)device->multiprocessors;
    const double lost = share(rated->wave_permille) * (ceil(waves) - waves);
    const double tile_flops = 2.0 * TILE * TILE * size->k;
    // Flops per ns are gigaflops per second.
    const double speed = (double)rated->gigaflops * share(rated->permille) * share(device->sustained_permille);
    const double compute = fmax(waves + lost, 1) * (double)device->multiprocessors * tile_flops / speed;
    const double numbers = (size->m * size->k + size->n * size->k) * size->number_bytes
        + size->m * size->n * size->result_bytes;
    return (double)rated->kernel_ns + fmax(compute, memory_ns(device, numbers * size->count));
}

double pass_ns(const struct rated_device *device, double bytes)
{
    return (double)device->kernel_ns + memory_ns(device, bytes);
}

// How many times the bytes of the whole cross each rank's link.
static double crossings(enum collective what)
{
    return what == ALL_REDUCE ? 2 : 1;
}

// How many ranks of a communication group are within one group of the level below (`inside`), and of this level
// (`here`).
struct spread_over {
    double inside, here;
    const struct rated_level *level;
};

// How many of `ranks` ranks that are `stride` apart are among `reach` consecutive devices.
static double within(double ranks, double stride, double reach)
{
    return fmax(1, fmin(ranks, reach / stride));
}

static double ranks_within(struct group group, double reach)
{
    const double rows = group.rows > 0 ? within(group.rows, group.row_stride, reach) : 1;
    return rows * within(group.ranks, group.stride, reach);
}

// Finds the levels, innermost first, whose groups contain more of the group's ranks than the level below. Returns how
// many.
static size_t find_spread(const struct rated_device *device, struct group group, struct spread_over *over)
{
    size_t count = 0;
    double reach = 1;
    for (size_t i = 0; i < device->level_count; i++) {
        const double inside = ranks_within(group, reach);
        reach *= (double)device->levels[i].size;
        const double here = ranks_within(group, reach);
        if (here > inside)
            over[count++] = (struct spread_over){ inside, here, &device->levels[i] };
    }
    return count;
}

static double level_ns(const struct rated_level *level, double bytes)
{
    return bytes / ((double)level->bytes_per_second * share(level->permille)) * 1e9;
}

// Gathers use a ring; reductions go up and down a tree.
static double steps_ns(const struct spread_over *over, enum collective what)
{
    const double groups = over->here / over->inside;
    const double steps = what == ALL_GATHER || what == REDUCE_SCATTER ? groups - 1 : crossings(what) * log2(groups);
    return (double)over->level->latency_ns * fmax(1, steps);
}

// A ring, or something equally good. At each level, the ranks within a group share the links that leave it, one per
// device. Ranks that are apart leave the links of the devices between them to the rings of those devices.
double collective_ns(const struct rated_device *device, enum collective what, double bytes, struct group group)
{
    struct spread_over over[RATED_MOST_LEVELS];
    double slowest = 0, latency = 0;
    const size_t levels = find_spread(device, group, over);
    for (size_t i = 0; i < levels; i++) {
        // Each group of `inside` ranks lacks the part of the gathered whole that the other groups hold.
        double lacking = bytes * (over[i].here - over[i].inside) / over[i].here;
        lacking /= what == ALL_TO_ALL ? 1 : over[i].inside;
        slowest = fmax(slowest, crossings(what) * level_ns(over[i].level, lacking));
        latency += steps_ns(&over[i], what);
    }
    return latency + slowest;
}

// The probability that `taken` of `chosen` groups of a router's `groups` are among `here` of them.
static double chance_of(double groups, double here, double chosen, double taken)
{
    const double ln = lgamma(here + 1) - lgamma(taken + 1) - lgamma(here - taken + 1) + lgamma(groups - here + 1)
        - lgamma(chosen - taken + 1) - lgamma(groups - here - chosen + taken + 1) - lgamma(groups + 1)
        + lgamma(chosen + 1) + lgamma(groups - chosen + 1);
    return exp(ln);
}

// A place has several of the router's groups, or a group is in several places. If neither fits, no choice is limited.
double token_places(const struct token_routes *routes, double places)
{
    const double groups = routes->groups, chosen = routes->chosen_groups;
    const double here = groups / places, apart = places / groups;
    if (groups > 0 && here >= 1 && here == floor(here)) {
        double reached = 0;
        for (double taken = fmax(1, chosen + here - groups); taken <= fmin(here, chosen); taken++)
            reached += places * chance_of(groups, here, chosen, taken) * (1 - pow(1 - taken / chosen, routes->chosen));
        return reached;
    }
    const double open = groups > 0 && apart == floor(apart) ? apart * chosen : places;
    return open * (1 - pow(1 - 1 / open, routes->chosen));
}

double dispatch_ns(const struct rated_device *device, double bytes, const struct token_routes *routes,
                   struct group group)
{
    struct spread_over over[RATED_MOST_LEVELS];
    double slowest = 0, latency = 0;
    const size_t levels = find_spread(device, group, over);
    for (size_t i = 0; i < levels; i++) {
        // The number of groups without the token that have one of its experts, divided by the number of its experts.
        const double groups = group.ranks * fmax(1, group.rows) / over[i].inside;
        const double reached = token_places(routes, groups) / routes->chosen;
        const double lacking = bytes * reached * (over[i].here - over[i].inside) / over[i].here;
        slowest = fmax(slowest, level_ns(over[i].level, lacking));
        latency += steps_ns(&over[i], ALL_TO_ALL);
    }
    return latency + slowest;
}
