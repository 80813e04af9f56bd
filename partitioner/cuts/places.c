#include "partitioner/cuts/places.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/profile_reorder.h"

enum { MOST_ADDED = 1 << 18, MOST_GRAPH_LAYERS = 20000 };

// A link from one place to another with one block more.
struct place_link {
    uint32_t place, block;
};

struct place_sets {
    size_t words;               // of a row of bits, a bit per block
    uint32_t capacity;          // places there is room for
    uint64_t *rows;
    uint32_t *sizes;            // layers of each place
    uint32_t *table;            // hash table of place + 1; 0: free
    size_t table_size;
    uint32_t *need_at, *needs;  // the blocks that block b reads from: needs[need_at[b]] to needs[need_at[b + 1]]
    uint32_t *block_size;       // layers of each block
    uint32_t *link_at;          // where all places are there: links of place i are links[link_at[i]] to [link_at[i + 1]]
    struct place_link *links;
    uint64_t *room;             // a row, and a row of what is marked
};

// --- rows of bits -----------------------------------------------------------------------

static uint64_t *row_of(const struct places *places, uint32_t place)
{
    return places->sets->rows + place * places->sets->words;
}

static bool has(const uint64_t *row, uint32_t block)
{
    return row[block / 64] >> (block % 64) & 1;
}

static void put(uint64_t *row, uint32_t block)
{
    row[block / 64] |= (uint64_t)1 << (block % 64);
}

static size_t hash_row(const uint64_t *row, size_t words)
{
    uint64_t hash = 0;
    for (size_t w = 0; w < words; w++)
        hash = (hash ^ row[w]) * 0x9e3779b97f4a7c15u + (hash >> 29);
    return (size_t)(hash ^ hash >> 32);
}

static bool grow_table(struct places *places)
{
    struct place_sets *sets = places->sets;
    const size_t size = sets->table_size ? 2 * sets->table_size : 1024;
    uint32_t *table = calloc(size, sizeof table[0]);
    if (!table)
        return false;
    for (uint32_t place = 0; place < places->count; place++) {
        size_t at = hash_row(row_of(places, place), sets->words) % size;
        while (table[at])
            at = (at + 1) % size;
        table[at] = place + 1;
    }
    free(sets->table);
    sets->table = table;
    sets->table_size = size;
    return true;
}

static bool grow_rows(struct places *places)
{
    struct place_sets *sets = places->sets;
    const uint32_t capacity = sets->capacity ? 2 * sets->capacity : 256;
    uint64_t *rows = realloc(sets->rows, capacity * sets->words * sizeof rows[0]);
    sets->rows = rows ? rows : sets->rows;
    uint32_t *sizes = rows ? realloc(sets->sizes, capacity * sizeof sizes[0]) : NULL;
    sets->sizes = sizes ? sizes : sets->sizes;
    if (!sizes)
        return false;
    sets->capacity = capacity;
    return true;
}

// The place of this row, which is added if it is not there; NO_PLACE without memory.
static uint32_t add_row(struct places *places, const uint64_t *row)
{
    struct place_sets *sets = places->sets;
    if (2 * (size_t)places->count >= sets->table_size && !grow_table(places))
        return NO_PLACE;
    size_t at = hash_row(row, sets->words) % sets->table_size;
    for (; sets->table[at]; at = (at + 1) % sets->table_size)
        if (memcmp(row_of(places, sets->table[at] - 1), row, sets->words * sizeof row[0]) == 0)
            return sets->table[at] - 1;
    if (places->count == sets->capacity && !grow_rows(places))
        return NO_PLACE;
    memcpy(row_of(places, places->count), row, sets->words * sizeof row[0]);
    uint32_t size = 0;
    for (uint32_t b = 0; b < places->blocks; b++)
        size += has(row, b) ? sets->block_size[b] : 0;
    sets->sizes[places->count] = size;
    if (size == places->layers)
        places->full = places->count;
    sets->table[at] = places->count + 1;
    return places->count++;
}

// --- blocks -----------------------------------------------------------------------------

static size_t edge_count(const struct profile *profile)
{
    return profile->is_chain ? profile->layer_count - 1 : profile->edge_count;
}

static struct edge edge_at(const struct profile *profile, size_t i)
{
    return profile->is_chain ? (struct edge){ (uint32_t)i, (uint32_t)i + 1 } : profile->edges[i];
}

// Puts the block of one layer to that of another; a block is known by its first layer.
static void join(struct places *places, uint32_t a, uint32_t b)
{
    const uint32_t of_a = places->block_of[a], of_b = places->block_of[b];
    const uint32_t from = of_a > of_b ? of_a : of_b, to = of_a > of_b ? of_b : of_a;
    for (uint32_t l = 0; l < places->layers && from != to; l++)
        if (places->block_of[l] == from)
            places->block_of[l] = to;
}

// Marks all blocks that data gets to from this one, or, backwards, that it gets from.
static void mark(const struct places *places, uint32_t block, bool *marked, bool backwards)
{
    const size_t edges = edge_count(places->profile);
    memset(marked, 0, places->layers * sizeof marked[0]);
    marked[block] = true;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < edges; i++) {
            const struct edge edge = edge_at(places->profile, backwards ? edges - 1 - i : i);
            const uint32_t from = places->block_of[edge.from], to = places->block_of[edge.to];
            const uint32_t here = backwards ? to : from, there = backwards ? from : to;
            more |= marked[here] && !marked[there];
            marked[there] |= marked[here];
        }
    }
}

// What lies on a way from a block to itself is part of it. Whether there was anything.
static bool close_block(struct places *places, uint32_t block, bool *after, bool *before)
{
    bool grew = false;
    mark(places, block, after, false);
    mark(places, block, before, true);
    for (uint32_t l = 0; l < places->layers; l++) {
        if (places->block_of[l] == l && l != block && after[l] && before[l]) {
            join(places, l, block);
            grew = true;
        }
    }
    return grew;
}

static bool close_blocks(struct places *places)
{
    bool *after = calloc(places->layers, sizeof after[0]), *before = calloc(places->layers, sizeof before[0]);
    const bool good = after && before;
    uint32_t closed = UINT32_MAX;
    // Only a block of several layers can have a way to itself; once one has grown all are looked at again.
    for (uint32_t l = 0; good && l < places->layers; l++) {
        const uint32_t block = places->block_of[l];
        if (block == l || block == closed)
            continue;
        closed = block;
        if (close_block(places, block, after, before)) {
            closed = UINT32_MAX;
            l = 0;
        }
    }
    free(after);
    free(before);
    return good;
}

static bool join_layers(struct places *places, bool together)
{
    const struct profile *profile = places->profile;
    for (uint32_t l = 0; l < places->layers; l++)
        places->block_of[l] = l;
    for (size_t i = 0; together && i < profile->tied_count; i++)
        join(places, profile->tied[i].from, profile->tied[i].to);
    for (size_t i = 0; i < profile->no_cut_count; i++)
        if (profile->no_cut_after[i] + 1 < places->layers)
            join(places, profile->no_cut_after[i], profile->no_cut_after[i] + 1);
    if (!close_blocks(places))
        return false;
    // From first layers to numbers.
    for (uint32_t l = 0; l < places->layers; l++) {
        if (places->block_of[l] == l)
            places->first_of[places->blocks] = l;
        places->block_of[l] = places->block_of[l] == l ? places->blocks++ : places->block_of[places->block_of[l]];
    }
    return true;
}

static bool read_needs(struct places *places)
{
    struct place_sets *sets = places->sets;
    const size_t edges = edge_count(places->profile);
    sets->words = (places->blocks + 63) / 64;
    sets->need_at = calloc(places->blocks + (size_t)2, sizeof sets->need_at[0]);
    sets->needs = calloc(edges + 1, sizeof sets->needs[0]);
    sets->block_size = calloc(places->blocks + (size_t)1, sizeof sets->block_size[0]);
    sets->room = calloc(2 * sets->words, sizeof sets->room[0]);
    if (!sets->need_at || !sets->needs || !sets->block_size || !sets->room)
        return false;
    for (uint32_t l = 0; l < places->layers; l++)
        sets->block_size[places->block_of[l]]++;
    for (size_t e = 0; e < edges; e++)
        sets->need_at[places->block_of[edge_at(places->profile, e).to] + 2]++;
    for (uint32_t b = 2; b <= places->blocks + 1; b++)
        sets->need_at[b] += sets->need_at[b - 1];
    for (size_t e = 0; e < edges; e++) {
        const struct edge edge = edge_at(places->profile, e);
        sets->needs[sets->need_at[places->block_of[edge.to] + 1]++] = places->block_of[edge.from];
    }
    return true;
}

// Whether the row has all that the block needs.
static bool is_ready(const struct place_sets *sets, const uint64_t *row, uint32_t block)
{
    for (uint32_t i = sets->need_at[block]; i < sets->need_at[block + 1]; i++)
        if (sets->needs[i] != block && !has(row, sets->needs[i]))
            return false;
    return true;
}

// --- all places of a graph --------------------------------------------------------------

static bool add_link(struct place_sets *sets, size_t *count, size_t *room, struct place_link link)
{
    if (*count == *room) {
        struct place_link *grown = realloc(sets->links, (2 * *room + 256) * sizeof *grown);
        if (!grown)
            return false;
        sets->links = grown;
        *room = 2 * *room + 256;
    }
    sets->links[(*count)++] = link;
    return true;
}

// From the empty place on, block by block; places come in order of their numbers of blocks. False without memory, or
// with *too_many.
static bool list_all(struct places *places, uint32_t most, bool *too_many)
{
    struct place_sets *sets = places->sets;
    size_t count = 0, room = 0;
    memset(sets->room, 0, sets->words * sizeof sets->room[0]);
    if (add_row(places, sets->room) == NO_PLACE)
        return false;
    sets->link_at = malloc((most + (size_t)2) * sizeof sets->link_at[0]);
    if (!sets->link_at)
        return false;
    for (uint32_t place = 0; place < places->count; place++) {
        sets->link_at[place] = (uint32_t)count;
        for (uint32_t b = 0; b < places->blocks; b++) {
            memcpy(sets->room, row_of(places, place), sets->words * sizeof sets->room[0]);
            if (has(sets->room, b) || !is_ready(sets, sets->room, b))
                continue;
            put(sets->room, b);
            const uint32_t above = add_row(places, sets->room);
            *too_many = places->count > most;
            if (above == NO_PLACE || *too_many || !add_link(sets, &count, &room, (struct place_link){ above, b }))
                return false;
        }
    }
    sets->link_at[places->count] = (uint32_t)count;
    places->is_complete = true;
    return true;
}

// The blocks in the profile's order, each once all it needs is there.
static bool list_own_order(struct places *places)
{
    struct place_sets *sets = places->sets;
    uint64_t *row = sets->room;
    places->count = 0;
    memset(sets->table, 0, sets->table_size * sizeof sets->table[0]);
    free(sets->links);
    sets->links = NULL;
    memset(row, 0, sets->words * sizeof row[0]);
    if (add_row(places, row) == NO_PLACE)
        return false;
    for (uint32_t placed = 0; placed < places->blocks; placed++) {
        uint32_t b = 0;
        while (has(row, b) || !is_ready(sets, row, b))
            b++;
        put(row, b);
        if (add_row(places, row) == NO_PLACE)
            return false;
    }
    return true;
}

// --- making -----------------------------------------------------------------------------

static struct places *create(const struct profile *profile, struct error *error)
{
    struct places *places = calloc(1, sizeof *places);
    if (places) {
        places->profile = profile;
        places->layers = (uint32_t)profile->layer_count;
        places->block_of = calloc(profile->layer_count + 1, sizeof places->block_of[0]);
        places->first_of = calloc(profile->layer_count + 2, sizeof places->first_of[0]);
        if (places->block_of && places->first_of)
            return places;
    }
    places_free(places);
    error_no_memory(error, "the places to cut a model");
    return NULL;
}

struct places *places_of_order(const struct profile *profile, const bool *can_cut, struct error *error)
{
    struct places *places = create(profile, error);
    if (!places)
        return NULL;
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

struct places *places_of_graph(const struct profile *profile, bool together, uint32_t most, struct error *error)
{
    struct places *places = create(profile, error);
    if (!places)
        return NULL;
    if (places->layers > MOST_GRAPH_LAYERS) {
        error_set(error, "the orders of more than %u layers are not searched", MOST_GRAPH_LAYERS);
        places_free(places);
        return NULL;
    }
    bool too_many = false;
    places->sets = calloc(1, sizeof *places->sets);
    bool good = places->sets && join_layers(places, together) && read_needs(places);
    if (good && !list_all(places, most, &too_many))
        good = too_many && list_own_order(places);
    if (good)
        return places;
    places_free(places);
    error_no_memory(error, "the places to cut a model");
    return NULL;
}

void places_free(struct places *places)
{
    if (!places)
        return;
    if (places->sets) {
        free(places->sets->rows);
        free(places->sets->sizes);
        free(places->sets->table);
        free(places->sets->need_at);
        free(places->sets->needs);
        free(places->sets->block_size);
        free(places->sets->link_at);
        free(places->sets->links);
        free(places->sets->room);
    }
    free(places->sets);
    free(places->block_of);
    free(places->first_of);
    free(places);
}

// --- asking -----------------------------------------------------------------------------

uint32_t places_size(const struct places *places, uint32_t place)
{
    return places->is_chain ? places->first_of[place] : places->sets->sizes[place];
}

bool places_holds(const struct places *places, uint32_t place, uint32_t layer)
{
    const uint32_t block = places->block_of[layer];
    return places->is_chain ? block < place : has(row_of(places, place), block);
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

// --- adding -----------------------------------------------------------------------------

// Of the room's second row: what is to move. Raises it by what `block` pulls along within `stage`.
static void pull_needs(const struct place_sets *sets, uint32_t blocks, const uint64_t *row, uint64_t *moving)
{
    // Needs come before what needs them in no particular order of numbers, so until nothing changes.
    for (bool more = true; more;) {
        more = false;
        for (uint32_t b = 0; b < blocks; b++) {
            for (uint32_t i = sets->need_at[b]; has(moving, b) && i < sets->need_at[b + 1]; i++) {
                if (has(row, sets->needs[i]) || has(moving, sets->needs[i]))
                    continue;
                put(moving, sets->needs[i]);
                more = true;
            }
        }
    }
}

static void pull_readers(const struct place_sets *sets, uint32_t blocks, const uint64_t *row, uint64_t *moving)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t b = 0; b < blocks; b++) {
            for (uint32_t i = sets->need_at[b]; has(row, b) && !has(moving, b) && i < sets->need_at[b + 1]; i++) {
                if (sets->needs[i] == b || !has(moving, sets->needs[i]))
                    continue;
                put(moving, b);
                more = true;
                break;
            }
        }
    }
}

static uint32_t find_or_add(struct places *places, const uint64_t *row)
{
    return places->count < MOST_ADDED || places->is_complete ? add_row(places, row) : NO_PLACE;
}

uint32_t places_with(struct places *places, uint32_t place, uint32_t outer, uint32_t layer)
{
    if (places->is_chain) {
        const uint32_t to = places->block_of[layer] + 1;
        return place < to && to < outer ? to : NO_PLACE;
    }
    struct place_sets *sets = places->sets;
    uint64_t *row = sets->room, *moving = sets->room + sets->words;
    memcpy(row, row_of(places, place), sets->words * sizeof row[0]);
    memset(moving, 0, sets->words * sizeof moving[0]);
    put(moving, places->block_of[layer]);
    pull_needs(sets, places->blocks, row, moving);
    bool is_outer = true;
    for (size_t w = 0; w < sets->words; w++) {
        row[w] |= moving[w];
        is_outer &= row[w] == row_of(places, outer)[w];
    }
    return is_outer ? NO_PLACE : find_or_add(places, row);
}

uint32_t places_without(struct places *places, uint32_t place, uint32_t inner, uint32_t layer)
{
    if (places->is_chain) {
        const uint32_t to = places->block_of[layer];
        return inner < to && to < place ? to : NO_PLACE;
    }
    struct place_sets *sets = places->sets;
    uint64_t *row = sets->room, *moving = sets->room + sets->words;
    memcpy(row, row_of(places, place), sets->words * sizeof row[0]);
    memset(moving, 0, sets->words * sizeof moving[0]);
    put(moving, places->block_of[layer]);
    pull_readers(sets, places->blocks, row, moving);
    bool is_inner = true;
    for (size_t w = 0; w < sets->words; w++) {
        row[w] &= ~moving[w];
        is_inner &= row[w] == row_of(places, inner)[w];
    }
    return is_inner ? NO_PLACE : find_or_add(places, row);
}

uint32_t places_of_first(struct places *places, uint32_t layers)
{
    if (places->is_chain) {
        uint32_t place = 0;
        while (place < places->full && places->first_of[place] < layers)
            place++;
        return places->first_of[place] == layers ? place : NO_PLACE;
    }
    struct place_sets *sets = places->sets;
    uint32_t size = 0;
    memset(sets->room, 0, sets->words * sizeof sets->room[0]);
    for (uint32_t l = 0; l < layers; l++)
        put(sets->room, places->block_of[l]);
    for (uint32_t b = 0; b < places->blocks; b++) {
        size += has(sets->room, b) ? sets->block_size[b] : 0;
        if (has(sets->room, b) && !is_ready(sets, sets->room, b))
            return NO_PLACE;
    }
    return size == layers ? find_or_add(places, sets->room) : NO_PLACE;
}

// --- walking ----------------------------------------------------------------------------

bool place_walk_create(struct place_walk *walk, const struct places *places, struct error *error)
{
    *walk = (struct place_walk){ .places = places };
    if (places->is_chain)
        return true;
    walk->queue = malloc(places->count * sizeof walk->queue[0]);
    walk->seen = calloc(places->count, sizeof walk->seen[0]);
    return (walk->queue && walk->seen) || error_no_memory(error, "a walk over places");
}

void place_walk_clear(struct place_walk *walk)
{
    free(walk->queue);
    free(walk->seen);
}

// Adds what is right above the place; where not all places are there, they are one row.
static void expand(struct place_walk *walk, uint32_t place)
{
    const struct place_sets *sets = walk->places->sets;
    if (!walk->places->is_complete) {
        if (place + 1 <= walk->places->blocks)
            walk->queue[walk->tail++] = place + 1;
        return;
    }
    for (uint32_t i = sets->link_at[place]; i < sets->link_at[place + 1]; i++) {
        const uint32_t above = sets->links[i].place;
        if (walk->seen[above] == walk->walks)
            continue;
        walk->seen[above] = walk->walks;
        walk->queue[walk->tail++] = above;
    }
}

void place_walk_from(struct place_walk *walk, uint32_t from)
{
    walk->at = from;
    walk->expand = true;
    walk->head = walk->tail = 0;
    walk->walks++;
    if (!walk->places->is_chain)
        expand(walk, from);
    walk->expand = false;
}

bool place_walk_next(struct place_walk *walk, uint32_t *place)
{
    if (walk->places->is_chain) {
        if (walk->at == walk->places->full || (walk->expand == false && walk->head > 0))
            return false;
        walk->head = 1;
        walk->expand = true;
        *place = ++walk->at;
        return true;
    }
    if (walk->expand && walk->head > 0)
        expand(walk, walk->queue[walk->head - 1]);
    if (walk->head == walk->tail)
        return false;
    *place = walk->queue[walk->head++];
    walk->expand = true;
    return true;
}
