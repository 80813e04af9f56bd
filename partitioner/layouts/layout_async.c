#include "partitioner/layouts/layout_async.h"

#include <stdlib.h>
#include <string.h>

#include "common/number.h"
#include "partitioner/layouts/crew_links.h"
#include "partitioner/search/interval.h"
#include "partitioner/search/search_request.h"
#include "partitioner/cost/variant.h"
#include "schedules/generators/generate.h"

struct layout_async {
    const struct search_request *request;
    const struct layout_names *names;
    struct profile *views[LAYOUT_MOST_VARIANTS + 1];  // as `names`
    struct intervals *of[LAYOUT_MOST_VARIANTS + 1];
    bool *can_cut;
    bool is_dealt;  // the order is that of crews
};

struct layout_async *layout_async_create(const struct search_request *request,
                                                   const struct layout_names *names, struct error *error)
{
    const struct generator *generator = generator_find(request->schedule, error);
    struct layout_async *async = generator ? calloc(1, sizeof *async) : NULL;
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
    layout_async_free(async);
    return NULL;
}

void layout_async_free(struct layout_async *async)
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

// The devices that talk for the ranks of a stage: of each group the first.
struct crew_seats {
    const uint32_t *devices;
    uint32_t copies, group;
};

// --- stages --------------------------------------------------------------------------

static const struct intervals *intervals_of(const struct layout_async *async, const char *variant)
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

static void sit(const struct layout_async *async, const struct layout *layout, struct crew_seats *seats)
{
    uint32_t at = 0;
    for (uint32_t s = 0; s < layout->stages; s++) {
        const char *variant = layout->variants ? layout->variants[s] : NULL;
        seats[s] = (struct crew_seats){ layout->devices + at, layout->replicas ? layout->replicas[s] : 1,
                                        variant_devices(async->request->profile, variant) };
        at += seats[s].copies * seats[s].group;
    }
}

// Whether all is known of every stage.
static bool fill_stages(const struct layout_async *async, const struct layout *layout,
                        const struct crew_seats *seats, struct crewed_stage *stages)
{
    const struct cluster *cluster = async->request->cluster;
    for (uint32_t s = 0; s < layout->stages; s++) {
        const struct intervals *of = intervals_of(async, layout->variants ? layout->variants[s] : NULL);
        if (!of)
            return false;
        stages[s] = (struct crewed_stage){
            .forward = of->forward, .backward = of->backward, .weights = of->weights,
            .speed_permille = slowest(cluster, &seats[s]), .copies = seats[s].copies,
        };
    }
    return true;
}

// Between the ranks, by the devices that talk for them.
static struct network *network_of(const struct layout_async *async, const struct layout *layout,
                                  const struct crew_seats *seats, struct error *error)
{
    uint32_t *devices = calloc((size_t)layout->ranks + 1, sizeof devices[0]), rank = 0;
    struct network *network = NULL;
    for (uint32_t s = 0; devices && s < layout->stages; s++)
        for (uint32_t i = 0; i < seats[s].copies; i++)
            devices[rank++] = seats[s].devices[i * seats[s].group];
    if (devices)
        network = cluster_network(async->request->cluster, devices, rank, error);
    else
        error_no_memory(error, "the bounds of a plan");
    free(devices);
    return network;
}

bool layout_async_bound(const struct layout_async *async, const struct layout *layout,
                             uint64_t *bound_ns, struct error *error)
{
    *bound_ns = 0;
    if (!async->is_dealt)
        return true;
    struct crew_seats *seats = calloc((size_t)layout->stages + 1, sizeof seats[0]);
    struct crewed_stage *stages = calloc((size_t)layout->stages + 1, sizeof stages[0]);
    bool good = (seats && stages) || error_no_memory(error, "the bounds of a plan");
    if (good)
        sit(async, layout, seats);
    if (good && fill_stages(async, layout, seats, stages)) {
        const struct crews crews = { stages, layout->stages, async->of[0]->layers, async->request->micro_batches,
                                     async->of[0]->cut, async->can_cut, &async->request->holding };
        struct network *network = network_of(async, layout, seats, error);
        good = network && crew_see_links(&crews, stages, network, error) && crew_bound(&crews, bound_ns, error);
        network_free(network);
    }
    free(seats);
    free(stages);
    return good;
}
