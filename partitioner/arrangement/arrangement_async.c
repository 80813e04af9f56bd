#include "partitioner/arrangement/arrangement_async.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/coupled/crew_bound.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/search_request.h"
#include "partitioner/variant.h"
#include "schedules/generators/generate.h"

struct arrangement_async {
    const struct search_request *request;
    const struct arrangement_names *names;
    struct profile *views[ARRANGEMENT_MOST_VARIANTS + 1];  // as `names`
    struct intervals *of[ARRANGEMENT_MOST_VARIANTS + 1];
    bool *can_cut;
    bool is_dealt;  // the order is that of crews
};

struct arrangement_async *arrangement_async_create(const struct search_request *request,
                                                   const struct arrangement_names *names, struct error *error)
{
    const struct generator *generator = generator_find(request->schedule, error);
    struct arrangement_async *async = generator ? calloc(1, sizeof *async) : NULL;
    if (!async) {
        if (generator)
            error_no_memory(error, "the bounds of a plan");
        return NULL;
    }
    async->request = request;
    async->names = names;
    // An update after several backwards is where crews have none; it must take no time.
    async->is_dealt = generator->takes_replicas
                   || (generator->weights == WEIGHTS_2BW && holding_is_plain(&request->holding));
    async->can_cut = search_cuts(request, 1, error);
    bool good = async->can_cut != NULL;
    for (size_t i = 0; good && i < names->count; i++) {
        async->views[i] = variant_of(request->profile, names->names[i], error);
        async->of[i] = async->views[i] ? intervals_create(async->views[i], &request->holding, error) : NULL;
        good = async->of[i] != NULL;
    }
    if (good)
        return async;
    arrangement_async_free(async);
    return NULL;
}

void arrangement_async_free(struct arrangement_async *async)
{
    if (!async)
        return;
    for (size_t i = 0; i < sizeof async->of / sizeof async->of[0]; i++) {
        intervals_free(async->of[i]);
        variant_free(async->views[i]);
    }
    free(async->can_cut);
    free(async);
}

// --- links ---------------------------------------------------------------------------

// The devices that talk for the ranks of a stage: of each group the first.
struct crew_seats {
    const uint32_t *devices;
    uint32_t copies, group;
};

static uint32_t seat(const struct crew_seats *seats, uint32_t copy)
{
    return seats->devices[copy * seats->group];
}

// Raised by the channel from one device to the other. Within an innermost group each has a link of its own.
static bool meets_another(const struct cluster *cluster, uint32_t from, uint32_t to, bool *is_taken)
{
    const size_t level = cluster_level_between(cluster, from, to), devices = cluster->device_count;
    if (level == 0)
        return false;
    // A group is named by its first device, and the link between two groups of a level by the two groups within it.
    const size_t a = cluster_group(cluster, level - 1, from), b = cluster_group(cluster, level - 1, to);
    bool *link = &is_taken[(level * devices + a) * devices + b];
    const bool met = *link;
    *link = true;
    return met;
}

static bool channels_meet(const struct cluster *cluster, const struct crew_seats *seats, uint32_t stages,
                          bool *is_taken)
{
    bool met = false;
    for (uint32_t s = 0; s + 1 < stages && !met; s++) {
        const struct crew_seats *a = &seats[s], *b = &seats[s + 1];
        uint32_t common = a->copies;
        while (a->copies % common || b->copies % common)
            common--;
        // Micro-batch i goes from copy i mod a to copy i mod b.
        for (uint32_t i = 0; i < a->copies && !met; i++)
            for (uint32_t j = i % common; j < b->copies && !met; j += common)
                met = meets_another(cluster, seat(a, i), seat(b, j), is_taken)
                   || meets_another(cluster, seat(b, j), seat(a, i), is_taken);
    }
    return met;
}

static struct link link_of(const struct cluster *cluster, uint32_t a, uint32_t b)
{
    const struct cluster_level *level = &cluster->levels[cluster_level_between(cluster, a, b)];
    return (struct link){ level->latency_ns, level->bytes_per_second };
}

static struct link best_between(const struct cluster *cluster, const struct crew_seats *a, const struct crew_seats *b)
{
    struct link best = link_of(cluster, seat(a, 0), seat(b, 0));
    for (uint32_t i = 0; i < a->copies; i++)
        for (uint32_t j = 0; j < b->copies; j++)
            best = crew_better_link(best, link_of(cluster, seat(a, i), seat(b, j)));
    return best;
}

// The one on which so many bytes take longest.
static struct link worst_among(const struct cluster *cluster, const struct crew_seats *seats, uint64_t bytes)
{
    struct link worst = { 0 };
    for (uint32_t i = 0; i < seats->copies; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const struct link link = link_of(cluster, seat(seats, i), seat(seats, j));
            if (transfer_ns(bytes, link.bytes_per_second, link.latency_ns)
                >= transfer_ns(bytes, worst.bytes_per_second, worst.latency_ns))
                worst = link;
        }
    }
    return worst;
}

// --- stages --------------------------------------------------------------------------

static const struct intervals *intervals_of(const struct arrangement_async *async, const char *variant)
{
    for (size_t i = 0; i < async->names->count; i++) {
        const char *name = async->names->names[i];
        if (name == variant || (name && variant && strcmp(name, variant) == 0))
            return async->of[i];
    }
    return NULL;
}

static uint64_t slowest(const struct cluster *cluster, const struct crew_seats *seats)
{
    uint64_t speed = UINT64_MAX;
    for (uint32_t i = 0; i < seats->copies * seats->group; i++)
        if (cluster->devices[seats->devices[i]].speed_permille < speed)
            speed = cluster->devices[seats->devices[i]].speed_permille;
    return speed;
}

static void sit(const struct arrangement_async *async, const struct arrangement *arrangement, struct crew_seats *seats)
{
    uint32_t at = 0;
    for (uint32_t s = 0; s < arrangement->stages; s++) {
        const char *variant = arrangement->variants ? arrangement->variants[s] : NULL;
        seats[s] = (struct crew_seats){ arrangement->devices + at, arrangement->replicas ? arrangement->replicas[s] : 1,
                                        variant_devices(async->request->profile, variant) };
        at += seats[s].copies * seats[s].group;
    }
}

// Whether all is known of every stage.
static bool fill_stages(const struct arrangement_async *async, const struct arrangement *arrangement,
                        const struct crew_seats *seats, struct crewed_stage *stages)
{
    const struct cluster *cluster = async->request->cluster;
    for (uint32_t s = 0; s < arrangement->stages; s++) {
        const struct intervals *of = intervals_of(async, arrangement->variants ? arrangement->variants[s] : NULL);
        if (!of)
            return false;
        stages[s] = (struct crewed_stage){
            .forward = of->forward, .backward = of->backward, .weights = of->weights,
            .speed_permille = slowest(cluster, &seats[s]), .copies = seats[s].copies,
            .among = worst_among(cluster, &seats[s], of->weights[of->layers]),
        };
        if (s + 1 < arrangement->stages)
            stages[s].next = best_between(cluster, &seats[s], &seats[s + 1]);
    }
    return true;
}

bool arrangement_async_bound(const struct arrangement_async *async, const struct arrangement *arrangement,
                             uint64_t *bound_ns, struct error *error)
{
    const struct cluster *cluster = async->request->cluster;
    const size_t devices = cluster->device_count, levels = cluster->level_count + 1;
    *bound_ns = 0;
    if (!async->is_dealt)
        return true;
    struct crew_seats *seats = calloc((size_t)arrangement->stages + 1, sizeof seats[0]);
    struct crewed_stage *stages = calloc((size_t)arrangement->stages + 1, sizeof stages[0]);
    bool *is_taken = calloc(levels * devices * devices, sizeof is_taken[0]);
    bool good = (seats && stages && is_taken) || error_no_memory(error, "the bounds of a plan");
    if (good)
        sit(async, arrangement, seats);
    if (good && !channels_meet(cluster, seats, arrangement->stages, is_taken)
        && fill_stages(async, arrangement, seats, stages)) {
        const struct crews crews = { stages, arrangement->stages, async->of[0]->layers, async->request->micro_batches,
                                     async->of[0]->cut, async->can_cut, &async->request->holding };
        good = crew_bound(&crews, bound_ns, error);
    }
    free(seats);
    free(stages);
    free(is_taken);
    return good;
}
