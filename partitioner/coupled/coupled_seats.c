// Which devices the ranks of a coupled search are, and what layers take in the variant
// of each stage.
//
//     variants of stages     "split 2"   none        rank     0     1     2
//     replicas                   1         2         devices  3 0   1     2      as the request names them
//
// Messages go between the first devices of two groups.
#include <stdlib.h>
#include <string.h>

#include "partitioner/coupled/coupled.h"
#include "partitioner/predict.h"
#include "partitioner/search/search_request.h"
#include "partitioner/variant.h"

// --- variants -------------------------------------------------------------------------

static const char *variant_at(const struct coupled *coupled, uint32_t stage)
{
    return coupled->request->variants ? coupled->request->variants[stage] : NULL;
}

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

// The first stage with the same variant and as many copies.
static uint32_t first_alike(const struct coupled *coupled, uint32_t stage)
{
    uint32_t first = 0;
    while (!is_same(variant_at(coupled, first), variant_at(coupled, stage))
           || placement_copies(coupled->placement, first) != placement_copies(coupled->placement, stage))
        first++;
    return first;
}

static bool view_stage(struct coupled *coupled, uint32_t s, struct error *error)
{
    const uint32_t alike = first_alike(coupled, s);
    if (alike == s) {
        coupled->views[s] = variant_of(coupled->request->profile, variant_at(coupled, s), error);
        coupled->intervals[s] =
            coupled->views[s] ? intervals_create(coupled->views[s], &coupled->request->holding, error) : NULL;
        if (coupled->intervals[s]) {
            coupled->intervals[s]->splits = coupled->order->splits;
            coupled->intervals[s]->replicas = placement_copies(coupled->placement, s);
        }
    } else {
        coupled->views[s] = coupled->views[alike];
        coupled->intervals[s] = coupled->intervals[alike];
    }
    return coupled->intervals[s] != NULL;
}

// Of kind 0 to 3: F, B, I, W.
static const uint64_t *totals(const struct intervals *intervals, unsigned kind)
{
    const uint64_t *const of[] = { intervals->forward, intervals->backward, intervals->backward_input,
                                   intervals->backward_weight };
    return of[kind];
}

static bool find_least(struct coupled *coupled, struct error *error)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        uint64_t *least = coupled->least[kind] = calloc((size_t)coupled->layers + 1, sizeof least[0]);
        if (!least)
            return error_no_memory(error, "a search");
        for (uint32_t l = 0; l < coupled->layers; l++) {
            uint64_t of_layer = UINT64_MAX;
            for (uint32_t s = 0; s < coupled->stages; s++) {
                const uint64_t *own = totals(coupled->intervals[s], kind);
                of_layer = own[l + 1] - own[l] < of_layer ? own[l + 1] - own[l] : of_layer;
            }
            least[l + 1] = least[l] + of_layer;
        }
    }
    return true;
}

bool coupled_view(struct coupled *coupled, struct error *error)
{
    coupled->views = calloc(coupled->stages, sizeof coupled->views[0]);
    coupled->intervals = calloc(coupled->stages, sizeof coupled->intervals[0]);
    if (!coupled->views || !coupled->intervals)
        return error_no_memory(error, "a search");
    for (uint32_t s = 0; s < coupled->stages; s++)
        if (!view_stage(coupled, s, error))
            return false;
    return find_least(coupled, error);
}

// --- devices --------------------------------------------------------------------------

// How many devices a rank is: those of its stages' variant.
static bool group_of(const struct coupled *coupled, uint32_t rank, uint32_t *group, struct error *error)
{
    const struct placement *placement = coupled->placement;
    for (uint32_t at = placement->stage_at[rank]; at < placement->stage_at[rank + 1]; at++) {
        const uint32_t s = placement->held[at];
        const uint32_t own = variant_devices(coupled->request->profile, variant_at(coupled, s));
        if (at > placement->stage_at[rank] && own != *group)
            return error_set(error, "stages %u and %u are on one rank, but their variants take %u and %u devices",
                             placement->held[at - 1], s, *group, own);
        *group = own;
    }
    return true;
}

static bool find_seats(struct coupled *coupled, struct error *error)
{
    const struct search_request *request = coupled->request;
    const size_t devices = request->cluster->device_count;
    size_t count = 0;
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        uint32_t group = 1;
        if (!group_of(coupled, r, &group, error))
            return false;
        count += group;
        if (count > devices)
            return error_set(error, "%u ranks need %zu devices or more, but the cluster has %zu", coupled->ranks, count,
                             devices);
        coupled->seat_at[r + 1] = (uint32_t)count;
    }
    for (uint32_t i = 0; i < count; i++)
        coupled->seats[i] = request->devices ? request->devices[i] : i;
    return true;
}

static bool find_links(struct coupled *coupled, struct error *error)
{
    coupled->network = coupled->request->network;
    if (coupled->network)
        return true;
    uint32_t *first = calloc(coupled->ranks, sizeof first[0]);
    if (!first)
        return error_no_memory(error, "a search");
    for (uint32_t r = 0; r < coupled->ranks; r++)
        first[r] = coupled->seats[coupled->seat_at[r]];
    coupled->network = coupled->own_network =
        cluster_network(coupled->request->cluster, first, coupled->ranks, error);
    free(first);
    return coupled->network != NULL;
}

static void read_devices(struct coupled *coupled)
{
    const struct placement *placement = coupled->placement;
    for (uint32_t s = 0; s < coupled->stages; s++)
        coupled->speed[s] = UINT64_MAX;
    for (uint32_t r = 0; r < coupled->ranks; r++) {
        coupled->capacity[r] = UINT64_MAX;
        for (uint32_t at = coupled->seat_at[r]; at < coupled->seat_at[r + 1]; at++) {
            const struct cluster_device *device = &coupled->request->cluster->devices[coupled->seats[at]];
            if (device->memory_bytes < coupled->capacity[r])
                coupled->capacity[r] = device->memory_bytes;
            for (uint32_t held = placement->stage_at[r]; held < placement->stage_at[r + 1]; held++)
                if (device->speed_permille < coupled->speed[placement->held[held]])
                    coupled->speed[placement->held[held]] = device->speed_permille;
        }
    }
}

bool coupled_sit(struct coupled *coupled, struct error *error)
{
    coupled->seat_at = calloc((size_t)coupled->ranks + 1, sizeof coupled->seat_at[0]);
    coupled->seats = calloc(coupled->request->cluster->device_count + 1, sizeof coupled->seats[0]);
    if (!coupled->seat_at || !coupled->seats)
        return error_no_memory(error, "a search");
    if (!find_seats(coupled, error) || !find_links(coupled, error))
        return false;
    read_devices(coupled);
    coupled->places = calloc(coupled->stages, sizeof coupled->places[0]);
    for (uint32_t s = 0; coupled->places && s < coupled->stages; s++)
        coupled->places[s] = predict_place(coupled->placement, s, coupled->network, coupled->request->cluster);
    return coupled->places || error_no_memory(error, "a search");
}

void coupled_leave(struct coupled *coupled)
{
    for (uint32_t s = 0; coupled->intervals && coupled->views && s < coupled->stages; s++) {
        if (first_alike(coupled, s) != s)
            continue;
        intervals_free(coupled->intervals[s]);
        variant_free(coupled->views[s]);
    }
    free(coupled->intervals);
    free(coupled->views);
    for (unsigned kind = 0; kind < 4; kind++)
        free(coupled->least[kind]);
    free(coupled->seat_at);
    free(coupled->seats);
}
