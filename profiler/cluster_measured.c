#include "profiler/cluster_measured.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/number.h"

// The size of the message by whose time two links are compared.
static const uint64_t judged_bytes = 1048576;

static bool are_together(const struct links_measured *links, size_t a, size_t b)
{
    return strcmp(links->stations[a].host, links->stations[b].host) == 0;
}

// How many consecutive ranks each machine has; 0 if the numbers differ, or ranks of a machine are not consecutive.
static size_t ranks_on_each(const struct links_measured *links)
{
    size_t on_first = 1;
    while (on_first < links->ranks && are_together(links, 0, on_first))
        on_first++;
    if (links->ranks % on_first != 0)
        return 0;
    for (size_t rank = on_first; rank < links->ranks; rank++) {
        if (!are_together(links, rank, rank - rank % on_first))
            return 0;
        for (size_t earlier = 0; rank % on_first == 0 && earlier < rank; earlier += on_first)
            if (are_together(links, rank, earlier))
                return 0;
    }
    return on_first;
}

enum links_kind { LINKS_ALL, LINKS_INSIDE, LINKS_BETWEEN };

// The rank before the slowest link of a kind.
static size_t slowest_of(const struct links_measured *links, enum links_kind kind)
{
    size_t slowest = links->ranks;
    uint64_t most_ns = 0;
    for (size_t rank = 0; rank + 1 < links->ranks; rank++) {
        const struct link_cost *cost = &links->to_next[rank];
        const uint64_t ns = transfer_ns(judged_bytes, cost->bytes_per_second, cost->latency_ns);
        if (kind != LINKS_ALL && (kind == LINKS_INSIDE) != are_together(links, rank, rank + 1))
            continue;
        if (slowest < links->ranks && ns <= most_ns)
            continue;
        slowest = rank;
        most_ns = ns;
    }
    assert(slowest < links->ranks);
    return slowest;
}

struct measured_level {
    size_t size;
    enum links_kind kind;
};

// Fills in the levels, innermost first. Returns how many there are.
static size_t levels_of(const struct links_measured *links, struct measured_level levels[2])
{
    const size_t on_each = ranks_on_each(links);
    if (on_each == 0 || on_each == 1 || on_each == links->ranks) {
        levels[0] = (struct measured_level){ links->ranks, LINKS_ALL };
        return 1;
    }
    levels[0] = (struct measured_level){ on_each, LINKS_INSIDE };
    levels[1] = (struct measured_level){ links->ranks / on_each, LINKS_BETWEEN };
    return 2;
}

// --- the document ------------------------------------------------------------------------

// A name such as "left.1", for the second rank on its machine.
static char *name_of(const struct links_measured *links, size_t rank, struct error *error)
{
    struct text name = { 0 };
    size_t before = 0;
    for (size_t other = 0; other < rank; other++)
        before += are_together(links, other, rank);
    text_add(&name, "%s.%zu", links->stations[rank].host, before);
    return text_take(&name, error);
}

static bool fill_devices(struct cluster *cluster, const struct links_measured *links, struct error *error)
{
    for (size_t rank = 0; rank < links->ranks; rank++) {
        char *name = name_of(links, rank, error);
        cluster->devices[rank] = (struct cluster_device){ name, links->stations[rank].memory_bytes, 1000 };
        if (!name)
            return false;
    }
    return true;
}

struct cluster *cluster_measured(const struct links_measured *links, const char *notes, struct error *error)
{
    assert(links->ranks >= 2);
    struct measured_level levels[2];
    const size_t level_count = levels_of(links, levels);
    struct cluster *cluster = cluster_create(links->ranks, level_count);
    if (!cluster || !(cluster->notes = strdup(notes))) {
        error_no_memory(error, "a cluster");
        cluster_free(cluster);
        return NULL;
    }
    for (size_t level = 0; level < level_count; level++) {
        const struct link_cost *cost = &links->to_next[slowest_of(links, levels[level].kind)];
        cluster->levels[level]
            = (struct cluster_level){ levels[level].size, cost->latency_ns, cost->bytes_per_second };
    }
    if (fill_devices(cluster, links, error))
        return cluster;
    cluster_free(cluster);
    return NULL;
}

// --- for people -----------------------------------------------------------------------------

static void print_link(const struct links_measured *links, size_t rank, struct text *text)
{
    const struct link_cost *cost = &links->to_next[rank];
    char latency[NUMBER_SIZE], there[NUMBER_SIZE], back[NUMBER_SIZE], both[NUMBER_SIZE];
    text_add(text, "%4zu - %-4zu  %-16s  %10s  %10s  %10s  %10s  %5" PRIu64 ".%" PRIu64 " %%\n", rank, rank + 1,
             are_together(links, rank, rank + 1) ? "in a machine" : "between machines",
             time_format(cost->latency_ns, latency), rate_format(cost->there_bytes_per_second, there),
             rate_format(cost->back_bytes_per_second, back), rate_format(cost->both_bytes_per_second, both),
             cost->worst_permille / 10, cost->worst_permille % 10);
}

// Reports a link for which latency and bandwidth do not give the time of a message.
static void print_line(const struct links_measured *links, size_t rank, struct text *text)
{
    const struct link_cost *cost = &links->to_next[rank];
    char size[NUMBER_SIZE], takes[NUMBER_SIZE], stated[NUMBER_SIZE], good[NUMBER_SIZE];
    if (cost->worst_permille <= LINK_POOR_PERMILLE)
        return;
    text_add(text, "\nRanks %zu - %zu are no line: %s take %s, and %s by latency and rate", rank, rank + 1,
             bytes_format(cost->worst_bytes, size), time_format(cost->worst_ns, takes),
             time_format(transfer_ns(cost->worst_bytes, cost->bytes_per_second, cost->latency_ns), stated));
    if (cost->least_good_bytes > 0)
        text_add(text, ", which are within %d %% from %s on", LINK_POOR_PERMILLE / 10,
                 bytes_format(cost->least_good_bytes, good));
    text_add(text, ".\n");
}

// Reports a shared link. Plans assume that while one direction is used, the other is idle.
static void print_both(const struct links_measured *links, size_t rank, struct text *text)
{
    const struct link_cost *cost = &links->to_next[rank];
    if (cost->both_bytes_per_second < cost->bytes_per_second / 10 * 9)
        text_add(text, "\nRanks %zu - %zu share their link: where messages pass both ways at once, each way has"
                 " %" PRIu64
                 " %% of the rate that plans reckon with.\n", rank, rank + 1,
                 (uint64_t)(100.0 * (double)cost->both_bytes_per_second / (double)cost->bytes_per_second));
}

void links_print(const struct links_measured *links, struct text *text)
{
    struct measured_level levels[2];
    const size_t level_count = levels_of(links, levels);
    text_add(text, "%-11s  %-16s  %10s  %10s  %10s  %10s  %9s\n", "ranks", "link", "latency", "rate", "back", "both",
             "worst");
    for (size_t rank = 0; rank + 1 < links->ranks; rank++)
        print_link(links, rank, text);
    for (size_t rank = 0; rank + 1 < links->ranks; rank++) {
        print_line(links, rank, text);
        print_both(links, rank, text);
    }
    text_add(text, "\n");
    for (size_t level = 0; level < level_count; level++) {
        const size_t slowest = slowest_of(links, levels[level].kind);
        text_add(text, "Level %zu, groups of %zu: as ranks %zu - %zu, the slowest of its links.\n", level,
                 levels[level].size, slowest, slowest + 1);
    }
    if (ranks_on_each(links) == 0)
        text_add(text, "The machines have unlike numbers of ranks, or not in a row: the slowest link stands for"
                 " all.\n");
}
