#include "partitioner/cuts/places.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "partitioner/search/layer_groups.h"

enum { MOST_ADDED = 1 << 18, MOST_GRAPH_LAYERS = 20000 };

static bool has(const uint64_t *row, uint32_t block)
{
    return row[block / 64] >> (block % 64) & 1;
}

static void put(uint64_t *row, uint32_t block)
{
    row[block / 64] |= (uint64_t)1 << (block % 64);
}

// --- making -----------------------------------------------------------------------------

struct places *places_of_order(const struct profile *profile, const bool *can_cut, struct error *error)
{
    struct places *places = calloc(1, sizeof *places);
    if (places) {
        *places = (struct places){ .profile = profile, .layers = (uint32_t)profile->layer_count,
                                   .block_of = calloc(profile->layer_count + 1, sizeof places->block_of[0]),
                                   .first_of = calloc(profile->layer_count + 2, sizeof places->first_of[0]) };
    }
    if (!places || !places->block_of || !places->first_of) {
        places_free(places);
        return error_null(error_no_memory(error, "the places to cut a model"));
    }
    for (uint32_t l = 0; l < places->layers; l++) {
        if (can_cut[l])
            places->first_of[places->blocks++] = l;
        places->block_of[l] = places->blocks - 1;
    }
    places->first_of[places->blocks] = places->layers;
    places->is_chain = places->is_complete = true;
    places->count = places->blocks + 1;
    places->full = places->blocks;
    return places;
}

// Counts the places that were added, and their layers.
static bool see_places(struct places *places)
{
    if (!array_reserve(&places->sizes, &places->size_room, places->sets->count, sizeof places->sizes[0]))
        return false;
    for (; places->count < places->sets->count; places->count++) {
        const uint64_t *row = downsets_set(places->sets, places->count);
        uint32_t size = 0;
        for (size_t w = 0; w < places->sets->words; w++)
            for (uint64_t rest = row[w]; rest; rest &= rest - 1) {
                const uint32_t block = 64 * (uint32_t)w + (uint32_t)__builtin_ctzll(rest);
                size += places->layer_at[block + 1] - places->layer_at[block];
            }
        places->sizes[places->count] = size;
        if (size == places->layers)
            places->full = places->count;
    }
    return true;
}

static bool list_layers(struct places *places)
{
    places->layer_at = calloc(places->blocks + (size_t)2, sizeof places->layer_at[0]);
    places->layers_of = calloc(places->layers + (size_t)1, sizeof places->layers_of[0]);
    if (!places->layer_at || !places->layers_of)
        return false;
    for (uint32_t l = 0; l < places->layers; l++)
        places->layer_at[places->block_of[l] + 2]++;
    for (uint32_t b = 2; b <= places->blocks; b++)
        places->layer_at[b] += places->layer_at[b - 1];
    for (uint32_t l = 0; l < places->layers; l++)  // moves each block's mark to where its list ends
        places->layers_of[places->layer_at[places->block_of[l] + 1]++] = l;
    return true;
}

// If there are too many downsets, takes those of the blocks' own order.
static bool fill_places(struct places *places, bool together, uint32_t most, struct error *error)
{
    struct downset_graph graph = { 0 };
    places->block_of = layer_groups(places->profile, together, NULL, error);
    if (!places->block_of)
        return false;
    for (uint32_t l = 0; l < places->layers; l++)
        places->blocks = places->block_of[l] >= places->blocks ? places->block_of[l] + 1 : places->blocks;
    struct edge *edges = downsets_edges(places->profile, places->block_of, &graph.edge_count, error);
    if (!edges)
        return false;
    graph.node_count = places->blocks;
    graph.edges = edges;
    struct error too_many = { 0 };
    places->sets = downsets_create(&graph, most, &too_many);
    places->is_complete = places->sets != NULL;
    if (!places->sets && too_many.kind != ERROR_MACHINE)
        places->sets = downsets_of_order(&graph, NULL, error);
    free(edges);
    places->room = places->sets ? calloc(2 * places->sets->words, sizeof places->room[0]) : NULL;
    return places->room && list_layers(places) && see_places(places);
}

struct places *places_of_graph(const struct profile *profile, bool together, uint32_t most, struct error *error)
{
    struct places *places = NULL;
    if (profile->layer_count > MOST_GRAPH_LAYERS)
        error_set(error, "the orders of more than %u layers are not searched", MOST_GRAPH_LAYERS);
    else if ((places = calloc(1, sizeof *places)) != NULL) {
        places->profile = profile;
        places->layers = (uint32_t)profile->layer_count;
        if (fill_places(places, together, most, error))
            return places;
    }
    places_free(places);
    return error_null(error_no_memory(error, "the places to cut a model"));
}

void places_free(struct places *places)
{
    if (!places)
        return;
    downsets_free(places->sets);
    free(places->layer_at);
    free(places->layers_of);
    free(places->sizes);
    free(places->room);
    free(places->block_of);
    free(places->first_of);
    free(places);
}

// --- asking -----------------------------------------------------------------------------

uint32_t places_size(const struct places *places, uint32_t place)
{
    return places->is_chain ? places->first_of[place] : places->sizes[place];
}

bool places_holds(const struct places *places, uint32_t place, uint32_t layer)
{
    const uint32_t block = places->block_of[layer];
    return places->is_chain ? block < place : downsets_holds(places->sets, place, block);
}

uint32_t places_between(const struct places *places, uint32_t from, uint32_t to, uint32_t *layers)
{
    uint32_t count = 0;
    if (places->is_chain) {
        for (uint32_t l = places->first_of[from]; l < places->first_of[to]; l++)
            layers[count++] = l;
        return count;
    }
    for (uint32_t l = 0; l < places->layers; l++)
        if (places_holds(places, to, l) && !places_holds(places, from, l))
            layers[count++] = l;
    return count;
}

uint32_t places_apart(const struct places *places, uint32_t a, uint32_t b, uint32_t *layers)
{
    const uint64_t *one = downsets_set(places->sets, a), *other = downsets_set(places->sets, b);
    uint32_t count = 0;
    for (size_t w = 0; w < places->sets->words; w++)
        for (uint64_t rest = one[w] ^ other[w]; rest; rest &= rest - 1) {
            const uint32_t block = 64 * (uint32_t)w + (uint32_t)__builtin_ctzll(rest);
            for (uint32_t i = places->layer_at[block]; i < places->layer_at[block + 1]; i++)
                layers[count++] = places->layers_of[i];
        }
    return count;
}

// --- adding -----------------------------------------------------------------------------

static uint32_t find_or_add(struct places *places, const uint64_t *row)
{
    struct error no_room = { 0 };
    if (places->count >= MOST_ADDED && !places->is_complete)
        return NO_PLACE;
    const uint32_t place = downsets_add(places->sets, row, &no_room);
    return place == NO_PLACE || see_places(places) ? place : NO_PLACE;
}

// Adds to the blocks that move those that go with them: all that they need and the row lacks or, if `back`, those in
// the row that read them. Blocks are numbered in an order in which they can run.
static void pull(const struct downsets *sets, const uint64_t *row, uint64_t *moving, bool back)
{
    for (uint32_t b = (uint32_t)sets->node_count; !back && b-- > 0;)
        for (size_t w = 0; has(moving, b) && w < sets->words; w++)
            moving[w] |= sets->reads[b * sets->words + w] & ~row[w];
    for (uint32_t b = 0; back && b < sets->node_count; b++)
        for (uint32_t i = sets->reader_at[b]; has(moving, b) && i < sets->reader_at[b + 1]; i++)
            if (has(row, sets->readers[i]))
                put(moving, sets->readers[i]);
}

uint32_t places_move(struct places *places, uint32_t place, uint32_t bound, uint32_t layer)
{
    const size_t words = places->sets->words;
    uint64_t *row = places->room, *moving = row + words;
    memcpy(row, downsets_set(places->sets, place), words * sizeof row[0]);
    memset(moving, 0, words * sizeof moving[0]);
    put(moving, places->block_of[layer]);
    pull(places->sets, row, moving, places_holds(places, place, layer));
    for (size_t w = 0; w < words; w++)
        row[w] ^= moving[w];
    return memcmp(row, downsets_set(places->sets, bound), words * sizeof row[0]) ? find_or_add(places, row) : NO_PLACE;
}

uint32_t places_of_first(struct places *places, const uint32_t *order, uint32_t layers)
{
    if (places->is_chain && order)
        return NO_PLACE;
    if (places->is_chain) {
        uint32_t place = 0;
        while (place < places->full && places->first_of[place] < layers)
            place++;
        return places->first_of[place] == layers ? place : NO_PLACE;
    }
    const struct downsets *sets = places->sets;
    memset(places->room, 0, sets->words * sizeof places->room[0]);
    for (uint32_t l = 0; l < layers; l++)
        put(places->room, places->block_of[order ? order[l] : l]);
    for (uint32_t l = layers; l < places->layers; l++)
        if (has(places->room, places->block_of[order ? order[l] : l]))
            return NO_PLACE;
    for (uint32_t b = 0; b < places->blocks; b++)
        if (has(places->room, b) && !downsets_within(sets->reads + b * sets->words, places->room, sets->words))
            return NO_PLACE;
    return find_or_add(places, places->room);
}

// --- walking ----------------------------------------------------------------------------

bool place_walk_create(struct place_walk *walk, const struct places *places, struct error *error)
{
    *walk = (struct place_walk){ .places = places };
    return places->is_chain || downset_walk_create(&walk->walk, places->sets, error);
}

void place_walk_clear(struct place_walk *walk)
{
    downset_walk_clear(&walk->walk);
}

void place_walk_from(struct place_walk *walk, uint32_t from)
{
    walk->at = from;
    walk->is_pruned = false;
    if (!walk->places->is_chain)
        downset_walk_up(&walk->walk, from);
}

bool place_walk_next(struct place_walk *walk, uint32_t *place)
{
    if (!walk->places->is_chain)
        return downset_walk_next(&walk->walk, place);
    if (walk->is_pruned || walk->at == walk->places->full)
        return false;
    *place = ++walk->at;
    return true;
}

void place_walk_prune(struct place_walk *walk)
{
    walk->is_pruned = true;
    downset_walk_prune(&walk->walk);
}
