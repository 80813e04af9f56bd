#include "profiler/profile_reorder.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/estimate/estimated.h"
#include "profiler/expert_routing.h"
#include "profiler/profile_transfers.h"
#include "profiler/table_reads.h"

// The place of each layer, or NULL if memory runs out.
static uint32_t *invert(const uint32_t *order, size_t count)
{
    uint32_t *place = malloc(count * sizeof place[0]);
    for (size_t i = 0; place && i < count; i++)
        place[order[i]] = (uint32_t)i;
    return place;
}

// --- what an order must be ----------------------------------------------------------

// Fills place[l] with the place of layer l. False if a layer occurs twice or not at all.
static bool find_places(const uint32_t *order, size_t count, uint32_t *place, struct error *error)
{
    for (size_t i = 0; i < count; i++)
        place[i] = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        if (order[i] >= count)
            return error_set_kind(error, ERROR_ANSWER, "order[%zu]: layer %u is none of the profile's %zu", i, order[i],
                                  count);
        if (place[order[i]] != UINT32_MAX)
            return error_set_kind(error, ERROR_ANSWER, "order[%zu]: layer %u stands at place %u already", i, order[i],
                                  place[order[i]]);
        place[order[i]] = (uint32_t)i;
    }
    return true;
}

static bool check_order(const struct profile *profile, const uint32_t *order, struct error *error)
{
    uint32_t *place = malloc(profile->layer_count * sizeof place[0]);
    bool good = place ? find_places(order, profile->layer_count, place, error)
                      : error_no_memory(error, "the order of a model's layers");
    for (size_t e = 0; good && e < profile_edge_count(profile); e++) {
        const struct edge edge = profile_edge(profile, e);
        if (place[edge.from] > place[edge.to])
            good = error_set_kind(error, ERROR_ANSWER, "order[%u]: layer %u reads from layer %u, which comes later, at"
                                  " place %u", place[edge.to], edge.to, edge.from, place[edge.from]);
    }
    free(place);
    return good;
}

bool profile_has_one_order(const struct profile *profile)
{
    size_t follows = profile->is_chain ? profile->layer_count - 1 : 0;
    for (size_t e = 0; !profile->is_chain && e < profile->edge_count; e++)
        follows += profile->edges[e].to == profile->edges[e].from + 1;
    return follows + 1 == profile->layer_count;
}

// --- copies --------------------------------------------------------------------------

static bool copy_text(char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return *to || !from;
}

static bool copy_shapes(struct profile_layer *to, const struct profile_layer *from)
{
    if (from->shape_count == 0)
        return true;
    to->shapes = malloc(from->shape_count * sizeof to->shapes[0]);
    if (to->shapes)
        memcpy(to->shapes, from->shapes, from->shape_count * sizeof to->shapes[0]);
    return to->shapes != NULL;
}

// Copies transfers with the new places of their layers, sorted by them.
static bool copy_transfers(struct profile_transfer **to, const struct profile_transfer *from, size_t count,
                           const uint32_t *place)
{
    *to = calloc(count + 1, sizeof (*to)[0]);
    for (size_t i = 0; *to && i < count; i++)
        (*to)[i] = (struct profile_transfer){ place[from[i].layer], from[i].bytes };
    if (*to)
        qsort(*to, count, sizeof (*to)[0], profile_transfers_compare);
    return *to != NULL;
}

static bool copy_layer(struct profile_layer *to, const struct profile_layer *from, const uint32_t *place)
{
    *to = *from;
    to->name = to->kind = NULL;
    to->shapes = NULL;
    to->variants = NULL;
    to->variant_count = 0;
    to->receives = to->sends = NULL;
    if (!copy_text(&to->name, from->name) || !copy_text(&to->kind, from->kind)
        || !copy_shapes(to, from)
        || !copy_transfers(&to->receives, from->receives, from->receive_count, place)
        || !copy_transfers(&to->sends, from->sends, from->send_count, place))
        return false;
    to->variants = calloc(from->variant_count + 1, sizeof to->variants[0]);
    bool good = to->variants != NULL;
    for (size_t v = 0; good && v < from->variant_count; v++) {
        to->variants[v] = from->variants[v];
        to->variant_count++;  // so that profile_free() sees it, also if it is not complete
        good = copy_layer(&to->variants[v].layer, &from->variants[v].layer, place);
    }
    return good;
}

static bool copy_head(struct profile *to, const struct profile *from)
{
    const struct profile_source source = to->source;  // the texts are owned by `to`
    to->source = from->source;
    to->source.device = source.device;
    to->source.clock = source.clock;
    free(to->source.device);
    free(to->source.clock);
    memcpy(to->hash, from->hash, sizeof to->hash);
    to->is_chain = from->is_chain;  // a chain has no other order
    const bool has_device = copy_text(&to->source.device, from->source.device);
    return copy_text(&to->source.clock, from->source.clock) && has_device && copy_text(&to->notes, from->notes);
}

static struct edge moved(struct edge edge, const uint32_t *place)
{
    const uint32_t from = place[edge.from], to = place[edge.to];
    return from < to ? (struct edge){ from, to } : (struct edge){ to, from };
}

static bool move_edges(struct profile *to, const struct profile *from, const uint32_t *place)
{
    const size_t edges = from->is_chain ? 0 : from->edge_count;
    to->edges = malloc((edges + 1) * sizeof to->edges[0]);
    to->tied = malloc((from->tied_count + 1) * sizeof to->tied[0]);
    to->one_owner = malloc((from->one_owner_count + 1) * sizeof to->one_owner[0]);
    if (!to->edges || !to->tied || !to->one_owner)
        return false;
    for (to->edge_count = 0; to->edge_count < edges; to->edge_count++)
        to->edges[to->edge_count] = moved(from->edges[to->edge_count], place);
    for (to->tied_count = 0; to->tied_count < from->tied_count; to->tied_count++)
        to->tied[to->tied_count] = moved(from->tied[to->tied_count], place);
    for (to->one_owner_count = 0; to->one_owner_count < from->one_owner_count; to->one_owner_count++)
        to->one_owner[to->one_owner_count] = (struct edge){ place[from->one_owner[to->one_owner_count].from],
                                                            place[from->one_owner[to->one_owner_count].to] };
    qsort(to->edges, to->edge_count, sizeof to->edges[0], edges_compare);
    qsort(to->tied, to->tied_count, sizeof to->tied[0], edges_compare);
    qsort(to->one_owner, to->one_owner_count, sizeof to->one_owner[0], edges_compare);
    return true;
}

static bool copy_members(struct profile *to, const struct profile *from)
{
    to->estimated = from->estimated ? estimated_copy(from->estimated) : NULL;
    to->reads = from->reads ? reads_copy(from->reads) : NULL;
    to->routing = from->routing ? routing_copy(from->routing) : NULL;
    return (to->estimated || !from->estimated) && (to->reads || !from->reads) && (to->routing || !from->routing);
}

// A pair that must stay together forbids every cut between its two places.
static bool move_no_cuts(struct profile *to, const struct profile *from, const uint32_t *place)
{
    const uint32_t layers = (uint32_t)from->layer_count;
    bool *forbidden = calloc(layers, sizeof forbidden[0]);
    to->no_cut_after = malloc((layers + (size_t)1) * sizeof to->no_cut_after[0]);
    for (size_t i = 0; forbidden && i < from->no_cut_count; i++) {
        const uint32_t after = from->no_cut_after[i];
        if (after + 1 >= layers)
            continue;
        const struct edge pair = moved((struct edge){ after, after + 1 }, place);
        for (uint32_t layer = pair.from; layer < pair.to; layer++)
            forbidden[layer] = true;
    }
    for (uint32_t layer = 0; forbidden && to->no_cut_after && layer < layers; layer++)
        if (forbidden[layer])
            to->no_cut_after[to->no_cut_count++] = layer;
    const bool good = forbidden && to->no_cut_after;
    free(forbidden);
    return good;
}

struct profile *profile_reorder(const struct profile *profile, const uint32_t *order, struct error *error)
{
    if (!check_order(profile, order, error))
        return NULL;
    struct profile *made =
        profile_create(profile->model, profile->dtype, profile->micro_batch, profile->layer_count, error);
    if (!made)
        return NULL;
    made->sequences = profile->sequences;
    uint32_t *place = invert(order, profile->layer_count);
    bool good = place && copy_head(made, profile) && move_edges(made, profile, place)
             && move_no_cuts(made, profile, place) && copy_members(made, profile);
    for (size_t i = 0; good && i < profile->layer_count; i++)
        good = copy_layer(&made->layers[i], &profile->layers[order[i]], place);
    free(place);
    if (good)
        return made;
    profile_free(made);
    return error_null(error_no_memory(error, "a profile in another order"));
}
